"""Which of the user's variables a piece of code would overwrite, delete or change.

The code is only read. Python's own ``symtable`` knows which names are global in which part of it. The syntax tree shows
what happens to them, and to the values that they name, in which order.
"""

from __future__ import annotations

import ast
import fnmatch
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import symtable

_MAX_CODE_CHARACTERS = 200_000
_MAX_NAMED = 8
_MAX_QUOTE_DEPTH = 3
_CODE_IN_MAGICS = frozenset({"time", "capture", "prun", "memit", "timeit"})
"""Magics whose code runs in the user's namespace."""
_TIMEIT_OPTIONS = re.compile(r"\s*(?:-(?:[nrtp]\s*\d+|[tcoqv]+)\s+)*")
_KEPT_BY_MAGIC = re.compile(r"--(?:out|err|proc)[ =](\w+)")
_MUTATING = {
    "list": {"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse"},
    "dict": {"update", "pop", "popitem", "clear", "setdefault"},
    "set": {"add", "update", "discard", "remove", "pop", "clear"},
    "deque": {"append", "appendleft", "extend", "extendleft", "pop", "popleft", "clear", "rotate"},
    "DataFrame": {"insert", "pop", "update"},
    "Series": {"pop", "update"},
    "ndarray": {"sort", "fill", "resize", "put", "partition", "setflags"},
}
_MUTATING["defaultdict"] = _MUTATING["OrderedDict"] = _MUTATING["Counter"] = _MUTATING["dict"]
_MUTATING_PARTS = _MUTATING["list"] | _MUTATING["dict"] | {"discard"}
"""Methods that change a part of a value, whatever that part is; ``add`` is arithmetic on a part of a frame."""
_MUTATING_ANYWHERE = {"__setitem__", "__delitem__", "__setattr__", "__delattr__", "__iadd__"}
_MUTATING_FUNCTIONS = frozenset(
    {"setattr", "delattr", "setitem", "delitem", "shuffle", "heappush", "heappop", "heapify", "heapreplace"}
    | {"heappushpop", "insort", "insort_left", "insort_right", "put", "place", "putmask", "copyto", "fill_diagonal"}
)
"""Functions that change their first argument."""
_ARRAYS = frozenset({"ndarray", "Tensor", "Series", "DataFrame"})
_TENSORS = frozenset({"Tensor", "Parameter"})
_WHOLE = frozenset({"globals", "locals", "vars"})
"""Functions that give the namespace itself, called without an argument."""
_COMPREHENSIONS = {
    ast.ListComp: "listcomp",
    ast.SetComp: "setcomp",
    ast.DictComp: "dictcomp",
    ast.GeneratorExp: "genexpr",
}
"""What ``symtable`` calls them."""


@dataclass(frozen=True, slots=True)
class Touched:
    """Names of the user's that code touches.

    They are in the order in which the code comes to them, each in one list only.
    """

    deleted: list[str] = field(default_factory=list[str])
    overwritten: list[str] = field(default_factory=list[str])
    changed: list[str] = field(default_factory=list[str])
    perhaps_any: bool = False
    """Whether the code also reaches names that its text does not contain."""

    def warning(self) -> str | None:
        """Return a sentence or two for the user, ``None`` if there is nothing to warn of.

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
        sentences = [f"This {_joined(parts)}."] if parts else []
        if self.perhaps_any:
            sentences.append("Which variables it overwrites or deletes cannot be told from its text.")
        return " ".join(sentences) or None


def touched(code: str, namespace: Mapping[str, object], transform: Callable[[str], str] = lambda code: code) -> Touched:
    r"""Find out what code would do to the user's variables. Never raises.

    What functions from elsewhere do to their arguments is known of some only. Code that cannot be parsed touches
    nothing.

    Args:
        code: The code.
        namespace: The user's variables, and no others.
        transform: Turns what IPython adds to Python into Python.

    Returns:
        The names that it deletes, overwrites or changes.

    >>> touched("df = df.dropna()\ndel x", {"df": 1, "x": 2})
    Touched(deleted=['x'], overwritten=['df'], changed=[], perhaps_any=False)
    """
    seen = _Names(namespace, transform)
    seen.read(code)
    deleted = [name for name in dict.fromkeys(seen.deleted) if name in namespace]
    overwritten = [name for name in dict.fromkeys(seen.bound) if name in namespace and name not in deleted]
    elsewhere = {*deleted, *overwritten}
    changed = [name for name in dict.fromkeys(seen.changed) if name in namespace and name not in elsewhere]
    return Touched(deleted, overwritten, changed, seen.by_computed_names and bool(namespace))


class _Scope:
    """A module, function, class, lambda or comprehension of the code.

    Names that it binds are bound in the user's namespace if it is ``outermost``, or declares them global. ``changed``
    are those of its own names whose values are changed.
    """

    def __init__(
        self, table: symtable.SymbolTable | None, *, outermost: bool = False, comprehension: bool = False
    ) -> None:
        self.outermost = outermost
        self.comprehension = comprehension
        self.changed: set[str] = set()
        self._table = table
        self._inner: dict[tuple[str, int], deque[symtable.SymbolTable]] = {}
        for inner in _inner_tables(table):
            self._inner.setdefault((inner.get_name().strip("<>"), inner.get_lineno()), deque()).append(inner)

    def inner(self, name: str, line: int) -> _Scope:
        """The next scope within this one that begins in that line.

        Comprehensions and lambdas are named by their kind.
        """
        tables = self._inner.get((name, line))
        return _Scope(tables.popleft() if tables else None, comprehension=name in _COMPREHENSIONS.values())

    def binds_globally(self, name: str) -> bool:
        symbol = self._symbol(name)
        return self.outermost or (symbol is not None and symbol.is_declared_global())

    def owns(self, name: str) -> bool | None:
        """Whether the name is its own; ``None`` if a scope around it decides that."""
        symbol = self._symbol(name)
        if symbol is None or self._table is None or self._table.get_type() == "module":
            return None
        return False if symbol.is_global() else True if symbol.is_local() else None

    def _symbol(self, name: str) -> symtable.Symbol | None:
        try:
            return self._table.lookup(name) if self._table is not None else None
        except KeyError:
            return None


def _table(code: str) -> symtable.SymbolTable | None:
    import symtable  # which no start needs

    try:
        return symtable.symtable(code, "<code>", "exec")
    except SyntaxError:
        return None  # from Python 3.14 on for an ``await`` outside of functions, which notebooks may have


def _inner_tables(table: symtable.SymbolTable | None) -> Iterator[symtable.SymbolTable]:
    """The functions and classes directly within, also within scopes of type parameters, which newer Pythons have."""
    for inner in table.get_children() if table is not None else ():
        if inner.get_type() in ("function", "class"):
            yield inner
        else:
            yield from _inner_tables(inner)


class _Names(ast.NodeVisitor):
    """The names that code binds, deletes and changes in the namespace it runs in.

    Of a function that is defined the whole body counts: it is about to be called, as a rule.
    """

    def __init__(self, namespace: Mapping[str, object], transform: Callable[[str], str]) -> None:
        self.bound: list[str] = []
        self.deleted: list[str] = []
        self.changed: list[str] = []
        self.by_computed_names = False
        self._namespace = namespace
        self._transform = transform
        self._quoted = 0
        self._scopes: list[_Scope] = []
        self._also: dict[str, list[str]] = {}
        """New names for values that the user has names for."""
        self._changing: dict[str, set[str | int]] = {}
        """Functions of the code, and which of their arguments they change."""

    def read(self, code: str, *, outermost: bool = True) -> None:
        if len(code) > _MAX_CODE_CHARACTERS:
            return
        around = [*self._scopes]
        try:
            code = self._transform(code)
            tree = ast.parse(code)
            self._scopes.append(_Scope(_table(code), outermost=outermost))
            self.visit(tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return  # such code will not run either
        except Exception:  # noqa: BLE001 - a transformer of the user's failed
            return
        finally:
            self._scopes = around

    def _read_quoted(self, code: object, *, outermost: bool = True) -> None:
        """Look at code that is quoted in the code."""
        if isinstance(code, str) and self._quoted < _MAX_QUOTE_DEPTH:
            self._quoted += 1
            self.read(code, outermost=outermost and self._scopes[-1].outermost)
            self._quoted -= 1

    # What binds and deletes names

    def _bind(self, name: str) -> None:
        if self._scopes[-1].binds_globally(name):
            self.bound.append(name)
            self._also.pop(name, None)

    def _delete(self, name: str) -> None:
        if self._scopes[-1].binds_globally(name):
            self.deleted.append(name)

    def _owner(self, name: str) -> _Scope | None:
        """The scope that the name belongs to; ``None`` if it is global."""
        for scope in reversed(self._scopes):
            if (owns := scope.owns(name)) is not None:
                return scope if owns else None
        return None

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self._bind(node.id)
        elif isinstance(node.ctx, ast.Del):
            self._delete(node.id)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        # It binds outside of comprehensions; the tables of newer Pythons, which inline these, do not show it.
        around = next(scope for scope in reversed(self._scopes) if not scope.comprehension)
        if around.binds_globally(node.target.id):
            self.bound.append(node.target.id)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        for target in node.targets:
            self._note_also(target, node.value)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self._visit_all([node.iter, node.target])
        for target in ast.walk(node.target):
            for value in _elements(node.iter):
                self._note_also(target, value)
        self._visit_all([*node.body, *node.orelse])

    visit_AsyncFor = visit_For  # noqa: N815 - as NodeVisitor wants it

    def _note_also(self, target: ast.AST, value: ast.expr) -> None:
        if isinstance(target, ast.Name) and isinstance(value, ast.Name) and self._scopes[-1].outermost:
            self._also.setdefault(target.id, []).extend(self._named(value.id))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            module = alias.name if alias.asname else name
            self._bind_import(name, sys.modules.get(module))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = sys.modules.get(node.module or "")
        held = vars(module) if module is not None else {}
        for alias in node.names:
            if alias.name != "*":
                self._bind_import(alias.asname or alias.name, held.get(alias.name))
            elif module is None:
                self.by_computed_names = True
            else:
                for name in held.get("__all__", [name for name in held if not name.startswith("_")]):
                    self._bind_import(name, held.get(name))

    def _bind_import(self, name: str, brought: object) -> None:
        if brought is None or self._namespace.get(name) is not brought:  # to import it once more changes nothing
            self._bind(name)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._bind(node.name)
        self._visit_all([*node.decorator_list, *_defaults(node.args)])
        inside = self._visit_inside(node.name, node, node.body)
        if inside.changed:
            positional = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
            self._changing[node.name] = {
                *inside.changed,
                *(positional.index(n) for n in inside.changed & {*positional}),
            }

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._bind(node.name)
        self._visit_all([*node.decorator_list, *node.bases, *node.keywords])
        self._visit_inside(node.name, node, node.body)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_all(_defaults(node.args))
        self._visit_inside("lambda", node, [node.body])

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        first, *others = node.generators
        self.visit(first.iter)  # which Python evaluates outside
        elements = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self._visit_inside(_COMPREHENSIONS[type(node)], node, [*elements, first.target, *first.ifs, *others])

    visit_SetComp = visit_GeneratorExp = visit_DictComp = visit_ListComp  # noqa: N815 - as NodeVisitor wants them

    def _visit_inside(self, name: str, node: ast.stmt | ast.expr, body: Sequence[ast.AST]) -> _Scope:
        scope = self._scopes[-1].inner(name, node.lineno)
        self._scopes.append(scope)
        self._visit_all(body)
        self._scopes.pop()
        return scope

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self._delete(node.name)  # Python deletes it at the handler's end
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self.generic_visit(node)
        if node.name:
            self._bind(node.name)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name:
            self._bind(node.name)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.generic_visit(node)
        if node.rest:
            self._bind(node.rest)

    # What changes a value in its place

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not isinstance(node.ctx, ast.Load):
            if _is_namespace(node.value):
                self._touch_named(node.slice, self.deleted if isinstance(node.ctx, ast.Del) else self.bound)
            else:
                self._change(node)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load):
            if isinstance(node.value, ast.Name) and node.value.id == "__main__":
                (self.deleted if isinstance(node.ctx, ast.Del) else self.bound).append(node.attr)
            else:
                self._change(node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        match node.func:
            case ast.Attribute(attr=("run_line_magic" | "run_cell_magic")):
                magic, *arguments = [part.value for part in node.args if isinstance(part, ast.Constant)] or [None]
                self._read_magic(str(magic), [text for text in arguments if isinstance(text, str)])
            case ast.Attribute(value=owner, attr=method) if _is_namespace(owner):
                self._touch_namespace(method, node)
            case ast.Attribute(value=ast.Call(func=ast.Name(id="get_ipython")), attr=method):
                self._touch_shell(method, node)
            case ast.Name(id=("exec" | "eval")) if node.args:
                self._read_quoted(node.args[0].value if isinstance(node.args[0], ast.Constant) else None)
            case ast.Attribute(value=owner, attr=method):
                in_place = any(_may_be_true(word, "inplace") for word in node.keywords)
                if in_place or self._changes_owner(owner, method):
                    self._change(owner)
            case _:
                pass
        self._touch_arguments(node)
        self.generic_visit(node)

    def _touch_arguments(self, node: ast.Call) -> None:
        """Record the arguments that the function changes."""
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in _MUTATING_FUNCTIONS and node.args:
            self._change(node.args[0])
        for word in node.keywords:
            if word.arg == "out" and isinstance(word.value, ast.Name) and self._kind(word.value.id) in _ARRAYS:
                self._change(word.value)
        which = self._changing.get(name, set()) if isinstance(node.func, ast.Name) else set[str | int]()
        for place, argument in (*enumerate(node.args), *((word.arg, word.value) for word in node.keywords)):
            if place in which:
                self._change(argument)

    def _changes_owner(self, owner: ast.expr, method: str) -> bool:
        if method in _MUTATING_ANYWHERE:
            return True
        if not isinstance(owner, ast.Name):
            return method in _MUTATING_PARTS
        kinds = {self._kind(name) for name in self._named(owner.id)}
        in_place = method.endswith("_") and not method.endswith("__") and not kinds.isdisjoint(_TENSORS)
        return in_place or any(method in _MUTATING.get(kind, ()) for kind in kinds)

    def _named(self, name: str) -> list[str]:
        """The user's names for what the code calls ``name``."""
        return self._also.get(name, [name])

    def _kind(self, name: str) -> str:
        return type(self._namespace.get(name)).__name__

    def _change(self, node: ast.expr) -> None:
        while isinstance(node, ast.Subscript | ast.Attribute):
            node = node.value
        if not isinstance(node, ast.Name):
            return
        owner = self._owner(node.id)
        if owner is not None:
            owner.changed.add(node.id)
        else:
            self.changed += (
                name for name in self._named(node.id) if not issubclass(type(self._namespace.get(name)), ModuleType)
            )

    # What reaches the namespace itself

    def _touch_named(self, name: ast.expr, where: list[str]) -> None:
        if isinstance(name, ast.Constant):
            where.append(str(name.value))
        else:
            self.by_computed_names = True

    def _touch_namespace(self, method: str, call: ast.Call) -> None:
        match method:
            case "update":
                self._bind_all(call)
            case "clear" | "popitem":
                self.deleted += self._namespace
            case "pop" | "__delitem__" if call.args:
                self._touch_named(call.args[0], self.deleted)
            case "setdefault" | "__setitem__" if call.args:
                self._touch_named(call.args[0], self.bound)
            case _:
                pass

    def _touch_shell(self, method: str, call: ast.Call) -> None:
        match method:
            case "reset":
                self.deleted += self._namespace
            case "push":
                self._bind_all(call)
            case "del_var" if call.args:
                self._touch_named(call.args[0], self.deleted)
            case "run_cell" | "ex" | "ev" if call.args:
                self._read_quoted(call.args[0].value if isinstance(call.args[0], ast.Constant) else None)
            case _:
                pass

    def _bind_all(self, call: ast.Call) -> None:
        """Record the keys that are put into the namespace."""
        for argument in call.args:
            for key in argument.keys if isinstance(argument, ast.Dict) else [argument]:
                self._touch_named(key or argument, self.bound)
        self.bound += (word.arg for word in call.keywords if word.arg)

    def _read_magic(self, magic: str, texts: Sequence[str]) -> None:
        line = texts[0] if texts else ""
        words = [word for word in line.split() if not word.startswith("-")]
        match magic:
            case "reset":
                self.deleted += self._namespace
            case "reset_selective" if words:
                self.deleted += _matching(words[-1], self._namespace)
            case "xdel" if words:
                self.deleted.append(words[-1])
            case "macro" | "capture" if words:
                self._bind(words[0])
            case "store" if "-r" in line.split():
                self.bound += words
                self.by_computed_names = self.by_computed_names or not words
            case "run" | "pylab" | "rerun":
                self.by_computed_names = True
            case _:
                self.bound += _KEPT_BY_MAGIC.findall(line) if len(texts) > 1 else []
        if magic == "timeit":
            for text in texts:  # what it binds is its own
                self._read_quoted(_TIMEIT_OPTIONS.sub("", text, count=1), outermost=False)
        elif magic in _CODE_IN_MAGICS and texts:
            self._read_quoted(texts[-1])

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)


def _defaults(given: ast.arguments) -> list[ast.expr]:
    return [*given.defaults, *(default for default in given.kw_defaults if default is not None)]


def _elements(node: ast.expr) -> Iterator[ast.expr]:
    """What a loop over ``node`` goes through, as far as it has names: also that of which the elements are parts."""
    match node:
        case ast.Name():
            yield node
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            for part in parts:
                yield from _elements(part)
        case ast.Dict(values=parts):
            yield from parts
        case ast.Call(func=ast.Name(id=("enumerate" | "zip" | "reversed" | "list" | "tuple")), args=parts):
            for part in parts:
                yield from _elements(part)
        case ast.Call(func=ast.Attribute(value=owner, attr=("items" | "values"))):
            yield from _elements(owner)
        case _:
            pass


def _is_namespace(node: ast.expr) -> bool:
    """Whether it is the namespace that the code runs in: ``globals()`` and the like, or the shell's."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=[]):
            return name in _WHOLE
        case ast.Attribute(attr=("user_ns" | "user_global_ns")):
            return True
        case _:
            return False


def _may_be_true(word: ast.keyword, name: str) -> bool:
    return word.arg == name and not (isinstance(word.value, ast.Constant) and not word.value.value)


def _matching(pattern: str, names: Mapping[str, object]) -> list[str]:
    try:
        return [name for name in names if re.search(pattern, name)]
    except re.error:
        return fnmatch.filter(names, pattern)


def _listed(names: Sequence[str]) -> str:
    if len(names) <= _MAX_NAMED:
        return _joined(names)
    return _joined([*names[: _MAX_NAMED - 1], f"{len(names) - _MAX_NAMED + 1} others"])


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
