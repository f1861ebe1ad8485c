"""What a panel may use of the kernel that it lives in. A panel without it holds the conversation and no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from indus_nb.base.messages import Attachment
from indus_nb.core.session.session import AgentSession


@dataclass(frozen=True, slots=True)
class Filled:
    """A prompt with values in it, and what the user is told about those that are not."""

    text: str
    notes: Sequence[str] = ()


class Surroundings(Protocol):
    """A kernel, its variables and its notebook. Everything is called on the agent's thread."""

    @property
    def commands(self) -> Mapping[str, str]:
        """What it can do besides the panel's own commands: the names, with what each does."""
        ...

    def variables(self) -> Mapping[str, str]:
        """The names of the user's variables, the newest last, each with the name of its class."""
        ...

    async def fill_in(self, text: str, *, literal: bool) -> Filled:
        """Put values of variables into a prompt.

        Args:
            literal: Whether nothing in it stands for a value.

        Raises:
            UsageError: A value cannot be looked up.
        """
        ...

    async def cell(self, number: int) -> Attachment:
        """Return the cell that ran with that number, with its outputs.

        Raises ``UsageError`` if there is none.
        """
        ...

    async def carry_out(self, session: AgentSession, name: str, argument: str) -> str:
        """Carry out one of ``commands``."""
        ...
