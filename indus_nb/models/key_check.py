"""Proof that a key works: one request that costs nothing."""

from __future__ import annotations

from indus_nb.base.errors import CredentialsError, IndusError
from indus_nb.models.apis.anthropic import VERSION
from indus_nb.models.apis.rules import reached_url
from indus_nb.models.catalog import Model
from indus_nb.models.http import http
from indus_nb.models.http.failures import check_url, is_transport, one_line, root_cause
from indus_nb.models.keys import check_key
from indus_nb.safety.redaction import hide_shapes, shown_url

_SECONDS = 20.0
_PATHS = {"anthropic-messages": "/v1/models", "openai-completions": "/models", "openai-responses": "/models"}
_OF_PROVIDERS = {"openrouter": "/key"}
"""For those who list their models to anyone."""
_REFUSED = (400, 401, 403)
"""A request without parameters can be wrong by its key alone: so Google and xAI say it with 400."""


def takes_key(model: Model) -> bool:
    """Return whether a key is all that a model's server needs, and can be checked."""
    return model.api in _PATHS


async def check(model: Model, key: str, headers: dict[str, str]) -> str:
    """Ask a model's server for its list of models, or for what it knows of the key: that costs nothing.

    Args:
        headers: The model's own, resolved.

    Returns:
        Why the key could not be checked; empty when it works.

    Raises:
        CredentialsError: The server refuses the key, or no header can hold it.
    """
    check_key(key, "it", model.provider)
    url = reached_url(model)
    try:
        check_url(url, "Correct the base URL.")
        asked = http.joined_url(url, _OF_PROVIDERS.get(model.provider, _PATHS[model.api]))
        own = {"authorization": f"Bearer {key}", "anthropic-version": VERSION}
        await http.fetched(asked, headers=http.merged_headers(own, headers), seconds=_SECONDS)
    except http.HttpStatusError as error:
        if error.status_code in _REFUSED:
            raise CredentialsError(
                model.provider, f"{shown_url(url)} refuses this key (status {error.status_code}). It was not kept."
            ) from None
        return f"{shown_url(url)} answered with status {error.status_code}"
    except IndusError as error:
        return hide_shapes(str(error), [key]).rstrip(".")
    except Exception as error:
        if not (is_transport(error) or isinstance(error, TimeoutError)):
            raise
        detail = one_line(str(root_cause(error))) or type(root_cause(error)).__name__
        return hide_shapes(f"{shown_url(url)} cannot be reached ({detail})", [key])
    return ""
