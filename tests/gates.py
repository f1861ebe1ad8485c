"""A gate for tests of tools that find out themselves what a call does: it records what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from indus_nb.safety.effects import Effect
from indus_nb.tools import ToolError

REFUSED = "The user does not want this."


@dataclass
class Asked:
    """One question: what it was about, and whether it could have been allowed for good."""

    effects: list[Effect]
    outcome: str
    holds: bool
    with_trial: bool

    @property
    def words(self) -> list[str]:
        """Its effects, in words."""
        return [effect.words for effect in self.effects]


@dataclass
class RecordingGate:
    """Answers each question in the same way.

    ``allows`` says which effects need no question; ``answer`` is what the user says. It is no where there is nothing to
    wait for.
    """

    readable: Sequence[Path] = ()
    looks_only: bool = False
    can_ask: bool = True
    allows: Callable[[Effect], bool] = lambda effect: False
    answer: Literal["run", "wait", "no"] = "no"
    asked: list[Asked] = field(default_factory=list[Asked])

    async def covers(self, effects: Sequence[Effect]) -> bool:
        """Return whether all of these need no question."""
        return all(map(self.allows, effects))

    async def ask(
        self,
        effects: Sequence[Effect],
        *,
        question: str = "",
        outcome: str = "",
        holds: bool = False,
        trial: asyncio.Future[Any] | None = None,
    ) -> Literal["run", "wait"]:
        """Record the question, and answer it."""
        self.asked.append(Asked([*effects], outcome, holds, trial is not None))
        if self.answer == "no" or (self.answer == "wait" and trial is None):
            raise ToolError(REFUSED)
        if trial is not None and self.answer == "wait":
            await trial
        return self.answer
