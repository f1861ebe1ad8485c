"""Other agents that use the tools of a kernel, over real HTTP and real pipes, by the official client."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

Asked = Callable[[str, list[str]], str | None]
"""Given a question and its answers, returns one of them; ``None`` to decline."""


@asynccontextmanager
async def over_http(url: str, token: str, name: str = "a test") -> AsyncGenerator[ClientSession]:
    """A client that knows an address and a token."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        streamable_http_client(url, http_client=http) as streams,
        ClientSession(*streams[:2], client_info=mcp_types.Implementation(name=name, version="1")) as session,
    ):
        await session.initialize()
        yield session


@asynccontextmanager
async def over_pipes(
    *arguments: str, world: Mapping[str, str], asked: Asked | None = None
) -> AsyncGenerator[ClientSession]:
    """A client that starts ``indusagi --mode mcp``, and asks its user if ``asked`` says what that one answers."""

    async def elicit(_: object, params: Any) -> mcp_types.ElicitResult:
        assert asked is not None
        answer = asked(params.message, params.requested_schema["properties"]["answer"]["enum"])
        if answer is None:
            return mcp_types.ElicitResult(action="decline")
        return mcp_types.ElicitResult(action="accept", content={"answer": answer})

    program = StdioServerParameters(
        command=sys.executable, args=["-m", "indus_nb", "--mode", "mcp", *arguments], env=dict(world)
    )
    with Path(os.devnull).open("w") as nowhere:
        async with (
            stdio_client(program, errlog=nowhere) as streams,
            ClientSession(*streams, elicitation_callback=None if asked is None else elicit) as session,
        ):
            await session.initialize()
            yield session


async def call(client: ClientSession, tool: str, **arguments: Any) -> tuple[str, bool]:
    """Call a tool; returns the text of its result, and whether it is a failure."""
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, mcp_types.CallToolResult)
    texts = [block.text for block in result.content if isinstance(block, mcp_types.TextContent)]
    return "\n".join(texts), result.is_error


async def wait_forever(url: str, token: str, code: str) -> None:
    """Call ``python`` and wait."""
    async with over_http(url, token) as client:
        await call(client, "python", code=code)


if __name__ == "__main__":  # a client that a test kills: URL TOKEN CODE
    asyncio.run(wait_forever(*sys.argv[1:]))
