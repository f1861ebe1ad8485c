"""Everything that must hold before a change is good: one command that sets itself up and runs every check.

    python3 tests/check.py            make .venv, install, then lint, types, layers, fresh installations of the
                                     package, and all tests, those of the notebook also in the oldest kernel
    python3 tests/check.py --quick    lint, types and layers only
    python3 tests/check.py --matrix   fresh installations only, on every Python of this machine: see tests/matrix.py
    python3 tests/check.py tests/kernel -k interrupt    further arguments go to pytest instead

It needs Python 3.11 or newer and git. The browser tests need Chromium: it is looked for, then installed if that can be
done without questions, and if neither works the tests say how to get it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from installing import PROGRAMS, ROOT, Installer, InstallError

ENVIRONMENT = ROOT / ".venv"
BIN = ENVIRONMENT / PROGRAMS


def main(arguments: list[str]) -> None:
    """Run the checks in order and leave with the status of the first that fails."""
    if sys.version_info < (3, 11):  # noqa: UP036 - this runs before anything checked the version
        sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0])
    install()
    if "--matrix" in arguments:
        run("python", "tests/matrix.py", *(argument for argument in arguments if argument != "--matrix"))
        return
    quick = "--quick" in arguments
    selected = [argument for argument in arguments if argument != "--quick"]
    if quick or not selected:
        run("ruff", "check")
        run("ruff", "format", "--check")
        run("pyright")
        run("lint-imports")
        run("python", "tests/javascript.py")
    if not quick and not selected:
        run("python", "tests/matrix.py", "--quick")
    if not quick:
        find_browser()
        run("python", "-m", "pytest", *selected)
    if not quick and not selected:
        # The oldest kernel that the package says it works with is the one that differs most.
        run("python", "-m", "pytest", "tests/kernel", INDUS_NB_IPYKERNEL="6.29.5")


def install() -> None:
    """Make the environment and install the package with what its tests need, unless that is done already."""
    installer = Installer()
    python = BIN / ("python.exe" if os.name == "nt" else "python")
    if not python.exists():
        installer.make_environment(ENVIRONMENT)
    wanted = (ROOT / "pyproject.toml").read_bytes()
    installed = ENVIRONMENT / "installed.toml"
    if not installed.exists() or installed.read_bytes() != wanted or not is_installed_from_here():
        print("$", installer.name, "install --editable .[test]", flush=True)
        installer.install(python, "--editable", f"{ROOT}[test]")
        installed.write_bytes(wanted)


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
    if shutil.which("apt-get") and hasattr(os, "geteuid") and os.geteuid() == 0:
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-qq"], check=False, env=quiet)
        subprocess.run(["apt-get", "install", "-y", "-qq", "chromium"], check=False, env=quiet)
    else:
        subprocess.run([str(BIN / "playwright"), "install", "chromium"], check=False)


def run(program: str, *arguments: str, **variables: str) -> None:
    """Run a program of the environment, with these variables set; its failure ends everything."""
    print("$", program, *arguments, flush=True)
    environment = {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}",
        "VIRTUAL_ENV": str(ENVIRONMENT),
        **variables,
    }
    status = subprocess.run([str(BIN / program), *arguments], cwd=ROOT, env=environment, check=False).returncode
    if status:
        sys.exit(status)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except InstallError as error:
        sys.exit(str(error))
