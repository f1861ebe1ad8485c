r"""Secrets in text: the one place that knows what looks like a key, a token or a password, and hides it.

Three things give a secret away, and each of them is enough:

- **Known values**: the caller has the secret (a key of the request, a header, the environment) and hands it in.
- **Shapes**: the text looks like a key by itself (``sk-…``, ``ghp_…``, a JSON web token, a private key, the password in
  a URL, what follows ``Bearer``). Each shape is narrow enough to leave prose and code alone.
- **Names**: the text is assigned to a name such as ``api_key`` or ``DB_PASSWORD`` in Python code, a dictionary, a shell
  command or a query string. This is a guess: ``key = "date"`` is hidden as well.

What this module promises:

- ``hide_known`` replaces known values, ``hide_shapes`` those and shapes, ``hide_named`` what names show, ``hide`` all.
- Hiding is idempotent as long as the mark itself does not look like a secret: what is hidden stays hidden.
- The time is proportional to the length of the text, whatever it holds; every pattern is bounded or possessive.
- Nothing here is a guarantee: a password in prose ("it is hunter2") is not found.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from urllib.parse import quote

ELLIPSIS = "…"
STARS = "***"

MIN_KNOWN_CHARACTERS = 7
"""Shorter values (``none``, ``ollama``, ``true``) are no secrets, and hiding them would make texts unreadable."""
MIN_ENVIRONMENT_CHARACTERS = 16
"""Shorter values of the environment are no keys that a service made up."""

# Patterns are texts, which ``re`` compiles when they are first used: doing it here would slow down every start.
_SENSITIVE_NAME = (
    r"(?i)(?:api|access|auth|private|secret|encryption|signing|account)_?keys?(?:$|_)|(?:^|_)key$|token(?!i)(?!s$)"
    r"|secret|passw|(?:^|_)pwd(?:$|_)|credential|bearer|(?:^|_)auth$|(?:^|_)authorization$"
)

_SHAPES = (
    r"(?i:\bsk-(?:ant|proj|or|svcacct)-(?:[\w-]|\.(?=\w)){4,}|\bsk-(?=[\w.-]{0,99}\d)(?:[\w-]|\.(?=\w)){12,}"
    r"|\bsk-(?:\w|\.(?=\w)){12,})"
    r"|(?i:(?<=\bbearer )(?=\S{0,99}\d|\S{20})[\w.~+/=-]{8,})"
    r"|(?i:(?<=authorization: basic )|(?<=x-api-key: ))\S{8,}"
    r"|(?i:\bgh[pousr]_(?:\w|\.(?=\w)){12,}|\bgithub_pat_(?:\w|\.(?=\w)){12,}|\bxox[abprs]-[\w-]{10,}|\bA[KS]IA[0-9A-Z]{12,}\b|\bAIza[\w-]{12,})"
    r"|\b(?:[sr]k_(?:live|test)_|glpat-)[\w.-]{12,}|\bhf_(?=[\w.]{0,99}\d|[A-Za-z]{20})(?:\w|\.(?=\w)){12,}"
    r"|\beyJ[\w-]{8,300}+\.eyJ[\w-]{8,}+(?:\.[\w-]*+)?"
    r"|(?<=://)[^\s/:@'\"]{0,100}+:[^\s/@'\"]{1,200}+(?=@)"
)
# Prose may begin like this too, so it counts only where hiding too much does no harm.
_PREFIXED = r"\b(?:sk-(?=[\w.-]{0,99}[A-Z0-9_])[\w.-]{12,}|hf_[A-Za-z0-9.]{12,})(?<!\.)"
_KEY_BLOCK_EDGE = r"(?i)-----(?:(BEGIN)|END) [A-Z ]{0,40}PRIVATE KEY-----"
_KEY_BLOCK_REST = r"[\w\s+/=\\:,-]{1,9999}+"

_QUOTED = r"""[rRbBfFuU]{0,2}+(?P<quote>\"{3}|'{3}|["'])(?P<value>[^\n]{1,2000}?)(?P=quote)"""
_ASSIGNED = rf"""(?x)(?P<name>(?<![\w.])[\w.]{{1,200}}+|["'][\w-]{{1,200}}+["']\]?)
    \s{{0,99}}+(?::[\w.\[\]\ |]{{1,60}}=|[=:])\s{{0,99}}+{_QUOTED}"""
# As a pair; no other names may match, or what follows them would be mistaken for their value.
_PASSED = rf"""(?x)(?P<name>["'](?=[\w-]{{0,200}}(?i:[_-]key|token|secret|passw|pwd|auth))[\w-]{{1,200}}+["'])
    ,\s{{0,99}}+{_QUOTED}"""
_UNPACKED = r"(?m)^(?P<names>[ \t]{0,200}+\w{1,200}+(?:[ \t]{0,9}+,[ \t]{0,9}+\w{1,200}+){1,50}+)[ \t]{0,9}+=.++$"
_IN_SHELL = (
    r"(?P<set>(?<=env )\s{0,99}+)?(?<!\w)(?P<name>\w{1,200}+)(?:=|(?(set) {1,99}+|(?!)))(?P<value>[^\s\"'`;&|)]++)"
)
_SHELL_NAME = r"[A-Z][A-Z0-9_]*+$|(?i:\w*passw|\w*secret$|pwd$)"
_SCHEME = r"(?i)(?:bearer|basic|token|apikey|bot)\s+"


def is_secret_name(name: str) -> bool:
    """Whether a variable, key, header or parameter of that name holds a secret.

    >>> [name for name in ("api_key", "X-Auth-Token", "DB_PASSWORD", "tokens", "monkey") if is_secret_name(name)]
    ['api_key', 'X-Auth-Token', 'DB_PASSWORD']
    """
    return re.search(_SENSITIVE_NAME, name.replace("-", "_")) is not None


def secrets_of(environment: Mapping[str, str] = os.environ) -> frozenset[str]:
    """The values of environment variables that are named like keys and passwords, paths and short values aside.

    >>> secrets_of({"MY_TOKEN": "0123456789abcdef", "KEY_FILE": "/home/me/keys/0123456789", "HOME": "me"})
    frozenset({'0123456789abcdef'})
    """
    return frozenset(
        value
        for name, value in environment.items()
        if len(value) >= MIN_ENVIRONMENT_CHARACTERS
        and (is_secret_name(name) or name.upper().endswith("KEY"))
        and not value.startswith(("/", "~"))
    )


def hide_known(
    text: str, known: Iterable[str], *, mark: str = STARS, min_characters: int = MIN_KNOWN_CHARACTERS
) -> str:
    """Hide values that are known to be secret, however a library, a server or JSON quotes them.

    >>> hide_known("the key sk-very-secret is wrong", ["Bearer sk-very-secret"])
    'the key *** is wrong'

    Args:
        text: The text in which they may stand.
        known: The secrets; the scheme in front of one (``Bearer``) is no part of it.
        mark: What stands there instead of a secret.
        min_characters: How long a value must be to be hidden.

    Returns:
        The text without them.
    """
    pattern = _known_pattern(frozenset(known), min_characters)
    return text if pattern is None else pattern.sub(lambda _: mark, text)


def hide_shapes(
    text: str, known: Iterable[str] = (), *, mark: str = STARS, min_characters: int = MIN_KNOWN_CHARACTERS
) -> str:
    """Hide known values, and what looks like a secret by itself.

    >>> hide_shapes("curl -H 'Authorization: Bearer 0123456789' https://me:hunter2@example.org")
    "curl -H 'Authorization: Bearer ***' https://***@example.org"

    Args:
        text: The text in which they may stand.
        known: Secrets that the caller knows.
        mark: What stands there instead of a secret.
        min_characters: How long a known value must be to be hidden.

    Returns:
        The text without them.
    """
    text = hide_known(text, known, mark=mark, min_characters=min_characters)
    return re.sub(_SHAPES, lambda _: mark, _without_key_blocks(text, mark))


def hide_named(text: str, *, mark: str = ELLIPSIS) -> str:
    """Hide what is assigned to a secret's name.

    >>> hide_named('api_key = "abc"; model = "sonnet"; run(["env", "DB_PASSWORD=hunter2"])')
    'api_key = "…"; model = "sonnet"; run(["env", "DB_PASSWORD=…"])'

    Args:
        text: The text in which they may stand: code, output, or prose.
        mark: What stands there instead of a value.

    Returns:
        The text without the values.
    """

    def hidden(match: re.Match[str]) -> str:
        if not _is_secret_place(match):
            return match[0]
        start = match.start()
        return f"{match[0][: match.start('value') - start]}{mark}{match[0][match.end('value') - start :]}"

    def hidden_line(match: re.Match[str]) -> str:
        # Values are unpacked into several names: none is shown if one of them is a secret's.
        names = re.split(r"[\s,]+", match["names"].strip())
        return f"{match['names']} = {mark}" if any(map(is_secret_name, names)) else match[0]

    for pattern in (_ASSIGNED, _PASSED, _IN_SHELL):
        text = re.sub(pattern, hidden, text)
    return re.sub(_UNPACKED, hidden_line, text)


def hide(text: str, known: Iterable[str] = (), *, mark: str = ELLIPSIS) -> str:
    """Hide known values, what may be a secret by its shape, and what is assigned to a secret's name.

    For texts that only inform: it rather hides too much. What begins like a key is hidden whatever follows.

    >>> hide("token = 'abc'; print('ghp_0123456789abcdef')")
    "token = '…'; print('…')"

    Args:
        text: The text in which they may stand: code, output, or prose.
        known: Secrets that the caller knows.
        mark: What stands there instead of a secret.

    Returns:
        The text without them.
    """
    return re.sub(_PREFIXED, lambda _: mark, hide_shapes(hide_named(text, mark=mark), known, mark=mark))


def shown_url(url: str) -> str:
    """An address without what may be secret in it: user, password, query and fragment.

    >>> shown_url("https://me:hunter2@example.org/v1/?token=abc")
    'https://example.org/v1'
    >>> shown_url("me:hunter2@example.org:8080")
    'example.org:8080'
    """
    return re.sub(r"(?:^|(?<=//))[^/]*@", "", re.split(r"[?#]", url)[0]).rstrip("/")


def _is_secret_place(match: re.Match[str]) -> bool:
    """Whether the name in a match is a secret's; a bare name before a bare value must look like a shell variable's."""
    given = match["name"]
    name = given.strip().rpartition(".")[2].strip("\"'[]")
    if not is_secret_name(name):
        return False
    if match.re.pattern != _IN_SHELL or match["set"] is not None:
        return True
    return match.string[match.start() - 1 : match.start()] in ("?", "&") or re.match(_SHELL_NAME, name) is not None


@lru_cache(maxsize=32)
def _known_pattern(known: frozenset[str], min_characters: int) -> re.Pattern[str] | None:
    values = {value for given in known for value in (given.strip(), re.sub(_SCHEME, "", given.strip(), count=1))}
    spelt = {spelling for value in values if len(value) >= min_characters for spelling in _spellings(value)}
    return re.compile("|".join(map(re.escape, sorted(spelt, key=len, reverse=True)))) if spelt else None


def _spellings(value: str) -> Iterator[str]:
    yield value
    yield ascii(value)[1:-1]
    yield value.replace("\\", "\\\\").replace("'", "\\'")
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield quote(value, safe="", errors="replace")


def _without_key_blocks(text: str, mark: str) -> str:
    """Hide private keys between their first and last line; of one that does not end, what can belong to it."""
    pieces: list[str] = []
    done = 0
    begun: re.Match[str] | None = None
    for edge in re.finditer(_KEY_BLOCK_EDGE, text):
        if edge[1] is not None:
            begun = begun or edge
        elif begun is not None:
            pieces += [text[done : begun.start()], mark]
            done, begun = edge.end(), None
    if begun is not None:
        rest = re.match(_KEY_BLOCK_REST, text[begun.end() : begun.end() + 9999])
        if rest is not None and rest[0].strip():
            pieces += [text[done : begun.end()], mark]
            done = begun.end() + rest.end()
    return "".join([*pieces, text[done:]]) if pieces else text
