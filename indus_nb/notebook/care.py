"""Which of the user's variables a piece of code would overwrite, delete or change, as far as its text tells."""

from __future__ import annotations

import ast
import fnmatch
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType

_LONGEST_CODE = 200_000
_MOST_NAMED = 8
_CODE_IN_MAGICS = frozenset({"time", "capture", "prun", "memit"})
"""Magics whose code runs in the user's namespace."""
_MUTATING = {
    "list": {"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse"},
    "dict": {"update", "pop", "popitem", "clear", "setdefault"},
    "set": {"add", "update", "discard", "remove", "pop", "clear"},
    "deque": {"append", "appendleft", "extend", "extendleft", "pop", "popleft", "clear", "rotate"},
    "DataFrame": {"insert", "pop", "update"},
    "Series": {"pop", "update"},
    "ndarray": {"sort", "fill", "resize", "put", "partition"},
}
_MUTATING["defaultdict"] = _MUTATING["OrderedDict"] = _MUTATING["Counter"] = _MUTATING["dict"]


@dataclass(frozen=True, slots=True)
class Touched:
    """Names of the user's, in the order in which the code comes to them; each stands in one list only."""

    deleted: list[str] = field(default_factory=list[str])
    overwritten: list[str] = field(default_factory=list[str])
    changed: list[str] = field(default_factory=list[str])

    def warning(self) -> str | None:
        """A sentence for the user, ``None`` if there is nothing to warn of.

        >>> Touched(deleted=["x"], overwritten=["df", "y"]).warning()
        'This deletes your variable x and overwrites your variables df and y.'
        """
        parts = [
            f"{verb} your {'variable' if len(names) == 1 else 'variables'} {_listed(names)}"
            for verb, names in (
                ("deletes", self.deleted),
                ("overwrites", self.overwritten),
                ("changes", self.changed),
            )
            if names
        ]
        return f"This {_joined(parts)}." if parts else None


def touched(code: str, namespace: Mapping[str, object], transform: Callable[[str], str] = lambda code: code) -> Touched:
    r"""What ``code`` would do to the variables in ``namespace``, which holds the user's and no others.

    ``transform`` turns what IPython adds to Python into Python. What cannot be known from the text (``exec``, ``%run``,
    functions that are called) is not found; code that cannot be parsed touches nothing. Never raises.

    >>> touched("df = df.dropna()\ndel x", {"df": 1, "x": 2})
    Touched(deleted=['x'], overwritten=['df'], changed=[])
    """
    seen = _Names(namespace, transform)
    seen.read(code)
    deleted = [name for name in dict.fromkeys(seen.deleted) if name in namespace]
    overwritten = [name for name in dict.fromkeys(seen.bound) if name in namespace and name not in deleted]
    elsewhere = {*deleted, *overwritten}
    changed = [name for name in dict.fromkeys(seen.changed) if name in namespace and name not in elsewhere]
    return Touched(deleted, overwritten, changed)


class _Names(ast.NodeVisitor):
    """The names that code binds, deletes and changes in the namespace it runs in."""

    def __init__(self, namespace: Mapping[str, object], transform: Callable[[str], str]) -> None:
        self.bound: list[str] = []
        self.deleted: list[str] = []
        self.changed: list[str] = []
        self._namespace = namespace
        self._transform = transform
        self._nested = 0

    def read(self, code: str) -> None:
        if len(code) > _LONGEST_CODE:
            return
        try:
            self.visit(ast.parse(self._transform(code)))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return  # such code will not run either
        except Exception:  # noqa: BLE001 - a transformer of the user's failed
            return

    # What binds and deletes names

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self.bound.append(node.id)
        elif isinstance(node.ctx, ast.Del):
            self.deleted.append(node.id)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            module = alias.name if alias.asname else name
            self._bind_import(name, sys.modules.get(module))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = sys.modules.get(node.module or "")
        for alias in node.names:
            held = vars(module).get(alias.name) if module is not None else None
            self._bind_import(alias.asname or alias.name, held)

    def _bind_import(self, name: str, brought: object) -> None:
        if brought is None or self._namespace.get(name) is not brought:  # to import it once more changes nothing
            self.bound.append(name)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.bound.append(node.name)
        self._visit_all([*node.decorator_list, node.args])
        self.bound += _global_names(node.body)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.bound.append(node.name)
        self._visit_all([*node.decorator_list, *node.bases, *node.keywords])
        self.bound += _global_names(node.body)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit(node.args)

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        # Its variables are its own; only := reaches out of it.
        for part in ast.walk(node):
            if isinstance(part, ast.NamedExpr):
                self.bound.append(part.target.id)

    visit_SetComp = visit_GeneratorExp = visit_DictComp = visit_ListComp  # noqa: N815 - as NodeVisitor wants them

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.deleted.append(node.name)  # Python deletes it at the handler's end
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self.generic_visit(node)
        if node.name:
            self.bound.append(node.name)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name:
            self.bound.append(node.name)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.generic_visit(node)
        if node.rest:
            self.bound.append(node.rest)

    # What changes a value in its place

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not isinstance(node.ctx, ast.Load):
            name = _global_item(node)
            if name is None:
                self._change(node)
            elif isinstance(node.ctx, ast.Del):
                self.deleted.append(name)
            else:
                self.bound.append(name)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._change(node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        match node:
            case ast.Call(
                func=ast.Attribute(attr=("run_line_magic" | "run_cell_magic")),
                args=[ast.Constant(value=str(magic)), *arguments],
            ):
                self._read_magic(magic, [part.value for part in arguments if isinstance(part, ast.Constant)])
            case ast.Call(func=ast.Attribute(value=owner, attr=method)):
                in_place = any(_is_true(word, "inplace") for word in node.keywords)
                if in_place or (isinstance(owner, ast.Name) and method in self._mutating(owner.id)):
                    self._change(owner)
            case _:
                pass
        self.generic_visit(node)

    def _mutating(self, name: str) -> set[str]:
        return _MUTATING.get(type(self._namespace.get(name)).__name__, set())

    def _change(self, node: ast.expr) -> None:
        while isinstance(node, ast.Subscript | ast.Attribute):
            node = node.value
        if isinstance(node, ast.Name) and not isinstance(self._namespace.get(node.id), ModuleType):
            self.changed.append(node.id)

    def _read_magic(self, magic: str, arguments: Sequence[object]) -> None:
        texts = [text for text in arguments if isinstance(text, str)]
        words = [word for word in (texts[0].split() if texts else []) if not word.startswith("-")]
        match magic:
            case "reset":
                self.deleted += self._namespace
            case "reset_selective" if words:
                self.deleted += _matching(words[-1], self._namespace)
            case "xdel" if words:
                self.deleted.append(words[-1])
            case _ if magic in _CODE_IN_MAGICS and texts and self._nested < 3:
                self._nested += 1
                self.read(texts[-1])
                self._nested -= 1
            case _:
                pass

    def _visit_all(self, nodes: Sequence[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)


def _global_names(body: Sequence[ast.stmt]) -> Iterator[str]:
    for statement in body:
        for part in ast.walk(statement):
            if isinstance(part, ast.Global):
                yield from part.names


def _global_item(node: ast.Subscript) -> str | None:
    """The name in ``globals()["name"]``."""
    match node:
        case ast.Subscript(
            value=ast.Call(func=ast.Name(id=("globals" | "locals" | "vars")), args=[]),
            slice=ast.Constant(value=str(name)),
        ):
            return name
        case _:
            return None


def _is_true(word: ast.keyword, name: str) -> bool:
    return word.arg == name and isinstance(word.value, ast.Constant) and word.value.value is True


def _matching(pattern: str, names: Mapping[str, object]) -> list[str]:
    try:
        return [name for name in names if re.search(pattern, name)]
    except re.error:
        return fnmatch.filter(names, pattern)


def _listed(names: Sequence[str]) -> str:
    if len(names) <= _MOST_NAMED:
        return _joined(names)
    return _joined([*names[: _MOST_NAMED - 1], f"{len(names) - _MOST_NAMED + 1} others"])


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
