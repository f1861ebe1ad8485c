"""How two frames go together: the columns that both have, whose values are found in the other one, and how often.

What this module promises: of a frame of which not all rows were looked at, only shares of its own sampled rows are
told; nothing is told of what would be found in it. Missing values match each other where both frames are of pandas, as
in its ``merge``, and else none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from indus_nb.kernel.values.columns import Column, Looked
from indus_nb.kernel.values.profile import shown_share

_FAMILIES = {"int": "number", "number": "number", "text": "text", "time": "time", "date": "date"}
"""What the columns hold that frames are joined by; numbers only if they are whole in one of them."""
_MOST_SHARED = 4


class Named(NamedTuple):
    """A frame that was looked at, with the name of its variable."""

    name: str
    looked: Looked

    @property
    def is_whole(self) -> bool:
        """Return whether all of its rows were looked at."""
        return self.looked.rows == self.looked.seen

    def column(self, label: tuple[type, Any] | None) -> Column | None:
        """Return its column of that name, if there is one alone that can be looked up."""
        found = [column for column in self.looked.columns if label is not None and column.label == label]
        return found[0] if len(found) == 1 and found[0].family in _FAMILIES else None


def joins(one: Named, other: Named) -> list[str]:
    """Write how two frames go together; an empty list where they share no column."""
    if not one.looked.seen or not other.looked.seen:
        return []
    labels = [column.label for column in one.looked.columns if other.column(column.label) and one.column(column.label)]
    if not labels:
        return []
    if _has_same_columns(one.looked, other.looked):
        return _same(one, other)
    pairs = [(one.column(label), other.column(label)) for label in labels[:_MOST_SHARED]]
    shared = [(a.name, a, b) for a, b in pairs if a and b and not a.family == b.family == "number"]
    alike = [(name, a, b) for name, a, b in shared if _alike(a, b)]
    lines: list[str] = []
    if len(alike) > 1:
        named, in_one, in_other = zip(*alike, strict=True)
        lines = _join(one, other, " and ".join(named), in_one, in_other)
    lines += [line for name, a, b in alike for line in _join(one, other, name, [a], [b])]
    unlike = [triple for triple in shared if triple not in alike]
    return lines + [f"{name} is {a.dtype} in `{one.name}`, {b.dtype} in `{other.name}`" for name, a, b in unlike]


def _alike(one: Column, other: Column) -> bool:
    return _FAMILIES[one.family] == _FAMILIES[other.family] and (one.family != "time" or one.dtype == other.dtype)


def _has_same_columns(one: Looked, other: Looked) -> bool:
    """Return whether that is known of all of them."""
    of_one, of_other = ([(*column[:2], column.label) for column in _columns(each)] for each in (one, other))
    return len(of_one) == one.width == other.width > 1 and of_one == of_other and all(label for *_, label in of_one)


def _same(one: Named, other: Named) -> list[str]:
    """Tell of two frames with the same columns how many rows of one are in the other, as of data to train and test."""
    told = f"`{other.name}` has the columns of `{one.name}`"
    plain = all(column.values is not None for each in (one, other) for column in each.looked.columns)
    if not plain or not one.is_whole or not other.is_whole:
        return [told]
    held = set(_rows(_columns(one.looked)))
    found = sum(row in held for row in _rows(_columns(other.looked)))
    return [f"{told}; {found:,} of its {other.looked.seen:,} rows are there, too"]


def _columns(looked: Looked) -> list[Column]:
    return [column for column in looked.columns if not column.is_index]


def _join(one: Named, other: Named, name: str, in_one: Sequence[Column], in_other: Sequence[Column]) -> list[str]:
    """Tell how many rows are found in the other frame; an empty list where neither can be told."""
    by_missing = one.looked.library == other.looked.library == "pandas"
    pair = [(each, _counts(held, missing=by_missing)) for each, held in ((one, in_one), (other, in_other))]
    if one.is_whole and (not other.is_whole or (_is_unique(pair[0][1]) and not _is_unique(pair[1][1]))):
        pair.reverse()  # from many to one
    (many, of_many), (few, of_few) = pair
    found = sum(count for key, count in of_many.items() if key in of_few)
    if not few.is_whole or not (found or _is_unique(of_few)):
        return []
    share = shown_share(found, many.looked.seen)
    to = "one" if _is_unique(of_few) else "many"
    if not many.is_whole:
        rows = f"{many.looked.seen:,} rows sampled of `{many.name}`"
        return [f"{name}: {share} of {rows} have a match in `{few.name}`, {to} there for each"]
    told = f"{name}: {share} of the rows of `{many.name}` have a match in `{few.name}`"
    how = f"{'one' if _is_unique(of_many) else 'many'} to {to}"
    if how != "many to many":
        return [f"{told}, {how}"]
    joined = sum(count * of_few[key] for key, count in of_many.items())
    return [f"{told}, {how}: an inner join has {joined:,} rows"]


def _counts(columns: Sequence[Column], *, missing: bool) -> Counter[Any]:
    """Count the keys, also those of which a part is missing if ``missing``."""
    return Counter(row for row in _rows(columns) if missing or None not in row)


def _is_unique(counts: Counter[Any]) -> bool:
    return len(counts) == sum(counts.values())


def _rows(columns: Sequence[Column]) -> Any:
    return zip(*(column.values or () for column in columns), strict=True)
