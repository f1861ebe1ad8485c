"""What a panel works with unless it is given something else: the agent's thread, gate and surroundings of a kernel.

`indus_nb.front.notebook` provides those of a notebook, so that a panel need not know what else lives in the kernel.
Elsewhere, in marimo for instance, there is a thread and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from indus_nb.kernel.run.agent_thread import AgentThread

if TYPE_CHECKING:
    from indus_nb.front.notebook.page.comm_gate import CommGate
    from indus_nb.front.notebook.panel.surroundings import Surroundings
    from indus_nb.front.notebook.taking_back import TakingBack


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a panel works with."""

    thread: AgentThread
    gate: CommGate | None = None
    surroundings: Surroundings | None = None
    undo: TakingBack | None = None


Provider: TypeAlias = Callable[[], Defaults | None]
_providers: list[Provider] = []


def provide(provider: Provider) -> None:
    """Set what is asked for the defaults."""
    _providers[:] = [provider]


def defaults() -> Defaults:
    """Return what the kernel provides, or a thread that all panels of this process share."""
    return next((given for provider in _providers if (given := provider()) is not None), None) or _alone()


@cache
def _alone() -> Defaults:
    return Defaults(AgentThread())
