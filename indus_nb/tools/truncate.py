"""Truncation of a long text for a model: to its head, or to its tail while it still grows."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

from indus_nb.base import textcut
from indus_nb.base.textcut import byte_size
from indus_nb.base.wire import JsonObject, random_hex
from indus_nb.base.wire_model import WireModel, wire_field

if TYPE_CHECKING:
    from indus_nb.tools.overwriting import FoldedLines

MAX_LINES = 2000
MAX_BYTES = 50 * 1024
_BEGINNING = MAX_BYTES // 2
"""Characters at the beginning of a growing text that are remembered."""


class Truncation(WireModel):
    r"""The shown part of a text (``content``), and how much there was.

    Bytes are counted in UTF-8. A line end closes a line and does not begin another, so ``"a\nb\n"`` has two lines.
    """

    content: str
    truncated: bool = False
    truncated_by: Literal["lines", "bytes"] | None = None
    total_lines: int
    total_bytes: int
    output_lines: int
    output_bytes: int
    last_line_partial: bool = False
    first_line_exceeds_limit: bool = False
    max_lines: int | None = MAX_LINES
    max_bytes: int = MAX_BYTES
    beginning: str = wire_field(default="", hidden=True)
    """First characters of the text, where ``content`` is its end."""

    def details(self) -> JsonObject | None:
        """Return the entry for a tool's details; empty while all is shown."""
        return {"truncation": self.to_wire()} if self.truncated else None


def head(text: str, *, max_lines: int | None = MAX_LINES, max_bytes: int = MAX_BYTES) -> Truncation:
    r"""Return the first whole lines of a text within both limits, none if the first one is too long.

    >>> head("ä\nb\nc\n", max_bytes=6).content
    'ä\nb\n'

    Args:
        max_lines: Limit of lines; ``None`` for any number.
        max_bytes: Limit of bytes in UTF-8, line ends included.
    """
    shown: list[str] = []
    size = 0
    cut: Literal["lines", "bytes"] | None = None
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        line_size = byte_size(text[start:end])
        if size + line_size > max_bytes:
            cut = "bytes"
            break
        if len(shown) == max_lines:
            cut = "lines"
            break
        shown.append(text[start:end])
        size += line_size
        start = end
    return Truncation(
        content="".join(shown),
        truncated=cut is not None,
        truncated_by=cut,
        total_lines=text.count("\n") + (not text.endswith("\n") and text != ""),
        total_bytes=byte_size(text),
        output_lines=len(shown),
        output_bytes=size,
        first_line_exceeds_limit=cut == "bytes" and not shown,
        max_lines=max_lines,
        max_bytes=max_bytes,
    )


def size_text(count: int) -> str:
    """Format ``count`` bytes for a reader.

    >>> size_text(900), size_text(51200), size_text(3 << 20)
    ('900 bytes', '50.0 KB', '3.0 MB')
    """
    if count < 1024:
        return f"{count} bytes"
    return f"{count / 1024:.1f} KB" if count < 1 << 20 else f"{count / (1 << 20):.1f} MB"


kept_outputs: set[Path] = set()
"""Files with whole outputs of this process: the model gets their names and may read them unasked."""

_KEPT_SECONDS = 24 * 60 * 60
"""Age at which kept outputs are removed: saved sessions name them, so they outlive the process."""


def remove_kept_outputs(wanted: Callable[[str], bool]) -> None:
    """Remove this process' files of whole outputs, those whose names are ``wanted``."""
    for path in [path for path in kept_outputs if wanted(path.name)]:
        with contextlib.suppress(OSError):
            path.unlink()
        kept_outputs.discard(path)


def _remove_old(directory: Path) -> None:
    """Remove the user's files with whole outputs to which nothing was added for a day."""
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if not re.fullmatch(r"indusagi-[\w-]+-[0-9a-f]{16}\.log", entry.name):
                continue
            with contextlib.suppress(OSError):
                state = entry.stat(follow_symlinks=False)
                old = time.time() - state.st_mtime > _KEPT_SECONDS
                if old and state.st_uid == os.geteuid() and entry.is_file(follow_symlinks=False):
                    _remove_unless_written(Path(entry.path))


def _remove_unless_written(path: Path) -> None:
    """Remove a file with a whole output, unless its writer still runs and holds a lock on it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    finally:
        os.close(descriptor)


def _new_file(label: str) -> tuple[Path, BinaryIO]:
    """Make a file for a whole output, for the user alone; old ones go."""
    # Looking for the directory writes a file there, the first time.
    from tempfile import gettempdir  # with all kinds of compression, for which no start should wait

    name = re.sub(r"[^\w-]+", "-", label)[:40] or "tool"
    path = Path(gettempdir(), f"indusagi-{name}-{random_hex(8)}.log")
    _remove_old(path.parent)
    file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
    with contextlib.suppress(OSError):  # a file system without locks
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    kept_outputs.add(path)
    return path, file


def keep_whole(label: str, text: str) -> Path:
    """Write a whole output into a file, as ``GrowingTail`` does.

    Raises:
        OSError: It cannot be written.
    """
    path, file = _new_file(label)
    try:
        with file:
            file.write(text.encode(errors="replace"))
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return path


class GrowingTail:
    """The end of a text that grows, in bounded memory; once a limit is passed, all of it goes into a file.

    The file is ``indusagi-<label>-<16 hex digits>.log`` in the directory for temporary files, for the user alone.
    It is left there for the model and the user to read: until the end of a session that is not saved, else for a day
    (``remove_kept_outputs``, ``_remove_old``). ``close`` when nothing more comes. With ``folds`` what acts on
    a line has done so in all of this, see ``overwriting``. Without ``in_file`` what is too long is not kept.
    """

    def __init__(self, label: str, *, folds: bool = False, in_file: bool = True) -> None:
        self.path: Path | None = None
        self.file_problem: str | None = None
        self._label = label
        self._in_file = in_file
        self._file: BinaryIO | None = None
        self._pieces: list[str] = []
        self._held = 0
        self._bytes = 0
        self._line_ends = 0
        self._open_line = False
        self._beginning = ""
        self._begins_the_file = True
        self._lines_folded: FoldedLines | None = None
        if folds:
            from indus_nb.tools.overwriting import FoldedLines

            self._lines_folded = FoldedLines()

    def append(self, text: str) -> None:
        """Add ``text`` at the end."""
        self._append(text if self._lines_folded is None else self._lines_folded.feed(text))

    def end_line(self) -> None:
        """Begin a new line for what follows."""
        if self._open_line or self._changing:
            self.append("\n")

    def clear(self) -> None:
        """Show nothing of what was added; the file, if there is one, keeps it."""
        self._end_line()
        self._pieces, self._held, self._bytes, self._line_ends, self._open_line = [], 0, 0, 0, False
        self._beginning, self._begins_the_file = "", self._file is None

    def _append(self, text: str) -> None:
        if not text:
            return
        if self._bytes < _BEGINNING and self._begins_the_file:
            self._beginning = (self._beginning + text)[:_BEGINNING]
        self._pieces.append(text)
        self._held += len(text)
        self._bytes += byte_size(text)
        self._line_ends += text.count("\n")
        self._open_line = not text.endswith("\n")
        if self._file is not None:
            self._write(text)
        else:
            self._keep_if_long()
        if self._held > 4 * MAX_BYTES:
            # One character more than can be shown proves that the first line held is not whole.
            self._pieces = ["".join(self._pieces)[-MAX_BYTES - 1 :]]
            self._held = len(self._pieces[0])

    @property
    def _changing(self) -> str:
        """Return the last line, if it may still be written over."""
        return "" if self._lines_folded is None else self._lines_folded.line

    def _end_line(self) -> None:
        line = self._changing
        if self._lines_folded is not None and line:
            self._lines_folded = type(self._lines_folded)()
            self._append(line)

    @property
    def _lines(self) -> int:
        return self._line_ends + (self._open_line or bool(self._changing))

    @property
    def _size(self) -> int:
        return self._bytes + byte_size(self._changing)

    @property
    def _above_limits(self) -> bool:
        return self._bytes > MAX_BYTES or self._lines > MAX_LINES or self._size > MAX_BYTES

    def _keep_if_long(self) -> None:
        if self._in_file and self.path is None and self.file_problem is None and self._above_limits:
            self._open()
            self._write("".join(self._pieces))

    def _open(self) -> None:
        try:
            self.path, self._file = _new_file(self._label)
        except OSError as error:
            self.file_problem = str(error)

    def _write(self, text: str) -> None:
        if self._file is None:
            return
        try:
            self._file.write(text.encode(errors="replace"))
        except OSError as error:  # the disk is full; the command goes on
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        """Stop writing the file; an empty one is not worth a name."""
        self.file_problem = str(error)
        self.close()
        with contextlib.suppress(OSError):
            if self.path is not None and self.path.stat().st_size == 0:
                self.path.unlink()
                self.path = None

    def close(self) -> None:
        """Close the file."""
        self._end_line()
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError as error:
                self._give_up(error)

    def shown(self) -> Truncation:
        """Return the last lines within the limits; the file then holds all but a line that may change."""
        self._keep_if_long()
        if self._file is not None:
            try:
                self._file.flush()
            except OSError as error:
                self._give_up(error)
        self._pieces = ["".join(self._pieces)]
        text = self._pieces[0] + self._changing
        start, lines, size = len(text), 0, 0
        cut: Literal["lines", "bytes"] | None = None
        if self._above_limits:
            while lines < MAX_LINES:
                line_start = text.rfind("\n", 0, max(start - 1, 0)) + 1
                line_size = byte_size(text[line_start:start])
                if size + line_size > MAX_BYTES:
                    cut = "bytes"
                    break
                start, lines, size = line_start, lines + 1, size + line_size
            else:
                cut = "lines"
            content = text[start:]
        else:
            content, lines, size = text, self._lines, self._size
        partial = cut == "bytes" and lines == 0
        if partial:
            content = textcut.tail_bytes(text[text.rfind("\n", 0, len(text) - 1) + 1 :], MAX_BYTES)
            lines, size = 1, byte_size(content)
        return Truncation(
            content=content,
            truncated=cut is not None,
            truncated_by=cut,
            total_lines=self._lines,
            total_bytes=self._size,
            output_lines=lines,
            output_bytes=size,
            last_line_partial=partial,
            beginning=self._beginning if cut else "",
        )
