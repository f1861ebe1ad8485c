"""The steps of the agent in a kernel, which the user may undo and redo, newest first."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from indus_nb.base import textcut
from indus_nb.base.errors import UsageError
from indus_nb.base.free_memory import free_memory
from indus_nb.core.resources.settings import NotebookSettings
from indus_nb.core.storage import SessionStore
from indus_nb.kernel.toolset.writes import Writes
from indus_nb.kernel.undo import (
    Book,
    CellsChange,
    CellsPlan,
    CellStep,
    Checkpoint,
    CheckpointBudget,
    Contents,
    Dropped,
    Files,
    History,
    Maker,
    Moved,
    RefusedError,
    Step,
    Touched,
    TouchedError,
    forecast,
    take,
)
from indus_nb.kernel.undo.files import FilesChange, FilesCheckpoint, HeldFile, hold
from indus_nb.kernel.undo.reach import bound_in_source
from indus_nb.kernel.undo.sealing import session_key
from indus_nb.safety.effects import files_changed
from indus_nb.tools.tool import CallGate

T = TypeVar("T")
_MAX_NAMED = 5
_MAX_ASKED = 50
_MAX_LINE_CHARACTERS = 300
_SHARE_OF_MEMORY = 10
_SHARE_WHERE_WANTED = 4
_LARGE_SECONDS = 2.0
"""Processor time for copies of what is larger than the settings allow, where the user wants it kept."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """What a move would do, and the user has to decide about.

    Attributes:
        steps: Its steps.
        names: Names of what was changed since.
        removed: Those of them that the move would not overwrite, but remove.
    """

    steps: tuple[Step, ...]
    names: frozenset[str]
    removed: frozenset[str] = frozenset()

    @property
    def them(self) -> str:
        """Return the pronoun for what was changed since."""
        return "it" if len(self.names) == 1 else "them"

    @property
    def has_rest(self) -> bool:
        """Return whether the move does something else as well, or its steps are not known."""
        return not self.steps or any(
            step.names - self.names
            or (step.variables is not None and step.variables.found.settings)
            or (step.cells is not None and not step.cells.is_empty)
            for step in self.steps
        )

    def over(self, overwrite: str, remove: str) -> str:
        """Return what "over" does with it, of the words for both."""
        both = [overwrite] if self.names != self.removed else []
        return " or ".join([*both, *([remove] if self.removed else [])])


class ChangedSinceError(UsageError):
    """Something was changed since; the user has to decide what becomes of it.

    Attributes:
        command: What was asked for.
        would_move: What the steps changed, in a line, where they are undone or redone.
    """

    def __init__(self, question: str, command: str, undecided: Undecided) -> None:
        """Set the message: the question, and the commands that answer it.

        Args:
            command: What was asked for, such as ``undo prompt``.
        """
        self.question = question
        self.command = command
        self.would_move = ""
        self.undecided = undecided
        over, them = undecided.over("overwrites", "removes"), undecided.them
        beside = "the other beside it" if them == "it" else "the others beside them"
        keep = f"`%agent {command} keep` leaves that as it is and does the rest, " if undecided.has_rest else ""
        super().__init__(
            f"Nothing was changed: {question} {keep}`%agent {command} over` {over} {them}, `%agent {command} both` "
            f"leaves {them} and puts {beside}."
        )


@dataclass(frozen=True, slots=True)
class Outlook:
    """Forecast of what could be undone if code ran.

    Attributes:
        unable: A sentence that names what could not; empty if there is nothing.
        large: Those that could with more memory, with their sizes; empty if there are none.
    """

    unable: str = ""
    large: str = ""


@dataclass(slots=True)
class _Open:
    """A call that runs, and its checkpoint."""

    book: Book | None
    run: str
    variables: Checkpoint | None = None
    files: FilesCheckpoint | None = None
    notebooks: FilesChange | None = None
    cells: list[CellStep] = field(default_factory=list[CellStep])
    problem: str = ""
    asked_in: str | None = None
    gate: CallGate | None = None
    writes: Writes | None = None


@dataclass(frozen=True, slots=True)
class _Held:
    """Open notebooks as they were before a call."""

    book: Book | None
    run: str
    files: Mapping[Path, HeldFile]


class Steps:
    """Changes by calls, in the order in which they ran; variables are used on the thread that runs the code.

    Attributes:
        cell_pauses: Called before a call's code runs or steps are moved, as a cell of the user's may run around it.
        cell_goes_on: Called afterwards.
    """

    def __init__(self, namespace: MutableMapping[str, Any], transform: Callable[[str], str]) -> None:
        """Start without steps.

        Args:
            transform: Makes Python of what a notebook allows besides.
        """
        self.settings: NotebookSettings = NotebookSettings()
        self.cell_pauses: Callable[[], None] = lambda: None
        self.cell_goes_on: Callable[[], None] = lambda: None
        self._namespace = namespace
        self._transform = transform
        self.history: History = History(namespace)
        self._books: dict[str, Book] = {}
        self._runs: dict[str, int] = {}
        self._open: dict[str, _Open] = {}
        self._held: dict[str, _Held] = {}
        self._large: set[str] = set()

    def bound_by(self, codes: Iterable[str]) -> set[str]:
        """Return the variables of now that some codes of the user's bind."""
        bound = [bound_in_source(code, self._transform) for code in codes]
        return {name for names in bound for name in names or () if name in self._namespace}

    # Events of sessions

    def open_book(self, store: SessionStore, agent_dir: Path) -> None:
        """Load the steps of earlier kernels on files in a session; keep nothing beside a file of another user.

        Args:
            agent_dir: The user's own directory, where the key is, and which is not looked at.
        """
        if not self.settings.undo or store.session_id in self._books:
            return
        directory = store.path.with_suffix(".undo") if store.path is not None and store.own else None
        key = None if directory is None else session_key(agent_dir, store.session_id)
        files = Files(store.cwd, Contents(None if key is None else directory), apart=[agent_dir])
        book = self._books[store.session_id] = Book(files, key or b"")
        self.history.load(book)

    async def begin_run(self, session: str) -> None:
        """Register another prompt, and read small files while its model thinks."""
        self._runs[session] = self._runs.get(session, 0) + 1
        self._large.clear()
        ended = f"{session} {self._runs[session] - 1}"
        for call in [call for call, held in list(self._held.items()) if held.run == ended]:
            self._held.pop(call, None)  # its task was cancelled: no result came
        for call, running in list(self._open.items()):
            if running.run == ended and running.writes is not None and running.variables is None:  # no code of a job
                self.forget(call)
        book = self._books.get(session)
        if book is not None and self.settings.undo:
            asyncio.get_running_loop().run_in_executor(None, book.files.prepare)

    def announce(self, call: str, session: str, asked_in: str | None = None, gate: CallGate | None = None) -> None:
        """Register a call that is about to run.

        Args:
            asked_in: The id of the cell in which its prompt stood, if there is one.
            gate: Knows the effects that trials of the call find.
        """
        run = f"{session} {self._runs.get(session, 0)}"
        self._open[call] = _Open(self._books.get(session), run, asked_in=asked_in, gate=gate)

    def maker(self, name: str, session: str) -> Maker | None:
        """Find the call whose code bound a variable last; ``None`` where none is known, or its code stands in cells.

        Args:
            session: The session whose last prompt counts.
        """
        step = self.history.last_that_bound(name)
        return None if step is None or step.cells is not None or step.is_users else self._maker(step, session)

    def makers(self, session: str) -> dict[str, Maker]:
        """Find the variables that calls changed whose code stands in no cell, each with the newest such call."""
        steps = (step for step in tuple(self.history.done) if step.cells is None and not step.is_users)
        changes = ((step, step.variables) for step in steps if step.variables is not None)
        return {name: self._maker(step, session) for step, change in changes for name in change.names}

    def _maker(self, step: Step, session: str) -> Maker:
        return Maker(step.asked_in, is_of_last_prompt=step.run == f"{session} {self._runs.get(session, 0)}")

    def begin_files(self, call: str, targets: Iterable[Path], *, by_tools: bool = False) -> None:
        """Take a snapshot of the files, right before a call may change them; on a thread that may block.

        Args:
            by_tools: Whether the call has other tools of this process change them, as sub-agents do.
        """
        if self._open.keys() <= {call}:  # else what other calls have begun to write would count as the user's
            self.history.settle(files_alone=True)
        self._begin_files(call, [*targets], by_tools=by_tools)

    def _begin_files(self, call: str, targets: Collection[Path] = (), *, by_tools: bool = False) -> None:
        running = self._open.get(call)
        for other in [*self._open.values()]:
            if other.writes is not None:
                other.writes.leave_out(targets)
        if running is None or running.book is None or not self.settings.undo:
            return
        if by_tools:
            running.writes = Writes(all_threads=True)
        try:
            running.files = running.book.files.begin(targets)
        except Exception as error:  # noqa: BLE001 - the call runs all the same
            running.problem = f"files: {_reason(error)}"

    def hold_notebooks(self, call: str, session: str, paths: Iterable[Path]) -> None:
        """Take a snapshot of open notebooks, which no call should write; on a thread that may block.

        Args:
            call: The id of the call that may do so.
        """
        run = f"{session} {self._runs.get(session, 0)}"
        held = {path: hold(path) for path in map(Path, map(os.path.realpath, paths))}
        if held:
            self._held[call] = _Held(self._books.get(session), run, held)

    def changed_notebooks(self, call: str) -> list[Path]:
        """Return the open notebooks that have changed since the snapshot."""
        held = self._held.get(call)
        return [] if held is None else [path for path, was in held.files.items() if hold(path)[0] != was[0]]

    def keep_notebooks(self, call: str, overwritten: Collection[Path]) -> str:
        """Record that a call has written notebooks that are open, as a part of its step.

        Returns:
            Why that cannot be undone; empty if it can.
        """
        held = self._held.pop(call, None)
        if held is None or not overwritten:
            return ""
        if held.book is None or not self.settings.undo:
            return "undo is off"
        files = held.book.files.only({path: held.files[path] for path in overwritten}).close()
        if (running := self._open.get(call)) is not None:  # it goes on as a job, whose end makes the step
            running.notebooks = files
        elif not files.is_empty:
            self.history.add_to(Step(call, held.run, book=held.book, files=files), self.room)
        return "; ".join(files.left_out.values())

    def note_cell(self, call: str, session: str, cell: CellStep) -> None:
        """Record a cell of the notebook that a call has changed."""
        if self.settings.undo:
            if call not in self._open:
                self.announce(call, session)
            self._open[call].cells.append(cell)

    def add_cells(self, call: str, session: str, cells: Sequence[CellStep]) -> str:
        """Record cells that were written of a call's code, as a part of its step; on a thread that may block.

        Returns:
            The changes of the step as a line; empty where nothing can be undone.
        """
        if not self.settings.undo:
            return ""
        run = f"{session} {self._runs.get(session, 0)}"
        step = Step(call, run, book=self._books.get(session), cells=CellsChange(cells))
        return self.history.add_to(step, self.room).summary

    def begin(self, call: str, code: str, first: Collection[str]) -> None:
        """Take a checkpoint of what code can change, right before it runs."""
        if not self.settings.undo:
            return
        self.cell_pauses()
        if not self.code_runs:
            self.history.settle()
        running = self._open.setdefault(call, _Open(None, ""))
        self._begin_files(call)
        running.writes = Writes() if running.files is None else Writes(on_first=running.files.keep_meanwhile)
        try:
            budget = self.budget(2, large=code in self._large)
            running.variables = take(self._namespace, code, budget, transform=self._transform, first=first)
        except Exception as error:  # noqa: BLE001 - an object of the user's that fails: the code runs all the same
            running.problem = f"variables: {_reason(error)}"

    def checkpoint(self, code: str) -> Checkpoint:
        """Take a checkpoint of what a cell of the user's can change, in half the time that a call's may take.

        Most cells only look at frames: that these are compared below pandas, too, would take most of the time.
        """
        self.history.settle()
        budget = replace(self.budget(1), below_frames=False)
        return take(self._namespace, code, budget, transform=self._transform)

    def forget(self, call: str) -> None:
        """Discard a call that has not run."""
        running = self._open.pop(call, None)
        if running is not None and running.writes is not None:
            running.writes.end()

    def end(self, call: str) -> tuple[str, str, frozenset[str]]:
        """Find the changes of a call.

        Other files than those that it was to change, that Python has changed for its code, and that a trial of it was
        found to change may have been changed by something else.

        Returns:
            That as a line, empty if there is nothing to report; why it cannot be undone, empty if it can; and the
            variables among it.
        """
        running = self._open.pop(call, None)
        if running is None:
            return "", "", frozenset()
        written = set(map(os.path.realpath, files_changed(running.gate.found) if running.gate is not None else ()))
        if running.writes is not None:
            written = (written | running.writes.end()) - running.writes.by_others
        problems = [running.problem] if running.problem else []
        cells = CellsChange(running.cells) if running.cells else None
        step = Step(call, running.run, book=running.book, cells=cells, asked_in=running.asked_in)
        if running.variables is not None:
            try:
                step.variables = running.variables.close()
            except Exception as error:  # noqa: BLE001 - as at its beginning
                problems.append(f"variables: {_reason(error)}")
        if running.files is not None:
            try:
                step.files = running.files.close(written)
            except Exception as error:  # noqa: BLE001 - as at its beginning
                problems.append(f"files: {_reason(error)}")
        if running.notebooks is not None:
            step.files = running.notebooks if step.files is None else step.files.joined(running.notebooks)
        summary = step.summary
        dropped = Dropped() if step.is_empty else self.add(step)
        self.cell_goes_on()
        if summary or dropped.states:
            summary = "; ".join(filter(None, (summary, dropped_in_words(dropped))))
        return summary, "; ".join(problems), step.variables.names if step.variables is not None else frozenset()

    def outlook(self, code: str, first: Collection[str], within: Collection[str] | None = None) -> Outlook:
        """Forecast what could not be undone if the code ran.

        Args:
            within: The variables that it changes in themselves, where that is known.

        Returns:
            That, and what of it is only too large.
        """
        if not self.settings.undo:
            return Outlook()
        found = forecast(self._namespace, code, self.budget(1), transform=self._transform, first=first)
        found = {name: why for name, why in found.items() if within is None or name in within}
        if not found:
            return Outlook()
        budget = self.budget(1, large=True)
        left = forecast(self._namespace, code, budget, transform=self._transform, first=first)
        large = {name: why for name, why in found.items() if name not in left}
        return Outlook(f"Changes inside of these cannot be undone: {_with_reasons(found)}.", _with_reasons(large))

    def keep_large(self, code: str) -> None:
        """Allow large checkpoints for the code's next run."""
        self._large.add(code)

    # Requests of the user

    def of_last_run(self, verb: str = "undo") -> int:
        """Count the newest steps that belong to one prompt."""
        side = self._side(verb)
        count = 0
        for step in reversed(side):
            if step.run != side[-1].run:
                break
            count += 1
        return count

    def since(self, calls: Collection[str], session: str) -> int:
        """Count the newest steps of a session that are not among some calls.

        Args:
            calls: The ids of the calls that it has made up to some point.

        Returns:
            The number of steps to undo to get back to that point.
        """
        count = 0
        for step in reversed(self.history.done):
            if step.call in calls or not step.run.startswith(f"{session} "):
                break
            count += 1
        return count

    def sessions(self, verb: str) -> list[str]:
        """Return the ids of the sessions that made the steps, the last one first; empty for cells of the user's."""
        return [step.session for step in reversed(self._side(verb))]

    def cells(self, verb: str, count: int) -> list[CellsChange]:
        """Return the cell changes of the last steps, in the order in which they are undone or redone."""
        return cell_changes(self._side(verb)[-count:] if count > 0 else [])

    def newest(self, verb: str, count: int) -> list[Step]:
        """Return steps to undo or redo, the next one last.

        Args:
            verb: ``undo`` or ``redo``.

        Raises:
            UsageError: There are not as many.
        """
        side = self._side(verb)
        if not 0 < count <= len(side):
            there = f"{len(side)} can be" if side else "none can be"
            what = "taken back" if verb == "undo" else "done once more"
            how = f" `%agent {verb} {len(side)}` does that with all of them." if side else ""
            raise UsageError(f"Nothing was done: of the agent's steps in this kernel {there} {what}.{how}")
        return side[-count:]

    def move(self, verb: str, steps: Sequence[Step], touched: Touched = "", cells: CellsPlan | None = None) -> Moved:
        """Undo steps, or redo them without running the code; all of them or none.

        Args:
            verb: ``undo`` or ``redo``.
            steps: Those to move, the first one last: the newest, or such to undo that share nothing with newer ones.
            cells: Changes of cells that the caller makes next.

        Raises:
            ChangedSinceError: Something was changed since, and ``touched`` does not cover it; nothing was done.
            UsageError: It is not possible; nothing was done.
        """
        command = self._command(verb, len(steps))
        turn = self.history.undo if verb == "undo" else self.history.redo
        return self.carry_out(command, lambda: turn(steps, touched, cells))

    def carry_out(self, command: str, move: Callable[[], T]) -> T:
        """Move steps while no code of the agent's runs, and apart from the user's cell that does.

        Args:
            command: The sub-command of ``%agent`` that asks for it.

        Raises:
            ChangedSinceError: Something was changed since, and the user has to decide; nothing was done.
            UsageError: It is not possible; nothing was done.
        """
        if self.code_runs:
            # what is moved meanwhile would count as what that code changes
            raise UsageError("Nothing was changed: code of the agent's still runs. Wait for its end, or stop it first.")
        self.cell_pauses()
        try:
            return move()
        except TouchedError as error:
            undecided = Undecided((), frozenset(error.names), error.removed)  # whoever chose the steps knows these
            raise ChangedSinceError(self._question(error.names), command, undecided) from error
        except RefusedError as error:
            raise UsageError(f"Nothing was changed: {error}.") from error
        finally:
            self.cell_goes_on()

    def settle(self) -> None:
        """Record what the user changed outside of steps for named states, unless code of the agent's runs."""
        if not self.code_runs:
            self.cell_pauses()
            self.history.settle()
            self.cell_goes_on()

    def _command(self, verb: str, count: int) -> str:
        """Return the command that moves that many steps."""
        if count == 1:
            return verb
        return f"{verb} {'prompt' if count == self.of_last_run(verb) else count}"

    def add(self, step: Step) -> Dropped:
        """Add a step, within the memory that all may take."""
        return self.history.add(step, self.room)

    @property
    def code_runs(self) -> bool:
        """Return whether code of a call runs."""
        return any(running.variables is not None for running in self._open.values())

    def _side(self, verb: str) -> list[Step]:
        return self.history.done if verb == "undo" else self.history.undone

    def _question(self, names: Collection[str]) -> str:
        outside = {name for name in names if name.startswith(os.sep)}
        changes = self.history.files()
        doubtful = {name for files in changes for name in files.doubtful() if name in names}
        since = {*names} - outside - doubtful
        files = {name for change in changes for name in change.names & since}
        sentences: list[str] = []
        for changed, by in ((since - files, "you"), (files, "you or another program")):
            if changed:
                was = "was" if len(changed) == 1 else "were"
                sentences.append(f"{_all_listed(changed)} {was} changed since, by {by}.")
        if doubtful:
            was = "was" if len(doubtful) == 1 else "were"
            sentences.append(
                f"{_all_listed(doubtful)} {was} changed while the code ran, perhaps by you or another program."
            )
        if outside:
            are = "is" if len(outside) == 1 else "are"
            sentences.append(f"{_all_listed(outside)} {are} outside the working directory.")
        return " ".join(sentences)

    def budget(self, share: int, *, large: bool = False) -> CheckpointBudget:
        """Return the budget of a checkpoint; the forecast gets half, so that its promises hold."""
        seconds, room = self.settings.undo_milliseconds / 1000 * share, self.settings.undo_megabytes << 20
        if not large:
            return CheckpointBudget(seconds, room)
        return CheckpointBudget(seconds, max(room, free_memory() * share // _SHARE_WHERE_WANTED), _LARGE_SECONDS)

    @property
    def room(self) -> int:
        """Return the memory that all steps may take, in bytes."""
        return max(self.settings.undo_megabytes << 20, free_memory() // _SHARE_OF_MEMORY)


def cell_changes(steps: Sequence[Step]) -> list[CellsChange]:
    """Return the cell changes of steps, in the order in which these are undone or redone."""
    return [step.cells for step in reversed(steps) if step.cells is not None and not step.cells.is_empty]


def steps_in_words(steps: Iterable[Step], named: Callable[[CellStep], str] = lambda cell: cell.called) -> str:
    """Return the changes of steps, as a line.

    Args:
        named: Names a cell.
    """
    said = (step.described(named) for step in steps)
    return textcut.one_line(", ".join(filter(None, said)), _MAX_LINE_CHARACTERS)


def dropped_in_words(dropped: Dropped) -> str:
    """Return what a new step left no room for; empty for nothing.

    >>> dropped_in_words(Dropped(2, ["raw"]))
    'the 2 oldest steps were dropped; the state “raw” is lost, as there is no memory left for it'
    """
    parts: list[str] = []
    if dropped.steps:
        what = "the oldest step was" if dropped.steps == 1 else f"the {dropped.steps} oldest steps were"
        parts.append(f"{what} dropped")
    parts += [f"the state “{name}” is lost, as there is no memory left for it" for name in dropped.states]
    return "; ".join(parts)


def _reason(error: Exception) -> str:
    return textcut.one_line(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__, 200)


def _listed(names: Iterable[str]) -> str:
    return textcut.one_line(", ".join(sorted(names)), _MAX_LINE_CHARACTERS)


def _all_listed(names: Iterable[str]) -> str:
    """List what the user decides about, each by its name."""
    return _first([textcut.one_line(name, _MAX_LINE_CHARACTERS) for name in sorted(names)], _MAX_ASKED)


def _with_reasons(found: Mapping[str, str]) -> str:
    return _first([f"{name} ({why})" for name, why in sorted(found.items())], _MAX_NAMED)


def _first(named: Sequence[str], most: int) -> str:
    """Join the first names, and how many more there are."""
    more = [f"{len(named) - most:,} more"] if len(named) > most else []
    return ", ".join([*named[:most], *more])


def line(moved: Moved) -> str:
    """Describe what was moved, in a line."""
    named = (f"{name} ({moved.fates[name]})" if name in moved.fates else name for name in moved.names)
    parts = [_listed(named) or "nothing"]
    if not (moved.names or moved.kept or moved.beside or moved.left_out):
        parts = ["nothing, for it is so already"]
    if moved.kept:
        parts.append(f"left as the user has it: {_listed(moved.kept)}")
    if moved.beside:
        parts.append(f"new beside it: {_listed(moved.beside)}")
    if moved.left_out:
        parts.append(f"not kept, so as it is: {_listed(moved.left_out)}")
    if moved.outdated:
        show, it = ("shows", "it") if len(moved.outdated) == 1 else ("show", "them")
        gone = f"still {show} the output of code that is replaced: run {it} again"
        parts.append(f"{_listed(moved.outdated)} {gone}")
    return "; ".join(parts)
