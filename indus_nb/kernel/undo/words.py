"""Summary of changes in one line: ``sales 1200 → 1148 rows (region removed), x deleted``.

Only objects whose size is known without running code of theirs are described by it, and of values only numbers. What
else differs (`differences`) stands behind it in parentheses, without a comma and a blank: these separate changes.
"""

from __future__ import annotations

import types
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from indus_nb.base.textcut import one_line
from indus_nb.kernel.values.extent import Extent, extent
from indus_nb.safety.effects import NOT_UNDOABLE
from indus_nb.safety.redaction import is_secret_name

_MAX_NAMED = 8
_MAX_NAME_CHARACTERS = 60
_MAX_NUMBER_CHARACTERS = 14
_ARROW = "\N{RIGHTWARDS ARROW}"
_UNNAMED = (types.ModuleType, types.FunctionType, type)
"""Types that a summary does not call new: code imports and defines all the time."""


def measured(name: str, value: Any) -> Extent:
    """Return how much a value holds, or the number that it is, for a summary.

    Args:
        name: The variable; if that looks like a secret's, a number stays hidden.

    >>> measured("x", [1, 2]), measured("y", 3)
    ((('items', 2),), (('', '3'),))
    """
    if type(value) in (int, float, bool):
        return () if is_secret_name(name) else _number(value)
    try:
        return extent(value)
    except Exception:  # noqa: BLE001 - an object that is broken: then its size is left out
        return ()


def _number(value: Any) -> Extent:
    text = repr(value) if abs(value) < 10**_MAX_NUMBER_CHARACTERS else ""
    return (("", text),) if 0 < len(text) <= _MAX_NUMBER_CHARACTERS else ()


def changed(name: str, before: Extent, after: Extent, lost: str = "", detail: str = "") -> str:
    """Describe how a variable differs.

    Args:
        after: The present size.
        lost: Why it cannot be taken back; empty if it can.
        detail: What else differs, of `differences`.

    >>> changed("sales", (("rows", 1200), ("columns", 3)), (("rows", 1148), ("columns", 3)))
    'sales 1200 → 1148 rows'
    """
    shown, behind = _shown(name), f" ({detail})" if detail else ""
    behind += f" ({NOT_UNDOABLE}: {lost})" if lost else ""
    for (unit, was), (now_unit, now) in zip(before, after, strict=False):
        if unit == now_unit and was != now:
            return f"{shown} {was} {_ARROW} {now}{f' {unit}' if unit else ''}{behind}"
    return f"{shown} changed{behind}"


def behind_verb(said: str) -> str:
    """Return the text of ``changed`` without its verb, as it stands behind "changes".

    Returns:
        The same, without a verb of their own.

    >>> behind_verb("sales changed (a: 2 values changed)"), behind_verb("x 1 → 2")
    ('sales (a: 2 values changed)', 'x 1 → 2')
    """
    first, parenthesis, behind = said.partition(" (")
    return f"{first.replace(' changed', '', 1)}{parenthesis}{behind}"


def is_called_new(value: object) -> bool:
    """Return whether a summary names a variable with this value among the new ones."""
    return not issubclass(type(value), _UNNAMED)


def is_imported(value: Any, home: object) -> bool:
    """Return whether code got a module, function or class from elsewhere.

    Args:
        home: The ``__name__`` of the namespace.
    """
    if issubclass(type(value), types.ModuleType):
        return True
    look = type.__getattribute__ if issubclass(type(value), type) else object.__getattribute__
    return look(value, "__module__") != home


def bound(names: Iterable[str], uncalled: Mapping[str, bool]) -> str:
    """Describe names that code bound and no summary calls new; those that it imported are the last.

    Args:
        uncalled: Modules, functions and classes among them, each with whether it was imported.

    >>> bound(["plt", "twice", "Row", "time"], {"plt": True, "time": True, "twice": False, "Row": False})
    'Row defined, twice defined, imports plt and time'
    """
    names = sorted(names)
    parts = [f"{_shown(name)} {'defined' if name in uncalled else 'bound'}" for name in names if not uncalled.get(name)]
    *first, last = [_shown(name) for name in names if uncalled.get(name)] or [""]
    imported = f"imports {', '.join(first)} and {last}" if first else f"imports {last}" if last else ""
    return ", ".join(filter(None, (*parts, imported)))


def line(
    created: Mapping[str, object],
    deleted: Collection[str],
    changes: Collection[str],
    settings: Collection[str],
    *,
    names_all: bool = False,
) -> str:
    """Return all changes in one line; empty if none is worth mentioning.

    Args:
        names_all: Whether each is worth it, and the line may be of any length.
    """
    new = [f"{_shown(name)} new" for name, value in created.items() if names_all or is_called_new(value)]
    parts = [
        *changes,
        *(f"{_shown(name)} deleted" for name in deleted),
        *new,
        *(f"{name} changed" for name in settings),
    ]
    return ", ".join(parts) if names_all else _few(parts)


def outcome(
    created: Mapping[str, object], deleted: Collection[str], changes: Collection[str], settings: Collection[str]
) -> str:
    """Return the effects of code as a sentence without subject, with the functions and classes it defines.

    Returns:
        The sentence; empty if nothing changed.

    >>> outcome({"by": 1, "f": outcome}, ["x"], ["y changed", "z 1 → 2"], [])
    'changes y, z 1 → 2; deletes x; new variable `by`; defines `f`'
    """
    code = [name for name, value in created.items() if issubclass(type(value), types.FunctionType | type)]
    new = [name for name, value in created.items() if is_called_new(value)]
    parts = (
        ("changes", [*map(behind_verb, changes), *settings]),
        ("deletes", [*map(_shown, deleted)]),
        (f"new variable{'' if len(new) == 1 else 's'}", [f"`{_shown(name)}`" for name in new]),
        ("defines", [f"`{_shown(name)}`" for name in code]),
    )
    return "; ".join(f"{verb} {_few(named)}" for verb, named in parts if named)


def _few(parts: Sequence[str]) -> str:
    shown = [*parts[: _MAX_NAMED - 1], f"{len(parts) - _MAX_NAMED + 1} more"] if len(parts) > _MAX_NAMED else parts
    return ", ".join(shown)


def _shown(name: str) -> str:
    return one_line(name, _MAX_NAME_CHARACTERS)
