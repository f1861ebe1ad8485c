"""Tracebacks of code that ran in the kernel, as a model reads them: short, and without frames of ours."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_MAX_LIBRARY_FRAMES = 6
_MAX_FRAMES = 20


class _Trimmed(traceback.StackSummary):
    """Stack with frames of the user's code and the last ones of libraries."""

    left_out = 0

    def format(self, **kwargs: Any) -> list[str]:
        lines = super().format(**kwargs)
        if self.left_out:
            lines.append(f"  [{self.left_out} frames, most of them of libraries, are left out]\n")
        return lines


def traceback_of(error: BaseException, shell: Any, libraries: int = _MAX_LIBRARY_FRAMES) -> str:
    """Format the traceback of an error without frames of IPython and this package.

    Args:
        shell: The IPython shell, which knows the numbers of cells.
        libraries: How many frames of libraries to keep, the last ones.
    """
    described = traceback.TracebackException.from_exception(error)
    _trim(described, shell, libraries, set())
    return "".join(described.format())


def _trim(described: traceback.TracebackException, shell: Any, libraries: int, seen: set[int]) -> None:
    if id(described) in seen:
        return
    seen.add(id(described))
    frames = [frame for frame in described.stack if not frame.filename.startswith(_HIDDEN_FRAMES)]
    own = [frame for frame in frames if _is_cell(frame) or not _is_library(frame)]
    others = [frame for frame in frames if _is_library(frame) and not _is_cell(frame)]
    if len(own) > _MAX_FRAMES:  # of an endless recursion the first and the last ones are enough
        own = own[: _MAX_FRAMES // 2] + own[-_MAX_FRAMES // 2 :]
    shown = {id(frame) for frame in own + others[max(len(others) - libraries, 0) :]}
    kept = [_named(frame, shell) for frame in frames if id(frame) in shown]
    trimmed = _Trimmed(kept)
    trimmed.left_out = len(frames) - len(kept)
    described.stack = trimmed
    for other in (described.__cause__, described.__context__, *(getattr(described, "exceptions", None) or ())):
        if other is not None:
            _trim(other, shell, libraries, seen)


def _named(frame: traceback.FrameSummary, shell: Any) -> traceback.FrameSummary:
    """Return the frame with its cell's number instead of a temporary file."""
    name: Callable[[str], Any] = getattr(shell.compile, "format_code_name", lambda _: None)
    cell = name(frame.filename)
    if not cell:
        return frame
    place = f"{cell[0]} {cell[1]}"
    return traceback.FrameSummary(place, frame.lineno, frame.name, lookup_line=False, line=frame.line)


def _is_cell(frame: traceback.FrameSummary) -> bool:
    return "ipykernel_" in frame.filename or frame.filename.startswith(("<ipython-input", "<stdin", "<string"))


def _is_library(frame: traceback.FrameSummary) -> bool:
    return frame.filename.startswith(("<frozen", *_LIBRARIES))


def _directory_of(module: str) -> str:
    spec = find_spec(module)
    return f"{Path(spec.origin).parent}{os.sep}" if spec is not None and spec.origin else "\0"


_LIBRARIES = (f"{Path(os.__file__).parent}{os.sep}", *(f"{path}{os.sep}" for path in sys.path if "-packages" in path))
_HIDDEN_FRAMES = (_directory_of("IPython"), _directory_of("ipykernel"), f"{Path(__file__).parents[2]}{os.sep}")
