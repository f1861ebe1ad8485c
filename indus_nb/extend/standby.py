"""The hooks of a session that has no extensions, in a program where none can be defined while it runs.

What this module promises: the extensions are loaded at the start of the session, or of another one in its place, that
finds any, and before the first tool call that needs approval. Until then their modules, which take
longer to import than the session itself, are not imported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from indus_nb.base.messages import ToolCall
from indus_nb.base.wire import JsonObject
from indus_nb.core.loop import Verdict
from indus_nb.core.session.hooks import SessionHooks, StartReason
from indus_nb.core.session.session import AgentSession
from indus_nb.core.storage.entries import Entry


class Standby(SessionHooks):
    """Leaves everything as it is until there is something to load, and is replaced then.

    Args:
        needed: whether there is anything to load by now.
    """

    def __init__(self, session: AgentSession, needed: Callable[[], bool], make: Callable[[], SessionHooks]) -> None:
        self._session = session
        self._needed = needed
        self._make = make
        self._loading = asyncio.Lock()
        self._made: SessionHooks | None = None

    async def _replace(self, reason: StartReason, previous: Path | None = None) -> SessionHooks:
        """Return the hooks that replace these from now on; calls of tools may come here side by side."""
        async with self._loading:
            if self._made is None:
                made = self._session.state.hooks = self._make()
                try:
                    await made.started(reason, previous)
                except BaseException:
                    self._session.state.hooks = self  # half loaded they would ask for no approval
                    raise
                self._made = made
        return self._made

    async def started(self, reason: StartReason, previous: Path | None = None) -> None:
        if self._needed():
            await self._replace(reason, previous)

    async def reload(self) -> None:
        await self.started("reload")

    async def tool_call(self, call: ToolCall, arguments: JsonObject) -> Verdict:
        if self._session.settings.approve_now == "never" and self._made is None:
            return Verdict()
        return await (await self._replace("startup")).tool_call(call, arguments)  # a run keeps its hooks to its end

    async def branched(
        self, new_leaf_id: str | None, old_leaf_id: str | None, summary: Entry | None, *, by_hook: bool
    ) -> None:
        if self._needed():  # stream rules are read again with every change of branch
            made = await self._replace("startup")
            await made.branched(new_leaf_id, old_leaf_id, summary, by_hook=by_hook)
