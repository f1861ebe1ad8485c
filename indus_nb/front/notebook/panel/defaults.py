"""Defaults of a panel: the agent's thread, the gate and the surroundings of a kernel.

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
    """Environment of a panel."""

    thread: AgentThread
    gate: CommGate | None = None
    surroundings: Surroundings | None = None
    undo: TakingBack | None = None


Provider: TypeAlias = Callable[[], Defaults | None]
_providers: list[Provider] = []


def provide(provider: Provider) -> None:
    """Register a provider of defaults."""
    _providers[:] = [provider]


def defaults() -> Defaults:
    """Return the defaults of the first provider that has any, or those of this process' shared thread."""
    return next((given for provider in _providers if (given := provider()) is not None), None) or _alone()


@cache
def _alone() -> Defaults:
    return Defaults(AgentThread())
