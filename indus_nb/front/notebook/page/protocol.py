"""The protocol between a widget in the kernel and the pages that show it: every message, operation and state key.

What this module promises:

- Messages from a page (`FromPage`) come from any user who can write into the notebook. `parse` is the only way in. What
  it returns is valid, within the limits below, and understood by that kind of widget. What it rejects changes nothing.
- Messages to a page (`ToPage`) are JSON values. `Patch` messages are numbered without a gap. A page that misses a
  number sends `Resync` and is sent a `Full` message, which holds all that the patches until then amount to.
- `docs/page_protocol.md` and `static/protocol.d.ts` are generated from the names, types and docstrings of this module
  and of `states`, the values that `SetState` sends
  (``INDUS_NB_WRITE_DOCS=1 python -m pytest tests/notebook/test_page_protocol.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Literal, NamedTuple, NotRequired, TypeAlias, TypedDict, cast

from indus_nb.base import textcut
from indus_nb.base.messages import Attachment, ImageContent, check_image
from indus_nb.base.readers import InvalidFieldsError, Limits, Reader, reader
from indus_nb.base.wire import JsonObject
from indus_nb.base.wire_model import WireModel, wire_field
from indus_nb.core.session.dialogs import Confirm, Editor, Input, NotifyType, Select
from indus_nb.core.session.questions import ChoiceKind
from indus_nb.front.notebook.page.states import PanelState
from indus_nb.front.verbs import VERBS, Verb
from indus_nb.front.verbs.verb import MAX_TEXT_CHARACTERS

WidgetKind = Literal["cell", "panel", "keys"]
"""The live tail of a run in a cell, a whole session with everything to steer it, or a form for a key."""

MAX_NAME_CHARACTERS = 500
MAX_PAGE_NAME_CHARACTERS = 100
MAX_FILE_NAME_CHARACTERS = 255
MAX_FILE_BYTES = 5_000_000
MAX_KEY_CHARACTERS = 2_000
MAX_IMAGES = 8
MAX_IMAGE_BYTES = 5_000_000

Text = Annotated[str, Limits(max_length=MAX_TEXT_CHARACTERS)]
Name = Annotated[str, Limits(max_length=MAX_NAME_CHARACTERS)]


# From a page


class PageMessage(WireModel, unknown="ignored", strict=True):
    """What every message of a page holds."""

    page: Annotated[str, Limits(max_length=MAX_PAGE_NAME_CHARACTERS)] = ""
    """A random name of the page, until it is loaded again."""


class Ready(PageMessage):
    """The handshake: the page shows the widget and can answer. A `Full` message follows."""

    kind: Literal["ready"]


class Resync(PageMessage):
    """The page missed a patch. A `Full` message follows."""

    kind: Literal["resync"]


class Moved(PageMessage):
    """The widget's cell stands elsewhere in the notebook: what is there is a copy, which the page gives no displays."""

    kind: Literal["moved"]


class Reply(PageMessage):
    """The answer to a `PageRequest`."""

    kind: Literal["reply"]
    id: Name
    value: Annotated[JsonObject, "CellList | CellsChanged | CellsRun | RunShown | CellRan | CannotDo"]


class Stop(PageMessage):
    """End what goes on; what is queued stays queued."""

    kind: Literal["stop"]


class DialogShown(PageMessage):
    """A view shows an open dialog, or will once those before it are over."""

    kind: Literal["dialog_shown"]
    id: Name


class AnswerDialog(PageMessage):
    """Answer an open dialog. ``null``, and every value that no dialog asks for, dismisses it."""

    kind: Literal["answer"]
    id: Name
    value: str | bool | None = None
    reason: Text | None = None
    """Why, where the question takes a reason."""

    @classmethod
    def usual_shape(cls, given: JsonObject) -> JsonObject:
        """Return the message without a value that no dialog asks for."""
        value: object = given.get("value")
        is_too_long = isinstance(value, str) and len(value) > MAX_TEXT_CHARACTERS
        return given if isinstance(value, str | bool) and not is_too_long else {**given, "value": None}


class ToCell(PageMessage):
    """Put code into a new cell of the notebook."""

    kind: Literal["to_cell"]
    code: Text


class AttachImage(PageMessage):
    """An image of the next `Prompt` of this page, which is rejected with it; servers refuse more in one message."""

    kind: Literal["image"]
    data: str
    """In base64; at most 5 MB when decoded."""
    mime_type: str
    """``image/png``, ``image/jpeg``, ``image/gif`` or ``image/webp``."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for an image that no model could be shown."""
        if len(self.data) * 3 // 4 > MAX_IMAGE_BYTES:
            raise ValueError(f"an image may have {MAX_IMAGE_BYTES // 1_000_000} MB; this one is larger")
        check_image(self.content)

    @property
    def content(self) -> ImageContent:
        """Return the image as message content."""
        return ImageContent(data=self.data, mime_type=self.mime_type)


class Prompt(PageMessage):
    """Send a user message: at once, after the tool call that runs, or when the model has finished."""

    kind: Literal["prompt"]
    text: Text
    how: Literal["send", "steer", "followUp"] = "send"
    literal: bool = False
    """Whether several lines of it were pasted, which may be of others: then nothing in it stands for a value."""
    _images: tuple[ImageContent, ...] = ()
    _along: tuple[Attachment, ...] = ()

    @property
    def images(self) -> Sequence[ImageContent]:
        """Return the images that came before the prompt."""
        return self._images

    @property
    def along(self) -> Sequence[Attachment]:
        """Return what the kernel lets go along with the prompt."""
        return self._along

    def attach(self, images: Sequence[ImageContent] = (), along: Sequence[Attachment] = ()) -> None:
        """Attach the images that came before the prompt, and what goes along with it."""
        self._images, self._along = tuple(images), tuple(along)


class Unqueue(PageMessage):
    """Move a queued message back into the composer."""

    kind: Literal["unqueue"]
    queue: Literal["steering", "followUp"]
    index: int = wire_field(ge=0)
    """Where the page shows it; deliveries since then have moved it towards the front."""
    text: Text
    """As the page shows it."""


class SendQueued(PageMessage):
    """Send the queued messages, in their order. Does nothing while a run goes on, which delivers them by itself."""

    kind: Literal["send_queued"]


class Undo(PageMessage):
    """Take back what the agent's last call changed in variables, files and cells."""

    kind: Literal["undo"]


class Export(PageMessage):
    """Ask for the session as an HTML page; it comes in the state ``download``."""

    kind: Literal["export"]


class ShowTree(PageMessage):
    """Ask for the entries of the session; they come in the state ``tree``, from then on whenever they change."""

    kind: Literal["show_tree"]


class Switch(PageMessage):
    """Switch a way of working: code that changes something becomes cells, or the next prompt is planned first."""

    kind: Literal["switch"]
    mode: Literal["cells", "plan"]
    on: bool


class Complete(PageMessage):
    """Ask how the beginning of a prompt may go on; that comes in the state ``completions``."""

    kind: Literal["complete"]
    text: Text


class SaveFile(PageMessage):
    """Save a file that was dropped on the panel, after a question; its path comes in the state ``inserted``."""

    kind: Literal["file"]
    name: Annotated[str, Limits(max_length=MAX_FILE_NAME_CHARACTERS)]
    data: Annotated[str, Limits(max_length=MAX_FILE_BYTES * 4 // 3 + 4)]
    """In base64; at most 5 MB when decoded."""


class CopyAnswer(PageMessage):
    """Ask for an answer of the model as it was written, in Markdown; it comes in the state ``copied``."""

    kind: Literal["copy"]
    block: Name
    """The key of a block of it."""


class CheckValues(PageMessage):
    """Compute the values in answers again that may be others now."""

    kind: Literal["check_values"]


class GiveKey(PageMessage):
    """Test a key, and use it; what is wrong with it comes in the state ``keys``."""

    kind: Literal["key"]
    provider: Name
    key: str = wire_field(repr=False, max_length=MAX_KEY_CHARACTERS)
    keep: bool
    """Whether to keep it in the place that the form names; else it ends with the kernel."""


CellRequest: TypeAlias = Stop | AnswerDialog | ToCell
"""What a page may ask of a run in a cell."""
PanelRequest: TypeAlias = (
    CellRequest
    | Prompt
    | Unqueue
    | SendQueued
    | Undo
    | Export
    | ShowTree
    | Switch
    | Complete
    | SaveFile
    | CopyAnswer
    | CheckValues
    | GiveKey
    | Verb
)
"""What a page may ask of a panel: besides what is its own, the verbs that are for pages."""
FromCellPage: TypeAlias = Ready | Resync | Moved | Reply | DialogShown | CellRequest
FromKeysPage: TypeAlias = Ready | Resync | GiveKey
_OfPanels: TypeAlias = (
    AttachImage
    | Prompt
    | Unqueue
    | SendQueued
    | Undo
    | Export
    | ShowTree
    | Switch
    | Complete
    | SaveFile
    | CopyAnswer
    | CheckValues
)
FromPage: TypeAlias = FromCellPage | _OfPanels | GiveKey
"""What a page may send; a panel's page also verbs."""
PAGE_VERBS: Mapping[str, type[Verb]] = {verb.names[0]: verb for verb in dict.fromkeys(VERBS.values()) if verb.for_pages}
"""The verbs that a panel's page may ask for, by ``kind``."""


class Asked(NamedTuple):
    """A verb that a page asks for; its fields stand beside those of every message."""

    page: str
    verb: Verb


class RejectedError(ValueError):
    """A message is none, or none for that kind of widget. Says why on one line that holds nothing of its values."""


_readers: Mapping[WidgetKind, Callable[[], Reader]] = {
    "cell": cache(partial(reader, FromCellPage)),
    "panel": cache(partial(reader, FromPage)),
    "keys": cache(partial(reader, FromKeysPage)),
}


def parse(content: object, kind: WidgetKind) -> FromPage | Asked:
    """Validate a message of a page.

    Args:
        content: The message's content as it came: any JSON value.

    Raises:
        RejectedError: It is none, or none for that kind of widget.
    """
    named = cast("JsonObject", content).get("kind") if isinstance(content, dict) else None
    verb = PAGE_VERBS.get(named) if kind == "panel" and isinstance(named, str) else None
    try:
        if verb is None:
            return _readers[kind]()(content)
        return Asked(PageMessage.from_wire(content).page, verb.from_wire(content))
    except InvalidFieldsError as error:
        raise RejectedError(problem_of(error, "" if verb is None else f"{named}.")) from error


def problem_of(error: InvalidFieldsError, place: str = "") -> str:
    """Say on one line what is wrong with a message, without its values."""
    first = error.problems[0]
    if first.kind == "tag":
        return "there is no such message."
    return f"{place}{textcut.head(first.path, 100)}: {textcut.head(first.reason, 200)}."


# Operations: what a page does with what it shows


class Put(NamedTuple):
    """Show a block of sanitised HTML; a new key goes behind the others."""

    op: Literal["put"]
    key: str
    html: str


class Tail(NamedTuple):
    """Replace the end of a block's HTML."""

    op: Literal["tail"]
    key: str
    keep: int
    """How much of the HTML stays, in UTF-16 units."""
    html: str


class Drop(NamedTuple):
    """Remove a block."""

    op: Literal["drop"]
    key: str


class LeadToCards(NamedTuple):
    """Have numbers in the text of a block lead to the cards of calls that have put them out, and no others."""

    op: Literal["found"]
    key: str
    numbers: list[list[str]]
    """Each as it is written, followed by the keys of the blocks with its cards; in the order of the text."""


class SetState(NamedTuple):
    """Change some values of the state; the others stay."""

    op: Literal["set"]
    state: PanelState


class ShownChoice(TypedDict):
    """An answer of a `select`: one of its options, and what its button says."""

    value: str
    label: str
    kind: ChoiceKind
    key: str
    """Its number as the buttons stand, which gives it."""


class DialogLayout(TypedDict):
    """The parts of a `select`, in the order in which they are shown; together they say what its title says."""

    heading: str
    warnings: list[str]
    names: list[str]
    """Words of the warnings that are code."""
    html: str
    """What is asked about, as sanitised HTML."""
    outcome: str
    """What would happen, if that was found out."""
    choices: list[ShownChoice]
    default: str | None
    """The value of the answer that Enter gives: a no where what a yes does cannot be taken back."""
    reason: bool
    """Whether a no may come with a reason."""


class OpenDialog(NamedTuple):
    """Show a dialog until it is answered or closed; one with the id of an open one takes its place."""

    op: Literal["ask"]
    dialog: Annotated[JsonObject, "PageDialog"]
    left: float | None
    """Milliseconds until it answers itself."""
    layout: DialogLayout | None = None


class CloseDialog(NamedTuple):
    """Remove a dialog, which is over."""

    op: Literal["unask"]
    id: str


class Toast(TypedDict):
    """A line for the user to read."""

    text: str
    type: NotifyType
    n: int
    """Counts up; a page shows each once."""


class ShowToast(NamedTuple):
    """Show a line for a while."""

    op: Literal["toast"]
    toast: Toast


Operation: TypeAlias = Put | Tail | Drop | LeadToCards | SetState | OpenDialog | CloseDialog | ShowToast
PageDialog: TypeAlias = Select | Confirm | Input | Editor
"""What `OpenDialog` holds, as a session's dialogs are on every wire."""


# To a page


class Patch(TypedDict):
    """What changed since the message before."""

    kind: Literal["patch"]
    n: int
    """One more than that of the message before."""
    ops: list[Operation]


class Full(TypedDict):
    """All that there is; what the page had before goes away, its toasts excepted."""

    kind: Literal["full"]
    n: int
    """That of the last patch, whose effects are included."""
    ops: list[Operation]


class RequestOrigin(TypedDict):
    """The cell that a request comes from."""

    cell: str
    """Its id."""
    client: str | None
    """The id that the page that ran the cell has for the kernel."""


class KernelRequest(TypedDict):
    """What every request to a page holds; the page sends a `Reply` to it."""

    kind: Literal["request"]
    id: str
    page: str | None
    """The only page that shall reply."""
    origin: NotRequired[RequestOrigin]
    """The cell that asks: a page of another notebook replies that it is ``elsewhere``, and does nothing."""


class ListCells(KernelRequest):
    """Ask for the cells of the notebook: a `CellList`."""

    what: Literal["cells"]
    outputs: NotRequired[bool]
    """Whether to answer with their outputs too, in short: texts, and which other types there are."""
    whole: NotRequired[str]
    """The id of a cell whose outputs come as they are, each as far as a message has room for it."""


class AgentMark(TypedDict):
    """Where a cell of the agent's comes from."""

    run: str
    """The same for all cells of a prompt."""
    call: str
    """The id of the tool call."""
    asked: NotRequired[str]
    """The id of the cell whose prompt it was of."""


class CellEdit(TypedDict):
    """A change of one cell."""

    cell: str
    """The cell's id, a new one's too."""
    type: Literal["code", "markdown"]
    old: str | None
    """The source that it must have for that; ``null`` if it must not be there."""
    source: str | None
    """The source that it gets; ``null`` if it is removed."""
    after: str | None
    """The id of the cell above a new one; empty for the top, ``null`` for the cell that shows the widget."""
    outputs: list[JsonObject]
    """Of a new code cell, in the form of the notebook format."""
    agent: NotRequired[AgentMark]
    """That the agent wrote a new cell."""


class ChangeCells(KernelRequest):
    """Insert, change and remove cells in order, all of them or none: a `CellsChanged`."""

    what: Literal["change_cells"]
    edits: list[CellEdit]


class RunCells(KernelRequest):
    """Run cells, once the kernel is free: a `CellsRun`."""

    what: Literal["run_cells"]
    cells: list[str]
    """The ids of code cells, in the order in which to run them; without any it only says whether it could."""


class RunOutput(TypedDict):
    """A display of a cell."""

    data: JsonObject
    """Its MIME bundle."""
    metadata: JsonObject


class ShowRun(KernelRequest):
    """Have the outputs of a run in the notebook: a `RunShown`. A page that gets them as displays does nothing."""

    what: Literal["show_run"]
    cell: str
    """The id of the cell that it belongs to."""
    client: str | None
    """The id that the page that ran the cell has for the kernel."""
    widget: str
    """The widget's id."""
    source: str
    """What the cell held when it ran."""
    asked: RunOutput
    """What stands above the outputs in a cell that holds something else."""
    outputs: list[RunOutput]
    over: bool
    """Whether the run is over, so that its widget will not be there any more."""
    missed: bool
    """Whether no page was there when it ended."""


class RanEmpty(KernelRequest):
    """Ask whether a cell showed no output when the page last ran it, which only the extension knows: a `CellRan`."""

    what: Literal["ran_empty"]
    cell: str
    """The cell's id."""


PageRequest: TypeAlias = ListCells | ChangeCells | RunCells | ShowRun | RanEmpty
ToPage: TypeAlias = Patch | Full | PageRequest


class NotebookCell(TypedDict):
    """A cell as the page has it."""

    id: str
    type: str
    source: str
    executionCount: int | None
    tags: NotRequired[list[str]]
    agent: NotRequired[AgentMark]
    """That the agent wrote it, and has run what it wrote then."""
    outputs: NotRequired[list[JsonObject]]


class CellList(TypedDict):
    """The cells of the notebook, from top to bottom."""

    cells: list[NotebookCell]
    path: NotRequired[str]
    """Where the notebook lies, below the directory of Jupyter's server."""
    saved: NotRequired[str]
    """The time of that file when the page last read or wrote it, as ISO 8601; empty if it does not know."""
    shared: NotRequired[bool]
    """Whether all pages that show the notebook have the same cells, as with jupyter-collaboration."""


class RemovedCell(TypedDict):
    """A cell that was removed."""

    id: str
    outputs: list[JsonObject]
    """In the form of the notebook format; none if those of all cells are large."""
    agent: NotRequired[AgentMark]
    """That the agent wrote it."""


class CellsChanged(TypedDict):
    """All was done."""

    numbers: list[int]
    """The places of the cells now, in the order of the edits and counted from 1; 0 for removed ones."""
    removed: list[RemovedCell]


class CellsRun(TypedDict):
    """The cells that the kernel was asked to run."""

    ids: list[str]
    path: NotRequired[str]
    """As in a `CellList`."""


class RunShown(TypedDict):
    """How the outputs of a run come into the page's notebook."""

    gets: Literal["displays", "nothing", "writes"]
    """As displays, for it ran the cell; not by it, which shares the notebook or has the widget; or it wrote them."""


class CellRan(TypedDict):
    """What a cell showed when the page last ran it."""

    empty: bool | None
    """Whether that was no output; ``null`` where the page did not run it."""


class CannotDo(TypedDict):
    """Why the page did not do it.

    ``unavailable`` where the front end gives no access to its notebook, ``elsewhere`` where another one has the cell
    that asks.
    """

    error: str
