"""Tools of MCP servers: processes and addresses that the settings name, behind the ``Tool`` protocol.

Each connection has a task of its own, which enters and leaves the SDK's context managers; calls go through it from
whatever task they are made in. The SDK (the extra ``mcp``) is imported when a server is started.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import importlib
import json
import logging
import math
import os
import re
import shutil
import signal
import tempfile
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, cast
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field, ValidationError, model_validator

from indus_nb import textcut
from indus_nb.events import ToolOutput
from indus_nb.messages import ImageContent, TextContent
from indus_nb.providers import ToolSpec
from indus_nb.providers.tool_schemas import SchemaError, sound_schema
from indus_nb.redaction import hide_shapes, shown_url
from indus_nb.tools.bash import PlainText
from indus_nb.tools.guard import guard_group, kill_group, release_group, start_guard
from indus_nb.tools.read import read_image
from indus_nb.tools.tool import Tool, ToolContext, ToolError, text_output
from indus_nb.tools.truncate import MAX_BYTES, GrowingTail, head, size_text
from indus_nb.version import __version__
from indus_nb.wire import JsonObject, WireModel, clean_text, dump, field_problems

if TYPE_CHECKING:
    import httpx2
    import mcp_types
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp import Client
    from mcp.client._transport import TransportStreams
    from mcp.client.session import IncomingMessage
    from mcp.shared.dispatcher import ProgressFnT
    from mcp.shared.message import SessionMessage


_CONNECT_SECONDS = 30.0
_RESTARTS = 3
_RESTARTS_WITHIN = 60.0
_GRACE = 1.0
"""Seconds that a process has to end when its input is closed, and again when it is asked to terminate."""
_CLOSE_SECONDS = 6.0
_MAX_MESSAGE = 16 << 20
_MAX_TOOLS = 500
_MAX_DESCRIPTION = 10_000
_MAX_SCHEMA = 64 * 1024
_MAX_IMAGES = 20
_LOG_CHARACTERS = 16 * 1024
_LAST_WORDS = 800
_MIN_SECRET = 6


class McpServerConfig(WireModel):
    """One entry of ``mcpServers``: either a ``command`` with its arguments, or the ``url`` of a streamable HTTP server.

    ``cwd`` is relative to the session's folder. ``timeout_ms`` limits connecting (30 seconds without it) and each call
    (unlimited without it). ``prefix`` goes before the names of the tools in the place of the server's name; with an
    empty one they keep their own.
    """

    type: Literal["stdio", "http", "streamable-http"] | None = None
    command: str | None = Field(default=None, min_length=1)
    args: list[str] = Field(default_factory=list[str], repr=False)
    env: dict[str, str] = Field(default_factory=dict[str, str], repr=False)
    cwd: str | None = None
    url: str | None = Field(default=None, pattern=r"^https?://[^/\s]", repr=False)
    headers: dict[str, str] = Field(default_factory=dict[str, str], repr=False)
    enabled: bool = True
    timeout_ms: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    prefix: str | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("give either `command` or `url`")
        urlsplit(self.url or "")  # raises ValueError
        return self

    @property
    def where(self) -> str:
        """What is started or connected to, without anything that may be secret."""
        if self.url is None:
            return f"`{self.command}`"
        return shown_url(self.url)

    def hide(self, text: str) -> str:
        """``text`` without the values of the environment, of the headers, and of the secret parts of the address."""
        parts = urlsplit(self.url or "")
        values = [*self.env.values(), *self.headers.values(), parts.username or "", parts.password or ""]
        values += [value for _, value in parse_qsl(parts.query)]
        return hide_shapes(
            text, [word for value in values for word in (value, *value.split())], min_characters=_MIN_SECRET
        )


@dataclass(frozen=True, slots=True)
class McpTool:
    """A server's tool behind the ``Tool`` protocol; ``tool`` is its name there."""

    spec: ToolSpec
    tool: str
    server: _Server = field(repr=False)
    read_only: bool = False
    snippet: str | None = None
    guidelines: tuple[str, ...] = ()

    def check(self, arguments: JsonObject) -> JsonObject:
        """The arguments as they are: the server knows what it can take."""
        return arguments

    async def execute(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Have the server run it."""
        return await self.server.call(self.tool, arguments, context)


class McpServers:
    """The MCP servers of a session: start them, offer their ``tools``, close them.

    ``configs`` is the settings' ``mcpServers``, see ``McpServerConfig``; an entry that makes no sense is a problem and
    the others work. Relative folders start at ``cwd``. Names in ``reserved`` are not given to tools. ``on_change`` is
    called, in the event loop, whenever ``tools`` became another mapping. One event loop uses all of it.
    """

    def __init__(
        self,
        configs: Mapping[str, object],
        cwd: Path,
        *,
        reserved: Collection[str] = (),
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.tools: Mapping[str, Tool] = {}
        self._reserved = frozenset(reserved)
        self._on_change = on_change
        self._problems: list[str] = []
        self._sdk_problem: str | None = None
        self._servers: dict[str, _Server] = {}
        for name, value in configs.items():
            try:
                config = McpServerConfig.model_validate(value)
            except ValidationError as error:
                wrong = field_problems(error, where=f"mcpServers.{name}")
                self._problems += [f"The MCP server {name} is left out: {problem}." for problem in wrong]
            else:
                if config.enabled:
                    self._servers[name] = _Server(name, config, cwd, self._offer)

    @property
    def problems(self) -> list[str]:
        """What is wrong now, a sentence or more for each: bad entries, and servers that cannot be used."""
        found = [*self._problems, *(server.problem for server in self._servers.values() if server.problem)]
        return [*found, self._sdk_problem] if self._sdk_problem else found

    def log(self, name: str) -> str:
        """The end of what the server called ``name`` wrote on standard error."""
        return self._servers[name].log.text

    async def start(self) -> None:
        """Connect, side by side, to all that are not connected; who fails or takes too long is among the problems."""
        if not self._servers:
            return
        try:
            await asyncio.to_thread(_import_sdk)
        except ImportError as error:
            self._sdk_problem = (
                f"MCP servers are configured, but the SDK cannot be imported ({error}). "
                'Run `pip install "indus_nb[mcp]"`, or take `mcpServers` out of the settings.'
            )
            return
        self._sdk_problem = None
        await asyncio.gather(*(server.start() for server in self._servers.values()))

    async def close(self) -> None:
        """End every connection and process; what does not end by itself within seconds is killed."""
        if work := [task for server in self._servers.values() for task in server.close()]:
            _, late = await asyncio.wait(work, timeout=_CLOSE_SECONDS)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=_GRACE)

    def _offer(self) -> None:
        offered: dict[str, Tool] = {}
        taken = set(self._reserved)
        for server in self._servers.values():
            for tool in server.tools:
                name = _free_name(server.prefix, tool.name, taken)
                taken.add(name)
                spec = ToolSpec(name, _description(tool), tool.input_schema)
                read_only = tool.annotations is not None and tool.annotations.read_only_hint is True
                offered[name] = McpTool(spec, tool.name, server, read_only)
        if offered != self.tools:
            self.tools = offered
            self._on_change()


def _import_sdk() -> None:
    """Raises ``ImportError`` also for an SDK that is too old."""
    # The SDK reports a server's noise by logging, which without this goes to standard error where nobody set it up.
    for name in ("mcp", "client"):
        if not logging.getLogger(name).handlers:
            logging.getLogger(name).addHandler(logging.NullHandler())
    if not hasattr(importlib.import_module("mcp"), "Client"):
        raise ImportError("the installed `mcp` is older than 2.0")


def _free_name(prefix: str, tool: str, taken: Collection[str]) -> str:
    wanted = name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{prefix}_{tool}" if prefix else tool) or "_"
    attempt = 0
    while len(name) > 64 or name in taken:
        digest = hashlib.sha256(f"{prefix}\0{tool}\0{attempt}".encode(errors="replace")).hexdigest()[:6]
        name = f"{wanted[:57]}_{digest}"
        attempt += 1
    return name


def _description(tool: mcp_types.Tool) -> str:
    text = clean_text(tool.description or tool.title or tool.name)
    return text if len(text) <= _MAX_DESCRIPTION else f"{text[:_MAX_DESCRIPTION]} [...]"


def _schema_problem(tool: mcp_types.Tool) -> str | None:
    """Why a tool of that schema cannot be offered."""
    if len(dump(tool.input_schema)) > _MAX_SCHEMA:
        return f"its schema has more than {size_text(_MAX_SCHEMA)}"
    try:
        sound_schema(tool.input_schema)
    except SchemaError as error:
        return str(error)
    return None


class _Log:
    """The end of what a server wrote on standard error, as plain text; ``last_words`` are of its newest process."""

    def __init__(self) -> None:
        self.text = ""
        self.last_words = ""
        self._plain = PlainText()

    def take(self, data: bytes) -> None:
        new = self._plain.feed(data)
        self.text = (self.text + new)[-_LOG_CHARACTERS:]
        self.last_words = (self.last_words + new)[-_LAST_WORDS:]

    def begin(self) -> None:
        self.last_words = ""


class _Unavailable(Exception):  # noqa: N818 - its text is a predicate
    """There is no connection; the text goes on from "The MCP server so-and-so"."""


class _Server:
    """One server: its connection while there is one, what it offers, and how often it was started again."""

    def __init__(self, name: str, config: McpServerConfig, cwd: Path, changed: Callable[[], None]) -> None:
        self.name = name
        self.config = config
        self.cwd = cwd / Path(config.cwd or ".").expanduser()
        self.prefix = name if config.prefix is None else config.prefix
        self.tools: list[mcp_types.Tool] = []
        self.problem: str | None = None
        self.log = _Log()
        self._changed = changed
        self._connection: _Connection | None = None
        self._connecting = asyncio.Lock()
        self._restarts: deque[float] = deque(maxlen=_RESTARTS)
        self._calls: set[asyncio.Task[Any]] = set()
        self._closed = False

    @property
    def seconds(self) -> float | None:
        """The configured time limit."""
        return None if self.config.timeout_ms is None else self.config.timeout_ms / 1000

    async def start(self) -> None:
        """Connect unless that is done; a failure becomes the ``problem``."""
        self._closed = False
        with contextlib.suppress(_Unavailable):
            await self._connected(restart=False)

    def close(self) -> list[asyncio.Task[Any]]:
        """Ask all that goes on to end; returns what to wait for."""
        self._closed = True
        connection = self._connection
        if connection is not None:
            connection.stop("was closed")
        return [*self._calls, *([connection.task] if connection is not None else [])]

    def offer(self, tools: list[mcp_types.Tool]) -> None:
        """Take over what the server lists."""
        fitting: dict[str, mcp_types.Tool] = {}
        left_out: list[str] = []
        for tool in tools:
            reason = f"there are more than {_MAX_TOOLS}" if len(fitting) >= _MAX_TOOLS else _schema_problem(tool)
            if reason is None:
                fitting.setdefault(tool.name, tool)
            else:
                left_out.append(f"{clean_text(tool.name[:64])} ({reason})")
        self.problem = None
        if left_out:
            more = f", and {len(left_out) - 10} more" if len(left_out) > 10 else ""
            self.problem = (
                f"The MCP server {self.name} lists tools that cannot be offered. Left out: "
                f"{', '.join(left_out[:10])}{more}."
            )
        self.tools = list(fitting.values())
        self._changed()

    def lost(self, connection: _Connection) -> None:
        """Note how a connection ended."""
        if connection is self._connection and not self._closed:
            self.problem = self._sentence(f"{connection.reason}. A call of one of its tools connects anew")

    async def call(self, tool: str, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Run a tool; raises ``ToolError`` with what the model should know."""
        try:
            result = await self._call(tool, arguments, context)
        except _Unavailable as error:
            raise ToolError(self._sentence(str(error))) from error
        output = await asyncio.to_thread(_output, result, tool)
        if not result.is_error:
            return output
        content = [
            TextContent(text=self.config.hide(block.text)) if isinstance(block, TextContent) else block
            for block in output.content
        ]
        failure = ToolError("\n".join(block.text for block in content if isinstance(block, TextContent)))
        failure.output = output.model_copy(update={"content": content})
        raise failure

    async def _call(self, tool: str, arguments: JsonObject, context: ToolContext) -> mcp_types.CallToolResult:
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        async def report(progress: float, total: float | None, message: str | None) -> None:
            amount = f"{progress:g}/{total:g}" if total else f"{progress:g}"
            context.report(text_output(f"{amount}: {message[:_MAX_DESCRIPTION]}" if message else amount))

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
                # It tells the server, which may take a while if that does not read; nobody waits for it.
                task.cancel()
                raise
            except _SessionForgotten as error:
                connection.stop(str(error))  # nothing was run: a new session, and once more
            except MCPError as error:
                if error.code == REQUEST_TIMEOUT:
                    raise _Unavailable(
                        f"did not answer {tool} within {self.seconds:g} seconds, so the call was cancelled. "
                        f"`mcpServers.{self.name}.timeoutMs` sets the limit"
                    ) from error
                if error.code == CONNECTION_CLOSED:
                    reason = await connection.why_lost() or f"lost the connection ({error})"
                    raise _Unavailable(
                        f"{reason}, while {tool} was running. How far that got is not known; the next call connects "
                        "anew"
                    ) from error
                raise ToolError(self._sentence(f"refused to run {tool}: {_cause(error)}")) from error
            except Exception as error:  # the SDK checks results: whatever it finds is this server's failure
                raise ToolError(self._sentence(f"gave no usable result for {tool}: {_cause(error)}")) from error

    async def _connected(self, *, restart: bool) -> _Connection:
        """The connection, made if need be; raises ``_Unavailable``."""
        async with self._connecting:
            connection = self._connection
            if self._closed:
                raise _Unavailable("is closed, for its session has ended")
            if connection is None or connection.over:
                if restart:
                    self._count_restart(connection)
                if connection is not None:
                    await asyncio.wait([connection.task], timeout=_CLOSE_SECONDS)
                connection = self._connection = _Connection(self)
            try:
                await connection.wait_ready(self.seconds or _CONNECT_SECONDS)
            except _Unavailable as error:
                self.problem = self._sentence(f"is not available: it {error}")
                if restart:
                    raise _Unavailable(f"could not be started again: it {error}") from error
                raise
            return connection

    def _count_restart(self, connection: _Connection | None) -> None:
        now = asyncio.get_running_loop().time()
        if len(self._restarts) == _RESTARTS and now - self._restarts[0] < _RESTARTS_WITHIN:
            wait = _RESTARTS_WITHIN - (now - self._restarts[0])
            reason = connection.reason if connection is not None else None
            raise _Unavailable(
                f"{reason or 'is not available'}. It was started again {_RESTARTS} times within a minute, so it is "
                f"left alone for {math.ceil(wait)} seconds; do without it, or ask the user to look into it"
            )
        self._restarts.append(now)

    def _sentence(self, predicate: str) -> str:
        text = f"The MCP server {self.name} ({self.config.where}) {predicate}."
        if words := self.log.last_words.strip():
            text += f" The last it wrote on standard error:\n{words}"
        return self.config.hide(text)


class _SessionForgotten(Exception):  # noqa: N818 - its text is a predicate
    """The HTTP server refused a request because it does not know the session."""


@dataclass(slots=True)
class _Exchange:
    """What HTTP said to the requests of one piece of work; the SDK's errors leave it out."""

    status: int | None = None
    session_forgotten: bool = False


# The SDK's HTTP transport sends each message in the context of the task that asked for it.
_exchange: ContextVar[_Exchange] = ContextVar("_exchange")


class _Connection:
    """One connection, from the first message to the last; ``reason`` says, as a predicate, why it is ``over``."""

    def __init__(self, server: _Server) -> None:
        self.over = False
        self.reason: str | None = None
        self._server = server
        self._client: Client | None = None
        self._ready = asyncio.Event()
        self._wake = asyncio.Event()
        self._stale = False
        server.log.begin()
        self.task = asyncio.create_task(self._live(), name=f"MCP server {server.name}")

    def lose(self, reason: str | None) -> None:
        """Note that it is over; the first reason counts, and ``None`` leaves it to be found out."""
        self.over = True
        if self.reason is None:
            self.reason = reason
        self._wake.set()

    def stop(self, reason: str) -> None:
        """End it."""
        self.lose(reason)
        self.task.cancel()

    async def wait_ready(self, seconds: float) -> None:
        """Return when calls can be made; raises ``_Unavailable``, at the latest after ``seconds``."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ready.wait()
        if not self._ready.is_set():
            self.stop(f"was not ready within {seconds:g} seconds")
        if self.over:
            raise _Unavailable(await self.why_lost() or "is ending")

    async def why_lost(self) -> str | None:
        """The reason, given some time to be found out; ``None`` when the connection is still good."""
        if self.reason is None:
            await asyncio.wait([self.task], timeout=_GRACE)
        return self.reason

    async def call(self, tool: str, arguments: JsonObject, report: ProgressFnT) -> mcp_types.CallToolResult:
        """The server's result; raises ``MCPError`` and whatever else the SDK finds wrong, or ``_SessionForgotten``."""
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED

        if self._client is None or self.over:
            raise MCPError(CONNECTION_CLOSED, "it was closed before")
        exchange = _Exchange()
        _exchange.set(exchange)
        try:
            return await self._client.call_tool(
                tool, arguments, read_timeout_seconds=self._server.seconds or math.inf, progress_callback=report
            )
        except MCPError as error:
            if exchange.session_forgotten:
                raise _SessionForgotten("has forgotten the session") from error
            _add_status(error, exchange)
            raise

    async def _live(self) -> None:
        exchange = _Exchange()
        _exchange.set(exchange)
        was_ready = False
        try:
            async with contextlib.AsyncExitStack() as stack:
                client = self._client = await self._enter(stack)
                capability = client.server_capabilities.tools
                if capability is not None:
                    if capability.list_changed and client.session.discover_result is not None:
                        stack.callback(asyncio.create_task(self._listen(client)).cancel)
                    self._server.offer(await _list_tools(client))
                self._ready.set()
                was_ready = True
                await self._follow(client)
        except asyncio.CancelledError:
            self.lose("was cancelled")
            raise
        except Exception as error:  # noqa: BLE001 - whatever the SDK or the server raises is this server's failure
            _add_status(error, exchange)
            self.lose(f"failed: {_cause(error)}")
        finally:
            self.lose("has ended")
            self._ready.set()
            if was_ready:
                self._server.lost(self)

    async def _enter(self, stack: contextlib.AsyncExitStack) -> Client:
        from mcp import Client
        from mcp_types import Implementation

        server = self._server
        transport = _over_http(server.config) if server.config.url else _over_pipes(server, self.lose)
        client = Client(
            transport,
            read_timeout_seconds=server.seconds or _CONNECT_SECONDS,
            message_handler=self._hear,
            client_info=Implementation(name="indus_nb", version=__version__),
            cache=None,
        )
        return await stack.enter_async_context(client)

    async def _hear(self, message: IncomingMessage) -> None:
        from mcp_types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self._refresh()

    def _refresh(self) -> None:
        self._stale = True
        self._wake.set()

    async def _listen(self, client: Client) -> None:
        """Ask to be told of changes, as the newer protocol wants it, and again when the stream breaks off."""
        from mcp import MCPError
        from mcp.client.subscriptions import SubscriptionLost

        pause = 1.0
        while True:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    async for _ in changes:  # told to `_hear` as well
                        pause = 1.0
            except (SubscriptionLost, TimeoutError):
                pass
            except MCPError:
                return  # it does not do that, or the connection is over
            await asyncio.sleep(pause)
            pause = min(pause * 2, 60.0)
            self._refresh()

    async def _follow(self, client: Client) -> None:
        """List the tools again whenever they changed, until the connection is over."""
        from mcp import MCPError

        while not self.over:
            await self._wake.wait()
            self._wake.clear()
            if self._stale and not self.over:
                self._stale = False
                try:
                    self._server.offer(await _list_tools(client))
                except MCPError as error:  # what was listed before is still offered
                    self._server.log.take(f"[the tools could not be listed again: {error}]\n".encode())
                await asyncio.sleep(0.1)  # a server that announces changes all the time is not asked all the time


async def _list_tools(client: Client) -> list[mcp_types.Tool]:
    tools: list[mcp_types.Tool] = []
    cursor: str | None = None
    while len(tools) <= _MAX_TOOLS:
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        if page.next_cursor is None or not page.tools:
            break
        cursor = page.next_cursor
    return tools


def _add_status(error: BaseException, exchange: _Exchange) -> None:
    if exchange.status is not None:
        phrase = HTTPStatus(exchange.status).phrase if exchange.status in set(HTTPStatus) else ""
        error.add_note(f"HTTP {exchange.status} {phrase}".strip())


def _cause(error: BaseException) -> str:
    notes = [str(note) for note in getattr(error, "__notes__", [])]
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    text = clean_text(str(error)).strip()[:2000].rstrip(".") or type(error).__name__
    return " ".join([text, *(f"({note})" for note in notes)])


@contextlib.asynccontextmanager
async def _over_pipes(server: _Server, lose: Callable[[str | None], None]) -> AsyncGenerator[TransportStreams]:
    """Run the server's process, and leave nothing of its process group behind.

    The SDK's own transport holds lines of any length, and a server that pays no heed to the end of its input would
    outlive us.
    """
    import anyio
    from mcp.shared.message import SessionMessage

    program = await _start_program(server, lose)
    arrive, arrived = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    leave, leaving = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as pumps:
            pumps.start_soon(program.read, arrive)
            pumps.start_soon(program.write, leaving)
            pumps.start_soon(program.read_errors)
            try:
                yield arrived, leave
            finally:
                with anyio.CancelScope(shield=True):
                    await program.end()
                pumps.cancel_scope.cancel()
    finally:
        for stream in (arrive, arrived, leave, leaving):
            stream.close()
        program.let_go()


async def _start_program(server: _Server, lose: Callable[[str | None], None]) -> _Program:
    from mcp.client.stdio import get_default_environment

    environment = get_default_environment() | server.config.env
    command = server.config.command or ""
    path = _find_program(command, server.cwd, environment)
    start_guard()
    process = await asyncio.create_subprocess_exec(
        *(command, *server.config.args),
        executable=path,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        limit=_MAX_MESSAGE,
        cwd=server.cwd,
        env=environment,
        start_new_session=True,
    )
    guard_group(process.pid)
    return _Program(process, server.log, lose)


def _find_program(command: str, cwd: Path, environment: Mapping[str, str]) -> str:
    wanted = str(cwd / Path(command).expanduser()) if "/" in command else command
    path = shutil.which(wanted, path=environment.get("PATH", os.defpath))
    if path is None:
        raise ValueError(f"there is no program {command} (relative paths start at {cwd}, names are sought in PATH)")
    return path


class _Program:
    """A running server process: its three pipes, and its end."""

    def __init__(self, process: Process, log: _Log, lose: Callable[[str | None], None]) -> None:
        self._process = process
        self._log = log
        self._lose = lose
        self._stdin = cast("asyncio.StreamWriter", process.stdin)
        self._stdout = cast("asyncio.StreamReader", process.stdout)
        self._stderr = cast("asyncio.StreamReader", process.stderr)
        self._logged = asyncio.Event()
        self._silent = False

    async def read(self, arrive: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Hand on what comes until the output ends."""
        from anyio import BrokenResourceError, ClosedResourceError
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        with arrive:
            while True:
                try:
                    line = await self._stdout.readline()
                except ValueError:
                    self._lose(f"sent a message of more than {size_text(_MAX_MESSAGE)}")
                    return
                if not line:
                    self._silent = True
                    self._lose(None)
                    return
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    self._log.take(b"[on standard output, no message] " + line[:_LOG_CHARACTERS])
                    continue
                try:
                    await arrive.send(SessionMessage(message))
                except (BrokenResourceError, ClosedResourceError):
                    return

    async def write(self, leaving: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Send what leaves."""
        with contextlib.suppress(OSError):  # it has ended, as `read` will see
            async for message in leaving:
                data = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                self._stdin.write(data.encode() + b"\n")
                await self._stdin.drain()

    async def read_errors(self) -> None:
        """Keep the end of what it writes on standard error."""
        while data := await self._stderr.read(1 << 16):
            self._log.take(data)
        self._logged.set()

    async def end(self) -> None:
        """Close its input, ask it to terminate, kill what is left. Says why its output ended, if it did."""
        import anyio

        try:
            self._stdin.close()
            ended = await self._ended(_GRACE)
            if self._silent:
                self._lose(_how_it_ended(self._process.returncode))
            if not ended:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGTERM)
                await self._ended(_GRACE)
        finally:
            kill_group(self._process.pid)
        await self._ended(_GRACE)
        with anyio.move_on_after(_GRACE / 4):  # used up only if a process that fled from the group holds the pipe
            await self._logged.wait()

    async def _ended(self, seconds: float) -> bool:
        import anyio

        # Waiting also lasts too long when another process holds a pipe.
        with anyio.move_on_after(seconds):
            await self._process.wait()
        return self._process.returncode is not None

    def let_go(self) -> None:
        """Close the pipes, whoever else holds them."""
        release_group(self._process.pid)
        cast("Any", self._process)._transport.close()  # noqa: SLF001 - nothing public does it


def _how_it_ended(code: int | None) -> str:
    if code is None:
        return "closed its standard output"
    return f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"


@contextlib.asynccontextmanager
async def _over_http(config: McpServerConfig) -> AsyncGenerator[TransportStreams]:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    seconds = max(300.0, (config.timeout_ms or 0) / 1000)

    def make() -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            headers={"accept-encoding": "identity", **config.headers},
            timeout=httpx2.Timeout(_CONNECT_SECONDS, read=seconds),
            event_hooks={"response": [_inspect]},
        )

    # In a thread, because it reads certificates.
    async with (
        await asyncio.to_thread(make) as client,
        streamable_http_client(config.url or "", http_client=client, max_sse_event_size=_MAX_MESSAGE) as streams,
    ):
        yield streams


async def _inspect(response: httpx2.Response) -> None:
    if response.status_code >= 400 and response.request.method == "POST" and (seen := _exchange.get(None)):
        seen.status = response.status_code
        seen.session_forgotten = response.status_code == 404 and "mcp-session-id" in response.request.headers
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        response.stream = _bounded(cast("httpx2.AsyncByteStream", response.stream))


def _bounded(stream: httpx2.AsyncByteStream) -> httpx2.AsyncByteStream:
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in stream:
                size += len(chunk)
                if size > _MAX_MESSAGE:
                    raise httpx2.ReadError(f"it sent a message of more than {size_text(_MAX_MESSAGE)}")
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()


def _output(result: mcp_types.CallToolResult, tool: str) -> ToolOutput:
    """What a model is shown of a result, within the limits of tool output."""
    parts: list[str | ImageContent] = []
    for block in result.content:
        if block.type == "text":
            parts.append(block.text)
        elif block.type == "image":
            parts += _image(block.data, block.mime_type, tool)
        elif block.type == "audio":
            parts.append(f"[Audio, {block.mime_type}: cannot be shown]")
        elif block.type == "resource_link":
            parts.append(
                f"[Resource {block.name}: {block.uri}]" + (f" {block.description}" if block.description else "")
            )
        else:
            parts += _resource(block.resource, tool)
    if result.structured_content is not None and not _says(parts, result.structured_content):
        parts.append(json.dumps(result.structured_content, ensure_ascii=False))
    texts = [clean_text(part) for part in parts if isinstance(part, str) and part.strip()]
    images = [part for part in parts if isinstance(part, ImageContent)]
    if len(images) > _MAX_IMAGES:
        texts.append(f"[{len(images) - _MAX_IMAGES} of {len(images)} images are left out]")
    text, details = _shortened("\n".join(texts))
    if details is None and len(images) <= _MAX_IMAGES:
        kept = [part for part in parts if not isinstance(part, str) or part.strip()]
        content = [TextContent(text=clean_text(part)) if isinstance(part, str) else part for part in kept]
    else:
        content = [*([TextContent(text=text)] if text else []), *images[:_MAX_IMAGES]]
    return ToolOutput(content=content or [TextContent(text="(no output)")], details=details)


def _image(data: str, mime_type: str, tool: str) -> list[str | ImageContent]:
    """An image as models take it: bytes that none can read would spoil the conversation."""
    try:
        with tempfile.NamedTemporaryFile(prefix="indusagi-mcp-") as file:
            file.write(base64.b64decode(data, validate=True))
            file.flush()
            output = read_image(Path(file.name), f"from {tool}")
    except (binascii.Error, OSError) as error:
        return [f"[An image from {tool} cannot be shown: {error}]"]
    except ToolError as error:
        return [f"[{error}]"]
    if output is None:
        return [f"[An image from {tool}, {mime_type}, cannot be shown: models take PNG, JPEG, GIF and WebP]"]
    return [block.text if isinstance(block, TextContent) else block for block in output.content]


def _resource(
    resource: mcp_types.TextResourceContents | mcp_types.BlobResourceContents, tool: str
) -> list[str | ImageContent]:
    label = f"[Resource {resource.uri}]"
    blob: str | None = getattr(resource, "blob", None)
    if blob is None:
        return [f"{label}\n{getattr(resource, 'text', '')}"]
    if (resource.mime_type or "").startswith("image/"):
        return [label, *_image(blob, resource.mime_type or "", tool)]
    return [f"{label} {resource.mime_type or 'binary'}, {size_text(len(blob) * 3 // 4)}: cannot be shown"]


def _says(parts: Sequence[str | ImageContent], structured: Any) -> bool:
    """Whether the text is the structured content once more, as the protocol advises."""
    texts = [part for part in parts if isinstance(part, str)]
    values: list[Any] = [*texts]
    for text in texts:
        with contextlib.suppress(ValueError, RecursionError):
            values.append(json.loads(text))
    inner = structured
    if isinstance(structured, dict) and list(cast("JsonObject", structured)) == ["result"]:
        inner = cast("JsonObject", structured)["result"]  # how servers wrap what is no object
    return structured in values or inner in values or inner in (texts, values[len(texts) :])


def _shortened(text: str) -> tuple[str, JsonObject | None]:
    """The beginning of ``text``, a word on where the whole of it is, and the details; or all of it."""
    shown = head(text)
    if not shown.truncated:
        return text, None
    whole = GrowingTail("mcp")
    with contextlib.closing(whole):
        whole.append(text)
    if shown.first_line_exceeds_limit:
        content = textcut.head_bytes(text, MAX_BYTES)
        shown = shown.model_copy(
            update={"content": content, "output_bytes": textcut.byte_size(content), "output_lines": 1}
        )
        what = f"the first {size_text(shown.output_bytes)} of line 1"
    else:
        what = f"lines 1-{shown.output_lines}"
    where = f"Full output: {whole.path}" if whole.path else f"The full output could not be kept: {whole.file_problem}"
    details = {"truncation": shown.to_wire()} | ({"fullOutputPath": str(whole.path)} if whole.path else {})
    total = f"{shown.total_lines} lines, {size_text(shown.total_bytes)}"
    return f"{shown.content}\n\n[Long output: {what} of {total} are shown. {where}]", details
