"""Events for extensions, and the answers that their handlers may return.

A handler gets the event and a context, and returns nothing, an answer of the class that stands with the event in
``ANSWERS``, or a dictionary of the same fields. What happens during a run are the session's own events
(``indus_nb.base.events``); the classes here are those that only extensions see.

The order within one prompt: ``input``, ``before_agent_start``, ``agent_start``, then for each turn ``turn_start``,
``context``, ``before_provider_request``, ``after_provider_response``, the answer's ``message_*``, for each tool call
``tool_execution_start``, ``tool_call``, ``tool_begin``, ``tool_execution_update``, ``tool_result``,
``tool_execution_end``, and at last ``turn_end`` and ``agent_end``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from indus_nb.base.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingLevel,
    ToolResultMessage,
)
from indus_nb.base.wire import JsonObject
from indus_nb.base.wire_model import WireModel, wire_field
from indus_nb.core.loop import AbortSignal
from indus_nb.core.session.compaction import Preparation
from indus_nb.core.session.hooks import BranchChange, InputSource, ShutdownReason, StartReason
from indus_nb.core.storage.entries import Entry
from indus_nb.models import Model
from indus_nb.tools import Shell
from indus_nb.tools.description import Target
from indus_nb.tools.tool import CallGate

# Events


@dataclass(slots=True)
class ResourcesDiscover:
    """Extensions may name more places for skills and prompt templates."""

    type: ClassVar[str] = "resources_discover"
    cwd: Path
    reason: Literal["startup", "reload"]


@dataclass(slots=True)
class SessionStart:
    """A session has started: it was opened, or it replaced another."""

    type: ClassVar[str] = "session_start"
    reason: StartReason
    previous_session_file: Path | None = None


@dataclass(slots=True)
class SessionBeforeSwitch:
    """Another session is about to replace this one."""

    type: ClassVar[str] = "session_before_switch"
    reason: Literal["new", "resume"]
    target_session_file: Path | None = None


@dataclass(slots=True)
class SessionBeforeFork:
    """A new session is about to begin before, or at, an entry of this one."""

    type: ClassVar[str] = "session_before_fork"
    entry_id: str
    position: Literal["before", "at"]


@dataclass(slots=True)
class SessionBeforeBranch:
    """The same as `session_before_fork`, by its other name; asked after it."""

    type: ClassVar[str] = "session_before_branch"
    entry_id: str


@dataclass(slots=True)
class SessionSwitch:
    """Another session has replaced the one before; published after `session_start`."""

    type: ClassVar[str] = "session_switch"
    reason: Literal["new", "resume"]
    previous_session_file: Path | None = None


@dataclass(slots=True)
class SessionBranch:
    """A forked session has replaced the one before; published after `session_start`."""

    type: ClassVar[str] = "session_branch"
    previous_session_file: Path | None = None


@dataclass(slots=True)
class SessionBeforeCompact:
    """The older part of the conversation is about to become a summary."""

    type: ClassVar[str] = "session_before_compact"
    preparation: Preparation
    branch_entries: Sequence[Entry]
    custom_instructions: str | None
    signal: AbortSignal


@dataclass(slots=True)
class SessionCompact:
    """A compaction was saved."""

    type: ClassVar[str] = "session_compact"
    compaction_entry: Entry
    from_extension: bool


@dataclass(slots=True)
class SessionBeforeTree:
    """The session is about to continue from another branch."""

    type: ClassVar[str] = "session_before_tree"
    preparation: BranchChange
    signal: AbortSignal


@dataclass(slots=True)
class SessionTree:
    """The session continues from another branch."""

    type: ClassVar[str] = "session_tree"
    new_leaf_id: str | None
    old_leaf_id: str | None
    summary_entry: Entry | None = None
    from_extension: bool = False


@dataclass(slots=True)
class SessionShutdown:
    """The session ends, or another one replaces it."""

    type: ClassVar[str] = "session_shutdown"
    reason: ShutdownReason
    target_session_file: Path | None = None


@dataclass(slots=True)
class UserInput:
    """The user sent a prompt that is no extension's command."""

    type: ClassVar[str] = "input"
    text: str
    images: Sequence[ImageContent]
    source: InputSource


@dataclass(slots=True)
class BeforeAgentStart:
    """A prompt was accepted; ``system_prompt`` is what it has become so far."""

    type: ClassVar[str] = "before_agent_start"
    prompt: str
    images: Sequence[ImageContent]
    system_prompt: str


@dataclass(slots=True)
class TurnBegins:
    """The model is about to be asked for the ``turn_index``-th time in this run, counted from 0."""

    type: ClassVar[str] = "turn_start"
    turn_index: int
    timestamp: int


@dataclass(slots=True)
class TurnEnds:
    """The answer and the results of its tool calls are there."""

    type: ClassVar[str] = "turn_end"
    turn_index: int
    message: AssistantMessage
    tool_results: Sequence[ToolResultMessage]


@dataclass(slots=True)
class ModelContext:
    """The model is about to be asked; ``messages`` is a copy."""

    type: ClassVar[str] = "context"
    messages: list[Message]


@dataclass(slots=True)
class BeforeProviderRequest:
    """The body of a request is ready."""

    type: ClassVar[str] = "before_provider_request"
    payload: Any


@dataclass(slots=True)
class AfterProviderResponse:
    """The head of a response has come."""

    type: ClassVar[str] = "after_provider_response"
    status: int
    headers: Mapping[str, str]


@dataclass(slots=True)
class MessageFinal:
    """A message is final unless a handler answers with another of the same role."""

    type: ClassVar[str] = "message_end"
    message: Message


@dataclass(slots=True)
class ToolCallEvent:
    """A tool is about to run; ``input`` may be changed in place.

    A handler that asks about a file sets ``target`` to what was asked about, and the tool opens that and no other. One
    that leaves it to the tool to find out what the call does sets ``gate``, which then decides. ``caller`` is the name
    of another program that makes the call, empty where it is the model.
    """

    type: ClassVar[str] = "tool_call"
    tool_call_id: str
    tool_name: str
    input: JsonObject
    target: Target | None = None
    caller: str = ""
    gate: CallGate | None = None


@dataclass(slots=True)
class ToolBegin:
    """A tool call was allowed, and the tool runs next; ``target`` is the file that was asked about, if one was."""

    type: ClassVar[str] = "tool_begin"
    tool_call_id: str
    tool_name: str
    input: JsonObject
    target: Target | None = None


@dataclass(slots=True)
class ToolResultEvent:
    """A tool has run."""

    type: ClassVar[str] = "tool_result"
    tool_call_id: str
    tool_name: str
    input: JsonObject
    content: Sequence[TextContent | ImageContent]
    details: Any
    is_error: bool


@dataclass(slots=True)
class ModelSelect:
    """Another model was chosen."""

    type: ClassVar[str] = "model_select"
    model: Model
    previous_model: Model | None
    source: Literal["set", "cycle", "restore"]


@dataclass(slots=True)
class ThinkingLevelSelect:
    """Another thinking level was chosen."""

    type: ClassVar[str] = "thinking_level_select"
    level: ThinkingLevel
    previous_level: ThinkingLevel


@dataclass(slots=True)
class UserBash:
    """The user runs a shell command."""

    type: ClassVar[str] = "user_bash"
    command: str
    exclude_from_context: bool
    cwd: Path


ExtensionEvent = (
    ResourcesDiscover
    | SessionStart
    | SessionBeforeSwitch
    | SessionBeforeFork
    | SessionBeforeBranch
    | SessionSwitch
    | SessionBranch
    | SessionBeforeCompact
    | SessionCompact
    | SessionBeforeTree
    | SessionTree
    | SessionShutdown
    | UserInput
    | BeforeAgentStart
    | TurnBegins
    | TurnEnds
    | ModelContext
    | BeforeProviderRequest
    | AfterProviderResponse
    | MessageFinal
    | ToolCallEvent
    | ToolBegin
    | ToolResultEvent
    | ModelSelect
    | ThinkingLevelSelect
    | UserBash
)


# Answers


class Completion(WireModel):
    """What may stand behind a command; ``label`` is shown in the place of ``value``."""

    value: str
    label: str | None = None
    description: str | None = None


class Answer(WireModel, unknown="refused"):
    """The base of what handlers answer; a field that an answer does not have is a mistake."""


class ResourcesAnswer(Answer):
    """More places to look; the lists of all handlers count together."""

    skill_paths: list[str] = wire_field(default_factory=list[str])
    prompt_paths: list[str] = wire_field(default_factory=list[str])
    theme_paths: list[str] = wire_field(default_factory=list[str])


class CancelAnswer(Answer):
    """With ``cancel`` it does not happen, and no further handler is called."""

    cancel: bool = False


class ForkAnswer(CancelAnswer):
    """The same for a fork."""

    skip_conversation_restore: bool = False


class SummaryAnswer(Answer):
    """A summary written by an extension."""

    summary: str
    details: JsonObject = wire_field(default_factory=dict[str, Any])


class CompactionAnswer(SummaryAnswer):
    """A compaction written by an extension."""

    first_kept_entry_id: str
    tokens_before: int


class CompactAnswer(CancelAnswer):
    """Cancels a compaction, or makes it."""

    compaction: CompactionAnswer | None = None


class TreeAnswer(CancelAnswer):
    """Cancels the change of branch, writes its summary, or gives instructions for it."""

    summary: SummaryAnswer | None = None
    custom_instructions: str | None = None
    replace_instructions: bool | None = None
    label: str | None = None


class InputAnswer(Answer):
    """``transform`` replaces the prompt, for the handlers after this one too; ``handled`` ends it."""

    action: Literal["continue", "transform", "handled"]
    text: str | None = None
    images: list[ImageContent] | None = None


class MessageAnswer(Answer):
    """A message of an extension."""

    custom_type: str
    content: str | list[TextContent | ImageContent]
    display: bool = True
    details: Any = None


class BeforeAgentStartAnswer(Answer):
    """A message to begin with, and the system prompt for this run; messages of all handlers count.

    With ``before_prompt`` the message stands before the user's message, and not behind it.
    """

    before_prompt: bool = False
    message: MessageAnswer | None = None
    system_prompt: str | None = None


class ContextAnswer(Answer):
    """The messages that the model is sent with this request."""

    messages: list[Message] | None = None


class MessageEndAnswer(Answer):
    """The message in the place of the one that ended, of the same role."""

    message: Message | None = None


class ToolCallAnswer(Answer):
    """With ``block`` the tool does not run and the model reads ``reason``; ``input`` replaces the arguments."""

    block: bool = False
    reason: str | None = None
    input: JsonObject | None = None


class ToolResultAnswer(Answer):
    """Replaces parts of an outcome."""

    content: list[TextContent | ImageContent] | None = None
    details: Any = None
    is_error: bool | None = None


class BashResultAnswer(Answer):
    """The outcome of a user's command."""

    output: str
    exit_code: int | None = None
    cancelled: bool = False
    truncated: bool = False


class UserBashAnswer(Answer):
    """Who runs the user's command (``operations``), or what came of it; the first answer counts."""

    operations: Shell | None = None
    result: BashResultAnswer | None = None


ANSWERS: Mapping[str, type[Answer]] = {
    "resources_discover": ResourcesAnswer,
    "session_before_switch": CancelAnswer,
    "session_before_fork": ForkAnswer,
    "session_before_branch": ForkAnswer,
    "session_before_compact": CompactAnswer,
    "session_before_tree": TreeAnswer,
    "input": InputAnswer,
    "before_agent_start": BeforeAgentStartAnswer,
    "context": ContextAnswer,
    "message_end": MessageEndAnswer,
    "tool_call": ToolCallAnswer,
    "tool_result": ToolResultAnswer,
    "user_bash": UserBashAnswer,
}
"""Answer types of the events that take one. ``before_provider_request`` accepts any value: it is the body to send."""

EVENT_NAMES: frozenset[str] = frozenset(
    {
        *ANSWERS,
        "session_start",
        "tool_begin",
        "session_switch",
        "session_branch",
        "session_compact",
        "session_tree",
        "session_shutdown",
        "before_provider_request",
        "after_provider_response",
        "model_select",
        "thinking_level_select",
        "agent_start",
        "agent_end",
        "agent_settled",
        "turn_start",
        "turn_end",
        "message_start",
        "message_update",
        "tool_execution_start",
        "tool_execution_update",
        "tool_execution_end",
        "session_info_changed",
        "session_save_failed",
        "session_replaced",
        "branch_moved",
        "entry_added",
        "auto_retry_start",
        "auto_retry_end",
        "compaction_start",
        "compaction_end",
        "queue_update",
        "job_update",
        "todo_reminder",
        "todo_auto_clear",
        "subagent_lifecycle",
        "subagent_progress",
        "subagent_event",
        "ttsr_triggered",
    }
)
"""Names of events that a handler can be registered for."""


def unknown_event(name: str) -> str | None:
    """Return the problem of an event name; ``None`` if there is such an event."""
    if name in EVENT_NAMES:
        return None
    from difflib import get_close_matches

    close = get_close_matches(name, EVENT_NAMES, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else f"Events: {', '.join(sorted(EVENT_NAMES))}."
    return f"There is no event named {name!r}, so its handler is never called. {hint}"
