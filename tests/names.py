"""Names that tests and docs take from the package, and from each other, and that are not there.

    python tests/names.py

Pyright reads the package alone; a test that needs an hour of other tests before it runs would tell only then that what
it uses has another name by now. Here the modules are imported and asked: for what ``import`` statements name, for
attributes of modules and classes, for what ``setattr`` replaces, and for the same in code that stands in a string, as
code for a kernel does. Attributes of values are not looked at.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "indus_nb"
HELPERS = (ROOT / "tests", ROOT / "tests" / "conformance")
"""Where tests import modules from; see ``pythonpath`` in pyproject.toml."""
NOT_HERE = "indus_nb.front.jupyter_ai"
"""Needs Jupyter AI, which is not installed with the tests."""
IMPORTED = re.compile(rf"\bfrom ({PACKAGE}[\w.]*) import \(?\s*(\w+(?: as \w+)?(?:,\s*\w+(?: as \w+)?)*)")
DOTTED = re.compile(rf"\bimport ({PACKAGE}(?:\.\w+)+)")


class MissingError(Exception):
    """There is no such name."""


def main() -> int:
    """Print each place with a name that is not there; returns the exit status."""
    sys.path.insert(0, str(ROOT))
    files = sorted(path for place in ("tests", "docs") for path in (ROOT / place).rglob("*.py"))
    problems = [f"{path.relative_to(ROOT)}:{line}: {what}" for path in files for line, what in missing(path)]
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


def missing(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the sentence of each name in a file that is not there."""
    tree = ast.parse(path.read_bytes())
    nodes = [*ast.walk(tree)]
    bound: dict[str, Any] = {}
    for node in nodes:
        for name, module, attribute in imports(node):
            try:
                bound[name] = found(module, attribute)
            except MissingError as error:
                yield node.lineno, str(error)
    for name in others(nodes):
        bound.pop(name, None)  # an argument or a variable of the same name may be meant
    for node in nodes:
        for wanted in (look(node, bound) for look in (attribute_of, replaced)):
            if wanted and not has(*wanted):
                yield node.lineno, f"{wanted[0].__name__} has no {wanted[1]}"
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and PACKAGE in node.value:
            yield from ((node.lineno, what) for what in missing_in_text(node.value))


def imports(node: ast.AST) -> Iterator[tuple[str, str, str]]:
    """Yield what a statement binds, from which module, and which name of it, if the module is one of ours."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if is_ours(alias.name):
                package = alias.name.partition(".")[0]
                yield alias.asname or package, alias.name, ""
                if not alias.asname:
                    yield package, package, ""  # this is what the statement binds
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level and is_ours(node.module):
        yield from ((alias.asname or alias.name, node.module, alias.name) for alias in node.names)


def others(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield the names that are bound by something else than an import."""
    for node in nodes:
        match node:
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.ExceptHandler(name=str(name)):
                yield name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case _:
                pass


def attribute_of(node: ast.AST, bound: Mapping[str, Any]) -> tuple[Any, str] | None:
    """What an attribute is read from, if that is a module or a class."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        return place(node.value, bound, node.attr)
    return None


def replaced(node: ast.AST, bound: Mapping[str, Any]) -> tuple[Any, str] | None:
    """What ``monkeypatch.setattr(module, "name", ...)`` is about, unless the name may be missing."""
    match node:
        case ast.Call(func=ast.Attribute(attr="setattr"), args=[holder, ast.Constant(value=str(name)), _], keywords=[]):
            return place(holder, bound, name)
        case _:
            return None


def place(node: ast.expr, bound: Mapping[str, Any], name: str) -> tuple[Any, str] | None:
    """The module or class that an expression stands for, and a name that is wanted of it."""
    holder = value(node, bound)
    return (holder, name) if isinstance(holder, ModuleType | type) else None


def value(node: ast.expr, bound: Mapping[str, Any]) -> Any:
    """What a name, or attributes of one, stand for; ``None`` if that is not known, or not there."""
    match node:
        case ast.Name(id=name):
            return bound.get(name)
        case ast.Attribute(value=inner, attr=name):
            holder = value(inner, bound)
            return attribute(holder, name) if isinstance(holder, ModuleType | type) else None
        case _:
            return None


def has(holder: Any, name: str) -> bool:
    """Whether a module or a class has an attribute; those of a class may be declared only."""
    declared = [inspect.get_annotations(kind) for kind in getattr(holder, "__mro__", ())]
    return attribute(holder, name) is not None or hasattr(holder, name) or any(name in names for names in declared)


def attribute(holder: Any, name: str) -> Any:
    """An attribute, or the module of that name in a package; ``None`` if there is neither."""
    if not hasattr(holder, name) and hasattr(holder, "__path__"):
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(f"{holder.__name__}.{name}")
    return getattr(holder, name, None)


def missing_in_text(text: str) -> Iterator[str]:
    """Yield what the imports in a text name, and what is not there."""
    wanted = [
        (module, name.split(" as ")[0].strip()) for module, names in IMPORTED.findall(text) for name in names.split(",")
    ]
    for module, name in [*wanted, *((module, "") for module in DOTTED.findall(text))]:
        try:
            found(module, name)
        except MissingError as error:
            yield str(error)


def is_ours(module: str) -> bool:
    """Whether a module is one of the package, or of those that tests share."""
    return module.partition(".")[0] == PACKAGE or helper(module) is not None


@cache
def helper(module: str) -> Path | None:
    """The file of a module that tests share."""
    paths = [folder.joinpath(*module.split(".")) for folder in HELPERS]
    files = [file for path in paths for file in (path.with_suffix(".py"), path / "__init__.py")]
    return next((file for file in files if file.is_file()), None)


def found(module: str, name: str) -> Any:
    """A module, or what it has by that name; ``None`` for modules of tests, which are only read.

    Raises:
        MissingError: there is no such thing.
    """
    if module.startswith(NOT_HERE):
        return None
    if file := helper(module):
        if name and name != "*" and name not in names_of(file) and helper(f"{module}.{name}") is None:
            raise MissingError(f"{module} has no {name}")
        return None
    try:
        holder = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(PACKAGE):
            raise
        raise MissingError(f"there is no {module}") from None
    if name and not has(holder, name):
        raise MissingError(f"{module} has no {name}")
    return attribute(holder, name) if name else holder


@cache
def names_of(file: Path) -> frozenset[str]:
    """What a module binds, wherever in it."""
    nodes = [*ast.walk(ast.parse(file.read_bytes()))]
    aliases = [alias for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names]
    return frozenset([*others(nodes), *(alias.asname or alias.name for alias in aliases)])


if __name__ == "__main__":
    sys.exit(main())
