"""Names that are not there are found without running what uses them."""

from __future__ import annotations

from pathlib import Path

import names
import pytest
from names import missing

GOOD = """
import indus_nb.base.files
from indus_nb import tools
from indus_nb.base import messages as told
from indus_nb.base.messages import UserMessage
from kernels import Kernel
from waiting import *

def test(monkeypatch, undo):
    print(indus_nb.base.files.write_atomically, tools.ToolError, told.UserMessage.wire_fields, undo.Anything)
    monkeypatch.setattr(tools, "ToolError", ValueError)
    monkeypatch.setattr(tools, "New", 1, raising=False)
    Kernel.anything.run("from indus_nb.base.messages import UserMessage, AssistantMessage\\nimport indus_nb.tools")
"""


def test_names_that_are_there_are_no_news(tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text(GOOD)
    assert [*missing(tmp_path / "file.py")] == []


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import PACKAGE.gone", "there is no PACKAGE.gone"),
        ("from PACKAGE.gone.more import x", "there is no PACKAGE.gone.more"),
        ("from PACKAGE.base.messages import Gone", "PACKAGE.base.messages has no Gone"),
        ("from PACKAGE import tools\nprint(tools.function.Gone)", "PACKAGE.tools.function has no Gone"),
        ("import PACKAGE.tools\nprint(PACKAGE.tools.Gone)", "PACKAGE.tools has no Gone"),
        ("from PACKAGE.base.messages import UserMessage\nUserMessage.gone()", "UserMessage has no gone"),
        ("from PACKAGE import tools\npatch.setattr(tools, 'gone', 1)", "PACKAGE.tools has no gone"),
        ("from kernels import Gone", "kernels has no Gone"),
        ("kernel.run('from PACKAGE.tools import ToolError, Gone')", "PACKAGE.tools has no Gone"),
        ("kernel.run(f'import PACKAGE.gone\\n{1}')", "there is no PACKAGE.gone"),
    ],
)
def test_a_name_that_is_not_there_is_told_with_its_line(tmp_path: Path, code: str, told: str) -> None:
    (tmp_path / "file.py").write_text(code.replace("PACKAGE", names.PACKAGE))
    assert [*missing(tmp_path / "file.py")] == [(1 + code.count("\n"), told.replace("PACKAGE", names.PACKAGE))]
