"""Descriptions of the user's variables: short, quick, and without running unknown code of objects.

No library is imported for it; frames and arrays are known by the names of their classes. A class that is not known
here is never asked for its ``repr`` or its properties, for both may be huge, slow or broken.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterable, Mapping
from itertools import islice
from types import FunctionType, ModuleType
from typing import Any

from indus_nb.kernel.values.extent import extent, known, plain_attribute, shape
from indus_nb.kernel.values.known_classes import (
    ARRAYS,
    FRAMES,
    SERIES,
    class_name,
    families,
    has_odd_labels,
    is_a,
    module_name,
    type_name,
)
from indus_nb.kernel.values.short import MAX_LINE_CHARACTERS, cut, is_container, picture, short
from indus_nb.kernel.values.tables import COLUMNS, array_lines, frame_lines, has_secret_labels, schema, series_lines
from indus_nb.safety.redaction import hide, is_secret_name, labelled_secrets

MAX_TEXT_CHARACTERS = 20_000
_MAX_GIVEN_CHARACTERS = 2_000
_HIDDEN_VALUE = "(value not shown)"
_TABLES = ((FRAMES, frame_lines), (SERIES, series_lines), (ARRAYS, array_lines))


def without_secrets(text: str) -> str:
    """Hide secrets that a text names as such."""
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
    kind = type_name(value)
    try:
        if is_secret_name(name) and not is_a(value, (ModuleType, FunctionType, type)):
            return f"{kind} {_HIDDEN_VALUE}"
        return cut(without_secrets(_line(value, kind)), MAX_LINE_CHARACTERS, note=False)
    except Exception:  # noqa: BLE001 - the object's own code failed: its type is all that is known
        return kind


def views(namespace: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    """Describe variables as ``given`` does, of those that there are; none whose names look like secrets'.

    >>> views({"x": 1, "token": 2}, ["x", "token", "y"])
    {'x': 'int · 1'}
    """
    return {name: given(namespace[name]) for name in names if name in namespace and not is_secret_name(name)}


def given(value: object) -> str:
    """Describe what a cell gave: its type, and as much of it as 2,000 characters hold. Never raises.

    >>> given([*range(9)])
    'list of 9 · [0, 1, 2, 3, 4, 5, 6, 7, 8]'
    """
    try:
        is_table = any(families(value) & kinds for kinds, _ in _TABLES)
        text = _long(value, unasked=True) if is_table else _line(value, type_name(value), items=12, text=2_000)
        return cut(without_secrets(text), _MAX_GIVEN_CHARACTERS, note=False)
    except Exception:  # noqa: BLE001 - the object's own code failed: its type is all that is known
        return type_name(value)


def for_prompt(value: object) -> str:
    """Write a value for a prompt. Never raises.

    A text is written as it is, a frame with its schema and first rows, and so on.

    The text has 20,000 characters and a note at most; most values take some lines.
    """
    if type(value) is str:
        return cut(value, MAX_TEXT_CHARACTERS)
    try:
        return cut(_long(value), MAX_TEXT_CHARACTERS, note=not is_container(value))
    except Exception:  # noqa: BLE001 - the object's own code failed: its type is all that is known
        return f"<{type_name(value)}>"


# A line


def _line(value: Any, kind: str, **limits: int) -> str:
    if shown := picture(value) or _code(value):
        return shown
    lengths = shape(value)
    if families(value) & FRAMES:
        columns = [] if has_secret_labels(value) else schema(value)
        shown = ", ".join(f"{name} {dtype}" for name, dtype in columns)
        return f"{kind} of shape {lengths} · {shown}{' …' if lengths[1] > len(columns) else ''}"
    if lengths:
        dtype = known(value, "dtype")
        dtypes: dict[Any, Any] = plain_attribute(value, "dtypes", dict) or {}
        shown = ", ".join(f"{name} {dtype}" for name, dtype in islice(dtypes.items(), COLUMNS))
        shown = shown or ("" if dtype is None else str(dtype))
        return f"{kind} of shape {lengths}{f' · {shown}' if shown else ''}"
    holds = extent(value) or ([("", len(value))] if type(value) in (str, bytes, bytearray) else ())
    size = f" of {holds[0][1]}" if holds else ""
    view = short(value, **limits)
    return f"{kind}{size}" if view.startswith("<") else f"{kind}{size} · {view}"


def _code(value: Any) -> str | None:
    """Describe a module, class or function by its name; ``None`` for other values."""
    if is_a(value, ModuleType):
        return f"module {module_name(value)}"
    if is_a(value, type):
        return f"class {class_name(value)}"
    return f"function {_signature(value)}" if is_a(value, FunctionType) else None


def _signature(function: FunctionType) -> str:
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    names = list(code.co_varnames[:count])
    for flag, stars in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")):
        if code.co_flags & flag:
            names.append(f"{stars}{code.co_varnames[count]}")
            count += 1
    return f"{function.__name__}({', '.join(names)})"


# More than a line


def _long(value: Any, *, unasked: bool = False) -> str:
    for kinds, lines in _TABLES:
        if families(value) & kinds:
            return describe(value) if has_odd_labels(value) else lines(value, unasked=unasked)
    if is_a(value, FunctionType):
        with contextlib.suppress(OSError, TypeError):
            return inspect.getsource(value.__code__)
        return f"function {_signature(value)}"
    if is_a(value, str):
        return str.__str__(value)
    view = picture(value) or short(value, items=50, depth=4, text=500, room=MAX_TEXT_CHARACTERS)
    if view.startswith("<"):
        return describe(value)
    return f"{type_name(value)} of {len(value)}: {view}" if is_container(value) and len(view) > 200 else view
