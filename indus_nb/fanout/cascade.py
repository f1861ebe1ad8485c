"""A cheap model that is asked first, and when its answer is taken.

What this module promises: whether an answer is taken depends on what the cheap model gave for this row alone. A
function of the user's is asked once about an answer; one that fails takes nothing, and its row pays for nothing more.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from indus_nb.base import textcut
from indus_nb.base.errors import UsageError
from indus_nb.base.wire import JsonObject, from_json
from indus_nb.core.answers import AnswerKind, InvalidValueError
from indus_nb.fanout.results import CascadeReport, RowAnswer

Sure: TypeAlias = float | Literal["twice"] | Callable[[Any], object]
SURE = 0.9
"""The least probability that the cheap model gives for an answer that is taken, unless another is asked for."""
TWICE = "twice"
_ANSWER, _PROBABILITY = "answer", "probability"
_TO_DEFINITIONS = ("#/$defs/", "#/definitions/")
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
    asked_kind: AnswerKind | None = field(init=False)
    """What the cheap model is asked for: the answer, with its probability where that decides."""

    def __post_init__(self) -> None:
        is_number = isinstance(self.sure, int | float) and not isinstance(self.sure, bool)
        if not ((is_number and 0 <= cast("float", self.sure) <= 1) or self.sure == TWICE or callable(self.sure)):
            raise UsageError('sure is a number from 0 to 1, "twice", or a function of the answer.')
        if inspect.iscoroutinefunction(self.sure):
            raise UsageError("sure is a plain function: what an async one returns is not known at once.")
        object.__setattr__(self, "asked_kind", _RatedKind(self.kind) if is_number else self.kind)

    @property
    def form(self) -> tuple[bool, int]:
        """Return what decides which answers the cheap model gives: whether with a probability, and how many."""
        return self.asked_kind is not self.kind, self.times

    @property
    def times(self) -> int:
        """Return how many answers the cheap model gives for a row."""
        return 2 if self.sure == TWICE else 1

    def can_judge(self, tries: Sequence[RowAnswer]) -> bool:
        """Return whether all answers of the cheap model are there."""
        return len(tries) == self.times and all(each.answered for each in tries)

    def judged(self, tries: Sequence[RowAnswer]) -> RowAnswer | None:
        """Return the outcome of a row; ``None`` if the other model is to be asked.

        Args:
            tries: All answers of the cheap model; see ``can_judge``.
        """
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
        """Return what the cheap model answered at first, as JSON values; it has answered."""
        first = next(each for each in tries if each.answered)
        return first.plain[_ANSWER] if isinstance(self.asked_kind, _RatedKind) else first.plain

    def report(self, rows: Sequence[RowAnswer], cheap: str, usual: str, *, unpriced: bool = False) -> CascadeReport:
        """Count what became of rows.

        Args:
            rows: The results of all rows.
            cheap: The name of the cheap model.
            usual: The name of the other one.
            unpriced: Whether the price of one of them is unknown.
        """
        asked = [row for row in rows if row.tries]
        good = [row for row in asked if any(each.answered for each in row.tries)]
        both = [row for row in good if row.answered and not row.by_cheap]
        return CascadeReport(
            cheap,
            usual,
            rows=len(asked),
            taken=sum(row.by_cheap for row in asked),
            failed=len(asked) - len(good),
            went_on=sum(row.answered and not row.by_cheap for row in asked),
            both=len(both),
            agreed=sum(self.plain(row.tries) == row.plain for row in both),
            cheap_cost=sum(each.cost for row in asked for each in row.tries),
            usual_cost=sum(row.cost - sum(each.cost for each in row.tries) for row in asked),
            unpriced=unpriced,
        )


class _RatedKind:
    """An answer of another kind, with the probability that it is right; as a value it is a pair."""

    def __init__(self, kind: AnswerKind | None) -> None:
        self._kind = kind
        self.name = "The answer" if kind is None else kind.name
        inner: JsonObject = {"type": "string"} if kind is None else dict(kind.schema)
        definitions = {name: inner.pop(name) for name in ("$defs", "definitions", "$schema") if name in inner}
        if other := next(
            (each for each in _references([inner, definitions]) if not each.startswith(_TO_DEFINITIONS)), None
        ):
            raise UsageError(
                f"{self.name} refers to {textcut.one_line(other, 100)}, which is elsewhere where a probability stands "
                'beside an answer. Refer to what is in "$defs", or choose another sure.'
            )
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
        probability = _probability(given.get(_PROBABILITY))
        if _ANSWER not in given or probability is None:
            raise InvalidValueError([f"give an object with {_ANSWER} and {_PROBABILITY}, a number from 0 to 1"])
        return self._read(given[_ANSWER]), probability

    def _read(self, answer: Any) -> Any:
        if self._kind is None:
            if not isinstance(answer, str) or not answer.strip():
                raise InvalidValueError([f"{_ANSWER}: give a text that is not empty"])
            return answer
        try:
            return self._kind.read(answer)
        except InvalidValueError:
            if not isinstance(answer, str):
                raise
            with suppress(ValueError):  # models write lists and objects as a text now and then
                return self._kind.read(from_json(answer))
            raise

    def to_json(self, value: Any) -> JsonObject:
        answer, probability = cast("tuple[Any, float]", value)
        plain = answer if self._kind is None else self._kind.to_json(answer)
        return {_ANSWER: plain, _PROBABILITY: probability}


def _probability(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    with suppress(ValueError):
        return number if 0 <= (number := float(value)) <= 1 else None
    return None


def _references(schema: Any) -> Iterator[str]:
    """Yield what a schema, or a part of it, refers to."""
    if isinstance(schema, list):
        for each in cast("list[Any]", schema):
            yield from _references(each)
    if isinstance(schema, dict):
        inside = cast("JsonObject", schema)
        if isinstance(reference := inside.get("$ref"), str):
            yield reference
        for each in inside.values():
            yield from _references(each)
