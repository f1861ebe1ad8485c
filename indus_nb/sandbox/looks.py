"""What a call that is tried may read, so that it can do nothing but look.

What this module promises: a trial writes nothing and reaches nobody; it reads the project, the system and what programs
are made of, and neither keys nor what else is in homes and in directories for everybody.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from indus_nb.sandbox.policy import (
    PRIVATE_PLACES,
    SYSTEM_PLACES,
    Policy,
    enclosing,
    git_values,
    linked_directory,
    make_policy,
    own_homes,
)

_PLACES_OF_HOMES = ("/home", "/root", "/Users")
_PARTS_OF_PREFIX = ("bin", "lib", "lib64", "libexec", "pyvenv.cfg")
_FIRST_USER_ID = 1000
_NOBODY = 65534
_MAX_LINKS = 200


def look_policy(
    cwd: Path,
    readable: Iterable[Path] = (),
    *,
    hidden: Iterable[Path] = (),
    environment: Mapping[str, str] = os.environ,
) -> Policy:
    """Make the policy of a trial, for commands and for a copy of this process.

    Args:
        cwd: The session's working directory: with the repository that it lies in it is the project.
        readable: More files and directories that may be read; what is hidden in them stays hidden.
        hidden: More paths that may not be read.
        environment: Where ``PATH`` and variables that name key files are looked up.

    Returns:
        The policy, which allows no writes and no network.

    Raises:
        SandboxError: The directory is no place to confine anything to.
    """
    policy = make_policy("read-only", cwd, hidden=map(str, hidden), environment=environment)
    homes = own_homes()
    closed = _closed(homes)
    usual = (
        *_repository(policy.workspace),
        *_interpreter(),
        *_programs(environment, homes),
        *_git_configuration(environment, homes),
    )
    resolved = [path for path in map(_resolved, usual) if path not in closed]  # nothing of these opens a whole home
    resolved += map(_resolved, readable)
    places = (*closed, *map(_resolved, map(Path, (*PRIVATE_PLACES, *SYSTEM_PLACES, "/dev"))))
    shown = (path for path in resolved if any(path.is_relative_to(place) for place in places))
    return replace(policy, closed=closed, readable=tuple(dict.fromkeys(shown)))


def _resolved(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _is_below(path: Path, place: Path) -> bool:
    return path != place and path.is_relative_to(place)


def _closed(homes: Iterable[Path]) -> tuple[Path, ...]:
    """The homes of all users."""
    places = [*(Path(name) for name in _PLACES_OF_HOMES), *homes, *_homes_of_others()]
    found = dict.fromkeys(_resolved(place) for place in places if place.is_dir())
    return tuple(place for place in found if place != Path("/"))


def _homes_of_others() -> Iterator[Path]:
    try:
        import pwd
    except ImportError:
        return
    for user in pwd.getpwall():
        if _FIRST_USER_ID <= user.pw_uid < _NOBODY:
            yield Path(user.pw_dir)


def _repository(workspace: Path) -> Iterator[Path]:
    """The repository that the working directory is a part of, and the directories of git that it leads to."""
    above = enclosing(workspace)
    if above is not None:
        yield above.parent
    tree = workspace if above is None else above.parent
    if (tree / ".git").is_file() and (directory := linked_directory(tree / ".git")) is not None:
        yield directory
        if directory.parent.name == "worktrees":
            yield directory.parent.parent


def _interpreter() -> Iterator[Path]:
    """What this interpreter is made of, and where it imports from."""
    yield from (Path(place) for place in (sys.prefix, sys.base_prefix, sys.exec_prefix))
    yield from (Path(place) for place in sys.path if place.startswith("/"))
    if site.ENABLE_USER_SITE and (packages := site.getusersitepackages()):
        yield Path(packages)


def _programs(environment: Mapping[str, str], homes: Iterable[Path]) -> Iterator[Path]:
    """The directories of ``PATH`` in homes, and what belongs to the programs there."""
    for name in dict.fromkeys(environment.get("PATH", "").split(os.pathsep)):
        place = _resolved(Path(name))
        if not name.startswith("/") or not any(_is_below(place, home) for home in homes):
            continue
        yield from _with_parts(place, homes)
        try:
            with os.scandir(place) as entries:
                for _, entry in zip(range(_MAX_LINKS), entries, strict=False):
                    if entry.is_symlink():
                        target = _resolved(Path(entry.path))
                        yield target
                        yield from _with_parts(target.parent, homes)
        except OSError:
            continue


def _with_parts(place: Path, homes: Iterable[Path]) -> Iterator[Path]:
    """A directory of programs, with the libraries beside it."""
    if place in homes:
        return
    yield place
    if place.name == "bin" and place.parent not in homes:
        yield from (place.parent / part for part in _PARTS_OF_PREFIX)


def _git_configuration(environment: Mapping[str, str], homes: Iterable[Path]) -> Iterator[Path]:
    """The user's own configuration of git, and the files that it names."""
    places = [Path(environment[name]) / "git" for name in ("XDG_CONFIG_HOME",) if environment.get(name)]
    places += [home / ".config" / "git" for home in homes]
    files = [*(home / ".gitconfig" for home in homes), *(place / "config" for place in places)]
    if environment.get("GIT_CONFIG_GLOBAL"):
        files.append(Path(environment["GIT_CONFIG_GLOBAL"]))
    yield from (*places, *files)
    for file in files:
        for key in ("path", "excludesfile", "attributesfile"):
            for value in git_values(file, key):
                named = Path(os.path.join(file.parent, os.path.expanduser(value)))  # noqa: PTH111, PTH118 - of text
                if not named.is_dir():
                    yield named
