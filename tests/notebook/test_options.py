"""Options and sub-commands of ``%agent`` as they are declared, and all that is made of them.

``INDUS_NB_WRITE_DOCS=1 python -m pytest tests/notebook/test_options.py`` writes the tables of docs/notebook.md anew.
"""

from __future__ import annotations

import inspect
import os
import re
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from indus_nb.base.errors import UsageError
from indus_nb.fanout.agent import Agent
from indus_nb.front.notebook.magic.completion import Sources, complete
from indus_nb.front.notebook.magic.options import (
    HELP,
    MAP_HELP,
    MAP_OPTIONS,
    OPTIONS,
    SUBCOMMANDS,
    Kind,
    Option,
    Subcommand,
    find_option,
)
from indus_nb.front.notebook.magic.request import Command, Request, parse
from indus_nb.models.registry import ModelRegistry

PAGE = Path(__file__).parents[2] / "docs" / "notebook.md"
VALUES = {Kind.NUMBER: "3", Kind.VARIABLE: "answer", Kind.DOLLARS: "0.5"}


def described(declared: Option | Subcommand) -> str:
    return f"{declared.help} ([{declared.page}.md]({declared.page}.md))" if declared.page else declared.help


def options_table() -> str:
    rows = [f"| `{option.usage}` | {described(option)} |" for option in OPTIONS if option.help]
    return "\n".join(["| option | what it does |", "|---|---|", *rows])


def commands_table() -> str:
    rows = [
        f"| `%agent {f'{command.name} {command.usage}'.strip()}` | {described(command)} |" for command in SUBCOMMANDS
    ]
    return "\n".join(["| command | what it does |", "|---|---|", *rows])


def test_the_tables_of_the_manual_are_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    written = page
    for table in (options_table(), commands_table()):
        head = re.escape(table.split("\n", 1)[0])
        assert len(re.findall(rf"^{head}$", written, re.MULTILINE)) == 1
        written = re.sub(rf"^{head}\n(?:\|.*\n)+", lambda _, table=table: f"{table}\n", written, flags=re.MULTILINE)
    if os.environ.get("INDUS_NB_WRITE_DOCS"):
        PAGE.write_text(written, encoding="utf-8")
        page = written
    assert page == written, __doc__


def test_the_help_names_every_option_and_sub_command_and_fits_on_a_page() -> None:
    for option in OPTIONS:
        assert f"\n{option.usage} " in HELP
    for command in SUBCOMMANDS:
        assert f"\n%agent {command.name} " in HELP
    assert max(map(len, HELP.splitlines())) <= 110


def test_names_are_unique() -> None:
    names = [name for option in OPTIONS for name in (option.name, option.short) if name]
    names += [command.name for command in SUBCOMMANDS if command.as_option]
    assert len(names) == len({*names})
    assert len(SUBCOMMANDS) == len({command.name for command in SUBCOMMANDS})


def test_every_option_sets_a_field_and_every_field_has_its_option() -> None:
    declared = {option.field for option in OPTIONS}
    assert sorted([*declared, "text", "command", "rows", "doubt", "may_be_command"]) == sorted(
        field.name for field in fields(Request)
    )
    for option in OPTIONS:
        value = option.choices[0] if option.choices else VALUES.get(option.kind, "x")
        line = f"--{option.name} {value if option.value else ''}"
        default = next(field.default for field in fields(Request) if field.name == option.field)
        assert default is not MISSING
        assert getattr(parse(line), option.field) != default
        if option.short:
            assert parse(line.replace(f"--{option.name}", f"-{option.short}")) == parse(line)


def test_every_option_of_map_is_one_of_the_function_and_in_its_help() -> None:
    taken = inspect.signature(Agent.map).parameters
    for option in MAP_OPTIONS:
        assert option.field in taken or option.name == "output"
        assert f"\n{option.usage} " in MAP_HELP
    left_out = {"self", "template", "data", "system_prompt", "progress"}
    assert {option.field for option in MAP_OPTIONS} - {"output"} == taken.keys() - left_out
    assert max(map(len, MAP_HELP.splitlines())) <= 120


def test_every_sub_command_is_parsed_by_its_name_and_some_as_options() -> None:
    for command in SUBCOMMANDS:
        assert parse(command.name) == Request(command=Command(command.name))
        if command.as_option:
            assert parse(f"--{command.name}") == Request(command=Command(command.name))
        else:
            known = find_option(command.name)
            assert known is None or known in OPTIONS


@pytest.mark.parametrize("option", [option for option in OPTIONS if option.choices], ids=lambda option: option.name)
def test_choices_are_the_same_for_parser_and_tab(option, tmp_path: Path) -> None:
    sources = Sources({}, None, ModelRegistry(environment={}), tmp_path)
    offers = complete(f"%agent --{option.name} ", sources)
    assert offers is not None
    assert offers.texts == list(option.choices)
    for choice in option.choices:
        assert getattr(parse(f"--{option.name} {choice}"), option.field) == choice
    with pytest.raises(UsageError, match=rf"--{option.name} other: choose .* or {option.choices[-1]}\."):
        parse(f"--{option.name} other")
