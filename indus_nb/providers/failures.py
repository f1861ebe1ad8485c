"""What every provider's failures have in common: their cause, a wait asked for, and words without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_SHORTEST_SECRET = 8  # hiding anything shorter would tear holes into ordinary words


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that a server asks to be left alone; ``None`` when it asks for nothing that can be understood."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        value = headers.get(name, "").strip()
        if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value):
            return float(value) / unit
    return None


def root_cause(error: BaseException) -> BaseException:
    """The error below all that was raised from it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def one_line(text: str) -> str:
    """``text`` on one line of bearable length, without control characters."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[:2000]).split())
    return line if len(line) <= 500 else f"{line[:500]}…"


def shown_url(url: str) -> str:
    """The URL without what may be secret in it."""
    return re.sub(r"//[^/]*@", "//", re.split(r"[?#]", url)[0]).rstrip("/")


def scrubbed(text: str, secrets: Iterable[str]) -> str:
    """``text`` with the secrets hidden, however a library or a server quotes them.

    >>> scrubbed("the key sk-very-secret is wrong", ["Bearer sk-very-secret"])
    'the key *** is wrong'
    """
    for secret in secrets:
        for hidden in (secret.strip(), secret.removeprefix("Bearer ").strip()):
            if len(hidden) >= _SHORTEST_SECRET:
                text = text.replace(hidden, "***").replace(ascii(hidden)[1:-1], "***")
    return text
