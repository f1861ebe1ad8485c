"""An MCP server whose tools are those of a session.

What this module promises: a call that its client cancels, or whose client is gone, is ended as an abort ends it;
arguments that are not valid give a result that says what is wrong with them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

from indus_nb.base import textcut
from indus_nb.base.events import ToolOutput
from indus_nb.base.messages import TextContent
from indus_nb.base.terminal import plain
from indus_nb.base.visible import visible
from indus_nb.core.loop.loop import Outcome
from indus_nb.core.session.session import AgentSession
from indus_nb.front.serving.asking import ClientCall, ClientDialogs, Elicit, HeldCalls
from indus_nb.version import __version__

if TYPE_CHECKING:
    import mcp_types
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server

GONE = "indus_nb.gone"
"""Key in a request's scope of the event that its client has hung up, if that can be known."""
_LOOKS = frozenset({"variables", "notebook"})
_NO_NAME = "mcp"
"""The library's name for a client that does not name itself."""
_MAX_NAME_CHARACTERS = 60
_INSTRUCTIONS = (
    "These tools work in the user's running Jupyter kernel, on its live variables. The user may be asked before code "
    "runs, so a call can take as long as they need; one thing at a time runs there."
)


class ServedTools:
    """The tools of a session that other programs may call.

    Args:
        asks_clients: Whether the user is asked at the client that makes the call, and not where the session is.

    Attributes:
        callers: The number of calls, by the caller's name.
    """

    def __init__(self, session: AgentSession, offered: Sequence[str], *, asks_clients: bool = False) -> None:
        self.callers: dict[str, int] = {}
        self._session = session
        self._offered = offered
        self._asks_clients = asks_clients
        self._held = HeldCalls()

    def server(self) -> Server[Any]:
        """Build the MCP server."""
        from mcp.server.lowlevel import Server

        return Server(
            "indus",
            version=__version__,
            title="The user's Jupyter kernel",
            instructions=_INSTRUCTIONS,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    async def _list(self, _ctx: object, _params: object) -> mcp_types.ListToolsResult:
        import mcp_types

        await self._session.start()
        tools = self._session.all_tools
        listed: list[mcp_types.Tool] = []
        for name in self._offered:
            if name in tools:
                spec = tools[name].spec
                looks = mcp_types.ToolAnnotations(read_only_hint=name in _LOOKS, open_world_hint=name not in _LOOKS)
                listed.append(
                    mcp_types.Tool(
                        name=name,
                        description=spec.description,
                        input_schema={"type": "object", **spec.parameters},
                        annotations=looks,
                    )
                )
        return mcp_types.ListToolsResult(tools=listed)

    async def _call(
        self, ctx: ServerRequestContext[Any, Any], params: mcp_types.CallToolRequestParams
    ) -> mcp_types.CallToolResult | mcp_types.InputRequiredResult:
        import mcp_types

        state = params.request_state
        call = self._begun(ctx, params) if state is None else self._held.resume(state, params)
        await _while_awaited(call, getattr(ctx.request, "scope", {}).get(GONE) or asyncio.Event())
        if not call.outcome.done():
            return self._held.hold(call)
        output, is_error = call.outcome.result()
        return mcp_types.CallToolResult(content=_content(output), is_error=is_error)

    def _begun(self, ctx: ServerRequestContext[Any, Any], params: mcp_types.CallToolRequestParams) -> ClientCall:
        caller = _name_of(ctx)
        if len(self.callers) < 100 or caller in self.callers:
            self.callers[caller] = self.callers.get(caller, 0) + 1

        async def carry_out(call: ClientCall) -> Outcome:
            elicit = _elicit(ctx, call) if self._asks_clients else None
            with ClientDialogs(self._session.ui, elicit).asked() if elicit is not None else nullcontext():
                return await self._session.outside.call(
                    call.name, dict(call.arguments), caller=caller, offered=self._offered
                )

        return ClientCall(params.name, params.arguments or {}, carry_out)


def _elicit(ctx: ServerRequestContext[Any, Any], call: ClientCall) -> Elicit | None:
    """Return a function that asks the user of the calling client, if that client can show a form."""
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    capabilities = ctx.session.client_capabilities
    asking = None if capabilities is None else capabilities.elicitation
    if asking is None or (asking.form is None and asking.url is not None):
        return None
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return call.elicit
    return ctx.session.elicit_form if ctx.session.can_send_request else None


def _name_of(ctx: ServerRequestContext[Any, Any]) -> str:
    """Return the name of a client, as a user can read it."""
    params = ctx.session.client_params
    info = None if params is None else params.client_info
    name = "" if info is None or info.name == _NO_NAME else info.title or info.name
    return textcut.one_line(visible(plain(name)), _MAX_NAME_CHARACTERS) or "Another program"


async def _while_awaited(call: ClientCall, gone: asyncio.Event) -> None:
    """Wait until a call ends, asks, or its client has gone, which ends it."""
    try:
        while not (call.outcome.done() or call.asks.is_set()):
            await _first(call.outcome, call.asks, gone)
            if gone.is_set():
                call.outcome.cancel()
                await asyncio.wait([call.outcome])
    except asyncio.CancelledError:
        call.outcome.cancel()
        with suppress(asyncio.CancelledError):
            await call.outcome
        raise


async def _first(task: asyncio.Task[Outcome], *events: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait([task, *waiting], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()


def _content(output: ToolOutput) -> list[mcp_types.ContentBlock]:
    import mcp_types

    content: list[mcp_types.ContentBlock] = []
    for block in output.content:
        if isinstance(block, TextContent):
            content.append(mcp_types.TextContent(text=block.text))
        elif block.data is not None and block.mime_type is not None:
            content.append(mcp_types.ImageContent(data=block.data, mime_type=block.mime_type))
    return content
