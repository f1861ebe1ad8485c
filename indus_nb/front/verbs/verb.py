"""What a session can be asked to do: a verb is a class with the fields that come with it and the function that does it.

Front ends are made from the table of verbs (``indus_nb.front.verbs.VERBS``): RPC mode takes each of them as a command,
pages of a panel send those that are ``for_pages``, and docs/commands.md is written from them. What a verb returns is
the same for all; how that is shown is the front end's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

from indus_nb.base import textcut
from indus_nb.base.errors import UsageError
from indus_nb.base.messages import Attachment, ImageContent, check_image
from indus_nb.base.readers import InvalidFieldsError
from indus_nb.base.wire import JsonObject, dump
from indus_nb.base.wire_model import WireModel, wire_field

if TYPE_CHECKING:
    from indus_nb.core.session.queues import Disposition
    from indus_nb.core.session.session import AgentSession
    from indus_nb.front.verbs.host_tools import HostTool, HostToolDefinition

MAX_NAME_CHARACTERS = 1000
MAX_PATH_BYTES = 4095
MAX_TEXT_CHARACTERS = 1_000_000
_MAX_PROBLEMS = 10
SubagentLevel = Literal["off", "progress", "events"]


class Subagents(Protocol):
    """What a program may ask about sub-agents."""

    level: SubagentLevel
    """The frames about them that it is sent."""

    def working(self) -> list[JsonObject]:
        """Return the sub-agents that work at present."""
        ...

    async def messages(self, subagent_id: str | None, session_file: str | None, start: int) -> JsonObject:
        """Return the messages of a sub-agent."""
        ...


def _no_program(*_: object) -> Any:
    raise UsageError("Only programs that speak over RPC can ask for this.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What a verb is carried out with, besides its own fields.

    Attributes:
        session: The session that is asked.
        id: What events of the verb refer to, chosen by the program that asks.
        accept: Called once a prompt cannot be rejected any more, before its first event.
        warn: Called with each problem that is no failure.
        host_tool: Makes a tool that the program runs.
        subagents: Returns the frames about sub-agents for the program.
    """

    session: AgentSession
    id: str | int | None = None
    accept: Callable[[Disposition], None] | None = None
    warn: Callable[[str], None] = lambda _: None
    host_tool: Callable[[HostToolDefinition], HostTool] = _no_program
    subagents: Callable[[], Subagents] = _no_program


class Verb(WireModel, unknown="ignored", strict=True):
    """One thing that a session can be asked to do. Its fields are validated; unknown ones are ignored.

    Attributes:
        names: What it is called on the wire; the first is the usual one.
        for_pages: Whether pages of a panel may ask for it, too.
    """

    names: ClassVar[tuple[str, ...]] = ()
    for_pages: ClassVar[bool] = False

    def run(self, call: Call) -> Any:
        """Carry the verb out.

        Returns:
            The data of a response, a value for ``dump`` or ``Encoded`` JSON; ``None`` for none, and ``NULL`` for a
            null. Or a coroutine that returns one of these.

        Raises:
            IndusError: It failed, and nothing was done.
        """
        raise NotImplementedError

    def as_command(self) -> JsonObject:
        """Return the verb as a command of RPC mode, without an ``id``."""
        return {"type": self.names[0], **self.to_wire()}

    @classmethod
    @cache
    def bare(cls) -> Self | None:
        """Return the verb if it has no fields, and so needs no validation."""
        return None if cls.wire_fields else cls()


def _check_images(images: list[ImageContent]) -> list[ImageContent]:
    for image in images:
        check_image(image)
    return images


def _check_attachments(attachments: list[Attachment]) -> list[Attachment]:
    for attachment in attachments:
        attachment.block()
    return attachments


class WithMessage(Verb):
    """A verb that sends a user message."""

    message: str
    images: list[ImageContent] = wire_field(default_factory=list[ImageContent], check=_check_images)
    attachments: list[Attachment] = wire_field(default_factory=list[Attachment], check=_check_attachments)


class Encoded(bytes):
    """JSON that is encoded already."""


NULL = object()
"""A result that is ``null`` in the response, where ``None`` would leave ``data`` out."""


def check_path(path: str | None) -> str | None:
    """Raise ``ValueError`` for what no system takes for the path of a file."""
    if path is None:
        return None
    if "\0" in path:
        raise ValueError("a path cannot hold the character U+0000")
    try:
        too_long = len(path.encode()) > MAX_PATH_BYTES
    except UnicodeEncodeError:
        raise ValueError("a path cannot hold half characters (surrogates)") from None
    if too_long:
        raise ValueError(f"a path has at most {MAX_PATH_BYTES:,} bytes")
    return path


def explain(name: str, error: InvalidFieldsError) -> str:
    """Say what is wrong with the fields of a verb.

    Returns:
        A sentence that names each field.
    """
    problems = (
        f"`{problem.path}`: {problem.reason}" + ("" if problem.kind == "missing" else f", got {brief(problem.value)}")
        for problem in error.problems[:_MAX_PROBLEMS]
    )
    left_out = len(error.problems) - _MAX_PROBLEMS
    more = f"; and {left_out:,} more" if left_out > 0 else ""
    return f"Invalid {name}: {'; '.join(problems)}{more}. Nothing was done."


def brief(value: object) -> str:
    """Return a value of JSON as it is quoted in sentences."""
    return textcut.fit(dump(value).decode(errors="replace"), 60, "...")
