"""Values of variables in prompts."""

from __future__ import annotations

from typing import Any

import pytest
from work import grows_with

from indus_nb.errors import UsageError
from indus_nb.notebook.magic.interpolation import interpolate


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
