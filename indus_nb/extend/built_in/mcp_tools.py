"""The tools of MCP servers, as an extension."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from indus_nb.base.errors import UsageError
from indus_nb.core.session.dialogs import clock
from indus_nb.extend.api import Context, ExtensionApi
from indus_nb.extend.built_in.deferred_tools import CALL, SEARCH, DeferredTools
from indus_nb.extend.events import SessionShutdown, SessionStart
from indus_nb.extend.mcp import McpServers
from indus_nb.tools import RESERVED_TOOLS

if TYPE_CHECKING:
    from indus_nb.safety.sandbox import Sandbox


def mcp_extension(
    name: str,
    configs: Mapping[str, object],
    deferred: DeferredTools,
    sandboxes: Callable[[Path], Sandbox | None] = lambda _: None,
) -> Callable[[ExtensionApi], None]:
    """Make an extension that offers the tools of servers.

    Args:
        name: The name of the extension.
        configs: The servers; see ``McpServers``.
        deferred: Decides which of their tools are sent to the model.
        sandboxes: Returns the sandbox of their processes in a session that works in a directory.
    """

    def setup(api: ExtensionApi) -> None:
        servers: list[McpServers] = []

        def offer() -> None:
            with contextlib.suppress(UsageError):  # the session was replaced meanwhile
                api.replace_tools(deferred.offered(name, servers[-1].tools))

        @api.on("session_start")
        async def start(_: SessionStart, ctx: Context) -> None:
            servers.append(
                McpServers(
                    configs,
                    ctx.cwd,
                    reserved=(*RESERVED_TOOLS, SEARCH, CALL),
                    sandbox=sandboxes(ctx.cwd),
                    on_change=offer,
                )
            )
            running = clock.get()
            with running.paused() if running else contextlib.nullcontext():  # it has a time limit of its own
                await servers[-1].start()
            deferred.begin(name, servers[-1], offer)
            if servers[-1].problems:
                raise UsageError(" ".join(servers[-1].problems))

        @api.on("session_shutdown")
        async def shut_down(_: SessionShutdown, __: Context) -> None:
            deferred.end(name)
            if servers:
                await servers.pop().close()

    return setup
