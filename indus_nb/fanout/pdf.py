"""Pages of PDF files in rows, as images.

What this module promises: no page is drawn larger than what is sent of it. A file is read by a program of its own
(``pdf_pages``), with limits of memory and time, for it may have been made to take all of both.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

from indus_nb.base import textcut
from indus_nb.base.errors import UsageError
from indus_nb.base.images import MAX_SENT_PIXELS, MAX_SIDE

MAX_PAGES = 20
"""Most pages in a row: with their text they are some 30,000 tokens, and APIs end at a hundred images."""
_PAGES = re.compile(r"#page=([1-9][0-9]{0,5})(?:-([1-9][0-9]{0,5}))?$")
_PROGRAM = Path(__file__).with_name("pdf_pages.py")
_MAX_SECONDS = 60.0
_UNREADABLE = 3

Pages: TypeAlias = tuple[int, int]
"""First and last page, counted from 1."""


def is_pdf(data: bytes) -> bool:
    """Return whether data is a PDF, by its first bytes."""
    return data.startswith(b"%PDF-")


def pages_named(path: Path) -> tuple[Path, Pages | None]:
    """Split the pages off a path, as links to PDF files name them.

    >>> pages_named(Path("report.pdf#page=3-5"))
    (PosixPath('report.pdf'), (3, 5))
    >>> pages_named(Path("report.pdf"))
    (PosixPath('report.pdf'), None)
    """
    found = _PAGES.search(path.name)
    if found is None:
        return path, None
    first = int(found[1])
    return path.with_name(path.name[: found.start()]), (first, int(found[2] or first))


def page_sizes(data: bytes, pages: Pages | None, name: str) -> Sequence[tuple[int, int]]:
    """Return the width and height, in pixels, with which pages are sent.

    Args:
        data: The PDF file.
        pages: Which pages; ``None`` for all.
        name: What sentences call the file.

    Raises:
        UsageError: It cannot be read, has no such pages, or more than are sent at once.
    """
    first, last = pages or (1, 0)
    if last - first >= MAX_PAGES:
        raise _too_many(name, last - first + 1)
    count, sizes = json.loads(_run(data, name, "sizes", first, last or MAX_PAGES))
    last = last or count
    if not first <= last <= count:
        there = "has one page" if count == 1 else f"has {count:,} pages"
        raise UsageError(f"{name} {there}, so there is none of those that are named: {first:,} to {last:,}.")
    if last - first >= MAX_PAGES:
        raise _too_many(name, last - first + 1)
    return [(width, height) for width, height in sizes]


def page_images(data: bytes, pages: Pages | None, name: str) -> list[bytes]:
    """Return pages of a PDF file, of which ``page_sizes`` are known, as PNG."""
    drawn = _run(data, name, "images", *(pages or (1, MAX_PAGES)))
    return [base64.b64decode(page) for page in json.loads(drawn)[1]]


def _too_many(name: str, count: int) -> UsageError:
    return UsageError(
        f"{name} is a PDF of {count:,} pages, and a row takes {MAX_PAGES}. Name some of them (report.pdf#page=1-20), "
        "or make a row of each."
    )


def _run(data: bytes, name: str, what: str, first: int, last: int) -> bytes:
    if find_spec("pypdfium2") is None:
        raise UsageError(
            f"{name} is a PDF, whose pages are drawn by pypdfium2: pip install 'indus_nb[pdf]'. Or give its text."
        )
    command = [sys.executable, str(_PROGRAM), what, *map(str, (first, last, MAX_SIDE, MAX_SENT_PIXELS))]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=_MAX_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(
            f"{name} is a PDF that cannot be drawn ({type(error).__name__}). Leave the row out."
        ) from error
    if done.returncode == _UNREADABLE:
        why = textcut.one_line(done.stderr.decode(errors="replace"), 200)
        raise UsageError(
            f"{name} is a PDF that cannot be read ({why}). Repair it or take its password away, or leave the row out."
        )
    if done.returncode:
        raise UsageError(
            f"{name} is a PDF that cannot be drawn: its pages take more than 20 seconds or 2 GB, or end the program "
            "that draws them. Give its text, or leave the row out."
        )
    return done.stdout
