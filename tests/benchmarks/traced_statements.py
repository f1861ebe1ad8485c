"""Statements about tables, made from seeds: what calls have put out, and a sentence that cites it.

Twelve kinds (``KINDS``), each about a table of 5 to 200 rows. The calls compute with pandas and show what it shows:
values, frames, ``describe``, groups, counts, prints. Some statements are computed from two numbers that are shown, and
not shown themselves, as models do.
"""

from __future__ import annotations

import calendar
import datetime as dt
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pandas as pd

STYLES = ("1,234.5", "1.234,5", "1 234,5", "1234.5")
_BLANKS = ("\u00a0", "\u202f", "\u2009", " ")
_REGIONS = ("North", "South", "East", "West", "Centre", "Coast", "Hills", "Islands")
_COLUMNS = {"units": 0, "price": 2, "revenue": 2, "score": 3}
_MONTHS = calendar.month_name[1:]


@dataclass(frozen=True)
class Figure:
    """A number as an answer cites it: its value, the decimals that are written, what follows."""

    value: float
    decimals: int
    behind: str = ""
    scale: float = 1

    def written(self, style: str, rng: random.Random) -> str:
        text = self.digits()
        comma, point = {"1,234.5": ",.", "1.234,5": ".,", "1 234,5": rng.choice(_BLANKS) + ",", "1234.5": " ."}[style]
        comma = "" if style == "1234.5" else comma
        return text.translate({ord(","): comma, ord("."): point}) + self.behind

    def wrong(self, rng: random.Random) -> Figure:
        digits = self.digits().replace(",", "")
        way = rng.choice(("exchanged", "changed", "moved", "near", "count"))
        places = [place for place, sign in enumerate(digits) if sign != "."]
        value = float(digits)
        if way == "exchanged" and len(places) > 1:
            one, other = rng.choice(list(pairwise(places)))
            signs = list(digits)
            signs[one], signs[other] = signs[other], signs[one]
            value = float("".join(signs))
        elif way == "changed":
            place = rng.choice(places)
            value = float(digits[:place] + rng.choice("123456789") + digits[place + 1 :])
        elif way == "moved" and value >= 10:
            value = value / 10 if rng.random() < 0.5 else value * 10
        elif way == "near":
            value *= 1 + rng.choice((-1, 1)) * rng.uniform(0.01, 0.3)
        elif self.decimals == 0:
            value = max(0, value + rng.choice((-3, -2, -1, 1, 2, 3)))
        return replace(self, value=round(value, self.decimals) * self.scale)

    def stands_in(self, text: str) -> bool:
        """Whether some number of a text is rounded to it, as it is or as a percentage."""
        shown = re.findall(r"[0-9]+(?:\.[0-9]+)?(?:e[+-][0-9]+)?", text) + re.findall(r"[0-9,]+(?:\.[0-9]+)?", text)
        values = {float(each.replace(",", "") or 0) for each in shown}
        scales = {1, self.scale, *((0.01,) if "%" in self.behind or "percent" in self.behind else ())}
        return any(f"{value / scale:,.{self.decimals}f}" == self.digits() for value in values for scale in scales)

    def digits(self) -> str:
        return f"{abs(self.value) / self.scale:,.{self.decimals}f}"


@dataclass(frozen=True)
class Date:
    """A date as an answer cites it."""

    day: dt.date

    def written(self, style: str, rng: random.Random) -> str:
        day = self.day
        month = _MONTHS[day.month - 1]
        forms = {
            "1,234.5": (f"{month} {day.day}, {day.year}", f"{day.month}/{day.day}/{day.year}"),
            "1.234,5": (f"{day.day:02}.{day.month:02}.{day.year}", f"{day.day}. {month} {day.year}"),
            "1 234,5": (f"{day.day} {month} {day.year}", f"{day.day:02}/{day.month:02}/{day.year}"),
            "1234.5": (day.isoformat(), f"{day.day} {month[:3]} {day.year}"),
        }
        return rng.choice(forms[style])

    def wrong(self, rng: random.Random) -> Date:
        days = rng.choice((1, -1, 2, 7, 10, 30, -31, 365))
        return Date(self.day + dt.timedelta(days=days))

    def stands_in(self, text: str) -> bool:
        return self.digits() in text

    def digits(self) -> str:
        return self.day.isoformat()


Cited = Figure | Date


@dataclass
class Case:
    """What a run has shown, and how an answer cites it.

    Attributes:
        outputs: What the calls have shown.
        focus: The pieces of the sentence that the case is about; the first number in it is the one made wrong.
        others: Sentences with right numbers.
        asked: What the user has asked.
    """

    rng: random.Random
    frame: pd.DataFrame
    outputs: list[str] = field(default_factory=list[str])
    focus: list[str | Cited] = field(default_factory=list[str | Cited])
    others: list[list[str | Cited]] = field(default_factory=list[list[str | Cited]])
    asked: str = "What do you see in this table?"

    def column(self) -> str:
        return self.rng.choice(list(_COLUMNS))

    def show(self, value: object) -> None:
        """Show a value as a cell's result, or a print of it."""
        number = isinstance(value, float | np.floating)
        forms = [repr(value), f"result: {value}", *([f"{value:,.2f}", f"{value:.4f}"] if number else [])]
        # A print with few digits would leave a small number without any.
        self.outputs.append(self.rng.choice(forms[: 2 if number and abs(value) < 1 else None]))

    def figure(self, value: float, decimals: int) -> Figure:
        """Cite a number as it is shown, rounded, or in thousands or millions."""
        fewer = self.rng.randint(min(decimals, 1), decimals) if decimals else 0
        if abs(value) >= 1e6 and self.rng.random() < 0.4:
            return Figure(value, 2, self.rng.choice((" million", "M")), 1e6)
        if abs(value) >= 1e5 and self.rng.random() < 0.2:
            return Figure(value, 1, "k", 1e3)
        return Figure(value, fewer, self.rng.choice(("", "", " €", " units")))

    def percent(self, value: float) -> Figure:
        return Figure(value, self.rng.choice((1, 1, 2)), self.rng.choice(("%", "%", " %", "\u00a0%", " percent")))


def frame_of(rng: random.Random) -> pd.DataFrame:
    """Make a table of 5 to 200 rows."""
    rows = rng.randint(5, 200)
    numbers = np.random.default_rng(rng.randrange(2**32))
    units = numbers.integers(1, 500, rows)
    price = numbers.uniform(1, 10 ** rng.randint(1, 3), rows).round(2)
    start = dt.date(2023, 1, 1) + dt.timedelta(days=rng.randrange(400))
    return pd.DataFrame(
        {
            "region": numbers.choice(_REGIONS[: rng.randint(3, 8)], rows),
            "date": pd.to_datetime([start + dt.timedelta(days=int(day)) for day in numbers.integers(0, 365, rows)]),
            "units": units,
            "price": price,
            "revenue": (units * price).round(2),
            "score": (0.5 * price / price.max() + numbers.uniform(0, 0.5, rows)).round(4),
        }
    )


def cell(case: Case) -> None:
    column = case.column()
    row = case.rng.randrange(len(case.frame))
    value = case.frame[column].iloc[row]
    case.outputs.append(repr(case.frame.iloc[row])) if case.rng.random() < 0.5 else case.show(value)
    case.focus = ["In row ", f"{row} the {column} is ", case.figure(value, _COLUMNS[column]), "."]


def total(case: Case) -> None:
    column = case.rng.choice(("units", "revenue"))
    if case.rng.random() < 0.5:
        sums = case.frame.groupby("region")[column].sum()
        case.outputs.append(repr(sums))
        name = case.rng.choice(list(sums.index))
        value, of = sums[name], f"in {name}"
    else:
        value, of = case.frame[column].sum(), "of all rows"
        case.show(value)
    case.focus = [f"The total {column} {of} comes to ", case.figure(value, _COLUMNS[column]), "."]


def mean(case: Case) -> None:
    column = case.column()
    if case.rng.random() < 0.5:
        case.outputs.append(repr(case.frame.describe()))
        value, of = case.frame[column].mean(), "overall"
    else:
        means = case.frame.groupby("region")[list(_COLUMNS)].mean()
        case.outputs.append(repr(means if case.rng.random() < 0.5 else means.round(3)))
        name = case.rng.choice(list(means.index))
        value, of = means[column][name], f"in {name}"
    case.focus = [f"The mean {column} {of} is ", case.figure(value, 2 if column != "score" else 3), "."]


def share(case: Case) -> None:
    counts = case.frame["region"].value_counts()
    name = case.rng.choice(list(counts.index))
    value = 100 * counts[name] / len(case.frame)
    if case.rng.random() < 0.5:
        case.outputs.append(repr(case.frame["region"].value_counts(normalize=True)))
        case.focus = [f"{name} has ", case.percent(value), " of the rows."]
    else:
        case.outputs += [repr(counts), repr(case.frame.shape)]
        of = [Figure(counts[name], 0), " of ", Figure(len(case.frame), 0)]
        case.focus = [f"{name} has ", case.percent(value), " of the rows: ", *of, "."]


def _two(case: Case, column: str) -> tuple[pd.Series, str, str]:
    values = case.frame.groupby("region")[column].mean()
    one, other = case.rng.sample(list(values.index), 2) if len(values) > 1 else [values.index[0]] * 2
    return values.round(2), one, other


def difference(case: Case) -> None:
    values, one, other = _two(case, case.rng.choice(("price", "revenue", "units")))
    value = abs(values[one] - values[other])
    case.outputs.append(repr(values))
    if (way := case.rng.random()) < 0.5:
        case.show(value)
        case.focus = [f"Between {one} and {other} lie ", case.figure(value, 2), "."]
    elif way < 0.6:
        case.focus = [f"Between {one} and {other} lie ", Figure(value, 2), "."]
    else:
        against = [Figure(values[one], 2), " against ", Figure(values[other], 2)]
        case.focus = [f"{one} is ", Figure(value, 2), f" apart from {other} (", *against, ")."]


def filtered(case: Case) -> None:
    bound = round(float(case.frame["price"].median()), 1)
    column = case.rng.choice(("units", "revenue", "score"))
    value = case.frame[case.frame["price"] > bound][column].mean()
    case.show(value)
    case.asked = f"What is the mean {column} where the price is above {bound}?"
    case.focus = [
        f"Where the price is above {bound}, the mean {column} is ",
        case.figure(value, _COLUMNS[column] or 1),
        ".",
    ]


def count(case: Case) -> None:
    if case.rng.random() < 0.5:
        counts = case.frame["region"].value_counts()
        case.outputs.append(repr(counts))
        name = case.rng.choice(list(counts.index))
        case.focus = [f"{name} has ", Figure(counts[name], 0), " rows."]
    else:
        found = case.frame["units"] > case.rng.choice((100, 200, 300))
        case.show(found.sum())
        case.focus = ["Of all rows, ", Figure(found.sum(), 0), " are above that."]


def largest(case: Case) -> None:
    column = case.column()
    value = case.frame[column].max()
    if case.rng.random() < 0.5:
        case.outputs.append(repr(case.frame.nlargest(5, column)))
    else:
        case.outputs.append(repr(case.frame.groupby("region")[column].agg(["min", "max", "count"])))
    case.focus = [f"The largest {column} is ", case.figure(value, _COLUMNS[column]), "."]


def date(case: Case) -> None:
    if case.rng.random() < 0.5:
        value = case.frame["date"].max()
        case.outputs.append(case.rng.choice((repr(value), f"last: {value}", f"{value:%Y-%m-%d}")))
        case.focus = ["The last row is of ", Date(value.date()), "."]
    else:
        best = case.frame.nlargest(3, "revenue")
        case.outputs.append(repr(best))
        case.focus = ["The best day was ", Date(best["date"].iloc[0].date()), "."]


def percentage(case: Case) -> None:
    values, one, other = _two(case, "revenue")
    value = 100 * (values[one] - values[other]) / values[other]
    case.outputs.append(repr(values))
    if case.rng.random() < 0.5:
        case.outputs.append(case.rng.choice((f"change: {value:+.1f}%", f"{value / 100:.4f}", repr(value))))
        case.focus = [f"{one} differs from {other} by ", Figure(value, 1, "%"), "."]
    else:
        against = [Figure(values[one], 2), " against ", Figure(values[other], 2)]
        case.focus = [f"{one} differs from {other} by ", Figure(value, 1, "%"), " (", *against, ")."]


def rank(case: Case) -> None:
    row = case.rng.randrange(len(case.frame))
    ranks = case.frame["revenue"].rank(ascending=False, method="first").astype(int)
    case.show(ranks.iloc[row])
    text = case.rng.choice(("It ranks ", "Its revenue is at rank ", "That is place "))
    case.focus = [text, Figure(ranks.iloc[row], 0), " among all."]


def correlation(case: Case) -> None:
    one, other = case.rng.sample(list(_COLUMNS), 2)
    table = case.frame[list(_COLUMNS)].corr()
    if case.rng.random() < 0.5:
        case.outputs.append(repr(table))
    else:
        case.show(table[one][other])
    case.focus = [f"{one} and {other} correlate with r = ", Figure(table[one][other], case.rng.choice((2, 3))), "."]


def look_around(case: Case) -> None:
    """Call what agents call first."""
    looks = (
        lambda: repr(case.frame.head()),
        lambda: repr(case.frame.shape),
        lambda: repr(case.frame.describe()),
        lambda: repr(case.frame.dtypes),
        lambda: repr(case.frame),
        lambda: case.frame.head(3).to_csv(),
        lambda: f"rows {len(case.frame)}, missing {case.frame.isna().sum().sum()}",
    )
    case.outputs += [look() for look in case.rng.sample(looks, case.rng.randint(1, 3))]


KINDS: dict[str, Callable[[Case], None]] = {
    "cell": cell,
    "sum": total,
    "mean": mean,
    "share": share,
    "difference": difference,
    "filtered mean": filtered,
    "count": count,
    "max": largest,
    "date": date,
    "percentage": percentage,
    "rank": rank,
    "correlation": correlation,
}
