"""How a frame or a dictionary differs from what it was: columns, their types, missing and other values, keys.

What this module promises:

- **No code of the user's runs.** Only classes that pandas defines itself are asked, and objects are compared only where
  all are of Python's own plain classes.
- **Bounded.** Values are compared up to some million cells, and until the time is over; what was not compared is not
  mentioned. The text has some parts, each of a name and a few words.
- **No secrets.** A name that looks like one, or is a value of the environment that is one, is not shown in part either.
- **Nothing is guessed.** A column is renamed where the same memory stands under another name. Rows are the same where
  all values are in their places, whatever the labels; else by their labels, unless these are new ones that only count.

>>> differences({"a": 1, "b": 2}, {"a": 1, "c": 3}, Clock(1))
'b removed; c added'
"""

from __future__ import annotations

import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress
from operator import not_
from typing import Any, NamedTuple, TypeVar, cast

from indus_nb.base import textcut
from indus_nb.kernel.undo.objects.libraries import place_of
from indus_nb.kernel.values.known_classes import class_name, families, has_odd_labels, is_of_a_library
from indus_nb.kernel.values.readers import has_known_indexes, is_known_array, is_known_index, text_of_type
from indus_nb.kernel.values.short import short
from indus_nb.kernel.values.tables import has_secret_labels
from indus_nb.safety.redaction import hide, labelled_secrets, looks_random

_ARROW = "\N{RIGHTWARDS ARROW}"
_MAX_NAME_CHARACTERS = 30
_MAX_PARTS, _MAX_OF_A_KIND = 5, 3
_MOST_COLUMNS, _MOST_KEYS = 500, 1_000
_MOST_CELLS, _MOST_OBJECTS = 3_000_000, 300_000
"""Most values of a frame, and most of one column or index that are objects, which are counted and compared."""
_MOST_BYTES = 32 << 20
"""Largest column of texts of which objects are made to compare them."""
_WORD = re.compile(r"[\w.-]+")
_PLAIN = frozenset({str, bytes, bool, int, float, complex, type(None)})
_RENAMED = _MAX_OF_A_KIND, "others renamed"
T = TypeVar("T")


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
    return "; ".join(_few(parts, str, _MAX_PARTS, "more")).replace(", ", ",")


def _few(parts: Sequence[T], said: Callable[[T], str], most: int, more: str) -> list[str]:
    if len(parts) <= most:
        return [*map(said, parts)]
    return [*map(said, parts[: most - 1]), f"{len(parts) - most + 1} {more}"]


def _of_dicts(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> Iterator[str]:
    one, other = (dict[Any, Any](dict[Any, Any].items(cast("dict[Any, Any]", each))) for each in (before, after))
    if max(len(one), len(other)) > _MOST_KEYS or not {*map(type, one), *map(type, other)} <= _PLAIN:
        return
    yield from _came_and_went([key for key in one if key not in other], [key for key in other if key not in one])
    differing = [key for key, value in one.items() if key in other and not _are_same(value, other[key])]
    yield from _few(differing, lambda key: f"{_name(key)} changed", _MAX_OF_A_KIND, "others changed")


def _are_same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and type(one) in _PLAIN and one == other)


def _came_and_went(removed: Sequence[Any], added: Sequence[Any]) -> Iterator[str]:
    for labels, verb in ((removed, "removed"), (added, "added")):
        yield from _few(labels, lambda label, verb=verb: f"{_name(label)} {verb}", _MAX_OF_A_KIND, f"others {verb}")


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
        return _Table(value.index, {None: array}) if is_known_array(array) and is_known_index(value.index) else None
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
    yield from _few([*renamed], lambda was: f"{_name(was)} renamed to {_name(renamed[was])}", *_RENAMED)
    news = {*renamed.values()}
    yield from _came_and_went([name for name in removed if name not in renamed], [n for n in added if n not in news])
    pairs = {name: (one[name], other[name]) for name in one if name in other}
    read = {name: pair for name, pair in pairs.items() if pair[0] is not None and pair[1] is not None}
    moved = {name: pair for name, pair in read.items() if not _is_same_memory(*pair)}
    retyped = {name: [text_of_type(each.dtype) for each in pair] for name, pair in moved.items()}
    retyped = {name: types for name, types in retyped.items() if types[0] != types[1] and all(types)}
    yield from [f"{_of(name)}{types[0]} {_ARROW} {types[1]}" for name, types in retyped.items()]
    # Where the labels are others, the same memory is no longer the same values of rows.
    compared = moved if before.index is after.index else read
    yield from _of_values(before, after, {name: (pair, name in retyped) for name, pair in compared.items()}, clock)
    if len(one) == len(other) and [*one] != [*other] and one.keys() == other.keys():
        yield "columns in another order"


def _renamed(removed: Mapping[Any, Any], added: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the new names of columns, by the old ones: the same memory, which no other column has."""
    at: defaultdict[Any, tuple[list[Any], list[Any]]] = defaultdict(lambda: ([], []))
    for side, columns in enumerate((removed, added)):
        for name, array in columns.items():
            if array is not None and (place := place_of(array)) is not None:
                at[type(array), place][side].append(name)
    return {olds[0]: news[0] for olds, news in at.values() if len(olds) == len(news) == 1}


def _of_values(before: _Table, after: _Table, compared: Mapping[Any, Any], clock: Clock) -> Iterator[str]:
    """Yield how many values are missing, how many differ where the rows are the same, and how the rows do."""
    if max(1, len(compared)) * max(before.rows, after.rows) > _MOST_CELLS:
        return
    is_same_index = before.index is after.index or _has_equal_labels(before.index, after.index)
    places = _places(before, after) if is_same_index is False else None
    kept = [pair for pair, is_retyped in compared.values() if not is_retyped]
    is_other_index = is_same_index is False and before.rows == after.rows
    is_relabelled = is_other_index and _is_relabelled(before, after, kept, places, clock)
    is_in_place = is_same_index or is_relabelled
    for name, ((one, other), is_retyped) in compared.items():
        if clock.is_over():
            return
        without = [_missing(each) for each in (one, other)]
        if any(each is None for each in without):
            continue
        was, now = (int(each.sum()) for each in without)
        if was != now:
            yield f"{_of(name)}{was} {_ARROW} {now} missing"
        if is_retyped or not (is_in_place or places):
            continue
        differing = _differing(one, other, without) if is_in_place else _differing_at(one, other, places)
        if differing and differing != abs(was - now):
            yield f"{_of(name)}{differing} value{'' if differing == 1 else 's'} changed"
    if is_other_index and not clock.is_over():
        yield "rows in another order" if _is_order(before, places) and not is_relabelled else "index changed"


def _is_order(before: _Table, places: tuple[Any, Any] | None) -> bool:
    return places is not None and len(places[0]) == before.rows


def _is_relabelled(
    before: _Table, after: _Table, kept: Sequence[Any], places: tuple[Any, Any] | None, clock: Clock
) -> bool:
    """Return whether as many rows as before stand where they stood, with other labels."""
    if _are_equal(kept, None, clock):
        return True
    # Labels that count anew name other rows than before, unless all values went with them.
    is_known = _counts_rows(after.index) and places is not None
    return is_known and not (_is_order(before, places) and _are_equal(kept, places, clock))


def _are_equal(pairs: Sequence[Any], places: tuple[Any, Any] | None, clock: Clock) -> bool:
    """Return whether all values are known to be the same at some places; ``None`` for each in its own."""
    return bool(pairs) and all(
        not clock.is_over()
        and ((places is None and _is_same_memory(one, other)) or _differing_at(one, other, places) == 0)
        for one, other in pairs
    )


def _places(before: _Table, after: _Table) -> tuple[Any, Any] | None:
    """Return where rows with the same label stand before and after; ``None`` where labels name no rows.

    Those that only count the rows name others once some have gone.
    """
    one, other = before.index, after.index
    count = len(before.arrays) * max(before.rows, after.rows)
    if count > _MOST_CELLS or max(len(one), len(other)) > _MOST_OBJECTS or not (one.is_unique and other.is_unique):
        return None
    if _counts_rows(other) and len(one) != len(other):
        return None
    try:
        places = one.get_indexer(other)
    except TypeError:
        return None
    found = places >= 0
    return places[found], found.nonzero()[0]


def _counts_rows(index: Any) -> bool:
    is_range = class_name(cast("type[object]", type(index))) == "RangeIndex"
    return is_range and (index.start, index.step) == (0, 1)


def _differing_at(one: Any, other: Any, places: tuple[Any, Any] | None) -> int | None:
    """Count the values that differ in the rows at some places before and after; ``None`` for all in their own."""
    pair = [one, other] if places is None else [each.take(at) for each, at in zip((one, other), places, strict=True)]
    without = [_missing(each) for each in pair]
    return None if any(each is None for each in without) else _differing(pair[0], pair[1], without)


def _has_equal_labels(one: Any, other: Any) -> bool | None:
    """Return whether two indexes are equal; ``None`` where they are too long to be compared."""
    is_numbers = all(index.dtype.kind in "mMbiuf" for index in (one, other))
    if len(one) != len(other):
        return False
    return bool(one.equals(other)) if is_numbers or len(one) <= _MOST_OBJECTS else None


def _missing(array: Any) -> Any:
    """Return which values are missing; ``None`` where that is not known without code of the user's, or too long."""
    if getattr(array.dtype, "hasobject", False):
        if len(array) > _MOST_OBJECTS:
            return None
        kinds: set[type[object]] = {*map(type, array.tolist())}
        if not all(kind in _PLAIN or is_of_a_library(kind) for kind in kinds):
            return None
    return cast("Any", sys.modules["pandas"]).isna(array)


def _differing(one: Any, other: Any, without: Sequence[Any]) -> int | None:
    """Count the values that differ; ``None`` where they are not compared."""
    numbers = [_numbers(each) for each in (one, other)]
    if all(each is not None for each in numbers):
        both_missing = without[0] & without[1]
        return int(((numbers[0] != numbers[1]) & ~both_missing).sum())
    if len(one) > _MOST_OBJECTS or any(each.nbytes > _MOST_BYTES for each in (one, other)):
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
    if looks_random(text) or hide(text, labelled_secrets()) != text:
        text = "\N{HORIZONTAL ELLIPSIS}"
    line = textcut.one_line(text, _MAX_NAME_CHARACTERS).replace(", ", ",").replace("; ", ";")
    return line if _WORD.fullmatch(line) else f"\N{LEFT DOUBLE QUOTATION MARK}{line}\N{RIGHT DOUBLE QUOTATION MARK}"
