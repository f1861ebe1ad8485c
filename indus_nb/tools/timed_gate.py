"""The gate of a call that is timed: what the user needs for an answer does not count, unless a trial goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from indus_nb.safety.effects import Effect
from indus_nb.tools.tool import CallGate


@dataclass(frozen=True, slots=True)
class TimedGate:
    """A ``CallGate`` whose questions are asked within a context.

    Attributes:
        gate: Decides.
        asking: Returns the context of a question, by whether a trial goes on meanwhile.
    """

    gate: CallGate
    asking: Callable[[bool], AbstractContextManager[None]]

    @property
    def readable(self) -> Sequence[Path]:
        """See ``CallGate``."""
        return self.gate.readable

    @property
    def looks_only(self) -> bool:
        """See ``CallGate``."""
        return self.gate.looks_only

    @property
    def can_ask(self) -> bool:
        """See ``CallGate``."""
        return self.gate.can_ask

    @property
    def found(self) -> Sequence[Effect]:
        """See ``CallGate``."""
        return self.gate.found

    async def covers(self, effects: Sequence[Effect]) -> bool:
        """See ``CallGate``."""
        return await self.gate.covers(effects)

    async def ask(
        self,
        effects: Sequence[Effect],
        *,
        question: str = "",
        outcome: str = "",
        holds: bool = False,
        trial: asyncio.Future[Any] | None = None,
    ) -> Literal["run", "wait"]:
        """See ``CallGate``."""
        with self.asking(trial is not None):
            return await self.gate.ask(effects, question=question, outcome=outcome, holds=holds, trial=trial)
