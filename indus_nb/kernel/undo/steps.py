"""A step: what one call changed in variables, files and cells of a notebook, and the file in which it is recorded.

What a step did to files and cells outlives the process: each session has a `Book` of it, from which another process
goes on; what it did to variables ends with them.
"""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from indus_nb.base.files import make_private_directory, read_file, write_atomically
from indus_nb.kernel.undo import words
from indus_nb.kernel.undo.cells import CellsChange, CellStep, cells_from_json
from indus_nb.kernel.undo.change import Change
from indus_nb.kernel.undo.contents import MAX_BYTES
from indus_nb.kernel.undo.files import Files, FilesChange, LostFile, change_from_json
from indus_nb.kernel.undo.sealing import sealed
from indus_nb.kernel.undo.transaction import Prepared, TouchedError, carry_out

Touched = Literal["", "keep", "over", "both"]
"""Policy for what the user changed since: refuse, keep it, overwrite it, or keep it and add the other beside it."""

_NAME = "steps.json"
_VERSION = 2


@dataclass(eq=False)
class Step:
    """Changes by one call.

    Attributes:
        book: File in which it is recorded.
        cells: Changes of cells of a notebook.
        asked_in: The id of the cell in which the call's prompt stood, if there is one and it is known.
        cell: The number of the user's cell that it is; ``None`` for a call.
        is_rest: Whether it is no step to users, but kept for named states alone (`rests`).
        asks: Whether it is a change of the user's that no jump to a state has taken back yet: the user decides.
        at: When it was made, in seconds since the epoch; 0 where that is not known.
    """

    call: str
    run: str
    variables: Change | None = None
    files: FilesChange | None = None
    book: Book | None = None
    cells: CellsChange | None = None
    asked_in: str | None = None
    cell: int | None = None
    is_rest: bool = False
    asks: bool = False
    at: float = field(default_factory=time.time)

    @property
    def is_users(self) -> bool:
        """Return whether it is a cell of the user's, and no call."""
        return self.cell is not None

    @property
    def session(self) -> str:
        """Return the id of the session whose call it is; empty for a cell of the user's."""
        return "" if self.is_users else self.run.rpartition(" ")[0]

    @property
    def is_empty(self) -> bool:
        """Return whether nothing changed that could be taken back."""
        return (self.variables is None or self.variables.is_empty) and not self.outlasts

    @property
    def outlasts(self) -> bool:
        """Return whether another process can take something of it back."""
        return any(part is not None and not part.is_empty for part in (self.files, self.cells))

    @property
    def only_imports(self) -> bool:
        """Return whether nothing changed but names that imports bound."""
        uncalled = dict[str, bool]() if self.variables is None else self.variables.found.uncalled
        return bool(self.names) and not self.summary and all(uncalled.get(name) for name in self.names)

    @property
    def rebound(self) -> frozenset[str]:
        """Return its variables that are bound otherwise since, by a later step or the user; in any thread."""
        return frozenset() if self.variables is None else frozenset(self.variables.rebound)

    @property
    def summary(self) -> str:
        """Return the changes in one line, with cells as they were called then; empty if none is worth mentioning."""
        return self._in_words(lambda cell: cell.called)

    def described(self, named: Callable[[CellStep], str], gone: Collection[str] = ()) -> str:
        """Return the changes in one line, with cells by names that are given to them.

        Behind it are the names that imports and definitions bound, for these go with an undo, too.

        Args:
            gone: The ids of cells that the user has removed since.
        """
        said = self._in_words(named, gone)
        uncalled = dict[str, bool]() if self.variables is None else self.variables.found.uncalled
        return ", ".join(filter(None, (said, words.bound(uncalled if said else self.names, uncalled))))

    def _in_words(self, named: Callable[[CellStep], str], gone: Collection[str] = ()) -> str:
        parts = [part.summary for part in (self.variables, self.files) if part is not None]
        cells = "" if self.cells is None else self.cells.described(named, gone)
        return ", ".join(filter(None, (*parts, cells)))

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

    @property
    def names(self) -> frozenset[str]:
        """Return the variables and files that it concerns."""
        return frozenset[str]().union(*(part.names for part in (self.variables, self.files) if part is not None))

    @property
    def keys(self) -> set[str | int | Path]:
        """Return what it writes: variables, ids of objects, and files."""
        variables = set[str | int | Path]() if self.variables is None else {*self.variables.keys}
        return variables.union(() if self.files is None else (each.path for each in self.files.steps))

    def shared(self, other: Step) -> frozenset[str]:
        """Return those of its variables and files that another step concerns too."""
        names = frozenset[str]()
        if self.variables is not None and other.variables is not None:
            names |= self.variables.shared(other.variables)
        if self.files is not None and other.files is not None:
            names |= self.files.shared(other.files)
        return names

    def shared_beside(self, other: Step) -> frozenset[str]:
        """Return the names of the cells, and of the settings of libraries, that another step concerns too."""
        names = frozenset[str]()
        if self.variables is not None and other.variables is not None:
            names |= self.variables.shared_settings(other.variables)
        if self.cells is not None and other.cells is not None:
            names |= self.cells.shared(other.cells)
        return names

    def forget_own(self) -> None:
        """Take what the last move has overwritten in variables for its own: rests know that it is the user's."""
        if self.variables is not None:
            self.variables.forget_own()

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


class Lost(NamedTuple):
    """What cannot be put back of what a step has left, as it was changed outside of steps.

    Attributes:
        step: The last one that knows it as it was.
        variables: Those of objects that cannot be read.
        files: The files, by their names.
    """

    step: Step
    variables: frozenset[str] = frozenset()
    files: Mapping[str, LostFile] = {}


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
                at=float(each.get("at", 0)),
            )
            for each in written
        ]

    def _files(self, written: Mapping[str, Any]) -> FilesChange:
        # Which files are outside of the session's directory is for the session alone to say.
        change = replace(change_from_json(written, self.files.contents), root=self.files.root)
        change.remove_leftovers()
        return change

    def write(self, done: Iterable[Step], undone: Iterable[Step], held: Iterable[Step] = ()) -> None:
        """Save the steps of this session, and drop contents that none of them needs.

        Args:
            done: The steps that can be taken back, of whichever session.
            held: Steps that this process alone can move to, whose contents are kept.

        Raises:
            OSError: It cannot be written.
        """
        sides = [[step for step in side if step.book is self and step.outlasts] for side in (done, undone)]
        mine = [step for step in held if step.book is self]
        kept = [step.files for side in (*sides, mine) for step in side if step.files is not None]
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
        "at": step.at,
        "files": step.files and step.files.to_json(),
        "cells": step.cells and step.cells.to_json(),
    }
