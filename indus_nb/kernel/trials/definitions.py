"""Functions that code defines, rebuilt from its source without running any of it."""

from __future__ import annotations
import __future__

import ast
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any


def definitions(source: str) -> Mapping[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    r"""Return the functions that code defines at its top level, by name, of which nothing has to be run.

    They have no decorators, and defaults that are written out; nothing else in the code binds their names.

    >>> sorted(definitions("def f(x, y=1): return x\ndef g(x=f()): pass\n@f\ndef h(): pass\ndef i(): pass\ni = 1"))
    ['f']
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    found: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
    bound: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.append(node.name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.append(node.id)
        elif isinstance(node, ast.alias):
            bound.append((node.asname or node.name).partition(".")[0])
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and bound.count(node.name) == 1 and _is_plain(node):
            found[node.name] = node
    return found


def imported(source: str) -> frozenset[str]:
    r"""Return the modules that code names in its imports.

    >>> sorted(imported("import os.path as p, re\nfrom json import loads"))
    ['json', 'json.loads', 'os', 'os.path', 're']
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return frozenset(".".join(name.split(".")[:end]) for name in names for end in range(1, name.count(".") + 2))


def _is_plain(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    defaults = [*node.args.defaults, *(each for each in node.args.kw_defaults if each is not None)]
    return not node.decorator_list and not getattr(node, "type_params", ()) and all(map(_is_constant, defaults))


def _is_constant(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.operand, ast.Constant)
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Tuple) and all(map(_is_constant, node.elts)))


def maker(
    node: ast.FunctionDef | ast.AsyncFunctionDef, file: str, namespace: dict[str, Any]
) -> Callable[[], FunctionType]:
    """Return a factory for the function of a definition.

    Args:
        node: One of ``definitions``.

    Returns:
        Makes it; annotations are texts, so that nothing runs.
    """

    def make() -> FunctionType:
        flags = __future__.annotations.compiler_flag
        module = compile(ast.Module([node], type_ignores=[]), file, "exec", flags, dont_inherit=True)
        made: dict[str, Any] = {}
        exec(module, namespace, made)  # noqa: S102 - a definition alone: see ``definitions``
        return made[node.name]

    return make
