"""The widget that pages show: its blocks, state and dialogs, kept in the kernel and sent in numbered patches.

What this module promises:

- Any page can be sent a full snapshot at any time: one that connects later, is reloaded or missed a patch.
- A page is sent only what changed, and each change once.
- A page's messages are validated (`protocol.parse`) before they are dispatched. A message that is rejected is
  logged, and the reason is shown to its sender.

The messages are in `protocol`; what a page does with them is in ``static``.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import hashlib
import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

from indus_nb.base.messages import ImageContent
from indus_nb.base.wire import JsonObject, dump
from indus_nb.core.session.dialogs import Dialog, NotifyType
from indus_nb.core.session.questions import Question
from indus_nb.front.notebook.page import protocol
from indus_nb.front.notebook.page.dialog_layout import layout
from indus_nb.front.notebook.page.protocol import WidgetKind
from indus_nb.front.notebook.page.requests import PageRequests
from indus_nb.front.notebook.page.states import PanelState
from indus_nb.kernel.cell_ids import ORIGIN, Origin
from indus_nb.kernel.undo import new_cell

if TYPE_CHECKING:
    from anywidget import AnyWidget

_STATIC = Path(__file__).parent / "static"
_MAX_TOASTS = 5
_TOAST_SECONDS = 30
_SAME_MOMENT = 0.25
_MAX_PAGES_WITH_IMAGES = 4
_SOON = 0.05
_STARTED = "started_ms_ago"
_ONCE = ("download", "copied", "focus")
"""State keys that are sent to the connected pages and not kept."""

_log = logging.getLogger("indus_nb")


class AgentWidget:
    """Blocks, state and dialogs of one widget.

    Made in a cell, and from then on used on the agent's thread only.

    ``put``, ``drop`` and ``set`` collect changes. ``send`` sends them, as one message.

    Attributes:
        ready: Set once a page shows the widget and can answer.
        reloaded: Whether another page connected after the first one, or the cell was moved: displays do not reach
            what shows the widget.
        on_ready: Called on the agent's thread whenever a page shows the widget, also in a cell that was moved.
        on_closed: Called, on any thread, when another than `close` removed the widget: the front end, for instance.
        pages: The names of the pages that have shown it.
        open_dialogs: Returns the session's open dialogs that are shown here, with the seconds until each answers
            itself. The session keeps them; the widget only passes on what opens and closes.
        question_of: Returns the parts of an open dialog's question by its id, if it has any.
        on_dialog_shown: Called on the agent's thread with the id of a dialog that a view shows.
        bundle: What displays the widget, with ``metadata``.
    """

    def __init__(
        self,
        kind: WidgetKind,
        receive: Callable[[Any], None],
        call: Callable[[Callable[[], object]], None],
        shown_in: Origin | None = None,
    ) -> None:
        """Make a widget, which is shown when its bundle is displayed.

        Args:
            kind: The kind of widget, which decides on the requests that it accepts.
            receive: Handles a `CellRequest` or a `PanelRequest`, by ``kind``; called on the agent's thread. Requests
                about the widget itself are handled here.
            call: Runs work on the agent's thread; may be called on any.
            shown_in: The cell that displays it: pages of other notebooks on the same kernel leave it alone.
        """
        self.kind: WidgetKind = kind
        self.ready: threading.Event = threading.Event()
        self.reloaded: bool = False
        self.on_ready: Callable[[], None] = lambda: None
        self.on_closed: Callable[[], None] = lambda: None
        self.pages: dict[str, None] = {}
        self.open_dialogs: Callable[[], Iterable[tuple[Dialog, float | None]]] = tuple
        self.question_of: Callable[[str], Question | None] = lambda _: None
        self.on_dialog_shown: Callable[[str], None] = lambda _: None
        self._receive = receive
        self._call = call
        self._widget: Any = _widget_class()(
            kind=kind, cell=(shown_in and shown_in.cell) or "", client=(shown_in and shown_in.client) or ""
        )
        self.comm_id: str = self._widget.model_id
        shown, metadata = cast("tuple[JsonObject, JsonObject]", self._widget._repr_mimebundle_())
        self.metadata: JsonObject = metadata
        self.bundle: dict[str, Any] = {**shown, "text/plain": ""}
        self._closed = False
        self._sending_soon: asyncio.TimerHandle | None = None
        self._page: str | None = None
        self._used: str | None = None
        """The page that sent a message last: of several only that one gets requests."""
        self._number = 0
        self._blocks: dict[str, str] = {}
        self._known: dict[str, str] = {}  # blocks as the page has them
        self._dropped: list[str] = []
        self._changed: dict[str, None] = {}
        self._numbers: dict[str, protocol.LeadToCards] = {}
        self._changed_numbers: dict[str, None] = {}
        self._state: JsonObject = {}
        self._changed_state: dict[str, None] = {}
        self._toasts: deque[tuple[float, protocol.Toast]] = deque(maxlen=_MAX_TOASTS)
        self._newest_sent_toast = 0
        self._sent_at = 0.0
        self._signals: list[protocol.Operation] = []
        self._counter = count(1)
        self._requests = PageRequests(self._post)
        self._inserted: str | None = None
        """The id of the cell that `insert_cell` has inserted last."""
        self._images: dict[str, list[ImageContent | None]] = {}
        """By page, for its next prompt; ``None`` is one that was rejected."""
        self._widget.on_msg(self._on_message)
        self._watch_comm()
        self.set(widget=self.comm_id)

    def set_fallback(self, shown: Mapping[str, str], *, without_kernel: Mapping[str, str] | None = None) -> None:
        """Set the text for readers without the widget, and for those without its kernel where that is another one."""
        self.bundle.update({kind: shown[kind] for kind in ("text/html", "text/plain")})
        self.set(fallback=(without_kernel or shown)["text/html"])

    @property
    def anywidget(self) -> AnyWidget:
        """Return the underlying anywidget."""
        return self._widget

    def put(self, key: str, html: str) -> None:
        """Show a block of sanitised HTML, a new one behind the others.

        Args:
            html: All of its HTML; a page is sent only the part that changed.
        """
        if self._blocks.get(key) != html:
            self._blocks[key] = html
            self._changed[key] = None

    def lead_to_cards(self, key: str, numbers: list[list[str]]) -> None:
        """Have numbers of a block that is shown lead to cards, as `LeadToCards` says."""
        before = self._numbers.get(key)
        if numbers != ([] if before is None else before.numbers):
            self._numbers[key] = protocol.LeadToCards("found", key, numbers)
            self._changed_numbers[key] = None

    def drop(self, key: str) -> None:
        """Remove a block."""
        self._numbers.pop(key, None)
        self._changed_numbers.pop(key, None)
        if self._blocks.pop(key, None) is not None:
            self._changed.pop(key, None)
            if self._known.pop(key, None) is not None:
                self._dropped.append(key)

    def set(self, **state: Unpack[PanelState]) -> None:
        """Change parts of the state; a value that is as before is not sent."""
        for name, given in state.items():
            value: Any = json.loads(dump(given))  # a copy, without half characters
            if name == _STARTED and value is not None:
                value = time.monotonic() - value / 1000
                before = self._state.get(name)
                if before is not None and abs(before - value) < _SAME_MOMENT:
                    continue
            if name not in self._state or self._state[name] != value:
                self._state[name] = value
                self._changed_state[name] = None

    def send_again(self, name: str) -> None:
        """Send a part of the state with the next ``send`` even if it is as before: a request waits for an answer."""
        if name in self._state:
            self._changed_state[name] = None

    def signal(self, frame: JsonObject) -> None:
        """Show an ``extension_ui_request`` in its wire form, or an update of an earlier one, at once.

        Signals in close succession wait for the next ``send``: servers drop messages that come too fast.
        """
        frame = json.loads(dump(frame))
        match frame.get("method"):
            case "select" | "confirm" | "input" | "editor":
                self._signals.append(self._opened(frame, frame.get("timeout")))
            case "dialogChanged":
                self._signals.append(self._opened(frame["dialog"], None))
            case "cancel":
                self._signals.append(protocol.CloseDialog("unask", str(frame.get("targetId"))))
            case "notify":
                self._add_toast(frame["message"], frame.get("notifyType", "info"))
            case "setStatus":
                self._set_entry("status", str(frame["statusKey"]), frame.get("statusText"))
            case "setWorkingMessage":
                self._set_entry("status", "working", frame.get("text"))
            case "setWidget":
                lines = frame.get("widgetLines")
                shown = None if lines is None else {"lines": lines, "placement": frame.get("widgetPlacement")}
                self._set_entry("widgets", str(frame["widgetKey"]), shown)
            case "setTitle":
                self.set(title=frame["title"])
            case "set_editor_text":
                self._compose(frame["text"])
            case _:
                return
        self._send_soon()

    def send(self) -> None:
        """Send the pending changes, if any, as one message."""
        if self._sending_soon is not None:
            self._sending_soon.cancel()
            self._sending_soon = None
        operations: list[protocol.Operation] = [protocol.Drop("drop", key) for key in self._dropped]
        for key in self._changed:
            html = self._blocks[key]
            operations.append(_difference(key, self._known.get(key), html))
            self._known[key] = html
        operations += [self._numbers[key] for key in self._changed_numbers]
        if self._changed_state:
            operations.append(self._state_of(self._changed_state))
        operations += self._signals
        operations += [
            protocol.ShowToast("toast", toast) for _, toast in self._toasts if toast["n"] > self._newest_sent_toast
        ]
        self._forget_pending()
        if operations:
            self._sent_at = time.monotonic()
            self._number += 1
            self._post({"kind": "patch", "n": self._number, "ops": operations})

    async def request(
        self,
        what: str,
        *,
        timeout: float = 3,  # noqa: ASYNC109 - no page may ever answer
        **payload: Any,
    ) -> JsonObject | None:
        """Send a request to the page that was used last, and await its reply.

        Args:
            what: One of the requests of `protocol.PageRequest`.
            payload: The other fields of that request; with ``page`` another page than that.

        Returns:
            What the page replied; ``None`` without a page or a reply in time.
        """
        if self._closed or not self.ready.is_set():
            return None
        return await self._requests.ask(what, {"page": self._used, **payload}, timeout)

    @property
    def closed(self) -> bool:
        """Return whether the widget was removed from every page."""
        return self._closed

    @property
    def used_page(self) -> str:
        """Return the id of the page that sent a message last, empty for none."""
        return self._used or ""

    def show_only(self, blocks: Iterable[str]) -> None:
        """Replace all blocks, and send the change."""
        for key in list(self._blocks):
            self.drop(key)
        for number, html in enumerate(blocks):
            self.put(f"kept {number}", html)
        self.send()

    async def insert_cell(self, source: str) -> bool:
        """Insert code as a cell below the widget, and below cells that were inserted before.

        Returns whether the page did.
        """
        for after in dict.fromkeys((self._inserted, None)):  # the last one may be gone by now
            edit = new_cell(source, "code", after)
            answer = await self.request("change_cells", edits=[edit])
            if answer is not None and "error" not in answer:
                self._inserted = edit["cell"]
                return True
        return False

    def close(self) -> None:
        """Remove the widget from every page."""
        self._closed = True
        self._widget.on_msg(self._on_message, remove=True)  # front ends may keep the widget
        self._widget.layout.close()
        self._widget.close()

    def _watch_comm(self) -> None:
        """Notice the comm's end: a page that knows no widgets closes it.

        marimo does so when the cell runs again, and calls no callback.
        """
        comm = self._widget.comm
        close: Callable[..., None] = comm.close

        def end() -> None:
            if not self._closed:
                self._closed = True
                self.on_closed()

        def closing(*given: Any, **named: Any) -> None:
            close(*given, **named)
            end()

        def closed(_message: object) -> None:
            end()

        comm.close = closing
        comm.on_close(closed)

    def _post(self, message: protocol.ToPage | JsonObject) -> None:
        if not self._closed:
            self._widget.send(message)

    def _on_message(self, _widget: object, content: object, _buffers: object) -> None:
        """Dispatch a page's message to the agent's thread, from any thread that the kernel reads it on."""
        self._call(partial(self._handle, content))

    def _handle(self, content: object) -> None:  # noqa: C901 - one case for each kind of message
        if content == _ASKS_FOR_MODULE:
            self._post(_module())
            return
        try:
            message = protocol.parse(content, self.kind)
        except protocol.RejectedError as error:
            self._reject(content, str(error))
            return
        self._used = message.page
        ORIGIN.set(Origin(widget=self.comm_id))  # in the context of this message alone
        match message:
            case protocol.Ready() | protocol.Moved():
                self._note_view(message)
            case protocol.Resync():
                self._send_all()
            case protocol.Reply():
                self._requests.take(message.id, message.value)
            case protocol.DialogShown():
                self.on_dialog_shown(message.id)
            case protocol.AnswerDialog():
                self._signals.append(protocol.CloseDialog("unask", message.id))  # on other pages
                self.send()
                self._receive(message)
            case protocol.AttachImage():
                self._keep_image(message.page, message.content)
            case protocol.Prompt():
                self._handle_prompt(message)
            case protocol.Asked():
                self._receive(message.verb)
            case _:
                self._receive(message)

    def _note_view(self, message: protocol.Ready | protocol.Moved) -> None:
        page, is_moved = message.page, isinstance(message, protocol.Moved)
        self._page = page if self._page is None else self._page
        self.pages[page] = None
        self.reloaded = self.reloaded or is_moved or page != self._page
        if not is_moved:
            self._send_all()
            self.ready.set()
        self.on_ready()

    def _reject(self, content: object, problem: str) -> None:
        _log.info("A message of a page was rejected: %s", problem)
        fields = cast("JsonObject", content) if isinstance(content, dict) else {}
        what = "something"
        if self.kind == "panel" and fields.get("kind") == "image":
            what = "an image"
            page = fields.get("page", "")
            self._keep_image(page[: protocol.MAX_PAGE_NAME_CHARACTERS] if isinstance(page, str) else "", None)
        self._add_toast(f"The page sent {what} that was rejected: {problem}", "error")
        self._send_soon()

    def _keep_image(self, page: str, image: ImageContent | None) -> None:
        """Store an image until its prompt arrives; ``None`` for one that was rejected."""
        if page not in self._images and len(self._images) >= _MAX_PAGES_WITH_IMAGES:
            del self._images[next(iter(self._images))]
        images = self._images.setdefault(page, [])
        if len(images) < protocol.MAX_IMAGES:
            images.append(image)

    def _handle_prompt(self, prompt: protocol.Prompt) -> None:
        images = self._images.pop(prompt.page, [])
        accepted = [image for image in images if image is not None]
        if len(accepted) < len(images):
            self._compose(prompt.text)
            self._add_toast("The message was not sent, for one of its images was rejected.", "error")
            self.send()
            return
        if "composer" in self._state:
            self._state["composer"]["text"] = ""  # a page that comes later must not find it there again
        prompt.attach(accepted)
        self._receive(prompt)

    def _send_all(self) -> None:
        now = time.monotonic()
        operations: list[protocol.Operation] = [protocol.Put("put", key, html) for key, html in self._blocks.items()]
        operations += self._numbers.values()
        operations.append(self._state_of(self._state))
        for dialog, seconds in self.open_dialogs():
            left = None if seconds is None else round(seconds * 1000)
            operations.append(self._opened(json.loads(dump(dialog)), left))
        operations += [protocol.ShowToast("toast", toast) for at, toast in self._toasts if now - at < _TOAST_SECONDS]
        self._known = dict(self._blocks)
        self._forget_pending()
        self._post({"kind": "full", "n": self._number, "ops": operations})

    def _opened(self, frame: JsonObject, left: float | None) -> protocol.OpenDialog:
        return protocol.OpenDialog("ask", frame, left, layout(self.question_of(str(frame.get("id")))))

    def _send_soon(self) -> None:
        """Send now, or a moment after the last message: servers drop messages that come too fast."""
        wait = self._sent_at + _SOON - time.monotonic()
        if self._signals or wait <= 0:
            self.send()
        elif self._sending_soon is None:
            with contextlib.suppress(RuntimeError):  # without a loop it goes along with the next message
                self._sending_soon = asyncio.get_running_loop().call_later(wait, self.send)

    def _forget_pending(self) -> None:
        self._dropped.clear()
        self._changed.clear()
        self._changed_numbers.clear()
        self._changed_state.clear()
        self._signals.clear()
        self._newest_sent_toast = self._toasts[-1][1]["n"] if self._toasts else 0
        for name in _ONCE:
            self._state.pop(name, None)
        if "inserted" in self._state and self.ready.is_set():
            self._state["inserted"] = {**self._state["inserted"], "text": ""}  # pages that come later must not find it

    def _state_of(self, names: Iterable[str]) -> protocol.SetState:
        return protocol.SetState("set", cast("PanelState", {name: self._current(name) for name in names}))

    def _current(self, name: str) -> Any:
        value = self._state[name]
        return round((time.monotonic() - value) * 1000) if name == _STARTED and value is not None else value

    def insert(self, text: str) -> None:
        """Append text to the composer."""
        before: JsonObject = self._state.get("inserted") or {"n": 0}
        self.set(inserted={"text": text, "n": before["n"] + 1})

    def _compose(self, text: str) -> None:
        before: JsonObject = self._state.get("composer") or {"n": 0}
        self.set(composer={"text": text, "n": before["n"] + 1})

    def _add_toast(self, text: str, kind: NotifyType) -> None:
        self._toasts.append((time.monotonic(), {"text": text, "type": kind, "n": next(self._counter)}))

    def _set_entry(self, name: str, key: str, value: Any) -> None:
        entries: JsonObject = self._state.setdefault(name, {})
        entries.pop(key, None)
        if value is not None:
            entries[key] = value
        self._changed_state[name] = None


def _difference(key: str, before: str | None, html: str) -> protocol.Put | protocol.Tail:
    """Return the operation that updates a block to ``html``: a `Tail` if most of it stays."""
    if before is None:
        return protocol.Put("put", key, html)
    low, high = 0, min(len(before), len(html))
    while low < high:
        middle = (low + high + 1) // 2
        if html.startswith(before[low:middle], low):
            low = middle
        else:
            high = middle - 1
    if low < len(html) // 2:
        return protocol.Put("put", key, html)
    keep = len(html[:low].encode("utf-16-le", "surrogatepass")) // 2  # as pages count
    return protocol.Tail("tail", key, keep, html[low:])


_LOADER = """\
const name = Symbol.for("indus_nb module %s");
async function load(model) {
  const packed = await new Promise((resolve) => {
    model.on("msg:custom", (message) => message.kind === "module" && resolve(message.packed));
    model.send({ kind: "module" });
  });
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const url = URL.createObjectURL(new Blob([await new Response(unpacked).text()], { type: "text/javascript" }));
  const module = await import(url);
  URL.revokeObjectURL(url);
  globalThis[name] ??= module.default;
}
export default () => {
  let model, made;
  async function make() {
    if (!globalThis[name]) await load(model);
    const widget = globalThis[name]();
    return { widget, end: widget.initialize({ model }) };
  }
  return {
    initialize(context) {
      model = context.model;
      made = make(); // not waited for: a widget that is being initialised gets no messages
      made.catch(() => {}); // the view says so
      return async () => (await made).end();
    },
    render: async (context) => (await made).widget.render(context),
  };
};
"""
_STYLES = (
    'document.head.append(Object.assign(document.createElement("style"), { id: "indus-nb-styles", textContent: %s }));'
)
_ASKS_FOR_MODULE: JsonObject = {"kind": "module"}


@cache
def _source() -> bytes:
    styles = json.dumps((_STATIC / "agent.css").read_text(encoding="utf-8"))
    return b"\n".join([(_STATIC / "agent.js").read_bytes(), (_STYLES % styles).encode()])


@cache
def _module() -> JsonObject:
    """Return the message that brings a page what all widgets load."""
    return {**_ASKS_FOR_MODULE, "packed": base64.b64encode(gzip.compress(_source(), mtime=0)).decode()}


@cache
def _widget_class() -> type[Any]:
    import traitlets
    from anywidget import AnyWidget

    class Agent(AnyWidget):
        """A widget that asks for its module where the document has none: pages keep all of every widget for good."""

        _esm = _LOADER % hashlib.sha256(_source()).hexdigest()[:16]
        kind = traitlets.Unicode().tag(sync=True)
        cell = traitlets.Unicode().tag(sync=True)
        client = traitlets.Unicode().tag(sync=True)

    return Agent
