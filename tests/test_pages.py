"""The pages about settings, options, variables and extras name all that there are, and nothing else.

``INDUS_NB_WRITE_DOCS=1 python -m pytest tests/test_pages.py`` writes docs/cli.md anew, and in docs/settings.md what is
known of each key; what a key is for stands there alone.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from indus_nb.base.variables import NAMES
from indus_nb.core.resources import settings as declared
from indus_nb.core.resources.sandbox_settings import SandboxSettings
from indus_nb.front.console import arguments, evaluating, rows, setup
from indus_nb.models import ambient
from indus_nb.safety.key_variables import KEY_VARIABLES
from indus_nb.tools.argument_schemas import schema_of

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ROW = re.compile(r"^\| `([A-Za-z.]+)` \|.*\| ([^|]*) \|$", re.MULTILINE)
WRITES = bool(os.environ.get("INDUS_NB_WRITE_DOCS"))

# Settings


def keys(schema: dict[str, Any], kinds: dict[str, Any], before: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each key with its schema, those of objects by their whole names."""
    for name, field in schema["properties"].items():
        if "$ref" in field:
            yield from keys(kinds[field["$ref"].rsplit("/", 1)[1]], kinds, f"{before}{name}.")
        elif before + name == "sandbox":
            yield from keys(schema_of(SandboxSettings), {}, "sandbox.")
        else:
            yield before + name, field


def kind(field: dict[str, Any]) -> str:
    if "anyOf" in field:
        described = [kind(choice) for choice in field["anyOf"] if choice.get("type") != "null"]
        is_empty_allowed = len(described) < len(field["anyOf"]) and field.get("default") is not None
        return " or ".join([*described, *(["`null`"] if is_empty_allowed else [])])
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if field.get("type") == "array":
        return f"list of {kind(field['items'])}" if "enum" in field["items"] else f"list of {field['items']['type']}s"
    if "minimum" in field:
        return f"{field['type']} from {field['minimum']}" + (f" to {field['maximum']}" if "maximum" in field else "")
    return f"{field['type']} above {field['exclusiveMinimum']}" if "exclusiveMinimum" in field else field["type"]


def default(field: dict[str, Any]) -> str:
    value = field.get("default", {"array": [], "object": {}}.get(field.get("type", "")))
    return "not set" if value is None else f"`{json.dumps(value)}`"


def of_project(key: str) -> str:
    """What a project can make of a setting."""
    first = key.partition(".")[0]
    if first in declared._NEVER:
        return "no"
    if first in declared._HARMLESS:
        return "yes"
    if first in ("approve", "effects", "sandbox"):
        return "stricter"
    tells = first != "notebook" or key.startswith("notebook.tell")
    return "if trusted, else stricter" if first in declared._STRICTER and tells else "if trusted"


def test_the_page_of_settings_has_each_key_with_its_type_and_default() -> None:
    page = DOCS / "settings.md"
    schema = schema_of(declared.Settings)
    known = dict(keys(schema, schema["$defs"]))

    def row(found: re.Match[str]) -> str:
        if found[1] not in known:
            return found[0]
        field = known[found[1]]
        return f"| `{found[1]}` | {kind(field)} | {default(field)} | {of_project(found[1])} | {found[2]} |"

    text = page.read_text(encoding="utf-8")
    wanted = ROW.sub(row, text)
    if WRITES:
        page.write_text(wanted, encoding="utf-8")
        text = wanted
    assert text == wanted, __doc__
    assert sorted(found[1] for found in ROW.finditer(text)) == sorted(known)
    assert not [found[1] for found in ROW.finditer(text) if not found[2].strip()]


def test_the_readme_names_settings_that_there_are() -> None:
    known = set(schema_of(declared.Settings)["properties"])
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = text.split("| key in `settings.json` |")[1].split("\n\n")[0].splitlines()[2:]
    named = [name.partition(".")[0] for line in table for name in re.findall(r"`([\w.]+)`", line.split("|")[1])]
    assert named
    assert set(named) <= known


# Options of the console

HEAD = """# Options of the console program

`indus-nb` is the program; `indusagi` is an alias of it, for clients of the protocol's family that start it by that
name. `indus-nb --help` shows this page's first part, `indus-nb map --help`, or `indus-nb help map`, and so on the
others. Prompts stand side by side, before or behind the options; behind `--` everything is a prompt. An option that is
not listed is one of an [extension](extensions.md), written `--NAME` or `--NAME=VALUE`.

| exit status | when |
|---|---|
| 0 | the answer ended well, or what was asked for was done; with `map`: every row has an answer |
| 1 | it failed, or a [limit](limits.md) ended it; with `map`: some rows have no answer |
| 2 | the call was wrong: nothing was asked |
| 128+N | signal N ended it |

The answer goes to standard output, what else is to be said to standard error. `indus-nb doctor` prints what is set up
and what is wrong.
"""


def parsers() -> list[argparse.ArgumentParser]:
    return [arguments._parser(), rows._parser(), setup._parser(), evaluating._parser(), evaluating._comparing_parser()]


def options(parser: argparse.ArgumentParser) -> str:
    """A section about a command, with a table for each group of its options."""
    parts = [f"\n## `{parser.prog}`\n"]
    if parser.description:
        parts.append(f"\n{parser.description}\n")
    for group in parser._action_groups:
        shown = [option_row(each) for each in group._group_actions if each.help != argparse.SUPPRESS]
        if shown:
            heading = "" if group.title in ("positional arguments", "options") else f"\n### {group.title}\n"
            head = "argument" if group.title == "positional arguments" else "option"
            parts.append("\n".join([heading, f"| {head} | what it does |", "|---|---|", *shown, ""]))
    return "".join(parts)


def option_row(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else str(action.metavar or action.dest.upper()).replace("|", " or ")
    value = f"[{value}]" if action.nargs == "?" else value
    names = [f"{name} {value}".strip() for name in action.option_strings] or [value]
    what = (action.help or "").replace("*", "\\*")
    if action.choices:
        what += f": {', '.join(f'`{choice}`' for choice in action.choices)}"
        what += f" (`{action.default}` unless given)" if action.default else ""
    return f"| {', '.join(f'`{name}`' for name in names)} | {what} |"


def test_the_page_of_options_is_up_to_date() -> None:
    page = DOCS / "cli.md"
    wanted = HEAD + "".join(map(options, parsers()))
    if WRITES:
        page.write_text(wanted, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == wanted, __doc__


# Variables of the environment

READ = re.compile(
    r"""environ(?:ment)?(?:\.get\(|\[)\s*"([A-Z][A-Z0-9_]+)"|"([A-Z][A-Z0-9_]+)"\s+in\s+os\.environ"""
    r"""|\b(INDUS_(?:NB_)?[A-Z_]*[A-Z])\b"""
)
NOT_READ = {
    "INDUS_NB_WRITE_DOCS": "docstrings tell who changes a declaration what to run",
    "HOME": "where programs are started it is theirs",
    "PATH": "the same",
    "AWS_PROFILE": "AWS's own",
    "GIT_CONFIG_COUNT": "git's own, for commands that are tried",
    "GIT_CONFIG_GLOBAL": "the same",
    "LD_LIBRARY_PATH": "the loader's own, the same",
    "LOKY_MAX_CPU_COUNT": "set in a copy of the kernel",
    "MY_TOKEN": "an example",
}


def variables() -> set[str]:
    """The variables that the package reads or names."""
    found = {name for names in KEY_VARIABLES.values() for name in names}
    found.update(f"INDUS_NB_{name}" for name in NAMES)
    found.update(*ambient._AWS[:2], ambient.GOOGLE_PROJECT, ambient.FOUNDRY_PLACE)
    for path in (ROOT / "indus_nb").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        found.update(name for names in READ.findall(text) for name in names if name)
    return found - NOT_READ.keys()


def test_the_page_of_variables_names_each_that_the_package_reads() -> None:
    named = set(re.findall(r"`([A-Z][A-Z0-9_]+)(?:=[^`]*)?`", (DOCS / "environment.md").read_text(encoding="utf-8")))
    known = variables()
    assert sorted(known - named) == []
    ours = {name for name in named if name.startswith("INDUS_")} - {"INDUS_NB_"}
    assert sorted(ours - known) == []


# Extras


def test_the_page_about_installing_names_each_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = set(project["optional-dependencies"]) - {"test", "docs"}
    page = (DOCS / "installation.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)) == wanted
    pages = "".join(path.read_text(encoding="utf-8") for path in DOCS.glob("*.md"))
    for names in re.findall(r'pip install "\.\[([\w,-]+)\]"', pages):
        assert set(names.split(",")) <= set(project["optional-dependencies"]), names
