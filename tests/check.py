"""Everything that must hold before a change is good: one command that sets itself up and runs every check.

    python3 tests/check.py            make .venv, install, then lint, types, layers, dead code, fresh installations of
                                     the package, the site, and all tests, those of the notebook also in the oldest
                                     kernel
    python3 tests/check.py --install-browser    the same, after installing Chromium and bubblewrap
    python3 tests/check.py --fast     what takes less than a minute: all of that which needs no test, with the types of
                                     what changed, and the tests that take least time for what they find
    python3 tests/check.py --quick    lint, types and layers only
    python3 tests/check.py --sizes    which modules are long or know many others: a list, no check
    python3 tests/check.py --coverage the tests without kernels and browsers, with what of the package they ran
    python3 tests/check.py --docs     build the documentation site into site/; dead links fail
    python3 tests/check.py --matrix   fresh installations only, on every Python of this machine: see tests/matrix.py
    python3 tests/check.py tests/kernel -k interrupt    further arguments go to pytest instead

It needs Python 3.11 or newer and git, and writes nothing outside this directory. Tests in a browser need Chromium and
some of those of the sandbox need bubblewrap: without them they are left out, which the last lines say.
``--install-browser`` installs both with the system's packages first, and fails where it cannot. Tests run in one worker
for each of the first four processors; ``INDUS_NB_WORKERS=1`` says how many instead.

Where everything runs, two rows of parts go side by side: tests of kernels and pages wait half of their time, others do
not. What a part says is printed all five minutes and when it ends, and each part runs even if an earlier one failed,
but no more of its own tests once more than twenty have failed. No test takes longer
than ``INDUS_NB_TEST_SECONDS`` (300) and no part longer than ``INDUS_NB_PART_MINUTES`` (90); what they had started is
killed then. Tests that failed are run once more, by themselves, up to twenty of a part: browsers and kernels have
timing of their own, and a few of some thousand tests that met an unlucky moment say little about the change; more of
them are no accident. The last lines say how long each part took, name every failure, what was left out, and the tests
that passed when they were run once more: each of them has a race that is to be mended.
"""

from __future__ import annotations

import locale
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import outcomes
from installing import ROOT, Installer, InstallError

ENVIRONMENT = ROOT / ".venv"
BIN = ENVIRONMENT / "bin"

TYPES = ("pyright",)
QUICK = (
    TYPES,
    ("python", "tests/javascript.py"),
    ("lint-imports",),
    ("ruff", "check"),
    ("ruff", "format", "--check"),
)
PUBLIC_TYPES = ("python", "tests/public_types.py")
STATIC = (*QUICK, PUBLIC_TYPES, ("python", "tests/dead_code.py"), ("python", "tests/names.py"))
"""Checks that read the code without running it; the slowest first, for they run side by side."""
STATIC_OF_CHANGES = (
    ("python", "tests/changed_types.py"),
    *(check for check in STATIC if check not in (TYPES, PUBLIC_TYPES)),
)

FASTEST_TESTS = (
    "tests/test_messages.py",
    "tests/test_ignore.py",
    "tests/test_reference.py",
    "tests/test_pages.py",
    "tests/test_habits.py",
    "tests/session/test_turns.py",
    "tests/storage/test_session_format.py",
    "tests/storage/test_store.py",
    "tests/tools/test_edit.py",
    "tests/tools/test_truncate.py",
    "tests/notebook/test_request.py",
    "tests/notebook/test_offers.py",
    "tests/notebook/test_live_messages.py",
    "tests/snapshots",
)
"""What finds most for its time."""

FRONT_ENDS = ("tests/kernel", "tests/browser", "tests/notebooks")
"""Kernels, pages and a person's patience work in real time: what these wait for are signs, however late they come."""
OLDEST_KERNEL = "6.29.5"
"""The oldest kernel that the package says it works with: it is the one that differs most."""
SPEAK_TO_THE_KERNEL = (
    "tests/kernel/test_dialogs.py",
    "tests/kernel/test_headless.py",
    "tests/kernel/test_jobs.py",
    "tests/kernel/test_loaded_at_start.py",
    "tests/kernel/test_magic.py",
    "tests/kernel/test_panel.py",
    "tests/kernel/test_silent_pages.py",
)
"""What depends on the kernel's version, and so runs in the oldest one too: its messages, interrupts, input and comms.

The bridge to it and looks in a copy of it name the kernels that they run in themselves. What the agent does with
variables, files and answers is the same in any kernel.
"""
WITHOUT_FRONT_ENDS = tuple(f"--ignore={place}" for place in FRONT_ENDS)
SITE = ("mkdocs", "build", "--strict")
AGAIN_AT_MOST = 20
"""How many failed tests of a part are run once more: when more of them fail it is no accident."""
PART_SECONDS = 60 * float(os.environ.get("INDUS_NB_PART_MINUTES") or 90)
SAY_SECONDS = 300
LEFTOVERS = Path(__file__).with_name("leftovers.py")
MARK = "INDUS_NB_PART"
"""The variable by which what a part has started is found."""
BROWSER_FLAG = "--install-browser"


@dataclass
class Result:
    """What became of one part."""

    failed: list[str] = field(default_factory=list)
    passed_then: list[str] = field(default_factory=list)
    """Tests that passed only when they were run once more."""
    left_out: list[str] = field(default_factory=list)


def main(arguments: list[str]) -> None:
    """Run the checks in order and leave with the status of the first that fails."""
    if sys.version_info < (3, 11):  # noqa: UP036 - this runs before anything checked the version
        sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0])
    if locale.getencoding() in ("ANSI_X3.4-1968", "US-ASCII") and not str(ROOT).isascii():
        os.environ["LC_ALL"] = "C.UTF-8"  # else Python does not start where its environment has such a name
    match arguments:
        case ["--quick"]:
            install()
            run_side_by_side(QUICK)
        case ["--fast"]:
            install()
            run_side_by_side([("python", "-m", "pytest", "-q", *FASTEST_TESTS), *STATIC_OF_CHANGES])
        case ["--sizes"]:
            install()
            run("python", "tests/sizes.py")
        case ["--coverage", *more]:
            install()
            run_with_coverage(more)
        case ["--docs"]:
            install("docs")
            run(*SITE)
        case [*_] if "--matrix" in arguments:
            install()
            run("python", "tests/matrix.py", *(argument for argument in arguments if argument != "--matrix"))
        case [] | ["--install-browser"]:
            run_everything(install_browser=bool(arguments))
        case _:
            install()
            run("python", "-m", "pytest", *arguments)


def run_everything(*, install_browser: bool) -> None:
    """Run all parts, say what became of them, and leave with status 1 if any of them failed."""
    install("docs")
    missing = [] if not install_browser else install_programs()
    browser = can("python", "tests/jupyterlab_page.py")
    front_ends = [place for place in FRONT_ENDS if browser or place != "tests/browser"]
    rows: list[dict[str, Callable[[IO[str]], Result]]] = [
        {
            "code and site": lambda said: Result(side_by_side([*STATIC, SITE], said)),
            "fresh installations": lambda said: Result(failures("python", "tests/matrix.py", "--quick", output=said)),
            "tests": lambda said: run_tests(*workers(), *WITHOUT_FRONT_ENDS, output=said),
            "oldest kernel": lambda said: run_tests(
                *workers(waiting=True),
                *SPEAK_TO_THE_KERNEL,
                output=said,
                INDUS_NB_IPYKERNEL=OLDEST_KERNEL,
            ),
        },
        {
            "notebooks, kernels, browser" if browser else "notebooks, kernels": lambda said: run_tests(
                *workers(waiting=True), *front_ends, output=said
            ),
        },
    ]
    with ThreadPoolExecutor(1 if os.environ.get("INDUS_NB_WORKERS") == "1" else len(rows)) as pool:
        lines_and_results = [each for row in pool.map(run_row, rows) for each in row]
    lines, failed = [line for line, _ in lines_and_results], list(missing)
    left_out = (
        [] if browser else [f"tests/browser: no Chromium could be started (python3 tests/check.py {BROWSER_FLAG})"]
    )
    for _, result in lines_and_results:
        failed += result.failed
        lines += [f"passed only when it was run once more: {test}" for test in result.passed_then]
        left_out += result.left_out
    print(*lines, sep="\n")
    print(*(f"left out: {what}" for what in dict.fromkeys(left_out)), sep="\n")
    print(*(f"failed: {what}" for what in failed), sep="\n", flush=True)
    if failed:
        sys.exit(1)


def run_row(parts: dict[str, Callable[[IO[str]], Result]]) -> list[tuple[str, Result]]:
    """Run parts one after the other, and print what each of them said when it ends.

    Returns:
        For each one the line that says how long it took, and what became of it.
    """
    ended = []
    for name, part in parts.items():
        began = time.monotonic()
        print(f"begun: {name}", flush=True)
        with tempfile.NamedTemporaryFile("w+", encoding="utf-8", errors="replace") as said:
            with printed(name, Path(said.name)):
                result = part(said)
            minutes, seconds = divmod(round(time.monotonic() - began), 60)
            line = f"{minutes:4d} min {seconds:2d} s  {name}: {'failed' if result.failed else 'passed'}"
            print(line, flush=True)
        ended.append((line, result))
    return ended


@contextmanager
def printed(name: str, said: Path) -> Generator[None]:
    """Print within this context what a part says, now and then and at the end: it may be cut off before."""
    ended = threading.Event()

    def follow() -> None:
        with said.open("rb") as file:
            while True:
                is_last = ended.wait(SAY_SECONDS)
                if new := file.read().decode("utf-8", "replace").rstrip():
                    print(f"{name}:\n{new}", flush=True)
                if is_last:
                    return

    follower = threading.Thread(target=follow)
    follower.start()
    try:
        yield
    finally:
        ended.set()
        follower.join()


def workers(*, waiting: bool = False) -> Sequence[str]:
    """What lets pytest use all processors; the tests of a file share kernels and servers, and stay together.

    Args:
        waiting: The tests wait half of their time, so that there is work for one worker more.
    """
    count = os.environ.get("INDUS_NB_WORKERS") or str(min(os.cpu_count() or 1, 4) + waiting)
    return () if count == "1" else ("-n", count, "--dist=loadfile", "--no-loadscope-reorder", "--max-worker-restart=0")


def run_with_coverage(selected: Sequence[str]) -> None:
    """Run tests with the package's lines and branches counted, in their processes too, and hold the sum to its floor.

    The floor is ``fail_under`` in pyproject.toml. It is for the tests without kernels and browsers, so it holds only if
    nothing is selected.
    """
    run("coverage", "erase")
    run("python", "-m", "pytest", *workers(), "--cov", "--cov-report=", *(selected or WITHOUT_FRONT_ENDS))
    run("coverage", "report", *(["--fail-under=0"] if selected else []))


def install(*extras: str) -> None:
    """Make the environment and install the package with what its tests need, unless that is done already."""
    installer = Installer()
    python = BIN / "python"
    if not python.exists():
        installer.make_environment(ENVIRONMENT)
    wanted = (ROOT / "pyproject.toml").read_bytes()
    installed = ENVIRONMENT / "-".join(["installed", *extras])
    installed = installed.with_suffix(".toml")
    if not installed.exists() or installed.read_bytes() != wanted or not is_installed_from_here():
        what = f"[{','.join(['test', *extras])}]"
        print("$", installer.name, f"install --editable .{what}", flush=True)
        installer.install(python, "--editable", f"{ROOT}{what}")
        for name in {installed.name, "installed.toml"}:  # with extras everything else is there as well
            (ENVIRONMENT / name).write_bytes(wanted)


def is_installed_from_here() -> bool:
    """Whether the environment imports the package from this very tree."""
    where = [str(BIN / "python"), "-I", "-c", "import indus_nb; print(indus_nb.__file__)"]
    found = subprocess.run(where, capture_output=True, text=True, check=False).stdout.strip()
    return Path(found).parent == ROOT / "indus_nb"


def install_programs() -> list[str]:
    """Install a browser and ``bwrap`` where they are missing; returns what could not be installed."""
    missing = []
    if not can("python", "tests/jupyterlab_page.py"):
        if not install_packages("chromium"):
            attempt("playwright", "install", "chromium")
        if not can("python", "tests/jupyterlab_page.py"):
            missing.append(f"{BROWSER_FLAG}: Chromium could not be installed: see what is printed above")
    if sys.platform == "linux" and shutil.which("bwrap") is None:
        install_packages("bubblewrap")
    return missing


def install_packages(*names: str) -> bool:
    """Install packages of the system where that needs no question; returns whether it was tried."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return False
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", *names]):
        end_in_time(subprocess.Popen(command, env=quiet))
    return True


def can(program: str, *arguments: str) -> bool:
    """Whether a program of the environment succeeds; what it prints is of no interest."""
    with Path(os.devnull).open("w", encoding="utf-8") as nothing:
        return attempt(program, *arguments, output=nothing) == 0


def run(program: str, *arguments: str) -> None:
    """Run a program of the environment; its failure ends everything."""
    print("$", program, *arguments, flush=True)
    if status := attempt(program, *arguments):
        sys.exit(status)


def failures(program: str, *arguments: str, output: IO[str]) -> list[str]:
    """Run a program of the environment; returns what to say of it if it failed."""
    print("$", program, *arguments, file=output, flush=True)
    status = attempt(program, *arguments, output=output)
    return [f"{' '.join((program, *arguments))} (status {status})"] if status else []


def attempt(program: str, *arguments: str, output: IO[str] | None = None, **variables: str) -> int:
    """Run a program of the environment within the time of a part, and kill whatever it leaves behind.

    Args:
        program: its name in ``.venv/bin``
        arguments: its arguments
        output: where it writes, both standard output and errors; where this process does without
        variables: more environment variables

    Returns:
        Its status.
    """
    mark = uuid.uuid4().hex
    environment = variables_with(**{MARK: mark}, **variables)
    errors = subprocess.STDOUT if output else None
    leftovers = in_environment("python", str(LEFTOVERS), MARK, mark)
    try:
        command = in_environment(program, *arguments)
        return end_in_time(subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=errors))
    finally:
        subprocess.run(leftovers, cwd=ROOT, env=variables_with(), stdout=output, stderr=errors, check=False)


def end_in_time(process: subprocess.Popen[bytes]) -> int:
    """Wait for a process as long as a part may take, then interrupt it, and kill it if it does not care."""
    try:
        return process.wait(PART_SECONDS)
    except subprocess.TimeoutExpired:
        print(f"It took longer than {PART_SECONDS / 60:g} minutes and is ended: {process.args}", flush=True)
        process.send_signal(signal.SIGINT)  # pytest says what failed so far
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
        return process.wait() or 1
    finally:
        if process.poll() is None:
            process.kill()


def run_tests(*arguments: str, output: IO[str], **variables: str) -> Result:
    """Run pytest, and what failed once more if that is little."""
    first = outcomes_of(f"--maxfail={AGAIN_AT_MOST + 1}", *arguments, output=output, **variables)
    left_out = [f"{count} tests: {reason}" for reason, count in first.left_out.items()]
    what = " ".join(f"{name}={value}" for name, value in variables.items())
    if not first.complete:
        return Result(
            [*first.failed, f"pytest {' '.join([*arguments, what])}: ended before all tests ran"], [], left_out
        )
    if not first.failed or len(first.failed) > AGAIN_AT_MOST:
        return Result([*first.failed], [], left_out)
    again = outcomes_of(*first.failed, output=output, **variables)
    still = set(again.failed if again.complete else first.failed)
    return Result(
        [test for test in first.failed if test in still], [test for test in first.failed if test not in still], left_out
    )


def outcomes_of(*arguments: str, output: IO[str], **variables: str) -> outcomes.Outcomes:
    """Run pytest, and return what became of its tests."""
    shown = (*arguments, *(f"{name}={value}" for name, value in variables.items()))
    print("$", "pytest", *shown, file=output, flush=True)
    # Files of tests in a directory of this run's: the one that pytest chooses may belong to a user of the past.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        file = Path(folder, "outcomes")
        own = {outcomes.VARIABLE: str(file), "PYTEST_DEBUG_TEMPROOT": folder}
        status = attempt("python", "-m", "pytest", *arguments, output=output, **variables, **own)
        found = outcomes.read(file)
    found.complete &= status == 0 or bool(found.failed)
    return found


def run_side_by_side(commands: Sequence[Sequence[str]]) -> None:
    """Run programs of the environment side by side, and leave if one failed."""
    if side_by_side(commands, sys.stdout):
        sys.exit(1)


def side_by_side(commands: Iterable[Sequence[str]], said: IO[str]) -> list[str]:
    """Run programs of the environment, as many at a time as there are processors; print what each of them said.

    Returns:
        Those that failed, when all have come to their end.
    """

    def finish(command: Sequence[str]) -> tuple[int, str, float]:
        began = time.monotonic()
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            status = attempt(*command, output=output)
            output.seek(0)
            return status, output.read(), time.monotonic() - began

    failed = []
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        running = {pool.submit(finish, command): command for command in commands}
        for ended in as_completed(running):
            status, output, seconds = ended.result()
            print("$", *running[ended], f" ({seconds:.0f} s)", file=said)
            print(output.rstrip(), file=said, flush=True)
            failed += [f"{' '.join(running[ended])} (status {status})"] if status else []
    return failed


def in_environment(program: str, *arguments: str) -> Sequence[str]:
    """The command that runs a program of the environment."""
    return [str(BIN / program), *arguments]


def variables_with(**more: str) -> dict[str, str]:
    """This process' environment variables, as they are where .venv is activated, and more.

    Bytecode is kept, whatever the user prefers: without it each worker takes three times as long to import the tests.
    """
    path = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**outside, "PATH": path, "VIRTUAL_ENV": str(ENVIRONMENT), "NO_MKDOCS_2_WARNING": "1", **more}


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except InstallError as error:
        sys.exit(str(error))
