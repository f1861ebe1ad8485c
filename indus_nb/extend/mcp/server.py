"""One server: its connection while there is one, the tools that it lists, and how often it was started again."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import math
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from indus_nb.base.events import ToolOutput
from indus_nb.base.messages import TextContent
from indus_nb.base.wire import JsonObject, clean_text, dump
from indus_nb.extend.mcp.config import CONNECT_SECONDS, ServerSpec
from indus_nb.extend.mcp.connection import MAX_TOOLS, Connection, SessionForgottenError, UnavailableError, cause_of
from indus_nb.extend.mcp.log import ServerLog
from indus_nb.extend.mcp.results import output_of
from indus_nb.models.apis.tool_schemas import SchemaError, sound_schema
from indus_nb.tools.tool import ToolContext, ToolError, in_thread, text_output
from indus_nb.tools.truncate import size_text

if TYPE_CHECKING:
    import mcp_types
    from mcp import MCPError

CLOSE_SECONDS = 6.0
"""Time limit of the end of a connection: three times the grace of its process, and some."""
_MAX_RESTARTS = 3
_RESTARTS_WITHIN_SECONDS = 60.0
_MAX_PROGRESS_CHARACTERS = 10_000
_MAX_SCHEMA_BYTES = 64 * 1024
_MAX_NAMED = 10


class McpServer:
    """One server.

    Args:
        on_tools: Called when ``tools`` has been listed, first or anew.
    """

    def __init__(self, spec: ServerSpec, on_tools: Callable[[], None]) -> None:
        self.spec = spec
        self.tools: list[mcp_types.Tool] = []
        self.problem: str | None = None
        self.log: ServerLog = ServerLog()
        self._on_tools = on_tools
        self._connection: Connection | None = None
        self._connecting = asyncio.Lock()
        self._restarts: deque[float] = deque(maxlen=_MAX_RESTARTS)
        self._calls: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def start(self) -> None:
        """Connect unless that is done; a failure becomes the ``problem``."""
        self._closed = False
        with contextlib.suppress(UnavailableError):
            await self._connected(restart=False)

    def close(self) -> list[asyncio.Task[Any]]:
        """Ask all running work to end; returns the tasks to wait for."""
        self._closed = True
        connection = self._connection
        if connection is not None:
            connection.stop("was closed")
        return [*self._calls, *([connection.task] if connection is not None else [])]

    async def call(self, tool: str, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Run a tool.

        Raises:
            ToolError: The tool failed, or could not be run; the text is for the model.
        """
        try:
            result = await self._call(tool, arguments, context)
        except UnavailableError as error:
            raise ToolError(self._sentence(str(error))) from error
        output = await in_thread(lambda stop: output_of(result, tool, stop), patience=0.1)
        if not result.is_error:
            return output
        content = [
            TextContent(text=self.spec.config.hide(block.text)) if isinstance(block, TextContent) else block
            for block in output.content
        ]
        failure = ToolError("\n".join(block.text for block in content if isinstance(block, TextContent)))
        failure.output = output.replace(content=content)
        raise failure

    async def _call(self, tool: str, arguments: JsonObject, context: ToolContext) -> mcp_types.CallToolResult:
        from mcp import MCPError

        async def report(progress: float, total: float | None, message: str | None) -> None:
            amount = f"{progress:g}/{total:g}" if total else f"{progress:g}"
            context.report(text_output(f"{amount}: {message[:_MAX_PROGRESS_CHARACTERS]}" if message else amount))

        if any(known.name == tool and known.output_schema for known in self.tools):
            # The SDK loads it to check the first result, which can take a second.
            await asyncio.to_thread(importlib.import_module, "jsonschema.validators")
        while True:
            connection = await self._connected(restart=True)
            task = asyncio.create_task(connection.call(tool, arguments, report))
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                # It notifies the server, which may take a while if that does not read; nothing waits for it.
                task.cancel()
                raise
            except SessionForgottenError as error:
                connection.stop(str(error))  # nothing was run: a new session, and once more
            except MCPError as error:
                raise await self._failure(error, tool, connection) from error
            except Exception as error:  # the SDK checks results: whatever it finds is this server's failure
                raise ToolError(self._sentence(f"gave no usable result for {tool}: {cause_of(error)}")) from error

    async def _failure(self, error: MCPError, tool: str, connection: Connection) -> Exception:
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        if error.code == REQUEST_TIMEOUT:
            return UnavailableError(
                f"did not answer {tool} within {self.spec.time_limit:g} seconds, so the call was cancelled. "
                f"`mcpServers.{self.spec.name}.timeoutMs` sets the limit"
            )
        if error.code == CONNECTION_CLOSED:
            reason = await connection.why_lost() or f"lost the connection ({error})"
            return UnavailableError(
                f"{reason}, while {tool} was running. How far that got is not known; the next call connects anew"
            )
        return ToolError(self._sentence(f"refused to run {tool}: {cause_of(error)}"))

    async def _connected(self, *, restart: bool) -> Connection:
        """Return the connection, made if need be; raises ``UnavailableError``."""
        async with self._connecting:
            connection = self._connection
            if self._closed:
                raise UnavailableError("is closed, for its session has ended")
            if connection is None or connection.over:
                if restart:
                    self._count_restart(connection)
                if connection is not None:
                    await asyncio.wait([connection.task], timeout=CLOSE_SECONDS)
                connection = self._connection = Connection(self.spec, self.log, self._set_tools, self._on_end)
            try:
                await connection.wait_ready(self.spec.time_limit or CONNECT_SECONDS)
            except UnavailableError as error:
                self.problem = self._sentence(f"is not available: it {error}")
                if restart:
                    raise UnavailableError(f"could not be started again: it {error}") from error
                raise
            return connection

    def _count_restart(self, connection: Connection | None) -> None:
        now = asyncio.get_running_loop().time()
        if len(self._restarts) == _MAX_RESTARTS and now - self._restarts[0] < _RESTARTS_WITHIN_SECONDS:
            wait = _RESTARTS_WITHIN_SECONDS - (now - self._restarts[0])
            reason = connection.reason if connection is not None else None
            raise UnavailableError(
                f"{reason or 'is not available'}. It was started again {_MAX_RESTARTS} times within a minute, so it is "
                f"left alone for {math.ceil(wait)} seconds; do without it, or ask the user to look into it"
            )
        self._restarts.append(now)

    def _set_tools(self, tools: list[mcp_types.Tool]) -> None:
        """Replace the tools by those of ``tools`` that can be offered; the others become the ``problem``."""
        fitting: dict[str, mcp_types.Tool] = {}
        left_out: list[str] = []
        for tool in tools:
            reason = f"there are more than {MAX_TOOLS}" if len(fitting) >= MAX_TOOLS else _schema_problem(tool)
            if reason is None:
                fitting.setdefault(tool.name, tool)
            else:
                left_out.append(f"{clean_text(tool.name[:64])} ({reason})")
        self.problem = None
        if left_out:
            more = f", and {len(left_out) - _MAX_NAMED} more" if len(left_out) > _MAX_NAMED else ""
            self.problem = (
                f"The MCP server {self.spec.name} lists tools that cannot be offered. Left out: "
                f"{', '.join(left_out[:_MAX_NAMED])}{more}."
            )
        self.tools = list(fitting.values())
        self._on_tools()

    def _on_end(self, connection: Connection) -> None:
        if connection is self._connection and not self._closed:
            self.problem = self._sentence(f"{connection.reason}. A call of one of its tools connects anew")

    def _sentence(self, predicate: str) -> str:
        text = f"The MCP server {self.spec.name} ({self.spec.config.where}) {predicate}."
        if words := self.log.last_words.strip():
            text += f" The last it wrote on standard error:\n{words}"
        return self.spec.config.hide(text)


def _schema_problem(tool: mcp_types.Tool) -> str | None:
    """Return why a tool of that schema cannot be offered."""
    if len(dump(tool.input_schema)) > _MAX_SCHEMA_BYTES:
        return f"its schema has more than {size_text(_MAX_SCHEMA_BYTES)}"
    try:
        sound_schema(tool.input_schema)
    except SchemaError as error:
        return str(error)
    return None
