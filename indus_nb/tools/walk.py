"""Stands in for ripgrep and fd where they are missing: a program of its own, run with this file as its script.

Another process can be killed, and no regular expression, however bad, can hold up the one that asks. It prints what
the two would print with the options that ``search`` gives them, and uses nothing but the standard library and
pathspec, for it starts anew with each search.

``walk.py grep FILE PATTERN FLAGS CONTEXT GLOB`` prints ``path NUL number : line`` for each match, with ``-`` for
context lines, in ``FILE`` or, if that is empty, in all files below the current folder; ``FLAGS`` are the letters
``i`` (ignore case) and ``F`` (no expression). ``walk.py find PATTERN name`` prints paths, each ended by NUL; ``path``
instead of ``name`` matches absolute paths.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_LONGEST_LINE = 1 << 20
_LONGEST_SHOWN = 4096
_PROBE = 1 << 16

_STARS_WITHIN_A_NAME = re.compile(r"(?<![/\\])(?<!\A)\*{2,}|\*{2,}(?!/|\Z)")
_GLOB_PART = re.compile(
    r"(?:\A|(?<=/))\*\*/|(?:\A|(?<=/))\*\*\Z|\*+|\[[!^]?\]?[^\]]*\]|\\.|.",
    re.DOTALL,
)
_SIMPLE_PARTS = {"**/": "(?:.*/)?", "**": ".*", "?": "[^/]"}


def glob_expression(glob: str) -> str:
    """A regular expression for ``glob``, in which ``*`` stays within a name; raises ``ValueError``.

    >>> bool(re.fullmatch(glob_expression("**/*.{py,toml}"), "a/b.py"))
    True
    >>> bool(re.fullmatch(glob_expression("*.py"), "a/b.py"))
    False
    """
    out: list[str] = []
    depth = 0
    for part in _GLOB_PART.findall(_STARS_WITHIN_A_NAME.sub("*", glob)):
        if part in _SIMPLE_PARTS:
            out.append(_SIMPLE_PARTS[part])
        elif part[0] == "*":
            out.append("[^/]*")
        elif part[0] == "[" and len(part) > 1:
            out.append(_character_class(part))
        elif part == "{":
            depth += 1
            out.append("(?:")
        elif depth and part in "},":
            depth -= part == "}"
            out.append(")" if part == "}" else "|")
        else:
            out.append(re.escape(part[-1]))
    if depth:
        raise ValueError("a brace is not closed")
    return f"(?s:{''.join(out)})"


def _character_class(part: str) -> str:
    negated = part[1] in "!^"
    inner = re.sub(r"([\\\[]|([&~|-])(?=\2))", r"\\\1", part[1 + negated : -1])
    inner = "\\" + inner if inner[:1] in ("]", "^") else inner
    return f"(?!/)[{'^' if negated else ''}{inner}]"


class _Wanted:
    """A glob as ripgrep's ``--glob`` takes it: like a line of an ignore file, but for what is wanted."""

    def __init__(self, glob: str) -> None:
        self._negated = glob.startswith("!")
        pattern = glob.removeprefix("!")
        self._folders_only = pattern.endswith("/")
        pattern = pattern.rstrip("/")
        pattern = pattern.removeprefix("/") if "/" in pattern else f"**/{pattern}"
        self._expression = re.compile(glob_expression(pattern))

    def decide(self, path: str, *, folder: bool) -> bool | None:
        """Whether to take ``path`` whatever ignore files say; ``None`` leaves it to them."""
        if (folder or not self._folders_only) and self._expression.fullmatch(path):
            return not self._negated
        return None if self._negated or folder else False


class _Ignored:
    """The ignore files that hold in a folder: its own and those of the folders above it, by kind and nearest first."""

    def __init__(self, names: Sequence[str], held: Sequence[tuple[tuple[int, GitIgnoreSpec], ...]]) -> None:
        self._names = names
        self._held = held

    def within(self, folder: str) -> _Ignored:
        """What holds in ``folder``, an absolute path."""
        held: list[tuple[tuple[int, GitIgnoreSpec], ...]] = []
        for name, above in zip(self._names, self._held, strict=True):
            spec = _spec(Path(folder, name))
            # Git's own files end at the border of a repository.
            kept = () if name == ".gitignore" and Path(folder, ".git").exists() else above
            held.append(kept if spec is None else ((len(folder.rstrip("/")) + 1, spec), *kept))
        return _Ignored(self._names, held)

    def without_hiding(self, folder: str) -> _Ignored:
        """The same but for what hides ``folder`` itself: whoever asks for it wants to see it."""
        return _Ignored(
            self._names,
            [
                tuple((skip, spec) for skip, spec in kind if not spec.check_file(f"{folder[skip:]}/").include)
                for kind in self._held
            ],
        )

    def hides(self, path: str) -> bool:
        """Whether ``path``, absolute and with a slash at the end for a folder, is ignored."""
        for kind in self._held:
            for skip, spec in kind:
                decision = spec.check_file(path[skip:]).include
                if decision is not None:
                    return decision
        return False


def _spec(path: Path) -> GitIgnoreSpec | None:
    try:
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
    except OSError:
        return None
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines(line.rstrip("\r") for line in lines)
    except ValueError:  # one line is no pattern; the others still count
        return GitIgnoreSpec.from_lines(line for line in lines if _is_pattern(line))


def _is_pattern(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def _walk(root: str, own_ignore_file: str, wanted: _Wanted | None) -> Iterator[tuple[os.DirEntry[str], str, bool]]:
    """All entries below ``root`` that are not ignored, with path and whether they are folders, each folder by name."""
    names = (own_ignore_file, ".ignore", ".gitignore")
    ignored = _Ignored(names, [()] * len(names))
    for folder in reversed(Path(root).parents):
        ignored = ignored.within(str(folder))
    ignored = ignored.without_hiding(root).within(root)
    prefix = f"{root.rstrip('/')}/"
    stack = [(ignored, iter(_entries(root)))]
    while stack:
        ignored, entries = stack[-1]
        entry = next(entries, None)
        if entry is None:
            stack.pop()
            continue
        if entry.name == ".git":
            continue
        folder = entry.is_dir(follow_symlinks=False)
        path = entry.path[len(prefix) :]
        take = wanted.decide(path, folder=folder) if wanted else None
        if take is False or (take is None and ignored.hides(f"{entry.path}/" if folder else entry.path)):
            continue
        yield entry, path, folder
        if folder:
            stack.append((ignored.within(entry.path), iter(_entries(entry.path))))


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: os.fsencode(entry.name))
    except OSError:
        return []  # a folder that may not be read, or has gone meanwhile, holds nothing


def _find(pattern: str, matched: str) -> None:
    flags = 0 if any(map(str.isupper, pattern)) else re.IGNORECASE
    expression = re.compile(glob_expression(pattern), flags)
    out = sys.stdout.buffer
    for entry, path, folder in _walk(str(Path.cwd()), ".fdignore", None):
        if expression.fullmatch(entry.path if matched == "path" else entry.name):
            out.write(os.fsencode(path) + (b"/\0" if folder else b"\0"))


def _grep(file: str, pattern: str, flags: str, lines_around: str, glob: str) -> None:
    if "F" in flags:
        pattern = re.escape(pattern)
    context = int(lines_around)
    matches = re.compile(pattern, re.IGNORECASE if "i" in flags else 0).search
    if file:
        _grep_file(file, file, matches, context, binary=True)
        return
    for entry, path, _ in _walk(str(Path.cwd()), ".rgignore", _Wanted(glob) if glob else None):
        if entry.is_file(follow_symlinks=False):
            _grep_file(entry.path, path, matches, context, binary=False)


def _grep_file(path: str, name: str, matches: Callable[[str], object], context: int, *, binary: bool) -> None:
    try:
        with Path(path).open("rb") as raw:
            start = raw.read(_PROBE)
            encoding = "utf-16" if start.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
            if b"\0" in start and encoding != "utf-16" and not binary:
                return
            raw.seek(0)
            text = io.TextIOWrapper(raw, encoding=encoding, errors="replace", newline="\n")
            _grep_lines(text, os.fsencode(name) + b"\0", matches, context, binary=binary)
    except OSError:
        return  # as for folders


def _grep_lines(
    text: io.TextIOWrapper, prefix: bytes, matches: Callable[[str], object], context: int, *, binary: bool
) -> None:
    out = sys.stdout.buffer
    before: deque[tuple[int, str]] = deque(maxlen=context)
    number, shown, show_until = 1, 0, 0

    def show(shown_number: int, sign: str, line: str) -> None:
        out.write(prefix + f"{shown_number}{sign}{line[:_LONGEST_SHOWN]}\n".encode(errors="replace"))

    # What is longer than a line can reasonably be comes in parts that share a number.
    while part := text.readline(_LONGEST_LINE):
        if "\0" in part and not binary:
            return
        line = part.removesuffix("\n").removesuffix("\r")
        if shown < number:
            if matches(line):
                for earlier in before:
                    show(earlier[0], "-", earlier[1])
                before.clear()
                show(number, ":", line)
                shown, show_until = number, number + context
            elif number <= show_until:
                show(number, "-", line)
                shown = number
        if part.endswith("\n"):
            if shown < number:
                before.append((number, line[:_LONGEST_SHOWN]))
            number += 1


def _main(arguments: Sequence[str]) -> int:
    try:
        if arguments[0] == "find":
            _find(*arguments[1:])
        else:
            _grep(*arguments[1:])
        sys.stdout.flush()
    except (ValueError, re.error, OverflowError, RecursionError) as error:  # a pattern that is none
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
