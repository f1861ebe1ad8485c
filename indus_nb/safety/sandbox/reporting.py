"""A seccomp filter that reports calls that could change something to a supervisor, and lets all others pass.

What it promises, beside what ``launcher.system_call_filter`` does: each call that could change a file, reach or signal
another process, or leave something in the kernel, waits for the supervisor's answer. Calls that only read cost nothing,
for which reason ``openat2``, whose flags a filter cannot see, is not there. Nothing depends on the answer alone where
the supervisor lets a call go on: files are kept by Landlock or by mounts, and of sockets only such can be made as reach
no receiver without ``connect``, which never goes on.
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

# The numbers of system calls: x86_64, aarch64.
CHANGES: dict[str, _Numbers] = {
    "creat": (85, -1),
    "truncate": (76, 45),
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
"""Calls that change files by their names, or what is written down about them."""
REACHES: dict[str, _Numbers] = {
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
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
NEVER: dict[str, _Numbers] = {
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
    **REFUSED,
}
"""Calls that nothing that only looks makes: they are rejected, and the attempt is an effect."""
OPENS: dict[str, _Numbers] = {"open": (2, -1), "openat": (257, 56)}
RUNS: dict[str, _Numbers] = {"execve": (59, 221), "execveat": (322, 281)}
_OPENAT2 = (437, 437)
_SOCKET, _SOCKETPAIR, _IOCTL, _FCNTL, _PRLIMIT = (41, 198), (53, 199), (16, 29), (72, 25), (302, 261)
_SENDS = {"sendto": ((44, 206), 3), "sendmsg": ((46, 211), 2), "sendmmsg": ((307, 269), 3)}
"""Calls that send, and which argument holds their flags."""
CONDITIONAL: dict[str, _Numbers] = {
    "socket": _SOCKET,
    "socketpair": _SOCKETPAIR,
    "ioctl": _IOCTL,
    "prlimit64": _PRLIMIT,
    **{name: numbers for name, (numbers, _) in _SENDS.items()},
}
"""Calls that are reported with some arguments only."""
_FAST_OPEN = 0x20000000
_WRITES_CREATES_TRUNCATES = 3 | 0x40 | 0x200
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _SEQUENCED = 1, 5
_KIND = 0xF
"""Of a socket's type; the other bits are flags."""
_NETLINK_ROUTE_AND_DIAGNOSIS = (0, 4)
_OF_OTHERS = (8, 10, 15, 1024, 1026)
"""Of ``fcntl``: who is signalled, leases and notices."""
_READING_REQUESTS = (
    *(0x5401, 0x540F, 0x5413, 0x541B, 0x5421, 0x5429, 0x5450, 0x5451),
    *(0x80086601, 0x80046601, 0x801C581F, 0xC020660B, 0x2, 0x40049409, 0x4020940D),
)
"""Of ``ioctl``: about terminals and descriptors, attributes and extents of files; copies of what is open to write."""
_IMPLIED, _TCP = 0, 6
_ALLOW, _EPERM, _ENOSYS = 0x7FFF0000, 1, 38


_NOTIFIED: _Instruction = (RETURN, 0, 0, NOTIFY)
_ALLOWED: _Instruction = (RETURN, 0, 0, _ALLOW)


def reporting_filter(*, reads: bool = False) -> bytes:
    """Return the filter, which needs a listener.

    Args:
        reads: Whether files that are only opened to be read, or run, are reported too.
    """
    return system_call_filter([], stay=True, first=_instructions(reads=reads))


def call_names() -> dict[int, str]:
    """Return the names of the calls that are reported, by their numbers on this machine."""
    column = MACHINES[os.uname().machine][0]
    tables = (CHANGES, REACHES, NEVER, OPENS, RUNS, CONDITIONAL)
    return {numbers[column]: name for table in tables for name, numbers in table.items() if numbers[column] >= 0}


def _instructions(*, reads: bool) -> list[_Instruction]:
    column = MACHINES[os.uname().machine][0]
    program: list[_Instruction] = []

    def where(numbers: _Numbers, *body: _Instruction) -> None:
        number = numbers[column]
        if number >= 0:  # this machine has it
            program.extend([(EQUAL, 0, len(body) + 1, number), *body, (LOAD, 0, 0, 0)])

    for table in (CHANGES, REACHES, NEVER, *([RUNS] if reads else [])):
        for numbers in table.values():
            where(numbers, _NOTIFIED)
    where(_OPENAT2, _refuse(_ENOSYS))
    for name, flags in (("open", 1), ("openat", 2)):
        where(
            OPENS[name],
            *([_NOTIFIED] if reads else [_argument(flags), *_if_any(_WRITES_CREATES_TRUNCATES, _NOTIFIED)]),
        )
    for numbers, flags in _SENDS.values():
        where(numbers, _argument(flags), *_if_any(_FAST_OPEN, _NOTIFIED))
    where(_SOCKET, *_sockets())
    where(_SOCKETPAIR, *_stream_or_sequenced())
    where(_FCNTL, _argument(1), *(step for each in _OF_OTHERS for step in _if_equal(each, _refuse(_EPERM))))
    where(_PRLIMIT, _argument(0), (EQUAL, 1, 0, 0), _NOTIFIED)
    count = len(_READING_REQUESTS)
    allowed = [(EQUAL, count - at, 0, request) for at, request in enumerate(_READING_REQUESTS)]
    where(_IOCTL, _argument(1), *allowed, _NOTIFIED)
    return program


def _argument(index: int) -> _Instruction:
    return (LOAD, 0, 0, 16 + 8 * index)


def _refuse(error: int) -> _Instruction:
    return (RETURN, 0, 0, ERROR | error)


def _if_equal(value: int, then: _Instruction) -> list[_Instruction]:
    return [(EQUAL, 0, 1, value), then]


def _if_any(bits: int, then: _Instruction) -> list[_Instruction]:
    return [(ANY_BIT, 0, 1, bits), then]


def _only(*values: int) -> list[_Instruction]:
    """Return steps that continue if the value is one of these, and else report the call."""
    count = len(values)
    return [*((EQUAL, count - at, 0, value) for at, value in enumerate(values)), _NOTIFIED]


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
