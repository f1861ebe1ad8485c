"""What CONTRIBUTING.md asks of code that no linter sees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import indus_nb

PACKAGE = Path(indus_nb.__file__).parent
TESTS = Path(__file__).parent

Function = ast.FunctionDef | ast.AsyncFunctionDef


def public_functions(body: list[ast.stmt], inside: str = "") -> Iterator[tuple[str, Function]]:
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_functions(node.body, f"{inside}{node.name}.")
        elif isinstance(node, Function) and not node.name.startswith("_"):
            yield f"{inside}{node.name}", node


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
    return [
        *([] if "Args:" in lines else ["Args"]),
        *([] if not returns or lines & {"Returns:", "Yields:"} else ["Returns"]),
    ]


def test_public_functions_with_several_parameters_document_them() -> None:
    lacking = [
        f"{path.relative_to(PACKAGE)}:{function.lineno} {name}: {', '.join(missing)}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for name, function in public_functions(ast.parse(path.read_text(encoding="utf-8")).body)
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
