"""Questions of a call, put to the user of the client that makes it (elicitation): where no notebook shows them.

What this module promises: an answer counts once, and only for the call that was asked about; a question without
an answer in time counts as declined.

After the handshake a client is sent a request. By the protocol of 2026-07-28 it is sent none: there the request for a
call ends with the question, and the client makes it once more with the answer (`HeldCalls`). It may not, and does not
say so: other calls go on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

from indus_nb.base.wire import JsonObject, random_hex
from indus_nb.core.loop.loop import Outcome
from indus_nb.core.session.dialogs import Answer, Cancel, Confirm, Dialog, Editor, Input, Select, Ui, UiFrame, asked_in
from indus_nb.core.session.outside import letting_others_on
from indus_nb.core.session.questions import bound

if TYPE_CHECKING:
    import mcp_types

Elicit: TypeAlias = "Callable[[str, JsonObject], Awaitable[mcp_types.ElicitResult]]"
"""Takes a question and the schema of its answer; returns what the client's user did."""
_MAX_HELD = 16
"""Most calls that wait for an answer; of more, the one that was asked about first is given up."""
_OPEN_SECONDS = 300.0
_NOT_OPEN = (
    "This answer counts for nothing: its question was answered already, was open for too long, or is about another "
    "call. Make the call anew, without requestState."
)

_asked: ContextVar[ClientDialogs | None] = ContextVar("indus_nb dialogs of a client's call", default=None)


class ClientDialogs:
    """Dialogs of one call, shown at its client."""

    def __init__(self, ui: Ui, elicit: Elicit) -> None:
        self._ui = ui
        self._elicit = elicit
        self._asking: dict[str, asyncio.Task[None]] = {}

    @contextmanager
    def asked(self) -> Generator[None]:
        """Route the questions of this context to the client."""
        with bound(_asked, self):
            detach = self._ui.attach(self._show, place="an MCP client")
            try:
                with asked_in(self._show):
                    yield
            finally:
                detach()

    def _show(self, frame: UiFrame) -> None:
        if isinstance(frame, Dialog) and _asked.get() is not self:
            self._ui.answer(frame.id, None)  # of a call whose client cannot ask
        elif isinstance(frame, Dialog):
            self._asking[frame.id] = asyncio.create_task(self._ask(frame))
        elif isinstance(frame, Cancel) and (asking := self._asking.pop(frame.target_id, None)) is not None:
            asking.cancel()

    async def _ask(self, frame: Dialog) -> None:
        answer: Answer = None
        try:
            answer = await self._answer(frame)
        except Exception:  # noqa: BLE001 - whatever the client does, the question is dismissed
            answer = None
        finally:
            self._asking.pop(frame.id, None)
            self._ui.answer(frame.id, answer)

    async def _answer(self, frame: Dialog) -> Answer:
        field: JsonObject = {"type": "string", "title": "Answer"}
        match frame:
            case Select():
                field["enum"] = frame.options
            case Confirm():
                field = {"type": "boolean", "title": "Answer"}
            case Input() | Editor():
                pass
        message = f"{frame.title}\n\n{frame.message}" if isinstance(frame, Confirm) else frame.title
        schema: JsonObject = {"type": "object", "properties": {"answer": field}, "required": ["answer"]}
        result = await self._elicit(message, schema)
        given = (result.content or {}).get("answer") if result.action == "accept" else None
        match frame:
            case Select():
                return given if isinstance(given, str) and given in frame.options else None
            case Confirm():
                return given is True
            case _:
                return given if isinstance(given, str) else None


class ClientCall:
    """A tool call, over all requests that its client makes for it.

    Args:
        arguments: Its arguments; they stay those of the first request.

    Attributes:
        asks: Set while a question of it is open.
    """

    def __init__(
        self, name: str, arguments: JsonObject, carry_out: Callable[[ClientCall], Coroutine[Any, Any, Outcome]]
    ) -> None:
        self.name = name
        self.arguments = arguments
        self.asks: asyncio.Event = asyncio.Event()
        self._open: dict[str, tuple[mcp_types.ElicitRequest, asyncio.Future[mcp_types.ElicitResult]]] = {}
        self.outcome: asyncio.Task[Outcome] = asyncio.create_task(
            carry_out(self), name=f"indus_nb {name} for an MCP client"
        )

    @property
    def questions(self) -> dict[str, mcp_types.InputRequest]:
        """Return the open questions, each under the key of its answer."""
        return {key: question for key, (question, _) in self._open.items()}

    async def elicit(self, message: str, schema: JsonObject) -> mcp_types.ElicitResult:
        """Ask in the result of a request, and wait for the request that brings the answer.

        Raises:
            TimeoutError: No answer came in time.
        """
        import mcp_types

        question = mcp_types.ElicitRequest(
            params=mcp_types.ElicitRequestFormParams(message=message, requested_schema=schema)
        )
        key, answer = random_hex(4), asyncio.get_running_loop().create_future()
        self._open[key] = question, answer
        self.asks.set()
        try:
            async with letting_others_on(), asyncio.timeout(_OPEN_SECONDS):
                return await answer
        finally:
            self._close(key)

    def take(self, responses: Mapping[str, mcp_types.InputResponse]) -> None:
        """Take the answers to open questions; an invalid answer dismisses the question."""
        import mcp_types

        for key in self._open.keys() & responses.keys():
            response = responses[key]
            is_answer = isinstance(response, mcp_types.ElicitResult)
            answer = self._open[key][1]
            if not answer.done():
                answer.set_result(response if is_answer else mcp_types.ElicitResult(action="cancel"))
            self._close(key)

    def _close(self, key: str) -> None:
        self._open.pop(key, None)
        if not self._open:
            self.asks.clear()


class HeldCalls:
    """The calls that wait for an answer while no request is made for them."""

    def __init__(self) -> None:
        self._held: dict[str, ClientCall] = {}

    def hold(self, call: ClientCall) -> mcp_types.InputRequiredResult:
        """Keep a call until its client makes it again.

        Returns:
            What ends the request that was made for it: the question.
        """
        import mcp_types

        while len(self._held) >= _MAX_HELD:
            self._held.pop(next(iter(self._held))).outcome.cancel()
        state = random_hex(16)
        self._held[state] = call
        call.outcome.add_done_callback(lambda _: self._held.pop(state, None))
        return mcp_types.InputRequiredResult(input_requests=call.questions, request_state=state)

    def resume(self, state: str, params: mcp_types.CallToolRequestParams) -> ClientCall:
        """Return the call that a client makes again, with the answers that it brings.

        Args:
            params: The call as it is made now.

        Raises:
            MCPError: None waits that was asked about with these arguments.
        """
        from mcp import MCPError
        from mcp_types import INVALID_PARAMS

        call = self._held.get(state)
        if call is None or (call.name, call.arguments) != (params.name, params.arguments or {}):
            raise MCPError(INVALID_PARAMS, _NOT_OPEN, {"reason": "invalid_request_state"})
        del self._held[state]
        call.take(params.input_responses or {})
        return call
