"""The agent's thread and the comm gate of this kernel, for a panel that is made without them.

`indus_nb.notebook` provides them, so that a panel need not know what else lives in the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from indus_nb.errors import UsageError

if TYPE_CHECKING:
    from indus_nb.notebook.kernel.agent_thread import AgentThread
    from indus_nb.notebook.page.comm_gate import CommGate

Provider: TypeAlias = "Callable[[], tuple[AgentThread, CommGate | None]]"
_providers: list[Provider] = []


def provide(provider: Provider) -> None:
    """Set what is asked for the thread and the gate."""
    _providers[:] = [provider]


def thread_and_gate() -> tuple[AgentThread, CommGate | None]:
    """Return the kernel's thread, and its gate if there is one.

    Raises ``UsageError`` outside of a notebook.
    """
    if not _providers:
        raise UsageError("A chat panel needs a notebook. Elsewhere use `%agent`, or the session itself.")
    return _providers[0]()
