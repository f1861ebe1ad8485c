"""The tools of a kernel that the agent is attached to, as the extension in a notebook has them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, cast

from indus_nb.base.errors import UsageError
from indus_nb.base.events import ToolOutput
from indus_nb.base.files import current_directory
from indus_nb.base.messages import ImageContent, TextContent
from indus_nb.base.wire import JsonObject, clean_text
from indus_nb.core.resources.settings import Settings, agent_directory, load_settings
from indus_nb.extend.api import Context, ExtensionApi
from indus_nb.kernel.attached import approvals
from indus_nb.kernel.attached.connection import language_of
from indus_nb.kernel.attached.execution import AttachedExecution
from indus_nb.kernel.attached.finding import find
from indus_nb.kernel.attached.kernel import Ended, RunningKernel, refusal
from indus_nb.kernel.attached.late import LateKernel
from indus_nb.kernel.document import Reader, Traces, named_notebook
from indus_nb.kernel.run.outputs import OutputBoard
from indus_nb.kernel.toolset.arguments import PythonArguments, VariablesArguments
from indus_nb.kernel.toolset.long_code import LongCode, Running
from indus_nb.kernel.toolset.results import joined, told, without_secrets
from indus_nb.safety.redaction import hide, is_secret_cell, is_secret_name
from indus_nb.start import SessionOptions
from indus_nb.tools import Tool
from indus_nb.tools.description import Approval, CallDescription
from indus_nb.tools.function import function_tool
from indus_nb.tools.jobs import Jobs
from indus_nb.tools.tool import FunctionTool, ToolContext, ToolError, text_output

_REPORT_EVERY = 0.1
_LOOK_SECONDS = 2.0
_MAX_NUMBERS = 1_000_000
_HIDDEN_VALUE = "(value not shown)"
_BUSY = "A cell runs there now, so which variables this overwrites or deletes cannot be told."
_NO_INPUT = (
    "[Nobody can answer input() in a kernel that the agent is attached to. Ask the user, and put the value into the "
    "code.]"
)


class AttachedKernel:
    """A running kernel that sessions, and servers of tools, work in.

    It is an extension too: given to ``SessionOptions.extensions`` a session has its tools. Channels are opened with the
    first call, and closed by ``close``; a call after that opens them again.
    """

    names = ("python", "variables", "notebook")

    def __init__(self, kernel: RunningKernel) -> None:
        """Make the tools of a kernel."""
        self._kernel = kernel
        self._settings = Settings()
        self._long = LongCode()
        self._board = OutputBoard()
        self._numbers = count(1)
        self._session: Context | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._prompts = 0
        self._reader = Reader(_no_page, self._traces)

    @property
    def label(self) -> str:
        """Return the name that users know: of the kernel's notebook, else of its connection file."""
        return self._kernel.found.label

    async def close(self) -> None:
        """Close the channels; nothing of ours is left in the kernel."""
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
        reply = await self._kernel.ask({"do": "lent", "verb": "move", "arguments": [verb, arguments]})
        if "value" not in reply and "error" not in reply:
            raise UsageError(f"The extension is not loaded in the kernel of {self.label}: `%load_ext indus_nb` there.")
        if "error" in reply:
            raise UsageError(str(reply["error"]))
        what = "taken back" if verb == "undo" else "done once more, without running it again,"
        message = f"The user has {what} what your last calls of python changed in the kernel: {reply['value']}."
        api.send_message("undo", message, display=False)
        ctx.ui.notify(f"{'Taken back' if verb == 'undo' else 'Done once more'}: {reply['value']}.")

    def tools(self) -> list[Tool]:
        """Make the tools; outside of a session no call becomes a job."""
        return [
            FunctionTool(
                name="python",
                description=(
                    f"Run Python code in the user's running Jupyter kernel ({self.label}): its variables are there, "
                    "and what it defines stays. Returns what it prints and displays, figures as images. It waits for a "
                    "cell that runs."
                ),
                arguments=PythonArguments,
                run=self._python,
                starts_jobs=True,
                describe=self._describe,
                secret_arguments=("code",),
                snippet="Run code in the user's running kernel, on the live objects",
                guidelines=(
                    "Work on the user's live variables with python rather than reading their files again",
                    "Do not overwrite or delete the user's variables unless asked to; choose new names",
                ),
            ),
            FunctionTool(
                name="variables",
                description=(
                    "List the variables of the user's running kernel: name, type, shape, types of columns, a short "
                    "view; one of them more closely, with its first rows."
                ),
                arguments=VariablesArguments,
                run=self._variables,
                read_only=True,
                snippet="See which variables the user's running kernel holds",
            ),
            function_tool(
                self._reader.read,
                name="notebook",
                read_only=True,
                snippet="Read the cells and outputs of the kernel's notebook, as they were saved",
            ),
        ]

    def _jobs(self) -> Jobs | None:
        return self._session.settings.jobs if self._session is not None else None

    # python

    async def _python(self, arguments: PythonArguments, context: ToolContext) -> ToolOutput:
        self._loop = asyncio.get_running_loop()
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
        changed = asyncio.Event()
        execution = AttachedExecution(changed.set, f"attached {id(self)} {self._prompts}")
        seconds = arguments.timeout or self._limit(goes_on=not limited)
        began = time.monotonic()
        details: JsonObject = {"code": arguments.code}

        def shown() -> ToolOutput:
            text = "(waits for the cell that runs)" if execution.waiting else execution.text().content
            cleaned = without_secrets(text, context.hide, self._kernel.secrets)
            took = {"executionSeconds": round(time.monotonic() - began, 3)}
            return ToolOutput(content=[TextContent(text=cleaned)] if cleaned else [], details={**details, **took})

        async def report() -> None:
            while True:
                await changed.wait()
                changed.clear()
                context.report(shown())
                await asyncio.sleep(_REPORT_EVERY)

        context.report(shown())
        reporting = asyncio.create_task(report())
        timed_out: list[float] = []
        limit = asyncio.create_task(self._limit_time(execution, seconds, timed_out))
        try:
            ended = await self._kernel.run(arguments.code, context.call_id, f"agent {next(self._numbers)}", execution)
            details["executionSeconds"] = round(time.monotonic() - began, 3)
            return await self._result(execution, ended, details, f"after {seconds:g} seconds" if timed_out else "")
        except ToolError as error:
            if not execution.begun or execution.ended:
                raise
            output = joined(execution.text().content, str(error))  # the kernel ended with what it was doing
            raise ToolError(without_secrets(output, context.hide, self._kernel.secrets), details) from error
        except asyncio.CancelledError:
            if not execution.begun:
                raise
            how = "was interrupted" if execution.ended else "did not end when it was interrupted, and may still run"
            why = f"The run was aborted: the code {how}." if job() is None else f"It was stopped: the code {how}."
            output = joined(execution.text().content, why)
            stopped = {**details, "interrupted": "stopped"}
            raise ToolError(without_secrets(output, context.hide, self._kernel.secrets), stopped) from None
        finally:
            reporting.cancel()
            limit.cancel()
            execution.tail.close()

    async def _limit_time(self, execution: AttachedExecution, seconds: float | None, timed_out: list[float]) -> None:
        """Interrupt the code when its time is over; what it waits for before it begins does not count."""
        if seconds is None:
            return
        await execution.sent.wait()
        await asyncio.sleep(seconds)
        timed_out.append(seconds)
        execution.interrupt()

    def _limit(self, *, goes_on: bool) -> float | None:
        """Return the time limit in seconds; for code that continues as a job, only a limit that the user set."""
        wanted = self._settings.notebook
        chosen = not goes_on or "python_timeout_seconds" in vars(wanted)
        return wanted.python_timeout_seconds if chosen else None

    async def _result(self, execution: AttachedExecution, ended: Ended, details: JsonObject, limit: str) -> ToolOutput:
        for page in ended.pages:
            execution.add_line(page)
        if ended.error:
            execution.add_line(ended.error)
        details |= {"changed": ended.changed} if ended.changed else {}
        details |= {"notUndoable": ended.not_undoable} if ended.not_undoable else {}
        resize = self._settings.images.auto_resize
        secrets = self._kernel.secrets
        parts, images = await told(
            execution.tail, execution.text(), execution.displays, None, details, resize=resize, known=secrets
        )
        if ended.error is None:
            ending = f"[It was interrupted {limit}, but went on to its end.]" if limit else ""
            text = clean_text(joined(*parts, ending)) or ("" if images else "(no output)")
            blocks: list[TextContent | ImageContent] = [TextContent(text=text)] if text else []
            return ToolOutput(content=[*blocks, *images], details=details)
        ending = f"The code was interrupted {limit or 'by the user'}." if not ended.error else ""
        if ended.kind == "StdinNotImplementedError":
            ending = _NO_INPUT
        failure = ToolError(joined(*parts, ending).rstrip(), details)
        failure.output.content.extend(images)
        raise failure

    def _describe(self, default: CallDescription, arguments: PythonArguments) -> CallDescription:
        others = {name: value for name, value in default.details.items() if name != "code"}
        return replace(
            default,
            summary="",
            code=arguments.code,
            text="",
            details=others,
            announces_start=True,
            approval=partial(self._approval, arguments.code),
        )

    def _approval(self, code: str) -> Approval:
        """Build the question before code; called off the event loop, and no longer than for a look at the kernel."""
        loop = self._loop
        if loop is None or loop.is_closed() or _runs_here(loop):
            return approvals.unknown(code, self.label, None)
        asking = asyncio.run_coroutine_threadsafe(self._kernel.ask({"do": "outlook", "code": code}), loop)
        try:
            reply = asking.result(_LOOK_SECONDS)
        except TimeoutError:
            asking.cancel()
            return approvals.unknown(code, self.label, _BUSY)
        except ToolError as error:
            return approvals.unknown(code, self.label, str(error))
        if (lent := reply.get("lent")) is not None:
            return approvals.by_extension(code, cast("JsonObject", lent), self.label)
        return approvals.unknown(code, self.label, None)

    async def _traces(self) -> Traces:
        """Collect the kernel's traces of its notebook; those of a server take precedence."""
        reply = await self._kernel.ask({"do": "traces"})
        environment, named = {"JPY_SESSION_NAME": str(reply.get("session") or "")}, reply.get("named")
        namespace = {"__vsc_ipynb_file__": named} if isinstance(named, str) else {}
        path, _ = named_notebook(environment, namespace, Path(str(reply.get("directory") or ".")), None)
        ran = [str(source) for source in cast("list[object]", reply.get("ran") or [])]
        before = [""] * min(int(reply.get("first") or 0), _MAX_NUMBERS)
        known = self._kernel.found.notebook
        return Traces(known or path, known is not None, ran=[*before, *ran])

    # variables

    async def _variables(self, arguments: VariablesArguments, context: ToolContext) -> ToolOutput:
        self._loop = asyncio.get_running_loop()
        self._long.check(self._jobs())
        waits = text_output("(waits for the cell that runs)")
        reply = await self._kernel.ask(
            {"do": "variables", "pattern": arguments.pattern}, on_busy=lambda: context.report(waits)
        )
        return text_output(self._listing(reply, arguments.pattern))

    def _listing(self, data: JsonObject, pattern: str) -> str:
        if isinstance(text := data.get("text"), str):
            return text
        hidden = self._kernel.secrets
        one = data.get("one")
        if isinstance(one, list):
            name, kind, text, table = cast("list[Any]", one)
            if is_secret_name(str(name)) and kind != "module":
                return f"{name}: {kind} {_HIDDEN_VALUE}"
            rows = _table(cast("JsonObject", table)) if isinstance(table, dict) else ""
            return hide(joined(f"{name}: {kind} {text}", rows), hidden)
        lines = [
            f"{name}: {kind} {_HIDDEN_VALUE if is_secret_name(str(name)) else hide(str(text), hidden)}".rstrip()
            for name, kind, text in cast("list[Any]", data.get("listed") or [])
        ]
        if data.get("more"):
            lines.append(f"… and {data['more']} more. Give a pattern to see others.")
        if not lines:
            return f"No variable matches {pattern!r}." if data.get("any") and pattern else "There are no variables yet."
        return "\n".join(lines)


async def _no_page(_what: str, _payload: Mapping[str, Any]) -> None:
    """Answer nothing: no page can be asked from outside."""


def _table(table: Mapping[str, Any]) -> str:
    """Write the columns and first rows of a frame, without the cells of secret columns."""
    columns = [(str(name), str(kind)) for name, kind in table.get("columns", ())]
    kinds = "\n".join(f"- {name}: {kind}" for name, kind in columns)
    names = ["", *(name for name, _ in columns)]
    rows = [
        " | ".join(
            "…" if name and is_secret_cell(name, str(cell)) else str(cell).replace("\n", " ")
            for name, cell in zip(names, row, strict=False)
        )
        for row in table.get("rows", ())
    ]
    return "\n".join([kinds, "", " | ".join(names), *rows])


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
    return replace(options, extensions=extensions, more_tools=[*options.more_tools, *kernel.names])
