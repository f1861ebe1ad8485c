"""Environment variables with keys of models' providers, and the environment without them for other programs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

_MIN_KEY = 8
"""A variable that holds the same text as a key is left out too, unless that is as short as a word."""
KEY_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "amazon-bedrock": ("AWS_BEARER_TOKEN_BEDROCK",),
    "microsoft-foundry": ("ANTHROPIC_FOUNDRY_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "cerebras": ("CEREBRAS_API_KEY",),
    "huggingface": ("HF_TOKEN",),
    "together": ("TOGETHER_API_KEY",),
    "fireworks": ("FIREWORKS_API_KEY",),
}
_MORE_KEY_VARIABLES = frozenset(
    {
        *("ANTHROPIC_CUSTOM_HEADERS", "OPENAI_CUSTOM_HEADERS", "ANTHROPIC_OAUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
        *(
            "AZURE_OPENAI_API_KEY",
            "AZURE_API_KEY",
            "OPENAI_ADMIN_KEY",
            "CO_API_KEY",
            "COHERE_API_KEY",
            "PERPLEXITY_API_KEY",
        ),
        *(
            "HUGGING_FACE_HUB_TOKEN",
            "HUGGINGFACE_API_KEY",
            "REPLICATE_API_TOKEN",
            "VOYAGE_API_KEY",
            "AI_GATEWAY_API_KEY",
        ),
        *(
            "MOONSHOT_API_KEY",
            "ZAI_API_KEY",
            "MINIMAX_API_KEY",
            "DASHSCOPE_API_KEY",
            "NVIDIA_API_KEY",
            "VERTEX_API_KEY",
        ),
        *(
            "GOOGLE_GENERATIVE_AI_API_KEY",
            "GOOGLE_GENAI_API_KEY",
            "LITELLM_API_KEY",
            "OLLAMA_API_KEY",
            "GITHUB_COPILOT_TOKEN",
        ),
    }
)
"""Variables in which other programs keep keys of models' providers."""


def key_variables() -> frozenset[str]:
    """Return the names of all variables that hold keys of models' providers."""
    return _MORE_KEY_VARIABLES.union(*KEY_VARIABLES.values())


def child_environment(wanted: Sequence[str] = (), also_keys: Iterable[str] = ()) -> dict[str, str]:
    """Return the environment for a child process: this process' own without keys of models' providers.

    Args:
        wanted: Names, with ``*`` and ``?``, of keys that are kept all the same; with ``!`` before it what is left out.
    """
    keys = key_variables() | frozenset(also_keys)
    values = {value for name in keys if len(value := os.environ.get(name, "")) >= _MIN_KEY}
    left_out = [pattern[1:] for pattern in wanted if pattern.startswith("!")]

    def matches(name: str, patterns: Sequence[str]) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in patterns)

    return {
        name: value
        for name, value in os.environ.items()
        if not matches(name, left_out) and ((name not in keys and value not in values) or matches(name, wanted))
    }
