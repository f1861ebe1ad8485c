"""Rows of data, and the prompts that are made of them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as some

from indus_nb.base.errors import UsageError
from indus_nb.fanout import Template, table_of


@dataclass
class Point:
    x: int
    y: float


class Pair(NamedTuple):
    x: int
    y: int


@pytest.mark.parametrize(
    ("text", "row", "prompt"),
    [
        ("no column", {"a": 1}, "no column"),
        ("{a}{b} and {a}", {"a": 1, "b": "x"}, "1x and 1"),
        ("{ the text }", {"the text": "x"}, "x"),
        ("{{a}} {a}", {"a": "x"}, "{a} x"),
        ("{a.__class__} {a[0]}", {"a.__class__": 1, "a[0]": 2}, "1 2"),
        ("{a}|{b}|{c}|{d}", {"a": None, "b": [1, "é"], "c": {"k": None}, "d": True}, '|[1,"é"]|{"k":null}|True'),
    ],
)
def test_columns_are_put_where_their_names_stand(text: str, row: dict[str, Any], prompt: str) -> None:
    assert Template(text).fill(row) == prompt


@given(some.text(), some.text())
def test_what_stands_in_a_row_is_data(first: str, second: str) -> None:
    row = {"a": first, "b": second, "secret": "inserted"}
    assert Template("<{a}> <{b}>").fill(row) == f"<{first}> <{second}>"
    assert Template("{a}").fill({"a": "{secret} {a.__class__}", "secret": "x"}) == "{secret} {a.__class__}"


@given(some.text())
def test_any_text_can_be_written_as_a_template(text: str) -> None:
    template = Template(text.replace("{", "{{").replace("}", "}}"))
    assert (template.fill({}), template.columns) == (text, ())


def test_a_missing_column_is_an_error_that_says_which_there_are() -> None:
    with pytest.raises(UsageError, match=r"names \{textt\}, which .* columns are: id, text\."):
        Template("{textt} {id}").check(["id", "text"])
    with pytest.raises(UsageError, match=r"c19 and 80 more\."):
        Template("{x}").check([f"c{number}" for number in range(100)])
    with pytest.raises(UsageError, match=r"This row has no \{b\}"):
        Template("{a}{b}").fill({"a": 1})


@pytest.mark.parametrize("text", ["{", "a\n}", "{}", "{a", "{{a}", "{a{b}}"])
def test_a_lone_brace_is_an_error(text: str) -> None:
    with pytest.raises(UsageError, match=f"lone .* line {text[:2].count(chr(10)) + 1}"):
        Template(text)


def test_a_column_is_named_once_however_often_it_stands_there() -> None:
    assert Template("{b} {a} {b}").columns == ("b", "a")


@pytest.mark.parametrize(
    ("data", "columns", "rows"),
    [
        ([{"a": 1}, {"b": 2}], ("a", "b"), ({"a": 1}, {"b": 2})),
        ({"a": [1, 2], "b": ["x", "y"]}, ("a", "b"), ({"a": 1, "b": "x"}, {"a": 2, "b": "y"})),
        (["x", 2, None], ("item",), ({"item": "x"}, {"item": 2}, {"item": None})),
        ((number for number in (1, 2)), ("item",), ({"item": 1}, {"item": 2})),
        ([Point(1, 2.0), Pair(3, 4)], ("x", "y"), ({"x": 1, "y": 2.0}, {"x": 3, "y": 4})),
        ([(1, [2])], ("item",), ({"item": [1, [2]]},)),
        (
            [{"d": date(2026, 1, 2), "n": Decimal("1.10"), "s": {2, 1}, "i": float("inf")}],
            ("d", "n", "s", "i"),
            ({"d": "2026-01-02", "n": "1.10", "s": [1, 2], "i": None},),
        ),
        ([], (), ()),
    ],
)
def test_rows_of_plain_python(data: object, columns: tuple[str, ...], rows: tuple[dict[str, Any], ...]) -> None:
    table = table_of(data)
    assert (table.columns, table.rows) == (columns, rows)


def test_rows_of_frames() -> None:
    import pandas as pd

    frame = pd.DataFrame(
        {"n": [1, 2], "f": [0.5, None], "t": ["x", None], 3: pd.to_datetime(["2026-01-02", None])}, index=[7, 7]
    )
    first, second = table_of(frame).rows
    assert first == {"n": 1, "f": 0.5, "t": "x", "3": "2026-01-02T00:00:00"}
    assert second == {"n": 2, "f": None, "t": None, "3": None}
    assert table_of(frame["n"]).rows == ({"n": 1}, {"n": 2})
    with pytest.raises(UsageError, match="more than one column 'a'"):
        table_of(pd.DataFrame([[1, 2]], columns=["a", "a"]))


def test_rows_of_arrays() -> None:
    import numpy as np

    assert table_of(np.array([[1, 2], [3, 4]])).rows == ({"item": [1, 2]}, {"item": [3, 4]})
    scalars = [{"a": np.int64(1), "b": np.float32(0.5), "c": np.bool_(True), "d": np.array(2)}]
    assert table_of(scalars).rows == ({"a": 1, "b": 0.5, "c": True, "d": 2},)


@pytest.mark.parametrize("data", ["text", b"bytes", 5, {"a": 1}, {"a": [1], "b": [1, 2]}])
def test_what_is_no_data_is_an_error(data: object) -> None:
    with pytest.raises(UsageError):
        table_of(data)


def test_a_value_that_holds_itself_ends() -> None:
    value: list[object] = []
    value.append(value)
    assert table_of([value]).columns == ("item",)


def test_no_library_of_frames_is_imported() -> None:
    code = (
        "import sys; from indus_nb.fanout import table_of; table_of([{'a': 1}]); "
        "print(sys.modules.keys() & {'pandas', 'numpy', 'polars', 'pyarrow'})"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
