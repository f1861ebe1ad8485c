"""Requests to the pages behind one comm, and the replies to them. Used on the agent's thread only."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from indus_nb.base.wire import JsonObject, dump


class PageRequests:
    """Sends requests, and waits for their replies."""

    def __init__(self, post: Callable[[Any], None]) -> None:
        """Create it.

        Args:
            post: Sends the pages a message.
        """
        self._post = post
        self._numbers = count(1)
        self._waiting: dict[str, asyncio.Future[JsonObject]] = {}

    async def ask(
        self,
        what: str,
        fields: Mapping[str, Any],
        timeout: float,  # noqa: ASYNC109 - no page may ever answer
    ) -> JsonObject | None:
        """Send a request, and await its reply.

        Args:
            what: One of the requests of `protocol.PageRequest`.
            fields: The other fields of that request.

        Returns:
            What a page replied; ``None`` without a reply in time.
        """
        number = str(next(self._numbers))
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._post(json.loads(dump({"kind": "request", "id": number, "what": what, **fields})))
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            return None
        finally:
            del self._waiting[number]

    def take(self, number: str, value: JsonObject) -> None:
        """Hand a reply to what waits for it; one that comes late or twice is dropped."""
        future = self._waiting.get(number)
        if future is not None and not future.done():
            future.set_result(value)
