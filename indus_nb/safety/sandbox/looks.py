"""Read access of a call that is tried, so that it can do nothing but look.

What this module promises: a trial writes nothing and reaches nothing; it reads the project, the system and the parts of
programs, and neither keys (files of the project and of ``/etc`` that are named like such among them, as far as these
are looked through), pipes nor anything else: what the system is, is known by the names of its directories.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path, PurePath

from indus_nb.safety.key_places import holds_keys
from indus_nb.safety.sandbox.bwrap import own_places
from indus_nb.safety.sandbox.listings import Listings
from indus_nb.safety.sandbox.policy import (
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
_SYSTEM = (
    *("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "boot", "proc", "sys", "dev"),
    *("nix", "gnu", "snap"),
    *("tmp", "run"),
)
"""Of the root directory: the system, stores of packages, and what is closed to trials by other lists."""
_SYSTEM_IN_VAR = (
    *("/var/lib/dpkg", "/var/lib/rpm", "/var/lib/pacman", "/var/lib/apt", "/var/lib/alternatives"),
    *("/var/cache/fontconfig", "/var/cache/man", "/var/cache/apt", "/var/cache/ldconfig"),
)
_SYSTEM_KEYS = ("/etc/ssl/private", "/etc/pki/tls/private", "/etc/NetworkManager/system-connections", "/etc/wireguard")
_CERTIFICATES = ("/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/apt")
"""Directories with files that are named like keys and that all programs need."""
_PARTS_OF_PREFIX = ("lib", "lib64", "libexec", "etc", "conda-meta", "pyvenv.cfg")
_SHIMS = "shims"
"""The name that managers of versions give the directory of their programs, which need all that is beside it."""
_FIRST_USER_ID = 1000
_NOBODY = 65534
_MAX_PROGRAMS = 5000
"""Most entries of a directory of programs that are looked at."""
_MAX_DIRECTORIES = 20_000
_PACKAGES = ("node_modules", "site-packages", ".git")
"""Directories that others have written, and that hold what is only named like keys."""


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
    policy = make_policy("read-only", cwd, hidden=(*_SYSTEM_KEYS, *map(str, hidden)), environment=environment)
    homes = own_homes()
    closed = _closed(homes)
    shared = _shared()
    repository = [_resolved(path) for path in _repository(policy.workspace)]
    made_of = [_resolved(place) for place in _interpreter()]
    imported = [place for place in map(_resolved, _imported()) if not any(map(place.is_relative_to, made_of))]
    usual = (*imported, *map(_resolved, (*_programs(environment, closed), *_git_configuration(environment, homes))))
    # Nothing of what is usual opens a whole home, or a shared directory.
    usual = [path for path in (*made_of, *usual, *map(Path, _SYSTEM_IN_VAR)) if path not in (*closed, *shared)]
    shown = [*repository, *usual]
    allowed = [_resolved(path) for path in readable]
    trees = (policy.workspace, *repository, *allowed, *(path for path in imported if path in usual))
    keys = [path for path in (*key_files(trees, but=usual), *_keys_of_system()) if path not in allowed]
    inside = [path for path in (*shown, *allowed) if any(path.is_relative_to(place) for place in (*closed, *shared))]
    return replace(
        policy,
        closed=closed,
        readable=tuple(dict.fromkeys(inside)),
        hidden=tuple(sorted({*policy.hidden, *keys})),
    )


def may_read(policy: Policy, path: Path) -> bool:
    """Return whether a file or directory may be read.

    Args:
        policy: What ``look_policy`` returned.

    Returns:
        Whether it may be.
    """
    within = {path, *path.parents}  # it is asked about each file that a trial opens: no list is walked part by part
    if not within.isdisjoint(policy.hidden):
        return False
    covered = within.intersection((*policy.closed, *_shared()))
    shown = within.intersection((policy.workspace, *policy.readable, *own_places())) if covered else ()
    return not covered or any(all(place.is_relative_to(each) for each in covered) for place in shown)


def holds_hidden(policy: Policy, path: Path) -> bool:
    """Return whether a directory cannot be listed, because something below it may not be read.

    Args:
        policy: What ``look_policy`` returned.
    """
    if not {path, *path.parents}.isdisjoint((policy.workspace, *policy.readable)):
        return False
    start = f"{str(path).rstrip('/')}/"
    places = (*policy.hidden, *policy.closed, *_shared())
    return any((place == path or str(place).startswith(start)) and place.exists() for place in places)


@cache
def _shared() -> tuple[Path, ...]:
    return tuple(_resolved(Path(name)) for name in (*PRIVATE_PLACES, *SYSTEM_PLACES, "/dev"))


def _resolved(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _closed(homes: Iterable[Path]) -> tuple[Path, ...]:
    """Return the homes of all users, and the root directory's entries besides the system."""
    places = [*(Path(name) for name in _PLACES_OF_HOMES), *homes, *_homes_of_others()]
    found = dict.fromkeys(_resolved(place) for place in places if place.is_dir())
    with os.scandir("/") as entries:
        found |= dict.fromkeys(
            Path(each.path) for each in entries if each.name not in _SYSTEM and not each.is_symlink()
        )
    return tuple(place for place in found if place != Path("/"))


def _keys_of_system() -> Iterator[Path]:
    """Return the files of ``/etc`` that are named like keys; directories of such names are programs' there."""
    yield from (path for path in key_files([Path("/etc")], but=map(Path, _CERTIFICATES)) if _is_plain_file(path))


def _is_plain_file(path: Path) -> bool:
    return path.is_relative_to("/etc") and path.is_file() and not path.is_symlink()


def _homes_of_others() -> Iterator[Path]:
    try:
        import pwd
    except ImportError:
        return
    for user in pwd.getpwall():
        if _FIRST_USER_ID <= user.pw_uid < _NOBODY:
            yield Path(user.pw_dir)


def _repository(workspace: Path) -> Iterator[Path]:
    """Yield the repository of the working directory, and the directories of git that it leads to."""
    above = enclosing(workspace)
    if above is not None:
        yield above.parent
    tree = workspace if above is None else above.parent
    if (tree / ".git").is_file() and (directory := linked_directory(tree / ".git")) is not None:
        yield directory
        if directory.parent.name == "worktrees":
            yield directory.parent.parent


def _interpreter() -> Iterator[Path]:
    """Yield the directories of this interpreter."""
    yield from (Path(place) for place in (sys.prefix, sys.base_prefix, sys.exec_prefix))
    if site.ENABLE_USER_SITE and (packages := site.getusersitepackages()):
        yield Path(packages)


def _imported() -> Iterator[Path]:
    """Yield the other directories that imports come from."""
    yield from (Path(place) for place in sys.path if place.startswith("/"))
    yield Path(__file__).parents[2]


def _programs(environment: Mapping[str, str], closed: Iterable[Path]) -> Iterator[Path]:
    """Yield paths of programs on ``PATH`` that lie in or lead to closed places, with their libraries."""
    inside = tuple(f"{place}/" for place in closed)
    for name in dict.fromkeys(environment.get("PATH", "").split(os.pathsep)):
        if not name.startswith("/"):
            continue
        place = _resolved(Path(name))
        if str(place).startswith(inside):
            yield from _with_parts(place, closed)
        try:
            targets = _programs_in.look(str(place))
        except OSError:
            continue
        for target in targets:
            if str(target).startswith(inside):
                yield target
                yield from _with_parts(target.parent, closed)
    libraries = environment.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    yield from (Path(place) for place in libraries if place.startswith("/"))


def _led_to(directory: str) -> tuple[Path, ...]:
    """Return the targets of the links in a directory of programs."""
    with os.scandir(directory) as entries:
        looked_at = [entry for entry, _ in zip(entries, range(_MAX_PROGRAMS), strict=False)]
    return tuple(dict.fromkeys(_resolved(Path(entry.path)) for entry in looked_at if entry.is_symlink()))


_programs_in = Listings(_led_to)


def _with_parts(place: Path, closed: Iterable[Path]) -> Iterator[Path]:
    """Yield a directory of programs, with the libraries beside it."""
    if place in closed:
        return
    yield place
    if place.name == _SHIMS and place.parent not in closed:
        yield place.parent
    elif place.name == "bin":
        yield from (place.parent / part for part in _PARTS_OF_PREFIX if place.parent not in closed)


def _git_configuration(environment: Mapping[str, str], homes: Iterable[Path]) -> Iterator[Path]:
    """Return the user's own configuration of git, and the files that it names."""
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


def _listing(directory: str) -> tuple[list[str], list[str]]:
    """Return the directories in one, and the paths that are named like keys or are no files."""
    directories: list[str] = []
    keys: list[str] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name in _PACKAGES:
                continue
            if holds_keys(PurePath(entry.name)) or _is_special(entry):
                keys.append(entry.path)
            elif entry.is_dir(follow_symlinks=False):
                directories.append(entry.path)
    return directories, keys


def _is_special(entry: os.DirEntry[str]) -> bool:
    """Return whether a path is a pipe or a device: reading it takes data from other programs."""
    is_usual = entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
    return not (is_usual or entry.is_symlink())


_directories = Listings(_listing)


def key_files(trees: Iterable[Path], *, but: Iterable[Path] = ()) -> list[Path]:
    """Find the paths below directories that must not be read: keys, by their names, and pipes.

    A limited number of directories is looked through.

    Returns:
        Files and directories, resolved: where a link leads counts as well.
    """
    found: list[Path] = []
    waiting = [str(tree) for tree in trees]
    skipped = set(map(str, but)) - set(waiting)
    for number in range(_MAX_DIRECTORIES):
        if number >= len(waiting):
            break
        if waiting[number] not in skipped:
            try:
                directories, keys = _directories.look(waiting[number])
            except OSError:
                continue
            waiting += directories
            found += [each for key in keys for each in (Path(key), _resolved(Path(key)))]
    return found
