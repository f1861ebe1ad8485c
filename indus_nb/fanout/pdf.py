"""Pages of PDF files in rows, as images.

What this module promises: no page is drawn larger than what is sent of it, and only one at a time, for PDFium is not
made for threads.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indus_nb.base.errors import UsageError
from indus_nb.base.images import MAX_SENT_PIXELS, MAX_SIDE

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_PAGES = 20
"""Most pages in a row: with their text they are some 30,000 tokens, and APIs end at a hundred images."""
_PAGES = re.compile(r"#page=([1-9][0-9]{0,5})(?:-([1-9][0-9]{0,5}))?$")
_in_turn = threading.Lock()

Pages = tuple[int, int]
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
    with _opened(data, name) as document:
        return [_sent(document[page].get_size())[1] for page in _chosen(len(document), pages, name)]


def page_images(data: bytes, pages: Pages | None, name: str) -> Generator[Image]:
    """Yield the pages of a PDF file as images; see ``page_sizes``."""
    with _opened(data, name) as document:
        for number in _chosen(len(document), pages, name):
            page = document[number]
            yield page.render(scale=_sent(page.get_size())[0]).to_pil()


@contextmanager
def _opened(data: bytes, name: str) -> Generator[Any]:
    try:
        import pypdfium2  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        raise UsageError(
            f"{name} is a PDF, whose pages are drawn by pypdfium2: pip install 'indus_nb[pdf]'. Or give its text."
        ) from error
    with _in_turn:
        document = None
        try:
            document = pypdfium2.PdfDocument(data)
            yield document
        except pypdfium2.PdfiumError as error:
            raise UsageError(
                f"{name} is a PDF that cannot be read ({error}). Repair it or take its password away, or leave the row "
                "out."
            ) from error
        finally:
            if document is not None:
                document.close()


def _chosen(count: int, pages: Pages | None, name: str) -> range:
    first, last = pages or (1, count)
    if not first <= last <= count:
        there = "has one page" if count == 1 else f"has {count:,} pages"
        raise UsageError(f"{name} {there}, so there is none of those that are named: {first:,} to {last:,}.")
    if last - first >= MAX_PAGES:
        raise UsageError(
            f"{name} is a PDF of {last - first + 1:,} pages, and a row takes {MAX_PAGES}. Name some of them "
            "(report.pdf#page=1-20), or make a row of each."
        )
    return range(first - 1, last)


def _sent(points: tuple[float, float]) -> tuple[float, tuple[int, int]]:
    """Return the scale at which a page is drawn, and its width and height in pixels then."""
    width, height = (max(side, 1.0) for side in points)
    scale = min(MAX_SIDE / max(width, height), (MAX_SENT_PIXELS / (width * height)) ** 0.5)
    return scale, (max(1, round(width * scale)), max(1, round(height * scale)))
