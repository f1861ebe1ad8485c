"""Modules that may be two ideas: long ones, and those that know many others. A list to think about, not a rule.

    python tests/sizes.py

A module is listed for more than 400 lines, or for importing more than a dozen modules of the package, wherever in it.
That many are right for some, such as those that put a session together; meeting a number by cramming helps nobody.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "indus_nb"
LINES = 400
IMPORTS = 12


def main() -> None:
    """Print the modules, the longest first."""
    found = [(*measures(path), path) for path in (ROOT / PACKAGE).rglob("*.py")]
    listed = sorted((each for each in found if each[0] > LINES or each[1] > IMPORTS), reverse=True)
    print("lines  imports of ours")
    for lines, imports, path in listed:
        print(f"{lines:5d}{'*' if lines > LINES else ' '} {imports:4d}{'*' if imports > IMPORTS else ' '}", end="  ")
        print(path.relative_to(ROOT))
    print(f"{len(listed)} of {len(found)} modules have more than {LINES} lines or {IMPORTS} imports of ours (*)")


def measures(path: Path) -> tuple[int, int]:
    """How many lines a module has, and how many modules of the package it imports."""
    text = path.read_text(encoding="utf-8")
    return text.count("\n"), len({module for node in ast.walk(ast.parse(text)) for module in imported(node)})


def imported(node: ast.AST) -> set[str]:
    """The modules of the package that a statement imports."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names if alias.name.startswith(f"{PACKAGE}.")}
    if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == PACKAGE:
        return {found for alias in node.names if (found := module_of(node.module or "", alias.name))}
    return set()


def module_of(module: str, name: str) -> str:
    """The module that ``from module import name`` is about: that one, or one in it; none for the package itself."""
    inner = ROOT.joinpath(*module.split("."), name)
    if inner.is_dir() or inner.with_suffix(".py").is_file():
        return f"{module}.{name}"
    return module if module != PACKAGE else ""


if __name__ == "__main__":
    main()
