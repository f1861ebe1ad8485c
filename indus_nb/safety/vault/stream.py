"""Secrets in a text that comes in pieces."""

from __future__ import annotations

import re

from indus_nb.safety.redaction import may_name, open_key_block, opens_shape
from indus_nb.safety.vault.vault import Vault

_MAX_HELD = 16_384
_MAX_LINE = 4096
_MAX_WORD = 64
_LAST_WORD = r"[\w.:/@+=~-]+\Z"


class HiddenStream:
    r"""A text without its secrets, piece by piece.

    What may be the beginning of a secret is held back until more is known, or the text ends: a part of a line as a
    rule, and no more than some thousand characters.

    >>> stream = HiddenStream(Vault(environment={"MY_TOKEN": "0123456789abcdef"}))
    >>> [stream.feed("it is 01234567"), stream.feed("89abcdef.\n"), stream.feed("", final=True)]
    ['it is ', '[secret MY_TOKEN].\n', '']
    """

    def __init__(self, vault: Vault) -> None:
        vault.refresh()
        self._vault = vault
        self._held = ""

    def feed(self, text: str, *, final: bool = False) -> str:
        """Add a piece.

        Returns:
            What can be shown by now.
        """
        if not self._vault.redact:
            return text
        whole = self._held + text
        until = len(whole) if final else _safe_length(whole, self._vault)
        self._held = whole[until:]
        return self._vault.hide(whole[:until], fresh=False) if until else ""


def without_open_end(text: str, vault: Vault) -> str:
    """Return a text that may go on without the beginning of a secret at its end.

    Unlike a stream it is shown whole again when it has gone on, so a last word that is nothing yet stays.
    """
    return text[: _safe_length(text, vault, words=False)] if vault.redact else text


def _safe_length(text: str, vault: Vault, *, words: bool = True) -> int:
    window = text[-_MAX_HELD:]
    line = max(window.rfind("\n") + 1, _after_word(window, len(window) - _MAX_LINE))
    if (edge := window.rfind("-----", line)) >= 0 and window[line:edge].rstrip("-")[-3:].isalpha():
        line = edge + 5  # a key's first or last line is whole
    ends = [len(window), vault.open_at(window)]
    if (block := open_key_block(window)) is not None:
        ends.append(block)
    if (opened := opens_shape(window[line:])) is not None:
        ends.append(line + opened)
    if (named := may_name(window[line:])) is not None:
        ends.append(line + named)
    if words:  # the last one may be the beginning of a name, or of what secrets begin with
        word = re.search(_LAST_WORD, window[max(line, len(window) - _MAX_WORD) :])
        ends.append(len(window) - (len(word[0]) if word is not None else 0))
    until = min(ends)
    if until == 0 and len(text) >= _MAX_HELD:
        until = _after_word(window, len(window) // 2)  # held back for ever it would never be shown
    return len(text) - len(window) + until


def _after_word(text: str, at: int) -> int:
    """Return the first place from ``at`` on where no secret goes on: behind a blank, a quote or the like."""
    if at <= 0:
        return 0
    found = re.compile(r"[\s\"',;<>{}]").search(text, at)
    return at if found is None else found.end()
