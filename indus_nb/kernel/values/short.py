"""Short views of values of any kind, which call no code of the user's classes."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable
from itertools import islice
from types import MemberDescriptorType
from typing import Any, cast

from indus_nb.base import textcut
from indus_nb.kernel.values.extent import BY
from indus_nb.kernel.values.known_classes import families, has_known_zone, is_of_a_library, type_name
from indus_nb.safety.redaction import is_secret_name

MAX_LINE_CHARACTERS = 300
_ITEMS = 6
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
_PLAIN_REPR = (bool, int, float, complex, type(None), range, slice, type(...), type(NotImplemented))
_INFORMATIVE_REPR = frozenset({"datetime", "decimal", "fractions", "uuid", "pathlib", "pathlib._local", "zoneinfo"})


def is_container(value: object) -> bool:
    """Return whether a value is a list, tuple, set or dictionary of Python's own classes."""
    kind: type[Any] = type(value)
    return issubclass(kind, list | tuple | set | frozenset | dict) and kind.__module__ in ("builtins", "collections")


def short(value: Any, *, items: int = _ITEMS, depth: int = 3, text: int = 120) -> str:
    """Return a view that calls no code of the user's; ``<Type>`` for unknown classes."""
    known = _scalar(value, text)
    if known is not None:
        return known

    def inner(part: Any) -> str:
        return short(part, items=items, depth=depth - 1, text=text)

    if depth > 0 and is_container(value):
        more = [f"… {len(value) - items} more"] if len(value) > items else []
        opening, closing = "[]" if isinstance(value, list) else "()" if isinstance(value, tuple) else "{}"
        if isinstance(value, dict):
            pairs = islice(cast("dict[Any, Any]", value).items(), items)
            shown = [f"{inner(key)}: {'…' if _is_secret_key(key) else inner(part)}" for key, part in pairs]
        else:
            shown = [*map(inner, islice(cast("Iterable[Any]", value), items))]
        return f"{opening}{', '.join(shown + more)}{closing}"
    if depth > 0 and dataclasses.is_dataclass(cast("type[Any]", type(value))):
        names = [field.name for field in dataclasses.fields(value) if field.repr]
        shown = [f"{name}={'…' if is_secret_name(name) else inner(_held(value, name))}" for name in names[:items]]
        return f"{type(value).__name__}({', '.join(shown)})"
    return picture(value) or f"<{type_name(value)}>"


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
        return cut(repr(value), text, note=False)
    kinds = families(value)
    if kinds & _WITH_SHORT_TEXTS or (("numpy", "generic") in kinds and ("numpy", "void") not in kinds):
        return cut(str(value), text, note=False)
    return None


def _held(record: Any, name: str) -> Any:
    """Return a record's attribute if no code has to run to get it."""
    held = inspect.getattr_static(record, name, None)
    return getattr(record, name, None) if isinstance(held, MemberDescriptorType) else held


def _is_secret_key(key: object) -> bool:
    return type(key) is str and is_secret_name(key)


def picture(value: Any) -> str | None:
    """Describe an image by kind and size in pixels; ``None`` for other values."""
    kinds = families(value)
    if ("matplotlib", "Figure") in kinds:
        width, height = value.get_size_inches() * value.dpi
        return f"[figure {width:.0f}{BY}{height:.0f}]"
    if ("PIL", "Image") in kinds:
        return f"[image {value.size[0]}{BY}{value.size[1]} {value.mode}]"
    if ("plotly", "BaseFigure") in kinds:
        return "[figure]"
    return None


def cut(text: str, length: int, *, note: bool = True) -> str:
    """Shorten a text, with a note of how much was left out, or with a mark alone."""
    return textcut.head(text, length, "… ({left} more characters)") if note else textcut.fit(text, length)
