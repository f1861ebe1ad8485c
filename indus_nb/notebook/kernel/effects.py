"""Which of the user's variables a piece of code would overwrite, delete or change, as far as its text tells."""

from __future__ import annotations

import ast
import fnmatch
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import TypeGuard

_LONGEST_CODE = 200_000
_MOST_NAMED = 8
_DEEPEST_QUOTE = 3
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


@dataclass(frozen=True, slots=True)
class Touched:
    """Names of the user's, in the order in which the code comes to them; each stands in one list only."""

    deleted: list[str] = field(default_factory=list[str])
    overwritten: list[str] = field(default_factory=list[str])
    changed: list[str] = field(default_factory=list[str])
    perhaps_any: bool = False
    """Whether it also reaches names that its text does not tell."""

    def warning(self) -> str | None:
        """A sentence or two for the user, ``None`` if there is nothing to warn of.

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
        told = [f"This {_joined(parts)}."] if parts else []
        if self.perhaps_any:
            told.append("Which variables it overwrites or deletes cannot be told from its text.")
        return " ".join(told) or None


def touched(code: str, namespace: Mapping[str, object], transform: Callable[[str], str] = lambda code: code) -> Touched:
    r"""What ``code`` would do to the variables in ``namespace``, which holds the user's and no others.

    ``transform`` turns what IPython adds to Python into Python. What functions from elsewhere do to their arguments is
    not known but for some; code that cannot be parsed touches nothing. Never raises.

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


@dataclass(slots=True)
class _Scope:
    """A function, class, lambda or comprehension: the names that are its own, and those declared global in it."""

    own: set[str]
    shared: set[str] = field(default_factory=set[str])
    passing: bool = False
    """Whether ``:=`` reaches out of it."""
    changed: set[str] = field(default_factory=set[str])
    """Those of its own names whose values are changed."""


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

    def read(self, code: str) -> None:
        if len(code) > _LONGEST_CODE:
            return
        try:
            self.visit(ast.parse(self._transform(code)))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return  # such code will not run either
        except Exception:  # noqa: BLE001 - a transformer of the user's failed
            return

    def _read_quoted(self, code: object) -> None:
        """Look at code that stands in the code."""
        if isinstance(code, str) and self._quoted < _DEEPEST_QUOTE:
            self._quoted += 1
            self.read(code)
            self._quoted -= 1

    # What binds and deletes names

    def _bind(self, name: str) -> None:
        if not self._scopes or name in self._scopes[-1].shared:
            self.bound.append(name)
            self._also.pop(name, None)

    def _delete(self, name: str) -> None:
        if not self._scopes or name in self._scopes[-1].shared:
            self.deleted.append(name)

    def _is_global(self, name: str) -> bool:
        for scope in reversed(self._scopes):
            if name in scope.shared:
                return True
            if name in scope.own:
                return False
        return True

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self._bind(node.id)
        elif isinstance(node.ctx, ast.Del):
            self._delete(node.id)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        around = [scope for scope in self._scopes if not scope.passing]
        if not around or node.target.id in around[-1].shared:
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
        if isinstance(target, ast.Name) and isinstance(value, ast.Name) and not self._scopes:
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
        inside = self._visit_inside(node.body, {argument.arg for argument in _arguments(node.args)})
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
        self._visit_inside(node.body)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_all(_defaults(node.args))
        self._visit_inside([node.body], {argument.arg for argument in _arguments(node.args)})

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        own = {part.id for generator in node.generators for part in ast.walk(generator.target) if _is_stored(part)}
        self._scopes.append(_Scope(own, passing=True))
        self.generic_visit(node)
        self._scopes.pop()

    visit_SetComp = visit_GeneratorExp = visit_DictComp = visit_ListComp  # noqa: N815 - as NodeVisitor wants them

    def _visit_inside(self, body: Sequence[ast.AST], own: Iterable[str] = ()) -> _Scope:
        parts = [part for statement in body for part in ast.walk(statement)]
        shared = {name for part in parts if isinstance(part, ast.Global) for name in part.names}
        scope = _Scope({*own, *(name for part in parts for name in _bound_by(part))} - shared, shared)
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
        """Take note of arguments that the function changes."""
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
        if self._is_global(node.id):
            self.changed += (
                name for name in self._named(node.id) if not issubclass(type(self._namespace.get(name)), ModuleType)
            )
        else:
            scope = next(scope for scope in reversed(self._scopes) if node.id in scope.own)
            scope.changed.add(node.id)

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
        """Take note of the keys that are put into the namespace."""
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
            own = self._scopes  # what it binds is its own
            self._scopes = [*own, _Scope(set())]
            for text in texts:
                self._read_quoted(_TIMEIT_OPTIONS.sub("", text, count=1))
            self._scopes = own
        elif magic in _CODE_IN_MAGICS and texts:
            self._read_quoted(texts[-1])

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)


def _is_stored(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _bound_by(node: ast.AST) -> Iterator[str]:
    """The names that a node binds, at whatever depth of a function it stands."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in aliases)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case _:
            pass


def _arguments(given: ast.arguments) -> list[ast.arg]:
    rest = [argument for argument in (given.vararg, given.kwarg) if argument is not None]
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *rest]


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
    if len(names) <= _MOST_NAMED:
        return _joined(names)
    return _joined([*names[: _MOST_NAMED - 1], f"{len(names) - _MOST_NAMED + 1} others"])


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
