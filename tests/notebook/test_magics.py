"""What a line or a cell asks for, and what importing and loading bring along."""

from __future__ import annotations

import subprocess
import sys

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from indus_nb.errors import UsageError
from indus_nb.notebook.magics import Request, literal_lines, parse


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        ("hello", Request(text="hello")),
        ("  two  words  ", Request(text="two  words")),
        ("--provider offline", Request(provider="offline")),
        ("--provider=offline hi", Request(provider="offline", text="hi")),
        ("--model 'a b' --new hi", Request(model="a b", new=True, text="hi")),
        ('--session "my file.jsonl"', Request(session="my file.jsonl")),
        ("--continue", Request(continue_last=True)),
        ("--no-session --tools read,ls x", Request(no_session=True, tools="read,ls", text="x")),
        ('--new --tools "" x', Request(new=True, tools="", text="x")),
        ("say --new things", Request(text="say --new things")),
        ("-- --new things", Request(text="--new things")),
        ("--new -- --model x", Request(new=True, text="--model x")),
        ("--- a rule", Request(text="--- a rule")),
        ("-x", Request(text="-x")),
        ("'quoted' \"text\"", Request(text="'quoted' \"text\"")),
    ],
)
def test_options_stand_in_front_and_the_rest_is_the_prompt(line: str, request_: Request) -> None:
    assert parse(line) == request_


def test_a_cells_prompt_is_its_lines_and_what_stands_behind_the_options() -> None:
    assert parse("--new", "\n  a\n\n  b\n") == Request(new=True, text="  a\n\n  b")
    assert parse("--new explain", "x = 1\n") == Request(new=True, text="explain\nx = 1")


@pytest.mark.parametrize(
    "line", ["--provider", "--provider --new", "--provider= x", "--bad", "--new=yes", "--new --session x"]
)
def test_mistakes_are_named(line: str) -> None:
    with pytest.raises(UsageError, match="--"):
        parse(line)


def transformed(cell: str) -> list[tuple[str, str, str | None]]:
    """The magics that IPython would call for a cell."""
    manager = TransformerManager()
    manager.cleanup_transforms.append(literal_lines)
    calls: list[tuple[str, str, str | None]] = []

    class Shell:
        def run_line_magic(self, name, line):
            calls.append((name, line, None))

        def run_cell_magic(self, name, line, body):
            calls.append((name, line, body))

    exec(manager.transform_cell(cell), {"get_ipython": Shell})
    return calls


@pytest.mark.parametrize(
    "text",
    [
        "is it?",
        "is it??",
        "isn't it",
        'say "x',
        "an odd (bracket",
        "[list",
        "{x} $y",
        "a = b",
        "# no comment",
        "a ; b;",
    ],
)
def test_a_line_reaches_the_magic_as_it_was_typed(text: str) -> None:
    assert transformed(f"%agent {text}") == [("agent", text, None)]
    assert transformed(f"if True:\n    %agent {text}\nx = 1\n%agent {text}\n") == [("agent", text, None)] * 2


def test_lines_that_are_not_ours_stay_as_they_were() -> None:
    assert transformed("%agents x\n%agent\n") == [("agents", "x", None), ("agent", "", None)]
    assert transformed("s = '''\n%agent is it?\n'''") == []
    assert transformed("%%other\n%agent is it?\n") == [("other", "", "%agent is it?\n")]
    assert transformed("%%agent --new\n%agent is it?\n") == [("agent", "--new", "%agent is it?\n")]
    assert transformed("%agent one \\\ntwo") == [("agent", "one  two", None)]


def test_importing_the_package_loads_neither_ipython_nor_an_sdk_nor_widgets() -> None:
    program = (
        "import sys, indus_nb\n"
        "heavy = {'IPython', 'anthropic', 'ipywidgets', 'pydantic', 'PIL', 'markdown_it', 'nh3', 'pygments'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "indus_nb.open_session, indus_nb.SessionOptions, indus_nb.AgentSession\n"
        "heavy -= {'pydantic'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)
