"""Kinds of objects of numpy, pandas and polars, none of which is imported: who has such an object has done so.

- **Arrays**: the bytes belong to the array that owns them, which views lead to. The owner's bytes are copied; of every
  array shape and type are remembered.
- **Frames of pandas with copy-on-write** (pandas 3): a shallow copy, which costs nothing until one of both is changed.
  The arrays below the columns can be written to past the frame, so they are remembered besides, as far as there is
  room. Without copy-on-write they are what a frame holds.
- **Frames of polars** refer to columns that never change, so a clone refers to the same.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeGuard, cast

from indus_nb.kernel.undo.keeper import (
    ABSENT,
    Keeper,
    State,
    attributes,
    class_of,
    identical,
    put_attributes,
    same_items,
)
from indus_nb.kernel.undo.objects.builtin_kinds import Through
from indus_nb.kernel.undo.objects.pages import Pages, Unwritten
from indus_nb.kernel.values.known_classes import is_of_a_library

_CHUNK_BYTES = 1 << 18
_FEW_LABELS = 10_000
"""Most labels that are checked for writes to an array that was made of them meanwhile."""
_OWN_OF_FRAMES = frozenset({"_mgr", "_item_cache", "_cacher"})
"""Attributes of frames that are remembered by themselves, or are caches."""
_INSIDE_COLUMNS = ("_ndarray", "_pa_array", "_data", "_mask", "_left", "_right", "_sparse_values")
"""Attributes of a column's values that hold these in the end."""


_pages: Pages | None = None


class NotRestorableError(Exception):
    """An object cannot be remembered, or a change of it cannot be undone; the message says why."""


# Arrays


class _Array(NamedTuple):
    base: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    writeable: bool
    content: Any
    """A copy of the bytes, or the list of the objects; ``None`` where another array has them."""

    def header(self) -> tuple[Any, ...]:
        return self[1:5]


class NdarrayKind(State):
    """Arrays of numpy."""

    def elements(self, obj: Any) -> int:
        return obj.size if obj.dtype.hasobject and _has_content(obj) else 0

    def size(self, obj: Any) -> int:
        if not _has_content(obj) or (_pages is not None and not obj.dtype.hasobject):
            return 0
        return obj.size * 8 if obj.dtype.hasobject else obj.nbytes

    def remember(self, obj: Any) -> _Array:
        if not _has_content(obj):
            return _with_header(obj, None)
        return _with_header(obj, _objects(obj) if obj.dtype.hasobject else _kept(_bytes(obj)))

    def outline(self, obj: Any) -> _Array:
        return self.remember(obj) if obj.dtype.hasobject else _with_header(obj, None)

    def put(self, obj: Any, state: _Array) -> None:
        _put_header(obj, state)
        if state.content is None or _holds(obj, state.content):
            return
        writeable = obj.flags.writeable
        try:
            if not writeable:
                obj.flags.writeable = True
            if _is_list(state.content):
                objects = sys.modules["numpy"].empty(obj.size, dtype=object)
                for at, value in enumerate(state.content):
                    objects[at] = value
                _plain(obj)[...] = objects.reshape(obj.shape)
            else:
                _bytes(obj)[...] = state.content
        finally:
            if not writeable:
                obj.flags.writeable = False

    def same(self, obj: Any, state: _Array) -> bool:
        if _with_header(obj, None).header() != state.header():
            return False
        return state.content is None or _holds(obj, state.content)

    def parts(self, state: _Array) -> Iterable[Any]:
        dtype = [state.dtype] if state.dtype.names else []
        return [state.base, *dtype, *state.content] if _is_list(state.content) else [state.base, *dtype]

    def lacks(self, obj: Any, state: _Array) -> str:
        return "" if obj.nbytes == _size(state) * state.dtype.itemsize else "it was resized in its place"

    def weight(self, state: _Array) -> int:
        content: Any = state.content
        return 64 if content is None else 8 * len(content) if _is_list(content) else int(content.nbytes)


def is_array(value: Any) -> bool:
    """Return whether an object is an array of numpy, or labels, which hand out a read-only one."""
    return hasattr(value, "__array_interface__") or hasattr(value, "get_indexer")


def _is_list(content: Any) -> TypeGuard[list[Any]]:
    return isinstance(content, list)


def _plain(array: Any) -> Any:
    return array if type(array).__name__ == "ndarray" else array.view(sys.modules["numpy"].ndarray)


def _stands_on_array(array: Any) -> bool:
    return isinstance(array.base, sys.modules["numpy"].ndarray) or type(array.base).__name__ == "DummyArray"


def _has_content(array: Any) -> bool:
    """Return whether memory is remembered with this array: it is writable, and no other array owns it."""
    return not _stands_on_array(array) and (array.flags.owndata or array.flags.writeable)


def _with_header(array: Any, content: Any) -> _Array:
    return _Array(array.base, array.shape, array.strides, array.dtype, array.flags.writeable, content)


def _put_header(array: Any, state: _Array) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # to set these is discouraged, as other code does not expect it
        # masked arrays and others do more than that where these are set
        of_arrays = cast("dict[str, Any]", vars(sys.modules["numpy"].ndarray))
        if array.dtype != state.dtype and array.nbytes == _size(state) * state.dtype.itemsize:
            of_arrays["dtype"].__set__(array, state.dtype)
        if array.shape != state.shape:
            if array.size != _size(state):
                raise NotRestorableError("an array was resized in its place")
            of_arrays["shape"].__set__(array, state.shape)
        if array.strides != state.strides:
            of_arrays["strides"].__set__(array, state.strides)
        if array.flags.writeable != state.writeable:
            array.flags.writeable = state.writeable


def _size(state: _Array) -> int:
    size = 1
    for length in state.shape:
        size *= length
    return size


def _objects(array: Any) -> list[Any]:
    if array.dtype.names:
        raise NotRestorableError("an array of records that hold objects")
    return _plain(array).ravel().tolist()


def _bytes(array: Any) -> Any:
    """Return the memory of an array, as a flat array that shares it."""
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise NotRestorableError("an array with gaps over foreign memory")
    return _plain(array).ravel("K").view(sys.modules["numpy"].uint8)


def follow(pages: Pages | None) -> None:
    """Track large arrays by their memory pages from now on: in a copy of a process.

    What is remembered so cannot be put back.

    Args:
        pages: Pages of this process; ``None`` where the system has no page map.
    """
    global _pages  # noqa: PLW0603 - a process has one memory
    _pages = pages


def _kept(content: Any) -> Any:
    """Return a snapshot of bytes: a copy, or their unwritten pages."""
    known = None if _pages is None else _pages.remember(content)
    return content.copy() if known is None else known


def _chunks(content: Any) -> Iterator[Any]:
    for start in range(0, content.nbytes, _CHUNK_BYTES):
        yield content[start : start + _CHUNK_BYTES]


def _holds(array: Any, content: Any) -> bool:
    if _is_list(content):
        return array.size == len(content) and identical(_plain(array).flat, content)
    now = _bytes(array)
    if isinstance(content, Unwritten):
        return _pages is not None and _pages.holds(now, content)
    return now.nbytes == content.nbytes and all(
        one.tobytes() == other.tobytes() for one, other in zip(_chunks(now), _chunks(content), strict=True)
    )


class DtypeKind(State):
    """Types of records: the names of their fields."""

    def remember(self, obj: Any) -> Any:
        return obj.names

    def put(self, obj: Any, state: Any) -> None:
        if obj.names != state:
            obj.names = state


class LiveKind(Keeper):
    """Objects in C that hand out their memory as arrays where they are pickled, such as trees of scikit-learn."""

    def beneath(self, state: Any) -> Iterable[Any]:
        held = state.__getstate__()
        found: Iterable[Any] = cast("dict[str, Any]", held).values() if isinstance(held, dict) else ()
        return [each for each in found if is_array(each) and not each.flags.owndata]


# Generators of random numbers


class BitGeneratorKind(State):
    """Bit generators of numpy's random numbers."""

    def size(self, obj: Any) -> int:  # noqa: ARG002
        return 5000

    def remember(self, obj: Any) -> tuple[Any, Any]:
        return obj.state, getattr(obj, "seed_seq", None)

    def put(self, obj: Any, state: tuple[Any, Any]) -> None:
        obj.state = state[0]

    def same(self, obj: Any, state: tuple[Any, Any]) -> bool:
        return _frozen(obj.state) == _frozen(state[0])

    def parts(self, state: tuple[Any, Any]) -> Iterable[Any]:
        return state[1:]


class SeedKind(State):
    """Seed sequences of numpy: how many children they spawned, which cannot be restored."""

    fixed = "generators were made of it"

    def remember(self, obj: Any) -> int:
        return obj.n_children_spawned


class PlaceKind(State):
    """Iterators of numpy over an array: their place, which cannot be put back."""

    fixed = "it has moved on"

    def remember(self, obj: Any) -> tuple[int, Any]:
        return obj.index, obj.base

    def same(self, obj: Any, state: tuple[int, Any]) -> bool:
        return obj.index == state[0]

    def parts(self, state: tuple[int, Any]) -> Iterable[Any]:
        return (state[1],)


class RandomStateKind(State):
    """numpy's older generators."""

    def size(self, obj: Any) -> int:  # noqa: ARG002
        return 5000

    def remember(self, obj: Any) -> Any:
        return obj.get_state(legacy=False)

    def put(self, obj: Any, state: Any) -> None:
        obj.set_state(state)

    def same(self, obj: Any, state: Any) -> bool:
        return _frozen(obj.get_state(legacy=False)) == _frozen(state)


def _frozen(state: Any) -> Any:
    if isinstance(state, dict):
        given = cast("dict[str, Any]", state)
        return [(name, _frozen(value)) for name, value in given.items()]
    return state.tobytes() if hasattr(state, "tobytes") else state


# pandas


class _Frame(NamedTuple):
    manager: Any
    axes: list[Any]
    others: dict[str, Any]


class PandasKind(State):
    """Frames and series of pandas."""

    def remember(self, obj: Any) -> _Frame:
        others = attributes(obj, _OWN_OF_FRAMES)
        return _Frame(obj._mgr.copy(deep=False), [*obj._mgr.axes], others)  # noqa: SLF001

    def former(self, obj: Any, state: _Frame) -> Any:
        if not is_of_a_library(class_of(obj)):
            return ABSENT  # the end of a second object would be that of what the first one holds
        found = object.__new__(class_of(obj))
        self.put(found, state)
        return found

    def put(self, obj: Any, state: _Frame) -> None:
        manager = state.manager.copy(deep=False)
        manager.axes = [*state.axes]
        cache: dict[str, Any] = {"_item_cache": {}} if hasattr(class_of(obj), "_clear_item_cache") else {}
        put_attributes(obj, {**state.others, **cache, "_mgr": manager})

    def same(self, obj: Any, state: _Frame) -> bool:
        return self._same_around(obj, state) and (
            _places(obj._mgr) == _places(state.manager)  # noqa: SLF001
            or (copies_on_write() and self._same_values(obj, state))
        )

    def sealed(self, obj: Any, seal: _Frame) -> bool:
        # to read a frame may put its columns together elsewhere, which is no change of the user's
        if not self._same_around(obj, seal):
            return False
        return _places(obj._mgr) == _places(seal.manager) or bool(obj._mgr.equals(seal.manager))  # noqa: SLF001

    def _same_around(self, obj: Any, state: _Frame) -> bool:
        axes: list[Any] = obj._mgr.axes  # noqa: SLF001
        same_axes = len(axes) == len(state.axes) and identical(axes, state.axes)
        return same_axes and same_items(attributes(obj, _OWN_OF_FRAMES), state.others)

    def _same_values(self, obj: Any, state: _Frame) -> bool:
        now, then = obj._mgr, state.manager  # noqa: SLF001
        if any(_holds_objects(block.values) for block in (*now.blocks, *then.blocks)):
            return False
        return bool(now.equals(then))

    def parts(self, state: _Frame) -> Iterable[Any]:
        yield from state.axes
        yield from state.others.values()
        shared = copies_on_write()
        yield from (block.values for block in state.manager.blocks if not shared or _holds_objects(block.values))

    def beneath(self, state: _Frame) -> Iterable[Any]:
        if copies_on_write():
            yield from (block.values for block in state.manager.blocks if not _holds_objects(block.values))

    def weight(self, state: _Frame) -> int:
        return sum(int(block.values.nbytes) for block in state.manager.blocks)


def copies_on_write() -> bool:
    """Return whether changes to a frame of pandas never reach another one."""
    pandas: Any = sys.modules["pandas"]
    if int(pandas.__version__.partition(".")[0]) >= 3:
        return True
    return pandas.get_option("mode.copy_on_write") is True


def _holds_objects(values: Any) -> bool:
    return getattr(values.dtype, "hasobject", False) is True and hasattr(values, "flat")


def _places(manager: Any) -> list[Any]:
    return [(place_of(block.values), block.mgr_locs.as_array.tolist()) for block in manager.blocks]


def place_of(values: Any) -> Any:
    """Return the address of the values of columns or labels, which are other objects each time."""
    if hasattr(values, "__array_interface__"):
        return values.__array_interface__["data"][0], values.shape, values.strides, str(values.dtype)
    inside = [getattr(values, name) for name in _INSIDE_COLUMNS if hasattr(values, name)]
    return (str(values.dtype), *map(place_of, inside)) if inside and hasattr(values, "dtype") else id(values)


class ColumnKind(State):
    """Values of columns of pandas' own kinds, and types of these: their attributes, without what reading fills."""

    def remember(self, obj: Any) -> dict[str, Any]:
        return attributes(obj, ("_cache",))

    def put(self, obj: Any, state: dict[str, Any]) -> None:
        put_attributes(obj, state)

    def same(self, obj: Any, state: dict[str, Any]) -> bool:
        return same_items(self.remember(obj), state)

    def parts(self, state: dict[str, Any]) -> Iterable[Any]:
        return state.values()


class _Index(NamedTuple):
    names: list[Any]
    held: list[Any]
    """The arrays of the labels; for several levels, lists of them."""
    made: dict[str, Any]
    """Arrays that were made of these, and are handed out from then on."""
    freq: Any
    """The frequency of the moments, if there is one."""


class IndexKind(State):
    """Labels of pandas: names and frequency; the labels change only where their arrays are written to past them."""

    def remember(self, obj: Any) -> _Index:
        own: dict[str, Any] = obj.__dict__
        made = {name: value for name, value in own.get("_cache", {}).items() if name in ("_data", "_values")}
        held = [own[name] for name in ("_data", "_levels", "_codes") if name in own]
        return _Index([*obj.names], held, made, frequency_of(obj))

    def put(self, obj: Any, state: _Index) -> None:
        obj.names = state.names
        obj._reset_cache()  # noqa: SLF001 - where labels are was found in what they were meanwhile
        obj._cache.update(state.made)  # noqa: SLF001
        if hasattr(holder := _with_freq(obj), "_freq"):
            holder._freq = state.freq  # noqa: SLF001

    def same(self, obj: Any, state: _Index) -> bool:
        now = self.remember(obj)
        if len(now.names) != len(state.names) or not identical(now.names, state.names) or now.freq != state.freq:
            return False
        fresh = now.made.keys() - state.made.keys() if len(obj) <= _FEW_LABELS else ()
        return all(_is_as_made(now.made[name], getattr(obj._view(), name)) for name in fresh)  # noqa: SLF001

    def beneath(self, state: _Index) -> Iterable[Any]:
        yield from state.made.values()
        for each in state.held:
            yield from each if isinstance(each, list) else [each]


def frequency_of(labels: Any) -> Any:
    """Return the frequency of moments; ``None`` where labels have none."""
    return getattr(_with_freq(labels), "_freq", None)


def _with_freq(obj: Any) -> Any:
    """Return the object that has the frequency of labels: with pandas 3.1 these, before their array."""
    own: dict[str, Any] = obj.__dict__
    return obj if "_freq" in own else own.get("_data")


def _is_as_made(one: Any, other: Any) -> bool:
    return not is_array(one) or one.tolist() == other.tolist()


# polars


class PolarsKind(State):
    """Frames and series of polars."""

    def __init__(self, inside: str) -> None:
        """Set the attribute ``inside`` that has the data."""
        self._inside = inside

    def remember(self, obj: Any) -> tuple[Any, dict[str, Any]]:
        return obj.clone(), attributes(obj, (self._inside,))

    def put(self, obj: Any, state: tuple[Any, dict[str, Any]]) -> None:
        put_attributes(obj, {**state[1], self._inside: getattr(state[0].clone(), self._inside)})

    def same(self, obj: Any, state: tuple[Any, dict[str, Any]]) -> bool:
        then, others = state
        if not same_items(attributes(obj, (self._inside,)), others):
            return False
        if self._inside == "_df":
            return obj.schema == then.schema and obj.columns == then.columns and obj.equals(then, null_equal=True)
        return obj.equals(then, check_dtypes=True, check_names=True, null_equal=True)

    def parts(self, state: tuple[Any, dict[str, Any]]) -> Iterable[Any]:
        return state[1].values()

    def weight(self, state: tuple[Any, dict[str, Any]]) -> int:
        return int(state[0].estimated_size())


_POLARS_FRAME, _POLARS_SERIES = PolarsKind("_df"), PolarsKind("_s")
_FRAME = PandasKind()
LIVE = LiveKind()
COLUMN = ColumnKind()

BY_NAME: dict[tuple[str, str], Keeper] = {
    ("numpy", "ndarray"): NdarrayKind(),
    ("numpy", "dtype"): DtypeKind(),
    ("numpy", "flatiter"): PlaceKind(),
    ("numpy", "BitGenerator"): BitGeneratorKind(),
    ("numpy", "SeedSequence"): SeedKind(),
    ("numpy", "Generator"): Through(lambda obj: (obj.bit_generator,)),
    ("numpy", "RandomState"): RandomStateKind(),
    ("pandas", "DataFrame"): _FRAME,
    ("pandas", "Series"): _FRAME,
    ("pandas", "Index"): IndexKind(),
    ("pandas", "NDArrayBacked"): Through(lambda obj: (obj._ndarray,)),  # noqa: SLF001
    ("pandas", "ExtensionArray"): COLUMN,
    ("pandas", "ExtensionDtype"): COLUMN,
    ("polars", "DataFrame"): _POLARS_FRAME,
    ("polars", "Series"): _POLARS_SERIES,
}
"""Kinds by the package and the name of a class."""
WHOLE = frozenset(
    {"DataFrame", "Series", "Index", "ExtensionArray", "ExtensionDtype", "dtype", "Logger", "Handler"}
    | {"Condition", "Event", "Semaphore"}
)
"""Classes whose attributes are remembered too, or are caches."""
