"""Token usage of an answer of Anthropic's API, and its cost: read from the ``usage`` of its events."""

from __future__ import annotations

from typing import Any, cast

from indus_nb.base.messages import Usage
from indus_nb.base.wire import JsonObject
from indus_nb.models.catalog import ModelCost

_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_SEARCH_DOLLARS = 0.01
_BATCH_SHARE = 0.5
_US_SHARE = 1.1


class UsedTokens:
    """Sum of what the events of one answer report."""

    def __init__(self, cost: ModelCost) -> None:
        self._cost = cost
        self._counts: dict[str, int] = {}
        self._hour = self._searches = 0
        self._is_batch = self._in_us = self._is_fast = False

    def count(self, usage: JsonObject) -> Usage:
        """Merge a ``usage``: a later one has more than those before it, but not all fields again."""
        self._counts.update((name, number) for name in _COUNTS if isinstance(number := usage.get(name), int))
        self._hour = _number(usage, "cache_creation", "ephemeral_1h_input_tokens", self._hour)
        self._searches = _number(usage, "server_tool_use", "web_search_requests", self._searches)
        self._is_batch |= usage.get("service_tier") == "batch" and not self._cost.of_batch
        self._in_us |= usage.get("inference_geo") == "us"
        self._is_fast |= usage.get("speed") == "fast"
        share = (_BATCH_SHARE if self._is_batch else 1) * (_US_SHARE if self._in_us else 1)
        counts = self._counts
        used = self._cost.usage(
            input=counts.get("input_tokens", 0),
            output=counts.get("output_tokens", 0),
            cache_read=counts.get("cache_read_input_tokens", 0),
            cache_write=counts.get("cache_creation_input_tokens", 0),
            cache_write_hour=self._hour,
        )
        cost = used.cost.scaled(share, _SEARCH_DOLLARS * self._searches)
        return used.replace(cost=cost.replace(unknown=True) if self._is_fast else cost)  # which costs more, by model


def _number(usage: JsonObject, group: str, name: str, before: int) -> int:
    found: Any = usage.get(group)
    number: object = cast("JsonObject", found).get(name) if isinstance(found, dict) else None
    return number if isinstance(number, int) and number >= 0 else before
