"""The code in docstrings and on the pages runs as it stands; doctests (``>>>``) are run by pytest itself."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import runpy
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import indus_nb
from indus_nb.extend.definitions import agent

PACKAGE = Path(indus_nb.__file__).parent
ROOT = Path(__file__).resolve().parents[1]
DRAWINGS = {"base/errors.py", "base/events.py", "kernel/run/main_thread.py"}
"""Modules whose docstrings hold a drawing in a block behind ``::``."""


def indented_blocks() -> Iterator[tuple[str, bool, str]]:
    """All indented blocks of docstrings: where they stand, whether ``::`` precedes them, and their text."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for found in re.finditer(r"(.*)\n\n((?: {4}.*\n|\n(?=\n* {4}))+)", (ast.get_docstring(node) or "") + "\n"):
                where = f"{path.relative_to(PACKAGE)}: {getattr(node, 'name', 'module')}"
                yield where, found[1].endswith("::"), textwrap.dedent(found[2])


def is_python(text: str) -> bool:
    try:
        compile(text, "block", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError:
        return False
    return True


def fences() -> Iterator[tuple[str, str]]:
    """The Python on the pages, but for docs/extensions.md: see tests/test_examples.py."""
    for page in (ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        for number, block in enumerate(blocks, 1):
            if page.name != "extensions.md" and not block.startswith("%"):  # a magic
                yield f"{page.name} {number}", block


EXAMPLES = {where: text for where, announced, text in indented_blocks() if announced and is_python(text)}
FENCES = dict(fences())


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INDUS_NB_AGENT_DIR", str(tmp_path / "agent"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_examples_are_found() -> None:
    expected = {
        *("models/cassettes/__init__.py", "front/console/client.py"),
        *("extend/definitions.py", "core/session/session.py"),
    }
    assert {name.partition(":")[0] for name in EXAMPLES} >= expected
    assert len(FENCES) >= 4


def test_no_code_in_docstrings_is_left_out() -> None:
    for where, announced, text in indented_blocks():
        assert announced or not is_python(text), f"put :: before the code, so that it is run ({where}):\n{text}"
        assert is_python(text) or not announced or where.partition(":")[0] in DRAWINGS, f"{where}:\n{text}"


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_in_a_docstring_runs(name: str, place: Path) -> None:
    code = compile(EXAMPLES[name], name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names: dict[str, Any] = {each: getattr(indus_nb, each) for each in indus_nb.__all__}

    def work() -> None:
        running = eval(code, names)
        if inspect.iscoroutine(running):
            asyncio.run(asyncio.wait_for(running, 120))

    try:
        run_in_a_thread(work)
    finally:
        agent.forget()


def run_in_a_thread(work: Callable[[], object]) -> None:
    """``asyncio.run`` takes the thread's event loop away, and pytest's own would stay behind unclosed."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(work).result()


@pytest.mark.parametrize("name", FENCES)
def test_an_example_on_a_page_runs(name: str, place: Path) -> None:
    code = compile(FENCES[name], name, "exec")
    try:
        run_in_a_thread(lambda: exec(code, {"__name__": "example"}))
    finally:
        agent.forget()


def test_the_tour_shows_a_tool_call_and_two_branches(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_in_a_thread(lambda: runpy.run_path(str(ROOT / "docs" / "tour.py"), run_name="__main__"))
    shown = capsys.readouterr().out
    assert "toolResult: (what 'date' would print)" in shown
    assert "toolResult: (what 'pwd' would print)" in shown
    assert "10 entries, 6 of them on this branch" in shown
    assert shown.endswith("11 lines\n")
