"""Types of answers that are written as text: ``list[Invoice]``, ``models.py:Invoice``, ``invoice.schema.json``.

What this module promises: a type that is written as an expression is looked up, never evaluated: names, their
attributes, subscripts and ``|`` are all that it may hold. Code runs for a named module only, which the user asked for.
"""

from __future__ import annotations

import ast
import builtins
import importlib.util
import re
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from indus_nb.base import textcut
from indus_nb.base.errors import UsageError
from indus_nb.base.wire import from_json
from indus_nb.core.answers.kind import FRAME, AnswerKind
from indus_nb.core.answers.kinds import answer_kind

_HOMES = {
    "typing": ("Any", "Literal", "Optional", "Union"),
    "datetime": ("date", "datetime", "time", "timedelta"),
    "decimal": ("Decimal",),
    "uuid": ("UUID",),
}
_BUILTINS = ("bool", "bytes", "dict", "float", "frozenset", "int", "list", "set", "str", "tuple")
PLAIN: tuple[str, ...] = (FRAME, *_BUILTINS, *(name for names in _HOMES.values() for name in names))
"""Names that need no import."""
_MAX_CHARACTERS = 1000
_MAX_SCHEMA_FILE_BYTES = 10_000_000
_MODULE = re.compile(r"(?P<module>[^\W\d][\w.]*|.+\.py):(?P<name>[^\W\d][\w.]*)")


def kind_in(text: str, namespace: Mapping[str, Any], option: str) -> AnswerKind:
    """Look up a type that is written as an expression.

    >>> kind_in("list[int]", {}, "--result").name
    'list[int]'

    Args:
        text: The expression, such as ``list[Invoice]``, or ``frame``.
        namespace: The user's variables; what is in none of them is looked for among the plain types.
        option: The option that it was given with, for errors.

    Raises:
        UsageError: There is no such type, or it cannot be that of an answer.
    """
    written = text.strip()
    if written == FRAME:
        return answer_kind(FRAME)
    shown = f"{option} {textcut.one_line(written, 100)}"
    try:
        tree = ast.parse(written[: _MAX_CHARACTERS + 1], mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    if tree is None or len(written) > _MAX_CHARACTERS:
        raise UsageError(
            f"{shown}: that is no type. Write one such as int, list[Invoice] or {FRAME}; with spaces in it, in quotes: "
            f'{option} "dict[str, int]".'
        )
    try:
        found = _looked_up(tree.body, namespace)
    except UsageError as error:
        raise UsageError(f"{shown}: {error}") from error
    except Exception as error:  # what a class raises for a subscript of it, or for `|`
        raise UsageError(f"{shown}: that is no type ({type(error).__name__}: {error}).") from error
    if isinstance(found, str | bytes | int | float) or found is None:
        raise UsageError(f"{shown}: that is a value and no type. Its type is written {type(found).__name__}.")
    return answer_kind(found)


def kind_of_option(text: str, option: str = "--schema") -> AnswerKind:
    """Find the type that an option of the command line names.

    Args:
        text: The path of a JSON schema, ``MODULE:NAME``, ``FILE.py:NAME``, or a plain type such as ``list[str]``.

    Raises:
        UsageError: There is nothing of the kind, or it cannot be the type of an answer.
    """
    if (named := _MODULE.fullmatch(text)) is not None:
        return answer_kind(_imported(named["module"], named["name"], option))
    path = Path(text).expanduser()
    if text.endswith(".json") or path.is_file():
        return answer_kind(_schema_in(path, option))
    return kind_in(text, {}, option)


# --- expressions -----------------------------------------------------------------------------------------------------


def _looked_up(node: ast.expr, namespace: Mapping[str, Any]) -> Any:  # noqa: PLR0911 - one for each kind of node
    match node:
        case ast.Name(id=name):
            return _named(name, namespace)
        case ast.Attribute(value=owner, attr=name):
            return _attribute(_looked_up(owner, namespace), name)
        case ast.Subscript(value=generic, slice=inner):
            kind = _looked_up(generic, namespace)
            return kind[_looked_up(inner, namespace)]
        case ast.Tuple(elts=parts):
            return tuple(_looked_up(part, namespace) for part in parts)
        case ast.List(elts=parts):
            return [_looked_up(part, namespace) for part in parts]
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _looked_up(left, namespace) | _looked_up(right, namespace)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.Constant(value=value):
            return value
        case _:
            raise UsageError(
                f"`{textcut.one_line(ast.unparse(node), 80)}` is not looked up, for it would run code. Give the type a "
                "name first, and write that name."
            )


def _named(name: str, namespace: Mapping[str, Any]) -> Any:
    if name in namespace:
        return namespace[name]
    if name in _BUILTINS:
        return getattr(builtins, name)
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    types = [each for each, value in namespace.items() if isinstance(value, type)]
    near = get_close_matches(name, [*types, *PLAIN], n=1)
    hint = f" Did you mean {near[0]}?" if near else " Define it first; int, list[str] and the like need no definition."
    raise UsageError(f"there is no type {name} here.{hint}")


def _attribute(owner: Any, name: str) -> Any:
    if not isinstance(owner, type(sys) | type):
        raise UsageError(f"{name} is looked for in modules and classes only.")
    try:
        return getattr(owner, name)
    except AttributeError:
        raise UsageError(f"there is no {name} in {owner.__name__}.") from None


# --- files -----------------------------------------------------------------------------------------------------------


def _schema_in(path: Path, option: str) -> dict[str, Any]:
    shown = f"{option} {path}"
    try:
        if path.stat().st_size > _MAX_SCHEMA_FILE_BYTES:
            raise UsageError(f"{shown}: the file is too large for a schema.")
        value: object = from_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{shown}: the file cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise UsageError(f"{shown}: the file is no JSON ({textcut.one_line(str(error), 200)}).") from error
    if not isinstance(value, dict):
        raise UsageError(f'{shown}: a JSON schema is an object, such as {{"type": "object", …}}.')
    return cast("dict[str, Any]", value)


def _imported(module: str, name: str, option: str) -> Any:
    shown = f"{option} {module}:{name}"
    try:
        found: Any = _module_in(Path(module).expanduser()) if module.endswith(".py") else _module(module)
    except ModuleNotFoundError as error:
        raise UsageError(f"{shown}: there is no module {error.name}, neither installed nor here.") from error
    except Exception as error:  # of the user's module, whatever it is
        raise UsageError(f"{shown}: the module cannot be imported ({type(error).__name__}: {error}).") from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise UsageError(f"{shown}: there is no {part} in {getattr(found, '__name__', module)}.")
        found = getattr(found, part)
    return found


@contextmanager
def _imports_from(directory: Path) -> Generator[None]:
    """Let modules of a directory be found, behind all that is installed."""
    sys.path.append(str(directory))
    try:
        yield
    finally:
        sys.path.remove(str(directory))


def _module(name: str) -> Any:
    """Import a module that is installed, or else the one of the working directory, which the user has named."""
    here = Path.cwd()
    top, _, rest = name.partition(".")
    file, package = here / f"{top}.py", here / top / "__init__.py"
    installed = importlib.util.find_spec(top) if top not in sys.modules else sys.modules[top]
    if installed is not None or not (file.is_file() or package.is_file()):
        return import_module(name)
    return _module_in(here.joinpath(*name.split(".")).with_suffix(".py") if rest else file, name)


def _module_in(path: Path, name: str = "") -> Any:
    path = path.absolute()
    name = name or f"indus_nb_schema_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ModuleNotFoundError(f"No module named {path.name!r}", name=str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # pydantic looks annotations up there
    with _imports_from(path.parent):
        spec.loader.exec_module(module)
    return module
