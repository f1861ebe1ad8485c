"""The loop: ask the model, run the tools that it calls, ask again until it calls none.

What this module promises:

- Plain functions around one ``emit``: the loop knows neither sessions nor files. What it is given is a ``Run``, and
  what it does is in the events, in the order that the docstring of ``indus_nb.base.events`` draws.
- Every event that opens something is followed by the one that closes it, also after an abort or a failure. Only
  cancelling the task that runs it leaves out the closing events.
- Tool calls that only read and follow each other run side by side; all others alone and in order. The results
  are in the model's order. One that another program makes goes the same way: ``run_tool_call``.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, Literal, TypeAlias, cast

from indus_nb.base import textcut
from indus_nb.base.errors import failure_text
from indus_nb.base.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    ToolOutput,
    TurnEnd,
    TurnStart,
)
from indus_nb.base.images import Admission, fit_output
from indus_nb.base.messages import (
    AssistantMessage,
    CustomMessage,
    ImageContent,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    for_model,
    now_ms,
)
from indus_nb.base.streaming import AssistantMessageEvent, GrowingMessage, StreamDone, StreamError, StreamStart
from indus_nb.base.wire import JsonObject
from indus_nb.core.loop.abort import AbortSignal, RunAborted
from indus_nb.core.loop.queue import MessageQueue
from indus_nb.core.loop.watchers import RunWatcher
from indus_nb.models import Context, Model, Provider, StreamOptions
from indus_nb.safety.vault import PutBackError, Vault
from indus_nb.tools.description import Target
from indus_nb.tools.tool import (
    NOT_RUN,
    CallGate,
    StandsFor,
    Tool,
    ToolContext,
    ToolError,
    secret_arguments,
    text_output,
)

ToolExecution = Literal["auto", "parallel", "sequential"]
InterruptMode = Literal["immediate", "wait"]


async def _nothing() -> None:
    pass


Outcome: TypeAlias = tuple[ToolOutput, bool]
"""Outcome of a call, and whether it is a failure."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Decision of hooks on a tool call: why it must not run, or the file that it may be about and no other.

    ``gate`` decides about what the call does, for a tool that finds that out itself. ``details`` are those of the
    result of a call that must not run.
    """

    refusal: str | None = None
    details: Any = None
    target: Target | None = None
    gate: CallGate | None = None


class RunHooks:
    """Hooks of a run, by which extensions look at it and change what it does.

    Here everything stays as it is. None may raise.
    """

    async def context(self, messages: list[Message]) -> list[Message]:
        """Return the messages that the next request has."""
        return messages

    async def message_end(self, message: Message) -> Message:
        """Return the final message in the place of ``message``; of the same role."""
        return message

    async def tool_call(self, call: ToolCall, arguments: JsonObject) -> Verdict:
        """Decide whether a tool call is carried out.

        Args:
            arguments: Its arguments, validated; they may be changed in place.

        Returns:
            Whether it may run, and on which file.
        """
        return Verdict()

    async def tool_begins(self, call: ToolCall, verdict: Verdict) -> None:
        """Handle the start of an allowed tool call, right before the tool runs."""

    async def tool_result(self, call: ToolCall, output: ToolOutput, *, is_error: bool) -> tuple[ToolOutput, bool]:
        """Decide the outcome of a tool call.

        Args:
            output: What the tool returned, or the message of its failure.

        Returns:
            The output that counts, and whether that is a failure.
        """
        return output, is_error


@dataclass(slots=True, kw_only=True)
class Calling:
    """Dependencies of tool calls."""

    tools: Mapping[str, Tool]
    emit: Callable[[AgentEvent], Awaitable[None]]
    abort: AbortSignal = field(default_factory=AbortSignal)
    hooks: RunHooks = field(default_factory=RunHooks)
    images: Admission = field(default_factory=Admission)
    vault: Vault = field(default_factory=partial(Vault, redact=False))
    """Keeps secrets out of every message but the model's own, and out of tools' outputs."""
    result_characters: int | None = None
    """Length up to which the text of a result stays as it is for the model; ``None`` for any."""


@dataclass(slots=True)
class Run(Calling):
    """Dependencies and state of a run.

    ``messages`` is the conversation so far, to which the run appends.

    A message leaves its queue when it is delivered, and ``queues_changed`` is called in between; what was not delivered
    waits for the next run. ``model``, ``provider`` and ``options`` may be replaced while it runs, and count from the
    next request. ``will_retry`` returns, given the run and its last answer, whether another attempt follows.
    """

    model: Model
    provider: Provider
    system_prompt: str
    messages: list[Message]
    options: StreamOptions
    tool_execution: ToolExecution = "auto"
    interrupt_mode: InterruptMode = "immediate"
    steering: MessageQueue = field(default_factory=MessageQueue)
    follow_up: MessageQueue = field(default_factory=MessageQueue)
    queues_changed: Callable[[], Awaitable[None]] = _nothing
    will_retry: Callable[[Run, AssistantMessage], bool] = lambda _run, _answer: False
    watchers: Sequence[RunWatcher] = ()
    as_sent: Callable[[list[Message]], list[Message]] = list
    """Callback that returns the messages as a model is sent them."""


async def run(run: Run, prompts: Sequence[UserMessage | CustomMessage]) -> list[Message]:
    """Answer messages until the model has nothing more to do.

    Cancelling the task that runs it abandons the run at once, without closing events: to end a run in order, request
    ``run.abort``.

    Args:
        prompts: the messages to answer; without any it answers what is queued.

    Returns:
        The messages that this added; the ``stop_reason`` of the last assistant message among them is how it ended.
    """
    first, turn = len(run.messages), 0
    await run.emit(AgentStart())
    await run.emit(TurnStart(timestamp=now_ms()))
    for prompt in prompts:
        await _add(run, prompt)
    if not await _deliver(run, run.steering) and not prompts:
        await _deliver(run, run.follow_up)
    while True:
        for watcher in run.watchers:
            for note in watcher.before_answer():
                await _add(run, note)
        answer = await _answer(run)
        for watcher in run.watchers:
            watcher.after_answer(answer)
        failed = answer.stop_reason in ("error", "aborted")
        results, enough = ([], False) if failed else await _run_tool_calls(run, answer.tool_calls)
        await run.emit(TurnEnd(message=answer, tool_results=results, turn_index=turn))
        queued = not run.abort.requested and bool(run.steering.waiting or run.follow_up.waiting)
        goes_on = not failed and ((bool(results) and not enough) or queued)
        added = [] if goes_on else await _added_by_watchers(run, answer)
        if not goes_on and not added:
            break
        turn += 1
        await run.emit(TurnStart(turn_index=turn, timestamp=now_ms()))
        for message in added:
            await _add(run, message)
        if not await _deliver(run, run.steering) and (enough or not results) and not added:
            await _deliver(run, run.follow_up)
    messages = run.messages[first:]
    await run.emit(AgentEnd(messages=messages, will_retry=run.will_retry(run, answer)))
    return messages


async def _added_by_watchers(run: Run, answer: AssistantMessage) -> list[CustomMessage]:
    added: list[CustomMessage] = []
    for watcher in run.watchers:
        if not run.abort.requested:
            added += await watcher.after_turn(answer)
    return [] if run.abort.requested else added


async def _deliver(run: Run, queue: MessageQueue) -> bool:
    """Deliver messages of the queue, as its mode has it; none once an abort is requested."""
    count = len(queue.waiting) if queue.mode == "all" else 1
    delivered = 0
    while delivered < count and queue.waiting and not run.abort.requested:
        message = queue.waiting.pop(0)
        await run.queues_changed()
        await _add(run, message)
        delivered += 1
    return delivered > 0


async def _add(run: Run, message: UserMessage | CustomMessage | ToolResultMessage) -> None:
    from indus_nb.safety.vault.messages import hidden_message  # with what only a text needs

    message = hidden_message(run.vault, message)
    await run.emit(MessageStart(message=message))
    await _finish(run, message)


async def _finish(run: Run, message: Message) -> Message:
    final = await run.hooks.message_end(message)
    if final is not message and isinstance(final, UserMessage | CustomMessage | ToolResultMessage):
        from indus_nb.safety.vault.messages import hidden_message

        final = hidden_message(run.vault, final)
    run.messages.append(final)
    await run.emit(MessageEnd(message=final))
    return final


_LAST = (StreamDone, StreamError)
_MAX_QUOTED = 10_000


async def _answer(run: Run) -> AssistantMessage:
    growing: GrowingMessage | None = None
    async with aclosing(_stream(run)) as events:
        async for event in events:
            if isinstance(event, StreamStart):
                growing = cast("GrowingMessage", event.growing)
                await run.emit(MessageStart(message=growing.snapshot()))
            await run.emit(MessageUpdate(assistant_message_event=event, growing=growing))
            if isinstance(event, _LAST):
                message = event.message if isinstance(event, StreamDone) else event.error
                return cast("AssistantMessage", await _finish(run, message))
    raise AssertionError("a stream ends with done or error")


async def _stream(run: Run) -> AsyncGenerator[AssistantMessageEvent]:
    """Yield the provider's events, made sure to begin with ``start`` and to end with ``done`` or ``error``."""
    growing = GrowingMessage(api=run.model.api, provider=run.model.provider, model=run.model.id)
    started = False
    paid: list[Usage] = []
    context = Context(
        system_prompt=run.system_prompt,
        messages=for_model(await run.hooks.context(run.as_sent(run.messages))),
        tools=[tool.spec for tool in run.tools.values()],
    )
    events = run.provider.stream(run.model, context, replace(run.options, on_paid=paid.append))
    try:
        while True:
            with run.abort.interruptible():
                event = await anext(events)
            if isinstance(event, StreamStart):
                growing, started = event.growing, True
            elif not started:
                started = True
                yield growing.start()
            yield event
            if isinstance(event, _LAST):
                return
            if (objection := _objection(run, event)) is not None:
                why, is_abort = objection, True
                break
    except RunAborted:
        why, is_abort = run.abort.reason, True
    except StopAsyncIteration:
        why, is_abort = f"The provider {run.model.provider} ended its answer without saying how it went.", False
    except Exception as error:  # noqa: BLE001 - providers may be a user's, and a model's failure is data
        why, is_abort = f"The provider {run.model.provider} failed: {type(error).__name__}: {error}", False
    finally:
        await events.aclose()  # and with it the request is settled
    growing.usage = paid[-1] if paid else growing.usage
    if not started:
        yield growing.start()
    yield growing.fail(why, "aborted" if is_abort else "error")


def _objection(run: Run, event: AssistantMessageEvent) -> str | None:
    for watcher in run.watchers:
        if objection := watcher.objection(event):
            return objection
    return None


async def _run_tool_calls(run: Run, calls: Sequence[ToolCall]) -> tuple[list[ToolResultMessage], bool]:
    """Run tool calls; returns results in the model's order, and whether they are enough for every tool or a watcher."""
    outcomes: dict[int, Outcome] = {}
    ended = False
    results: list[ToolResultMessage] = []
    publishing = asyncio.Lock()

    async def publish() -> None:
        # As soon as it can be: what a tool has done must be in the session file even if the process dies next.
        async with publishing:
            while (outcome := outcomes.get(len(results))) is not None:
                result = _result(calls[len(results)], outcome)
                results.append(result)
                await _add(run, result)

    async def carry_out(position: int, call: ToolCall) -> None:
        nonlocal ended
        output, is_error = outcomes[position] = await run_tool_call(run, call)
        for watcher in run.watchers:
            ended |= watcher.after_call(call, output, is_error=is_error)
        await publish()

    numbered = enumerate(calls)
    for batch in _batches(run, calls):
        places = [position for position, _ in islice(numbered, len(batch))]
        reason = _why_not(run)
        if reason:
            outcomes.update((position, (text_output(reason, {NOT_RUN: True}), True)) for position in places)
            await publish()
        elif len(batch) == 1:
            await carry_out(places[0], batch[0])
        else:
            await asyncio.gather(*map(carry_out, places, batch))
    return results, ended or all(output.terminate for output, _ in outcomes.values())


def _why_not(run: Run) -> str | None:
    if run.abort.requested:
        return "Not run: the run was stopped before this call started."
    if run.interrupt_mode == "immediate" and run.steering.waiting:
        return "Skipped: the user sent a new message before this call started."
    return None


def _batches(run: Run, calls: Sequence[ToolCall]) -> list[list[ToolCall]]:
    """Return the calls in order, grouped by those that may run side by side."""
    if run.tool_execution == "parallel":
        return [list(calls)] if calls else []
    batches: list[list[ToolCall]] = []
    previous_reads = False
    for call in calls:
        tool, _ = _meant(run, call)
        reads = run.tool_execution == "auto" and tool is not None and tool.read_only
        if reads and previous_reads:
            batches[-1].append(call)
        else:
            batches.append([call])
        previous_reads = reads
    return batches


def _meant(run: Calling, call: ToolCall) -> tuple[Tool | None, ToolCall]:
    """Return the tool that a call is meant for, and the call as one of that tool."""
    tool = run.tools.get(call.name)
    stands_for: StandsFor | None = getattr(tool, "stands_for", None)
    if call.malformed is None and stands_for is not None and (meant := stands_for(call.arguments)):
        tool, arguments = meant
        return tool, call.replace(name=tool.spec.name, arguments=arguments)
    return tool, call


async def run_tool_call(run: Calling, call: ToolCall) -> Outcome:
    """Carry out a tool call: ask the hooks, run the tool, publish how it goes.

    Hooks and subscribers get a call of a tool that stands for others as one of the tool that is meant.

    Returns:
        What it gave, and whether that is a failure; nothing but cancelling the task raises.
    """
    tool, call = _meant(run, call)
    await run.emit(ToolExecutionStart(tool_call_id=call.id, tool_name=call.name, args={**call.arguments}))
    progress = _Progress(run, call)
    try:
        output, is_error = await _execute(run, tool, call, progress.report), False
    except RunAborted:
        output, is_error = text_output("The call was aborted."), True
    except ToolError as error:
        output, is_error = error.output, True
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a tool's failure, whatever it is, is a result
        output, is_error = text_output(failure_text(error)), True
    except asyncio.CancelledError:
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        if task.cancelling():
            raise
        output, is_error = text_output("Something that the tool waited for was cancelled."), True
    finally:
        await progress.finish()
    from indus_nb.safety.vault.messages import hidden_output

    given = hidden_output(run.vault, output)
    output, is_error = await run.hooks.tool_result(call, given, is_error=is_error)
    if output.ends and output.content != given.content:
        output = output.replace(ends=None)  # they are those of another text
    output = output if output is given else hidden_output(run.vault, output)
    if any(block.type == "image" for block in output.content):
        output = output.replace(content=await _fitted(run, output, call.name))
    if output.details is None:
        output = output.replace(details={})  # front ends look into it without looking for it
    await run.emit(ToolExecutionEnd(tool_call_id=call.id, tool_name=call.name, result=output, is_error=is_error))
    return await _shortened(run, output, call.name), is_error


async def _shortened(run: Calling, output: ToolOutput, name: str) -> ToolOutput:
    """Add what the model reads of a long result, unless its tool shows parts itself."""
    most, tool = run.result_characters, run.tools.get(name)
    characters = sum(len(block.text) for block in output.content if isinstance(block, TextContent))
    if most is None or characters <= most or getattr(tool, "shows_parts", False):
        return output
    from indus_nb.tools.shortening import shortened  # with what only a long text needs

    return await asyncio.to_thread(shortened, output, most, name)


async def _fitted(run: Calling, output: ToolOutput, tool: str) -> list[TextContent | ImageContent]:
    """Return a tool's output with images that a model can be shown; none that an abort did not wait for."""
    try:
        with run.abort.interruptible():
            return await fit_output(run.images, output.content, tool)
    except RunAborted:
        note = TextContent(text="(Images were left out, as the run was aborted.)")
        return [*(block for block in output.content if isinstance(block, TextContent)), note]


async def _execute(run: Calling, tool: Tool | None, call: ToolCall, report: Callable[[ToolOutput], None]) -> ToolOutput:
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
        raise ToolError(verdict.refusal, verdict.details)
    try:
        # Only now: the user, extensions and every view have seen the placeholders.
        declared, is_code = secret_arguments(tool)
        wanted = run.vault.put_back(wanted, declared, call_id=call.id, is_code=is_code)
    except PutBackError as error:
        raise ToolError(str(error)) from error
    if wanted != call.arguments:
        arguments = tool.check(wanted)
    await run.hooks.tool_begins(call, verdict)
    with run.abort.interruptible():
        output = await tool.execute(
            arguments, ToolContext(call.id, report, verdict.target, run.vault.hide_in, verdict.gate)
        )
    return output.checked()  # a tool may be a user's, and what it gives is written and sent


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
                from indus_nb.safety.vault.messages import hidden_output

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


def _result(call: ToolCall, outcome: Outcome) -> ToolResultMessage:
    output, is_error = outcome
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=output.content,
        details=output.details,
        is_error=is_error,
        shortened=output.shortened,
    )
