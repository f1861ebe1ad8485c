"""Policy of a confined process: where it may write, what it may not read, which hosts it may reach.

What this module promises: all paths of a policy are resolved when it is made, so no link that a confined process makes
later widens it. What is hidden stays hidden below what is writable, and what is protected stays as it is there.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from indus_nb.base.files import open_regular
from indus_nb.safety.key_places import AT_HOME

Mode = Literal["off", "workspace", "read-only"]
MODES: tuple[Mode, ...] = ("off", "workspace", "read-only")
"""From the loosest to the strictest."""
Network = bool | tuple[str, ...]

_HIDDEN_ELSEWHERE = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers.d")
_NAMED_BY_VARIABLES = (
    *("KUBECONFIG", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "GOOGLE_APPLICATION_CREDENTIALS", "NETRC"),
    *("DOCKER_CONFIG", "GNUPGHOME", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "GH_CONFIG_DIR", "CLOUDSDK_CONFIG"),
    *("AZURE_CONFIG_DIR", "PGPASSFILE", "NPM_CONFIG_USERCONFIG", "VAULT_TOKEN_PATH", "HF_TOKEN_PATH"),
)
PRIVATE_PLACES = ("/tmp", "/var/tmp")  # noqa: S108 - what each sandbox has its own of
"""World-writable directories: a confined process has its own, and does not see what other users keep there."""
SYSTEM_PLACES = ("/run", "/var/run")
"""Directories with the sockets of services."""
_MAX_LINKS = 200
_MAX_REPOSITORIES = 50
_MAX_POINTER = 1 << 14
_MAX_CONFIGURATION = 1 << 16


class SandboxError(Exception):
    """Something cannot be run confined, so it is not run; the sentence says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Rights of the processes of one session.

    ``workspace`` and ``writable`` are resolved directories, ``hidden`` and ``kept`` resolved paths. ``kept`` are paths
    that ``writable`` overrides when it names them: what this very program is made of. ``network`` is whether there is
    one, or whom it may be used with; ``unix_sockets`` whether programs may use sockets in the file system.

    ``closed`` are resolved directories of which only the workspace and what ``readable`` names may be read.
    """

    mode: Mode
    workspace: Path
    network: Network = False
    writable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    kept: tuple[Path, ...] = ()
    unix_sockets: bool = False
    closed: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()

    @property
    def writable_roots(self) -> tuple[Path, ...]:
        """Return the directories below which may be written, except what is protected."""
        return (self.workspace, *self.writable) if self.mode == "workspace" else ()


def make_policy(
    mode: Mode,
    workspace: Path,
    *,
    network: bool | Sequence[str] = False,
    writable: Iterable[str] = (),
    hidden: Iterable[str] = (),
    unix_sockets: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> Policy:
    """Make a policy, with all paths resolved.

    Args:
        mode: ``workspace`` or ``read-only``.
        network: Whether there is a network, or the domains that may be reached.
        writable: More directories that may be written to; relative to the workspace.
        hidden: More paths that may not be read; relative to the workspace.
        unix_sockets: Whether programs may use sockets in the file system.
        environment: Where variables that name key files are looked up.

    Raises:
        SandboxError: The workspace is no place to confine anything to, or a path makes no sense.
    """
    workspace = Path(os.path.realpath(workspace))
    homes = own_homes()
    named = [environment[name] for name in _NAMED_BY_VARIABLES if environment.get(name)]
    files = [part for value in named for part in value.split(os.pathsep) if part.startswith("/")]
    at_home = (str(home / name) for home in homes for name in AT_HOME)
    usual = (*at_home, *_HIDDEN_ELSEWHERE, *_host_keys(), *files, *hidden)
    closed = {Path(os.path.realpath(_absolute(path, workspace))) for path in usual}
    closed |= {target for path in tuple(closed) for target in _linked_files(path)}
    _check_workspace(workspace, homes if mode == "workspace" else (), closed)
    places = tuple(Path(os.path.realpath(_absolute(path, workspace))) for path in writable)
    for place in places:
        if place == Path("/") or place in homes or any(place in home.parents for home in homes):
            raise SandboxError(f"`sandbox.writable` names {place}, which holds a home directory. Name a smaller one.")
    return Policy(
        mode=mode,
        workspace=workspace,
        network=network if isinstance(network, bool) else tuple(network),
        writable=tuple(
            place for place in dict.fromkeys(places) if not place.is_relative_to(workspace) or place in _own()
        ),
        hidden=tuple(sorted(closed)),
        kept=tuple(path for path in _own() if path not in places),
        unix_sockets=unix_sockets,
    )


def _check_workspace(workspace: Path, homes: Sequence[Path], hidden: Iterable[Path]) -> None:
    for home in homes:
        if workspace == home or workspace in home.parents:
            raise SandboxError(
                f"The sandbox allows writes below the working directory, and {workspace} holds a home directory with "
                "start files of your shell. Start in the directory of a project, or choose --sandbox read-only."
            )
    for path in hidden:
        if workspace.is_relative_to(path):
            raise SandboxError(f"The working directory is in {path}, which is hidden in a sandbox. Start elsewhere.")


def _own() -> tuple[Path, ...]:
    """Return the paths of this program, which would run changes to them outside at once."""
    package = Path(__file__).parents[2]
    return tuple(dict.fromkeys(Path(os.path.realpath(path)) for path in (sys.prefix, sys.exec_prefix, package)))


def own_homes() -> list[Path]:
    """List the home directories of this user, resolved: as the environment and as the system have it."""
    homes = [os.path.expanduser("~")]  # noqa: PTH111 - pathlib's fails without a home
    try:
        import pwd

        homes.append(pwd.getpwuid(os.getuid()).pw_dir)
    except (KeyError, ImportError):
        pass
    return [Path(os.path.realpath(home)) for home in dict.fromkeys(homes) if home.startswith("/") and home != "/"]


def _host_keys() -> Iterator[str]:
    try:
        yield from (str(path) for path in Path("/etc/ssh").iterdir() if path.name.endswith("_key"))
    except OSError:
        return


def _absolute(path: str, workspace: Path) -> str:
    return os.path.join(workspace, os.path.expanduser(path))  # noqa: PTH111, PTH118 - of text, for unknown users too


def _linked_files(directory: Path) -> Iterator[Path]:
    """Return the targets of links in a hidden directory, such as keys kept with other dot files."""
    try:
        with os.scandir(directory) as entries:
            for _, entry in zip(range(_MAX_LINKS), entries, strict=False):
                if entry.is_symlink() and entry.is_file():
                    yield Path(os.path.realpath(entry.path))
    except OSError:
        return


@dataclass(frozen=True, slots=True)
class ProtectedPaths:
    """Protected paths within the writable places.

    ``pinned`` are directories that must not be moved away: those of git, and those that lead to what is protected or
    hidden, for that would be moved with them. ``read_only`` are paths that are there, and ``absent`` ones
    that must not come into being. ``outside`` are directories of git that are writable besides.
    """

    pinned: tuple[Path, ...] = ()
    read_only: tuple[Path, ...] = ()
    absent: tuple[Path, ...] = ()
    outside: tuple[Path, ...] = ()


def guarded(policy: Policy) -> ProtectedPaths:
    """Find what is protected below the writable places, as it stands now; makes directories that are missing.

    Raises:
        SandboxError: A place that must be protected is a link, which cannot be.
    """
    pinned: list[Path] = []
    read_only: list[Path] = [path for path in policy.kept if any(map(path.is_relative_to, policy.writable_roots))]
    absent: list[Path] = []
    outside: list[Path] = []
    for root in policy.writable_roots:
        if Path(os.path.realpath(root)) != root:
            raise SandboxError(f"{root} has been replaced by a link since the session began. Nothing was run.")
        settings = root / ".indusagi"
        _make_directory(settings)
        read_only.append(settings)
    for place, is_file in _repositories(policy):
        if is_file:
            read_only.append(place)
    for directory in git_directories(policy):
        inside = any(map(directory.is_relative_to, policy.writable_roots))
        (pinned if inside else outside).append(directory)
        _make_directory(directory / "hooks")
        for name in ("hooks", "config", "config.worktree", "commondir", "gitdir"):
            path = directory / name
            if path.is_symlink():
                raise SandboxError(
                    f"{path} is a symbolic link, which a sandbox cannot protect. Put what it leads to in its place, "
                    "or choose --sandbox off or read-only."
                )
            (read_only if path.exists() else absent).append(path)
        for path in (*_programs_of(directory, policy.writable_roots), *_of_worktrees(directory)):
            (read_only if path.exists() else absent).append(path)
    pinned += _leading(policy, (*read_only, *policy.hidden))
    return ProtectedPaths(
        tuple(dict.fromkeys(pinned)),
        tuple(dict.fromkeys(read_only)),
        tuple(path for path in dict.fromkeys(absent) if path.name != "gitdir"),
        tuple(dict.fromkeys(outside)),
    )


def _leading(policy: Policy, paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the directories between the writable places and paths in them that lie in none of these paths."""
    for path in filter(Path.exists, paths):
        for above in path.parents:
            is_inside = any(root in above.parents for root in policy.writable_roots)
            if is_inside and above.is_dir() and not any(map(above.is_relative_to, paths)):
                yield above


def _make_directory(path: Path) -> None:
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise SandboxError(f"{path} is no directory, so a sandbox cannot protect it. Put a directory in its place.")
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise SandboxError(f"{path} cannot be made, to be protected: {error.strerror}.") from error


def _repositories(policy: Policy) -> Iterator[tuple[Path, bool]]:
    """Yield the ``.git`` of each writable place, and whether it is a file."""
    for root in policy.writable_roots:
        place = root / ".git"
        if place.is_symlink():
            continue  # what it leads to is writable if it lies in the workspace, and not otherwise
        if place.exists():
            yield place, not place.is_dir()


def git_directories(policy: Policy) -> Iterator[Path]:
    """List the directories of git that a commit in the workspace writes to, and those of its submodules."""
    for place, is_file in _repositories(policy):
        directory = linked_directory(place) if is_file else place
        if directory is None:
            continue
        yield directory
        common = directory.parent.parent if directory.parent.name == "worktrees" else directory
        if common != directory:
            yield common
        yield from submodules(common)
    above = enclosing(policy.workspace) if policy.mode == "workspace" else None
    if above is not None:
        yield above
        yield from submodules(above)


def linked_directory(file: Path) -> Path | None:
    """Return the directory that a ``.git`` file names, if that names the file in turn, as a forged one cannot."""
    try:
        text = pointer(file)
    except OSError:
        return None
    if not text.startswith("gitdir:"):
        return None
    directory = Path(os.path.realpath(file.parent / text.removeprefix("gitdir:").strip()))
    try:
        if directory.parent.name == "worktrees":
            back = Path(os.path.realpath(directory / pointer(directory / "gitdir").strip()))
            return directory if back == file and (directory.parent.parent / "objects").is_dir() else None
        if "modules" in directory.parts and (tree := git_values(directory / "config", "worktree")):
            return directory if Path(os.path.realpath(directory / tree[0])) == file.parent else None
    except OSError:
        return None
    return None


def pointer(file: Path) -> str:
    """Read a path from a file of git, as git does: without the end of its line, and as far as a zero byte.

    Raises:
        OSError: It cannot be read, or is no regular file.
    """
    with open_regular(file) as opened:
        return os.fsdecode(opened.read(_MAX_POINTER).rstrip(b"\r\n").partition(b"\0")[0])


def submodules(directory: Path, most: int = _MAX_REPOSITORIES) -> Iterator[Path]:
    """List the directories of submodules within a directory of git, as deep as they are nested.

    Yields:
        Each one before those within it.
    """
    found = 0
    waiting = [directory / "modules"]
    while waiting and found < most:
        place = waiting.pop()
        try:
            entries = [each for each in place.iterdir() if each.is_dir() and not each.is_symlink()]
        except OSError:
            continue
        for entry in entries:
            if (entry / "HEAD").exists():
                found += 1
                yield entry
                waiting.append(entry / "modules")
            else:
                waiting.append(entry)


def enclosing(workspace: Path) -> Path | None:
    """Return the directory of git of the repository that a workspace without its own is a part of."""
    if os.path.lexists(workspace / ".git"):
        return None
    homes = own_homes()
    for above in workspace.parents:
        if above in homes or above == Path("/"):
            return None
        place = above / ".git"
        if os.path.lexists(place):
            return place if place.is_dir() and not place.is_symlink() and (place / "HEAD").exists() else None
    return None


def _of_worktrees(directory: Path) -> Iterator[Path]:
    """Yield the files that lead a working tree of the same repository to its configuration."""
    try:
        trees = [each for each in (directory / "worktrees").iterdir() if each.is_dir()]
    except OSError:
        return
    for tree in trees[:_MAX_REPOSITORIES]:
        yield from (tree / name for name in ("commondir", "gitdir", "config.worktree"))


def _programs_of(directory: Path, roots: Sequence[Path]) -> Iterator[Path]:
    """Yield hooks and configuration that a repository's configuration places where may be written."""
    tree = directory.parent
    config = directory / "config"
    named = [(tree, value) for value in git_values(config, "hookspath")]
    named += [(directory, value) for value in git_values(config, "path")]
    for start, value in named:
        path = Path(os.path.realpath(os.path.join(start, os.path.expanduser(value))))  # noqa: PTH111, PTH118 - of text
        if any(root in path.parents for root in roots) and directory not in path.parents:
            yield path


def git_values(config: Path, key: str) -> list[str]:
    """Find the values of a key in a configuration file of git, in any section.

    Returns:
        The values; none where the file cannot be read.
    """
    try:
        with open_regular(config) as file:
            text = os.fsdecode(file.read(_MAX_CONFIGURATION))
    except OSError:
        return []
    found = re.findall(rf"(?im)^[ \t]*(?:\[[^\]\n]*\][ \t]*)?{key}[ \t]*=[ \t]*(.*?)[ \t\r]*$", text)
    return [value.partition("\0")[0].strip('"') for value in found if value]
