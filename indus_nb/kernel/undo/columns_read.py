"""Columns of frames that code reads, where its text shows that it reads no more of them.

>>> used = column_uses("flights.delay.mean() + flights['gate'].nunique() + len(hotels) + max(trips)")
>>> {name: sorted(use.column for use in used[name]) for name in sorted(used)}
{'flights': ['delay', 'gate'], 'hotels': []}

What is remembered of a column shares its memory with the frame as long as that is there, so that to compare them takes
no look at the values, unless the frame is another one. Objects in columns are compared if they are numbers or texts.
"""

from __future__ import annotations

import ast
import sys
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol, TypeAlias

from indus_nb.kernel.undo.budget import CheckpointBudget
from indus_nb.kernel.undo.keeper import class_of
from indus_nb.kernel.undo.objects.libraries import copies_on_write, frequency_of, place_of
from indus_nb.kernel.values.known_classes import class_name, has_odd_labels, is_of_a_library, library_of

ATOMS: frozenset[type[Any]] = frozenset({bool, int, float, complex, str, bytes, type(None)})
"""Classes whose objects are compared by their values."""
_MAX_OUTLIVING = 16 << 20
"""Most bytes of columns that are kept of a frame that is gone."""


def is_same_atom(was: object, now: object) -> bool:
    """Return whether two values are one object, or equal numbers or texts."""
    if was is now:
        return True
    return type(was) is type(now) and type(was) in ATOMS and (was == now or (was != was and now != now))  # noqa: PLR0124 - nan


class Use(NamedTuple):
    """A column in code.

    Attributes:
        is_attribute: Whether it is written as an attribute, which may be a method of the frame instead.
    """

    column: str
    is_attribute: bool


Uses: TypeAlias = Mapping[str, frozenset[Use]]


def column_uses(code: str) -> Uses:
    """Return the names that code uses as `name.column`, `name["column"]`, `name[["a", "b"]]` or `len(name)` alone.

    The rows of a column may be chosen before: `name[condition].column`, with a comparison or several.
    """
    try:
        nodes = [*ast.walk(ast.parse(code))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[str, set[Use]] = {}
    by_column: set[ast.expr] = set()
    for node in nodes:
        for name, uses in _used_in(node):
            found.setdefault(name.id, set()).update(uses)
            by_column.add(name)
    whole = {node.id for node in nodes if isinstance(node, ast.Name) and node not in by_column}
    return {name: frozenset(uses) for name, uses in found.items() if name not in whole}


def _used_in(node: ast.AST) -> Iterator[tuple[ast.Name, list[Use]]]:
    match node:
        case ast.Attribute(value=frame, attr=column, ctx=ast.Load()):
            uses = [Use(column, is_attribute=True)]
        case ast.Subscript(value=frame, slice=ast.Constant(value=str(column)), ctx=ast.Load()):
            uses = [Use(column, is_attribute=False)]
        case ast.Subscript(value=frame, slice=ast.List(elts=listed), ctx=ast.Load()):
            texts = [each.value for each in listed if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            if len(texts) < len(listed):
                return
            uses = [Use(text, is_attribute=False) for text in texts]
        case ast.Call(func=ast.Name(id="len"), args=[frame], keywords=[]):
            uses = []
        case _:
            return
    if isinstance(frame, ast.Subscript) and _is_condition(frame.slice):
        frame = frame.value
    if isinstance(frame, ast.Name):
        yield frame, uses


def _is_condition(node: ast.expr) -> bool:
    match node:
        case ast.Compare():
            return True
        case ast.UnaryOp(op=ast.Invert(), operand=part):
            return _is_condition(part)
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr(), left=left, right=right):
            return _is_condition(left) or _is_condition(right)
        case _:
            return False


def columns_in(namespace: Mapping[str, Any], code: str) -> Uses:
    """Return the frames of which code reads columns alone, with these; no code of the user's runs."""
    found: dict[str, frozenset[Use]] = {}
    for name, uses in column_uses(code).items():
        frame = namespace.get(name)
        kind = _kind_of(frame)
        with suppress(Exception):  # a frame in a state that cannot be read is not one of them
            if kind is None or kind.around(frame) is None or "len" in namespace:
                continue
            if all(kind.column(frame, use) is not None for use in uses):
                found[name] = uses
    return found


_FOUND: ContextVar[dict[tuple[int, Callable[[Any], Any]], tuple[Any, Any]] | None] = ContextVar("found", default=None)
"""What was found out of frames, by their ids, with the frames, so that no other gets the id of one."""


@contextmanager
def at_rest() -> Generator[None]:
    """Find the labels of each frame out only once, for as long as nothing of the user's runs."""
    token = _FOUND.set({})
    try:
        yield
    finally:
        _FOUND.reset(token)


def _once(frame: Any, find: Callable[[Any], Any]) -> Any:
    found = _FOUND.get()
    if found is None:
        return find(frame)
    key = id(frame), find
    if key not in found:
        found[key] = frame, find(frame)
    return found[key][1]


class ColumnsRead:
    """Some columns of a frame, as they were, and the labels of its rows.

    Of a large frame they are lost with it.
    """

    def __init__(self, frame: Any, uses: frozenset[Use], budget: CheckpointBudget) -> None:
        """Remember columns that ``columns_in`` has found.

        Raises:
            TooMuchError: They would have to be copied, and the budget does not suffice.
            ValueError: They hold objects that are not compared.
        """
        kind = _kind_of(frame)
        if kind is None:
            raise ValueError("it is no frame")
        self._kind = kind
        self._uses = uses
        self._held: dict[Use | None, Any] = {None: kind.around(frame)}
        for use in uses:
            self._held[use] = kind.remember(kind.column(frame, use), budget)
        self._frame = weakref.ref(frame, _Outlive(self._held, kind))

    @property
    def weight(self) -> int:
        """Return roughly how many bytes it keeps from being freed."""
        is_shared = self._kind.shares() and self._frame() is not None
        return 0 if is_shared else self._kind.size(self._held)

    def is_in(self, frame: Any) -> bool:
        """Return whether a frame has these columns, for the same rows."""
        kind = self._kind
        if _kind_of(frame) is not kind or not self._held or not kind.is_same_around(self._held[None], frame):
            return False
        return all(kind.is_same(self._held[use], kind.column(frame, use)) for use in self._uses)


class _Outlive:
    """What happens to columns whose frame is gone; refers to no reading, so that there is no ring."""

    def __init__(self, held: dict[Use | None, Any], kind: _Frames) -> None:
        self._held = held
        self._kind = kind

    def __call__(self, _gone: object) -> None:
        held = self._held
        if self._kind.size(held) > _MAX_OUTLIVING:
            held.clear()
        for use in held.keys() - {None}:
            held[use] = self._kind.apart(held[use])


class _Frames(Protocol):
    """What is known of one library's frames."""

    def shares(self) -> bool:
        """Return whether what is remembered shares its memory with the frame."""
        ...

    def around(self, frame: Any) -> Any:
        """Return what code may read of a frame beside values of columns; ``None`` where that cannot be compared."""
        ...

    def is_same_around(self, was: Any, frame: Any) -> bool:
        """Return whether a frame has what ``around`` has returned."""
        ...

    def column(self, frame: Any, use: Use) -> Any:
        """Return a column; ``None`` where that is none."""
        ...

    def remember(self, column: Any, budget: CheckpointBudget) -> Any:
        """Return a column that stays as it is."""
        ...

    def is_same(self, was: Any, now: Any) -> bool:
        """Return whether a column is as it was remembered."""
        ...

    def apart(self, column: Any) -> Any:
        """Return a column that keeps nothing else of its frame."""
        ...

    def size(self, held: Mapping[Use | None, Any]) -> int:
        """Return the bytes of remembered columns."""
        ...


class _OfPandas:
    def shares(self) -> bool:
        return copies_on_write()

    def around(self, frame: Any) -> Any:
        return _once(frame, _around_of_pandas)

    def is_same_around(self, was: Any, frame: Any) -> bool:
        now = self.around(frame)
        if was is None or now is None:
            return False
        index, names, freq = now
        if len(names) != len(was[1]) or not all(map(is_same_atom, was[1], names)) or freq != was[2]:
            return False
        is_like_it = type(index) is type(was[0]) and _is_same_dtype(index.dtype, was[0].dtype)
        return index is was[0] or (is_like_it and bool(index.equals(was[0])))

    def column(self, frame: Any, use: Use) -> Any:
        if use.is_attribute and (hasattr(class_of(frame), use.column) or use.column in vars(frame)):
            return None
        place = _once(frame, _places_of_pandas).get(use.column)
        return None if place is None else frame.iloc[:, place]

    def remember(self, column: Any, budget: CheckpointBudget) -> Any:
        if column.dtype == object:
            budget.elements(len(column))
        if not _is_plain(column):
            raise ValueError("a column of objects")
        if self.shares():
            return column
        budget.copy(column.nbytes)
        return column.copy()

    def is_same(self, was: Any, now: Any) -> bool:
        if now is None or not _is_same_dtype(now.dtype, was.dtype) or not _is_plain(now):
            return False
        if place_of(was.array) == place_of(now.array) and self.shares():
            return True
        if was.dtype == object:  # pandas takes 1 for True, and None for nan
            return len(was) == len(now) and all(map(is_same_atom, was.array, now.array))
        return bool(was.equals(now))

    def apart(self, column: Any) -> Any:
        return column.copy()

    def size(self, held: Mapping[Use | None, Any]) -> int:
        index = held[None][0] if held else ()
        return sum(int(getattr(each, "nbytes", 0)) for each in (index, *(held[use] for use in held if use)))


class _OfPolars:
    def shares(self) -> bool:
        return True

    def around(self, frame: Any) -> Any:
        return frame.height if [*vars(frame)] == ["_df"] else None

    def is_same_around(self, was: Any, frame: Any) -> bool:
        return self.around(frame) == was

    def column(self, frame: Any, use: Use) -> Any:
        has_it = not use.is_attribute and use.column in _once(frame, _labels_of_polars)
        return frame.get_column(use.column) if has_it else None

    def remember(self, column: Any, budget: CheckpointBudget) -> Any:  # noqa: ARG002 - nothing is copied
        if "Object" in str(column.dtype):
            raise ValueError("a column of objects")
        return column

    def is_same(self, was: Any, now: Any) -> bool:
        return now is not None and bool(was.equals(now, check_dtypes=True, check_names=True, null_equal=True))

    def apart(self, column: Any) -> Any:
        return column

    def size(self, held: Mapping[Use | None, Any]) -> int:
        return sum(int(held[use].estimated_size()) for use in held if use)


def _around_of_pandas(frame: Any) -> Any:
    if frame.attrs or has_odd_labels(frame):
        return None
    names = [*frame.index.names, *frame.columns.names, frame.flags.allows_duplicate_labels]
    return frame.index, names, frequency_of(frame.index)


def _places_of_pandas(frame: Any) -> dict[str, int | None]:
    """Return where each label that is a text stands; ``None`` for one that several columns have."""
    places: dict[str, int | None] = {}
    for place, label in enumerate(frame.columns.tolist()):
        if type(label) is str:
            places[label] = None if label in places else place
    return places


def _labels_of_polars(frame: Any) -> frozenset[str]:
    return frozenset(frame.columns)


_FRAMES: dict[str, _Frames] = {"pandas": _OfPandas(), "polars": _OfPolars()}


def _kind_of(value: Any) -> _Frames | None:
    """Return what is known of a frame; ``None`` of anything else, also of a class that is made of frames."""
    kind = class_of(value)
    library = library_of(kind)
    is_frame = library in _FRAMES and library in sys.modules and class_name(kind) == "DataFrame"
    return _FRAMES[library] if is_frame and is_of_a_library(kind) else None


def _is_same_dtype(was: Any, now: Any) -> bool:
    """Return whether types of pandas are the same, and their categories in the same order."""
    categories = getattr(was, "categories", None)
    return bool(was == now) and (categories is None or bool(categories.equals(now.categories)))


def _is_plain(column: Any) -> bool:
    """Return whether comparing a column of pandas runs no code of the user's."""
    if column.dtype == object:
        return {*map(type, column.array)} <= ATOMS
    return library_of(class_of(column.array)) == "pandas"
