r"""Text as a question shows it: what is invisible, or looks like something else, as an escape such as ``\u200b``.

What this module promises: two texts that do different things do not look the same. Characters are judged by their
Unicode properties: whether they are drawn, whether they are a blank, what they are composed of, which script they
belong to, how signs are named. What is known to be unmistakable stays: words of a script that languages are written in
today, and signs of ordinary text. In a word with letters a-z no letter of an alphabet that shares shapes with it stays;
a table knows those of which whole words can be written that look like others. Long runs of blanks and of empty lines
are shown as their number, so that nothing can be pushed out of sight.
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
_MISTAKABLE = (
    _WHOLE_WORDS
    | frozenset(  # with Greek ones, which stand alone in formulas
        "\u03bf\u03bd\u03c1\u03b9\u03c5\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1"
        "\u03a4\u03a5\u03a7\u03f2\u03f3\u03f9\u037f\u03b1\u03b3\u03b7\u03ba\u03c3\u03c4\u03c7\u03c9"
    )
    | frozenset(  # with strokes and rings of other scripts
        "\u4e00\u4e28\u4e36\u4e3f\u3007\u30fc\u30ce\u30cb\u30ed\u4e8c\u53e3\u5de5\u3161\u3163\u3147\u3127"
        "\u05df\u05e1\u0627\u0647\u0e17\u0e19\u0e1a\u0e23\u0e1e"
    )
)
"""Letters of which at least two letters of a word may look like others."""
_LIKE_SIGNS = frozenset("\u01c3\ua789\ua78c\ua78f\u22c6")
"""Letters and a symbol that are drawn like one of ``! : ' . *``."""
_ORDINARY = frozenset(
    "\u00a1\u00a7\u00ab\u00b6\u00b7\u00bb\u00bf\u2013\u2014\u2018\u2019\u201c\u201d\u201e\u2020\u2021\u2022\u2026"
    "\u2030\u060c\u061b\u061f\u3001\u3002\u300a\u300b\u300c\u300d\u300e\u300f\u3010\u3011\u00b1\u2264\u2265"
)
"""Signs of ordinary text that no reader takes for ASCII; all other punctuation is an escape."""
_NAMES_OF_SIGNS = frozenset(
    (
        *("EXCLAMATION", "QUOTATION", "DOLLAR", "PERCENT", "AMPERSAND", "APOSTROPHE", "PARENTHESIS", "ASTERISK"),
        *("PLUS", "COMMA", "HYPHEN", "MINUS", "STOP", "SOLIDUS", "COLON", "SEMICOLON", "LESS", "GREATER", "EQUALS"),
        *("QUESTION", "BRACKET", "CIRCUMFLEX", "LINE", "GRAVE", "TILDE", "SLASH", "BACKSLASH", "DASH", "PRIME"),
        *("ACUTE", "BAR", "STROKE", "DIVIDES", "PARALLEL", "RATIO", "DIAGONAL", "DOT", "BULLET", "ARROWHEAD"),
    )
)
"""Words in the names of symbols that are drawn like a sign of ASCII: its own name, and what else such are called."""
_PIPES = "\u2502\u2503\u2506\u2507\u250a\u250b\u254e\u254f\uffe8"
_UNMISTAKABLE_GREEK = "\u0393\u0394\u039b\u039e\u03a0\u03a3\u03a8\u03a9\u03b4\u03bb\u03be\u03c0\u03c8"
"""Letters of formulas that no letter of a-z looks like: they may stand in a word with those."""
_SHARES_SHAPES = r"\p{Latin}\p{Greek}\p{Cyrillic}\p{Armenian}"
_WRITTEN_TODAY = (
    rf"{_SHARES_SHAPES}\p{{Arabic}}\p{{Bengali}}\p{{Bopomofo}}\p{{Devanagari}}\p{{Ethiopic}}\p{{Georgian}}\p{{Gujarati}}"
    r"\p{Gurmukhi}\p{Han}\p{Hangul}\p{Hebrew}\p{Hiragana}\p{Kannada}\p{Katakana}\p{Khmer}\p{Lao}\p{Malayalam}"
    r"\p{Myanmar}\p{Oriya}\p{Sinhala}\p{Tamil}\p{Telugu}\p{Thaana}\p{Thai}\p{Tibetan}\p{Common}\p{Inherited}"
)
"""Scripts that UAX 31 recommends for names; many of the others have whole alphabets drawn like A-Z."""
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
    """Return whether a text is one line that is shown as it is."""
    return "\n" not in text and "\t" not in text and visible(text) == text


def has_right_to_left(text: str) -> bool:
    """Return whether a display may reorder parts of a text."""
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
        "words": regex.compile(r"[\w\p{No}]+", regex.V1),
        "latin": regex.compile(r"[A-Za-z]", regex.V1),
        "in latin": regex.compile(  # what stays in a word with a-z; letters of other alphabets, two of them at least
            rf"[\p{{M}}[\p{{No}}&&\p{{Common}}]\u00aa\u00b5\u00ba\u00c0-\u024f\u1e00-\u1eff{_UNMISTAKABLE_GREEK}]"
            r"|[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Bopomofo}\u30fc]+"
            rf"|[{_WRITTEN_TODAY}--[{_SHARES_SHAPES}\p{{Common}}\p{{Nd}}]]{{2,}}",
            regex.V1,
        ),
        "written today": regex.compile(rf"[{_WRITTEN_TODAY}]", regex.V1),
        "options": regex.compile(r"(?<!\S)[\u2013\u2014\u2500\u2501]+(?=\w)", regex.V1),
        "pipes": regex.compile(rf"(?m)^(?![ \t+\-]*[\u2500-\u257f]).*[{_PIPES}].*$", regex.V1),
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
    """Escape letters that look like a-z, and signs that look like ASCII."""
    patterns = _patterns()

    def word(match: Any) -> str:
        found: str = match.group()
        if found.isascii():
            return found
        start, end = match.span()
        stays: set[int] = set()
        if patterns["latin"].search(found) is not None:
            for kept in patterns["in latin"].finditer(found):
                stays.update(() if _MISTAKABLE.issuperset(kept.group()) else range(*kept.span()))
        elif not _is_mistakable(found, text[start - 1 : start] + text[end : end + 1]):
            stays = {kept.start() for kept in patterns["written today"].finditer(found)}
        shown = (sign if sign.isascii() or at in stays else _escape(sign) for at, sign in enumerate(found))
        return "".join(shown)

    text = patterns["words"].sub(word, text)
    text = patterns["options"].sub(_escaped, text)
    text = patterns["pipes"].sub(_without_pipes, text)
    return "".join(_escape(sign) if _is_like_a_sign(sign) or _is_form(sign) else sign for sign in text)


def _is_mistakable(word: str, beside: str) -> bool:
    """Return whether a word without a-z may be read as one of them, a number, or a one-letter option."""
    if not all(sign in _MISTAKABLE or sign.isascii() or sign.isdecimal() for sign in word):
        return False
    within = any(sign.isascii() for sign in word) or any(sign in "-./$=@_~\\" for sign in beside)
    return within or sum(sign in _MISTAKABLE for sign in word) > 1


def _without_pipes(line: Any) -> str:
    """Escape vertical strokes of a line that is not of a table or tree."""
    return "".join(_escape(sign) if sign in _PIPES else sign for sign in line.group())


@cache
def _is_like_a_sign(sign: str) -> bool:
    """Return whether a character is drawn like ASCII punctuation, or could be."""
    kind = unicodedata.category(sign)
    if sign.isascii() or sign in _ORDINARY:
        return False
    words = unicodedata.name(sign, "").replace("-", " ").split()
    return (
        kind[0] == "P"
        or sign in _LIKE_SIGNS
        or ((kind[0] == "S" or kind == "Lm") and not _NAMES_OF_SIGNS.isdisjoint(words))
    )


@cache
def _is_form(sign: str) -> bool:
    """Return whether a character is another form of an ASCII one: wide, mathematical, a Roman number."""
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
