"""An MCP server whose tools are those of a session.

What this module promises: a call that its client withdraws, or that nobody waits for any more, is ended as an abort
ends it; arguments that are not valid give a result that says what is wrong with them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from indus_nb import textcut
from indus_nb.events import ToolOutput
from indus_nb.messages import TextContent
from indus_nb.session.session import AgentSession
from indus_nb.terminal import plain
from indus_nb.version import __version__
from indus_nb.visible import visible

if TYPE_CHECKING:
    import mcp_types
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server

GONE = "indus_nb.gone"
"""Where the scope of a request holds the event that its client has hung up, if that can be known."""
_LOOKS = frozenset({"variables", "notebook"})
_NO_NAME = "mcp"
"""What the library calls a client that does not name itself."""
_MAX_NAME_CHARACTERS = 60
_INSTRUCTIONS = (
    "These tools work in the user's running Jupyter kernel, on its live variables. The user may be asked before code "
    "runs, so a call can take as long as they need; one thing at a time runs there."
)


class ServedTools:
    """The tools of a session that other programs may call.

    Args:
        session: The session.
        offered: The names of the tools.
        on_client: Called with the context of a call before it is carried out.

    Attributes:
        callers: Who has called, with how many calls.
    """

    def __init__(
        self,
        session: AgentSession,
        offered: Sequence[str],
        on_client: Callable[[ServerRequestContext[Any, Any]], None] = lambda _: None,
    ) -> None:
        self.callers: dict[str, int] = {}
        self._session = session
        self._offered = offered
        self._on_client = on_client

    def server(self) -> Server[Any]:
        """Make the server."""
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
    ) -> mcp_types.CallToolResult:
        import mcp_types

        caller = _name_of(ctx)
        if len(self.callers) < 100 or caller in self.callers:
            self.callers[caller] = self.callers.get(caller, 0) + 1
        self._on_client(ctx)
        calling = self._session.outside.call(
            params.name, dict(params.arguments or {}), caller=caller, offered=self._offered
        )
        scope = getattr(ctx.request, "scope", {})
        output, is_error = await _while_awaited(asyncio.ensure_future(calling), scope.get(GONE))
        return mcp_types.CallToolResult(content=_content(output), is_error=is_error)


def _name_of(ctx: ServerRequestContext[Any, Any]) -> str:
    """What a client calls itself, as a user can read it."""
    params = ctx.session.client_params
    info = None if params is None else params.client_info
    name = "" if info is None or info.name == _NO_NAME else info.title or info.name
    return textcut.one_line(visible(plain(name)), _MAX_NAME_CHARACTERS) or "Another program"


async def _while_awaited(
    task: asyncio.Task[tuple[ToolOutput, bool]], gone: asyncio.Event | None
) -> tuple[ToolOutput, bool]:
    """Wait for a call as long as its client waits for it."""
    hung_up = asyncio.ensure_future(gone.wait()) if gone is not None else None
    try:
        await asyncio.wait([task, *([hung_up] if hung_up is not None else [])], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
        return await task
    except asyncio.CancelledError:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        raise
    finally:
        if hung_up is not None:
            hung_up.cancel()


def _content(output: ToolOutput) -> list[mcp_types.ContentBlock]:
    import mcp_types

    content: list[mcp_types.ContentBlock] = []
    for block in output.content:
        if isinstance(block, TextContent):
            content.append(mcp_types.TextContent(text=block.text))
        elif block.data is not None and block.mime_type is not None:
            content.append(mcp_types.ImageContent(data=block.data, mime_type=block.mime_type))
    return content
