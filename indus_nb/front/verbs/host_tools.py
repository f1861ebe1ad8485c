"""Tools that a client offers to the agent: a call goes out as a frame, and its result comes back as one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from indus_nb.base.events import ToolOutput
from indus_nb.base.messages import ImageContent, check_image
from indus_nb.base.readers import InvalidFieldsError
from indus_nb.base.wire import JsonObject, random_hex
from indus_nb.base.wire_model import WireModel
from indus_nb.models import ToolSpec
from indus_nb.tools.description import CallDescription, by_arguments
from indus_nb.tools.tool import ToolContext, ToolError, text_output


class HostToolDefinition(WireModel, strict=True):
    """A tool that the client runs; ``parameters`` is a JSON schema of an object."""

    name: str
    description: str
    parameters: JsonObject
    label: str | None = None


@dataclass(slots=True)
class _OpenCall:
    report: Callable[[ToolOutput], None]
    result: asyncio.Future[ToolOutput] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class HostTools:
    """The calls that the client has not answered yet. ``send`` writes a frame."""

    def __init__(self, send: Callable[[JsonObject], None]) -> None:
        self._send = send
        self._open: dict[str, _OpenCall] = {}

    def tool(self, definition: HostToolDefinition) -> HostTool:
        """Return a tool of this definition that a model can call."""
        return HostTool(definition, self)

    def handle_frame(self, frame: JsonObject) -> None:
        """Apply an update or a result to its call; one for a call that is not open is ignored."""
        call = self._open.get(str(frame.get("id")))
        if call is None or call.result.done():
            return
        try:
            if frame["type"] == "host_tool_update":
                call.report(_output(frame.get("partialResult")))
            elif frame.get("isError"):
                output = _output(frame.get("result"))
                error = ToolError("\n".join(block.text for block in output.content if block.type == "text"))
                error.output = output
                call.result.set_exception(error)
            else:
                call.result.set_result(_output(frame.get("result")))
        except ToolError as error:
            call.result.set_exception(error)
        except InvalidFieldsError as error:
            wrong = error.problems[0]
            call.result.set_exception(ToolError(f"The host's answer is wrong at `{wrong.path}`: {wrong.reason}"))

    async def call(self, name: str, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Have the client run a tool. Cancelling sends the client a cancellation.

        Args:
            context: The call, and where to report progress.

        Raises:
            ToolError: The client reported a failure, or its answer is not a result.
        """
        call_id = random_hex(8)
        call = self._open[call_id] = _OpenCall(context.report)
        frame = {"id": call_id, "toolCallId": context.call_id, "toolName": name, "arguments": arguments}
        self._send({"type": "host_tool_call", **frame})
        try:
            return await call.result
        except asyncio.CancelledError:
            self._send({"type": "host_tool_cancel", "id": random_hex(8), "targetId": call_id})
            raise
        finally:
            del self._open[call_id]


@dataclass(frozen=True, slots=True)
class HostTool:
    """A tool of the client behind the ``Tool`` protocol."""

    definition: HostToolDefinition
    host: HostTools
    read_only: bool = False
    snippet: str | None = None
    guidelines: tuple[str, ...] = ()

    @property
    def spec(self) -> ToolSpec:
        """Return name, description and parameters, as the model sees them."""
        return ToolSpec(self.definition.name, self.definition.description, self.definition.parameters)

    def check(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments as they are: the client validates them."""
        return arguments

    def describe_call(self, arguments: JsonObject) -> CallDescription:
        """Describe a call by its arguments; its effects at the client are not known here."""
        return by_arguments(self.definition.name, arguments, origin="the program that shows this session")

    async def execute(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Have the client run the tool, see ``HostTools.call``.

        Args:
            context: The call, and where to report progress.

        Raises:
            ToolError: The client reported a failure, or its answer is not a result.
        """
        return await self.host.call(self.definition.name, arguments, context)


def _output(value: Any) -> ToolOutput:
    if isinstance(value, str):
        return text_output(value)
    output = ToolOutput.from_wire(value)
    for block in output.content:
        if isinstance(block, ImageContent):
            try:
                check_image(block)
            except ValueError as error:
                raise ToolError(f"The host's answer holds an image that no model can be shown: {error}") from error
    return output
