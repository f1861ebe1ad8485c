r"""Text as a question shows it: what is invisible, or looks like something else, as an escape such as ``\u200b``.

What this module promises: two texts that do different things do not look the same. Characters are judged by their
Unicode properties (whether they are drawn, whether they are a blank, what they are composed of) and, where they only
look like a letter of the alphabet that commands are written in, by a table. Long runs of blanks and of empty lines are
shown as their number, so that nothing can be pushed out of sight.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Any

_TIMES = "\N{MULTIPLICATION SIGN}"
_MAX_BLANKS = 40
_MAX_EMPTY_LINES = 2
_MAX_MARKS = 4
"""Combining marks on one letter; living languages need no more."""

_WHOLE_WORDS = frozenset(
    # Cyrillic, Armenian, Cherokee and Latin letters that are drawn like one of a-z, A-Z or 3, and like strokes.
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u051d\u044c\u0410"
    "\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u04ae\u050c"
    "\u051a\u051c\u042c\u0417\u0570\u0578\u057d\u0585\u0581\u0566\u0584\u0572\u0555\u054f\u053c\u13aa"
    "\u13ac\u13bb\u13ab\u13c6\u13b7\u13be\u13e2\u13d2\u13da\u13a2\u13d9\u13b3\u13c3\u13df\u13f4\u13a0"
    "\u13d4\u0251\u0261\u0131\u0269\u0237\u028f\u0280\u0262\u029f\u0274\u1d04\u1d0f\u1d20\u1d21\u1d22"
    "\ua731\u1d00\u1d07\u1d0a\u1d0b\u1d0d\u1d18\u1d1b\u1d1c\u04cf\u04c0\u01c0\u01c3\u05d5\u2223\u217c"
)
"""Letters of which a word may be written that looks like one of a-z."""
_LOOKALIKES = _WHOLE_WORDS | frozenset(  # with Greek ones, which stand alone in formulas
    "\u03bf\u03bd\u03c1\u03b9\u03c5\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1"
    "\u03a4\u03a5\u03a7\u03f2\u03f3\u03f9\u037f"
)
"""Letters that are not to be told from one of a-z, A-Z within a word of these."""
_DRAWN_LIKE_SIGNS = frozenset(
    "\u01c3\u02b9\u02bc\u02c8\u02d0\u037e\u0387\u0589\u05c3\u05f3\u2010\u2011\u2024\u2032\u2035\u2044\u2215\u2216"
    "\u2223\u2236\u223c\u22c5\u29f5\u29f8\u29f9\ua789\ua78c\ufe52\ufe54\ufe55\ufe68\u1806\u02d7\u02f8\ufe58\ufe63"
)
"""Signs that are drawn like one of ``! ' . / \\ : ; - | ~``, but for the quotes and dashes of ordinary text."""
_DRAWN_AS_NOTHING = "\u2800\ufffc\U0001d159"


def visible(text: str) -> str:
    r"""Show what could be hidden or mistaken in a text, and no more of it.

    >>> print(visible("a\x1b]0;\u202eb\r, c\u0430t, na\u00efve"))
    a\x1b]0;\u202eb\r, c\u0430t, naïve
    >>> print(visible("one\n\n\n\n\ntwo" + " " * 50 + "three"))
    one
    ⏎ ×4
    two␠ ×50three
    """  # noqa: RUF002 - the sign stands in front of a number
    if not (text.isascii() and text.replace("\n", "").replace("\t", "").isprintable()):
        text = _without_lookalikes(_patterns()["hidden"].sub(_escaped, text))
    return _collapsed(text)


def is_plain(text: str) -> bool:
    """Whether a text is one line that is shown as it is."""
    return "\n" not in text and "\t" not in text and visible(text) == text


def has_right_to_left(text: str) -> bool:
    """Whether a display may put parts of a text in another order than that in which they count."""
    return not text.isascii() and any(unicodedata.bidirectional(sign) in ("R", "AL", "AN") for sign in text)


@cache
def _patterns() -> dict[str, Any]:
    import regex  # its patterns know the properties of characters, which those of re do not

    # A mark counts as hidden where there is nothing that it could stand on, and where there are too many.
    return {
        "hidden": regex.compile(
            rf"[\p{{C}}\p{{Zl}}\p{{Zp}}\p{{Default_Ignorable_Code_Point}}{_DRAWN_AS_NOTHING}--[\n\t]]"
            r"|[\p{Zs}--[ ]]"
            rf"|(?<![\p{{L}}\p{{N}}\p{{M}}])\p{{M}}+|(?<=\p{{M}}{{{_MAX_MARKS}}})\p{{M}}+",
            regex.V1,
        ),
        "words": regex.compile(r"\w+", regex.V1),
        "latin": regex.compile(r"[A-Za-z]", regex.V1),
        "empty lines": regex.compile(rf"(?m)^([+\- ]?)[ \t]*+\n(?:\1[ \t]*+\n){{{_MAX_EMPTY_LINES},}}", regex.V1),
        "blanks": regex.compile(
            rf" {{{_MAX_BLANKS + 1},}}|\t{{{_MAX_BLANKS + 1},}}|[ \t]{{{_MAX_BLANKS + 1},}}", regex.V1
        ),
    }


def _escaped(match: Any) -> str:
    return ascii(match.group())[1:-1]


def _escape(sign: str) -> str:
    return ascii(sign)[1:-1]


def _without_lookalikes(text: str) -> str:
    """Letters that stand where one of a-z could be meant, and signs that only look like ASCII, as escapes."""
    patterns = _patterns()

    def word(match: Any) -> str:
        found: str = match.group()
        if found.isascii():
            return found
        start, end = match.span()
        beside = text[start - 1 : start] + text[end : end + 1]
        mixed = patterns["latin"].search(found) is not None
        alone = all(sign in _WHOLE_WORDS or sign.isascii() for sign in found)
        named = alone and (len(found) > 1 or any(sign in "-./$=@_~\\" for sign in beside))
        letters = _LOOKALIKES if mixed or named else frozenset[str]()
        return "".join(_escape(sign) if sign in letters or _is_form(sign) else sign for sign in found)

    text = patterns["words"].sub(word, text)
    return "".join(_escape(sign) if sign in _DRAWN_LIKE_SIGNS or _is_form(sign) else sign for sign in text)


@cache
def _is_form(sign: str) -> bool:
    """Whether a character is another form of an ASCII character: wide, mathematical, a Roman number."""
    if sign.isascii():
        return False
    kind = unicodedata.decomposition(sign)
    if not kind or kind.startswith(("<super>", "<sub>", "<fraction>", "<circle>", "<square>")):
        return False
    plain = unicodedata.normalize("NFKC", sign)
    return plain.isascii() and (kind.startswith(("<wide>", "<font>", "<small>")) or len(plain) == 1 or plain.isalpha())


def _collapsed(text: str) -> str:
    if len(text) <= _MAX_BLANKS and "\n" not in text:
        return text
    patterns = _patterns()

    def lines(match: Any) -> str:
        return f"{match.group(1)}⏎ {_TIMES}{match.group().count(chr(10)):,}\n"

    def blanks(match: Any) -> str:
        run: str = match.group()
        sign = "␠" if "\t" not in run else "⇥" if " " not in run else "␠⇥"
        return f"{sign} {_TIMES}{len(run):,}"

    return patterns["blanks"].sub(blanks, patterns["empty lines"].sub(lines, text))
