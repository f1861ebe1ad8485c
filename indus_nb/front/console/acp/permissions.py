"""Questions to the user, as the client can ask them: permission requests, and forms where it shows those."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import cast

from indus_nb.base import textcut
from indus_nb.base.terminal import plain
from indus_nb.base.wire import JsonObject
from indus_nb.core.session.dialogs import Answer, Cancel, Confirm, Dialog, Editor, Input, Notify, Select, UiFrame
from indus_nb.core.session.questions import Choice, ChoiceKind, Question
from indus_nb.core.session.session import AgentSession
from indus_nb.front.console.acp.peer import Peer, RpcError

_MAX_TITLE_CHARACTERS = 200
_VALUE = "value"
_KINDS: dict[ChoiceKind, str] = {
    "yes": "allow_once",
    "more": "allow_once",
    "again": "allow_always",
    "no": "reject_once",
}


class Questions:
    """Questions of one session, put to the client.

    A permission request belongs to the call that runs. A question that the client cannot ask is dismissed.

    Args:
        tell: Shows a line of an extension.
    """

    def __init__(
        self,
        session: AgentSession,
        peer: Peer,
        session_id: str,
        *,
        has_forms: bool,
        running_call: Callable[[], str | None],
        tell: Callable[[str], None],
    ) -> None:
        self._session = session
        self._peer = peer
        self._session_id = session_id
        self._has_forms = has_forms
        self._running_call = running_call
        self._tell = tell
        self._open: dict[str, asyncio.Task[None]] = {}

    def show(self, frame: UiFrame) -> None:
        """Ask, or stop asking; called on the event loop."""
        match frame:
            case Select() | Confirm() | Input() | Editor():
                task = asyncio.create_task(self._ask(frame))
                self._open[frame.id] = task
                task.add_done_callback(lambda _: self._open.pop(frame.id, None))
            case Cancel():
                if (asking := self._open.get(frame.target_id)) is not None:
                    asking.cancel()
            case Notify():
                self._tell(plain(frame.message))
            case _:
                pass  # signs that stay have no place in the protocol

    async def _ask(self, dialog: Dialog) -> None:
        answer: Answer = None
        try:
            answer = await self._answer(dialog)
        except RpcError:
            answer = None  # the client cannot ask that, or did not
        finally:
            self._session.ui.answer(dialog.id, answer)

    async def _answer(self, dialog: Dialog) -> Answer:
        match dialog:
            case Select() if (question := self._session.ui.question(dialog.id)) is not None:
                return await self._permission(question)
            case Select() if self._has_forms:
                return await self._form(dialog.title, {"type": "string", "enum": dialog.options})
            case Select():
                kinds: list[ChoiceKind] = ["yes"] * len(dialog.options)
                return await self._permission(_question(dialog.title, dialog.options, kinds))
            case Confirm():
                asked = _question(f"{dialog.title}\n{dialog.message}", ["Yes", "No"], ["yes", "no"])
                return await self._permission(asked) == "Yes"
            case Input() | Editor() if self._has_forms:
                default = dialog.prefill if isinstance(dialog, Editor) else None
                return await self._form(dialog.title, {"type": "string", **({"default": default} if default else {})})
            case _:
                return None

    async def _permission(self, question: Question) -> str | None:
        options = [
            {"optionId": str(n), "name": choice.option, "kind": _KINDS[choice.kind]}
            for n, choice in enumerate(question.choices)
        ]
        call: JsonObject = {"toolCallId": self._running_call() or "question"}
        if call["toolCallId"] == "question":
            title = textcut.one_line(plain(question.heading), _MAX_TITLE_CHARACTERS)
            call |= {"title": title, "kind": "other", "status": "pending"}
        call["content"] = [{"type": "content", "content": {"type": "text", "text": part}} for part in _shown(question)]
        params = {"sessionId": self._session_id, "toolCall": call, "options": options}
        outcome = _object((await self._peer.request("session/request_permission", params)).get("outcome"))
        chosen = outcome.get("optionId") if outcome.get("outcome") == "selected" else None
        return next((option["name"] for option in options if option["optionId"] == chosen), None)

    async def _form(self, title: str, schema: JsonObject) -> str | None:
        params: JsonObject = {
            "sessionId": self._session_id,
            "mode": "form",
            "message": plain(title),
            "requestedSchema": {"type": "object", "properties": {_VALUE: schema}, "required": [_VALUE]},
        }
        if (call := self._running_call()) is not None:
            params["toolCallId"] = call
        result = await self._peer.request("elicitation/create", params)
        value = _object(result.get("content")).get(_VALUE) if result.get("action") == "accept" else None
        return value if isinstance(value, str) else None


def _object(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _question(text: str, options: Sequence[str], kinds: Sequence[ChoiceKind]) -> Question:
    heading, _, body = text.partition("\n")
    choices = [Choice(option, kind) for option, kind in zip(options, kinds, strict=True)]
    return Question(heading, choices, body=body)


def _shown(question: Question) -> Iterator[str]:
    """Yield the parts of a question as Markdown."""
    from indus_nb.render.cards import asked_about
    from indus_nb.render.markdown import fenced, literal
    from indus_nb.render.writers import as_markdown

    yield literal(question.heading)
    yield from map(literal, question.warnings)
    if (shown := asked_about(question)) is not None:
        yield as_markdown(shown)
    if question.outcome:
        yield fenced(question.outcome)
