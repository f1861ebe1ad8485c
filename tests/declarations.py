"""What the declarations of a protocol say, as its two generated files write it: a page of the docs, and types."""

from __future__ import annotations

import ast
import inspect
import sys
import types
from collections.abc import Collection
from types import ModuleType
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from indus_nb.base.wire_model import WireModel
from indus_nb.core.session import dialogs
from indus_nb.front.notebook.door import messages
from indus_nb.front.notebook.page import protocol, states

MODULES = (dialogs, states, protocol, messages)
CLASSES = {
    getattr(module, node.name): node
    for module in MODULES
    for node in ast.parse(inspect.getsource(module)).body
    if isinstance(node, ast.ClassDef)
}


def members(union: Any) -> list[Any]:
    return [member for choice in get_args(union) for member in (members(choice) if get_args(choice) else [choice])]


def defined_in(module: ModuleType) -> set[type]:
    return {value for value in vars(module).values() if inspect.isclass(value) and value.__module__ == module.__name__}


def fields_of(declared: type) -> dict[str, Any]:
    """Annotations as they stand, by the names on the wire."""
    hints = get_type_hints(declared, include_extras=True)
    if issubclass(declared, WireModel):
        return {field.key: hints[name] for name, field in declared.wire_fields.items()}
    return hints


def is_required(declared: Any, name: str) -> bool:
    if is_typeddict(declared):
        return name in declared.__required_keys__ and get_origin(fields_of(declared)[name]) is not NotRequired
    if issubclass(declared, WireModel):
        field = next(field for field in declared.wire_fields.values() if field.key == name)
        hint = fields_of(declared)[name]
        return field.is_required or (get_origin(hint) is Literal and len(get_args(hint)) == 1)
    return True


def said_of(declared: type) -> dict[str, str]:
    """The docstrings below the fields of a class and its bases, by the names on the wire."""
    if declared not in CLASSES:
        return {}
    found: dict[str, str] = {}
    node = CLASSES[declared]
    module = sys.modules[declared.__module__]
    for base in node.bases:
        if isinstance(base, ast.Name):
            found |= said_of(getattr(module, base.id))
    for field, text in zip(node.body, node.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                found[to_wire(declared, name)] = " ".join(said.split())
            case _:
                pass
    return found


def to_wire(declared: type, name: str) -> str:
    fields = declared.wire_fields if issubclass(declared, WireModel) else {}
    return fields[name].key if name in fields else name


def typescript(hint: Any) -> str:  # noqa: PLR0911 - one for each kind of type
    """A type as TypeScript writes it."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated and isinstance(arguments[1], str):
        return arguments[1]
    if origin in (Annotated, NotRequired):
        return typescript(arguments[0])
    if hint == protocol.Operation:
        return "Operation"
    if origin is Literal:
        return " | ".join(f'"{value}"' for value in arguments)
    if origin in (Union, types.UnionType):
        return " | ".join(dict.fromkeys(map(typescript, arguments)))
    if origin is list:
        item = typescript(arguments[0])
        return f"({item})[]" if " | " in item else f"{item}[]"
    if origin is dict:
        return f"Record<string, {typescript(arguments[1])}>"
    names = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null", Any: "unknown"}
    return names.get(hint) or hint.__name__


def used_by(declared: list[Any], *modules: ModuleType) -> list[Any]:
    """The classes of modules in the fields of ``declared``, and in theirs, each once and behind those that use it."""
    found: dict[Any, None] = {}
    shown = {module.__name__ for module in modules}

    def visit(hint: Any) -> None:
        for inner in get_args(hint):
            visit(inner)
        if inspect.isclass(hint) and hint.__module__ in shown and hint not in found:
            found[hint] = None
            for field in fields_of(hint).values():
                visit(field)

    for each in declared:
        for field in fields_of(each).values():
            visit(field)
    return list(found)


def row(name: str, hint: Any, said: str) -> str:
    kind = typescript(hint).replace("|", "\\|")
    return f"| `{name}` | `{kind}` | {markdown(said)} |"


def table(declared: Any, skipped: Collection[str], *, optional: bool = True) -> str:
    """The fields of a class in the docs, empty for none; with a question mark those that may be left out."""
    said = said_of(declared)
    rows = [
        row(name + ("?" if optional and not is_required(declared, name) else ""), hint, said.get(name, ""))
        for name, hint in fields_of(declared).items()
        if name not in skipped
    ]
    return "\n".join(["\n| field | type | |", "|---|---|---|", *rows, ""]) if rows else ""


def markdown(docstring: str) -> str:
    return docstring.replace("``", "`")


def interface(declared: Any, base: Any = None, *first: str) -> str:
    """A class as TypeScript declares it, without the fields of a base that it extends."""
    said, inherited = said_of(declared), fields_of(base) if base else {}
    extends = f" extends {base.__name__}" if base else ""
    lines = [f"/** {summary(declared)} */", f"export interface {declared.__name__}{extends} {{", *first]
    for name, hint in fields_of(declared).items():
        if name in inherited:
            continue
        lines += [f"  /** {said[name]} */"] if name in said else []
        lines.append(f"  {name}{'' if is_required(declared, name) else '?'}: {typescript(hint)};")
    return "\n".join([*lines, "}", ""])


def summary(declared: Any) -> str:
    return (inspect.getdoc(declared) or "").split("\n")[0]


def alias(name: str, text: str, choices: list[Any]) -> str:
    names = [each if isinstance(each, str) else each.__name__ for each in choices]
    return "\n".join([f"/** {text} */", f"export type {name} =", *(f"  | {each}" for each in names)]) + ";\n"
