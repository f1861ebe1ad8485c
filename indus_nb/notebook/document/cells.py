"""The notebook that a kernel works for: its cells, for the model to read, and cells that the model proposes.

A kernel is told at most once where its notebook lies, and files are renamed. So a file counts as the notebook only if
something speaks for it: an id or the source of a cell that ran here. The file is only ever read; what the user accepts
is put in by the front end.
"""

from __future__ import annotations

import asyncio
import base64
import difflib
import json
import os
import re
import stat
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pydantic_core

from indus_nb import textcut
from indus_nb.events import ToolOutput
from indus_nb.extensions.api import Context, ExtensionApi
from indus_nb.messages import ImageContent, TextContent
from indus_nb.notebook.kernel.describe import without_secrets
from indus_nb.render.markup import cut, plain
from indus_nb.tools.paths import failure
from indus_nb.tools.read import read_image
from indus_nb.tools.tool import ToolError, in_thread
from indus_nb.tools.truncate import size_text
from indus_nb.wire import JsonObject, clean_text

AskFront = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any] | None]]
CellType = Literal["code", "markdown"]

_LARGEST_FILE = 64 << 20
_MOST_FILES = 100
_SAME_FOLDER = 64 << 20
_MOST_CELLS = 10_000
_MOST_RAN = 500
_JUPYTER_ID = re.compile(r"[A-Za-z0-9_-]{6,64}")

_SMALL = 12_000
_MOST_TEXT = 40_000
_MOST_LISTED = 400
_LONGEST_SOURCE = 20_000
_LONGEST_OUTPUTS = 6_000
_LONGEST_TRANSCRIPT = 400
_MOST_IMAGES = 4
_LARGEST_IMAGE = 20 << 20
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_TEXTS = ("text/markdown", "text/latex", "text/plain", "application/json")
_OURS = ("%agent", "%%agent", "%load_ext indus_nb", "%reload_ext indus_nb")

_LONGEST_PROPOSAL = 20_000
_ACCEPT, _NO, _NO_BECAUSE = "Accept", "No", "No, and say why"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell; ``run_as`` is the number at its side, ``None`` when it was not run, and ``outputs`` are as saved."""

    type: str
    source: str
    id: str | None = None
    run_as: int | None = None
    outputs: Sequence[Mapping[str, Any]] = ()

    @property
    def asks_us(self) -> bool:
        """Whether its outputs are a transcript of ours."""
        return self.source.lstrip().startswith(_OURS[:2])

    def first_line(self) -> str:
        """Its first line that says something, shortened."""
        return next((line.strip()[:100] for line in self.source.split("\n", 200) if line.strip()), "(empty)")


@dataclass(frozen=True, slots=True)
class NotebookFile:
    """A notebook as it was saved, at ``saved`` in seconds since 1970; ``note`` tells what is odd about it."""

    path: Path
    cells: list[Cell]
    saved: float
    note: str | None = None


# Files


def read_notebook(path: Path) -> NotebookFile:
    """The notebook in the file at ``path``.

    Raises ``ToolError`` that says why there is none: it is no regular file, above 64 MB, no whole JSON, or of another
    format than 4.
    """
    data, saved = _bytes_of(path)
    value = _parsed(path, data)
    version = value.get("nbformat")
    if version != 4:
        what = f"has the notebook format {version}" if isinstance(version, int) else "is JSON but no notebook"
        raise ToolError(
            f"{path} {what}; only format 4 is read. Jupyter brings an older one up to date: open and save it."
        )
    listed: object = value.get("cells")
    if not isinstance(listed, list):
        raise ToolError(f"{path} is damaged: it holds no list of cells. Restore an older copy of it.")
    cells = cast("list[object]", listed)[:_MOST_CELLS]
    return NotebookFile(path, [cell for given in cells if (cell := _cell(given)) is not None], saved)


def _bytes_of(path: Path) -> tuple[bytes, float]:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ToolError(f"{path} is no regular file: reading it might never end. Nothing was read.")
        with path.open("rb") as file:
            data = file.read(_LARGEST_FILE + 1) if found.st_size <= _LARGEST_FILE else b""
    except OSError as error:
        raise failure("read", path, error) from error
    size = max(found.st_size, len(data))
    if size > _LARGEST_FILE:
        raise ToolError(
            f"{path} has {size_text(size)}, more than the {size_text(_LARGEST_FILE)} that are read. "
            "Its outputs are probably very large: ask the user to clear those that are not needed, and to save."
        )
    return data, found.st_mtime


def _parsed(path: Path, data: bytes) -> JsonObject:
    try:
        try:
            value: object = pydantic_core.from_json(data)
        except ValueError:
            value = json.loads(data)  # reads halves of characters and a byte order mark too
    except (ValueError, RecursionError) as error:
        told = "it is empty" if not data.strip() else f"it is no whole JSON ({error})"
        raise ToolError(
            f"{path} cannot be read: {told}. If it was being saved at this moment, call again; else it is damaged."
        ) from error
    if not isinstance(value, dict):
        raise ToolError(f"{path} is JSON but no notebook.")
    return cast("JsonObject", value)


def _cell(given: object) -> Cell | None:
    if not isinstance(given, dict):
        return None
    value = cast("Mapping[str, object]", given)
    outputs: Any = value.get("outputs")
    kept = [output for output in outputs if isinstance(output, dict)] if isinstance(outputs, list) else []  # pyright: ignore[reportUnknownVariableType]
    number = value.get("execution_count", value.get("executionCount"))
    own_id, kind = value.get("id"), value.get("cell_type", value.get("type"))
    return Cell(
        type=kind if isinstance(kind, str) else "unknown",
        source=_joined(value.get("source")),
        id=own_id if isinstance(own_id, str) and own_id else None,
        run_as=number if isinstance(number, int) and not isinstance(number, bool) else None,
        outputs=cast("list[Mapping[str, Any]]", kept),
    )


def _joined(text: object) -> str:
    """A text as notebooks hold it: whole, or as a list of lines."""
    if isinstance(text, list):
        return "".join(part for part in cast("list[object]", text) if isinstance(part, str))
    return text if isinstance(text, str) else ""


# Which file it is


@dataclass(frozen=True, slots=True)
class Traces:
    """What a kernel knows of its notebook.

    ``path`` is where it lay when somebody said so, ``certain`` that this was said with the cell that runs now.
    ``ids`` are those of cells that ran here, ``ran`` their sources by number, an empty one for the number 0.
    """

    path: Path | None = None
    certain: bool = False
    ids: frozenset[str] = frozenset()
    ran: Sequence[str] = ()


def find_notebook(traces: Traces) -> NotebookFile:
    """The notebook that left these traces; also one that was renamed within its folder.

    Raises ``ToolError`` when it is not known which file it is, or it cannot be read.
    """
    named = traces.path
    if named is None:
        raise ToolError(
            "It is not known which notebook this kernel works for: the front end did not tell (one that runs "
            "notebooks without showing them, or a console, never does). Ask the user, and read the file by its name."
        )
    file, trouble = None, None
    try:
        file = read_notebook(named)
    except ToolError as error:
        trouble = error
    if file is not None and (traces.certain or _holds(file, traces.ids)):
        return file
    renamed = _others_with(named, traces.ids)
    if len(renamed) > 1:
        listed = ", ".join(str(other.path) for other in renamed)
        raise ToolError(f"It is not known which notebook this kernel works for: its cells are in each of {listed}.")
    if renamed:
        return replace(renamed[0], note=f"It was {named.name} when the kernel was started.")
    if file is None:
        if not named.exists():
            raise ToolError(
                f"{named} was this kernel's notebook when it was started, and is not there any more. If it was renamed "
                "or moved, ask the user to save it and to restart the kernel, or read it by its name."
            )
        raise trouble or ToolError(f"{named} cannot be read.")
    if not {*_stripped(traces.ran)}.isdisjoint(_sources(file.cells)):
        return file
    if not traces.ids:
        raise ToolError(
            f"It is not known which notebook this kernel works for: {named} was named to it, but nothing that ran here "
            "stands in that file. The name may be inherited from another kernel."
        )
    doubt = "None of the cells that ran in this kernel is in the file: it was not saved since, or it is another one now"
    return replace(file, note=f"{doubt} that took the name.")


def named_notebook(
    environment: Mapping[str, str], namespace: Mapping[str, Any], folder: Path, cell_id: str | None
) -> tuple[Path | None, bool]:
    """Where the notebook is said to lie, if anywhere, and whether that was said with the running cell.

    ``folder`` is the one in which the kernel was started, ``cell_id`` what the front end calls the running cell.
    """
    if cell_id is not None and cell_id.startswith("vscode-notebook-cell:"):
        with suppress(ValueError):
            path = Path(url2pathname(urlsplit(cell_id).path))
            if _is_notebook(path):
                return path, True
    in_code: object = namespace.get("__vsc_ipynb_file__")
    if isinstance(in_code, str) and _is_notebook(Path(in_code)):
        return Path(in_code), False
    name = environment.get("JPY_SESSION_NAME", "")
    if not name.endswith(".ipynb") or "\0" in name:
        return None, False
    path = Path(name)
    if path.is_absolute():
        return path, False
    # Older servers tell the path below their own folder; kernels are started in the notebook's, or in the server's.
    below = path.parent.parts
    places = [folder / path.name] if not below or folder.parts[-len(below) :] == below else []
    places += [folder / path] if below else []
    there = [place for place in places if _is_notebook(place)]
    return (there[0] if len(there) == 1 else None), False


def _is_notebook(path: Path) -> bool:
    try:
        return path.is_absolute() and path.suffix == ".ipynb" and path.is_file()
    except (OSError, ValueError):
        return False


def _holds(file: NotebookFile, ids: frozenset[str]) -> bool:
    return any(cell.id in ids for cell in file.cells if cell.id)


def _others_with(named: Path, ids: frozenset[str]) -> list[NotebookFile]:
    """The other notebooks of the folder that hold one of the cells; no more than 64 MB of them are searched."""
    found: list[NotebookFile] = []
    left = _SAME_FOLDER
    if not any(_JUPYTER_ID.fullmatch(own_id) for own_id in ids):
        return found
    try:
        # The latest first: a file is saved under its new name.
        others = [(path.stat(), path) for path in named.parent.glob("*.ipynb") if path != named]
    except OSError:
        return found
    for state, path in sorted(others, key=lambda other: -other[0].st_mtime)[:_MOST_FILES]:
        left -= state.st_size
        if left < 0:
            break
        with suppress(ToolError):
            file = read_notebook(path)
            if _holds(file, ids):
                found.append(file)
    return found


def _stripped(ran: Sequence[str]) -> Iterator[str]:
    return (text for source in ran if (text := source.strip()))


def _sources(cells: Sequence[Cell]) -> set[str]:
    return {cell.source.strip() for cell in cells if cell.type == "code"}


# Cells for a reader


@dataclass(slots=True)
class Reading:
    """What a model is shown of cells: text, and the images that stand in it."""

    ran: Sequence[str]
    images: list[ImageContent] = field(default_factory=list[ImageContent])
    _numbers: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self._numbers = {text: number for number, source in enumerate(self.ran) if (text := source.strip())}

    def listing(self, cells: Sequence[Cell]) -> str:
        """A few lines for each cell."""
        rows = [self._listed(number, cell) for number, cell in enumerate(cells[:_MOST_LISTED], 1)]
        if len(cells) > _MOST_LISTED:
            rows.append(f'[… {len(cells) - _MOST_LISTED} more. See them with cells="{_MOST_LISTED + 1}-{len(cells)}".]')
        return "\n".join(rows)

    def whole(self, cells: Sequence[Cell], chosen: Sequence[int], most: int) -> tuple[str, list[int]]:
        """The chosen cells (by number, from 1) with their outputs, and those that found no place in ``most``."""
        parts: list[str] = []
        size = 0
        for position, number in enumerate(chosen):
            shown = len(self.images)
            part = self._shown(number, cells[number - 1])
            if size and size + len(part) > most:
                del self.images[shown:]
                return "\n\n".join(parts), [*chosen[position:]]
            parts.append(part)
            size += len(part)
        return "\n\n".join(parts), []

    def _title(self, number: int, cell: Cell) -> str:
        told = [cell.type, *([f"id {cell.id[:64]}"] if cell.id else [])]
        if cell.type == "code":
            told.append(self._when(cell))
        return f"[{number}] {' · '.join(told)}"

    def _when(self, cell: Cell) -> str:
        here = self._numbers.get(cell.source.strip())
        if here is not None and here != cell.run_as:
            return f"run as In [{here}] since it was saved"
        if cell.run_as is None:
            return "not run"
        return f"run as In [{cell.run_as}]" + ("" if here else " (by an earlier kernel, or changed since)")

    def _listed(self, number: int, cell: Cell) -> str:
        lines = cell.source.count("\n") + 1
        kinds = dict.fromkeys(_kind(output) for output in cell.outputs[:50])
        title = f"{self._title(number, cell)} · {lines} {'line' if lines == 1 else 'lines'}"
        outputs = f" · outputs: {', '.join(kinds)}" if kinds else ""
        rows = [line for line in cell.source[:2000].split("\n") if line.strip()][:2]
        return "\n".join([title + outputs, *(f"      {_readable(row)[:120]}" for row in rows)])

    def _shown(self, number: int, cell: Cell) -> str:
        source = cut(_readable(_ends(cell.source, _LONGEST_SOURCE)), lines=1000, characters=_LONGEST_SOURCE)
        rows = [self._title(number, cell), source or "(empty)"]
        if cell.asks_us and cell.outputs:
            told = "\n".join(_text_of(output, _LONGEST_TRANSCRIPT) for output in cell.outputs[:50])
            rows += ["--- a transcript of an agent, cut short ---", cut(told, characters=_LONGEST_TRANSCRIPT)]
            return "\n".join(rows)
        left = _LONGEST_OUTPUTS
        for place, output in enumerate(cell.outputs):
            if left <= 0:
                rows.append(f"--- {len(cell.outputs) - place} more outputs were left out ---")
                break
            text = self._output(output, left)
            left -= len(text)
            rows += [f"--- {_kind(output)} ---", text]
        return "\n".join(rows)

    def _output(self, output: Mapping[str, Any], most: int) -> str:
        data = _bundle(output)
        kind = next((name for name in _IMAGES if name in data), None)
        if kind is None:
            return _text_of(output, most)
        if len(self.images) >= _MOST_IMAGES:
            return f"[not shown: {_MOST_IMAGES} images at a time. Ask for this cell alone.]"
        try:
            self.images.append(_image(_joined(data[kind])))
        except ToolError as error:
            return f"[not shown: {error}]"
        return f"[image {len(self.images)}, below]"


def _bundle(output: Mapping[str, Any]) -> Mapping[str, Any]:
    data = output.get("data")
    return cast("Mapping[str, Any]", data) if isinstance(data, dict) else {}


def _kind(output: Mapping[str, Any]) -> str:
    """What sort of output it is, in a word."""
    match output.get("output_type"):
        case "stream":
            return "stderr" if output.get("name") == "stderr" else "stdout"
        case "error":
            return "error"
        case _:
            data = _bundle(output)
            order = (*_IMAGES, "image/svg+xml", "text/html", *_TEXTS)
            return next((name for name in order if name in data), "output")


def _text_of(output: Mapping[str, Any], most: int) -> str:
    """An output in words, at most about ``most`` characters of them."""
    match output.get("output_type"):
        case "stream":
            text = _joined(output.get("text"))
        case "error":
            trace = output.get("traceback")
            lines = cast("list[object]", trace) if isinstance(trace, list) else []
            text = "\n".join(line for line in lines[-20:] if isinstance(line, str))
            named = f"{_joined(output.get('ename'))}: {_joined(output.get('evalue'))}"
            most = min(most, 2000)
            if len(text) > most or not text:
                text = f"{text[-most:]}\n{named[:500]}".strip()
        case _:
            data = _bundle(output)
            name = next((name for name in _TEXTS if name in data), None)
            if name is None:
                return f"[no text: {', '.join(name[:80] for name in list(data)[:5]) or 'empty'}]"
            given: object = data[name]
            text = json.dumps(given, ensure_ascii=False)[: 8 * most] if name.endswith("json") else _joined(given)
    return cut(_readable(_ends(text, most)).strip("\n"), characters=most) or "(nothing)"


def _ends(text: str, most: int) -> str:
    """Both ends of a text that is far too long anyway, so that no more than these need to be looked at."""
    return textcut.middle(text, 4 * most, "\n…\n")


def _readable(text: str) -> str:
    """Without secrets, and without what only a terminal understands; of a line written over, what it was in the end."""
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return without_secrets(plain(clean_text("\n".join(lines))))


def _image(text: str) -> ImageContent:
    if len(text) > _LARGEST_IMAGE:
        raise ToolError(f"it has {size_text(len(text))}, which is too much")
    try:
        data = base64.b64decode(text)
    except ValueError as error:
        raise ToolError("it is no base64") from error
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "output")
        path.write_bytes(data)
        output = read_image(path, "it")
    if output is None:
        raise ToolError("it is no image")
    return next(block for block in output.content if isinstance(block, ImageContent))


def chosen_cells(cells: Sequence[Cell], text: str) -> list[int]:
    """The numbers that ``text`` names: ``3``, ``3-7``, ids, several with commas, in the order given, each once.

    Raises ``ToolError`` for what no cell is called.
    """
    ids = {cell.id: number for number, cell in enumerate(cells, 1) if cell.id}
    numbers: dict[int, None] = {}
    for part in re.split(r"[\s,]+", text.strip()):
        span = re.fullmatch(r"\[?(\d{1,9})\s*(?:[-:\u2013]\s*(\d{1,9}))?\]?", part)
        if span and 1 <= int(span[1]) <= len(cells):
            numbers.update(dict.fromkeys(range(int(span[1]), min(int(span[2] or span[1]), len(cells)) + 1)))
        elif part in ids:
            numbers[ids[part]] = None
        else:
            raise ToolError(
                f"There is no cell {part[:80]!r}. The cells have the numbers 1-{len(cells)}, and their ids."
            )
    return [*numbers]


def _spans(numbers: Sequence[int]) -> str:
    """Numbers in short.

    >>> _spans([3, 4, 5, 9])
    '3-5,9'
    """
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


# Cells that are proposed


@dataclass(slots=True)
class _Below:
    """The cells that were put below one run of a cell; at its end a front end takes one text for all of them."""

    run: object = None
    cells: list[tuple[CellType, str]] = field(default_factory=list[tuple[CellType, str]])
    last_id: str | None = None
    """Of the cell that the page put in last, or of the running one."""

    def text(self) -> str:
        """One cell as it is; several as one, between lines that editors know as the borders of cells."""
        if len(self.cells) == 1:
            cell_type, source = self.cells[0]
            return source if cell_type == "code" else f"%%markdown\n{source}"
        return "\n\n".join(_bordered(cell_type, source) for cell_type, source in self.cells)


def _bordered(cell_type: CellType, source: str) -> str:
    border = "# %%" if cell_type == "code" else "# %% [markdown]"
    if cell_type == "markdown" or source.lstrip().startswith("%%"):
        # In one cell with others it would be run as code, or swallow what follows.
        source = "\n".join(f"# {line}".rstrip() for line in source.split("\n"))
    return f"{border}\n{source}"


@dataclass(frozen=True, slots=True)
class _Seen:
    """The notebook as far as it is known now: from the page, from the file, or from both."""

    cells: list[Cell]
    file: NotebookFile | None
    ran: Sequence[str]
    from_page: bool


class NotebookTools:
    """The tools ``notebook`` and ``propose_cell`` of one shell; also the extension that lends them to a session.

    ``ask_front`` asks the page that shows the notebook. The answer is ``None``, or has ``error``, where it cannot:

    - ``cells``, with ``{}``: ``{"cells": [{"id", "type", "source", "executionCount"}, …]}``, all of them.
    - ``insert_cell`` with ``after`` (a cell's id), ``type`` and ``source``: ``{"id"}`` of the new cell.
    - ``replace_cell`` with ``cell`` (its id), ``old`` (the source that the user was shown as the old one; the page
      refuses when it is another by now) and ``source``: ``{"id"}``.

    ``insert_below`` has the waiting cell tell its front end, when it ends, to put a cell with that source below it.
    What was told before counts no more. ``False`` when no cell waits.
    """

    tools = ("notebook", "propose_cell")

    def __init__(self, shell: Any, ask_front: AskFront, insert_below: Callable[[str], bool]) -> None:
        self._shell = shell
        self._ask_front = ask_front
        self._insert_below = insert_below
        self._folder = Path(getattr(shell, "starting_dir", None) or Path.cwd())
        self._ids: set[str] = set()
        self._below = _Below()
        self._one_at_a_time = asyncio.Lock()
        self._note_id(self._running_id())
        shell.events.register("pre_run_cell", self._note_cell)

    def close(self) -> None:
        """Do not look at the user's cells any more."""
        with suppress(ValueError):
            self._shell.events.unregister("pre_run_cell", self._note_cell)

    def __call__(self, api: ExtensionApi) -> None:
        """Lend a session the tools."""
        api.tool(self._read, name="notebook", read_only=True, snippet="Read the cells and outputs of the notebook")
        # It changes nothing by itself: the user is asked, here, about what they will see.
        api.tool(
            self._propose,
            name="propose_cell",
            read_only=True,
            snippet="Propose a cell to insert or to change, which the user accepts or not",
        )

    def _note_cell(self, info: Any) -> None:
        self._note_id(getattr(info, "cell_id", None))

    def _note_id(self, cell_id: object) -> None:
        if isinstance(cell_id, str) and len(self._ids) < _MOST_CELLS:
            self._ids.add(cell_id)

    def _parent(self) -> Mapping[str, Any]:
        """The request that the running cell came with; empty in a terminal."""
        get_parent = getattr(self._shell, "get_parent", None)
        parent = get_parent() if get_parent is not None else None
        return cast("Mapping[str, Any]", parent) if isinstance(parent, dict) else {}

    def _running_id(self) -> str | None:
        metadata: Any = self._parent().get("metadata")
        found: object = metadata.get("cellId") if isinstance(metadata, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return found if isinstance(found, str) else None

    def _traces(self) -> Traces:
        running = self._running_id()
        self._note_id(running)
        history: Any = getattr(self._shell.history_manager, "input_hist_raw", ())
        path, certain = named_notebook(os.environ, self._shell.user_ns, self._folder, running)
        return Traces(path, certain, frozenset(self._ids), [*history])

    async def _look(self) -> _Seen:
        """What is known of the notebook; raises ``ToolError`` when that is nothing."""
        page = _cells_of(await self._ask_front("cells", {}))
        traces = self._traces()
        # The cells of the page tell which file it is, too.
        traces = replace(traces, ids=traces.ids | {cell.id for cell in page if cell.id})
        try:
            file = await in_thread(lambda _: find_notebook(traces))
        except ToolError:
            if not page:
                raise
            return _Seen(page, None, traces.ran, from_page=True)
        if not page:
            return _Seen(file.cells, file, traces.ran, from_page=False)
        saved = {cell.id: cell for cell in file.cells if cell.id}
        cells = [replace(saved.get(cell.id or "", cell), source=cell.source) for cell in page]
        return _Seen(cells, file, traces.ran, from_page=True)

    # Reading

    async def _read(self, cells: str = "") -> ToolOutput:
        """Read the user's notebook: cells with their sources and outputs, images included.

        Of a long notebook the first call lists the cells. What was not saved may be missing; the answer says so.

        Args:
            cells: Which cells to see in full: numbers as listed ("3", "3-7", "2,5") or ids. Empty for the notebook.
        """
        seen = await self._look()

        def tell() -> ToolOutput:
            reading = Reading(seen.ran)
            parts = _head(seen)
            everything = [*range(1, len(seen.cells) + 1)]
            if cells.strip():
                text, left = reading.whole(seen.cells, chosen_cells(seen.cells, cells), _MOST_TEXT)
                if left:
                    text += f'\n\n[There was no room for more. Go on with cells="{_spans(left)}".]'
            else:
                text, left = reading.whole(seen.cells, everything, _SMALL)
                if left:
                    reading.images.clear()
                    text = reading.listing(seen.cells)
                    parts.append('This is a list. See cells in full with cells="3-7".')
            content: list[TextContent | ImageContent] = [TextContent(text="\n".join([*parts, "", text]))]
            return ToolOutput(content=[*content, *reading.images])

        return await in_thread(lambda _: tell())

    # Proposing

    async def _propose(
        self,
        source: str,
        ctx: Context,
        cell_type: CellType = "code",
        after: int | str | None = None,
        replace: int | str | None = None,
    ) -> str:
        """Propose a new cell, or another source for a cell, in the user's notebook. The user accepts it or not.

        It is not run; the user does that. The result says what became of it.

        Args:
            source: The whole source of the cell
            cell_type: "code" or "markdown", of a new cell
            after: The number or id of the cell to insert it below; leave it out for below the one that runs now
            replace: The number or id of the cell whose source it shall be instead
            ctx: Given by the session
        """
        source = _checked(source)
        if after is not None and replace is not None:
            raise ToolError("Give after or replace, not both: a cell is new, or it stands in the place of one.")
        if not ctx.has_ui:
            raise ToolError(
                "Nobody can be asked here, so nothing was put into the notebook. Show the cell in your answer instead."
            )
        async with self._one_at_a_time:
            if replace is not None:
                return await self._propose_change(source, replace, ctx)
            return await self._propose_new(source, cell_type, after, ctx)

    async def _propose_new(self, source: str, cell_type: CellType, after: int | str | None, ctx: Context) -> str:
        below = self._below_this_run()
        behind, meant, where = below.last_id, "", "below the one that runs"
        if after is not None:
            seen = await self._look()
            place = _one(seen.cells, after)
            behind, meant = seen.cells[place - 1].id, f"below cell {place}"
            where = f"{meant} ({seen.cells[place - 1].first_line()})"
        await _ask(ctx, f"Insert this {cell_type} cell {where}?\n\n{source}")
        if behind is not None:
            new = await self._done("insert_cell", {"after": behind, "type": cell_type, "source": source})
            if new is not None:
                below.last_id = below.last_id if meant else new
                return f"The user accepted it: the cell is in the notebook now, {where}, with id {new}. It was not run."
        told = self._put_below(source, cell_type)
        if not meant:
            return f"The user accepted it. {told}"
        ctx.ui.notify(f"The new cell comes below the running one; it was meant for the place {meant}.")
        return f"The user accepted it. {told} The user was told that it belongs {meant}."

    async def insert(self, code: str) -> bool:
        """Put code that the user chose below the running cell, as a cell; tells whether that could be done."""
        below = self._below_this_run()
        new = await self._done("insert_cell", {"after": below.last_id, "type": "code", "source": code})
        if new is not None:
            below.last_id = new
            return True
        try:
            self._put_below(code, "code")
        except ToolError:
            return False
        return True

    async def _propose_change(self, source: str, target: int | str, ctx: Context) -> str:
        seen = await self._look()
        place = _one(seen.cells, target)
        cell = seen.cells[place - 1]
        if cell.source.strip("\n") == source.strip("\n"):
            raise ToolError(f"Cell {place} has that source already. Nothing was proposed.")
        lines = difflib.unified_diff(cell.source.splitlines(), source.splitlines(), "now", "then", lineterm="")
        difference = plain(clean_text("\n".join(lines)))
        if len(difference) > _LONGEST_PROPOSAL:
            raise ToolError(f"The change of cell {place} is too long to be shown to the user. Propose less at a time.")
        await _ask(ctx, f"Change cell {place}?\n\n{difference}")
        change = {"cell": cell.id, "old": cell.source, "source": source}
        if cell.id is not None and await self._done("replace_cell", change) is not None:
            return f"The user accepted it: cell {place} has the new source now. It was not run."
        together = self._put_below(source, "markdown" if cell.type == "markdown" else "code")
        ctx.ui.notify(f"The new version of cell {place} comes in a cell below the running one: put it in its place.")
        return (
            f"The user accepted it, but this front end lets nobody change cell {place}. {together} "
            f"The user was told to put it in the place of cell {place}; until then that cell is as it was."
        )

    async def _done(self, what: str, payload: JsonObject) -> str | None:
        """Have the page do it; the id of the cell, ``None`` if it was not done."""
        answer = await self._ask_front(what, payload)
        done: object = None if answer is None or "error" in answer else answer.get("id")
        return done if isinstance(done, str) else None

    def _below_this_run(self) -> _Below:
        run = (self._shell.execution_count, self._parent().get("header", {}).get("msg_id"))
        if run != self._below.run:
            self._below = _Below(run, last_id=self._running_id())
        return self._below

    def _put_below(self, source: str, cell_type: CellType) -> str:
        """Have it put below the waiting cell; returns what the model is told of that."""
        below = self._below_this_run()
        below.cells.append((cell_type, source))
        if not self._insert_below(below.text()):
            below.cells.pop()
            raise ToolError(
                "The user accepted it, but it could not be put into the notebook: the front end does not let it be "
                "done, and no cell waits for the agent. Show it in your answer, for the user to copy."
            )
        if len(below.cells) > 1:
            return (
                "It comes below the running cell, once that has ended well. The front end adds one cell only, so it "
                "shares that with what was accepted before, between lines `# %%`."
            )
        kind = "" if cell_type == "code" else " as a code cell that begins with %%markdown"
        return f"It comes below the running cell{kind}, once that has ended well; it is not run."


def _cells_of(answer: Mapping[str, Any] | None) -> list[Cell]:
    listed: object = None if answer is None else answer.get("cells")
    if not isinstance(listed, list):
        return []
    cells = (_cell(given) for given in cast("list[object]", listed)[:_MOST_CELLS])
    return [cell for cell in cells if cell is not None]


def _head(seen: _Seen) -> list[str]:
    """What is to be said of the notebook as a whole."""
    if seen.file is None:
        rows = [f"The notebook as the browser shows it · {len(seen.cells)} cells · its outputs are not known"]
    else:
        at = datetime.fromtimestamp(seen.file.saved).astimezone()
        ago = _ago(time.time() - seen.file.saved)
        rows = [f"{seen.file.path} · {len(seen.cells)} cells · saved {ago} ({at:%Y-%m-%d %H:%M:%S})"]
        if seen.from_page:
            rows.append("Sources are as the browser shows them now, outputs as they were saved.")
        if seen.file.note:
            rows.append(seen.file.note)
    known, ran = _sources(seen.cells), seen.ran
    first = max(1, len(ran) - _MOST_RAN)
    news = [
        f"In [{number}]"
        for number, source in enumerate(ran[first:], first)
        if (text := source.strip()) and text not in known and not text.startswith(_OURS)
    ]
    if news:
        listed = ", ".join(["…", *news[-20:]] if len(news) > 20 else news)
        where = "the notebook" if seen.from_page else "the file"
        rows.append(f"Unsaved: ran here, but {where} does not hold it so (new, changed or deleted since): {listed}")
    return rows


def _ago(seconds: float) -> str:
    """A time that has passed.

    >>> _ago(5), _ago(130), _ago(90_000)
    ('5 s ago', '2 min ago', '25 h ago')
    """
    if seconds < 60:
        return f"{max(0, seconds):.0f} s ago"
    return f"{seconds / 60:.0f} min ago" if seconds < 3600 else f"{seconds / 3600:.0f} h ago"


def _checked(source: str) -> str:
    """A source that looks as it is; raises ``ToolError`` for what a user could not see in it."""
    source = source.replace("\r\n", "\n").strip("\n")
    if not source.strip():
        raise ToolError("The source is empty. Nothing was proposed.")
    if len(source) > _LONGEST_PROPOSAL:
        raise ToolError(f"{len(source)} characters are too many for one cell. Propose several smaller ones.")
    if plain(clean_text(source)) != source:
        raise ToolError(
            "The source holds characters that cannot be shown (control characters or marks of writing direction). "
            "Write them as escapes, and propose it again."
        )
    return source


def _one(cells: Sequence[Cell], wanted: int | str) -> int:
    numbers = chosen_cells(cells, str(wanted))
    if len(numbers) != 1:
        raise ToolError(f"{wanted!r} names {len(numbers)} cells. Name one. Nothing was proposed.")
    return numbers[0]


async def _ask(ctx: Context, question: str) -> None:
    """Return when the user accepts; raises ``ToolError`` with what they say when they do not."""
    chosen = await ctx.ui.select(question, [_ACCEPT, _NO, _NO_BECAUSE], signal=ctx.signal)
    if chosen == _ACCEPT:
        return
    if chosen is None:
        raise ToolError("The user did not decide, so nothing was put into the notebook. Ask what to do instead.")
    reason = await ctx.ui.input("Why not?", signal=ctx.signal) if chosen == _NO_BECAUSE else None
    told = f" They said: {reason.strip()}" if reason and reason.strip() else " Ask what to do instead."
    raise ToolError(f"The user did not accept the cell. Nothing was put into the notebook.{told}")
