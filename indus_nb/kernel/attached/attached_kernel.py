"""The tools of a kernel that the agent is attached to: those of a notebook, called from here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from indus_nb.base import textcut
from indus_nb.base.errors import UsageError
from indus_nb.base.events import ToolOutput
from indus_nb.base.files import current_directory
from indus_nb.base.messages import ImageContent, TextContent, text_of
from indus_nb.base.terminal import plain
from indus_nb.base.wire import JsonObject, clean_text, encodable, random_hex
from indus_nb.core.resources.settings import Settings, agent_directory, load_settings
from indus_nb.core.session.questions import caller
from indus_nb.extend.api import Context, ExtensionApi
from indus_nb.kernel.attached.connection import language_of
from indus_nb.kernel.attached.finding import find
from indus_nb.kernel.attached.kernel import RunningKernel, refusal
from indus_nb.kernel.attached.late import LateKernel
from indus_nb.kernel.attached.plain import NO_INPUT, UNSEEN, PlainKernel
from indus_nb.kernel.run.outputs import OutputBoard
from indus_nb.kernel.toolset.declarations import (
    NotebookArguments,
    PythonArguments,
    VariablesArguments,
    python_tool,
    time_limit,
    variables_tool,
)
from indus_nb.kernel.toolset.long_code import LongCode, Running
from indus_nb.kernel.toolset.remote_gate import GateAnswers
from indus_nb.kernel.toolset.results import joined
from indus_nb.start import SessionOptions
from indus_nb.tools import Tool
from indus_nb.tools.description import Approval
from indus_nb.tools.jobs import Jobs
from indus_nb.tools.tool import FunctionTool, ToolContext, ToolError, text_output

_LOOK_SECONDS = 2.0
_MAX_BLOCKS = 100
_MAX_TEXT_CHARACTERS = 1_000_000
_MAX_DETAILS_CHARACTERS = 1_000_000
_MAX_SENTENCE_CHARACTERS = 2000
_READS_INPUT = "EOFError: EOF when reading a line"
_WAITS = "(waits for the cell that runs)"
_PLACE = (
    "You are a coding agent beside the user's running Jupyter kernel. You help by working with its live variables, "
    "reading and changing files, running commands and explaining what you find. Messages tell you nothing of the "
    "kernel: look at its variables and its notebook first."
)
_BUSY = "A cell runs there now, so what of this could not be undone cannot be told."


class AttachedKernel:
    """A running kernel that sessions, and servers of tools, work in.

    It is an extension too: given to ``SessionOptions.extensions`` a session has its tools. Channels are opened with the
    first call, and closed by ``close``; a call after that opens them again.
    """

    names: tuple[str, ...] = ("python", "variables", "notebook")

    def __init__(self, kernel: RunningKernel) -> None:
        """Make the tools of a kernel."""
        self._kernel = kernel
        self._plain = PlainKernel(kernel)
        self._settings = Settings()
        self._long = LongCode()
        self._board = OutputBoard()
        self._session: Context | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._prompts = 0

    @property
    def label(self) -> str:
        """Return the name that users know: of the kernel's notebook, else of its connection file."""
        return self._kernel.found.label

    async def close(self) -> None:
        """Close the channels; calls of ours that go on in the kernel are ended."""
        self._kernel.close()

    def __call__(self, api: ExtensionApi) -> None:
        """Add the tools to a session."""
        for tool in self.tools():
            api.register_tool(tool)
        for verb, what in (("undo", "Take back what"), ("redo", "Do once more, without running it again, what")):
            does = (
                f"{what} the last call changed in the kernel's variables: a number of calls or prompt, keep, over, both"
            )
            api.register_command(verb, partial(self._move, api, verb), does)
        api.on("session_start", self._begin)
        api.on("before_agent_start", self._next_prompt)
        api.on("session_shutdown", self._end)

    def _begin(self, _event: object, ctx: Context) -> None:
        self._session = ctx
        self._loop = asyncio.get_running_loop()
        self._settings = load_settings(ctx.cwd, agent_directory(), trusted=ctx.is_project_trusted()).settings

    async def _end(self, _event: object, _ctx: Context) -> None:
        await self.close()

    def _next_prompt(self, _event: object, _ctx: Context) -> None:
        self._prompts += 1

    async def _move(self, api: ExtensionApi, verb: str, arguments: str, ctx: Context) -> None:
        try:
            if limits := await self._kernel.attach(lambda: None):
                raise UsageError(f"Nothing was changed: {limits}")
            reply = await self._ask({"do": verb, "argument": arguments})
        except ToolError as error:
            raise UsageError(_sentence(error)) from error
        moved = _sentence(reply.get("value"))
        what = "taken back" if verb == "undo" else "done once more, without running it again,"
        message = f"The user has {what} what the last calls of python changed in the kernel: {moved}."
        api.send_message("undo", message, display=False)
        ctx.ui.notify(f"{'Taken back' if verb == 'undo' else 'Done once more'}: {moved}.")

    def tools(self) -> list[Tool]:
        """Make the tools; outside of a session no call becomes a job."""
        return [
            python_tool(
                f"the user's running Jupyter kernel ({self.label}), after a cell that runs there",
                PythonArguments,
                run=self._python,
                approval=self._approval,
                tries=lambda: self._settings.notebook.preview,
                undo=False,  # which only that kernel's package can do, if it has one
            ),
            variables_tool("the user's running kernel", self._variables),
            FunctionTool(
                name="notebook",
                description=(
                    "Read the cells of the kernel's notebook with their outputs, images included. Without cells the "
                    "whole notebook comes back, or a numbered list of a long one. Sources and outputs are as they were "
                    "saved; what ran since and was not saved is named."
                ),
                arguments=NotebookArguments,
                run=self._notebook,
                read_only=True,
            ),
        ]

    def _jobs(self) -> Jobs | None:
        return self._session.settings.jobs if self._session is not None else None

    async def _variables(self, arguments: VariablesArguments, context: ToolContext) -> ToolOutput:
        self._long.check(self._jobs())
        waits = partial(context.report, text_output(_WAITS))
        if await self._kernel.attach(waits):
            return text_output(await self._plain.variables(waits))
        return await self._call("variables", {"pattern": arguments.pattern}, context)

    async def _notebook(self, arguments: NotebookArguments, context: ToolContext) -> ToolOutput:
        if limits := await self._kernel.attach(partial(context.report, text_output(_WAITS))):
            raise ToolError(f"The notebook cannot be read: {limits}")
        return await self._call("notebook", {"cells": arguments.cells}, context)

    # python

    async def _python(self, arguments: PythonArguments, context: ToolContext) -> ToolOutput:
        jobs = self._jobs()
        return await self._long.run(
            lambda context, job: self._run(arguments, context, job, limited=jobs is None),
            context,
            jobs,
            code=arguments.code,
            waits=arguments.timeout is not None,
            outputs=self._board,
        )

    async def _run(
        self, arguments: PythonArguments, context: ToolContext, job: Running, *, limited: bool
    ) -> ToolOutput:
        seconds = arguments.timeout or time_limit(self._settings.notebook, goes_on=not limited)
        waits = partial(context.report, text_output(_WAITS))
        if await self._kernel.attach(waits):
            outputs = self._board.begin(context.call_id, context.hide)
            return await self._plain.run(arguments.code, seconds, context, outputs, self._settings, waits, is_job=job)
        given: JsonObject = {"code": arguments.code, **({} if seconds is None else {"timeout": seconds})}
        try:
            return await self._call("python", given, context, is_job=lambda: job() is not None)
        except ToolError as error:
            if str(error).endswith(_READS_INPUT):
                error.output.content.append(TextContent(text=NO_INPUT))
            raise

    async def _call(
        self,
        tool: str,
        arguments: JsonObject,
        context: ToolContext,
        is_job: Callable[[], bool] = lambda: False,
    ) -> ToolOutput:
        """Call a tool of the notebook; what it asks is asked here."""
        call, gate, notebook = context.call_id or random_hex(8), context.gate, self._kernel.found.notebook
        answers = GateAnswers(gate, lambda answer: self._kernel.tell({**answer, "call": call}))

        so_far: list[ToolOutput] = []

        def received(kind: str, message: JsonObject) -> None:
            if kind == "report":
                so_far[:] = [_output(message.get("output"))]
                context.report(so_far[0])
            elif kind in ("question", "withdraw"):
                answers.received(message)

        content: JsonObject = {
            "do": "tool",
            "call": call,
            "tool": tool,
            "arguments": arguments,
            "caller": caller.get(),
            "gate": None if gate is None else [str(path) for path in gate.readable],
            "looks": gate is not None and gate.looks_only,
            "notebook": None if notebook is None else str(notebook),
            "prompt": self._prompts,
        }
        waits = partial(context.report, text_output(_WAITS))
        try:
            reply = await self._kernel.call(content, received, waits, is_job=is_job)
        except ToolError as error:  # the kernel ended with what it was doing
            texts = [text_of(output.content) for output in so_far]
            raise ToolError(joined(*texts, str(error)), so_far[-1].details if so_far else None) from error
        finally:
            answers.close()
        if reply.get("cancelled") is True:
            raise ToolError("The call was ended in the kernel.")
        output = _output(reply.get("output"))
        if reply.get("isError") is not False:
            failure = ToolError(text_of(output.content), output.details)
            failure.output.content[:] = output.content
            raise failure
        return output

    async def _ask(self, content: JsonObject) -> JsonObject:
        return await self._kernel.call(
            {**content, "call": random_hex(8)}, lambda _kind, _message: None, lambda: None, is_job=lambda: False
        )

    # The question before code

    def _approval(self, code: str) -> Approval:
        """Build the question before code; called off the event loop, and no longer than for a look at the kernel."""
        asked = Approval(f"Run this code in the kernel of {self.label}?", code, language="python", effects=[UNSEEN])
        loop = self._loop
        if loop is None or loop.is_closed() or _runs_here(loop):
            return asked
        looking = asyncio.run_coroutine_threadsafe(self._outlook(code), loop)
        try:
            found = looking.result(_LOOK_SECONDS)
        except TimeoutError:
            looking.cancel()
            return replace(asked, warning=_BUSY)
        except ToolError as error:
            return replace(asked, warning=_sentence(error))
        warning, also = found.get("warning"), found.get("also")
        listed = cast("list[object]", also)[:1] if isinstance(also, list) else []

        def keep() -> None:
            asyncio.run_coroutine_threadsafe(self._ask({"do": "keep", "code": code}), loop)

        return replace(
            asked,
            warning=_sentence(warning) if isinstance(warning, str) else None,
            irreversible=isinstance(warning, str),
            also={_sentence(what): keep for what in listed},
        )

    async def _outlook(self, code: str) -> JsonObject:
        return {} if await self._kernel.attach(lambda: None) else await self._ask({"do": "outlook", "code": code})


def _output(given: object) -> ToolOutput:
    """Read a tool's output as a kernel sends it; its size is bounded."""
    fields: dict[str, Any] = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    listed: object = fields.get("content")
    content: list[TextContent | ImageContent] = []
    for block in cast("list[object]", listed)[:_MAX_BLOCKS] if isinstance(listed, list) else []:
        match block:
            case {"type": "text", "text": str() as text}:
                content.append(TextContent(text=clean_text(textcut.head(text, _MAX_TEXT_CHARACTERS))))
            case {"type": "image", "data": str() as data, "mimeType": str() as kind}:
                content.append(ImageContent(data=clean_text(data), mime_type=clean_text(kind)))
            case _:
                pass
    details = encodable(fields.get("details"))
    if len(json.dumps(details)) > _MAX_DETAILS_CHARACTERS:
        details = None
    return ToolOutput(content=content, details=details)


def _sentence(text: object) -> str:
    """Return a text of the kernel's as it may be shown."""
    return plain(clean_text(textcut.head(str(text), _MAX_SENTENCE_CHARACTERS)))


def open_kernel(spec: str, cwd: Path | str | None = None) -> AttachedKernel:
    """Find a running kernel and make its tools; takes up to some seconds.

    Args:
        spec: A connection file, a kernel's id or the beginning of it, the path of a notebook that is open, or
            ``auto``: the one running kernel, or that of the only open notebook in ``cwd``.
        cwd: Where relative paths start; the working directory if left out.

    Returns:
        The kernel. Its channels are opened with the first call of a tool.

    Raises:
        UsageError: No kernel is meant, or more than one; the message lists those that there are. Or it runs another
            language than Python.
    """
    found = find(spec, Path(cwd) if cwd is not None else current_directory())
    language = language_of(found)
    if language is not None and (problem := refusal(language, found)):
        raise UsageError(problem)
    return AttachedKernel(RunningKernel(found))


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def working_in(spec: str, options: SessionOptions) -> SessionOptions:
    """Let a session work in a running kernel.

    Args:
        spec: The kernel, as for ``open_kernel``; with ``any`` it is looked for when a tool needs it.

    Raises:
        UsageError: No kernel is meant, or more than one.
    """
    late = LateKernel(Path(options.cwd) if options.cwd is not None else current_directory()) if spec == "any" else None
    kernel = AttachedKernel(late) if late is not None else open_kernel(spec, options.cwd)
    extensions = [*options.extensions, kernel, *([late] if late is not None else [])]
    more_tools = [*options.more_tools, *kernel.names]
    return replace(options, place=_PLACE, extensions=extensions, more_tools=more_tools)
