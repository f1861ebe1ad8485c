"""Another session in the place of this one: a new one, one from a file, or a fork.

What this module promises:

- Until the other session can be used and no extension objects, this one goes on, and the other's file is as it was.
- What is unsaved finds a place before this session is left, or it is not left.
- Prompts wait until the other session is there; then ``session_replaced`` is published once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, cast

from indus_nb.base.errors import SessionFileError, UsageError
from indus_nb.base.events import SessionReplaced
from indus_nb.base.messages import UserMessage
from indus_nb.core.session.conversation import Conversation
from indus_nb.core.session.hooks import ReplaceReason
from indus_nb.core.session.model_choice import ModelChoice
from indus_nb.core.session.publisher import Publisher
from indus_nb.core.session.queues import Queues
from indus_nb.core.session.recorder import Recorder
from indus_nb.core.session.state import SessionState
from indus_nb.core.session.toolbox import Equipment, Toolbox
from indus_nb.core.session.turns import Activity, Turns
from indus_nb.core.session.user_shell import UserShell
from indus_nb.core.storage.store import SessionStore
from indus_nb.core.storage.text import user_text

Equip: TypeAlias = Callable[[Path], Equipment]
"""Callback that returns the equipment of a working directory."""


class Stores(Protocol):
    """Source of sessions."""

    def new(self, cwd: Path, parent: str | None) -> SessionStore:
        """Make an empty store.

        Args:
            parent: The path of the session that it comes from.
        """
        ...

    def open(self, path: Path, cwd: Path) -> SessionStore:
        """Open the session in a file.

        Args:
            cwd: Where it works if the file may not decide about that.
        """
        ...


class Replacing:
    """Replaces the store of one session, and everything that belongs to it."""

    def __init__(  # noqa: PLR0913 - every part of a session has to do with its replacement
        self,
        state: SessionState,
        *,
        turns: Turns,
        publisher: Publisher,
        recorder: Recorder,
        models: ModelChoice,
        toolbox: Toolbox,
        queues: Queues,
        shell: UserShell,
        equip: Equip,
        stores: Stores,
    ) -> None:
        self._state = state
        self._turns = turns
        self._publisher = publisher
        self._recorder = recorder
        self._models = models
        self._toolbox = toolbox
        self._queues = queues
        self._shell = shell
        self._equip = equip
        self._stores = stores

    async def new_session(self, parent_session: str | None = None) -> bool:
        """Start over with an empty conversation in a file of its own.

        Returns whether no extension objected.
        """
        async with self._admitted():
            if not await self._state.hooks.before_switch("new", None):
                return False
            await self._turns.make_idle()
            await self._replace(self._stores.new(self._state.store.cwd, parent_session), "new")
        return True

    async def switch_session(self, path: Path) -> bool:
        """Go on with the session in the file at ``path``.

        Returns whether no extension objected.

        The session's own file is opened again when another program has changed it.

        Raises:
            SessionFileError: It cannot be used, or what is unsaved here found no place.
        """
        store = self._state.store
        if store.is_at(path) and store.is_current():
            return True
        async with self._admitted():
            return await (self._reopen(path) if self._state.store.is_at(path) else self._open(path))

    async def _open(self, path: Path) -> bool:
        store = self._stores.open(path, self._state.store.cwd)
        try:
            store.check_cwd()
            before = self._toolbox.equipment
            equipment = self._equip(store.cwd) if store.cwd != self._state.store.cwd else before
            if not await self._state.hooks.before_switch("resume", path):
                store.close()
                return False
            await self._turns.make_idle()
        except BaseException:
            store.close()
            raise
        self._toolbox.equipment = equipment
        try:
            await self._replace(store, "resume")
        except SessionFileError:  # what is unsaved found no place, so this session goes on
            self._toolbox.equipment = before
            store.close()
            raise
        return True

    async def _reopen(self, path: Path) -> bool:
        SessionStore.read(path)  # raises before anything has changed
        if not await self._state.hooks.before_switch("resume", path):
            return False
        await self._turns.make_idle()
        await self._replace(None, "resume")
        return True

    async def fork(self, entry_id: str, position: Literal["before", "at"] = "before") -> str | None:
        """Go on in a new session with a part of this one's conversation.

        Args:
            entry_id: where that part ends.
            position: ``before`` the user's message ``entry_id``, or ``at`` that entry, whatever it is.

        Returns:
            The text of the user's message that was left out, empty with ``at``; ``None`` when an extension objected.

        Raises:
            UsageError: There is no such message.
            SessionFileError: What is unsaved cannot be written, or the new file cannot be made.
        """
        async with self._admitted():
            store = self._state.store
            entry = next((entry for entry in store.entries if entry.id == entry_id), None)
            message = entry.message if entry is not None and entry.type == "message" else None
            if entry is None or (position == "before" and not isinstance(message, UserMessage)):
                raise UsageError(f"Invalid entry ID for forking: {entry_id} is no message of the user in this session.")
            if not await self._state.hooks.before_fork(entry_id, position):
                return None
            await self._turns.make_idle()
            self._recorder.save_all()
            leaf_id = entry.parent_id if position == "before" else entry_id
            directory = store.path.parent if store.path is not None else None
            await self._replace(store.fork(leaf_id, directory), "fork")
            return user_text(entry, for_editing=True) if position == "before" else ""

    async def clone(self) -> bool:
        """Go on in a new session with this one's conversation.

        Returns whether no extension objected.

        Raises:
            UsageError: The session is empty.
            SessionFileError: What is unsaved cannot be written, or the new file cannot be made.
        """
        if self._state.store.leaf_id is None:
            raise UsageError("There is nothing to clone yet: the session is empty.")
        self._recorder.save_all()
        return await self.fork(str(self._state.store.leaf_id), "at") is not None

    @asynccontextmanager
    async def _admitted(self) -> AsyncGenerator[None]:
        if self._turns.admitting:
            self._turns.request_abort()  # what waits for its turn would hold this up
        async with self._turns.admission():
            yield

    async def _replace(self, store: SessionStore | None, reason: ReplaceReason) -> None:
        """Go on with another session; without a ``store`` with what the session's own file holds now."""
        await asyncio.shield(self._turns.begin(Activity.REPLACING, self._go_on_with(store, reason)))

    async def _go_on_with(self, store: SessionStore | None, reason: ReplaceReason) -> None:
        state = self._state
        previous = state.store.path
        await self._shell.abort()
        if state.settings.jobs is not None:
            await state.settings.jobs.close()
        self._shell.add_held_back()
        if problem := self._recorder.rescue():  # raises before anything has changed
            state.problems.append(problem)
        await state.hooks.shutdown(reason, store.path if store is not None else previous)
        self._shell.add_held_back()
        await self._publisher.announce()
        state.store.close()
        if store is None:
            store = self._stores.open(cast("Path", previous), state.store.cwd)
        state.store = store
        state.problems += store.warnings
        stored = store.context()
        state.conversation = Conversation(stored)
        self._models.restore(stored)
        steering, follow_up = await self._queues.clear()
        self._queues.pop_for_next_prompt()
        await state.hooks.started(reason, previous)
        self._publisher.watch(store)
        file = None if store.path is None else str(store.path)
        await self._publisher.emit(
            SessionReplaced(
                reason=reason, session_id=store.session_id, session_file=file, dropped=[*steering, *follow_up] or None
            )
        )
