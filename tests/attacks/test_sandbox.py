"""Commands in a sandbox that try to get out: to write, to read keys, to reach somebody, to stay behind.

Each runs with everything that this machine can confine programs with. The processes are confined for real, and what
they achieved is looked at from outside.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY

import psutil
import pytest
from waiting import wait_until

from indus_nb.base.errors import UsageError
from indus_nb.core.resources.sandbox_settings import make_sandboxes, stricter
from indus_nb.core.resources.settings import load_settings
from indus_nb.extend.mcp import McpServers
from indus_nb.safety.sandbox import Confined, Machine, Mode, Sandbox, SandboxError, machine, make_policy
from indus_nb.safety.sandbox.policy import PRIVATE_PLACES
from indus_nb.safety.sandbox.proxy import destination
from indus_nb.safety.sandbox.repositories import Repositories
from indus_nb.safety.sandbox.temporary import Temporary, remove_stale
from indus_nb.tools import Shell, ShellResult, ToolContext, ToolError, builtin_tools

HERE = machine()
MACHINES = {
    "bwrap": HERE if HERE.backend == "bwrap" else None,
    "landlock": replace(HERE, bwrap=None) if HERE.landlock and HERE.filters else None,
}
MISSING = {"bwrap": f"bwrap {HERE.bwrap_problem}", "landlock": "the kernel has no Landlock"}
PYTHON = sys.executable
QUOTED_PYTHON = shlex.quote(PYTHON)  # for shells
KEY = "open-sesame-6e1f"


@pytest.fixture(params=MACHINES)
def here(request: pytest.FixtureRequest) -> Machine:
    """What confines the test's commands."""
    found = MACHINES[request.param]
    if found is None:
        pytest.skip(f"{MISSING[request.param]}: {HERE.problem}")
    return found


@pytest.fixture
def bwrap() -> Machine:
    """``bwrap``, for what Landlock cannot hold."""
    found = MACHINES["bwrap"]
    if found is None:
        pytest.skip(f"{MISSING['bwrap']}: {HERE.problem}")
    return found


@dataclass
class Place:
    """A home with keys, and a project with a repository in it; none of it where everybody may write."""

    here: Machine
    home: Path
    project: Path
    run: Callable[..., ShellResult] = field(repr=False)

    def elsewhere(self) -> dict[str, tuple[int, bytes]]:
        """What stands outside the project, and what is protected in it."""
        return {**states(self.home, but=self.project), **states(self.project / ".git" / "hooks"), **self.protected()}

    def protected(self) -> dict[str, tuple[int, bytes]]:
        git = self.project / ".git"
        names = ("config", "commondir", "config.worktree")
        found = {str(git / name): (0, (git / name).read_bytes()) for name in names if (git / name).exists()}
        return {**found, **states(self.project / ".indusagi")}


def is_private(place: Path) -> bool:
    """Whether each sandbox has a place of its own there, so that nothing outside can be reached."""
    return any(Path(os.path.realpath(place)).is_relative_to(private) for private in PRIVATE_PLACES)


@pytest.fixture
def shared_place(place: Place) -> Place:
    """A place whose home a sandbox shows."""
    if is_private(place.home):
        pytest.skip(f"only {' and '.join(PRIVATE_PLACES)} can be written, and each sandbox has its own of them")
    return place


def escaped(path: Path) -> str:
    """A path for a shell, or for a shell that a quoted word of it starts."""
    return re.sub(r"([^\w/.-])", r"\\\1", str(path))


def states(directory: Path, but: Path | None = None) -> dict[str, tuple[int, bytes]]:
    found: dict[str, tuple[int, bytes]] = {}
    for at, directories, files in os.walk(directory):
        if Path(at) == but:
            directories.clear()
            continue
        found[at] = (os.lstat(at).st_mode, b"")
        for name in files:
            path = Path(at, name)
            content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
            found[str(path)] = (path.lstat().st_mode, content)
    return found


def contents(directory: Path, but: Path | None = None) -> dict[str, bytes]:
    """What files hold; Landlock does not hold their modes."""
    return {path: content for path, (_, content) in states(directory, but).items()}


def git(*arguments: str, cwd: Path) -> None:
    subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@b.c", *arguments], cwd=cwd, check=True)


@pytest.fixture
def place(here: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    yield from made_place(here, monkeypatch)


@pytest.fixture
def bwrap_place(bwrap: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    yield from made_place(bwrap, monkeypatch)


def made_place(here: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    places = [place for place in (Path.home(), Path.cwd(), Path("/srv")) if os.access(place, os.W_OK)]
    shared = next((place for place in places if not is_private(place)), places[0])
    home = Path(os.path.realpath(tempfile.mkdtemp(prefix="sandbox-test-", dir=shared)))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    project = home / "work" / "project"
    project.mkdir(parents=True)
    for name in (".ssh/id_rsa", ".aws/credentials", ".netrc", ".indusagi/agent/auth.json", ".bashrc", "notes/victim"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(KEY)
    (project / "notes.txt").write_text("hello\n")
    git("init", "-q", "-b", "main", cwd=project)
    git("add", "notes.txt", cwd=project)
    git("commit", "-q", "-m", "one", cwd=project)
    (project / ".indusagi").mkdir()
    (project / ".indusagi" / "settings.json").write_text("{}")
    with contextlib.ExitStack() as opened:
        opened.callback(shutil.rmtree, home, ignore_errors=True)

        def run(script: str, mode: str = "workspace", cwd: Path = project, **options: object) -> ShellResult:
            hidden = [str(home / ".indusagi" / "agent"), *options.pop("hidden", [])]
            policy = make_policy(mode, cwd, hidden=hidden, **options)
            sandbox = Sandbox(policy, here)
            opened.callback(sandbox.close)
            return asyncio.run(Shell(sandbox=sandbox).run(script, cwd=cwd, timeout=120))

        yield Place(here, home, project, run)


# Writing outside

OUTSIDE_WRITES = {
    "a file in the home": "echo x > {home}/evil",
    "a start file of the shell": "echo x >> {home}/.bashrc",
    "emptying a file": ": > {home}/notes/victim",
    "by two dots": "echo x > ../evil; mkdir -p sub; echo x > sub/../../evil",
    "through a link": "ln -s {home} link; echo x > link/evil; echo x > link/notes/victim",
    "through a link in the place of a directory": "mkdir d; rmdir d; ln -s {home}/notes d; echo x > d/victim",
    "by the root of the first process": "echo x > /proc/1/root{home}/evil; echo x > /proc/1/cwd/../evil",
    "by the root of the parent": "echo x > /proc/$PPID/root{home}/evil",
    "by its own root": "echo x > /proc/self/root{home}/evil; echo x > /proc/thread-self/root{home}/evil",
    "by a hard link": "ln {home}/notes/victim l && echo x > l; ln {home}/.bashrc m && echo x > m",
    "by moving it in": "mv {home}/notes/victim . ; mv {home}/notes . ; mv {home}/.ssh .",
    "by moving something out": "echo x > e; mv e {home}/evil; mv e {home}/notes/victim; mv . ../other",
    "by removing it": "rm -rf {home}/notes {home}/.ssh; rmdir {home}/notes",
    "by exchanging it": """{python} -c 'import ctypes, os
os.mkdir("x"); ctypes.CDLL(None).renameat2(-100, b"x", -100, os.fsencode("{unescaped}/notes"), 2)'""",
    "by mounting": "mount -o remount,rw /; mount -o remount,bind,rw {home}; mount --bind . {home}/notes; "
    "umount -l {home}; "
    "umount -l /; echo x > {home}/evil; touch {home}/notes/new",
    "by other namespaces": "unshare -Urm sh -c 'mount -o remount,bind,rw {home}; umount {home}; echo x > {home}/evil'; "
    "unshare -m sh -c 'mount -o remount,rw /; echo x > {home}/evil'; nsenter -t 1 -m sh -c 'echo x > {home}/evil'; "
    "nsenter -t $PPID -m -U sh -c 'echo x > {home}/evil'",
    "by another root": """{python} -c 'import os
os.mkdir("r"); os.chroot("r"); [os.chdir("..") for _ in range(40)]; os.chroot("."); open("{unescaped}/evil", "w")'""",
    "as another user": "cp /bin/sh s; chmod 6755 s; ./s -p -c 'echo x > {home}/evil'; "
    "sudo -n sh -c 'echo x > {home}/evil'; su -c 'echo x > {home}/evil'; pkexec sh -c 'echo x > {home}/evil'",
    "by an inherited descriptor": "for d in /proc/self/fd/*; do echo x >> $d; done 2>/dev/null; "
    'for n in 3 4 5 6 7 8 9 10 11 12 13 14 15; do eval "echo x >&$n"; done 2>/dev/null; echo done',
    "by the scheduler": "(crontab -l; echo '* * * * * touch {home}/evil') | crontab -; "
    "echo 'touch {home}/evil' | at now; systemd-run --user touch {home}/evil; echo x > /var/spool/cron/evil",
    "hooks": "echo x > .git/hooks/pre-commit; cp notes.txt .git/hooks/post-checkout; chmod +x .git/hooks/*",
    "hooks elsewhere": "rm -rf .git/hooks; mkdir h; echo x > h/pre-commit; mv h .git/hooks; ln -s ../h .git/hooks",
    "configuration of git": "git config core.fsmonitor ./evil; echo '[core]\n\tpager = ./evil' >> .git/config; "
    "cp notes.txt c; mv c .git/config; rm .git/config; ln -sf ../notes.txt .git/config",
    "another repository in its place": "mv .git old; git init -q .; rm -rf .git; mkdir .git; echo x > .git/config",
    "configuration elsewhere": "mkdir -p e/hooks; cp .git/config e/; echo ../e > .git/commondir; "
    "echo x > .git/config.worktree; ln -s ../e .git/commondir",
    "settings of the project": "echo evil > .indusagi/settings.json; mkdir .indusagi/extensions; "
    "echo x > .indusagi/extensions/e.py; mv .indusagi i; mkdir .indusagi; echo x > .indusagi/x; rm -rf .indusagi",
}


@pytest.mark.parametrize("mode", ["workspace", "read-only"])
@pytest.mark.parametrize("script", OUTSIDE_WRITES.values(), ids=OUTSIDE_WRITES)
def test_nothing_outside_the_workspace_and_nothing_protected_changes(place: Place, script: str, mode: str) -> None:
    before = place.elsewhere()
    inside = states(place.project)
    with (place.home / "notes" / "victim").open("a") as inherited:
        os.set_inheritable(inherited.fileno(), True)
        place.run(script.format(home=escaped(place.home), unescaped=place.home, python=QUOTED_PYTHON), mode)
    assert place.elsewhere() == before
    if mode == "read-only":
        assert states(place.project) == inside


def test_the_directories_for_everybody_are_its_own(place: Place, tmp_path: Path) -> None:
    shared = [Path(tempfile.gettempdir()), Path("/var/tmp"), Path("/dev/shm")]
    name = f"sandbox-test-{os.getpid()}"
    targets = [directory / name for directory in shared if directory.is_dir()] + [tmp_path / "evil"]
    place.run("; ".join(f"mkdir -p {escaped(target.parent)}; echo x > {escaped(target)}" for target in targets))
    assert not [target for target in targets if target.exists()]


def test_there_is_a_place_for_temporary_files(place: Place) -> None:
    result = place.run('echo x > "$TMPDIR/a" && cat "$TMPDIR/a" && mktemp', "read-only")
    assert (result.exit_code, result.output[:2]) == (0, "x\n")


def test_what_a_killed_process_has_left_is_removed_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    program = (
        "import os, signal\nfrom indus_nb.safety.sandbox.temporary import Temporary\n"
        "used = Temporary()\n(used.path / 'a').mkdir()\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program], env=os.environ | {"TMPDIR": str(tmp_path)}, check=False)
    (left,) = tmp_path.iterdir()
    used = Temporary()
    (tmp_path / "indusagi-sandbox-link").symlink_to(used.path)
    remove_stale(tmp_path)
    assert left.exists(), "it may have been made a moment ago"
    remove_stale(tmp_path, min_age_seconds=0)
    assert sorted(tmp_path.iterdir()) == sorted([used.path, tmp_path / "indusagi-sandbox-link"])
    forks = (
        "import os, sys\nfrom indus_nb.safety.sandbox.temporary import Temporary\nused = Temporary()\n"
        "os.fork() or sys.exit()\nos.wait()\nassert used.path.exists()\nprint(used.path)"
    )
    done = subprocess.run([sys.executable, "-c", forks], capture_output=True, text=True, check=True)
    assert not Path(done.stdout.strip()).exists()
    used.remove()
    assert not used.path.exists()


SYSTEM_CHANGES = {
    "the password file": ("echo evil:x:0:0::/: >> /etc/passwd", "/etc/passwd"),
    "a setting of the kernel": ("echo evil > /proc/sys/kernel/domainname", "/proc/sys/kernel/domainname"),
    "the name of the machine": ("hostname evil; echo evil > /proc/sys/kernel/hostname", "/proc/sys/kernel/hostname"),
    "what handles crashes": ("echo '|/bin/evil' > /proc/sys/kernel/core_pattern", "/proc/sys/kernel/core_pattern"),
    "what handles hot-plugging": ("echo /bin/evil > /sys/kernel/uevent_helper", "/sys/kernel/uevent_helper"),
    "programs": (
        "cp /bin/sh /usr/bin/indusagi-evil; cp /bin/sh /usr/local/bin/indusagi-evil",
        "/usr/bin/indusagi-evil",
    ),
}


@pytest.mark.parametrize(("script", "path"), SYSTEM_CHANGES.values(), ids=SYSTEM_CHANGES)
def test_the_machine_stays_as_it_is(place: Place, script: str, path: str) -> None:
    def state() -> bytes | None:
        try:
            return Path(path).read_bytes()
        except OSError:
            return None

    before = state()
    place.run(script)
    after = state()
    if after != before and before is not None:
        with contextlib.suppress(OSError):
            Path(path).write_bytes(before)
    assert after == before


def test_it_has_no_rights_to_gain(place: Place) -> None:
    status = place.run("cat /proc/self/status").output
    found = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert found["NoNewPrivs"] == "1"
    assert found["Seccomp"] == "2"
    held = ["CapEff", "CapPrm", "CapInh", "CapAmb"]
    if place.here.bwrap is not None or os.geteuid() == 0:  # others may not lower what they can never be given
        held.append("CapBnd")
    assert {found[name].strip("0") for name in held} == {""}


REFUSED_CALLS = {
    "tracing a process outside": "ptrace(16, {pid}, 0, 0)",
    "writing into another process": "open('/proc/{pid}/mem', 'wb')",
    "ending a process outside": "os.kill({pid}, 0)",
    "a device": "os.mknod('disk', 0o60600, os.makedev(254, 0)) or open('disk', 'rb').read(1)",
    "a new user namespace": "os.unshare(0x10000000) if hasattr(os, 'unshare') else check(libc.unshare(0x10000000))",
    "a namespace by clone": "check(libc.syscall({clone}, 0x10000011, 0, 0, 0, 0))",
    "keys of the session": "check(libc.syscall({keyctl}, 0, -3, 0))",
    "io_uring": "check(libc.syscall(425, 8, ctypes.create_string_buffer(200)))",
    "a program for the kernel": "check(libc.syscall({bpf}, 0, ctypes.create_string_buffer(200), 100))",
    "typing into the terminal": "check(libc.ioctl(0, 0x5412, b'x'))",
    "typing into the terminal, with a longer number": "check(libc.ioctl(0, ctypes.c_ulong(0xff00005412), b'x'))",
    "a raw socket": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "packets": "socket.socket(17, 3, 3)",
    "the virtual machine's host": "socket.socket(40, 1)",
    "a socket in the file system": "socket.socket(socket.AF_UNIX)",
    "the kernel's log": "open('/dev/kmsg', 'rb') or open('/proc/kmsg', 'rb')",
    "the kernel's memory": "open('/proc/kcore', 'rb').read(1) and open('/dev/mem', 'rb').read(1)",
}
NUMBERS = {"x86_64": {"clone": 56, "keyctl": 250, "bpf": 321}, "aarch64": {"clone": 220, "keyctl": 219, "bpf": 280}}


@pytest.mark.parametrize("call", REFUSED_CALLS.values(), ids=REFUSED_CALLS)
def test_the_kernel_refuses(place: Place, call: str) -> None:
    code = f"""
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def check(result):
    if result == -1: raise OSError(ctypes.get_errno(), "refused")
def ptrace(*arguments):
    check(libc.ptrace(*map(ctypes.c_long, arguments)))
try:
    {call.format(pid=os.getpid(), **NUMBERS[os.uname().machine])}
except OSError as error:
    print("refused", error)
else:
    print("done")
"""
    (place.project / "call.py").write_text(code)
    assert place.run(f"{QUOTED_PYTHON} call.py").output.startswith("refused")


# Reading keys

KEY_READS = {
    "keys for ssh": "cat {home}/.ssh/id_rsa",
    "keys of clouds": "cat {home}/.aws/credentials",
    "passwords of the network": "cat {home}/.netrc; cp {home}/.netrc n; cat n",
    "keys of the agent": "cat {home}/.indusagi/agent/auth.json; grep -r {key} {home}/.indusagi",
    "through a link": "ln -s {home}/.ssh l; cat l/id_rsa; ln -s {home}/.netrc m; cat m",
    "by a hard link": "ln {home}/.netrc l; cat l; ln {home}/.ssh/id_rsa m; cat m",
    "by the root of a process": "cat /proc/1/root{home}/.netrc /proc/$PPID/root{home}/.netrc; "
    "cat /proc/self/root{home}/.netrc",
    "by moving": "mv {home}/.ssh s; cat s/*; mv {home}/.netrc n; cat n",
    "by mounting": "umount {home}/.ssh; umount -l {home}/.netrc; cat {home}/.ssh/* {home}/.netrc; "
    "unshare -Urm sh -c 'umount {home}/.ssh; cat {home}/.ssh/* {home}/.netrc'",
    "by changing the mode": "chmod -R 777 {home}/.ssh {home}/.netrc; cat {home}/.ssh/* {home}/.netrc",
    "what the agent was started with": "cat /proc/{pid}/environ /proc/{parent}/environ",
    "what the parent was started with": "tr '\\0' '\\n' < /proc/{pid}/environ; cat /proc/{pid}/mem; ls /proc/{pid}/fd",
}


@pytest.mark.parametrize("mode", ["workspace", "read-only"])
@pytest.mark.parametrize("script", KEY_READS.values(), ids=KEY_READS)
def test_no_key_can_be_read(place: Place, script: str, mode: str) -> None:
    before = contents(place.home, but=place.project)
    names = {"home": escaped(place.home), "key": KEY[:8], "pid": os.getpid(), "parent": os.getppid()}
    result = place.run(script.format(**names), mode)
    assert KEY not in result.output
    assert "PATH=" not in result.output
    assert contents(place.home, but=place.project) == before


def test_a_key_that_a_link_in_a_hidden_directory_leads_to_is_hidden_too(place: Place) -> None:
    (place.home / "dotfiles").mkdir()
    (place.home / "dotfiles" / "id").write_text(KEY)
    (place.home / ".ssh" / "id_ed25519").symlink_to(place.home / "dotfiles" / "id")
    assert KEY not in place.run(f"cat {escaped(place.home)}/dotfiles/id").output


def test_a_key_file_that_a_variable_names_is_hidden(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    (place.home / "kube.yaml").write_text(KEY)
    monkeypatch.setenv("KUBECONFIG", str(place.home / "kube.yaml"))
    assert KEY not in place.run(f"cat {escaped(place.home)}/kube.yaml").output


def test_what_is_hidden_within_the_workspace_is_hidden(bwrap_place: Place) -> None:
    (bwrap_place.project / "keys").mkdir()
    (bwrap_place.project / "keys" / "one").write_text(KEY)
    assert KEY not in bwrap_place.run("cat keys/*; mv keys k; cat k/*", hidden=["keys"]).output


def test_a_command_runs_where_thousands_of_files_lie_beside_a_key(place: Place) -> None:
    for number in range(2_000):
        (place.home / f"{number:0>80}.txt").touch()
    assert place.run("echo runs").output == "runs\n"


def test_other_files_of_the_home_can_be_read(shared_place: Place) -> None:
    assert shared_place.run(f"cat {escaped(shared_place.home)}/notes/victim", "read-only").output == KEY


# Reaching somebody


class Reached(BaseHTTPRequestHandler):
    """Tells who came, by the path."""

    def do_GET(self) -> None:
        self.server.seen.append((self.path, self.headers["Host"]))  # type: ignore[attr-defined]
        body = b"hello from outside"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def listener() -> Iterator[SimpleNamespace]:
    """A service of the host on its loopback address, such as a notebook server's."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Reached)
    server.seen = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield SimpleNamespace(port=server.server_port, seen=server.seen)  # type: ignore[attr-defined]
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("mode", ["workspace", "read-only"])
def test_no_service_of_the_host_can_be_reached(place: Place, listener: SimpleNamespace, mode: str) -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
        socket.socket(socket.AF_UNIX) as in_home,
        socket.socket(socket.AF_UNIX) as in_workspace,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        datagrams.bind(("127.0.0.1", 0))
        in_home.bind(os.path.relpath(place.home / "agent.sock"))
        in_workspace.bind(os.path.relpath(place.project / "service.sock"))
        abstract.bind(f"\0sandbox-test-{os.getpid()}")
        for each in (in_home, in_workspace, abstract):
            each.listen()
        (place.project / "reach.py").write_text(
            f"""
import socket
def tried(name, connect):
    try:
        connect()
    except OSError as error:
        print(name, "failed", error)
    else:
        print(name, "REACHED")
tried("tcp", lambda: socket.create_connection(("127.0.0.1", {listener.port}), 3))
tried("mapped", lambda: socket.create_connection(("::ffff:127.0.0.1", {listener.port}), 3))
tried("any", lambda: socket.create_connection(("0.0.0.0", {listener.port}), 3))
tried("metadata", lambda: socket.create_connection(("169.254.169.254", 80), 3))
def send():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.sendto(b"x", ("127.0.0.1", {datagrams.getsockname()[1]}))
    raise OSError("sent to whom")
tried("udp", send)
for path in ("../../agent.sock", "service.sock", chr(0) + "sandbox-test-{os.getpid()}", "/var/run/docker.sock",
             "/run/dbus/system_bus_socket", "/tmp/.X11-unix/X0"):
    tried("unix", lambda: socket.socket(socket.AF_UNIX).connect(path))
tried("datagrams", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).connect("service.sock"))
"""
        )
        result = place.run(f"{QUOTED_PYTHON} reach.py", mode)
        assert "REACHED" not in result.output
        assert result.output.count("failed") == 12
        assert listener.seen == []
        for each in (datagrams, in_home, in_workspace, abstract):
            each.setblocking(False)
            with pytest.raises(BlockingIOError):
                each.recv(1) if each is datagrams else each.accept()


@pytest.mark.parametrize("name", ["SSH_AUTH_SOCK", "DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST"])
def test_variables_that_lead_to_services_are_not_passed_on(
    place: Place, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "somewhere")
    assert place.run(f"echo ${{{name}-none}}").output == "none\n"


def test_python_code_confines_programs_without_the_keys_of_providers(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("THE_SAME_BY_ANOTHER_NAME", KEY)
    monkeypatch.setenv("OTHER", "stays")
    sandbox = Sandbox(make_policy("workspace", place.project), place.here)
    with contextlib.closing(sandbox), sandbox.confine(["env"]) as confined:
        done = subprocess.run(
            confined.arguments, pass_fds=confined.pass_fds, capture_output=True, text=True, check=True
        )
    assert KEY not in done.stdout
    assert "OTHER=stays" in done.stdout


def test_sockets_in_the_file_system_can_be_allowed_where_those_of_services_are_hidden(bwrap_place: Place) -> None:
    code = "import socket; s = socket.socket(socket.AF_UNIX); s.bind('s'); s.listen(); print('ok')"
    assert bwrap_place.run(f'{QUOTED_PYTHON} -c "{code}"').exit_code == 1
    assert bwrap_place.run(f'{QUOTED_PYTHON} -c "{code}"', unix_sockets=True).output == "ok\n"
    assert bwrap_place.run("ls -A /run", unix_sockets=True).output == ""


def test_with_a_network_the_host_is_reached(place: Place, listener: SimpleNamespace) -> None:
    url = f"http://127.0.0.1:{listener.port}/yes"
    place.run(f"{QUOTED_PYTHON} -c 'import urllib.request as u; u.urlopen(\"{url}\", timeout=5)'", network=True)
    assert [path for path, _ in listener.seen] == ["/yes"]


def asked(place: Place, urls: list[str], network: list[str]) -> list[str]:
    """What a command is answered through the proxy: the start of a body, or the status."""
    (place.project / "ask.py").write_text(
        """
import sys, urllib.request, urllib.error
for url in sys.argv[1:]:
    try:
        print(urllib.request.urlopen(url, timeout=20).read(5).decode())
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode().strip())
    except OSError as error:
        print("failed", error)
"""
    )
    words = " ".join(f"'{url}'" for url in urls)
    return place.run(f"{QUOTED_PYTHON} ask.py {words}", network=network).output.splitlines()


def test_a_list_lets_through_what_it_names(bwrap_place: Place, listener: SimpleNamespace) -> None:
    port = listener.port
    urls = [
        f"http://localhost:{port}/named",
        f"http://127.0.0.1:{port}/address",
        f"http://2130706433:{port}/number",
        f"http://[::1]:{port}/six",
        f"http://LOCALHOST.:{port}/spelled",
        "http://localhost/other-port",
        "http://169.254.169.254/metadata",
        "https://localhost/tunnel",
    ]
    named, address, number, six, spelled, other, metadata, tunnel = asked(bwrap_place, urls, [f"localhost:{port}"])
    assert (named, spelled) == ("hello", "hello")
    assert all("not in `sandbox.network`" in each for each in (address, number, six, other, metadata))
    assert "403" in tunnel
    assert [path for path, _ in listener.seen] == ["/named", "/spelled"]


def test_a_name_that_leads_to_this_machine_is_refused(bwrap_place: Place, listener: SimpleNamespace) -> None:
    for network in (["*"], [f"*:{listener.port}"], [f"{socket.gethostname()}:{listener.port}"]):
        url = f"http://{socket.gethostname()}:{listener.port}/"
        assert asked(bwrap_place, [url, f"http://localhost:{listener.port}/"], network)[0].startswith("403 ")
    assert listener.seen == []


def test_the_proxy_sends_one_request_to_the_host_that_was_checked(
    bwrap_place: Place, listener: SimpleNamespace
) -> None:
    port = listener.port
    request = (
        f"GET http://localhost:{port}/first HTTP/1.1\\r\\nHost: evil.example\\r\\nProxy-Authorization: x\\r\\n\\r\\n"
        f"GET /second HTTP/1.1\\r\\nHost: evil.example\\r\\n\\r\\n"
    )
    code = f"""
import socket
c = socket.create_connection(("127.0.0.1", 3128)); c.sendall(b"{request}")
while c.recv(1000): pass
for head in ("GET http://localhost:{port}/smuggled HTTP/1.1\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n",
             "GET http://localhost:{port}@evil/ HTTP/1.1\\r\\n\\r\\n", "GET file:///etc/passwd HTTP/1.1\\r\\n\\r\\n",
             "CONNECT localhost:22 HTTP/1.1\\r\\n\\r\\n", "CONNECT [::1]:{port} HTTP/1.1\\r\\n\\r\\n", "x\\r\\n\\r\\n"):
    c = socket.create_connection(("127.0.0.1", 3128)); c.sendall(head.encode())
    print(c.recv(12).decode())
"""
    (bwrap_place.project / "ask.py").write_text(code)
    result = bwrap_place.run(f"{QUOTED_PYTHON} ask.py", network=[f"localhost:{port}"])
    assert result.output.split() == ["HTTP/1.1", "403"] * 6
    assert listener.seen == [("/first", f"localhost:{port}")]


@pytest.mark.parametrize(
    ("entry", "host", "port", "fits"),
    [
        ("pypi.org", "pypi.org", 443, True),
        ("pypi.org", "pypi.org", 8443, False),
        ("pypi.org", "evil-pypi.org", 443, False),
        ("pypi.org", "pypi.org.evil.com", 443, False),
        ("*.example.org", "a.b.example.org", 80, True),
        ("*.example.org", "example.org", 443, False),
        ("*.example.org", "evilexample.org", 443, False),
        ("example.org:8443", "example.org", 8443, True),
        ("example.org:8443", "example.org", 443, False),
        ("*", "anything.net", 443, True),
        ("*", "10.0.0.1", 443, False),
        ("10.0.0.0/8", "10.1.2.3", 443, True),
        ("10.0.0.0/8", "ten.example.org", 443, False),
    ],
)
def test_an_entry_of_the_list_fits(entry: str, host: str, port: int, fits: bool) -> None:
    assert destination(entry).fits(host, port) is fits


@pytest.mark.parametrize(
    "entry", ["", "http://pypi.org", "a b", "*.*", "pypi.org:x", "pypi.org:70000", "py*.org", "a/b"]
)
def test_an_entry_that_makes_no_sense_ends_the_command(bwrap_place: Place, entry: str) -> None:
    with pytest.raises(ToolError, match=r"sandbox\.network"):
        bwrap_place.run("echo ran", network=[entry])


def test_landlock_refuses_a_list(user: Place) -> None:
    only_landlock = Machine(None, "is not installed", 6, filters=True, seatbelt=False)
    sandbox = Sandbox(make_policy("workspace", user.project, network=["pypi.org"]), only_landlock)
    with pytest.raises(SandboxError, match="list of domains"):
        sandbox.confine(["true"])


# Staying behind

LEFTOVERS = {
    "in the background": "sleep {time} &",
    "without a terminal": "nohup sleep {time} >/dev/null 2>&1 & disown",
    "in a session of its own": "setsid sleep {time} >/dev/null 2>&1 &",
    "forked twice": """{python} -c 'import os, sys
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
for n in range(3): os.close(n)
os.execvp("sleep", ["sleep", "{time}"])'""",
    "in a group of its own": "set -m; (sleep {time}) >/dev/null 2>&1 &",
}


def sleeping(seconds: str) -> list[int]:
    found = []
    for process in psutil.process_iter(["cmdline", "pid"]):
        words = process.info["cmdline"] or []
        if words[:1] == ["sleep"] and seconds in words:
            found.append(process.info["pid"])
    return found


@pytest.mark.parametrize("script", LEFTOVERS.values(), ids=LEFTOVERS)
@pytest.mark.parametrize("end", ["by itself", "killed"])
def test_no_process_stays_behind(place: Place, script: str, end: str) -> None:
    seconds = f"{90000 + os.getpid() % 1000}.{abs(hash((script, end))) % 100000}"
    command = script.format(time=seconds, python=QUOTED_PYTHON)
    if end == "killed":
        sandbox = Sandbox(make_policy("workspace", place.project), place.here)

        async def cancelled() -> None:
            shell = Shell(sandbox=sandbox).run(f"{command}\nsleep {seconds}", cwd=place.project)
            task = asyncio.create_task(shell)
            while not sleeping(seconds):
                await asyncio.sleep(0.02)
            task.cancel()
            await task

        asyncio.run(cancelled())
        sandbox.close()
    else:
        place.run(command)
    wait_until(lambda: not sleeping(seconds))


def test_nothing_stays_behind_when_the_agent_is_killed(place: Place) -> None:
    seconds = f"80000.{os.getpid()}"
    which = place.here
    program = f"""
import asyncio, dataclasses, sys
from pathlib import Path
from indus_nb.safety.sandbox import Sandbox, machine, make_policy
from indus_nb.tools import Shell
here = machine()
here = here if {which.bwrap is not None} else dataclasses.replace(here, bwrap=None)
sandbox = Sandbox(make_policy("workspace", Path(sys.argv[1])), here)
asyncio.run(Shell(sandbox=sandbox).run("setsid sleep {seconds} & sleep {seconds}", cwd=Path(sys.argv[1])))
"""
    agent = subprocess.Popen([PYTHON, "-c", program, str(place.project)])
    wait_until(lambda: len(sleeping(seconds)) == 2)
    agent.send_signal(signal.SIGKILL)
    agent.wait()
    wait_until(lambda: not sleeping(seconds))


# What goes on working


def test_a_commit_works(place: Place) -> None:
    script = """
set -e
git config --get core.bare; git checkout -q -b topic; echo more >> notes.txt
git -c user.name=A -c user.email=a@b.c commit -q -a -m two; git checkout -q main; git merge -q topic; git gc -q
git stash list; git tag t; git status --short -uno; git log --format=%s | head -n 1
"""
    result = place.run(script)
    assert (result.exit_code, result.output.splitlines()[-1]) == (0, "two")
    assert result.sandbox_notes == ()


def test_a_commit_works_in_a_worktree_and_leaves_its_ways_alone(place: Place) -> None:
    tree = place.project.parent / "tree"
    git("worktree", "add", "-q", str(tree), cwd=place.project)
    before = {**place.protected(), **states(place.project / ".git" / "hooks"), "file": (tree / ".git").read_bytes()}
    script = """
echo more >> notes.txt; git -c user.name=A -c user.email=a@b.c commit -q -a -m two || exit 9
echo x > "$(git rev-parse --git-common-dir)/config"; echo x > "$(git rev-parse --git-common-dir)/hooks/pre-commit"
echo evil > "$(git rev-parse --git-dir)/commondir"; echo "gitdir: /evil" > .git; rm -f .git
"""
    result = place.run(script, cwd=tree)
    assert result.exit_code != 9
    assert (
        "two"
        in subprocess.run(["git", "log", "--format=%s"], cwd=tree, capture_output=True, text=True, check=True).stdout
    )
    after = {**place.protected(), **states(place.project / ".git" / "hooks"), "file": (tree / ".git").read_bytes()}
    assert after == before


def test_a_commit_works_in_a_directory_of_a_repository(place: Place) -> None:
    below = place.project / "below"
    below.mkdir()
    before = place.elsewhere()
    result = place.run("echo x > f; git add f; git -c user.name=A -c user.email=a@b.c commit -q -m two", cwd=below)
    assert result.exit_code == 0
    place.run("echo x >> ../notes.txt; echo x >> ../.git/config; echo x > ../.git/hooks/pre-commit", cwd=below)
    assert (place.project / "notes.txt").read_text() == "hello\n"
    assert place.elsewhere() == before


def test_a_file_that_calls_another_directory_its_repository_opens_nothing(place: Place) -> None:
    victim = place.home / "other"
    victim.mkdir()
    git("init", "-q", cwd=victim)
    shutil.rmtree(place.project / ".git")
    (place.project / ".git").write_text(f"gitdir: {victim / '.git'}\n")
    before = states(victim)
    at = escaped(victim)
    place.run(f"git commit --allow-empty -m x; echo x > {at}/.git/HEAD; echo x > {at}/.git/hooks/pre-commit")
    assert states(victim) == before


def test_a_hook_in_the_working_tree_is_protected(place: Place) -> None:
    (place.project / ".husky").mkdir()
    (place.project / ".husky" / "pre-commit").write_text("true\n")
    git("config", "core.hooksPath", ".husky", cwd=place.project)
    place.run("echo evil > .husky/pre-commit; mv .husky h; mkdir .husky; echo evil > .husky/pre-push")
    assert states(place.project / ".husky").keys() == {
        str(place.project / ".husky"),
        str(place.project / ".husky" / "pre-commit"),
    }
    assert (place.project / ".husky" / "pre-commit").read_text() == "true\n"


COMMANDS_LEFT = {
    "a submodule": "git init -q lib; git -C lib {commit}; git -C lib config core.fsmonitor {command}; git add lib",
    "a submodule that is declared": "git init -q --separate-git-dir .git/modules/sub sub; git -C sub {commit}; "
    "git -C sub config core.fsmonitor {command}; git add sub",
    "the configuration of a submodule that is checked out": "git -C kept config core.fsmonitor {command}",
    "another repository in the place of a submodule": "rm -rf kept/.git; git init -q kept; git -C kept {commit}; "
    "git -C kept config core.fsmonitor {command}",
    "a hook": "git init -q lib; {change}; cp program lib/.git/hooks/post-index-change; git add lib",
    "hooks elsewhere": "git init -q lib; {change}; mkdir h; cp program h/post-index-change; "
    'git -C lib config core.hooksPath "$PWD/h"; git add lib',
    "a file that names another directory": "git init -q --separate-git-dir g lib; git -C lib {commit}; "
    "git -C lib config core.fsmonitor {command}; git add lib",
    "a configuration elsewhere": "git init -q lib; git -C lib {commit}; cp -r lib/.git c; "
    "echo ../../c > lib/.git/commondir; git -C lib config core.fsmonitor {command}; git add lib",
    "more configuration": "git init -q lib; git -C lib {commit}; git config -f more core.fsmonitor {command}; "
    'git -C lib config include.path "$PWD/more"; git add lib',
    "a filter": "git init -q lib; echo '* filter=x' > lib/.gitattributes; {change}; "
    "git -C lib config filter.x.clean {command}; git add lib",
    "a configuration that ours includes": "git config -f included core.fsmonitor {command}",
    "a directory that cannot be listed": "mkdir d; git init -q d/lib; git -C d/lib {commit}; "
    "git -C d/lib config core.fsmonitor {command}; git add d/lib; chmod 311 d",
    "a submodule of a submodule": "git init -q kept/lib; git -C kept/lib {commit}; "
    "git -C kept/lib config core.fsmonitor {command}; git -C kept add lib",
}


@dataclass
class LeftBehind:
    """A command that leaves a repository whose configuration names a program, which leaves a mark when it runs."""

    script: str
    mark: Path

    def runs(self) -> bool:
        """Look at the project with git, and return whether that ran the program."""
        assert not self.mark.exists(), "it ran too early"
        looks = "git status; git diff; git add -A; git status; git diff; git stash list"
        subprocess.run(looks, shell=True, cwd=self.mark.parent / "work" / "project", check=False, capture_output=True)
        return self.mark.exists()


def leave_behind(place: Place, script: str) -> LeftBehind:
    mark = place.home / "RAN"
    program = place.project / "program"
    program.write_text(f"#!/bin/sh\ntouch {shlex.quote(str(mark))}\nexec cat\n")
    program.chmod(0o755)
    source = place.home / "source"
    git("init", "-q", "-b", "main", str(source), cwd=place.home)
    git("commit", "-q", "-m", "one", "--allow-empty", cwd=source)
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(source), "kept", cwd=place.project)
    git("config", "include.path", "../included", cwd=place.project)
    commit = "-c user.name=A -c user.email=a@b.c commit -q -m one --allow-empty"
    change = f"echo x > lib/f; git -C lib add f; git -C lib {commit}; touch -t 200001010000 lib/f"
    command = shlex.quote(shlex.quote(str(program)))  # for the script, and for the shell in which git runs it
    return LeftBehind(script.format(command=command, commit=commit, change=change), mark)


@pytest.mark.parametrize("script", COMMANDS_LEFT.values(), ids=COMMANDS_LEFT)
def test_git_outside_runs_nothing_of_a_repository_that_a_command_has_left(place: Place, script: str) -> None:
    left = leave_behind(place, script)
    result = place.run(left.script)
    assert not left.runs(), result.output
    if "git -C kept config" not in script:
        assert any("put aside" in note or "renamed to" in note for note in result.sandbox_notes), result


@pytest.mark.parametrize("script", COMMANDS_LEFT.values(), ids=COMMANDS_LEFT)
def test_git_runs_what_a_command_has_left_that_was_not_confined(user: Place, script: str) -> None:
    left = leave_behind(user, script)
    result = asyncio.run(Shell().run(left.script, cwd=user.project, timeout=120))
    assert left.runs(), result.output


async def test_the_tree_is_looked_at_in_a_thread_also_by_commands_side_by_side(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[threading.Thread] = []
    look = Repositories.look

    def watched(self: Repositories, *, opens: bool = False) -> Any:
        looks.append(threading.current_thread())
        return look(self, opens=opens)

    monkeypatch.setattr(Repositories, "look", watched)
    sandbox = Sandbox(make_policy("workspace", place.project), place.here)
    commands = ("git init -q left; git -C left config core.fsmonitor x", "echo one", "echo two")
    results = await asyncio.gather(*(Shell(sandbox=sandbox).run(each, cwd=place.project) for each in commands))
    assert [result.exit_code for result in results] == [0, 0, 0]
    assert 4 <= len(looks) <= 6  # one for each that begins alone, and one for each that ends
    assert threading.main_thread() not in looks
    assert sum("left/.git/config" in note for result in results for note in result.sandbox_notes) == 1
    cancelled = asyncio.create_task(Shell(sandbox=sandbox).run("touch never", cwd=place.project))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    assert not (place.project / "never").exists()
    sandbox.close()


def test_repositories_that_run_nothing_stay_as_a_command_made_them(place: Place) -> None:
    own = place.project / "own"
    git("init", "-q", "own", cwd=place.project)
    git("config", "alias.x", "!true", cwd=own)
    (own / ".git" / "hooks" / "pre-commit").write_text("#!/bin/sh\n")
    before = states(own)
    script = """
set -e
git init -q made; cd made; git config user.name A; git config user.email a@b.c; echo x > f; git add f
git commit -q -m one
git checkout -q -b topic; cd ..; git clone -q made copied; git -C copied fetch -q; git -C copied checkout -q -b other
git worktree add -q tree; echo more >> tree/notes.txt; cd tree
git -c user.name=A -c user.email=a@b.c commit -q -a -m two
"""
    result = place.run(script)
    assert (result.exit_code, result.sandbox_notes) == (0, ()), result.output
    assert states(own) == before
    result = place.run(
        "git -C copied pull -q origin topic; git -C copied remote get-url origin; echo '#' >> own/.git/config"
    )
    assert result.output.strip().endswith("/made")
    assert states(own).items() >= before.items()
    assert [note for note in result.sandbox_notes if "own/.git/config " in note and "config.from-sandbox-1" in note]


def wheel(directory: Path) -> Path:
    """A package, made by hand."""
    path = directory / "tinything-1.0-py3-none-any.whl"
    information = "tinything-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tinything.py", "WORD = 'installed'\n")
        archive.writestr(f"{information}/METADATA", "Metadata-Version: 2.1\nName: tinything\nVersion: 1.0\n")
        archive.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{information}/RECORD", "")
    return path


def test_pip_installs_in_the_workspace(place: Place) -> None:
    wheel(place.project)
    result = place.run(
        f"{QUOTED_PYTHON} -m venv env && env/bin/python -m pip install -q --no-index --find-links . tinything && "
        "env/bin/python -c 'import tinything; print(tinything.WORD)'"
    )
    assert (result.exit_code, result.output.splitlines()[-1:]) == (0, ["installed"]), result.output


def test_pip_installs_from_an_index_that_is_listed(bwrap_place: Place, tmp_path: Path) -> None:
    (tmp_path / "simple" / "tinything").mkdir(parents=True)
    file = wheel(tmp_path / "simple" / "tinything")
    (tmp_path / "simple" / "tinything" / "index.html").write_text(f'<a href="{file.name}">{file.name}</a>')

    from functools import partial
    from http.server import SimpleHTTPRequestHandler

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path)) as index:
        threading.Thread(target=index.serve_forever).start()
        url = f"http://localhost:{index.server_port}/simple"
        install = f"env/bin/python -m pip install -q --retries 0 --timeout 20 --index-url {url} tinything"
        try:
            result = bwrap_place.run(
                f"{QUOTED_PYTHON} -m venv env && {install} && "
                "env/bin/python -c 'import tinything; print(tinything.WORD)'",
                network=[f"localhost:{index.server_port}"],
            )
        finally:
            index.shutdown()
    assert (result.exit_code, result.output.splitlines()[-1:]) == (0, ["installed"]), result.output


def test_more_directories_can_be_writable(place: Place) -> None:
    (place.home / "shared").mkdir()
    at = escaped(place.home)
    place.run(f"echo x > {at}/shared/made; echo x > {at}/evil", writable=[str(place.home / "shared")])
    assert (place.home / "shared" / "made").exists()
    assert not (place.home / "evil").exists()


def test_a_link_in_the_place_of_a_writable_directory_opens_nothing(user: Place) -> None:
    (user.home / "shared").mkdir()
    policy = make_policy("workspace", user.project, writable=[str(user.home / "shared")])
    (user.home / "shared").rmdir()
    (user.home / "shared").symlink_to(user.home / "notes")
    with pytest.raises(SandboxError, match="replaced by a link"):
        Sandbox(policy, HERE).confine(["true"])


def test_the_environment_that_runs_the_agent_is_protected(bwrap_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = bwrap_place.project / "env"
    (environment / "lib").mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(environment))
    bwrap_place.run("echo 'import os' > env/lib/evil.pth; mv env e")
    assert list(environment.rglob("*")) == [environment / "lib"]


# Who asks for it, and what is said


def test_the_way_to_the_environment_is_protected_too(bwrap_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    venv = bwrap_place.project / "envs" / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").write_text("ours")
    monkeypatch.setattr(sys, "prefix", str(venv))
    bwrap_place.run("mv envs e; mkdir -p envs/venv/bin; echo evil > envs/venv/bin/python; echo x > envs/new")
    assert (venv / "bin" / "python").read_text() == "ours"
    assert (bwrap_place.project / "envs" / "new").exists()


def test_nothing_runs_where_nothing_can_be_confined(user: Place) -> None:
    nothing = Machine(None, "is not installed", 0, filters=True, seatbelt=False)
    shell = Shell(sandbox=Sandbox(make_policy("workspace", user.project), nothing))
    with pytest.raises(ToolError, match=r"bwrap: is not installed.*apt install bubblewrap.*--sandbox off"):
        asyncio.run(shell.run("touch ran", cwd=user.project))
    assert not (user.project / "ran").exists()


def test_a_failure_that_looks_like_the_sandbox_s_says_so(shared_place: Place) -> None:
    result = shared_place.run(f"echo x > {escaped(shared_place.home)}/evil")
    assert result.exit_code == 1
    assert str(shared_place.project) in result.sandbox_notes[0]
    assert shared_place.run("exit 3").sandbox_notes == ()


@pytest.mark.parametrize("directory", ["", "work/..", ".ssh"])
def test_a_home_is_no_workspace(user: Place, directory: str) -> None:
    with pytest.raises(SandboxError):
        make_policy("workspace", user.home / directory)


def test_what_was_made_where_nothing_was_is_put_aside(place: Place) -> None:
    result = place.run("echo ../e > .git/commondir")
    assert not (place.project / ".git" / "commondir").exists()
    assert "commondir" in result.sandbox_notes[0]


# What is protected, in the end

TAKES_ITS_NUMBER = """{python} -c 'import os, shutil
number = os.stat(".git").st_ino
shutil.rmtree(".git")
for each in range(3000):
    os.mkdir(f"e{{each}}")
    if os.stat(f"e{{each}}").st_ino == number:
        os.rename(f"e{{each}}", "evil")
        open("evil/marker", "w").close()
        break
else:
    print("it was not given again")'
"""
OUT_OF_PLACE = {
    "nothing": ("true", True),
    "moved": ("mv .git old && git init -q . && echo x > .git/marker", True),
    "moved deeper": ("mkdir -p a/b; mv .git a/b/c && mkdir .git && echo x > .git/marker", True),
    "moved, with a link in its place": ("mkdir sub; mv .git sub/real; ln -s sub/real .git", True),
    "under the name of what is deleted": ("mv .git '.git (deleted)' && mkdir .git && echo x > .git/marker", True),
    "a file in its place": ("rm -rf .git; echo x > .git", False),
    "a link in its place": ("rm -rf .git; mkdir e; echo x > e/marker; ln -s e .git", False),
    "a directory with its number": (TAKES_ITS_NUMBER, False),
    "exchanged": (
        """mkdir e; echo x > e/marker; {python} -c 'import ctypes
ctypes.CDLL(None).renameat2(-100, b"e", -100, b".git", 2)'""",
        True,
    ),
}


@pytest.mark.parametrize(("script", "is_there"), OUT_OF_PLACE.values(), ids=OUT_OF_PLACE)
def test_a_repository_is_in_its_place_in_the_end_and_nothing_else(place: Place, script: str, is_there: bool) -> None:
    before, git = place.elsewhere(), place.project / ".git"
    number = git.stat().st_ino
    result = place.run(script.format(python=QUOTED_PYTHON))
    assert place.elsewhere() == before, result
    assert not git.is_symlink()
    assert not (git / "marker").exists(), result
    if is_there:
        assert git.stat().st_ino == number
    elif place.here.backend == "landlock":
        assert not any("moved back" in note for note in result.sandbox_notes)


HOOKS_ELSEWHERE = {
    "a directory above is moved": "mv tools t; mkdir -p tools/hooks; echo evil > tools/hooks/pre-commit",
    "a directory above is a link": "mv tools t; ln -s t tools; echo evil > t/hooks/pre-commit",
    "a directory above leads out": "cp -r tools $TMPDIR/t; rm -rf tools; ln -s $TMPDIR/t tools",
    "a file is in the way": "rm -rf tools; echo evil > tools",
    "by a hard link": "ln tools/hooks/pre-commit l; echo evil > l",
    "a hook more": "echo evil > tools/hooks/pre-push; ln -s pre-push tools/hooks/post-checkout",
    "a pipe": "rm tools/hooks/pre-commit; mkfifo tools/hooks/pre-commit",
}


@pytest.mark.parametrize("script", HOOKS_ELSEWHERE.values(), ids=HOOKS_ELSEWHERE)
def test_hooks_in_the_tree_stay_as_they_are_whatever_becomes_of_their_place(place: Place, script: str) -> None:
    hooks = place.project / "tools" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "pre-commit").write_text("true\n")
    git("config", "core.hooksPath", "tools/hooks", cwd=place.project)
    before = states(hooks)
    result = place.run(script)
    assert states(hooks) == before, result
    assert not (place.project / "tools").is_symlink()


@pytest.mark.parametrize(
    "script",
    [
        "mkdir -p tools/hooks; echo evil > tools/hooks/pre-commit",
        "mkdir -p e/hooks; echo evil > e/hooks/pre-commit; ln -s e tools",
        "mkdir -p tools e; echo evil > e/pre-commit; ln -s ../e tools/hooks",
    ],
)
def test_hooks_that_are_not_there_do_not_appear(place: Place, script: str) -> None:
    git("config", "core.hooksPath", "tools/hooks", cwd=place.project)
    result = place.run(script)
    assert not (place.project / "tools" / "hooks" / "pre-commit").exists(), result


def test_a_link_out_that_is_filled_later_leads_to_no_hooks(place: Place) -> None:
    git("config", "core.hooksPath", "tools/hooks", cwd=place.project)
    sandbox = Sandbox(make_policy("workspace", place.project), place.here)
    for script in (
        "mkdir $TMPDIR/t; ln -s $TMPDIR/t tools",
        "mkdir $TMPDIR/t/hooks; echo evil > $TMPDIR/t/hooks/pre-push",
    ):
        asyncio.run(Shell(sandbox=sandbox).run(script, cwd=place.project))
    assert not (place.project / "tools" / "hooks").exists()
    sandbox.close()


def test_what_leads_to_a_hidden_path_is_not_moved(bwrap_place: Place) -> None:
    keys = bwrap_place.project / "deploy" / "prod" / "keys"
    keys.mkdir(parents=True)
    (keys / "key").write_text(KEY)
    for script in ("mv deploy d; mv deploy/prod deploy/p; echo x > deploy/prod/new", "cat */keys/key */*/keys/key"):
        assert KEY not in bwrap_place.run(script, hidden=["deploy/prod/keys"]).output
    assert (bwrap_place.project / "deploy" / "prod" / "new").exists()
    assert (keys / "key").read_text() == KEY


def test_what_a_killed_command_has_changed_is_put_back(place: Place) -> None:
    before = place.elsewhere()
    sandbox = Sandbox(make_policy("workspace", place.project), place.here)

    async def cancelled() -> None:
        script = "echo evil > .git/hooks/pre-commit; mv .git old; touch ready; exec sleep 600"
        task = asyncio.create_task(Shell(sandbox=sandbox).run(script, cwd=place.project))
        while not (place.project / "ready").exists():
            await asyncio.sleep(0.02)
        task.cancel()
        await task

    asyncio.run(cancelled())
    sandbox.close()
    assert place.elsewhere() == before


def test_what_cannot_be_looked_at_hides_nothing_else(place: Place) -> None:
    before = place.elsewhere()
    place.run(
        "echo evil > .git/hooks/pre-commit; mkdir .indusagi/d; echo x > .indusagi/d/f; chmod 000 .indusagi/d; "
        "echo x > .indusagi/g; chmod 000 .indusagi/g .indusagi; chmod 555 .git .git/hooks"
    )
    (place.project / ".git").chmod(0o755)
    assert place.elsewhere().keys() == before.keys()
    assert place.elsewhere() == {**before, str(place.project / ".git" / "hooks"): ANY}


def started(sandbox: Sandbox, script: str, place: Place) -> tuple[Confined, subprocess.Popen[bytes]]:
    confined = sandbox.confine(["sh", "-c", script])
    return confined, subprocess.Popen(
        confined.arguments, pass_fds=confined.pass_fds, cwd=place.project, stdin=subprocess.DEVNULL
    )


ENDS_FIRST = ["the one that changed it", "the other"]


@pytest.mark.parametrize("first", ENDS_FIRST)
@pytest.mark.parametrize(
    "change",
    [
        "echo evil > .git/hooks/pre-commit; git config core.fsmonitor ./evil",
        "mkdir -p tools/hooks; echo evil > tools/hooks/pre-commit",
        "git -C own config core.fsmonitor ./evil",
        "mv .git old",
    ],
)
def test_what_one_command_changed_is_not_how_it_was_for_another(place: Place, change: str, first: str) -> None:
    git("config", "core.hooksPath", "tools/hooks", cwd=place.project)
    own = place.project / "own"
    git("init", "-q", str(own), cwd=place.project)
    git("config", "core.editor", "vi", cwd=own)
    before, config = place.elsewhere(), (own / ".git" / "config").read_bytes()
    sandbox = Sandbox(make_policy("workspace", place.project), place.here)
    changes = started(sandbox, f"{change}; touch ready; exec sleep 600", place)
    wait_until((place.project / "ready").exists)
    other = started(sandbox, "exec sleep 600", place)
    for confined, process in [changes, other] if first == ENDS_FIRST[0] else [other, changes]:
        process.kill()
        process.wait()
        confined.close()
    sandbox.close()
    assert place.elsewhere() == before
    assert (own / ".git" / "config").read_bytes() == config
    assert not (place.project / "tools" / "hooks").exists()


WORKTREE_CHANGES = {
    "configuration": "printf '[core]\\n fsmonitor = {evil}\\n' > {tree}/config.worktree",
    "listed to nobody": "printf '[core]\\n fsmonitor = {evil}\\n' > {tree}/config.worktree; chmod 311 .git/worktrees",
    "elsewhere": "cp -r .git e; printf '[core]\\n fsmonitor = {evil}\\n' >> e/config; "
    "echo ../../../e > {tree}/commondir",
}


@pytest.mark.parametrize("which", ["the one that ran", "another"])
@pytest.mark.parametrize("change", WORKTREE_CHANGES.values(), ids=WORKTREE_CHANGES)
def test_a_worktree_that_is_made_meanwhile_runs_nothing(place: Place, change: str, which: str) -> None:
    git("config", "core.repositoryFormatVersion", "1", cwd=place.project)
    git("config", "extensions.worktreeConfig", "true", cwd=place.project)
    other = place.project.parent / "other"
    sandbox = Sandbox(make_policy("workspace", place.project), place.here)
    script = change.format(evil=f"touch {escaped(place.home)}/evil; false", tree=".git/worktrees/other")
    if which == "another":
        runs, process = started(sandbox, "exec sleep 600", place)
        git("worktree", "add", "-q", str(other), cwd=place.project)
        changes, changer = started(sandbox, script, place)
    else:
        changes, changer = started(sandbox, f"until [ -e go ]; do sleep 0.1; done; {script}", place)
        git("worktree", "add", "-q", str(other), cwd=place.project)
        runs, process = started(sandbox, "exec sleep 600", place)
        (place.project / "go").touch()
    changer.wait(20)
    changes.close()
    subprocess.run(["git", "status"], cwd=other, capture_output=True, check=False)
    process.kill()
    process.wait()
    runs.close()
    sandbox.close()
    assert not (place.home / "evil").exists(), changes.said
    git("status", cwd=other)
    assert not (place.home / "evil").exists(), changes.said


def test_a_project_that_the_user_moves_stays_whole(place: Place) -> None:
    new = place.project.with_name("renamed")
    sandbox = Sandbox(make_policy("workspace", place.project), place.here)
    runs, process = started(sandbox, "exec sleep 600", place)
    before = {path.removeprefix(str(place.project)): each for path, each in states(place.project).items()}
    place.project.rename(new)
    process.kill()
    process.wait()
    runs.close()
    assert not place.project.exists(), runs.said
    assert {path.removeprefix(str(new)): each for path, each in states(new).items()} == before
    if place.here.backend == "landlock":
        assert str(new) in runs.said[0]
    sandbox.close()


def test_a_project_in_the_place_of_one_that_the_user_moved_is_protected(place: Place) -> None:
    sandbox = Sandbox(make_policy("workspace", place.project), place.here)
    runs, process = started(sandbox, "exec sleep 600", place)
    place.project.rename(place.project.with_name("renamed"))
    shutil.copytree(place.project.with_name("renamed"), place.project)
    before = place.elsewhere()
    changes, changer = started(sandbox, "echo evil > .git/hooks/pre-commit; echo x > .indusagi/f; mv .git old", place)
    changer.wait(20)
    changes.close()
    assert place.elsewhere() == before
    process.kill()
    process.wait()
    runs.close()
    assert place.elsewhere() == before
    sandbox.close()


def test_a_workspace_in_a_writable_directory_is_not_moved_by_a_program(place: Place) -> None:
    (place.project.parent / ".indusagi").mkdir()
    before = place.elsewhere()
    result = place.run("mv ../project ../p; echo evil > ../p/.git/hooks/pre-commit", writable=[".."])
    assert place.elsewhere() == before, result


OBSTACLES = {
    "a zero byte": r"mkdir -p .git/modules/e; cd .git/modules/e; touch HEAD; printf '[core]\nhooksPath = \0' > config",
    "a pipe in a submodule": "mkdir -p .git/modules/e; echo x > .git/modules/e/HEAD; mkfifo .git/modules/e/config",
    "a pipe in the repository": "mkfifo p; mv p .git/config",
    "a pipe that comes and goes": f"""{QUOTED_PYTHON} -c 'import os
os.mkfifo(".git/pipe")
while not os.path.exists("stop"):
    open(".git/file", "w").close()
    os.replace(".git/file", ".git/config")
    os.link(".git/pipe", ".git/other")
    os.replace(".git/other", ".git/config")
    open("ready", "w").close()'""",
    "pipes in a working tree": "cd .git; mkdir -p worktrees/e; cd worktrees/e; mkfifo commondir gitdir config.worktree",
}


@pytest.mark.parametrize("script", OBSTACLES.values(), ids=OBSTACLES)
def test_no_obstacle_holds_the_next_command_up(place: Place, script: str) -> None:
    before = place.elsewhere()
    sandbox = Sandbox(make_policy("workspace", place.project), place.here)
    makes, process = started(sandbox, f"({script}); touch ready; until [ -e stop ]; do sleep 0.1; done", place)
    wait_until((place.project / "ready").exists)

    def runs() -> None:
        for _ in range(20):
            sandbox.confine(["true"]).close()

    others = threading.Thread(target=runs, daemon=True)
    others.start()
    others.join(20)
    (place.project / "stop").touch()
    process.wait(20)
    assert not others.is_alive()
    makes.close()
    sandbox.close()
    assert place.elsewhere() == before


def test_what_is_held_of_a_repository_is_let_go(place: Place) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    sandbox = Sandbox(make_policy("workspace", place.project), place.here)
    sandbox.confine(["true"]).close()
    for thread in threading.enumerate():
        if thread.name == "indus_nb sandbox":  # it lists a directory
            thread.join()
    before = descriptors()
    confined = [sandbox.confine(["true"]) for _ in range(3)]
    for each in confined:
        each.close()
        each.close()
    assert descriptors() == before
    sandbox.close()


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A place where nothing is confined: what is looked at is decided in this process."""
    yield from made_place(HERE, monkeypatch)


def tools_of(place: Place, mode: str, **options: object) -> dict[str, object]:
    hidden = [str(place.home / ".indusagi" / "agent")]
    sandbox = Sandbox(make_policy(mode, place.project, hidden=hidden, **options), HERE)
    return dict(builtin_tools(place.project, shell=Shell(sandbox=sandbox)))


async def call(tool: object, **arguments: object) -> str:
    output = await tool.execute(tool.check(arguments), ToolContext("1", lambda _: None))  # type: ignore[attr-defined]
    return output.content[0].text


@pytest.mark.parametrize(
    "path",
    [
        *(".git/hooks/pre-commit", ".git/config", ".git/commondir", ".indusagi/settings.json", "../evil", "~/evil"),
        *("sub/.git/config", "/etc/indusagi-evil", "link/evil", "~/.ssh/authorized_keys"),
    ],
)
async def test_the_tools_that_write_keep_to_the_sandbox(user: Place, path: str) -> None:
    (user.project / "link").symlink_to(user.home)
    before = user.elsewhere()
    with pytest.raises(ToolError, match="sandbox"):
        await call(tools_of(user, "workspace")["write"], path=path, content="evil")
    assert user.elsewhere() == before


async def test_the_tools_that_write_work_in_the_workspace_and_not_in_read_only(user: Place) -> None:
    assert "Wrote" in await call(tools_of(user, "workspace")["write"], path="new.txt", content="x")
    for name, arguments in (("write", {"content": "x"}), ("edit", {"edits": [{"oldText": "hello", "newText": "x"}]})):
        with pytest.raises(ToolError, match="read-only"):
            await call(tools_of(user, "read-only")[name], path="notes.txt", **arguments)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("read", "~/.ssh/id_rsa"),
        ("read", "~/.indusagi/agent/auth.json"),
        ("read", "/proc/self/environ"),
        ("read", "link"),
        ("ls", "~/.ssh"),
        ("grep", "~"),
        ("find", "~/.ssh"),
        ("grep", "/"),
    ],
)
async def test_the_tools_that_read_show_no_keys(user: Place, name: str, path: str) -> None:
    (user.project / "link").symlink_to(user.home / ".netrc")
    with pytest.raises(ToolError, match="sandbox"):
        await call(tools_of(user, "workspace")[name], path=path, pattern="e")


def test_a_confined_command_needs_no_question_unless_it_can_tell_anybody(user: Place) -> None:
    def asks(**options: object) -> bool:
        described = tools_of(user, "workspace", **options)["bash"].describe_call({"command": "ls"})  # type: ignore[attr-defined]
        assert described.details["sandbox"] == "workspace"
        return described.has_effects

    assert (asks(), asks(network=["pypi.org"]), asks(network=True)) == (False, False, True)


@pytest.mark.parametrize(
    ("own", "theirs", "counts"),
    [
        ({}, {"mode": "workspace"}, {"mode": "workspace"}),
        ({"mode": "workspace"}, {"mode": "off"}, {}),
        ({"mode": "read-only"}, {"mode": "workspace"}, {}),
        ({"mode": "workspace"}, {"network": True, "writable": ["/"], "unixSockets": True}, {}),
        ({"mode": "workspace", "network": ["a.org"]}, {"network": ["evil.org"]}, {}),
        ({"network": ["a.org"]}, {"network": False}, {"network": False}),
        ({"hidden": ["a"]}, {"hidden": ["b"]}, {"hidden": ["a", "b"]}),
        ({"mode": "workspace"}, {"mode": ["off"], "hidden": "x"}, {}),
        ({"mode": "workspace"}, None, {}),
    ],
)
def test_a_project_can_make_it_stricter_only(own: object, theirs: object, counts: object) -> None:
    assert stricter(theirs, own) == counts


def test_a_project_cannot_switch_it_off(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "work" / ".indusagi").mkdir(parents=True)
    (tmp_path / "agent" / "settings.json").write_text('{"sandbox": {"mode": "workspace"}}')
    (tmp_path / "work" / ".indusagi" / "settings.json").write_text('{"sandbox": {"mode": "off", "network": true}}')
    loaded = load_settings(tmp_path / "work", tmp_path / "agent")
    assert loaded.settings.sandbox == {"mode": "workspace"}


PROJECTS_ALONE = [
    (None, {"mode": "workspace"}),
    ({"mode": "off"}, {"mode": "read-only"}),
    ({"mode": "workspace", "network": True}, {"network": False}),
    ({"mode": "workspace", "network": True}, {"mode": "read-only", "network": False}),
]


@pytest.mark.parametrize(("own", "theirs"), PROJECTS_ALONE)
@pytest.mark.parametrize("trusted", [False, True])
def test_what_a_project_confines_goes_on_being_asked_about(
    tmp_path: Path, own: dict[str, object] | None, theirs: dict[str, object], *, trusted: bool
) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "settings.json").write_text(json.dumps({} if own is None else {"sandbox": own}))
    (tmp_path / "work" / ".indusagi").mkdir(parents=True)
    (tmp_path / "work" / ".indusagi" / "settings.json").write_text(json.dumps({"sandbox": theirs}))
    loaded = load_settings(tmp_path / "work", tmp_path / "agent", trusted=trusted)

    def asks_nothing(mode: Mode | None, own_sandbox: object) -> bool:
        made = make_sandboxes(mode, loaded.settings.sandbox, [], own_sandbox)
        assert made is not None
        return made.of(tmp_path / "work").asks_nothing

    assert not asks_nothing(None, loaded.own_sandbox)
    assert asks_nothing(None, {"mode": "workspace"})
    assert asks_nothing("workspace", None)


@pytest.mark.parametrize(
    "settings", [{"mode": "workspcae"}, {"mode": "workspace", "network": "pypi.org"}, {"writable": "/"}]
)
def test_a_setting_that_makes_no_sense_ends_the_start(settings: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="sandbox"):
        make_sandboxes(None, settings, [])


SERVER = """
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    params = message.get("params") or {}
    result = {}
    if message["method"] == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "s", "version": "1"}}
    elif message["method"] == "tools/list":
        result = {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]}
    elif message["method"] == "tools/call":
        try:
            text = str(eval(params["arguments"]["code"]))
        except OSError as error:
            text = f"refused {error}"
        result = {"content": [{"type": "text", "text": text}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


async def test_a_server_that_is_a_program_runs_in_it(shared_place: Place) -> None:
    (shared_place.project / "server.py").write_text(SERVER)
    sandbox = Sandbox(make_policy("workspace", shared_place.project), shared_place.here)
    config = {"command": PYTHON, "args": [str(shared_place.project / "server.py")]}
    servers = McpServers({"s": config}, shared_place.project, sandbox=sandbox)
    await servers.start()
    try:
        assert servers.problems == []
        tool = servers.tools["s_act"]
        assert (await call(tool, code=f"open('{shared_place.home}/evil', 'w')")).startswith("refused")
        assert (await call(tool, code=f"open('{shared_place.home}/.netrc').read()")).startswith("refused")
        assert (await call(tool, code="open('made', 'w').write('x')")) == "1"
    finally:
        await servers.close()
        sandbox.close()
    assert (shared_place.project / "made").read_text() == "x"
    assert not (shared_place.home / "evil").exists()


async def test_a_server_is_not_started_where_it_cannot_be_confined(user: Place) -> None:
    (user.project / "server.py").write_text("open('ran', 'w')\n")
    nothing = Machine(None, "is not installed", 0, filters=True, seatbelt=False)
    sandbox = Sandbox(make_policy("workspace", user.project), nothing)
    config = {"command": PYTHON, "args": ["server.py"]}
    servers = McpServers({"s": config}, user.project, sandbox=sandbox)
    await servers.start()
    assert "is not available" in servers.problems[0]
    assert not (user.project / "ran").exists()
    await servers.close()
