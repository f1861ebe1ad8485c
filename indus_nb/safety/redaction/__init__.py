r"""Secrets in text: the one place that detects keys, tokens and passwords, and hides them.

Three things give a secret away, and each of them is enough:

- **Known values**: the caller has the secret (a key of the request, a header, the environment) and hands it in.
- **Shapes**: the text looks like a key by itself (``sk-…``, ``ghp_…``, a JSON web token, a private key, the password in
  a URL, what follows ``Bearer``). Each shape is narrow enough to leave prose and code alone.
- **Names**: the text is assigned to a name such as ``api_key`` or ``DB_PASSWORD`` in Python code, a dictionary, a shell
  command or a query string, or stands in a column of that name. This is a guess: ``key = "date"`` is hidden as well.

What this module promises:

- ``hide_known`` replaces known values, ``hide_shapes`` those and shapes, ``hide_named`` what names show, ``hide`` all.
- ``replace_shapes`` and ``replace_named`` let the caller choose what stands there instead. They are
  meant for texts that are worked on, so they rather leave a word that may be none.
- Hiding is idempotent as long as the mark itself does not look like a secret: what is hidden stays hidden.
- The time is proportional to the length of the text, whatever it holds; every pattern is bounded or possessive.
- Nothing here is a guarantee: a password in prose ("it is hunter2") is not found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from indus_nb.safety.redaction.named import is_secret_cell, may_name, replace_named
from indus_nb.safety.redaction.patterns import (
    COMMON_WORDS,
    ELLIPSIS,
    MIN_ENVIRONMENT_CHARACTERS,
    MIN_KNOWN_CHARACTERS,
    PLACEHOLDER,
    PREFIXED,
    STARS,
    Replace,
    hide_known,
    hide_named,
    hide_shapes,
    is_distinct,
    is_secret_name,
    is_secret_value,
    labelled_secrets,
    looks_random,
    names_secret,
    open_key_block,
    opens_shape,
    placeholder,
    replace_shapes,
    secrets_of,
    shown_url,
    spellings,
)

__all__ = [
    "COMMON_WORDS",
    "ELLIPSIS",
    "MIN_ENVIRONMENT_CHARACTERS",
    "MIN_KNOWN_CHARACTERS",
    "PLACEHOLDER",
    "STARS",
    "Replace",
    "hide",
    "hide_known",
    "hide_named",
    "hide_shapes",
    "is_distinct",
    "is_secret_cell",
    "is_secret_name",
    "is_secret_value",
    "labelled_secrets",
    "looks_random",
    "may_name",
    "names_secret",
    "open_key_block",
    "opens_shape",
    "placeholder",
    "replace_named",
    "replace_shapes",
    "secrets_of",
    "shown_url",
    "spellings",
]


def hide(text: str, known: Iterable[str] | Mapping[str, str] = (), *, mark: str = ELLIPSIS) -> str:
    """Hide known values, possible secrets by their shape, and values assigned to a secret's name.

    For texts that only inform: it rather hides too much. What begins like a key is hidden whatever follows.

    >>> hide("token = 'abc'; print('ghp_0123456789abcdef')")
    "token = '…'; print('…')"

    Args:
        text: The text in which they may stand: code, output, or prose.
        mark: What stands there instead of a secret.

    Returns:
        The text without them.
    """
    named = replace_named(hide_named(text, mark=mark), lambda _kind, _value: mark)
    return re.sub(PREFIXED, lambda _: mark, hide_shapes(named, known, mark=mark))
