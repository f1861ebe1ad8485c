"""The notebook file that a kernel works for: finding it, and reading its cells.

A kernel learns at most once where its notebook lies, and files are renamed. So a file counts as the notebook only if
there is evidence: the id or the source of a cell that ran here. The file is only ever read.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pydantic_core

from indus_nb.base.wire import JsonObject
from indus_nb.tools.files.paths import failure
from indus_nb.tools.tool import ToolError
from indus_nb.tools.truncate import size_text

MAX_CELLS = 10_000
OUR_MAGICS = ("%agent", "%%agent", "%load_ext indus_nb", "%reload_ext indus_nb")
_MAX_FILE_BYTES = 64 << 20
_MAX_SEARCHED_FILES = 100
_PARAMETERS = "# Parameters\n"
"""How the cell begins that papermill adds."""
_MAX_SEARCHED_BYTES = 64 << 20
_JUPYTER_ID = re.compile(r"[A-Za-z0-9_-]{6,64}")


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a notebook.

    Attributes:
        type: ``code``, ``markdown`` or ``raw``; ``unknown`` if the file has none of them.
        id: The cell's id, which old files do not have.
        run_as: The number beside it; ``None`` if it was not run.
        shown_as: The number that stands beside it now: the page's, if one shows the notebook.
        outputs: Its outputs, in the form of the notebook format.
        by_agent: Whether the agent wrote it, and ran what it wrote then, which gives it no number.
        call: The id of the call whose code it was made of; empty if that is not known.
        asked: The cell whose prompt that call was of, by its id and a digest of its code; empty if that is not known.
    """

    type: str
    source: str
    id: str | None = None
    run_as: int | None = None
    outputs: Sequence[Mapping[str, Any]] = ()
    tags: frozenset[str] = frozenset()
    by_agent: bool = False
    shown_as: int | None = None
    call: str = ""
    asked: str = ""

    @property
    def was_run(self) -> bool:
        """Return whether it has been run, by whomever."""
        return self.run_as is not None or self.by_agent or bool(self.outputs)

    @property
    def asks_us(self) -> bool:
        """Return whether the cell is a line for the agent, with a transcript as its outputs."""
        return self.source.lstrip().startswith(OUR_MAGICS[:2])

    def first_line(self) -> str:
        """Return its first line that is not blank, shortened to 100 characters."""
        return next((line.strip()[:100] for line in self.source.split("\n", 200) if line.strip()), "(empty)")


@dataclass(frozen=True, slots=True)
class NotebookFile:
    """A notebook as it was saved.

    Attributes:
        path: Where the file lies.
        cells: Its cells, in order.
        saved: The time of the last change of the file, in seconds since 1970.
        note: A doubt about this file being the kernel's notebook, as a sentence.
        metadata: Metadata of front ends and extensions, unchanged; untrusted.
    """

    path: Path
    cells: list[Cell]
    saved: float
    note: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


# Files


def read_notebook(path: Path) -> NotebookFile:
    """Read the notebook in the file at ``path``.

    Raises:
        ToolError: It is no regular file, above 64 MB, not whole JSON, or of another format than 4.
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
    cells = cast("list[object]", listed)[:MAX_CELLS]
    parsed = [cell for given in cells if (cell := parse_cell(given)) is not None]
    metadata: object = value.get("metadata")
    kept: Mapping[str, Any] = cast("Mapping[str, Any]", metadata) if isinstance(metadata, dict) else {}
    return NotebookFile(path, parsed, saved, metadata=kept)


def _bytes_of(path: Path) -> tuple[bytes, float]:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ToolError(f"{path} is no regular file: reading it might never end. Nothing was read.")
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1) if found.st_size <= _MAX_FILE_BYTES else b""
    except OSError as error:
        raise failure("read", path, error) from error
    size = max(found.st_size, len(data))
    if size > _MAX_FILE_BYTES:
        raise ToolError(
            f"{path} has {size_text(size)}, more than the {size_text(_MAX_FILE_BYTES)} that are read. "
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
        problem = "it is empty" if not data.strip() else f"it is no whole JSON ({error})"
        raise ToolError(
            f"{path} cannot be read: {problem}. If it was being saved at this moment, call again; else it is damaged."
        ) from error
    if not isinstance(value, dict):
        raise ToolError(f"{path} is JSON but no notebook.")
    return cast("JsonObject", value)


def parse_cell(given: object) -> Cell | None:
    """Parse a cell of its JSON, as files and front ends write it.

    ``None`` for anything but an object.
    """
    if not isinstance(given, dict):
        return None
    value = cast("Mapping[str, object]", given)
    outputs: Any = value.get("outputs")
    kept = [output for output in outputs if isinstance(output, dict)] if isinstance(outputs, list) else []  # pyright: ignore[reportUnknownVariableType]
    number = value.get("execution_count", value.get("executionCount"))
    own_id, kind = value.get("id"), value.get("cell_type", value.get("type"))
    mark = _mark_of(value)
    run_as = number if isinstance(number, int) and not isinstance(number, bool) else None
    return Cell(
        type=kind if isinstance(kind, str) else "unknown",
        source=joined_text(value.get("source")),
        id=own_id if isinstance(own_id, str) and own_id else None,
        run_as=run_as,
        shown_as=run_as,
        outputs=cast("list[Mapping[str, Any]]", kept),
        tags=_tags(value),
        by_agent=isinstance(mark.get("run"), str),
        call=joined_text(mark.get("call")),
        asked=joined_text(mark.get("asked")),
    )


def _tags(cell: Mapping[str, object]) -> frozenset[str]:
    """Return the tags of a cell: from its metadata, or as a page sends them."""
    metadata = cell.get("metadata")
    kept = cast("Mapping[str, object]", metadata) if isinstance(metadata, dict) else cell
    tags = kept.get("tags")
    listed = cast("list[object]", tags) if isinstance(tags, list) else []
    return frozenset(tag for tag in listed if isinstance(tag, str))


def _mark_of(cell: Mapping[str, object]) -> Mapping[str, object]:
    """Return the mark of a cell of the agent's: from its metadata, or as a page sends it; empty for other cells."""
    metadata = cell.get("metadata")
    mark = cast("Mapping[str, object]", metadata).get("indus_nb") if isinstance(metadata, dict) else cell.get("agent")
    return cast("Mapping[str, object]", mark) if isinstance(mark, dict) else {}


def joined_text(text: object) -> str:
    """Return a text that a notebook holds whole or as a list of lines.

    Anything else is empty.
    """
    if isinstance(text, list):
        return "".join(part for part in cast("list[object]", text) if isinstance(part, str))
    return text if isinstance(text, str) else ""


# Identifying the file


@dataclass(frozen=True, slots=True)
class Traces:
    """Evidence in a kernel of which notebook it runs.

    Attributes:
        path: Where the notebook lies according to the front end.
        certain: Whether the path came with the cell that runs now.
        ids: The ids of cells that ran here, over the connection of the page that asks where that is known.
        ran: The sources of cells that ran here, by number; an empty one for the number 0.
        elsewhere: The ids of cells that ran over other connections, by number: they may be another notebook's.
    """

    path: Path | None = None
    certain: bool = False
    ids: frozenset[str] = frozenset()
    ran: Sequence[str] = ()
    elsewhere: Mapping[int, str] = field(default_factory=dict[int, str])

    def ran_in(self, cells: Sequence[Cell]) -> list[str]:
        """Return ``ran`` without the cells of other notebooks than the one with these cells."""
        own = {cell.id for cell in cells}
        return ["" if self.elsewhere.get(at, None) not in {None, *own} else code for at, code in enumerate(self.ran)]


def find_notebook(traces: Traces) -> NotebookFile:
    """Find and read the notebook that left these traces.

    It is also found if it was renamed within its directory.

    Raises:
        ToolError: It is not known which file it is, or the file cannot be read.
    """
    named = traces.path
    if named is None:
        raise ToolError(
            "It is not known which notebook this kernel works for: the front end did not tell (one that runs "
            "notebooks without showing them, a console, nbclassic, never does). A saved file can be read by its name."
        )
    file, problem = None, None
    try:
        file = read_notebook(named)
    except ToolError as error:
        problem = error
    if file is not None and (traces.certain or _holds(file, traces.ids)):
        return file
    renamed = _others_with(named, traces.ids)
    if len(renamed) > 1:
        listed = ", ".join(str(other.path) for other in renamed)
        raise ToolError(f"It is not known which notebook this kernel works for: its cells are in each of {listed}.")
    if renamed:
        note = None if traces.elsewhere else f"It was {named.name} when the kernel was started."
        return replace(renamed[0], note=note)
    _check_connection(traces, named)
    if file is None:
        if not named.exists():
            raise ToolError(
                f"{named} was this kernel's notebook when it was started, and is not there any more. If it was renamed "
                "or moved, ask the user to save it and to restart the kernel, or read it by its name."
            )
        raise problem or ToolError(f"{named} cannot be read.")
    if not {source.strip() for source in traces.ran if source.strip()}.isdisjoint(code_sources(file.cells)):
        return file
    if not traces.ids:
        raise ToolError(
            f"It is not known which notebook this kernel works for: {named} was named to it, but nothing that ran here "
            "stands in that file. The name may be inherited from another kernel."
        )
    doubt = "None of the cells that ran in this kernel is in the file: it was not saved since, or it is another one now"
    return replace(file, note=f"{doubt} that took the name.")


def _check_connection(traces: Traces, named: Path) -> None:
    """Refuse a notebook whose cells ran from another connection than the one that asks."""
    if traces.elsewhere and traces.ids:
        raise ToolError(
            f"It is not known which notebook this cell is in: {named} was named to the kernel and does not hold it, "
            "and other cells ran in this kernel too. Ask the user to save the notebook with this cell, beside that one."
        )


def notebooks_run_so_far(directory: Path, ran: Sequence[str]) -> list[NotebookFile]:
    """List the newest notebooks of a directory whose first code cells are all that have run, in their order.

    That is how a notebook looks from a kernel in which a program runs it from its beginning, as papermill and nbclient
    do. A cell of parameters, which papermill adds, may be anywhere.

    Args:
        ran: The sources of the cells that ran, and of the one that runs.
    """
    sources = [source.strip() for source in ran if source.strip() and not source.startswith(_PARAMETERS)]
    found: list[NotebookFile] = []
    for file in _newest_in(directory) if sources else ():
        own = [cell.source.strip() for cell in file.cells if cell.type == "code" and cell.source.strip()]
        found += [file] if own[: len(sources)] == sources else []
    return found


def named_notebook(
    environment: Mapping[str, str], namespace: Mapping[str, Any], directory: Path, cell_id: str | None
) -> tuple[Path | None, bool]:
    """Find out where the notebook lies according to the front end.

    Args:
        environment: The environment of the kernel, where Jupyter's server names the notebook.
        namespace: The user's namespace, where VS Code names it.
        cell_id: The id that the front end gave the running cell.

    Returns:
        The path, ``None`` if none is named; and whether it was named with the running cell.
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
    # Older servers name the path below their own directory; kernels are started in the notebook's, or in the server's.
    below = path.parent.parts
    places = [directory / path.name] if not below or directory.parts[-len(below) :] == below else []
    places += [directory / path] if below else []
    there = [place for place in places if _is_notebook(place)]
    return (there[0] if len(there) == 1 else None), False


def shown_notebook(path: str, directory: Path, ids: frozenset[str]) -> NotebookFile | None:
    """Read the notebook that a page shows.

    Args:
        path: Where the page has it, below a directory that the kernel does not know.
        directory: The directory in which the kernel was started, below that one.

    Returns:
        The file, of several one that holds such a cell; ``None`` if there is none here.
    """
    found: list[NotebookFile] = []
    for above in (directory, *directory.parents):
        if _is_notebook(above / path):
            with suppress(ToolError):
                found.append(read_notebook(above / path))
    return next((file for file in found if _holds(file, ids)), found[0] if len(found) == 1 else None)


def _is_notebook(path: Path) -> bool:
    try:
        return path.is_absolute() and path.suffix == ".ipynb" and path.is_file()
    except (OSError, ValueError):
        return False


def _holds(file: NotebookFile, ids: frozenset[str]) -> bool:
    return any(cell.id in ids for cell in file.cells if cell.id)


def _others_with(named: Path, ids: frozenset[str]) -> list[NotebookFile]:
    """List other notebooks in the directory that hold one of the cells."""
    if not any(_JUPYTER_ID.fullmatch(own_id) for own_id in ids):
        return []
    return [file for file in _newest_in(named.parent, named) if _holds(file, ids)]


def _newest_in(directory: Path, but: Path | None = None) -> Iterator[NotebookFile]:
    """Read the notebooks of a directory, the latest first: a file is saved under its new name; no more than 64 MB."""
    try:
        paths = [(path.stat(), path) for path in directory.glob("*.ipynb") if path != but]
    except OSError:
        return
    left = _MAX_SEARCHED_BYTES
    for state, path in sorted(paths, key=lambda each: -each[0].st_mtime)[:_MAX_SEARCHED_FILES]:
        if state.st_size > left:
            continue
        left -= state.st_size
        with suppress(ToolError):
            yield read_notebook(path)


def code_sources(cells: Sequence[Cell]) -> set[str]:
    """Return the sources of the code cells, stripped."""
    return {cell.source.strip() for cell in cells if cell.type == "code"}
