"""What a line or a cell asks for: options, prompts, sub-commands, and values that are put into prompts."""

from __future__ import annotations

import re
from typing import Any

import pytest
from IPython.core.inputtransformer2 import TransformerManager
from work import grows_with

from indus_nb.errors import UsageError
from indus_nb.notebook.magic.request import COMMANDS, HELP, Command, Request, interpolate, literal_lines, parse


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
        ("--name 'the sales' x", Request(name="the sales", text="x")),
        ("--image a.png --image=fig x", Request(images=("a.png", "fig"), text="x")),
        ("--no-wait x", Request(wait=False, text="x")),
        ("--max-cost 0.5 x", Request(max_cost=0.5, text="x")),
        ("--max-cost=$2 x", Request(max_cost=2.0, text="x")),
        ("-o answer x", Request(output="answer", text="x")),
        ("-o=antwört x", Request(output="antwört", text="x")),
        ("--output answer x", Request(output="answer", text="x")),
        ("say --new things", Request(text="say --new things")),
        ("-- --new things", Request(text="--new things")),
        ("--new -- --model x", Request(new=True, text="--model x")),
        ("--- a rule", Request(text="--- a rule")),
        ("-x", Request(text="-x")),
        ("- o no option", Request(text="- o no option")),
        ("-only", Request(text="-only")),
        ("'quoted' \"text\"", Request(text="'quoted' \"text\"")),
    ],
)
def test_options_stand_in_front_and_the_rest_is_the_prompt(line: str, request_: Request) -> None:
    assert parse(line) == request_


def test_a_cells_prompt_is_its_lines_and_what_stands_behind_the_options() -> None:
    assert parse("--new", "\n  a\n\n  b\n") == Request(new=True, text="  a\n\n  b")
    assert parse("--new explain", "x = 1\n") == Request(new=True, text="explain\nx = 1")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--provider", "--provider needs a value"),
        ("--provider --new", "--provider needs a value"),
        ("--provider= x", "--provider needs a value"),
        ("--bad", "no option --bad"),
        ("--modell x", "Did you mean --model?"),
        ("--imge x", "Did you mean --image?"),
        ("--new=yes", "--new takes no value"),
        ("--no-wait=1 x", "--no-wait takes no value"),
        ("--new --session x", "--new and --session exclude each other"),
        ("--approve sometimes x", "choose never, writes or always"),
        ("--thinking hard x", "Unknown thinking level: hard"),
        ("--name ' ' x", "--name needs a name"),
        ("-o", "-o needs a value: -o VALUE"),
        ("-o 2x y", "-o 2x: that is no name of a variable"),
        ("--output class y", "no name of a variable"),
        ("-o a.b y", "no name of a variable"),
        ("--max-cost much x", "--max-cost much: give an amount"),
        ("--max-cost 0 x", "above zero"),
        ("--max-cost nan x", "above zero"),
        ("--max-cost inf x", "above zero"),
        ("--doctor why?", "--doctor goes with no prompt"),
    ],
)
def test_a_mistake_is_named(line: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(line)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("line", "name", "argument"),
    [
        ("model", "model", ""),
        ("model sonnet:high", "model", "sonnet:high"),
        ("thinking", "thinking", ""),
        ("thinking high", "thinking", "high"),
        ("compact", "compact", ""),
        ("compact --", "compact", ""),
        ("compact -- keep the numbers", "compact", "keep the numbers"),
        ("fork", "fork", ""),
        ("fork 0a1b2c3d", "fork", "0a1b2c3d"),
        ("tree", "tree", ""),
        ("tree 0a1b2c3d", "tree", "0a1b2c3d"),
        ("sessions", "sessions", ""),
        ("sessions sales", "sessions", "sales"),
        ("stats", "stats", ""),
        ("export", "export", ""),
        ("export report.html", "export", "report.html"),
        ("export 'my report.jsonl'", "export", "my report.jsonl"),
        ("abort", "abort", ""),
        ("steer", "steer", ""),
        ("steer leave the tests alone?", "steer", "leave the tests alone?"),
        ("queue", "queue", ""),
        ("queue clear", "queue", "clear"),
        ("panel", "panel", ""),
        ("doctor", "doctor", ""),
        ("--doctor", "doctor", ""),
        ("help", "help", ""),
        ("  stats  ", "stats", ""),
    ],
)
def test_a_line_that_fits_is_a_sub_command(line: str, name: str, argument: str) -> None:
    assert parse(line) == Request(command=Command(name, argument))


def test_options_may_stand_in_front_of_a_sub_command() -> None:
    assert parse("--continue tree") == Request(continue_last=True, command=Command("tree"))


@pytest.mark.parametrize(
    "line",
    [
        "model the sales as a tree",
        "model?",
        "Model",
        "thinking aloud",
        "thinking high and low",
        "compact the data frame",
        "compact: keep the numbers",
        "compact --keep",
        "fork this",
        "fork facade",
        "tree 0a1b2c3d and so on",
        "tree view of the folder",
        "sessions of last week",
        "stats about the frame",
        "export the frame to csv",
        "export frame.csv",
        "export the frame.html",
        "export 'a b.html",
        "abort the loop",
        "queue clear all",
        "queue theory",
        "panel data",
        "doctor who",
        "help me",
        "helper",
        "say stats",
        "/stats",
    ],
)
def test_a_line_that_only_begins_like_a_sub_command_is_a_prompt(line: str) -> None:
    assert parse(line) == Request(text=line)
    assert parse(f"-- {line}") == Request(text=line)


def test_a_sub_command_is_a_prompt_behind_two_dashes_and_in_a_cell() -> None:
    for name in COMMANDS:
        assert parse(f"-- {name}") == Request(text=name)
        assert parse("", f"{name}\n") == Request(text=name)
        assert parse(name, "\n") == Request(text=name)


def test_the_help_names_every_sub_command_and_fits_on_a_page() -> None:
    for name in COMMANDS:
        assert f"\n%agent {name} " in HELP
    assert max(map(len, HELP.splitlines())) <= 110


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


class Frame:
    shape = (3, 2)

    def __repr__(self) -> str:
        return "<frame>"

    def __getitem__(self, key: object) -> str:
        return f"column {key}"


def variables() -> dict[str, Any]:
    return {
        "x": 2,
        "y": 3.14159,
        "i": 1,
        "n": 7,
        "color": "blue",
        "name": "Ada",
        "text": "a {x} $x",
        "items": [1, 2],
        "df": Frame(),
        "_": "last",
        "In": ["secret"],
        "open": open,
        "größe": 9,
    }


def put_in(text: str) -> str:
    return interpolate(text, variables(), repr).text


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("{x}", "2"),
        ("{name}", "Ada"),
        ("{name!r}", "'Ada'"),
        ("{y:.2f}", "3.14"),
        ("{y!s:>9}", "  3.14159"),
        ("{x:03d}", "002"),
        ("{df.shape}", "(3, 2)"),
        ("{df['a']}", "column a"),
        ('{df["}"]}', "column }"),
        ("{df[1:2]}", "column slice(1, 2, None)"),
        ("{len(items)}", "2"),
        ("{[v + x for v in items]}", "[3, 4]"),
        ("{ {1: x}[1]}", "{ {1: x}[1]}"),
        ("{dict(a={1: x})}", "{'a': {1: 2}}"),
        ("{sorted(items, key=lambda v: -v)}", "[2, 1]"),
        ("{x + 1} of {n}", "3 of 7"),
        ("file_{i}.csv", "file_1.csv"),
        ("{größe} $größe", "9 9"),
        ("{_}", "last"),
        ("{In[0]}", "secret"),
        ("{text}", "a {x} $x"),
        ('{"a": {x}}', '{"a": 2}'),
        ("$x", "2"),
        ("$x, $y.", "2, 3.14159."),
        ("($x)", "(2)"),
        ("is it $name?", "is it Ada?"),
        ("$x/$n and $x-$n", "2/7 and 2-7"),
        ("pay $5 or $x", "pay $5 or 2"),
        ("{{x}} {{len(items)}}", "{x} {len(items)}"),
        ("$$x", "$x"),
        ("don't {x}, can't", "don't 2, can't"),
        ("a ` and {x}", "a ` and 2"),
        ("a ` and\n\n{x} `", "a ` and\n\n2 `"),
        ("`a` {x} `b`", "`a` 2 `b`"),
        ("```\n{x}\n```\n{x}", "```\n{x}\n```\n2"),
        ("a ``` b\n```\n{x}\n```\n{x}", "a ``` b\n```\n{x}\n```\n2"),
    ],
)
def test_a_value_takes_the_place_of_what_names_it(text: str, result: str) -> None:
    assert put_in(text) == result


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "{ x }",
        "{x",
        "x}",
        "{\nx}",
        "{1}",
        "{'x'}",
        "{x, n}",
        "{(x, n), n}",
        "{x: 1}",
        "{x: n, n: x}",
        "{'x': x}",
        '{"a": 1, "b": [x]}',
        "{k: v for k, v in items}",
        "{v for v in items}",
        "{*items}",
        "{x := 5}",
        "{lambda: undefined}",
        "{await x}",
        "{x = }",
        "{x;}",
        "{return x}",
        "{if}",
        "{id} {type} {max(1, 2)}",
        "{nothing} $nothing",
        "{{nothing}} {{ x }} {{{x}}} {{x}",
        "a {color: red} {x:5;}",
        "import { x } from 'y'; const { n } = x",
        "function () { return x }",
        "${x} ${name}",
        "$HOME $5 $ $$ $$$x US$x a$x df$x",
        r"\{x\} \$x",
        "$x$ $x + y$ $x_{i} = {n}$ $$x$$ $$\nx = {n}\n$$",
        "$x$y",
        r"\frac{x}{n} \sqrt[n]{x} \text{x} \frac{\sqrt{x}}{n}",
        "e^{x}",
        "`{x} $x` ``{x} ` $x``",
        "`{x}\n$x`",
        "```python\n{x} $x\n```",
        "~~~\n{x}\n```\n$x\n~~~",
        "- list\n  ```\n  {x}\n  ```",
        "```\n{x} never closed",
        "````\n```\n{x}\n````",
        "$_ $In $open",
        "{" + "x+" * 200 + "x}",
        "{" + "(" * 250 + "x" + ")" * 250 + "}",
    ],
)
def test_what_names_no_value_stays_as_it_was_typed(text: str) -> None:
    assert put_in(text) == text


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("{nothing} {nothing} {df.a(other)}", ["nothing", "df.a(other)"]),
        ("{x} $nothing ${nothing} {{nothing}} `{nothing}` {'a': 1} {id} { nothing } $nothing_{i}$", []),
        ("{nothing:.2f}", ["nothing:.2f"]),
        ("{[v for v in rows]}", ["[v for v in rows]"]),
    ],
)
def test_expressions_that_name_what_is_not_defined_are_told(text: str, missing: list[str]) -> None:
    assert interpolate(text, variables(), repr).missing == missing


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("so {1 / (x - 2)} it is", ["{1 / (x - 2)}", "ZeroDivisionError: division by zero", "{{1 / (x - 2)}}"]),
        ("{name:.2f}", ["{name:.2f}", "ValueError"]),
        ("{items[5]}", ["{items[5]}", "IndexError"]),
        ("$broken", ["$broken", "RuntimeError: no text", "$$broken"]),
        ("{broken}", ["{broken}", "RuntimeError: no text", "{{broken}}"]),
        ("{items.pop()}", ["{items.pop()}", "This changes your variable items.", "{{items.pop()}}"]),
    ],
)
def test_an_expression_that_fails_is_named_and_nothing_is_sent(text: str, parts: list[str]) -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no text")

    with pytest.raises(UsageError) as caught:
        interpolate(text, {**variables(), "broken": Broken()}, repr)
    for part in [*parts, "Nothing was sent"]:
        assert part in str(caught.value)


def test_strings_are_not_rendered_and_other_values_are() -> None:
    said = interpolate("{name} $name {df} $df", variables(), lambda value: f"<{type(value).__name__}>").text
    assert said == "Ada Ada <Frame> <Frame>"


@pytest.mark.parametrize(
    "unit", ["{", "{x ", "{{", "`", "`` ", "$", "$x ", "$x$", "\\a{", "^{", "```\n", "{'", "\n", " ", "{a b} "]
)
def test_long_texts_of_signs_are_no_more_work_than_they_are_long(unit: str) -> None:
    assert grows_with(2_000, lambda length: put_in(unit * (length // len(unit)))) < 2.5


def test_different_runs_of_backticks_are_no_more_work_than_they_are_long() -> None:
    def put_in_runs(count: int) -> None:
        text = " ".join("`" * length for length in range(1, count))
        assert put_in(text) == text

    assert grows_with(200, put_in_runs) < 4.5  # twice the runs are four times the text


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("sesions", "Did you mean `%agent sessions`?"),
        ("compct", "Did you mean `%agent compact`?"),
        ("fork 6590", "at least eight characters"),
        ("-provider offline", "two dashes: --provider"),
    ],
)
def test_what_nearly_is_a_command_is_not_sent(line: str, hint: str) -> None:
    with pytest.raises(UsageError, match=re.escape(hint)):
        parse(line)
    assert parse(f"-- {line}").text == line
    assert parse("", line).text == line


@pytest.mark.parametrize("line", ["three", "more", "stat", "thinking aloud", "help me"])
def test_a_word_or_two_that_may_be_an_answer_are_a_prompt(line: str) -> None:
    assert parse(line).text == line


@pytest.mark.parametrize("line", ["--help", "-h", "?", "help"])
def test_help_is_found_however_it_is_asked_for(line: str) -> None:
    assert parse(line).command == Command("help")
