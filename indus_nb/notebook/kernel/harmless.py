"""Expressions about which nobody need be asked, for they only look at data.

What this module promises: an expression that `only_looks` at data calls nothing but the methods and functions that are
named here, on values whose classes are known: numbers, texts, arrays and frames as their libraries made them, with
nothing of the user's classes in them. It binds no name, reads no file, reaches no module, and makes nothing that is
much larger than what it looks at. What is not known to be so is left to the user's judgement. Nothing of the code runs
to find that out.
"""

from __future__ import annotations

import ast
import builtins
import math
import sys
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType
from typing import Any, cast

from indus_nb.notebook.kernel.known_classes import library_of
from indus_nb.notebook.kernel.plain_data import (
    ATOMS,
    ATTRIBUTES,
    METHODS,
    is_numeric,
    is_plain_data,
    kind_of,
    parsed,
    words,
)

_MAX_CELLS = 20_000_000
_MAX_DIGITS = 20
_KEYWORDS = words(
    "as_index ascending axis by ddof decimals deep descending dropna exclude include keep level method n normalize "
    "numeric_only observed percentiles periods q skipna sort subset"
)
_FUNCTIONS = words("abs len max min round sorted sum")
_NO_NUMBERS = words("idxmax idxmin reset_index item keys to_list tolist unique first last mode")
"""Methods whose result may be more than numbers where all values are numbers, or a list."""
_SAME_COLUMNS = words("drop_duplicates dropna groupby head sort_index sort_values tail")
"""Methods of frames after which a column has the name that it had."""
_AGGREGATES = words("all any count first last max mean median min nunique prod std sum var")
_ELEMENTWISE = words("abs cumsum diff duplicated isna isnull notna notnull pct_change round")
_REDUCTIONS = words("all any count max mean median min nunique n_unique null_count prod std sum var")
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.BitAnd, ast.BitOr)


class _UnknownError(Exception):
    """Something of the code is not known to be harmless."""


def only_looks(code: str, namespace: Mapping[str, object], transform: Callable[[str], str]) -> bool:
    """Whether code consists of expressions that only look at data.

    Args:
        code: The code.
        namespace: All names that it sees, but for those of Python.
        transform: Makes Python of what a notebook allows besides.

    Returns:
        Whether it is known to have no effect.

    >>> data = {"x": [1, 2], "n": 3, "f": print}
    >>> [only_looks(code, data, str) for code in ("n", "n + 1", "print(n)", "f(n)", "n = 2", "x.pop()")]
    [True, True, True, False, False, False]
    """
    tree = parsed(code, transform)
    if tree is None or not tree.body:
        return False
    look = _Look(namespace)
    try:
        for statement in tree.body:
            if not isinstance(statement, ast.Expr):
                return False
            look.statement(statement.value)
    except (_UnknownError, RecursionError):
        return False
    except Exception:  # noqa: BLE001 - an object that is not what its class promises
        return False
    return True


class _Look:
    """Follows an expression; each method returns whether the value is data, rather than a number or a text."""

    def __init__(self, namespace: Mapping[str, object]) -> None:
        self._namespace = namespace
        self._known: dict[str, bool] = {}

    def statement(self, node: ast.expr) -> None:
        match node:
            case ast.Call(func=ast.Name(id="print"), args=args, keywords=[]) if self._is_python("print"):
                for argument in args:
                    self.value(argument)
            case _:
                self.value(node)

    def value(  # noqa: C901, PLR0911, PLR0912 - one case for each kind of node
        self, node: ast.expr
    ) -> bool:
        match node:
            case ast.Constant():
                return False
            case ast.Name(id=name):
                return self._named(name)
            case ast.Attribute(value=owner, attr=name):
                return self._attribute(owner, name)
            case ast.Subscript(value=owner, slice=key):
                if not self.value(owner):
                    raise _UnknownError
                self._key(key, owner)
                return True
            case ast.Call(func=ast.Attribute(value=owner, attr="agg"), args=args, keywords=named):
                if not self.value(owner) or named or len(args) != 1 or not _is_aggregate(args[0]):
                    raise _UnknownError  # it calls what is named
                return True
            case ast.Call():
                return self._call(node)
            case ast.UnaryOp(op=ast.USub() | ast.Invert(), operand=operand):
                return self.value(operand)
            case ast.BinOp(left=left, op=sign, right=right) if isinstance(sign, _OPERATORS):
                sides = [self.value(left), self.value(right)]
                if not any(sides) and not all(map(self._is_number, (left, right))):
                    raise _UnknownError  # texts and lists may be made very long
                if isinstance(sign, ast.Mult | ast.Mod) and not all(map(self._has_numbers, (left, right))):
                    raise _UnknownError  # so may texts in data, and by a format
                self._check_size(left, right, sides)
                return any(sides)
            case ast.Compare(left=left, ops=[sign], comparators=[right]) if not isinstance(sign, ast.In | ast.NotIn):
                sides = [self.value(left), self.value(right)]
                self._check_size(left, right, sides)
                return any(sides)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self.value(part)
                return False
            case _:
                raise _UnknownError

    def _is_python(self, name: str) -> bool:
        function = vars(builtins).get(name)
        found = self._namespace.get("__builtins__", builtins)
        return (
            name not in self._namespace
            and (found is builtins or found is vars(builtins))
            and type(function) is BuiltinFunctionType
            and function.__self__ is builtins
            and function.__name__ == name
        )

    def _is_number(self, node: ast.expr) -> bool:
        match node:
            case ast.Constant(value=value):
                return type(value) in (int, float)
            case ast.Name(id=name):
                return type(self._namespace.get(name)) in (int, float)
            case ast.BinOp(left=left, right=right):
                return self._is_number(left) and self._is_number(right)
            case ast.UnaryOp(operand=operand):
                return self._is_number(operand)
            case _:
                return False

    def _column(self, node: ast.expr) -> tuple[str, Any] | None:
        """A column of one of the user's frames, with the frame's name."""
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if name not in ATTRIBUTES:
                pass
            case ast.Subscript(value=ast.Name(id=owner), slice=ast.Constant(value=str() as name)):
                pass
            case _:
                return None
        frame: Any = self._namespace[owner]
        if library_of(kind_of(frame)) not in ("pandas", "polars") or "columns" not in dir(kind_of(frame)):
            return None
        found = [at for at, label in enumerate(frame.columns) if type(label) is str and label == name]
        if len(found) != 1:
            return None
        return owner, frame.iloc[:, found[0]] if library_of(kind_of(frame)) == "pandas" else frame[name]

    def _has_numbers(self, node: ast.expr) -> bool:  # noqa: PLR0911 - one case for each kind of node
        """Whether what is multiplied is a number, or data of numbers."""
        if (column := self._column(node)) is not None:
            return is_numeric(column[1])
        match node:
            case ast.Constant(value=value):
                return type(value) in (int, float, bool)
            case ast.Name(id=name):
                held = self._namespace.get(name)
                return type(held) in (int, float, bool) or (self._named(name) and is_numeric(held))
            case ast.BinOp(left=left, right=right):
                return self._has_numbers(left) and self._has_numbers(right)
            case ast.UnaryOp(operand=owner) | ast.Attribute(value=owner, attr="T" | "values" | "iloc" | "loc"):
                return self._has_numbers(owner)
            case ast.Compare() | ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant()):
                return True
            case ast.Subscript(value=owner):
                return self._has_numbers(owner)
            case ast.Call(func=ast.Attribute(value=owner, attr=name)):
                counts = name in ("isna", "isnull", "notna", "notnull")
                return counts or (name not in _NO_NUMBERS and self._has_numbers(owner))
            case ast.Call(func=ast.Name(id=name), args=args):
                return name == "len" or (name != "sorted" and all(map(self._has_numbers, args)))
            case _:
                return False

    def _check_size(self, left: ast.expr, right: ast.expr, sides: list[bool]) -> None:
        """Raise where two sides may be combined each with each, to more than memory holds."""
        if not all(sides) or self._is_single(left) or self._is_single(right):
            return
        rows = self._rows(left)
        if rows is not None and rows == self._rows(right):
            return
        names = [node for side in (left, right) for node in ast.walk(side) if isinstance(node, ast.Name)]
        cells = 1
        for node in names:
            held: Any = self._namespace.get(node.id)
            if type(held) not in ATOMS and node.id in self._known:
                cells *= sum(held.shape) + 1
        if cells > _MAX_CELLS:
            raise _UnknownError

    def _rows(self, node: ast.expr) -> str | None:
        """The variable whose rows an expression has one value for, each."""
        if (column := self._column(node)) is not None:
            return column[0]
        match node:
            case ast.Name(id=name):
                return name if getattr(self._namespace.get(name), "ndim", 0) == 1 else None
            case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
                sides = [side for side in (left, right) if not self._is_single(side)]
                found = {self._rows(side) for side in sides}
                return found.pop() if len(found) == 1 else None
            case ast.UnaryOp(operand=operand):
                return self._rows(operand)
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _ELEMENTWISE:
                return self._rows(owner)
            case _:
                return None

    def _is_single(self, node: ast.expr) -> bool:  # noqa: PLR0911 - one case for each kind of node
        """Whether it is one value, rather than many."""
        match node:
            case ast.Constant() | ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant()):
                return True
            case ast.Name(id=name):
                return type(self._namespace.get(name)) in ATOMS
            case ast.Call(func=ast.Name(id="len")):
                return True
            case ast.Call(func=ast.Attribute(value=owner, attr=name), args=[], keywords=[]) if name in _REDUCTIONS:
                return self._rows(owner) is not None
            case ast.BinOp(left=left, right=right):
                return self._is_single(left) and self._is_single(right)
            case ast.UnaryOp(operand=operand):
                return self._is_single(operand)
            case _:
                return False

    def _named(self, name: str) -> bool:
        if name.startswith("_") or name not in self._namespace:
            raise _UnknownError
        if name not in self._known:
            self._known[name] = self._is_data(self._namespace[name])
        return self._known[name]

    def _is_data(self, value: object) -> bool:
        if type(value) in ATOMS:
            return False
        if not is_plain_data(value):
            raise _UnknownError
        return True

    def _attribute(self, owner: ast.expr, name: str) -> bool:
        if not self.value(owner):
            raise _UnknownError
        if name not in ATTRIBUTES:
            held = self._frame(owner)
            columns: Any = getattr(held, "columns", ()) if library_of(type(held)) == "pandas" else ()
            groups: Any = getattr(sys.modules.get("pandas.core.groupby.generic"), "DataFrameGroupBy", None)
            if name not in cast("list[object]", list(columns)) or any(
                hasattr(kind, name) for kind in (type(held), groups)
            ):
                raise _UnknownError
        return True

    def _frame(self, node: ast.expr) -> object:
        """The user's frame that rows or groups are taken of, with all its columns; ``None`` if it is not known."""
        match node:
            case ast.Name(id=name):
                return self._namespace[name]
            case ast.Subscript(value=owner, slice=key) if isinstance(key, ast.Slice) or self._is_mask(key):
                return self._frame(owner)
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _SAME_COLUMNS:
                return self._frame(owner)
            case _:
                return None

    def _key(self, key: ast.expr, owner: ast.expr) -> None:
        match key:
            case ast.Constant(value=None):
                raise _UnknownError  # an axis more, and each value may meet each
            case ast.Slice(lower=lower, upper=upper, step=step):
                for part in filter(None, (lower, upper, step)):
                    self.value(part)
            case ast.Tuple(elts=parts):
                for part in parts:
                    self._key(part, owner)
            case ast.List(elts=parts):
                self.value(key)
                labels = {part.value for part in parts if isinstance(part, ast.Constant)}
                if len(labels) < len(parts):  # some may be taken several times
                    self._check_taken(len(parts), owner)
            case _:
                if self.value(key) and not self._is_mask(key):
                    self._check_taken(self._cells(key), owner)

    def _check_taken(self, times: int, owner: ast.expr) -> None:
        """Raise where a part of data, taken so many times, may be more than memory holds."""
        if times * self._cells(owner) > _MAX_CELLS:
            raise _UnknownError

    def _cells(self, node: ast.expr) -> int:
        """How many values the largest data in an expression has, at least one."""
        held = [self._namespace.get(each.id) for each in ast.walk(node) if isinstance(each, ast.Name)]
        return max([1, *(_cells_of(each) for each in held if type(each) not in ATOMS)])

    def _is_mask(self, node: ast.expr) -> bool:  # noqa: PLR0911 - one case for each kind of node
        """Whether it holds truth values, with which nothing is taken twice."""
        if (column := self._column(node)) is not None:
            return _holds_truth(column[1])
        match node:
            case ast.Compare():
                return True
            case ast.Name(id=name):
                return _holds_truth(self._namespace.get(name))
            case ast.BinOp(op=ast.BitAnd() | ast.BitOr(), left=left, right=right):
                return self._is_mask(left) and self._is_mask(right)
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return self._is_mask(operand)
            case ast.Call(func=ast.Attribute(attr=name)):
                return name in ("isna", "isnull", "notna", "notnull", "duplicated")
            case _:
                return False

    def _check_method(self, name: str, owner: ast.expr, node: ast.Call) -> None:
        """Raise where the result of a method may be much larger than its data."""
        inside = {each.attr for each in ast.walk(owner) if isinstance(each, ast.Attribute)}
        held = [self._namespace.get(each.id) for each in ast.walk(owner) if isinstance(each, ast.Name)]
        if name in ("corr", "cov"):
            columns = max((_columns_of(each) for each in held), default=1)
            rows = self._cells(owner) if "groupby" in inside else columns
            if "T" in inside or rows * columns > _MAX_CELLS:
                raise _UnknownError  # each row, or column, with each
        observed = any(
            word.arg == "observed" and isinstance(word.value, ast.Constant) and word.value.value is True
            for word in node.keywords
        )
        if name in ("groupby", "value_counts") and not observed and max(map(_groups_of, held), default=1) > _MAX_CELLS:
            raise _UnknownError  # each category of a column with each of another

    def _call(self, node: ast.Call) -> bool:
        if any(word.arg not in _KEYWORDS for word in node.keywords):
            raise _UnknownError
        arguments = [*node.args, *(word.value for word in node.keywords)]
        # An array among the arguments may be where a function puts its result.
        if any(isinstance(each, ast.Starred) for each in arguments):
            raise _UnknownError
        match node.func:
            case ast.Name(id=name) if name in _FUNCTIONS and self._is_python(name) and len(node.args) <= 2:
                for argument in arguments:
                    self.value(argument)
                if name == "round" and not all(map(_is_small, node.args[1:])):
                    raise _UnknownError
                return True
            case ast.Attribute(value=owner, attr=name) if name in METHODS and len(node.args) <= 1:
                if not self.value(owner) or any(self.value(argument) for argument in arguments):
                    raise _UnknownError
                if name == "round" and not all(map(_is_small, arguments)):
                    raise _UnknownError
                self._check_method(name, owner, node)
                return True
            case _:
                raise _UnknownError


def _is_small(node: ast.expr) -> bool:
    """Whether it is a number of digits to which rounding takes no time."""
    digits = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(digits, ast.Constant) and type(digits.value) is int and digits.value < _MAX_DIGITS


def _is_aggregate(node: ast.expr) -> bool:
    """Whether it names methods that make one number of many, for all columns or for each."""
    match node:
        case ast.Constant(value=name):
            return name in _AGGREGATES
        case ast.List(elts=parts):
            return bool(parts) and all(map(_is_aggregate, parts))
        case ast.Dict(keys=keys, values=parts):
            return all(isinstance(key, ast.Constant) for key in keys) and all(map(_is_aggregate, parts))
        case _:
            return False


def _holds_truth(data: Any) -> bool:
    return str(getattr(data, "dtype", "")) in ("bool", "boolean", "Boolean")


def _cells_of(value: Any) -> int:
    size: object = getattr(value, "size", None)  # of frames of polars there is none
    return size if type(size) is int else math.prod(getattr(value, "shape", (1,)))


def _columns_of(value: Any) -> int:
    shape: tuple[int, ...] = getattr(value, "shape", ())
    return shape[1] if len(shape) > 1 else 1


def _groups_of(value: Any) -> int:
    """How many groups there may be of a frame of pandas, by all of its columns with categories."""
    if library_of(kind_of(value)) != "pandas":
        return 1
    indexes: list[Any] = [level for axis in getattr(value, "axes", ()) for level in getattr(axis, "levels", (axis,))]
    dtypes: Any = getattr(value, "dtypes", None)
    held: list[Any] = [*(dtypes if hasattr(kind_of(value), "columns") else ()), *(each.dtype for each in indexes)]
    categories: list[Any] = [getattr(dtype, "categories", None) for dtype in held]
    return math.prod(len(each) + 1 for each in categories if each is not None)
