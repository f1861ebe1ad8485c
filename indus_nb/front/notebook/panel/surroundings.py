"""Interface of a panel to the kernel that it lives in. A panel without it holds the conversation and no more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from indus_nb.base.messages import Attachment, Message
from indus_nb.core.session.session import AgentSession
from indus_nb.core.storage.entries import Entry
from indus_nb.kernel.claims import Show
from indus_nb.render.live import LiveLookup
from indus_nb.render.untraced import Tracing


@dataclass(frozen=True, slots=True)
class Filled:
    """A prompt with values filled in.

    Attributes:
        notes: Hints for the user about values that are missing.
        beside: Values of several lines, which are sent beside it.
    """

    text: str
    notes: Sequence[str] = ()
    beside: Sequence[Attachment] = ()


@dataclass(frozen=True, slots=True)
class PanelCommand:
    """A slash command of a panel.

    Attributes:
        whole: Whether it can be sent with nothing behind it.
    """

    description: str
    whole: bool = True


class Surroundings(Protocol):
    """A kernel, its variables and its notebook. All methods are called on the agent's thread."""

    @property
    def commands(self) -> Mapping[str, PanelCommand]:
        """Return the kernel's commands by name, which a panel has besides its own."""
        ...

    def variables(self) -> Mapping[str, str]:
        """Return the names of the user's variables, the newest last, each with the name of its class."""
        ...

    async def fill_in(self, text: str, *, literal: bool) -> Filled:
        """Fill values of variables into a prompt.

        Args:
            literal: Whether nothing in it stands for a value.

        Raises:
            UsageError: A value cannot be looked up.
        """
        ...

    def cells(self) -> Mapping[int, str]:
        """Return the code of the cells that ran last, by the numbers that they ran with."""
        ...

    async def cell(self, number: int) -> Attachment:
        """Return the cell with an execution number, with its outputs.

        Raises ``UsageError`` if there is none.
        """
        ...

    def note_session(self, session: AgentSession, /) -> str | None:
        """Record which session the notebook uses now; returns the notebook's id for its metadata."""
        ...

    def check_prompt(self, session: AgentSession, /) -> None:
        """Raise ``UsageError`` if the session must not be asked now."""
        ...

    def tracing(self, session: AgentSession, /) -> Tracing:
        """Return what looks up where the numbers of a session's answers come from."""
        ...

    def values_of(self, text: str, /) -> LiveLookup | None:
        """Return the values in a whole answer that has just ended, by its text; ``None`` where it has none."""
        ...

    def values_in(
        self, messages: Sequence[Message], newest_first: Iterable[Entry], /
    ) -> Callable[[str], LiveLookup | None]:
        """Return what returns the values in stored messages by their texts, asked in their order.

        Args:
            newest_first: The entries of their conversation, backwards.
        """
        ...

    def watch_values(self, show: Show, /) -> Callable[[], None]:
        """Have the values in answers shown that do not hold, until what this returns is called."""
        ...

    def check_values(self) -> Awaitable[None]:
        """Compute the stale values of answers again.

        Raises:
            UsageError: A cell of the user's runs.
        """
        ...

    async def carry_out(self, session: AgentSession, name: str, argument: str) -> str:
        """Run one of ``commands``."""
        ...
