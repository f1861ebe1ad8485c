"""RPC mode: commands come in as JSON lines, responses and events go out as JSON lines.

Every command gets exactly one response, with its ``id``. A command that waits (a prompt until it is accepted, an abort
until the session is idle) does so in a task of its own, so that none is stuck behind another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import ValidationError

from indus_nb.errors import IndusError
from indus_nb.modes import commands
from indus_nb.modes.commands import Command
from indus_nb.modes.stdio import FrameWriter, LineTooLongError, complain, on_signals, preload, read_lines
from indus_nb.providers.catalog import all_models
from indus_nb.session import AgentSession
from indus_nb.wire import JsonObject, dump, load_object

_log = logging.getLogger("indus_nb")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BYE_SECONDS = 1.0
_IDLE_SECONDS = 0.2


class RpcServer:
    """One session, driven by lines."""

    def __init__(self, session: AgentSession, writer: FrameWriter) -> None:
        self._session = session
        self._writer = writer
        self._tasks: set[asyncio.Task[None]] = set()
        self._handlers: dict[str, tuple[type[Command], Callable[[Any], Any]]] = {
            model.model_fields["type"].default: (model, handler)
            for model, handler in (
                (commands.Prompt, self._prompt),
                (commands.Steer, self._steer),
                (commands.FollowUp, self._follow_up),
                (commands.Abort, self._abort),
                (commands.NewSession, self._new_session),
                (commands.GetState, self._get_state),
                (commands.GetMessages, self._get_messages),
                (commands.GetLastAssistantText, self._get_last_assistant_text),
                (commands.SetModel, self._set_model),
                (commands.GetAvailableModels, self._get_available_models),
                (commands.SetThinkingLevel, self._set_thinking_level),
                (commands.SetSteeringMode, self._set_steering_mode),
                (commands.SetFollowUpMode, self._set_follow_up_mode),
                (commands.SetInterruptMode, self._set_interrupt_mode),
            )
        }

    def take(self, line: bytes | LineTooLongError) -> None:
        """Carry out one line, or begin to."""
        try:
            if isinstance(line, LineTooLongError):
                raise line
            frame = load_object(line.removeprefix(_BYTE_ORDER_MARK))
        except ValueError as error:
            self._respond(None, "parse", error=f"Failed to parse command: {error}")
            return
        kind = frame.get("type")
        if kind == "extension_ui_response":
            return  # an answer to a dialog that is not open any more
        command_id = frame.get("id")
        if isinstance(command_id, bool) or not isinstance(command_id, str | int):
            command_id = None
        known = self._handlers.get(kind) if isinstance(kind, str) else None
        if known is None:
            name = kind if isinstance(kind, str) else "unknown"
            self._respond(command_id, name, error=f"Unknown command: {_brief(kind)}")
            return
        model, handler = known
        try:
            command = model.model_validate(frame)
        except ValidationError as error:
            self._respond(command_id, str(kind), error=_explain(str(kind), error))
            return
        self._start(command, handler)

    def _start(self, command: Command, handler: Callable[[Any], Any]) -> None:
        name = type(command).model_fields["type"].default
        try:
            data = handler(command)
        except Exception as error:  # noqa: BLE001 - see _failed
            self._failed(command, name, error)
            return
        if asyncio.iscoroutine(data):
            task = asyncio.create_task(self._finish(command, name, data))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._respond(command.id, name, data=data)

    async def _finish(self, command: Command, name: str, work: Awaitable[Any]) -> None:
        try:
            data = await work
        except Exception as error:  # noqa: BLE001 - see _failed
            self._failed(command, name, error)
        else:
            if data is not _ANSWERED:
                self._respond(command.id, name, data=data)

    def _failed(self, command: Command, name: str, error: Exception) -> None:
        # Also a defect of ours is answered: an id without an answer hangs the client.
        if not isinstance(error, IndusError):
            _log.error("The command %s failed", name, exc_info=error)
        text = str(error) if isinstance(error, IndusError) else f"Internal error: {type(error).__name__}: {error}"
        self._respond(command.id, name, error=text)

    def _respond(self, command_id: str | int | None, name: str, *, data: Any = None, error: str | None = None) -> None:
        frame: JsonObject = {} if command_id is None else {"id": command_id}
        frame |= {"type": "response", "command": name, "success": error is None}
        if error is not None:
            frame["error"] = error
        elif data is not None:
            frame["data"] = data
        self._writer.send_line(dump(frame))

    async def shut_down(self) -> None:
        """End the run, and answer what was accepted."""
        await self._session.abort()
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    # The commands

    async def _prompt(self, command: commands.Prompt) -> object:
        accepted = False

        def accept() -> None:
            nonlocal accepted
            accepted = True
            self._respond(command.id, "prompt")

        try:
            await self._session.prompt(
                command.message,
                command.images,
                streaming_behavior=command.streaming_behavior,
                on_accepted=accept,
            )
        except Exception:
            if not accepted:
                raise
            _log.exception("A run broke off")
        return _ANSWERED

    async def _steer(self, command: commands.Steer) -> None:
        await self._session.steer(command.message, command.images)

    async def _follow_up(self, command: commands.FollowUp) -> None:
        await self._session.follow_up(command.message, command.images)

    async def _abort(self, _: commands.Abort) -> None:
        await self._session.abort()

    async def _new_session(self, command: commands.NewSession) -> JsonObject:
        await self._session.new_session(command.parent_session)
        return {"cancelled": False}

    def _get_state(self, _: commands.GetState) -> JsonObject:
        session = self._session
        state: JsonObject = {
            "model": session.model,
            "thinkingLevel": session.thinking_level,
            "isStreaming": session.is_running,
            "isCompacting": False,
            "steeringMode": session.steering.mode,
            "followUpMode": session.follow_up_queue.mode,
            "interruptMode": session.settings.interrupt_mode,
            "sessionId": session.store.session_id,
            "autoCompactionEnabled": False,
            "autoRetryEnabled": False,
            "messageCount": len(session.messages),
            "pendingMessageCount": session.pending_count,
            "queuedMessageCount": session.pending_count,
        }
        if session.store.path is not None:
            state["sessionFile"] = str(session.store.path)
        if session.store.name is not None:
            state["sessionName"] = session.store.name
        return state

    def _get_messages(self, _: commands.GetMessages) -> JsonObject:
        return {"messages": self._session.messages}

    def _get_last_assistant_text(self, _: commands.GetLastAssistantText) -> JsonObject:
        return {"text": self._session.last_text}

    async def _set_model(self, command: commands.SetModel) -> object:
        return await self._session.set_model(command.model_id, command.provider)

    def _get_available_models(self, _: commands.GetAvailableModels) -> JsonObject:
        return {"models": all_models()}

    async def _set_thinking_level(self, command: commands.SetThinkingLevel) -> None:
        await self._session.set_thinking_level(command.level)

    def _set_steering_mode(self, command: commands.SetSteeringMode) -> None:
        self._session.steering.mode = command.mode

    def _set_follow_up_mode(self, command: commands.SetFollowUpMode) -> None:
        self._session.follow_up_queue.mode = command.mode

    def _set_interrupt_mode(self, command: commands.SetInterruptMode) -> None:
        self._session.set_interrupt_mode(command.mode)


_ANSWERED = object()


def _explain(name: str, error: ValidationError) -> str:
    problems = (
        f"`{'.'.join(map(str, problem['loc']))}`: {problem['msg']}"
        + ("" if problem["type"] == "missing" else f", got {_brief(problem['input'])}")
        for problem in error.errors()
    )
    return f"Invalid {name}: {'; '.join(problems)}. Nothing was done."


def _brief(value: object) -> str:
    text = dump(value).decode(errors="replace")
    return text if len(text) <= 60 else f"{text[:57]}..."


async def serve(session: AgentSession, descriptor_in: int, descriptor_out: int) -> int:
    """Serve ``session`` until standard input closes or a signal ends the process; returns the exit status."""
    loop = asyncio.get_running_loop()
    writer = FrameWriter(descriptor_out)
    server = RpcServer(session, writer)
    session.subscribe(writer.send)
    status: asyncio.Future[int] = loop.create_future()

    def end(code: int) -> None:
        if not status.done():
            status.set_result(code)

    async def read() -> None:
        async for line in read_lines(descriptor_in):
            server.take(line)
            if writer.far_behind:
                await writer.ready()
        end(0)

    on_signals(end)
    reading = asyncio.create_task(read())
    preloading = loop.call_later(_IDLE_SECONDS, preload, session)
    code = await status
    reading.cancel()
    preloading.cancel()
    try:
        async with asyncio.timeout(_BYE_SECONDS):
            await server.shut_down()
    except TimeoutError:
        complain("a run did not end in time and was left")
    session.close()
    await writer.close(_BYE_SECONDS)
    return code
