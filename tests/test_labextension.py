"""The extension of JupyterLab as it is installed: what a wheel has of it, and what Jupyter says."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from installing import ROOT, Installer
from kernels import private_environment

EXTENSION = ROOT / "indus_nb" / "lab" / "labextension"
MAX_BYTES = 400_000


def files_below(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


def test_a_wheel_brings_the_extension_and_nothing_that_it_is_made_of(tmp_path: Path) -> None:
    with zipfile.ZipFile(Installer().build(tmp_path)) as wheel:
        place = "/data/share/jupyter/labextensions/indus_nb/"
        brought = {name.partition(place)[2]: wheel.read(name) for name in wheel.namelist() if place in name}
        assert not [name for name in wheel.namelist() if name.startswith("indus_nb/lab/")]
    assert brought == files_below(EXTENSION)
    assert sum(map(len, brought.values())) < MAX_BYTES
    licences = {each["name"]: each for each in json.loads(brought["static/third-party-licenses.json"])["packages"]}
    assert "Permission is hereby granted" in licences["@codemirror/merge"]["extractedText"]


@pytest.fixture
def jupyter(tmp_path: Path) -> dict[str, str]:
    environment = private_environment(tmp_path)
    place = Path(environment["JUPYTER_DATA_DIR"]) / "labextensions"
    place.mkdir()
    (place / "indus_nb").symlink_to(EXTENSION, target_is_directory=True)
    return environment


def labextension(environment: dict[str, str], *arguments: str) -> str:
    command = [sys.executable, "-m", "jupyterlab.labextensions", *arguments]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return ended.stdout + ended.stderr


def test_jupyter_lists_the_extension_as_enabled_and_one_command_disables_it(jupyter: dict[str, str]) -> None:
    (line,) = [line for line in labextension(jupyter, "list").splitlines() if " indus_nb v" in line]
    assert "enabled" in line
    assert "OK" in line
    labextension(jupyter, "disable", "indus_nb", "--level=user")
    (line,) = [line for line in labextension(jupyter, "list").splitlines() if " indus_nb v" in line]
    assert "disabled" in line
