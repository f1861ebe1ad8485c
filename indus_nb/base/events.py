"""What happens in a session, as one union of events.

The life of one prompt::

    agent_start
      turn_start                          one turn = one answer and its tool calls
        message_start, message_end        each user message of this turn
        message_start                     the answer begins
          message_update ...              start, block starts, deltas and ends, then done or error
        message_end                       the answer is whole (or failed: see its stopReason)
        tool_execution_start              a call really starts
          tool_execution_update ...       output so far, accumulated
        tool_execution_end                in order of completion
        message_start, message_end        one tool result per call, in the model's order
      turn_end                            the answer and its tool results
      ttsr_triggered                      a stream rule stopped the answer: the model reads it in a further turn
      todo_reminder                       the model would stop with open tasks: it is reminded in a further turn
      turn_start ... turn_end             until the model calls no more tools and nothing is queued
    agent_end                             the messages of this run; with willRetry a retry follows after a wait
    auto_retry_start                      the answer failed for a reason that may pass: a wait, then a new run
    auto_retry_end                        after the first good message_end, or when no attempt is left
    compaction_start, compaction_end      before a run, or after it; with willRetry a new run follows
    agent_settled                         nothing will go on by itself

A run that fails or is aborted emits the same frame around what there was: no start without its end. Events that come
whenever their cause does: ``queue_update``, ``job_update``, ``model_changed``, ``thinking_level_changed``,
``session_info_changed``, ``bash_execution_update``, and while the tool ``agents`` runs ``subagent_lifecycle``,
``subagent_progress``, ``subagent_event``. What an event reports is stored before it is published to
subscribers; if the session file cannot be written, ``session_save_failed`` follows. Events are immutable: all receivers
get the same object.

Every change of what the session holds is announced, so that no polling is needed::

    session_replaced                      another session (or another state of its file) is in the place of this one
    branch_moved                          the session goes on from another entry
    entry_added                           an entry was appended to the session, and is its leaf now

``entry_added`` follows the event that caused the entry (``message_end``, ``model_changed``, ``session_info_changed``,
``branch_moved``, ...) and comes by itself where there is none (labels, entries of extensions). The entry of a
compaction is announced between ``compaction_start`` and ``compaction_end``. Entries are announced in the order of the
file, a parent before its children. What a session holds when it is opened, or when it replaces another, is not
announced again.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from indus_nb.base.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingLevel,
    ToolResultMessage,
)
from indus_nb.base.streaming import AssistantMessageEvent, GrowingMessage
from indus_nb.base.wire import JsonObject
from indus_nb.base.wire_model import FrozenModel, WireModel, wire_field

CompactionReason = Literal["manual", "threshold", "overflow"]
SubagentStatus = Literal["pending", "running", "completed", "failed", "aborted"]
JobState = Literal["running", "ended", "failed", "stopped"]


class Event(FrozenModel):
    """Something that has happened; it never changes, so extensions, session file and subscribers see the same."""


class AgentStart(Event):
    """A run begins."""

    type: Literal["agent_start"] = "agent_start"


class AgentEnd(Event):
    """A run ends; ``messages`` are all that it added.

    With ``will_retry`` the answer failed for a reason that may pass, and is retried after a wait that only an abort
    ends. After an answer that overflowed the model's context ``CompactionEnd.will_retry`` announces the retry instead.
    """

    type: Literal["agent_end"] = "agent_end"
    messages: list[Message]
    will_retry: bool = False


class AgentSettled(Event):
    """The session is idle: no run, no retry, nothing queued that could be delivered."""

    type: Literal["agent_settled"] = "agent_settled"


class TurnStart(Event):
    """A turn begins: the model is about to be asked."""

    type: Literal["turn_start"] = "turn_start"
    turn_index: int = wire_field(default=0, hidden=True)
    """Which turn of its run it is, counted from 0."""
    timestamp: int = wire_field(default=0, hidden=True)
    """When it began, in ms since 1970."""


class TurnEnd(Event):
    """A turn ends: the answer and the results of its tool calls are there."""

    type: Literal["turn_end"] = "turn_end"
    message: AssistantMessage
    tool_results: list[ToolResultMessage]
    turn_index: int = wire_field(default=0, hidden=True)


class MessageStart(Event):
    """A message begins; an assistant's is empty then, every other one whole."""

    type: Literal["message_start"] = "message_start"
    message: Message


class MessageUpdate(Event):
    """The answer grew by ``assistant_message_event``; ``growing`` is the whole of it, ``message`` a copy of that."""

    type: Literal["message_update"] = "message_update"
    assistant_message_event: AssistantMessageEvent
    growing: Any = wire_field(hidden=True)

    @property
    def message(self) -> AssistantMessage:
        """Return the answer so far, copied at each access."""
        growing: GrowingMessage = self.growing
        return growing.snapshot()


class MessageEnd(Event):
    """A message is final."""

    type: Literal["message_end"] = "message_end"
    message: Message


class ToolOutput(WireModel):
    """What a tool gave so far, or at the end."""

    content: list[TextContent | ImageContent]
    details: Any = None
    terminate: bool = wire_field(default=False, hidden=True)
    """Whether the model need not be asked again, if the other calls of its message set it too."""
    ends: list[str] | None = wire_field(default=None, hidden=True)
    """Beginning and end of the text, where ``content`` holds a part of it."""
    shortened: str | None = wire_field(default=None, hidden=True)
    """What a model reads in the place of a long text."""


class ToolExecutionStart(Event):
    """A tool call starts."""

    type: Literal["tool_execution_start"] = "tool_execution_start"
    tool_call_id: str
    tool_name: str
    args: JsonObject


class ToolExecutionUpdate(Event):
    """A running tool's output so far; each update replaces the one before."""

    type: Literal["tool_execution_update"] = "tool_execution_update"
    tool_call_id: str
    tool_name: str
    args: JsonObject
    partial_result: ToolOutput


class ToolExecutionEnd(Event):
    """A tool call has its result."""

    type: Literal["tool_execution_end"] = "tool_execution_end"
    tool_call_id: str
    tool_name: str
    result: ToolOutput
    is_error: bool


class QueueUpdate(Event):
    """The queues changed; these are the texts that wait."""

    type: Literal["queue_update"] = "queue_update"
    steering: list[str]
    follow_up: list[str]


class JobInfo(WireModel):
    """A call that goes on after its result, and how it is."""

    id: str
    tool: str
    title: str
    """What it does, in a line."""
    state: JobState
    seconds: float
    """How long it has run, or ran."""


class JobUpdate(Event):
    """A call goes on as a job from now on (``running``), or a job is over: ``ended``, ``failed`` or ``stopped``."""

    type: Literal["job_update"] = "job_update"
    job: JobInfo


class ModelChanged(Event):
    """The session uses another model from now on."""

    type: Literal["model_changed"] = "model_changed"
    provider: str
    model_id: str


class ThinkingLevelChanged(Event):
    """The session uses another thinking level from now on."""

    type: Literal["thinking_level_changed"] = "thinking_level_changed"
    level: ThinkingLevel


class AutoRetryStart(Event):
    """The answer failed for a reason that may pass; it is retried after ``delay_ms``."""

    type: Literal["auto_retry_start"] = "auto_retry_start"
    attempt: int
    max_attempts: int
    delay_ms: int
    error_message: str


class AutoRetryEnd(Event):
    """Retrying is over; ``attempt`` is the one that decided."""

    type: Literal["auto_retry_end"] = "auto_retry_end"
    success: bool
    attempt: int
    final_error: str | None = None


class CompactionStart(Event):
    """The older part of the conversation is about to be summarised."""

    type: Literal["compaction_start"] = "compaction_start"
    reason: CompactionReason


class CompactionEnd(Event):
    """A compaction ended; without a ``result`` nothing has changed, ``aborted`` or ``error_message`` is the reason."""

    type: Literal["compaction_end"] = "compaction_end"
    reason: CompactionReason
    result: JsonObject | None
    aborted: bool = False
    will_retry: bool = False
    error_message: str | None = None


class ExtensionError(Event):
    """An extension failed on an event; the run continues."""

    type: Literal["extension_error"] = "extension_error"
    extension_path: str
    event: str
    error: str


class TodoReminder(Event):
    """The model stopped with open tasks, and is reminded of ``todos``; at most ``max_attempts`` times for a prompt."""

    type: Literal["todo_reminder"] = "todo_reminder"
    todos: list[JsonObject]
    attempt: int
    max_attempts: int


class TodoAutoClear(Event):
    """Every task was closed for a while, and the list was emptied."""

    type: Literal["todo_auto_clear"] = "todo_auto_clear"


class TtsrTriggered(Event):
    """Stream rules stopped an answer; the model is shown them and answers again."""

    type: Literal["ttsr_triggered"] = "ttsr_triggered"
    rules: list[JsonObject]


class SubagentInfo(WireModel):
    """A sub-agent, and what it does at present; times in ms, ``cost`` in US dollars."""

    index: int
    id: str
    """The id of its session."""
    agent: str = "task"
    agent_source: str = "bundled"
    status: SubagentStatus = "pending"
    task: str
    """What it was asked to do."""
    description: str
    """The same in a few words."""
    current_tool: str | None = None
    current_tool_args: str | None = None
    recent_tools: list[JsonObject] = wire_field(default_factory=list[JsonObject])
    recent_output: list[str] = wire_field(default_factory=list[str])
    """The last lines of its newest answer, the last one first."""
    tool_count: int = 0
    requests: int = 0
    tokens: int = 0
    cost: float = 0.0
    duration_ms: int = 0


class SubagentLifecyclePayload(WireModel):
    """A sub-agent begins or ends."""

    id: str
    agent: str = "task"
    agent_source: str = "bundled"
    parent_tool_call_id: str
    description: str
    status: Literal["started", "completed", "failed", "aborted"]
    session_file: str | None = None
    """``None`` if it is never saved."""
    index: int


class SubagentProgressPayload(WireModel):
    """What a sub-agent does at present."""

    index: int
    agent: str = "task"
    agent_source: str = "bundled"
    task: str
    parent_tool_call_id: str
    session_file: str | None = None
    progress: SubagentInfo


class SubagentLifecycle(Event):
    """A sub-agent of the tool ``agents`` begins (``started``), or has ended: ``completed``, ``failed``, ``aborted``."""

    type: Literal["subagent_lifecycle"] = "subagent_lifecycle"
    payload: SubagentLifecyclePayload


class SubagentProgress(Event):
    """What a sub-agent of the tool ``agents`` does now, what it has done so far, and what that has cost."""

    type: Literal["subagent_progress"] = "subagent_progress"
    payload: SubagentProgressPayload


class SubagentEventPayload(WireModel):
    """An event of a sub-agent's session; ``id`` is that of the sub-agent."""

    id: str
    event: Any


class SubagentEvent(Event):
    """Something has happened in the session of a sub-agent. Its answers are whole: ``message_update`` is left out."""

    type: Literal["subagent_event"] = "subagent_event"
    payload: SubagentEventPayload


class SessionInfoChanged(Event):
    """The session was given a name."""

    type: Literal["session_info_changed"] = "session_info_changed"
    name: str | None


class SessionSaveFailed(Event):
    """The session file could not be written; ``unsaved`` messages are in memory only.

    Saving is retried later, but not where the file never could be made: such a session goes on in memory, and this is
    its only event of the kind.
    """

    type: Literal["session_save_failed"] = "session_save_failed"
    error: str
    unsaved: int


class SessionReplaced(Event):
    """Another session has replaced the one before; ``resume`` may also be the same file, read again."""

    type: Literal["session_replaced"] = "session_replaced"
    reason: Literal["new", "resume", "fork"]
    session_id: str
    session_file: str | None
    """``None`` for a session that is never saved; a new one's file appears with its first message."""

    dropped: list[str] | None = None
    """The messages that waited in queues of the one before, and that nobody is told any more."""


class BranchMoved(Event):
    """The session continues from another entry, ``leaf_id``; ``None`` stands for the place before its first entry."""

    type: Literal["branch_moved"] = "branch_moved"
    leaf_id: str | None
    old_leaf_id: str | None


class EntryAdded(Event):
    """An entry was appended to the session, below ``parent_id``; its content is in the session."""

    type: Literal["entry_added"] = "entry_added"
    entry_id: str
    parent_id: str | None
    """``None`` for a root."""
    entry_type: str
    """As in the session file: ``message``, ``model_change``, ``label``, ``compaction``, ``custom``, …."""


class BashExecutionUpdate(Event):
    """More output of a command that the user runs; ``command_id`` is the caller's id for it."""

    type: Literal["bash_execution_update"] = "bash_execution_update"
    command_id: str | int | None = wire_field(default=None, key="id")
    delta: str


AgentEvent: TypeAlias = (
    AgentStart
    | AgentEnd
    | TurnStart
    | TurnEnd
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolExecutionStart
    | ToolExecutionUpdate
    | ToolExecutionEnd
)
SessionEvent: TypeAlias = (
    AgentEvent
    | AgentSettled
    | QueueUpdate
    | JobUpdate
    | ModelChanged
    | ThinkingLevelChanged
    | TtsrTriggered
    | TodoReminder
    | TodoAutoClear
    | SubagentLifecycle
    | SubagentProgress
    | SubagentEvent
    | AutoRetryStart
    | AutoRetryEnd
    | CompactionStart
    | CompactionEnd
    | SessionInfoChanged
    | SessionSaveFailed
    | SessionReplaced
    | BranchMoved
    | EntryAdded
    | ExtensionError
    | BashExecutionUpdate
)
