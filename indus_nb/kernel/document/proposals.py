"""The tool ``propose_cell``: cells that the model proposes for the user's notebook, which the user accepts or not.

What is accepted the page puts in its place. Where no page can, one text for all new cells goes below the running cell,
through the front end, once that cell has ended. The file is never written.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields
from functools import partial
from itertools import repeat
from typing import Annotated, Any, ClassVar, cast
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from indus_nb.base import textcut
from indus_nb.base.events import ToolOutput
from indus_nb.base.wire import JsonObject, clean_text, dump
from indus_nb.core.session.questions import Choice, Question
from indus_nb.extend.api import Context
from indus_nb.kernel.cell_names import cell_name
from indus_nb.kernel.document.in_place import ASKED_AT, AskedAt, CellType, PlacedCell
from indus_nb.kernel.document.notebook_file import OUR_MAGICS, Cell
from indus_nb.kernel.document.reading import AskPage, NotebookReader
from indus_nb.kernel.document.selection import RunAs, name_for_model, one_cell
from indus_nb.kernel.undo import CellEdit, CellStep, new_cell
from indus_nb.render.markup import plain
from indus_nb.tools import CallDescription, ToolError
from indus_nb.tools.files.edit import numbered_diff
from indus_nb.tools.tool import REFUSED, ToolContext, text_output

NoteCell = Callable[[str, str, CellStep], None]
"""Callback that records what a call did to a cell: the ids of call and session, and the cell."""
CellName = Annotated[int | str, WithJsonSchema({"type": "string"})]
"""Text that names a cell; models are told of one type, and some give numbers all the same."""

_MAX_PROPOSAL_CHARACTERS = 20_000
_MAX_SUMMARY_CHARACTERS = 60
_MAX_PROPOSED_CELLS = 30
_ACCEPT_AND_RUN, _ACCEPT, _NO = "Accept and run", "Accept", "No"
_RUNS = "It runs as soon as the kernel is free; you are told what it gave with the user's next message."
_NOT_RUN = "It was not run."
_AND_RUN = ", to run"
_ELSEWHERE = (
    "Only one of the pages that show this notebook has what you accepted. Save the notebook there, then load it again "
    "in the others: File > Reload Notebook from Disk."
)
_MAX_PART_BYTES = 1 << 20
"""What cells that are inserted together have: a page has a few seconds for its answer."""
_PROMPT_REPLY_SECONDS = 0.25
"""Time for a page that is not busy to answer, so that the question has all its choices from the beginning."""
_ASK_AGAIN_SECONDS = 0.5


class ProposedCell(BaseModel):
    """One of several cells that are proposed together."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    source: str
    cell_type: CellType = "code"
    after: CellName | None = Field(default=None, description="By default the cell before it in the list")
    replace: CellName | None = None


_LEXERS: dict[CellType, str] = {"code": "python", "markdown": "markdown"}


@dataclass(slots=True)
class FinishedCell:
    """A code cell with outputs in the form of the notebook format, and the id of the call that ran its first lines."""

    source: str
    outputs: Sequence[JsonObject] = ()
    call: str = ""


@dataclass(slots=True)
class _New:
    """A new cell: the cell above it, and that place in words; ``follows`` the one before it in the list.

    ``where`` is for the user, who knows cells by the numbers that stand at them, ``place`` for the model, by ids.
    """

    source: str
    type: CellType
    after: str | None
    where: str
    place: str
    named: bool
    follows: bool = False

    def placed(self, below: str | None) -> PlacedCell:
        """Return it with its place; ``below`` is the cell above those that are given none."""
        after = self.after if self.named else below
        return PlacedCell(self.source, self.type, after=None if self.follows else after)

    def heading(self) -> str:
        return f"new {self.type} cell {self.where}"

    def shown(self) -> str:
        return "\n".join(f"+{line}" for line in self.source.split("\n"))

    def numbered(self) -> str:
        return numbered_diff("", self.source)

    def question(self) -> Question:
        heading = f"Insert this {self.type} cell {self.where}?"
        return Question(heading, [], body=self.source, language=_LEXERS[self.type])

    def outcome(self, *, done: bool) -> str:
        return f"Inserted {self.where}" if self.named and done else "Inserted below"


@dataclass(slots=True)
class _Change:
    """A new source for an existing cell."""

    source: str
    place: int
    name: str
    model_name: str
    cell: Cell
    difference: str
    above: str

    @property
    def type(self) -> CellType:
        return "markdown" if self.cell.type == "markdown" else "code"

    def edit(self) -> CellEdit | None:
        """Return it for the page; ``None`` for a cell without an id."""
        if self.cell.id is None:
            return None
        old, source = self.cell.source, self.source
        return CellEdit(cell=self.cell.id, type=self.type, old=old, source=source, after=self.above, outputs=[])

    def placed(self) -> PlacedCell:
        return PlacedCell(self.source, self.type, self.cell.id, self.cell.source)

    def heading(self) -> str:
        return f"change of {self.name}"

    def shown(self) -> str:
        return self.difference

    def numbered(self) -> str:
        """Return the difference with numbered lines, unless line ends differ, which it does not show."""
        numbered = "" if "\r" in self.cell.source else numbered_diff(self.cell.source, self.source)
        return plain(clean_text(numbered)) or self.difference

    def question(self) -> Question:
        return Question(
            f"Change {self.name}?", [], body=self.difference, diff=self.numbered(), language=_LEXERS[self.type]
        )

    def outcome(self, *, done: bool) -> str:
        return f"Changed {self.name}" if done else f"Inserted the new version of {self.name} below"


class _RejectedError(ToolError):
    """The user rejected a proposal, and said of nothing else that it is wanted."""


async def _none_lacks(_: Mapping[str, str]) -> bool:
    return False


class CellProposals:
    """The tool ``propose_cell`` of one shell.

    The page is asked to do what the user accepted; its answer is ``None``, or has an ``error``, if it cannot:

    - ``change_cells`` with ``edits``, all of them or none, for the places of the cells as ``numbers``. The ``old``
      source is the one that the user was shown: the page rejects the change if it is another by now.
    - ``run_cells`` with ``cells`` (their ids), which are run in that order; without any it only checks if it could.
    """

    def __init__(
        self,
        shell: Any,
        reader: NotebookReader,
        ask_page: AskPage,
        insert_below: Callable[[str], bool],
        note_cell: NoteCell,
    ) -> None:
        """Make the tool.

        Args:
            insert_below: Has the waiting cell, when it ends, make its front end put a cell with that source below
                it, in the place of an earlier one. ``False`` when no cell waits.
            note_cell: Called for each cell that the page has inserted or changed.
        """
        self._shell = shell
        self._reader = reader
        self._ask_page = ask_page
        self._insert_below = insert_below
        self._note_cell = note_cell
        self.lack: Callable[[Mapping[str, str]], Awaitable[bool]] = _none_lacks
        """Returns whether another page of the same notebook has not got some cells, by their ids and sources."""
        self._below = _Below()
        self._one_at_a_time = asyncio.Lock()

    async def propose(
        self,
        ctx: Context,
        call: ToolContext,
        source: str = "",
        cell_type: CellType = "code",
        after: CellName | None = None,
        replace: CellName | None = None,
        cells: list[ProposedCell] | None = None,
    ) -> ToolOutput:
        """Propose cells for the user's notebook: new ones, or a new source for those that are there.

        Use it for code that is to stay, once it ran in python, and for text; the notebook's file is never edited with
        other tools. The user accepts or not, and decides whether it runs; the result says what became of it. Propose
        cells that belong together in one call.

        Args:
            ctx: Given by the session
            call: Given by the session
            source: Whole source of the cell
            cell_type: Type of a new cell
            after: Id or In [3] of the cell above it; by default the one that runs
            replace: Id or In [3] of the cell to change
            cells: Several cells, in place of the other arguments

        Returns:
            What became of the proposal, for the model and for the card.
        """
        if cells and source.strip():
            raise ToolError("Give source or cells, not both. Nothing was proposed.")
        wanted = cells or [ProposedCell(source=source, cell_type=cell_type, after=after, replace=replace)]
        if len(wanted) > _MAX_PROPOSED_CELLS:
            raise ToolError(f"{len(wanted)} cells are too many for a question. Propose {_MAX_PROPOSED_CELLS} at most.")
        wanted = [each.model_copy(update={"source": _checked(each.source)}) for each in wanted]
        if any(each.after is not None and each.replace is not None for each in wanted):
            raise ToolError("Give after or replace, not both: a cell is new, or it stands in the place of one.")
        if not ctx.has_ui:
            raise ToolError(
                "Nobody can be asked here, so nothing was put into the notebook. Show the cell in your answer instead."
            )
        at = ASKED_AT.get()
        if at is not None and at.changes and [(each.after, each.replace) for each in wanted] == [(None, None)]:
            wanted[0].replace = at.cell
        async with self._one_at_a_time:
            plans = await self._planned(wanted, at)
            runnable = any(plan.type == "code" and not _asks_us(plan.source) for plan in plans)
            question = replace_fields(_question(plans), subject=self._placed(plans))
            try:
                run = await _ask(ctx, question, plans, self._can_run if runnable else None)
            except _RejectedError as error:
                if at is None:
                    raise
                return error.output.replace(terminate=True)
            note = partial(self._note_cell, call.call_id, ctx.session.session_id)
            done = await self._carry_out(plans, ctx, note, run=run)
            return done if at is None else done.replace(terminate=True)

    def _placed(self, plans: Sequence[_New | _Change]) -> Sequence[PlacedCell]:
        """Return the cells with their places; none if the place of one is not known."""
        below = self._below_this_run().last_id
        placed = [plan.placed() if isinstance(plan, _Change) else plan.placed(below) for plan in plans]
        behind_another = (isinstance(plan, _New) and plan.follows for plan in plans)
        known = (cell.cell or cell.after or follows for cell, follows in zip(placed, behind_another, strict=True))
        return placed if all(known) else ()

    async def _planned(self, wanted: Sequence[ProposedCell], asked: AskedAt | None) -> list[_New | _Change]:
        named = any(each.after is not None or each.replace is not None for each in wanted)
        seen = await self._reader.look() if named else None
        known: Sequence[Cell] = () if seen is None else seen.cells
        run_as: RunAs = (lambda _number: ()) if seen is None else seen.run_as
        plans: list[_New | _Change] = []
        for each in wanted:
            before = plans[-1] if plans else None
            if each.replace is not None:
                place = one_cell(known, str(each.replace), run_as)
                _check_in_sight(asked, known, place, place)
                plans.append(_change(each.source, known, place))
            elif each.after is not None:
                at = one_cell(known, str(each.after), run_as)
                _check_in_sight(asked, known, at, at + 1)
                line = known[at - 1].first_line()
                where, place = (f"below {name(known, at)} ({line})" for name in (_name, name_for_model))
                plans.append(_New(each.source, each.cell_type, known[at - 1].id, where, place, named=True))
            elif isinstance(before, _New):
                where, place = ("below that",) * 2 if before.named else (before.where, before.place)
                plans.append(_New(each.source, each.cell_type, None, where, place, before.named, follows=True))
            else:
                where = "below the one that runs" if asked is None else "below the cell that is asked at"
                plans.append(_New(each.source, each.cell_type, None, where, where, named=False))
        replaced = [plan.place for plan in plans if isinstance(plan, _Change)]
        if len(set(replaced)) < len(replaced):
            raise ToolError("One cell is named twice. Nothing was proposed.")
        return plans

    async def _carry_out(
        self, plans: Sequence[_New | _Change], ctx: Context, note: Callable[[CellStep], None], *, run: bool
    ) -> ToolOutput:
        """Carry out an accepted proposal; return the text for the model, and what remains for the user."""
        outcomes: list[str] = []
        shown: list[str] = []
        to_run: list[str] = []
        put: dict[str, str] = {}
        for plan, changed in zip(plans, await self._carried_out(plans), strict=True):
            outcome = self._outcome(plan, changed, ctx)
            if changed is not None:
                note(changed)
                put[changed.id] = plan.source
            shown.append(plan.outcome(done=changed is not None))
            if changed is not None and run and plan.type == "code" and not _asks_us(plan.source):
                to_run.append(changed.id)
                outcome += f" {_RUNS}"
                shown[-1] += _AND_RUN
            elif changed is not None:
                outcome += f" {_NOT_RUN}"
            outcomes.append(outcome)
        if to_run and not await self._run(to_run):
            ctx.ui.notify("The front end did not run the new cells: run them yourself.")
            outcomes = [outcome.replace(_RUNS, _NOT_RUN) for outcome in outcomes]
            shown = [outcome.removesuffix(_AND_RUN) for outcome in shown]
        if put and await self.lack(put):
            ctx.ui.notify(_ELSEWHERE, "warning")
        details = _details(plans, "; ".join(dict.fromkeys(shown)))
        if len(outcomes) == 1:
            return text_output(f"The user accepted it{outcomes[0]}", details)
        listed = "\n".join(f"{number}. Accepted{outcome}" for number, outcome in enumerate(outcomes, 1))
        return text_output(f"The user accepted {len(outcomes)} cells.\n{listed}", details)

    async def _carried_out(self, plans: Sequence[_New | _Change]) -> Sequence[CellStep | None]:
        """Have the page carry out all plans in one step, or else those that it can; ``None`` for the others."""
        done = await self._changed(plans, self._edits(plans))
        if done is not None or len(plans) == 1:
            return done or [None]
        steps: list[CellStep | None] = []
        for plan in plans:
            last = steps[-1].id if steps and steps[-1] is not None and steps[-1].other is None else None
            alone = await self._changed([plan], self._edits([plan], last))
            steps += [None] if alone is None else alone
        return steps

    def _edits(self, plans: Sequence[_New | _Change], last: str | None = None) -> Sequence[CellEdit | None]:
        """Return the edits of cells, where each ``follows`` the one before it; ``None`` for one without a place.

        Args:
            last: The id of the new cell before the first one.
        """
        edits: list[CellEdit | None] = []
        below = self._below_this_run().last_id
        for plan in plans:
            if isinstance(plan, _Change):
                edits.append(plan.edit())
                last = None
                continue
            after = last if plan.follows and last is not None else plan.after
            after = below if after is None and not plan.named else after
            edits.append(None if after is None else new_cell(plan.source, plan.type, after))
            last = None if edits[-1] is None else edits[-1]["cell"]
            below = below if plan.named else last
        return edits

    async def _changed(
        self, plans: Sequence[_New | _Change], edits: Sequence[CellEdit | None]
    ) -> Sequence[CellStep | None] | None:
        """Have the page change cells, all of them or none; ``None`` if it does not do that."""
        wanted = [edit for edit in edits if edit is not None]
        if len(wanted) < len(edits):
            return None
        answer = await self._ask_page("change_cells", {"edits": wanted})
        if answer is None:
            return [None for _ in wanted]
        if "error" in answer:
            return None
        numbers = [*cast("list[int]", answer.get("numbers") or []), *repeat(0, len(wanted))]
        known = await self._cells() if any(isinstance(plan, _New) for plan in plans) else ()
        steps: list[CellStep] = []
        for plan, edit, number in zip(plans, wanted, numbers, strict=False):
            own_id, above = edit["cell"], edit["after"] or ""
            if isinstance(plan, _Change):
                steps.append(
                    CellStep(own_id, plan.type, edit["old"], plan.source, above, number or plan.place, plan.name)
                )
                continue
            name = _name(known, number) if 0 < number <= len(known) and known[number - 1].id == own_id else ""
            steps.append(CellStep(own_id, plan.type, None, plan.source, above, number, name))
            if not plan.named:
                self._below_this_run().last_id = own_id
        return steps

    async def _cells(self) -> Sequence[Cell]:
        try:
            return (await self._reader.look()).cells
        except ToolError:
            return ()

    def _outcome(self, plan: _New | _Change, done: CellStep | None, ctx: Context) -> str:
        """Return what became of a plan, for the model; one that the page did not carry out goes below the cell."""
        if isinstance(plan, _Change):
            if done is not None:
                return f": {plan.model_name} has the new source now."
            outcome = self._put_below(plan.source, plan.type)
            ctx.ui.notify(f"The new version of {plan.name} comes in a cell below the running one: put it in its place.")
            return (
                f", but this front end lets nobody change {plan.model_name}. {outcome} "
                "The user was told to put it in that cell's place; until then that cell is as it was."
            )
        if done is not None:
            return f": the cell is in the notebook now, {plan.place}, with id {done.id}."
        outcome = self._put_below(plan.source, plan.type)
        if not plan.named:
            return f". {outcome}"
        meant, place = (words.partition(" (")[0] for words in (plan.where, plan.place))
        ctx.ui.notify(f"The new cell comes below the running one; it was meant for the place {meant}.")
        return f". {outcome} The user was told that it belongs {place}."

    async def _can_run(self) -> bool:
        """Poll until a page answers: one that is busy, or was just opened, does so late."""
        while True:
            answer = await self._ask_page("run_cells", {"cells": []})
            if answer is not None:
                return "error" not in answer
            await asyncio.sleep(_ASK_AGAIN_SECONDS)

    async def _run(self, ids: Sequence[str]) -> bool:
        answer = await self._ask_page("run_cells", {"cells": [*ids]})
        return answer is not None and "error" not in answer

    async def insert_finished(self, cells: Sequence[FinishedCell], asked: str | None) -> int:
        """Insert cells with their outputs below the running one, in order.

        Args:
            asked: The cell whose prompt their code was run for, by its id and a digest of its code.

        Returns:
            How many have their outputs. Where the page cannot insert cells, one text for all of them goes below the
            running cell.

        Raises:
            ToolError: It is not possible.
        """
        run = uuid4().hex
        marks = [{"run": run, "call": cell.call, **({"asked": asked} if asked else {})} for cell in cells]
        edits: list[CellEdit] = []
        above = self._below_this_run().last_id
        for cell, mark in zip(cells, marks, strict=True):
            edits.append(new_cell(cell.source, "code", above, cell.outputs, mark))
            above = edits[-1]["cell"]
        finished = 0
        for part in _parts(edits):
            if not await self._insert(part):
                break
            finished += len(part)
        for cell in cells[finished:]:
            self._put_below(cell.source, "code")
        return finished

    async def insert(self, code: str) -> bool:
        """Insert code that the user chose as a cell below the running one.

        Returns ``False`` if that is not possible.
        """
        if await self._insert([new_cell(code, "code", self._below_this_run().last_id)]):
            return True
        try:
            self._put_below(code, "code")
        except ToolError:
            return False
        return True

    async def _insert(self, edits: Sequence[CellEdit]) -> bool:
        """Insert cells below those of this run, in order; returns whether the page did."""
        answer = await self._ask_page("change_cells", {"edits": [*edits]})
        if answer is None or "error" in answer:
            return False
        self._below_this_run().last_id = edits[-1]["cell"]
        return True

    def _below_this_run(self) -> _Below:
        at = ASKED_AT.get()
        run = at or (self._shell.execution_count, self._reader.cells.request.get("header", {}).get("msg_id"))
        if run != self._below.run:
            self._below = _Below(run, last_id=self._reader.cells.running if at is None else at.cell)
        return self._below

    def _put_below(self, source: str, cell_type: CellType) -> str:
        """Have the front end put it below the waiting cell; return the text for the model."""
        below = self._below_this_run()
        below.cells.append((cell_type, source))
        if not self._insert_below(below.text()):
            below.cells.pop()
            raise ToolError(
                "The user accepted it, but it could not be put into the notebook: the front end does not let it be "
                "done, and no cell waits for the agent. Show it in your answer, for the user to copy."
            )
        if len(below.cells) > 1:
            return (
                "It comes below the running cell, once that has ended well. The front end adds one cell only, so it "
                "shares that with what was accepted before, between lines `# %%`."
            )
        kind = "" if cell_type == "code" else " as a code cell that begins with %%markdown"
        return f"It comes below the running cell{kind}, once that has ended well; it is not run."


def _parts(edits: Sequence[CellEdit]) -> Generator[Sequence[CellEdit]]:
    """Yield edits in order, as many at once as are not large together."""
    part: list[CellEdit] = []
    size = 0
    for edit in edits:
        size += len(dump(edit))
        if part and size > _MAX_PART_BYTES:
            yield part
            part, size = [], len(dump(edit))
        part.append(edit)
    if part:
        yield part


@dataclass(slots=True)
class _Below:
    """Cells put below one run of a cell; when it ends the front end accepts one text for all of them."""

    run: object = None
    cells: list[tuple[CellType, str]] = field(default_factory=list[tuple[CellType, str]])
    last_id: str | None = None
    """Id of the cell that the page put in last, or of the running one."""

    def text(self) -> str:
        """Return one cell as it is; several as one, separated by cell markers that editors know."""
        if len(self.cells) == 1:
            cell_type, source = self.cells[0]
            return source if cell_type == "code" else f"%%markdown\n{source}"
        return "\n\n".join(_bordered(cell_type, source) for cell_type, source in self.cells)


def _bordered(cell_type: CellType, source: str) -> str:
    border = "# %%" if cell_type == "code" else "# %% [markdown]"
    if cell_type == "markdown" or source.lstrip().startswith("%%"):
        # In one cell with others it would be run as code, or swallow what follows.
        source = "\n".join(f"# {line}".rstrip() for line in source.split("\n"))
    return f"{border}\n{source}"


def _checked(source: str) -> str:
    """Return the source if a user can see all that is in it; raise ``ToolError`` if not."""
    source = source.replace("\r\n", "\n").strip("\n")
    if not source.strip():
        raise ToolError("The source is empty. Nothing was proposed.")
    if len(source) > _MAX_PROPOSAL_CHARACTERS:
        raise ToolError(f"{len(source)} characters are too many for one cell. Propose several smaller ones.")
    if plain(clean_text(source)) != source:
        raise ToolError(
            "The source holds characters that cannot be shown (control characters or marks of writing direction). "
            "Write them as escapes, and propose it again."
        )
    return source


def _check_in_sight(asked: AskedAt | None, cells: Sequence[Cell], *places: int) -> None:
    """Raise ``ToolError`` if the user asks at a cell, which stands at none of these places, and would not see them."""
    if asked is None or any(cell.id == asked.cell for place in places for cell in cells[place - 1 : place]):
        return
    name = name_for_model(cells, places[0])
    raise ToolError(
        f"{name[0].upper()}{name[1:]} is another than the one that the user asks at, cell {asked.cell}, and may be out "
        "of sight. Propose a change of that one or new cells right above or below it; what should become of others "
        "say in words. Nothing was proposed."
    )


def _change(source: str, cells: Sequence[Cell], place: int) -> _Change:
    cell, model_name = cells[place - 1], name_for_model(cells, place)
    if cell.source.strip("\n") == source.strip("\n"):
        raise ToolError(f"{model_name[0].upper()}{model_name[1:]} has that source already. Nothing was proposed.")
    lines = difflib.unified_diff(cell.source.splitlines(), source.splitlines(), "now", "then", lineterm="")
    difference = plain(clean_text("\n".join(lines)))
    if len(difference) > _MAX_PROPOSAL_CHARACTERS:
        raise ToolError(f"The change of {model_name} is too long to be shown to the user. Propose less at a time.")
    above = cells[place - 2].id if place > 1 else ""
    return _Change(source, place, _name(cells, place), model_name, cell, difference, above or "")


def _name(cells: Sequence[Cell], place: int) -> str:
    return cell_name(place, [cell.shown_as for cell in cells])


def _question(plans: Sequence[_New | _Change]) -> Question:
    """Build the question for the user, without the answers."""
    if len(plans) == 1:
        return plans[0].question()
    headings = [f"{number} of {len(plans)} · {plan.heading()}" for number, plan in enumerate(plans, 1)]
    body, diff = (
        "\n\n".join(f"{heading}\n{text}" for heading, text in zip(headings, texts, strict=True))
        for texts in ([plan.shown() for plan in plans], [plan.numbered() for plan in plans])
    )
    if len(body) > 2 * _MAX_PROPOSAL_CHARACTERS:
        raise ToolError("That is too long for one question to the user. Propose fewer cells at a time.")
    language = "python" if all(plan.type == "code" for plan in plans) else ""
    return Question(f"Put these {len(plans)} cells into the notebook?", [], body=body, diff=diff, language=language)


def _details(plans: Sequence[_New | _Change], outcome: str) -> JsonObject:
    """Build the details for cards: the outcome, and a difference where the arguments do not show it."""
    diff = _question(plans).diff
    return {"outcomeInWords": outcome, **({"diff": diff} if diff else {})}


def described(default: CallDescription, arguments: Any) -> CallDescription:
    """Describe a call of the tool, whose question shows what is proposed.

    Args:
        arguments: Those of ``CellProposals.propose``.
    """
    cells: Sequence[ProposedCell] = arguments.cells or ()
    if cells:
        summary = textcut.counted(len(cells), "cell")
        text = "\n\n".join(_bordered(cell.cell_type, cell.source) for cell in cells)
    else:
        # Not by the number that the model gives: it counts cells, the user sees what stands in brackets at them.
        text = str(arguments.source)
        summary = textcut.one_line(text.strip().partition("\n")[0], _MAX_SUMMARY_CHARACTERS)
    return replace_fields(default, summary=summary, text=text, details={}, announces_start=True)


def _asks_us(source: str) -> bool:
    """Return whether a cell would have the agent talk to itself, which only the user may."""
    return any(line.lstrip().startswith(OUR_MAGICS) for line in source.split("\n"))


async def _ask(
    ctx: Context,
    question: Question,
    plans: Sequence[_New | _Change],
    can_run: Callable[[], Coroutine[Any, Any, bool]] | None,
) -> bool:
    """Return whether the accepted cells are to be run; raise ``ToolError`` if the user rejects them."""

    def asking(*, runs: bool) -> Question:
        accept = Choice(_ACCEPT, "yes", "Accept all" if len(plans) > 1 else "")
        # Behind the others, whose keys and places are the same in every proposal, and stay when this comes later.
        run = [Choice(_ACCEPT_AND_RUN, "more")] if runs else []
        return replace_fields(question, choices=[accept, Choice(_NO, "no"), *run], takes_reason=True)

    async def find_out() -> Question | None:
        return asking(runs=True) if can_run is not None and await can_run() else None

    later = asyncio.ensure_future(find_out())
    try:
        await asyncio.wait([later], timeout=_PROMPT_REPLY_SECONDS)
        asked = asking(runs=later.done() and later.result() is not None)
        decision = await ctx.ui.choose(asked, signal=ctx.signal, later=None if later.done() else later)
    finally:
        later.cancel()
    if decision.option in (_ACCEPT, _ACCEPT_AND_RUN):
        return decision.option == _ACCEPT_AND_RUN
    if decision.option is None:
        why = "The user did not decide, so nothing was put into the notebook. Ask what to do instead."
        raise ToolError(why, _details(plans, "Not decided"))
    reason = decision.reason.strip()
    why = f" They said: {reason}" if reason else " Ask what to do instead."
    raise (ToolError if reason else _RejectedError)(
        f"The user did not accept the cell. Nothing was put into the notebook.{why}",
        {**_details(plans, f"Not accepted: {reason}" if reason else "Not accepted"), REFUSED: True},
    )
