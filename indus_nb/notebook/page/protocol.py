"""The protocol between a widget in the kernel and the pages that show it: every message, operation and state key.

What this module promises:

- Messages from a page (`FromPage`) come from whoever can write into the notebook. `parse` is the only way in. What it
  returns is valid, within the limits below, and understood by that kind of widget. What it rejects changes nothing.
- Messages to a page (`ToPage`) are JSON values. `Patch` messages are numbered without a gap. A page that misses a
  number sends `Resync` and is sent a `Full` message, which holds all that the patches until then amount to.
- `docs/page_protocol.md` and `static/protocol.d.ts` are generated from this module, names, types and docstrings
  (``INDUS_NB_WRITE_DOCS=1 python -m pytest tests/notebook/test_page_protocol.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypeAlias, TypedDict

from pydantic import ConfigDict, Field, PrivateAttr, TypeAdapter, ValidationError, field_validator, model_validator

from indus_nb import textcut
from indus_nb.messages import ImageContent, ThinkingLevel, check_image
from indus_nb.session.dialogs import Confirm, Editor, Input, NotifyType, Select
from indus_nb.wire import JsonObject, WireModel, first_problem

WidgetKind = Literal["cell", "panel"]
"""The live tail of a run in a cell, or a whole session with everything to steer it."""

MAX_TEXT_CHARACTERS = 1_000_000
MAX_NAME_CHARACTERS = 500
MAX_PATH_CHARACTERS = 10_000
MAX_PAGE_NAME_CHARACTERS = 100
MAX_IMAGES = 8
MAX_IMAGE_BYTES = 5_000_000

Text = Annotated[str, Field(max_length=MAX_TEXT_CHARACTERS)]
Name = Annotated[str, Field(max_length=MAX_NAME_CHARACTERS)]


# From a page


class PageMessage(WireModel):
    """What every message of a page holds."""

    model_config = ConfigDict(strict=True, extra="ignore")

    page: Annotated[str, Field(max_length=MAX_PAGE_NAME_CHARACTERS)] = ""
    """A random name of the page, until it is loaded again."""


class Ready(PageMessage):
    """The handshake: the page shows the widget and can answer. A `Full` message follows."""

    kind: Literal["ready"]


class Resync(PageMessage):
    """The page missed a patch. A `Full` message follows."""

    kind: Literal["resync"]


class Reply(PageMessage):
    """The answer to a `PageRequest`."""

    kind: Literal["reply"]
    id: Name
    value: Annotated[JsonObject, "CellList | CellChanged | CannotDo"]


class Stop(PageMessage):
    """End what goes on; what is queued stays queued."""

    kind: Literal["stop"]


class AnswerDialog(PageMessage):
    """Answer an open dialog. ``null``, and every value that no dialog asks for, dismisses it."""

    kind: Literal["answer"]
    id: Name
    value: str | bool | None = None

    @field_validator("value", mode="before")
    @classmethod
    def _dismiss(cls, value: object) -> str | bool | None:
        if isinstance(value, str):
            return value if len(value) <= MAX_TEXT_CHARACTERS else None
        return value if isinstance(value, bool) else None


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

    @model_validator(mode="after")
    def _check(self) -> AttachImage:
        if len(self.data) * 3 // 4 > MAX_IMAGE_BYTES:
            raise ValueError(f"an image may have {MAX_IMAGE_BYTES // 1_000_000} MB; this one is larger")
        check_image(self.content)
        return self

    @property
    def content(self) -> ImageContent:
        """The image as a part of a message."""
        return ImageContent(data=self.data, mime_type=self.mime_type)


class Prompt(PageMessage):
    """Send a user message: at once, after the tool call that runs, or when the model has finished."""

    kind: Literal["prompt"]
    text: Text
    how: Literal["send", "steer", "followUp"] = "send"
    _images: tuple[ImageContent, ...] = PrivateAttr(default=())

    @property
    def images(self) -> Sequence[ImageContent]:
        """The images that came before it."""
        return self._images

    def attach(self, images: Sequence[ImageContent]) -> None:
        """Add the images that came before it."""
        self._images = tuple(images)


class Abort(PageMessage):
    """Abort the run, and move what is queued back into the composer."""

    kind: Literal["abort"]


class Unqueue(PageMessage):
    """Move a queued message back into the composer."""

    kind: Literal["unqueue"]
    queue: Literal["steering", "followUp"]
    index: int = Field(ge=0)
    """Where the page shows it; deliveries since then have moved it towards the front."""
    text: Text
    """As the page shows it."""


class ClearQueue(PageMessage):
    """Discard all queued messages."""

    kind: Literal["clear_queue"]


class SetModel(PageMessage):
    """Choose the model, one of those in the state ``models``."""

    kind: Literal["set_model"]
    provider: Name
    id: Name


class SetThinking(PageMessage):
    """Choose the thinking level, one of those in the state ``levels``."""

    kind: Literal["set_thinking"]
    level: ThinkingLevel


class NewSession(PageMessage):
    """Begin a new session."""

    kind: Literal["new"]


class SwitchSession(PageMessage):
    """Continue with another session, one of those in the state ``sessions``."""

    kind: Literal["switch"]
    path: Annotated[str, Field(max_length=MAX_PATH_CHARACTERS)]


class Rename(PageMessage):
    """Name the session."""

    kind: Literal["rename"]
    name: Name


class Navigate(PageMessage):
    """Continue from another entry of the session."""

    kind: Literal["navigate"]
    entry: Name


class Fork(PageMessage):
    """Begin a session of its own that continues from an entry."""

    kind: Literal["fork"]
    entry: Name


class Compact(PageMessage):
    """Summarise the older part of the conversation."""

    kind: Literal["compact"]


class Export(PageMessage):
    """Ask for the session as an HTML page; it comes in the state ``download``."""

    kind: Literal["export"]


class ListSessions(PageMessage):
    """Ask for the sessions of this directory; they come in the state ``sessions``."""

    kind: Literal["list_sessions"]


class ShowTree(PageMessage):
    """Ask for the entries of the session; they come in the state ``tree``, from then on whenever they change."""

    kind: Literal["show_tree"]


class Complete(PageMessage):
    """Ask how the beginning of a prompt may go on; that comes in the state ``completions``."""

    kind: Literal["complete"]
    text: Text


CellRequest: TypeAlias = Stop | AnswerDialog | ToCell
"""What a page may ask of a run in a cell."""
PromptRequest: TypeAlias = Prompt | Abort | Unqueue | ClearQueue
SettingRequest: TypeAlias = SetModel | SetThinking | Rename
SessionRequest: TypeAlias = NewSession | SwitchSession | Navigate | Fork | Compact | Export
Question: TypeAlias = ListSessions | ShowTree | Complete
PanelRequest: TypeAlias = CellRequest | PromptRequest | SettingRequest | SessionRequest | Question
"""What a page may ask of a panel."""
FromCellPage: TypeAlias = Ready | Resync | Reply | CellRequest
FromPage: TypeAlias = Ready | Resync | Reply | AttachImage | PanelRequest


@cache
def _adapter(kind: WidgetKind) -> TypeAdapter[Any]:
    if kind == "cell":
        return TypeAdapter(Annotated[FromCellPage, Field(discriminator="kind")])
    return TypeAdapter(Annotated[FromPage, Field(discriminator="kind")])


def parse(content: object, kind: WidgetKind) -> FromPage:
    """Validate a message of a page.

    Args:
        content: The message's content as it came: any JSON value.
        kind: The kind of widget that it came to.

    Returns:
        The message.

    Raises:
        pydantic.ValidationError: It is none, or none for that kind of widget. `problem` describes why.
    """
    return _adapter(kind).validate_python(content)


def problem(error: ValidationError) -> str:
    """Describe what is wrong with a message, on one line that holds nothing of its values."""
    first = first_problem(error)
    if first.kind.startswith("union_tag"):
        return "there is no such message."
    return f"{textcut.head(first.path, 100)}: {textcut.head(first.reason, 200)}."


# State: values that a page shows until they change


class RunState(TypedDict, total=False):
    """What goes on in a run, in the line below everything else."""

    note: str
    """What is being done or waited for."""
    model: str
    """The model's name for people."""
    tokens: str
    cost: str


class Composer(TypedDict):
    """Text that the kernel puts into the composer."""

    text: str
    n: int
    """Counts up; a page applies each text once."""


class StandingLines(TypedDict):
    """Lines of an extension that stand above or below."""

    lines: list[str]
    placement: Literal["aboveEditor", "belowEditor"] | None


class CellState(RunState, total=False):
    """The state of both kinds of widget."""

    busy: bool
    """Whether something goes on that can be stopped."""
    stopping: bool
    """Whether it was asked to stop."""
    started_ms_ago: float | None
    """How long it has gone on, in milliseconds."""
    background: bool
    """Whether the cell has ended already and its run goes on."""
    title: str
    warning: str | None
    status: dict[str, str]
    """Short texts of extensions, by their keys."""
    widgets: dict[str, StandingLines]
    """Lines of extensions, by their keys."""
    composer: Composer


class ModelId(TypedDict):
    """Which model."""

    provider: str
    id: str


class ModelChoice(ModelId):
    """A model that can be chosen."""

    name: str
    reasoning: bool
    """Whether it has thinking levels."""


class SessionName(TypedDict):
    """Which session is shown."""

    name: str | None
    id: str


class Command(TypedDict):
    """What may be prompted as ``/name``."""

    name: str
    description: str
    source: str
    """``extension``, ``prompt`` or ``skill``."""


class Queued(TypedDict):
    """The queued messages, next one first; long ones are shortened."""

    steering: list[str]
    """Delivered after the tool call that runs."""
    followUp: list[str]
    """Delivered when the model has finished."""


class SessionRow(TypedDict):
    """A session that can be continued."""

    path: str
    name: str
    modified: float
    """Milliseconds since 1970."""
    messages: int
    current: bool


class TreeRow(TypedDict):
    """An entry of the session."""

    id: str | None
    """``null`` in a row that only counts the entries that are not listed."""
    depth: int
    role: str
    text: str
    leaf: bool
    """Whether a branch ends there."""
    here: bool
    """Whether the conversation is at that entry."""
    label: str | None


class Completion(TypedDict):
    """A way in which a prompt may go on."""

    text: str
    label: str
    detail: str


class Completions(TypedDict):
    """The answer to `Complete`."""

    text: str
    """What was asked about."""
    items: list[Completion]


class Download(TypedDict):
    """A file for the user. It is sent to the pages of the moment and not kept."""

    name: str
    html: str
    n: int


class PanelState(CellState, total=False):
    """The state of a panel."""

    session: SessionName
    models: list[ModelChoice]
    current_model: ModelId | None
    levels: list[str]
    """The thinking levels of the model; one that cannot think has only ``off``."""
    level: str
    commands: list[Command]
    completions: Completions
    queue: Queued
    sessions: list[SessionRow]
    tree: list[TreeRow]
    download: Download


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


class SetState(NamedTuple):
    """Change some values of the state; the others stay."""

    op: Literal["set"]
    state: PanelState


class OpenDialog(NamedTuple):
    """Show a dialog until it is answered or closed."""

    op: Literal["ask"]
    dialog: Annotated[JsonObject, "PageDialog"]
    left: float | None
    """Milliseconds until it answers itself."""


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


Operation: TypeAlias = Put | Tail | Drop | SetState | OpenDialog | CloseDialog | ShowToast
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


class KernelRequest(TypedDict):
    """What every request to a page holds; the page sends a `Reply` to it."""

    kind: Literal["request"]
    id: str
    page: str | None
    """The only page that shall reply."""


class ListCells(KernelRequest):
    """Ask for the cells of the notebook: a `CellList`."""

    what: Literal["cells"]


class InsertCell(KernelRequest):
    """Insert a cell: a `CellChanged`."""

    what: Literal["insert_cell"]
    source: str
    type: Literal["code", "markdown"]
    after: NotRequired[str | None]
    """The id of the cell above; by default the cell that shows the widget."""


class ReplaceCell(KernelRequest):
    """Change the source of a cell: a `CellChanged`."""

    what: Literal["replace_cell"]
    cell: str
    """The cell's id."""
    old: str
    """The source that it must have for that."""
    source: str


PageRequest: TypeAlias = ListCells | InsertCell | ReplaceCell
ToPage: TypeAlias = Patch | Full | PageRequest


class NotebookCell(TypedDict):
    """A cell as the page has it."""

    id: str
    type: str
    source: str
    executionCount: int | None


class CellList(TypedDict):
    """The cells of the notebook, from top to bottom."""

    cells: list[NotebookCell]


class CellChanged(TypedDict):
    """The cell that was inserted or changed."""

    id: str


class CannotDo(TypedDict):
    """Why the page did not do it; ``unavailable`` where the front end gives no access to its notebook."""

    error: str
