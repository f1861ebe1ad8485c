"""The examples in docstrings that are no doctests, for they need an event loop or define things, run as they stand."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import indus_nb
from indus_nb.extensions.definitions import agent

PACKAGE = Path(indus_nb.__file__).parent


def examples() -> Iterator[tuple[str, str]]:
    """The indented blocks behind `::` in all docstrings that are Python code."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for found in re.finditer(r"::\n\n((?: {4}.*\n|\n)+)", (ast.get_docstring(node) or "") + "\n"):
                code = textwrap.dedent(found[1])
                try:
                    compile(code, str(path), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                except SyntaxError:
                    continue  # a drawing
                yield f"{path.relative_to(PACKAGE)}: {getattr(node, 'name', 'module')}", code


EXAMPLES = dict(examples())


def test_the_examples_are_found() -> None:
    assert {name.partition(":")[0] for name in EXAMPLES} >= {
        "console/client.py",
        "session/session.py",
        "extensions/definitions.py",
    }


@pytest.mark.parametrize("name", EXAMPLES)
async def test_an_example_in_a_docstring_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDUSAGI_CODING_AGENT_DIR", str(tmp_path / "agent"))
    monkeypatch.chdir(tmp_path)
    code = compile(EXAMPLES[name], name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names: dict[str, Any] = {each: getattr(indus_nb, each) for each in indus_nb.__all__}
    try:
        running = eval(code, names)
        if inspect.iscoroutine(running):
            async with asyncio.timeout(120):
                await running
    finally:
        agent.forget()
