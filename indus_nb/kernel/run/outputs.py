"""Displays of the agent's code: for the user as the outputs of a cell, for the model in short.

``Displays`` collects it on the main thread. `CallOutputs` is what views draw, on the agent's thread: the text of the
card, and the MIME bundles as they would stand below a cell of the user's. They come from code that was allowed to run
in the user's kernel, so they are as trusted as what he runs there; they are in no message and no session file.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import unescape
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from indus_nb.base import textcut
from indus_nb.base.wire import JsonObject
from indus_nb.kernel.run import charts
from indus_nb.kernel.run.inert import inert
from indus_nb.kernel.values import extent
from indus_nb.kernel.values.describe import for_prompt

if TYPE_CHECKING:
    from indus_nb.tools.jobs import Job

Place: TypeAlias = Literal["cell", "panel"]
"""Place where a user sees a call: a cell shows everything, a panel texts, tables and images."""

MAX_IMAGES = 8
_MAX_OUTPUTS = 200
_MAX_BYTES = 64 << 20
_MAX_BYTES_OF_CALLS = 256 << 20
_MAX_HTML_CHARACTERS = 4000
_MAX_WIDGET_CHARACTERS = 500
_MAX_TOLD_CHARACTERS = 50_000
_MAX_CALLS = 64
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_WIDGET = "application/vnd.jupyter.widget-view+json"
_SIZE_OF_FRAME = re.compile(r"\w{1,40} \d+(?: \N{MULTIPLICATION SIGN} \d+)*")
"""Titles that are accepted from another process; all others are made here."""
_WITHIN_LINES = ("a", "b", "code", "em", "i", "span", "strong", "sub", "sup", "td", "th")
_MARKUP = re.compile(
    r"""<!--|-->|<[a-zA-Z/!?](?:"[^"<]*+"|'[^'<]*+'|[^<>"'])*+>|<[a-zA-Z/!?][^<>]*+>"""  # none goes past another `<`
)
_TITLES = (
    ("image/", "figure"),
    ("text/html", "HTML"),
    ("text/markdown", "Markdown"),
    ("text/latex", "formula"),
    ("audio/", "audio"),
    ("video/", "video"),
)
_CHART = "interactive chart"
_FIGURES = ("figure", _CHART)
_SEEN_ONLY = ("figure", "audio", "video", "widget")
"""Titles of what has a text that only names it."""


@dataclass(frozen=True, eq=False)
class Output:
    """One output of a cell, as front ends are sent it. An update makes another one.

    Attributes:
        size: How many characters its data has.
        display_id: The id by which the code may replace it.
    """

    data: Mapping[str, Any]
    metadata: Mapping[str, Any]
    title: str
    size: int
    display_id: str | None = None

    @property
    def is_figure(self) -> bool:
        """Return whether it is a picture, or a chart that a library draws in the page."""
        return self.title in _FIGURES


@dataclass
class Display:
    """An output, and the text about it for the model."""

    output: Output
    image: bytes | None = None
    chart: charts.Chart | None = None
    widget: object = None
    said: str = ""
    said_at_end: bool = False


class Displays:
    """Outputs that one piece of code displays."""

    def __init__(self) -> None:
        self._shown: list[Display] = []
        self._made: tuple[Mapping[str, Any], Any] | None = None
        self._left_out = 0
        self._images_left_out = 0

    @property
    def outputs(self) -> list[Output]:
        """Return the outputs that the user sees."""
        return [shown.output for shown in tuple(self._shown)]

    @property
    def titles(self) -> list[str]:
        """Return a title of a few words for each output."""
        return [shown.output.title for shown in tuple(self._shown)]

    @property
    def images(self) -> list[bytes]:
        """Return the images for the model."""
        return list(islice(self._all_images(), MAX_IMAGES))

    @property
    def more_images(self) -> int:
        """Return the number of images that the model does not get."""
        return sum(1 for _ in self._all_images()) - len(self.images) + self._images_left_out

    def _all_images(self) -> Iterator[bytes]:
        return (shown.image for shown in tuple(self._shown) if shown.image is not None)

    @property
    def charts(self) -> list[charts.Chart]:
        """Return the interactive charts, which may be drawn for the model."""
        return [shown.chart for shown in self._shown if shown.chart is not None]

    def made(self, bundle: Mapping[str, Any], value: Any) -> None:
        """Record the value that a bundle was made of, before it is shown."""
        self._made = (bundle, value)

    def value_of(self, bundle: Mapping[str, Any]) -> Any:
        """Return the value that a bundle was made of, if it was recorded."""
        return self._made[1] if self._made is not None and self._made[0] is bundle else None

    def clear(self) -> None:
        """Clear all displays."""
        self._shown.clear()
        self._left_out = self._images_left_out = 0

    def has(self, display_id: str | None) -> bool:
        """Return whether there is a display with that id to replace."""
        return display_id is not None and any(shown.output.display_id == display_id for shown in self._shown)

    def prepared(
        self, bundle: Mapping[str, Any], metadata: Mapping[str, Any], display_id: str | None
    ) -> tuple[Display | None, str]:
        """Build a display to be passed to ``add``.

        Args:
            display_id: Its id, if it has one.

        Returns:
            The display, ``None`` for plain text; and the text for the model.
        """
        value, self._made = self.value_of(bundle), None
        text = _text_for_model(value, bundle)
        if display_id is None and set(bundle) <= {"text/plain"}:
            return None, text
        return _display(value, bundle, metadata, display_id, text), text

    def add(self, display: Display, *, update: bool = False) -> tuple[str, str]:
        """Add a display, or replace those of its id.

        Args:
            display: A result of ``prepared``.

        Returns:
            The lines to put among the printed text: for the model, and for the user.
        """
        display_id = display.output.display_id
        if update:
            self._shown = [display if shown.output.display_id == display_id else shown for shown in self._shown]
            return "", ""
        size = display.output.size + sum(shown.output.size for shown in self._shown)
        if len(self._shown) >= _MAX_OUTPUTS or size > _MAX_BYTES:
            self._left_out += 1
            self._images_left_out += display.image is not None
            return display.said, ""
        self._shown.append(display)
        return "" if display.said_at_end else display.said, f"↓ {display.output.title}"

    def finish(self) -> None:
        """Take the final text of widgets, on the main thread."""
        for shown in self._shown:
            if shown.widget is not None:
                try:
                    shown.said = repr(shown.widget)[:_MAX_WIDGET_CHARACTERS]
                except Exception:  # noqa: BLE001 - the object's own code failed: a bar of tqdm's is gone when it is full
                    shown.said = _words_of(shown.widget)[:_MAX_WIDGET_CHARACTERS]

    def told_at_end(self, place: Place | None, drawn: Mapping[charts.Chart, bytes | str]) -> list[str]:
        """Return sentences for the model on outputs that changed, and on those it cannot see as the user does.

        Args:
            place: Where the user sees the call.
            drawn: The pictures of charts for the model, or why there is none.
        """
        sentences: list[str] = []
        for shown in self._shown:
            if shown.chart is not None:
                where = "is shown to the user" if place == "cell" else "was made, which the user's view cannot show"
                picture = drawn.get(shown.chart, "")
                seen = "its picture is attached" if isinstance(picture, bytes) else f"you have not seen it{picture}"
                sentences.append(f"[An interactive chart ({shown.chart.describe()}) {where}; {seen}.]")
            elif shown.widget is not None:
                where = "is shown to the user" if place == "cell" else "was made, which the user's view cannot show"
                sentences.append(f"[A widget {where}: {shown.said}]")
            elif shown.said_at_end and shown.said:
                sentences.append(shown.said)
        before = [0, *accumulate(map(len, sentences))]
        return [
            textcut.head(text, max(0, _MAX_TOLD_CHARACTERS - start), "… ({left:,} more characters)")
            for text, start in zip(sentences, before, strict=False)
        ]

    def left_out(self) -> str:
        """Return a sentence for the user on outputs that were too many or too large."""
        return f"[{self._left_out} more outputs were too many or too large, and left out.]" if self._left_out else ""


class CallOutputs:
    """Outputs of one call for the user; used on the agent's thread.

    Attributes:
        place: Where that is; ``None`` where no view draws it.
        job: The job that the call has become, if it has.
    """

    def __init__(self, place: Place | None, hide: Callable[[Any], Any]) -> None:
        self.version: int = 0
        self.job: Job | None = None
        self.text: str = ""
        self.outputs: Sequence[Output] = ()
        self.place: Place | None = place
        self._hide = hide
        self._hidden: dict[Output, Output] = {}

    @property
    def size(self) -> int:
        """Return the size of its outputs, in characters."""
        return sum(output.size for output in self.outputs)

    def show(self, text: str, outputs: Sequence[Output]) -> None:
        """Replace the text and the outputs, whose secrets are redacted."""
        self.text = text
        self.version += 1
        self._hidden = {output: self._hidden.get(output) or self._without_secrets(output) for output in outputs}
        self.outputs = tuple(self._hidden.values())

    def _without_secrets(self, output: Output) -> Output:
        data = {
            kind: value if kind.startswith(_IMAGES) or kind == _WIDGET else self._hide(value)
            for kind, value in output.data.items()
        }
        return replace(output, data=data)


class OutputBoard:
    """The outputs of the newest calls, by the ids of the calls; used on the agent's thread."""

    def __init__(self) -> None:
        self._calls: dict[str, CallOutputs] = {}
        self._places: dict[str, Place] = {}

    def watch(self, call_id: str, place: Place) -> None:
        """Register a call that is about to be shown.

        Args:
            place: Where; a cell counts more than a panel.
        """
        if self._places.get(call_id) != "cell":
            self._places[call_id] = place
        _keep_newest(self._places)

    def begin(self, call_id: str, hide: Callable[[Any], Any]) -> CallOutputs:
        """Start to collect the outputs of a call.

        Args:
            hide: Returns a text, or what holds texts, without secrets.

        Returns:
            The collector of the call.
        """
        self._calls.pop(call_id, None)
        call = self._calls[call_id] = CallOutputs(self._places.pop(call_id, None), hide)
        _keep_newest(self._calls)
        kept = sum(each.size for each in self._calls.values())
        while kept > _MAX_BYTES_OF_CALLS:
            kept -= self._calls.pop(next(iter(self._calls))).size
        return call

    def of(self, call_id: str) -> CallOutputs | None:
        """Return the outputs of a call; ``None`` if unknown."""
        return self._calls.get(call_id)


def _keep_newest(kept: dict[str, Any]) -> None:
    while len(kept) > _MAX_CALLS:
        del kept[next(iter(kept))]


def _display(
    value: Any, bundle: Mapping[str, Any], metadata: Mapping[str, Any], display_id: str | None, text: str
) -> Display:
    data = {kind: _sendable(content) for kind, content in bundle.items()}
    sizes = [len(content) if isinstance(content, str) else len(json.dumps(content)) for content in data.values()]
    chart = charts.chart_of(value, data)
    image = _image(bundle) if chart is None else None
    is_widget = _WIDGET in data
    frame = _frame_of(value)
    title = extent.size_of_frame(frame) if frame is not None else _title(data, is_chart=chart is not None)
    return Display(
        Output(data, cast("Mapping[str, Any]", _sendable(dict(metadata))), title, sum(sizes), display_id),
        image=image,
        chart=chart,
        widget=(value if value is not None else data.get("text/plain", "")) if is_widget else None,
        said="" if image is not None else text,
        said_at_end=display_id is not None or chart is not None or is_widget,
    )


def sent(display: Display | None, told: str, shown: str, *, update: bool) -> JsonObject:
    """Serialise a display for another process.

    Args:
        display: The output below the card; ``None`` for text.
        update: Whether it replaces the display with that id.

    Returns:
        An object that ``received`` reads.
    """
    found: JsonObject = {"display": None, "told": told, "shown": shown, "update": update}
    if display is None:
        return found
    output = display.output
    return found | {
        "display": {"data": output.data, "metadata": output.metadata, "title": output.title, "id": output.display_id},
        "said": display.said,
        "atEnd": display.said_at_end,
    }


def received(data: JsonObject, prefix: str) -> tuple[Display | None, str, str]:
    """Parse a display from another process, with the texts about it for the model and the card.

    Args:
        data: The result of ``sent`` there; untrusted.
        prefix: Prefix of its display ids here, so that they never match the user's outputs.

    Returns:
        The display, ``None`` for plain text; the text for the model; and the text for the card.

    Raises:
        ValueError: It is no display.
    """
    text, shown = str(data.get("told", "")), str(data.get("shown", ""))
    found = data.get("display")
    if not isinstance(found, dict):
        return None, text, shown
    fields = cast("JsonObject", found)
    bundle, metadata = fields.get("data"), fields.get("metadata")
    harmless = inert(cast("JsonObject", bundle)) if isinstance(bundle, dict) else None
    if harmless is None or not isinstance(metadata, dict):
        raise ValueError("it sent a display that cannot be shown")
    name = fields.get("id")
    own = f"{prefix}-{name}" if isinstance(name, str) else None
    display = _display(None, harmless, _sizes(cast("JsonObject", metadata)), own, text)
    display.said, display.said_at_end = str(data.get("said", "")), data.get("atEnd") is True
    title = str(fields.get("title", ""))
    if _SIZE_OF_FRAME.fullmatch(title):
        display.output = replace(display.output, title=title)
    return display, text, shown


def _sizes(metadata: JsonObject) -> JsonObject:
    """Return the image sizes in the metadata of a display."""
    found: JsonObject = {}
    for kind, each in metadata.items():
        if kind in _IMAGES and isinstance(each, dict):
            fields = cast("JsonObject", each)
            found[kind] = {name: fields[name] for name in ("width", "height") if type(fields.get(name)) is int}
    return found


def _sendable(content: Any) -> Any:
    """Return a JSON-compatible snapshot of the content."""
    if isinstance(content, str):
        return content
    if isinstance(content, bytes):
        return base64.b64encode(content).decode()
    return json.loads(json.dumps(content, default=str))


def _words_of(widget: Any) -> str:
    """Return the texts of a widget's parts, or its type."""
    values: list[object] = [getattr(part, "value", None) for part in getattr(widget, "children", ())]
    return (
        " ".join(_text_of(value, _MAX_WIDGET_CHARACTERS) for value in values if isinstance(value, str))
        or type(widget).__name__
    )


def _title(data: Mapping[str, Any], *, is_chart: bool) -> str:
    if is_chart:
        return _CHART
    if _WIDGET in data:
        return "widget"
    return next((title for start, title in _TITLES if any(kind.startswith(start) for kind in data)), "output")


def _frame_of(value: Any) -> Any:
    """Return the displayed frame, also that of a Styler; ``None`` if there is none."""
    if extent.is_frame(value):
        return value
    if type(value).__module__.startswith("pandas.io.formats.style"):
        held: Any = getattr(value, "data", None)
        return held if extent.is_frame(held) else None
    return None


def _image(bundle: Mapping[str, Any]) -> bytes | None:
    for kind in _IMAGES:
        data = bundle.get(kind)
        if isinstance(data, str):
            return base64.b64decode(data)
        if isinstance(data, bytes):
            return data
    return None


def _text_for_model(value: Any, bundle: Mapping[str, Any]) -> str:
    """Return the text for the model: the most informative one, for tables a short one."""
    frame = _frame_of(value)
    if frame is not None:
        return for_prompt(frame)
    for kind in ("text/markdown", "text/latex", "text/plain"):
        text = bundle.get(kind)
        if isinstance(text, str) and not (text.startswith("<") and text.endswith(">") and "text/html" in bundle):
            return text
    html = bundle.get("text/html")
    if isinstance(html, str):
        return textcut.head(_text_of(html, _MAX_HTML_CHARACTERS), _MAX_HTML_CHARACTERS)
    return f"[{', '.join(bundle)}]"


def described(bundle: Mapping[str, Any]) -> str:
    """Describe a display of a cell for the model.

    Args:
        bundle: Its texts; what holds no text is empty.
    """
    chart = charts.chart_of(None, bundle)
    if chart is not None:
        return f"[interactive chart ({chart.describe()})]"
    title, text = _title(bundle, is_chart=False), _text_for_model(None, bundle)
    return f"[{title}] {text}" if title in _SEEN_ONLY else text


def _text_of(html: str, characters: int) -> str:
    """Return the text of HTML: lines, and cells of tables between bars. It takes a time in proportion to the length.

    Args:
        characters: How many are needed; a little more may be returned.
    """
    parts: list[str] = []
    hidden, at = "", 0
    for match in _MARKUP.finditer(f"{html}<p>"):
        mark, text = match[0], html[at : match.start()]
        at = match.end()
        if hidden:
            hidden = "" if mark[: len(hidden)].lower() == hidden else hidden
            continue
        parts.append(_unescaped(" ".join(f"[{text}]".split())[1:-1]))
        characters -= len(parts[-1])
        if characters < 0:
            break
        tag = mark.strip("</>").partition(" ")[0].rstrip("/").lower()
        if mark == "<!--":
            hidden = "-->"
        elif mark == "-->":
            parts.append(mark)
        elif tag in ("script", "style") and mark[1] != "/" and not mark.endswith("/>"):
            hidden = f"</{tag}"
        elif tag not in _WITHIN_LINES:
            parts.append("\n")
        elif tag in ("td", "th") and mark[1] != "/":
            parts.append(" | ")
    rows = (" ".join(row.split()).strip("| ") for row in "".join(parts).split("\n"))
    return "\n".join(row for row in rows if row)


def _unescaped(text: str) -> str:
    try:
        return unescape(text)
    except ValueError:  # a number with thousands of digits
        return text
