"""Names that code can reach: those in its text, and whether it reaches all of them."""

from __future__ import annotations

import ast
import dis
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, cast

_REACH_ALL = frozenset(
    {"globals", "locals", "vars", "dir", "exec", "eval", "get_ipython", "__main__", "user_ns", "user_global_ns"}
    | {"get_objects", "get_referrers", "_getframe", "currentframe", "run_module", "__import__"}
    | {"__globals__", "f_globals", "f_locals", "modules"}
)
"""Names by which code reaches variables that its text does not name."""
_ONLY_RUN = frozenset({"system", "getoutput"})
"""Methods of the shell that run a program, which reaches no variable."""
_THROWN_AWAY = "_"
"""Name for loop values that are not used; the shell binds it to what a cell has displayed."""
_IN_TEXT = re.compile(r"(?<!\w)@([^\W\d]\w*)")
"""Variable in a query of pandas."""
_BINDS = frozenset({"STORE_NAME", "STORE_GLOBAL", "DELETE_NAME", "DELETE_GLOBAL"})


class Names(NamedTuple):
    """Global names in code.

    Attributes:
        names: Names in its text, of variables or not.
        everything: True if it may reach all others too.
        rebound: Names that it binds anew before it uses them, so that it does not reach their present values.
    """

    names: frozenset[str]
    everything: bool = False
    rebound: frozenset[str] = frozenset()
    mentioned: frozenset[str] = frozenset()


NOTHING = Names(frozenset())


def names_in_source(code: str, transform: Callable[[str], str]) -> Names:
    """Return the names in source code.

    Args:
        code: The source code; what cannot be parsed has none, as it will not run.
        transform: Makes Python of what a notebook allows besides.
    """
    try:
        tree, compiled = _compiled(code, transform)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return NOTHING
    except Exception:  # noqa: BLE001 - a transformer of the user's failed
        return Names(frozenset(), everything=True)
    found, rebound = names_in(compiled), _rebound(tree)
    return found._replace(names=found.names - rebound, rebound=rebound)


def bound_in_source(code: str, transform: Callable[[str], str]) -> frozenset[str] | None:
    """Return the global names that source code binds or deletes, also in its functions.

    Args:
        code: The source code; what cannot be parsed binds none, as it will not run.
        transform: Makes Python of what a notebook allows besides.

    Returns:
        The names; ``None`` if it may bind any.
    """
    try:
        tree, compiled = _compiled(code, transform)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    except Exception:  # noqa: BLE001 - a transformer of the user's failed
        return None
    stars = any(each.name == "*" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for each in node.names)
    if stars or names_in(compiled).everything:
        return None
    steps = (step for part in _parts(compiled) for step in dis.get_instructions(part))
    return frozenset(str(step.argval) for step in steps if step.opname in _BINDS)


def _compiled(code: str, transform: Callable[[str], str]) -> tuple[ast.Module, CodeType]:
    with warnings.catch_warnings(action="ignore"):  # what Python warns about it says when the code is run
        return _parsed(transform(code))


def _parsed(code: str) -> tuple[ast.Module, CodeType]:
    tree = ast.parse(code)
    programs = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _runs_program(node)]
    for node in programs:  # their lines are text
        node.func = ast.Name(
            "print", ast.Load(), lineno=node.lineno, col_offset=node.col_offset, end_lineno=node.lineno
        )
    return tree, compile(tree, "<code>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def _rebound(tree: ast.Module) -> frozenset[str]:
    """Return the names that plain assignments bind before anything else uses them."""
    used: set[str] = set()
    rebound: set[str] = set()
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[target], value=value) if _are_names(target):
                used |= _mentioned(value)
                rebound |= _mentioned(target) - used
            case _:
                used |= _mentioned(statement)
    return frozenset(rebound)


def _are_names(target: ast.expr) -> bool:
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    return all(isinstance(part, ast.Name) for part in parts)


def _mentioned(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _runs_program(node: ast.Call) -> bool:
    match node.func:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="get_ipython")), attr=method):
            return method in _ONLY_RUN and all(isinstance(part, ast.Constant) and _is_plain(part) for part in node.args)
        case _:
            return False


def _is_plain(part: ast.Constant) -> bool:
    return isinstance(part.value, str) and not {"$", "{"} & {*part.value}


@lru_cache(maxsize=512)
def names_in(code: CodeType) -> Names:
    """Return the global names in compiled code, with the functions and classes in it."""
    names: set[str] = set()
    mentioned: set[str] = set()
    for part in _parts(code):
        mentioned.update(part.co_names)
        for text in part.co_consts:
            if isinstance(text, str):
                names.update(_IN_TEXT.findall(text))
        names.update(
            str(step.argval)
            for step in dis.get_instructions(part)
            if ("NAME" in step.opname or "GLOBAL" in step.opname)
            and (step.argval != _THROWN_AWAY or step.opname.startswith("LOAD"))
        )
    return Names(frozenset(names), not _REACH_ALL.isdisjoint(mentioned), mentioned=frozenset(mentioned))


class Reached:
    """Variables of modules that code reaches by its names, and by those in the functions that these lead to."""

    def __init__(self, modules: Mapping[str, ModuleType]) -> None:
        """Begin with nothing reached."""
        self.names: set[str] = set()
        self._followed: set[int] = set()
        self._modules = modules

    def follow(self, mentioned: Iterable[str], space: Mapping[str, Any]) -> None:
        """Add what names lead to."""
        mentioned = {*mentioned}
        for name in mentioned:
            value = space.get(name, self._modules.get(name))
            if issubclass(type(value), ModuleType):
                self._come_to(value, mentioned)
            else:
                self._follow_value(value)
        if (own := self._modules.get(str(space.get("__name__")))) is not None:
            self._come_to(own, mentioned)

    def _come_to(self, module: ModuleType, mentioned: Iterable[str]) -> None:
        if (name := module.__name__) not in self._modules:
            return
        held: dict[str, Any] = vars(module)
        for each in mentioned:
            if each in held and (full := f"{name}.{each}") not in self.names:
                self.names.add(full)
                self._follow_value(held[each])

    def _follow_value(self, value: Any) -> None:
        """Follow a function, or the methods of a class or of an object's class."""
        kind: Any = value if issubclass(type(value), type) else cast("Any", type(value))
        held: list[Any] = [] if kind is FunctionType else [*type.__dict__["__dict__"].__get__(kind).values()]
        for each in (value, *held):
            is_own = type(each) is FunctionType and (each.__module__ in self._modules or each.__module__ == "__main__")
            if is_own and id(each) not in self._followed:
                self._followed.add(id(each))
                self.follow(names_in(each.__code__).mentioned, each.__globals__)


def _parts(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _parts(constant)
