"""The servers of a session together, and their tools behind the ``Tool`` protocol.

What this module promises: a server that cannot be used is a problem, and the others work; every tool has a name of its
own that all APIs accept; and the SDK (the extra ``mcp``) is imported when a server is started and not before.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import logging
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from indus_nb.base.events import ToolOutput
from indus_nb.base.readers import InvalidFieldsError
from indus_nb.base.wire import JsonObject, clean_text
from indus_nb.extend.mcp.config import McpServerConfig, ServerSpec
from indus_nb.extend.mcp.process import GRACE_SECONDS
from indus_nb.extend.mcp.server import CLOSE_SECONDS, McpServer
from indus_nb.models import ToolSpec
from indus_nb.tools.description import CallDescription, by_arguments
from indus_nb.tools.tool import ToolContext

if TYPE_CHECKING:
    import mcp_types

    from indus_nb.safety.sandbox import Sandbox

_MAX_DESCRIPTION_CHARACTERS = 10_000
_MAX_NAME_CHARACTERS = 64
_MAX_SERVERS = 64


@dataclass(frozen=True, slots=True)
class McpTool:
    """A server's tool behind the ``Tool`` protocol; ``tool`` is its name there.

    One that is ``deferred`` is offered, but sent to no model unless it was chosen by name.
    """

    spec: ToolSpec
    tool: str
    server: McpServer = field(repr=False)
    read_only: bool = False
    deferred: bool = False
    snippet: str | None = None
    guidelines: tuple[str, ...] = ()

    def check(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments as they are: the server knows which it accepts."""
        return arguments

    def describe_call(self, arguments: JsonObject) -> CallDescription:
        """Describe a call by its arguments.

        It counts as one with effects: a server's own word is no proof.
        """
        return by_arguments(self.spec.name, arguments, origin=f"the MCP server {self.server.spec.name}")

    async def execute(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Have the server run the tool.

        Raises:
            ToolError: It failed, or the server is unavailable.
        """
        return await self.server.call(self.tool, arguments, context)


class McpServers:
    """The MCP servers of a session: start them, offer their ``tools``, close them.

    One event loop uses all of it.

    Args:
        configs: The settings' ``mcpServers``, see ``McpServerConfig``; an entry that makes no sense is a problem.
        cwd: Where relative directories start.
        reserved: Names that are not given to tools.
        sandbox: The sandbox of the processes of servers; those that are reached over the network run elsewhere.
        on_change: Called, on the event loop, whenever ``tools`` became another mapping.
    """

    def __init__(
        self,
        configs: Mapping[str, object],
        cwd: Path,
        *,
        reserved: Collection[str] = (),
        sandbox: Sandbox | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.tools: Mapping[str, McpTool] = {}
        self._reserved = frozenset(reserved)
        self._on_change = on_change
        self._problems: list[str] = []
        self._sdk_problem: str | None = None
        self._servers: dict[str, McpServer] = {}
        if len(configs) > _MAX_SERVERS:
            found = f"`mcpServers` names {len(configs):,} servers"
            self._problems.append(f"{found}, of which the first {_MAX_SERVERS} are started.")
        for name, value in islice(configs.items(), _MAX_SERVERS):
            try:
                config = McpServerConfig.from_wire(value)
            except InvalidFieldsError as error:
                wrong = error.within(f"mcpServers.{name}")
                self._problems += [f"The MCP server {name} is left out: {problem}." for problem in wrong]
            else:
                if config.enabled:
                    directory = cwd / Path(config.cwd or ".").expanduser()
                    self._servers[name] = McpServer(ServerSpec(name, config, directory, sandbox), self._update_tools)

    @property
    def problems(self) -> list[str]:
        """Return the current problems: bad entries, and servers that cannot be used.

        Each has a sentence or more.
        """
        found = [*self._problems, *(server.problem for server in self._servers.values() if server.problem)]
        return [*found, self._sdk_problem] if self._sdk_problem else found

    @property
    def counts(self) -> dict[str, int | None]:
        """Return how many tools each server lends, by its name; ``None`` while it has not listed any."""
        return {
            name: None if server.problem is not None and not server.tools else len(server.tools)
            for name, server in self._servers.items()
        }

    def log(self, name: str) -> str:
        """Return the end of what the server called ``name`` wrote on standard error."""
        return self._servers[name].log.text

    async def start(self) -> None:
        """Connect, side by side, to all that are not connected.

        A server that fails or takes too long is among the problems.
        """
        if not self._servers:
            return
        try:
            await asyncio.to_thread(_import_sdk)
        except ImportError as error:
            self._sdk_problem = (
                f"MCP servers are configured, but the SDK cannot be imported ({error}). "
                'Run `pip install ".[mcp]"` in the clone of indus_nb, or start without MCP servers.'
            )
            return
        self._sdk_problem = None
        await asyncio.gather(*(server.start() for server in self._servers.values()))

    async def close(self) -> None:
        """End every connection and process.

        What does not end by itself within seconds is killed.
        """
        if work := [task for server in self._servers.values() for task in server.close()]:
            _, late = await asyncio.wait(work, timeout=CLOSE_SECONDS)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=GRACE_SECONDS)

    def _update_tools(self) -> None:
        offered: dict[str, McpTool] = {}
        names = set(self._reserved)
        for server in self._servers.values():
            for tool in server.tools:
                name = _free_name(server.spec.prefix, tool.name, names)
                names.add(name)
                spec = ToolSpec(name, _description(tool), tool.input_schema)
                read_only = tool.annotations is not None and tool.annotations.read_only_hint is True
                offered[name] = McpTool(spec, tool.name, server, read_only)
        if offered != self.tools:
            self.tools = offered
            self._on_change()


def _import_sdk() -> None:
    """Import the SDK; raises ``ImportError`` also for one that is too old."""
    # The SDK reports a server's noise by logging, which without this goes to standard error unless it is configured.
    for name in ("mcp", "client"):
        if not logging.getLogger(name).handlers:
            logging.getLogger(name).addHandler(logging.NullHandler())
    if not hasattr(importlib.import_module("mcp"), "Client"):
        raise ImportError("the installed `mcp` is older than 2.0")


def _free_name(prefix: str, tool: str, used: Collection[str]) -> str:
    wanted = name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{prefix}_{tool}" if prefix else tool) or "_"
    attempt = 0
    while len(name) > _MAX_NAME_CHARACTERS or name in used:
        digest = hashlib.sha256(f"{prefix}\0{tool}\0{attempt}".encode(errors="replace")).hexdigest()[:6]
        name = f"{wanted[:57]}_{digest}"
        attempt += 1
    return name


def _description(tool: mcp_types.Tool) -> str:
    text = clean_text(tool.description or tool.title or tool.name)
    return text if len(text) <= _MAX_DESCRIPTION_CHARACTERS else f"{text[:_MAX_DESCRIPTION_CHARACTERS]} [...]"
