"""Words that nearly are a command: a prompt that was meant as one is told and not sent."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SLASHED = re.compile(r"/(?P<name>[A-Za-z][\w:-]*)(?P<behind>\s.*)?", re.DOTALL)
_SHORTEST = 3
"""Letters of the shortest word that may lack one: what is one letter apart from `map` may be anything."""

_LONG = 6
"""Letters of a word that may have a wrong one."""


def near(word: str, names: Iterable[str]) -> list[str]:
    """Return the names that a word may be a typo of: a letter is doubled, missing, wrong or in another place."""
    return [
        name
        for name in names
        if name != word and (_without_doubles(name) == _without_doubles(word) or _one_apart(name, word))
    ]


def _one_apart(name: str, word: str) -> bool:
    """Return whether a word lacks a letter of a name, has two in the other order, or has another one.

    Only where both are long enough to tell, and no letter too many: `work` and `three` are words of their own.
    """
    if min(len(name), len(word)) < _SHORTEST or max(len(name), len(word)) == _SHORTEST:
        return False
    pairs = enumerate(zip(name, word, strict=False))
    start = next((at for at, (one, other) in pairs if one != other), min(len(name), len(word)))
    left, typed = name[start:], word[start:]
    swapped = left[:2] == typed[:2][::-1] and left[2:] == typed[2:]
    different = left[1:] == typed[1:] and len(name) >= _LONG
    return swapped or different or left[1:] == typed


def unknown_command(text: str, names: Iterable[str]) -> str | None:
    """Return what to say if a text is a slash command that is not there; ``None`` if it is a prompt.

    >>> unknown_command("/sesions", ["sessions"]), unknown_command("/usr is full", ["sessions"])
    ('There is no command /sesions. Did you mean /sessions?', None)

    Args:
        names: The names of the commands that are there.
    """
    written = _SLASHED.fullmatch(text.strip())
    if written is None or written["name"] in (known := [*names]):
        return None
    meant = near(written["name"], known)
    if not meant and written["behind"]:
        return None
    return f"There is no command /{written['name']}." + (f" Did you mean /{meant[0]}?" if meant else "")


def _without_doubles(word: str) -> str:
    return re.sub(r"(.)\1+", r"\1", word)
