"""The tool ``propose_cell``: cells that the model proposes for the user's notebook, which the user accepts or not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace as replace_fields
from functools import partial
from typing import Any

from indus_nb.base.events import ToolOutput
from indus_nb.core.session.questions import Choice, Question
from indus_nb.extend.api import Context
from indus_nb.kernel.document.in_place import ASKED_AT, CellType, PlacedCell
from indus_nb.kernel.document.page_cells import PageCells
from indus_nb.kernel.document.proposed_cells import (
    CellName,
    ChangedCell,
    NewCell,
    Plan,
    ProposedCell,
    can_run,
    checked,
    details_of,
    outcome_of,
    planned,
    question_of,
)
from indus_nb.kernel.document.reading import NotebookReader
from indus_nb.kernel.undo import CellStep
from indus_nb.tools import ToolError
from indus_nb.tools.tool import REFUSED, ToolContext, text_output

NoteCell = Callable[[str, str, CellStep], None]
"""Callback that records what a call did to a cell: the ids of call and session, and the cell."""
_MAX_PROPOSED_CELLS = 30
_ACCEPT_AND_RUN, _ACCEPT, _NO = "Accept and run", "Accept", "No"
_RUNS = "It runs as soon as the kernel is free; you are told what it gave with the user's next message."
_NOT_RUN = "It was not run."
_ELSEWHERE = (
    "Only one of the pages that show this notebook has what you accepted. Save the notebook there, then load it again "
    "in the others: File > Reload Notebook from Disk."
)
_PROMPT_REPLY_SECONDS = 0.25
"""Time for a page that is not busy to answer, so that the question has all its choices from the beginning."""


class _RejectedError(ToolError):
    """The user rejected a proposal, and said of nothing else that it is wanted."""


class CellProposals:
    """The tool ``propose_cell`` of one shell."""

    def __init__(
        self,
        reader: NotebookReader,
        page: PageCells,
        note_cell: NoteCell,
        lacks: Callable[[Mapping[str, str]], Awaitable[bool]],
    ) -> None:
        """Make the tool.

        Args:
            note_cell: Called for each cell that the page has inserted or changed.
            lacks: Returns whether another page of the same notebook has not got some cells, by their ids and sources.
        """
        self._reader = reader
        self._page = page
        self._note_cell = note_cell
        self._lacks = lacks
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
        wanted = [each.model_copy(update={"source": checked(each.source)}) for each in wanted]
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
            named = any(each.after is not None or each.replace is not None for each in wanted)
            run = self._page.run_of(ctx.session.session_id)
            seen = await self._reader.look() if named else None if run.is_empty else await self._page.look()
            gone = await self._page.gone(run)
            plans = planned(wanted, seen, at, run, gone)
            runnable = any(map(can_run, plans))
            question = replace_fields(question_of(plans), subject=self._placed(plans, self._page.last(run, gone)))
            try:
                runs = await _ask(ctx, question, plans, self._page.can_run if runnable else None)
            except _RejectedError as error:
                if at is None:
                    raise
                return error.output.replace(terminate=True)
            note = partial(self._note_cell, call.call_id, ctx.session.session_id)
            done = await self._carry_out(plans, await self._page.change(plans, run), ctx, note, run=runs)
            return done if at is None else done.replace(terminate=True)

    def _placed(self, plans: Sequence[Plan], below: str | None) -> Sequence[PlacedCell]:
        """Return the cells with their places; none if the place of one is not known.

        Args:
            below: The id of the cell above those that name none.
        """
        placed = [plan.placed() if isinstance(plan, ChangedCell) else plan.placed(below) for plan in plans]
        behind_another = (isinstance(plan, NewCell) and plan.follows for plan in plans)
        known = (cell.cell or cell.after or follows for cell, follows in zip(placed, behind_another, strict=True))
        return placed if all(known) else ()

    async def _carry_out(
        self,
        plans: Sequence[Plan],
        by_page: Sequence[CellStep | None],
        ctx: Context,
        note: Callable[[CellStep], None],
        *,
        run: bool,
    ) -> ToolOutput:
        """Carry out the rest of an accepted proposal; return the text for the model, and what remains for the user.

        Args:
            by_page: What the page has done of each plan.
        """
        outcomes: list[str] = []
        done: list[bool] = []
        sent: list[bool] = []
        to_run: list[str] = []
        put: dict[str, str] = {}
        for plan, changed in zip(plans, by_page, strict=True):
            outcome = self._outcome(plan, changed, ctx)
            if changed is not None:
                note(changed)
                put[changed.id] = plan.source
            done.append(changed is not None)
            sent.append(changed is not None and run and can_run(plan))
            if changed is not None and sent[-1]:
                to_run.append(changed.id)
                outcome += f" {_RUNS}"
            elif changed is not None:
                outcome += f" {_NOT_RUN}"
            outcomes.append(outcome)
        if to_run and not await self._page.run(to_run):
            ctx.ui.notify("The front end did not run the new cells: run them yourself.")
            outcomes = [outcome.replace(_RUNS, _NOT_RUN) for outcome in outcomes]
            sent = [False] * len(sent)
        if put and await self._lacks(put):
            ctx.ui.notify(_ELSEWHERE, "warning")
        details = details_of(plans, outcome_of(plans, done, sent))
        if len(outcomes) == 1:
            return text_output(f"The user accepted it{outcomes[0]}", details)
        listed = "\n".join(f"{number}. Accepted{outcome}" for number, outcome in enumerate(outcomes, 1))
        return text_output(f"The user accepted {len(outcomes)} cells.\n{listed}", details)

    def _outcome(self, plan: Plan, done: CellStep | None, ctx: Context) -> str:
        """Return what became of a plan, for the model; one that the page did not carry out goes below the cell."""
        if isinstance(plan, ChangedCell):
            if done is not None:
                return f": {plan.model_name} has the new source now."
            outcome = self._page.put_below(plan.source, plan.type)
            ctx.ui.notify(f"The new version of {plan.name} comes in a cell below the running one: put it in its place.")
            return (
                f", but this front end lets nobody change {plan.model_name}. {outcome} "
                "The user was told to put it in that cell's place; until then that cell is as it was."
            )
        if done is not None:
            return f": the cell is in the notebook now, {plan.place}, with id {done.id}."
        outcome = self._page.put_below(plan.source, plan.type)
        if not plan.named:
            return f". {outcome}"
        meant, place = (words.partition(" (")[0] for words in (plan.where, plan.place))
        ctx.ui.notify(f"The new cell comes below the running one; it was meant for the place {meant}.")
        return f". {outcome} The user was told that it belongs {place}."


async def _ask(
    ctx: Context,
    question: Question,
    plans: Sequence[Plan],
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
        raise ToolError(why, details_of(plans, "Not decided"))
    reason = decision.reason.strip()
    why = f" They said: {reason}" if reason else " Ask what to do instead."
    raise (ToolError if reason else _RejectedError)(
        f"The user did not accept the cell. Nothing was put into the notebook.{why}",
        {**details_of(plans, f"Not accepted: {reason}" if reason else "Not accepted"), REFUSED: True},
    )
