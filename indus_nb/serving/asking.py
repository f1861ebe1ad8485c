"""A session's dialogs, shown by the program that calls its tools (elicitation): where no notebook shows them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from indus_nb.session.dialogs import Answer, Cancel, Confirm, Dialog, Editor, Input, Select, Ui, UiFrame
from indus_nb.wire import JsonObject

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.session import ServerSession


class ClientDialogs:
    """Shows dialogs at the client of one connection, once that is known to show any.

    Args:
        ui: The session's dialogs.
    """

    def __init__(self, ui: Ui) -> None:
        self._ui = ui
        self._client: ServerSession | None = None
        self._asking: dict[str, asyncio.Task[None]] = {}

    def meet(self, ctx: ServerRequestContext[Any, Any]) -> None:
        """Ask at a client from now on, if it can be asked."""
        capabilities = ctx.session.client_capabilities
        able = capabilities is not None and capabilities.elicitation is not None and ctx.session.can_send_request
        if able and self._client is None:
            self._client = ctx.session
            self._ui.attach(self._show, place="an MCP client")

    def _show(self, frame: UiFrame) -> None:
        if isinstance(frame, Dialog):
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
        if self._client is None:
            return None
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
        result = await self._client.elicit_form(message, schema)
        given = (result.content or {}).get("answer") if result.action == "accept" else None
        match frame:
            case Select():
                return given if isinstance(given, str) and given in frame.options else None
            case Confirm():
                return given is True
            case _:
                return given if isinstance(given, str) else None
