"""History of an agent's steps, newest last, to undo and redo: several at a time, all of them or none.

A step is what one call changed, in variables, in files and in cells of a notebook. What it did to files and cells
outlives the process: each session has a `Book` of it, from which another process goes on; what it did to variables ends
with them. The caller changes cells, by a plan that is made before and carried out afterwards.
"""

from __future__ import annotations

import copy
import hmac
import json
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import RLock
from typing import Any, Literal, NamedTuple, cast

from indus_nb.base.files import make_private_directory, read_file, write_atomically
from indus_nb.kernel.undo.cells import CellsChange, CellsPlan, cells_from_json
from indus_nb.kernel.undo.change import Change, Side
from indus_nb.kernel.undo.contents import MAX_BYTES
from indus_nb.kernel.undo.files import Files, FilesChange, FileStep, change_from_json
from indus_nb.kernel.undo.keeper import ABSENT
from indus_nb.kernel.undo.sealing import sealed
from indus_nb.kernel.undo.transaction import Prepared, RefusedError, TouchedError, carry_out

Touched = Literal["", "keep", "over", "both"]
"""Policy for what the user changed since: refuse, keep it, overwrite it, or keep it and add the other beside it."""

MAX_STEPS = 100
_NAME = "steps.json"
_VERSION = 2


@dataclass(eq=False)
class Step:
    """Changes by one call.

    Attributes:
        book: File in which it is recorded.
        cells: Changes of cells of a notebook.
        asked_in: The id of the cell in which the call's prompt stood, if there is one and it is known.
    """

    call: str
    run: str
    variables: Change | None = None
    files: FilesChange | None = None
    book: Book | None = None
    cells: CellsChange | None = None
    asked_in: str | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether nothing changed that could be taken back."""
        return (self.variables is None or self.variables.is_empty) and not self.outlasts

    @property
    def outlasts(self) -> bool:
        """Return whether another process can take something of it back."""
        return any(part is not None and not part.is_empty for part in (self.files, self.cells))

    @property
    def summary(self) -> str:
        """Return the changes in one line."""
        parts = (self.variables, self.files, self.cells)
        return ", ".join(part.summary for part in parts if part is not None and part.summary)

    @property
    def left_out(self) -> frozenset[str]:
        """Return the files that were not kept, and so are not taken back."""
        return frozenset(self.files.left_out) if self.files is not None else frozenset()

    @property
    def weight(self) -> int:
        """Return roughly how much memory it takes."""
        return 0 if self.variables is None else self.variables.weight

    def touched(self) -> frozenset[str]:
        """Return the variables and files that were changed since the step."""
        parts = (self.variables, self.files)
        return frozenset[str]().union(*(part.touched() for part in parts if part is not None))

    def turn(self, changed: Collection[str], touched: Touched) -> tuple[frozenset[str], frozenset[str]]:
        """Undo the changes of variables and files, or redo them if they are undone.

        Returns:
            What was written, and which of it are new files beside others.

        Raises:
            TouchedError: Something was changed since, and ``touched`` says nothing of it; nothing was done.
            RefusedError: It is not possible; nothing was done.
        """
        writes: list[Prepared] = []
        names = beside = frozenset[str]()
        undecided: set[str] = set()
        keep = changed if touched in ("keep", "both") else ()
        over = changed if touched == "over" else ()
        if self.files is not None:  # first, as files may fail
            both = changed if touched == "both" else ()
            try:
                writing = self.files.prepare(keep=keep if touched == "keep" else (), over=over, both=both)
                writes.append(writing)
                names, beside = writing.names, writing.beside
            except TouchedError as error:
                undecided |= {*error.names}
        if self.variables is not None:
            try:
                bound = self.variables.prepare(keep=keep, over=over)
                writes.append(bound)
                names |= bound.names
            except TouchedError as error:
                undecided |= {*error.names}
        if undecided:
            raise TouchedError(undecided)
        carry_out(writes)
        return names, beside


class Maker(NamedTuple):
    """The agent's call that bound a variable last.

    Attributes:
        cell: The id of the cell in which its prompt stood; ``None`` where that was elsewhere, or is not known.
        is_of_last_prompt: Whether its prompt is the last of the conversation that is asked about.
    """

    cell: str | None
    is_of_last_prompt: bool


@dataclass(slots=True)
class Book:
    """File in which one session's changes of files and cells are recorded.

    What was not written with the key does not count: it may have been put there to have files written.

    Attributes:
        key: The session's key, which others do not have.
    """

    files: Files
    key: bytes = b""
    _path: Path | None = field(init=False)

    def __post_init__(self) -> None:
        """Find the path of the file."""
        directory = self.files.contents.directory
        self._path = None if directory is None else directory / _NAME

    def read(self) -> tuple[list[Step], list[Step]]:
        """Return the steps that can be undone, and those that can be redone, both oldest first."""
        if self._path is None:
            return [], []
        try:
            written = cast("dict[str, Any]", json.loads(read_file(self._path, most=MAX_BYTES)))
            steps = str(written["steps"])
            if written["version"] != _VERSION or not hmac.compare_digest(str(written["code"]), self._code(steps)):
                return [], []
            held = cast("dict[str, Any]", json.loads(steps))
            return self._steps(held["done"]), self._steps(held["undone"])
        except (OSError, ValueError, TypeError, KeyError, IndexError):
            return [], []  # there is none, or it is another program's

    def _code(self, steps: str) -> str:
        return sealed(self.key, steps.encode()).hex()

    def _steps(self, written: Sequence[Mapping[str, Any]]) -> list[Step]:
        return [
            Step(
                str(each["call"]),
                str(each["run"]),
                files=None if each["files"] is None else self._files(each["files"]),
                book=self,
                cells=cells_from_json(each["cells"]) if each.get("cells") is not None else None,
            )
            for each in written
        ]

    def _files(self, written: Mapping[str, Any]) -> FilesChange:
        # Which files are outside of the session's directory is for the session alone to say.
        change = replace(change_from_json(written, self.files.contents), root=self.files.root)
        change.remove_leftovers()
        return change

    def write(self, done: Iterable[Step], undone: Iterable[Step]) -> None:
        """Save the steps of this session, and drop contents that none of them needs.

        Args:
            done: The steps that can be taken back, of whichever session.

        Raises:
            OSError: It cannot be written.
        """
        sides = [[step for step in side if step.book is self and step.outlasts] for side in (done, undone)]
        kept = [step.files for side in sides for step in side if step.files is not None]
        if self._path is not None and (any(sides) or self._path.exists()):
            written = [[_as_json(step) for step in side] for side in sides]
            steps = json.dumps({"done": written[0], "undone": written[1]})
            content = {"version": _VERSION, "code": self._code(steps), "steps": steps}
            make_private_directory(self._path.parent)
            write_atomically(self._path, json.dumps(content).encode(), mode=0o600, sync=True)
        self.files.contents.keep_only(set[str]().union(*(files.digests() for files in kept)))


def _as_json(step: Step) -> Mapping[str, Any]:
    return {
        "call": step.call,
        "run": step.run,
        "files": step.files and step.files.to_json(),
        "cells": step.cells and step.cells.to_json(),
    }


@dataclass(frozen=True, slots=True)
class Moved:
    """Result of undoing or redoing steps.

    Attributes:
        names: The variables and files that are as they were.
        kept: Names of what the user changed since and that stays as it is.
        beside: New variables and files with what those would be.
        left_out: Files that were not kept, which stay as they are.
        finish: Writes the move down, to be called once the cells are changed: a process that is killed before leaves a
            step that can be moved once more, which does the rest.
        back: Leaves variables and files as they were before the move, and forgets it; may raise ``RefusedError``.
    """

    names: frozenset[str]
    kept: frozenset[str] = frozenset()
    beside: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()
    finish: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)
    back: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)


_Mark = tuple[Step, Side | None, list[FileStep] | None]
"""A step, with the state of its changes from before it was undone or redone."""


@dataclass(slots=True)
class _Turned:
    """Steps that were undone or redone, the first one first, and the result."""

    marks: list[_Mark] = field(default_factory=list[_Mark])
    names: set[str] = field(default_factory=set[str])
    kept: set[str] = field(default_factory=set[str])
    beside: set[str] = field(default_factory=set[str])


class History:
    """The steps of all sessions of a process, in the order in which they were made; for any thread.

    Attributes:
        undone: The undone steps, the next one to redo last.
    """

    def __init__(self, namespace: MutableMapping[str, Any]) -> None:
        """Begin with no steps."""
        self.done: list[Step] = []
        self.undone: list[Step] = []
        self._namespace = namespace
        self._lock = RLock()

    def load(self, book: Book) -> None:
        """Add the steps of an earlier process, which are older than all others."""
        with self._lock:
            done, undone = book.read()
            self.done[:0] = done
            self.undone[:0] = undone

    def add(self, step: Step, room: int) -> int:
        """Add a new step; undone steps cannot be redone after it.

        Args:
            room: Memory that all steps may take; the oldest are dropped if they take more.
        """
        with self._lock:
            books = {id(each.book): each.book for each in (*self.undone, step)}
            self.undone.clear()
            self.done.append(step)
            dropped = self._forget(room)
            for each in dropped:
                books[id(each.book)] = each.book
            self._write(books.values())
            return len(dropped)

    def add_to(self, step: Step, room: int) -> Step:
        """Add the cells of a step to the one that its call has made already, or the step itself if there is none.

        Returns:
            The step that has them.
        """
        with self._lock:
            # Some servers count the calls of each request anew: their ids come again.
            asked = step.call, step.run
            made = next((each for each in reversed(self.done) if (each.call, each.run) == asked), None)
            if made is None:
                self.add(step, room)
                return step
            made.cells = step.cells
            self._write([made.book])
            return made

    def _forget(self, room: int) -> list[Step]:
        for at, step in reversed([*enumerate(self.done)]):
            room -= step.weight
            if (room < 0 and at < len(self.done) - 1) or len(self.done) - at > MAX_STEPS:
                dropped = self.done[: at + 1]
                del self.done[: at + 1]
                return dropped
        return []

    def _write(self, books: Iterable[Book | None]) -> None:
        for book in books:
            if book is not None:
                with suppress(OSError):  # it can be taken back as long as this process lives
                    book.write(self.done, self.undone)

    def last_that_bound(self, name: str) -> Step | None:
        """Return the newest step, of those that are not undone, whose code bound a variable as it is still bound."""
        with self._lock:
            made = (step for step in reversed(self.done) if step.variables and step.variables.binds(name))
            return next(made, None)

    def undo(self, count: int, touched: Touched = "", cells: CellsPlan | None = None) -> Moved:
        """Undo the last steps, all of them or none.

        Args:
            cells: Plan for cells, which the caller carries out next.

        Returns:
            What is as before.

        Raises:
            TouchedError: Something was changed since, and ``touched`` says nothing of it; nothing was done.
            RefusedError: There are not as many, or it is not possible; nothing was done.
        """
        return self._move(self.done, self.undone, count, (touched, cells or CellsPlan()))

    def redo(self, count: int, touched: Touched = "", cells: CellsPlan | None = None) -> Moved:
        """Redo the steps that were undone last, without running the code; like ``undo``.

        Args:
            cells: Plan for cells, which the caller carries out next.

        Raises:
            TouchedError: Something was changed since, and ``touched`` says nothing of it; nothing was done.
            RefusedError: There are not as many, or it is not possible; nothing was done.
        """
        return self._move(self.undone, self.done, count, (touched, cells or CellsPlan()))

    def _move(self, source: list[Step], target: list[Step], count: int, how: tuple[Touched, CellsPlan]) -> Moved:
        touched, cells = how
        with self._lock:
            if not 0 < count <= len(source):
                raise RefusedError(f"there are {len(source)} such steps")
            steps = [*reversed(source[-count:])]
            copies = self._copies(steps) if touched == "both" else {}
            turned = self._turn_all(steps, touched)
            cells.turn()
            at = len(source) - count
            del source[at:]
            target += steps
            bound = {self._bind_beside(name, value) for name, value in copies.items()}
            books = {id(step.book): step.book for step in steps}.values()

            def finish() -> None:
                with self._lock:
                    self._write(books)

            def back() -> None:
                with self._lock:
                    self._turn_back(turned.marks)
                    cells.turn()
                    for name in bound:
                        self._namespace.pop(name, None)
                    target[:] = [step for step in target if step not in steps]
                    source[at:at] = reversed(steps)

            if not cells.edits:
                finish()
            kept = frozenset(turned.kept | cells.kept)
            beside = frozenset(turned.beside | bound | cells.beside)
            left_out = frozenset[str]().union(*(step.left_out for step in steps))
            return Moved(frozenset((turned.names | cells.names) - kept - beside), kept, beside, left_out, finish, back)

    def _turn_all(self, steps: Iterable[Step], touched: Touched) -> _Turned:
        turned = _Turned()
        try:
            for step in steps:
                changed = step.touched() if touched else frozenset[str]()  # else it refuses by itself
                turned.kept |= changed if touched in ("keep", "both") else set()
                mark = step.variables and step.variables.mark(), step.files and step.files.steps
                turned.marks.append((step, *mark))  # before it moves: an interrupt may come right after that
                written, new = step.turn(changed, touched)
                turned.names |= written
                turned.beside |= new
        except BaseException:
            self._turn_back(turned.marks)
            raise
        return turned

    def _turn_back(self, marks: Sequence[_Mark]) -> None:
        for step, variables, files in reversed(marks):
            if (step.variables and step.variables.mark()) is variables and (step.files and step.files.steps) is files:
                continue  # it did not move
            step.turn(step.touched(), "over")
            if step.variables is not None and variables is not None:
                step.variables.reset(variables)
            if step.files is not None and files is not None:
                step.files.steps = files

    def _copies(self, steps: Iterable[Step]) -> dict[str, Any]:
        """Build copies of the values that variables would have, of those that the user changed since."""
        moved: list[tuple[Change, Side]] = []
        found: set[str] = set()
        try:
            for change in (step.variables for step in steps):
                if change is not None:
                    found |= change.touched()
                    mark = change.mark()
                    _turn(change)
                    moved.append((change, mark))
            wanted = {name: self._namespace[name] for name in sorted(found) if name in self._namespace}
            try:
                return copy.deepcopy(wanted)
            except Exception as error:
                raise RefusedError(f"{', '.join(sorted(found))} cannot be copied ({type(error).__name__})") from error
        finally:
            for change, mark in reversed(moved):
                _turn(change)
                change.reset(mark)

    def _bind_beside(self, name: str, value: Any) -> str:
        free = f"{name}_before"
        while self._namespace.get(free, ABSENT) is not ABSENT:
            free += "_"
        self._namespace[free] = value
        return free


def _turn(change: Change) -> None:
    move: Callable[..., object] = change.redo if change.undone else change.undo
    move(over=change.touched())
