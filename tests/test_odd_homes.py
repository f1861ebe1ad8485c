"""Containers and odd homes: the program works wherever it starts, and says in one sentence what it cannot keep."""

from __future__ import annotations

import errno
import os
import platform
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from messages_api import MessagesApi, Reply, ToolUse

PROGRAM = (sys.executable, "-m", "indus_nb")
OFFLINE = (*PROGRAM, "--provider", "offline", "list the files here, then compute 6 * 7")
BWRAP = shutil.which("bwrap")
IN_MEMORY = "This session is kept in memory only"
LANDLOCK = range(444, 447)
"""Numbers of its calls, the same on every processor."""
FLOCK = (32 if platform.machine() == "aarch64" else 73,)

pytestmark = pytest.mark.skipif(BWRAP is None, reason="bwrap makes these machines")


@dataclass(frozen=True)
class Machine:
    """What a container is given; ``HERE`` in an option is the only directory that can be written to."""

    name: str
    options: str = ""
    variables: str = "HOME=HERE/home"
    before: str = ""
    says: str = ""

    def command(self, here: Path, program: Sequence[str]) -> list[str]:
        """The command that runs a program in it."""
        base = f"--unshare-pid --die-with-parent --ro-bind / / --proc /proc --dev /dev {self.options} --bind HERE HERE"
        options = [*f"{base} --chdir HERE/work --clearenv --setenv PATH".split(), os.environ["PATH"]]
        for variable in self.variables.split():
            options += ["--setenv", *variable.split("=", 1)]
        inside = ["/bin/sh", "-c", f'{self.before} exec "$@"', "sh", *program]
        return [str(BWRAP), *(option.replace("HERE", str(here)) for option in options), *inside]


NO_DEVICES = "--tmpfs /dev --dev-bind /dev/null /dev/null --dev-bind /dev/urandom /dev/urandom --remount-ro /dev"
MACHINES = (
    Machine("a home"),
    Machine("the root directory as home", variables="HOME=/", says=IN_MEMORY),
    Machine("a home that cannot be written", variables="HOME=/usr", says=IN_MEMORY),
    Machine("a home that is not there", variables="HOME=/nowhere/at/all", says=IN_MEMORY),
    Machine("no variables", variables="", says=IN_MEMORY),
    Machine("a user without a name", options="--unshare-user --uid 54321 --gid 54321"),
    Machine("a user without a name or home", "--unshare-user --uid 54321 --gid 54321", "HOME=/", says=IN_MEMORY),
    Machine("a home of somebody else", "--unshare-user --uid 54321 --gid 54321", "HOME=/etc", says=IN_MEMORY),
    Machine("no shared memory and hardly a device", options=NO_DEVICES),
    Machine("nowhere for temporary files", variables="HOME=/ TMPDIR=/usr", says=IN_MEMORY),
    Machine("a mask", before="umask 077;"),
    Machine("another time, no language", variables="HOME=HERE/home TZ=Pacific/Apia LANG=C LC_ALL=C"),
    Machine("a language that is not installed", variables="HOME=HERE/home LANG=xx_YY.UTF-8 TZ=Nowhere/Here"),
    Machine("256 MB", before="ulimit -d 262144;"),
    Machine("few descriptors", before="ulimit -n 64;"),
    Machine("no network", options="--unshare-net"),
)


@pytest.fixture(params=["plain", "blänk & quote's"])
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    made = tmp_path / request.param
    (made / "home").mkdir(parents=True)
    (made / "work").mkdir()
    (made / "work" / "data.csv").touch()
    return made


def ends(command: Sequence[str], *, pass_fds: Sequence[int] = ()) -> subprocess.CompletedProcess[str]:
    """Run a command that has no terminal."""
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
        start_new_session=True,
        pass_fds=pass_fds,
    )


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_the_program_answers_and_says_at_most_what_it_cannot_keep(here: Path, machine: Machine) -> None:
    done = ends(machine.command(here, OFFLINE))
    assert (done.returncode, "\n42\n" in done.stdout, "data.csv" in done.stdout) == (0, True, True), done.stderr
    if machine.says:
        assert machine.says in done.stderr
        assert "set HOME, or INDUS_NB_SESSION_DIR" in done.stderr
        assert done.stderr.count("\n") == 1
    else:
        assert done.stderr == ""
        assert len([*(here / "home").rglob("*.jsonl")]) == 1


def test_a_sandbox_without_landlock_is_another_one_or_refused(here: Path, messages_api: MessagesApi) -> None:
    messages_api.add(
        Reply(ToolUse("bash", {"command": "echo made > made; echo out > /usr/out; cat made"})), Reply("Done.")
    )
    variables = f"HOME=HERE/home ANTHROPIC_BASE_URL={messages_api.url} ANTHROPIC_API_KEY=sk-test"
    chosen = ("--model", "claude-haiku-4-5", "--sandbox", "workspace", "--approve", "never", "write it")
    done = refused(LANDLOCK, errno.ENOSYS, here, variables, *chosen)
    assert done.returncode in (0, 2), done.stderr
    if done.returncode == 2:
        assert "--sandbox off" in done.stderr
        assert not messages_api.requests
    else:
        assert (here / "work" / "made").read_text() == "made\n"
        assert not Path("/usr/out").exists()


def test_what_is_kept_is_kept_where_the_file_system_has_no_locks(here: Path) -> None:
    asked = ("--provider", "offline", "--sandbox", "off", "compute 6 * 7")
    home = "HOME=HERE/home"
    for told in ("", "this file system offers no locks"):
        done = refused(FLOCK, errno.ENOLCK, here, home, "--continue", *asked)
        assert (done.returncode, "42" in done.stdout, told in done.stderr) == (0, True, True), done.stderr
    recorded = f"{home} INDUS_NB_CASSETTE=answers.json INDUS_NB_CASSETTE_MODE="
    for mode in ("record", "record", "replay"):
        done = refused(FLOCK, errno.ENOLCK, here, recorded + mode, "--no-session", *asked)
        assert (done.returncode, "42" in done.stdout, done.stderr) == (0, True, "")
    (here / "work" / "data.csv").write_text("a\n1\n2\n")
    rows = ("map", "data.csv", "--provider", "offline", "--prompt", "compute {a} + 1", "--out", "out.csv")
    for _ in range(2):
        done = refused(FLOCK, errno.ENOLCK, here, home, *rows, "--journal", "journal.jsonl")
        assert (done.returncode, "2 of 2 rows" in done.stderr) == (0, True), done.stderr
    assert (here / "work" / "journal.jsonl").read_text().count('"key"') == 2


def refused(
    calls: Sequence[int], error: int, here: Path, variables: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run the program where the system refuses some calls with an error, and allows others."""
    load, jump, decides = 0x20, 0x15, 0x06
    refuses, allows = 0x00050000 | error, 0x7FFF0000
    rules = [(load, 0, 0, 0)]
    rules += [(jump, len(calls) - at, 0, call) for at, call in enumerate(calls)]
    rules += [(decides, 0, 0, allows), (decides, 0, 0, refuses)]
    with (here / "filter").open("w+b") as file:
        file.write(b"".join(struct.pack("=HBBI", *rule) for rule in rules))
        file.flush()
        file.seek(0)
        machine = Machine("", f"--seccomp {file.fileno()}", variables)
        return ends(machine.command(here, [*PROGRAM, *arguments]), pass_fds=(file.fileno(),))
