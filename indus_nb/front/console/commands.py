"""The commands of RPC mode, each declared once: its name, its fields, and what they may hold."""

from __future__ import annotations

from functools import cache
from typing import Literal, Self, get_args, get_type_hints

from indus_nb.base import textcut
from indus_nb.base.messages import Attachment, ImageContent, ThinkingLevel, check_image
from indus_nb.base.readers import InvalidFieldsError
from indus_nb.base.wire import dump
from indus_nb.base.wire_model import WireModel, wire_field
from indus_nb.core.loop import InterruptMode, QueueMode
from indus_nb.core.session.session import StreamingBehavior
from indus_nb.front.console.host_tools import HostToolDefinition

_MAX_PATH_BYTES = 4095
_MAX_NAME_CHARACTERS = 1000
SubagentLevel = Literal["off", "progress", "events"]


def explain(name: str, error: InvalidFieldsError) -> str:
    """Say what is wrong with the fields of a command.

    Returns:
        A sentence that names each field.
    """
    problems = (
        f"`{problem.path}`: {problem.reason}" + ("" if problem.kind == "missing" else f", got {brief(problem.value)}")
        for problem in error.problems
    )
    return f"Invalid {name}: {'; '.join(problems)}. Nothing was done."


def brief(value: object) -> str:
    """Return a value of JSON as it is quoted in sentences."""
    return textcut.fit(dump(value).decode(errors="replace"), 60, "...")


def _check_path(path: str | None) -> str | None:
    """Raise ``ValueError`` for what no system takes for the path of a file."""
    if path is None:
        return None
    if "\0" in path:
        raise ValueError("a path cannot hold the character U+0000")
    try:
        too_long = len(path.encode()) > _MAX_PATH_BYTES
    except UnicodeEncodeError:
        raise ValueError("a path cannot hold half characters (surrogates)") from None
    if too_long:
        raise ValueError(f"a path has at most {_MAX_PATH_BYTES:,} bytes")
    return path


def _check_images(images: list[ImageContent]) -> list[ImageContent]:
    for image in images:
        check_image(image)
    return images


def _check_attachments(attachments: list[Attachment]) -> list[Attachment]:
    for attachment in attachments:
        attachment.block()
    return attachments


class Command(WireModel, unknown="ignored", strict=True):
    """A line on standard input. ``id`` comes back in the response."""

    id: str | int | None = None

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the accepted values of ``type``."""
        return get_args(get_type_hints(cls)["type"])

    @classmethod
    @cache
    def bare(cls) -> Self | None:
        """Return the command without an ``id``; ``None`` if it has fields of its own, which need validation."""
        return cls() if cls.wire_fields.keys() <= {"type", "id"} else None


class _WithMessage(Command):
    message: str
    images: list[ImageContent] = wire_field(default_factory=list[ImageContent], check=_check_images)
    attachments: list[Attachment] = wire_field(default_factory=list[Attachment], check=_check_attachments)


class Prompt(_WithMessage):
    """Send a message to the agent. Answered once it is accepted; its effects are reported by events.

    Accepted is not saved yet: the message is in the session file when its `message_end` comes. The `disposition` in the
    response is `started` for a run of its own, `queued`, or `handled`: no run follows a command. It is left out with
    `--wire strict` and `--wire pi`.
    """

    type: Literal["prompt"] = "prompt"
    streaming_behavior: StreamingBehavior | None = None


class Steer(_WithMessage):
    """Queue a message for after the tool call at hand; the `disposition` is `queued`."""

    type: Literal["steer"] = "steer"


class FollowUp(_WithMessage):
    """Queue a message for when the agent has finished; the `disposition` is `queued`."""

    type: Literal["follow_up"] = "follow_up"


class AbortAndPrompt(_WithMessage):
    """Abort the run, and send a message once the session is idle. Answered like a prompt."""

    type: Literal["abort_and_prompt"] = "abort_and_prompt"


class ClearQueue(Command):
    """Remove the queued messages; returns both queues."""

    type: Literal["clear_queue"] = "clear_queue"


class Abort(Command):
    """Abort the run; answered when the session is idle."""

    type: Literal["abort"] = "abort"


class NewSession(Command):
    """Replace the session by a new, empty one in a file of its own.

    A run is aborted first. What waited in its queues is not delivered: `dropped` of `session_replaced` names it, also
    after `fork`, `clone` and `switch_session`.
    """

    type: Literal["new_session"] = "new_session"
    parent_session: str | None = wire_field(default=None, check=_check_path)


class GetState(Command):
    """The state of the session."""

    type: Literal["get_state"] = "get_state"


class GetMessages(Command):
    """All messages of the conversation."""

    type: Literal["get_messages"] = "get_messages"


class GetLastAssistantText(Command):
    """The text of the newest answer, or null."""

    type: Literal["get_last_assistant_text"] = "get_last_assistant_text"


class SetModel(Command):
    """Use another model."""

    type: Literal["set_model"] = "set_model"
    provider: str = wire_field(max_length=_MAX_NAME_CHARACTERS)
    model_id: str = wire_field(max_length=_MAX_NAME_CHARACTERS)


class GetAvailableModels(Command):
    """The models that can be chosen."""

    type: Literal["get_available_models"] = "get_available_models"


class CycleModel(Command):
    """Use the next available model; null when there is no other."""

    type: Literal["cycle_model"] = "cycle_model"


class SetThinkingLevel(Command):
    """Set the thinking level; the nearest level that the model has is used."""

    type: Literal["set_thinking_level"] = "set_thinking_level"
    level: ThinkingLevel


class CycleThinkingLevel(Command):
    """Use the model's next thinking level; null when there is no other."""

    type: Literal["cycle_thinking_level"] = "cycle_thinking_level"


class GetAvailableThinkingLevels(Command):
    """The thinking levels that the model has."""

    type: Literal["get_available_thinking_levels"] = "get_available_thinking_levels"


class SetSteeringMode(Command):
    """Whether steering messages are delivered one at a time or all at once."""

    type: Literal["set_steering_mode"] = "set_steering_mode"
    mode: QueueMode


class SetFollowUpMode(Command):
    """Whether follow-up messages are delivered one at a time or all at once."""

    type: Literal["set_follow_up_mode"] = "set_follow_up_mode"
    mode: QueueMode


class SetInterruptMode(Command):
    """Whether a steering message skips the tool calls that have not started."""

    type: Literal["set_interrupt_mode"] = "set_interrupt_mode"
    mode: InterruptMode


class Compact(Command):
    """Summarise the older part of the conversation; a run that is going on is aborted first.

    While a compaction is going on another one is refused.
    """

    type: Literal["compact"] = "compact"
    custom_instructions: str | None = None


class SetAutoCompaction(Command):
    """Whether the conversation is compacted automatically when the model's context is nearly full."""

    type: Literal["set_auto_compaction"] = "set_auto_compaction"
    enabled: bool


class SetAutoRetry(Command):
    """Whether an answer that failed for a temporary reason is retried automatically."""

    type: Literal["set_auto_retry"] = "set_auto_retry"
    enabled: bool


class AbortRetry(Command):
    """End the wait before a retry."""

    type: Literal["abort_retry"] = "abort_retry"


class Bash(Command):
    """Run a shell command; the model is shown it with the next prompt, unless it is excluded.

    Its output comes in `bash_execution_update` events that carry the command's `id`: the response differs by `type`.
    """

    type: Literal["bash"] = "bash"
    command: str
    exclude_from_context: bool = False


class AbortBash(Command):
    """Kill the shell commands that were started by this client."""

    type: Literal["abort_bash"] = "abort_bash"


class GetJobs(Command):
    """The calls that go on as jobs, and the newest of those that did: as in `job_update`, each with its `lastLines`."""

    type: Literal["get_jobs"] = "get_jobs"


class StopJob(Command):
    """Stop a job, by its id. Answered when it has ended, with the job; one that is over already stays as it is."""

    type: Literal["stop_job"] = "stop_job"
    job_id: str = wire_field(max_length=_MAX_NAME_CHARACTERS)


class SetSubagentSubscription(Command):
    """Which frames about sub-agents are sent; none until this is set.

    With `progress` these are `subagent_lifecycle` and `subagent_progress`, with `events` also `subagent_event`, with
    `off` none.
    """

    type: Literal["set_subagent_subscription"] = "set_subagent_subscription"
    level: SubagentLevel


class GetSubagents(Command):
    """The sub-agents that work at present, each with its `progress`."""

    type: Literal["get_subagents"] = "get_subagents"


class GetSubagentMessages(Command):
    """What a sub-agent has said and was told, from its session file: its `entries`, and the `messages` among them.

    It is named by its id or by that file. `fromByte` leaves out what was read before: it is the `nextByte` of the
    response before. With `reset` the file is shorter than that, and is read from its beginning.
    """

    type: Literal["get_subagent_messages"] = "get_subagent_messages"
    subagent_id: str | None = wire_field(default=None, max_length=_MAX_NAME_CHARACTERS)
    session_file: str | None = wire_field(default=None, check=_check_path)
    from_byte: int = wire_field(default=0, ge=0)


class GetSessionStats(Command):
    """Counts, tokens and cost of the whole session."""

    type: Literal["get_session_stats"] = "get_session_stats"


class ExportHtml(Command):
    """Write the session as one HTML page; returns its path."""

    type: Literal["export_html"] = "export_html"
    output_path: str | None = wire_field(default=None, check=_check_path)


class SwitchSession(Command):
    """Continue with the session in another file."""

    type: Literal["switch_session"] = "switch_session"
    session_path: str = wire_field(check=_check_path)


class Fork(Command):
    """Continue in a new session that ends before a message of the user; returns that message's text."""

    type: Literal["fork", "branch"] = "fork"
    entry_id: str = wire_field(max_length=_MAX_NAME_CHARACTERS)


class GetForkMessages(Command):
    """The messages of the user that can be forked from."""

    type: Literal["get_fork_messages", "get_branch_messages"] = "get_fork_messages"


class Clone(Command):
    """Continue in a new session with a copy of this one's branch."""

    type: Literal["clone"] = "clone"


class GetEntries(Command):
    """All entries of the session, or those after the entry ``since``."""

    type: Literal["get_entries"] = "get_entries"
    since: str | None = wire_field(default=None, max_length=_MAX_NAME_CHARACTERS)


class GetTree(Command):
    """The entries as trees, with labels.

    The response's ``tree`` is nested as deep as the conversation is long, and refused beyond 400 entries, where JSON
    parsers give up. With ``flat`` it has ``nodes`` instead, a parent before its children, each with its
    ``entry``, its ``depth``, its ``parentId`` (``null`` for a root) and the ids of its ``children``.
    """

    type: Literal["get_tree"] = "get_tree"
    flat: bool = False


class NavigateTree(Command):
    """Continue from another entry of this session, with a summary of what is left behind if wanted."""

    type: Literal["navigate_tree"] = "navigate_tree"
    target_id: str = wire_field(max_length=_MAX_NAME_CHARACTERS)
    summarize: bool = False
    custom_instructions: str | None = None
    replace_instructions: bool = False
    label: str | None = wire_field(default=None, max_length=_MAX_NAME_CHARACTERS)


class SetLabel(Command):
    """Label an entry; an empty label removes it."""

    type: Literal["set_label"] = "set_label"
    entry_id: str = wire_field(max_length=_MAX_NAME_CHARACTERS)
    label: str | None = wire_field(default=None, max_length=_MAX_NAME_CHARACTERS)


class SetSessionName(Command):
    """Give the session a name."""

    type: Literal["set_session_name"] = "set_session_name"
    name: str = wire_field(max_length=_MAX_NAME_CHARACTERS)


class ListSessions(Command):
    """The saved sessions next to this one, newest first."""

    type: Literal["list_sessions"] = "list_sessions"


class SetHostTools(Command):
    """Offer tools of the client from the next prompt on; they replace those offered before."""

    type: Literal["set_host_tools"] = "set_host_tools"
    tools: list[HostToolDefinition]


class GetCommands(Command):
    """The commands that a prompt may begin with."""

    type: Literal["get_commands", "get_available_commands"] = "get_commands"


class GetCommandCompletions(Command):
    """What an extension offers for the arguments of its command ``/name``, of which ``prefix`` is typed already."""

    type: Literal["get_command_completions"] = "get_command_completions"
    name: str = wire_field(max_length=_MAX_NAME_CHARACTERS)
    prefix: str = ""
