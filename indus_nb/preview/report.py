"""What a copy is to do, and what it tells of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, Protocol, TypeAlias, cast

MAX_BYTES = 1 << 16
"""What is read of a report at most."""
_MAX_LISTED = 40
_MAX_CHARACTERS = 4000

Stop: TypeAlias = Callable[[str], NoReturn]
"""Ends the copy with a sentence that says what the code was about to do."""


class Task(Protocol):
    """What is done in a copy."""

    def run(self, stop: Stop) -> None:
        """Do it. Called in the copy; what it raises ends it without a report."""
        ...

    def report(self) -> Report:
        """Return what came of it so far. Called in the copy, on any thread, also in the middle of ``run``."""
        ...


@dataclass
class Report:
    """What came of a task in a copy.

    Attributes:
        how: It ended, raised something, or was about to do something outside; ``none`` is no preview at all.
        why: What it raised or was about to do, or why there is no preview.
        printed: The end of what it printed.
        shown: What it displayed that is no text.
        changed: What it changed, as a sentence without subject.
        calls: Functions in C that it looked up, whose doings outside nothing here can see.
        otherwise: What is said of variables if there is nothing else to tell.
        files: What it did to files, which was done to copies.
    """

    how: Literal["done", "failed", "stopped", "none"] = "done"
    why: str = ""
    printed: str = ""
    shown: list[str] = field(default_factory=list[str])
    changed: str = ""
    calls: list[str] = field(default_factory=list[str])
    otherwise: str = "changes no variable"
    files: list[str] = field(default_factory=list[str])

    def to_bytes(self) -> bytes:
        """Return it as it is sent."""
        data = {name: value if isinstance(value, str) else value[:_MAX_LISTED] for name, value in vars(self).items()}
        return json.dumps({name: _shortened(value) for name, value in data.items()}).encode()


def parsed(data: bytes) -> Report | None:
    """Read a report that another process sent; ``None`` if it is none."""
    try:
        found: object = json.loads(data)
    except (ValueError, RecursionError):
        return None
    values = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    how: Any = values.get("how")
    texts = {name: values.get(name) for name in ("why", "printed", "changed", "otherwise")}
    lists = {name: _texts(values.get(name)) for name in ("shown", "calls", "files")}
    if how not in ("done", "failed", "stopped", "none") or None in lists.values():
        return None
    if not all(isinstance(text, str) for text in texts.values()):
        return None
    return Report(how, **cast("dict[str, Any]", {**texts, **lists}))


def _texts(value: object) -> list[str] | None:
    listed = cast("list[object]", value) if isinstance(value, list) else [None]
    texts = [text for text in listed if isinstance(text, str)]
    return texts if len(texts) == len(listed) else None


def _shortened(value: str | list[str]) -> str | list[str]:
    return value[-_MAX_CHARACTERS:] if isinstance(value, str) else [text[:300] for text in value]
