"""The commands of RPC mode, each declared once: its name, its fields, and what they may hold."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from indus_nb.agent import InterruptMode, QueueMode
from indus_nb.messages import ImageContent, ThinkingLevel
from indus_nb.session import StreamingBehavior
from indus_nb.wire import WireModel


class Command(WireModel):
    """A line on standard input. ``id`` comes back in the response."""

    model_config = ConfigDict(strict=True, extra="ignore")

    id: str | int | None = None


class _WithMessage(Command):
    message: str
    images: list[ImageContent] = Field(default_factory=list[ImageContent])


class Prompt(_WithMessage):
    """Say something to the agent. Answered once it is accepted; what comes of it is told by events."""

    type: Literal["prompt"] = "prompt"
    streaming_behavior: StreamingBehavior | None = None


class Steer(_WithMessage):
    """Queue a message for after the tool call at hand."""

    type: Literal["steer"] = "steer"


class FollowUp(_WithMessage):
    """Queue a message for when the agent has finished."""

    type: Literal["follow_up"] = "follow_up"


class Abort(Command):
    """End the run; answered when the session is idle."""

    type: Literal["abort"] = "abort"


class NewSession(Command):
    """Start over with an empty conversation in a file of its own."""

    type: Literal["new_session"] = "new_session"
    parent_session: str | None = None


class GetState(Command):
    """How things stand."""

    type: Literal["get_state"] = "get_state"


class GetMessages(Command):
    """The whole conversation."""

    type: Literal["get_messages"] = "get_messages"


class GetLastAssistantText(Command):
    """The text of the newest answer, or null."""

    type: Literal["get_last_assistant_text"] = "get_last_assistant_text"


class SetModel(Command):
    """Talk to another model."""

    type: Literal["set_model"] = "set_model"
    provider: str
    model_id: str


class GetAvailableModels(Command):
    """The models that can be chosen."""

    type: Literal["get_available_models"] = "get_available_models"


class SetThinkingLevel(Command):
    """Think more or less."""

    type: Literal["set_thinking_level"] = "set_thinking_level"
    level: ThinkingLevel


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
