r"""Secrets that only a name reveals: ``password: hunter2``, ``smtp_pass=…``, ``Login(pw='…')``, a column of a table.

The texts here are worked on (results of tools, prompts), so what only looks like such a line must stay: types, calls,
other names, placeholders, words that stand in every schema. A value counts by what its name promises: after a
password's name nearly anything that is no code, after a token's or key's name only what looks generated.

What this module promises: the time is proportional to the length of the text, and what is replaced is the value alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from indus_nb.safety.redaction.patterns import (
    COMMON_WORDS,
    WORD_CHARACTERS,
    Replace,
    in_lines,
    is_secret_name,
    with_group,
)

_CORE = (
    r"(?:passw(?:or)?d|passphrase|passwd|passcode|pwd|pw|psk|pass|secret|token|tokens|credential|credentials"
    r"|(?:api|app|access|auth|account|master|private|secret|encryption|signing)[_-]?keys?)"
)
_NAMED = rf"""(?xi){_CORE}(?P<quote>["']?\]?)[\ \t]{{0,9}}(?P<sign>:[\w.\[\]\ |]{{1,60}}=|[:=])(?![=:>]) [\ \t]{{0,99}}
    (?:[rbfu]{{0,2}}(?P<q>["'])(?P<quoted>[^\n"'\\]{{1,500}})(?P=q)|(?P<bare>[^\s"'`,;&|<>(){{}}\[\]]{{4,500}})(?P<end>[^\n]?))"""
_ASSIGNMENT = rf"{_CORE}[\"']?\]?[ \t]{{0,9}}[:=]"
_ELEMENT = (
    r"<(?P<name>[\w.:-]{1,80}+)(?:[ \t][^<>\n]{0,200})?>[ \t]{0,9}(?P<value>[^<>\n]{1,500}?)[ \t]{0,9}</(?P=name)>"
)
_END_OF_ELEMENT = rf"</[\w.:-]{{0,60}}{_CORE}[\w.-]{{0,20}}"
_LISTED = r"(?i)tokens[\"']?\s{0,9}[:=]\s{0,9}[\[({]([^\])}]{1,4000})"
_DEFINED = (
    r"""\bdefine\(\s{0,9}["'](?P<name>\w{1,100})["']\s{0,9},\s{0,9}"""
    r"""(?P<q>["'])(?P<value>[^"'\n\\]{1,500})(?P=q)"""
)
_LIST = (
    r"(?i)[\w.-]{0,60}(?:passwords|passphrases|passwd|secrets|tokens|keys)[\"']?:[ \t]{0,99}\n"
    r"(?:[ \t]{0,99}-[ \t]{1,99}[^\n]{1,500}(?:\n|\Z)){1,1000}"
)
_ITEM = r"(?m)^[ \t]{0,99}-[ \t]{1,99}[\"']?(?P<value>[^\s\"'#:{}\[\]$<%*&!|>][^\s\"'#]{3,500})[\"']?[ \t]*(?:#.*)?$"
_NAME_BEFORE = r"[\w.-]{0,60}\Z"
_SPOKEN_NAME = r"(?i)(?:passw|passphrase|passcode|(?:^|[_.-])(?:pwd|pw|psk)$|pass$)"
_OTHER_NAME = (
    r"(?i)(?:next|page|continu\w*|sync|cursor|pad|bos|eos|unk|sep|cls|mask|special|num|max|min|stop|start|end|n|total"
    r"|prompt|completion|input|output|csrf|xsrf|first|last|prev|previous|new_line|cache|sort|primary|foreign|public)"
    r"[_-]?(?:token|tokens|key|keys)$"
)
_CODE = (
    r"[A-Za-z_][\w.]*(?:[(\[].*)?|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|[A-Z][A-Z0-9_]*_[A-Z0-9_]*|\$.*|.*\$\{.*|[<{%\[(*/~!].*"
    r"|.*[<>{}()].*|\.{1,2}/.*|\w+://.*|.*\.(?:py|js|ts|json|ya?ml|md|txt|html?|pem|key|crt|toml|csv|log)|[*x.…-]+"
)
_OPAQUE = r"(?=[\w.~+/=-]{0,99}\d)(?=[\w.~+/=-]{0,99}[A-Za-z])[\w.~+/=-]{8,500}"
_QUOTED_OPAQUE = r"""(?<=["'])(?=[\w.~+/=-]{0,99}\d)(?=[\w.~+/=-]{0,99}[A-Za-z])[\w.~+/=-]{16,500}(?=["'])"""
_COLUMN_NAME = r"(?m)(?:passw(?:or)?d|passphrase|passwd|pwd|secret|api_?key|token)[\"']?[ \t]*(?:[|│,;]|  |$)"
_MIN_PASSWORD = 6
_MIN_CELL = 4
_RULE = r"[-+=|:─┼│├┤╞╡╪═ \t]*[-=─═]{2}[-+=|:─┼│├┤╞╡╪═ \t]*"
"""The line between the header of a table and its rows."""
_MAX_HEADER = 2000


def replace_named(text: str, replace: Replace) -> str:
    """Replace values assigned to a secret's name, and cells in a column of such a name.

    >>> hidden = lambda kind, value: f"<{kind}>"
    >>> replace_named("smtp_pass=hunter2; password: str; Login(pw='hunter2')", hidden)
    "smtp_pass=<password>; password: str; Login(pw='<password>')"

    Args:
        text: The text in which they may stand.
        replace: Called with the kind (``password`` or ``token``) and the value.
    """
    folded = text.lower()
    text = in_lines(
        text, _ASSIGNMENT, lambda line: re.sub(_NAMED, lambda match: _assigned(match, replace), line), searched=folded
    )
    if "</" in text:
        text = in_lines(
            text,
            _END_OF_ELEMENT,
            lambda line: re.sub(_ELEMENT, lambda match: _in_element(match, replace), line),
            searched=text.lower(),
        )
    if "tokens" in folded:
        text = re.sub(
            _LISTED, lambda listed: re.sub(_QUOTED_OPAQUE, lambda each: replace("token", each[0]), listed[0]), text
        )
    if "define(" in text:
        text = in_lines(
            text, r"define\(", lambda line: re.sub(_DEFINED, lambda match: _in_element(match, replace), line)
        )
    if re.search(r"(?:s|passwd)[\"']?:[ \t]{0,99}\n[ \t]{0,99}- ", folded):
        text = re.sub(_LIST, lambda listed: _without_items(listed[0], replace), text)
    return _without_columns(text, folded, replace)


def _without_items(listed: str, replace: Replace) -> str:
    """Replace the items of a list in YAML below a name that gives them away."""
    name, head, items = listed.partition("\n")
    kind = _kind(re.sub(r"(?i)s[\"']?:\s*$", "", name).strip().strip("\"'"))

    def item(match: re.Match[str]) -> str:
        value = match["value"]
        if kind is None or (kind == "token" and re.fullmatch(_OPAQUE, value) is None) or value.lower() in COMMON_WORDS:
            return match[0]
        return with_group(match, "value", replace(kind, value))

    return f"{name}{head}{re.sub(_ITEM, item, items)}"


NAME_WORDS = ("pass", "pw", "psk", "secret", "token", "key", "credential", "authorization")
"""Parts of names that give a secret away, in lower case; each such name holds one."""


def may_name(line: str) -> int | None:
    """Return where a secret's name begins in an unfinished line; ``None`` without one."""
    found = re.search("|".join(NAME_WORDS), line.lower())
    return None if found is None else len(line[: found.start()].rstrip(WORD_CHARACTERS))


def _assigned(match: re.Match[str], replace: Replace) -> str:
    before = re.search(_NAME_BEFORE, match.string[max(match.start() - 60, 0) : match.start()])
    core = re.match(_CORE, match[0], re.IGNORECASE)
    name = f"{before[0] if before else ''}{core[0] if core else ''}"
    group = "bare" if match["quoted"] is None else "quoted"
    value = match[group]
    kind = _kind(name)
    if kind is None or not _is_plausible(name, kind, value, quoted=group == "quoted"):
        return match[0]
    if group == "bare" and match["end"] in ("(", "[", "{", "<"):
        return match[0]  # a call, an index
    return with_group(match, group, replace(kind, value))


def _in_element(match: re.Match[str], replace: Replace) -> str:
    name, value = match["name"].rpartition(":")[2], match["value"]
    kind = _kind(name)
    if kind is None or not _is_plausible(name, kind, value, quoted=True):
        return match[0]
    return with_group(match, "value", replace(kind, value))


def _kind(name: str) -> str | None:
    last = name.rpartition(".")[2]
    if re.search(_OTHER_NAME, last):
        return None
    if re.search(_SPOKEN_NAME, last):
        # In a longer word `pass` and `pw` are something else: `bypass`, `npw`.
        return "password" if is_secret_name(last) or re.search(r"[a-z]P(?:ass|w|wd)$", last) else None
    return "token" if is_secret_name(last) or last.lower() == "tokens" else None


def _is_plausible(name: str, kind: str, value: str, *, quoted: bool) -> bool:
    folded = value.lower()
    if folded in COMMON_WORDS or value.startswith("[secret") or folded in name.lower() or "your" in folded:
        return False
    if kind == "token":
        return re.fullmatch(_OPAQUE, value) is not None and not value.replace(".", "").replace("-", "").isdigit()
    if len(value) < _MIN_PASSWORD or "…" in value or "***" in value:
        return False
    if quoted:
        spaced = any(sign.isspace() for sign in value)
        return (not spaced or "phrase" in name.lower()) and re.match(r"[$<{%*]|\w+://", value) is None
    plain = value.rstrip(".:")
    has_mark = any(sign.isdigit() or sign in "!@#^?+~=" for sign in plain) and any(sign.isalpha() for sign in plain)
    if not has_mark:
        return False
    return not re.fullmatch(_CODE, plain) or (
        plain.isalnum() and not folded.startswith(("pass", "pw", "tok", "sec", "key"))
    )


def _without_columns(text: str, folded: str, replace: Replace) -> str:
    """Replace the cells below a header that names a secret: CSV, TSV, Markdown, and what pandas prints."""
    first = None if "\n" not in text else re.search(_COLUMN_NAME, folded)
    if first is None:
        return text
    lines = text.split("\n")
    changed = False
    at = folded.count("\n", 0, first.start())
    while at < len(lines) - 1:
        header = lines[at]
        at += 1
        if (
            len(header) > _MAX_HEADER
            or not re.search(_COLUMN_NAME, header.lower())
            or (cells := _columns(header)) is None
        ):
            continue
        while at < len(lines):
            if re.fullmatch(_RULE, lines[at]) is None:
                if (spans := cells(lines[at])) is None:
                    break
                hidden = _without_cells(lines[at], spans, replace)
                changed |= hidden != lines[at]
                lines[at] = hidden
            at += 1
    return "\n".join(lines) if changed else text


_Span = tuple[int, int, str]
"""Start and end of a cell, and what its column's name promises."""
_Cells = Callable[[str], list[_Span] | None]


def _without_cells(line: str, spans: list[_Span], replace: Replace) -> str:
    for start, end, kind in reversed(spans):
        value = line[start:end]
        if len(value) < _MIN_CELL or value in ("None", "null", "NULL", "<NA>", "string", "object"):
            continue
        if kind == "password" or re.fullmatch(_OPAQUE, value):
            line = f"{line[:start]}{replace(kind, value)}{line[end:]}"
    return line


def _columns(header: str) -> _Cells | None:
    """Return a function that finds secret columns' cells below ``header``; ``None`` if that is no header."""
    for mark in ("│", "|", "\t", ";", ","):
        names = header.split(mark)
        if len(names) < 2:
            continue
        stripped = [name.strip(" \t\"'") for name in names]
        if not all(re.fullmatch(r"[\w.-]{0,60}", name) for name in stripped) or sum(map(bool, stripped)) < 2:
            return None
        places = [(place, kind) for place, name in enumerate(stripped) if (kind := _column_kind(name))]
        return partial(_split, mark, len(names), places) if places else None
    names_at = [(match[0], match.end()) for match in re.finditer(r"\S+", header)]
    plain = all(re.fullmatch(r"[\w.-]{1,60}", name) for name, _ in names_at)
    if not plain or not header.startswith(" ") or len(names_at) > 100:
        return None
    ends = [(end, kind) for name, end in names_at if (kind := _column_kind(name))]
    return partial(_aligned, ends) if ends else None


def _column_kind(name: str) -> str | None:
    named = re.search(
        r"(?i)(?:^|_)(?:passw(?:or)?d|passphrase|passwd|pwd|secret|api_?key|token)$|[a-z](?:Password|Token|Secret)$",
        name,
    )
    return _kind(name) if named is not None else None


def is_secret_cell(column: str, value: str) -> bool:
    """Return whether a value is a secret because it stands in a column of that name.

    >>> [is_secret_cell("password", "hunter2"), is_secret_cell("token", "the"), is_secret_cell("token", "a1b2c3d4e5")]
    [True, False, True]

    Args:
        column: The name of the column; of several levels it is the last word.
    """
    words = re.findall(r"\w+", column)
    kind = _column_kind(words[-1]) if words else None
    return kind == "password" or (kind == "token" and re.fullmatch(_OPAQUE, value.strip("\"'")) is not None)


def _split(mark: str, count: int, places: list[tuple[int, str]], line: str) -> list[_Span] | None:
    cells = line.split(mark)
    if len(cells) != count:
        return None
    starts = [0]
    for cell in cells:
        starts.append(starts[-1] + len(cell) + len(mark))
    found: list[_Span] = []
    for place, kind in places:
        if inner := cells[place].strip(" \t\"'\r"):
            at = starts[place] + cells[place].find(inner)
            found.append((at, at + len(inner), kind))
    return found


def _aligned(ends: list[tuple[int, str]], line: str) -> list[_Span] | None:
    """Return the cells of a line that end where the header's names end, as pandas prints them."""
    if not line or line[0].isspace():
        return None
    found: list[_Span] = []
    for end, kind in ends:
        if len(line) < end or line[end - 1].isspace() or line[end : end + 1].strip():
            return None
        start = max(line.rfind(" ", 0, end), line.rfind("\t", 0, end)) + 1
        if start == 0:
            return None
        found.append((start, end, kind))
    return found
