"""Retries of failed answers: which are worth another try, and how long to wait for it."""

from __future__ import annotations

import re

from indus_nb.base.messages import NO_PRICE, NOT_ASKED, OVER_BUDGET, AssistantMessage
from indus_nb.base.wire_model import WireModel, wire_field

# Texts, which ``re`` compiles when an answer has failed.
_PASSING = (
    r"(?i)"
    r"overloaded|provider returned (?:an )?error|rate.?limit|too many requests|service.?unavailable"
    r"|\b(?:429|500|502|503|504|529)\b|(?:server|internal|network|connection).?error|internal server"
    r"|connection.?(?:refused|lost|reset|closed)|websocket.?(?:closed|error)|other side closed|fetch failed"
    r"|upstream.?connect|reset before headers|socket hang.?up|ended (?:early|without)|without (?:a )?response"
    r"|broke off|time[ds]?.?out|terminated|retry delay|retry after"
)
# The request is at fault, what may be spent on it, or its key is missing, whatever numbers the text behind that holds.
_FINAL = rf"4(?!08|09|29)\d\d |{OVER_BUDGET}|{NO_PRICE}|{NOT_ASKED}|No API key for "
_TOO_LONG = (
    r"(?i)"
    r"prompt is too long|(?:context|input|prompt).{0,40}(?:too long|exceed|larger than|maximum)|exceeds.{0,30}context"
    r"|maximum context length|context.?(?:length|window).?exceeded|request_too_large|too many tokens"
)
_ASKED_DELAY = r"\(retry after (\d+(?:\.\d+)?) s\)"


class ProviderRetrySettings(WireModel):
    """Limits of waiting for a server; times in ms."""

    timeout_ms: int | None = wire_field(default=None, gt=0)
    """Longest silence of a server; without it five minutes."""

    max_retry_delay_ms: int = wire_field(default=60_000, ge=0)
    """Longest wait that a server may ask for; an answer that asks for more is not tried again."""

    @property
    def idle_timeout(self) -> float | None:
        """Return ``timeout_ms`` in seconds."""
        return None if self.timeout_ms is None else self.timeout_ms / 1000


class RetrySettings(WireModel):
    """Trying again after failures that pass; times in ms."""

    enabled: bool = True
    max_retries: int = wire_field(default=3, ge=0)
    base_delay_ms: int = wire_field(default=2000, ge=0)
    provider: ProviderRetrySettings = wire_field(default_factory=ProviderRetrySettings)

    @property
    def longest_wait_ms(self) -> int:
        """Return the longest wait that a server may ask for; an answer that asks for more is not tried again."""
        return self.provider.max_retry_delay_ms

    def delay_ms(self, answer: AssistantMessage, attempt: int) -> int | None:
        """Return how long to wait before a failed answer is asked for again.

        The wait doubles with each attempt, and is longer when the server asked for that.

        >>> failed = {"content": [], "api": "", "provider": "", "model": "", "stopReason": "error"}
        >>> answer = AssistantMessage.from_wire({**failed, "errorMessage": "529 Overloaded"})
        >>> [RetrySettings().delay_ms(answer, attempt) for attempt in (1, 2, 3, 4)]
        [2000, 4000, 8000, None]

        Args:
            attempt: The number of the retry, counted from 1.

        Returns:
            Milliseconds; ``None`` when there shall be no retry.
        """
        if not self.enabled or attempt > self.max_retries or not is_passing(answer):
            return None
        wanted = round((asked_delay(answer) or 0) * 1000)
        return max(wanted, self.base_delay_ms * 2 ** (attempt - 1)) if wanted <= self.longest_wait_ms else None


def asked_delay(answer: AssistantMessage) -> float | None:
    """Return the seconds for which the server that failed asked not to be asked again."""
    asked = re.search(_ASKED_DELAY, _reason(answer))
    return float(asked[1]) if asked else None


def failed_status(answer: AssistantMessage) -> int | None:
    """Return the HTTP status that a request was rejected with; ``None`` if it was answered or broke off."""
    status = re.match(r"([45]\d\d) ", _reason(answer))
    return int(status[1]) if status and answer.stop_reason == "error" else None


def was_not_reached(answer: AssistantMessage) -> bool:
    """Return whether ``answer`` failed because no server took the request."""
    return re.match(r"Connection error: .* cannot be reached", _reason(answer)) is not None


def is_passing(answer: AssistantMessage) -> bool:
    """Return whether ``answer`` failed for a reason that may be gone soon."""
    text = _reason(answer)
    if answer.stop_reason != "error" or re.match(_FINAL, text) or _says_too_long(text):
        return False
    return bool(re.search(_PASSING, text))


def _says_too_long(reason: str) -> bool:
    # With status 429 "too many tokens" are those of a minute or a day.
    return not reason.startswith("429 ") and re.search(_TOO_LONG, reason) is not None


def _reason(answer: AssistantMessage) -> str:
    """Return the first line of its error message: what follows may quote anything."""
    return (answer.error_message or "").partition("\n")[0]


def is_overflow(answer: AssistantMessage, context_window: int) -> bool:
    """Return whether an answer failed because the model's context is exceeded.

    Args:
        answer: The answer; it may report the failure in words or by being empty.
        context_window: The model's context window in tokens.
    """
    if answer.stop_reason == "error":
        return _says_too_long(_reason(answer))
    read = answer.usage.input + answer.usage.cache_read
    return answer.stop_reason == "length" and answer.usage.output == 0 and read >= 0.99 * context_window
