"""Cells that ran before the extension was loaded, as far as IPython remembers them.

It keeps what was typed and what cells gave, not what they printed; of errors the last one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

_NUMBER = re.compile(r"In\s?\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class EarlierCell:
    """A cell that ran: its number, source, result if there is one, and error."""

    number: int
    code: str
    result: object = None
    error: BaseException | None = None


def earlier_cells(shell: Any, most: int) -> list[EarlierCell]:
    """Return the last cells that ran before the one that runs now, oldest first.

    Args:
        most: How many to return at most.

    Returns:
        The cells, without empty ones.
    """
    history: Any = shell.history_manager
    typed = cast("Sequence[str]", getattr(history, "input_hist_raw", ()))
    given = cast("Mapping[int, object]", getattr(history, "output_hist", {}))
    failed, error = _last_error(shell)
    result = getattr(shell.displayhook, "exec_result", None)  # of the cell that runs, which IPython may count already
    running: int = getattr(result, "execution_count", None) or shell.execution_count
    first = max(1, min(running, len(typed)) - most)
    return [
        EarlierCell(number, code, given.get(number), error if number == failed else None)
        for number, code in enumerate(typed[first:running], first)
        if code.strip()
    ]


def _last_error(shell: Any) -> tuple[int | None, BaseException | None]:
    """Return the number of the cell that failed last, and its error."""
    last = getattr(shell, "last_execution_result", None)
    error = getattr(last, "error_before_exec", None) or getattr(last, "error_in_exec", None)
    if isinstance(error, BaseException):
        return getattr(last, "execution_count", None), error
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if not isinstance(error, BaseException):
        return None, None
    place = error.__traceback__
    names = [error.filename] if isinstance(error, SyntaxError) and error.filename else []
    while place is not None:
        names.append(place.tb_frame.f_code.co_filename)
        place = place.tb_next
    named: Callable[[str], Any] = getattr(shell.compile, "format_code_name", lambda _: None)
    for name in names:
        if (described := named(name)) and (found := _NUMBER.search(" ".join(described))):
            return int(found[1]), error
    return None, None
