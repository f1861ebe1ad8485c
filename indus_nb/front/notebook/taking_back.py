"""Undo and redo of the agent's changes in the kernel and in files, shared by magic and panel.

Everything runs on the agent's loop; variables are written on the thread that runs the user's code, cells by the page.
Both are one transaction: the cells are compared first and written last, and if the page does not write them, the
other changes are rolled back.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, cast

from indus_nb.base import textcut
from indus_nb.base.errors import SessionBusyError, UsageError
from indus_nb.base.messages import CustomMessage, ToolResultMessage
from indus_nb.base.wire import JsonObject
from indus_nb.core.session.questions import Choice, Decision, Question
from indus_nb.core.session.session import AgentSession
from indus_nb.kernel.cell_ids import CellIds
from indus_nb.kernel.cell_names import cell_name
from indus_nb.kernel.document.notebook_file import Cell, parse_cell
from indus_nb.kernel.document.reading import AskPage, cells_of
from indus_nb.kernel.toolset.undoing import ChangedSinceError, Undecided, cell_changes, line, steps_in_words
from indus_nb.kernel.toolset.user_kernel import UserKernel
from indus_nb.kernel.undo import (
    LAST,
    CellsChange,
    CellsPlan,
    CellState,
    CellStep,
    Moved,
    RemovedCell,
    Step,
    Touched,
    leave_cells,
    plan_cells,
)

T = TypeVar("T")
_PlanFor: TypeAlias = Callable[[Touched], CellsPlan | None]
_KEEPS = {
    "undo": "Leave that, take back the rest",
    "redo": "Leave that, do the rest once more",
    "state": "Leave that, go back with the rest",
}
_BOTH = {
    "it": "Leave it, and put the other one beside it",
    "them": "Leave them, and put the others beside them",
}
_CHOICES: Mapping[str, Touched] = {
    **dict.fromkeys(_KEEPS.values(), "keep"),
    **{f"{what} {it}": "over" for what in ("Overwrite", "Remove", "Overwrite or remove") for it in ("it", "them")},
    **dict.fromkeys(_BOTH.values(), "both"),
}
_NOTHING = "No, change nothing"
_MAX_SHARED_CHARACTERS = 200
_YES = "Yes, take it back"
_NO = "No, leave it as it is"
_WITH_CHOICE = re.compile(r"(.+?)\s+(keep|over|both)")
_NO_PAGE = (
    "Nothing was changed: cells of the notebook belong to it, and no page that shows the notebook can be asked. Open "
    "the notebook in its page and try again, or leave its cells as they are with `%agent {verb} keep`."
)


Maker: TypeAlias = tuple[str, AgentSession]
"""The name of a notebook or conversation, and the session that it has now."""
FindMaker: TypeAlias = Callable[[str], Maker | None]
Begin: TypeAlias = Callable[[Callable[[], Coroutine[Any, Any, object]]], object]


def touched_by(decision: Decision) -> Touched | None:
    """Return what becomes of what was changed since; ``None`` if nothing is to be changed."""
    return _CHOICES.get(decision.option or "")


@dataclass(frozen=True, slots=True)
class StepsWanted:
    """Steps to undo or redo; with ``count`` 0 those of the last prompt, with ``of_any`` also another conversation's."""

    verb: Literal["undo", "redo"] = "undo"
    count: int = 1
    touched: Touched = ""
    of_any: bool = False

    @property
    def inverse(self) -> str:
        """Return the command that turns them around, without its first sign."""
        verb = "redo" if self.verb == "undo" else "undo"
        return verb if self.count == 1 and not self.of_any else f"{verb} {self.count or 'prompt'}"


def steps_wanted(verb: Literal["undo", "redo"], argument: str) -> StepsWanted:
    """Parse the argument of an undo or redo command.

    Args:
        argument: Empty, or a number or ``prompt``, and how to treat what the user changed since.

    >>> steps_wanted("undo", "1 keep").inverse, steps_wanted("undo", "prompt").inverse, steps_wanted("undo", "").inverse
    ('redo 1', 'redo prompt', 'redo')
    """
    number, _, touched = f" {argument}".rpartition(" ")
    if touched.isdigit() or touched == "prompt":
        number, touched = touched, ""
    count = 0 if number.strip() == "prompt" else int(number) if number.strip() else 1
    return StepsWanted(verb, count, cast("Touched", touched), of_any=number.strip().isdigit())


@dataclass(frozen=True, slots=True)
class StateWanted:
    """What to do with named states; ``name`` is that of a state where the action needs one."""

    action: Literal["on", "off", "list", "save", "back", "diff", "drop"] = "list"
    name: str = ""
    touched: Touched = ""


def question_since(error: ChangedSinceError, wanted: StepsWanted | StateWanted) -> Question:
    """Return the question what becomes of what was changed since; `touched_by` reads the answer."""
    undecided, outcome = error.undecided, ""
    over = f"{undecided.over('overwrite', 'remove').capitalize()} {undecided.them}"
    if isinstance(wanted, StateWanted):
        heading, keeps = f"Go back to the state “{wanted.name}”?", _KEEPS["state"]
    else:
        count = len(undecided.steps)
        heading = f"{wanted.verb.capitalize()} {'this step' if count == 1 else f'these {count} steps'}?"
        keeps = _KEEPS[wanted.verb]
        outcome = f"{'The step' if count == 1 else 'The steps'}: {error.would_move}."
    options = [keeps, over] if undecided.has_rest else [over]
    if undecided.names != undecided.removed:  # else there is no other one
        options.append(_BOTH[undecided.them])
    choices = [*(Choice(option, "yes") for option in options), Choice(_NOTHING, "no")]
    return Question(heading, choices, warnings=[error.question], outcome=outcome)


def state_wanted(argument: str) -> StateWanted:
    """Parse the argument of a state command, which ``SUBCOMMANDS`` has checked.

    >>> state_wanted("back 'before it' over")
    StateWanted(action='back', name='before it', touched='over')
    """
    action, *behind = argument.split(maxsplit=1) or ["list"]
    name, touched = (behind or [""])[0].strip(), ""
    if action == "back" and (found := _WITH_CHOICE.fullmatch(name)):
        name, touched = found.groups()
    name = name[1:-1] if name[:1] in ('"', "'") else name
    return StateWanted(cast("Any", action), name, cast("Touched", touched))


WantedT = TypeVar("WantedT", StepsWanted, StateWanted)


class _Move(NamedTuple):
    """Steps to move: what asks for it, which these are, their changes of cells in that order, and what moves the rest.

    ``agreed`` is what the user has decided about by ``touched``; ``None`` if that was not asked.
    """

    command: str
    steps: Callable[[], Sequence[Step]]
    changes: Callable[[], list[CellsChange]]
    turn: Callable[[Touched, CellsPlan | None], Moved]
    touched: Touched
    agreed: Undecided | None


async def asked_since(
    choose: Callable[[Question], Awaitable[Decision]],
    do: Callable[[WantedT, Undecided | None], Awaitable[T]],
    wanted: WantedT,
    since: ChangedSinceError | None = None,
) -> T | None:
    """Move steps; ask what becomes of what was changed since, and anew where that is another by then.

    Args:
        choose: Asks the user.
        do: ``TakingBack.move`` or ``state``, of the session.
        since: What a first attempt was refused for, which is asked about first.

    Returns:
        What ``do`` does; ``None`` if nothing is to be changed.
    """
    agreed: Undecided | None = None
    while True:
        if since is not None:
            if (touched := touched_by(await choose(question_since(since, wanted)))) is None:
                return None
            wanted, agreed = replace(wanted, touched=touched), since.undecided
        try:
            return await do(wanted, agreed)
        except ChangedSinceError as error:
            since = error


def _no_cells(_: Touched) -> None:
    """Plan nothing."""


def _turned(move: _Move, plan_for: _PlanFor) -> tuple[Moved, CellsPlan | None]:
    """Move steps but for their cells, and return the plan for these; on the thread that runs the user's code.

    Raises:
        ChangedSinceError: The user has to decide, also where that was about something else; nothing was done.
        UsageError: The steps are others than those that the user has decided about, or it is not possible.
    """
    if move.agreed is not None and (*move.steps(),) != move.agreed.steps:
        raise UsageError(
            f"Nothing was changed: other steps were made or moved since you were asked. `%agent {move.command}` anew, "
            "if you still want it."
        )
    try:
        touched: Touched = "" if move.agreed is not None else move.touched
        plan = plan_for(touched)
        return move.turn(touched, plan), plan
    except ChangedSinceError as error:
        undecided = replace(error.undecided, steps=(*move.steps(),))
        if undecided != move.agreed:
            raise ChangedSinceError(error.question, error.command, undecided) from error
    plan = plan_for(move.touched)
    return move.turn(move.touched, plan), plan


async def _ready(session: AgentSession) -> None:
    await session.start()
    if session.is_running:
        raise SessionBusyError("The agent is at work. Wait for its end, or `%agent abort` first.")


def _time_of(step: Step) -> str:
    """Return when a step was made, as a clock of the user's shows it, with the day if that was another one."""
    made = time.localtime(step.at)
    today = made[:3] == time.localtime()[:3]
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", made) if step.at else ""


def _left(steps: Sequence[Step]) -> list[Step]:
    """Return those of the newest steps of which the user has not bound every variable otherwise since."""
    left, later, gone = list[Step](), set[str](), set[str]()
    for step in reversed(steps):
        gone |= step.rebound - later
        later |= step.names
        if step.outlasts or not step.names or not step.names <= gone:
            left.insert(0, step)
    return left


class TakingBack:
    """Undo of the agent's changes in one kernel; the model of the session that asks is informed."""

    def __init__(self, kernel: UserKernel, ask_page: AskPage, maker: FindMaker, ids: CellIds, begin: Begin) -> None:
        """Create the undo of one kernel.

        Args:
            ask_page: Sends a request to the page that shows the notebook.
            maker: Finds the conversation of this kernel that has a session, by the session's id.
            ids: Knows the numbers that cells ran with.
            begin: Runs work on the agent's thread, without waiting for it.
        """
        self._begin = begin
        self._ids = ids
        self._maker = maker
        self._kernel = kernel
        self._steps = kernel.steps
        self._history = kernel.steps.history
        self._states = kernel.states
        self._run = kernel.run_whole
        self._ask_page = ask_page
        self._one_at_a_time = asyncio.Lock()
        self.on_moved: Callable[[], object] = lambda: None
        """Called on the agent's thread once steps were moved, or could not be."""

    def lists_cells(self, session: AgentSession, verb: Literal["undo", "redo"]) -> bool:
        """Return whether ``listed`` asks the page, which knows what became of cells that it names."""
        return bool(self._left_by(session, verb))

    def _left_by(self, session: AgentSession, verb: Literal["undo", "redo"]) -> set[str]:
        """Return the ids of the cells that this conversation's steps have left in its notebook."""
        done = tuple(self._history.done if verb == "undo" else self._history.undone)
        own = [step.cells for step in done if step.session == session.store.session_id and step.cells is not None]
        return {cell.id for cells in own for cell in cells.steps if cell.now is not None}

    async def listed(self, session: AgentSession, verb: Literal["undo", "redo"]) -> tuple[str, list[list[str]]]:
        """List the steps that can be undone or redone, the next one first.

        Returns:
            A sentence for the user, and a row for each: its number, when it was made, where if not here, and what it
            changed.
        """
        left = self._left_by(session, verb)
        cells = cells_of(await self._ask_page("cells", {})) if left else []
        shown = [cell.shown_as for cell in cells]
        names = {cell.id: cell_name(place, shown) for place, cell in enumerate(cells, 1)}
        gone = left - names.keys() if names else set[str]()
        steps = [*reversed(self._history.done if verb == "undo" else self._history.undone)]
        what = "taken back" if verb == "undo" else "done once more"
        if not steps:
            return f"None of the agent's steps in this kernel can be {what}.", []
        own, named = session.store.session_id, self._named_now
        made = [f"your cell [{step.cell}]" if step.is_users else ", ".join(self._names(own, [step])) for step in steps]
        rows = [
            [
                str(at + 1),
                _time_of(step),
                made[at],
                step.described(lambda each: names.get(each.id) or named(each), gone),
            ]
            for at, step in enumerate(steps)
        ]
        title = f"What can be {what}, the next step first: `%agent {verb} N` does that with the first N."
        last = next((at for at, step in enumerate(steps, 1) if step.session == own), None)
        if verb == "undo" and last is not None and self._names(own, steps[:1]):
            title += f" `%agent undo` alone is for what was asked in this conversation, from step {last} on."
        return title, rows

    def _named_now(self, cell: CellStep) -> str:
        """Name a cell by the number that it ran with last, or as before while the numbers in that name stand."""
        ids = self._ids
        if (number := ids.number_of(cell.id)) is not None:
            return f"cell [{number}]"
        before = (ids.numbers.get(int(each)) for each in re.findall(r"\[(\d+)\]", cell.called))
        is_moved = any(own is not None and f"[{ids.number_of(own)}]" not in cell.called for own in before)
        return cell_name(cell.number) if is_moved else cell.called

    def needs_page(self, session: AgentSession, wanted: StepsWanted) -> bool:
        """Return whether the steps changed cells of the notebook, which needs a page."""
        own = () if wanted.of_any else self._history.newest_of(session.store.session_id, wanted.count)
        below = wanted.verb == "undo" and any(step.cells is not None and not step.cells.is_empty for step in own)
        return below or bool(self._steps.cells(wanted.verb, self._count(wanted)))

    def _count(self, wanted: StepsWanted) -> int:
        return wanted.count or self._steps.of_last_run(wanted.verb) or 1

    def meant(self, session: AgentSession, wanted: StepsWanted) -> StepsWanted:
        """Return the steps that the user means: a plain undo takes back with its step what was only imported since."""
        if wanted != StepsWanted(touched=wanted.touched):
            return wanted
        own = session.store.session_id
        steps = [step for step in self._history.done if step.session in ("", own)]
        count = next((at for at, step in enumerate(reversed(steps), 1) if not step.only_imports), 1)
        return replace(wanted, count=count)

    async def move(self, session: AgentSession, wanted: StepsWanted, agreed: Undecided | None = None) -> str:
        """Undo or redo the changes of the last calls.

        Args:
            wanted: The direction, the number of steps, and how to treat what the user changed since.
            agreed: What the user was shown to decide how: where it is another one now, that is asked anew.

        Returns:
            A line that names what was restored.

        Raises:
            SessionBusyError: A run is going on.
            ChangedSinceError: The user has to decide first; nothing was done.
            UsageError: It is not possible; nothing was done.
        """
        await _ready(session)
        own, planned = session.store.session_id, list[Step]()

        def plan() -> list[CellsChange]:
            planned[:] = self._steps.carry_out(wanted.verb, lambda: self._chosen(own, wanted))
            return cell_changes(planned)

        def turn(touched: Touched, cells: CellsPlan | None) -> Moved:
            if planned != self._steps.carry_out(wanted.verb, lambda: self._chosen(own, wanted)):
                raise UsageError(
                    "Nothing was changed: other steps were made or moved meanwhile, so that these are no longer the "
                    f"last ones. `%agent {wanted.verb}` anew, if you still want it."
                )
            return self._steps.move(wanted.verb, planned, touched, cells)

        try:
            moved = line(await self._move(_Move(wanted.verb, lambda: planned, plan, turn, wanted.touched, agreed)))
        except ChangedSinceError as error:
            command = f"{wanted.verb} {len(planned)}"
            asked = ChangedSinceError(error.question, command, error.undecided) if wanted.of_any else error
            asked.would_move = self._in_words(planned)
            raise asked from error
        moved += "" if wanted.verb == "redo" else await self._run(partial(self._stays, planned))
        count, others = len(planned), self._names(own, planned)
        if others:
            moved = f"{moved}; made in {', '.join(others)}"
        which = "your last call" if count == 1 else f"your last {count} calls"
        if others or any(step.is_users for step in planned):
            among = "of another conversation" if others else "cells of theirs"
            which = f"the last {textcut.counted(count, 'step')}, {among} among them,"
        what = "taken back" if wanted.verb == "undo" else "done once more, without running it again,"
        text = f"The user has {what} what {which} changed in the kernel, in files and in cells: {moved}."
        await self._tell(session, text, planned)
        return moved

    async def _tell(self, session: AgentSession, text: str, moved: Sequence[Step]) -> None:
        """Tell the model of this conversation what was moved, and those of others whose steps were among it."""
        self._tell_others(session.store.session_id, text, moved)
        await session.send_message(CustomMessage(custom_type="undo", content=text, display=False))

    def _tell_others(self, own: str, text: str, moved: Sequence[Step]) -> None:
        """Tell the models of other conversations, which may be busy for long, of their steps that were moved."""
        said = f"In another conversation, and calls of this one are among what that moved: {text}"
        for _, session in self._makers(own, moved):
            self._begin(partial(session.send_message, CustomMessage(custom_type="undo", content=said, display=False)))

    def _stays(self, undone: Sequence[Step]) -> str:
        """Say what stays of the runs of removed cells: they were the user's, and no steps that were taken back."""
        cells = [cell for step in undone if step.cells is not None for cell in step.cells.steps]
        removed = [cell.id for cell in cells if cell.now is None and cell.other is not None]
        codes = [code for each in removed if (code := self._ids.code_of(each, self._ids.number_of(each))) is not None]
        if not codes:
            return ""
        names = self._steps.bound_by(codes).difference(*(step.names for step in undone))
        whose, they = ("a removed cell", "it") if len(codes) == 1 else ("removed cells", "they")
        left = textcut.one_line(", ".join(sorted(names)), _MAX_SHARED_CHARACTERS)
        stays = " and ".join(filter(None, (left, f"any files that {they} wrote")))
        return f"; what {whose} did when {they} ran stays: {stays}"

    def _in_words(self, steps: Iterable[Step]) -> str:
        return steps_in_words(steps, self._named_now)

    def _names(self, own: str, steps: Sequence[Step]) -> list[str]:
        """Name the other conversations of this kernel that made some steps."""
        return [name for name, _ in self._makers(own, steps)]

    def _makers(self, own: str, steps: Sequence[Step]) -> list[Maker]:
        sessions = dict.fromkeys(step.session for step in reversed(steps) if step.session not in ("", own))
        return [*filter(None, map(self._maker, sessions))]

    def _chosen(self, own: str, wanted: StepsWanted) -> list[Step]:
        """Choose the steps to move, the first one last: the newest, or this conversation's newest below others.

        Raises:
            UsageError: There are not as many, or another conversation's step is in the way.
        """
        verb, count = wanted.verb, self._count(wanted)
        newest = self._steps.newest(verb, count)
        if wanted.of_any or not (others := self._names(own, newest)):
            return newest
        steps = self._history.newest_of(own, wanted.count) if verb == "undo" else []
        if steps and len(steps) >= wanted.count:
            self._check_apart(steps, own, "undo" if wanted.count else "undo prompt")
            return steps
        sessions = self._steps.sessions(verb)
        done = "taken back" if verb == "undo" else "done once more"
        all_the_same = f"`%agent {verb} {count}` does it all the same"
        if own in sessions:
            until = sessions.index(own) + 1
            all_the_same += f", `%agent {verb} {until}` with all until this conversation's last"
        raise UsageError(
            f"Nothing was {done}: what would be was not asked for in this conversation, but in {', '.join(others)} "
            f"({self._in_words(newest)}). {all_the_same}."
        )

    def _check_apart(self, steps: Sequence[Step], own: str, command: str) -> None:
        """Refuse to take steps back from below others that have changed the same.

        Raises:
            UsageError: There are such steps.
        """
        self._history.settle()
        count, names = self._history.above(steps)
        if not count:
            return
        newer = self._steps.newest("undo", count)
        by = ", ".join(self._names(own, newer)) or "cells of yours"
        shared = textcut.one_line(", ".join(sorted(names)), _MAX_SHARED_CHARACTERS)
        were = "was" if len(names) == 1 else "were"
        what = "step that is" if count == 1 else f"{count} steps that are"
        raise UsageError(
            f"Nothing was taken back: {shared} {were} changed in this conversation, and after that in {by}. `keep`, "
            f"`over` and `both` do not help here. `%agent undo {count}` takes back the {what} to go first "
            f"({self._in_words(newer)}), and `%agent {command}` then this conversation's."
        )

    def state_needs_page(self, wanted: StateWanted) -> bool:
        """Return whether cells of the notebook change on the way to a state, which needs a page."""
        try:
            return wanted.action == "back" and bool(self._states.cells_changed(wanted.name))
        except UsageError:
            return False

    async def state(
        self, session: AgentSession, wanted: StateWanted, agreed: Undecided | None = None
    ) -> tuple[str, Sequence[Sequence[str]]]:
        """Do what is wanted with named states.

        Args:
            agreed: See ``move``.

        Returns:
            A text for the user, and the rows of a table below it.

        Raises:
            SessionBusyError: A run is going on, and variables would be moved.
            ChangedSinceError: The user has to decide first; nothing was done.
            UsageError: It is not possible; nothing was done.
        """
        states, name = self._states, wanted.name
        if wanted.action in ("on", "save"):
            self._kernel.offers_states = True
        match wanted.action:
            case "on" | "off":
                await self._run(partial(states.cells.switch, on=wanted.action == "on"))
                return states.title(), ()
            case "save":
                return await self._run(partial(states.save, name, remind=True)), ()
            case "drop":
                return await self._run(partial(states.drop, name)), ()
            case "list":
                return await self._run(states.title), await self._run(states.rows)
            case "diff":
                await _ready(session)
                return await self._run(partial(states.difference, name)), ()
            case "back":
                await _ready(session)
                return await self._run(partial(states.here, name)) or await self._back_for_user(
                    session, wanted, agreed
                ), ()

    async def _back_for_user(self, session: AgentSession, wanted: StateWanted, agreed: Undecided | None) -> str:
        name, own = wanted.name, session.store.session_id
        done, way = await self._back(name, wanted.touched, agreed)
        moved, others = line(done), self._names(own, way)
        await self._tell(session, f"The user has gone back to the state “{name}”. As in it again: {moved}.", way)
        moved += f", with what was made in {', '.join(others)}" if others else ""
        stays = textcut.one_line(", ".join(sorted(done.bound)), _MAX_SHARED_CHARACTERS)
        but = f", but leaves {stays}" if stays else ""
        back = f"`%agent state back {LAST}` turns that around{but}."
        return f"This is “{name}” again: {moved}.{self._states.lost(name)} {back}{self._states.left_earlier()}"

    async def for_model(self, own: str, name: str) -> str:
        """Go to a named state within a run of the agent's; return a sentence for the model.

        Args:
            own: The id of the session that runs.
            name: The name of the state.

        Raises:
            UsageError: It is not possible; nothing was done.
        """
        left = f"“{LAST}” is the state that was left."
        if here := await self._run(partial(self._states.here, name)):
            return here
        done, way = await self._back(name, "")
        moved = line(done)
        self._tell_others(own, f"The agent has gone back to the state “{name}”. As in it again: {moved}.", way)
        return f"This is “{name}” again: {moved}.{self._states.lost(name)} {left}"

    async def _back(self, name: str, touched: Touched, agreed: Undecided | None = None) -> tuple[Moved, Sequence[Step]]:
        """Go to a named state; return what that moved, and the steps that lay between."""
        states, way = self._states, list[Step]()

        def turn(touched: Touched, cells: CellsPlan | None) -> Moved:
            way[:] = states.way(name)
            return states.back(name, touched, cells)

        steps, changes = partial(states.way, name), partial(states.cells_changed, name)
        return await self._move(_Move(f'state back "{name}"', steps, changes, turn, touched, agreed)), way

    async def _move(self, move: _Move) -> Moved:
        """Move steps; what has begun goes on to its end, or back, and a caller that is cancelled waits for that."""
        async with self._one_at_a_time:
            changes = await self._run(move.changes)
            plan_for = await self._plan(changes, move) if changes else _no_cells
            carrying_out = asyncio.ensure_future(self._carry_out(move, plan_for))
            try:
                return await asyncio.shield(carrying_out)
            except asyncio.CancelledError:
                await asyncio.wait([carrying_out])
                _ = carrying_out.cancelled() or carrying_out.exception()  # else asyncio logs it
                raise

    async def _carry_out(self, move: _Move, plan_for: _PlanFor) -> Moved:
        try:
            moved, plan = await self._run(partial(_turned, move, plan_for))
            if plan is not None and plan.edits:
                if problem := await self._edit(plan):
                    await self._kernel.run_whole(moved.back, completes=True)
                    raise UsageError(
                        f"Nothing was changed: the page did not change the cells of the notebook ({problem})."
                    )
                moved.finish()
        finally:
            self.on_moved()
        return moved

    async def _plan(self, changes: list[CellsChange], move: _Move) -> _PlanFor:
        answer = await self._ask_page("cells", {"outputs": True})
        listed: object = None if answer is None else answer.get("cells")
        if not isinstance(listed, list):
            if move.touched != "keep":
                raise UsageError(_NO_PAGE.format(verb=move.command))
            return lambda _: leave_cells(changes)
        cells = [cell for given in cast("list[object]", listed) if (cell := parse_cell(given)) is not None]
        there = [CellState(cell.id, cell.source, cell.shown_as, self._ran(cell)) for cell in cells if cell.id]
        return partial(plan_cells, changes, there)

    def _ran(self, cell: Cell) -> str | None:
        """Return the source whose output a cell shows; ``None`` where it shows none, or that is not known."""
        if cell.outputs and self._ids.number_of(cell.id) is None:
            return cell.source if self._ran_earlier(cell) else None
        code = self._ids.code_of(cell.id, cell.shown_as) if cell.outputs else None
        # IPython cuts the ends of what it keeps.
        return cell.source if code is not None and code.strip() == cell.source.strip() else code

    def _ran_earlier(self, cell: Cell) -> bool:
        """Return whether a cell ran in an earlier kernel since a step of that changed it last."""
        done, undone = (
            [each for change in cell_changes(steps) for each in reversed(change.steps) if each.id == cell.id]
            for steps in (self._history.done, self._history.undone)
        )
        # Where a step of the cell was undone, what the cell shows may be what that step is to bring back.
        return bool(done) and not undone and done[0].ran_since(cell.source, cell.shown_as)

    async def _edit(self, plan: CellsPlan) -> str:
        """Send the planned edits to the page; returns the reason if it did not apply them."""
        answer = await self._ask_page("change_cells", {"edits": plan.edits})
        if answer is None:  # should it still do it, this undoes it
            await self._ask_page("change_cells", {"edits": plan.inverse()})
            return "it did not answer"
        if "error" in answer:
            return str(answer["error"])
        removed = cast("list[JsonObject]", answer.get("removed") or [])
        held = {each["id"]: {key: value for key, value in each.items() if key != "id"} for each in removed}
        plan.keep_removed(cast("dict[str, RemovedCell]", held))
        return ""

    async def ask(self, session: AgentSession, count: int = 1) -> str:
        """Undo the changes of the last calls; ask in a dialog about what the user changed since.

        Returns:
            A message for the user; empty when the user did not decide.

        Raises:
            SessionBusyError: A run is going on.
            UsageError: It is not possible; nothing was done.
        """
        moved = await asked_since(session.ui.choose, partial(self.move, session), StepsWanted(count=count))
        return "" if moved is None else f"Taken back: {moved}."

    async def offer(self, session: AgentSession, session_id: str) -> str:
        """Ask whether to undo what the agent changed after the session's current point.

        Returns:
            A message for the user; empty when there is nothing to undo, or the user declined.

        Raises:
            SessionBusyError: A run is going on.
            UsageError: It is not possible; nothing was done.
        """
        count = self._since(session, session_id)
        if not count:
            return ""
        question = f"Also take back what the agent changed since? {self._in_words(self._steps.newest('undo', count))}"
        chosen = await session.ui.select(question, [_YES, _NO])
        return await self.ask(session, count) if chosen == _YES else ""

    def command_since(self, session: AgentSession, session_id: str) -> str:
        """Name the command that undoes what the agent changed after the session's current point.

        Returns:
            A sentence; empty if there is nothing to undo, or the user has bound all of it otherwise since.
        """
        count = self._since(session, session_id)
        steps = _left(self._steps.newest("undo", count)) if count else []
        if not steps:
            return ""
        command = "%agent undo" if count == 1 else f"%agent undo {count}"
        left = f"Variables and files are as the agent left them: {self._in_words(steps)}."
        return f"{left} `{command}` undoes that."

    def _since(self, session: AgentSession, session_id: str) -> int:
        messages = (entry.message for entry in session.store.branch())
        calls = {message.tool_call_id for message in messages if isinstance(message, ToolResultMessage)}
        return self._steps.since(calls, session_id)
