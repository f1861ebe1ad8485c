"""How a frame or a dictionary differs from what it was: columns, their types, missing and other values, keys.

What this module promises:

- **No code of the user's runs.** Only classes that pandas defines itself are asked, and objects are compared only where
  all are of Python's own plain classes.
- **Bounded.** Values are compared up to some million cells, and until the time is over; what was not compared is not
  mentioned. The text has some parts, each of a name and a few words.
- **Nothing is guessed.** A column is renamed where the same memory stands under another name.

>>> differences({"a": 1, "b": 2}, {"a": 1, "c": 3}, Clock(1))
'b removed; c added'
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from operator import not_
from typing import Any, NamedTuple, cast

from indus_nb.base import textcut
from indus_nb.kernel.undo.objects.libraries import place_of
from indus_nb.kernel.values.known_classes import families, has_odd_labels, is_of_a_library
from indus_nb.kernel.values.readers import has_known_indexes, is_known_array, text_of_type
from indus_nb.kernel.values.short import short
from indus_nb.kernel.values.tables import has_secret_labels

_ARROW = "\N{RIGHTWARDS ARROW}"
_MAX_NAME_CHARACTERS = 30
_MAX_PARTS, _MAX_OF_A_KIND = 5, 3
_MOST_COLUMNS, _MOST_KEYS = 500, 1_000
_MOST_CELLS, _MOST_OBJECTS = 3_000_000, 300_000
"""Most values of a frame, and most of one column that are objects, which are counted and compared."""
_WORD = re.compile(r"[\w.-]+")
_PLAIN = frozenset({str, bytes, bool, int, float, complex, type(None)})


class Clock:
    """Processor time of this thread that comparing may take."""

    def __init__(self, seconds: float) -> None:
        self._end = time.thread_time() + seconds

    def is_over(self) -> bool:
        """Return whether no time is left."""
        return time.thread_time() > self._end


def differences(before: Any, after: Any, clock: Clock) -> str:
    """Describe how a value differs from what it was, beyond its size. Never raises.

    Args:
        before: The value as it was: another object.
        clock: Time for this and other values.

    Returns:
        Parts between semicolons, no comma followed by a blank in them; empty where nothing more is known.
    """
    try:
        if issubclass(type(before), dict) and issubclass(type(after), dict):
            parts = [*_of_dicts(before, after)]
        else:
            one, other = _table(before), _table(after)
            parts = [] if one is None or other is None else [*_of_tables(one, other, clock)]
    except Exception:  # noqa: BLE001 - an object that is broken, or that code changes at this moment
        return ""
    return "; ".join(_few(parts, _MAX_PARTS, "more"))


def _few(parts: Sequence[str], most: int, more: str) -> list[str]:
    return [*parts] if len(parts) <= most else [*parts[: most - 1], f"{len(parts) - most + 1} {more}"]


def _of_dicts(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> Iterator[str]:
    one, other = (dict[Any, Any](dict[Any, Any].items(cast("dict[Any, Any]", each))) for each in (before, after))
    if max(len(one), len(other)) > _MOST_KEYS or not {*map(type, one), *map(type, other)} <= _PLAIN:
        return
    yield from _came_and_went([key for key in one if key not in other], [key for key in other if key not in one])
    differing = [key for key, value in one.items() if key in other and not _are_same(value, other[key])]
    yield from _few([f"{_name(key)} changed" for key in differing], _MAX_OF_A_KIND, "others changed")


def _are_same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and type(one) in _PLAIN and one == other)


def _came_and_went(removed: Sequence[Any], added: Sequence[Any]) -> Iterator[str]:
    for labels, verb in ((removed, "removed"), (added, "added")):
        yield from _few([f"{_name(label)} {verb}" for label in labels], _MAX_OF_A_KIND, f"others {verb}")


class _Table(NamedTuple):
    """A frame of pandas, or a series: a table with one column without a name."""

    index: Any
    arrays: Mapping[Any, Any]

    @property
    def rows(self) -> int:
        return len(self.index)


def _table(value: Any) -> _Table | None:
    """Return the columns of a frame of pandas; ``None`` of other values, and where they cannot be told apart."""
    kinds = families(value) & {("pandas", "DataFrame"), ("pandas", "Series")}
    if not kinds or not is_of_a_library(cast("type[object]", type(value))) or has_odd_labels(value):
        return None
    held = object.__getattribute__(value, "_mgr")
    if ("pandas", "Series") in kinds:
        array = held.blocks[0].values
        return _Table(value.index, {None: array}) if is_known_array(array) else None
    labels: list[Any] = value.columns.tolist()
    if len(labels) > _MOST_COLUMNS or len({*labels}) < len(labels):
        return None
    if not has_known_indexes(value) or has_secret_labels(value):
        return None
    arrays = (
        held.iget_values(number) if is_known_array(held.blocks[held.blknos[number]].values) else None
        for number in range(len(labels))
    )
    return _Table(value.index, dict(zip(labels, arrays, strict=True)))


def _of_tables(before: _Table, after: _Table, clock: Clock) -> Iterator[str]:
    one, other = before.arrays, after.arrays
    removed, added = [name for name in one if name not in other], [name for name in other if name not in one]
    renamed = _renamed({name: one[name] for name in removed}, {name: other[name] for name in added})
    yield from [f"{_name(was)} renamed to {_name(now)}" for was, now in renamed.items()][:_MAX_OF_A_KIND]
    news = {*renamed.values()}
    yield from _came_and_went([name for name in removed if name not in renamed], [n for n in added if n not in news])
    pairs = {name: (one[name], other[name]) for name in one if name in other}
    read = {name: pair for name, pair in pairs.items() if pair[0] is not None and pair[1] is not None}
    moved = {name: pair for name, pair in read.items() if not _is_same_memory(*pair)}
    retyped = {name: [text_of_type(each.dtype) for each in pair] for name, pair in moved.items()}
    retyped = {name: types for name, types in retyped.items() if types[0] != types[1] and all(types)}
    yield from [f"{_of(name)}{types[0]} {_ARROW} {types[1]}" for name, types in retyped.items()]
    yield from _of_values(before, after, {name: (pair, name in retyped) for name, pair in moved.items()}, clock)
    if len(one) == len(other) and [*one] != [*other] and one.keys() == other.keys():
        yield "columns in another order"


def _renamed(removed: Mapping[Any, Any], added: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the new names of columns, by the old ones: the same memory, which no other column has."""
    pairs = [
        (was, now)
        for was, one in removed.items()
        for now, other in added.items()
        if one is not None and other is not None and _is_same_memory(one, other)
    ]
    olds, news = (Counter(each[place] for each in pairs) for place in (0, 1))
    return {was: now for was, now in pairs if olds[was] == news[now] == 1}


def _of_values(before: _Table, after: _Table, moved: Mapping[Any, Any], clock: Clock) -> Iterator[str]:
    """Yield how many values are missing, how many differ where the rows are the same, and how the rows do."""
    if len(moved) * max(before.rows, after.rows) > _MOST_CELLS:
        return
    is_same_index = before.index is after.index or bool(before.index.equals(after.index))
    for name, ((one, other), is_retyped) in moved.items():
        if clock.is_over():
            return
        without = [_missing(each) for each in (one, other)]
        if any(each is None for each in without):
            continue
        was, now = (int(each.sum()) for each in without)
        if was != now:
            yield f"{_of(name)}{was} {_ARROW} {now} missing"
        differing = _differing(one, other, without) if is_same_index and not is_retyped else None
        if differing and differing != abs(was - now):
            yield f"{_of(name)}{differing} value{'' if differing == 1 else 's'} changed"
    if not is_same_index and before.rows == after.rows and not clock.is_over():
        try:
            is_order = bool(before.index.sort_values().equals(after.index.sort_values()))
        except TypeError:
            is_order = False
        yield "rows in another order" if is_order else "index changed"


def _missing(array: Any) -> Any:
    if getattr(array.dtype, "hasobject", False) and len(array) > _MOST_OBJECTS:
        return None
    return cast("Any", sys.modules["pandas"]).isna(array)


def _differing(one: Any, other: Any, without: Sequence[Any]) -> int | None:
    """Count the values that differ; ``None`` where they are not compared."""
    numbers = [_numbers(each) for each in (one, other)]
    if all(each is not None for each in numbers):
        both_missing = without[0] & without[1]
        return int(((numbers[0] != numbers[1]) & ~both_missing).sum())
    if len(one) > _MOST_OBJECTS:
        return None
    values: list[list[Any]] = [each.tolist() for each in (one, other)]
    gone: list[list[bool]] = [each.tolist() for each in without]
    present = (compress(held, map(not_, lost)) for held, lost in zip(values, gone, strict=True))
    if not {type(value) for held in present for value in held} <= _PLAIN:
        return None
    return sum(
        was_gone != is_gone or (not was_gone and was != now)
        for was, now, was_gone, is_gone in zip(*values, *gone, strict=True)
    )


def _numbers(array: Any) -> Any:
    """Return an array of numbers or times as one of numpy; ``None`` where it holds something else."""
    if array.dtype.kind in "mM" and hasattr(array, "asi8"):
        return array.asi8
    is_numbers = array.dtype.kind in "biuf" and type(array) is cast("Any", sys.modules["numpy"]).ndarray
    return array if is_numbers else None


def _is_same_memory(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and place_of(one) == place_of(other))


def _of(name: Any) -> str:
    """Return a column's name as it stands before what is said of it; nothing for a series."""
    return "" if name is None else f"{_name(name)}: "


def _name(label: Any) -> str:
    """Return a label on one line, in quotation marks unless it is a word, without what separates parts."""
    text = label if type(label) is str else short(label, text=_MAX_NAME_CHARACTERS)
    line = textcut.one_line(text, _MAX_NAME_CHARACTERS).replace(", ", ",").replace("; ", ";")
    return line if _WORD.fullmatch(line) else f"\N{LEFT DOUBLE QUOTATION MARK}{line}\N{RIGHT DOUBLE QUOTATION MARK}"
