"""Commands that are tried and abuse it: to change something unasked, to read keys, to lie about what they wanted.

Each runs with everything that this machine can confine programs with, by a gate that says no. What it achieved is
looked at from outside.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from gates import RecordingGate
from living import ending
from trial_places import KEY, Place, git, place, running
from waiting import wait_until

from indus_nb.extend.approval import rules
from indus_nb.tools import ToolContext, ToolError

__all__ = ["place"]

PYTHON = shlex.quote(sys.executable)


IMPORTS = "import ctypes, mmap, os, signal, socket, struct, sys, threading, time"


def python(code: str, *, quiet: bool = True, alone: str = "-I -S") -> str:
    """A command that runs code, without the packages of the environment, and swallows how that ends."""
    hidden = " 2>/dev/null" if quiet else ""
    return f"{PYTHON} {alone} - <<'END'{hidden}; true\n{IMPORTS}\n{code}\nEND"


CHANGES = {
    "a link": 'ln -s ../diary.txt $TMPDIR/l; echo x > $TMPDIR/l; ln -s "$PWD"/x.csv $TMPDIR/m; echo x > $TMPDIR/m',
    "a link on the way": 'ln -s "$PWD" $TMPDIR/d; echo x > $TMPDIR/d/x.csv; rm $TMPDIR/d/x.py',
    "a hard link": "ln x.csv $TMPDIR/h; echo x >> $TMPDIR/h",
    "the root of a process": 'for r in self $$ 1; do echo x >"/proc/$r/root$PWD/new"; done; echo x >/proc/self/cwd/new',
    "a descriptor's path": "exec 5<x.csv; echo x > /proc/self/fd/5; echo x > /dev/fd/5",
    "a file without a name": python("os.write(os.open('.', os.O_TMPFILE | os.O_RDWR), b'x')"),
    "truncation by reading": python("os.open('x.csv', os.O_RDONLY | os.O_TRUNC)"),
    "truncation by name": python("os.truncate('x.csv', 0)", alone=""),
    "a directory's descriptor": python("d = os.open('sub', os.O_RDONLY)\nos.unlink('y.csv', dir_fd=d)"),
    "a mode": python("os.chmod('x.csv', 0o777)\nos.fchmod(os.open('x.py', 0), 0)\nos.chmod('sub', 0)"),
    "times": python("os.utime('x.csv', (1, 1))\nos.utime(os.open('x.py', 0), (1, 1))"),
    "attributes": python("os.setxattr('x.csv', 'user.a', b'b')"),
    "flags of a file": python("import fcntl\nfcntl.ioctl(os.open('x.csv', 0), 0x40086602, struct.pack('l', 0x10))"),
    "renaming": python("os.rename('x.csv', 'y')\nos.replace('x.py', 'x.csv')"),
    "exchanging": python("ctypes.CDLL(None).renameat2(-100, b'x.csv', -100, b'x.py', 2)"),
    "openat2": python(
        "how = struct.pack('=QQQ', os.O_CREAT | os.O_WRONLY, 0o644, 0)\n"
        "ctypes.CDLL(None).syscall(437, -100, b'new', how, 24)\n"
        "open('new', 'w')"
    ),
    "a link in the place of what stands in for a file": python(
        "import glob\n"
        "open('new', 'w').write('x')\n"
        "for made in glob.glob(os.environ['TMPDIR'] + '/.*') + glob.glob(os.environ['TMPDIR'] + '/../.*'):\n"
        "    if os.path.isfile(made):\n"
        "        os.unlink(made)\n"
        "        os.symlink(os.getcwd() + '/x.csv', made)\n"
        "for flags in (os.O_WRONLY | os.O_TRUNC, os.O_RDWR, os.O_WRONLY | os.O_APPEND):\n"
        "    os.write(os.open('new', flags), b'stolen')"
    ),
    "a directory in the place of what stands in for a file": python(
        "import glob\n"
        "open('new', 'w').write('x')\n"
        "for made in glob.glob(os.environ['TMPDIR'] + '/.stand-in-*'):\n"
        "    os.unlink(made)\n"
        "    os.mkdir(made)"
    ),
    "many files": python("for n in range(3000): open(f'new{n}', 'w').write('x')"),
    "many threads": python(
        "def work(n):\n    for name in ('a', 'b', 'x.csv'):\n        try: open(name, 'a').write('x')\n"
        "        except OSError: pass\n"
        "threads = [threading.Thread(target=work, args=(n,)) for n in range(20)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]"
    ),
    "a daemon": "(setsid nohup sh -c 'sleep 0.1; echo x > new' >/dev/null 2>&1 &); sleep 1",
    "a daemon that waits": "(setsid nohup sh -c 'sleep 2; echo x > new' >/dev/null 2>&1 &)",
    "another working directory": "cd /; cd - >/dev/null; cd sub; echo x > ../new",
    "git": "git -c core.hooksPath=.git/hooks commit -qam x; git config user.name x; git gc -q; true",
    "the index of git": "GIT_OPTIONAL_LOCKS=1 git status >/dev/null; git add x.csv; true",
    "places for everybody": "echo x > /dev/shm/trial-x; echo x > /tmp/trial-x; echo x > /var/tmp/trial-x; true",
    "the terminal and the kernel": "echo x > /proc/sys/kernel/hostname; echo x > /sys/kernel/mm/ksm/run; true",
    "jobs for later": "echo 'touch new' | at now; echo '* * * * * touch new' | crontab -; touch ~/.x; true",
    "a program of its own": 'cp /bin/sh $TMPDIR/s && chmod +x $TMPDIR/s && $TMPDIR/s -c "echo x > new"',
    "no shell at all": python("os.execv('/usr/bin/touch', ['touch', 'new'])"),
    "a child that is another program": "env -i /usr/bin/env PATH=/usr/bin touch new; true",
}


@pytest.mark.parametrize("attack", CHANGES)
def test_nothing_is_changed_and_the_wish_is_seen(place: Place, attack: str) -> None:
    before = place.states()
    ran = place.tried(CHANGES[attack])
    time.sleep(2.5 if "waits" in attack else 0)
    assert place.states() == before
    assert ran.gate.asked, ran.text
    assert not any(Path(where, "trial-x").exists() for where in ("/dev/shm", "/tmp", "/var/tmp"))


MOOT = {
    "a process that dies at once": "for i in 1 2 3 4 5 6; do (echo x > new$i & kill -9 $!) ; done 2>/dev/null; true",
    "shared memory of a file": python(
        "f = os.open('x.csv', os.O_RDONLY)\nm = ctypes.CDLL(None).mmap\nm.restype = ctypes.c_void_p\n"
        "m(None, 4096, 3, 1, f, 0)\nmmap.mmap(f, 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)[0] = 65"
    ),
    "a socket that the kernel listens at": python("socket.socket(16, 3, 0).send(b'x' * 32)"),
}


@pytest.mark.parametrize("attack", MOOT)
def test_what_could_not_change_anything_changes_nothing(place: Place, attack: str) -> None:
    before = place.states()
    place.tried(MOOT[attack])
    assert place.states() == before


@pytest.fixture
def listening() -> Iterator[list[str]]:
    """What arrives at sockets of all kinds, which this process listens at."""
    arrived: list[str] = []
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        names: list[tuple[int, int, object]] = [
            (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            (socket.AF_UNIX, socket.SOCK_STREAM, f"{directory}/stream"),
            (socket.AF_UNIX, socket.SOCK_DGRAM, f"{directory}/dgram"),
            (socket.AF_UNIX, socket.SOCK_STREAM, f"\0trial-{os.getpid()}"),
            (socket.AF_UNIX, socket.SOCK_DGRAM, f"\0trial-dgram-{os.getpid()}"),
        ]
        sockets: list[socket.socket] = []
        for family, kind, name in names:
            each = socket.socket(family, kind)
            each.bind(name)  # type: ignore[arg-type]
            if kind == socket.SOCK_STREAM:
                each.listen()
            each.setblocking(False)
            sockets.append(each)
        ports = [each.getsockname()[1] for each in sockets[:2]]
        arrived += [str(ports[0]), str(ports[1]), directory, str(os.getpid())]
        yield arrived
        for each in sockets:
            try:
                got = each.accept() if each.type == socket.SOCK_STREAM else each.recv(100)
                arrived.append(f"reached: {got!r}")
            except BlockingIOError:
                pass
            each.close()


@pytest.mark.parametrize(
    "code",
    [
        "s = socket.socket(); s.connect(('127.0.0.1', {tcp}))",
        "s = socket.socket(); s.sendto(b'x', 0x20000000, ('127.0.0.1', {tcp}))",
        "s = socket.socket(); s.sendmsg([b'x'], [], 0x20000000, ('127.0.0.1', {tcp}))",
        "s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262); s.connect(('127.0.0.1', {tcp}))",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {udp}))",
        "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).sendto(b'x', ('127.0.0.1', 0))",
        "socket.socket(socket.AF_UNIX).connect('{directory}/stream')",
        "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', '{directory}/dgram')",
        "socket.socket(socket.AF_UNIX).connect('\\0trial-{pid}')",
        "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', '\\0trial-dgram-{pid}')",
        "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendmsg([b'x'], [], 0, '\\0trial-dgram-{pid}')",
        "socket.create_server(('127.0.0.1', 0))",
        "socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).connect((2, 22))",
    ],
)
def test_nobody_is_reached_and_the_wish_is_seen(place: Place, listening: list[str], code: str) -> None:
    tcp, udp, directory, pid = listening[:4]
    ran = place.tried(python(code.format(tcp=tcp, udp=udp, directory=directory, pid=pid)))
    assert ran.gate.asked
    assert ran.gate.asked[0].effects[0].kind in ("uses_network", "sends_message")
    assert len(listening) == 4


WISHES = {
    "a signal": "signals",
    "every process": "signals all processes",
    "memory of another process": "makes a system call (process_vm_writev)",
    "a debugger": "makes a system call (ptrace)",
    "a descriptor of another process": "makes a system call (pidfd_getfd)",
    "a signal by descriptor": "makes a system call (pidfd_send_signal)",
    "memory that stays": "makes a system call (shmget)",
    "a queue that stays": "makes a system call (mq_open)",
    "limits of another process": "changes limits or priorities",
    "a clock": "makes a system call (clock_settime)",
}
_VICTIM = "victim = int(open('victim.pid').read())"
OTHERS = {
    "a signal": "os.kill(victim, 9)",
    "every process": "os.kill(-1, 9)",
    "memory of another process": "ctypes.CDLL(None).process_vm_writev(victim, 0, 0, 0, 0, 0)",
    "a debugger": "ctypes.CDLL(None).ptrace(16, victim, 0, 0)",
    "a descriptor of another process": "ctypes.CDLL(None).syscall(438, os.pidfd_open(victim), 1, 0)",
    "a signal by descriptor": "signal.pidfd_send_signal(os.pidfd_open(victim), 9)",
    "memory that stays": "ctypes.CDLL(None).shmget(77, 4096, 0o1600)",
    "a queue that stays": (
        "n = {'x86_64': 240, 'aarch64': 180}[os.uname().machine]\n"
        "ctypes.CDLL(None).syscall(n, b'trial', 0o102, 0o600, 0)"
    ),
    "limits of another process": "os.setpriority(os.PRIO_PROCESS, victim, 19)",
    "a clock": "time.clock_settime(time.CLOCK_REALTIME, 0)",
}


@pytest.mark.parametrize("attack", OTHERS)
def test_no_other_process_is_touched_and_the_wish_is_seen(place: Place, attack: str) -> None:
    with ending(subprocess.Popen(["sleep", "1000.5"])) as victim:
        try:
            (place.project / "victim.pid").write_text(str(victim.pid))
            niceness = os.getpriority(os.PRIO_PROCESS, victim.pid)
            ran = place.tried(python(f"{_VICTIM}\n{OTHERS[attack]}"))
            assert victim.poll() is None
            assert os.getpriority(os.PRIO_PROCESS, victim.pid) == niceness
        finally:
            victim.kill()
    assert ran.words[0].startswith(WISHES[attack])


@pytest.mark.parametrize(
    "command",
    [
        "cat ~/.ssh/id_rsa",
        "cat ~/.aws/credentials ~/.netrc ~/diary.txt ../other/plan.txt",
        "cat .env",
        "cp .env $TMPDIR/e && cat $TMPDIR/e",
        'ln -s "$PWD/.env" $TMPDIR/e && cat $TMPDIR/e',
        "git --no-pager diff --no-index /dev/null .env",
        'cd ..; cat project/.env; cat /proc/self/cwd/project/.env; cat "/proc/self/root$PWD/project/.env"',
        "tar cf - . | cat -v",
        "grep -rs open-sesame . ..",
        "cat /proc/*/environ | tr '\\0' '\\n'",
        "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null",
        python("print(open(os.path.expanduser('~/.ssh/id_rsa')).read())", quiet=False),
        "env; export -p; set",
        "HOME=/ cat ~root/.netrc; ls -R ~ | head",
    ],
)
async def test_keys_are_neither_printed_nor_kept(place: Place, command: str, tmp_path: Path) -> None:
    gate = RecordingGate(answer="no")
    seen: list[str] = []
    tool = place.tool()

    def report(output: object) -> None:
        seen.append(str(output))

    try:
        seen.append(str(await tool.execute(tool.check({"command": command}), ToolContext("1", report, gate=gate))))
    except ToolError as error:
        seen.append(str(error.output))
    assert KEY not in "".join(seen)
    assert not any(KEY in path.read_text(errors="replace") for path in _files(tmp_path))


def _files(directory: Path) -> Iterator[Path]:
    found = (Path(where, name) for where, _, names in os.walk(directory) for name in names)
    return (path for path in found if path.is_file() and not path.is_symlink() and os.access(path, os.R_OK))


class TestProject:
    """What a project brings that its users' commands would run."""

    def test_programs_that_git_runs_for_a_project_change_nothing(self, place: Place) -> None:
        script = place.project / "evil.sh"
        script.write_text(f"#!/bin/sh\ntouch {shlex.quote(str(place.project))}/ran; cat\n")
        script.chmod(0o755)
        command = shlex.quote(str(script))
        for key in ("core.fsmonitor", "core.pager", "core.sshCommand", "core.editor", "diff.external"):
            git("config", key, command, cwd=place.project)
        for key in ("diff.x.textconv", "filter.x.clean", "filter.x.smudge", "alias.status", "diff.x.command"):
            git("config", key, f"!{command}" if key.startswith("alias") else command, cwd=place.project)
        (place.project / ".git" / "info" / "attributes").write_text("*.csv diff=x filter=x\n")
        for name in ("post-index-change", "pre-commit", "reference-transaction"):
            hook = place.project / ".git" / "hooks" / name
            hook.write_text(script.read_text())
            hook.chmod(0o755)
        before = place.states()
        asked = [bool(place.tried(each).gate.asked) for each in ("git status", "git diff", "git log -p", "git show")]
        assert place.states() == before
        assert asked[1]  # its differences are made by a program that wants to write

    @pytest.mark.parametrize("name", ["BASH_ENV", "ENV", "PYTHONSTARTUP", "PYTHONPATH", "LD_PRELOAD"])
    def test_what_the_environment_makes_programs_load_changes_nothing(
        self, place: Place, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        place_of_code = place.project / "sub"
        (place_of_code / "env.sh").write_text(f"touch {place.project}/ran\n")
        (place_of_code / "sitecustomize.py").write_text(f"open('{place.project}/ran', 'w')\n")
        value = {"BASH_ENV": "env.sh", "ENV": "env.sh", "LD_PRELOAD": "evil.so"}.get(name, "")
        monkeypatch.setenv(name, str(place_of_code / value))
        ran = place.tried(f"ls; {PYTHON} -c 1; true")
        assert not (place.project / "ran").exists()
        is_split = name == "LD_PRELOAD" and " " in str(place_of_code)  # at blanks, whose parts are then read
        assert is_split or bool(ran.gate.asked) == (name in ("BASH_ENV", "PYTHONPATH"))


class TestSupervision:
    """Programs that attack what watches them."""

    def test_they_can_neither_stop_nor_forge_the_reports(self, place: Place) -> None:
        code = """
parent = os.getppid()
for attempt in (lambda: os.kill(parent, 9), lambda: os.kill(parent, 19), lambda: open(f'/proc/{parent}/mem', 'r+b')):
    try: attempt()
    except OSError: pass
for number in range(3, 64):
    try: os.write(number, b'end clean\\n')
    except OSError: pass
    try: os.close(number)
    except OSError: pass
try: os.setsid()
except OSError: pass
open('new', 'w')
"""
        before = place.states()
        ran = place.tried(python(code))
        assert place.states() == before
        assert ran.gate.asked

    def test_a_launcher_that_is_killed_makes_the_trial_count_for_nothing(self, place: Place) -> None:
        ran = place.tried("kill -9 $PPID; sleep 0.1; true")
        assert ran.gate.asked

    def test_a_filter_of_its_own_does_not_get_writes_through(self, place: Place) -> None:
        code = """
libc = ctypes.CDLL(None, use_errno=True)
allow = struct.pack('=HBBI', 6, 0, 0, 0x7fff0000)
held = ctypes.create_string_buffer(allow, 8)
libc.syscall(317, 1, 8, struct.pack('@HP', 1, ctypes.addressof(held)))
open('new', 'w')
"""
        before = place.states()
        assert place.tried(python(code)).gate.asked
        assert place.states() == before

    def test_a_path_that_changes_between_the_look_and_the_call_changes_nothing(self, place: Place) -> None:
        code = """
libc = ctypes.CDLL(None)
mine = os.environ['TMPDIR'].encode() + b'/f\\0'
theirs = os.path.abspath('x.csv').encode() + b'\\0'
path = ctypes.create_string_buffer(max(len(mine), len(theirs)))
ctypes.memmove(path, mine, len(mine))
open(mine[:-1], 'w').close()
end = time.monotonic() + 0.8
def swap():
    while time.monotonic() < end:
        ctypes.memmove(path, theirs, len(theirs)); ctypes.memmove(path, mine, len(mine))
swapping = threading.Thread(target=swap); swapping.start()
while time.monotonic() < end:
    number = libc.open(path, os.O_WRONLY | os.O_TRUNC)
    if number >= 0: os.write(number, b'x'); os.close(number)
    libc.chmod(path, 0o777); libc.unlink(path); libc.truncate(path, 0)
    os.close(os.open(mine[:-1], os.O_CREAT | os.O_WRONLY))
swapping.join()
"""
        before = place.states()
        place.tried(python(code))
        assert place.states() == before

    def test_a_held_command_whose_paths_change_meanwhile_writes_to_its_file_only(self, place: Place) -> None:
        code = """
if not os.path.exists(os.environ['TMPDIR'] + '/once'):
    open(os.environ['TMPDIR'] + '/once', 'w')
    open('out/old.csv', 'a')
    sys.exit()
libc = ctypes.CDLL(None)
mine = os.environ['TMPDIR'].encode() + b'/f\\0'
names = [os.path.abspath(each).encode() + b'\\0' for each in ('out/old.csv', 'out/y.csv', 'out/conftest.py')]
path = ctypes.create_string_buffer(max(map(len, [mine, *names])))
end = time.monotonic() + 1.5
def swap():
    while time.monotonic() < end:
        for name in names: ctypes.memmove(path, mine, len(mine)); ctypes.memmove(path, name, len(name))
swapping = threading.Thread(target=swap); swapping.start()
while time.monotonic() < end:
    number = libc.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    if number >= 0: os.write(number, b'x'); os.close(number)
    libc.unlink(path); libc.truncate(path, 0); libc.mkdir(path, 0o700); libc.rmdir(path); libc.rename(path, mine)
swapping.join()
"""
        (place.project / "out" / "y.csv").write_text("y\n")
        old = str(place.project / "out" / "old.csv")
        before = place.states()
        ran = asyncio.run(place.run(python(code), RecordingGate(allows=lambda effect: effect.what == old)))
        assert (place.way == "landlock") == (ran.details.get("ran") == "held")
        after = place.states()
        assert {path: state for path, state in after.items() if path != old} == {
            path: state for path, state in before.items() if path != old
        }
        assert after[old][0] == before[old][0]

    def test_truncating_does_not_go_on_where_landlock_does_not_hold_it(self, place: Place) -> None:
        if place.way == "landlock":
            place.here = replace(place.here, landlock=2)
        code = "open(os.environ['TMPDIR'] + '/f', 'w').write('x')\nos.truncate(os.environ['TMPDIR'] + '/f', 0)"
        expected = ["makes a system call (truncate) that may change more than itself"]
        assert place.tried(python(code)).words == (expected if place.way == "landlock" else [])

    @pytest.mark.parametrize("access", [os.O_RDONLY, os.O_ACCMODE])
    def test_truncating_without_the_right_to_write_does_not_go_on(self, place: Place, access: int) -> None:
        code = (
            "name = os.environ['TMPDIR'] + '/f'\nopen(name, 'w').write('kept')\n"
            f"try: os.open(name, os.O_TRUNC | {access})\nexcept OSError: pass\nprint(open(name).read())"
        )
        assert place.tried(python(code)).text == "kept\n"

    def test_a_number_that_no_process_can_have_ends_no_supervision(self, place: Place) -> None:
        ran = place.tried(f"echo x > /proc/{10**20}/x; echo done; touch new; true")
        assert ran.words == ["writes new"]

    def test_a_flood_of_effects_ends_soon(self, place: Place) -> None:
        ran = place.tried("i=0; while true; do i=$((i+1)); echo x > new$i; done 2>/dev/null")
        assert len(ran.words) == 51
        assert re.fullmatch(r"writes (at least )?[\d,]+ more", ran.words[-1])

    def test_what_comes_after_a_flood_is_named_and_the_flood_is_covered_by_no_rule(self, place: Place) -> None:
        ran = place.tried(f"touch $(seq 60); rm x.csv; {python('import os; os.kill(1, 15)')}; true")
        effects = ran.gate.asked[0].effects
        assert ran.words[49:] == ["writes 50", "deletes x.csv", "signals process 1", "writes 10 more"]
        assert ran.gate.asked[0].outcome.startswith("After “writes 1” it was tried")
        assert not any(rules.offered([effects[-1]], place.project))
        assert not rules.can_be_allowed(effects[-1], place.project)

    def test_a_flood_of_programs_ends_soon(self, place: Place) -> None:
        ran = place.tried("for i in $(seq 600); do sleep 1000.0625 & done; wait")
        assert ran.words == ["starts hundreds of programs at once"]
        wait_until(lambda: not running("1000.0625"))

    def test_many_trials_at_once_are_told_apart(self, place: Place) -> None:
        tool = place.tool()

        async def together() -> list[list[str]]:
            gates = [RecordingGate() for _ in range(6)]
            await asyncio.gather(*(place.run(f"touch new{n}; true", gate, tool=tool) for n, gate in enumerate(gates)))
            return [gate.asked[0].words for gate in gates]

        assert asyncio.run(together()) == [[f"writes new{number}"] for number in range(6)]

    def test_no_thread_and_no_descriptor_stays(self, place: Place) -> None:
        tool = place.tool()

        async def often() -> None:
            for command in ("true", "touch new", "exit 3"):
                await place.run(command, tool=tool)

        asyncio.run(often())
        threads, descriptors = threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))
        asyncio.run(often())
        assert not [each for each in threading.enumerate() if each.name == "indus_nb supervisor"]
        # asyncio's threads, one for each process that it waits for, end a moment after it
        wait_until(lambda: threading.active_count() <= threads)
        wait_until(lambda: len(list(Path("/proc/self/fd").iterdir())) <= descriptors)


def test_nothing_stays_behind_when_the_agent_is_killed(place: Place) -> None:
    program = f"""
import asyncio, dataclasses, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from pathlib import Path
from gates import RecordingGate
from indus_nb.safety.sandbox import machine
from indus_nb.tools import Looks, Shell, ToolContext
from indus_nb.tools.commands.bash import bash_tool
here = dataclasses.replace(machine(), **{{"bwrap": None}} if {place.way == "landlock"} else {{"landlock": 0}})
tool = bash_tool(Path(sys.argv[1]), Shell(), None, Looks(here=here))
arguments = tool.check({{"command": "(setsid sleep 1000.03125 &) ; sleep 1000.03125"}})
asyncio.run(tool.execute(arguments, ToolContext("1", print, gate=RecordingGate())))
"""
    with ending(
        subprocess.Popen([sys.executable, "-c", program, str(place.project)], stdout=subprocess.DEVNULL)
    ) as agent:
        wait_until(lambda: len(running("sleep")) >= 2 and len(running("1000.03125")) >= 2)
        agent.kill()
    wait_until(lambda: not [pid for pid in running("1000.03125") if b"sleep\0" in _command(pid)])


def test_what_is_begun_for_a_process_that_has_ended_does_nothing() -> None:
    program = "from indus_nb.safety.sandbox.launcher import confine; confine([], b'', network=False, parent=-1)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.stderr.splitlines()[-1] == "ProcessLookupError: [Errno 3] the process that wanted this has ended"


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
