"""Ignore files and globs, as https://git-scm.com/docs/gitignore has them, matched in bounded time.

A pattern may come from an untrusted repository. So none of them becomes an expression that backtracks behind a star:
a name of n characters and a pattern of m need at most n * m steps, a path of n names and a pattern of m parts n * m
names.

The module needs the standard library only: ``tools.files.walk`` loads it into a process of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

MAX_LINE = 4096
"""Longest pattern, in characters. Longer lines of ignore files are skipped: no path is as long."""

_POSIX_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": " \t",
    "cntrl": "\0-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \t-\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}

NameTest = Callable[[str], bool]
_Token = str | tuple[str] | None
"""A character, an expression for one character, or a star."""


def fits(tests: Sequence[NameTest | None], names: Sequence[str]) -> bool:
    """Return whether the names of a path pass tests, one each.

    Args:
        tests: A test for each name; ``None`` stands for any number of names.

    Returns:
        Whether all pass, and no name is left.
    """
    pieces: list[list[NameTest]] = [[]]
    for test in tests:
        if test is None:
            pieces.append([])
        else:
            pieces[-1].append(test)
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return len(names) == len(first) and _passes(first, names, 0)
    at, end = len(first), len(names) - len(last)
    if at > end or not _passes(first, names, 0) or not _passes(last, names, end):
        return False
    # Each piece is sought where it comes first, and never again further on.
    for piece in pieces[1:-1]:
        while at + len(piece) <= end and not _passes(piece, names, at):
            at += 1
        at += len(piece)
    return at <= end


def _passes(tests: Sequence[NameTest], names: Sequence[str], at: int) -> bool:
    return all(test(names[at + offset]) for offset, test in enumerate(tests))


class PathGlob:
    """A glob for the names of a path: ``*`` stays within a name, ``**`` stands for any number of them.

    >>> PathGlob("src/**/*.py").fits(["src", "a", "b.py"])
    True
    >>> PathGlob("src/*.py").fits(["src", "a", "b.py"])
    False
    """

    def __init__(self, glob: str, *, ignore_case: bool = False) -> None:
        """Parse ``glob``.

        Raises:
            ValueError: A bracket is not closed, or nothing follows a backslash.
        """
        parts = _parse(glob)
        self._tests = [None if _is_any_path(part) else _name_test(part, ignore_case=ignore_case) for part in parts]
        if self._tests[-1] is None:
            # What two stars at the end fit is something in the directory, not the directory.
            self._tests.append(_anything)

    def fits(self, names: Sequence[str]) -> bool:
        """Return whether the path of these names matches."""
        return fits(self._tests, names)


class IgnoreFile:
    """Patterns of an ignore file; broken ones are skipped.

    >>> ignored = IgnoreFile(["*.log", "!kept.log", "/build/"])
    >>> [ignored.hides(path) for path in ("src/a.log", "src/kept.log", "build/", "src/build/")]
    [True, False, True, None]
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = [line for line in map(_line, lines) if line is not None]
        self._lines.reverse()

    def __bool__(self) -> bool:
        return bool(self._lines)

    def hides(self, path: str) -> bool | None:
        """Return whether ``path`` is ignored, ``None`` when no line matches.

        Args:
            path: Relative to the file's directory, with a slash at the end for a directory.
        """
        names = path.rstrip("/").split("/")
        directory = path.endswith("/")
        for line in self._lines:
            if line.fits(names, directory=directory):
                return line.hides
        return None

    def hides_within(self, path: str) -> bool:
        """Return whether the directory ``path`` or one of its parents is ignored."""
        names = path.strip("/").split("/")
        return any(self.hides("/".join(names[:depth]) + "/") for depth in range(1, len(names) + 1))


class _Line:
    def __init__(self, pattern: str) -> None:
        self.hides = not pattern.startswith("!")
        pattern = pattern.removeprefix("!")
        self._directories_only = pattern.endswith("/")
        pattern = pattern.removesuffix("/")
        if not pattern:
            raise ValueError("nothing is named")
        self._name: NameTest | None = None
        if "/" in pattern:
            self._path = PathGlob(pattern.removeprefix("/"))
        else:
            self._name = _name_test(_parse(pattern)[0], ignore_case=False)

    def fits(self, names: Sequence[str], *, directory: bool) -> bool:
        if self._directories_only and not directory:
            return False
        return self._path.fits(names) if self._name is None else self._name(names[-1])


def _line(text: str) -> _Line | None:
    text = _without_blanks(text.removesuffix("\r"))
    if not text or text.startswith("#") or len(text) > MAX_LINE:
        return None
    try:
        return _Line(text)
    except ValueError:
        return None


def _without_blanks(line: str) -> str:
    """Strip the blanks at the end of a line, except one behind a backslash."""
    end = 0
    characters = iter(enumerate(line, 1))
    for at, character in characters:
        if character == "\\":
            end = next(characters, (at, ""))[0]
        elif character != " ":
            end = at
    return line[:end]


# Patterns


def _parse(glob: str) -> list[list[_Token]]:
    parts: list[list[_Token]] = [[]]
    at = 0
    while at < len(glob):
        character = glob[at]
        at += 1
        if character == "\\":
            if at == len(glob):
                raise ValueError("nothing follows a backslash")
            character, at = glob[at], at + 1
            if character != "/":
                parts[-1].append(character)
                continue
        if character == "/":
            parts.append([])
        elif character == "*":
            parts[-1].append(None)
        elif character == "?":
            parts[-1].append((".",))
        elif character == "[":
            expression, at = _bracket(glob, at)
            parts[-1].append((expression,))
        else:
            parts[-1].append(character)
    return parts


def _bracket(glob: str, at: int) -> tuple[str, int]:
    """Translate the bracket that begins at ``at`` to a regular expression; return it and where the bracket ends."""
    try:
        negated = glob[at] in "!^"
        at += negated
        body = ""
        before: str | None = None
        begin = at
        while glob[at] != "]" or at == begin:
            if glob[at] == "-" and before is not None and glob[at + 1] != "]":
                at += 2 if glob[at + 1] == "\\" else 1
                body += f"{_escaped(before)}-{_escaped(glob[at])}" if before <= glob[at] else ""
                before = None
            elif glob.startswith("[:", at) and glob[glob.index("]", at + 2) - 1] == ":" and glob[at + 2] != "]":
                end = glob.index("]", at + 2)
                body += _posix_class(glob[at + 2 : end - 1])
                at, before = end, None
            else:
                at += glob[at] == "\\"
                before = glob[at]
                body += _escaped(before)
            at += 1
    except IndexError:
        raise ValueError("a bracket is not closed") from None
    if negated:
        return (f"[^{body}]" if body else "."), at + 1
    return (f"[{body}]" if body else r"(?!)"), at + 1


def _posix_class(name: str) -> str:
    if name not in _POSIX_CLASSES:
        raise ValueError(f"[:{name}:] is no class of characters")
    return _POSIX_CLASSES[name]


def _escaped(character: str) -> str:
    return f"\\U{ord(character):08x}"


def _is_any_path(part: Sequence[_Token]) -> bool:
    return len(part) > 1 and not any(token is not None for token in part)


def _anything(_name: str) -> bool:
    return True


def _name_test(part: Sequence[_Token], *, ignore_case: bool) -> NameTest:
    """Build a test of a single name; most patterns are so simple that they need no expression."""
    pieces: list[list[str | tuple[str]]] = [[]]
    for token in part:
        if token is None:
            pieces.append([])
        else:
            pieces[-1].append(token)
    # Of stars that follow each other one is enough.
    pieces = [pieces[0], *(piece for piece in pieces[1:-1] if piece), *pieces[1:][-1:]]
    texts = [text for text in map(_text, pieces) if text is not None]
    if ignore_case or len(pieces) > 2 or len(texts) < len(pieces):
        return _Expression(pieces, re.IGNORECASE if ignore_case else re.NOFLAG)
    first, last = texts[0], texts[-1]
    if len(texts) == 1:
        return first.__eq__
    if not first:
        return (lambda name: name.endswith(last)) if last else _anything
    return lambda name: len(name) >= len(first) + len(last) and name.startswith(first) and name.endswith(last)


def _text(piece: Sequence[str | tuple[str]]) -> str | None:
    characters = [each for each in piece if isinstance(each, str)]
    return "".join(characters) if len(characters) == len(piece) else None


class _Expression:
    """A name with stars, compiled when it is first needed."""

    def __init__(self, pieces: Sequence[Sequence[str | tuple[str]]], flags: re.RegexFlag) -> None:
        self._pieces = pieces
        self._flags = flags
        self._fixed = sum(map(len, pieces))
        self._fullmatch: Callable[[str], object] | None = None

    def __call__(self, name: str) -> bool:
        if len(name) < self._fixed:
            return False
        if self._fullmatch is None:
            self._fullmatch = self._compiled().fullmatch
        return self._fullmatch(name) is not None

    def _compiled(self) -> re.Pattern[str]:
        first, *rest = (
            "".join(re.escape(each) if isinstance(each, str) else each[0] for each in piece) for piece in self._pieces
        )
        # Each piece is sought where it comes first, and never again further on: (?>…) forgets the way back.
        between = "".join(f"(?>.*?{piece})" for piece in rest[:-1])
        return re.compile(f"{first}{between}{f'.*{rest[-1]}' if rest else ''}", self._flags | re.DOTALL)
