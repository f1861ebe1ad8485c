"""Events on their way out of a session: to extensions, the session file and subscribers, in that order.

What this module promises:

- Every event is dispatched to the hooks first, then saved if it is to be saved, then published to the subscribers.
- A subscriber that returns an awaitable is waited for (backpressure); one that raises is logged and skipped.
- Every entry appended to the watched store is announced by one ``entry_added``: in the order of the file, and after
  the event that caused it, which is the event emitted in the same step (without an ``await`` in between). An entry
  without such an event is announced in the next step of the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from indus_nb.events import EntryAdded, SessionEvent
from indus_nb.session.hooks import SessionHooks
from indus_nb.storage.format import Entry
from indus_nb.storage.store import SessionStore

Listener: TypeAlias = Callable[[SessionEvent], Awaitable[None] | None]

_log = logging.getLogger("indus_nb")


@dataclass(slots=True)
class _Announcement:
    """An entry to announce; ``held`` while the event that caused it is still on its way."""

    event: EntryAdded
    held: bool = False


class Publisher:
    """Sends the events of one session.

    Args:
        hooks: returns the session's hooks of the moment.
    """

    def __init__(self, hooks: Callable[[], SessionHooks]) -> None:
        self._hooks = hooks
        self._listeners: list[Listener] = []
        self._added: deque[_Announcement] = deque()
        self._announcing = False
        self._closed = False
        self._task: asyncio.Task[None] | None = None

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with every event, in order; returns a function that ends the subscription."""
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    def watch(self, store: SessionStore) -> None:
        """Announce every entry that is appended to ``store`` from now on."""
        store.on_added = self._note

    def close(self) -> None:
        """Announce no more entries."""
        self._closed = True
        self._added.clear()

    async def emit(
        self,
        event: SessionEvent,
        *,
        save: Callable[[], None] = lambda: None,
        published: Callable[[], None] = lambda: None,
    ) -> None:
        """Dispatch an event to the hooks, save it, publish it, and announce the entries that it caused.

        Args:
            event: what has happened.
            save: puts into the session file what is to be saved of it; called after the hooks.
            published: called right before the subscribers.
        """
        caused = self._hold()
        try:
            await self._hooks().event(event)
            save()
            caused += self._hold()
            published()
            await self._publish(event)
        finally:
            for each in caused:
                each.held = False
        await self.announce()

    async def announce(self) -> None:
        """Announce the entries that wait for it, unless that is being done already."""
        if self._announcing:
            return
        self._announcing = True
        try:
            while self._added and not self._added[0].held:
                event = self._added.popleft().event
                await self._hooks().event(event)
                await self._publish(event)
        finally:
            self._announcing = False

    def _hold(self) -> list[_Announcement]:
        held = [each for each in self._added if not each.held]
        for each in held:
            each.held = True
        return held

    def _note(self, entry: Entry) -> None:
        if self._closed:
            return
        event = EntryAdded(entry_id=entry.id, parent_id=entry.parent_id, entry_type=entry.type)
        self._added.append(_Announcement(event))
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # without a loop, and in a tool's thread, it goes out with the next event
        loop.call_soon(self._announce_soon)

    def _announce_soon(self) -> None:
        """Announce what no event of the same step has taken along."""
        if self._added and not self._added[0].held and not self._announcing and not self._closed:
            self._task = asyncio.get_running_loop().create_task(self.announce(), name="indus_nb entries")

    async def _publish(self, event: SessionEvent) -> None:
        for listener in tuple(self._listeners):
            try:
                waiting = listener(event)
                if waiting is not None:
                    await waiting
            except Exception:  # noqa: BLE001 - one subscriber's defect must end neither the run nor the others' view of it
                _log.exception("A subscriber failed on %s", event.type)
