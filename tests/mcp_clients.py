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
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

Asked = Callable[[str, list[str]], str | None]
"""Given a question and its answers, returns one of them; ``None`` to decline."""


HANDSHAKE, STATELESS = "legacy", "2026-07-28"
"""How a client speaks to its server: with a session, or by requests each of which says all that it needs."""


@asynccontextmanager
async def over_http(url: str, token: str, name: str = "a test", *, protocol: str = HANDSHAKE) -> AsyncGenerator[Client]:
    """A client that knows an address and a token."""
    headers = {"Authorization": f"Bearer {token}"}
    who = mcp_types.Implementation(name=name, version="1")
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, client_info=who, mode=protocol) as client:
            yield client


@asynccontextmanager
async def over_pipes(
    *arguments: str, world: Mapping[str, str], asked: Asked | None = None, protocol: str = HANDSHAKE
) -> AsyncGenerator[Client]:
    """A client that starts ``indusagi --mode mcp``, and asks its user if ``asked`` says what that one answers."""

    async def elicit(context: object, params: Any) -> mcp_types.ElicitResult:
        assert asked is not None
        answer = asked(params.message, params.requested_schema["properties"]["answer"]["enum"])
        if answer is None:
            return mcp_types.ElicitResult(action="decline")
        return mcp_types.ElicitResult(action="accept", content={"answer": answer})

    program = StdioServerParameters(
        command=sys.executable, args=["-m", "indus_nb", "--mode", "mcp", *arguments], env=dict(world)
    )
    callback = None if asked is None else elicit
    with Path(os.devnull).open("w") as nowhere:
        async with Client(
            stdio_client(program, errlog=nowhere), elicitation_callback=callback, mode=protocol
        ) as client:
            yield client


async def call(client: Client, tool: str, **arguments: Any) -> tuple[str, bool]:
    """Call a tool; returns the text of its result, and whether it is a failure."""
    result = await client.call_tool(tool, arguments)
    texts = [block.text for block in result.content if isinstance(block, mcp_types.TextContent)]
    return "\n".join(texts), result.is_error


async def wait_forever(url: str, token: str, code: str) -> None:
    """Call ``python`` and wait."""
    async with over_http(url, token) as client:
        await call(client, "python", code=code)


if __name__ == "__main__":  # a client that a test kills: URL TOKEN CODE
    asyncio.run(wait_forever(*sys.argv[1:]))
