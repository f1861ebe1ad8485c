"""The scripts of docs/containers_and_ci.md do what stands around them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rpc_process import environment

PAGE = Path(__file__).parents[2] / "docs" / "containers_and_ci.md"
SCRIPTS = [
    block
    for block in re.findall(r"^```bash\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    if "--provider offline" in block
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_of_the_page_ends_well(script: str, tmp_path: Path) -> None:
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {**environment(tmp_path), "PATH": programs}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "42" in done.stdout or script.startswith("test ")


def test_the_page_has_scripts() -> None:
    assert len(SCRIPTS) == 4
