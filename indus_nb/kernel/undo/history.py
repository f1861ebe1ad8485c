"""History of an agent's steps, newest last, to undo and redo: several at a time, all of them or none.

A `Step` is what one call changed. The history can also go to a state that was given a name (`states`), which undoes to
the last step in common and redoes the others. The caller changes cells, by a plan that is made before and carried out
afterwards.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from keyword import iskeyword
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

from indus_nb.kernel.undo.budget import CheckpointBudget
from indus_nb.kernel.undo.cells import CellsPlan
from indus_nb.kernel.undo.change import Change, Side
from indus_nb.kernel.undo.checkpoint import take
from indus_nb.kernel.undo.files import FileStep, hold, net_changes
from indus_nb.kernel.undo.keeper import ABSENT
from indus_nb.kernel.undo.states import Dropped, Route, States
from indus_nb.kernel.undo.steps import Book, Step, Touched
from indus_nb.kernel.undo.transaction import RefusedError, surely


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


class NamedState(NamedTuple):
    """A named state, for a list.

    Attributes:
        steps: How many steps are between it and the present.
        weight: Roughly how many bytes these keep from being freed; other states may need the same.
        unsure: Variables and files that may differ, as they were changed outside of steps.
    """

    name: str
    steps: int
    weight: int
    unsure: Sequence[str]


_Mark = tuple[Step, Side | None, list[FileStep] | None]
"""A step, with the state of its changes from before it was undone or redone."""


@dataclass(slots=True)
class _Turned:
    """Steps that were undone or redone, the first one first, and the result."""

    marks: list[_Mark] = field(default_factory=list[_Mark])
    names: set[str] = field(default_factory=set[str])
    kept: set[str] = field(default_factory=set[str])
    beside: set[str] = field(default_factory=set[str])
    changed: dict[Step, frozenset[str]] = field(default_factory=dict[Step, frozenset[str]])


def _leave_nothing(_: list[Step]) -> Callable[[], None]:
    return lambda: None


class History:
    """The steps of all sessions of a process, in the order in which they were made; for any thread.

    Attributes:
        undone: The undone steps, the next one to redo last.
    """

    def __init__(self, namespace: MutableMapping[str, Any]) -> None:
        """Begin with no steps."""
        self.done: list[Step] = []
        self.undone: list[Step] = []
        self._states = States()
        self._namespace = namespace
        self._lock = RLock()

    def load(self, book: Book) -> None:
        """Add the steps of an earlier process, which are older than all others."""
        with self._lock:
            done, undone = book.read()
            self.done[:0] = done
            self.undone[:0] = undone
            self._states.begin_with(done)

    def add(self, step: Step, room: int) -> Dropped:
        """Add a new step; undone steps cannot be redone after it, but for those of named states.

        Args:
            room: Memory that all steps may take, in bytes; the oldest are dropped if they take more.

        Returns:
            The number of dropped steps, and the names of the states that are lost with steps of theirs.
        """
        with self._lock:
            before = {*self.undone, *self.done, *self._states.steps(), step}
            books = {id(each.book): each.book for each in (*self.undone, step)}
            self.undone.clear()
            self.done.append(step)
            dropped = self._states.make_room(self.done, room)
            for each in before - {*self.done} - self._states.steps():
                books[id(each.book)] = each.book
            self._write(books.values())
            return dropped

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

    def _write(self, books: Iterable[Book | None]) -> None:
        for book in books:
            if book is not None:
                with suppress(OSError):  # it can be taken back as long as this process lives
                    book.write(self.done, self.undone, self._states.steps())

    def last_that_bound(self, name: str) -> Step | None:
        """Return the newest step, of those that are not undone, whose code bound a variable as it is still bound."""
        with self._lock:
            made = (step for step in reversed(self.done) if step.variables and step.variables.binds(name))
            return next(made, None)

    def has_made(self, session: str, path: Path) -> bool:
        """Return whether calls of a session have made a file, which is as they left it; on a thread that may block.

        Args:
            path: Its real path.
        """
        with self._lock:
            steps = [(step, file) for step in self.done if step.files for file in step.files.steps if file.path == path]
        state = hold(path)[0]
        for step, file in reversed(steps):
            if state is None or state != file.now or step.session != session:
                return False
            if file.other is None:
                return True
            state = file.other
        return False

    # Named states

    def save(self, name: str) -> None:
        """Give the present state a name, in the place of another one of that name."""
        with self._lock:
            self._states.save(name, self.done)

    def drop(self, name: str) -> bool:
        """Forget a named state, and the steps that only it needs; return whether there was one."""
        with self._lock:
            state = self._states.named.pop(name, None)
            if state is None:
                return False
            self._write({id(step.book): step.book for step in state.path}.values())
            return True

    def states(self) -> list[NamedState]:
        """Return the named states, oldest first."""
        with self._lock:
            return [
                NamedState(name, len(steps), sum(step.weight for step in steps), sorted(state.unsure))
                for name, state in self._states.named.items()
                for steps in [self._states.route(name, self.done).steps]
            ]

    @property
    def weight(self) -> int:
        """Return roughly how many bytes all steps keep from being freed."""
        with self._lock:
            return sum(step.weight for step in {*self.done, *self.undone, *self._states.steps()})

    def route(self, name: str) -> Route:
        """Return the way to a named state.

        Raises:
            RefusedError: There is none of that name.
        """
        with self._lock:
            return self._states.route(name, self.done)

    def back(self, name: str, touched: Touched = "", cells: CellsPlan | None = None) -> Moved:
        """Go to a named state; the one that is left has the name `LAST` then, and nothing can be redone.

        Where no step is in between, there is nothing to leave: `LAST` is what it was.

        Args:
            cells: Plan for cells, which the caller carries out next.

        Raises:
            TouchedError: Something was changed outside of steps, and ``touched`` says nothing of it; nothing was done.
            RefusedError: There is no such state, or it is not possible; nothing was done.
        """
        with self._lock:
            route = self.route(name)
            undone, leave = ([], self._states.leave) if route.steps else (self.undone, _leave_nothing)
            return self._move(route, undone, (touched, cells or CellsPlan()), leave)

    def differences(self, name: str, budget: CheckpointBudget) -> tuple[str, Mapping[str, str]]:
        """Describe how variables, files and cells differ from a named state, as far as steps have changed them.

        Variables are as they were in between, and no code of the user's runs meanwhile.

        Args:
            budget: Budget for remembering the variables as they were.

        Returns:
            That in one line with each variable, empty where nothing differs; and variables that are too large to be
            compared, with why.

        Raises:
            RefusedError: There is no such state, or it cannot be looked at; nothing was changed.
        """
        with self._lock:
            steps = self.route(name).steps
            named = {each for step in steps if step.variables is not None for each in step.variables.names}
            read = "\n".join(sorted(each for each in named if each.isidentifier() and not iskeyword(each)))
            with self._turned_meanwhile(steps):
                checkpoint = take(self._namespace, read, budget)
            change = checkpoint.close(names_all=True)
            files = net_changes([step.files for step in steps if step.files is not None])
            cells = len({cell.id for step in steps if step.cells is not None for cell in step.cells.steps})
            parts = (change.summary, files, f"{cells} cell{'' if cells == 1 else 's'} of the notebook" if cells else "")
            return ", ".join(filter(None, parts)), change.left_out

    # Steps of one conversation below those of others

    def newest_of(self, session: str, count: int) -> list[Step]:
        """Return the newest steps of a session and of the user's cells, newest first.

        Args:
            count: Number of them; 0 for all of one prompt.
        """
        with self._lock:
            own = [step for step in reversed(self.done) if step.session in ("", session)]
        return own[:count] if count else [*takewhile(lambda step: step.run == own[0].run, own)]

    def above(self, steps: Collection[Step]) -> tuple[int, frozenset[str]]:
        """Find the newer steps that have changed something that some steps have changed.

        Returns:
            How many of the newest steps are to be taken back so that none of these is left, 0 where there is none; and
            what both have changed.
        """
        count, names = 0, frozenset[str]()
        with self._lock:
            for at, step in enumerate(self.done):
                for lies, newer in enumerate(self.done[at + 1 :], at + 1) if step in steps else ():
                    if newer not in steps and (shared := step.shared_with(newer)):
                        count, names = max(count, len(self.done) - lies), names | shared
        return count, names

    def bring_up(self, steps: Collection[Step]) -> None:
        """Have steps be the newest ones; those above them share nothing with them, so that nothing else changes."""
        with self._lock:
            anew = sorted(self.done, key=lambda step: step in steps)
            self._states.reorder(self.done, anew)
            self.done[:] = anew

    # Undo and redo

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
        with self._lock:
            steps = _last(self.done, count)
            return self._move(Route(steps, []), [*self.undone, *reversed(steps)], (touched, cells or CellsPlan()))

    def redo(self, count: int, touched: Touched = "", cells: CellsPlan | None = None) -> Moved:
        """Redo the steps that were undone last, without running the code; like ``undo``.

        Args:
            cells: Plan for cells, which the caller carries out next.

        Raises:
            TouchedError: Something was changed since, and ``touched`` says nothing of it; nothing was done.
            RefusedError: There are not as many, or it is not possible; nothing was done.
        """
        with self._lock:
            steps = _last(self.undone, count)
            return self._move(Route([], steps[::-1]), self.undone[:-count], (touched, cells or CellsPlan()))

    def _move(
        self,
        route: Route,
        undone: Sequence[Step],
        how: tuple[Touched, CellsPlan],
        leave: Callable[[list[Step]], Callable[[], None]] = _leave_nothing,
    ) -> Moved:
        """Go a way from the present state.

        Args:
            undone: The steps that can be redone then.
            leave: Keeps the steps that were done, before the move is written down; returns what turns that around.
        """
        touched, cells = how
        steps, before, undone = route.steps, [*self.undone], [*undone]
        copies = self._copies(steps) if touched == "both" else {}
        turned = self._turn_all(steps, touched)
        cells.turn()
        at = len(self.done) - len(route.undone)
        stay = leave(self.done)
        self.done[at:] = route.redone
        self.undone[:] = undone
        forget = self._states.note_moved(turned.changed, touched, {*self.done})
        bound = {self._bind_beside(name, value) for name, value in copies.items()}
        books = {id(step.book): step.book for step in (*steps, *before)}.values()

        def finish() -> None:
            with self._lock:
                self._write(books)

        def back() -> None:
            with self._lock:
                self._turn_back(turned.marks)
                cells.turn()
                for name in bound:
                    self._namespace.pop(name, None)
                self.done[at : at + len(route.redone)] = route.undone
                self.undone[:] = before
                forget()
                stay()

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
                turned.changed[step] = changed
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

    @contextmanager
    def _turned_meanwhile(self, steps: Iterable[Step]) -> Generator[set[str]]:
        """Have the variables of steps undone or redone within the context, whatever the user changed since.

        Yields:
            The variables that the user changed since.

        Raises:
            RefusedError: It is not possible; or not all could be put back.
        """
        back: list[Callable[[], None]] = []
        found: set[str] = set()
        try:
            for change in (step.variables for step in steps):
                if change is not None:
                    found |= change.touched()
                    back.insert(0, partial(_turn_back_to, change, change.mark()))  # first: an interrupt may come
                    _turn(change)
            yield found
        finally:
            if failures := surely(back):
                raise RefusedError(f"not all could be put back: {'; '.join(map(str, failures))}")

    def _copies(self, steps: Iterable[Step]) -> dict[str, Any]:
        """Build copies of the values that variables would have, of those that the user changed since."""
        with self._turned_meanwhile(steps) as found:
            wanted = {name: self._namespace[name] for name in sorted(found) if name in self._namespace}
            try:
                return copy.deepcopy(wanted)
            except Exception as error:
                raise RefusedError(f"{', '.join(sorted(found))} cannot be copied ({type(error).__name__})") from error

    def _bind_beside(self, name: str, value: Any) -> str:
        free = f"{name}_before"
        while self._namespace.get(free, ABSENT) is not ABSENT:
            free += "_"
        self._namespace[free] = value
        return free


def _turn(change: Change) -> None:
    move: Callable[..., object] = change.redo if change.undone else change.undo
    move(over=change.touched())


def _turn_back_to(change: Change, mark: Side) -> None:
    if change.undone != mark.undone:
        _turn(change)
    change.reset(mark)


def _last(steps: Sequence[Step], count: int) -> Sequence[Step]:
    if not 0 < count <= len(steps):
        raise RefusedError(f"there are {len(steps)} such steps")
    return steps[-count:]
