"""Stand-in for ripgrep and fd where they are missing: a program of its own, run with this file as its script.

Another process can be killed, and no regular expression, however bad, can hold up the one that asks. It prints what
the two would print with the options that ``search`` gives them, and uses nothing but the standard library and
``indus_nb/base/ignore.py``, for it starts anew with each search.

``walk.py grep SECONDS FILE PATTERN FLAGS CONTEXT GLOB`` prints ``path NUL number : line`` for each match, with ``-``
for context lines, in ``FILE`` or, if that is empty, in all files below the current directory; ``FLAGS`` are the letters
``i`` (ignore case) and ``F`` (no expression). ``walk.py find SECONDS PATTERN name`` prints paths, each ended by NUL;
``path`` instead of ``name`` matches absolute paths.

A line that keeps the expression busy for ``HOPELESS_SECONDS`` is given up with the rest of its file, which is printed
as ``path NUL ?``. After ``SECONDS`` the search ends, and the place that it had come to is printed: as ``path NUL !``,
and of ``find`` behind an empty path.
"""

from __future__ import annotations

import io
import os
import re
import signal
import stat
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from indus_nb.base.ignore import IgnoreFile, PathGlob
else:  # as a program: importing the package would take longer than most searches
    from importlib.util import module_from_spec, spec_from_file_location

    _spec = spec_from_file_location("indus_nb_ignore", Path(__file__).parents[2] / "base" / "ignore.py")
    assert _spec is not None and _spec.loader is not None  # noqa: PT018, S101
    _ignore = module_from_spec(_spec)
    _spec.loader.exec_module(_ignore)
    IgnoreFile, PathGlob = _ignore.IgnoreFile, _ignore.PathGlob

HOPELESS_SECONDS = 2.0
_LOOK_SECONDS = 0.25
_MAX_LINE_CHARACTERS = 1 << 20
_MAX_SHOWN_CHARACTERS = 4096
_PROBE = 1 << 16
_MAX_IGNORE_FILE_BYTES = 1 << 20
_MAX_ALTERNATIVES = 1000
_BRACKET = re.compile(r"\[[!^]?\]?[^\]]*\]", re.DOTALL)


class Glob:
    """A glob as ripgrep and fd have them: those of ignore files, and alternatives in braces.

    >>> Glob("**/*.{py,toml}").fits("a/b.py")
    True
    >>> Glob("*.py").fits("a/b.py")
    False
    """

    def __init__(self, glob: str, *, ignore_case: bool = False) -> None:
        """Parse ``glob``; raises ``ValueError``."""
        self._globs = [PathGlob(each, ignore_case=ignore_case) for each in _alternatives(glob)]

    def fits(self, path: str) -> bool:
        """Return whether ``path`` matches."""
        names = path.split("/")
        return any(glob.fits(names) for glob in self._globs)


def _alternatives(glob: str) -> list[str]:
    """Expand the braces of ``glob``."""
    # Each open brace: what stands before it, its finished alternatives, and those being written.
    stack: list[tuple[list[str], list[str]]] = []
    current = [""]
    at = 0
    while at < len(glob):
        end = at + 1
        if glob[at] == "{":
            stack.append((current, []))
            current = [""]
        elif stack and glob[at] == ",":
            stack[-1][1].extend(current)
            current = [""]
        elif stack and glob[at] == "}":
            before, finished = stack.pop()
            finished += current
            if len(before) * len(finished) > _MAX_ALTERNATIVES:
                raise ValueError(f"the braces stand for more than {_MAX_ALTERNATIVES} alternatives")
            current = [first + second for first in before for second in finished]
        else:
            bracket = _BRACKET.match(glob, at)
            end = bracket.end() if bracket else at + 2 if glob[at] == "\\" else end
            current = [text + glob[at:end] for text in current]
        at = end
    if stack:
        raise ValueError("a brace is not closed")
    return current


class _Wanted:
    """A glob as in ripgrep's ``--glob``: like a line of an ignore file, but for what is wanted."""

    def __init__(self, glob: str) -> None:
        self._negated = glob.startswith("!")
        pattern = glob.removeprefix("!")
        self._directories_only = pattern.endswith("/")
        pattern = pattern.rstrip("/")
        pattern = pattern.removeprefix("/") if "/" in pattern else f"**/{pattern}"
        self._glob = Glob(pattern)

    def decide(self, path: str, *, directory: bool) -> bool | None:
        """Decide whether to include ``path`` regardless of ignore files; ``None`` leaves it to them."""
        if (directory or not self._directories_only) and self._glob.fits(path):
            return not self._negated
        return None if self._negated or directory else False


class _Ignored:
    """The ignore files that hold in a directory: its own and those above it, by kind and nearest first."""

    def __init__(self, names: Sequence[str], held: Sequence[tuple[tuple[int, IgnoreFile], ...]]) -> None:
        self._names = names
        self._held = held

    def within(self, directory: str) -> _Ignored:
        """Return the rules that hold in ``directory``, an absolute path."""
        held: list[tuple[tuple[int, IgnoreFile], ...]] = []
        for name, above in zip(self._names, self._held, strict=True):
            ignored = _ignore_file(f"{directory}/{name}")
            # Git's own files end at the border of a repository.
            kept = () if name == ".gitignore" and Path(directory, ".git").exists() else above
            held.append(((len(directory.rstrip("/")) + 1, ignored), *kept) if ignored else kept)
        return _Ignored(self._names, held)

    def without_hiding(self, directory: str) -> _Ignored:
        """Return the rules without those that hide ``directory`` itself, as the caller asked for it."""
        return _Ignored(
            self._names,
            [
                tuple((skip, ignored) for skip, ignored in kind if not ignored.hides_within(directory[skip:]))
                for kind in self._held
            ],
        )

    def hides(self, path: str) -> bool:
        """Return whether ``path``, absolute and with a slash at the end for a directory, is ignored."""
        for kind in self._held:
            for skip, ignored in kind:
                decision = ignored.hides(path[skip:])
                if decision is not None:
                    return decision
        return False


def _ignore_file(path: str) -> IgnoreFile | None:
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            content = file.read(_MAX_IGNORE_FILE_BYTES).removeprefix(b"\xef\xbb\xbf")
    except OSError:
        return None
    return IgnoreFile(content.decode(errors="surrogateescape").split("\n"))


def _open_at_once(path: str, flags: int) -> int:
    # Opening a named pipe would block until something writes to it.
    return os.open(path, flags | os.O_NONBLOCK)


class _HopelessError(Exception):
    """An expression takes too long on one line."""


class _OutOfTimeError(Exception):
    """The whole search took too long."""


class _Watch:
    """Watchdog of a search's progress: its signal can interrupt an expression at work."""

    def __init__(self, seconds: float) -> None:
        self.place = ""
        self.line = 0
        """Counts the lines that were given to the expression; 0 while it has none."""
        self._seen = 0
        self._since = 0.0
        self._until = time.monotonic() + seconds
        signal.signal(signal.SIGALRM, self._look)
        signal.setitimer(signal.ITIMER_REAL, _LOOK_SECONDS, _LOOK_SECONDS)

    def _look(self, _signal: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if now > self._until:
            self._until = float("inf")  # what is raised now must not be raised again on its way out
            raise _OutOfTimeError
        if self.line != self._seen:
            self._seen, self._since = self.line, now
        elif self.line and now - self._since > HOPELESS_SECONDS:
            self._seen = 0
            raise _HopelessError


def walk(
    root: str, own_ignore_file: str = ".fdignore", wanted: _Wanted | None = None
) -> Iterator[tuple[os.DirEntry[str], str, bool]]:
    """List all entries below a directory that are not ignored, each directory by name.

    Args:
        own_ignore_file: The name of a kind of ignore file that counts besides git's.
        wanted: Globs to include or leave out regardless of ignore files.

    Returns:
        Each entry, its path below ``root``, and whether it is a directory.
    """
    names = (own_ignore_file, ".ignore", ".gitignore")
    ignored = _Ignored(names, [()] * len(names))
    for directory in reversed(Path(root).parents):
        ignored = ignored.within(str(directory))
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
        directory = entry.is_dir(follow_symlinks=False)
        path = entry.path[len(prefix) :]
        included = wanted.decide(path, directory=directory) if wanted else None
        if included is False or (included is None and ignored.hides(f"{entry.path}/" if directory else entry.path)):
            continue
        yield entry, path, directory
        if directory:
            stack.append((ignored.within(entry.path), iter(_entries(entry.path))))


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return sorted(entries, key=lambda entry: os.fsencode(entry.name))
    except OSError:
        return []  # a directory that may not be read, or has gone meanwhile, holds nothing


def _find(watch: _Watch, pattern: str, matched: str) -> None:
    glob = Glob(pattern, ignore_case=not any(map(str.isupper, pattern)))
    out = sys.stdout.buffer
    for entry, path, directory in walk(str(Path.cwd())):
        watch.place = path
        if glob.fits(entry.path if matched == "path" else entry.name):
            out.write(os.fsencode(path) + (b"/\0" if directory else b"\0"))


def _grep(watch: _Watch, file: str, pattern: str, flags: str, lines_around: str, glob: str) -> None:
    if "F" in flags:
        pattern = re.escape(pattern)
    search = _Search(watch, re.compile(pattern, re.IGNORECASE if "i" in flags else 0).search, int(lines_around))
    if file:
        search.file(file, file, binary=True)
        return
    for entry, path, _ in walk(str(Path.cwd()), ".rgignore", _Wanted(glob) if glob else None):
        if entry.is_file(follow_symlinks=False):
            search.file(entry.path, path, binary=False)


class _Search:
    """Search that prints the lines of files that match, and those around them."""

    def __init__(self, watch: _Watch, matches: Callable[[str], object], context: int) -> None:
        self._watch = watch
        self._matches = matches
        self._context = context
        self._lines = 0

    def file(self, path: str, name: str, *, binary: bool) -> None:
        self._watch.place = name
        try:
            with Path(path).open("rb") as raw:
                start = raw.read(_PROBE)
                encoding = "utf-16" if start.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
                if b"\0" in start and encoding != "utf-16" and not binary:
                    return
                raw.seek(0)
                text = io.TextIOWrapper(raw, encoding=encoding, errors="replace", newline="\n")
                self._search(text, os.fsencode(name) + b"\0", binary=binary)
        except _HopelessError:
            sys.stdout.buffer.write(os.fsencode(name) + b"\0?\n")
        except OSError:
            return  # as for directories
        finally:
            self._watch.line = 0

    def _search(self, text: io.TextIOWrapper, prefix: bytes, *, binary: bool) -> None:
        out = sys.stdout.buffer
        before: deque[tuple[int, str]] = deque(maxlen=self._context)
        number, shown, show_until = 1, 0, 0

        def show(shown_number: int, sign: str, line: str) -> None:
            out.write(prefix + f"{shown_number}{sign}{line[:_MAX_SHOWN_CHARACTERS]}\n".encode(errors="replace"))

        # What is longer than a line can reasonably be comes in parts that share a number.
        while part := text.readline(_MAX_LINE_CHARACTERS):
            if "\0" in part and not binary:
                return
            line = part.removesuffix("\n").removesuffix("\r")
            if shown < number:
                self._lines += 1
                self._watch.line = self._lines
                found = self._matches(line)
                self._watch.line = 0
                if found:
                    for earlier in before:
                        show(earlier[0], "-", earlier[1])
                    before.clear()
                    show(number, ":", line)
                    shown, show_until = number, number + self._context
                elif number <= show_until:
                    show(number, "-", line)
                    shown = number
            if part.endswith("\n"):
                if shown < number:
                    before.append((number, line[:_MAX_SHOWN_CHARACTERS]))
                number += 1


def _main(arguments: Sequence[str]) -> int:
    watch = _Watch(float(arguments[1]))
    try:
        if arguments[0] == "find":
            _find(watch, *arguments[2:])
        else:
            _grep(watch, *arguments[2:])
    except _OutOfTimeError:
        place = os.fsencode(watch.place)
        sys.stdout.buffer.write(b"\0%b\0" % place if arguments[0] == "find" else b"%b\0!\n" % place)
    except (ValueError, re.error, OverflowError, RecursionError) as error:  # a pattern that is none
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
