"""History of an agent's steps, newest last, to undo and redo: several at a time, all of them or none.

A `Step` is what one call changed. The history can also go to a state that was given a name (`states`), which undoes to
the last step in common and redoes the others. The caller changes cells, by a plan that is made before and carried out
afterwards.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from keyword import iskeyword
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

from indus_nb.kernel.undo.budget import CheckpointBudget
from indus_nb.kernel.undo.cells import CellsPlan
from indus_nb.kernel.undo.checkpoint import take
from indus_nb.kernel.undo.files import FilesChange, FileState, hold, net_changes, net_fates
from indus_nb.kernel.undo.keeper import ABSENT
from indus_nb.kernel.undo.rests import above, apart, below, left, trailing, unrecorded, with_later
from indus_nb.kernel.undo.states import Dropped, Route, States
from indus_nb.kernel.undo.steps import Book, Step, Touched
from indus_nb.kernel.undo.transaction import RefusedError, TouchedError, surely
from indus_nb.kernel.undo.turning import KEEPING, Turned, overwritten, turn_all, turn_back, turned_meanwhile


@dataclass(frozen=True, slots=True)
class Moved:
    """Result of undoing or redoing steps.

    Attributes:
        names: The variables and files that are as they were.
        kept: Names of what the user changed since and that stays as it is.
        beside: New variables and files with what those would be.
        bound: Those of them that are variables: they are in no step, so that no way back removes them.
        left_out: Files that were not kept, which stay as they are.
        fates: What became of variables and files that were not there before, or are not there now, by their names.
        outdated: Cells that show the output of code that they no longer hold.
        finish: Writes the move down, to be called once the cells are changed: a process that is killed before leaves a
            step that can be moved once more, which does the rest.
        back: Leaves variables and files as they were before the move, and forgets it; may raise ``RefusedError``.
    """

    names: frozenset[str]
    kept: frozenset[str] = frozenset()
    beside: frozenset[str] = frozenset()
    bound: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()
    fates: Mapping[str, str] = field(default_factory=dict[str, str])
    outdated: frozenset[str] = frozenset()
    finish: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)
    back: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)


class NamedState(NamedTuple):
    """A named state, for a list.

    Attributes:
        is_here: Whether nothing is between it and the present.
        steps: How many steps are; what the user changed outside of them does not count.
        weight: Roughly how many bytes these keep from being freed; other states may need the same.
        differing: Variables and files that the user changed outside of steps, and which going there would overwrite.
        unsure: Those that cannot be brought back.
    """

    name: str
    is_here: bool
    steps: int
    weight: int
    differing: Sequence[str]
    unsure: Sequence[str]


class _Way(NamedTuple):
    """A move that was found possible so far.

    Attributes:
        route: The steps that are moved.
        staying: Rests that stay as they are.
        undone: The steps that can be redone then, the next one last.
        leaves: Whether the present state becomes `LAST`.
        kept: What of the user's stays, though the state to go to has it otherwise.
        whole: The steps that would be moved if nothing stayed, where that is not the route.
    """

    route: Route
    staying: Sequence[Step]
    undone: Sequence[Step]
    leaves: bool = False
    kept: frozenset[str] = frozenset()
    whole: Sequence[Step] = ()


class History:
    """The steps of all sessions of a process, in the order in which they were made; for any thread.

    A path of steps may have rests between them (`rests`), which are not counted.
    """

    def __init__(self, namespace: MutableMapping[str, Any]) -> None:
        """Begin with no steps."""
        self._path: list[Step] = []
        self._undone: list[Step] = []
        self._pending = set[Step]()  # what a move needs to go back, until it is written down
        self._states = States()
        self._namespace = namespace
        self._lock = RLock()

    @property
    def done(self) -> list[Step]:
        """Return the steps that can be undone, the next one last."""
        return [step for step in self._path if not step.is_rest]

    @property
    def undone(self) -> list[Step]:
        """Return the undone steps, the next one to redo last."""
        return [step for step in self._undone if not step.is_rest]

    def load(self, book: Book) -> None:
        """Add the steps of an earlier process, which are older than all others."""
        with self._lock:
            done, undone = book.read()
            self._path[:0] = done
            self._undone[:0] = undone
            self._states.begin_with(done)

    def add(self, step: Step, room: int) -> Dropped:
        """Add a new step; undone steps cannot be redone after it, but for those of named states.

        Args:
            room: Memory that all steps may take, in bytes; the oldest are dropped if they take more.

        Returns:
            The number of dropped steps, and the names of the states that are lost with steps of theirs.
        """
        with self._lock:
            before = self._held() | {step}
            books = {id(each.book): each.book for each in (*self._undone, step)}
            self._undone.clear()
            self._path.append(step)
            dropped = self._states.make_room(self._path, room)
            for each in before - self._held():
                books[id(each.book)] = each.book
            self._write(books.values())
            return dropped

    def add_to(self, step: Step, room: int) -> Step:
        """Add cells or files of a step to the one that its call has made already, or the step itself if there is none.

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
            made.cells = step.cells or made.cells
            if step.files is not None:
                made.files = step.files if made.files is None else made.files.joined(step.files)
            self._write([made.book])
            return made

    def _write(self, books: Iterable[Book | None]) -> None:
        for book in books:
            if book is not None:
                with suppress(OSError):  # it can be taken back as long as this process lives
                    book.write(self.done, self.undone, self._held())

    def _held(self) -> set[Step]:
        return {*self._path, *self._undone, *self._states.steps(), *self._pending}

    def last_that_bound(self, name: str) -> Step | None:
        """Return the newest step, of those that are not undone, whose code bound a variable as it is still bound."""
        with self._lock:
            made = (step for step in reversed(self.done) if step.variables and step.variables.binds(name))
            return next(made, None)

    def has_made(self, session: str, path: Path) -> bool:
        """Return whether calls of a session have made a file, which is as they left it; on a thread that may block.

        A file that calls have moved or linked from another path is theirs only if they have made that one.

        Args:
            path: Its real path.
        """
        state = hold(path)[0]
        with suppress(OSError):
            if path.lstat().st_nlink > 1:
                return False  # what is written into it would be in the other file too
        return isinstance(state, FileState) and _is_made(self.done, session, path, state)

    def files(self) -> list[FilesChange]:
        """Return what all steps that can be moved to changed in files."""
        with self._lock:
            return [step.files for step in self._held() if step.files is not None]

    # Named states

    def save(self, name: str) -> None:
        """Give the present state a name, in the place of another one of that name."""
        with self._lock:
            self._record()
            self._states.save(name, self._path)

    def settle(self, *, files_alone: bool = False) -> None:
        """Record what the user changed outside of steps, as far as named states need it; while no code runs.

        Args:
            files_alone: Whether variables are left, as code of the user's may run.
        """
        with self._lock:
            if self._states.named:
                self._record(files_alone=files_alone)

    def _record(self, *, files_alone: bool = False) -> None:
        routes = [self._states.route(name, self._path) for name in self._states.named]
        recent = trailing(self._path)
        ways = (
            reversed(self._path),
            [*reversed(recent), *reversed(self._undone)],
            *(way.steps for way in routes if way.redone),
        )
        found = unrecorded(ways, files_alone=files_alone)
        needed = self._states.steps() | self._pending
        self._path[len(self._path) - len(recent) :] = with_later(recent, found.rests, needed)
        self._states.note_lost(found.lost, found.rests)

    def drop(self, name: str) -> bool:
        """Forget a named state, and the steps that only it needs; return whether there was one."""
        with self._lock:
            before = self._held()
            if self._states.named.pop(name, None) is None:
                return False
            self._states.forget_rests(self._path)
            self._write({id(step.book): step.book for step in before - self._held()}.values())
            return True

    def states(self) -> list[NamedState]:
        """Return the named states, oldest first."""
        with self._lock:
            found: list[NamedState] = []
            for name in self._states.named:
                route = self._states.route(name, self._path)
                count, weight = sum(not step.is_rest for step in route.steps), sum(step.weight for step in route.steps)
                differing = frozenset[str]().union(*(rest.names for rest in _asked(route)))
                unsure = self._states.unsure(name, self._path)
                found.append(NamedState(name, not route.steps, count, weight, sorted(differing), unsure))
            return found

    @property
    def weight(self) -> int:
        """Return roughly how many bytes all steps keep from being freed."""
        with self._lock:
            return sum(step.weight for step in self._held())

    def route(self, name: str) -> Route:
        """Return the way to a named state.

        Raises:
            RefusedError: There is none of that name.
        """
        with self._lock:
            return self._states.route(name, self._path)

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
            self._record()
            route = self.route(name)
            (undone, redone), whole = route, route.steps
            asked = _asked(route)
            others = [step for step in route.steps if step not in asked]
            # What the user changed elsewhere stays, but where nothing else is between the state and the present.
            staying = apart(asked, others) if others and touched not in KEEPING else asked if touched in KEEPING else []
            route = Route([step for step in undone if step not in staying], redone)
            leaves = bool(route.steps)
            kept = frozenset[str]().union(*(rest.names for rest in staying))
            way = _Way(route, staying, [] if leaves else self._undone, leaves, kept, whole)
            return self._move(way, touched, cells or CellsPlan())

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
            self._record()
            steps = self.route(name).steps
            named = {each for step in steps if step.variables is not None for each in step.variables.names}
            read = "\n".join(sorted(each for each in named if each.isidentifier() and not iskeyword(each)))
            with turned_meanwhile(steps):
                checkpoint = take(self._namespace, read, budget)
            change = checkpoint.close(names_all=True)
            files = net_changes([step.files for step in steps if step.files is not None])
            cells = len({cell.id for step in steps if step.cells is not None for cell in step.cells.steps})
            parts = (change.summary, files, f"{cells} cell{'' if cells == 1 else 's'} of the notebook" if cells else "")
            return ", ".join(filter(None, parts)), change.left_out

    # Steps of one conversation below those of others

    def newest_of(self, session: str, count: int) -> list[Step]:
        """Return the newest steps of a session, and of the user's cells, oldest first.

        Args:
            count: Number of them; 0 for all of the session's last prompt, without the user's cells.
        """
        with self._lock:
            made = [step for step in self.done if step.session in (("", session) if count else (session,))]
            return made[-count:] if count else [step for step in made if step.run == made[-1].run]

    def above(self, steps: Collection[Step]) -> tuple[int, frozenset[str]]:
        """Find the newer steps that have changed something that some steps have changed.

        What the user changed is recorded before, by ``settle``.

        Returns:
            How many of the newest steps are to be taken back so that none of these is left, 0 where there is none; and
            what both have changed.
        """
        count, names = 0, frozenset[str]()
        with self._lock:
            moving = {*steps, *above(self._path, steps)}
            for at, step in enumerate(self._path):
                for lies, newer in enumerate(self._path[at + 1 :], at + 1) if step in moving else ():
                    if newer not in moving and (shared := step.shared(newer) | step.shared_beside(newer)):
                        count = max(count, sum(not each.is_rest for each in self._path[lies:]))
                        names |= shared
        return count, names

    # Undo and redo

    def undo(self, wanted: int | Sequence[Step], touched: Touched = "", cells: CellsPlan | None = None) -> Moved:
        """Undo steps, all of them or none.

        Args:
            wanted: Number of the last ones; or the steps, oldest first, which may be below others that share nothing
                with them.
            cells: Plan for cells, which the caller carries out next.

        Returns:
            What is as before.

        Raises:
            TouchedError: Something was changed since, and ``touched`` says nothing of it; nothing was done.
            RefusedError: There are not as many, or it is not possible; nothing was done.
        """
        with self._lock:
            steps = _steps(self.done, wanted)
            self.settle()
            if self.above(steps)[0]:
                raise RefusedError("newer steps have changed the same")
            rests = [] if touched in KEEPING else above(self._path, steps)
            undone = [step for step in self._path if step in steps or step in rests]
            staying = [step for step in self._path if step.is_rest and step not in rests]
            way = _Way(Route(undone, []), staying, [*self._undone, *reversed(undone)])
            return self._move(way, touched, cells or CellsPlan())

    def redo(self, wanted: int | Sequence[Step], touched: Touched = "", cells: CellsPlan | None = None) -> Moved:
        """Redo the steps that were undone last, without running the code; like ``undo``.

        Args:
            wanted: Number of the last ones; or these steps, the next one last.
            cells: Plan for cells, which the caller carries out next.

        Raises:
            TouchedError: Something was changed since, and ``touched`` says nothing of it; nothing was done.
            RefusedError: There are not as many, or it is not possible; nothing was done.
        """
        with self._lock:
            steps = _steps(self.undone, wanted)
            if steps != self.undone[-len(steps) :]:
                raise RefusedError("other steps were taken back since")
            self.settle()
            at = self._undone.index(steps[0])
            while at and self._undone[at - 1].is_rest:
                at -= 1
            way = _Way(Route([], self._undone[at:][::-1]), trailing(self._path), self._undone[:at])
            return self._move(way, touched, cells or CellsPlan())

    def _move(self, way: _Way, touched: Touched, cells: CellsPlan) -> Moved:
        """Go a way from the present state."""
        try:
            return self._moved(way, touched, cells)
        except TouchedError as error:
            raise TouchedError(error.names, cells.removed | _removed(way.route.steps)) from error

    def _moved(self, way: _Way, touched: Touched, cells: CellsPlan) -> Moved:
        steps = way.route.steps
        asked = _asked(way.route)
        undecided = cells.undecided.union(*(rest.names for rest in asked if touched != "over"))
        if undecided:
            raise TouchedError(undecided | overwritten(steps))
        copies = self._copies(way.whole or steps, way.kept) if touched == "both" else {}
        fates = net_fates([step.files for step in steps if step.files is not None])
        there = {*self._namespace}
        turned = turn_all(steps, touched, lambda step: self._behind(step, way.staying))
        cells.turn()
        path, before, back_to = [*self._path], [*self._undone], self._states.mark()
        held = self._held()

        def place() -> None:
            back_to()
            self._path[:], self._undone[:] = path, before
            self._put_in_place(way, turned)
            for rest in asked if way.leaves else ():  # else redo puts it back, and it is the user's as before
                rest.asks = False

        surely([place])  # an interrupt comes too late
        moved, anew = [*self._path], {*self._held()} - held
        states = {*self._states.named.values()}
        self._pending |= held if cells.edits else frozenset()
        bound = {self._bind_beside(name, value) for name, value in copies.items()}
        books = {id(step.book): step.book for step in (*steps, *before)}.values()

        def finish() -> None:
            with self._lock:
                self._pending.clear()
                self._write(books)

        def back() -> None:
            with self._lock:
                turn_back(turned.marks)
                cells.turn()
                for name in bound:
                    self._namespace.pop(name, None)
                since = [step for step in self._path if step not in moved]
                self._path[:] = [*path, *since]
                self._undone[:] = [] if any(not step.is_rest for step in since) else before
                for rest in asked:
                    rest.asks = True
                back_to([name for name, state in self._states.named.items() if state not in states], anew)
                self._pending.clear()

        if not cells.edits:
            finish()
        kept = way.kept.union(cells.kept, *turned.kept.values())
        beside = frozenset(turned.beside | bound | cells.beside)
        left_out = frozenset[str]().union(*(step.left_out for step in steps))
        names = frozenset((turned.names | cells.names) - kept - beside)
        variables = frozenset[str]().union(*(step.variables.names for step in steps if step.variables is not None))
        fates |= dict.fromkeys((variables & there) - {*self._namespace}, "removed")
        fates |= dict.fromkeys((variables - there) & {*self._namespace}, "put back")
        return Moved(names, kept, beside, frozenset(bound), left_out, fates, frozenset(cells.outdated), finish, back)

    def _put_in_place(self, way: _Way, turned: Turned) -> None:
        """Have paths be what they are after a move."""
        states, (undone, redone) = self._states, way.route
        if way.leaves:
            states.leave(self._path, redone)
        staying, stays = [*way.staying], {*self._path} - {*undone}
        path = [*self._path]
        for step, variables, files in turned.marks:
            rest = left(step, variables, files, turned.kept.get(step, ())) if states.named else None
            is_undone = step in undone
            if states.named:
                step.forget_own()
            if rest is not None:
                states.divide(step, rest, before=is_undone)
                if is_undone:
                    path.insert(path.index(step), rest)
                    staying.append(rest)
                    stays.add(rest)
            if is_undone:
                states.put_behind(step, stays)
            else:
                states.put_below(step, below(staying, step))
        path = [step for step in path if step not in undone]
        if way.leaves:  # to where the steps to redo belong, and what stays has nothing to do with these
            behind = [step for step in path if step in staying]
            self._path[:] = [*(step for step in path if step not in staying), *redone, *behind]
        else:
            self._path[:] = [*path, *redone]
        self._undone[:] = way.undone

    def _behind(self, step: Step, rests: Iterable[Step]) -> list[Step]:
        """Return those of some rests that stand behind a step, or all where the step is not done."""
        at = self._path.index(step) if step in self._path else -1
        behind = {*self._path[at + 1 :]}
        return [rest for rest in rests if rest in behind]

    def _copies(self, steps: Iterable[Step], kept: Collection[str]) -> dict[str, Any]:
        """Build copies of the values that variables would have, of those that the user changed since.

        Args:
            kept: Names of such, beside those that steps know of.
        """
        with turned_meanwhile(steps) as found:
            wanted = {name: self._namespace[name] for name in sorted(found.union(kept)) if name in self._namespace}
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


def _is_made(steps: Sequence[Step], session: str, path: Path, state: FileState) -> bool:
    """Return whether a file that was in a state after some steps came from nothing but calls of a session."""
    for at, step in reversed([*enumerate(steps)]):
        files = {} if step.files is None else {file.path: file for file in step.files.steps}
        if (file := files.get(path)) is None:
            continue
        if file.is_doubtful or state != file.now or step.session != session:
            return False
        if file.source is not None:
            source = files.get(file.source)
            was = None if source is None else source.other
            if was is None or not _is_made(steps[:at], session, file.source, was):
                return False
        if file.other is None:
            return True
        state = file.other
    return False


def _removed(steps: Sequence[Step]) -> set[str]:
    """Return the variables and files that are not there once steps are undone or redone in order."""
    fates = net_fates([step.files for step in steps if step.files is not None])
    removed = {name for name, fate in fates.items() if fate == "removed"}
    for change in (step.variables for step in steps if step.variables is not None):
        removed = (removed - change.names) | change.removed
    return removed


def _asked(route: Route) -> list[Step]:
    """Return the changes of the user's that a way overwrites, and of which no jump has done so yet."""
    return [step for step in route.undone if step.asks and step not in route.redone]


def _steps(there: Sequence[Step], wanted: int | Sequence[Step]) -> Sequence[Step]:
    if not isinstance(wanted, int):
        if any(step not in there for step in wanted):
            raise RefusedError("some of these steps were moved or dropped since")
        return wanted
    if not 0 < wanted <= len(there):
        raise RefusedError(f"there are {len(there)} such steps")
    return there[-wanted:]
