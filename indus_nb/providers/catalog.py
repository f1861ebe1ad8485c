"""The models known by name: data in ``models.json``, and how a wish such as ``sonnet`` finds one of them."""

from __future__ import annotations

from typing import Literal

from indus_nb.wire import WireModel

ThinkingStyle = Literal["none", "budget", "effort"]


class ModelCost(WireModel):
    """US dollars for a million tokens."""

    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0


class Model(WireModel):
    """A model and what must be known to use it.

    ``reasoning`` tells whether it can think; ``thinking_style`` how it is told how much: by a budget of tokens or by
    an effort.
    """

    id: str
    name: str
    api: str
    provider: str
    base_url: str
    reasoning: bool = False
    thinking_style: ThinkingStyle = "none"
    input: list[Literal["text", "image"]]
    context_window: int
    max_tokens: int
    cost: ModelCost
