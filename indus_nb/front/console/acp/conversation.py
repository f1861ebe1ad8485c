"""One session of a client's: its prompts, what is shown of them, and its options."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, cast

from indus_nb.base.errors import IndusError
from indus_nb.base.events import (
    AgentEnd,
    AutoRetryStart,
    CompactionEnd,
    CompactionStart,
    ExtensionError,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ModelChanged,
    SessionEvent,
    SessionInfoChanged,
    SessionSaveFailed,
    ThinkingLevelChanged,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from indus_nb.base.messages import AssistantMessage, ThinkingLevel, ToolResultMessage, UserMessage
from indus_nb.base.streaming import TextDelta, ThinkingDelta, ToolCallStart
from indus_nb.base.terminal import plain
from indus_nb.base.wire import JsonObject, random_hex
from indus_nb.core.session.dialogs import UiFrame
from indus_nb.core.session.session import AgentSession, ApproveMode
from indus_nb.core.session.stats import SessionStats
from indus_nb.front.console.acp import updates
from indus_nb.front.console.acp.client_tools import AcpTools
from indus_nb.front.console.acp.peer import INTERNAL_ERROR, INVALID_PARAMS, Peer, RpcError
from indus_nb.front.console.acp.permissions import Questions
from indus_nb.front.console.acp.requests import ClientCapabilities, prompt_parts
from indus_nb.front.console.stdio import FrameWriter

APPROVE_MODES = {
    "never": ("Ask nothing", "Tools run without a question"),
    "effects": ("Ask about effects", "Asks before calls that change anything but new variables"),
    "writes": ("Ask before changes", "Asks before commands and changes of files"),
    "always": ("Ask always", "Asks before every tool call"),
    "looks": ("Only look", "Tools change nothing: calls that would are refused"),
}
_STOP_REASONS = {"stop": "end_turn", "toolUse": "end_turn", "length": "max_tokens", "aborted": "cancelled"}
_SECONDS_BETWEEN_REPORTS = 0.2
_PATIENCE_SECONDS = 2.0
"""Longest wait for the prompts of a session that ends: a command of an extension may go on."""
_log = logging.getLogger("indus_nb")


@dataclass(slots=True)
class _OpenPrompt:
    """A prompt that is not answered yet."""

    task: asyncio.Task[Any]
    before: AssistantMessage | None = None
    """The last answer when it was sent."""
    cancelled: bool = False
    """``True`` after ``session/cancel``."""
    problem: str | None = None
    """Reason why its run was stopped here."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class AcpSession:
    """A session as a client knows it.

    Args:
        writer: The writer of its lines, with backpressure when the client reads slowly.
        tools: The tools that the client carries out in place of the session's.
    """

    def __init__(
        self, session: AgentSession, peer: Peer, writer: FrameWriter, client: ClientCapabilities, tools: AcpTools
    ) -> None:
        self.session = session
        self.id: str = session.store.session_id
        self._peer = peer
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._calls = updates.Calls(session.store.cwd, session.all_tools, session.settings.vault)
        self._message_id = random_hex(16)
        self._unfinished: list[tuple[updates.Chunk, str] | JsonObject] = []
        """The shown parts of the answer that is being written: pieces of text, and announced calls."""
        self._pieces: tuple[updates.Chunk, list[str]] | None = None
        self._flushes_soon = False
        self._reports: dict[str, ToolExecutionUpdate | None] = {}
        self._prompts: list[_OpenPrompt] = []
        self._aborting: asyncio.Task[None] | None = None
        self._begun = False
        self._tasks: set[asyncio.Task[Any]] = set()
        session.subscribe(self._on_event)
        tools.attach(
            self.id, lambda call_id, terminal: self.update(self._calls.runs_in(call_id, terminal)), self._calls.changed
        )
        questions = Questions(
            session,
            peer,
            self.id,
            has_forms=client.elicitation is not None and client.elicitation.form is not None,
            running_call=lambda: self._calls.running,
            tell=lambda line: self._say("agent_thought_chunk", f"{line}\n"),
        )
        session.ui.attach(self._on_loop(questions.show), place="this program")
        session.trusting.in_background = True  # the client may never answer

    def _on_loop(self, show: Callable[[UiFrame], None]) -> Callable[[UiFrame], None]:
        loop, thread = self._loop, threading.get_ident()

        def called(frame: UiFrame) -> None:
            if threading.get_ident() == thread:
                show(frame)
            else:  # a tool's function works in a thread of its own
                loop.call_soon_threadsafe(show, frame)

        return called

    # Prompts

    async def prompt(self, blocks: list[JsonObject]) -> JsonObject:
        """Send the model a prompt; one that comes while another runs joins that, or follows one that is cancelled.

        Raises:
            RpcError: The prompt cannot be used, or the model failed.
        """
        text, images, attachments = prompt_parts(blocks)
        if not (text.strip() or images or attachments):
            raise RpcError(INVALID_PARAMS, "The prompt is empty. Nothing was sent.")
        prompt = _OpenPrompt(cast("asyncio.Task[Any]", asyncio.current_task()))
        ending = [each.ended for each in self._prompts if each.cancelled]
        self._prompts.append(prompt)
        try:
            for ended in ending:
                await ended.wait()
            if self._aborting is not None:  # what is aborted may go on though its prompt is answered
                await asyncio.wait((self._aborting,))
            prompt.before = self.session.last_answer
            await self.session.prompt(text, images, attachments=attachments, streaming_behavior="steer", source="rpc")
            await self.session.wait_until_idle()  # of the run that it has joined
        except asyncio.CancelledError:
            if not prompt.cancelled:
                raise
            prompt.task.uncancel()
        except Exception as error:
            if not prompt.cancelled:
                raise
            _log.warning("What was cancelled ended with an error: %s", error)
        finally:
            try:
                if prompt.cancelled:
                    await self.session.wait_until_idle()
                await self._drop_undelivered()
            finally:  # its request may be cancelled too
                self._prompts.remove(prompt)
                prompt.ended.set()
                self._flush()
        if prompt.cancelled:
            return {"stopReason": "cancelled"}
        return self._outcome(prompt)

    def _outcome(self, prompt: _OpenPrompt) -> JsonObject:
        """Return the response to a prompt that was not cancelled."""
        answer = self.session.last_answer
        if prompt.problem is not None:
            raise RpcError(INTERNAL_ERROR, prompt.problem)
        if answer is None or answer is prompt.before:
            return {"stopReason": "end_turn"}  # a command, which the model was not asked
        if answer.refused:
            self._say("agent_message_chunk", f"{answer.error_message}\n")
            self._flush()
            return {"stopReason": "refusal", "usage": _usage(self.session.stats())}
        if answer.stop_reason == "error":
            raise RpcError(INTERNAL_ERROR, answer.error_message or "The model's answer failed.")
        return {"stopReason": _STOP_REASONS[answer.stop_reason], "usage": _usage(self.session.stats())}

    async def _drop_undelivered(self) -> None:
        """Remove prompts that were not delivered before their run ended; each is answered with how that ended."""
        waiting = self.session.steering.waiting
        if self.session.turns.idle and any(isinstance(message, UserMessage) for message in waiting):
            waiting[:] = [message for message in waiting if not isinstance(message, UserMessage)]
            await self.session.queues.publish()

    def cancel(self) -> None:
        """End the run; each prompt is answered when it has ended."""
        prompts = [prompt for prompt in self._prompts if not prompt.cancelled]
        if not prompts:
            return
        self._aborting = self._do(self.session.abort())
        for prompt in prompts:
            prompt.cancelled = True
            prompt.task.cancel()  # an abort does not reach a command, nor what precedes a run

    def _do(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Start and end

    def begin(self) -> None:
        """Start the session behind the answer to the client, and say what it offers."""
        self._do(self._begin())

    async def _begin(self) -> None:
        try:
            await self.session.start()
        except IndusError as error:
            _log.warning("The session could not be started: %s", error)
            return
        self._begun = True
        self._calls.tools = self.session.all_tools
        for problem in self.session.all_problems:
            self._say("agent_thought_chunk", f"{problem}\n")
        self._flush()
        if listed := self.session.list_commands():
            self.update(updates.commands(listed))

    def replay(self) -> None:
        """Show the conversation until now, with what has arrived of an answer; the rest of that follows."""
        for update in updates.replayed(self.session.messages, self._calls):
            self.update(update)
        for shown in self._unfinished:
            if isinstance(shown, dict):
                self.update(shown)
            else:
                self._say(*shown)
        self._flush()

    async def end(self) -> None:
        """End the session and what it does."""
        self.cancel()
        await self.session.abort_bash()
        await self.session.abort()
        if answering := [prompt.task for prompt in self._prompts]:
            await asyncio.wait(answering, timeout=_PATIENCE_SECONDS)
        for task in tuple(self._tasks):
            task.cancel()
        await self.session.end()

    # Options

    def modes(self) -> JsonObject:
        """Return the approval modes, for clients without options of their own."""
        listed = [{"id": mode, "name": name, "description": about} for mode, (name, about) in APPROVE_MODES.items()]
        return {"currentModeId": self.session.settings.approve, "availableModes": listed}

    def options(self) -> list[JsonObject]:
        """Return everything that the user can choose, with what is chosen."""
        session, model = self.session, self.session.model
        models = session.available_models()
        if model is not None and model not in models:
            models = [model, *models]
        listed = [
            {"value": f"{each.provider}/{each.id}", "name": each.name, "description": each.provider} for each in models
        ]
        options = [
            _select(
                "approve",
                "Questions",
                "mode",
                session.settings.approve,
                [{"value": mode, "name": name, "description": about} for mode, (name, about) in APPROVE_MODES.items()],
            )
        ]
        if model is not None:
            options.insert(0, _select("model", "Model", "model", f"{model.provider}/{model.id}", listed))
            levels = [{"value": level, "name": level} for level in model.thinking_levels]
            if len(levels) > 1:
                options.append(_select("thinking", "Thinking", "thought_level", session.thinking_level, levels))
        return options

    async def choose(self, option: str, value: object) -> None:
        """Choose a value of an option.

        Raises:
            RpcError: There is no such option, or it has no such value.
        """
        known = next((each for each in self.options() if each["id"] == option), None)
        if known is None or not isinstance(value, str):
            raise RpcError(INVALID_PARAMS, f"There is no option {option!r} with such a value. Nothing was changed.")
        if value not in {each["value"] for each in known["options"]} and option != "model":
            choices = ", ".join(each["value"] for each in known["options"])
            raise RpcError(
                INVALID_PARAMS, f"{option} cannot be {value!r}. Choose one of {choices}. Nothing was changed."
            )
        if option == "approve":
            self.session.settings.approve = cast("ApproveMode", value)
        elif option == "thinking":
            await self.session.set_thinking_level(cast("ThinkingLevel", value))
        else:
            model = self.session.registry.find(value)
            self.session.registry.key_for(model)  # one that cannot be asked is not chosen
            await self.session.set_model(model)

    # Updates

    def update(self, update: JsonObject) -> None:
        """Send the client an update, behind those before."""
        self._flush()
        self._peer.notify("session/update", {"sessionId": self.id, "update": update})

    def _say(self, kind: updates.Chunk, piece: str) -> None:
        if self._pieces is not None and self._pieces[0] != kind:
            self._flush()
        if self._pieces is None:
            self._pieces = (kind, [])
        self._pieces[1].append(piece)
        if not self._flushes_soon:
            self._flushes_soon = True
            self._loop.call_soon(self._flush_step)

    def _flush_step(self) -> None:
        self._flushes_soon = False
        self._flush()

    def _flush(self) -> None:
        if self._pieces is None:
            return
        kind, pieces = self._pieces
        self._pieces = None
        update = updates.chunk(kind, updates.text_block("".join(pieces)), self._message_id)
        self._peer.notify("session/update", {"sessionId": self.id, "update": update})

    def _on_event(self, event: SessionEvent) -> Awaitable[None] | None:  # noqa: C901, PLR0912 - one case for each kind
        match event:
            case MessageUpdate(assistant_message_event=TextDelta() as delta):
                self._unfinished.append(("agent_message_chunk", delta.delta))
                self._say("agent_message_chunk", delta.delta)
            case MessageUpdate(assistant_message_event=ThinkingDelta() as delta):
                self._unfinished.append(("agent_thought_chunk", delta.delta))
                self._say("agent_thought_chunk", delta.delta)
            case MessageUpdate(assistant_message_event=ToolCallStart() as call):
                self._unfinished.append(announced := self._calls.announced(call.id, call.tool_name))
                self.update(announced)
            case MessageStart():
                self._flush()
                self._message_id = random_hex(16)
            case MessageEnd(message=AssistantMessage() as answer):
                self._end_answer(answer)
            case MessageEnd(message=ToolResultMessage() as result) if result.tool_call_id in self._calls.open:
                # It was skipped, or there would have been the end of an execution.
                self.update(
                    self._calls.ended(result.tool_call_id, result.tool_name, result.content, failed=result.is_error)
                )
            case AgentEnd():
                self._abandon_calls()
            case AutoRetryStart():
                wait = f"Trying again in {event.delay_ms / 1000:g} s ({event.attempt} of {event.max_attempts})."
                self._say("agent_thought_chunk", f"The model failed ({event.error_message}). {wait}\n")
            case CompactionStart():
                self._say("agent_thought_chunk", "The conversation has grown too long: its older part is summarised.\n")
            case CompactionEnd(result=None, error_message=str(problem)):
                self._say("agent_thought_chunk", f"{problem}\n")
            case ExtensionError() if self._begun:  # problems at the start are reported once, when it has ended
                self._say("agent_thought_chunk", plain(f"An extension failed on {event.event}: {event.error}\n"))
            case SessionSaveFailed():
                self._say("agent_thought_chunk", f"{event.error}\n")
                for prompt in self._prompts if self.session.store.path else ():  # else it goes on in memory
                    prompt.problem = event.error
            case ToolExecutionStart():
                self.update(self._calls.started(event.tool_call_id, event.tool_name, event.args))
            case ToolExecutionUpdate():
                self._report(event)
            case ToolExecutionEnd():
                self._reports.pop(event.tool_call_id, None)
                content, name = event.result.content, event.tool_name
                self.update(self._calls.ended(event.tool_call_id, name, content, failed=event.is_error))
                if not event.is_error and (plan := updates.plan_of(name, event.result.details)) is not None:
                    self.update(plan)
            case ModelChanged() | ThinkingLevelChanged():
                self.update({"sessionUpdate": "config_option_update", "configOptions": self.options()})
            case SessionInfoChanged():
                self.update({"sessionUpdate": "session_info_update", "title": updates.title_of(event.name or "")})
            case _:
                pass
        return self._writer.wait_for_reader() if self._writer.far_behind else None

    def _end_answer(self, answer: AssistantMessage) -> None:
        self._unfinished.clear()
        self._show_usage()
        if answer.stop_reason in ("error", "aborted"):
            self._abandon_calls()

    def _abandon_calls(self) -> None:
        for update in self._calls.abandoned():
            self.update(update)

    def _report(self, event: ToolExecutionUpdate) -> None:
        """Send a call's whole output so far, some times a second."""
        call_id = event.tool_call_id
        if call_id in self._reports:
            self._reports[call_id] = event
            return
        self.update(self._calls.went_on(call_id, event.tool_name, event.partial_result.content))
        self._reports[call_id] = None
        self._loop.call_later(_SECONDS_BETWEEN_REPORTS, self._report_again, call_id)

    def _report_again(self, call_id: str) -> None:
        latest = self._reports.pop(call_id, None)
        if latest is not None:
            self._report(latest)

    def _show_usage(self) -> None:
        used = self.session.context_usage()
        if used is not None and used.tokens is not None:
            self.update(updates.usage(used.tokens, used.context_window, self.session.stats().cost))


def _select(name: str, label: str, category: str, current: str, options: list[JsonObject]) -> JsonObject:
    about = {"id": name, "name": label, "category": category}
    return {**about, "type": "select", "currentValue": current, "options": options}


def _usage(stats: SessionStats) -> JsonObject:
    """Return the tokens of the whole session, every request of every turn counted, as a client adds nothing up."""
    tokens = stats.tokens
    return {
        "totalTokens": tokens.total,
        "inputTokens": tokens.input,
        "outputTokens": tokens.output,
        "cachedReadTokens": tokens.cache_read,
        "cachedWriteTokens": tokens.cache_write,
    }
