"""Program that draws pages of a PDF file, which may be hostile: it reads the file from its standard input.

    python pdf_pages.py sizes FIRST LAST        writes the number of pages, and the size of each in points, as JSON
    python pdf_pages.py SCALE FIRST LAST        writes a page as PNG

PDFium is native code that no thread can stop, so it runs here, with limits of its own. Nothing of the package is
imported.
"""

from __future__ import annotations

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

    what, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    try:
        document: Any = pypdfium2.PdfDocument(sys.stdin.buffer.read())
        if what == "sizes":
            count = len(document)
            chosen = range(first - 1, min(last or count, count))
            sys.stdout.write(json.dumps([count, [document[page].get_size() for page in chosen]]))
            return
        picture = io.BytesIO()
        document[first - 1].render(scale=float(what)).to_pil().save(picture, "PNG")
    except pypdfium2.PdfiumError as error:
        sys.stderr.write(str(error))
        sys.exit(_UNREADABLE)
    sys.stdout.buffer.write(picture.getvalue())


if __name__ == "__main__":
    main()
