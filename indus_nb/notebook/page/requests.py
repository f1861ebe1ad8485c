"""What a page may ask a panel for: each request declared once, with what it may hold.

A page's messages come from whoever can write into the notebook, so none is taken as it stands.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from indus_nb import textcut
from indus_nb.messages import ImageContent, ThinkingLevel, check_image
from indus_nb.wire import JsonObject, WireModel, first_problem

LONGEST_TEXT = 1_000_000
MOST_IMAGES = 8
LARGEST_IMAGE = 5_000_000
"""In bytes."""

Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
Name = Annotated[str, Field(max_length=500)]


class _Request(WireModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class Prompt(_Request):
    """Say something: at once, after the tool call at hand, or when the model has finished."""

    kind: Literal["prompt"]
    text: Text
    images: list[ImageContent] = Field(default_factory=list[ImageContent], max_length=MOST_IMAGES)
    how: Literal["send", "steer", "followUp"] = "send"

    @field_validator("images", mode="after")
    @classmethod
    def _check_images(cls, images: list[ImageContent]) -> list[ImageContent]:
        for image in images:
            if image.source is not None:
                raise ValueError("an image must come with its data")
            if len(image.data or "") * 3 // 4 > LARGEST_IMAGE:
                raise ValueError(f"an image may have {LARGEST_IMAGE // 1_000_000} MB; this one is larger")
            check_image(image)
        return images


class Stop(_Request):
    """End what goes on; what waits goes on waiting."""

    kind: Literal["stop"]


class Abort(_Request):
    """End what goes on, and take back what waits."""

    kind: Literal["abort"]


class Answer(_Request):
    """The answer to a dialog; ``None``, and all that no dialog asks for, dismisses it."""

    kind: Literal["answer"]
    id: Name
    value: str | bool | None

    @field_validator("value", mode="before")
    @classmethod
    def _dismiss(cls, value: object) -> str | bool | None:
        if isinstance(value, str):
            return value if len(value) <= LONGEST_TEXT else None
        return value if isinstance(value, bool) else None


class Unqueue(_Request):
    """Take back what waits at ``index`` and reads ``text``."""

    kind: Literal["unqueue"]
    queue: Literal["steering", "followUp"]
    index: int = Field(ge=0)
    text: Text


class ClearQueue(_Request):
    """Throw away what waits."""

    kind: Literal["clear_queue"]


class SetModel(_Request):
    """Talk to another model."""

    kind: Literal["set_model"]
    provider: Name
    id: Name


class SetThinking(_Request):
    """Think more or less."""

    kind: Literal["set_thinking"]
    level: ThinkingLevel


class New(_Request):
    """Begin another conversation."""

    kind: Literal["new"]


class Switch(_Request):
    """Go on with one of the sessions that were listed."""

    kind: Literal["switch"]
    path: str = Field(max_length=10_000)


class Rename(_Request):
    """Give the session a name."""

    kind: Literal["rename"]
    name: Name


class Navigate(_Request):
    """Go on from another entry."""

    kind: Literal["navigate"]
    entry: Name


class Fork(_Request):
    """Go on from there in a session of its own."""

    kind: Literal["fork"]
    entry: Name


class Compact(_Request):
    """Summarise the older part of the conversation."""

    kind: Literal["compact"]


class Export(_Request):
    """Hand over the session as a page."""

    kind: Literal["export"]


class ListSessions(_Request):
    """List the sessions of this folder."""

    kind: Literal["list_sessions"]


class ShowTree(_Request):
    """List the entries of this session."""

    kind: Literal["show_tree"]


class Complete(_Request):
    """Say how a command's name may go on."""

    kind: Literal["complete"]
    text: Text


class ToCell(_Request):
    """Put code into a cell of the notebook."""

    kind: Literal["to_cell"]
    code: Text


Request: TypeAlias = (
    Prompt
    | Stop
    | Abort
    | Answer
    | Unqueue
    | ClearQueue
    | SetModel
    | SetThinking
    | New
    | Switch
    | Rename
    | Navigate
    | Fork
    | Compact
    | Export
    | ListSessions
    | ShowTree
    | Complete
    | ToCell
)


@cache
def _adapter() -> TypeAdapter[Request]:
    return TypeAdapter(Annotated[Request, Field(discriminator="kind")])


def parse(message: JsonObject) -> Request:
    """The request in a page's message; raises ``pydantic.ValidationError``."""
    return _adapter().validate_python(message)


def problem(error: ValidationError) -> str:
    """What is wrong with a message, in a line that holds nothing of it."""
    first = first_problem(error)
    if first.kind.startswith("union_tag"):
        return "there is no such request."
    return f"{textcut.head(first.path, 100)}: {textcut.head(first.reason, 200)}."
