"""Credentials that a cloud's library finds by itself: which APIs have them, and what reveals that they exist.

Nothing here reads a credential, and no library is imported: it is asked for every model of a list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

Environment = Mapping[str, str]

_AWS = (
    ("AWS_PROFILE",),
    ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",),
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI",),
    ("AWS_WEB_IDENTITY_TOKEN_FILE",),
)
GOOGLE_PROJECT = ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
"""Variables that name the project in which Vertex AI is used, the first that is set."""
FOUNDRY_PLACE = ("ANTHROPIC_FOUNDRY_BASE_URL", "ANTHROPIC_FOUNDRY_RESOURCE")
"""Variables that name the resource of Foundry."""


def _aws(environment: Environment) -> bool:
    return any(all(environment.get(name) for name in names) for names in _AWS)


def _google(environment: Environment) -> bool:
    configured = environment.get("CLOUDSDK_CONFIG") or Path(environment.get("HOME", ""), ".config", "gcloud")
    known = environment.get("GOOGLE_APPLICATION_CREDENTIALS") or Path(
        configured, "application_default_credentials.json"
    )
    try:
        return any(environment.get(name) for name in GOOGLE_PROJECT) and Path(known).is_file()
    except (OSError, ValueError):  # it may hold the credentials themselves, which no file can be called
        return False


def _azure(environment: Environment) -> bool:
    return any(environment.get(name) for name in FOUNDRY_PLACE)


_FOUND: Mapping[str, Callable[[Environment], bool]] = {
    "anthropic-bedrock": _aws,
    "anthropic-bedrock-mantle": _aws,
    "anthropic-vertex": _google,
    "anthropic-foundry": _azure,
}


def finds_credentials(api: str) -> bool:
    """Return whether an API's client looks for credentials by itself, so that its models need no key."""
    return api in _FOUND


def shows_credentials(api: str, environment: Environment) -> bool:
    """Return whether the environment says that there are such credentials.

    There may be others: those of a virtual machine are found when they are needed.

    Args:
        api: The API of a model; one that looks for no credentials has none.
    """
    return api in _FOUND and _FOUND[api](environment)
