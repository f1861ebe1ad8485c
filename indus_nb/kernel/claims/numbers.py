"""Numbers that a text holds: in an answer as people write them, in outputs as code prints them.

What this module promises:

- Code, addresses, tags, numbers of headings, lists and versions, and names with digits in them (``Q3``, ``float64``)
  are no numbers.
- What can be read in two ways is: ``1,234`` is a thousand to some readers, one and a bit to others.
- The time is linear in the text, however hostile it is; behind ``MAX_CHARACTERS`` and ``MAX_NUMBERS`` nothing is read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain, islice
from typing import NamedTuple

from indus_nb.kernel.claims.dates import Day, dates_in
from indus_nb.kernel.claims.prose import blanked, prose_of

MAX_CHARACTERS = 100_000
"""How much of an answer is read."""
MAX_NUMBERS = 500
"""How many numbers of an answer are read."""
_MAX_DIGITS = 40
_NARROW = "\u00a0\u2009\u202f"

_EXPONENT = r"(?:[eE][-+]?[0-9]{1,2}(?![\w.]))?"
_MINUS = frozenset("-\u2212")
_DIGITS = rf"(?:[0-9]+(?:(?:[.,'\u2019_]|[%s](?=[0-9]{{3}}(?![0-9])))[0-9]+)*|\.[0-9]+){_EXPONENT}"
_SIGN = r"(?:(?<![\w)\]%.,])[-+\u2212])?"
_IN_PROSE = re.compile(rf"(?<![\w.])(?<![^\W\d_][-/])(?P<sign>{_SIGN})(?P<digits>(?>{_DIGITS % (' ' + _NARROW)}))(?!_)")
_IN_OUTPUT = re.compile(
    rf"(?<![\w.])(?P<sign>{_SIGN})(?P<digits>(?>[0-9]{{1,3}}(?: [0-9]{{3}})+,[0-9]+|{_DIGITS % _NARROW}))"
    r"(?!_|\w{4}|[^\W\d_]{1,3}[\d_])"
)
_GROUPED = re.compile(rf"[1-9][0-9]{{0,2}}(?:([,.'\u2019_ {_NARROW}])[0-9]{{3}})(?:\1[0-9]{{3}})*")
_GROUPS = re.compile(rf"[,'\u2019_ {_NARROW}]")

_SCALES = {
    1e3: ("k", "thousand", "tausend", "tsd", "mille"),
    1e6: ("m", "mn", "mio", "million", "millions", "millionen"),
    1e9: ("b", "bn", "mrd", "billion", "billions", "milliarde", "milliarden", "milliard", "milliards"),
}
_SCALE = {word: scale for scale, words in _SCALES.items() for word in words}
_PERCENT = frozenset({"%", "percent", "prozent", "pct", "pp", "percentage", "prozentpunkte"})
_TIMES = frozenset({"x", "\u00d7", "times", "fold", "mal", "fois"})
_ORDINAL = frozenset({"st", "nd", "rd", "th"})
_MONEY = "€$£¥"
_BEHIND = re.compile(
    rf"(?P<gap>[ {_NARROW}-]?)(?P<word>per cent\b|pour cent\b|[^\W\d_]{{1,14}}(?!\w)|[%\u00d7{_MONEY}])"
)
_HEDGE = re.compile(
    rf"(?:[~≈]|\b(?:about|around|roughly|approximately|approx\.?|nearly|almost|over|above|under|below|some|circa|ca\."
    rf"|than|etwa|rund|knapp|über|gut|environ))\s?[{_MONEY}]?$",
    re.IGNORECASE,
)
_RANK_BEFORE = re.compile(r"\b(?:rank\w*|place[ds]?|position|rang|platz)\b[^.\n\d]{0,12}$", re.IGNORECASE)
_RANK_BEHIND = re.compile(r"(?:st|nd|rd|th|\.)?\s(?:place|among|highest|lowest|largest|smallest)\b", re.IGNORECASE)
_RATIO_BEFORE = re.compile(r"\b(?:ratio|factor|faktor|verhältnis)\b[^.\n\d]{0,12}$", re.IGNORECASE)
_BOUND_BEFORE = re.compile(r"(?:[<>≤≥]=?\s?|\b(?:versions?|release|python)\s)$", re.IGNORECASE)
_NAME_BEFORE = re.compile(
    r"(?:[\[#]|\b(?:top|first|last|next|rows?|index|lines?|columns?|orders?|records?|ids?|no\.|number|steps?|figures?"
    r"|tables?|pages?|chapters?|sections?|items?|parts?|weeks?|quarters?|zeilen?|lignes?)\s)$",
    re.IGNORECASE,
)
"""What makes a whole number the name or the place of something."""
_NAME_BEHIND = re.compile(
    r"-[^\W\d_]|\s?%?\s(?:ci\b|confidence|konfidenz)|(?:th|\.)?\s(?:percentile|quantile|perzentil)", re.IGNORECASE
)
_BEFORE = 40


class Form(Enum):
    """What the signs and words beside a number make of it."""

    PLAIN = "plain"
    PERCENT = "percent"
    TIMES = "times"


class Reading(NamedTuple):
    """A value that a number may have, and what one in the last of its written digits is worth."""

    value: float
    step: float


@dataclass(frozen=True, slots=True)
class Number:
    """A number or a date in an answer.

    Attributes:
        start: Where its sign or its digits begin.
        end: Where its last digit ends; a unit behind it is not in the span.
        readings: The values that it may have, without the sign; none of a date.
        form: What stands beside it.
        sign: ``-1`` or ``1`` if one is written, ``0`` if none is.
        is_claim: Whether results must have it. Years, counts below ten, bounds and numbers of rows need not.
        is_rank: Whether it says the place of something in an order.
        parts: What it may be besides: the numbers between its blanks.
        days: The dates that it may mean.
    """

    start: int
    end: int
    readings: tuple[Reading, ...] = ()
    form: Form = Form.PLAIN
    sign: int = 0
    is_claim: bool = True
    is_rank: bool = False
    parts: tuple[Number, ...] = ()
    days: tuple[Day, ...] = ()


class Printed(NamedTuple):
    """A number that an output shows: where, its value, and whether it is a percentage."""

    start: int
    value: float
    is_percent: bool


def numbers_of_answer(markdown: str) -> tuple[Number, ...]:
    """Find the numbers and dates in an answer, in the order of the text.

    >>> text = "1. Of `40` rows 1.234,5 km are 12 % more than in 2019, on 5 May 2024"
    >>> for number in numbers_of_answer(text):
    ...     print(text[number.start : number.end], [reading.value for reading in number.readings], number.is_claim)
    1.234,5 [1234.5] True
    12 [12.0] True
    2019 [2019.0] False
    5 May 2024 [] True

    Args:
        markdown: The answer, which may be hostile.
    """
    prose = prose_of(markdown[:MAX_CHARACTERS])
    found = sorted((Number(start, end, days=days) for start, end, days in dates_in(prose)), key=lambda date: date.start)
    prose = blanked(prose, ((date.start, date.end) for date in found))
    matches = list(islice(_IN_PROSE.finditer(prose), MAX_NUMBERS))
    mark = _decimal_mark(
        match["digits"] for match in matches if not _BOUND_BEFORE.search(_before(prose, match.start()))
    )
    found += (number for match in matches for number in _numbers_at(prose, match, mark))
    return tuple(sorted(found, key=lambda number: number.start)[:MAX_NUMBERS])


def numbers_of_output(text: str) -> Iterator[Printed]:
    """Find the numbers that an output shows; dates are read as numbers, too.

    >>> [printed.value for printed in numbers_of_output("np.float64(1234.5)  12.5,300  -1,234.5  4e-05 [200 rows]")]
    [1234.5, 12.5, 300.0, -1234.5, 4e-05, 200.0]
    """
    for found in _IN_OUTPUT.finditer(text):
        digits, end = found["digits"], found.end()
        sign = -1 if found["sign"] in _MINUS else 1
        is_plain = digits.replace(".", "", 1).isdecimal() and len(digits) <= _MAX_DIGITS
        values = [float(digits)] if is_plain else _values(digits)
        is_percent = text[end : end + 1] == "%" or text[end : end + 2] == " %"
        if values:
            yield Printed(found.start(), sign * values[0], is_percent)
        if "," in digits and ("." not in digits or not values):  # columns that commas divide
            for part in re.finditer(r"[^,]+", digits):
                for value in _values(part[0]):
                    yield Printed(found.start("digits") + part.start(), sign * value, is_percent)


def _values(digits: str) -> list[float]:
    """Read digits as code writes them; else as people do."""
    return [reading.value for reading in _readings(digits, ".") or _readings(digits)]


def _decimal_mark(written: Iterable[str]) -> str:
    """Return the sign before decimals, where most numbers of a text show which it is; else nothing."""
    read = [(re.findall("[.,]", digits), _readings(digits)) for digits in written]
    marks = Counter(signs[-1] for signs, readings in read if signs and len(readings) == 1 and readings[0].step < 1)
    return next((one for one, other in (".,", ",.") if marks[one] > 2 * marks[other]), "")


def _numbers_at(prose: str, found: re.Match[str], mark: str) -> Iterator[Number]:
    """Read what the digits at a place are: a number, several with blanks between them, or none."""
    start = found.start("digits")
    whole = _number(prose, (found.start(), start, found.end()), mark)
    parts: tuple[Number, ...] = ()
    if " " in found["digits"]:
        spans = [(start + piece.start(), start + piece.end()) for piece in re.finditer("[^ ]+", found["digits"])]
        parts = tuple(part for at, end in spans if (part := _number(prose, (at, at, end), mark)))
    if whole is not None:
        yield replace(whole, parts=parts)
    else:
        yield from parts


def _number(prose: str, places: tuple[int, int, int], mark: str) -> Number | None:
    """Read a number with what stands beside it; nothing where it is a name, a version or no number at all."""
    start, digits_at, end = places
    digits, before = prose[digits_at:end], _before(prose, start)
    readings = _readings(digits, mark) or _readings(digits)
    if not readings or re.match(r"_|\.[^\W\d_]", prose[end : end + 2]):
        return None
    behind = _BEHIND.match(prose, end)
    gap, word = (behind["gap"], behind["word"].lower()) if behind else ("", "")
    if not gap and ((word and len(word) > 4 and word not in _SCALE) or (not word and prose[end : end + 1].isalpha())):
        return None
    form = Form.PERCENT if word in _PERCENT or word in ("per cent", "pour cent") else Form.PLAIN
    if word in _TIMES or _RATIO_BEFORE.search(before):
        form = Form.TIMES
    is_money = not {word, before.rstrip()[-1:]}.isdisjoint(_MONEY)
    is_hedged = bool(_HEDGE.search(before))
    scale = _SCALE.get(word, 1.0) if gap != "-" and (not gap or word not in "kmb" or is_money) else 1.0
    if scale > 1:
        readings = tuple(chain((Reading(value * scale, step * scale) for value, step in readings), readings))
    is_rank = digits.isdecimal() and bool(_RANK_BEFORE.search(before) or _RANK_BEHIND.match(prose, end))
    is_bare = digits.isdecimal() and not (form is Form.PERCENT or is_money or scale > 1)
    is_small = is_bare and len(digits) == 1
    is_year = is_bare and len(digits) == 4 and "1900" <= digits <= "2100" and not is_hedged
    is_name = bool(
        word in _ORDINAL
        or (is_bare and _NAME_BEFORE.search(before))
        or _BOUND_BEFORE.search(before)
        or _NAME_BEHIND.match(prose, end)
    )
    return Number(
        start,
        end,
        tuple(Reading(value, _hedged(digits, step) if is_hedged else step) for value, step in readings),
        form,
        {"": 0, "+": 1}.get(prose[start:digits_at], -1),
        is_claim=is_rank or not (is_small or is_year or is_name),
        is_rank=is_rank,
    )


def _before(prose: str, at: int) -> str:
    return prose[max(0, at - _BEFORE) : at]


def _hedged(digits: str, step: float) -> float:
    """Return what the last digit that is no zero is worth: ``about 1,200`` is rounded to hundreds."""
    whole = _GROUPS.sub("", digits)
    zeros = len(whole) - len(whole.rstrip("0")) if whole.isdecimal() else 0
    return step * 10**zeros if zeros < len(whole) - 1 else step


def _readings(digits: str, mark: str = "") -> tuple[Reading, ...]:
    """Read digits with points, commas and blanks; nothing if they are no number.

    >>> [[reading.value for reading in _readings(text)] for text in ("1,234.5", "1 234,50", "1,234", "1.2.3")]
    [[1234.5], [1234.5], [1234.0, 1.234], []]
    >>> _readings("1,234", ","), _readings("1,234", ".")
    ((Reading(value=1.234, step=0.001),), (Reading(value=1234.0, step=1.0),))

    Args:
        mark: The sign before decimals, if it is known.
    """
    if len(digits) > _MAX_DIGITS:
        return ()
    mantissa, _, exponent = digits.lower().partition("e")
    power = int(exponent or 0)
    grouped = _GROUPED.fullmatch(mantissa)
    found: list[Reading] = []
    if mantissa.isdecimal() or (grouped and (grouped[1] != mark or mantissa.count(mark) > 1)):
        found.append(_reading(mantissa, "", power))
    for sign in mark or ".,":
        whole, _, decimals = mantissa.rpartition(sign)
        if decimals.isdecimal() and sign in mantissa and (not whole or whole.isdecimal() or _is_grouped(whole, sign)):
            found.append(_reading(whole, decimals, power))
    return tuple(found)


def _is_grouped(whole: str, mark: str) -> bool:
    return mark not in whole and _GROUPED.fullmatch(whole) is not None


def _reading(whole: str, decimals: str, power: int) -> Reading:
    digits = re.sub(r"[^0-9]", "", whole)
    return Reading(float(f"{digits}.{decimals or 0}e{power}"), float(f"1e{power - len(decimals)}"))
