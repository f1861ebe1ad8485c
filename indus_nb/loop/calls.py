"""One tool call: the hooks are asked, the tool runs, and events say how it goes, whoever has made the call.

What this module promises:

- ``tool_execution_start`` is followed by ``tool_execution_end``; only cancelling the task leaves that out.
- A failure, whatever it is, is an output.
- Secrets are put back into the arguments after the hooks have allowed the call, and hidden in all that comes out.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, cast

from indus_nb import textcut
from indus_nb.events import AgentEvent, ToolExecutionEnd, ToolExecutionStart, ToolExecutionUpdate, ToolOutput
from indus_nb.images import Admission, fit_output
from indus_nb.loop.abort import AbortSignal, RunAborted
from indus_nb.messages import ImageContent, Message, TextContent, ToolCall
from indus_nb.tools.description import Target
from indus_nb.tools.tool import Tool, ToolContext, ToolError, secret_arguments, text_output
from indus_nb.vault import PutBackError, Vault
from indus_nb.wire import JsonObject

_MAX_QUOTED = 10_000
Outcome: TypeAlias = tuple[ToolOutput, bool]
"""What a call gave, and whether that is a failure."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What hooks decide on a tool call: why it must not run, or the file that it may be about and no other."""

    refusal: str | None = None
    target: Target | None = None


class RunHooks:
    """Where extensions may look at a run and change what it does.

    Here everything stays as it is. None may raise.
    """

    async def context(self, messages: list[Message]) -> list[Message]:
        """Return the messages that the next request has."""
        return messages

    async def message_end(self, message: Message) -> Message:
        """Return what is final in the place of ``message``; of the same role."""
        return message

    async def tool_call(self, call: ToolCall, arguments: JsonObject) -> Verdict:
        """Decide whether a tool call is carried out.

        Args:
            call: The call.
            arguments: Its arguments, validated; they may be changed in place.

        Returns:
            Whether it may run, and on which file.
        """
        return Verdict()

    async def tool_begins(self, call: ToolCall, target: Target | None) -> None:
        """Handle that a tool call was allowed, right before the tool runs.

        Args:
            call: The call.
            target: The file that it was allowed for, if it was asked about one.
        """

    async def tool_result(self, call: ToolCall, output: ToolOutput, *, is_error: bool) -> tuple[ToolOutput, bool]:
        """Decide what counts as the outcome of a tool call.

        Args:
            call: The call.
            output: What the tool returned, or the message of its failure.
            is_error: Whether the call failed.

        Returns:
            The output that counts, and whether that is a failure.
        """
        return output, is_error


@dataclass(slots=True, kw_only=True)
class Calling:
    """What tool calls need."""

    tools: Mapping[str, Tool]
    emit: Callable[[AgentEvent], Awaitable[None]]
    abort: AbortSignal = field(default_factory=AbortSignal)
    hooks: RunHooks = field(default_factory=RunHooks)
    images: Admission = field(default_factory=Admission)
    vault: Vault = field(default_factory=partial(Vault, redact=False))
    """Keeps secrets out of every message but the model's own, and out of tools' outputs."""


async def run_tool_call(run: Calling, call: ToolCall) -> Outcome:
    """Carry out a tool call: ask the hooks, run the tool, publish how it goes.

    Args:
        run: What it needs.
        call: The call.

    Returns:
        What it gave, and whether that is a failure; nothing but cancelling the task raises.
    """
    await run.emit(ToolExecutionStart(tool_call_id=call.id, tool_name=call.name, args={**call.arguments}))
    progress = _Progress(run, call)
    try:
        output, is_error = await _execute(run, call, progress.report), False
    except RunAborted:
        output, is_error = text_output("The call was aborted."), True
    except ToolError as error:
        output, is_error = error.output, True
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a tool's failure, whatever it is, is a result
        output, is_error = text_output(str(error) or type(error).__name__), True
    except asyncio.CancelledError:
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        if task.cancelling():
            raise
        output, is_error = text_output("Something that the tool waited for was cancelled."), True
    finally:
        await progress.finish()
    from indus_nb.vault.messages import hidden_output

    given = hidden_output(run.vault, output)
    output, is_error = await run.hooks.tool_result(call, given, is_error=is_error)
    output = output if output is given else hidden_output(run.vault, output)
    if any(block.type == "image" for block in output.content):
        output = output.model_copy(update={"content": await _fitted(run, output, call.name)})
    if output.details is None:
        output = output.model_copy(update={"details": {}})  # front ends look into it without looking for it
    await run.emit(ToolExecutionEnd(tool_call_id=call.id, tool_name=call.name, result=output, is_error=is_error))
    return output, is_error


async def _fitted(run: Calling, output: ToolOutput, tool: str) -> list[TextContent | ImageContent]:
    """What a tool returned, with images that a model can be shown; none that an abort did not wait for."""
    try:
        with run.abort.interruptible():
            return await fit_output(run.images, output.content, tool)
    except RunAborted:
        note = TextContent(text="(Images were left out, as the run was aborted.)")
        return [*(block for block in output.content if isinstance(block, TextContent)), note]


async def _execute(run: Calling, call: ToolCall, report: Callable[[ToolOutput], None]) -> ToolOutput:
    tool = run.tools.get(call.name)
    if tool is None:
        offered = ", ".join(run.tools) or "none"
        name = textcut.one_line(call.name, 200)
        raise ToolError(f"There is no tool named {name}. Tools that can be called: {offered}.")
    if call.malformed is not None:
        quoted = textcut.middle(call.malformed, _MAX_QUOTED, " [{left} characters are left out] ")
        raise ToolError(f"The arguments of {call.name} were not a JSON object, so nothing was done: {quoted}")
    arguments = tool.check(call.arguments)
    wanted = copy.deepcopy(call.arguments)
    verdict = await run.hooks.tool_call(call, wanted)
    if verdict.refusal is not None:
        raise ToolError(verdict.refusal)
    try:
        # Only now: whoever was asked, and every view, has seen the placeholders.
        declared, is_code = secret_arguments(tool)
        wanted = run.vault.put_back(wanted, declared, call_id=call.id, is_code=is_code)
    except PutBackError as error:
        raise ToolError(str(error)) from error
    if wanted != call.arguments:
        arguments = tool.check(wanted)
    await run.hooks.tool_begins(call, verdict.target)
    with run.abort.interruptible():
        return await tool.execute(arguments, ToolContext(call.id, report, verdict.target, run.vault.hide_in))


class _Progress:
    """Turns a tool's reports into events; when reports come faster than events are handled, the latest one counts."""

    def __init__(self, run: Calling, call: ToolCall) -> None:
        self._run = run
        self._call = call
        self._latest: ToolOutput | None = None
        self._changed = asyncio.Event()
        self._finished = False
        self._task: asyncio.Task[None] | None = None

    def report(self, output: ToolOutput) -> None:
        if self._finished:
            return
        self._latest = output
        self._changed.set()
        if self._task is None:
            self._task = asyncio.create_task(self._relay())

    async def finish(self) -> None:
        self._finished = True
        self._changed.set()
        if self._task is not None:
            await self._task

    async def _relay(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            latest, self._latest = self._latest, None
            if latest is not None:
                from indus_nb.vault.messages import hidden_output

                await self._run.emit(
                    ToolExecutionUpdate(
                        tool_call_id=self._call.id,
                        tool_name=self._call.name,
                        args={**self._call.arguments},
                        partial_result=hidden_output(self._run.vault, latest, partial=True),
                    )
                )
            if self._finished:
                return
