"""Events for extensions, and the answers that their handlers may return.

A handler gets the event and a context, and returns nothing, an answer of the class that stands with the event, or a
dictionary of the same fields. Most events are the session's own (``indus_nb.base.events``); the classes here are those
that no session publishes: what extensions are asked, and what only they are notified of. ``EVENTS`` has all of them.

The order within one prompt: ``input``, ``before_agent_start``, ``agent_start``, then for each turn ``turn_start``,
``context``, ``before_provider_request``, ``after_provider_response``, the answer's ``message_*``, for each tool call
``tool_execution_start``, ``tool_call``, ``tool_begin``, ``tool_execution_update``, ``tool_result``,
``tool_execution_end``, and at last ``turn_end`` and ``agent_end``.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar, get_args

from indus_nb.base.errors import UsageError
from indus_nb.base.events import (
    BashExecutionUpdate,
    ExtensionError,
    ModelChanged,
    SessionEvent,
    ThinkingLevelChanged,
)
from indus_nb.base.messages import Attachment, CustomMessage, ImageContent, Message, TextContent, ThinkingLevel
from indus_nb.base.readers import InvalidFieldsError
from indus_nb.base.wire import JsonObject
from indus_nb.base.wire_model import WireModel, wire_field
from indus_nb.core.loop import AbortSignal
from indus_nb.core.session.compaction import CompactionResult, Preparation
from indus_nb.core.session.hooks import BranchChange, InputSource, ShutdownReason, StartReason
from indus_nb.core.storage.entries import Entry
from indus_nb.models import Model
from indus_nb.tools import Shell
from indus_nb.tools.description import Target
from indus_nb.tools.tool import CallGate

AnswerT_co = TypeVar("AnswerT_co", bound="Answer", covariant=True)

# Answers


class Completion(WireModel):
    """What may stand behind a command; ``label`` is shown in the place of ``value``."""

    value: str
    label: str | None = None
    description: str | None = None


class Answer(WireModel, unknown="refused"):
    """The base of what handlers answer; a field that an answer does not have is a mistake."""

    changes: ClassVar[tuple[str, ...]] = ()
    """Fields that replace those of the event, also for the handlers after this one."""
    final: ClassVar[tuple[str, ...]] = ()
    """Fields with which no further handler is called."""

    @classmethod
    def of(cls, returned: object) -> Self:
        """Return what a handler returned as an answer; raises ``UsageError`` with what is wrong about it."""
        try:
            return cls.from_wire(returned).checked()
        except InvalidFieldsError as error:
            wrong = error.problems[0]
            at = f"the answer is wrong at `{wrong.path}`: {wrong.reason}"
            raise UsageError(at if wrong.path else f"{returned!r} is no answer") from error

    @property
    def ends(self) -> bool:
        """Return whether no further handler is called."""
        return any(getattr(self, name) for name in self.final)

    def change(self, event: Any) -> None:
        """Replace the fields of the event that this answer has values for.

        Raises:
            UsageError: A value cannot stand in the place of the event's.
        """
        for name in self.changes:
            if (value := getattr(self, name)) is not None:
                setattr(event, name, value)


class ResourcesAnswer(Answer):
    """More places to look; the lists of all handlers count together."""

    skill_paths: list[str] = wire_field(default_factory=list[str])
    prompt_paths: list[str] = wire_field(default_factory=list[str])
    theme_paths: list[str] = wire_field(default_factory=list[str])


class CancelAnswer(Answer):
    """With ``cancel`` it does not happen, and no further handler is called."""

    final: ClassVar[tuple[str, ...]] = ("cancel",)

    cancel: bool = False


class ForkAnswer(CancelAnswer):
    """The same for a fork."""

    skip_conversation_restore: bool = False


class SummaryAnswer(Answer):
    """A summary written by an extension."""

    summary: str
    details: JsonObject = wire_field(default_factory=dict[str, Any])


class CompactionAnswer(CompactionResult, unknown="refused"):
    """A compaction written by an extension."""

    details: Any = wire_field(default_factory=dict[str, Any])


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

    changes: ClassVar[tuple[str, ...]] = ("text", "images")

    action: Literal["continue", "transform", "handled"]
    text: str | None = None
    images: list[ImageContent] | None = None

    @property
    def ends(self) -> bool:
        """Return whether the prompt is handled."""
        return self.action == "handled"

    def change(self, event: Any) -> None:
        """Replace the prompt, if that is what was answered."""
        if self.action == "transform":
            super().change(event)


class MessageAnswer(CustomMessage, unknown="refused"):
    """A message of an extension."""


class BeforeAgentStartAnswer(Answer):
    """A message to begin with, and the system prompt for this run; messages of all handlers count.

    With ``before_prompt`` the message stands before the user's message, and not behind it.
    """

    changes: ClassVar[tuple[str, ...]] = ("system_prompt",)

    before_prompt: bool = False
    message: MessageAnswer | None = None
    system_prompt: str | None = None


class ContextAnswer(Answer):
    """The messages that the model is sent with this request."""

    changes: ClassVar[tuple[str, ...]] = ("messages",)

    messages: list[Message] | None = None


class RequestAnswer(Answer):
    """The body to send; a handler returns it as it is."""

    changes: ClassVar[tuple[str, ...]] = ("payload",)

    payload: Any

    @classmethod
    def of(cls, returned: object) -> Self:
        """Return anything as an answer."""
        return cls(payload=returned)


class MessageEndAnswer(Answer):
    """The message in the place of the one that ended, of the same role."""

    changes: ClassVar[tuple[str, ...]] = ("message",)

    message: Message | None = None

    def change(self, event: Any) -> None:
        """Replace the message; raises ``UsageError`` for one of another role."""
        role = event.message.role
        if self.message is not None and self.message.role != role:
            raise UsageError(f"a {self.message.role} message cannot replace a {role} message")
        super().change(event)


class ToolCallAnswer(Answer):
    """With ``block`` the tool does not run and the model reads ``reason``; ``input`` replaces the arguments.

    ``details`` are those of the result of a blocked call.
    """

    changes: ClassVar[tuple[str, ...]] = ("input",)
    final: ClassVar[tuple[str, ...]] = ("block",)

    block: bool = False
    reason: str | None = None
    details: Any = None
    input: JsonObject | None = None


class ToolResultAnswer(Answer):
    """Replaces parts of an outcome."""

    changes: ClassVar[tuple[str, ...]] = ("content", "details", "is_error")

    content: list[TextContent | ImageContent] | None = None
    details: Any = None
    is_error: bool | None = None

    def change(self, event: Any) -> None:
        """Replace the parts that were given; details may become ``None``."""
        super().change(event)
        if "details" in vars(self):
            event.details = self.details


class BashResultAnswer(Answer):
    """The outcome of a user's command."""

    output: str
    exit_code: int | None = None
    cancelled: bool = False
    truncated: bool = False


class UserBashAnswer(Answer):
    """Who runs the user's command (``operations``), or what came of it; the first answer counts."""

    final: ClassVar[tuple[str, ...]] = ("operations", "result")

    operations: Shell | None = None
    result: BashResultAnswer | None = None


# Events


EVENTS: dict[str, type] = {}
"""Classes of the events that a handler can be registered for, by name; each class is in it from its definition on."""


class OwnEvent:
    """An event that no session publishes."""

    __slots__ = ()
    type: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "type" in vars(cls):
            EVENTS[cls.type] = cls


class Asking(Protocol[AnswerT_co]):
    """An event that handlers may answer."""

    @property
    def answer(self) -> builtins.type[AnswerT_co]:
        """Return the class of the answers."""
        ...

    @property
    def type(self) -> str:
        """Return the name that handlers are registered under."""
        ...


@dataclass(slots=True)
class ResourcesDiscover(OwnEvent):
    """Extensions may name more places for skills and prompt templates."""

    type = "resources_discover"
    answer = ResourcesAnswer
    cwd: Path
    reason: Literal["startup", "reload"]


@dataclass(slots=True)
class SessionStart(OwnEvent):
    """A session has started: it was opened, or it replaced another."""

    type = "session_start"
    reason: StartReason
    previous_session_file: Path | None = None


class SessionSwitch(SessionStart):
    """Another session has replaced the one before; published after ``session_start``."""

    type = "session_switch"


class SessionBranch(SessionStart):
    """A forked session has replaced the one before; published after ``session_start``."""

    type = "session_branch"


@dataclass(slots=True)
class SessionShutdown(OwnEvent):
    """The session ends, or another one replaces it."""

    type = "session_shutdown"
    reason: ShutdownReason
    target_session_file: Path | None = None


@dataclass(slots=True)
class SessionBeforeSwitch(OwnEvent):
    """Another session is about to replace this one."""

    type = "session_before_switch"
    answer = CancelAnswer
    reason: Literal["new", "resume"]
    target_session_file: Path | None = None


@dataclass(slots=True)
class SessionBeforeFork(OwnEvent):
    """A new session is about to begin before, or at, an entry of this one."""

    type = "session_before_fork"
    answer = ForkAnswer
    entry_id: str
    position: Literal["before", "at"]


class SessionBeforeBranch(SessionBeforeFork):
    """The same as ``session_before_fork``, by its other name; asked after it."""

    type = "session_before_branch"


@dataclass(slots=True)
class SessionBeforeTree(OwnEvent):
    """The session is about to continue from another branch."""

    type = "session_before_tree"
    answer = TreeAnswer
    preparation: BranchChange
    signal: AbortSignal


@dataclass(slots=True)
class SessionTree(OwnEvent):
    """The session continues from another branch."""

    type = "session_tree"
    new_leaf_id: str | None
    old_leaf_id: str | None
    summary_entry: Entry | None = None
    from_extension: bool = False


@dataclass(slots=True)
class SessionBeforeCompact(OwnEvent):
    """The older part of the conversation is about to become a summary."""

    type = "session_before_compact"
    answer = CompactAnswer
    preparation: Preparation
    branch_entries: Sequence[Entry]
    custom_instructions: str | None
    signal: AbortSignal


@dataclass(slots=True)
class SessionCompact(OwnEvent):
    """A compaction was saved."""

    type = "session_compact"
    compaction_entry: Entry
    from_extension: bool


@dataclass(slots=True)
class UserInput(OwnEvent):
    """The user sent a prompt that is no extension's command."""

    type = "input"
    answer = InputAnswer
    text: str
    images: Sequence[ImageContent]
    source: InputSource


@dataclass(slots=True)
class BeforeAgentStart(OwnEvent):
    """A prompt was accepted, with what is attached to it; ``system_prompt`` is what it has become so far."""

    type = "before_agent_start"
    answer = BeforeAgentStartAnswer
    prompt: str
    images: Sequence[ImageContent]
    system_prompt: str
    attachments: Sequence[Attachment] = ()


@dataclass(slots=True)
class ModelContext(OwnEvent):
    """The model is about to be asked; ``messages`` is a copy."""

    type = "context"
    answer = ContextAnswer
    messages: list[Message]


@dataclass(slots=True)
class BeforeProviderRequest(OwnEvent):
    """The body of a request is ready."""

    type = "before_provider_request"
    answer = RequestAnswer
    payload: Any


@dataclass(slots=True)
class AfterProviderResponse(OwnEvent):
    """The head of a response has come."""

    type = "after_provider_response"
    status: int
    headers: Mapping[str, str]


@dataclass(slots=True)
class MessageFinal(OwnEvent):
    """A message is final unless a handler answers with another of the same role."""

    type = "message_end"
    answer = MessageEndAnswer
    message: Message


@dataclass(slots=True)
class _OfCall(OwnEvent):
    tool_call_id: str
    tool_name: str
    input: JsonObject


@dataclass(slots=True)
class ToolCallEvent(_OfCall):
    """A tool is about to run; ``input`` may be changed in place.

    A handler that asks about a file sets ``target`` to what was asked about, and the tool opens that and no other. One
    that leaves it to the tool to find out what the call does sets ``gate``, which then decides. ``caller`` is the name
    of another program that makes the call, empty where it is the model.
    """

    type = "tool_call"
    answer = ToolCallAnswer
    target: Target | None = None
    caller: str = ""
    gate: CallGate | None = None


@dataclass(slots=True)
class ToolBegin(_OfCall):
    """A tool call was allowed, and the tool runs next.

    ``target`` is the file that was asked about, if one was; ``gate`` decides about effects that the tool finds out by
    itself, if it does.
    """

    type = "tool_begin"
    target: Target | None = None
    gate: CallGate | None = None


@dataclass(slots=True)
class ToolResultEvent(_OfCall):
    """A tool has run."""

    type = "tool_result"
    answer = ToolResultAnswer
    content: Sequence[TextContent | ImageContent]
    details: Any
    is_error: bool


@dataclass(slots=True)
class ModelSelect(OwnEvent):
    """Another model was chosen."""

    type = "model_select"
    model: Model
    previous_model: Model | None
    source: Literal["set", "cycle", "restore"]


@dataclass(slots=True)
class ThinkingLevelSelect(OwnEvent):
    """Another thinking level was chosen."""

    type = "thinking_level_select"
    level: ThinkingLevel
    previous_level: ThinkingLevel


@dataclass(slots=True)
class UserBash(OwnEvent):
    """The user runs a shell command."""

    type = "user_bash"
    answer = UserBashAnswer
    command: str
    exclude_from_context: bool
    cwd: Path


_WITHHELD = (ModelChanged, ThinkingLevelChanged, ExtensionError, BashExecutionUpdate)
"""Events of sessions that no handler gets: the first two are ``*_select`` here, and of a defect would come another."""

for _kind in get_args(SessionEvent):
    if _kind not in _WITHHELD:
        EVENTS.setdefault(_kind.type, _kind)


def unknown_event(name: str) -> str | None:
    """Return the problem of an event name; ``None`` if there is such an event."""
    if name in EVENTS:
        return None
    from difflib import get_close_matches

    close = get_close_matches(name, EVENTS, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else f"Events: {', '.join(sorted(EVENTS))}."
    return f"There is no event named {name!r}, so its handler is never called. {hint}"
