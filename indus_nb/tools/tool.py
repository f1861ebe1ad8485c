"""Base of all tools: a name and schema for the model, a check of the arguments, and a way to run the tool."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, TypeVar, cast

from indus_nb.base.events import ToolOutput
from indus_nb.base.messages import TextContent
from indus_nb.base.readers import InvalidFieldsError, field_problems
from indus_nb.base.wire import JsonObject, clean_text
from indus_nb.base.wire_model import WireModel
from indus_nb.models import ToolSpec
from indus_nb.safety.effects import Effect
from indus_nb.tools.description import Approval, CallDescription, Target, approval_by_arguments, by_arguments

if TYPE_CHECKING:
    from pydantic import BaseModel


REFUSED = "refusedByUser"
"""The detail of a call's result that tells front ends: it was not the call that failed, the user said no to it."""
NOT_RUN = "notRun"
"""The same where the run was stopped, or the user sent something else, before the call began."""


class ToolError(Exception):
    """A tool's failure. The model reads the text; ``output`` may add details for front ends."""

    def __init__(self, text: str, details: Any = None) -> None:
        super().__init__(text)
        self.output: ToolOutput = text_output(text, details)


def text_output(text: str, details: Any = None) -> ToolOutput:
    """Build a tool's output from one text.

    Args:
        text: Text for the model.
        details: Further data for front ends, as JSON.

    Returns:
        The output.
    """
    return ToolOutput(content=[TextContent(text=clean_text(text))], details=details)


ResultT = TypeVar("ResultT")


async def in_thread(work: Callable[[threading.Event], ResultT], *, patience: float = 2.0) -> ResultT:
    """Run blocking ``work`` off the event loop and return its result.

    When the caller is cancelled, the event that ``work`` was given is set, and the cancellation goes on once it has
    come to an end, so that nothing is written after the caller went on.

    Args:
        work: Function to run.
        patience: Seconds to wait for it after a cancellation: it may be stuck in a system call.

    Returns:
        What ``work`` returned.
    """
    stop = threading.Event()
    task = asyncio.ensure_future(asyncio.to_thread(work, stop))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([task], timeout=patience)
        if task.done() and not task.cancelled():
            task.exception()  # it will not be asked for any more
        raise


class CallGate(Protocol):
    """Gate for the effects of one call, for a tool that finds out which these are before it runs the call."""

    @property
    def readable(self) -> Sequence[Path]:
        """Return files and directories outside the working directory that a trial may read all the same."""
        ...

    @property
    def looks_only(self) -> bool:
        """Return whether the call may only look: what it defines is not kept."""
        ...

    @property
    def can_ask(self) -> bool:
        """Return whether somebody is there now who can be asked."""
        ...

    @property
    def found(self) -> Sequence[Effect]:
        """Return the effects that trials of the call have found so far."""
        ...

    async def covers(self, effects: Sequence[Effect]) -> bool:
        """Return whether settings and rules allow all of these effects unasked.

        A tool acts on it only where it can hold the call to these effects; else it asks.

        Args:
            effects: Effects that a trial found; without any, a call without effects is meant.
        """
        ...

    async def ask(
        self,
        effects: Sequence[Effect],
        *,
        question: str = "",
        outcome: str = "",
        holds: bool = False,
        trial: asyncio.Future[Any] | None = None,
    ) -> Literal["run", "wait"]:
        """Ask the user whether the call may run.

        Args:
            effects: Effects that a trial found so far.
            question: What is asked, in the place of what the call itself asks before it runs.
            outcome: The preview: what it printed and changed, in a few lines.
            holds: True if the tool can hold a call to these effects, so that they can be allowed for good.
            trial: A trial that goes on. The question is withdrawn when it ends.

        Returns:
            Whether to run the call, or to wait for the trial's end (or use what it gave, if that came first).

        Raises:
            ToolError: The call must not run; the text is for the model.
        """
        ...


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Context of one call: its id, and a callback for output so far (each report replaces the one before).

    ``gate`` decides about what the call does; without one it may do anything. ``target`` is the file that the call was
    allowed for; a tool that opens a file opens this one, see ``targets``. ``hide`` returns a value, such as a text,
    without secrets: for what a tool shows elsewhere than in its output. ``on_over`` is called when the work is over and
    what it made is not kept yet. ``job_id`` returns the id of the job that the call has become, or ``""``.
    """

    call_id: str
    report: Callable[[ToolOutput], None]
    target: Target | None = None
    hide: Callable[[Any], Any] = lambda value: value
    gate: CallGate | None = None
    on_over: Callable[[], object] = lambda: None
    job_id: Callable[[], str] = str


class Tool(Protocol):
    """A tool that a model can call.

    A tool may besides have a method ``describe_call(arguments)``, which returns a ``CallDescription``: what views show
    of a call, and what the user is asked before it. Without it the arguments describe the call.
    """

    @property
    def spec(self) -> ToolSpec:
        """Return name, description and parameters, as the model sees them."""
        ...

    @property
    def read_only(self) -> bool:
        """Return whether neighbouring calls of it may run side by side."""
        ...

    @property
    def snippet(self) -> str | None:
        """Return the line in the system prompt's list of tools; without it the tool is not listed there."""
        ...

    @property
    def guidelines(self) -> tuple[str, ...]:
        """Return advice for the system prompt while the tool is active."""
        ...

    def check(self, arguments: JsonObject) -> Any:
        """Return the arguments as ``execute`` wants them; raises ``ToolError`` naming what is wrong with them."""
        ...

    async def execute(self, arguments: Any, context: ToolContext) -> ToolOutput:
        """Run the tool; on cancellation nothing may be left running.

        Args:
            arguments: Result of ``check``.
            context: The call, and where to report progress.

        Returns:
            What the model reads.

        Raises:
            ToolError: It failed; the text is for the model.
        """
        ...


StandsFor: TypeAlias = "Callable[[JsonObject], tuple[Tool, JsonObject] | None]"
"""``stands_for`` of a tool whose calls are calls of others, which the model is not sent.

It returns the tool that is meant and the arguments for it, ``None`` if there is none, and must not raise.
"""


def secret_arguments(tool: Tool | None) -> tuple[tuple[str, ...] | None, bool]:
    """Return the arguments in which secrets are filled in (``None``: only when the user was asked).

    Returns:
        Their names as the model gives them, and whether they are run or passed on.
    """
    declared: object = getattr(tool, "secret_arguments", None)
    names = cast("tuple[str, ...]", declared) if isinstance(declared, tuple) else None
    return names, bool(getattr(tool, "secrets_in_code", True))


TODO = "todo"
"""Name of the to-do list's tool, which is offered on request only."""
AGENTS = "agents"
"""Name of the tool that runs sub-agents, which is offered on request only."""
JOB = "job"
"""Name of the tool that controls jobs, which is offered with the tools that start some."""


class Arguments(WireModel, unknown="ignored"):
    """The base of a built-in tool's arguments."""

    def by_name(self) -> JsonObject:
        """Return the values by the names of the fields, also of arguments within them."""
        return {name: _by_name(getattr(self, name)) for name in self.wire_fields}


def _by_name(value: Any) -> Any:
    if isinstance(value, Arguments):
        return value.by_name()
    return [*map(_by_name, cast("list[Any]", value))] if isinstance(value, list) else value


ArgumentsT = TypeVar("ArgumentsT", bound="Arguments | BaseModel")


@dataclass(frozen=True)
class FunctionTool(Generic[ArgumentsT]):
    """Tool from a class for its arguments, ours or a pydantic model, and an async function.

    ``warn`` may return a warning for the user before they allow a call; quickly, and without raising.
    ``secret_arguments`` are those in which placeholders of secrets are filled in before it runs, ``secrets_in_code``
    whether these are run or passed on, and not only written to a file (``indus_nb.safety.vault``).
    ``shows_parts`` says that it shows what is long in parts, and how to go on, so that no result need be shortened.
    ``starts_jobs`` says that calls of it may go on as jobs (``indus_nb.tools.jobs``).
    ``keeps_state`` says of a tool that only reads otherwise that calls change what it keeps itself, so that none is
    repeated to see its result again.
    ``describe`` is given the description that the arguments make and the validated arguments, and returns a better one,
    quickly and without reading files; only the ``approval`` of that may take longer.
    """

    name: str
    description: str
    arguments: type[ArgumentsT]
    run: Callable[[ArgumentsT, ToolContext], Awaitable[ToolOutput]]
    read_only: bool = False
    snippet: str | None = None
    guidelines: tuple[str, ...] = ()
    warn: Callable[[ArgumentsT], str | None] | None = None
    describe: Callable[[CallDescription, ArgumentsT], CallDescription] | None = None
    secret_arguments: tuple[str, ...] | None = None
    secrets_in_code: bool = True
    starts_jobs: bool = False
    shows_parts: bool = False
    keeps_state: bool = False

    @property
    def spec(self) -> ToolSpec:
        """Return name, description and parameters, as the model sees them."""
        return ToolSpec(self.name, self.description, _schema(self.arguments))

    def check(self, arguments: JsonObject) -> ArgumentsT:
        """Return the validated arguments; raises ``ToolError`` that names each wrong field."""
        try:
            return self._read(arguments)
        except InvalidFieldsError as error:
            problems = "\n".join(f"- {problem.path or 'arguments'}: {problem.reason}" for problem in error.problems)
            message = f"Nothing was done. Invalid arguments for {self.name}:\n{problems}"
            raise ToolError(message) from error

    def _read(self, arguments: JsonObject) -> ArgumentsT:
        if issubclass(self.arguments, Arguments):
            return self.arguments.from_wire(arguments)
        from pydantic import ValidationError

        try:
            return self.arguments.model_validate(arguments)
        except ValidationError as error:
            raise InvalidFieldsError(field_problems(error)) from error

    def describe_call(self, arguments: JsonObject) -> CallDescription:
        """Describe a call as ``describe`` does, else by its arguments; the question has the tool's warning."""
        default = by_arguments(self.name, arguments, has_effects=not self.read_only)
        try:
            checked = self.check(arguments)
        except ToolError as error:
            return replace(default, rejection=error)
        understood = checked.by_name() if isinstance(checked, Arguments) else arguments
        default = replace(default, approval=partial(approval_by_arguments, self.name, understood))
        described = default if self.describe is None else self.describe(default, checked)

        def approval() -> Approval:
            asked = described.approval()
            return asked if self.warn is None else replace(asked, warning=self.warn(checked))

        return replace(described, approval=approval)

    async def execute(self, arguments: ArgumentsT, context: ToolContext) -> ToolOutput:
        """Run the function with the arguments.

        Args:
            arguments: Result of ``check``.
            context: The call, and where to report progress.

        Returns:
            What the model reads.

        Raises:
            ToolError: It failed; the text is for the model.
        """
        return await self.run(arguments, context)


@lru_cache(maxsize=256)
def _schema(arguments: type[Arguments | BaseModel]) -> JsonObject:
    from indus_nb.tools.plain_schemas import plain_arguments

    if issubclass(arguments, Arguments):
        from indus_nb.tools.argument_schemas import schema_of

        return plain_arguments(schema_of(arguments))
    return plain_arguments(arguments.model_json_schema(by_alias=True))


def preload_schemas() -> None:
    """Load pydantic, and what it imports itself when it makes its first validator."""
    from pydantic import TypeAdapter

    TypeAdapter(int)
