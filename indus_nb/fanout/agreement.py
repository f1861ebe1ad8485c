"""Answers beside labels: how often both are the same, beyond chance too, and where they are not."""

from __future__ import annotations

import html
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from indus_nb.base import textcut
from indus_nb.fanout.words import rows_of

_MOST_KINDS = 20
_MOST_NAMED = 10
_MAX_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Agreement:
    """How answers and labels agree, over the rows that have both.

    Attributes:
        rows: How many rows have an answer and a label.
        agreed: How many of these have the same.
        kappa: Cohen's kappa: 1 if all are the same, 0 if no more are than by chance; ``None`` where chance alone makes
            all the same, or there is no row.
        confusion: How often each label met each answer, by both as texts.
        differing: The numbers of the rows that differ, from 0.
        left_out: How many other rows there are, which have no answer or no label.
        named: The rows that differ, as the index of their frame of pandas calls them; empty where that is unknown.
    """

    rows: int
    agreed: int
    kappa: float | None
    confusion: dict[tuple[str, str], int]
    differing: tuple[int, ...]
    left_out: int = 0
    named: tuple[str, ...] = ()

    def __str__(self) -> str:
        share = f" ({self.agreed / self.rows:.0%})" if self.rows else ""
        kappa = "" if self.kappa is None else f", Cohen's kappa {self.kappa:.2f}"
        found = f"{self.agreed:,} of {rows_of(self.rows)} agree{share}{kappa}"
        if self.differing:
            first = ", ".join((self.named or tuple(map(str, self.differing)))[:_MOST_NAMED])
            more = len(self.differing) - _MOST_NAMED
            where = first if more <= 0 else f"{first} and {more:,} more"
            found += f"; row {where} differs" if len(self.differing) == 1 else f"; rows {where} differ"
        if self.left_out:
            found += f"; {rows_of(self.left_out)} without an answer or a label left out"
        return found

    def _repr_html_(self) -> str:
        """Return a table of labels by answers for notebooks."""
        labels, answers = (dict.fromkeys(sorted(pair[side] for pair in self.confusion)) for side in (0, 1))
        if max(len(labels), len(answers)) > _MOST_KINDS:
            return f"<p>{html.escape(str(self))}</p>"
        head = "<th>label / answer</th>" + "".join(f"<th>{_cell(answer)}</th>" for answer in answers)
        body = "".join(
            f"<tr><th>{_cell(label)}</th>"
            + "".join(f"<td>{self.confusion.get((label, answer), 0) or ''}</td>" for answer in answers)
            + "</tr>"
            for label in labels
        )
        return f"<p>{html.escape(str(self))}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def agreement(answers: Sequence[Any], labels: Sequence[Any]) -> Agreement:
    """Compare answers with labels, both as JSON values; ``None`` is neither.

    >>> agreement(["a", "b", "a", None], ["a", "a", "a", "b"]).kappa
    0.0

    Args:
        answers: The answer of each row.
        labels: The label of each, as many.
    """
    pairs = {
        number: (_text(label), _text(answer))
        for number, (answer, label) in enumerate(zip(answers, labels, strict=True))
        if answer is not None and label is not None
    }
    differing = tuple(number for number, (label, answer) in pairs.items() if label != answer)
    rows, agreed = len(pairs), len(pairs) - len(differing)
    of_labels, of_answers = (Counter(pair[side] for pair in pairs.values()) for side in (0, 1))
    by_chance = sum(of_labels[kind] * of_answers[kind] for kind in of_labels) / rows**2 if rows else 1.0
    kappa = None if by_chance == 1 else (agreed / rows - by_chance) / (1 - by_chance)
    return Agreement(rows, agreed, kappa, dict(Counter(pairs.values())), differing, len(answers) - rows)


def _text(value: Any) -> str:
    """Return a value as a text that is the same for equal values: a column of integers with gaps holds floats."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


def _cell(text: str) -> str:
    return html.escape(textcut.one_line(text, _MAX_CHARACTERS))
