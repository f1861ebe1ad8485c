"""Code that stays within the kernel, for a user who does not want to be asked about each piece of it.

What this module promises: `stays_inside` finds what could reach files, programs or the network by the names in the
code, all of which must be known, and by what they stand for in modules that are loaded. Nothing of the code runs.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, cast

from indus_nb.notebook.kernel.known_classes import is_a, library_of
from indus_nb.notebook.kernel.plain_data import ATOMS, is_plain_data, parsed, words

_MAX_VALUES = 1_000_000
_CYTHON = "cython_function_or_method"
_MODULES = words(
    "math statistics random re json datetime time calendar collections itertools functools decimal fractions "
    "string textwrap copy dataclasses enum typing numpy pandas polars scipy sklearn statsmodels matplotlib seaborn "
    "plotly altair"
)
"""Modules that code which stays inside may use."""
_OUTWARD_NAMES = words(
    "open exec eval compile __import__ getattr setattr delattr globals locals vars input breakpoint get_ipython help "
    "exit quit memoryview type super"
)
_OUTWARD_KEYWORDS = words("n_jobs memory backend usetex raw")
"""Arguments that start processes, write caches, import modules by their name, run TeX or put scripts into the page."""
_SPREADING = words("zip print max min range list set dict")
"""Functions that may be given arguments which are not seen one by one."""
_MAX_ARGUMENTS = 8
_INWARD = words(
    "to_frame to_list to_numpy to_dict to_datetime to_numeric to_timedelta to_period to_timestamp load_iris "
    "load_digits load_wine load_diabetes load_breast_cancer from_dict from_records"
)
_OUTWARD = (
    *("to_", "read", "write", "save", "load", "dump", "from", "open", "fetch", "download", "get_data", "get_rdataset"),
    *("export", "import", "exec", "eval", "query", "run", "call", "system", "popen", "spawn", "memmap", "genfromtxt"),
    *("sink", "scan", "connect", "request", "send", "socket", "url", "imread", "imsave", "style", "set_option"),
    *("options", "parallel", "register", "backend", "use", "rc", "test", "hub", "lib", "joblib", "f2py", "distutils"),
    *("ctypes", "DataSource", "HDFStore", "Excel", "data_transformers", "renderers", "offline", "pipe", "sys"),
    *("tofile", "serialize", "deserialize", "switch", "show_versions", "option_context", "get_type_hints", "serve"),
    *("Formatter", "get_field", "thumbnail", "webdoc", "get_dataset", "getattr", "setattr", "delattr", "vars", "bltns"),
    *("attrgetter", "methodcaller", "itemgetter", "Path", "Posix", "unlink", "rmdir", "rmtree", "mkdir", "makedirs"),
    *(
        "touch",
        "symlink",
        "hardlink",
        "chmod",
        "copyfile",
        "copytree",
        "Temporary",
        "NamedTemp",
        "Popen",
        "check_output",
    ),
    *("check_call", "Process", "Pool", "ThreadPool", "Request", "ZipFile", "TarFile", "FileIO", "globals", "locals"),
    *("face", "ascent", "electrocardiogram", "addfont", "make_mapped"),
)
"""Beginnings of attributes that reach files, programs or the network in these modules, or may."""
_BY_NAME = words("apply agg aggregate transform map")
"""Methods that call another one by its name."""


def stays_inside(code: str, namespace: Mapping[str, object], transform: Callable[[str], str]) -> bool:
    """Whether nothing in code is known to reach files, programs or the network, and all that it names is known.

    Args:
        code: The code.
        namespace: All names that it sees, but for those of Python.
        transform: Makes Python of what a notebook allows besides.

    Returns:
        Whether a user who allowed code that stays inside need not be asked about it.

    >>> [stays_inside(code, {}, str) for code in ("x = [1]", "import os", "open('x')", "from numpy import load")]
    [True, False, False, False]
    """
    tree = parsed(code, transform)
    if tree is None:
        return False
    nodes = [*ast.walk(tree)]
    try:
        names = _Names(tree, namespace)
        return all(_is_inward(node, names) for node in nodes)
    except Exception:  # noqa: BLE001 - an object that is not what its class promises
        return False


class _Names:
    """What the names of a piece of code stand for, as far as that is known before it runs."""

    def __init__(self, tree: ast.Module, namespace: Mapping[str, object]) -> None:
        self._namespace = namespace
        self._modules: dict[str, str] = {}
        self._bound: set[str] = set()  # before they are used
        used: set[str] = set()
        for statement in tree.body:
            loads = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and _is_load(node)}
            used |= loads
            self._bound |= set(_bound_by(statement)) - used
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for each in node.names:
                    self._modules[each.asname or each.name.partition(".")[0]] = (
                        each.name if each.asname else each.name.partition(".")[0]
                    )

    def is_known(self, name: str) -> bool:
        return name in self._bound or _is_known(name, self._namespace)

    def object_at(self, node: ast.expr) -> object:
        """What a name or an attribute of a module stands for; ``None`` where that is not known."""
        match node:
            case ast.Name(id=name) if name in self._modules:
                return sys.modules.get(self._modules[name])
            case ast.Name(id=name):
                return self._namespace.get(name)
            case ast.Attribute(value=owner, attr=name):
                held = self.object_at(owner)
                return vars(cast("ModuleType", held)).get(name) if is_a(held, ModuleType) else None
            case _:
                return None


def _is_load(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


def _bound_by(statement: ast.stmt) -> Iterable[str]:
    """The names that a statement binds whenever it succeeds."""
    match statement:
        case ast.Assign(targets=targets):
            parts = [part for each in targets for part in ([*each.elts] if isinstance(each, ast.Tuple) else [each])]
            return [part.id for part in parts if isinstance(part, ast.Name)]
        case ast.FunctionDef(name=name):
            return [name]
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [each.asname or each.name.partition(".")[0] for each in names]
        case _:
            return []


def _is_inward(node: ast.AST, names: _Names) -> bool:  # noqa: C901, PLR0911 - one case for each kind of node
    match node:
        case ast.Import(names=aliases):
            roots = [each.name for each in aliases]
            return all(name.partition(".")[0] in _MODULES and not _reaches_out(name) for name in roots)
        case ast.ImportFrom(module=module, names=aliases, level=0) if module is not None:
            parts = [module, *(each.name for each in aliases)]
            if module.partition(".")[0] not in _MODULES or any(map(_reaches_out, parts)) or "*" in parts:
                return False
            held = sys.modules.get(module)
            return held is None or all(_is_of_a_module(vars(held).get(each.name)) for each in aliases)
        case ast.ImportFrom() | ast.ClassDef() | ast.AsyncFunctionDef() | ast.Await() | ast.Global() | ast.MatchClass():
            return False
        case ast.keyword(arg=name):
            return name is not None and name not in _OUTWARD_KEYWORDS
        case ast.Attribute(attr=name):
            return not _reaches_out(name) and _is_of_a_module(names.object_at(node))
        case ast.Call(args=args) if len(args) > _MAX_ARGUMENTS:
            return False
        case ast.Call(func=function, args=args) if any(isinstance(each, ast.Starred) for each in args):
            return isinstance(function, ast.Name) and function.id in _SPREADING
        case ast.Call(func=ast.Attribute(attr=name), args=args, keywords=words) if name in _BY_NAME:
            return all(map(_is_no_outward_name, (*args, *(word.value for word in words))))
        case ast.Name(id=name):
            return name not in _OUTWARD_NAMES and not name.startswith("__") and names.is_known(name)
        case _:
            return True


def _is_of_a_module(value: object) -> bool:
    """Whether what was found in a module is data, or comes from one of those that may be used."""
    if value is None or type(value) in ATOMS:
        return True
    if is_a(value, ModuleType):
        place: object = vars(cast("ModuleType", value)).get("__name__")
    elif is_a(value, type):
        place = library_of(cast("type", value))
    elif is_a(value, (FunctionType, BuiltinFunctionType, MethodType)) or type(value).__name__ == _CYTHON:
        function = cast("Any", value)
        place = function.__module__ or library_of(cast("type[object]", type(function.__self__)))
    else:
        return library_of(type(value)).lstrip("_") in _MODULES or type(value) in (list, tuple, dict, set, frozenset)
    return str(place).partition(".")[0].lstrip("_") in _MODULES


def _is_no_outward_name(node: ast.expr) -> bool:
    """Whether it is a function that the code writes, or names in it that reach nothing outside."""
    match node:
        case ast.Lambda():
            return True
        case ast.Constant(value=value):
            return not (isinstance(value, str) and _reaches_out(value))
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Dict(values=parts):
            return all(map(_is_no_outward_name, parts))
        case _:
            return False


def _reaches_out(dotted: str) -> bool:
    return any(
        name.startswith("_")
        or (name in sys.stdlib_module_names and name not in _MODULES)
        or (name not in _INWARD and name.startswith(_OUTWARD))
        for name in dotted.split(".")[1 if dotted.partition(".")[0] in _MODULES else 0 :]
    )


def _is_known(name: str, namespace: Mapping[str, object]) -> bool:
    """Whether what the user's name stands for is data, or a module that may be used; or it is a name of Python."""
    if name not in namespace:
        return True
    value = namespace[name]
    if is_a(value, ModuleType):
        return str(vars(cast("ModuleType", value)).get("__name__")).partition(".")[0] in _MODULES
    if type(value) in (list, tuple, dict, set):
        parts = cast("Any", value).values() if type(value) is dict else cast("Any", value)
        return len(cast("Any", value)) < _MAX_VALUES and all(type(part) in ATOMS for part in parts)
    return type(value) in ATOMS or is_plain_data(value)
