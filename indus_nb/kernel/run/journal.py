"""The cells that the user ran: source, printed text, displays, result and error."""

from __future__ import annotations

import contextlib
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

from indus_nb.kernel.run.earlier import earlier_cells
from indus_nb.kernel.run.execution import Routes
from indus_nb.kernel.run.main_thread import work_here
from indus_nb.kernel.run.tracebacks import traceback_of
from indus_nb.kernel.values.describe import given
from indus_nb.safety.redaction import hide, labelled_secrets

MAX_CELLS = 20
MAX_CHARACTERS = 8000
_MAX_PART_CHARACTERS = 2000
_MAX_DISPLAYS, _MAX_HTML_CHARACTERS = 10, 8_000
_MAX_KINDS, _MAX_KIND_CHARACTERS = 20, 100
_OUR_LINES = re.compile(r"^([ \t]*)%agent\b(?:.*\\\n)*.*", re.MULTILINE)
_LOADS = re.compile(r"^[ \t]*%(?:re)?load_ext[ \t]+indus_nb\b", re.MULTILINE)
_OURS = ("%agent", "%%agent", "%load_ext", "%reload_ext", "%unload_ext")


@dataclass(slots=True)
class Cell:
    """A cell that ran, counted from 1 since the journal began.

    ``printed`` is as it was printed, with what a terminal would obey; ``None`` where that is not known. ``shown`` are
    parts of the bundles that it displayed, and their text once that was made. ``cell_id`` is what the front end calls
    it.
    """

    index: int
    number: int | None
    code: str
    printed: str | None = ""
    shown: Sequence[Mapping[str, Any]] | str = ()
    result: str | None = None
    error: str | None = None
    cell_id: str | None = None


class _Tail:
    """Last part of the printed text; ``append`` is called at every write, and costs next to nothing."""

    def __init__(self) -> None:
        self._pieces: deque[str] = deque(maxlen=2 * _MAX_PART_CHARACTERS)
        self._add = self._pieces.append

    def append(self, text: str) -> None:
        self._add(text if len(text) <= _MAX_PART_CHARACTERS else text[-_MAX_PART_CHARACTERS - 1 :])

    def text(self) -> str:
        whole = "".join(self._pieces)
        return whole if len(whole) <= _MAX_PART_CHARACTERS else f"…{whole[-_MAX_PART_CHARACTERS:]}"


class _Displays:
    """The first displays of a cell, with what a text is made of for the model; what replaces one takes its place."""

    def __init__(self) -> None:
        self._shown: dict[object, Mapping[str, Any]] = {}

    def add(self, bundle: object, display_id: object, *, update: bool) -> None:
        """Keep a display, whatever code of the user's has sent: it must not fail for that."""
        key = display_id if type(display_id) is str else object()
        if type(bundle) is dict and (key in self._shown or (len(self._shown) < _MAX_DISPLAYS and not update)):
            parts = islice(cast("dict[object, object]", bundle).items(), _MAX_KINDS)
            self._shown[key] = {
                kind: content[: _MAX_HTML_CHARACTERS if kind == "text/html" else _MAX_PART_CHARACTERS]
                if type(content) is str and kind.startswith("text/")
                else {}
                for kind, content in parts
                if type(kind) is str and len(kind) <= _MAX_KIND_CHARACTERS
            }

    def clear(self) -> None:
        self._shown.clear()

    def bundles(self) -> list[Mapping[str, Any]]:
        return list(self._shown.values())


class Journal:
    """Record of the user's last 20 cells, including those that ran before it was made.

    When it is made depends on the front end: one loads the extension with the kernel, another before the first line for
    the agent. So it also keeps what it would know if it had been made with that line (``begin_use``).
    """

    def __init__(self, shell: Any, routes: Routes, *, in_cell: bool = True) -> None:
        """Begin with the cells that ran so far.

        Args:
            in_cell: Whether a cell, or the kernel's configuration, loads the extension, and no front end.
        """
        self._shell = shell
        self._routes = routes
        self._tail: _Tail | None = None
        self._displays = _Displays()
        self._cells: deque[Cell] = deque(maxlen=MAX_CELLS)
        self._count = 0
        self._failed: Cell | None = None
        self.begun: deque[str] = deque(getattr(shell.history_manager, "input_hist_raw", ()))
        """The code of all cells of the user's that have begun, until it is taken from here."""
        self.runs: int = 0
        """How often something has begun that may change the kernel: cells, also those with lines of ours alone, and the
        agent's code; not what front ends run for themselves, which may be at any time."""
        self._before_use: Sequence[Cell] | None = None
        for known in self._earlier():
            self._add(**known)
        if in_cell and len(self.begun) > 1:  # the first one is IPython's own; the configuration loads before any cell
            self.begin_use()
        shell.events.register("pre_run_cell", self._begin)
        shell.events.register("post_run_cell", self._end)

    def close(self) -> None:
        """Unregister from the shell's events."""
        for event, callback in (("pre_run_cell", self._begin), ("post_run_cell", self._end)):
            with contextlib.suppress(ValueError):
                self._shell.events.unregister(event, callback)

    @property
    def count(self) -> int:
        """Return the number of cells so far."""
        return self._count

    @property
    def failed(self) -> Cell | None:
        """Return the cell that failed last, unless it ran well since."""
        return self._failed

    def failed_at(self, cell_id: str) -> Cell | None:
        """Return how the cell with that id ran last, if it failed then."""
        last = next((cell for cell in reversed(self._cells) if cell.cell_id == cell_id), None)
        return None if last is None or last.error is None else last

    def begin_use(self) -> None:
        """Keep what is known without having watched of the cells so far, at the first line for the agent or prompt."""
        if self._before_use is None:
            self._before_use = self._unwatched()

    def since(
        self,
        index: int,
        prompt: str = "",
        elsewhere: Callable[[str | None], str] = lambda _cell: "",
        *,
        from_use: bool = False,
    ) -> tuple[str, int]:
        """Write the cells after the one of that index for the model; return the text and how many are in it.

        Args:
            prompt: What the model is told anyway: cells that stand in it are left out.
            elsewhere: Returns the name of the notebook of a cell, given by its id, where that is another one.
            from_use: Whether to write as if the extension had been loaded with the first line for the agent, so that
                the text is the same whenever that was.
        """
        cells, begins = [*self._cells], 0
        if from_use:
            unwatched = self._unwatched() if self._before_use is None else self._before_use
            used_from = unwatched[-1].index if unwatched else 0
            begins = used_from - len(unwatched)
            cells = [*unwatched, *(cell for cell in cells if cell.index > used_from)][-MAX_CELLS:]
        after = max(index or begins, begins)
        texts: deque[str] = deque()
        room, before, unknown = MAX_CHARACTERS, self._count - after, False
        for cell in reversed(cells):
            if cell.index <= after:
                break
            text = as_text(cell)
            if text not in prompt:
                if len(text) > room:
                    break
                room -= len(text)
                other = elsewhere(cell.cell_id)
                texts.appendleft(f"In {other}:\n{text}" if other else text)
                unknown = unknown or cell.printed is None
            before -= 1
        if not texts and not before:
            return "", 0
        note = [f"({before} earlier cells are left out here.)"] if before else []
        if unknown:
            note.append("(What cells printed that ran before the agent was loaded is not known.)")
        return "\n\n".join(["The user ran these cells since the last message:", *note, *texts]), len(texts)

    @property
    def by_number(self) -> dict[int, str]:
        """Return the code of the cells that ran last, by their numbers."""
        return {cell.number: cell.code for cell in self._cells.copy() if cell.number is not None}

    def cell(self, number: int) -> str | None:
        """Write the cell with that execution number; ``None`` if it is not among the last 20."""
        return next((as_text(cell) for cell in reversed(self._cells) if cell.number == number), None)

    def told_in(self, text: str) -> dict[str, str] | None:
        """Return the cells that a text of `since` tells of by their ids, without their numbers.

        Returns:
            ``None`` where one of them has no id.
        """
        told = [cell for cell in self._cells if as_text(cell) in text]
        found = {cell.cell_id: _without_number(cell) for cell in told if cell.cell_id is not None}
        return found if all(cell.cell_id is not None for cell in told) else None

    def last_told(self, cell_id: str) -> str | None:
        """Write the last run of a cell without its number; ``None`` where it is not among the last 20."""
        last = next((cell for cell in reversed(self._cells) if cell.cell_id == cell_id), None)
        return None if last is None else _without_number(last)

    def _earlier(self) -> Iterator[dict[str, Any]]:
        """Yield what IPython remembers of the user's last cells, for ``_add``."""
        for cell in earlier_cells(self._shell, MAX_CELLS):
            if code := _users_code(cell.code):
                result = None if cell.result is None else given(cell.result)
                yield {"number": cell.number, "code": code, "printed": None, "result": result, "error": cell.error}

    def _unwatched(self) -> Sequence[Cell]:
        """Return the cells so far as a journal would know them that is made now."""
        known = [*self._earlier()]
        return [self._cell(self._count - len(known) + at, **each) for at, each in enumerate(known, 1)]

    def _cell(self, index: int, *, error: BaseException | None, code: str, **known: Any) -> Cell:
        text = None if error is None else _end_of(traceback_of(error, self._shell, libraries=1))
        return Cell(index=index, code=_beginning(code), error=text, **known)

    def _add(self, **known: Any) -> None:
        self._count += 1
        cell = self._cell(self._count, **known)
        self._cells.append(cell)
        if cell.error is not None:
            self._failed = cell
        elif self._failed is not None and self._failed.code == cell.code:
            self._failed = None

    def _begin(self, info: Any) -> None:
        is_agents = work_here() is not None
        if is_agents or getattr(info, "store_history", True):
            self.runs += 1
        if is_agents:
            return
        code: str = getattr(info, "raw_cell", "") or ""
        loads = self._before_use is None and _LOADS.search(code) is not None
        if loads or _OUR_LINES.search(code) is not None or code.lstrip().startswith("%%agent"):
            self.begin_use()
        self.begun.append(without_our_lines(code))
        self._routes.install()
        # Where nothing was loaded before, a cell that loads the extension is not watched from its beginning.
        self._tail = _Tail() if is_users(info) and not loads else None
        self._routes.on_print = self._listener(self._tail) if self._tail is not None else None
        self._displays = _Displays()
        # A terminal prints what it displays.
        listens = self._tail is not None and hasattr(self._shell, "kernel")
        self._routes.on_display = self._displays if listens else None

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
        self._routes.on_print = self._routes.on_display = None
        info = getattr(result, "info", None)  # a cell that was interrupted while it awaited has no result
        if info is None or not is_users(info):
            return
        self._add(
            number=result.execution_count,
            code=info.raw_cell,
            printed=tail.text() if tail is not None else None,
            shown=self._displays.bundles(),
            result=None if result.result is None else given(result.result),
            error=result.error_before_exec or result.error_in_exec,
            cell_id=getattr(info, "cell_id", None),
        )


def shown_cell(cell_id: str, source: str, traceback: str) -> Cell:
    """Make the cell that a page shows, of which nothing is known here."""
    error = _end_of(_without_codes(traceback))
    return Cell(index=0, number=None, code=_beginning(source), error=error, cell_id=cell_id)


def is_users(info: Any) -> bool:
    """Return whether a cell that ran is one of the user's, and not a line for the agent.

    It is also when it does more than to load the extension.
    """
    code: str = getattr(info, "raw_cell", "") or ""
    return bool(getattr(info, "store_history", True) and _users_code(code))


def _users_code(code: str) -> str:
    """Return a cell's code, or an empty text if there are only lines of ours in it."""
    first, _, rest = code.lstrip().partition("\n")
    if not first.startswith(_OURS):
        return code if code.strip() else ""
    lines = [line for line in rest.split("\n") if line.strip() and not line.lstrip().startswith(("#", *_OURS))]
    return code if lines and first.startswith("%load_ext") else ""


def without_our_lines(code: str) -> str:
    """Return a cell as Python runs it, without the lines for the agent."""
    return "" if code.lstrip().startswith("%%agent") else _OUR_LINES.sub(r"\1pass", code)


def as_text(cell: Cell) -> str:
    """Write a cell for a model, without secrets. The text of what it displayed is made once, when it is first told."""
    head = "Cell:" if cell.number is None else f"Cell [{cell.number}]:"
    parts = [f"{head}\n{_fenced(cell.code, 'python')}"]
    if printed := _without_codes(cell.printed or ""):
        parts.append(f"Printed:\n{_fenced(printed)}")
    if not isinstance(cell.shown, str):
        cell.shown = _described(cell.shown)
    if cell.shown:
        parts.append(f"Shown:\n{_fenced(cell.shown)}")
    if cell.result is not None:
        parts.append(f"Out:\n{_fenced(cell.result)}" if "\n" in cell.result else f"Out: {cell.result}")
    if cell.error is not None:
        parts.append(f"Error:\n{_fenced(cell.error)}")
    return hide("\n".join(parts), labelled_secrets())


def _without_number(cell: Cell) -> str:
    return as_text(cell).partition("\n")[2]


def _described(displays: Sequence[Mapping[str, Any]]) -> str:
    from indus_nb.kernel.run.outputs import described  # as the next

    texts: deque[str] = deque()
    room = _MAX_PART_CHARACTERS
    for bundle in reversed(displays):
        texts.appendleft(described(bundle))
        room -= len(texts[0])
        if room < 0:
            break
    return _end_of("\n".join(texts))


def _without_codes(printed: str) -> str:
    from indus_nb.tools.commands.shell import printed_text  # a user's cells are watched before the tools are imported

    return printed_text(printed).strip("\n")


def _fenced(text: str, language: str = "") -> str:
    """Write a fenced block that its text cannot close."""
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
