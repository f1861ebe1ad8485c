"""One connection to a server, from its first message to its last.

What this module promises:

- Each connection has a task of its own, which enters and leaves the SDK's context managers; calls go through it from
  whatever task they are made in.
- It is ``CONNECTING``, then ``READY``, then ``OVER``, and never goes back; it may skip ``READY``. ``reason`` is, as a
  predicate, why it is over: the first reason that was found counts, and that of an ended process is given a moment to
  be found out.
- While it is ready, the tools are listed again whenever the server announces that they changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, cast

from indus_nb.base.wire import JsonObject, clean_text
from indus_nb.extend.mcp.config import CONNECT_SECONDS, ServerSpec
from indus_nb.extend.mcp.http import HttpOutcome, add_status, over_http, watch_http
from indus_nb.extend.mcp.log import ServerLog
from indus_nb.extend.mcp.process import GRACE_SECONDS, over_pipes
from indus_nb.version import __version__

if TYPE_CHECKING:
    import mcp_types
    from mcp import Client
    from mcp.client.session import IncomingMessage
    from mcp.shared.dispatcher import ProgressFnT

MAX_TOOLS = 500
_MIN_LIST_PAUSE = 0.1
_MIN_LISTEN_PAUSE = 1.0
_MAX_LISTEN_PAUSE = 60.0


class UnavailableError(Exception):
    """Raised when there is no connection.

    The text is a predicate that goes on from "The MCP server so-and-so".
    """


class SessionForgottenError(Exception):
    """Raised when the HTTP server rejected a request because it does not know the session.

    Nothing was run.
    """


class ConnectionState(Enum):
    """The state of a connection; the order is that of its life."""

    CONNECTING = "connecting"
    READY = "ready"
    OVER = "over"


class Connection:
    """One connection; making it begins to connect, on the running event loop.

    Args:
        log: Where its standard error goes; its last words begin anew.
        on_tools: Called with all tools when it is ready and whenever they changed.
        on_end: Called with the connection when it has been ready and is over.
    """

    def __init__(
        self,
        spec: ServerSpec,
        log: ServerLog,
        on_tools: Callable[[list[mcp_types.Tool]], None],
        on_end: Callable[[Connection], None],
    ) -> None:
        self.state: ConnectionState = ConnectionState.CONNECTING
        self.reason: str | None = None
        self._spec = spec
        self._log = log
        self._on_tools = on_tools
        self._on_end = on_end
        self._client: Client | None = None
        self._settled = asyncio.Event()  # it is ready, or its task has ended
        self._wake = asyncio.Event()
        self._stale = False
        log.begin()
        self.task: asyncio.Task[None] = asyncio.create_task(self._run(), name=f"MCP server {spec.name}")

    @property
    def over(self) -> bool:
        """Return whether nothing can be called any more."""
        return self.state is ConnectionState.OVER

    def lose(self, reason: str | None) -> None:
        """Mark the connection as over.

        The first reason counts, and ``None`` leaves it to be found out.
        """
        self.state = ConnectionState.OVER
        if self.reason is None:
            self.reason = reason
        self._wake.set()

    def stop(self, reason: str) -> None:
        """Close the connection."""
        self.lose(reason)
        self.task.cancel()

    async def wait_ready(self, seconds: float) -> None:
        """Wait until calls can be made.

        Raises ``UnavailableError``, at the latest after ``seconds``.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._settled.wait()
        if not self._settled.is_set():
            self.stop(f"was not ready within {seconds:g} seconds")
        if self.over:
            raise UnavailableError(await self.why_lost() or "is ending")

    async def why_lost(self) -> str | None:
        """Return the reason of the loss, given some time to be found out.

        Returns ``None`` when the connection is still good.
        """
        if self.reason is None:
            await asyncio.wait([self.task], timeout=GRACE_SECONDS)
        return self.reason

    async def call(self, tool: str, arguments: JsonObject, report: ProgressFnT) -> mcp_types.CallToolResult:
        """Have the server run a tool, within the configured time limit.

        Args:
            report: Called with the progress that the server announces.

        Returns:
            The result, which may be that of a failed tool.

        Raises:
            MCPError: It was rejected, not answered in time, or the connection ended. The SDK raises others when
                it finds the result wrong.
            SessionForgottenError: Nothing was run; another connection is needed.
        """
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED

        if self._client is None or self.over:
            raise MCPError(CONNECTION_CLOSED, "it was closed before")
        outcome = watch_http()
        try:
            return await self._client.call_tool(
                tool, arguments, read_timeout_seconds=self._spec.time_limit or math.inf, progress_callback=report
            )
        except MCPError as error:
            if outcome.session_forgotten:
                raise SessionForgottenError("has forgotten the session") from error
            add_status(error, outcome)
            raise

    async def _run(self) -> None:
        outcome = watch_http()
        try:
            async with contextlib.AsyncExitStack() as stack:
                client = self._client = await self._enter(stack)
                await self._become_ready(client, stack)
                await self._follow(client)
        except asyncio.CancelledError:
            self.lose("was cancelled")
            raise
        except Exception as error:  # noqa: BLE001 - whatever the SDK or the server raises is this server's failure
            self._fail(error, outcome)
        finally:
            was_ready = self._settled.is_set()
            self.lose("has ended")
            self._settled.set()
            if was_ready:
                self._on_end(self)

    async def _become_ready(self, client: Client, stack: contextlib.AsyncExitStack) -> None:
        capability = client.server_capabilities.tools
        if capability is not None:
            if capability.list_changed and client.session.discover_result is not None:
                stack.callback(asyncio.create_task(self._listen(client)).cancel)
            self._on_tools(await _list_tools(client))
        if not self.over:
            self.state = ConnectionState.READY
        self._settled.set()

    def _fail(self, error: Exception, outcome: HttpOutcome) -> None:
        add_status(error, outcome)
        self.lose(f"failed: {cause_of(error)}")

    async def _enter(self, stack: contextlib.AsyncExitStack) -> Client:
        from mcp import Client
        from mcp_types import Implementation

        spec = self._spec
        transport = over_http(spec.config) if spec.config.url else over_pipes(spec, self._log, self.lose)
        client = Client(
            transport,
            read_timeout_seconds=spec.time_limit or CONNECT_SECONDS,
            message_handler=self._on_message,
            client_info=Implementation(name="indus_nb", version=__version__),
            cache=None,
        )
        return await stack.enter_async_context(client)

    async def _on_message(self, message: IncomingMessage) -> None:
        from mcp_types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self._refresh()

    def _refresh(self) -> None:
        self._stale = True
        self._wake.set()

    async def _listen(self, client: Client) -> None:
        """Subscribe to changes, as the newer protocol wants it, and again when the stream breaks off."""
        from mcp import MCPError
        from mcp.client.subscriptions import SubscriptionLost

        pause = _MIN_LISTEN_PAUSE
        while True:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    async for _ in changes:  # `_on_message` gets them as well
                        pause = _MIN_LISTEN_PAUSE
            except (SubscriptionLost, TimeoutError):
                pass
            except MCPError:
                return  # it does not do that, or the connection is over
            await asyncio.sleep(pause)
            pause = min(pause * 2, _MAX_LISTEN_PAUSE)
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
                    self._on_tools(await _list_tools(client))
                except MCPError as error:  # what was listed before is still offered
                    self._log.add(f"[the tools could not be listed again: {error}]\n".encode())
                await asyncio.sleep(_MIN_LIST_PAUSE)  # a server may announce changes all the time


async def _list_tools(client: Client) -> list[mcp_types.Tool]:
    tools: list[mcp_types.Tool] = []
    cursor: str | None = None
    while len(tools) <= MAX_TOOLS:
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        if page.next_cursor is None or not page.tools:
            break
        cursor = page.next_cursor
    return tools


def cause_of(error: BaseException) -> str:
    """Return the message of an error, of a group its first one's, with its notes behind them in brackets."""
    notes = [str(note) for note in getattr(error, "__notes__", [])]
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    text = clean_text(str(error)).strip()[:2000].rstrip(".") or type(error).__name__
    return " ".join([text, *(f"({note})" for note in notes)])
