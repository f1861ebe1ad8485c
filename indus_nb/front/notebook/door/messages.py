"""The protocol between the front-end extension and the kernel: every message of a door's comm.

What this module promises:

- Messages from the extension (`FromDoor`) come from any user who can reach the kernel. `parse` is the only way in. What
  it returns is valid, within the limits below. What it rejects changes nothing.
- Messages to the extension (`ToDoor`) are JSON values.
- `docs/door_protocol.md` and `indus_nb/lab/src/door.d.ts` are generated from the names, types and docstrings of this
  module (``INDUS_NB_WRITE_DOCS=1 python -m pytest tests/notebook/test_page_protocol.py``).
"""

from __future__ import annotations

from functools import cache, partial
from typing import Annotated, Literal, TypeAlias, TypedDict

from indus_nb.base.readers import InvalidFieldsError, Limits, reader
from indus_nb.base.wire import JsonObject
from indus_nb.base.wire_model import WireModel
from indus_nb.core.session.questions import ChoiceKind
from indus_nb.front.notebook.page.protocol import Name, RejectedError, Text, problem_of
from indus_nb.front.notebook.page.states import OutdatedValues

MAX_PATH_CHARACTERS = 4_096
MAX_CLIENT_CHARACTERS = 100

MAX_SHOWN_CHARACTERS = 20_000
MAX_WIDGETS = 1_000

Shown = Annotated[str, Limits(max_length=MAX_SHOWN_CHARACTERS)]
Path = Annotated[str, Limits(max_length=MAX_PATH_CHARACTERS)]
Client = Annotated[str, Limits(max_length=MAX_CLIENT_CHARACTERS)]


# From the extension


class DoorMessage(WireModel, unknown="ignored", strict=True):
    """What every message of the extension is."""


class Shows(DoorMessage):
    """Say which notebook the door is for: when the comm opens, and whenever that changes. A `State` follows."""

    kind: Literal["shows"]
    path: Path
    """Where the notebook lies, below the directory of Jupyter's server."""
    client: Client
    """The id that the notebook has for its connection to the kernel."""


class Leaves(DoorMessage):
    """Say that the page goes away; any other message says that it is back."""

    kind: Literal["leaves"]


class OpenPanel(DoorMessage):
    """Open the conversation of the notebook with its chat panel, whose id comes in the `State`."""

    kind: Literal["open_panel"]


class Prompt(DoorMessage):
    """Send a user message in the conversation of the notebook."""

    kind: Literal["prompt"]
    text: Text


class Stop(DoorMessage):
    """End what goes on in the conversation of the notebook; what is queued stays queued."""

    kind: Literal["stop"]


class Edit(DoorMessage):
    """Ask for another source of a cell. `Draft` messages may follow, a `Review`, and at the end an `EditOver`."""

    kind: Literal["edit"]
    id: Name
    """An id that the extension gives it."""
    cell: Name
    """The cell's id."""
    instruction: Text


class NewCells(DoorMessage):
    """Ask for new cells below one; what follows is as for `Edit`."""

    kind: Literal["new_cells"]
    id: Name
    cell: Name
    """The id of the cell above."""
    instruction: Text


class Settle(DoorMessage):
    """Answer a `Review`."""

    kind: Literal["settle"]
    id: Name
    """That of the review."""
    answer: Text | None = None
    """The ``value`` of a choice; ``null`` dismisses it."""
    reason: Text | None = None
    """Why not, or what is wanted instead: the model proposes again."""


class Drop(DoorMessage):
    """End an `Edit` or `NewCells` before it is over."""

    kind: Literal["drop"]
    id: Name


class PageReply(DoorMessage):
    """The reply to an `AskPage`."""

    kind: Literal["reply"]
    id: Name
    value: JsonObject
    """A result of `docs/page_protocol.md`."""


class NewConversation(DoorMessage):
    """Begin a new conversation in the notebook's panel; the one before is kept."""

    kind: Literal["new_conversation"]


class AskAboutError(DoorMessage):
    """Ask about a cell that failed, in the words of `%agent fix` or `%agent explain`."""

    kind: Literal["fix", "explain"]
    cell: Name
    """The cell's id."""
    source: Shown
    """The cell's code, as the page has it now."""
    changed: bool = False
    """Whether it was changed since it ran."""
    error: Shown
    """The traceback, with what a terminal would obey; the end of a long one."""


class Insert(DoorMessage):
    """Put a text behind what is written in the panel's composer."""

    kind: Literal["insert"]
    text: Text


class ListVariables(DoorMessage):
    """Ask for the user's variables: `Variables`."""

    kind: Literal["list_variables"]


class Missed(DoorMessage):
    """Ask for runs that are over and whose live views stand in the notebook: an `AskPage` for each, with `show_run`."""

    kind: Literal["missed"]
    widgets: Annotated[list[Name], Limits(max_length=MAX_WIDGETS)]
    """The ids of the widgets in the notebook's outputs, of whichever kind."""


class CheckValues(DoorMessage):
    """Compute the values in answers again that may be others now: an `Outdated` follows."""

    kind: Literal["check_values"]


FromDoor: TypeAlias = (
    Shows
    | Leaves
    | OpenPanel
    | Prompt
    | Stop
    | NewConversation
    | AskAboutError
    | Insert
    | ListVariables
    | Missed
    | Edit
    | NewCells
    | Settle
    | Drop
    | CheckValues
    | PageReply
)
"""What the extension may send."""


# To the extension


class State(TypedDict):
    """What the notebook's conversation does, and rows that its cells ask; all of it, whenever any of it changes."""

    kind: Literal["state"]
    phase: Literal["idle", "working", "asking"]
    question: str | None
    """The question that waits for an answer, on one line."""
    jobs: int
    """How many calls of the agent go on after their result."""
    cost_today: float | None
    """US dollars that the user's kernels have spent today, by the local date; ``null`` for no notebook."""
    model: str | None
    needs_key: bool
    """Whether no model can be asked for want of a key, or for its server refused it."""
    panel: str | None
    """The id of the chat panel's widget."""
    session: str | None
    """The id of the conversation."""
    error: str | None
    """Why the last message could not be carried out."""


class ShownCell(TypedDict):
    """A proposed source, and where it is to stand."""

    source: str
    type: Literal["code", "markdown"]
    cell: str | None
    """The id of the cell that gets it; ``null`` for a new cell."""
    old: str | None
    """The source that this cell must have for that; ``null`` where it is not known yet."""
    after: str | None
    """The id of the cell above a new one; ``null`` where that is the new one before it in the list."""


class Draft(TypedDict):
    """What the model has written so far for a request; it replaces the draft before."""

    kind: Literal["draft"]
    id: str
    """That of the request."""
    cells: list[ShownCell]
    done: bool
    """Whether it is whole; a `Review` follows once it was found to be possible."""


class ReviewChoice(TypedDict):
    """An answer of a `Review`."""

    value: str
    label: str
    kind: ChoiceKind
    key: str
    """Its number as the buttons stand."""


class Review(TypedDict):
    """Show proposed cells in their places, or another question; it takes the place of one with the same id."""

    kind: Literal["review"]
    id: str
    request: str | None
    """The id of the `Edit` or `NewCells` that it belongs to."""
    heading: str
    text: str
    """What is asked about, where that is no cell."""
    cells: list[ShownCell]
    choices: list[ReviewChoice]
    default: str | None
    """The value of the answer that gets the focus: a no where what a yes does cannot be taken back."""
    reason: bool
    """Whether a no may say what is wanted instead."""


class ReviewOver(TypedDict):
    """A review was answered elsewhere, or is over without an answer."""

    kind: Literal["review_over"]
    id: str


class EditOver(TypedDict):
    """A request is over."""

    kind: Literal["edit_over"]
    id: str
    text: str
    """What the model said besides what it proposed, or why it failed."""
    failed: bool


class AskPage(TypedDict):
    """Ask the page about its notebook, or to change it: a `PageReply`."""

    kind: Literal["ask_page"]
    request: JsonObject
    """A request of `docs/page_protocol.md`."""


class Variable(TypedDict):
    """A variable of the user's."""

    name: str
    type: str
    """The name of its class."""


class Variables(TypedDict):
    """The user's variables, the newest first."""

    kind: Literal["variables"]
    variables: list[Variable]


class OutdatedCell(TypedDict):
    """Values in the answers of a cell that do not hold."""

    cell: str
    """The cell's id."""
    outdated: OutdatedValues


class Outdated(TypedDict):
    """What of the answers of cells does not hold; all of it, whenever any of it changes."""

    kind: Literal["outdated"]
    cells: list[OutdatedCell]
    problem: str
    """Why the last `CheckValues` could not be carried out; else empty."""


ToDoor: TypeAlias = State | Variables | Draft | Review | ReviewOver | EditOver | AskPage | Outdated
"""What the extension is sent."""


_read = cache(partial(reader, FromDoor))


def parse(content: object) -> FromDoor:
    """Validate a message of the extension.

    Args:
        content: The message's content as it came: any JSON value.

    Raises:
        RejectedError: It is none.
    """
    try:
        return _read()(content)
    except InvalidFieldsError as error:
        raise RejectedError(problem_of(error)) from error
