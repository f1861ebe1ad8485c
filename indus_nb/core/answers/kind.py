"""A kind of answer, as the others of this room know it, and what is wrong with a value that is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from indus_nb.base import textcut
from indus_nb.base.wire import JsonObject

FRAME = "frame"
"""The word that asks for a data frame of pandas."""
MAX_PROBLEM_CHARACTERS = 400
_MAX_PROBLEMS = 20


class InvalidValueError(ValueError):
    """A value is not of the type that was asked for; ``problems`` says what is wrong with it, a sentence each."""

    def __init__(self, problems: Sequence[str]) -> None:
        shown = [textcut.one_line(problem, MAX_PROBLEM_CHARACTERS) for problem in problems[:_MAX_PROBLEMS]]
        if len(problems) > _MAX_PROBLEMS:
            shown.append(f"and {len(problems) - _MAX_PROBLEMS} more")
        self.problems: tuple[str, ...] = tuple(shown)
        super().__init__("\n".join(f"- {problem}" for problem in shown))


@runtime_checkable
class AnswerKind(Protocol):
    """A type of answers."""

    @property
    def name(self) -> str:
        """Return the name used in sentences."""
        ...

    @property
    def schema(self) -> JsonObject:
        """Return the JSON schema that the model is shown."""
        ...

    def read(self, value: Any) -> Any:
        """Make the answer of what the model gave, as JSON values; raises ``InvalidValueError``."""
        ...

    def to_json(self, value: Any) -> Any:
        """Return an answer as JSON values."""
        ...
