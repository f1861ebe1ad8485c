"""Values of numpy, pandas and plotly: what is sent of them, and how they are made of it.

None of the libraries is imported before there is a value of it. What is made is made by constructors of these kinds
alone, of parts that were made before; whatever the parts are, it fails or it is such a value.
"""

from __future__ import annotations

import datetime as dt
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from indus_nb.base.installed import is_installed

_FREE = "biufcSUV"
"""Kinds of numpy's types whose bytes are all that there is to them; dates are sent as numbers."""


_MAX_HASHED = 100_000
"""Most values that pandas is given for a table of hashes: a copy can choose them so that all collide."""
_MAX_WORK = 10_000
"""Effort for the question whether two arrays share memory; their layout can make it unbounded."""
_MAX_MOMENTS = 1_000_000
_MAX_PARTS_OF_FIGURE = 20_000
"""Most moments that pandas compares with a frequency, and parts that plotly looks at, each in Python."""


class RefusedValueError(Exception):
    """A value cannot be sent, or bytes cannot be read; the message says why, behind the name of a variable."""


def library(name: str) -> Any:
    """Return an installed library; it is imported for a value of it that comes before anything else has needed it.

    Raises:
        RefusedValueError: It lies where no packages are installed, and nothing has imported it yet.
    """
    if name not in sys.modules and not is_installed(name):
        raise RefusedValueError(f"{name} is none of the installed packages, and no cell has imported it")
    return importlib.import_module(name)


class Plain:
    """A list of texts, numbers and nothing, which may be long."""

    def __init__(self, values: list[Any]) -> None:
        if type(values) is not list or not {*map(type, values)} <= {str, int, float, bool, type(None)}:
            raise RefusedValueError("a column of mixed values")
        self.values = values


class KnownObjects(NamedTuple):
    """Objects from before the fork, which are referred to where they are part of a new value.

    Attributes:
        known: The ids of objects that can change, with the variables that are bound to them.
        labels: The ids of labels of frames and columns, with the variable and the attributes that lead to them.
        copies: The ids of other labels, with the copy that is sent for all that have them in common.
    """

    known: Mapping[int, str]
    labels: Mapping[int, tuple[str, ...]]
    copies: dict[int, Any]


_Sent = tuple[Any, ...]


def _array(obj: Any, before: KnownObjects) -> _Sent:
    base = obj.base
    while base is not None:
        if id(base) in before.known:
            raise RefusedValueError("it shares its memory with another variable")
        base = getattr(base, "base", None)
    if type(obj).__module__ != "numpy" or obj.dtype.metadata:
        raise RefusedValueError(f"an array of the class {type(obj).__name__}")
    writable = bool(obj.flags.writeable)
    if obj.dtype.kind == "O":
        return "objects", obj.shape, obj.ravel(order="C").tolist(), writable
    if obj.dtype.kind in "mM":
        return "dates", obj.dtype.str, obj.shape, obj.astype("i8").tobytes(), writable
    if obj.dtype.kind not in _FREE or obj.dtype.names:
        raise RefusedValueError(f"an array of {obj.dtype}")
    data = obj.tobytes("A" if obj.flags.fnc else "C")
    return "array", obj.dtype.str, obj.shape, bool(obj.flags.fnc), data, writable


def is_array(value: Any) -> bool:
    """Return whether a value is an array of numpy's."""
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def share_memory(one: Any, other: Any) -> bool:
    """Return whether two arrays have a byte in common.

    Raises:
        TooHardError: That takes too long to find out, as they lie in memory in steps that do not fit each other.
    """
    return library("numpy").shares_memory(one, other, max_work=_MAX_WORK)


def owner_of(value: Any) -> Any:
    """Return the object that owns the memory of an array."""
    while (base := getattr(value, "base", None)) is not None:
        value = base
    return value


def _fixed(array: Any, writable: Any) -> Any:
    if writable is not True:
        array.flags.writeable = False
    return array


def _made_array(dtype: str, shape: tuple[int, ...], fortran: bool, data: bytes, writable: bool) -> Any:  # noqa: FBT001
    numpy: Any = library("numpy")
    kind = numpy.dtype(short_text(dtype))
    if kind.kind not in _FREE or kind.names:
        raise RefusedValueError(f"an array of {kind}")
    flat = numpy.frombuffer(data, dtype=kind)
    return _fixed(flat.reshape(_shape(shape), order="F" if fortran else "C").copy(order="K"), writable)


def view_of(value: Any, held: Any) -> _Sent | None:
    """Encode an array that is a view of another.

    Args:
        held: The other one, which a variable is bound to.

    Returns:
        Type, place, shape and strides; ``None`` if it is no part of it, or cannot be sent so.
    """
    numpy: Any = library("numpy")
    if type(held) is not numpy.ndarray or type(value) is not numpy.ndarray or not numpy.may_share_memory(value, held):
        return None
    start = value.__array_interface__["data"][0] - held.__array_interface__["data"][0]
    sent = value.dtype.str, start, value.shape, value.strides, bool(value.flags.writeable)
    try:
        made = _made_view(held, *sent)
    except (RefusedValueError, ValueError, TypeError):
        return None
    return sent if made.__array_interface__ == value.__array_interface__ else None


def _made_view(held: Any, dtype: str, start: int, shape: Any, strides: Any, writeable: bool) -> Any:  # noqa: FBT001
    numpy: Any = library("numpy")
    kind = numpy.dtype(short_text(dtype))
    if type(held) is not numpy.ndarray or held.dtype.kind not in _FREE or held.dtype.names or kind.kind not in _FREE:
        raise RefusedValueError("a part of an array of objects")
    if type(start) is not int or not all(type(each) is int for each in (*shape, *strides)):
        raise RefusedValueError("the values cannot be read")
    # It refuses what does not lie within the other one.
    made = numpy.ndarray(shape, kind, held, start, strides)
    if made.nbytes > held.nbytes:
        raise RefusedValueError("an array that repeats a part of another")
    return _fixed(made, writeable)


def _made_dates(dtype: str, shape: tuple[int, ...], data: bytes, writable: bool) -> Any:  # noqa: FBT001
    numpy: Any = library("numpy")
    kind = numpy.dtype(short_text(dtype))
    if kind.kind not in "mM":
        raise RefusedValueError(f"dates of {kind}")
    return _fixed(numpy.frombuffer(data, dtype=kind).reshape(_shape(shape)).copy(), writable)


def _made_objects(shape: tuple[int, ...], values: list[Any], writable: bool) -> Any:  # noqa: FBT001
    numpy: Any = library("numpy")
    if type(values) is not list:
        raise RefusedValueError("the values cannot be read")
    made = numpy.empty(_shape(shape), dtype=object)
    flat = made.reshape(-1)
    if len(flat) != len(values):
        raise RefusedValueError("the values cannot be read")
    for at, value in enumerate(values):
        flat[at] = value
    return _fixed(made, writable)


def short_text(value: Any) -> str:
    """Return a text that names a type, a zone or a moment, if it is one."""
    if type(value) is not str or len(value) > 100:
        raise RefusedValueError("the values cannot be read")
    return value


def _shape(value: Any) -> tuple[int, ...]:
    if type(value) is not tuple or not all(type(each) is int and each >= 0 for each in cast("tuple[Any, ...]", value)):
        raise RefusedValueError("the values cannot be read")
    return cast("tuple[int, ...]", value)


def _scalar(obj: Any, _: KnownObjects) -> _Sent:
    numpy: Any = library("numpy")
    return "scalar", numpy.asarray(obj)


def _made_scalar(array: Any) -> Any:
    numpy: Any = library("numpy")
    if type(array) is not numpy.ndarray or array.shape != ():
        raise RefusedValueError("the values cannot be read")
    return array[()]


def _column(obj: Any, before: KnownObjects | None = None) -> Any:
    """Encode the values of a column, or of labels."""
    pandas: Any = library("pandas")
    column = pandas.Series(obj)
    dtype = column.dtype
    if not isinstance(dtype, pandas.api.extensions.ExtensionDtype):
        return "whole", column.to_numpy(copy=True)
    if isinstance(dtype, pandas.CategoricalDtype):
        return "category", obj.codes.copy(), _own_or_held(obj.categories, before), bool(obj.ordered)
    if (sent := _moments(column, dtype)) is not None:
        return sent
    values, missing = column.astype(object).tolist(), column.isna().tolist()
    listed = [None if gone else _item(value) for value, gone in zip(values, missing, strict=True)]
    return "listed", Plain(listed), str(dtype)


def _moments(column: Any, dtype: Any) -> tuple[Any, ...] | None:
    """Encode moments, periods, and what else is no list of texts and numbers; return ``None`` for what is one."""
    pandas: Any = library("pandas")
    if isinstance(dtype, pandas.DatetimeTZDtype):
        return "zoned", column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy(copy=True), str(dtype.tz)
    if isinstance(dtype, pandas.PeriodDtype):
        return "periods", column.array.asi8.copy(), str(dtype)
    if isinstance(dtype, pandas.IntervalDtype):
        return "intervals", _column(column.array.left.array), _column(column.array.right.array), dtype.closed
    if isinstance(dtype, pandas.ArrowDtype):
        return "arrow", _plain_of_arrow(column.array, dtype.pyarrow_dtype), str(dtype.pyarrow_dtype)
    if isinstance(dtype, _others(pandas)):
        raise RefusedValueError(f"a column of {dtype}")
    return None


def _arrow_type(name: str) -> Any:
    """Return one of Arrow's types that have a name of their own: no decimals, zones or nested ones."""
    return library("pyarrow").type_for_alias(name)


def _number_of(kind: Any) -> Any:
    """Return the type of the numbers that moments and spans of Arrow's are; ``None`` for other types."""
    pyarrow: Any = library("pyarrow")
    is_short = pyarrow.types.is_date32(kind) or pyarrow.types.is_time32(kind)
    return (pyarrow.int32() if is_short else pyarrow.int64()) if pyarrow.types.is_temporal(kind) else None


def _plain_of_arrow(values: Any, kind: Any) -> Plain:
    held = library("pyarrow").array(values)
    number = _number_of(kind)
    return Plain((held if number is None else held.cast(number)).to_pylist())


def _arrow_of_plain(listed: Plain, name: str) -> Any:
    kind = _arrow_type(name)
    number = _number_of(kind)
    made = library("pyarrow").array(listed.values, number or kind)
    return made if number is None else made.cast(kind)


def _others(pandas: Any) -> tuple[Any, ...]:
    """List the extension types that are sent otherwise, or not at all."""
    return (
        *(pandas.CategoricalDtype, pandas.DatetimeTZDtype),
        *(pandas.PeriodDtype, pandas.IntervalDtype, pandas.SparseDtype, pandas.ArrowDtype),
    )


def _is_one_dimensional(value: Any) -> bool:
    return type(value) is library("numpy").ndarray and value.ndim == 1


def _item(value: Any) -> Any:
    """Convert a number of numpy's to one of Python's."""
    return value.item() if type(value).__module__ == "numpy" else value


def _check_hashed(columns: Any) -> None:
    """Refuse more values than pandas may put into tables of hashes: labels of several levels, and categories."""
    if sum(map(len, columns)) > _MAX_HASHED:
        raise RefusedValueError(f"categories or levels of more than {_MAX_HASHED:,} values")


def _made_columns(sent: Any) -> list[Any]:
    _check_hashed([column[2] for column in sent if column[0] == "category"])
    return [_made_column(column) for column in sent]


def _made_column(sent: Any) -> Any:
    pandas: Any = library("pandas")
    match sent:
        case ("category", codes, categories, bool() as ordered) if _is_one_dimensional(codes) and hasattr(
            categories, "array"
        ):
            _check_hashed([categories])
            return pandas.Categorical.from_codes(codes, categories, ordered=ordered)
        case ("listed", Plain() as listed, str() as name):
            dtype = pandas.api.types.pandas_dtype(short_text(name))
            if not isinstance(dtype, pandas.api.extensions.ExtensionDtype) or isinstance(dtype, _others(pandas)):
                raise RefusedValueError(f"a column of {dtype}")
            return pandas.array(listed.values, dtype=dtype)
        case ("whole", values) if _is_one_dimensional(values):
            return values
        case _:
            return _made_moments(sent)


def _made_moments(sent: Any) -> Any:
    pandas: Any = library("pandas")
    match sent:
        case ("zoned", values, str() as zone) if _is_one_dimensional(values) and not zone.startswith(
            "dateutil"
        ):  # a file of it
            return pandas.Series(values).dt.tz_localize("UTC").dt.tz_convert(short_text(zone)).array
        case ("periods", ordinals, str() as frequency) if _is_one_dimensional(ordinals) and ordinals.dtype == "i8":
            return pandas.arrays.PeriodArray(ordinals, dtype=pandas.PeriodDtype(short_text(frequency)))
        case ("intervals", left, right, str() as closed) if {left[0], right[0]} <= {"whole", "zoned"}:
            return pandas.arrays.IntervalArray.from_arrays(_made_column(left), _made_column(right), closed)
        case ("arrow", Plain() as listed, str() as name):
            return pandas.array(_arrow_of_plain(listed, short_text(name)), dtype=pandas.ArrowDtype(_arrow_type(name)))
        case _:
            raise RefusedValueError("the values cannot be read")


def _index(obj: Any, _: KnownObjects) -> _Sent:
    pandas: Any = library("pandas")
    if isinstance(obj, pandas.RangeIndex):
        return "labels", int(obj.start), int(obj.stop), int(obj.step), obj.name
    if isinstance(obj, pandas.MultiIndex):
        _check_hashed([obj] * obj.nlevels)
        return "levels", [_column(obj.get_level_values(at).array) for at in range(obj.nlevels)], [*obj.names]
    frequency = None if isinstance(obj, pandas.PeriodIndex) else getattr(obj, "freqstr", None)
    _check_moments(obj, frequency)
    return "index", _column(obj.array), obj.name, frequency


def _made_range(start: int, stop: int, step: int, name: Any) -> Any:
    if any(type(each) is not int or abs(each) >= 1 << 63 for each in (start, stop, step)):
        raise RefusedValueError("the values cannot be read")
    return library("pandas").RangeIndex(start, stop, step, name=name)


def _made_levels(levels: list[Any], names: list[Any]) -> Any:
    made = _made_columns(levels)
    _check_hashed(made)
    return library("pandas").MultiIndex.from_arrays(made, names=names)


def _made_index(column: Any, name: Any, frequency: str | None) -> Any:
    made = library("pandas").Index(_made_column(column), name=name)
    _check_moments(made, frequency)
    if frequency is not None:
        made.freq = short_text(frequency)
    return made


def _check_moments(index: Any, frequency: str | None) -> None:
    if frequency is not None and len(index) > _MAX_MOMENTS:
        raise RefusedValueError(f"more than {_MAX_MOMENTS:,} moments with a frequency")


def labels_of(held: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the labels that a frame or column holds, which pandas hands on to what is made of it.

    Yields:
        The attributes that lead to them, and the labels.
    """
    pandas: Any = sys.modules.get("pandas")
    if pandas is None or type(held) not in (pandas.DataFrame, pandas.Series):
        return
    yield ("index",), held.index
    if type(held) is pandas.DataFrame:
        yield ("columns",), held.columns
    elif isinstance(held.dtype, pandas.CategoricalDtype):
        yield ("dtype", "categories"), held.dtype.categories


def labels_at(held: Any, path: Any) -> Any:
    """Return the labels of a frame or column that such attributes lead to.

    Raises:
        RefusedValueError: It has none there.
    """
    found = dict(labels_of(held)).get(tuple(path))
    if found is None:
        raise RefusedValueError("the values cannot be read")
    return found


def _own_or_held(labels: Any, before: KnownObjects | None) -> Any:
    """Return labels as they are if a variable has the same object, else a copy of them."""
    if before is None:
        return labels.copy()
    return labels if id(labels) in before.labels else before.copies.setdefault(id(labels), labels.copy())


def _series(obj: Any, before: KnownObjects) -> _Sent:
    _check_plain(obj)
    sent = "series", _column(obj.array, before), _own_or_held(obj.index, before), obj.name
    return _checked(obj, sent, _made_series)


def _made_series(column: Any, index: Any, name: Any) -> Any:
    return library("pandas").Series(_as_long(_made_column(column), index), index=index, name=name)


def _as_long(column: Any, index: Any) -> Any:
    """Return the column, if it is as long as its labels; a single value would be repeated for each."""
    if type(column).__module__ == "builtins" or len(column) != len(index):
        raise RefusedValueError("the values cannot be read")
    return column


def _frame(obj: Any, before: KnownObjects) -> _Sent:
    _check_plain(obj)
    columns = [_column(obj.iloc[:, at].array, before) for at in range(obj.shape[1])]
    sent = "frame", columns, _own_or_held(obj.index, before), _own_or_held(obj.columns, before)
    return _checked(obj, sent, _made_frame)


def _made_frame(columns: list[Any], index: Any, names: Any) -> Any:
    pandas: Any = library("pandas")
    made = pandas.DataFrame({at: _as_long(each, index) for at, each in enumerate(_made_columns(columns))}, index=index)
    made.columns = names
    return made


def _check_plain(obj: Any) -> None:
    kind = cast("Any", type(obj))
    if not kind.__module__.startswith("pandas.") and kind.__module__ != "pandas":
        raise RefusedValueError(f"a {kind.__name__} of its own class")
    if obj.attrs or not obj.flags.allows_duplicate_labels:
        raise RefusedValueError("it has attributes of its own")


def _checked(obj: Any, sent: _Sent, make: Callable[..., Any]) -> _Sent:
    """Return an encoded value, if it decodes to an equal one."""
    again = make(*sent[1:])
    same_types = (
        [*map(str, again.dtypes)] == [*map(str, obj.dtypes)]
        if hasattr(obj, "columns")
        else (str(again.dtype) == str(obj.dtype))
    )
    if not same_types or not again.equals(obj):
        raise RefusedValueError("it does not come out equal")
    return sent


def _moment(obj: Any, _: KnownObjects) -> _Sent:
    text = obj.replace(tzinfo=None).isoformat()
    return type(obj).__name__, type(obj).__name__, text, obj.tzinfo, obj.fold


def _made_moment(kind: str, text: str, zone: Any, fold: int) -> Any:
    made: Any = (dt.datetime if kind == "datetime" else dt.time).fromisoformat(short_text(text))
    return made.replace(tzinfo=zone, fold=fold)


def _zone(obj: Any, _: KnownObjects) -> _Sent:
    if obj.key is None:
        raise RefusedValueError("a time zone without a name")
    return "zone", obj.key


def _made_zone(key: str) -> Any:
    from zoneinfo import ZoneInfo

    return ZoneInfo(short_text(key))


def _stamp(obj: Any, _: KnownObjects) -> _Sent:
    pandas: Any = library("pandas")
    if obj is pandas.NaT:
        return ("nat",)
    return "stamp", _column(pandas.Index([obj]).array)


def _made_stamp(column: Any) -> Any:
    return library("pandas").Index(_made_column(column))[0]


def _figure(obj: Any, _: KnownObjects) -> _Sent:
    # ``to_dict`` would encode arrays as text.
    sent: dict[str, Any] = {part: [each.to_plotly_json() for each in getattr(obj, part)] for part in ("data", "frames")}
    sent["layout"] = obj.layout.to_plotly_json()
    if _made_figure(sent) != obj:
        raise RefusedValueError("it does not come out equal")
    return "plotly", sent


def _made_figure(sent: Any) -> Any:
    if type(sent) is not dict:
        raise RefusedValueError("the values cannot be read")
    if _parts_of_figure(cast("dict[Any, Any]", sent)) > _MAX_PARTS_OF_FIGURE:
        raise RefusedValueError("a figure of too many parts")
    return library("plotly.graph_objs").Figure(sent)


def _parts_of_figure(sent: dict[Any, Any]) -> int:
    waiting: list[Any] = [sent]
    count = 0
    while waiting and count <= _MAX_PARTS_OF_FIGURE:
        part: Any = waiting.pop()
        if isinstance(part, dict):
            count += 1 + len(cast("dict[Any, Any]", part))
            waiting += cast("dict[Any, Any]", part).values()
        elif isinstance(part, list | tuple) and any(
            isinstance(each, dict | list | tuple) for each in cast("list[Any]", part)
        ):
            count += len(cast("list[Any]", part))
            waiting += cast("list[Any]", part)
    return count


_INDEXES = (
    *("Index", "RangeIndex", "MultiIndex", "DatetimeIndex", "TimedeltaIndex", "CategoricalIndex"),
    *("PeriodIndex", "IntervalIndex"),
)
_SCALARS = (
    *("bool", "bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32"),
    *("float64", "complex64", "complex128", "datetime64", "timedelta64", "str_", "bytes_", "longlong", "ulonglong"),
)
SENT: Mapping[tuple[str, str], Callable[[Any, KnownObjects], _Sent]] = {
    ("numpy", "ndarray"): _array,
    **{("numpy", name): _scalar for name in _SCALARS},
    ("pandas", "Series"): _series,
    ("pandas", "DataFrame"): _frame,
    **{("pandas", name): _index for name in _INDEXES},
    **{("pandas", name): _stamp for name in ("Timestamp", "Timedelta", "NaTType", "Period", "Interval")},
    ("plotly", "Figure"): _figure,
    ("zoneinfo", "ZoneInfo"): _zone,
    ("datetime", "datetime"): _moment,
    ("datetime", "time"): _moment,
    ("datetime", "timezone"): lambda obj, _: ("offset", obj.utcoffset(None)),
}
MADE: Mapping[str, Callable[..., Any]] = {
    "array": _made_array,
    "dates": _made_dates,
    "objects": _made_objects,
    "scalar": _made_scalar,
    "labels": _made_range,
    "levels": _made_levels,
    "index": _made_index,
    "series": _made_series,
    "frame": _made_frame,
    "view": _made_view,
    "plotly": _made_figure,
    "zone": _made_zone,
    "datetime": _made_moment,
    "time": _made_moment,
    "offset": dt.timezone,
    "stamp": _made_stamp,
    "nat": lambda: library("pandas").NaT,
}
"""Constructors of each kind from its parts, which have been made before."""
OF_OWN_PARTS = frozenset(
    {"array", "dates", "objects", "scalar", "labels", "levels", "index", "series", "frame", "plotly", "stamp"}
)
"""Kinds that are made of what was sent with them alone: making them copies it, however large a variable is."""
