"""Dates that a text holds, however they are written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from indus_nb.kernel.claims.prose import blanked

_MONTHS = (
    "january jan januar janvier janv",
    "february feb februar février févr",
    "march mar märz mär mars",
    "april apr avril avr",
    "may mai",
    "june jun juni juin",
    "july jul juli juillet juil",
    "august aug août",
    "september sept sep septembre",
    "october oct oktober okt octobre",
    "november nov novembre",
    "december dec dezember dez décembre déc",
)
_NUMBERS = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
_MONTH = r"(?P<month>[^\W\d_]{3,9})\b\.?"
_YEAR = r"(?P<year>[12][0-9]{3})"
_DAY = r"(?P<day>[0-3]?[0-9])"
_BEFORE, _BEHIND = r"(?<![\w./-])", r"(?![\w/-]|[.:][0-9])"
_FORMS = tuple(
    re.compile(f"{_BEFORE}{form}{_BEHIND}")
    for form in (
        rf"{_YEAR}-(?P<month>[01][0-9])(?:-{_DAY}(?:[T ][0-2][0-9]:[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{{1,9}})?)?)?)?",
        rf"{_DAY}(?:st|nd|rd|th|\.)?[ \u00a0-](?:of )?{_MONTH}(?:,?[ \u00a0-]{_YEAR})?",
        rf"{_MONTH}[ \u00a0](?:{_DAY}(?:st|nd|rd|th)?(?:,?[ \u00a0]{_YEAR})?|(?P<alone>[12][0-9]{{3}}))",
        rf"(?P<first>[0-3]?[0-9])(?P<mark>[./])(?P<second>[0-3]?[0-9])(?P=mark){_YEAR}",
    )
)


class Day(NamedTuple):
    """A date, or what is written of one."""

    year: int | None
    month: int
    day: int | None


class Dated(NamedTuple):
    """A place in a text, and the dates that it may mean."""

    start: int
    end: int
    days: tuple[Day, ...]


def dates_in(text: str) -> Iterator[Dated]:
    """Find the dates in a text, form after form.

    >>> [tuple(day) for dated in dates_in("from 2024-03-05 to 6. März 2024 or 4/7/2024") for day in dated.days]
    [(2024, 3, 5), (2024, 3, 6), (2024, 7, 4), (2024, 4, 7)]
    """
    for form in _FORMS:
        taken: list[tuple[int, int]] = []
        for found in form.finditer(text):
            days = tuple(day for day in _days(found.groupdict()) if 1 <= day.month <= 12 and 1 <= (day.day or 1) <= 31)
            if days:
                taken.append(found.span())
                yield Dated(*found.span(), days)
        text = blanked(text, taken)


def _days(parts: dict[str, str | None]) -> Iterator[Day]:
    """Return what the parts of a date may mean; its month may be none."""
    year = _whole(parts.get("year") or parts.get("alone"))
    first, second = (_whole(parts.get(name)) for name in ("first", "second"))
    if first is not None and second is not None:
        yield Day(year, second, first)
        if parts["mark"] == "/" and second != first:
            yield Day(year, first, second)
        return
    month = parts["month"] or ""
    number = int(month) if month.isdecimal() else _NUMBERS.get(month.lower(), 0)
    if year is not None or month[:1].isupper():  # "may" is a word, too
        yield Day(year, number, _whole(parts.get("day")))


def _whole(digits: str | None) -> int | None:
    return int(digits) if digits else None
