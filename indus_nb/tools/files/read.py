"""The ``read`` tool: text by lines, and images."""

from __future__ import annotations

import contextlib
import io
import os
import threading
import time
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from indus_nb.base.events import ToolOutput
from indus_nb.base.images import ImageError, fit
from indus_nb.base.messages import ImageContent, TextContent, image_type
from indus_nb.base.wire_model import wire_field
from indus_nb.tools.files.paths import failure
from indus_nb.tools.files.reading import describe_read, read_target
from indus_nb.tools.files.targets import open_target
from indus_nb.tools.tool import Arguments, FunctionTool, ToolContext, ToolError, in_thread, text_output
from indus_nb.tools.truncate import MAX_BYTES, MAX_LINES, Truncation, size_text

_BLOCK = 1 << 20
_MAX_IMAGE_FILE = 64 << 20
_PATIENCE = 0.1  # nothing is written; a decoder goes on until it is done
_MAX_UNSIZED = 1 << 20
"""Most bytes that are read of a system's file of size 0; some have no end."""
_MAX_SECONDS = 10.0
"""Longest time for counting the lines of a file that is huge or grows meanwhile, in seconds."""


class ReadArguments(Arguments):
    """What the model gives."""

    path: str = wire_field(description="Relative to the working directory, or absolute")
    offset: int = wire_field(default=1, ge=1, description="First line, counted from 1")
    limit: int | None = wire_field(default=None, ge=1, description="Most lines to show")


def read_tool(cwd: Path, *, auto_resize_images: bool, whole: int = MAX_BYTES) -> FunctionTool[ReadArguments]:
    """Make the ``read`` tool.

    Args:
        cwd: Directory that relative paths start from.
        whole: Most bytes of a file of which no part is asked for.
    """

    async def run(arguments: ReadArguments, context: ToolContext) -> ToolOutput:
        def read(stop: threading.Event) -> ToolOutput:
            target = read_target(arguments.path, cwd, context)
            with open_target(target, name=arguments.path) as file:
                known = _known(file)
                image = _image(known, arguments.path, resize=auto_resize_images, stop=stop)
                return text_output_of(arguments, target.path, known, stop, whole) if image is None else image

        try:
            return await in_thread(read, patience=_PATIENCE)
        except OSError as error:
            raise failure("read", arguments.path, error) from error

    return FunctionTool(
        name="read",
        description=(
            f"Read a text file, at most {MAX_LINES} lines or {MAX_BYTES // 1024} KB at once"
            + (f" ({whole // 1000} KB without offset and limit)" if whole < MAX_BYTES else "")
            + "; go on with offset. Of a JPEG, PNG, GIF or WebP file you see the image. Use it instead of cat, head or "
            "sed."
        ),
        arguments=ReadArguments,
        run=run,
        read_only=True,
        shows_parts=True,
        describe=lambda default, arguments: describe_read(default, arguments.path, cwd, "Read"),
    )


class _Selection(NamedTuple):
    lines: list[bytes]
    cut: Literal["lines", "bytes"] | None
    total_lines: int
    total_bytes: int
    too_long: int = 0
    """Size of the first line, if it alone is above the limit."""
    counted: bool = True
    """True when the totals are those of the whole file."""


def _known(file: BinaryIO) -> BinaryIO:
    """Return the file, or the content at once of one of size 0: some of the system's block, some never end."""
    if os.fstat(file.fileno()).st_size:
        return file
    content = bytearray()
    with contextlib.suppress(BlockingIOError):
        while len(content) < _MAX_UNSIZED and (block := os.read(file.fileno(), _MAX_UNSIZED)):
            content += block
    return io.BytesIO(content)


def text_output_of(
    arguments: ReadArguments, path: Path, file: BinaryIO, stop: threading.Event, whole: int = MAX_BYTES
) -> ToolOutput:
    """Return the lines of a text that were asked for, with a note on what is left out.

    Args:
        path: The file, for the note.
        stop: Set when the call was cancelled.
        whole: Most bytes where no part of the text is asked for.

    Raises:
        ToolError: The text has no such line.
    """
    first = arguments.offset
    wanted = MAX_LINES if arguments.limit is None else min(arguments.limit, MAX_LINES)
    most = whole if first == 1 and arguments.limit is None else MAX_BYTES
    selection = _select(file, first, wanted, most, stop)
    total = selection.total_lines
    if not selection.lines and not selection.counted and not selection.too_long:
        raise ToolError(
            f"Line {first} of {arguments.path} was not reached within {_MAX_SECONDS:g} seconds, at {total} lines and "
            f"{size_text(selection.total_bytes)}. Cut the file with a shell command."
        )
    of = f"{total}" if selection.counted else f"more than {total}"
    if first > max(total, 1):
        raise ToolError(f"offset {first} is beyond the end of {arguments.path}, which has {total} lines.")
    text = b"".join(selection.lines).decode(errors="replace")
    if first == 1:
        text = text.removeprefix("\ufeff")
    last = first + len(selection.lines) - 1
    by_limit = selection.cut == "lines" and wanted == arguments.limit
    truncation = Truncation(
        content=text,
        truncated=selection.cut is not None and not by_limit,
        truncated_by=None if by_limit else selection.cut,
        total_lines=total,
        total_bytes=selection.total_bytes,
        output_lines=len(selection.lines),
        output_bytes=sum(map(len, selection.lines)),
        first_line_exceeds_limit=bool(selection.too_long),
        max_bytes=most,
    )
    if selection.too_long:
        import shlex

        cut = f"sed -n '{first}p' {shlex.quote(str(path))} | head -c {MAX_BYTES}"
        notice = (
            f"[Line {first} has {size_text(selection.too_long)}, more than the {size_text(MAX_BYTES)} that can be "
            f"shown. Cut it with bash: {cut}]"
        )
        return text_output(notice, truncation.details())
    if by_limit:
        more = f"{total - last} more lines" if selection.counted else "More lines than could be counted are"
        notice = f"[{more} in the file. Continue with offset={last + 1}]"
    elif selection.cut is not None:
        reason = f", cut at {size_text(most)}" if selection.cut == "bytes" else ""
        notice = f"[Lines {first}-{last} of {of}{reason}. Continue with offset={last + 1}]"
    else:
        return text_output(text or "(empty file)")
    return text_output(f"{text.removesuffix(chr(10))}\n\n{notice}", truncation.details())


def _select(file: BinaryIO, first: int, wanted: int, most: int, stop: threading.Event) -> _Selection:
    """Select at most ``wanted`` whole lines from ``first`` on; no more is held than can be shown."""
    lines: list[bytes] = []
    size = 0
    cut: Literal["lines", "bytes"] | None = None
    number = 1
    line_open = False
    until = time.monotonic() + _MAX_SECONDS
    while (line := file.readline(MAX_BYTES + 1)) and not stop.is_set() and time.monotonic() < until:
        if number >= first:
            if len(lines) == wanted:
                cut = "lines"
            elif size + len(line) > most and (lines or len(line) > MAX_BYTES):
                cut = "bytes"
            if cut is not None:
                break
            lines.append(line)
            size += len(line)
        line_open = not line.endswith(b"\n")
        number += not line_open
    # The rest is only counted.
    total_bytes = file.seek(-len(line), os.SEEK_CUR)
    line_ends = number - 1
    line_size = 0
    while (block := file.read(_BLOCK)) and not stop.is_set() and time.monotonic() < until:
        if line_ends < number:
            line_size += block.find(b"\n") + 1 or len(block)
        line_ends += block.count(b"\n")
        total_bytes += len(block)
        line_open = not block.endswith(b"\n")
    return _Selection(
        lines,
        cut,
        total_lines=line_ends + line_open,
        total_bytes=total_bytes,
        too_long=line_size if cut == "bytes" and not lines else 0,
        counted=not block,
    )


def read_image(path: Path, name: str) -> ToolOutput | None:
    """Read an image file for a model, scaled down if it is large.

    Args:
        name: Name for notes and errors.

    Returns:
        A note and the image, or ``None`` for a file that holds no image.

    Raises:
        OSError: The file cannot be read.
        ToolError: The image cannot be shown to a model.
    """
    with path.open("rb") as file:
        return _image(file, name)


def _image(file: BinaryIO, name: str, *, resize: bool = True, stop: threading.Event | None = None) -> ToolOutput | None:
    mime_type = image_type(file.read(12))
    file.seek(0)
    if mime_type is None:
        return None
    if os.fstat(file.fileno()).st_size > _MAX_IMAGE_FILE:
        raise ToolError(
            f"{name} is an image of more than {size_text(_MAX_IMAGE_FILE)}. Make it smaller with bash first."
        )
    image, sizes = fit_image(file.read(_MAX_IMAGE_FILE), name, resize=resize, stop=stop)
    return ToolOutput(content=[TextContent(text=f"Image {name} [{mime_type}]{sizes}"), image])


def fit_image(
    data: bytes, name: str, *, resize: bool = True, stop: threading.Event | None = None
) -> tuple[ImageContent, str]:
    """Fit an image as ``indus_nb.base.images.fit`` does, with errors for tools.

    Args:
        name: Name for notes and errors.
        resize: Scale it down if it is large.
        stop: Set when the call was cancelled.

    Returns:
        The image, and a note on both sizes if it was scaled.

    Raises:
        ToolError: The image cannot be shown to a model.
    """
    try:
        return fit(data, name, resize=resize, stop=stop)
    except ImageError as error:
        raise ToolError(str(error)) from error
