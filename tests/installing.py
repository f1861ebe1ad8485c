"""Environments and what is installed in them, by uv where it is there, else by pip. Needs nothing but Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

SECONDS = 3600
"""How long one installation may take, on a slow network."""
ROOT = Path(__file__).resolve().parent.parent


class InstallError(Exception):
    """What the installer said when it failed."""


def find_uv() -> str | None:
    """The path of a uv that works: one of this environment, else one on PATH (which may be a shim for none)."""
    found = [shutil.which("uv", path=str(Path(sys.executable).parent)), shutil.which("uv")]
    return next((uv for uv in found if uv and _succeeds(uv, "--version")), None)


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


class Installer:
    """Makes environments, wheels and installations; each method raises ``InstallError`` when it fails.

    ``offline``: nothing is fetched, so what is needed must be in the cache. Only uv has such a cache.
    """

    def __init__(self, *, offline: bool = False) -> None:
        self.uv = find_uv()
        self._offline = offline
        if offline and self.uv is None:
            raise InstallError("Only uv can install without a network: pip install uv.")

    @property
    def name(self) -> str:
        """What installs."""
        return "uv" if self.uv else "pip"

    def make_environment(self, path: Path, python: str = sys.executable) -> Path:
        """Make an environment.

        Args:
            path: the directory, which must not be there
            python: the interpreter that it is for

        Returns:
            the environment's own interpreter
        """
        if self.uv:
            self._run_uv("venv", "--quiet", "--python", python, str(path))
        elif python == sys.executable:
            venv.create(path, with_pip=True)
        else:
            _run(python, "-m", "venv", str(path))
        return path / "bin" / "python"

    def build(self, out: Path) -> Path:
        """Build a wheel of this tree, with uv from its source distribution, and return its path."""
        if self.uv:
            self._run_uv("build", "--quiet", "--out-dir", str(out), str(ROOT))
        else:
            builder = self.make_environment(out / "builder")
            _run(str(builder), "-m", "pip", "--quiet", "wheel", "--no-deps", "--wheel-dir", str(out), str(ROOT))
        (wheel,) = out.glob("*.whl")
        return wheel

    def install(self, python: Path, *arguments: str) -> None:
        """Install into the environment of ``python``; the arguments are those of ``pip install``."""
        if self.uv:
            self._run_uv("pip", "install", "--quiet", "--python", str(python), *arguments)
        else:
            _run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments)

    def install_lowest(self, python: Path, *extras: str) -> None:
        """Install the lowest versions that pyproject.toml allows of what it names itself. pip cannot do that."""
        chosen = [part for extra in extras for part in ("--extra", extra)]
        project = str(ROOT / "pyproject.toml")
        self.install(python, "--resolution", "lowest-direct", "--only-binary", ":all:", "-r", project, *chosen)

    def _run_uv(self, *arguments: str) -> None:
        _run(str(self.uv), *arguments, *(["--offline"] if self._offline else []))


def _run(*command: str) -> None:
    outside = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=outside, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        raise InstallError(str(error)) from None
    if done.returncode:
        raise InstallError(f"{' '.join(command)}\n{done.stdout}{done.stderr}".strip())
