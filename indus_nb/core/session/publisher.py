"""Events on their way out of a session: to extensions, the session file and subscribers, in that order.

What this module promises:

- Every event is dispatched to the hooks first, a finished message is then saved, and then the event is published to the
  subscribers. All of them see the same object.
- A subscriber that returns an awaitable is waited for (backpressure); one that raises is logged and skipped.
- Every entry appended to the watched store is announced by one ``entry_added``: in the order of the file, and after
  the event that caused it, which is the event emitted in the same step (without an ``await`` in between). An entry
  without such an event is announced in the next step of the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from indus_nb.base.events import (
    AgentSettled,
    EntryAdded,
    MessageEnd,
    SessionEvent,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from indus_nb.base.messages import ToolCall, ToolResultMessage
from indus_nb.core.session.recorder import Recorder
from indus_nb.core.session.state import SessionState
from indus_nb.core.storage.entries import Entry
from indus_nb.core.storage.store import SessionStore

Listener: TypeAlias = Callable[[SessionEvent], Awaitable[None] | None]

_log = logging.getLogger("indus_nb")


class _Phase(Enum):
    OPEN = "open"
    ANNOUNCING = "announcing"
    """Entries are being announced; what is added meanwhile goes along."""
    CLOSED = "closed"


@dataclass(slots=True)
class _Announcement:
    """Entry to announce; ``held`` while the event that caused it is still on its way."""

    event: EntryAdded
    held: bool = False


class Publisher:
    """Sends the events of one session."""

    def __init__(self, state: SessionState, recorder: Recorder) -> None:
        self._state = state
        self._recorder = recorder
        self._listeners: tuple[Listener, ...] = ()
        self._calls: dict[str, dict[str, SessionEvent]] = {}
        """By the ids of calls without a stored result: the last event of each kind."""
        self._on_close: list[Callable[[], None]] = []
        self._added: deque[_Announcement] = deque()
        self._phase = _Phase.OPEN
        self._task: asyncio.Task[None] | None = None

    @property
    def listeners(self) -> Sequence[Listener]:
        """Return the subscribers."""
        return self._listeners

    @property
    def open_calls(self) -> Sequence[SessionEvent]:
        """Return the events of calls that have begun and whose results are not stored: the last one of each kind."""
        return [event for events in self._calls.values() for event in events.values()]

    def subscribe(self, listener: Listener, on_close: Callable[[], None] = lambda: None) -> Callable[[], None]:
        """Call ``listener`` with every event, in order.

        Args:
            listener: called on the session's event loop; an awaitable that it returns is waited for.
            on_close: called once, when the session is closed, in the thread that closes it; must not raise.
        """
        self._listeners = (*self._listeners, listener)
        self._on_close.append(on_close)

        def unsubscribe() -> None:
            if listener in self._listeners:
                at = self._listeners.index(listener)
                self._listeners = self._listeners[:at] + self._listeners[at + 1 :]
                self._on_close.remove(on_close)

        return unsubscribe

    def watch(self, store: SessionStore) -> None:
        """Announce every entry that is appended to ``store`` from now on, and none of another store any more."""
        self._added.clear()
        store.on_added = self._note

    def close(self) -> None:
        """Announce no more entries, and notify the subscribers."""
        if self._phase is _Phase.CLOSED:
            return
        self._phase = _Phase.CLOSED
        self._added.clear()
        self._state.store.on_added = lambda _: None
        for notify in tuple(self._on_close):
            notify()

    async def emit(self, event: SessionEvent, *, before_subscribers: Callable[[], None] = lambda: None) -> None:
        """Dispatch an event to the hooks, save it, publish it, and announce the entries that it caused.

        Args:
            before_subscribers: called in the step in which the first subscriber gets it.
        """
        caused = self._hold() if self._added else []
        try:
            await self._state.hooks.event(event)
            problem = self._recorder.record(event.message) if isinstance(event, MessageEnd) else None
            if self._added:
                caused += self._hold()
            before_subscribers()
            await self._publish(event)
        finally:
            for each in caused:
                each.held = False
        if self._added:
            await self.announce()
        if problem is not None:
            if not self._listeners:
                _log.warning("%s", problem.error)
            await self.emit(problem)

    async def announce(self) -> None:
        """Announce waiting entries, unless that is being done already."""
        if self._phase is not _Phase.OPEN:
            return
        self._phase = _Phase.ANNOUNCING
        try:
            while self._added and not self._added[0].held:
                event = self._added.popleft().event
                await self._state.hooks.event(event)
                await self._publish(event)
        finally:
            if self._phase is _Phase.ANNOUNCING:
                self._phase = _Phase.OPEN

    def _hold(self) -> list[_Announcement]:
        held = [each for each in tuple(self._added) if not each.held]
        for each in held:
            each.held = True
        return held

    def _note(self, entry: Entry) -> None:
        if self._phase is _Phase.CLOSED:
            return
        event = EntryAdded(entry_id=entry.id, parent_id=entry.parent_id, entry_type=entry.type)
        self._added.append(_Announcement(event))
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # without a loop, and in a tool's thread, it goes out with the next event
        loop.call_soon(self._announce_soon)

    def _announce_soon(self) -> None:
        """Announce entries that no event of the same step has announced."""
        if self._phase is _Phase.OPEN and self._added and not self._added[0].held:
            self._task = asyncio.get_running_loop().create_task(self.announce(), name="indus_nb entries")

    async def _publish(self, event: SessionEvent) -> None:
        self._note_call(event)
        for listener in self._listeners:
            try:
                waiting = listener(event)
                if waiting is not None:
                    await waiting
            except Exception:  # noqa: BLE001 - one subscriber's defect must end neither the run nor the others' view of it
                _log.exception("A subscriber failed on %s", event.type)

    def _note_call(self, event: SessionEvent) -> None:
        match event:
            case ToolExecutionEnd() if not self._is_in_answer(event.tool_call_id):
                self._calls.pop(event.tool_call_id, None)  # of another program, or of code: no result will be stored
            case ToolExecutionStart() | ToolExecutionUpdate() | ToolExecutionEnd():
                self._calls.setdefault(event.tool_call_id, {})[event.type] = event
            case MessageEnd(message=ToolResultMessage() as result):
                self._calls.pop(result.tool_call_id, None)
            case AgentSettled():
                self._calls.clear()
            case _:
                pass

    def _is_in_answer(self, call_id: str) -> bool:
        answer = self._state.last_answer
        return answer is not None and any(isinstance(part, ToolCall) and part.id == call_id for part in answer.content)
