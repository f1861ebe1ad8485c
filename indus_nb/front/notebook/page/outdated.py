"""Values in answers that do not hold, as pages are sent them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from indus_nb.core.storage.entries import Entry
from indus_nb.front.notebook.page.states import OutdatedValues
from indus_nb.kernel.claims import OutdatedAnswers, OutdatedValue, in_words

_IN_PANEL = "in answers above"
_IN_FILE = ". The file keeps the {old}: run the cell again for a new answer"


def outdated_values(values: Sequence[OutdatedValue], *, in_cell: bool = False) -> OutdatedValues:
    """Return values with a sentence about them.

    Args:
        in_cell: Whether they are in the output of one cell, and so in the notebook's file; else in a panel, whose
            last answer may have none of them.
    """
    checked = sum(value.now is not None for value in values)
    old = "old value" if checked == 1 else "old values"
    words = in_words(values, "" if in_cell else _IN_PANEL)
    return {
        "words": words + (_IN_FILE.format(old=old) if in_cell and checked else ""),
        "stale": any(value.now is None for value in values),
        "values": [
            {"expression": value.expression, "value": value.value, "now": value.now, "why": value.why}
            for value in values
        ],
    }


def outdated_in(newest_first: Iterable[Entry], answers: Sequence[OutdatedAnswers]) -> OutdatedValues | None:
    """Return what is outdated in the answers of one conversation; ``None`` for nothing.

    A fork begins with the entries of the conversation that it comes from, and so with its values.

    Args:
        newest_first: The entries of the conversation, backwards; no more of them are read than it takes.
    """
    wanted = {value.entry for each in answers for value in each.values}
    there: set[str] = set()
    for entry in newest_first if wanted else ():
        if entry.id in wanted:
            there.add(entry.id)
            if there == wanted:
                break
    values = [value for each in answers for value in each.values if value.entry in there]
    return outdated_values(values) if values else None
