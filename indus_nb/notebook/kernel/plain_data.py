"""Data as its library made it: arrays, series and frames with nothing of the user's classes in them.

What this module promises: to find that out, and to use ``METHODS`` and ``ATTRIBUTES`` of such data, calls no code of
the user's: none of their classes, and nothing that they have put into a class or an object of the library.
"""

from __future__ import annotations

import ast
import datetime as dt
import sys
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any, cast

from indus_nb.notebook.kernel.known_classes import has_known_zone, has_odd_labels, is_a, is_of_a_library, library_of


def words(text: str) -> frozenset[str]:
    """The words of a text, which is how this package writes its lists of names."""
    return frozenset(text.split())


_MAX_CODE_CHARACTERS = 20_000
_MAX_VALUES = 1_000_000
ATOMS = (bool, int, float, complex, str, bytes, type(None))
_DATA: Mapping[str, frozenset[str]] = {
    "pandas": words("DataFrame Series Index RangeIndex DatetimeIndex MultiIndex CategoricalIndex"),
    "polars": words("DataFrame Series"),
    "numpy": words("ndarray"),
}
_PLAIN_DTYPES = words(
    "StringDtype BooleanDtype Int8Dtype Int16Dtype Int32Dtype Int64Dtype UInt8Dtype UInt16Dtype UInt32Dtype "
    "UInt64Dtype Float32Dtype Float64Dtype PeriodDtype"
)
_POLARS_NUMBERS = words("Int8 Int16 Int32 Int64 Int128 UInt8 UInt16 UInt32 UInt64 Float32 Float64 Boolean")
_POLARS_DTYPES = _POLARS_NUMBERS | words("String Utf8 Date Datetime Duration Time Categorical Enum Null Decimal Binary")
_PLAIN_OBJECTS: Mapping[str, frozenset[str]] = {
    "datetime": words("datetime date time timedelta"),
    "decimal": words("Decimal"),
    "uuid": words("UUID"),
    "pandas": words("Timestamp Timedelta Period NaTType NAType"),
}
METHODS = words(
    "abs agg all any argmax argmin corr count cov cumsum describe diff drop_duplicates dropna duplicated first groupby "
    "head idxmax idxmin isna isnull item keys last max mean median memory_usage min mode n_unique nlargest notna "
    "notnull nsmallest null_count nunique pct_change prod quantile reset_index round sort_index sort_values std sum "
    "tail to_list tolist unique value_counts var"
)
ATTRIBUTES = words(
    "T columns dtype dtypes empty height iloc index is_unique loc name names nbytes ndim schema shape size values width"
)


def parsed(code: str, transform: Callable[[str], str]) -> ast.Module | None:
    """Parse code.

    Args:
        code: The code.
        transform: Makes Python of what a notebook allows besides.

    Returns:
        Its tree; ``None`` if it is no code, or too long.
    """
    if len(code) > _MAX_CODE_CHARACTERS:
        return None
    try:
        return ast.parse(transform(code))
    except Exception:  # noqa: BLE001 - such code will not run either, or a transformer of the user's failed
        return None


def is_plain_data(value: object) -> bool:
    """Whether it is an array, a series or a frame as its library made it, with plain values and labels."""
    kind = type(value)
    library = library_of(kind)
    if _name_of(kind) not in _DATA.get(library, ()) or not is_of_a_library(kind):
        return False
    if library == "numpy":
        return _has_plain_values(value)
    if not _is_unpatched(library):
        return False
    if library == "polars":
        return all(_name_of(each) in _POLARS_DTYPES and is_of_a_library(each) for each in _polars_dtypes(value))
    return _has_nothing_besides(value) and not has_odd_labels(value) and all(map(_has_plain_values, _parts(value)))


def kind_of(value: object) -> type:
    """The real class of any object."""
    return type(value)


def _name_of(kind: type) -> str:
    return type.__dict__["__name__"].__get__(kind)


def _polars_dtypes(value: Any) -> list[type]:
    dtypes: list[Any] = list(value.dtypes) if _name_of(kind_of(value)) == "DataFrame" else [value.dtype]
    return [cast("type", each) if is_a(each, type) else kind_of(each) for each in dtypes]


def _has_nothing_besides(value: object) -> bool:
    """Whether nothing was set on an object of pandas' itself, which would be called, shown or copied."""
    held: Mapping[str, Any] = object.__getattribute__(value, "__dict__")
    if any(not name.startswith("_") or name.startswith("_repr") for name in held):
        return False
    attrs: Any = held.get("_attrs") or {}
    return type(attrs) is dict and all(
        type(part) in ATOMS for part in (*cast("Mapping[Any, Any]", attrs), *cast("Mapping[Any, Any]", attrs).values())
    )


def _is_unpatched(library: str) -> bool:
    """Whether the classes of a library do what it wrote itself, in all that is used here."""
    places = {library: _DATA[library], "pandas.core.groupby.generic": ("DataFrameGroupBy", "SeriesGroupBy")}
    bases: set[type] = {
        base
        for place, names in places.items()
        if place.partition(".")[0] == library and (module := sys.modules.get(place)) is not None
        for name in names
        if isinstance(kind := vars(module).get(name), type)
        for base in cast("tuple[type, ...]", type.__dict__["__mro__"].__get__(kind))
    }
    used = METHODS | ATTRIBUTES
    return all(
        _is_own(held, library)
        for base in bases
        if library_of(base) == library
        for name, held in vars(base).items()
        if name in used or (name.startswith("__") and name.endswith("__"))
    )


def _is_own(held: object, library: str) -> bool:
    if isinstance(held, property):
        held = held.fget
    elif isinstance(held, classmethod | staticmethod):
        held = cast("Any", held).__func__
    if isinstance(held, FunctionType):
        place = str(held.__globals__.get("__name__")).partition(".")[0]
        return place in (library, "abc", "contextlib", "functools", "typing", "typing_extensions", "warnings")
    return "Accessor" not in _name_of(type(held))


def _parts(value: Any) -> Iterable[Any]:
    """The indexes, levels and columns of something of pandas'."""
    indexes = [value] if hasattr(kind_of(value), "nlevels") else list(value.axes)
    for index in indexes:
        yield from index.levels if hasattr(kind_of(index), "levels") else (index,)
    if _name_of(kind_of(value)) == "DataFrame":
        yield from (value.iloc[:, at] for at in range(len(value.columns)))
    elif indexes[0] is not value:
        yield value


def _has_plain_values(data: Any) -> bool:
    dtype: Any = data.dtype
    if library_of(cast("type[object]", type(dtype))) != "numpy":
        return _is_plain_dtype(dtype)
    if dtype.names or dtype.subdtype:
        return False
    if not dtype.hasobject:
        return True
    held: Any = data.to_numpy() if hasattr(kind_of(data), "to_numpy") else data
    if held.size > _MAX_VALUES:
        return False
    kinds = set(map(type, held.flat))
    dated = any(issubclass(kind, dt.datetime | dt.time) for kind in kinds)
    return all(map(_is_plain_kind, kinds)) and (not dated or all(map(has_known_zone, held.flat)))


def _is_plain_kind(kind: type) -> bool:
    library = library_of(kind)
    if kind in ATOMS:
        return True
    if library == "numpy":
        numpy = vars(sys.modules["numpy"])
        scalar = issubclass(kind, numpy["generic"]) and not issubclass(kind, (numpy["void"], numpy["object_"]))
        return scalar and is_of_a_library(kind)
    return _name_of(kind) in _PLAIN_OBJECTS.get(library, ()) and _is_of_its_library(kind)


def _is_of_its_library(kind: type) -> bool:
    """Whether a class is its library's own; those that C code makes are known to it alone, and cannot be changed."""
    return is_of_a_library(kind) or (library_of(kind) == "pandas" and not kind.__flags__ & _HEAP_TYPE)


_HEAP_TYPE = 1 << 9


def _is_plain_dtype(dtype: Any) -> bool:
    """Whether a dtype of pandas' own holds nothing of the user's classes."""
    kind = cast("type[object]", type(dtype))
    if library_of(kind) != "pandas" or not is_of_a_library(kind):
        return False
    match _name_of(kind):
        case "CategoricalDtype":
            return dtype.categories is None or _has_plain_values(dtype.categories)
        case "DatetimeTZDtype":
            return has_known_zone(dt.time(tzinfo=dtype.tz))
        case "IntervalDtype":
            inner = dtype.subtype
            numeric = library_of(cast("type[object]", type(inner))) == "numpy" and not inner.hasobject
            return numeric or _is_plain_dtype(inner)
        case name:
            return name in _PLAIN_DTYPES


def is_numeric(data: Any) -> bool:
    """Whether data holds numbers, dates and durations only, none of which can be multiplied to something long."""
    if library_of(cast("type[object]", type(data))) == "polars":
        return all(_name_of(each) in _POLARS_NUMBERS for each in _polars_dtypes(data))
    dtypes: Any = data.dtypes if _name_of(cast("type[object]", type(data))) == "DataFrame" else [data.dtype]
    return all(dtype.kind in "biufcmM" for dtype in dtypes)
