"""Two more seccomp filters: of a process that is to reach nothing outside, and of a program that is tried.

What this module promises, beside what ``launcher.system_call_filter`` does:

- ``lone_filter``: no program and no process is started, no other process is signalled, looked into or slowed, nothing
  is connected to or listened for, and no memory is shared. Files are kept by Landlock; what that does not cover is done
  here. Owners, modes and times of files are not changed, locks are not taken, and the calls for these succeed all the
  same, for libraries make them on their own files.
- ``reporting_filter``: each call that could change a file, reach or signal another process, or leave something in the
  kernel, waits for the supervisor's answer. Calls that only read cost nothing, for which reason ``openat2``, whose
  flags a filter cannot see, is not there. Nothing depends on the answer alone where the supervisor lets a call go on:
  files are kept by Landlock or by mounts, and of sockets only such can be made as reach no receiver without
  ``connect``, which never goes on.
"""

from __future__ import annotations

import os

from indus_nb.safety.sandbox.launcher import (
    AND,
    ANY_BIT,
    EQUAL,
    ERROR,
    LOAD,
    MACHINES,
    NOTIFY,
    REFUSED,
    RETURN,
    system_call_filter,
)

_Numbers = tuple[int, int]
_Instruction = tuple[int, int, int, int]

_EPERM, _ENOTTY, _ENOSYS = 1, 25, 38

# The numbers of system calls: x86_64, aarch64.
_CHANGES_NAMES: dict[str, _Numbers] = {
    "creat": (85, -1),
    "unlink": (87, -1),
    "unlinkat": (263, 35),
    "rmdir": (84, -1),
    "rename": (82, -1),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "mkdir": (83, -1),
    "mkdirat": (258, 34),
    "link": (86, -1),
    "linkat": (265, 37),
    "symlink": (88, -1),
    "symlinkat": (266, 36),
    "mknod": (133, -1),
    "mknodat": (259, 33),
}
"""Calls that make, remove or move files by their names."""
_DESCRIBES: dict[str, _Numbers] = {
    "chmod": (90, -1),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, -1),
    "fchown": (93, 55),
    "lchown": (94, -1),
    "fchownat": (260, 54),
    "utime": (132, -1),
    "utimes": (235, -1),
    "futimesat": (261, -1),
    "utimensat": (280, 88),
}
"""Calls that set owners, modes and times."""
_CHANGES_CONTENTS: dict[str, _Numbers] = {
    "truncate": (76, 45),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "setxattrat": (463, 463),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}
"""Calls that set the size and the attributes of files."""
_REACHES: dict[str, _Numbers] = {
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
}
"""Calls that are about another process, or may be about this one."""
_KILLS: dict[str, _Numbers] = {
    "kill": (62, 129),
    "tgkill": (234, 131),
}
"""Calls that signal a process, which is their first argument."""
_LOOKS_INTO_OTHERS: dict[str, _Numbers] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "kcmp": (312, 272),
    "pidfd_send_signal": (424, 424),
    "pidfd_getfd": (438, 438),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semctl": (66, 191),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "fanotify_init": (300, 262),
}
"""Calls that look into other processes and share memory and queues with them."""
OPENS: dict[str, _Numbers] = {"open": (2, -1), "openat": (257, 56)}
RUNS: dict[str, _Numbers] = {"execve": (59, 221), "execveat": (322, 281)}
_SENDS: dict[str, _Numbers] = {"sendto": (44, 206), "sendmsg": (46, 211), "sendmmsg": (307, 269)}
_OPENAT2: _Numbers = (437, 437)
_SOCKET, _SOCKETPAIR = (41, 198), (53, 199)
_CLONE, _PRCTL, _PRLIMIT, _FCNTL, _IOCTL = (56, 220), (157, 167), (302, 261), (72, 25), (16, 29)
_FCNTL_OF_OTHERS = (8, 10, 15, 1024, 1026)
"""Of ``fcntl``: who is signalled, leases and notices."""
CHANGES: dict[str, _Numbers] = {**_CHANGES_NAMES, **_DESCRIBES, **_CHANGES_CONTENTS}
"""Calls that change files by their names, or what is written down about them."""
NEVER: dict[str, _Numbers] = {**_LOOKS_INTO_OTHERS, **REFUSED}
"""Calls that nothing that only looks makes: they are rejected, and the attempt is an effect."""
_FLAGS_OF_OPENS = {"open": 1, "openat": 2}
_FLAGS_OF_SENDS = {"sendto": 3, "sendmsg": 2, "sendmmsg": 3}
"""Which argument of a call holds its flags."""
_CONDITIONAL: dict[str, _Numbers] = {
    "socket": _SOCKET,
    "socketpair": _SOCKETPAIR,
    "ioctl": _IOCTL,
    "prlimit64": _PRLIMIT,
    **_SENDS,
}
"""Calls that are reported with some arguments only."""
_FAST_OPEN = 0x20000000
_WRITES_CREATES_TRUNCATES = 3 | 0x40 | 0x200
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _SEQUENCED = 1, 5
_KIND = 0xF
"""Of a socket's type; the other bits are flags."""
_NETLINK_ROUTE_AND_DIAGNOSIS = (0, 4)
_READING_REQUESTS = (
    *(0x5401, 0x540F, 0x5413, 0x541B, 0x5421, 0x5429, 0x5450, 0x5451),
    *(0x80086601, 0x80046601, 0x801C581F, 0xC020660B, 0x2, 0x40049409, 0x4020940D),
)
"""Of ``ioctl``: about terminals and descriptors, attributes and extents of files; copies of what is open to write."""
_IMPLIED, _TCP = 0, 6

_NOTIFIED: _Instruction = (RETURN, 0, 0, NOTIFY)
_ALLOWED: _Instruction = (RETURN, 0, 0, 0x7FFF0000)
_REFUSED: dict[str, _Numbers] = {
    **RUNS,
    "fork": (57, -1),
    "vfork": (58, -1),
    "pidfd_open": (434, 434),
    "accept": (43, 202),
    "accept4": (288, 242),
    "sendmsg": _SENDS["sendmsg"],
    "sendmmsg": _SENDS["sendmmsg"],
    **_LOOKS_INTO_OTHERS,
    **_REACHES,
    **_CHANGES_CONTENTS,
}
_IGNORED: dict[str, _Numbers] = {**_DESCRIBES, "flock": (73, 32), "sync": (162, 81), "syncfs": (306, 267)}
_CLONE_THREAD = 0x10000
_LOCKS = (6, 7, 37, 38)
_OF_DESCRIPTORS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Of ``ioctl``: whether it is a terminal and how large, what can be read, whether it blocks and is inherited."""
_PARENT_DEATH_SIGNAL = 1
_TRUNCATES, _READS_AND_WRITES = 0x200, 3
_FAMILIES = [1, 2, 10]
"""Of sockets that may be made, since all that can be done with one is refused: Unix and both of the internet."""


def lone_filter() -> bytes:
    """Build the filter for the calling process, which is the only one that it may signal."""
    return system_call_filter(_FAMILIES, first=_alone(os.getpid()))


def _alone(process: int) -> list[_Instruction]:
    address = [_argument(4), _argument(4, high=True)]
    truncating = (_TRUNCATES, _READS_AND_WRITES, _TRUNCATES | _READS_AND_WRITES)
    decisions = [
        *(_where(numbers, _refuse(_EPERM)) for numbers in _REFUSED.values()),
        *(_where(numbers, _refuse(0)) for numbers in _IGNORED.values()),
        _where(_OPENAT2, _refuse(_ENOSYS)),  # its flags are out of sight; libraries go on with openat
        *(_where(numbers, _argument(0), *_unless_one_of((process,), _refuse(_EPERM))) for numbers in _KILLS.values()),
        _where(_CLONE, _argument(0), (ANY_BIT, 1, 0, _CLONE_THREAD), _refuse(_EPERM)),
        _where(
            _SENDS["sendto"], *(step for half in address for step in (half, *_unless_one_of((0,), _refuse(_EPERM))))
        ),
        _where(_PRCTL, _argument(0), *_if_one_of((_PARENT_DEATH_SIGNAL,), _refuse(_EPERM))),
        _where(_PRLIMIT, _argument(0), *_unless_one_of((0,), _refuse(_EPERM))),
        _where(_FCNTL, _argument(1), *_if_one_of(_LOCKS, _refuse(0)), *_if_one_of(_FCNTL_OF_OTHERS, _refuse(_EPERM))),
        _where(_IOCTL, _argument(1), *_unless_one_of(_OF_DESCRIPTORS, _refuse(_ENOTTY))),
        *(  # what is opened to be read is emptied by the flag all the same
            _where(
                OPENS[name],
                _argument(flags),
                (AND, 0, 0, _TRUNCATES | _READS_AND_WRITES),
                *_if_one_of(truncating, _refuse(_EPERM)),
            )
            for name, flags in _FLAGS_OF_OPENS.items()
        ),
    ]
    return [step for decision in decisions for step in decision]


def reporting_filter(*, reads: bool = False) -> bytes:
    """Return the filter, which needs a listener.

    Args:
        reads: Whether files that are only opened to be read, or run, are reported too.
    """
    return system_call_filter([], stay=True, first=_reporting(reads=reads))


def call_names() -> dict[int, str]:
    """Return the names of the calls that are reported, by their numbers on this machine."""
    tables = (CHANGES, _REACHES, _KILLS, NEVER, OPENS, RUNS, _CONDITIONAL)
    return {own: name for table in tables for name, numbers in table.items() if (own := _number(numbers)) >= 0}


def _reporting(*, reads: bool) -> list[_Instruction]:
    reported = (CHANGES, _REACHES, _KILLS, NEVER, *([RUNS, OPENS] if reads else []))
    decisions = [
        *(_where(numbers, _NOTIFIED) for table in reported for numbers in table.values()),
        _where(_OPENAT2, _refuse(_ENOSYS)),
        *(
            _where(OPENS[name], _argument(flags), *_if_any(_WRITES_CREATES_TRUNCATES, _NOTIFIED))
            for name, flags in ({} if reads else _FLAGS_OF_OPENS).items()
        ),
        *(
            _where(numbers, _argument(_FLAGS_OF_SENDS[name]), *_if_any(_FAST_OPEN, _NOTIFIED))
            for name, numbers in _SENDS.items()
        ),
        _where(_SOCKET, *_sockets()),
        _where(_SOCKETPAIR, *_stream_or_sequenced()),
        _where(_FCNTL, _argument(1), *_if_one_of(_FCNTL_OF_OTHERS, _refuse(_EPERM))),
        _where(_PRLIMIT, _argument(0), *_unless_one_of((0,), _NOTIFIED)),
        _where(_IOCTL, _argument(1), *_unless_one_of(_READING_REQUESTS, _NOTIFIED)),
    ]
    return [step for decision in decisions for step in decision]


def _only(*values: int) -> list[_Instruction]:
    return _unless_one_of(values, _NOTIFIED)


def _stream_or_sequenced() -> list[_Instruction]:
    return [_argument(1), (AND, 0, 0, _KIND), *_only(_STREAM, _SEQUENCED), _ALLOWED]


def _sockets() -> list[_Instruction]:
    """Return steps that allow only sockets that need ``connect``: others name a receiver with what they send."""
    netlink = [_argument(2), *_only(*_NETLINK_ROUTE_AND_DIAGNOSIS), _ALLOWED]
    unix = _stream_or_sequenced()
    tcp = [_argument(1), (AND, 0, 0, _KIND), *_only(_STREAM), _argument(2), *_only(_IMPLIED, _TCP), _ALLOWED]
    return [
        _argument(0),
        (EQUAL, 0, len(netlink), _NETLINK),
        *netlink,
        (EQUAL, 0, len(unix), _UNIX),
        *unix,
        *_only(_INET, _INET6),
        *tcp,
    ]


def _number(numbers: _Numbers) -> int:
    """Return the number of a call on this machine; below 0 if it has no such call."""
    return numbers[MACHINES[os.uname().machine][0]]


def _where(numbers: _Numbers, *body: _Instruction) -> list[_Instruction]:
    """Return what decides about one call, and leaves the number loaded for what follows."""
    own = _number(numbers)
    return [(EQUAL, 0, len(body) + 1, own), *body, (LOAD, 0, 0, 0)] if own >= 0 else []


def _argument(index: int, *, high: bool = False) -> _Instruction:
    """Return what loads one half of an argument."""
    return (LOAD, 0, 0, 16 + 8 * index + 4 * high)


def _refuse(error: int) -> _Instruction:
    """Return what ends a call with an error; 0 is success."""
    return (RETURN, 0, 0, ERROR | error)


def _if_one_of(values: tuple[int, ...], then: _Instruction) -> list[_Instruction]:
    """Return what decides if the loaded value is one of these."""
    return [step for value in values for step in ((EQUAL, 0, 1, value), then)]


def _if_any(bits: int, then: _Instruction) -> list[_Instruction]:
    """Return what decides if the loaded value has any of these bits."""
    return [(ANY_BIT, 0, 1, bits), then]


def _unless_one_of(values: tuple[int, ...], then: _Instruction) -> list[_Instruction]:
    """Return what decides unless the loaded value is one of these."""
    count = len(values)
    return [*((EQUAL, count - at, 0, value) for at, value in enumerate(values)), then]
