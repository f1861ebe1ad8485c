"""Detection of secrets: shapes, names, and the spellings of values that are known."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import NamedTuple, TypeAlias, cast
from urllib.parse import quote

ELLIPSIS = "…"
STARS = "***"

MIN_KNOWN_CHARACTERS = 7
"""Shorter values (``none``, ``ollama``, ``true``) are no secrets, and hiding them would make texts unreadable."""
_MIN_RANDOM_CHARACTERS = 16
_MIN_DISTINCT, _MIN_DISTINCT_WORDS = 10, 16
"""Characters of keys that are like no word: with letters and digits, and of other signs."""
MIN_ENVIRONMENT_CHARACTERS = 8
"""Shorter values of the environment are words that texts may hold anyway."""
COMMON_WORDS = frozenset(
    {
        *("anonymous", "changeme", "changeit", "default", "development", "disabled", "enabled", "example", "keychain"),
        *(
            "keyring",
            "kubernetes",
            "localhost",
            "mysecret",
            "optional",
            "passphrase",
            "password",
            "postgres",
            "postgresql",
        ),
        *("production", "required", "secret", "secrets", "something", "testing", "testtest", "undefined", "username"),
        *("mypassword", "my-secret", "my_secret", "my-token", "my_token", "passwd", "string", "hidden", "boolean"),
        *(
            "integer",
            "object",
            "number",
            "varchar",
            "varchar2",
            "redacted",
            "encrypted",
            "unknown",
            "invalid",
            "missing",
        ),
        *("base64", "sha256", "sha512", "bearer", "basic", "digest", "negotiate", "inherit", "system", "sensitive"),
    }
)
"""Values that stand in many texts, whatever they are used for."""

# Patterns are texts, which ``re`` compiles when they are first used: doing it here would slow down every start.
_SENSITIVE_NAME = (
    r"(?i)(?:api|access|auth|private|secret|encryption|signing|account)_?keys?(?:$|_)|(?:^|_)key$|token(?!i)(?!s$)"
    r"|(?:access|api|auth|bearer|refresh|user|secret)_?tokens$|secret|passw|passphrase|(?:^|_)pwd(?:$|_)|(?:^|_)pw$"
    r"|(?:^|[^a-z])(?:smtp|imap|mail|email|db|sql|mysql|pg|redis|mongo|ftp|ssh|root|admin|user|login|proxy)_?pass$"
    r"|^pass$|(?:^|_)psk$|credential|bearer|(?:^|_)auth$|(?:^|_)authorization$"
)
_OTHER_NAME = r"(?i)_(?:limit|count|max|min|size|budget|ttl|seconds|timeout|type|name|length|file|path|dir|url)$"


def _holds_password(value: str) -> bool:
    """Return whether a text is the base64 of a user and a password of basic authentication."""
    try:
        return b":" in base64.b64decode(value, validate=True)
    except ValueError:
        return False


def _is_place(value: str) -> bool:
    """Return whether a text is a path or an address, and not what is kept there."""
    return value.startswith(("/", "./", "../", "~")) or "://" in value or "." in value.rpartition("/")[2][-5:]


def _is_mixed(value: str) -> bool:
    """Return whether a text has digits and letters, as no plain word or number has."""
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _is_mixed_value(value: str) -> bool:
    return _is_mixed(value) and not _is_place(value)


class _Shape(NamedTuple):
    """Shape of one kind of secret: its name, texts of which every one holds one, and its pattern.

    Where the pattern has a group, only that is the secret. None goes on behind the end of a line. ``counts`` looks at
    what no pattern can tell.
    """

    kind: str
    needles: tuple[str, ...]
    pattern: str
    counts: Callable[[str], bool] = bool


_OPTION_VALUE = (
    r"(?!(?:ort|ath|ackages?|lugins?|retty|rint|rotocol|urge|ython\d?)\b)[\"']?(?![$<{%*\[(=-])([^\s\"'`;|&)]{4,200})"
)
_SHAPES = (
    _Shape(
        "api-key",
        ("sk-", "SK-"),
        r"[sS][kK]-(?<!\w[sS][kK]-)(?:(?i:ant|proj|or|svcacct|admin)-(?:[\w-]|\.(?=\w)){4,}"
        r"|(?=[\w.-]{0,99}\d)(?:[\w-]|\.(?=\w)){12,}|(?:\w|\.(?=\w)){12,})",
    ),
    _Shape(
        "github-token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"\b(?:gh[pousr]_|github_pat_)(?:\w|\.(?=\w)){12,}",
    ),
    _Shape(
        "slack-token",
        ("xox", "xapp-", "hooks.slack.com/"),
        r"\bxox[abeprs](?:\.xox[bp])?-[\w-]{10,}|\bxapp-[\w-]{10,}|(?<=hooks\.slack\.com/)services/[\w/]{20,}",
    ),
    _Shape("aws-key", ("AKIA", "ASIA"), r"\bA[KS]IA[0-9A-Z]{12,}\b"),
    _Shape("google-key", ("AIza", "ya29."), r"\bAIza[\w-]{12,}|\bya29\.[\w-]{20,}"),
    _Shape(
        "service-key",
        (
            *("k_live_", "k_test_", "whsec_", "glpat-", "npm_", "pypi-", "dop_v1_", "gsk_", "xai-", "r8_", "pplx-"),
            *("shpat_", "shpca_", "shppa_", "shpss_", "lin_api_", "glsa_", "nvapi-", "SG.", "AGE-SECRET-KEY-1", ":AA"),
            *("dapi", "key-", "/api/webhooks/", *(f"SK{digit}" for digit in "0123456789abcdef")),
        ),
        r"\b(?:(?:[sr]k_(?:live|test)_|whsec_|glpat-)[\w.-]{12,}|pypi-(?=[\w-]{0,99}\d)[\w-]{40,}|nvapi-[\w-]{30,}"
        r"|(?:npm_|dop_v1_|gsk_|xai-|r8_|pplx-|shp(?:at|ca|pa|ss)_|lin_api_|glsa_)(?=[A-Za-z]{0,99}\d)[A-Za-z0-9]{20,}"
        r"|(?:dapi|SK)[0-9a-f]{32}(?![0-9a-f])|key-(?=[a-z]{0,31}\d)[0-9a-z]{32}(?![0-9a-z])|(?<=/api/webhooks/)\d{15,21}/[\w-]{60,90}"
        r"|SG\.[\w-]{16,40}\.[\w-]{20,}|AGE-SECRET-KEY-1[0-9A-Z]{20,}|\d{8,10}:AA[\w-]{33})",
    ),
    _Shape("huggingface-token", ("hf_",), r"\bhf_(?=[\w.]{0,99}\d|[A-Za-z]{20})(?:\w|\.(?=\w)){12,}"),
    _Shape(
        "jwt",
        ("eyJ",),
        r"\beyJ[\w-]{8,300}+\.(?:eyJ[\w-]{8,}+(?:\.[\w-]*+)?|[\w-]{10,2000}+(?:\.[\w-]{2,}+){3})",
    ),
    _Shape(
        "bearer-token",
        ("bearer ", "Bearer ", "BEARER "),
        r"(?i:(?<=\bbearer )(?=\S{0,99}\d|\S{20})[\w.~+/=-]{8,})",
    ),
    _Shape(
        "header",
        ("asic ", "ASIC ", "-key: ", "-Key: ", "-KEY: "),
        r"(?i:(?<=authorization: basic )|(?<=x-api-key: ))(?!\[secret )[^\s\"']{8,}",
    ),
    _Shape(
        "url-credentials",
        ("://",),
        r"://([^\s/:@'\"]{0,100}+:(?![${<%*\[])[^\s/'\"]{1,200}|(?=[\w-]{0,99}\d)[\w-]{20,200})@",
    ),
    _Shape(  # curl -u user:password
        "url-credentials",
        ("curl ",),
        r"\bcurl [^\n|;]{0,300}?(?<=[ \t])(?:-[A-Za-z]{0,9}u|-U|--(?:proxy-)?user)[ \t=]{0,9}[\"']?"
        r"(?!\d+:\d+\b)([^\s/:@'\"$\[]{1,100}:(?!//|[${<%*\[(])[^\s'\"`|;]{1,200})",
    ),
    _Shape(
        "password", ("mysql", "maria"), rf"\b(?:mysql|mariadb)[\w-]{{0,20}} (?:[^\n|;]{{0,200}}? )?-p{_OPTION_VALUE}"
    ),
    _Shape(
        "password",
        ("sshpass ", " login "),
        rf"(?:\bsshpass|\b(?:docker|podman|helm)\b[\w ]{{0,40}} login) "
        rf"(?:[^\n|;]{{0,200}}? )?-p[ =]?{_OPTION_VALUE}",
    ),
    _Shape(  # an option of any program
        "password",
        ("-key ", "-token ", "-password ", "-secret "),
        r"(?<!\S)--?(?:[\w-]{0,40}-)?(?:(?:api|app|access|auth|account|master|license|secret)-key|token|password|secret)"
        r"[ \t]{1,9}[\"']?([^\s\"'`;|&)$<>{%\[(=-][^\s\"'`;|&)]{7,500})",
        _is_mixed_value,
    ),
    _Shape("discord-token", ("discord", "Discord", "DISCORD", "Bot "), r"\b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}"),
    _Shape(  # .netrc, on one line or on lines of its own
        "password",
        ("machine ", "password "),
        r"(?m)(?:\bmachine[ \t]+\S{1,200}[ \t][^\n]{0,300}?\b|^[ \t]{0,40})(?<!\[secret )password[ \t]+"
        r"(\S{6,200})[ \t\r]{0,40}$",
        _is_mixed,
    ),
    _Shape(  # .pgpass: by its port, for paths with numbers of lines look alike
        "password",
        (":543", ":6432:", ":26257:", ":*:"),
        r"(?m)^[^\s:]{1,200}:(?:543\d|6432|26257|\*):[^\s:]{1,200}:[^\s:]{1,200}:([^\s:]{4,200})$",
    ),
    _Shape(
        "password-hash",
        ("$apr1$", "$2a$", "$2b$", "$2x$", "$2y$", "$1$", "$5$", "$6$", "$y$", "$argon2", "{SHA}"),
        r"\$(?:apr)?1\$[./A-Za-z0-9]{1,8}\$[./A-Za-z0-9]{22}|\$2[abxy]\$\d\d\$[./A-Za-z0-9]{53}|\{SHA\}[A-Za-z0-9+/]{27}="
        r"|\$[56]\$(?:rounds=\d{1,9}\$)?[./A-Za-z0-9]{1,16}\$[./A-Za-z0-9]{43,86}"
        r"|\$y\$[./A-Za-z0-9]{1,9}\$[./A-Za-z0-9]{1,86}\$[./A-Za-z0-9]{43}"
        r"|\$argon2i?d?\$v=\d{1,3}\$[mtp=\d,]{5,40}\$[A-Za-z0-9+/]{8,90}\$[A-Za-z0-9+/]{20,200}",
    ),
    _Shape(  # Docker's configuration, and npm's
        "header",
        ('auth"', "auth'", "auth:", "auth ", "auth="),
        r"(?<![\w-])_?auth[\"']?[ \t]{0,9}[:=][ \t]{0,9}[\"']?([A-Za-z0-9+/]{6,2000}+={0,2}+)",
        _holds_password,
    ),
)
# Prose may begin like this too, so it counts only where hiding too much does no harm.
PREFIXED = r"\b(?:sk-(?=[\w.-]{0,99}[A-Z0-9_])[\w.-]{12,}|hf_[A-Za-z0-9.]{12,})(?<!\.)"
_KEY_BLOCK_EDGE = r"(?i)-----(?:(BEGIN)|END) [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_KEY_BLOCK_LINES_REVERSED = r"(?:[ \t\r]{0,40}+\n[ \t\r]{0,40}+[A-Za-z0-9+/=]{1,200}+){1,500}+"
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
    """Return whether a variable, key, header or parameter of that name holds a secret.

    >>> [name for name in ("api_key", "X-Auth-Token", "DB_PASSWORD", "tokens", "monkey") if is_secret_name(name)]
    ['api_key', 'X-Auth-Token', 'DB_PASSWORD']
    """
    return re.search(_SENSITIVE_NAME, name.replace("-", "_")) is not None


def names_secret(variable: str) -> bool:
    """Return whether a variable of the environment or of ``.env`` is a secret by its name.

    >>> [name for name in ("MYAPPKEY", "GITHUB_TOKEN", "TOKEN_LIMIT", "PASSWORD_FILE") if names_secret(name)]
    ['MYAPPKEY', 'GITHUB_TOKEN']
    """
    name = variable.replace("-", "_")
    if re.search(_OTHER_NAME, name) is not None:
        return False
    return is_secret_name(name) or name.upper().endswith(("KEY", "_PASS"))


def is_secret_value(value: str) -> bool:
    """Return whether a value can be replaced everywhere: not short, no common word, path or name.

    >>> [value for value in ("hunter2hunter2", "localhost", "/run/key", "OTHER_KEY", "true") if is_secret_value(value)]
    ['hunter2hunter2']
    """
    return (
        len(value) >= MIN_ENVIRONMENT_CHARACTERS
        and value.lower() not in COMMON_WORDS
        and not value.startswith(("/", "~", "./", "../", "$", "${", "file:"))
        and len(set(value)) > 2
        and re.fullmatch(r"[A-Z]+(?:_[A-Z]+)+|https?://[^\s@]*|\[secret [^\]\n]*\]", value) is None
    )


def looks_random(value: str) -> bool:
    """Return whether a text is unlike a chosen name: long, and of letters and digits by turns.

    >>> [value for value in ("a8F2k0Zq9LmX3vT7", "a-package-2024-v1", "an.example/x1y2z3a4b5c6") if looks_random(value)]
    ['a8F2k0Zq9LmX3vT7']
    """
    if re.fullmatch(r"[A-Za-z0-9_+=-]+", value) is None:
        return False
    longest = max(re.split(r"[_+=-]", value), key=len)
    changes = len(re.findall(r"[0-9]+|[A-Z]+|[a-z]+", longest))
    return len(longest) >= max(_MIN_RANDOM_CHARACTERS, len(value) // 3) and changes * 3 > len(longest)


def is_distinct(value: str) -> bool:
    """Return whether a key is unlike any word or name, so that all equal text is that key.

    >>> [key for key in ("development", "a_long_identifier", "hunter2Pa55", "top-secret-of-mine") if is_distinct(key)]
    ['hunter2Pa55', 'top-secret-of-mine']
    """
    if re.search("[0-9]", value) and re.search("[A-Za-z]", value):
        return len(value) >= _MIN_DISTINCT
    return len(value) >= _MIN_DISTINCT_WORDS and re.fullmatch(r"[A-Za-z_.]+", value) is None


def secrets_of(environment: Mapping[str, str] = os.environ) -> frozenset[str]:
    """Return the values of variables named like keys and passwords, paths and short values aside.

    >>> secrets_of({"MY_TOKEN": "0123456789abcdef", "KEY_FILE": "/home/me/keys/0123456789", "HOME": "me"})
    frozenset({'0123456789abcdef'})
    """
    return frozenset(value for name, value in environment.items() if names_secret(name) and is_secret_value(value))


def labelled_secrets(environment: Mapping[str, str] = os.environ) -> Mapping[str, str]:
    """Return the same values, each with the placeholder that names its variable.

    >>> labelled_secrets({"MY_TOKEN": "0123456789abcdef"})
    {'0123456789abcdef': '[secret MY_TOKEN]'}
    """
    found = secrets_of(environment)
    return {value: placeholder(name) for name, value in reversed(tuple(environment.items())) if value in found}


def placeholder(label: str) -> str:
    """Return the text in the place of a secret: one that a model can copy.

    >>> placeholder("MY_TOKEN")
    '[secret MY_TOKEN]'
    """
    return f"[secret {re.sub(r'[^A-Za-z0-9_.:@/ -]', '_', label)[:80]}]"


PLACEHOLDER = r"\[secret ([A-Za-z0-9_.:@/ -]{1,80})\]"
"""Pattern of what ``placeholder`` returns; its group is the label."""


def hide_known(
    text: str,
    known: Iterable[str] | Mapping[str, str],
    *,
    mark: str = STARS,
    min_characters: int = MIN_KNOWN_CHARACTERS,
) -> str:
    """Hide known secrets, however a library, a server or JSON quotes them.

    >>> hide_known("the key sk-very-secret is wrong", ["Bearer sk-very-secret"])
    'the key *** is wrong'

    Args:
        text: The text in which they may stand.
        known: The secrets; the scheme in front of one (``Bearer``) is no part of it. In a mapping each has a mark of
            its own.
        mark: What stands there instead of a secret.
        min_characters: How long a value must be to be hidden.

    Returns:
        The text without them.
    """
    if isinstance(known, Mapping):
        for value, own in cast("Mapping[str, str]", known).items():
            text = hide_known(text, (value,), mark=own, min_characters=min_characters)
        return text
    pattern = _known_pattern(frozenset(known), min_characters)
    return text if pattern is None else pattern.sub(lambda _: mark, text)


def hide_shapes(
    text: str,
    known: Iterable[str] | Mapping[str, str] = (),
    *,
    mark: str = STARS,
    min_characters: int = MIN_KNOWN_CHARACTERS,
) -> str:
    """Hide known values, and secrets by their shape.

    >>> hide_shapes("curl -H 'Authorization: Bearer 0123456789' https://me:hunter2@example.org")
    "curl -H 'Authorization: Bearer ***' https://***@example.org"

    Args:
        text: The text in which they may stand.
        mark: What stands there instead of a secret.
        min_characters: How long a known value must be to be hidden.

    Returns:
        The text without them.
    """
    return replace_shapes(hide_known(text, known, mark=mark, min_characters=min_characters), lambda _kind, _value: mark)


Replace: TypeAlias = Callable[[str, str], str]
"""Callback that takes the kind of a secret and the secret itself, and returns its replacement."""


def replace_shapes(text: str, replace: Replace) -> str:
    """Replace secrets by their shape.

    >>> replace_shapes("login with ghp_0123456789abcdef", lambda kind, value: f"<{kind}>")
    'login with <github-token>'

    Args:
        text: The text in which they may stand.
        replace: Called with each of them.
    """
    if "-----" in text and "PRIVATE KEY" in text.upper():
        text = _without_key_blocks(text, lambda value: replace("private-key", value))
    for shape in dict.fromkeys([shape for needle, shape in _needles() if needle in text]):
        needles = "|".join(map(re.escape, shape.needles))
        text = in_lines(text, needles, partial(_replaced, shape, replace=replace))
    return text


def in_lines(text: str, trigger: str, change: Callable[[str], str], *, searched: str | None = None) -> str:
    """Change the lines of a text in which a pattern is found: most texts have few of them.

    Args:
        trigger: The pattern that a line must hold to be changed.
        change: Returns the changed line.
        searched: What is searched instead, such as the text in lower case; of the same length.

    Returns:
        The text with the changed lines.
    """
    where = text if searched is None or len(searched) != len(text) else searched
    find = re.compile(trigger).search
    pieces: list[str] = []
    done = 0
    while (hit := find(where, done)) is not None:
        start = max(where.rfind("\n", done, hit.start()) + 1, done)
        end = where.find("\n", hit.end())
        end = len(where) if end < 0 else end
        pieces += [text[done:start], change(text[start:end])]
        done = end
    return "".join([*pieces, text[done:]]) if pieces else text


def open_key_block(text: str) -> int | None:
    """Return where a private key begins that does not end in ``text``; ``None`` without one."""
    begin = text.upper().rfind("-----BEGIN ") if "-----" in text else -1
    if begin < 0 or re.search(_KEY_BLOCK_EDGE, text[begin + 5 :]) is not None:
        return None
    return begin if re.match(r"(?i)-----BEGIN [A-Z ]{0,60}(?:-{0,5}$|.{0,20}KEY)", text[begin:]) else None


def opens_shape(line: str) -> int | None:
    """Return where a secret may have begun in an unfinished line; ``None`` if none has.

    Args:
        line: The line so far, or the end of it.

    Returns:
        The place of the word with the first text that such a secret must hold.
    """
    found = [at for needle, _ in _needles() if (at := line.find(needle)) >= 0]
    return min((len(line[:at].rstrip(WORD_CHARACTERS)) for at in found), default=None)


WORD_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."


@lru_cache(maxsize=1)
def _needles() -> tuple[tuple[str, _Shape], ...]:
    return tuple((needle, shape) for shape in _SHAPES for needle in shape.needles)


def _replaced(shape: _Shape, text: str, *, replace: Replace) -> str:
    def replaced(match: re.Match[str]) -> str:
        if not match.re.groups:
            return replace(shape.kind, match[0])
        if not shape.counts(match[1]):
            return match[0]
        return with_group(match, 1, replace(shape.kind, match[1]))

    return re.sub(shape.pattern, replaced, text)


def with_group(match: re.Match[str], group: int | str, shown: str) -> str:
    """Return a match's text with another text in the place of a group."""
    start = match.start()
    return f"{match[0][: match.start(group) - start]}{shown}{match[0][match.end(group) - start :]}"


def hide_named(text: str, *, mark: str = ELLIPSIS) -> str:
    """Hide values assigned to a secret's name.

    >>> hide_named('api_key = "abc"; model = "sonnet"; run(["env", "DB_PASSWORD=hunter2"])')
    'api_key = "…"; model = "sonnet"; run(["env", "DB_PASSWORD=…"])'

    Args:
        text: The text in which they may stand: code, output, or prose.
        mark: What stands there instead of a value.

    Returns:
        The text without the values.
    """

    def hidden(match: re.Match[str]) -> str:
        return with_group(match, "value", mark) if _is_secret_place(match) else match[0]

    def hidden_line(match: re.Match[str]) -> str:
        # Values are unpacked into several names: none is shown if one of them is a secret's.
        names = re.split(r"[\s,]+", match["names"].strip())
        return f"{match['names']} = {mark}" if any(map(is_secret_name, names)) else match[0]

    for pattern in (_ASSIGNED, _PASSED, _IN_SHELL):
        text = re.sub(pattern, hidden, text)
    return re.sub(_UNPACKED, hidden_line, text)


def shown_url(url: str) -> str:
    """Return an address without what may be secret in it: user, password, query and fragment.

    >>> shown_url("https://me:hunter2@example.org/v1/?token=abc")
    'https://example.org/v1'
    >>> shown_url("me:hunter2@example.org:8080")
    'example.org:8080'
    """
    return re.sub(r"(?:^|(?<=//))[^/]*@", "", re.split(r"[?#]", url)[0]).rstrip("/")


def _is_secret_place(match: re.Match[str]) -> bool:
    """Return whether a match's name is a secret's; a bare pair must look like a shell variable's."""
    given = match["name"]
    name = given.strip().rpartition(".")[2].strip("\"'[]")
    if not is_secret_name(name) or match["value"].startswith("[secret"):
        return False
    if match.re.pattern != _IN_SHELL or match["set"] is not None:
        return True
    return match.string[match.start() - 1 : match.start()] in ("?", "&") or re.match(_SHELL_NAME, name) is not None


@lru_cache(maxsize=32)
def _known_pattern(known: frozenset[str], min_characters: int) -> re.Pattern[str] | None:
    values = {value for given in known for value in (given.strip(), re.sub(_SCHEME, "", given.strip(), count=1))}
    spelt = {spelling for value in values if len(value) >= min_characters for spelling in spellings(value)}
    return re.compile("|".join(map(re.escape, sorted(spelt, key=len, reverse=True)))) if spelt else None


def spellings(value: str) -> Iterator[str]:
    """Return how a value may stand in a text: as it is, or quoted by Python, JSON, a shell, HTML or a URL."""
    yield value
    if value.isalnum():
        return
    yield ascii(value)[1:-1]
    yield value.replace("\\", "\\\\").replace("'", "\\'")
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield quote(value, safe="", errors="replace")
    yield quote(value, safe="/", errors="replace")
    yield re.sub(r'(["\\$`])', r"\\\1", value)
    yield value.replace("'", "'\\''")
    yield value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _start_of_rest(text: str, after: int, end: int) -> int:
    """Return where a private key without its first line goes on, ``end`` if nothing before belongs to one."""
    before = text[max(after, end - 9999) : end]
    lines = before.replace(r"\r", "  ").replace(r"\n", " \n")  # also where they are escaped
    rest = re.match(_KEY_BLOCK_LINES_REVERSED, lines[::-1])
    if rest is None or re.search(r"[A-Za-z0-9+/=]{32}", rest[0]) is None:
        return end
    return end - rest.end()


def _without_key_blocks(text: str, replace: Callable[[str], str]) -> str:
    """Hide private keys between first and last line; of a cut one, what can belong to it."""
    pieces: list[str] = []
    done = 0
    begun: re.Match[str] | None = None
    for edge in re.finditer(_KEY_BLOCK_EDGE, text):
        if edge[1] is not None:
            begun = begun or edge
            continue
        start = begun.start() if begun is not None else _start_of_rest(text, done, edge.start())
        if start < edge.start():
            pieces += [text[done:start], replace(text[start : edge.end()])]
            done, begun = edge.end(), None
    if begun is not None:
        rest = re.match(_KEY_BLOCK_REST, text[begun.end() : begun.end() + 9999])
        if rest is not None and rest[0].strip():
            pieces += [text[done : begun.end()], replace(rest[0])]
            done = begun.end() + rest.end()
    return "".join([*pieces, text[done:]]) if pieces else text
