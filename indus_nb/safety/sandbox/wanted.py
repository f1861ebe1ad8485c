"""Attempted changes of a tried program, call by call.

What this module promises: a call that would change something is kept as an effect and does not go on, unless it keeps
to what may be changed; it goes on only where the kernel refuses all the same what it was mistaken for. At most
``MAX_EFFECTS`` effects are named, with one of each kind; the others are counted by kind.

So that a trial does not end at its first effect, such a call often ends as if it had gone on (``pretended``).
"""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from indus_nb.safety.effects import Effect, EffectKind, cut
from indus_nb.safety.sandbox.calls import Arguments, Call, Given, UnreadableError, host_and_port, resolved, signed
from indus_nb.safety.sandbox.filters import CHANGES, NEVER, OPENS, RUNS
from indus_nb.safety.sandbox.pretended import CREATES, EXCLUSIVE, Pretended

MAX_EFFECTS = 50
_MAX_COUNTED = 10_000
_MAX_NAMED_BELOW = 5
"""Most files and directories that are named beside the directory that is deleted with them."""
_REST: Mapping[EffectKind, str] = {
    "reads_outside": "reads {} more",
    "writes_file": "writes {} more",
    "deletes": "deletes {} more",
    "runs_program": "runs {} more",
    "uses_network": "connects to {} more",
    "sends_message": "sends something to {} more",
}
"""Words for effects that are not named: without an object, so that no rule covers them."""
_MAX_ADDRESS = 128
_NO_REPLACE = 1
"""The flag of ``renameat2`` for a move that replaces nothing, which ``mv`` tries first; others exchange two files."""
_NO_FOLLOW, _TEMPORARY = os.O_NOFOLLOW, 0o20000000
_WRITES = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx")
_OF_A_PROCESS = re.compile(r"/proc/(\d+)(/.*)?")
_NAME_SERVICES = ("/run/nscd/", "/var/run/nscd/", "/run/systemd/userdb/", "/run/systemd/resolve/", "/var/lib/sss/")
"""Sockets at which the C library looks names up; without them it reads files."""
_PATHS: dict[str, tuple[EffectKind, str, tuple[tuple[int | None, int], ...]]] = {
    # kind, verb, and for each path the argument with its directory and the one with its name
    "truncate": ("writes_file", "writes", ((None, 0),)),
    "unlink": ("deletes", "deletes", ((None, 0),)),
    "unlinkat": ("deletes", "deletes", ((0, 1),)),
    "rmdir": ("deletes", "deletes", ((None, 0),)),
    "rename": ("writes_file", "moves", ((None, 0), (None, 1))),
    "renameat": ("writes_file", "moves", ((0, 1), (2, 3))),
    "renameat2": ("writes_file", "moves", ((0, 1), (2, 3))),
    "mkdir": ("writes_file", "makes", ((None, 0),)),
    "mkdirat": ("writes_file", "makes", ((0, 1),)),
    "link": ("writes_file", "makes", ((None, 1), (None, 0))),  # a file can be written by each of its names
    "linkat": ("writes_file", "makes", ((2, 3), (0, 1))),
    "symlink": ("writes_file", "makes", ((None, 1),)),
    "symlinkat": ("writes_file", "makes", ((1, 2),)),
    "mknod": ("writes_file", "makes", ((None, 0),)),
    "mknodat": ("writes_file", "makes", ((0, 1),)),
}
_ON_DESCRIPTORS = ("fchmod", "fchown", "fsetxattr", "fremovexattr")
_WITH_DIRECTORY = ("fchmodat", "fchmodat2", "fchownat", "futimesat", "utimensat", "setxattrat", "removexattrat")
_NETWORK = ("socket", "socketpair", "listen", "sendto", "sendmsg", "sendmmsg")
_SIGNALS = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")
_MODES = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2}
"""Calls that set a mode, and which argument it is."""
_MADE_ANEW = os.O_WRONLY | CREATES | os.O_TRUNC
"""The flags that ``creat`` stands for."""
_MAKES = ("mkdir", "mkdirat", "link", "linkat", "symlink", "symlinkat", "mknod", "mknodat")


class Wanted:
    """Decisions about calls, and the effects of those that are rejected.

    Args:
        private: The program's own directory, where it may do what it likes.
        held: Files that it may write to besides.
        reads: What it may read, where that is looked at.
        on_effect: Called after the first effect.
        truncates: Whether the kernel refuses to truncate other files, so that ``truncate`` may go on.
    """

    def __init__(
        self,
        cwd: Path,
        private: Path,
        held: Sequence[Path],
        reads: Callable[[Path], bool],
        on_effect: Callable[[], None],
        *,
        truncates: bool,
    ) -> None:
        self.group: int | None = None
        """The process group of the program, once it has begun."""
        self.pretends_from: Effect | None = None
        """The first effect after which the program went on as if it had happened, and read what was there before."""
        self.ran_on: bool = False
        """Whether another program ran after that effect."""
        self.only_opens: bool = True
        """Whether all that it wanted of files was to open them."""
        self._cwd = cwd
        self._private = private
        self._held = held
        self._reads = reads
        self._on_effect = on_effect
        self._effects: dict[tuple[str, str], Effect] = {}
        self._uncounted: dict[EffectKind, None] = {}
        self._pretended = Pretended(private, nothing=bool(held))
        named: dict[str, Callable[[Call, Arguments], int | Given | None]] = {
            **dict.fromkeys(NEVER, self._never),
            **dict.fromkeys(CHANGES, self._describes),
            **dict.fromkeys(_PATHS, self._changes),
            "truncate": self._changes if truncates else self._never,
            **dict.fromkeys((*OPENS, "creat"), self._opens),
            **dict.fromkeys(RUNS, self._runs),
            **dict.fromkeys(_NETWORK, self._uses_network),
            **dict.fromkeys(_SIGNALS, self._signals),
            **dict.fromkeys(("connect", "bind"), self._connects),
            "ioctl": self._controls,
        }
        self._named = named

    @property
    def effects(self) -> list[Effect]:
        """Return the effects so far, in order: a directory with much in it as one, and what is not named as counts."""
        uncounted: list[EffectKind] = [*self._uncounted]
        named, rest = cut(self._with_directories_as_one(), MAX_EFFECTS)
        kinds: list[EffectKind] = [*uncounted, *(effect.kind for effect in rest)]
        counts: Counter[EffectKind] = Counter(kinds)
        for kind, count in counts.items():
            number = f"at least {count:,}" if kind in uncounted else f"{count:,}"
            named.append(Effect(kind, "", _REST.get(kind, "does {} more things that are not known").format(number)))
        return named

    @property
    def last(self) -> Effect | None:
        """Return the last effect so far."""
        return next(reversed([*self._effects.values()]), None)

    def _with_directories_as_one(self) -> list[Effect]:
        emptied = {*self._pretended.emptied}  # read first: what is in them is among the effects by then
        effects = dict([*self._effects.items()])
        outermost = {each for each in emptied if emptied.isdisjoint(each.parents)}
        if not outermost:
            return [*effects.values()]

        def outermost_of(kind: str, what: str) -> Path | None:
            places = (Path(what), *Path(what).parents) if kind == "deletes" else ()
            return next((place for place in places if place in outermost), None)

        deleted_with = {key: outermost_of(*key) for key in effects}
        below = Counter(top for (_, what), top in deleted_with.items() if top is not None and what != str(top))
        files = Counter(top for (_, what), top in deleted_with.items() if Path(what) not in emptied)
        found: dict[tuple[str, str], Effect] = {}
        for key, effect in effects.items():
            top = deleted_with[key]
            if top is None or below[top] <= _MAX_NAMED_BELOW:
                found[key] = effect
                continue
            number = f"at least {files[top]:,}" if "deletes" in self._uncounted else f"{files[top]:,}"
            much = f"{number} file{'s' * (files[top] != 1)}" if files[top] else f"{below[top]:,} empty directories"
            found["deletes", str(top)] = Effect("deletes", str(top), f"deletes {self._shown(top)} ({much})")
        return [*found.values()]

    def decide(self, call: Call, listener: int) -> int | Given | None:
        """Decide whether a call goes on.

        Args:
            listener: Where it was received.

        Returns:
            The error that it ends with: 0 for none, ``None`` to let it go on; or the descriptor that it returns.
        """
        try:
            return self._named.get(call.name, self._sets)(call, Arguments(call, listener))
        except UnreadableError:
            self.add("unknown", call.name, f"makes a system call ({call.name}) that cannot be looked at")
            return errno.EPERM
        except OSError as failure:  # a descriptor that is none, a name that is too long
            return failure.errno or errno.EPERM

    def add(self, kind: EffectKind, what: str, words: str) -> None:
        """Keep an effect; where there is no room, that there are more of its kind."""
        if (kind, what) in self._effects:
            return
        if len(self._effects) >= _MAX_COUNTED:
            self._uncounted[kind] = None
            return
        self._effects[kind, what] = Effect(kind, what, words)
        if len(self._effects) == 1:
            self._on_effect()

    def close(self) -> None:
        """Remove what was written instead of files."""
        self._pretended.close()

    def _never(self, call: Call, _: Arguments) -> int | None:
        self.add("unknown", call.name, f"makes a system call ({call.name}) that may change more than itself")
        return errno.EPERM

    def _uses_network(self, call: Call, _: Arguments) -> int | None:
        self.add("uses_network", "", "listens for connections" if call.name == "listen" else "uses the network")
        return errno.EACCES

    def _controls(self, call: Call, _: Arguments) -> int | None:
        self.add("unknown", call.name, "asks a device or a file system for something")
        return errno.ENOTTY

    def _opens(self, call: Call, arguments: Arguments) -> int | Given | None:
        at = 0 if call.name == "openat" else None
        flags = _MADE_ANEW if call.name == "creat" else call.arguments[2 if call.name == "openat" else 1]
        named = arguments.path(at, 0 if at is None else 1)
        follows = not flags & (_NO_FOLLOW | EXCLUSIVE)
        place = resolved(named, follows=follows)
        # Such a call truncates a file, and Landlock before its third version sees no writing in that.
        needs_no_right = flags & os.O_TRUNC and flags & os.O_ACCMODE not in (os.O_WRONLY, os.O_RDWR)
        if place is None or self._is_free(place):
            return errno.EACCES if needs_no_right else None
        if needs_no_right:
            return self._writes(place, self._shown(place))
        if not flags & _WRITES:
            return self._is_read(place)
        if flags & _TEMPORARY == _TEMPORARY:
            return self._writes(place, f"a file in {self._shown(place)}") if place != self._private else None
        state = _state(place)
        if self._pretended.has_made(place):
            is_moot = False
        elif state is None:
            is_moot = not flags & CREATES or not self._pretended.is_directory(place.parent)
        else:
            is_moot = bool(flags & EXCLUSIVE) or stat.S_ISDIR(state.st_mode)
        if is_moot:
            return None
        error = self._writes(place, self._shown(place))
        given = error if place.is_relative_to("/dev") else self._pretended.opened(place, state, flags, arguments)
        if isinstance(given, Given):
            self._goes_on_after(len(self._effects))
        return given

    def _writes(self, place: Path, shown: str) -> int:
        if place.is_relative_to("/dev") and not place.is_relative_to("/dev/shm"):  # noqa: S108
            self.add("unknown", str(place), f"uses the device {shown}")
        else:
            self._adds_write(place, "writes", shown)
        return errno.EROFS

    def _adds_write(self, place: Path, verb: str, shown: str) -> None:
        in_repository = ".git" in place.parts[:-1]
        self.add("writes_file", str(place), f"changes the repository ({shown})" if in_repository else f"{verb} {shown}")

    def _runs(self, call: Call, arguments: Arguments) -> int | None:
        place = resolved(arguments.path(*((None, 0) if call.name == "execve" else (0, 1))), follows=True)
        state = None if place is None else _state(place)
        if place is None or state is None:
            return None
        self.ran_on = self.ran_on or self.pretends_from is not None
        if state.st_mode & (stat.S_ISUID | stat.S_ISGID):
            self.add("runs_program", str(place), f"runs {place.name} with the rights of another user")
        return self._is_read(place)

    def _is_read(self, place: Path) -> int | None:
        if place == self._private or self._reads(place) or not os.path.lexists(place):
            return None
        self.add("reads_outside", str(place), f"reads {self._shown(place)}")
        return errno.EACCES

    def _changes(self, call: Call, arguments: Arguments) -> int | None:
        kind, verb, paths = _PATHS[call.name]
        places = [resolved(arguments.path(*each), follows=call.name == "truncate") for each in paths]
        places = [place for place in places if place is not None]
        made = places[0] if places and self._pretended.has_made(places[0]) else None
        if made is not None and call.name not in _MAKES:
            how = call.arguments[4] if call.name == "renameat2" else 0
            return self._changes_made(kind, made, places[-1], exchanges=bool(how & ~_NO_REPLACE))
        if call.name in _MAKES:
            is_moot = any(
                os.path.lexists(place) or not self._pretended.is_directory(place.parent) for place in places[:1]
            )
        else:
            is_moot = any(not os.path.lexists(place) for place in places[:1])
        if is_moot:  # the kernel says so, and how
            return errno.ENOENT if call.name == "truncate" else None
        if all(self._is_free(place, writes=call.name == "truncate") for place in places):
            return None
        self.only_opens = self.only_opens and call.name == "truncate"
        before = len(self._effects)
        for place in places:
            if kind == "writes_file":
                self._adds_write(place, verb, self._shown(place))
            else:
                self.add(kind, str(place), f"{verb} {self._shown(place)}")
            verb = "writes"
        error = self._pretended.changed(call.name, places, call.arguments[2])
        if not error:
            self._goes_on_after(before)
        return error

    def _goes_on_after(self, number: int) -> None:
        """Note that the program goes on as if the effect of a number had happened; the last one, if that is less."""
        if self.pretends_from is None and self._effects:
            self.pretends_from = [*self._effects.values()][min(number, len(self._effects) - 1)]

    def _changes_made(self, kind: EffectKind, made: Path, target: Path, *, exchanges: bool) -> int:
        """Move or remove what is there for the program alone: moved, it is its new name that is written."""
        if kind == "deletes":
            self._pretended.forget(made)
            return 0
        if exchanges:  # what was there goes on under the other name
            self._adds_write(target, "writes", self._shown(target))
            return errno.EROFS
        if self._is_free(target) or self._pretended.moved(made, target):
            return errno.EROFS
        self.only_opens = False
        former = self._effects.pop(("writes_file", str(made)), None)
        self._adds_write(target, "writes", self._shown(target))
        if former is not None and former is self.pretends_from:
            self.pretends_from = [*self._effects.values()][-1]
        return 0

    def _describes(self, call: Call, arguments: Arguments) -> int | None:
        """Decide about modes, owners, times and attributes, which Landlock does not hold: no such call goes on.

        In the program's own places modes are set from here, and the others do nothing and succeed.
        """
        if call.name in _ON_DESCRIPTORS:
            named = arguments.descriptor(signed(call.arguments[0]))
        else:
            named = arguments.path(*((0, 1) if call.name in _WITH_DIRECTORY else (None, 0)))
        place = resolved(named, follows=True)
        if place is None:
            return 0
        if self._is_free(place):
            self.only_opens = self.only_opens and not self._pretended.stands_in(place)
            return self._set_mode(place, call.arguments[_MODES[call.name]]) if call.name in _MODES else 0
        if not os.path.lexists(place):
            return errno.ENOENT
        self.only_opens = False
        self._adds_write(place, "changes the mode, owner, times or attributes of", self._shown(place))
        is_own = os.geteuid() == 0 or (os.geteuid() == place.lstat().st_uid and "chown" not in call.name)
        return 0 if is_own and not self._held else errno.EPERM

    def _set_mode(self, place: Path, mode: int) -> int:
        descriptor = os.open(place, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            opened = f"/proc/self/fd/{descriptor}"
            if not self._is_free(Path(opened).readlink()):  # a link was put in the way
                return errno.EPERM
            Path(opened).chmod(mode & 0o777)
        finally:
            os.close(descriptor)
        return 0

    def _connects(self, call: Call, arguments: Arguments) -> int | None:
        address = arguments.read(call.arguments[1], min(call.arguments[2] & 0xFFFFFFFF, _MAX_ADDRESS))
        family = int.from_bytes(address[:2], "little") if len(address) >= 2 else 0
        if family == socket.AF_NETLINK and call.name == "bind":
            return None  # the socket is one to the kernel, or none that a bind gets anywhere with
        if family == socket.AF_UNIX:
            name = os.fsdecode(address[2:].rstrip(b"\0").replace(b"\0", b"@"))
            if name.startswith(_NAME_SERVICES):
                return errno.ENOENT
            self.add("sends_message", name, f"{'connects to' if call.name == 'connect' else 'makes'} the socket {name}")
            return errno.EACCES
        if call.name == "bind":
            return 0  # no client gets at a port before something listens there, which is asked about then
        where = host_and_port(family, address)
        self.add("uses_network", where, f"connects to {where}" if where else "uses the network")
        return errno.EACCES

    def _signals(self, call: Call, _: Arguments) -> int | None:
        target = signed(call.arguments[0])
        group = self.group or 0
        if target in (0, -group) or (target > 0 and self._is_own(target)):
            return None
        if target > 0 and not Path(f"/proc/{target}").exists():
            return errno.ESRCH
        who = f"process {target}" if target > 0 else "all processes" if target == -1 else f"process group {-target}"
        self.add("sends_message", who, f"signals {who}")
        return errno.EPERM

    def _sets(self, call: Call, _: Arguments) -> int | None:
        """Decide about limits and priorities of a process: the program may change its own."""
        if call.name == "prlimit64" and not call.arguments[2]:
            return None
        at = 1 if call.name in ("setpriority", "ioprio_set") else 0
        of_groups = at == 1 and call.arguments[0] != (0 if call.name == "setpriority" else 1)
        target = signed(call.arguments[at])
        if not of_groups and (target == 0 or self._is_own(target)):
            return None
        self.add("unknown", call.name, "changes limits or priorities of other processes")
        return errno.EPERM

    def _is_own(self, process: int) -> bool:
        try:
            return os.getpgid(process) == self.group
        except (OSError, OverflowError):  # a number that no process can have
            return False

    def _is_free(self, place: Path, *, writes: bool = True) -> bool:
        """Return whether an operation on a file is no effect, or an allowed one."""
        if place.is_relative_to(self._private) and place != self._private:
            return True
        text = str(place)
        if text in _DEVICES or text.startswith("/dev/pts/"):
            return True
        of_process = _OF_A_PROCESS.fullmatch(text)
        if of_process is not None and self._is_own(int(of_process[1])):
            return True
        return writes and place in self._held

    def _shown(self, place: Path) -> str:
        return str(place.relative_to(self._cwd)) if place.is_relative_to(self._cwd) else str(place)


def _state(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None
