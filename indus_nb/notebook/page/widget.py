"""What a widget in the page shows, kept on this side, so that any page can be given all of it at any time.

The page gets numbered patches and asks for the whole when one is missing. What it does with them is in
``static/agent.js``.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any, Literal, cast

from indus_nb.wire import JsonObject, dump

Kind = Literal["cell", "panel"]
"""The live tail of a run in a cell, or a whole conversation with everything to steer it."""

_STATIC = Path(__file__).parent / "static"
_TOASTS = 5
_TOAST_SECONDS = 30
_SAME_MOMENT = 0.25
_IMAGES = 8
_PAGES = 4
_LONGEST_NAME = 100
_SOON = 0.05
_STARTED = "started_ms_ago"
_ONCE = "download"
"""State that is for the pages of this moment, and too large to be kept."""


class Live:
    """A widget's blocks, state and dialogs; made in a cell, and from then on used on the agent's thread only.

    ``put``, ``drop`` and ``set`` collect, ``send`` sends: one message for all that came since. ``receive`` is called
    on the agent's thread, by way of ``call``, with each message of a page that is not about the widget itself.

    ``bundle`` displays it, with ``metadata``; ``heard`` is set once a page has it; ``reloaded`` tells that another page
    came after the first one.
    """

    def __init__(
        self, kind: Kind, receive: Callable[[JsonObject], None], call: Callable[[Callable[[], object]], None]
    ) -> None:
        self.heard = threading.Event()
        self.reloaded = False
        self._receive = receive
        self._call = call
        self._widget: Any = _widget_class()(kind=kind)
        self.comm_id: str = self._widget.model_id
        shown, self.metadata = cast("tuple[JsonObject, JsonObject]", self._widget._repr_mimebundle_())
        self.bundle: dict[str, Any] = {**shown, "text/plain": ""}
        self._closed = False
        self._page: str | None = None
        self._used: str | None = None
        """The page that said something last: of several only that one is asked to do something."""
        self._number = 0
        self._blocks: dict[str, str] = {}
        self._known: dict[str, str] = {}  # blocks as the page has them
        self._dropped: list[str] = []
        self._changed: dict[str, None] = {}
        self._state: JsonObject = {}
        self._news: dict[str, None] = {}
        self._dialogs: dict[str, tuple[JsonObject, float | None]] = {}
        self._toasts: deque[tuple[float, JsonObject]] = deque(maxlen=_TOASTS)
        self._told_toast = 0
        self._sent_at = 0.0
        self._signals: list[list[Any]] = []
        self._counter = count(1)
        self._requests: dict[str, asyncio.Future[JsonObject]] = {}
        self._images: dict[str, list[JsonObject]] = {}
        self._widget.on_msg(self._on_message)

    def put(self, key: str, html: str) -> None:
        """Show a block of sanitised HTML, a new one behind the others."""
        if self._blocks.get(key) != html:
            self._blocks[key] = html
            self._changed[key] = None

    def drop(self, key: str) -> None:
        """Take a block away."""
        if self._blocks.pop(key, None) is not None:
            self._changed.pop(key, None)
            if self._known.pop(key, None) is not None:
                self._dropped.append(key)

    def set(self, **state: Any) -> None:
        """Change parts of the state, which are JSON values; one that is as before is not sent."""
        for name, given in state.items():
            value: Any = json.loads(dump(given))  # a copy, without half characters
            if name == _STARTED and value is not None:
                value = time.monotonic() - value / 1000
                before = self._state.get(name)
                if before is not None and abs(before - value) < _SAME_MOMENT:
                    continue
            if name not in self._state or self._state[name] != value:
                self._state[name] = value
                self._news[name] = None

    def signal(self, frame: JsonObject) -> None:
        """Show an ``extension_ui_request`` in its wire form, or what it says of one before, at once.

        Signs that follow each other closely wait for the next ``send``: servers drop messages that come too fast.
        """
        frame = json.loads(dump(frame))
        match frame.get("method"):
            case "select" | "confirm" | "input" | "editor":
                timeout: float | None = frame.get("timeout")
                until = None if timeout is None else time.monotonic() + timeout / 1000
                self._dialogs[str(frame["id"])] = (frame, until)
                self._signals.append(["ask", frame, timeout])
            case "cancel":
                self._close_dialog(str(frame.get("targetId")))
            case "notify":
                toast = {"text": frame["message"], "type": frame.get("notifyType", "info"), "n": next(self._counter)}
                self._toasts.append((time.monotonic(), toast))
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
                before: JsonObject = self._state.get("composer") or {"n": 0}
                self.set(composer={"text": frame["text"], "n": before["n"] + 1})
            case _:
                return
        if self._signals or time.monotonic() - self._sent_at >= _SOON:
            self.send()

    def send(self) -> None:
        """Send what is new, if anything is, as one message."""
        operations: list[list[Any]] = [["drop", key] for key in self._dropped]
        for key in self._changed:
            html = self._blocks[key]
            operations.append(_difference(key, self._known.get(key), html))
            self._known[key] = html
        if self._news:
            operations.append(["set", {name: self._current(name) for name in self._news}])
        operations += self._signals
        operations += [["toast", toast] for _, toast in self._toasts if toast["n"] > self._told_toast]
        self._forget_pending()
        if operations:
            self._sent_at = time.monotonic()
            self._number += 1
            self._widget.send({"kind": "patch", "n": self._number, "ops": operations})

    async def request(
        self,
        what: str,
        *,
        timeout: float = 3,  # noqa: ASYNC109 - no page may ever answer
        **payload: Any,
    ) -> JsonObject | None:
        """What a page answers when it is asked to do something; ``None`` without a page or an answer in time."""
        if self._closed or not self.heard.is_set():
            return None
        request_id = str(next(self._counter))
        future = self._requests[request_id] = asyncio.get_running_loop().create_future()
        try:
            message = {"kind": "request", "id": request_id, "what": what, "page": self._used, **payload}
            self._widget.send(json.loads(dump(message)))
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            return None
        finally:
            del self._requests[request_id]

    def close(self) -> None:
        """Take the widget away from every page."""
        self._closed = True
        self._widget.layout.close()
        self._widget.close()

    def _on_message(self, _widget: object, content: object, _buffers: object) -> None:
        """Take a message of a page, on whatever thread the kernel reads it."""
        if isinstance(content, dict):
            self._call(partial(self._take, cast("JsonObject", content)))

    def _take(self, message: JsonObject) -> None:
        page = self._used = str(message.pop("page", None))[:_LONGEST_NAME]
        match message:
            case {"kind": "hello"}:
                self._page = self._page or page
                self.reloaded = self.reloaded or page != self._page
                self._send_all()
                self.heard.set()
            case {"kind": "resync"}:
                self._send_all()
            case {"kind": "reply"}:
                self._take_reply(message)
            case {"kind": "answer", "id": str(dialog_id)}:
                if self._close_dialog(dialog_id):
                    self.send()
                    value = message.get("value")  # what makes no sense dismisses it, for it is closed
                    self._receive({**message, "value": value if isinstance(value, str | bool) else None})
            case {"kind": "image"}:
                self._take_image(page, message)
            case {"kind": "prompt"}:
                self._take_prompt(page, message)
            case {"kind": str()}:
                self._receive(message)
            case _:
                pass  # a page that speaks another language

    def _take_reply(self, message: JsonObject) -> None:
        future = self._requests.get(str(message.get("id")))
        if future is not None and not future.done() and isinstance(message.get("value"), dict):
            future.set_result(message["value"])

    def _take_image(self, page: str, message: JsonObject) -> None:
        """Keep an image until its prompt comes: together they could be more than a server takes in one message."""
        if page not in self._images and len(self._images) >= _PAGES:
            del self._images[next(iter(self._images))]
        images = self._images.setdefault(page, [])
        if len(images) < _IMAGES:
            images.append({"data": message.get("data"), "mimeType": message.get("mimeType")})

    def _take_prompt(self, page: str, message: JsonObject) -> None:
        images = self._images.pop(page, [])
        if "composer" in self._state:
            self._state["composer"]["text"] = ""  # a page that comes later must not find it there again
        self._receive({**message, "images": images})

    def _send_all(self) -> None:
        now = time.monotonic()
        operations: list[list[Any]] = [["put", key, html] for key, html in self._blocks.items()]
        operations.append(["set", {name: self._current(name) for name in self._state}])
        for frame, until in self._dialogs.values():
            operations.append(["ask", frame, None if until is None else max(0, round((until - now) * 1000))])
        operations += [["toast", toast] for at, toast in self._toasts if now - at < _TOAST_SECONDS]
        self._known = dict(self._blocks)
        self._forget_pending()
        self._widget.send({"kind": "full", "n": self._number, "ops": operations})

    def _forget_pending(self) -> None:
        self._dropped.clear()
        self._changed.clear()
        self._news.clear()
        self._signals.clear()
        self._told_toast = self._toasts[-1][1]["n"] if self._toasts else 0
        self._state.pop(_ONCE, None)

    def _current(self, name: str) -> Any:
        value = self._state[name]
        return round((time.monotonic() - value) * 1000) if name == _STARTED and value is not None else value

    def _set_entry(self, name: str, key: str, value: Any) -> None:
        entries: JsonObject = self._state.setdefault(name, {})
        entries.pop(key, None)
        if value is not None:
            entries[key] = value
        self._news[name] = None

    def _close_dialog(self, dialog_id: str) -> bool:
        if self._dialogs.pop(dialog_id, None) is None:
            return False
        self._signals.append(["unask", dialog_id])
        return True


def _difference(key: str, before: str | None, html: str) -> list[Any]:
    """The operation that makes ``html`` of the block: only its end when the most of it stays.

    The length that stays is counted as pages count, in units of UTF-16.
    """
    if before is None:
        return ["put", key, html]
    low, high = 0, min(len(before), len(html))
    while low < high:
        middle = (low + high + 1) // 2
        if html.startswith(before[low:middle], low):
            low = middle
        else:
            high = middle - 1
    if low < len(html) // 2:
        return ["put", key, html]
    return ["tail", key, len(html[:low].encode("utf-16-le", "surrogatepass")) // 2, html[low:]]


@cache
def _widget_class() -> type[Any]:
    import traitlets
    from anywidget import AnyWidget

    class Agent(AnyWidget):
        _esm = (_STATIC / "agent.js").read_text(encoding="utf-8")
        _css = (_STATIC / "agent.css").read_text(encoding="utf-8")
        kind = traitlets.Unicode().tag(sync=True)

    return Agent
