"""Tool calls that come from other programs, without a model: over MCP, for one.

What this module promises:

- **They take the way of the model's calls**: hooks are asked, so that the permission gate, undo and whatever else
  watches over tools sees them; secrets are put back and hidden; the same events are published. Each question
  to the user meanwhile names the caller (``indus_nb.core.session.questions.caller``).
- **One at a time**, in the order in which they came, from any program; those of tools that only read do not wait, and
  one that its caller has been asked about, and may never make again, lets others on until there is an answer.
- The conversation does not hold them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextvars import ContextVar

from indus_nb.base.images import Admission
from indus_nb.base.messages import ToolCall
from indus_nb.base.wire import JsonObject, random_hex
from indus_nb.core.loop.abort import AbortSignal
from indus_nb.core.loop.loop import Calling, Outcome, run_tool_call
from indus_nb.core.session import questions
from indus_nb.core.session.publisher import Publisher
from indus_nb.core.session.state import SessionState
from indus_nb.core.session.toolbox import Toolbox


class _Place:
    """Place in the queue of calls that run one at a time; left at its end, or for a while before that."""

    def __init__(self, lock: asyncio.Lock) -> None:
        self._lock = lock
        self._held = False

    async def __aenter__(self) -> None:
        await self.take()

    async def __aexit__(self, *_: object) -> None:
        self.leave()

    async def take(self) -> None:
        await self._lock.acquire()
        self._held = True

    def leave(self) -> None:
        if self._held:
            self._held = False
            self._lock.release()


_place: ContextVar[_Place | None] = ContextVar("indus_nb place of an outside call", default=None)


@contextlib.asynccontextmanager
async def letting_others_on() -> AsyncGenerator[None]:
    """Let other calls run within this context, and wait until the one at hand may again.

    A context that is left by an exception does not wait: the call at hand is about to end.
    """
    place = _place.get()
    if place is not None:
        place.leave()
    yield
    if place is not None:
        await place.take()


class OutsideCalls:
    """Carries out tool calls of other programs in one session.

    Args:
        images: what images a result may have.
        start: starts the session, which is done once.
    """

    def __init__(
        self,
        state: SessionState,
        toolbox: Toolbox,
        publisher: Publisher,
        images: Admission,
        start: Callable[[], Awaitable[None]],
    ) -> None:
        self._state = state
        self._toolbox = toolbox
        self._publisher = publisher
        self._images = images
        self._start = start
        self._aborts: set[AbortSignal] = set()
        self._one_at_a_time = asyncio.Lock()

    async def call(
        self, name: str, arguments: JsonObject, *, caller: str, offered: Collection[str], call_id: str | None = None
    ) -> Outcome:
        """Carry out one call; cancelling it ends the tool.

        Args:
            caller: The program that makes the call, by its name for the user; empty for the user's own agent.
            offered: The names of the tools that may be called.
            call_id: The id of the call in events; a new one if left out.

        Returns:
            What it gave, and whether that is a failure.
        """
        await self._start()
        tools = {each: tool for each, tool in self._toolbox.all.items() if each in offered}
        tool = tools.get(name)
        alone = tool is not None and not tool.read_only
        call = ToolCall(id=call_id or f"outside_{random_hex(8)}", name=name, arguments=arguments)
        calling = Calling(
            tools=tools,
            emit=self._publisher.emit,
            hooks=self._state.hooks,
            images=self._images,
            vault=self._state.settings.vault,
        )
        self._aborts.add(calling.abort)
        place = _Place(self._one_at_a_time) if alone else None
        token, placed = questions.caller.set(caller), _place.set(place)
        try:
            async with place or contextlib.nullcontext():
                return await run_tool_call(calling, call)
        finally:
            _place.reset(placed)
            questions.caller.reset(token)
            self._aborts.discard(calling.abort)

    def request_abort(self) -> None:
        """Ask all calls to end."""
        for abort in tuple(self._aborts):
            abort.request()
