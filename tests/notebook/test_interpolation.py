"""Values of variables in prompts."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from work import grows_with

from indus_nb.kernel.values.interpolation import Computed, interpolate, named_values


class Frame:
    shape = (3, 2)


class Pair(NamedTuple):
    left: str
    right: int


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
        "sales": {"a": "first", "}": "odd"},
        "pair": Pair("left", 5),
        "_": "last",
        "In": ["secret"],
        "open": open,
        "größe": 9,
    }


COMPUTED = {
    "{len(items)}": Computed("2"),
    "{dict([(1, x)])}": Computed("{1: 2}"),
    "{sorted(items, reverse=True)}": Computed("[2, 1]"),
    "{x + 1}": Computed("3"),
}


def put_in(text: str) -> str:
    return interpolate(text, variables(), repr, COMPUTED).text


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
        ("{sales['a']}", "first"),
        ('{sales["}"]}', "odd"),
        ("{items[1:2]}", "[2]"),
        ("{pair.left} {pair[1]}", "left 5"),
        ("{len(items)}", "2"),
        ("{ {1: x}[1]}", "{ {1: x}[1]}"),
        ("{dict([(1, x)])}", "{1: 2}"),
        ("{sorted(items, reverse=True)}", "[2, 1]"),
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
    ("text", "why"),
    [
        ("{name:.2f}", "ValueError"),
        ("{items[5]}", "IndexError"),
        ("{sales['b']}", "KeyError: 'b'"),
        ("$broken", "RuntimeError: no text"),
        ("{broken}", "RuntimeError: no text"),
        ("{items.pop()}", "it has to be computed"),
        ("{[v for v in items]}", "it has to be computed"),
    ],
)
def test_an_expression_that_fails_stays_as_it_was_typed_and_is_told(text: str, why: str) -> None:
    def render(value: object) -> str:
        if isinstance(value, Frame):
            raise RuntimeError("no text")
        return repr(value)

    said = interpolate(f"so {text} and {{x}}", {**variables(), "broken": Frame()}, render)
    assert said.text == f"so {text} and 2"
    assert said.missing == []
    assert [*said.kept] == [text]
    assert why in said.kept[text]


def test_what_would_stand_for_values_can_be_listed_without_looking_at_them() -> None:
    text = "{df.shape} $x {items.pop()} {nothing} {{x}} $$x `{x}` {df.shape}"
    assert named_values(text, variables()) == ["{df.shape}", "$x", "{items.pop()}"]


def test_a_description_of_several_lines_comes_with_the_name_of_what_it_describes() -> None:
    def shown(text: str) -> str:
        return interpolate(text, variables(), lambda value: f"{type(value).__name__}:\n2 rows").text

    assert shown("why is $df odd?") == "why is df (Frame:\n2 rows) odd?"
    assert shown("{df}") == "df (Frame:\n2 rows)"
    assert shown("$name {df.shape}") == "Ada tuple:\n2 rows"


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
