"""Asks the user about the project that a session works in, and has what it brings used after a yes.

What this module promises: a project is asked about once in a session, when a host is there to answer; until the
answer is yes nothing of it is used. A yes takes effect before the next prompt. Where the front end must not be held up
(``in_background``), prompts that come before the answer go without the project; one that comes behind it waits until
the project is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from indus_nb.base.errors import UsageError
from indus_nb.core.session.dialogs import Ui
from indus_nb.core.session.state import SessionState
from indus_nb.core.session.turns import Activity, Turns

if TYPE_CHECKING:
    from indus_nb.core.resources.inputs import Decision
    from indus_nb.core.resources.projects import Project
    from indus_nb.core.resources.trust import Trust


async def _nothing() -> None:
    pass


class Trusting:
    """The question about a session's project.

    Args:
        ui: where the user is asked.
        turns: the state machine; using what was ignored until then is an activity.
    """

    def __init__(self, state: SessionState, ui: Ui, turns: Turns) -> None:
        self.in_background = False
        """``True`` if prompts do not wait for the answer, and go without the project until it comes."""
        self._state = state
        self._ui = ui
        self._turns = turns
        self._trust: Trust | None = None
        self._opened_in: Path | None = None
        self._adopt: Callable[[], Awaitable[None]] = _nothing
        self._settled: set[Path] = set()
        self._deciding: asyncio.Task[bool] | None = None
        """The question that is asked in the background, until its answer is recorded."""
        self._question: str | None = None
        self._due = False
        """Flag of a project that was trusted and is not used yet."""
        self._asking = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._started = False

    def use(self, trust: Trust, opened_in: Path, adopt: Callable[[], Awaitable[None]]) -> None:
        """Ask about projects from now on.

        Args:
            adopt: Reads the settings and resources of the session anew.
        """
        self._trust, self._opened_in, self._adopt = trust, opened_in, adopt
        self._state.problems += trust.problems(self._directories)

    @property
    def project(self) -> Project | None:
        """Return the project in the working directory, as far as it has been looked at."""
        return self._trust.project(self._state.store.cwd) if self._trust is not None else None

    @property
    def trusts_project(self) -> bool:
        """Return whether nothing of the project in the working directory is ignored."""
        project = self.project
        return project is None or project.trusted

    @property
    def undecided(self) -> Project | None:
        """Return the project that the user is to be asked about."""
        return self._trust.undecided(self._directories) if self._trust is not None else None

    def question(self, project: Project) -> str:
        """Return the question to the user about a project, which the session may have chosen and not the user."""
        store = self._state.store
        ours = self._trust.project(self._opened_in) if self._trust is not None and self._opened_in is not None else None
        return project.question("" if ours is project or store.path is None else str(store.path))

    @property
    def asked_later(self) -> str | None:
        """Return the problem that the next prompt asks the user about, if a host is there to answer."""
        project = None if self._is_settled else self.undecided
        return None if project is None else project.ignored_sentence()

    @property
    def _directories(self) -> list[Path]:
        return [place for place in (self._opened_in, self._state.store.cwd) if place is not None]

    def look_again(self) -> None:
        """Ask again where something has changed."""
        self._settled.clear()

    async def settle(self, *, starting: bool = False) -> None:
        """Ask the open questions, and use the project after a yes. Called before every prompt.

        Args:
            starting: Whether extensions are not there yet.
        """
        self._started = self._started or not starting
        await self._use_what_is_due()
        if self._trust is None or self._is_settled or not self._turns.idle:
            return
        take_effect = self._adopt if starting else self._take_effect
        project = self.undecided
        if project is None:
            self._settled.update(self._directories)
        elif self.in_background:
            self._settled.update(self._directories)
            self._report()
            task = asyncio.create_task(self._ask_in_background(project), name="indus_nb trust")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif self._ui.has_host:
            async with self._asking:
                if not self._is_settled:
                    await self._ask(take_effect)
        else:
            self._report()

    async def _use_what_is_due(self) -> None:
        """Use a project that the user has trusted in the background, though the answer has only just come in."""
        if self._deciding is not None and self._question is not None and not self._ui.is_asking(self._question):
            await self._deciding
        if self._due and self._started and self._turns.idle:
            self._due = False
            await self._take_effect()

    @property
    def _is_settled(self) -> bool:
        return self._settled.issuperset(self._directories)

    async def decide(self, decision: Decision, project: Project | None = None) -> None:
        """Carry out a decision that the user made without being asked.

        Args:
            project: What it is about; without it the project in the working directory.

        Raises:
            UsageError: There is nothing to decide about.
        """
        trust = self._trust
        chosen = project or (trust.project(self._state.store.cwd, afresh=True) if trust is not None else None)
        if trust is None or chosen is None:
            raise UsageError(f"{self._state.store.cwd} brings nothing that could be trusted or ignored.")
        trust.decide(chosen, decision)
        self._forget(chosen)
        if self._started:
            self._due = True
            await self._take_effect_when_idle()
        else:
            await self._adopt()

    async def _ask(self, take_effect: Callable[[], Awaitable[None]]) -> None:
        while (project := self.undecided) is not None:
            ticket = self._turns.ticket
            if not await self._is_answered(project):
                self._report()
                if self._turns.aborted_since(ticket):
                    return  # with all else that went on: the next prompt asks again
                break
            if project.trusted:
                await take_effect()
        self._settled.update(self._directories)

    async def _is_answered(self, project: Project) -> bool:
        """Ask, and record the answer; returns whether there was one."""
        options = project.options()
        self._question = self.question(project)
        chosen = await self._ui.select(self._question, list(options))
        if chosen is None or self._trust is None:
            return False
        self._trust.decide(project, options[chosen])
        self._forget(project)
        return True

    async def _ask_in_background(self, project: Project) -> None:
        ticket = self._turns.ticket
        self._deciding = asyncio.create_task(self._is_decided(project))
        if await self._deciding:
            await self._take_effect_when_idle()
            self.look_again()  # there may be another one
        elif self._turns.aborted_since(ticket):
            self.look_again()

    async def _is_decided(self, project: Project) -> bool:
        try:
            answered = await self._is_answered(project)
            self._due |= answered and project.trusted
        finally:
            self._deciding = self._question = None
        return answered

    async def _take_effect_when_idle(self) -> None:
        while self._due:
            await self._turns.wait_until_idle()
            async with self._turns.admission():  # which settles first
                pass

    async def _take_effect(self) -> None:
        await asyncio.shield(self._turns.begin(Activity.REPLACING, self._reload()))

    async def _reload(self) -> None:
        await self._adopt()
        await self._state.hooks.reload()

    def _report(self) -> None:
        if self._trust is not None:
            known = self._state.problems
            known += [problem for problem in self._trust.problems(self._directories) if problem not in known]

    def _forget(self, project: Project) -> None:
        """Remove a project about which the user has decided from the problems."""
        ignored = project.ignored_sentence()
        self._state.problems[:] = [problem for problem in self._state.problems if problem != ignored]
        self._report()
