"""Everything that must hold before a change is good: one command that sets itself up and runs every check.

    python3 tests/check.py            make .venv, install, then lint, types, layers, dead code, fresh installations of
                                     the package, the site, and all tests, those of the notebook also in the oldest
                                     kernel
    python3 tests/check.py --fast     what takes less than a minute: all of that which needs no test, and the tests that
                                     take least time for what they find
    python3 tests/check.py --quick    lint, types and layers only
    python3 tests/check.py --coverage the tests without kernels and browsers, with what of the package they ran
    python3 tests/check.py --docs     build the documentation site into site/; dead links fail
    python3 tests/check.py --matrix   fresh installations only, on every Python of this machine: see tests/matrix.py
    python3 tests/check.py tests/kernel -k interrupt    further arguments go to pytest instead

It needs Python 3.11 or newer and git. The browser tests need Chromium: it is looked for, then installed if that can be
done without questions, and if neither works the tests say how to get it. Tests run in one worker for each of the first
four processors; ``INDUS_NB_WORKERS=1`` says how many instead.

Where everything runs, up to three tests that failed are run once more, by themselves. Browsers and kernels have timing
of their own, and one of some thousand tests that met an unlucky moment says little about the change; one that fails
again ends everything. Those that passed then are named in the last lines: each of them has a race that is to be mended.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from installing import ROOT, Installer, InstallError

ENVIRONMENT = ROOT / ".venv"
BIN = ENVIRONMENT / "bin"

QUICK = (
    ("pyright",),
    ("python", "tests/javascript.py"),
    ("lint-imports",),
    ("ruff", "check"),
    ("ruff", "format", "--check"),
)
STATIC = (*QUICK, ("python", "tests/dead_code.py"))
"""Checks that read the code without running it; the slowest first, for they run side by side."""

FASTEST_TESTS = (
    "tests/test_messages.py",
    "tests/test_ignore.py",
    "tests/test_reference.py",
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

FRONT_ENDS = ("tests/notebooks", "tests/kernel", "tests/browser")
"""Kernels, pages and a person's patience work in real time, so these run one after the other, by themselves."""
WITHOUT_FRONT_ENDS = tuple(f"--ignore={place}" for place in FRONT_ENDS)
SITE = ("mkdocs", "build", "--strict")
AGAIN_AT_MOST = 3
"""How many failed tests are run once more: when more of them fail it is no accident."""


def main(arguments: list[str]) -> None:
    """Run the checks in order and leave with the status of the first that fails."""
    if sys.version_info < (3, 11):  # noqa: UP036 - this runs before anything checked the version
        sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0])
    match arguments:
        case ["--quick"]:
            install()
            run_side_by_side(QUICK)
        case ["--fast"]:
            install()
            run_side_by_side([("python", "-m", "pytest", "-q", *FASTEST_TESTS), *STATIC])
        case ["--coverage", *more]:
            install()
            run_with_coverage(more)
        case ["--docs"]:
            install("docs")
            run(*SITE)
        case [*_] if "--matrix" in arguments:
            install()
            run("python", "tests/matrix.py", *(argument for argument in arguments if argument != "--matrix"))
        case []:
            install("docs")
            run_side_by_side([*STATIC, SITE])
            run("python", "tests/matrix.py", "--quick")
            find_browser()
            find_bwrap()
            passed_then = [
                *run_tests(*workers(), *WITHOUT_FRONT_ENDS),
                *run_tests(*FRONT_ENDS),
                # The oldest kernel that the package says it works with is the one that differs most.
                *run_tests("tests/kernel", INDUS_NB_IPYKERNEL="6.29.5"),
            ]
            for test in passed_then:
                print("passed only when it was run once more:", test)
        case _:
            install()
            find_browser()
            find_bwrap()
            run("python", "-m", "pytest", *arguments)


def workers() -> Sequence[str]:
    """What lets pytest use all processors; files that share something stay together, see tests/conftest.py."""
    count = os.environ.get("INDUS_NB_WORKERS") or str(min(os.cpu_count() or 1, 4))
    return () if count == "1" else ("-n", count, "--dist=loadgroup", "--no-loadscope-reorder")


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


def find_browser() -> None:
    """See to it that there is a browser, if that can be done without asking anybody."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    if os.environ.get("INDUS_NB_CHROMIUM") or any(map(shutil.which, names)):
        return
    if not install_packages("chromium"):
        subprocess.run([str(BIN / "playwright"), "install", "chromium"], check=False)


def find_bwrap() -> None:
    """See to it that there is ``bwrap`` for the tests of the sandbox, if that can be done without asking anybody.

    Without it those that need it are skipped, and say so.
    """
    if sys.platform == "linux" and shutil.which("bwrap") is None:
        install_packages("bubblewrap")


def install_packages(*names: str) -> bool:
    """Install packages of the system where that needs no question; returns whether it was tried."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return False
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], check=False, env=quiet)
    subprocess.run(["apt-get", "install", "-y", "-qq", *names], check=False, env=quiet)
    return True


def run(program: str, *arguments: str, **variables: str) -> None:
    """Run a program of the environment, with these variables set; its failure ends everything."""
    print("$", program, *arguments, flush=True)
    command, environment = in_environment(program, *arguments), variables_with(**variables)
    status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    if status:
        sys.exit(status)


def run_tests(*arguments: str, **variables: str) -> Sequence[str]:
    """Run pytest, and what failed once more if that is little; returns the tests that passed only then."""
    with tempfile.TemporaryDirectory() as cache:
        command = ["python", "-m", "pytest", *arguments, "-o", f"cache_dir={cache}"]
        print("$", *command, flush=True)
        environment = variables_with(**variables)
        status = subprocess.run(in_environment(*command), cwd=ROOT, env=environment, check=False).returncode
        if status == 0:
            return []
        recorded = Path(cache, "v", "cache", "lastfailed")
        failed = list(json.loads(recorded.read_text(encoding="utf-8"))) if recorded.exists() else []
    some_failed = 1  # pytest's status; any other says that not all tests ran
    if status != some_failed or not 0 < len(failed) <= AGAIN_AT_MOST:
        sys.exit(status)
    run("python", "-m", "pytest", *failed, **variables)
    return failed


def run_side_by_side(commands: Sequence[Sequence[str]]) -> None:
    """Run programs of the environment, as many at a time as there are processors; print what each of them said.

    All of them run to their end. Leaves with the status of one that failed.
    """

    def finish(command: Sequence[str]) -> tuple[int, str, float]:
        began = time.monotonic()
        done = subprocess.run(
            in_environment(*command),
            cwd=ROOT,
            env=variables_with(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        return done.returncode, done.stdout, time.monotonic() - began

    failed = 0
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        running = {pool.submit(finish, command): command for command in commands}
        for ended in as_completed(running):
            status, output, seconds = ended.result()
            print("$", *running[ended], f" ({seconds:.0f} s)")
            print(output.rstrip(), flush=True)
            failed = failed or status
    if failed:
        sys.exit(failed)


def in_environment(program: str, *arguments: str) -> Sequence[str]:
    """The command that runs a program of the environment."""
    return [str(BIN / program), *arguments]


def variables_with(**more: str) -> dict[str, str]:
    """This process' environment variables, as they are where .venv is activated, and more."""
    path = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**os.environ, "PATH": path, "VIRTUAL_ENV": str(ENVIRONMENT), "NO_MKDOCS_2_WARNING": "1", **more}


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except InstallError as error:
        sys.exit(str(error))
