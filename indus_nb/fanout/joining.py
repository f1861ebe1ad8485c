"""Pairs of rows of two tables that belong together: which are asked about, and which are found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias, cast

from indus_nb.base.errors import IndusError, UsageError
from indus_nb.base.wire import JsonObject
from indus_nb.fanout.filtering import Kept
from indus_nb.fanout.results import Answers
from indus_nb.fanout.rows import Table, key_of_values, plain_value
from indus_nb.fanout.tables import chosen_frame, is_polars, pandas
from indus_nb.fanout.template import Template

SIDES = ("left", "right")
MAX_PAIRS = 10_000
"""Most pairs that are asked about unless another number is asked for."""
NEAREST = 5
"""Rows on the right that each one on the left is compared with by vectors, unless another number is asked for."""

KeyOf: TypeAlias = str | Callable[[JsonObject], object]
"""A column, or a function of a row."""
On: TypeAlias = KeyOf | tuple[KeyOf, KeyOf]
Embed: TypeAlias = Callable[[list[str]], Any]
"""Makes a vector of each text of a list."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """Two tables, and the pairs of their rows that are asked about.

    Attributes:
        data: The sources of the rows.
        tables: The rows, those on the left first.
        pairs: The numbers of the two rows of each pair.
        table: The pairs as rows, with columns such as ``left.name``.
    """

    data: tuple[object, object]
    tables: tuple[Table, Table]
    pairs: tuple[tuple[int, int], ...]

    @property
    def table(self) -> Table:
        """Return the pairs as rows, with columns such as ``left.name`` and ``right.name``."""
        sides = [[_named(side, row) for row in table.rows] for side, table in zip(SIDES, self.tables, strict=True)]
        rows = tuple({**sides[0][left], **sides[1][right]} for left, right in self.pairs)
        return Table(joined_columns(self.tables), rows)


def joined_columns(tables: Sequence[Table]) -> tuple[str, ...]:
    """Return the names of the columns of both tables, as they are for pairs."""
    return tuple(f"{side}.{name}" for side, table in zip(SIDES, tables, strict=True) for name in table.columns)


def _named(side: str, row: Mapping[str, Any]) -> JsonObject:
    return {f"{side}.{name}": value for name, value in row.items()}


def paired(
    template: Template,
    data: tuple[object, object],
    tables: tuple[Table, Table],
    *,
    on: On | None = None,
    embed: Embed | None = None,
    nearest: int = NEAREST,
    max_pairs: int = MAX_PAIRS,
) -> Pairing:
    """Choose the pairs to ask about; see ``agent.join``.

    Args:
        template: The prompt, which names the columns that vectors are made of.
        data: The sources of the rows on the left and on the right.
        tables: The rows.

    Raises:
        UsageError: The prompt does not fit the data, or there would be too many pairs.
        IndusError: ``embed`` failed, or there is no numpy to compare its vectors with.
    """
    template.check(joined_columns(tables))
    for name, value in (("nearest", nearest), ("max_pairs", max_pairs)):
        if type(value) is not int or value < 1:
            raise UsageError(f"{name} is a whole number, 1 or more.")
    if on is not None and embed is not None:
        raise UsageError("Pairs are chosen by equal keys or by vectors: give on or embed, not both.")
    if embed is not None:
        pairs, count = _nearest(template, tables, embed, nearest)
    elif on is not None:
        pairs, count = _equal(tables, on)
    else:
        sizes = [len(table.rows) for table in tables]
        pairs, count = product(range(sizes[0]), range(sizes[1])), sizes[0] * sizes[1]
    if count > max_pairs:
        raise UsageError(
            f"{len(tables[0].rows):,} and {len(tables[1].rows):,} rows make {count:,} pairs to ask about, more than "
            f"max_pairs={max_pairs:,}. Choose among them with on or embed, or raise max_pairs."
        )
    return Pairing(data, tables, tuple(pairs))


_Pairs: TypeAlias = tuple[Iterator[tuple[int, int]], int]
"""The pairs, and how many there are."""


def _equal(tables: tuple[Table, Table], on: On) -> _Pairs:
    sides = cast("tuple[KeyOf, ...]", on) if isinstance(on, tuple) else (on, on)
    if len(sides) != 2:
        raise UsageError(
            "on is a column, a function of a row, or a pair of these: one for the left, one for the right."
        )
    lefts, rights = (_keys(*side) for side in zip(SIDES, tables, sides, strict=True))
    places: defaultdict[bytes, list[int]] = defaultdict(list)
    for number, key in rights:
        places[key].append(number)
    count = sum(len(places.get(key, ())) for _, key in lefts)
    return ((left, right) for left, key in lefts for right in places.get(key, ())), count


def _keys(side: str, table: Table, of: KeyOf) -> list[tuple[int, bytes]]:
    """Return the numbers of the rows that have a key, and the keys; a row without one is equal to none."""
    if not callable(of) and of not in table.columns:
        raise UsageError(f"There is no column {of!r} on the {side}. There are: {', '.join(table.columns) or 'none'}.")
    keys: list[tuple[int, bytes]] = []
    for number, row in enumerate(table.rows):
        try:
            key = plain_value(of(row)) if callable(of) else row.get(of)
        except Exception as error:
            row_named = f"row {table.label(number)} on the {side}"
            raise UsageError(f"The function of on failed for {row_named}: {type(error).__name__}: {error}") from error
        if key is not None:
            keys.append((number, key_of_values(key)))
    return keys


def _nearest(template: Template, tables: tuple[Table, Table], embed: Embed, nearest: int) -> _Pairs:
    counts = [len(table.rows) for table in tables]
    most = min(nearest, counts[1])
    if not counts[0] or not most:
        return iter(()), 0
    lefts, rights = (_vectors(template, side, table, embed) for side, table in zip(SIDES, tables, strict=True))
    if lefts.shape[1] != rights.shape[1]:
        raise UsageError(f"embed gave vectors of {lefts.shape[1]} and of {rights.shape[1]} numbers.")

    def pairs() -> Iterator[tuple[int, int]]:
        for left, vector in enumerate(lefts):
            # Stable, so that the same data gives the same pairs where some are as near.
            order = (-(rights @ vector)).argsort(kind="stable")[:most]
            yield from ((left, int(right)) for right in order)

    return pairs(), counts[0] * most


def _vectors(template: Template, side: str, table: Table, embed: Embed) -> Any:
    """Return a vector of length 1 for each row: of what the prompt shows of it."""
    try:
        import numpy as np
    except ImportError as error:
        raise IndusError("There is no numpy here to compare vectors with: install it, or give on.") from error
    names = [name.removeprefix(f"{side}.") for name in template.columns if name.startswith(f"{side}.")]
    if not names:
        raise UsageError(f"The prompt names no column on the {side} that a vector could be made of.")
    shown = [Template(" ".join(f"{{{name}}}" for name in names)).text_of(row) for row in table.rows]
    try:
        vectors: Any = np.asarray(embed(shown), dtype=float)
    except Exception as error:
        raise IndusError(f"embed failed on the {side}: {type(error).__name__}: {error}") from error
    if vectors.ndim != 2 or len(vectors) != len(shown) or not np.isfinite(vectors).all():
        raise UsageError(f"embed gives a vector of finite numbers for each text; on the {side} it did not.")
    lengths: Any = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths == 0, 1, lengths)


class Pairs(Kept):
    """The pairs of rows that belong together, as dictionaries with columns such as ``left.name``.

    Args:
        pairing: The pairs that were asked about.
        table: The same as rows.
        answers: The answer for each.
    """

    def __init__(self, pairing: Pairing, table: Table, answers: Answers) -> None:
        super().__init__(pairing, table, answers)
        self._pairing = pairing
        self.pairs: tuple[tuple[int, int], ...] = tuple(pairing.pairs[number] for number in self.numbers)
        """The numbers of the two rows of each pair that was found, in the data on the left and on the right."""
        self.asked: tuple[tuple[int, int], ...] = pairing.pairs
        """The same of all pairs that were asked about, in the order of ``answers``."""

    @property
    def frame(self) -> Any:
        """Return the pairs that were found as a data frame, with columns such as ``left.name``.

        It is one of polars if both sides are, and of pandas otherwise.

        Raises:
            IndusError: There is no pandas here; ``records`` needs none.
        """
        (left, right), tables = self._pairing.data, self._pairing.tables
        lefts, rights = [pair[0] for pair in self.pairs], [pair[1] for pair in self.pairs]
        if is_polars(left) and is_polars(right):
            frames = [chosen_frame(left, tables[0], lefts), chosen_frame(right, tables[1], rights)]
            named = [
                frame.rename({name: f"{side}.{name}" for name in frame.columns})
                for side, frame in zip(SIDES, frames, strict=True)
            ]
            return named[0].hstack(named[1])
        pd = pandas()
        frames = [
            (chosen_frame(_as_pandas(data), table, numbers)).reset_index(drop=True).add_prefix(f"{side}.")
            for side, data, table, numbers in zip(SIDES, (left, right), tables, (lefts, rights), strict=True)
        ]
        return pd.concat(frames, axis=1)


def _as_pandas(data: object) -> object:
    """Return the data, or nothing where a frame of pandas is made of its rows."""
    return None if is_polars(data) else data
