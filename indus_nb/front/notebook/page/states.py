"""State of the page's protocol: values that a page shows until they change.

`indus_nb.front.notebook.page.protocol` has what sends them, and all else.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


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


class SessionName(TypedDict):
    """Which session is shown."""

    name: str | None
    id: str
    begins: NotRequired[str]
    """The first words of the user in it; empty before these."""


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
    typed: dict[str, str]
    """What stands before the box of ``input()`` that asks a dialog as well, which no view showed in time; by ids."""
    saved: bool
    """Whether the conversation is kept in a file."""
    session: SessionName
    notebook: str | None
    """The id that a page notes in its notebook's metadata, unless that has one: conversations are found by it."""
    beside: str
    """What is said of a run in a line below it, and later beside its last one: what no file keeps."""
    widget: str
    """The widget's id, by which an output names it."""
    fallback: str | None
    """HTML that stands in the place of the widget where its kernel is not there; ``null`` when nothing shall."""
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
    price: str
    """US dollars for a million tokens in and out, such as ``$3 / $15``; empty if it is not known."""


class Command(TypedDict):
    """What may be prompted as ``/name``."""

    name: str
    description: str
    source: str
    """``panel``, ``extension``, ``prompt`` or ``skill``."""
    whole: bool
    """Whether it can be sent as it is. Of commands of extensions that is not known, and they count as if not."""


class Queued(TypedDict):
    """The queued messages, next one first; long ones are shortened."""

    steering: list[str]
    """Delivered after the tool call that runs."""
    followUp: list[str]
    """Delivered when the model has finished."""


class RunningJob(TypedDict):
    """A call that goes on after its result."""

    id: str
    tool: str
    title: str
    ran: str
    """How long it has run, in words: seconds, later minutes."""


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
    whole: NotRequired[bool]
    """Whether it makes a whole prompt, which Enter sends at once."""


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


class ContextFill(TypedDict):
    """How full the model's context is."""

    tokens: int
    window: int
    """In tokens."""


class CopiedAnswer(TypedDict):
    """An answer as the model wrote it. It is sent to the pages of the moment and not kept."""

    block: str
    """What was asked about."""
    text: str


class KeyChoice(TypedDict):
    """A provider of models that takes a key."""

    provider: str
    model: str
    """The name of its recommended model."""


class KeyForm(TypedDict):
    """A form for a key; what is written in it is sent once, and is no state of any page."""

    providers: list[KeyChoice]
    """None where the user gives no keys here."""
    provider: str
    """The one to begin with; empty for the first."""
    place: str
    """The name of what can keep it, the keyring or a file; empty without one."""
    notes: list[str]
    """What is to be known besides: who manages keys, what the place is like, what works without a key."""
    testing: bool
    """Whether a key is being tested."""
    problem: str
    """Why the last one was not taken."""


class OutdatedValue(TypedDict):
    """A value in an answer that may be another one now, or is."""

    expression: str
    """The title of the value."""
    value: str
    """What the answer shows."""
    now: str | None
    """What it is now; ``null`` while it was not computed again."""
    why: str


class OutdatedValues(TypedDict):
    """Values in answers that do not hold."""

    words: str
    """How many, and since when."""
    stale: bool
    """Whether some can be computed again: `CheckValues`."""
    values: list[OutdatedValue]


class PanelState(CellState, total=False):
    """The state of a panel."""

    models: list[ModelChoice]
    current_model: ModelId | None
    levels: list[str]
    """The thinking levels of the model; one that cannot think has only ``off``."""
    level: str
    commands: list[Command]
    completions: Completions
    queue: Queued
    jobs: list[RunningJob]
    code_only: bool
    """Whether all that goes on is code of the agent's that became a job: a message begins a run, and joins none."""
    kernel: bool
    """Whether it lives in a kernel that it knows, with variables, cells that ran and steps that can be undone."""
    log: bool
    """Whether it shows calls of other programs, to whom the user says nothing here."""
    closed: bool
    """Whether the panel was closed: no message follows. Not all front ends remove what showed it."""
    sessions: list[SessionRow]
    tree: list[TreeRow]
    download: Download
    context: ContextFill | None
    approve: str
    """When the user is asked: ``never``, ``effects``, ``writes`` or ``always``; with ``looks`` nothing is changed."""
    cells: bool
    """Whether code of the agent's that changes something becomes cells of the notebook."""
    plan: bool
    """Whether the next prompt is planned first."""
    examples: list[str]
    """Prompts to begin with."""
    outdated: OutdatedValues | None
    """What of the answers does not hold."""
    inserted: Composer
    """Text that goes behind what is written in the composer. A page of a later moment is not sent it again."""
    copied: CopiedAnswer
    keys: KeyForm | None
    """Where no prompt can be sent for want of a key; also the state of a form in a cell."""
    first_prompt: str
    """Which model a conversation begins with that the user has not chosen, and at what price; else empty."""
    focus: bool
    """The panel was just opened: its newest view may take the focus. It is sent once and not kept."""
