"""Answers about tables, made from seeds: statements among prose, with all numbers right and with a wrong one.

The answer cites numbers in one of four ways of writing (``STYLES``), the one that it is about among other right ones
and among numbers that need no result.

A wrong number is the right one with two digits exchanged, one digit changed, the point moved, some percent more or
less, or a count that is off by a few; it is in no output, neither as it is nor as a percentage. A number in the wrong
place is one that some output does show.
"""

from __future__ import annotations

import datetime as dt
import random
import re
from dataclasses import dataclass, replace

import pandas as pd

from benchmarks.traced_statements import KINDS, Case, Cited, Date, frame_of, look_around
from indus_nb.kernel.claims import Output


@dataclass(frozen=True)
class Answer:
    """An answer with the outputs of its run; ``focus`` is where the number stands that the case is about."""

    text: str
    focus: tuple[int, int]
    outputs: tuple[Output, ...]
    asked: str
    frame: pd.DataFrame


def answers(kind: str, style: str, seed: int) -> tuple[Answer, Answer, Answer] | None:
    """Make an answer with all numbers right, with a wrong one, and with one in the wrong place.

    Returns:
        The three; ``None`` if no wrong number was found that stands in no output.
    """
    rng = random.Random(f"{kind} {style} {seed}")
    case = Case(rng, frame_of(rng))
    look_around(case)
    KINDS[kind](case)
    for _ in range(rng.randint(1, 3)):
        other = Case(rng, case.frame, asked=case.asked)
        KINDS[rng.choice([each for each in KINDS if each != "filtered mean"])](other)
        case.outputs += other.outputs
        case.others.append(other.focus)
    cited = next(piece for piece in case.focus if not isinstance(piece, str))
    shown = "\n".join(case.outputs)
    tries = (cited.wrong(rng) for _ in range(100))
    wrong = next((each for each in tries if not each.stands_in(shown) and each.digits() != cited.digits()), None)
    misplaced = _misplaced(cited, shown, rng)
    if wrong is None or misplaced is None:
        return None
    outputs = tuple(Output(f"call-{place}", text) for place, text in enumerate(case.outputs))
    return tuple(  # type: ignore[return-value] - three of them
        Answer(*_written(case, each, style, random.Random(seed)), outputs, case.asked, case.frame)
        for each in (cited, wrong, misplaced)
    )


def _misplaced(cited: Cited, shown: str, rng: random.Random) -> Cited | None:
    """Return another number that is shown."""
    if isinstance(cited, Date):
        days = [each for each in re.findall(r"\d{4}-\d\d-\d\d", shown) if each != cited.day.isoformat()]
        return Date(dt.date.fromisoformat(rng.choice(days))) if days else None
    no_value = r"\d{4}-\d\d-\d\d( [\d:.]+)?|^\d+"  # a date, or the number of a row
    values = re.sub(no_value, "", shown, flags=re.MULTILINE)
    found = [float(each) for each in re.findall(r"(?<![\w.,])\d{2,}(?:\.\d+)?(?![\w.,%])", values)]
    others = [replace(cited, value=each * cited.scale) for each in found]
    others = [each for each in others if each.digits() != cited.digits() and each.stands_in(shown)]
    return rng.choice(others) if others else None


_BEGINNINGS = (
    "",
    "## 1. Results\n\n",
    "Computed with pandas 3.1.1 (Python 3.11):\n\n",
    "I looked at the data of 2023 and 2024.\n\n",
)
_ENDINGS = (
    "",
    "\n\nThe code was `frame[frame.units > 250].mean()`.",
    "\n\nLet me know if you want the top 3 regions, or a 30-day window.",
    "\n\n```python\nframe.head(12345)\n```\n",
    "\n\nSee [the notes](https://example.org/2024/notes-17.html) for 2 of the columns.",
    "\n\nThat is significant at p < 0.05.",
)


def _written(case: Case, cited: Cited, style: str, rng: random.Random) -> tuple[str, tuple[int, int]]:
    """Write an answer; returns it and where the number stands that the case is about."""
    sentences = [case.focus, *case.others]
    order = list(range(len(sentences)))
    rng.shuffle(order)
    form = rng.choice(("prose", "list", "lines"))
    text = rng.choice(_BEGINNINGS)
    focus = (0, 0)
    for number, place in enumerate(order, 1):
        text += {"prose": " " if number > 1 else "", "list": f"{number}. ", "lines": "- "}[form]
        is_first = True
        for piece in sentences[place]:
            written = piece
            if not isinstance(piece, str):
                written = (cited if place == 0 and is_first else piece).written(style, rng)
                if place == 0 and is_first:
                    focus = (len(text), len(text) + len(written))
                is_first = False
            text += str(written)
        text += "" if form == "prose" else "\n"
    return text + rng.choice(_ENDINGS), focus
