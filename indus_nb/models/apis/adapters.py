"""The supported APIs, and the provider class of each."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import cast

from indus_nb.base.errors import UsageError
from indus_nb.models.protocol import Provider

ADAPTERS: Mapping[str, tuple[str, str]] = {
    "anthropic-messages": ("indus_nb.models.apis.anthropic", "AnthropicProvider"),
    "anthropic-bedrock": ("indus_nb.models.apis.platforms", "BedrockProvider"),
    "anthropic-bedrock-mantle": ("indus_nb.models.apis.platforms", "BedrockMantleProvider"),
    "anthropic-vertex": ("indus_nb.models.apis.platforms", "VertexProvider"),
    "anthropic-foundry": ("indus_nb.models.apis.platforms", "FoundryProvider"),
    "openai-completions": ("indus_nb.models.apis.openai", "OpenAICompletionsProvider"),
    "openai-responses": ("indus_nb.models.apis.openai", "OpenAIResponsesProvider"),
    "offline": ("indus_nb.models.apis.offline", "OfflineProvider"),
}
"""Module and class by the name of the API. A module is imported when a model of its API is first used."""


def adapter(api: str) -> Provider:
    """Return a new provider that speaks ``api``.

    Raises:
        UsageError: Nothing here speaks it; the message names the known APIs.
    """
    if api not in ADAPTERS:
        raise UsageError(f"Unknown API: {api}. Known APIs: {', '.join(ADAPTERS)}.")
    module, name = ADAPTERS[api]
    return cast("Provider", getattr(import_module(module), name)())
