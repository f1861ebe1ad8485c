"""How long providers keep a prompt cache, for whom that pays, and what a request costs with and without it.

Tokens that a provider has kept are read at a fraction of their price, and to keep them costs more than to read them
once. What is not read again in time is lost. So a conversation in which a person thinks between two prompts is kept
for long, one that a program drives for short, and a request that nothing goes on from not at all.
"""

from __future__ import annotations

from typing import NamedTuple

from indus_nb.models.catalog import Model
from indus_nb.models.protocol import CacheRetention, CacheRetentionSetting

SHORT_SECONDS = 300
LONG_SECONDS = 3600
LIFETIMES: dict[CacheRetention, int] = {"none": 0, "short": SHORT_SECONDS, "long": LONG_SECONDS}
"""Seconds for which what was sent is kept."""


def retention_for(setting: CacheRetentionSetting, usual: CacheRetention, *, has_paused: bool) -> CacheRetention:
    """Decide how long a conversation's cache is kept.

    >>> retention_for("auto", "short", has_paused=False), retention_for("auto", "short", has_paused=True)
    ('short', 'long')

    Args:
        setting: What the user has set.
        usual: What suits the interface if the user leaves it to us.
        has_paused: Whether the conversation has once waited for longer than a short cache lives.
    """
    if setting != "auto":
        return setting
    return "long" if has_paused and usual == "short" else usual


class PromptPrice(NamedTuple):
    """US dollars that reading a prompt costs: ``now``, and ``cached`` if all of it were in the cache."""

    now: float
    cached: float

    @property
    def is_expired(self) -> bool:
        """Return whether the cache that would have made it cheaper is lost."""
        return self.now > self.cached


def prompt_price(
    model: Model, tokens: int, retention: CacheRetention, idle_seconds: float | None
) -> PromptPrice | None:
    """Return what it costs to send a conversation on.

    >>> from indus_nb.models import find_model
    >>> price = prompt_price(find_model("claude-sonnet-4-6"), 100_000, "short", idle_seconds=600)
    >>> round(price.now, 4), round(price.cached, 4)
    (0.375, 0.03)

    Args:
        tokens: Tokens of the conversation up to its last answer, which the last request has left in the cache.
        retention: How long the last request had them kept; the same is taken for the next one.
        idle_seconds: Seconds since the last request; ``None`` if there was none.

    Returns:
        The prices of the prompt alone, without the answer; ``None`` if those of the model are not known.
    """
    cost = model.cost
    if not cost.known:
        return None
    cached = cost.usage(input=0, output=0, cache_read=tokens).cost.total
    if idle_seconds is not None and idle_seconds < LIFETIMES[retention]:
        return PromptPrice(cached, cached)
    if retention == "none" or not cost.cache_write:
        anew = cost.usage(input=tokens, output=0)
    else:
        hour = tokens if retention == "long" else 0
        anew = cost.usage(input=0, output=0, cache_write=tokens, cache_write_hour=hour)
    return PromptPrice(anew.cost.total, cached)
