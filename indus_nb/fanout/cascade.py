"""A cheap model that is asked first, and when its answer is taken.

What this module promises: whether an answer is taken depends on what the cheap model gave for this row alone, so that a
row has the same answer whenever it is asked. A rule of the user's that fails takes nothing, and pays for nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from indus_nb.base.errors import UsageError
from indus_nb.base.wire import JsonObject
from indus_nb.core.answers import AnswerKind, InvalidValueError
from indus_nb.fanout.results import CascadeReport, RowAnswer

Sure: TypeAlias = float | Literal["twice"] | Callable[[Any], object]
SURE = 0.9
"""The least probability that the cheap model gives for an answer that is taken, unless another is asked for."""
TWICE = "twice"
_VALUES = ("const", "enum", "default", "examples")
"""Parts of a schema that hold values, and no schemas."""
_INSIDE = re.compile(r"#/(?!(\$defs|definitions)/)")
"""The beginning of a reference into a schema, but for its definitions."""
_ANSWER, _PROBABILITY = "answer", "probability"
_HOW_SURE = "How probable it is that this answer is right, from 0 to 1. Another reader answers where you are not sure."


@dataclass(frozen=True, slots=True)
class Cascade:
    """When the answer of a cheap model is taken.

    Args:
        kind: The type of the answers; ``None`` for texts.
        sure: A number for the least probability, which the model gives with its answer; ``"twice"`` for the same answer
            to the same question asked twice; or a function that is called with the answer, and returns whether to take
            it.

    Raises:
        UsageError: ``sure`` is none of these.
    """

    kind: AnswerKind | None
    sure: Sure = SURE

    def __post_init__(self) -> None:
        is_number = isinstance(self.sure, int | float) and not isinstance(self.sure, bool)
        if not ((is_number and 0 <= cast("float", self.sure) <= 1) or self.sure == TWICE or callable(self.sure)):
            raise UsageError('sure is a number from 0 to 1, "twice", or a function of the answer.')

    @property
    def asked_kind(self) -> AnswerKind | None:
        """Return what the cheap model is asked for: the answer, with its probability where that decides."""
        return self.kind if callable(self.sure) or self.sure == TWICE else _RatedKind(self.kind)

    @property
    def times(self) -> int:
        """Return how many answers the cheap model gives for a row."""
        return 2 if self.sure == TWICE else 1

    def judged(self, tries: Sequence[RowAnswer]) -> RowAnswer | None:
        """Return the outcome of a row whose cheap answers are there; ``None`` if the other model is to be asked.

        Args:
            tries: The answers of the cheap model, of which the last may have failed.
        """
        if len(tries) < self.times or not all(each.answered for each in tries):
            return None
        first = tries[0]
        taken = RowAnswer(first.value, session=first.session, plain=first.plain, answered=True, by_cheap=True)
        if callable(self.sure):
            try:
                return taken if self.sure(first.value) else None
            except Exception as error:  # noqa: BLE001 - of the user's
                return RowAnswer(error=f"The function of sure failed: {type(error).__name__}: {error}")
        if self.sure == TWICE:
            return taken if tries[1].plain == first.plain else None
        value, probability = cast("tuple[Any, float]", first.value)
        if probability < cast("float", self.sure):
            return None
        return RowAnswer(value, session=first.session, plain=first.plain[_ANSWER], answered=True, by_cheap=True)

    def plain(self, tries: Sequence[RowAnswer]) -> Any:
        """Return what the cheap model answered at first, as JSON values; raises ``LookupError`` without an answer."""
        first = next(each for each in tries if each.answered)
        return first.plain[_ANSWER] if isinstance(self.asked_kind, _RatedKind) else first.plain

    def report(self, rows: Sequence[RowAnswer], cheap: str, usual: str) -> CascadeReport:
        """Count what became of rows.

        Args:
            rows: The results of all rows.
            cheap: The name of the cheap model.
            usual: The name of the other one.
        """
        asked = [row for row in rows if row.tries]
        went_on = [row for row in asked if row.answered and not row.by_cheap]
        both = [row for row in went_on if any(each.answered for each in row.tries)]
        return CascadeReport(
            cheap,
            usual,
            rows=len(asked),
            taken=sum(row.by_cheap for row in asked),
            went_on=len(went_on),
            both=len(both),
            agreed=sum(self.plain(row.tries) == row.plain for row in both),
            cheap_cost=sum(each.cost for row in asked for each in row.tries),
            usual_cost=sum(row.cost - sum(each.cost for each in row.tries) for row in asked),
        )


class _RatedKind:
    """An answer of another kind, with the probability that it is right; as a value it is a pair."""

    def __init__(self, kind: AnswerKind | None) -> None:
        self._kind = kind
        self.name = "The answer" if kind is None else kind.name
        inner: JsonObject = {"type": "string"} if kind is None else _moved(kind.schema)
        definitions = {name: inner.pop(name) for name in ("$defs", "definitions", "$schema") if name in inner}
        self.schema: JsonObject = {
            "type": "object",
            "properties": {
                _ANSWER: inner,
                _PROBABILITY: {"type": "number", "minimum": 0, "maximum": 1, "description": _HOW_SURE},
            },
            "required": [_ANSWER, _PROBABILITY],
            "additionalProperties": False,
            **definitions,
        }

    def read(self, value: Any) -> tuple[Any, float]:
        given = cast("JsonObject", value) if isinstance(value, dict) else {}
        probability = given.get(_PROBABILITY)
        if _ANSWER not in given or not _is_probability(probability):
            raise InvalidValueError([f"give an object with {_ANSWER} and {_PROBABILITY}, a number from 0 to 1"])
        answer = given[_ANSWER]
        if self._kind is not None:
            return self._kind.read(answer), float(cast("float", probability))
        if not isinstance(answer, str) or not answer.strip():
            raise InvalidValueError([f"{_ANSWER}: give a text that is not empty"])
        return answer, float(cast("float", probability))

    def to_json(self, value: Any) -> JsonObject:
        answer, probability = cast("tuple[Any, float]", value)
        plain = answer if self._kind is None else self._kind.to_json(answer)
        return {_ANSWER: plain, _PROBABILITY: probability}


def _is_probability(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _moved(schema: Any) -> Any:
    """Return a schema as the one of a property: definitions stay at the top, other references follow it there."""
    if isinstance(schema, list):
        return [_moved(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    inside = cast("JsonObject", schema).items()
    moved = {name: value if name in _VALUES else _moved(value) for name, value in inside}
    reference = moved.get("$ref")
    if isinstance(reference, str) and (reference == "#" or _INSIDE.match(reference)):
        moved["$ref"] = f"#/properties/{_ANSWER}{reference[1:]}"
    return moved
