"""Descriptions of the user's variables: short, quick, and without running unknown code of objects.

No library is imported for it; frames and arrays are known by the names of their classes. A class that is not known
here is never asked for its ``repr`` or its properties, for both may be huge, slow or broken.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import inspect
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice, takewhile
from types import FunctionType, MemberDescriptorType, ModuleType
from typing import Any, NamedTuple, cast

from indus_nb.base import textcut
from indus_nb.kernel.run.known_classes import (
    has_known_zone,
    has_odd_labels,
    has_plain_attrs,
    is_a,
    is_of_a_library,
    library_of,
)
from indus_nb.safety.redaction import hide, is_secret_cell, is_secret_name, labelled_secrets

MAX_TEXT_CHARACTERS = 20_000
_MAX_LINE_CHARACTERS = 300
_MAX_SUMMARY_CHARACTERS = 1500
_ROWS = 10
_COLUMNS = 20
_CELL = 40
_ITEMS = 6
_MAX_LISTED = 100
_MAX_LOOKED_AT, _LOOK_SECONDS = 1000, 0.1
"""Limits for one prompt: the names that are looked at, and the processor time in seconds."""
_CELLS_TO_COUNT = 2_000_000
_VALUES_TO_COMPARE = 10_000_000
_BY = "\N{MULTIPLICATION SIGN}"
_HIDDEN_VALUE = "(value not shown)"

_FRAMES = {("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table"), ("pyarrow", "RecordBatch")}
_SERIES = {("pandas", "Series"), ("pandas", "Index"), ("polars", "Series"), ("pyarrow", "ChunkedArray")}
_ARRAYS = {("numpy", "ndarray"), ("torch", "Tensor"), ("jax", "Array"), ("jaxlib", "ArrayImpl"), ("cupy", "ndarray")}
_WITH_SHORT_TEXTS = {
    ("numpy", "dtype"),
    ("pandas", "ExtensionDtype"),
    ("polars", "DataType"),
    ("torch", "Size"),
    ("torch", "device"),
    ("torch", "dtype"),
    ("pandas", "Timestamp"),
    ("pandas", "Timedelta"),
    ("pandas", "NaTType"),
    ("pandas", "NAType"),
    ("pandas", "Period"),
}
_WITH_SHAPE = frozenset(
    {
        "pandas",
        "polars",
        "pyarrow",
        "numpy",
        "scipy",
        "torch",
        "jax",
        "jaxlib",
        "cupy",
        "tensorflow",
        "xarray",
        "h5py",
        "geopandas",
    }
)
"""Libraries whose objects know shape and type of their values without computing."""
_OF_LIBRARIES = _WITH_SHAPE | {"matplotlib", "PIL", "plotly"}
_MADE_BY = frozenset({"__new__", "__init__", "__init_subclass__", "__set_name__", "__class_getitem__", "__reduce__"})
"""Methods that make or save a class or an object, which run no code when a value is looked at."""
_OF_EVERY_CLASS = frozenset(vars(type("_", (), {}))) | {
    *("__annotations__", "__annotate_func__", "__annotations_cache__", "__firstlineno__", "__static_attributes__"),
    *("__orig_bases__", "__parameters__", "__slots__", "__qualname__"),
}
_PLAIN_REPR = (bool, int, float, complex, type(None), range, slice, type(...), type(NotImplemented))
_INFORMATIVE_REPR = frozenset({"datetime", "decimal", "fractions", "uuid", "pathlib", "pathlib._local", "zoneinfo"})


def _without_secrets(text: str) -> str:
    return hide(text, labelled_secrets())


def describe(value: object, name: str = "") -> str:
    """Describe a variable in a line: its type, how much it holds, and a short view.

    Never raises.

    Args:
        name: Its name; if that looks like a secret's the value stays hidden.

    Returns:
        A few hundred characters at most.

    >>> describe([1, 2, 3])
    'list of 3 · [1, 2, 3]'
    >>> describe("hunter2", "password")
    'str (value not shown)'
    """
    kind = _type_name(value)
    try:
        if is_secret_name(name) and not is_a(value, (ModuleType, FunctionType, type)):
            return f"{kind} {_HIDDEN_VALUE}"
        return _cut(_without_secrets(_line(value, kind)), _MAX_LINE_CHARACTERS)
    except Exception:  # noqa: BLE001 - the object's own code failed: its type is all that is known
        return kind


def for_prompt(value: object) -> str:
    """Write a value for a prompt. Never raises.

    A text is written as it is, a frame with its schema and first rows, and so on.

    The text has 20,000 characters and a note at most; most values take some lines.
    """
    if type(value) is str:
        return _cut(value, MAX_TEXT_CHARACTERS)
    try:
        return _cut(_long(value), MAX_TEXT_CHARACTERS)
    except Exception:  # noqa: BLE001 - the object's own code failed: its type is all that is known
        return f"<{_type_name(value)}>"


def is_frame(value: object) -> bool:
    """Return whether ``for_prompt`` shows a value as a table."""
    return bool(_families(value) & (_FRAMES | _SERIES))


def size_of_frame(frame: object) -> str:
    """Describe a frame by class and size, as a title."""
    shape = _shape(frame)
    size = f" {_BY} ".join(map(str, cast("tuple[Any, ...]", shape))) if isinstance(shape, tuple) else ""
    return f"{_class_name(type(frame))} {size}".rstrip()


_NO_DATA = ("typing", "indus_nb")
"""Modules that are imported to write code with, and hold nothing of the user's."""


class Summary(NamedTuple):
    """A list of variables for the model, and the number of variables in it."""

    text: str
    names: int


def summary(
    namespace: dict[str, Any],
    hidden: Collection[str] = (),
    *,
    is_users: Callable[[str, object], bool] = lambda _name, _value: True,
    recent: Collection[str] = (),
) -> Summary:
    """List the user's variables, with a line for each that holds data.

    The newest is the first. Of very many names only so many are looked at, for a moment.

    Args:
        namespace: The namespace, in the order in which names were bound.
        hidden: Names that are not the user's; so are those that begin with an underscore.
        recent: Names to look at first, where there are too many to look at all of them.

    Returns:
        About 1,500 characters, none without variables; and the number of names in them.
    """
    end = time.thread_time() + _LOOK_SECONDS  # whatever else the machine is busy with
    newest = list(islice(reversed(namespace), _MAX_LOOKED_AT))
    more = len(namespace) - len(newest)
    if more:
        newest = [*dict.fromkeys([*filter(namespace.__contains__, recent), *newest])][:_MAX_LOOKED_AT]
    users = ((name, namespace.get(name)) for name in newest if not name.startswith("_") and name not in hidden)
    data, named = _sorted_out(pair for pair in users if is_users(*pair))
    ends = [_cut(f"{what}: {', '.join(names)}", _MAX_SUMMARY_CHARACTERS // 5) for what, names in named.items() if names]
    room = _MAX_SUMMARY_CHARACTERS - sum(len(line) + 1 for line in ends)
    shown: list[str] = []
    for name, value in data:
        line = f"{name}: {_cut(describe(value, name), 120)}"
        room -= len(line) + 1
        if room < 0 or (shown and time.thread_time() > end):
            break
        shown.append(line)
    count = len(shown) + sum(map(len, named.values()))
    if left := len(data) - len(shown) + more:
        shown.append(f"… and {f'about {left:,}' if more else left} older ones")
    return Summary("\n".join([*shown, *ends]), count)


def _sorted_out(users: Iterable[tuple[str, object]]) -> tuple[list[tuple[str, object]], dict[str, list[str]]]:
    """Split variables into those that hold data and the names of the others."""
    data: list[tuple[str, object]] = []
    named: dict[str, list[str]] = {"functions": [], "classes": [], "modules": []}
    for name, value in users:
        if is_a(value, ModuleType):
            module = _module_name(value)
            named["modules"].append(name if name == module else f"{name} ({module})")
        elif is_a(value, type):
            named["classes"].append(name)
        elif is_a(value, FunctionType):
            named["functions"].append(name)
        elif library_of(type(value)) not in _NO_DATA:
            data.append((name, value))
    return data, named


def listing(
    namespace: Mapping[str, object], hidden: Collection[str], pattern: str, agents: Collection[str] = ()
) -> str:
    """Write the answer of the tool ``variables``.

    It shows one variable in full, or a line for each that matches.

    Args:
        namespace: The namespace, in the order in which names were bound.
        hidden: Names that are not the user's; so are those that begin with an underscore.
        pattern: The name of the one variable, or else a part of names, or a name with ``*`` and ``?``.
        agents: Names that the agent's code bound, which are marked.
    """
    users = _users(namespace, hidden)
    exact = [pair for pair in users if pair[0] == pattern]
    if exact:
        name, value = exact[0]
        return (
            f"{name}: {describe(value, name)}" if is_secret_name(name) else f"{name}:\n{_without_secrets(_view(value))}"
        )
    wild = "*" in pattern or "?" in pattern
    found = [(n, v) for n, v in users if (fnmatch.fnmatchcase(n, pattern) if wild else pattern in n)]
    lines = [
        f"{name}{' (made by you)' if name in agents else ''}: {describe(value, name)}{_size(value)}"
        for name, value in found[:_MAX_LISTED]
    ]
    if len(found) > _MAX_LISTED:
        lines.append(f"… and {len(found) - _MAX_LISTED} more. Give a pattern to see others.")
    if not lines:
        return f"No variable matches {pattern!r}." if users and pattern else "There are no variables yet."
    return "\n".join(lines)


def _view(value: object) -> str:
    return f"{for_prompt(value)}{_size(value)}" if type(value) is not str else _cut(value, 2000)


def _users(namespace: Mapping[str, object], hidden: Collection[str]) -> list[tuple[str, object]]:
    return [(name, value) for name, value in dict(namespace).items() if not name.startswith("_") and name not in hidden]


# A line


def _line(value: Any, kind: str) -> str:
    if shown := _picture(value) or _code(value):
        return shown
    if _families(value) & _FRAMES:
        schema = _schema(value)
        shown = ", ".join(f"{name} {dtype}" for name, dtype in schema)
        more = " …" if _shape(value)[1] > len(schema) else ""
        return f"{kind} of shape {_shape(value)} · {shown}{more}"
    shape = _shape(value)
    if shape:
        dtype = _known(value, "dtype")
        columns: dict[Any, Any] = _plain_attribute(value, "dtypes", dict) or {}
        shown = ", ".join(f"{name} {dtype}" for name, dtype in islice(columns.items(), _COLUMNS))
        shown = shown or ("" if dtype is None else str(dtype))
        return f"{kind} of shape {shape}{f' · {shown}' if shown else ''}"
    size = f" of {len(value)}" if _is_container(value) or type(value) in (str, bytes, bytearray) else ""
    view = _short(value)
    return f"{kind}{size}" if view.startswith("<") else f"{kind}{size} · {view}"


def _code(value: Any) -> str | None:
    """Describe a module, class or function by its name; ``None`` for other values."""
    if is_a(value, ModuleType):
        return f"module {_module_name(value)}"
    if is_a(value, type):
        return f"class {_class_name(value)}"
    return f"function {_signature(value)}" if is_a(value, FunctionType) else None


def _module_name(module: object) -> object:
    """Return a module's name without triggering a lazy import."""
    return object.__getattribute__(module, "__dict__").get("__name__")


def _class_name(kind: type) -> str:
    return type.__dict__["__name__"].__get__(kind)  # past a metaclass


def _type_name(value: object) -> str:
    kind = type(value)
    library = library_of(kind)
    return _class_name(kind) if library in ("builtins", "__main__", "") else f"{library}.{_class_name(kind)}"


def _families(value: object) -> set[tuple[str, str]]:
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
    return {(library_of(base), _class_name(base)) for base in bases}


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _known(value: Any, name: str) -> Any:
    """Return an attribute that the object's library is known not to compute; else ``None``."""
    if any(library in _WITH_SHAPE for library, _ in _families(value)):
        found = getattr(value, name, None)
        return None if callable(found) else found
    return None


def _plain_attribute(value: object, name: str, kind: type) -> Any:
    """Return an attribute if it is a plain value of that type, without running descriptors."""
    found = inspect.getattr_static(value, name, None)
    return found if type(found) is kind else None


def _shape(value: Any) -> Any:
    shape = _known(value, "shape")
    if shape is None:
        return _plain_attribute(value, "shape", tuple)
    return tuple(cast("Sequence[Any]", shape)) if isinstance(shape, Sequence) else None


def _size(value: Any) -> str:
    """Return the memory that a value uses, where that is known without computing."""
    try:
        families = _families(value)
        if ("polars", "DataFrame") in families:
            size = value.estimated_size()
        elif families & {("pandas", "DataFrame"), ("pandas", "Series")}:
            used = value.memory_usage(deep=False)
            size = used.sum() if hasattr(used, "sum") else used
        else:
            size = _known(value, "nbytes")
        return "" if size is None else f" · {_bytes(int(size))}"
    except Exception:  # noqa: BLE001 - the object's own code failed: so its size is left out
        return ""


def _bytes(count: float) -> str:
    for unit in ("bytes", "KB", "MB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} GB"


def _signature(function: FunctionType) -> str:
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    names = list(code.co_varnames[:count])
    for flag, stars in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")):
        if code.co_flags & flag:
            names.append(f"{stars}{code.co_varnames[count]}")
            count += 1
    return f"{function.__name__}({', '.join(names)})"


def _picture(value: Any) -> str | None:
    """Describe an image by kind and size in pixels; ``None`` for other values."""
    families = _families(value)
    if ("matplotlib", "Figure") in families:
        width, height = value.get_size_inches() * value.dpi
        return f"[figure {width:.0f}{_BY}{height:.0f}]"
    if ("PIL", "Image") in families:
        return f"[image {value.size[0]}{_BY}{value.size[1]} {value.mode}]"
    if ("plotly", "BaseFigure") in families:
        return "[figure]"
    return None


# More than a line


def _long(value: Any) -> str:
    families = _families(value)
    for kinds, view in ((_FRAMES, _frame), (_SERIES, _series), (_ARRAYS, _array)):
        if families & kinds:
            return describe(value) if has_odd_labels(value) else view(value)
    if is_a(value, FunctionType):
        with contextlib.suppress(OSError, TypeError):
            return inspect.getsource(value.__code__)
        return f"function {_signature(value)}"
    if is_a(value, str):
        return str.__str__(value)
    view = _picture(value) or _short(value, items=50, depth=4, text=500)
    if view.startswith("<"):
        return describe(value)
    return f"{_type_name(value)} of {len(value)}: {view}" if _is_container(value) and len(view) > 200 else view


def _frame(frame: Any) -> str:
    rows, columns = _shape(frame)
    schema = _schema(frame)
    nulls = _nulls(frame, len(schema)) if rows * len(schema) <= _CELLS_TO_COUNT else None
    lines = [f"{_type_name(frame)}: {rows} rows {_BY} {columns} columns"]
    for index, (name, dtype) in enumerate(schema):
        count = nulls[index] if nulls else 0
        lines.append(f"- {name}: {dtype}{f', {count} null' if count else ''}")
    if columns > len(schema):
        lines.append(f"- … and {columns - len(schema)} more columns")
    if nulls is not None and not any(nulls):
        lines.append("No nulls." if columns == len(schema) else "No nulls in these columns.")
    head = _head(frame, len(schema))
    header = [name for name, _ in schema]
    if head and len(head[0]) > len(header):
        header = ["", *header]
    head = [[_redacted(name, cell) for name, cell in zip(header, row, strict=False)] for row in head]
    return "\n".join([*lines, "", *_table(header, head), *_more(rows)])


def _schema(frame: Any) -> list[tuple[str, str]]:
    """Return names and types of the first columns."""
    if ("pandas", "DataFrame") in _families(frame):
        first = frame.iloc[:, :_COLUMNS]
        pairs: Iterable[tuple[Any, Any]] = zip(first.columns, first.dtypes, strict=True)
    elif ("polars", "DataFrame") in _families(frame):
        pairs = zip(frame.columns[:_COLUMNS], frame.dtypes[:_COLUMNS], strict=True)
    else:
        pairs = ((field.name, field.type) for field in islice(frame.schema, _COLUMNS))
    return [(_cell(name), _cut(str(dtype), _CELL)) for name, dtype in pairs]


def _nulls(frame: Any, columns: int) -> list[int]:
    families = _families(frame)
    if ("pandas", "DataFrame") in families:
        counts: Any = frame.iloc[:, :columns].isna().sum()
        return [int(count) for count in counts]
    if ("polars", "DataFrame") in families:
        return [int(count) for count in frame[:, :columns].null_count().row(0)] if columns else []
    return [int(frame.column(index).null_count) for index in range(columns)]


def _head(frame: Any, columns: int) -> list[list[str]]:
    """Return the first rows; those of pandas begin with the index."""
    families = _families(frame)
    if ("pandas", "DataFrame") in families:
        rows: Iterable[Sequence[Any]] = frame.iloc[:_ROWS, :columns].itertuples(index=True, name=None)
    elif ("polars", "DataFrame") in families:
        rows = frame[:_ROWS, :columns].rows()
    else:
        first = frame.slice(0, _ROWS)
        rows = list(zip(*(first.column(index).to_pylist() for index in range(columns)), strict=True))
    return [[_cell(value) for value in row] for row in rows]


def _series(series: Any) -> str:
    families = _families(series)
    length = len(series)
    name = getattr(series, "name", None)
    dtype = series.type if ("pyarrow", "ChunkedArray") in families else series.dtype
    shown = f"{_type_name(series)}{f' {_cell(name)}' if name is not None else ''}: {length} values, {dtype}"
    first = series[:_ROWS]
    if ("pandas", "Series") in families:
        if length <= _CELLS_TO_COUNT:
            shown += f", {int(series.isna().sum())} null"
        pairs = series.iloc[:_ROWS].items()
        return "\n".join(
            [
                shown,
                "",
                *_table(None, [[_cell(key), _redacted(str(name), _cell(value))] for key, value in pairs]),
                *_more(length),
            ]
        )
    if ("pandas", "Index") not in families:
        count: Any = series.null_count
        shown += f", {count if isinstance(count, int) else count()} null"
    values = first.to_pylist() if hasattr(first, "to_pylist") else first.tolist() if hasattr(first, "tolist") else first
    cells = ", ".join(_redacted(str(name), _cell(value)) for value in values)
    return f"{shown}\n{cells}{' …' if length > _ROWS else ''}"


def _redacted(column: str, cell: str) -> str:
    return "…" if is_secret_cell(column, cell) else cell


def _table(header: list[str] | None, rows: list[list[str]]) -> list[str]:
    return [" | ".join(cells) for cells in ([header] if header else []) + rows]


def _more(rows: int) -> list[str]:
    return [f"… ({rows - _ROWS} more rows)"] if rows > _ROWS else []


def _cell(value: Any) -> str:
    if type(value) is float:
        return f"{value:.6g}"
    text = value[:_MAX_LINE_CHARACTERS] if type(value) is str else _short(value, text=_CELL)
    return _cut(" ".join(text.split()), _CELL, note=False)


def _array(array: Any) -> str:
    shape = _shape(array)
    shown = f"{_type_name(array)} of shape {shape}, {array.dtype}{_size(array)}"
    if 0 in shape:
        return shown
    first = array
    while len(first.shape) > 1:
        first = first[0]
    values = first[:8].tolist() if first.shape else [first.item()]
    more = " …" if len(values) < _product(shape) else ""
    shown += f"\nfirst values: {', '.join(_cell(value) for value in values)}{more}"
    if type(array).__module__ == "numpy" and array.dtype.kind in "iuf" and array.size <= _VALUES_TO_COMPARE:
        shown += f"\nmin {_cell(array.min().item())}, max {_cell(array.max().item())}"
    return shown


def _product(shape: Sequence[int]) -> int:
    product = 1
    for length in shape:
        product *= length
    return product


# Values of any kind, in short


def _is_container(value: object) -> bool:
    kind: type[Any] = type(value)
    return issubclass(kind, list | tuple | set | frozenset | dict) and kind.__module__ in ("builtins", "collections")


def _is_record(value: object) -> bool:
    kind: type[Any] = type(value)
    return dataclasses.is_dataclass(kind)


def _short(value: Any, *, items: int = _ITEMS, depth: int = 3, text: int = 120) -> str:
    """Return a view that calls no code of the user's; ``<Type>`` for unknown classes."""
    known = _scalar(value, text)
    if known is not None:
        return known

    def inner(part: Any) -> str:
        return _short(part, items=items, depth=depth - 1, text=text)

    if depth > 0 and _is_container(value):
        more = [f"… {len(value) - items} more"] if len(value) > items else []
        if isinstance(value, dict):
            pairs = islice(cast("dict[Any, Any]", value).items(), items)
            shown = [f"{inner(key)}: {'…' if _is_secret_key(key) else inner(part)}" for key, part in pairs]
            return "{" + ", ".join(shown + more) + "}"
        opening, closing = "[]" if isinstance(value, list) else "()" if isinstance(value, tuple) else "{}"
        parts = [inner(part) for part in islice(cast("Iterable[Any]", value), items)]
        return f"{opening}{', '.join(parts + more)}{closing}"
    if depth > 0 and _is_record(value):
        names = [field.name for field in dataclasses.fields(value) if field.repr]
        shown = [f"{name}={'…' if is_secret_name(name) else inner(_held(value, name))}" for name in names[:items]]
        return f"{type(value).__name__}({', '.join(shown)})"
    return _picture(value) or f"<{_type_name(value)}>"


def _scalar(value: Any, text: int) -> str | None:
    """Write a value without parts, if the ``repr`` of its class is short and harmless; else ``None``."""
    kind = cast("type[object]", type(value))
    if kind in (str, bytes, bytearray):
        return repr(value[:text]) + (f"… ({len(value)})" if len(value) > text else "")
    if kind is int and abs(value) >= 1 << 1000:
        return f"<int of {value.bit_length()} bits>"
    if kind in _PLAIN_REPR or (
        kind.__module__ in _INFORMATIVE_REPR and is_of_a_library(kind) and has_known_zone(value)
    ):
        return _cut(repr(value), text, note=False)
    families = _families(value)
    if families & _WITH_SHORT_TEXTS or (("numpy", "generic") in families and ("numpy", "void") not in families):
        return _cut(str(value), text, note=False)
    return None


def _held(record: Any, name: str) -> Any:
    """Return a record's attribute if no code has to run to get it."""
    held = inspect.getattr_static(record, name, None)
    return getattr(record, name, None) if isinstance(held, MemberDescriptorType) else held


def _is_secret_key(key: object) -> bool:
    return type(key) is str and is_secret_name(key)


def _cut(text: str, length: int, *, note: bool = True) -> str:
    return textcut.head(text, length, "… ({left} more characters)") if note else textcut.fit(text, length)
