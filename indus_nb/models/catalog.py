"""Models: their data, the built-in ones (``models.json``), and how a name such as ``sonnet`` finds one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast, get_args

from indus_nb.base.errors import ModelNotFoundError, UsageError
from indus_nb.base.messages import Cost, ThinkingLevel, Usage
from indus_nb.base.wire import JsonObject, from_json, to_snake
from indus_nb.base.wire_model import FrozenModel, wire_field

ThinkingStyle = Literal["none", "budget", "effort"]
_ALIASES = {"bedrock": "amazon-bedrock", "vertex": "google-vertex", "foundry": "microsoft-foundry"}
_HOUR_SHARE = 2
_SHORT = 2
"""Letters of a word that names no model in which a digit follows it: `v` is not DeepSeek V4, as `qwen` is Qwen3."""
_MAX_SUGGESTIONS = 3
_LEVELS: tuple[ThinkingLevel, ...] = get_args(ThinkingLevel)


class Prices(FrozenModel):
    """US dollars for a million tokens.

    ``cache_write`` is the price of a cache entry that lives for five minutes.
    """

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0


class LongPromptPrices(Prices):
    """Prices of every token of a request whose prompt is longer than ``over_tokens``."""

    over_tokens: int


class ModelCost(Prices):
    """The prices of a model, and those of a long prompt where they differ.

    A price of 0 is that of a model which is free; where prices are not ``known`` they are 0 too, and say nothing.
    """

    long_prompt: LongPromptPrices | None = wire_field(default=None, hidden=True)
    known: bool = wire_field(default=True, hidden=True)
    of_batch: bool = wire_field(default=False, hidden=True)
    """Whether these are the prices of requests that are sent in batches."""
    priority_share: float = wire_field(default=2.0, hidden=True)
    """What each price is multiplied by where OpenAI serves a request before others."""

    def usage(
        self,
        *,
        input: int,  # noqa: A002 - as everywhere on the wire
        output: int,
        cache_read: int = 0,
        cache_write: int = 0,
        cache_write_hour: int = 0,
    ) -> Usage:
        """Return the usage of a request, with its price.

        >>> ModelCost(input=2, output=10).usage(input=1000, output=100).cost.total
        0.003

        Args:
            input: Tokens of the prompt that were neither read from the cache nor written to it.
            output: Tokens of the answer.
            cache_read: Tokens that were read from the cache.
            cache_write: Tokens that were written to it.
            cache_write_hour: Those of them that are kept there for an hour, at twice the price of ``input``.

        Returns:
            Tokens and cost; the cost in US dollars.
        """
        long = self.long_prompt
        prices = long if long is not None and input + cache_read + cache_write > long.over_tokens else self
        paid = Cost(
            input=prices.input * input / 1e6,
            output=prices.output * output / 1e6,
            cache_read=prices.cache_read * cache_read / 1e6,
            cache_write=(
                prices.cache_write * (cache_write - cache_write_hour) + _HOUR_SHARE * prices.input * cache_write_hour
            )
            / 1e6,
        )
        return Usage(
            input=input,
            output=output,
            cache_read=cache_read,
            cache_write=cache_write,
            total_tokens=input + output + cache_read + cache_write,
            cost=paid.replace(
                total=paid.input + paid.output + paid.cache_read + paid.cache_write,
                unknown=None if self.known else True,
            ),
        )


def unknown_cost() -> ModelCost:
    """Return the cost of a model whose prices are not known."""
    return ModelCost(known=False)


class Model(FrozenModel):
    """A model and what must be known to use it.

    ``reasoning`` is whether it can think; ``thinking_style`` how a request sets how much: by a budget of tokens or by
    an effort, of which ``top_effort`` is the one that the level ``xhigh`` asks for. ``thinking_off`` is the kind of
    thinking to ask for when none is wanted: some models cannot but think. With ``bound_thinking`` the model's server
    rejects thinking whose conversation has changed since, unless the request has it leave such blocks out. With
    ``interleaved_thinking`` it thinks between tool calls too, if a header asks for it.
    ``thinking_level_map`` replaces what a level is called in requests, ``None`` where there is no such level. How the
    provider is reached does not appear on the wire, and neither do ``headers``, which may hold keys.
    """

    id: str
    name: str
    api: str
    provider: str
    base_url: str
    reasoning: bool = False
    thinking_style: ThinkingStyle = wire_field(default="none", hidden=True)
    thinking_off: Literal["disabled", "between_tools", "adaptive"] = wire_field(default="disabled", hidden=True)
    top_effort: Literal["high", "xhigh", "max"] = wire_field(default="high", hidden=True)
    bound_thinking: bool = wire_field(default=False, hidden=True)
    interleaved_thinking: bool = wire_field(default=False, hidden=True)
    thinking_level_map: dict[ThinkingLevel, str | None] | None = None
    input: list[Literal["text", "image"]] = wire_field(default_factory=lambda: ["text"])
    context_window: int = 128_000
    max_tokens: int = 16_384
    cost: ModelCost = wire_field(default_factory=unknown_cost)
    headers: dict[str, str] = wire_field(default_factory=dict[str, str], hidden=True, repr=False)
    compat: JsonObject | None = wire_field(default=None, hidden=True)

    @property
    def thinking_levels(self) -> tuple[ThinkingLevel, ...]:
        """Return the model's levels, from least to most."""
        if not self.reasoning:
            return ("off",)
        top: dict[ThinkingLevel, str | None] = {"xhigh": None} if self.top_effort == "high" else {}
        mapped = {**top, **(self.thinking_level_map or {})}
        return tuple(level for level in _LEVELS if mapped.get(level, level) is not None)

    def nearest_thinking_level(self, level: ThinkingLevel) -> ThinkingLevel:
        """Return ``level`` if it has it, else the next one above, else the next one below.

        >>> find_model("claude-haiku-4-5").nearest_thinking_level("xhigh")
        'high'
        """
        above: list[ThinkingLevel] = [
            known for known in self.thinking_levels if _LEVELS.index(known) >= _LEVELS.index(level)
        ]
        return above[0] if above else self.thinking_levels[-1]


@cache
def builtin_models() -> tuple[Model, ...]:
    """Return the models of the package's own list.

    Each provider's recommended one is first, old ones are last.
    """
    shared = ("api", "baseUrl", "compat")
    facts: dict[str, JsonObject] = {}  # about models that others are like: the same ones, on another platform
    models: list[Model] = []
    for name, provider in _listed_providers().items():
        for own in cast("list[dict[str, Any]]", provider["models"]):
            model = {**facts.get(own.pop("like", ""), {}), **own}
            facts.setdefault(model["id"], model)
            models.append(_trusted({"provider": name, **{key: provider.get(key) for key in shared}, **model}))
    return tuple(models)


@cache
def _listed_providers() -> dict[str, JsonObject]:
    data = Path(__file__).with_name("models.json").read_bytes()
    return cast("dict[str, JsonObject]", from_json(data))


def provider_compat(name: str) -> JsonObject:
    """Return what holds for every model of a built-in provider's servers, as ``Model.compat``."""
    return _listed_providers().get(name, {}).get("compat", {})


def provider_url(name: str) -> str:
    """Return the URL of a built-in provider's own servers; empty where there is none."""
    return _listed_providers().get(name, {}).get("baseUrl", "")


def _trusted(fields: JsonObject) -> Model:
    """Build a model of our own list, without checks."""
    cost: JsonObject | None = fields.get("cost")
    prices = {_attribute(key): _price(key, value) for key, value in (cost or {}).items()}
    known: JsonObject = {_attribute(key): value for key, value in fields.items()}
    known["cost"] = ModelCost(**prices, known=cost is not None)
    return Model(**known)


def _price(key: str, value: Any) -> Any:
    if key == "longPrompt":
        prices = {_attribute(each): _price(each, price) for each, price in value.items()}
        return LongPromptPrices(**prices)
    return value if key == "overTokens" else float(value)


@cache
def _attribute(key: str) -> str:
    return to_snake(key)


def split_level(wanted: str) -> tuple[str, ThinkingLevel | None]:
    """Split ``MODEL:LEVEL`` into the model's name and the thinking level, if there is one.

    >>> split_level("sonnet:high"), split_level("llama:free")
    (('sonnet', 'high'), ('llama:free', None))
    """
    name, _, level = wanted.rpartition(":")
    return (name, level) if name and level in _LEVELS else (wanted, None)


def default_model(provider: str, among: Sequence[Model] | None = None) -> Model:
    """Find the provider's recommended model.

    Args:
        among: The models to look at; the built-in ones unless given.

    Raises:
        UsageError: The provider is unknown; the message names the known ones.
    """
    models = builtin_models() if among is None else among
    if found := _of_provider(provider, models):
        return found[0]
    known = ", ".join(dict.fromkeys(model.provider for model in models))
    raise UsageError(f"Unknown provider: {provider}. Known providers: {known}.")


def find_model(wanted: str, provider: str | None = None, among: Sequence[Model] | None = None) -> Model:
    """Find the model that ``wanted`` names best; see ``named_models``.

    >>> find_model("anthropic/claude-opus-4-6").id, find_model("opus-4-6").id, find_model("Haiku 4.5").id
    ('claude-opus-4-6', 'claude-opus-4-6', 'claude-haiku-4-5')

    Raises:
        ModelNotFoundError: There is none; the message suggests the ids that look most like it.
    """
    return named_models(wanted, provider, among)[0]


def named_models(wanted: str, provider: str | None = None, among: Sequence[Model] | None = None) -> Sequence[Model]:
    """List the models of an id, of ``provider/id``, or with such words in their ids or names, as ``haiku`` is one.

    An exact id is the only one, then an id that differs from a listed one by its date only. Of several models with
    these words the first are those without a date; of these one whose id ends with them, else in the order of the list,
    the newest first. A part of a word names nothing: it may stand in any model by accident.

    Args:
        among: The models to look at, the preferred ones first; the built-in ones unless given.

    Returns:
        At least one model, the best first.

    Raises:
        ModelNotFoundError: There is none; the message suggests the ids that look most like it.
    """
    models = builtin_models() if among is None else among
    asked = wanted.strip()
    if provider is None and "/" in asked:
        owner, name = (part.strip() for part in asked.split("/", 1))
        # Some ids have a slash in them, so what precedes the first one may belong to the id.
        if found := _matching(name, _of_provider(owner, models)) or _matching(asked, models):
            return found
        raise ModelNotFoundError(asked, _suggestions(name, _of_provider(owner, models) or models))
    candidates = models if provider is None else _of_provider(provider, models)
    if found := _matching(asked, candidates):
        return found
    if provider is None:
        raise ModelNotFoundError(asked, _suggestions(asked, models))
    name = own_id(asked, provider, models)
    if found := _matching(name, candidates):
        return found
    raise ModelNotFoundError(f"{provider}/{name}", _suggestions(name, candidates or models))


def own_id(asked: str, provider: str, among: Sequence[Model]) -> str:
    """Return a model's id for its provider: without the provider in front, unless ids there begin so.

    >>> models = builtin_models()
    >>> own_id("anthropic/mine", "anthropic", models), own_id("openrouter/openai/mine", "openrouter", models)
    ('mine', 'openai/mine')
    >>> own_id("openrouter/mine", "openrouter", models)
    'openrouter/mine'

    Args:
        asked: The id, with or without the provider.
    """
    owner, _, rest = asked.partition("/")
    own = _of_provider(provider, among)
    is_usual = "/" not in rest and any(model.id.startswith(f"{owner}/") for model in own)
    return rest if rest and _of_provider(owner, own) and not is_usual else asked


def model_with_id(model_id: str, provider: str, among: Sequence[Model] | None = None) -> Model:
    """Find the provider's model of exactly that id, the date aside.

    Args:
        among: The models to look at; the built-in ones unless given.

    Raises:
        ModelNotFoundError: The provider has no such model.
    """
    models = builtin_models() if among is None else among
    candidates = [model for model in models if model.provider == provider]
    if (model := _with_id(_folded(model_id), model_id, candidates)) is not None:
        return model
    raise ModelNotFoundError(f"{provider}/{model_id}", _suggestions(model_id, candidates or models))


def _of_provider(name: str, models: Sequence[Model]) -> list[Model]:
    folded = name.casefold()
    own = [model for model in models if model.provider.casefold() == folded]
    return own if own or folded not in _ALIASES else _of_provider(_ALIASES[folded], models)


def _matching(asked: str, candidates: Sequence[Model]) -> Sequence[Model]:
    part = _folded(asked)
    if not part:
        return ()
    if (exact := _with_id(part, asked, candidates)) is not None:
        return (exact,)
    before = r"(?<!\w)" if part[0].isalnum() else ""
    digits = r"\d*" if len(part) > _SHORT and part[-1].isalpha() else ""
    behind = rf"{digits}(?!\w)" if part[-1].isalnum() else ""
    words = re.compile(f"{before}{re.escape(part)}{behind}")
    matching = [model for model in candidates if any(map(words.search, _names(model)))]
    return sorted(matching, key=lambda model: _distance(model, part))


def _names(model: Model) -> tuple[str, str]:
    """Return what a part of may name the model: its id, and its name without the place in parentheses behind it."""
    return _folded(model.id), _folded(model.name.partition(" (")[0])


def family(model: Model) -> Sequence[str]:
    """Return the words of a model's name that are the same for older and newer ones.

    >>> family(find_model("claude-haiku-4-5"))
    ['claude', 'haiku']
    """
    return re.findall(r"[^\W\d]+", _names(model)[1])


def _with_id(part: str, asked: str, candidates: Sequence[Model]) -> Model | None:
    for model in candidates:
        if _folded(model.id) == part:
            return model
    for model in candidates:
        if model.id == _undated(part):
            return model.replace(id=asked)  # a snapshot newer than this list
        if _undated(model.id) == part:
            return model
    return None


def _folded(name: str) -> str:
    return re.sub(r"[\s._]+", "-", name.strip().casefold())


def _undated(model_id: str) -> str:
    return re.sub(r"-20\d{6}$", "", model_id)


def _distance(model: Model, part: str) -> tuple[bool, bool]:
    undated = _undated(model.id)
    return undated != model.id, not _folded(undated).endswith(f"-{part}")


def _suggestions(asked: str, candidates: Sequence[Model]) -> list[str]:
    from difflib import get_close_matches

    named: dict[str, str] = {}
    for model in candidates:
        if model.provider != "offline":
            named.setdefault(model.id, f"{model.provider}/{model.id}")
    part = _folded(asked)
    holding = [model.id for model in candidates if part and any(part in name for name in _names(model))]
    likely = holding or get_close_matches(part, named, cutoff=0.5)
    return [named[name] for name in dict.fromkeys(likely) if name in named][:_MAX_SUGGESTIONS]
