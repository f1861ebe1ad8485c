"""What CONTRIBUTING.md asks of code that no linter sees."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

TESTS = Path(__file__).parent
API = TESTS.parent / "docs" / "api.md"

Function = ast.FunctionDef | ast.AsyncFunctionDef


def shown_objects() -> Iterator[tuple[str, Any]]:
    """What docs/api.md shows, by its whole names."""
    for name, members in re.findall(
        r"^::: (\S+)(?:\n    options:\n      members: \[(.+)\])?", API.read_text(), re.MULTILINE
    ):
        found = pkgutil.resolve_name(name)
        if members:
            yield from ((f"{name}.{each}", getattr(found, each)) for each in members.split(", "))
        elif isinstance(found, ModuleType):
            kinds = [kind for kind in vars(found).values() if inspect.isclass(kind) and kind.__module__ == name]
            yield from ((f"{name}.{kind.__name__}", kind) for kind in kinds)
        else:
            yield name, found


def functions_in(name: str, shown: Any) -> Iterator[tuple[str, Function]]:
    """A function, or those of a class that have no underscore, inherited ones too."""
    kinds = (
        [each for each in inspect.getmro(shown) if each.__module__.startswith("indus_nb.")]
        if inspect.isclass(shown)
        else []
    )
    for kind in kinds or [shown]:
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        for inner in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(inner, Function) and not inner.name.startswith("_"):
                yield f"{name}.{inner.name}", inner


def parameters(function: Function) -> list[str]:
    args = function.args
    names = [
        argument.arg
        for argument in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg)
        if argument
    ]
    return [name for name in names if name not in ("self", "cls")]


def missing_sections(function: Function) -> list[str]:
    """Which of the Google sections its docstring lacks; none where a base class or the last overload is documented."""
    text = ast.get_docstring(function)
    if text is None or len(parameters(function)) < 2:
        return []
    lines = {line.strip() for line in text.splitlines()}
    returns = function.returns is not None and ast.unparse(function.returns) not in ("None", "Never", "NoReturn")
    undescribed = [name for name in parameters(function) if f"{name}: " not in text]
    return [
        *(undescribed if "Args:" in lines else ["Args"]),
        *([] if not returns or lines & {"Returns:", "Yields:"} else ["Returns"]),
    ]


def test_what_the_reference_shows_documents_its_parameters() -> None:
    lacking = [
        f"{place}: {', '.join(missing)}"
        for name, shown in shown_objects()
        for place, function in functions_in(name, shown)
        if (missing := missing_sections(function))
    ]
    assert lacking == []


def test_no_test_waits_for_ever_for_a_program_when_it_fails() -> None:
    """The end of ``with subprocess.Popen(...)`` waits for the program; ``living.ending`` ends it before."""
    waiting = [
        f"{path.relative_to(TESTS)}:{node.lineno}"
        for path in sorted(TESTS.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.With | ast.AsyncWith)
        if any(ast.unparse(item.context_expr).startswith("subprocess.Popen(") for item in node.items)
    ]
    assert waiting == []


def test_a_function_that_is_too_much_for_ruff_says_why() -> None:
    """Its limits of complexity, branches, returns and arguments warn: who passes one of them gives the reason there."""
    unexplained = [
        f"{path.relative_to(TESTS.parent)}:{number}"
        for place in ("indus_nb", "tests", "docs")
        for path in sorted((TESTS.parent / place).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"[#] noqa: .*(C901|PLR09)", line) and not re.search(r"[#] noqa: [A-Z0-9, ]+ - \w", line)
    ]
    assert unexplained == []
