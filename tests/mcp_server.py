"""A small MCP server, made with the SDK: ``python mcp_server.py FOLDER [--http] [--legacy]``.

It speaks over its pipes, or with ``--http`` over streamable HTTP at the port that it prints first. ``--legacy`` knows
the older protocol only. What happens to it is told by files in FOLDER.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types
from mcp import MCPError
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server

FOLDER = Path(sys.argv[1] if __name__ == "__main__" else ".")
LEGACY = "--legacy" in sys.argv
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

server = MCPServer("test", version="1")


def note(name: str, text: str = "") -> None:
    """Tell something that happened, all at once."""
    (FOLDER / f"{name}.new").write_text(text)
    (FOLDER / f"{name}.new").rename(FOLDER / name)


@server.tool(annotations=mcp_types.ToolAnnotations(read_only_hint=True), structured_output=False)
def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool()
def add(left: int, right: int) -> dict[str, int]:
    """Structured content, and the same as text."""
    return {"sum": left + right}


@server.tool(structured_output=False)
def everything() -> Any:
    """One block of each kind."""
    return mcp_types.CallToolResult(
        content=[
            mcp_types.TextContent(text="first"),
            mcp_types.ImageContent(data=PIXEL, mime_type="image/png"),
            mcp_types.ImageContent(data="PHN2Zy8+", mime_type="image/svg+xml"),
            mcp_types.AudioContent(data="AAAA", mime_type="audio/wav"),
            mcp_types.EmbeddedResource(resource=mcp_types.TextResourceContents(uri="file:///a.txt", text="inside")),
            mcp_types.EmbeddedResource(
                resource=mcp_types.BlobResourceContents(uri="file:///b.bin", blob="AAAA", mime_type="application/zip")
            ),
            mcp_types.ResourceLink(name="c", uri="file:///c.txt"),
        ],
        structured_content={"deep": [1, 2]},
    )


@server.tool(structured_output=False)
def fail(text: str) -> str:
    """A failure of the tool."""
    raise ToolError(text)


@server.tool(structured_output=False)
def lines(count: int, width: int = 5) -> str:
    """Much text."""
    return "\n".join(f"{number:0{width}d}" for number in range(count))


@server.tool(structured_output=False)
async def slow(context: Context) -> str:
    """Report progress, then wait to be cancelled."""
    note("slow")
    await context.report_progress(1, 4, "a quarter")
    try:
        await anyio.sleep_forever()
    finally:
        note("cancelled")


@server.tool(structured_output=False)
async def learn(name: str, context: Context) -> str:
    """Offer one more tool from now on."""
    server.add_tool(echo, name=name, structured_output=False)
    await (context.session.send_tool_list_changed() if LEGACY else context.notify_tools_changed())
    return "learnt"


@server.tool(structured_output=False)
def process() -> str:
    """Its id, folder and environment."""
    environment = " ".join(f"{name}={value}" for name, value in sorted(os.environ.items()))
    return f"{os.getpid()}\n{Path.cwd()}\n{environment}"


@server.tool(structured_output=False)
def shout(size: int) -> str:
    """Write to standard output what is no message, and to standard error."""
    os.write(sys.__stdout__.fileno(), b"no message\n")
    print("e" * size + "\x1b[31mred", file=sys.stderr, flush=True)
    return "done"


@server.tool()
def many() -> dict[str, list[list[int]]]:
    """A message of few bytes that takes much memory to read."""
    return {"many": [[] for _ in range(400_000)]}


@server.tool(structured_output=False)
def huge() -> str:
    """A message of 17 MiB."""
    return "x" * (17 << 20)


async def refuse(*_: Any) -> Any:
    """What an older server says to the newer protocol's first question."""
    raise MCPError(mcp_types.METHOD_NOT_FOUND, "Method not found")


async def over_pipes() -> None:
    lowlevel = server._lowlevel_server
    async with stdio_server() as (arriving, leaving), lowlevel.lifespan(lowlevel) as state:
        await serve_loop(lowlevel, arriving, leaving, lifespan_state=state)


async def over_http() -> None:
    import uvicorn

    listening = socket.create_server(("127.0.0.1", int(os.environ.get("MCP_PORT", "0"))))
    app: Any = server.streamable_http_app()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        if scope["type"] == "http" and headers.get(b"authorization") != b"Bearer open-sesame":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(guarded, log_level="warning", timeout_graceful_shutdown=0)
    await uvicorn.Server(config).serve([listening])


def main() -> None:
    """Serve until the input ends or a signal comes."""
    if LEGACY:
        server._lowlevel_server.add_request_handler("server/discover", mcp_types.RequestParams, refuse)
    if "--http" in sys.argv:
        asyncio.run(over_http())
    else:
        asyncio.run(over_pipes() if LEGACY else server.run_stdio_async())


if __name__ == "__main__":
    main()
