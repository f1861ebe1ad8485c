"""Confine a process by Landlock and seccomp, then run a program in its place.

The package imports this module for the filter of system calls. Confined programs are started by its text: it stands
alone, so that an isolated interpreter (``python -I -S -c``) needs no other module of ours.

What it promises: a program is run only after everything that was asked of the kernel is in force; a refusal of the
kernel ends the process with a sentence and status 126. Nothing that is set here can be undone by the program.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import stat
import struct
import sys
import time

TYPE_CHECKING = False  # as in `typing`, whose import takes longer than everything here
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

NOT_CONFINED = 126
"""The status of a process that could not be confined, and ran nothing."""

# Landlock: rights on files, by the version of the interface that brought them.
_LIST = 1 << 3
_READ = 1 << 0 | 1 << 2 | _LIST  # execute, read files, list directories
_OF_FILES = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15  # what a rule for anything but a directory may hold
_RIGHTS = (0, (1 << 13) - 1, (1 << 14) - 1, (1 << 15) - 1, (1 << 15) - 1, (1 << 16) - 1)
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CONNECT_AND_BIND_TCP = 3
_ABSTRACT_SOCKETS_AND_SIGNALS = 3

_NO_NEW_PRIVILEGES, _CAPBSET_DROP, _PDEATHSIG, _SUBREAPER, _DUMPABLE, _SECUREBITS = 38, 24, 1, 36, 4, 28
_SET_FILTER, _NEW_LISTENER, _WAIT_KILLABLE = 1, 1 << 3, 1 << 5
_AMBIENT, _RAISE, _READS_ALL = 47, 2, 2
_SOL_SOCKET, _SCM_RIGHTS = 1, 1

# The numbers of system calls: x86_64, aarch64.
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_SOCKET, _CLONE, _IOCTL, _SETSID, _SETPGID = (41, 198), (56, 220), (16, 29), (112, 157), (109, 154)
_SECCOMP = (317, 277)
_ABSENT = {  # programs do without them: they hide their arguments from a filter, or lead round it
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
REFUSED = {  # other namespaces, mounts, keys of the user, and the kernel itself
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "open_by_handle_at": (304, 265),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
}
_NEW_NAMESPACES = 0x7E020000
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
# Instructions of the packet filter: a code, how many to skip if so and if not, and a value.
LOAD, EQUAL, _AT_LEAST, ANY_BIT, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, ERROR, NOTIFY = 0x7FFF0000, 0x00050000, 0x7FC00000
_EPERM, _EACCES, _ENOSYS = 1, 13, 38
_LOOKS_EVERY_MS = 500
_MAX_PROCESSES = 400
_MAX_SECONDS_AFTERWARDS = 0.3
"""Seconds by which children of a tried program may outlive it."""


def can_filter() -> bool:
    """Return whether the numbers of this machine's system calls are known here."""
    return os.uname().machine in MACHINES and sys.maxsize > 1 << 32


def system_call_filter(
    families: list[int], *, stay: bool = False, first: list[tuple[int, int, int, int]] | None = None
) -> bytes:
    """Make a seccomp filter, as the kernel and ``bwrap --seccomp`` read it.

    Args:
        families: The address families of which sockets may be made.
        stay: Whether processes are kept in their session and process group: calls that leave it do nothing and succeed.
        first: Instructions that decide before all others; they find, and leave, the call's number loaded.

    Returns:
        A program for the kernel's packet filter, instruction by instruction.
    """
    column, architecture = MACHINES[os.uname().machine]
    program: list[tuple[int, int, int, int]] = []

    def refuse(error: int) -> None:
        program.append((RETURN, 0, 0, ERROR | error))

    def unless(test: int, value: int, skip: int = 1) -> None:
        program.append((test, 0, skip, value))

    program += [(LOAD, 0, 0, 4), (EQUAL, 1, 0, architecture)]
    refuse(_ENOSYS)  # another architecture's calls have other numbers
    program.append((LOAD, 0, 0, 0))
    unless(_AT_LEAST, 0x40000000)
    refuse(_ENOSYS)  # so have those of x32
    program += first or []
    for numbers in _ABSENT.values():
        unless(EQUAL, numbers[column])
        refuse(_ENOSYS)
    for numbers in REFUSED.values():
        unless(EQUAL, numbers[column])
        refuse(_EPERM)
    for numbers in (_SETSID, _SETPGID) if stay else ():
        unless(EQUAL, numbers[column])
        refuse(0)
    # Calls whose arguments count; each block ends the program.
    unless(EQUAL, _CLONE[column], 4)
    program.append((LOAD, 0, 0, 16))
    unless(ANY_BIT, _NEW_NAMESPACES)
    refuse(_EPERM)
    program.append((RETURN, 0, 0, _ALLOW))
    unless(EQUAL, _IOCTL[column], 2 * len(_TERMINAL_INPUT) + 2)
    program.append((LOAD, 0, 0, 24))
    for request in _TERMINAL_INPUT:
        unless(EQUAL, request)
        refuse(_EPERM)
    program.append((RETURN, 0, 0, _ALLOW))
    unless(EQUAL, _SOCKET[column], 2 * len(families) + 2)
    program.append((LOAD, 0, 0, 16))
    for family in families:
        unless(EQUAL, family)
        program.append((RETURN, 0, 0, _ALLOW))
    refuse(_EACCES)
    program.append((RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def landlock_version() -> int:
    """Return the version of the kernel's Landlock interface; 0 where there is none."""
    if sys.platform != "linux":
        return 0
    return max(_libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1)), 0)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result


def _option(libc: ctypes.CDLL, what: str, option: int, *values: object) -> None:
    padded = [*values, *(0 for _ in range(4 - len(values)))]
    _checked(libc.prctl(option, *(ctypes.c_ulong(each) if isinstance(each, int) else each for each in padded)), what)


def _drop_capabilities(libc: ctypes.CDLL, *, reads: bool = False) -> None:
    """Drop root's capabilities, except reading what others may not, if that is wanted."""
    kept = 0
    if reads:
        with open("/proc/self/status", "rb") as file:
            found = file.read().partition(b"\nCapPrm:")[2].split(b"\n", 1)[0]
        kept = int(found, 16) & 1 << _READS_ALL
    for capability in range(64):
        if not kept >> capability & 1 and libc.prctl(_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) < 0:
            break
    libc.prctl(_SECUREBITS, ctypes.c_ulong(0x2F), 0, 0, 0)  # uid 0 is given none anew; only root may ask for that
    header = struct.pack("=Ii", 0x20080522, 0)
    _checked(libc.capset(header, struct.pack("=6I", kept, kept, kept, 0, 0, 0)), "dropping capabilities")
    if kept:
        _option(libc, "PR_CAP_AMBIENT", _AMBIENT, _RAISE, _READS_ALL)


def _restrict(libc: ctypes.CDLL, version: int, rules: list[tuple[str, bool | None]], *, network: bool) -> None:
    """Allow what the rules allow: a path, and whether it may be changed besides being read (``None``: only listed)."""
    rights = _RIGHTS[min(version, len(_RIGHTS) - 1)]
    attributes = struct.pack(
        "=QQQ",
        rights,
        _CONNECT_AND_BIND_TCP if version >= 4 and not network else 0,
        _ABSTRACT_SOCKETS_AND_SIGNALS if version >= 6 else 0,
    )[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = _checked(
        libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0)), "Landlock"
    )
    for path, writable in rules:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # it has gone, so there is nothing to allow
        mode = os.fstat(descriptor).st_mode
        allowed = rights & (_LIST if writable is None else -1 if writable else _READ)
        if stat.S_ISCHR(mode):
            allowed = rights & (1 << 1 | 1 << 2)
        elif not stat.S_ISDIR(mode):
            allowed &= _OF_FILES
        if not stat.S_ISLNK(mode):
            rule = struct.pack("=Qi", allowed, descriptor)
            _checked(
                libc.syscall(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint32(0)),
                path,
            )
        os.close(descriptor)
    _checked(libc.syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0)), "Landlock")
    os.close(ruleset)


def _install_filter(libc: ctypes.CDLL, program: bytes, flags: int = 0) -> int:
    """Install the filter; return the descriptor of its listener if the flags ask for one."""
    buffer = ctypes.create_string_buffer(program, len(program))
    size = struct.calcsize("=HBBI")
    header = struct.pack("@HP", len(program) // size, ctypes.addressof(buffer))
    number = _SECCOMP[MACHINES[os.uname().machine][0]]
    return _checked(libc.syscall(number, ctypes.c_uint(_SET_FILTER), ctypes.c_uint(flags), header), "seccomp")


def _install_reporting(libc: ctypes.CDLL, program: bytes, control: int) -> None:
    """Install a filter and have the process at the other end of a socket take its listener first."""
    try:
        listener = _install_filter(libc, program, _NEW_LISTENER | _WAIT_KILLABLE)
    except OSError:  # a kernel before 5.19
        listener = _install_filter(libc, program, _NEW_LISTENER)
    _hand_over(libc, control, listener, f"{os.getpid()}\n".encode())
    if os.read(control, 1) != b"y":
        raise OSError(1, "what the program does cannot be watched")
    os.close(listener)


def _hand_over(libc: ctypes.CDLL, control: int, descriptor: int, text: bytes) -> None:
    """Send a descriptor with a text, without the import of ``socket``, which takes longer than all else here."""
    data = ctypes.create_string_buffer(text, len(text))
    vector = ctypes.create_string_buffer(struct.pack("@PN", ctypes.addressof(data), len(text)))
    rights = struct.pack("@Niii4x", struct.calcsize("@Niii"), _SOL_SOCKET, _SCM_RIGHTS, descriptor)
    ancillary = ctypes.create_string_buffer(rights)
    lengths = ctypes.addressof(vector), 1, ctypes.addressof(ancillary), len(rights), 0
    _checked(libc.sendmsg(control, struct.pack("@PI4xPNPNi4x", 0, 0, *lengths), 0), "handing the filter over")


def _lend_listener(descriptor: int, port: int) -> None:
    """Hand a listening socket of this network namespace to the process outside."""
    import array
    import socket

    with socket.socket() as listener, socket.socket(fileno=descriptor) as outside:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
        outside.sendmsg([b"l"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener.fileno()]))])


def confine(rules: list[tuple[str, bool | None]], program: bytes, *, network: bool, parent: int) -> None:
    """Give this process, and all that it starts, no more than is allowed; it ends with the thread that started it.

    Args:
        rules: Paths that may be read, and whether they may be changed too; with ``None`` they are only listed.

    Raises:
        OSError: The kernel refused, and something may be in force all the same; or the parent has ended.
    """
    libc = _libc()
    _give_up_rights(libc, parent)
    _restrict(libc, landlock_version(), rules, network=network)
    _install_filter(libc, program)


def _give_up_rights(libc: ctypes.CDLL, parent: int, *, reads: bool = False) -> None:
    _option(libc, "PR_SET_PDEATHSIG", _PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:  # the signal comes when it ends from now on
        raise ProcessLookupError(3, "the process that wanted this has ended")
    _drop_capabilities(libc, reads=reads)
    _option(libc, "no new privileges", _NO_NEW_PRIVILEGES, 1)


def _processes() -> Iterator[tuple[int, bytes, int, int]]:
    """Yield the number of each process, its state, its parent and its group."""
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, parent, group = file.read().rpartition(b")")[2].split()[:3]
            except OSError:
                continue
            yield int(name), state, int(parent), int(group)


def _wait(program: int) -> int:
    """Wait for a child, then kill every descendant; return the child's status."""
    status = None
    while status is None:
        ended, code = os.wait()
        if ended == program:
            status = code
    while True:
        for child in [process for process, _, parent, _ in _processes() if parent == os.getpid()]:
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return status
        time.sleep(0.001)


def _be_tried(spec: dict[str, Any], control: int, program: list[str], parent: int) -> None:
    """Run the program in this process, in a process group that it cannot leave, watched from outside."""
    libc = _libc()
    os.setpgid(0, 0)
    _give_up_rights(libc, parent, reads=True)
    if spec["rules"] is not None:  # else ``bwrap`` has confined us
        _restrict(libc, landlock_version(), spec["rules"], network=False)
    _install_reporting(libc, bytes.fromhex(spec["filter"]), control)
    os.close(control)
    os.execvp(program[0], program)


def _wait_for_tried(program: int, control: int) -> int:
    """Wait for the end of a tried program and its children, kill what stays, and report it outside."""
    import select

    _option(_libc(), "PR_SET_DUMPABLE", _DUMPABLE, 0)  # so that the program cannot make this process say what it likes
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    poll = select.poll()
    descriptor = os.pidfd_open(program)
    poll.register(descriptor, select.POLLIN)
    stays = b""
    while not poll.poll(_LOOKS_EVERY_MS):
        if _members(program) > _MAX_PROCESSES:
            stays = b"many"
            os.killpg(program, signal.SIGKILL)
    until = time.monotonic() + _MAX_SECONDS_AFTERWARDS
    os.waitid(os.P_PID, program, os.WEXITED | os.WNOWAIT)  # its number must stay its group's
    while not stays and _members(program) > 0:
        if time.monotonic() > until:
            stays = b"stays"
        time.sleep(0.005)
    try:
        os.killpg(program, signal.SIGKILL)
    except ProcessLookupError:
        pass
    status = _wait(program)
    os.write(control, b"end " + (stays or b"clean") + b"\n")
    return status


def _members(group: int) -> int:
    """Count the living processes of a group but for the first."""
    return sum(of == group != process and state not in (b"Z", b"X") for process, state, _, of in _processes())


def main(arguments: list[str]) -> None:
    """Confine this process as JSON at the first argument, a descriptor, says, and run the program in the others.

    With ``listen`` a socket is lent to the process outside, and nothing else is done: ``bwrap`` has confined us. With
    ``control`` the program is tried: what it would change is reported to the process at the other end of that socket.
    """
    with open(int(arguments[0]), encoding="utf-8") as file:
        spec: dict[str, Any] = json.load(file)
    program = arguments[1:]
    try:
        if "listen" in spec:
            descriptor, port = spec["listen"]
            _lend_listener(descriptor, port)
            os.execvp(program[0], program)
        _option(_libc(), "PR_SET_CHILD_SUBREAPER", _SUBREAPER, 1)
        for name in spec["unset"]:
            os.environ.pop(name, None)
        os.environ.update(spec["set"])
        control = spec.get("control")
        if control is not None:
            os.set_inheritable(control, False)  # noqa: FBT003
        parent = os.getpid()
        child = os.fork()
        if child == 0:
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which this interpreter ignores
                signal.signal(number, signal.SIG_DFL)
        if child == 0 and control is not None:
            _be_tried(spec, control, program, parent)
        if child == 0:
            calls = system_call_filter(spec["families"], stay=True)
            confine(spec["rules"], calls, network=spec["network"], parent=parent)
            os.execvp(program[0], program)
    except OSError as error:
        sys.stderr.write(f"sandbox: {error}. Nothing was run.\n")
        sys.stderr.flush()
        os._exit(NOT_CONFINED)
    status = _wait(child) if control is None else _wait_for_tried(child, control)
    if os.WIFSIGNALED(status):
        os.kill(os.getpid(), os.WTERMSIG(status))  # what Python catches ends it with a status of its own, which will do
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


if __name__ == "__main__":
    main(sys.argv[1:])
