"""A seccomp filter for a process that is to reach nothing outside of itself.

What it promises, beside what `launcher.system_call_filter` does: no program and no process is started, no other process
is signalled, looked into or slowed, nothing is connected to or listened for, and no memory is shared. Files are kept by
Landlock; what that does not cover is done here. Owners, modes and times of files are not changed, locks are not taken,
and the calls for these succeed all the same, for libraries make them on their own files.
"""

from __future__ import annotations

import os

from indus_nb.safety.sandbox.launcher import AND, ANY_BIT, EQUAL, ERROR, LOAD, MACHINES, RETURN, system_call_filter

_EPERM, _ENOTTY, _ENOSYS = 1, 25, 38
_Numbers = tuple[int, int]
_Instruction = tuple[int, int, int, int]

# The numbers of system calls: x86_64, aarch64.
_REFUSED: dict[str, _Numbers] = {
    "execve": (59, 221),
    "execveat": (322, 281),
    "fork": (57, -1),
    "vfork": (58, -1),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "kcmp": (312, 272),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "pidfd_getfd": (438, 438),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
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
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "fanotify_init": (300, 262),
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
_IGNORED: dict[str, _Numbers] = {
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
    "flock": (73, 32),
    "sync": (162, 81),
    "syncfs": (306, 267),
}
_OPENAT2 = 437
_KILL, _TGKILL, _CLONE, _SENDTO = (62, 129), (234, 131), (56, 220), (44, 206)
_PRCTL, _PRLIMIT, _FCNTL, _IOCTL = (157, 167), (302, 261), (72, 25), (16, 29)
_OPEN, _OPENAT = (2, -1), (257, 56)
_CLONE_THREAD = 0x10000
_LOCKS = (6, 7, 37, 38)
_OF_OTHERS = (8, 10, 15, 1024, 1026)
"""Of ``fcntl``: who is signalled, leases and notices."""
_OF_DESCRIPTORS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Of ``ioctl``: whether it is a terminal and how large, what can be read, whether it blocks and is inherited."""
_PARENT_DEATH_SIGNAL = 1
_TRUNCATES, _READS_AND_WRITES = 0x200, 3
_FAMILIES = [1, 2, 10]
"""Of sockets that may be made, since all that can be done with one is refused: Unix and both of the internet."""


def lone_filter() -> bytes:
    """Build the filter for the calling process, which is the only one that it may signal."""
    return system_call_filter(_FAMILIES, first=_instructions(os.getpid()))


def _instructions(process: int) -> list[_Instruction]:
    column = MACHINES[os.uname().machine][0]
    program: list[_Instruction] = []

    def where(numbers: _Numbers, *body: _Instruction) -> None:
        number = numbers[column]
        if number >= 0:  # this machine has it
            program.extend([(EQUAL, 0, len(body) + 1, number), *body, (LOAD, 0, 0, 0)])

    for numbers in _REFUSED.values():
        where(numbers, _refuse(_EPERM))
    for numbers in _IGNORED.values():
        where(numbers, _refuse(0))
    where((_OPENAT2, _OPENAT2), _refuse(_ENOSYS))  # its flags are out of sight; libraries go on with openat
    for numbers in (_KILL, _TGKILL):
        where(numbers, _argument(0), (EQUAL, 1, 0, process), _refuse(_EPERM))
    where(_CLONE, _argument(0), (ANY_BIT, 1, 0, _CLONE_THREAD), _refuse(_EPERM))
    address = 4
    halves = [_argument(address), _argument(address, high=True)]
    where(_SENDTO, *(step for half in halves for step in (half, (EQUAL, 1, 0, 0), _refuse(_EPERM))))
    where(_PRCTL, _argument(0), *_if_one_of((_PARENT_DEATH_SIGNAL,), _EPERM))
    where(_PRLIMIT, _argument(0), (EQUAL, 1, 0, 0), _refuse(_EPERM))
    where(_FCNTL, _argument(1), *_if_one_of(_LOCKS, 0), *_if_one_of(_OF_OTHERS, _EPERM))
    count = len(_OF_DESCRIPTORS)
    allowed = [(EQUAL, count - at, 0, request) for at, request in enumerate(_OF_DESCRIPTORS)]
    where(_IOCTL, _argument(1), *allowed, _refuse(_ENOTTY))
    for numbers, flags in ((_OPEN, 1), (_OPENAT, 2)):  # what is opened to be read is emptied by the flag all the same
        wrong = (_TRUNCATES, _READS_AND_WRITES, _TRUNCATES | _READS_AND_WRITES)
        mask = (AND, 0, 0, _TRUNCATES | _READS_AND_WRITES)
        where(numbers, _argument(flags), mask, *_if_one_of(wrong, _EPERM))
    return program


def _argument(index: int, *, high: bool = False) -> _Instruction:
    return (LOAD, 0, 0, 16 + 8 * index + 4 * high)


def _refuse(error: int) -> _Instruction:
    return (RETURN, 0, 0, ERROR | error)


def _if_one_of(values: tuple[int, ...], error: int) -> list[_Instruction]:
    return [step for value in values for step in ((EQUAL, 0, 1, value), _refuse(error))]
