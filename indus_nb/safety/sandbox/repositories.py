r"""Repositories that confined programs leave: programs that git would run, found afterwards, and put aside or back.

What this module promises: git outside, be it a plain ``git status`` that enters a submodule by itself, runs nothing of
a repository below the writable places that was not there before. It looks at every ``.git`` there and at the
repositories of submodules, and not at the index: a path becomes a submodule by a later ``git add`` or ``git checkout``.

A configuration is harmless if every line of it is of a form that is listed here, so what is not known is put aside.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from indus_nb.safety.sandbox.listings import Listings
from indus_nb.safety.sandbox.policy import Policy, git_directories, pointer, submodules
from indus_nb.safety.sandbox.restoring import State, found_states, put_back

_ALL = 100_000
_CONFIGURATIONS = ("config", "config.worktree")
_SAMPLE = ".sample"
_OWNER_LISTS = stat.S_IRUSR | stat.S_IXUSR
_HARMLESS = re.compile(
    r"""\s*(?:[#;].*
    |\[(?:core|user|init|pull|push|fetch|merge|index|gc|extensions|lfs)\]
    |\[(?:remote|branch|submodule)[ ]"[^"\\]*"\]
    |(?:repositoryformatversion|filemode|bare|logallrefupdates|symlinks|ignorecase|precomposeunicode|worktree|autocrlf|eol
       |quotepath|sparsecheckout|sparsecheckoutcone|longpaths|objectformat|refstorage|compatobjectformat
       |url|pushurl|fetch|push|tagopt|prune|mirror|skipfetchall|remote|pushremote|merge|rebase|active|branch|ignore
       |name|email|signingkey|defaultbranch|ff|default|autosetupremote|conflictstyle|auto|version)
     [ \t]*(?:=[^"\\]*)?
    )?[ \t\r]*""",
    re.VERBOSE | re.IGNORECASE,
)
"""Lines of a configuration that name no program, no file with more of it and nothing that continues."""


class Repositories:
    """Repositories below the writable places of a policy, scanned again and again.

    Args:
        private: The directory for temporary files, which can be written to besides.
    """

    def __init__(self, policy: Policy, private: Path) -> None:
        self._policy = policy
        self._private = private
        self._before: dict[Path, dict[Path, State]] = {}
        self._listings = Listings(_listing)

    def remember(self) -> None:
        """Remember what there is before a program."""
        self._before = self.look()

    def look(self, *, opens: bool = False) -> dict[Path, dict[Path, State]]:
        """Return the files that git reads to find programs, by the file or directory that holds them.

        Args:
            opens: Whether own directories that can be entered and not listed are made readable, to be looked into.
        """
        found: dict[Path, dict[Path, State]] = {}
        for directory in self._directories(opens=opens):
            for path in _parts(directory):
                found[path] = found_states(path)
        return found

    def set_right(self) -> list[str]:
        """Put aside what is new and runs programs, put back what stood in its place, and say so in sentences."""
        sentences: list[str] = []
        for path, now in self.look(opens=True).items():
            was = self._before.get(path, {})
            if now != was and not _is_harmless(path, now):
                try:
                    result = f"was put aside. {put_back(path, was)}"
                except OSError as error:
                    result = f"could not be put aside ({error}). Use git in {path.parent} after that is removed."
                sentences.append(f"{path} could make git outside of the sandbox run programs, and {result}")
        return sentences

    def _directories(self, *, opens: bool) -> Iterator[Path]:
        """Return the directories of git in the writable places that a program may have written to."""
        roots = self._policy.writable_roots
        known = tuple(git_directories(self._policy))
        named = [_directory_of(place) for root in roots for place in self._places(str(root), opens=opens)]
        for directory in (*filter(None, named), *known):
            for each in (directory, *submodules(directory, _ALL)):
                for real in (each, *self._trees(_common(each), opens=opens)):
                    for one in (Path(os.path.realpath(real)), _common(real)):
                        if any(one.is_relative_to(place) for place in (*roots, self._private, *known)):
                            yield one

    def _trees(self, directory: Path, *, opens: bool) -> list[Path]:
        """Return the directories of a repository's other working trees, which may lie anywhere."""
        place = Path(os.path.realpath(directory / "worktrees"))
        try:
            if opens:
                _open_up(str(place))
            return list(place.iterdir())
        except OSError:
            return []

    def _places(self, root: str, *, opens: bool) -> Iterator[str]:
        """Return the paths named ``.git`` at and below a directory."""
        waiting = [root]
        while waiting:
            directory = waiting.pop()
            try:
                if opens:
                    _open_up(directory)
                places, directories = self._listings.look(directory)
            except OSError:
                continue
            yield from places
            waiting += directories


def _open_up(directory: str) -> None:
    """Make an own directory that can be entered and not listed readable."""
    state = os.lstat(directory)
    if state.st_uid == os.geteuid() and state.st_mode & _OWNER_LISTS != _OWNER_LISTS:
        os.chmod(directory, stat.S_IMODE(state.st_mode) | _OWNER_LISTS)  # noqa: PTH101 - of text


def _listing(directory: str) -> tuple[list[str], list[str]]:
    """Return the entries named ``.git`` of a directory, and its other directories."""
    places: list[str] = []
    directories: list[str] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.lower() == ".git":
                places.append(entry.path)
            elif entry.is_dir(follow_symlinks=False):
                directories.append(entry.path)
    return places, directories


def _directory_of(place: str) -> Path | None:
    """Return the directory of git that a ``.git`` is or names."""
    if os.path.isdir(place):  # noqa: PTH112 - of text
        return Path(place)
    named = _first_line(Path(place))
    return Path(place).parent / named.removeprefix("gitdir: ") if named.startswith("gitdir: ") else None


def _common(directory: Path) -> Path:
    """Return the directory with the configuration: that of another one for a separate working tree."""
    return Path(os.path.realpath(directory / _first_line(directory / "commondir")))


def _first_line(path: Path) -> str:
    """Return what ``pointer`` reads; empty if there is none."""
    try:
        return pointer(path)
    except OSError:
        return ""


def _parts(directory: Path) -> Iterator[Path]:
    """Yield the files and directories in which a directory of git names programs, or holds them."""
    yield from (directory / name for name in (*_CONFIGURATIONS, "hooks"))


def _is_harmless(path: Path, now: dict[Path, State]) -> bool:
    if path.name == "hooks":
        return all(
            (each == path and stat.S_ISDIR(mode)) or each.name.endswith(_SAMPLE) for each, (mode, _) in now.items()
        )
    return all(stat.S_ISREG(mode) and _names_nothing(content) for mode, content in now.values())


def _names_nothing(content: bytes) -> bool:
    return all(_HARMLESS.fullmatch(line) for line in content.decode(errors="replace").split("\n"))
