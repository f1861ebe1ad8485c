"""Versions of packages beside the installed ones, for tests."""

from __future__ import annotations

import re
import sys
import tempfile
import tomllib
from pathlib import Path

from installing import ROOT, Installer

from indus_nb.base.locks import FileLock

FOLDER = ROOT / ".venv" / "other_versions"


def ipykernel_path(version: str) -> Path:
    """A folder that has this version and, first on PYTHONPATH, puts it before the installed one.

    Whatever else it needs comes from the environment that the tests run in.
    """
    # Those before 7.3 import nest_asyncio, which nothing else here does.
    return _path(f"ipykernel=={version}", "nest_asyncio==1.6.0", "--no-deps")


def oldest_pydantic_path() -> Path:
    """The same for the oldest version of pydantic that pyproject.toml allows."""
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (floor,) = (found[1] for line in dependencies if (found := re.match(r"pydantic>=([\d.]+)$", line)))
    return _path(f"pydantic=={floor}")


def _path(package: str, *more: str) -> Path:
    """A folder with this package and more: made at the first call, by one process, and kept."""
    path = FOLDER / package
    FOLDER.mkdir(parents=True, exist_ok=True)
    with FileLock(path, seconds=600):
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=FOLDER) as unfinished:
                Installer().install(Path(sys.executable), "--target", f"{unfinished}/whole", package, *more)
                Path(unfinished, "whole").rename(path)
    return path
