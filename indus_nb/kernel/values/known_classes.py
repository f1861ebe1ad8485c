"""Facts about a class that need no code of its objects: its name, its origin, and the labels of data.

What this module promises: nothing here calls code of the user's classes. No library is imported; frames and arrays are
known by the names of their classes.
"""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import takewhile
from types import ModuleType
from typing import Any, cast

FRAMES = {("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table"), ("pyarrow", "RecordBatch")}
SERIES = {("pandas", "Series"), ("pandas", "Index"), ("polars", "Series"), ("pyarrow", "ChunkedArray")}
ARRAYS = {("numpy", "ndarray"), ("torch", "Tensor"), ("jax", "Array"), ("jaxlib", "ArrayImpl"), ("cupy", "ndarray")}
WITH_SHAPE = frozenset(
    (
        *("pandas", "polars", "pyarrow", "numpy", "scipy", "torch", "jax", "jaxlib", "cupy"),
        *("tensorflow", "xarray", "h5py", "geopandas"),
    )
)
"""Libraries whose objects know shape and type of their values without computing."""
_OF_LIBRARIES = WITH_SHAPE | {"matplotlib", "PIL", "plotly"}
_MADE_BY = frozenset({"__new__", "__init__", "__init_subclass__", "__set_name__", "__class_getitem__", "__reduce__"})
"""Methods that make or save a class or an object, which run no code when a value is looked at."""
_OF_EVERY_CLASS = frozenset(vars(type("_", (), {}))) | {
    *("__annotations__", "__annotate_func__", "__annotations_cache__", "__firstlineno__", "__static_attributes__"),
    *("__orig_bases__", "__parameters__", "__slots__", "__qualname__"),
}
_PLAIN = (str, bytes, bool, int, float, complex, type(None))
_ZONES = frozenset({"datetime", "zoneinfo", "pytz", "dateutil"})
_MAX_LABELS = 2_000_000
_MAX_NESTING, _MAX_PARTS = 10, 10_000


def is_a(value: object, kinds: type | tuple[type, ...]) -> bool:
    """Return whether a value's real class is one of ``kinds``, without running the value's code.

    A value may lie about its class, or load something to answer.

    Args:
        kinds: A class, or several.

    Returns:
        Whether its real class is one of them, or a subclass.
    """
    return issubclass(type(value), kinds)


def library_of(kind: type) -> str:
    """Return the package that a class says it comes from."""
    module: object = type.__dict__["__module__"].__get__(kind)
    return module.partition(".")[0] if type(module) is str else ""


def module_name(module: object) -> object:
    """Return a module's name without triggering a lazy import."""
    return object.__getattribute__(module, "__dict__").get("__name__")


@lru_cache(maxsize=1000)
def version_of(library: str) -> str:
    """Return the version of an imported library, without running code of it; empty if it has none."""
    module = sys.modules.get(library)
    found = object.__getattribute__(module, "__dict__").get("__version__") if is_a(module, ModuleType) else None
    if type(found) is not str:
        from importlib import metadata

        with suppress(Exception):  # of packages of other names, or what broken ones raise
            found = metadata.version(library)
    return found if type(found) is str and re.fullmatch(r"[0-9][0-9A-Za-z.+!-]{0,40}", found) else ""


def class_name(kind: type) -> str:
    """Return the name of a class, past its metaclass."""
    return type.__dict__["__name__"].__get__(kind)


def type_name(value: object) -> str:
    """Return the name of a value's class, with its library if that is not Python's own."""
    kind = type(value)
    library = library_of(kind)
    return class_name(kind) if library in ("builtins", "__main__", "") else f"{library}.{class_name(kind)}"


def families(value: object) -> set[tuple[str, str]]:
    """Return library and name of the value's class and its bases, without those that override attribute access.

    That is a class that puts something in the place of what its library's has, or a special method to it.
    """
    bases: tuple[type, ...] = type.__dict__["__mro__"].__get__(type(value))
    own = list(takewhile(lambda base: library_of(base) not in _OF_LIBRARIES, bases))
    if len(own) < len(bases) and (own or not has_plain_attrs(value)):
        given = {name for base in own for name in type.__dict__["__dict__"].__get__(base)} - _OF_EVERY_CLASS - _MADE_BY
        known = {name for base in bases[len(own) :] for name in type.__dict__["__dict__"].__get__(base)}
        if given & known or any(map(_is_special, given)) or not has_plain_attrs(value):
            return set()
    return {(library_of(base), class_name(base)) for base in bases}


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def is_of_a_library(kind: type) -> bool:
    """Return whether a class is found in the module that it names, which rules out the notebook's own."""
    import sys

    module = sys.modules.get(type.__dict__["__module__"].__get__(kind))
    return module is not None and vars(module).get(class_name(kind)) is kind


def has_known_zone(value: object) -> bool:
    """Return whether a date or time has no time zone of the user's own class, whose methods would be called."""
    if not is_a(value, (dt.datetime, dt.time)):
        return True
    zone: object = getattr(value, "tzinfo", None)
    kind = type(zone)
    bases: tuple[type, ...] = type.__dict__["__mro__"].__get__(kind)
    made = kind if library_of(kind) != "pytz" else bases[1]  # which makes a class for each zone
    return zone is None or (library_of(made) in _ZONES and is_of_a_library(made))


def has_odd_labels(value: Any) -> bool:
    """Return whether labels of a pandas object may be objects of the user's, whose comparisons pandas calls."""
    kind = cast("type[object]", type(value))
    if library_of(kind) not in ("pandas", "geopandas") or not is_of_a_library(kind):
        return False
    value = whole(value)
    axes: Any = _own(value, "axes")
    indexes: list[Any] = [value] if axes is None and _own(value, "nlevels") is not None else list(axes or ())
    dtypes: Any = _own(value, "dtypes") if _own(value, "columns") is not None else [_own(value, "dtype")]
    categories = [held for dtype in dtypes if (held := getattr(dtype, "categories", None)) is not None]
    names = [_own(value, "name"), *(name for index in indexes for name in index.names)]
    return any(map(_is_odd_index, (*indexes, *categories))) or not all(map(_is_label, names))


def has_plain_attrs(value: Any) -> bool:
    """Return whether the ``attrs`` of a pandas object are plain: pandas deep-copies them into derived data."""
    if is_of_a_library(cast("type[object]", type(value))):
        value = whole(value)
    held: Any = _own(value, "__dict__")
    attrs: Any = cast("dict[str, Any]", held).get("_attrs") if type(held) is dict else None
    return attrs is None or _is_plain_part(attrs, _MAX_NESTING, iter(range(_MAX_PARTS)))


def _is_plain_part(part: Any, depth: int, room: Iterator[int]) -> bool:
    kind = cast("type[object]", type(part))
    if next(room, None) is None:
        return False
    if kind is dict:
        return depth > 0 and all(_is_plain_part(each, depth - 1, room) for pair in part.items() for each in pair)
    if kind in (list, tuple, set, frozenset):
        return depth > 0 and all(_is_plain_part(each, depth - 1, room) for each in part)
    return _is_label_class(kind) and has_known_zone(part)


def whole(value: Any) -> Any:
    """Return the object that a pandas indexer or group-by belongs to; any other value itself."""
    held = _own(value, "obj")
    return value if held is None else held


def _own(value: object, name: str) -> Any:
    """Return an attribute without pandas' lookup among columns and items of the index; ``None`` if missing."""
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return None


def _is_odd_index(index: Any) -> bool:
    levels: Any = getattr(index, "levels", None)
    if levels is not None:
        return any(map(_is_odd_index, levels))
    categories: Any = getattr(index.dtype, "categories", None)
    if categories is not None:
        return _is_odd_index(categories)
    if not getattr(index.dtype, "hasobject", False):
        return False
    return len(index) > _MAX_LABELS or not all(map(_is_label_class, set(map(type, index.to_numpy().flat))))


def _is_label(name: Any) -> bool:
    parts = cast("tuple[object, ...]", name) if type(name) is tuple else (name,)
    return all(map(_is_label_class, map(type, parts)))


def _is_label_class(kind: type) -> bool:
    return kind in _PLAIN or (
        library_of(kind) in ("datetime", "decimal", "fractions", "uuid", "numpy", "pandas") and is_of_a_library(kind)
    )
