"""Rules of the APIs for requests as data, with sources in docs/requests.md.

``rules_of`` gives the rules of one model: those of its API, changed by its ``compat``:

- ``maxImages``, ``maxImageBytes`` (of base64), ``imageTypes``, ``maxRequestBytes``: the server's limits
- ``requiresMistralToolIds``: ids of tool calls are nine letters and digits
- ``supportsToolChoice``: whether a request may say which tool has to be called
- ``supportsStrictTools``: whether the server can hold calls of a tool to its schema
- ``supportsLongCacheRetention``: whether it keeps a prompt for an hour where a mark says so
- ``cacheControlFormat``: ``"anthropic"`` if chat completions may hold such marks, as they must for Claude
- ``supportsPromptCacheKey``: whether the server chooses a machine by ``prompt_cache_key``, as OpenAI's does
- ``supportsPromptCacheOptions``: whether a request may ask not to be kept, where that costs
- ``requiresAssistantAfterToolResult``: a user message may not follow the result of a tool

The built-in list has ``"own"`` where only the provider's own servers are known to: not a gateway in their place.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any, Literal, NamedTuple, cast
from urllib.parse import urlsplit

from indus_nb.base.messages import IMAGE_TYPES
from indus_nb.models.catalog import Model, provider_url
from indus_nb.models.http.refusals import refused_hour
from indus_nb.models.protocol import StreamOptions

ALL_IMAGE_TYPES = frozenset(IMAGE_TYPES)
MAX_TOOL_NAME = 64
MIN_THINKING_TOKENS = 1024
"""The smallest budget of thinking that the Messages API accepts."""


class ImageLimits(NamedTuple):
    """Limits of the images in a request.

    Sizes are those of the base64 text, sides are in pixels.
    """

    types: Collection[str] = ALL_IMAGE_TYPES
    max_bytes: int = 20_000_000
    max_side: int | None = None
    max_images: int = 500
    urls: bool = True
    """Whether an image may be named by its address."""
    many: int | None = None
    """With more images than that in a request, none may be larger than ``many_max_side``."""
    many_max_side: int = 2000


class ApiRules(NamedTuple):
    """Rules that a request must meet so that it is not rejected.

    ``result_images`` is where the images of tool results stand: within them, outside of failed ones, or outside of
    all. With ``signed_thinking`` only thinking that the model itself signed is replayed as such, and never as the last
    block of a message. ``max_call_id`` is the longest id of a tool call, 0 where it must be nine letters and digits.
    """

    result_images: Literal["within", "outside_failed", "outside"]
    images: ImageLimits
    max_request_bytes: int
    max_call_id: int
    signed_thinking: bool = False
    assistant_after_results: bool = False


_FORCE_TOOLS = ("anthropic", "amazon-bedrock", "google-vertex", "microsoft-foundry", "openai")
_MESSAGES_API = ApiRules(
    result_images="outside_failed",
    images=ImageLimits(max_bytes=5 * 1024 * 1024, max_side=8000, max_images=100, many=20),
    max_request_bytes=32_000_000,
    max_call_id=64,
    signed_thinking=True,
)
_ON_OTHER_CLOUDS = _MESSAGES_API.images._replace(urls=False)
_BEDROCK = _MESSAGES_API._replace(images=_ON_OTHER_CLOUDS, max_request_bytes=20_000_000)
_RULES: Mapping[str, ApiRules] = {
    "anthropic-messages": _MESSAGES_API,
    "anthropic-bedrock": _BEDROCK,
    "anthropic-bedrock-mantle": _BEDROCK,
    "anthropic-vertex": _MESSAGES_API._replace(images=_ON_OTHER_CLOUDS, max_request_bytes=30_000_000),
    "anthropic-foundry": _MESSAGES_API,
    "openai-completions": ApiRules(
        result_images="outside", images=ImageLimits(), max_request_bytes=50_000_000, max_call_id=40
    ),
    "openai-responses": ApiRules(
        result_images="within", images=ImageLimits(), max_request_bytes=50_000_000, max_call_id=64
    ),
}


def rules_of(model: Model) -> ApiRules:
    """Return the rules of the model's API, changed by its ``compat``."""
    rules = _RULES[model.api]
    compat: Mapping[str, Any] = model.compat or {}
    images = rules.images._replace(
        max_images=_count(compat, "maxImages", rules.images.max_images),
        max_bytes=_count(compat, "maxImageBytes", rules.images.max_bytes),
        types=_types(compat, rules.images.types),
    )
    return rules._replace(
        images=images,
        max_request_bytes=_count(compat, "maxRequestBytes", rules.max_request_bytes),
        max_call_id=0 if compat.get("requiresMistralToolIds") is True else rules.max_call_id,
        assistant_after_results=compat.get("requiresAssistantAfterToolResult") is True,
    )


def may_force_tool(model: Model, options: StreamOptions) -> bool:
    """Return whether a request may say which tool has to be called.

    Servers that reject that reject the whole request. Claude rejects it while it thinks; of other servers only
    OpenAI's is known to take it, the others declare it by ``{"supportsToolChoice": true}``.

    Args:
        model: The model, by its provider and ``compat``.
    """
    declared = (model.compat or {}).get("supportsToolChoice")
    known = declared if isinstance(declared, bool) else model.provider in _FORCE_TOOLS
    thinks = model.reasoning and (options.thinking != "off" or model.thinking_off != "disabled")
    return known and not thinks


def holds_schemas(model: Model) -> bool:
    """Return whether the model's server can hold calls of a tool to its schema."""
    return _offers(model, "supportsStrictTools")


def keeps_long(model: Model) -> bool:
    """Return whether the model's server takes a mark that keeps a prompt for an hour."""
    return _offers(model, "supportsLongCacheRetention") and not refused_hour(model)


def takes_marks(model: Model) -> bool:
    """Return whether chat completions of this model may hold marks for the prompt cache.

    OpenRouter's Claude is known to keep nothing without them; other servers declare it, or that they take none.
    """
    declared = (model.compat or {}).get("cacheControlFormat")
    if declared is not None:
        return declared == "anthropic"
    return model.provider == "openrouter" and model.id.lstrip("~").startswith("anthropic/")


def takes_cache_key(model: Model) -> bool:
    """Return whether the model's server takes a key by which requests that begin alike reach one machine."""
    declared = (model.compat or {}).get("supportsPromptCacheKey")
    return declared if isinstance(declared, bool) else is_openai(model.base_url)


def takes_cache_options(model: Model) -> bool:
    """Return whether a request may say that it is not to be kept: of other models that costs nothing."""
    return (model.compat or {}).get("supportsPromptCacheOptions") is True


def reached_url(model: Model) -> str:
    """Return the URL of the model's server: ANTHROPIC_BASE_URL may name another one for Anthropic's models."""
    return (model.provider == "anthropic" and os.environ.get("ANTHROPIC_BASE_URL")) or model.base_url


def _offers(model: Model, name: str) -> bool:
    declared = (model.compat or {}).get(name)
    return declared is True or (declared == "own" and _host(reached_url(model)) == _host(provider_url(model.provider)))


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def is_openai(url: str) -> bool:
    """Return whether a server is OpenAI's own."""
    host = _host(url)
    return host == "openai.com" or host.endswith(".openai.com")


def _count(compat: Mapping[str, Any], name: str, usual: int) -> int:
    value = compat.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else usual


def _types(compat: Mapping[str, Any], usual: Collection[str]) -> Collection[str]:
    value = compat.get("imageTypes")
    return frozenset(map(str, cast("list[object]", value))) if isinstance(value, list) else usual
