"""Values in answers that do not hold, as pages are sent them."""

from __future__ import annotations

from collections.abc import Sequence

from indus_nb.front.notebook.page.states import OutdatedValues
from indus_nb.kernel.claims import OutdatedAnswers, OutdatedValue, in_words


def outdated_values(values: Sequence[OutdatedValue]) -> OutdatedValues:
    """Return values with a sentence about them."""
    return {
        "words": in_words(values),
        "stale": any(value.now is None for value in values),
        "values": [
            {"expression": value.expression, "value": value.value, "now": value.now, "why": value.why}
            for value in values
        ],
    }


def outdated_of(session: str, answers: Sequence[OutdatedAnswers]) -> OutdatedValues | None:
    """Return what is outdated in the answers of one conversation, by its id; ``None`` for nothing."""
    values = [value for each in answers if each.session == session for value in each.values]
    return outdated_values(values) if values else None
