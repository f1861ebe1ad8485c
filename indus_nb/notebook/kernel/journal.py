"""The cells that the user ran: what stood in them, what they printed and gave, and how they failed."""

from __future__ import annotations

import contextlib
import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from indus_nb.notebook.kernel.describe import describe
from indus_nb.notebook.kernel.execution import Routes, traceback_of
from indus_nb.notebook.kernel.main_thread import work_here
from indus_nb.redaction import hide, secrets_of

MAX_CELLS = 20
MAX_CHARACTERS = 8000
_MAX_PART_CHARACTERS = 2000
_OURS = ("%agent", "%%agent", "%load_ext", "%reload_ext", "%unload_ext")


@dataclass(slots=True)
class Cell:
    """A cell that ran, counted from 1 since the journal began.

    ``printed`` is as it was printed, with what a terminal would obey.
    """

    index: int
    number: int | None
    code: str
    printed: str = ""
    result: str | None = None
    error: str | None = None


class _Tail:
    """The end of what is printed; ``append`` is called at every write, and costs next to nothing."""

    def __init__(self) -> None:
        self._pieces: deque[str] = deque(maxlen=2 * _MAX_PART_CHARACTERS)
        self._add = self._pieces.append

    def append(self, text: str) -> None:
        self._add(text if len(text) <= _MAX_PART_CHARACTERS else text[-_MAX_PART_CHARACTERS - 1 :])

    def text(self) -> str:
        whole = "".join(self._pieces)
        return whole if len(whole) <= _MAX_PART_CHARACTERS else f"…{whole[-_MAX_PART_CHARACTERS:]}"


class Journal:
    """Watches the user's cells, and remembers the last 20."""

    def __init__(self, shell: Any, routes: Routes) -> None:
        self._shell = shell
        self._routes = routes
        self._tail: _Tail | None = None
        self._cells: deque[Cell] = deque(maxlen=MAX_CELLS)
        self._count = 0
        shell.events.register("pre_run_cell", self._begin)
        shell.events.register("post_run_cell", self._end)

    def close(self) -> None:
        """Stop watching."""
        for event, callback in (("pre_run_cell", self._begin), ("post_run_cell", self._end)):
            with contextlib.suppress(ValueError):
                self._shell.events.unregister(event, callback)

    @property
    def count(self) -> int:
        """How many cells there were."""
        return self._count

    def since(self, index: int) -> str:
        """Write the cells after the one of that index for the model; empty without any."""
        cells = [cell for cell in self._cells if cell.index > index]
        if not cells:
            return ""
        texts: deque[str] = deque()
        room = MAX_CHARACTERS
        for cell in reversed(cells):
            text = _as_text(cell)
            if len(text) > room:
                break
            room -= len(text)
            texts.appendleft(text)
        left_out = min(self._count - index, self._count) - len(texts)
        note = [f"({left_out} earlier cells are left out here.)"] if left_out else []
        return "\n\n".join(["The user ran these cells since the last message:", *note, *texts])

    def _begin(self, info: Any) -> None:
        if work_here() is not None:
            return
        self._routes.install()
        self._tail = _Tail() if _is_users(info) else None
        self._routes.on_print = self._listener(self._tail) if self._tail is not None else None

    def _listener(self, tail: _Tail) -> Callable[[str], None]:
        shell = self._shell
        if hasattr(shell, "kernel"):
            return tail.append

        def append(text: str) -> None:
            # A terminal prints results and tracebacks too; the model gets them otherwise.
            if not (getattr(shell.displayhook, "is_active", False) or getattr(shell, "showing_traceback", False)):
                tail.append(text)

        return append

    def _end(self, result: Any) -> None:
        if work_here() is not None:
            return
        tail, self._tail = self._tail, None
        self._routes.on_print = None
        info = getattr(result, "info", None)  # a cell that was interrupted while it awaited has no result
        if info is None or not _is_users(info):
            return
        error = result.error_before_exec or result.error_in_exec
        self._count += 1
        self._cells.append(
            Cell(
                index=self._count,
                number=result.execution_count,
                code=_beginning(info.raw_cell),
                printed=tail.text() if tail is not None else "",
                result=None if result.result is None else describe(result.result),
                error=None if error is None else _end_of(traceback_of(error, self._shell, libraries=1)),
            )
        )


def _is_users(info: Any) -> bool:
    code: str = getattr(info, "raw_cell", "") or ""
    return bool(getattr(info, "store_history", True) and code.strip() and not code.lstrip().startswith(_OURS))


def _as_text(cell: Cell) -> str:
    head = "Cell:" if cell.number is None else f"Cell [{cell.number}]:"
    parts = [f"{head}\n{_fenced(cell.code, 'python')}"]
    if printed := _without_codes(cell.printed):
        parts.append(f"Printed:\n{_fenced(printed)}")
    if cell.result is not None:
        parts.append(f"Out: {cell.result}")
    if cell.error is not None:
        parts.append(f"Error:\n{_fenced(cell.error)}")
    return hide("\n".join(parts), secrets_of())


def _without_codes(printed: str) -> str:
    from indus_nb.tools.bash import PlainText  # a user's cells are watched before the tools are imported

    return PlainText().feed(printed.encode(errors="replace"), final=True).strip("\n")


def _fenced(text: str, language: str = "") -> str:
    """A block that its text cannot leave."""
    runs: Sequence[str] = re.findall(r"`{3,}", text)
    fence = "`" * (max(map(len, runs), default=2) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _beginning(text: str) -> str:
    text = text.strip("\n")
    return (
        text
        if len(text) <= _MAX_PART_CHARACTERS
        else f"{text[:_MAX_PART_CHARACTERS]}\n… ({len(text) - _MAX_PART_CHARACTERS} characters)"
    )


def _end_of(text: str) -> str:
    text = text.rstrip("\n")
    return text if len(text) <= _MAX_PART_CHARACTERS else f"… {text[-_MAX_PART_CHARACTERS:]}"
