"""How much a value holds: rows, items, a shape, memory. For prompts, cards, and what undo says that code has changed.

What this module promises: no code of the user's classes runs, and nothing is computed.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

from indus_nb.kernel.values.known_classes import ARRAYS, FRAMES, SERIES, WITH_SHAPE, class_name, families

BY = "\N{MULTIPLICATION SIGN}"
Extent: TypeAlias = tuple[tuple[str, object], ...]
"""How much a value holds, most informative first: the unit and the number."""
_UNITS: Mapping[Any, str] = {**dict.fromkeys((list, tuple, set, frozenset, deque), "items"), dict: "keys"}


def extent(value: Any) -> Extent:
    """Return how much a value holds; empty if that is not known.

    >>> extent([1, 2])
    (('items', 2),)
    """
    for base, unit in _UNITS.items():
        if issubclass(type(value), base):
            return ((unit, base.__len__(value)),)
    kinds = families(value)
    if kinds & FRAMES:
        return tuple(zip(("rows", "columns"), map(int, shape(value)), strict=True))
    if kinds & SERIES:
        return (("rows", len(value)),)
    return (("", _by(shape(value)) or "one value"),) if kinds & ARRAYS else ()


def is_frame(value: object) -> bool:
    """Return whether a value is shown as a table."""
    return bool(families(value) & (FRAMES | SERIES))


def size_of_frame(frame: object) -> str:
    """Describe a frame by class and size, as a title."""
    return f"{class_name(type(frame))} {_by(shape(frame) or ())}".rstrip()


def _by(lengths: Sequence[int]) -> str:
    return f" {BY} ".join(map(str, lengths))


def known(value: Any, name: str) -> Any:
    """Return an attribute that the object's library is known not to compute; else ``None``."""
    if any(library in WITH_SHAPE for library, _ in families(value)):
        found = getattr(value, name, None)
        return None if callable(found) else found
    return None


def plain_attribute(value: object, name: str, kind: type) -> Any:
    """Return an attribute if it is a plain value of that type, without running descriptors."""
    found = inspect.getattr_static(value, name, None)
    return found if type(found) is kind else None


def shape(value: Any) -> Any:
    """Return the shape of an array or a frame, a tuple; ``None`` if it has none, or that is not known."""
    found = known(value, "shape")
    if found is None:
        return plain_attribute(value, "shape", tuple)
    return tuple(cast("Sequence[Any]", found)) if isinstance(found, Sequence) else None


def memory(value: Any) -> str:
    """Return the memory that a value uses, where that is known without computing."""
    try:
        kinds = families(value)
        if ("polars", "DataFrame") in kinds:
            size = value.estimated_size()
        elif kinds & {("pandas", "DataFrame"), ("pandas", "Series")}:
            used = value.memory_usage(deep=False)
            size = used.sum() if hasattr(used, "sum") else used
        else:
            size = known(value, "nbytes")
        return "" if size is None else f" · {_bytes(int(size))}"
    except Exception:  # noqa: BLE001 - the object's own code failed: so its size is left out
        return ""


def _bytes(count: float) -> str:
    for unit in ("bytes", "KB", "MB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} GB"
