"""Our variables of the environment: what they are called, and which other names count."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from typing import Final

AGENT_DIR: Final = "AGENT_DIR"
SESSION_DIR: Final = "SESSION_DIR"
CACHE_RETENTION: Final = "CACHE_RETENTION"
DEFAULT_TRUST: Final = "DEFAULT_TRUST"
KEYS_FROM: Final = "KEYS_FROM"
CASSETTE: Final = "CASSETTE"
CASSETTE_MODE: Final = "CASSETTE_MODE"
ASK_NO_MODEL: Final = "ASK_NO_MODEL"
NAMES = (AGENT_DIR, SESSION_DIR, CACHE_RETENTION, DEFAULT_TRUST, KEYS_FROM, CASSETTE, CASSETTE_MODE, ASK_NO_MODEL)
_IN_THE_FAMILY = {AGENT_DIR: "CODING_AGENT_DIR", SESSION_DIR: "CODING_AGENT_SESSION_DIR"}
_OF_PI = (AGENT_DIR, SESSION_DIR, CACHE_RETENTION)


def variable(name: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Read the variable ``INDUS_NB_<name>``, or the one that was called ``INDUSAGI_…`` where that is unset or empty.

    Args:
        name: One of `NAMES`.
        environment: Where it is looked up.

    Returns:
        The value; ``None`` if both are unset or empty.

    >>> variable(SESSION_DIR, {"INDUSAGI_CODING_AGENT_SESSION_DIR": "/kept"})
    '/kept'
    """
    return environment.get(f"INDUS_NB_{name}") or environment.get(f"INDUSAGI_{_IN_THE_FAMILY.get(name, name)}") or None


def set_variable(name: str, value: str | None, environment: MutableMapping[str, str] = os.environ) -> None:
    """Set the variable ``INDUS_NB_<name>``, or unset it by both of its names.

    >>> environment = {"INDUSAGI_CASSETTE": "old.json"}
    >>> set_variable(CASSETTE, "new.json", environment)
    >>> environment
    {'INDUS_NB_CASSETTE': 'new.json'}

    Args:
        name: One of `NAMES`.
        value: The value; ``None`` to unset it.
    """
    environment.pop(f"INDUS_NB_{name}", None)
    environment.pop(f"INDUSAGI_{_IN_THE_FAMILY.get(name, name)}", None)
    if value is not None:
        environment[f"INDUS_NB_{name}"] = value


def take_from_host(environment: MutableMapping[str, str] = os.environ) -> None:
    """Have variables of pi count as ours, for hosts that set no others for the program that they start.

    >>> environment = {"PI_CODING_AGENT_DIR": "/theirs", "PI_CACHE_RETENTION": "long"}
    >>> environment["INDUS_NB_CACHE_RETENTION"] = "none"
    >>> take_from_host(environment)
    >>> variable(AGENT_DIR, environment), variable(CACHE_RETENTION, environment)
    ('/theirs', 'none')
    """
    for name in _OF_PI:
        given = environment.get(f"PI_{_IN_THE_FAMILY.get(name, name)}")
        if given and variable(name, environment) is None:
            environment[f"INDUS_NB_{name}"] = given
