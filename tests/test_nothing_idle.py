"""What a user can set, write or hook into is read or called somewhere: nothing is offered that has no effect."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

import indus_nb
from indus_nb.base.wire import to_camel
from indus_nb.base.wire_model import WireModel
from indus_nb.core.resources.settings import Settings
from indus_nb.core.session.hooks import SessionHooks
from indus_nb.front.console import arguments, cli
from indus_nb.front.notebook.magic.options import OPTIONS, SUBCOMMANDS

PACKAGE = Path(indus_nb.__file__).parent
ROOT = Path(__file__).parents[1]
ACCEPTED_ONLY = {"no_themes", "theme", "offline", "verbose"}
"""Options that hosts of other programs give; they are documented to do nothing."""
TAKEN_BY_ARGPARSE = {"help", "version"}


@cache
def attributes_read(*without: str) -> frozenset[str]:
    """The names of all attributes that the package reads, outside of the modules ``without``."""
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).as_posix() in without:
            continue
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.add(node.attr)
    return frozenset(found)


@cache
def strings_compared_or_listed() -> frozenset[str]:
    """All texts in the notebook's code but its table of options."""
    table = PACKAGE / "front" / "notebook" / "magic" / "options.py"
    found: set[str] = set()
    for path in (PACKAGE / "front" / "notebook").rglob("*.py"):
        if path != table:
            nodes = ast.walk(ast.parse(path.read_bytes()))
            found |= {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return frozenset(found)


def fields(model: type[WireModel]) -> Iterator[tuple[type[WireModel], str]]:
    """Every field of a model and of the models within it."""
    for name, kind in get_type_hints(model).items():
        if name in model.wire_fields:
            yield model, name
        for each in (kind, *get_args(kind)):
            if inspect.isclass(each) and issubclass(each, WireModel):
                yield from fields(each)


@pytest.mark.parametrize(("model", "name"), [*fields(Settings)], ids=lambda value: getattr(value, "__name__", value))
def test_every_setting_is_read(model: type[WireModel], name: str) -> None:
    assert name in attributes_read("core/resources/settings.py"), f"{model.__name__}.{name} changes nothing"


@pytest.mark.parametrize(("model", "name"), [*fields(Settings)], ids=lambda value: getattr(value, "__name__", value))
def test_every_setting_stands_in_the_documentation(model: type[WireModel], name: str) -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")))
    assert re.search(rf"""[`"]([a-zA-Z.]+\.)?{to_camel(name)}[`"]""", pages), (
        f"{model.__name__}.{name} is not documented"
    )


@pytest.mark.parametrize("name", [name for name in vars(SessionHooks) if not name.startswith("_")])
def test_every_hook_is_called_by_the_session(name: str) -> None:
    assert name in attributes_read("core/session/hooks.py", "extend/host.py")


@pytest.mark.parametrize(
    "name", sorted({action.dest for action in arguments._parser()._actions} - ACCEPTED_ONLY - TAKEN_BY_ARGPARSE)
)
def test_every_option_of_the_command_line_is_read(name: str) -> None:
    source = inspect.getsource(cli) + inspect.getsource(arguments)
    assert f"options.{name}" in source


@pytest.mark.parametrize("field", sorted({option.field for option in OPTIONS}))
def test_every_option_of_the_magic_is_read(field: str) -> None:
    assert field in attributes_read("front/notebook/magic/options.py")


@pytest.mark.parametrize("name", sorted(subcommand.name for subcommand in SUBCOMMANDS))
def test_every_sub_command_of_the_magic_is_carried_out(name: str) -> None:
    assert name in strings_compared_or_listed()
