"""Short views of values of any kind, which call no code of the user's classes."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Iterator, Sized
from itertools import islice
from types import MemberDescriptorType
from typing import Any, cast

from indus_nb.base import textcut
from indus_nb.kernel.values.extent import BY
from indus_nb.kernel.values.known_classes import families, has_known_zone, is_of_a_library, type_name
from indus_nb.safety.redaction import is_secret_name

MAX_LINE_CHARACTERS = 300
_ITEMS = 6
_ROOM = 4_000
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


def short(value: Any, *, items: int = _ITEMS, depth: int = 3, text: int = 120, room: int = _ROOM) -> str:
    """Return a view that calls no code of the user's; ``<Type>`` for unknown classes.

    Args:
        items: How many parts of each container are shown, at most.
        text: How many characters of each text.
        room: How many characters all parts have together, about.
    """
    return _View(items, text, room).of(value, depth)


class _View:
    """One view of a value and its parts, which share the room."""

    def __init__(self, items: int, text: int, room: int) -> None:
        self._items, self._text, self._room = items, text, room

    def of(self, value: Any, depth: int) -> str:
        known = _scalar(value, min(self._text, max(self._room, 1)))
        if known is None and depth > 0:
            if is_container(value):
                return self._container(value, depth - 1)
            if dataclasses.is_dataclass(cast("type[Any]", type(value))):
                return self._record(value, depth - 1)
        shown = known or picture(value) or f"<{type_name(value)}>"
        self._room -= len(shown)
        return shown

    def _container(self, value: Any, depth: int) -> str:
        opening, closing = "[]" if isinstance(value, list) else "()" if isinstance(value, tuple) else "{}"
        if isinstance(value, dict):
            pairs = self._fitting(cast("dict[Any, Any]", value).items())
            shown = [
                f"{self.of(key, depth)}: {'…' if is_secret_label(key) else self.of(part, depth)}" for key, part in pairs
            ]
        else:
            shown = [self.of(part, depth) for part in self._fitting(cast("Iterable[Any]", value))]
        left = len(cast("Sized", value)) - len(shown)
        more = [f"… {left} more"] if left > 0 else []
        return f"{opening}{', '.join(shown + more)}{closing}"

    def _record(self, value: Any, depth: int) -> str:
        names = self._fitting(field.name for field in dataclasses.fields(value) if field.repr)
        shown = [f"{name}={'…' if is_secret_name(name) else self.of(_held(value, name), depth)}" for name in names]
        return f"{type(value).__name__}({', '.join(shown)})"

    def _fitting(self, parts: Iterable[Any]) -> Iterator[Any]:
        """Return the first parts, until the room is used up."""
        for part in islice(parts, self._items):
            if self._room <= 0:
                return
            self._room -= 2
            yield part


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


def is_secret_label(label: object) -> bool:
    """Return whether a key of a dictionary, or the label of a row or column or a level of it, names a secret."""
    if type(label) is tuple:
        return any(map(is_secret_label, cast("tuple[object, ...]", label)))
    return type(label) is str and is_secret_name(label[:MAX_LINE_CHARACTERS].replace(" ", "_"))


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
    """Shorten a text, with a note of how much was left out, or with a mark alone where it describes something else."""
    return textcut.head(text, length, "… ({left} more characters)") if note else textcut.fit(text, length)
