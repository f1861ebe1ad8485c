"""How long providers keep a prompt cache, for whom that pays, and what a request costs with and without it.

Tokens that a provider has kept are read at a fraction of their price, and to keep them costs more than to read them
once. What is not read again in time is lost. So a conversation in which a person thinks between two prompts is kept
for long, one that a program drives for short, and a request that nothing goes on from not at all.
"""

from __future__ import annotations

from typing import NamedTuple

from indus_nb.models.apis.rules import keeps_long, takes_cache_key, takes_marks
from indus_nb.models.catalog import Model
from indus_nb.models.protocol import CacheRetention, CacheRetentionSetting

SHORT_SECONDS = 300
_LONG_SECONDS = 3600
_OPENAI_SECONDS = 1800
"""How long OpenAI keeps a prompt at least, whatever it is asked for."""


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
    model: Model,
    tokens: int,
    idle_seconds: float | None,
    retention: CacheRetention,
    before: CacheRetention | None = None,
) -> PromptPrice | None:
    """Return what it costs to send a conversation on.

    >>> from indus_nb.models.catalog import find_model
    >>> price = prompt_price(find_model("claude-sonnet-4-6"), 100_000, 600, "short")
    >>> round(price.now, 4), round(price.cached, 4)
    (0.375, 0.03)

    Args:
        tokens: Tokens of the conversation up to its last answer, which the last request has left in the cache.
        idle_seconds: Seconds since the last request to the model; ``None`` if there was none.
        retention: How long the next request is to be kept.
        before: How long the last one was, if that differs.

    Returns:
        The prices of the prompt alone, without the answer; ``None`` if those of the model are not known.
    """
    cost = model.cost
    if not cost.known:
        return None
    if not cost.cache_read:  # what is kept, if anything is, is not known to be cheaper
        price = cost.usage(input=tokens, output=0).cost.total
        return PromptPrice(price, price)
    cached = cost.usage(input=0, output=0, cache_read=tokens).cost.total
    if idle_seconds is not None and idle_seconds < _lifetime(model, before or retention):
        return PromptPrice(cached, cached)
    return PromptPrice(price_anew(model, tokens, retention), cached)


def price_anew(model: Model, tokens: int, retention: CacheRetention) -> float:
    """Return the US dollars that tokens cost which the provider has not kept, and is to keep as long as that."""
    cost = model.cost
    if retention == "none" or not cost.cache_write:
        return cost.usage(input=tokens, output=0).cost.total
    hour = tokens if _lifetime(model, retention) == _LONG_SECONDS else 0
    return cost.usage(input=0, output=0, cache_write=tokens, cache_write_hour=hour).cost.total


def _lifetime(model: Model, retention: CacheRetention) -> float:
    """Return for how many seconds a server keeps what it was asked to."""
    if retention == "none":
        return 0
    is_marked = model.api.startswith("anthropic-") or takes_marks(model)
    if not is_marked and takes_cache_key(model):
        return _OPENAI_SECONDS
    return _LONG_SECONDS if retention == "long" and is_marked and keeps_long(model) else SHORT_SECONDS
