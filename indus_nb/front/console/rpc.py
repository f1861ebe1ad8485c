"""RPC mode: commands come in as JSON lines, responses and events go out as JSON lines.

Every command gets exactly one response, with its ``id``. A command that waits (a prompt until it is accepted, an abort
until the session is idle) does so in a task of its own, so that none is stuck behind another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from indus_nb.base.errors import IndusError, ModelNotFoundError
from indus_nb.base.readers import InvalidFieldsError
from indus_nb.base.wire import JsonObject, dump, load_object
from indus_nb.core.session.queues import Disposition
from indus_nb.core.session.session import AgentSession
from indus_nb.front.console.frames import dialect_of
from indus_nb.front.console.stdio import FrameWriter, LineTooLongError, complain
from indus_nb.front.verbs import VERBS, Call, Encoded, Verb
from indus_nb.front.verbs.host_tools import HostTools
from indus_nb.front.verbs.verb import NULL, brief, explain

if TYPE_CHECKING:
    from indus_nb.base.events import SessionEvent
    from indus_nb.front.verbs.subagents import SubagentFrames

_log = logging.getLogger("indus_nb")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SHUTDOWN_WAIT_SECONDS = 1.0
_WITHOUT_DISPOSITION = ("prompt", "abort_and_prompt", "steer", "follow_up")
"""Commands whose responses have no data in a dialect."""


class RpcServer:
    """Server of one session, driven by lines."""

    def __init__(self, session: AgentSession, writer: FrameWriter) -> None:
        self._session = session
        self._writer = writer
        self.tasks: set[asyncio.Task[None]] = set()
        """The tasks of commands that are carried out."""
        self._unanswered: dict[asyncio.Task[None], tuple[str | int | None, str]] = {}
        self._host_tools = HostTools(lambda frame: writer.send_line(dump(frame)))
        session.subscribe(self._see)

    def _see(self, event: SessionEvent) -> None:
        if event.type.startswith(("subagent_", "session_replaced")):
            self._subagents.follow(event)

    @cached_property
    def _subagents(self) -> SubagentFrames:
        from indus_nb.front.verbs.subagents import SubagentFrames

        return SubagentFrames(self._writer.send_line)

    def handle_line(self, line: bytes | LineTooLongError) -> bool:
        """Dispatch a command; returns whether a task was started for it."""
        try:
            if isinstance(line, LineTooLongError):
                raise line
            if not line.strip():
                return False  # a blank line is no command
            frame = load_object(line.removeprefix(_BYTE_ORDER_MARK))
        except ValueError as error:
            self._respond(None, "parse", error=f"Failed to parse command: {error}")
            return False
        kind = frame.get("type")
        if kind == "extension_ui_response":
            self._session.ui.take(frame)
            return False
        if kind in ("host_tool_update", "host_tool_result"):
            self._host_tools.handle_frame(frame)
            return False
        given = frame.get("id")
        command_id = given if isinstance(given, str | int) and not isinstance(given, bool) else None
        name = kind if isinstance(kind, str) else "unknown"
        try:
            verb = _asked(frame)
        except ValueError as error:
            self._respond(command_id, name, error=str(error))
            return False
        return self._start(command_id, name, verb)

    def _start(self, command_id: str | int | None, name: str, verb: Verb) -> bool:
        task: asyncio.Task[None] | None = None

        def accept(disposition: Disposition) -> None:
            if task is not None and self._unanswered.pop(task, None) is not None:
                self._respond(command_id, name, data={"disposition": disposition})

        call = Call(
            session=self._session,
            id=command_id,
            accept=accept,
            warn=complain,
            host_tool=self._host_tools.tool,
            subagents=lambda: self._subagents,
        )
        try:
            data = verb.run(call)
        except Exception as error:  # noqa: BLE001 - see _failed
            self._failed(command_id, name, error)
            return False
        if asyncio.iscoroutine(data):
            task = asyncio.create_task(self._finish(command_id, name, data))
            self.tasks.add(task)
            self._unanswered[task] = command_id, name
            task.add_done_callback(self.tasks.discard)
        else:
            self._respond(command_id, name, data=data)
            return False
        return True

    async def _finish(self, command_id: str | int | None, name: str, work: Awaitable[Any]) -> None:
        try:
            data = await work
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - see _failed
            if self._is_to_answer():
                self._failed(command_id, name, error)
            elif isinstance(error, Exception):
                _log.error("A run broke off", exc_info=error)
        else:
            if self._is_to_answer():
                self._respond(command_id, name, data=data)

    def _is_to_answer(self) -> bool:
        """Return whether the command of this task is not answered yet; from now on it is."""
        return self._unanswered.pop(cast("asyncio.Task[None]", asyncio.current_task()), None) is not None

    def _failed(self, command_id: str | int | None, name: str, error: BaseException) -> None:
        # Also a defect of ours is answered: an id without an answer hangs the client.
        if not isinstance(error, IndusError):
            _log.error("The command %s failed", name, exc_info=error)
        text = str(error) if isinstance(error, IndusError) else f"Internal error: {type(error).__name__}: {error}"
        if isinstance(error, ModelNotFoundError):
            text = error.summary  # clients compare these words
        self._respond(command_id, name, error=text)

    def _respond(self, command_id: str | int | None, name: str, *, data: Any = None, error: str | None = None) -> None:
        dialect = dialect_of(self._writer.wire)
        if dialect is not None and name in _WITHOUT_DISPOSITION:
            data = None  # their clients do not know it
        frame: JsonObject = {} if command_id is None else {"id": command_id}
        frame |= {"type": "response", "command": name, "success": error is None}
        if error is not None:
            frame["error"] = error
        elif isinstance(data, Encoded) and not (dialect is not None and name in dialect.answers):
            self._writer.send_line(b'%b,"data":%b}' % (dump(frame)[:-1], data))
            return
        elif data is not None:
            frame["data"] = None if data is NULL else data
        try:
            if dialect is not None and frame.get("data") is not None:
                encoded = data if isinstance(data, Encoded) else dump(data)
                frame["data"] = dialect.kept(load_object(b'{"data":%b}' % encoded)["data"], dialect.answers.get(name))
            line = dump(frame)
        except Exception as defect:  # noqa: BLE001 - the id must be answered
            _log.exception("The answer to %s could not be written", name)
            failed = {"success": False, "error": f"Internal error: {type(defect).__name__}: {defect}"}
            line = dump({**{key: value for key, value in frame.items() if key != "data"}, **failed})
        self._writer.send_line(line)

    async def shut_down(self) -> None:
        """Abort what runs, and respond to all commands: also to those that do not end in time."""
        try:
            async with asyncio.timeout(_SHUTDOWN_WAIT_SECONDS):
                await self._session.abort_bash()
                await self._session.abort()
                if self.tasks:
                    await asyncio.wait(tuple(self.tasks))
        except TimeoutError:
            complain("a run did not end in time and was left")
        for command_id, name in self._unanswered.values():
            self._respond(command_id, name, error="The program was ended before this was done.")
        self._unanswered.clear()


def _asked(frame: JsonObject) -> Verb:
    """Return the verb that a command asks for; raise ``ValueError`` with what is wrong with it."""
    name, command_id = frame.get("type"), frame.get("id")
    declared = VERBS.get(name) if isinstance(name, str) else None
    if declared is None:
        raise ValueError(f"Unknown command: {name if isinstance(name, str) else brief(name)}")
    if isinstance(command_id, bool) or not isinstance(command_id, str | int | None):
        problem = f"`id`: Input should be a string or an integer, got {brief(command_id)}"
        raise ValueError(f"Invalid {name}: {problem}. Nothing was done.")
    try:
        return declared.bare() or declared.from_wire(frame)
    except InvalidFieldsError as error:
        raise ValueError(explain(str(name), error)) from error
