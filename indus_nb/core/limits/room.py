"""The room that a server's headers say it has left for requests, and how soon it has more."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from indus_nb.base.messages import Usage

_ANTHROPIC, _OTHERS = "anthropic-ratelimit-{kind}-{part}", "x-ratelimit-{part}-{kind}"
_COUNT = re.compile(r"[0-9]{1,15}")
_LONGEST = 60.0
"""Most seconds between two requests that a server is believed to need."""
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
_UNITS = (3600, 60, 1, 0.001)


def spacing(headers: Mapping[str, str], usage: Usage, going: int, now: datetime | None = None) -> float:
    """Return how far apart requests have to begin, so that none is refused.

    Where there is room for all requests that go on, that is no time at all. Else it is the time in which the server has
    room for one more: what it misses now, by the time that it says until it misses nothing.

    >>> used_up = {"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "0"}
    >>> spacing(used_up | {"x-ratelimit-reset-requests": "30s"}, Usage(), 8)
    0.5

    Args:
        headers: Those of Anthropic's API or of OpenAI's; others say nothing.
        usage: The tokens of one request.
        going: How many requests go on.
        now: The time, for resets that are one.

    Returns:
        Seconds, a minute at most.
    """
    read = usage.input + usage.cache_write  # what is read from a cache counts for no limit
    needs = {"requests": 1, "tokens": read + usage.output, "input-tokens": read, "output-tokens": usage.output}
    found = [
        _spacing(headers, form, kind, need, going, now or datetime.now(UTC))
        for kind, need in needs.items()
        for form in (_ANTHROPIC, _OTHERS)
        if need
    ]
    return min(max(found, default=0.0), _LONGEST)


def _spacing(headers: Mapping[str, str], form: str, kind: str, need: float, going: int, now: datetime) -> float:
    limit, left, reset = (
        headers.get(form.format(kind=kind, part=part), "") for part in ("limit", "remaining", "reset")
    )
    if not (_COUNT.fullmatch(limit) and _COUNT.fullmatch(left)) or int(left) >= need * going:
        return 0.0
    missing, seconds = int(limit) - int(left), _seconds(reset, now)
    return need * seconds / missing if missing > 0 else 0.0


def _seconds(reset: str, now: datetime) -> float:
    """Return the time until a reset, 0 for what cannot be understood: ``6m0s``, ``120ms``, ``1.5``, or a moment."""
    if match := _DURATION.fullmatch(reset if not reset[-1:].isdecimal() else f"{reset}s"):
        return sum(float(part) * unit for part, unit in zip(match.groups(), _UNITS, strict=True) if part)
    try:
        then = datetime.fromisoformat(reset)
    except ValueError:
        return 0.0
    return max(0.0, ((then if then.tzinfo else then.replace(tzinfo=UTC)) - now).total_seconds())
