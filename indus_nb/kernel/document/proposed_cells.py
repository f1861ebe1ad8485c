"""What ``propose_cell`` proposes: new cells and changes of those that are there, as a user is asked about them."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from indus_nb.base import textcut
from indus_nb.base.wire import JsonObject, clean_text
from indus_nb.core.session.questions import Question
from indus_nb.kernel.cell_names import cell_name
from indus_nb.kernel.document.in_place import AskedAt, CellType, PlacedCell
from indus_nb.kernel.document.notebook_file import OUR_MAGICS, Cell
from indus_nb.kernel.document.reading import KnownNotebook
from indus_nb.kernel.document.run_cells import RunCells
from indus_nb.kernel.document.selection import RunAs, name_for_model, one_cell
from indus_nb.kernel.undo import CellEdit
from indus_nb.render.markup import plain
from indus_nb.tools import CallDescription, ToolError
from indus_nb.tools.files.edit import numbered_diff

CellName = Annotated[int | str, WithJsonSchema({"type": "string"})]
"""Text that names a cell; models are told of one type, and some give numbers all the same."""

_MAX_PROPOSAL_CHARACTERS = 20_000
_MAX_SUMMARY_CHARACTERS = 60
_LEXERS: dict[CellType, str] = {"code": "python", "markdown": "markdown"}


class ProposedCell(BaseModel):
    """One of several cells that are proposed together."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    source: str
    cell_type: CellType = "code"
    after: CellName | None = Field(default=None, description="By default the cell before it in the list")
    replace: CellName | None = None


@dataclass(slots=True)
class NewCell:
    """A new cell, and its place; ``follows`` the one before it in the list.

    Attributes:
        below: The id of the cell that it is to stand below, with others of its run in between; see `RunCells`.
        after: The id of the cell right above it, where that is there.
        where: Its place in words for the user, who knows cells by the numbers that stand at them.
        place: The same for the model, by ids.
        named: Whether the model has named that cell.
    """

    source: str
    type: CellType
    below: str | None
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
        """Return what stands above it where several are proposed."""
        return f"new {self.type} cell {self.where}"

    def shown(self) -> str:
        """Return it as a difference for people."""
        return "\n".join(f"+{line}" for line in self.source.split("\n"))

    def numbered(self) -> str:
        """Return the difference with numbered lines."""
        return numbered_diff("", self.source)

    def question(self) -> Question:
        """Return the question for it alone, without the answers."""
        heading = f"Insert this {self.type} cell {self.where}?"
        return Question(heading, [], body=self.source, language=_LEXERS[self.type])

    def outcome(self, *, done: bool) -> str:
        """Return in words what became of it; ``done`` by the page, in its place."""
        return f"Inserted {self.where}" if self.named and done else "Inserted below"


@dataclass(slots=True)
class ChangedCell:
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
        """Return the cell's type; one that is neither is code."""
        return "markdown" if self.cell.type == "markdown" else "code"

    def edit(self) -> CellEdit | None:
        """Return it for the page; ``None`` for a cell without an id."""
        if self.cell.id is None:
            return None
        old, source = self.cell.source, self.source
        return CellEdit(cell=self.cell.id, type=self.type, old=old, source=source, after=self.above, outputs=[])

    def placed(self) -> PlacedCell:
        """Return it with its place."""
        return PlacedCell(self.source, self.type, self.cell.id, self.cell.source)

    def heading(self) -> str:
        """Return what stands above it where several are proposed."""
        return f"change of {self.name}"

    def shown(self) -> str:
        """Return it as a difference for people."""
        return self.difference

    def numbered(self) -> str:
        """Return the difference with numbered lines, unless line ends differ, which it does not show."""
        numbered = "" if "\r" in self.cell.source else numbered_diff(self.cell.source, self.source)
        return plain(clean_text(numbered)) or self.difference

    def question(self) -> Question:
        """Return the question for it alone, without the answers."""
        return Question(
            f"Change {self.name}?", [], body=self.difference, diff=self.numbered(), language=_LEXERS[self.type]
        )

    def outcome(self, *, done: bool) -> str:
        """Return in words what became of it; ``done`` by the page, in its place."""
        return f"Changed {self.name}" if done else f"Inserted the new version of {self.name} below"


Plan: TypeAlias = NewCell | ChangedCell


def planned(
    wanted: Sequence[ProposedCell],
    seen: KnownNotebook | None,
    asked: AskedAt | None,
    run: RunCells,
    gone: Collection[str] = (),
) -> list[Plan]:
    """Return the plans of proposed cells.

    Args:
        seen: The notebook; needed where cells are named, or the run has put some there.
        asked: The cell that the user asks at, if they do.
        run: The new cells of the run until now.
        gone: The ids of those that are not there any more.

    Raises:
        ToolError: A cell is not there, may be out of the user's sight, or cannot be proposed so.
    """
    known: Sequence[Cell] = () if seen is None else seen.cells
    run_as: RunAs = (lambda _number: ()) if seen is None else seen.run_as
    plans: list[Plan] = []
    for each in wanted:
        named = each.replace if each.replace is not None else each.after
        at = 0 if named is None else one_cell(known, str(named), run_as)
        if each.replace is not None:
            _check_in_sight(asked, known, at, at)
            plans.append(_change(each.source, known, at))
            continue
        new = _new(each, plans, known, at, run, gone)
        if at:
            _check_in_sight(asked, known, at, (_place_of(new.after, known) or at) + 1)
        elif not new.where:
            new.where = new.place = "below the one that runs" if asked is None else "below the cell that is asked at"
        plans.append(new)
    replaced = [plan.place for plan in plans if isinstance(plan, ChangedCell)]
    if len(set(replaced)) < len(replaced):
        raise ToolError("One cell is named twice. Nothing was proposed.")
    return plans


def bordered(cell_type: CellType, source: str) -> str:
    """Return a cell as a part of one with others: below a marker that editors know."""
    border = "# %%" if cell_type == "code" else "# %% [markdown]"
    if cell_type == "markdown" or source.lstrip().startswith("%%"):
        # In one cell with others it would be run as code, or swallow what follows.
        source = "\n".join(f"# {line}".rstrip() for line in source.split("\n"))
    return f"{border}\n{source}"


def checked(source: str) -> str:
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


def _new(
    each: ProposedCell, before: Sequence[Plan], known: Sequence[Cell], at: int, run: RunCells, gone: Collection[str]
) -> NewCell:
    """Return the plan of a new cell; without words for its place where that is right below the cell that asks.

    Args:
        before: The plans of those before it in the list.
        at: The place of the cell that it is to stand below; 0 where it names none.
    """
    last = before[-1] if before else None
    if isinstance(last, NewCell) and not at:
        where, place = ("below that",) * 2 if last.named else (last.where, last.place)
        return NewCell(each.source, each.cell_type, last.below, None, where, place, last.named, follows=True)
    below = known[at - 1].id if at else run.asking
    after = None if at and below is None else run.last(below, gone)
    same = [isinstance(plan, NewCell) and plan.below == below is not None for plan in before]
    right_below = at if after == below else _place_of(after, known)
    if any(same):
        where = "below that" if same[-1] else f"below number {len(same) - same[::-1].index(True)} of these"
        place = where
    elif right_below:
        line = known[right_below - 1].first_line()
        where, place = (f"below {name(known, right_below)} ({line})" for name in (name_of, name_for_model))
    else:
        where, place = ("", "") if after == below else ("below the one before it", f"below cell {after}")
    return NewCell(each.source, each.cell_type, below, after, where, place, bool(at), follows=any(same[-1:]))


def _place_of(cell: str | None, known: Sequence[Cell]) -> int:
    """Return the place of the cell with that id; 0 where none has it."""
    return next((place for place, each in enumerate(known, 1) if cell is not None and each.id == cell), 0)


def _change(source: str, cells: Sequence[Cell], place: int) -> ChangedCell:
    cell, model_name = cells[place - 1], name_for_model(cells, place)
    if cell.source.strip("\n") == source.strip("\n"):
        raise ToolError(f"{model_name[0].upper()}{model_name[1:]} has that source already. Nothing was proposed.")
    lines = difflib.unified_diff(cell.source.splitlines(), source.splitlines(), "now", "then", lineterm="")
    difference = plain(clean_text("\n".join(lines)))
    if len(difference) > _MAX_PROPOSAL_CHARACTERS:
        raise ToolError(f"The change of {model_name} is too long to be shown to the user. Propose less at a time.")
    above = cells[place - 2].id if place > 1 else ""
    return ChangedCell(source, place, name_of(cells, place), model_name, cell, difference, above or "")


def name_of(cells: Sequence[Cell], place: int) -> str:
    """Return what a cell is called for the user."""
    return cell_name(place, [cell.shown_as for cell in cells])


def question_of(plans: Sequence[Plan]) -> Question:
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


def details_of(plans: Sequence[Plan], outcome: str) -> JsonObject:
    """Build the details for cards: the outcome, and a difference where the arguments do not show it."""
    diff = question_of(plans).diff
    return {"outcomeInWords": outcome, **({"diff": diff} if diff else {})}


def outcome_of(plans: Sequence[Plan], done: Sequence[bool], sent: Sequence[bool]) -> str:
    """Return in words what became of plans; new cells that stand one below the other are counted together.

    Args:
        done: Whether the page carried out each of them in its place.
        sent: Whether each was sent to the kernel.
    """
    groups: list[tuple[Plan, bool, list[bool]]] = []
    for plan, is_done, is_sent in zip(plans, done, sent, strict=True):
        if groups and isinstance(plan, NewCell) and plan.follows and groups[-1][1] == is_done:
            groups[-1][2].append(is_sent)
        else:
            groups.append((plan, is_done, [is_sent]))
    return "; ".join(dict.fromkeys(_outcome_of_group(*group) for group in groups))


def _outcome_of_group(first: Plan, done: bool, sent: Sequence[bool]) -> str:  # noqa: FBT001 - as in a group
    words = first.outcome(done=done)
    if len(sent) > 1:
        words = f"{textcut.counted(len(sent), 'cell')} {words[0].lower()}{words[1:]}"
    if not any(sent):
        return words
    return f"{words}, sent to the kernel" if all(sent) else f"{words}, {sum(sent)} of them sent to the kernel"


def described(default: CallDescription, arguments: Any) -> CallDescription:
    """Describe a call of the tool, whose question shows what is proposed.

    Args:
        arguments: Those of ``CellProposals.propose``.
    """
    cells: Sequence[ProposedCell] = arguments.cells or ()
    if cells:
        summary = textcut.counted(len(cells), "cell")
        text = "\n\n".join(bordered(cell.cell_type, cell.source) for cell in cells)
    else:
        # Not by the number that the model gives: it counts cells, the user sees what stands in brackets at them.
        text = str(arguments.source)
        summary = textcut.one_line(text.strip().partition("\n")[0], _MAX_SUMMARY_CHARACTERS)
    return replace_fields(default, summary=summary, text=text, details={}, announces_start=True)


def can_run(plan: Plan) -> bool:
    """Return whether it is code, in which the agent does not talk to itself: only the user may."""
    return plan.type == "code" and not any(line.lstrip().startswith(OUR_MAGICS) for line in plan.source.split("\n"))
