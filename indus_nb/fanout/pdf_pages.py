"""Program that draws pages of a PDF file, which may be hostile: it reads the file from its standard input.

    python pdf_pages.py sizes|images FIRST LAST SIDE PIXELS

It writes the number of pages, and a list for those from FIRST to LAST: width and height in pixels, or a PNG in base64.
No side is longer than SIDE, and no page has more than PIXELS.

PDFium is native code that no thread can stop, so it runs here, with limits of its own. Nothing of the package is
imported.
"""

from __future__ import annotations

import base64
import io
import json
import resource
import sys
from contextlib import suppress
from typing import Any

_MAX_BYTES = 2 << 30
_MAX_SECONDS = 20
"""Memory, and seconds of processor time, of one such program."""
_UNREADABLE = 3
"""The status where PDFium says that a file is none, or is locked."""


def main() -> None:
    """Do what the arguments ask for."""
    for limit, most in ((resource.RLIMIT_AS, _MAX_BYTES), (resource.RLIMIT_CPU, _MAX_SECONDS)):
        with suppress(OSError, ValueError):  # where the system has none
            resource.setrlimit(limit, (most, most))
    import pypdfium2  # pyright: ignore[reportMissingTypeStubs]

    what = sys.argv[1]
    first, last, side, pixels = map(int, sys.argv[2:])
    try:
        document: Any = pypdfium2.PdfDocument(sys.stdin.buffer.read())
        pages = [document[number] for number in range(first - 1, min(last, len(document)))]
        found = [_size(page, side, pixels)[1] if what == "sizes" else _png(page, side, pixels) for page in pages]
    except pypdfium2.PdfiumError as error:
        sys.stderr.write(str(error))
        sys.exit(_UNREADABLE)
    sys.stdout.write(json.dumps([len(document), found]))


def _size(page: Any, side: int, pixels: int) -> tuple[float, tuple[int, int]]:
    """Return the scale at which a page is drawn, and its width and height in pixels then."""
    width, height = (max(points, 1.0) for points in page.get_size())
    scale = min(side / max(width, height), (pixels / (width * height)) ** 0.5)
    return scale, (max(1, round(width * scale)), max(1, round(height * scale)))


def _png(page: Any, side: int, pixels: int) -> str:
    picture = io.BytesIO()
    page.render(scale=_size(page, side, pixels)[0]).to_pil().save(picture, "PNG")
    return base64.b64encode(picture.getvalue()).decode()


if __name__ == "__main__":
    main()
