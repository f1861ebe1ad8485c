"""The tool ``notebook``: the cells of the user's notebook for the model to read.

They come from the page where one shows the notebook, else from the file. `Reading` writes them as text within limits;
`NotebookReader` knows the notebook of one shell.
"""

from __future__ import annotations

import base64
import json
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeAlias, cast

from indus_nb.base import textcut
from indus_nb.base.events import ToolOutput
from indus_nb.base.messages import ImageContent, TextContent
from indus_nb.base.wire import clean_text
from indus_nb.kernel.cell_ids import CellIds
from indus_nb.kernel.document.notebook_file import (
    MAX_CELLS,
    OUR_MAGICS,
    Cell,
    NotebookFile,
    Traces,
    code_sources,
    find_notebook,
    joined_text,
    named_notebook,
    parse_cell,
    shown_notebook,
)
from indus_nb.kernel.document.selection import chosen_cells, last_runs
from indus_nb.render.markup import cut, plain
from indus_nb.safety.redaction import hide, labelled_secrets
from indus_nb.tools.files.read import read_image
from indus_nb.tools.tool import ToolError, in_thread
from indus_nb.tools.truncate import size_text

AskPage: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any] | None]]
"""Request to the page that shows the notebook, by name and payload; returns its answer, or ``None``."""

_MAX_WHOLE_CHARACTERS = 12_000  # above it the notebook is listed instead
_MAX_CHARACTERS = 40_000
_MAX_LISTED_CELLS = 400
_MAX_UNSAVED_CELLS = 500
_MAX_SOURCE_CHARACTERS = 20_000
_MAX_OUTPUT_CHARACTERS = 6_000
_MAX_TRANSCRIPT_CHARACTERS = 400
_MAX_IMAGES = 4
_MAX_IMAGE_CHARACTERS = 20 << 20
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_TEXTS = ("text/markdown", "text/latex", "text/plain", "application/json")
_OUR_TEXTS = ("text/plain",)
"""Formats that are read of our own displays: their Markdown is escaped for viewers."""


# Cells as text


@dataclass(slots=True)
class Reading:
    """Writer of cells for a model: as text, with the images that the text refers to in ``images``.

    Attributes:
        ran_here: With which numbers cells ran last in this kernel, by their places; see `last_runs`.
        images: The images shown so far, at most four.
        where: Where the model sees them, from the text.
    """

    ran_here: Mapping[int, int] = field(default_factory=dict[int, int])
    images: list[ImageContent] = field(default_factory=list[ImageContent])
    where: Literal["above", "below"] = "below"

    def listing(self, cells: Sequence[Cell]) -> str:
        """Write a few lines for each cell, at most 400 of them."""
        rows = [self._listed(number, cell) for number, cell in enumerate(cells[:_MAX_LISTED_CELLS], 1)]
        if len(cells) > _MAX_LISTED_CELLS:
            following = f"{_MAX_LISTED_CELLS + 1}-{len(cells)}"
            rows.append(f'[… {len(cells) - _MAX_LISTED_CELLS} more. See them with cells="{following}".]')
        return "\n".join(rows)

    def whole(self, cells: Sequence[Cell], chosen: Sequence[int], limit: int) -> tuple[str, list[int]]:
        """Write cells in full, with their outputs.

        Args:
            cells: All cells of the notebook.
            chosen: The numbers of those to write, from 1, in the order wanted.
            limit: How many characters to write; the first cell may be longer.

        Returns:
            The text, and the numbers of the chosen cells for which there was no room.
        """
        parts: list[str] = []
        size = 0
        for position, number in enumerate(chosen):
            shown = len(self.images)
            part = self._shown(number, cells[number - 1])
            if size and size + len(part) > limit:
                del self.images[shown:]
                return "\n\n".join(parts), [*chosen[position:]]
            parts.append(part)
            size += len(part)
        return "\n\n".join(parts), []

    def _title(self, number: int, cell: Cell) -> str:
        """Write the id first: a number in brackets is what a cell ran with, everywhere else."""
        parts = [*([f"id {cell.id[:64]}"] if cell.id else []), cell.type, f"place {number}"]
        if cell.type == "code":
            parts.append(_when(cell, self.ran_here.get(number)))
        return " · ".join(parts)

    def _listed(self, number: int, cell: Cell) -> str:
        lines = cell.source.count("\n") + 1
        kinds = dict.fromkeys(_kind(output) for output in cell.outputs[:50])
        title = f"{self._title(number, cell)} · {lines} {'line' if lines == 1 else 'lines'}"
        outputs = f" · outputs: {', '.join(kinds)}" if kinds else ""
        rows = [line for line in cell.source[:2000].split("\n") if line.strip()][:2]
        return "\n".join([title + outputs, *(f"      {_readable(row)[:120]}" for row in rows)])

    def _shown(self, number: int, cell: Cell) -> str:
        source = cut(
            _readable(_ends(cell.source, _MAX_SOURCE_CHARACTERS)), lines=1000, characters=_MAX_SOURCE_CHARACTERS
        )
        rows = [self._title(number, cell), source or "(empty)"]
        if cell.asks_us and cell.outputs:
            text = "\n".join(_text_of(output, _MAX_TRANSCRIPT_CHARACTERS, _OUR_TEXTS) for output in cell.outputs[:50])
            rows += ["--- a transcript of an agent, cut short ---", cut(text, characters=_MAX_TRANSCRIPT_CHARACTERS)]
            return "\n".join(rows)
        left = _MAX_OUTPUT_CHARACTERS
        for place, output in enumerate(cell.outputs):
            if left <= 0:
                rows.append(f"--- {len(cell.outputs) - place} more outputs were left out ---")
                break
            text = self._output(output, left)
            left -= len(text)
            rows += [f"--- {_kind(output)} ---", text]
        return "\n".join(rows)

    def _output(self, output: Mapping[str, Any], limit: int) -> str:
        data = _bundle(output)
        kind = next((name for name in _IMAGES if name in data), None)
        if kind is None:
            return _text_of(output, limit)
        if len(self.images) >= _MAX_IMAGES:
            return f"[not shown: {_MAX_IMAGES} images at a time. Ask for this cell alone.]"
        try:
            self.images.append(_image(joined_text(data[kind])))
        except ToolError as error:
            return f"[not shown: {error}]"
        return f"[image {len(self.images)}, {self.where}]"


def _when(cell: Cell, here: int | None) -> str:
    if here is not None and here != cell.run_as:
        return f"run as In [{here}] since it was saved"
    if cell.run_as is None:
        return "run by the agent, as it was written" if cell.by_agent else "not run"
    return f"run as In [{cell.run_as}]" + ("" if here else " (by an earlier kernel, or changed since)")


def _bundle(output: Mapping[str, Any]) -> Mapping[str, Any]:
    data = output.get("data")
    return cast("Mapping[str, Any]", data) if isinstance(data, dict) else {}


def _kind(output: Mapping[str, Any]) -> str:
    """Return the kind of an output, in a word."""
    match output.get("output_type"):
        case "stream":
            return "stderr" if output.get("name") == "stderr" else "stdout"
        case "error":
            return "error"
        case _:
            data = _bundle(output)
            order = (*_IMAGES, "image/svg+xml", "text/html", *_TEXTS)
            return next((name for name in order if name in data), "output")


def _text_of(output: Mapping[str, Any], limit: int, preferred: Sequence[str] = ()) -> str:
    """Write an output as text, of about ``limit`` characters at most."""
    match output.get("output_type"):
        case "stream":
            text = joined_text(output.get("text"))
        case "error":
            trace = output.get("traceback")
            lines = cast("list[object]", trace) if isinstance(trace, list) else []
            text = "\n".join(line for line in lines[-20:] if isinstance(line, str))
            named = f"{joined_text(output.get('ename'))}: {joined_text(output.get('evalue'))}"
            limit = min(limit, 2000)
            if len(text) > limit or not text:
                text = f"{text[-limit:]}\n{named[:500]}".strip()
        case _:
            data = _bundle(output)
            name = next((name for name in (*preferred, *_TEXTS) if name in data), None)
            if name is None:
                return f"[no text: {', '.join(name[:80] for name in list(data)[:5]) or 'empty'}]"
            given: object = data[name]
            text = json.dumps(given, ensure_ascii=False)[: 8 * limit] if name.endswith("json") else joined_text(given)
    return cut(_readable(_ends(text, limit)).strip("\n"), characters=limit) or "(nothing)"


def _ends(text: str, limit: int) -> str:
    """Return the text, or only both ends if it is far too long to process."""
    return textcut.middle(text, 4 * limit, "\n…\n")


def _readable(text: str) -> str:
    """Return the text without secrets and terminal control sequences; keep the last state of overwritten lines."""
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return hide(plain(clean_text("\n".join(lines))), labelled_secrets())


def _image(text: str) -> ImageContent:
    if not text:  # a page leaves out what a message has no room for
        raise ToolError("the page has not sent it")
    if len(text) > _MAX_IMAGE_CHARACTERS:
        raise ToolError(f"it has {size_text(len(text))}, which is too much")
    try:
        data = base64.b64decode(text)
    except ValueError as error:
        raise ToolError("it is no base64") from error
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "output")
        path.write_bytes(data)
        output = read_image(path, "it")
    if output is None:
        raise ToolError("it is no image")
    return next(block for block in output.content if isinstance(block, ImageContent))


def _spans(numbers: Sequence[int]) -> str:
    """Abbreviate runs of numbers, as in ``3-5,9``.

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


# The notebook of a shell


@dataclass(frozen=True, slots=True)
class KnownNotebook:
    """The notebook as far as it is known now.

    Attributes:
        cells: The cells, with the sources that the page shows if it answered.
        file: The file, if it was found.
        ran: The sources of cells that ran here, by number.
        path: Where the page has it; empty if it sends none.
        ids: The ids of cells that ran here, by number.
    """

    cells: list[Cell]
    file: NotebookFile | None
    ran: Sequence[str]
    from_page: bool
    path: str = ""
    ids: Mapping[int, str] = field(default_factory=dict[int, str])

    def run_as(self, number: int) -> list[int]:
        """Return the places of the cells that ran here with a number, then of those that show it from before.

        A cell counts whose source is another by now, where the front end gave its id. Of several with the source that
        ran, where no id is known, those count that show the number, if any do.
        """
        own_id, source = self.ids.get(number), self.ran[number].strip() if 0 < number < len(self.ran) else ""
        numbered = [*enumerate(self.cells, 1)]
        places = [place for place, cell in numbered if own_id is not None and cell.id == own_id]
        places = places or [place for place, cell in numbered if source and cell.source.strip() == source]
        shown = [place for place, cell in numbered if cell.shown_as == number]
        places = places if len(places) == 1 else [place for place in places if place in shown] or places
        return [*dict.fromkeys([*places, *shown])]

    def never_run(self) -> frozenset[int]:
        """Return the places of the code cells of which nothing says that they have been run.

        A number, an output or the agent's mark says so, which a file keeps past its kernel, and a run in this kernel.
        By its source alone a cell is known where no id of a cell that is there came with that run.
        """
        ids, there = {*self.ids.values()}, {cell.id for cell in self.cells if cell.id}
        ran = {code.strip() for number, code in enumerate(self.ran) if self.ids.get(number) not in there}
        return frozenset(
            place
            for place, cell in enumerate(self.cells, 1)
            if cell.type == "code" and not (cell.was_run or cell.shown_as is not None)
            if cell.id not in ids and cell.source.strip() not in ran
        )

    def reading(self, where: Literal["above", "below"] = "below") -> Reading:
        """Return a writer of its cells, whose images are shown there."""
        return Reading(last_runs(self.cells, self.ran, self.ids), where=where)

    @property
    def name(self) -> str:
        """Return the name of its file; empty if it is not known."""
        return self.file.path.name if self.file is not None else PurePosixPath(self.path).name


class NotebookReader:
    """The notebook of one shell, and the tool `notebook` that reads it.

    The page is asked for ``cells``, and answers ``{"cells": [{"id", "type", "source", "executionCount"},
    …]}`` with all of them. ``None``, or an answer without them, means that no page shows the notebook.
    """

    def __init__(self, shell: Any, ask_page: AskPage, cells: CellIds) -> None:
        """Make the reader of a shell's notebook.

        Args:
            ask_page: Asks the page that shows the notebook.
        """
        self._ask_page = ask_page
        self._shell = shell
        self.cells = cells
        self.directory: Path = Path(getattr(shell, "starting_dir", None) or Path.cwd())
        """The directory in which the kernel was started."""

    async def look(self, *, outputs: bool = False, whole: str = "") -> KnownNotebook:
        """Read the page and the file.

        With ``outputs`` those are what the page shows, in short, if it answers.

        Args:
            whole: The id of the cell whose outputs come with all that is in them.

        Raises:
            ToolError: Neither knows the notebook.
        """
        asked = {"outputs": True, **({"whole": whole} if whole else {})} if outputs else {}
        answer = await self._ask_page("cells", asked)
        page, traces = cells_of(answer), self._traces()
        if not page:
            file = await in_thread(lambda _: find_notebook(traces))
            return KnownNotebook(file.cells, file, traces.ran_in(file.cells), from_page=False, ids=self.cells.numbers)
        page = [replace(cell, shown_as=self.cells.shown_at(cell.id, cell.shown_as)) for cell in page]
        path = path_of(answer)
        try:
            file = await in_thread(lambda _: self._file_of(page, path, traces))
        except ToolError:
            file = None
        if file is not None and not outputs:
            saved = {cell.id: cell for cell in file.cells if cell.id}
            page = [
                replace(saved.get(cell.id or "", cell), source=cell.source, shown_as=cell.shown_as) for cell in page
            ]
        return KnownNotebook(page, file, traces.ran_in(page), from_page=True, path=path, ids=self.cells.numbers)

    def _file_of(self, page: Sequence[Cell], path: str, traces: Traces) -> NotebookFile | None:
        """Find the file of the notebook with these cells on its page."""
        ids = frozenset(cell.id for cell in page if cell.id)
        if path:
            return shown_notebook(path, self.directory, ids)
        return find_notebook(replace(traces, ids=traces.ids | ids))

    async def read(self, cells: str = "") -> ToolOutput:
        """Read the cells of the user's notebook with their outputs, images included.

        Without cells the whole notebook comes back, or a numbered list of a long one. Outputs are as they were saved;
        what ran since and was not saved is named.

        Args:
            cells: Cells to see in full: ids, In [3], or places ("3-7"); empty for the whole notebook
        """
        seen = await self.look()

        def write() -> ToolOutput:
            reading = seen.reading()
            parts = _head(seen)
            everything = [*range(1, len(seen.cells) + 1)]
            if cells.strip():
                text, left = reading.whole(seen.cells, chosen_cells(seen.cells, cells, seen.run_as), _MAX_CHARACTERS)
                if left:
                    text += f'\n\n[There was no room for more. Go on with cells="{_spans(left)}".]'
            else:
                text, left = reading.whole(seen.cells, everything, _MAX_WHOLE_CHARACTERS)
                if left:
                    reading.images.clear()
                    text = reading.listing(seen.cells)
                    parts.append('This is a list. See cells in full with cells="3-7".')
            content: list[TextContent | ImageContent] = [TextContent(text="\n".join([*parts, "", text]))]
            shown = f"{seen.name or 'the notebook'} · {textcut.counted(len(seen.cells), 'cell')}"
            return ToolOutput(content=[*content, *reading.images], details={"outcomeInWords": plain(clean_text(shown))})

        return await in_thread(lambda _: write())

    async def cell_that_ran(self, number: int) -> str:
        """Write the cell with that execution number, and the outputs that were saved with it.

        Raises:
            ToolError: No cell ran with that number, or the notebook is not known.
        """
        seen = await self.look()
        source = seen.ran[number].strip() if 0 < number < len(seen.ran) else ""
        places = [at for at in seen.run_as(number) if not source or seen.cells[at - 1].source.strip() == source]
        if not places:
            raise ToolError(f"No cell of the notebook ran as In [{number}], or it was changed since.")
        return await in_thread(lambda _: seen.reading().whole(seen.cells, places[:1], _MAX_CHARACTERS)[0])

    async def cell_shown(self, cell_id: str) -> tuple[str, list[ImageContent]]:
        """Write a cell with the outputs that the page shows, for a prompt whose images come before its texts.

        Raises:
            ToolError: The notebook has no such cell, or it is not known.
        """
        seen = await self.look(outputs=True, whole=cell_id)
        places = chosen_cells(seen.cells, cell_id)
        reading = seen.reading("above")
        text, _ = await in_thread(lambda _: reading.whole(seen.cells, places[:1], _MAX_CHARACTERS))
        return text, reading.images

    def named(self) -> tuple[Path | None, bool]:
        """Return where the notebook lies according to the front end; see `named_notebook`."""
        if (notebook := self.cells.origin.notebook) is not None:
            return Path(notebook), True
        return named_notebook(os.environ, self._shell.user_ns, self.directory, self.cells.origin.cell)

    def _traces(self) -> Traces:
        history: Any = getattr(self._shell.history_manager, "input_hist_raw", ())
        cells, origin = self.cells, self.cells.origin
        path, certain = self.named()
        ids = cells.ran_over(origin.client)
        elsewhere = {at: cell_id for at, cell_id in cells.numbers.items() if cell_id not in ids}
        return Traces(path, certain, ids, [*history], elsewhere)


def cells_of(answer: Mapping[str, Any] | None) -> list[Cell]:
    """Return the cells of a page's answer; none if it has none."""
    listed: object = None if answer is None else answer.get("cells")
    if not isinstance(listed, list):
        return []
    cells = (parse_cell(given) for given in cast("list[object]", listed)[:MAX_CELLS])
    return [cell for cell in cells if cell is not None]


def path_of(answer: Mapping[str, Any] | None) -> str:
    """Return where the page has the notebook, without the name of a drive before it; empty if it sends none."""
    path: object = None if answer is None else answer.get("path")
    return path.rpartition(":")[2].lstrip("/") if isinstance(path, str) and ".." not in path else ""


def _head(seen: KnownNotebook) -> list[str]:
    """Write the lines about the notebook as a whole."""
    if seen.file is None:
        named = seen.name or "The notebook"
        rows = [f"{named} as the browser shows it · {len(seen.cells)} cells · its outputs are not known"]
    else:
        at = datetime.fromtimestamp(seen.file.saved).astimezone()
        ago = _ago(time.time() - seen.file.saved)
        rows = [f"{seen.file.path} · {len(seen.cells)} cells · saved {ago} ({at:%Y-%m-%d %H:%M:%S})"]
        if seen.from_page:
            rows.append("Sources are as the browser shows them now, outputs as they were saved.")
        if seen.file.note:
            rows.append(seen.file.note)
    known, ran = code_sources(seen.cells), seen.ran
    first = max(1, len(ran) - _MAX_UNSAVED_CELLS)
    unsaved = [
        f"In [{number}]"
        for number, source in enumerate(ran[first:], first)
        if (text := source.strip()) and text not in known and not text.startswith(OUR_MAGICS)
    ]
    if unsaved:
        listed = ", ".join(["…", *unsaved[-20:]] if len(unsaved) > 20 else unsaved)
        where = "the notebook" if seen.from_page else "the file"
        rows.append(f"Unsaved: ran here, but {where} does not hold it so (new, changed or deleted since): {listed}")
    return rows


def _ago(seconds: float) -> str:
    """Write a time span in words.

    >>> _ago(5), _ago(130), _ago(90_000)
    ('5 s ago', '2 min ago', '25 h ago')
    """
    if seconds < 60:
        return f"{max(0, seconds):.0f} s ago"
    return f"{seconds / 60:.0f} min ago" if seconds < 3600 else f"{seconds / 3600:.0f} h ago"
