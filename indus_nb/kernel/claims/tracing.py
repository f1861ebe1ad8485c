"""Where the numbers of an answer come from: each is looked up in what the calls of its run have put out.

What this module promises:

- Only outputs count, not data: a value of a table that no output shows supports nothing.
- A number stands for what it was rounded from, to the digits that are written, as a share or a percentage, in thousands
  or millions; its sign, if one is written, must be the output's.
- Differences, ratios and changes are looked for between two numbers, and count only where meeting one by chance is
  rare: first of numbers that are cited beside it, then of a line or a column of one output.
- The work is bounded: so many characters of outputs are read, so many pairs tried. Where outputs hold more, nothing is
  reported as missing, for it may stand in what was not read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from indus_nb.kernel.claims.evidence import Evidence, Kind, Output, Source
from indus_nb.kernel.claims.numbers import numbers_of_answer
from indus_nb.kernel.claims.pairs import Pairs


class Place(NamedTuple):
    """A place in an output: the call that put it out, and where in its text, in characters."""

    call_id: str
    at: int


class Traced(NamedTuple):
    """A number of an answer, and where it comes from.

    Attributes:
        start: Where it begins in the answer, in characters.
        end: Where its last digit ends.
        kind: How it was found.
        places: Where it stands, or the two numbers that it is computed from; none if it is not from an output.
    """

    start: int
    end: int
    kind: Kind
    places: tuple[Place, ...] = ()


def trace(answer: str, outputs: Sequence[Output], asked: str = "") -> tuple[Traced, ...]:
    r"""Find out where each number of an answer comes from.

    >>> outputs = [Output("c1", "north  1234.56\nsouth   987.10")]
    >>> for found in trace("North has 1,234.6, south 987.1: 247.5 more, of 5,000.", outputs):
    ...     print(found.kind.value, *(place.at for place in found.places))
    rounded 7
    exact 23
    difference 7 23
    missing

    Args:
        answer: Markdown of a model, which may be hostile.
        outputs: Those of the run's calls, in their order; of several that have a number, the last counts.
        asked: The user's own words; the numbers in them are left to the user.

    Returns:
        The numbers and dates in the order of the text, without those that need no result (``Number.is_claim``).
    """
    return _traced(answer, tuple(outputs), asked)


@lru_cache(maxsize=2)
def _traced(answer: str, outputs: tuple[Output, ...], asked: str) -> tuple[Traced, ...]:
    """Trace once what is asked for both ways: what was found, and what was not."""
    numbers = numbers_of_answer(answer)
    if not numbers:
        return ()
    evidence = _read(outputs)
    found = {number: source for number in numbers if (source := evidence.find(number)) is not None}
    left = [number for number in numbers if number not in found]
    if left:
        given = Evidence([Output("", asked)])
        found |= {number: Source(Kind.ASKED) for number in left if given.find(number) is not None}
        lost = [number for number in left if number.is_claim and number not in found]
        pairs = Pairs(answer, evidence, found)
        found |= {number: source for number in lost if (source := pairs.find(number)) is not None}
    nowhere = Source(Kind.MISSING if evidence.is_whole else Kind.UNREAD)
    return tuple(
        Traced(
            number.start, number.end, source.kind, tuple(Place(outputs[c.output].call_id, c.at) for c in source.cells)
        )
        for number in numbers
        if (source := found.get(number, nowhere)) is not nowhere or number.is_claim
    )


@lru_cache(maxsize=2)
def _read(outputs: tuple[Output, ...]) -> Evidence:
    """Read outputs once for the parts of an answer."""
    return Evidence(outputs)


def untraced(answer: str, outputs: Sequence[Output], asked: str = "") -> tuple[tuple[int, int], ...]:
    """Return the spans of an answer that a view marks as "not from a result".

    >>> untraced("There are 40 rows, 17 of them empty.", [Output("c1", "40")]), untraced("It has 40 rows.", [])
    (((19, 21),), ())

    Args:
        answer: Markdown of a model.
        outputs: Those of the run's calls. Where none of them holds a number, nothing is marked.
        asked: The user's own words.

    Returns:
        Where numbers begin and end, in characters, in their order.
    """
    if not any(re.search(r"[0-9]", output.text) for output in outputs):
        return ()
    return tuple((each.start, each.end) for each in trace(answer, outputs, asked) if each.kind is Kind.MISSING)


def found(answer: str, outputs: Sequence[Output], asked: str = "") -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the numbers of an answer that calls have put out, as they are written, and the ids of these calls.

    >>> outputs = [Output("c1", "north  1234.56"), Output("c2", "south   987.10")]
    >>> found("North has 1,234.6, which is 247.5 more than 987.1, of 5,000.", outputs)
    (('1,234.6', ('c1',)), ('247.5', ('c1', 'c2')), ('987.1', ('c2',)))

    Args:
        answer: Markdown of a model.
        outputs: Those of the run's calls. An id that several of them have names none.
        asked: The user's own words.

    Returns:
        The numbers in the order of the text.
    """
    count = Counter(output.call_id for output in outputs)
    traced = (
        (answer[each.start : each.end], dict.fromkeys(place.call_id for place in each.places if place.call_id))
        for each in trace(answer, outputs, asked)
    )
    known = ((text, tuple(call_id for call_id in calls if count[call_id] == 1)) for text, calls in traced)
    return tuple((text, calls) for text, calls in known if calls)
