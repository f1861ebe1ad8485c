"""Versions of ipykernel beside the installed one, for tests."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from filelock import FileLock

FOLDER = Path(__file__).resolve().parent.parent / ".venv" / "ipykernels"


def ipykernel_path(version: str) -> Path:
    """A folder that has this version and, first on PYTHONPATH, puts it before the installed one.

    Whatever else it needs comes from the environment that the tests run in. The folder is made at the first call, by
    one process, and kept.
    """
    path = FOLDER / version
    FOLDER.mkdir(parents=True, exist_ok=True)
    with FileLock(FOLDER / f"{version}.lock"):
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=FOLDER) as unfinished:
                # Those before 7.3 import nest_asyncio, which nothing else here does.
                packages = [f"ipykernel=={version}", "nest_asyncio==1.6.0"]
                options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--target", f"{unfinished}/whole"]
                subprocess.run([sys.executable, "-m", "pip", "install", *options, *packages], check=True)
                Path(unfinished, "whole").rename(path)
    return path
