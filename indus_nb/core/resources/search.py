"""Looks for the files of users and projects, and reads them, within bounds.

What this module promises: whatever is wrong with a file becomes a ``Diagnostic`` instead of an exception, what cannot
be used is left out, and the rest is used. A project's files are looked at only once it is trusted, so the bounds, on
the entries of directories and the bytes of a file, are for mistakes: a slow disk, a place that holds far too much.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeVar

from indus_nb.base.ignore import MAX_LINE, IgnoreFile, fits
from indus_nb.base.wire import clean_text
from indus_nb.core.resources.frontmatter import UnusableFileError, read_fields, read_text, split_frontmatter

Scope = Literal["project", "user", "temporary"]
Kind = Literal["file", "directory"]

SKILL_FILE = "SKILL.md"
_MAX_FRONTMATTER_CHARACTERS = 16 << 10
_MAX_ENTRIES_PER_SOURCE = 10_000
_MAX_DIAGNOSTICS = 100
_IGNORE_NAMES = (".gitignore", ".ignore", ".fdignore")


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A problem with a user's files; the session continues without what could not be used."""

    path: Path
    problem: str

    def __str__(self) -> str:
        return clean_text(f"{self.path} {self.problem}")


class _Named(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def path(self) -> Path: ...


NamedT = TypeVar("NamedT", bound=_Named)


class Place(NamedTuple):
    """A file, or a directory to search; ``loose`` is whether Markdown files right in it are skills."""

    path: Path
    loose: bool = True


class Source(NamedTuple):
    """The places of one scope: those in a list, which may be relative to ``directory``, before the usual ones."""

    scope: Scope
    directory: Path
    listed: Sequence[str]
    usual: Sequence[Place] = ()


class Ignored(NamedTuple):
    """Lines of the ignore files in ``directory``, and those that hold in the directories above it."""

    directory: Path
    file: IgnoreFile
    above: Ignored | None


class Search:
    """One look at all files: what it found wrong, and how many entries of directories it may still look at.

    Args:
        agent_dir: The user's own directory; no file elsewhere may be a link into it.
    """

    def __init__(self, home: Path, cwd: Path, agent_dir: Path) -> None:
        self._home = home
        self._here = Path(os.path.realpath(cwd))
        self._agent_dir = agent_dir
        self._entries_left = _MAX_ENTRIES_PER_SOURCE
        self.diagnostics: list[Diagnostic] = []

    def once_each(self, found: Iterable[NamedT]) -> list[NamedT]:
        """Keep the first of each name, and report the others."""
        chosen: dict[str, NamedT] = {}
        for one in found:
            first = chosen.setdefault(one.name, one)
            if first is not one:
                self.report(one.path, f"is not used: {first.path} has the name {one.name} already. Rename one of them")
        return list(chosen.values())

    def described(self, path: Path) -> tuple[dict[str, str], str] | None:
        """Return the frontmatter's texts and the body of the file, or ``None`` if something is wrong with it."""
        text = self.text(path)
        if text is None:
            return None
        front, body = split_frontmatter(text)
        if len(front) > _MAX_FRONTMATTER_CHARACTERS:
            self.report(path, "is not used: its frontmatter is longer than 16 KiB. Move text to the body")
            return None
        try:
            fields = read_fields(front)
        except UnusableFileError as error:
            self.report(path, f"is not used: {error}")
            return None
        texts = {key: clean_text(value.strip()) for key, value in fields.items() if isinstance(value, str)}
        return {key: value for key, value in texts.items() if value not in ("null", "~")}, body

    def text(self, path: Path) -> str | None:
        """Read a file; ``None`` if it is not there or cannot be used."""
        if self._leads_to_secrets(path):
            self.report(path, "is not used: it leads to a place that keys and passwords are kept in. Put a file there")
            return None
        try:
            return read_text(path)
        except UnusableFileError as error:
            self.report(path, f"is not used: it {error}")
        except OSError as error:
            if not isinstance(error, FileNotFoundError | NotADirectoryError):
                self.report(path, f"cannot be read ({error.strerror}). Make it a file that you may read, or remove it")
        return None

    def _leads_to_secrets(self, path: Path) -> bool:
        """Return whether a path is a link to a file that keeps secrets, such as keys."""
        real = os.path.realpath(path)
        if real == str(path):
            return False
        from indus_nb.tools.files.reach import keeps_secrets  # most files are no links

        private = [] if path.is_relative_to(self._agent_dir) else [Path(os.path.realpath(self._agent_dir))]
        return keeps_secrets(Path(real), self._here, private)

    def files(self, sources: Iterable[Source], find: Callable[[Place], Iterator[Path]]) -> Iterator[tuple[Path, Scope]]:
        """Find the files in all places, without those that their scope's settings exclude.

        Args:
            find: Called for each place; yields the files in it.

        Yields:
            Each file with its scope, once, whatever number of paths leads to it.
        """
        seen: set[str] = set()
        for source in sources:
            # So that a project which asks for too much does not use up what its user's own places need.
            self._entries_left = _MAX_ENTRIES_PER_SOURCE
            choice = _Choice(source, self._home)
            listed = [Place(path) for wanted in choice.listed for path in self._reachable(wanted)]
            for place in (*listed, *source.usual):
                for path in find(place):
                    real = os.path.realpath(path)
                    if real in seen or not choice.includes(path):
                        continue
                    seen.add(real)
                    if clean_text(str(path)) == str(path):
                        yield path, source.scope
                    else:
                        self.report(path, "is not used: its path is not UTF-8. Rename it")

    def shown(self, directory: Path, ignored: Ignored | None) -> list[tuple[Path, Kind]]:
        """List the files and directories in a directory that are neither hidden nor ignored.

        Returns:
            The paths and their kinds, sorted by name.
        """
        shown: list[tuple[Path, Kind]] = []
        for entry in self._entries(directory):
            path, kind = directory / entry.name, kind_of(entry)
            if kind and not self.hides(path, ignored, directory=kind == "directory"):
                shown.append((path, kind))
        return shown

    def markdown(self, path: Path) -> Iterator[Path]:
        """Yield a file that is Markdown by its name, and report any other."""
        if path.suffix == ".md":
            yield path
        else:
            self.report(path, "is not used: it is no Markdown file. Name one that ends in .md, or a directory")

    def ignored(self, directory: Path, above: Ignored | None) -> Ignored | None:
        """Read the ignore files of a directory."""
        # Only from where the search began: that a repository ignores its users' skills does not concern them.
        lines: list[str] = []
        for name in _IGNORE_NAMES:
            lines += (self.text(directory / name) or "").split("\n")
        file = IgnoreFile(lines)
        return Ignored(directory, file, above) if file else above

    @staticmethod
    def hides(path: Path, ignored: Ignored | None, *, directory: bool) -> bool:
        """Return whether ignore files leave out a path.

        Args:
            path: The path, below the directories that ``ignored`` is of.
            ignored: What holds where the path is.

        Returns:
            The decision of the nearest ignore file that has one; ``False`` if none has.
        """
        while ignored:
            name = path.relative_to(ignored.directory).as_posix()
            decision = ignored.file.hides(f"{name}/" if directory else name)
            if decision is not None:
                return decision
            ignored = ignored.above
        return False

    def _reachable(self, wanted: Path) -> list[Path]:
        """Return the paths that ``wanted``, a path or a glob, means."""
        if not any("*" in part or "?" in part for part in wanted.parts):
            if kind_of(wanted) is None:
                self.report(
                    wanted,
                    "is named in settings or on the command line and is neither file nor directory. Correct it there",
                )
                return []
            return [wanted]
        start, *parts = wanted.parts
        paths = [Path(start)]
        for part in parts:
            if part == "**":
                paths = list(dict.fromkeys(below for path in paths for below in self._directories(path)))
            elif "*" in part or "?" in part:
                paths = [
                    path / entry.name
                    for path in paths
                    if kind_of(path) == "directory"
                    for entry in self._entries(path)
                    if fnmatchcase(entry.name, part)
                ]
            else:
                paths = [path / part for path in paths]
        return list(dict.fromkeys(path for path in paths if kind_of(path)))

    def _directories(self, top: Path) -> Iterator[Path]:
        """Yield ``top`` and the directories below it; symlinks are not followed, since ``**`` could run in circles."""
        stack = [top] if kind_of(top) == "directory" else []
        while stack:
            directory = stack.pop()
            yield directory
            below = [directory / entry.name for entry in self._entries(directory) if not entry.is_symlink()]
            stack += [path for path in reversed(below) if kind_of(path) == "directory"]

    def _entries(self, directory: Path) -> list[os.DirEntry[str]]:
        """List a directory by name, without what is hidden or installed."""
        left = self._entries_left
        if left < 0:  # reported already
            return []
        try:
            with os.scandir(directory) as entries:
                found = list(islice(entries, left + 1))
        except OSError as error:
            self.report(directory, f"cannot be searched ({error.strerror}). Make it a directory that you may read")
            return []
        self._entries_left -= len(found)
        if self._entries_left < 0:
            self.report(
                directory,
                f"and what comes after it is not looked at in full: {_MAX_ENTRIES_PER_SOURCE:,} entries of directories "
                "are the most. Keep large directories out of the places for skills and prompts",
            )
        counting = [entry for entry in found[:left] if not entry.name.startswith(".") and entry.name != "node_modules"]
        return sorted(counting, key=lambda entry: entry.name)

    def report(self, path: Path, problem: str) -> None:
        """Add a diagnostic, unless there are many already.

        Args:
            problem: What is wrong with it and what to do, as it follows the path in a sentence, without a full stop.
        """
        if len(self.diagnostics) < _MAX_DIAGNOSTICS:
            self.diagnostics.append(Diagnostic(path, f"{problem}."))
        elif len(self.diagnostics) == _MAX_DIAGNOSTICS:
            self.diagnostics.append(Diagnostic(path, "and further files have problems too. Mend the others first."))


class _Choice:
    """Entries that a list of paths and globs includes and excludes."""

    def __init__(self, source: Source, home: Path) -> None:
        self._directory = source.directory
        self.listed: list[Path] = []
        self._forced: set[Path] = set()
        self._removed: set[Path] = set()
        self._excluded: list[Path] = []
        self._excluded_here: list[Path] = []
        for entry in source.listed:
            sign, text = sign_of(entry) if source.scope != "temporary" else ("", entry)
            if not text.strip() or len(text) > MAX_LINE:
                continue
            named = home / text[2:] if text == "~" or text.startswith("~/") else Path(text)
            path = Path(os.path.normpath(source.directory / named))
            if sign == "-":
                self._removed.add(path)
            elif sign != "!":
                self.listed.append(path)
                if sign == "+":
                    self._forced.add(path)
            elif path.is_relative_to(source.directory):
                self._excluded_here.append(path.relative_to(source.directory))
            else:
                self._excluded.append(path)

    def includes(self, path: Path) -> bool:
        names = {path, path.parent} if path.name == SKILL_FILE else {path}
        if names & self._removed:
            return False
        return bool(names & self._forced) or not any(map(self._excludes, names))

    def _excludes(self, path: Path) -> bool:
        # A glob in the settings' own directory, such as `!draft-*`, may mean a name wherever it lies.
        ways: list[Sequence[str]] = [(path.name,)]
        if path.is_relative_to(self._directory):
            ways.append(path.relative_to(self._directory).parts)
        return any(_fits(glob.parts, way) for glob in self._excluded_here for way in ways) or any(
            _fits(glob.parts, path.parts) for glob in self._excluded
        )


def sign_of(entry: str) -> tuple[str, str]:
    """Split an entry of a list in the settings into its mark (``!``, ``+``, ``-`` or none) and its path or glob."""
    return (entry[0], entry[1:]) if entry[:1] in ("!", "+", "-") else ("", entry)


def _fits(glob: Sequence[str], parts: Sequence[str]) -> bool:
    return fits([None if part == "**" else partial(fnmatchcase, pat=part) for part in glob], parts)


def kind_of(path: Path | os.DirEntry[str]) -> Kind | None:
    """Return the kind of a path; ``None`` if it does not exist, or is neither file nor directory."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return None
    return "directory" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else None
