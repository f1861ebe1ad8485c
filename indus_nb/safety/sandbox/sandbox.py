"""Confined execution of programs: the one way from a policy to the arguments that enforce it.

What this module promises: where a policy cannot be held, nothing is run; a program's changes of what is protected are
set right when it has ended, and said. A session has programs confined, and what they left set right, in a thread: both
look at the whole tree of directories.
"""

from __future__ import annotations

import json
import os
import re
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from indus_nb.base.wire import JsonObject
from indus_nb.safety.key_variables import child_environment
from indus_nb.safety.sandbox import bwrap, landlock, launcher, seatbelt
from indus_nb.safety.sandbox.confined import (
    SERVICE_VARIABLES,
    Confined,
    made_in_thread,
    plain_interpreter,
    private_variables,
    readable_descriptor,
)
from indus_nb.safety.sandbox.policy import Policy, ProtectedPaths, SandboxError, guarded
from indus_nb.safety.sandbox.probe import Machine, machine
from indus_nb.safety.sandbox.proxy import Proxy, is_of_this_machine
from indus_nb.safety.sandbox.repositories import Repositories
from indus_nb.safety.sandbox.restoring import Watched
from indus_nb.safety.sandbox.temporary import Temporary

_PORT = 3128
"""Port of the proxy, in a network namespace that has nothing else."""
_LOCAL_ADDRESSES = "localhost,127.0.0.1,::1"
_REFUSALS = re.compile(
    r"read-only file system|permission denied|operation not permitted|network is unreachable|errno 1[^0-9]|erofs|eacces"
    r"|could not resolve|name resolution|name or service not known|403 refused by the sandbox"
    r"|no such device or address",
    re.IGNORECASE,
)
_HINT_READS_CHARACTERS = 20_000
_INET, _INET6, _UNIX, _NETLINK = 2, 10, 1, 16


def looks_refused(output: str) -> bool:
    """Return whether the output of a failed command looks as if something was refused to it."""
    return _REFUSALS.search(output[-_HINT_READS_CHARACTERS:]) is not None


class Sandbox:
    """Confinement of the programs of a session that works in one directory.

    Args:
        policy: What they may do.
        here: What can be had on this machine; by default that is tried.
        asks: Whether commands in it are asked about like others.
        before_change: Called before a program, or a tool of this process, may change something.
    """

    def __init__(
        self,
        policy: Policy,
        here: Machine | None = None,
        *,
        asks: bool = False,
        before_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.policy = policy
        self._before_change = before_change
        self._asks = asks
        self._here = here
        self._private: Temporary | None = None
        self._proxy: Proxy | None = None
        self._repositories: Repositories | None = None
        self._watched = Watched()
        self._running = 0
        self._lock = threading.Lock()
        # Kept from the start: a confined program may come to change the file.
        self._launcher = Path(launcher.__file__).read_text(encoding="utf-8")

    @property
    def mode(self) -> str:
        """Return the name of the policy: ``workspace`` or ``read-only``."""
        return self.policy.mode

    @property
    def asks_nothing(self) -> bool:
        """Return whether a command in it needs no question: it has no open network and changes only the workspace."""
        return self.policy.network is not True and not self._asks

    def describe(self) -> str:
        """Describe in one sentence what is allowed, for a model or a user."""
        roots = ", ".join(map(str, self.policy.writable_roots))
        writes = f"writes only below {roots} and in $TMPDIR" if roots else "writes only in $TMPDIR"
        network = self.policy.network
        if isinstance(network, tuple):
            reach = f"network through a proxy to {', '.join(network) or 'nobody'}"
        else:
            reach = "the network" if network else "no network"
        return f"The sandbox ({self.mode}) allows {writes}; {reach}; no files with keys."

    def hint(self, output: str) -> str | None:
        """Return a hint for a failed command whose output looks as if the sandbox made it fail."""
        return f"[{self.describe()} The failure may come from that.]" if looks_refused(output) else None

    def confine(self, arguments: Sequence[str], *, unset: Sequence[str] | None = None) -> Confined:
        """Turn the arguments of a program into those of a confined one.

        Args:
            arguments: The program, found by ``PATH`` if it is a plain name, and its arguments.
            unset: Names of variables that it does not get, besides those that lead to services; by default those of
                this process that hold keys of models' providers.

        Returns:
            What to run in its place. To be closed when that has ended.

        Raises:
            SandboxError: It cannot be confined here.
            OSError: No temporary directory or descriptor can be had.
        """
        with self._lock:
            return self._confine(arguments, unset)

    async def confined(self, arguments: Sequence[str], *, unset: Sequence[str] | None = None) -> Confined:
        """Run ``confine`` in a thread.

        Returns:
            What to run. If this is cancelled, it is closed.
        """
        return await made_in_thread(partial(self.confine, arguments, unset=unset), Confined.close)

    def _confine(self, arguments: Sequence[str], unset: Sequence[str] | None) -> Confined:
        here = self._here or machine()
        backend = here.backend
        if backend is None:
            raise SandboxError(f"A sandbox was asked for (--sandbox {self.mode}) and is not available: {here.problem}.")
        try:
            special = guarded(self.policy)
        except OSError as error:
            raise SandboxError(f"What a sandbox must protect cannot be looked at: {error}.") from error
        if self.policy.writable_roots:
            self._before_change()
        private = self._temporary()
        unset = [*SERVICE_VARIABLES, *(_keys() if unset is None else unset)]
        if backend == "bwrap":
            confined = self._by_bwrap(arguments, here, special, private, unset)
        elif backend == "landlock":
            confined = self._by_landlock(arguments, special, private, unset)
        else:
            profile = seatbelt.arguments(self.policy, special, private)
            confined = Confined([*profile, "/usr/bin/env", *_as_words(unset, private_variables(private)), *arguments])
        try:
            self._remember(special, private, changeable=backend == "landlock")
        except BaseException:
            confined.close()
            raise
        confined.set_right = self._set_right
        return confined

    def _remember(self, special: ProtectedPaths, private: Path, *, changeable: bool) -> None:
        """Remember what is protected, besides what is remembered for a program that runs and may have changed it.

        Args:
            changeable: Whether programs can change also what is there.
        """
        try:
            if changeable:
                roots = (*self.policy.writable_roots, *special.outside)
                self._watched.add((*special.read_only, *special.absent), special.pinned, roots)
            else:
                self._watched.add(special.absent)
            self._repositories = self._repositories or Repositories(self.policy, private)
            if self._running == 0:
                self._repositories.remember()
        except BaseException:
            if self._running == 0:
                self._watched.close()
            raise
        self._running += 1

    def _set_right(self) -> list[str]:
        with self._lock:
            try:
                return self._watched.set_right() + (self._repositories.set_right() if self._repositories else [])
            finally:
                self._running -= 1
                if self._running == 0:
                    self._watched.close()

    def check_change(self, path: Path) -> None:
        """Reject a change of a file that no confined program could make.

        For the tools that change files within this process.

        Args:
            path: The file, resolved; it need not be there.

        Raises:
            SandboxError: It must stay as it is; the sentence says why.
        """
        if self.mode == "read-only":
            raise SandboxError(f"{path} was not changed: {self.describe()}")
        real = Path(os.path.realpath(path))
        special = guarded(self.policy)
        roots = (*self.policy.writable_roots, self._temporary())
        if not any(real.is_relative_to(root) for root in roots):
            raise SandboxError(f"{path} was not changed: {self.describe()}")
        protected = (*special.read_only, *special.absent, *self.policy.hidden)
        if any(real.is_relative_to(each) for each in protected) or {".git", ".indusagi"} & set(_below(real, roots)):
            raise SandboxError(f"{path} was not changed: the sandbox protects it, for what it holds may run outside.")
        self._before_change()

    def check_read(self, path: Path) -> None:
        """Reject reading a file that is hidden.

        For the tools that read within this process.

        Raises:
            SandboxError: It is hidden.
        """
        real = Path(os.path.realpath(path))
        if any(real.is_relative_to(each) for each in self.policy.hidden) or _is_of_a_process(real):
            raise SandboxError(f"{path} was not read: {self.describe()}")

    def check_search(self, path: Path) -> None:
        """Reject a search in a directory that holds what is hidden.

        Args:
            path: The directory or file, resolved.

        Raises:
            SandboxError: It is hidden, or a directory above something hidden.
        """
        self.check_read(path)
        real = Path(os.path.realpath(path))
        inside = next((each for each in self.policy.hidden if each.is_relative_to(real) and each.exists()), None)
        if inside is not None or Path("/proc").is_relative_to(real):
            raise SandboxError(f"{path} was not searched, for it holds {inside or '/proc'}: {self.describe()}")

    def close(self) -> None:
        """Remove the temporary directory, and stop the proxy."""
        if self._private is not None:
            self._private.remove()
            self._private = None
        if self._proxy is not None:
            self._proxy.close()
            self._proxy = None

    def _temporary(self) -> Path:
        self._private = self._private or Temporary()
        return self._private.path

    def _by_bwrap(
        self, arguments: Sequence[str], here: Machine, special: ProtectedPaths, private: Path, unset: list[str]
    ) -> Confined:
        if here.bwrap is None:
            raise SandboxError(f"bwrap cannot be used: {here.bwrap_problem}.")
        policy = self.policy
        changed = private_variables(Path("/tmp"))  # noqa: S108 - its own
        families = [_INET, _INET6, _NETLINK] + ([_UNIX] if policy.unix_sockets else [])
        confined = Confined([], (readable_descriptor(launcher.system_call_filter(families)),))
        inner = list(arguments)
        try:
            if not isinstance(policy.network, bool):
                proxy = self._proxied(policy.network)
                changed |= _proxy_variables(policy.network)
                ours, theirs = socket.socketpair()
                confined.service = proxy.serve(ours)
                confined.pass_fds += (theirs.detach(),)
                inner = self._launched(confined, {"listen": [confined.pass_fds[-1], _PORT]}, inner)
            options = bwrap.namespaces(
                user=here.bwrap.user_namespace,
                disable_nested=here.bwrap.disables_nested,
                network=policy.network is True,
            )
            options += bwrap.mounts(policy, special, private)
            options += bwrap.variables(unset, changed)
            options += ["--seccomp", str(confined.pass_fds[0]), "--"]
        except BaseException:
            confined.close()
            raise
        confined.arguments = [here.bwrap.path, *options, *inner]
        return confined

    def _by_landlock(
        self, arguments: Sequence[str], special: ProtectedPaths, private: Path, unset: list[str]
    ) -> Confined:
        rules = landlock.rules(self.policy, special, private)
        families = [_INET, _INET6, _NETLINK] if self.policy.network is True else []
        spec = {"rules": rules, "families": families, "network": self.policy.network is True}
        spec |= {"unset": unset, "set": private_variables(private)}
        confined = Confined([])
        confined.arguments = self._launched(confined, spec, arguments)
        return confined

    def _launched(self, confined: Confined, spec: JsonObject, arguments: Sequence[str]) -> list[str]:
        python = plain_interpreter()
        inside = [root for root in self.policy.writable_roots if Path(os.path.realpath(python)).is_relative_to(root)]
        if inside:
            raise SandboxError(f"The interpreter {python} lies in {inside[0]}, which is writable in the sandbox.")
        descriptor = readable_descriptor(json.dumps(spec).encode())
        confined.pass_fds += (descriptor,)
        return [python, "-I", "-S", "-c", self._launcher, str(descriptor), *arguments]

    def _proxied(self, entries: Sequence[str]) -> Proxy:
        if self._proxy is None:
            try:
                self._proxy = Proxy(entries)
            except ValueError as error:
                raise SandboxError(f"`sandbox.network` of the settings: {error}.") from error
        return self._proxy


def _keys() -> list[str]:
    kept = child_environment()
    return [name for name in os.environ if name not in kept]


def _is_of_a_process(path: Path) -> bool:
    return path.is_relative_to("/proc") and len(path.parts) > 3 and (path.parts[2].isdecimal() or "task" in path.parts)


def _proxy_variables(entries: Sequence[str]) -> dict[str, str]:
    url = f"http://127.0.0.1:{_PORT}"
    names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    found = {spelling: url for name in names for spelling in (name, name.lower())}
    direct = "" if any(map(is_of_this_machine, entries)) else _LOCAL_ADDRESSES
    return found | {"NO_PROXY": direct, "no_proxy": direct}


def _as_words(unset: Sequence[str], changed: Mapping[str, str]) -> list[str]:
    removed = [word for name in unset for word in ("-u", name)]
    return [*removed, *(f"{name}={value}" for name, value in changed.items())]


def _below(path: Path, roots: Sequence[Path]) -> tuple[str, ...]:
    """Return the parts of a path below the root that it lies in."""
    return next((path.relative_to(root).parts for root in roots if path.is_relative_to(root)), ())
