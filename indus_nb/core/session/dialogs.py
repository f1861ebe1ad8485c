"""Dialogs with the user and signs for them, independent of the front end that renders them.

A session owns its dialogs. Hosts (an RPC client, a notebook) are attached to show them; a host that comes later is
shown what is still open, and the first answer counts. What a host's own controls raise (`asked_in`) belongs to that
host: it alone shows it, as long as it is attached.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias

from indus_nb.base.wire import JsonObject
from indus_nb.base.wire_model import WireModel
from indus_nb.core.loop import AbortSignal, RunAborted
from indus_nb.core.session.questions import Decision, Question, bound, by_caller
from indus_nb.core.session.terminal_ui import TerminalUi

NotifyType = Literal["info", "warning", "error"]
WidgetPlacement = Literal["aboveEditor", "belowEditor"]


class UiFrame(WireModel):
    """A UI request for a host; field names are those of the wire in snake_case."""

    type: Literal["extension_ui_request"] = "extension_ui_request"
    id: str


class Select(UiFrame):
    """Choose one of ``options``."""

    method: Literal["select"] = "select"
    title: str
    options: list[str]
    timeout: int | None = None
    """ms until the dialog answers itself; likewise in the other dialogs."""


class Confirm(UiFrame):
    """A question that is answered with yes or no."""

    method: Literal["confirm"] = "confirm"
    title: str
    message: str
    timeout: int | None = None


class Input(UiFrame):
    """Write a line."""

    method: Literal["input"] = "input"
    title: str
    placeholder: str | None = None
    timeout: int | None = None


class Editor(UiFrame):
    """Write or change a text."""

    method: Literal["editor"] = "editor"
    title: str
    prefill: str | None = None


Answer: TypeAlias = str | bool | None
"""Answer of the user; ``None`` when the dialog was dismissed."""
Dialog = Select | Confirm | Input | Editor


class Cancel(UiFrame):
    """The dialog ``target_id`` is over: answered elsewhere, out of time, or aborted."""

    method: Literal["cancel"] = "cancel"
    target_id: str


class DialogChanged(UiFrame):
    """An open dialog has other options now. It is not sent to clients of RPC."""

    method: Literal["dialogChanged"] = "dialogChanged"
    dialog: Select


class Notify(UiFrame):
    """A line for the user to read."""

    method: Literal["notify"] = "notify"
    message: str
    notify_type: NotifyType


class SetStatus(UiFrame):
    """A short text that stays; without ``status_text`` the one of that key goes away."""

    method: Literal["setStatus"] = "setStatus"
    status_key: str
    status_text: str | None = None


class SetWidget(UiFrame):
    """Lines that stay; without ``widget_lines`` those of that key go away."""

    method: Literal["setWidget"] = "setWidget"
    widget_key: str
    widget_lines: list[str] | None = None
    widget_placement: WidgetPlacement | None = None


class SetTitle(UiFrame):
    """The title of the window."""

    method: Literal["setTitle"] = "setTitle"
    title: str


class SetEditorText(UiFrame):
    """The text in the user's editor."""

    method: Literal["set_editor_text"] = "set_editor_text"
    text: str


class SetWorkingMessage(UiFrame):
    """What is shown to go on during a run. No method of RPC: it is not sent to clients."""

    method: Literal["setWorkingMessage"] = "setWorkingMessage"
    text: str | None = None


class Host(Protocol):
    """Renders UI requests. Called on the session's event loop; must not raise."""

    def __call__(self, frame: UiFrame, /) -> None:
        """Show a frame, or stop showing it."""
        ...


class Pause(Protocol):
    """A clock that is stopped while the user is asked."""

    def paused(self) -> contextlib.AbstractContextManager[None]:
        """Pause the clock within this context."""
        ...


clock: ContextVar[Pause | None] = ContextVar("indus_nb clock", default=None)
"""Clock of the running handler; a dialog that it opens makes it stand still."""


_asked_in: ContextVar[Host | None] = ContextVar("indus_nb host that asks", default=None)


def asked_in(host: Host) -> contextlib.AbstractContextManager[None]:
    """Bind dialogs that are opened within this context to a host.

    Args:
        host: What was attached to the session's `Ui`.
    """
    return bound(_asked_in, host)


@dataclass(slots=True)
class _Open:
    frame: Dialog
    question: Question | None = None
    host: Host | None = field(default_factory=_asked_in.get)
    """Host that it belongs to, attached or not."""
    reason: str = ""
    answer: asyncio.Future[Answer] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    by_user: bool = False
    shown: bool = False
    """Whether a host's view has said that it shows the dialog."""
    until: float | None = None
    """Time at which it answers itself, in seconds of the event loop's clock."""


class Ui(TerminalUi):
    """One session's dialogs and signs. Without a host dialogs are dismissed at once.

    ``timeout`` is in seconds; out of time, aborted by ``signal`` or with the run, a dialog answers ``None`` (a
    ``confirm``: ``False``).
    """

    def __init__(self) -> None:
        self._hosts: list[Host] = []
        self._watchers: list[Host] = []
        self._on_dialogs: list[Callable[[], object]] = []
        self._open: dict[str, _Open] = {}
        self._standing: dict[tuple[str, str], UiFrame] = {}

    @property
    def has_host(self) -> bool:
        """Return whether a host renders dialogs."""
        return bool(self._hosts)

    @property
    def open_dialogs(self) -> Sequence[Dialog]:
        """Return the dialogs that the user has not answered yet, oldest first."""
        return [dialog.frame for dialog in self._waiting]

    def open_dialogs_with_time(self, host: Host) -> list[tuple[Dialog, float | None]]:
        """Return the dialogs that a host shows and the user has not answered yet.

        Returns:
            The dialogs, those of a run before what other hosts have raised and left, each with the seconds until it
            answers itself.
        """
        shown = [dialog for dialog in self._waiting if host in self._hosts_of(dialog)]
        shown.sort(key=lambda dialog: dialog.host not in (None, host))
        return [(each.frame, None if each.until is None else max(0.0, each.until - _now())) for each in shown]

    @property
    def _waiting(self) -> list[_Open]:
        return [dialog for dialog in self._open.values() if not dialog.answer.done()]

    def _hosts_of(self, dialog: _Open) -> list[Host]:
        return [dialog.host] if dialog.host in self._hosts else list(self._hosts)

    def question(self, dialog_id: str) -> Question | None:
        """Return the parts of an open dialog's question, if it was asked in parts."""
        dialog = self._open.get(dialog_id)
        return None if dialog is None else dialog.question

    @property
    def goes_on(self) -> bool:
        """Return whether all that the user is asked about runs meanwhile."""
        questions = [each.question for each in self._waiting]
        return bool(questions) and all(each is not None and each.goes_on for each in questions)

    def headings(self) -> list[str]:
        """Return what each dialog asks that the user has not answered yet, oldest first."""
        return [each.frame.title if each.question is None else each.question.heading for each in self._waiting]

    def note_shown(self, dialog_id: str) -> None:
        """Record that a view of a host shows a dialog; one that is not open is ignored."""
        if dialog_id in self._open:
            self._open[dialog_id].shown = True

    def is_unseen(self, dialog_id: str) -> bool:
        """Return whether a dialog waits for its answer and no view has said that it shows it."""
        return any(dialog.frame.id == dialog_id and not dialog.shown for dialog in self._waiting)

    def attach(self, host: Host, *, asks: bool = True, place: str | None = None) -> Callable[[], None]:
        """Send ``host`` every request from now on, and the signs and dialogs that are there already.

        Args:
            host: called with each frame.
            asks: whether the user can answer there; otherwise it is sent signs only.
            place: what the interface is called in sentences about what it cannot do.
        """
        self._place = place or self._place
        hosts = self._hosts if asks else self._watchers
        hosts.append(host)
        shown = [frame for frame, _ in self.open_dialogs_with_time(host)] if asks else []
        for frame in (*self._standing.values(), *shown):
            host(frame)

        def detach() -> None:
            if host not in hosts:
                return
            hosts.remove(host)
            left = [dialog.frame for dialog in self._waiting if dialog.host == host]
            for frame, other in itertools.product(left, self._hosts):
                other(frame)

        return detach

    def watch_dialogs(self, watcher: Callable[[], object]) -> Callable[[], None]:
        """Call ``watcher`` whenever a dialog has opened or is over, until what this returns is called."""
        self._on_dialogs.append(watcher)
        return partial(self._on_dialogs.remove, watcher)

    # Dialogs

    def is_asking(self, title: str) -> bool:
        """Return whether a dialog of this title waits for its answer."""
        return any(dialog.frame.title == by_caller(title) for dialog in self._waiting)

    async def select(
        self,
        title: str,
        options: Sequence[str],
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the dialog shows it
        signal: AbortSignal | None = None,
    ) -> str | None:
        """Let the user choose.

        Args:
            timeout: seconds until the dialog is dismissed.
            signal: dismisses it when an abort is requested.

        Returns:
            The chosen option; ``None`` when the dialog was dismissed.
        """
        frame = Select(id=_new_id(), title=by_caller(title), options=list(options), timeout=_milliseconds(timeout))
        answer = await self._ask(frame, timeout, signal)
        return answer if isinstance(answer, str) and answer in frame.options else None

    async def choose(
        self,
        question: Question,
        *,
        signal: AbortSignal | None = None,
        later: asyncio.Task[Question | None] | None = None,
    ) -> Decision:
        """Ask a question that is made of parts; hosts that know nothing of parts are sent a ``Select``.

        Args:
            signal: dismisses it when an abort is requested.
            later: finds out, while the question is open, the same question with more choices; ``None`` changes
                nothing. It is cancelled with the question.
        """
        dialog = self._opened(question)
        try:
            if later is not None:
                later.add_done_callback(partial(self._change, dialog))
            answer = await self._wait(dialog, None, signal)
        finally:
            if later is not None:
                later.cancel()
        chosen = answer if isinstance(answer, str) and answer in (dialog.question or question).options else None
        return Decision(chosen, dialog.reason if question.takes_reason and chosen is not None else "")

    def _opened(self, question: Question) -> _Open:
        question = replace(question, heading=by_caller(question.heading))
        return _Open(Select(id=_new_id(), title=question.text(), options=question.options), question)

    def _change(self, dialog: _Open, later: asyncio.Task[Question | None]) -> None:
        """Update an open dialog with what was found out meanwhile."""
        question = None if later.cancelled() or later.exception() is not None else later.result()
        if question is None or dialog.frame.id not in self._open or dialog.answer.done():
            return
        question = replace(question, heading=by_caller(question.heading))  # in the context of the one who asked
        dialog.question = question
        dialog.frame = Select(id=dialog.frame.id, title=question.text(), options=question.options)
        changed = DialogChanged(id=_new_id(), dialog=dialog.frame)
        for host in self._hosts_of(dialog):
            host(changed)

    async def confirm(
        self,
        title: str,
        message: str,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the dialog shows it
        signal: AbortSignal | None = None,
    ) -> bool:
        """Ask the user a question that is answered with yes or no.

        Args:
            timeout: seconds until the dialog is dismissed.
            signal: dismisses it when an abort is requested.
        """
        frame = Confirm(id=_new_id(), title=by_caller(title), message=message, timeout=_milliseconds(timeout))
        return await self._ask(frame, timeout, signal) is True

    async def input(
        self,
        title: str,
        placeholder: str | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the dialog shows it
        signal: AbortSignal | None = None,
    ) -> str | None:
        """Let the user write a line.

        Args:
            placeholder: shown in the empty field.
            timeout: seconds until the dialog is dismissed.
            signal: dismisses it when an abort is requested.

        Returns:
            The line; ``None`` when the dialog was dismissed.
        """
        frame = Input(id=_new_id(), title=by_caller(title), placeholder=placeholder, timeout=_milliseconds(timeout))
        answer = await self._ask(frame, timeout, signal)
        return answer if isinstance(answer, str) else None

    async def editor(self, title: str, prefill: str | None = None, *, signal: AbortSignal | None = None) -> str | None:
        """Let the user edit a text.

        Args:
            signal: dismisses the dialog when an abort is requested.

        Returns:
            The text; ``None`` when the dialog was dismissed.
        """
        answer = await self._ask(Editor(id=_new_id(), title=by_caller(title), prefill=prefill), None, signal)
        return answer if isinstance(answer, str) else None

    def answer(self, dialog_id: str, answer: Answer, reason: str | None = None) -> bool:
        """Answer an open dialog.

        Args:
            answer: what the user chose or wrote; ``None`` to dismiss it.
            reason: why, where the question takes a reason.
        """
        dialog = self._open.get(dialog_id)
        if dialog is None or dialog.answer.done():
            return False
        dialog.by_user = True
        dialog.reason = (reason or "").strip()
        dialog.answer.set_result(answer)
        return True

    def take(self, frame: JsonObject) -> None:
        """Handle a client's ``extension_ui_response``; one for a dialog that is not open is ignored."""
        answer: Any = None
        if frame.get("cancelled") is not True:
            answer = frame.get("confirmed", frame.get("value"))
        self.answer(str(frame.get("id")), answer if isinstance(answer, str | bool) else None)

    def cancel_all(self) -> None:
        """Dismiss every open dialog."""
        for dialog in tuple(self._open.values()):
            if not dialog.answer.done():
                dialog.answer.set_result(None)

    async def _ask(
        self,
        frame: Dialog,
        timeout: float | None,  # noqa: ASYNC109 - the dialog shows it
        signal: AbortSignal | None,
    ) -> Answer:
        return await self._wait(_Open(frame, until=None if timeout is None else _now() + timeout), timeout, signal)

    async def _wait(
        self,
        dialog: _Open,
        timeout: float | None,  # noqa: ASYNC109 - the dialog shows it
        signal: AbortSignal | None,
    ) -> Answer:
        if not self._hosts or (signal is not None and signal.requested):
            return None
        frame = dialog.frame
        self._open[frame.id] = dialog
        running, nothing = clock.get(), contextlib.nullcontext()
        for host in self._hosts_of(dialog):
            host(frame)
        self._report_dialogs()
        try:
            with running.paused() if running else nothing, signal.interruptible() if signal else nothing:
                async with asyncio.timeout(timeout):
                    return await dialog.answer
        except (TimeoutError, RunAborted):
            return None
        finally:
            del self._open[frame.id]
            shown_by = self._hosts_of(dialog)
            if not dialog.by_user or len(shown_by) > 1:
                over = Cancel(id=_new_id(), target_id=frame.id)
                for host in shown_by:
                    host(over)
            self._report_dialogs()

    def _report_dialogs(self) -> None:
        for watcher in tuple(self._on_dialogs):
            watcher()

    # Signs

    def notify(self, message: str, notify_type: NotifyType = "info") -> None:
        """Show a line, once.

        Args:
            notify_type: ``info``, ``warning`` or ``error``.
        """
        self._show(Notify(id=_new_id(), message=message, notify_type=notify_type))

    def set_status(self, key: str, text: str | None) -> None:
        """Show a short text until it is replaced or removed.

        Args:
            text: The text; ``None`` removes it.
        """
        self._stand(("status", key), SetStatus(id=_new_id(), status_key=key, status_text=text), stays=text is not None)

    def set_working_message(self, message: str | None = None) -> None:
        """Show a message about ongoing work until ``None`` or the end of the run; only a panel renders it."""
        if message is not None or ("working", "") in self._standing:
            frame = SetWorkingMessage(id=_new_id(), text=message)
            self._stand(("working", ""), frame, stays=message is not None)

    def set_widget(
        self,
        key: str,
        lines: Sequence[str] | Callable[..., Any] | None,
        placement: WidgetPlacement | Mapping[str, Any] | None = None,
    ) -> None:
        """Show lines until they are replaced, or removed with ``None``.

        Args:
            lines: The lines. What makes a terminal component of them is ignored: there is nothing to put it in.
            placement: Where it is best shown, also as ``{"placement": …}``.
        """
        if callable(lines):
            return
        where = placement.get("placement") if isinstance(placement, Mapping) else placement
        shown = None if lines is None else list(lines)
        frame = SetWidget(id=_new_id(), widget_key=key, widget_lines=shown, widget_placement=where)
        self._stand(("widget", key), frame, stays=lines is not None)

    def set_title(self, title: str) -> None:
        """Set the title of the window."""
        self._stand(("title", ""), SetTitle(id=_new_id(), title=title), stays=True)

    def set_editor_text(self, text: str) -> None:
        """Put ``text`` into the user's editor."""
        self._show(SetEditorText(id=_new_id(), text=text))

    paste_to_editor = set_editor_text

    def clear(self) -> None:
        """Remove signs and answer open dialogs: a new session begins without either."""
        self.cancel_all()
        for kind, key in tuple(self._standing):
            if kind == "status":
                self.set_status(key, None)
            elif kind == "widget":
                self.set_widget(key, None)
            elif kind == "working":
                self.set_working_message(None)
        self._standing.clear()

    def _stand(self, key: tuple[str, str], frame: UiFrame, *, stays: bool) -> None:
        self._standing.pop(key, None)
        if stays:
            self._standing[key] = frame
        self._show(frame)

    def _show(self, frame: UiFrame) -> None:
        for host in (*self._hosts, *self._watchers):
            host(frame)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _new_id() -> str:
    from uuid import uuid4  # with what no start needs

    return str(uuid4())


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)
