"""A profile of a frame: its rows, what one row stands for, and what its columns hold, in a few lines for the model.

What this module promises: each statement is true of the rows that it speaks of. What is known of a sample alone stands
behind a line that says so; shares are rounded, but are 0 or 100 % only where they are that; ranges have six digits, and
times end with the second. Values that a name or their form takes for secrets are not told, nor are long ones in part.
"""

from __future__ import annotations

import hashlib
import marshal
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Context, localcontext
from itertools import combinations, islice
from typing import Any, NamedTuple

from indus_nb.base import textcut
from indus_nb.kernel.values.columns import Column, Looked
from indus_nb.kernel.values.extent import BY
from indus_nb.kernel.values.short import is_secret_label

_FEW_VALUES, _TOP_VALUES = 12, 3
_MOST_VALUE_CHARACTERS = 24
_KEYS = ("int", "text", "time", "date")
"""What the columns hold that a row may be known by."""
_ORDERED = ("int", "number", "time", "span", "date")
_MOST_KINDS = 4
_MARK_CHARACTERS = 60
"""Room for what stands around the columns."""
_MOST_PAIRED, _FEW_ROWS = 8, 500
"""The first columns of which pairs are tried as keys, in so many rows first."""
_PLAIN_TEXT = re.compile(r"[^\W_][\w./+-]*(?: [\w./+-]+)*")


class Profile(NamedTuple):
    """What is known of a frame.

    Attributes:
        head: Its library, size and grain.
        columns: A part for each column, true of all rows.
        sampled: Parts that are true of the rows looked at.
        seen: How many these are.
        more: How many columns were not looked at.
        levels: How many of the first parts are levels of the index.
    """

    head: str
    columns: Sequence[str]
    sampled: Sequence[str]
    seen: int
    more: int
    levels: int = 0

    def digest(self) -> str:
        """Return a short text that differs for another profile."""
        return digest_of(self)

    def text(self, name: str, room: int) -> str:
        """Write the profile of a variable.

        Args:
            name: Its name; empty where that is clear.
            room: How many characters it may have; the columns that do not fit are counted, if there is room for that.
        """
        named = f"`{textcut.fit(name, max(room // 3, 2))}` " if name else ""
        lines = [textcut.fit(f"{named}{self.head}", max(room, 2))]
        room -= len(lines[0]) + _MARK_CHARACTERS
        if room < 0:
            return lines[0]
        shown = _fitting(self.columns, room * 3 // 5 if self.sampled else room)
        left = len(self.columns) - max(len(shown), self.levels) + self.more
        more = [f"… and {textcut.counted(left, 'more column')}"] if left else []
        more = ["…"] if not more and len(shown) < len(self.columns) else more
        if shown or more:
            lines.append(f"  {' · '.join([*shown, *more])}")
            room -= len(lines[1])
        if self.sampled and (some := _fitting(self.sampled, room)):
            lines.append(f"  in {self.seen:,} rows sampled: {' · '.join(some)}")
        return "\n".join(lines)


def digest_of(parts: Sequence[Any]) -> str:
    """Return a short text that differs for other parts."""
    return hashlib.sha256(repr(parts).encode(errors="replace")).hexdigest()[:12]


def _fitting(parts: Sequence[str], room: int) -> list[str]:
    fitting: list[str] = []
    for part in parts:
        room -= len(part) + 3
        if room < 0:
            break
        fitting.append(part)
    return fitting


def fingerprint(looked: Looked) -> bytes | None:
    """Return what differs wherever a profile would differ; ``None`` if that cannot be made quickly."""
    digest = hashlib.blake2b(repr(looked[:4]).encode(errors="replace"), digest_size=16)
    for column in looked.columns:
        known = column.name, column.dtype, column.family, column.kinds, column.whole, column.is_index, column.notes
        digest.update(repr((*known, column.not_numbers)).encode(errors="replace"))
        if column.values is not None:
            try:
                digest.update(marshal.dumps(column.values, 2))
            except ValueError:  # dates, and others that are rarely met
                return None
    return digest.digest()


def profile(looked: Looked) -> Profile:
    """Write down what is known of a frame that was looked at, whatever decimals may not do in the user's code."""
    with localcontext(Context(traps=[])):
        return _profile(looked)


def _profile(looked: Looked) -> Profile:
    more = looked.width - sum(not column.is_index for column in looked.columns)
    if looked.rows is None:
        parts = [f"{column.name} {column.dtype}" for column in looked.columns]
        counted = textcut.counted(looked.width, "column")
        return Profile(f"{looked.library} relation of {counted}, which has not been computed", parts, (), 0, more)
    counts = [None if column.values is None else Counter(column.values) for column in looked.columns]
    grain = _grain(looked, counts, complete=not more)
    head = f"{looked.library} {looked.rows:,} {BY} {looked.width}{f'; {grain}' if grain else ''}"
    parts: list[str] = []
    sampled: list[str] = []
    is_sample = looked.seen < looked.rows
    for column, counted in zip(looked.columns, counts, strict=True):
        in_all = _in_all(column, looked.rows)
        in_seen = _in_seen(column, counted, looked.seen) if counted is not None else _kinds(column)
        notes = [f"{what}: {value}" for what, value in column.notes.items()]
        named = f"{column.name}{' (index)' if column.is_index else ''}"
        facts = ", ".join([*notes, *in_all, *([] if is_sample else in_seen)])
        dtype = column.dtype.partition("(")[0] if _is_secret(column) else column.dtype  # which may list values
        parts.append(f"{named} {dtype}{f' {facts}' if facts else ''}")
        if is_sample and in_seen:
            sampled.append(f"{named} {', '.join(in_seen)}")
    return Profile(head, parts, sampled, looked.seen, more, sum(column.is_index for column in looked.columns))


# What one row stands for


def _grain(looked: Looked, counts: Sequence[Counter[Any] | None], *, complete: bool) -> str:
    """Return which columns tell the rows apart, or how many rows occur again; empty if neither is known.

    Args:
        complete: Whether all columns were looked at.
    """
    rows = looked.rows or 0
    if rows < 2:
        return ""
    named = Counter(column.name for column in looked.columns)
    rising = next((c.name for c in looked.columns if c.whole and c.whole.rising and named[c.name] == 1), None)
    if looked.seen < rows:
        return f"one row per {rising}" if rising else ""
    keys = [
        (column, len(counted))
        for column, counted in zip(looked.columns, counts, strict=True)
        if counted is not None and column.family in _KEYS and None not in counted and named[column.name] == 1
    ]
    key = next((column.name for column, distinct in keys if distinct == rows), None) or _pair(keys, rows)
    if key:
        return f"one row per {key}"
    index = [column for column in looked.columns if column.is_index]
    if len(index) > 2 and _distinct(index) == rows:
        return f"one row per {', '.join(column.name for column in index)}"
    distinct = _distinct([column for column in looked.columns if not column.is_index]) if complete else None
    if distinct is None or distinct == rows:
        return ""
    again = rows - distinct
    return f"{textcut.counted(again, 'row')} repeat{'s' if again == 1 else ''} an earlier one"


def _pair(keys: Sequence[tuple[Column, int]], rows: int) -> str:
    """Return two columns that tell the rows apart together; empty if there are none."""
    for (one, of_one), (other, of_other) in combinations(keys[:_MOST_PAIRED], 2):
        few = min(rows, _FEW_ROWS)
        if of_one * of_other >= rows and _distinct([one, other], few) == few and _distinct([one, other]) == rows:
            return f"{one.name} and {other.name}"
    return ""


def _distinct(columns: Sequence[Column], rows: int | None = None) -> int | None:
    """Count the rows that differ in these columns, of all or so many; ``None`` where not all values are known."""
    values = [column.values for column in columns if column.values is not None]
    if not values or len(values) < len(columns):
        return None
    return len(set(islice(zip(*values, strict=True), rows)))


# What a column holds


def _in_all(column: Column, rows: int) -> list[str]:
    """Return what is known of a column in all rows, of a frame of which a sample was looked at."""
    whole = column.whole
    if whole is None:
        return []
    facts = [] if whole.lowest is None else _range(column, whole.lowest, whole.highest)
    return [*facts, *_missing(whole.missing, rows), *_missing(whole.not_numbers or 0, rows, "NaN")]


def _in_seen(column: Column, counts: Counter[Any], rows: int) -> list[str]:
    """Return what is known of a column in the rows that were looked at, but for what is known of all."""
    missing = counts.get(None, 0)
    facts = _missing(missing - column.not_numbers, rows) if column.whole is None else []
    if column.whole is None or column.whole.not_numbers is None:
        facts += _missing(column.not_numbers, rows, "NaN")
    if missing == rows:
        return facts
    present: Mapping[Any, int] = {value: count for value, count in counts.items() if value is not None}
    distinct = len(present)
    if distinct == 1:
        (value,) = present
        if shown := _value(column, value):
            return [f"{'only' if missing else 'always'} {shown}", *facts]
    if column.family in _ORDERED and (column.whole is None or column.whole.lowest is None):
        facts = [*_range(column, min(present), max(present)), *facts]
    if distinct == rows:
        return [*facts, "all distinct"] if column.family in _KEYS and rows > 1 else facts
    if column.family in ("number", "span") and distinct > _FEW_VALUES:
        return facts
    told = _top(column, present, rows) if column.family in ("text", "bool", "int", "number") else ""
    return [*facts, f"{distinct:,} distinct{f': {told}' if told else ''}"]


def _top(column: Column, present: Mapping[Any, int], rows: int) -> str:
    """Return the most frequent values with their shares of all rows; empty where that says little."""
    top = Counter(present).most_common(_TOP_VALUES)
    if len(present) > _FEW_VALUES and top[0][1] < rows / 10:
        return ""
    shown = [(_value(column, value), count) for value, count in top]
    if not all(text for text, _ in shown):
        return ""
    told = [f"{text} {shown_share(count, rows)}" for text, count in shown]
    return ", ".join([*told, "…"] if len(present) > len(top) else told)


def _kinds(column: Column) -> list[str]:
    kinds = [f"{count:,} {name}" for name, count in column.kinds.items()]
    return kinds if len(kinds) <= _MOST_KINDS else [*kinds[: _MOST_KINDS - 1], "others"]


def _range(column: Column, lowest: Any, highest: Any) -> list[str]:
    low, high = _value(column, lowest), _value(column, highest)
    return [f"{low}…{high}"] if low and high else []


def _missing(count: int, rows: int, what: str = "missing") -> list[str]:
    if not count:
        return []
    return [f"all {what}"] if count == rows else [f"{shown_share(count, rows)} {what}"]


def _value(column: Column, value: Any) -> str:
    """Write a value; empty where it may be a secret, or is long."""
    if _is_secret(column):
        return ""
    if column.family == "text":
        if len(value) > _MOST_VALUE_CHARACTERS:
            return ""
        return value if _PLAIN_TEXT.fullmatch(value) else repr(value)
    return column.shown(value)


def _is_secret(column: Column) -> bool:
    """Return whether a column, or a level of its label, is named as a secret: its values are told only when asked."""
    levels = re.findall(r"[\w-]+", column.name) if column.name.startswith("(") else [column.name]
    return any(map(is_secret_label, levels))


def shown_share(part: int, whole: int) -> str:
    """Write a share in percent; nothing that is not all or none is rounded to that.

    >>> shown_share(1, 3), shown_share(2, 2), shown_share(1, 100_000), shown_share(99_999, 100_000)
    ('33.3 %', '100 %', '<0.1 %', '>99.9 %')
    """
    if part in (0, whole):
        return "100 %" if part else "0 %"
    percent = round(100 * part / whole, 1)
    return "<0.1 %" if percent < 0.1 else ">99.9 %" if percent > 99.9 else f"{percent:g} %"
