"""Types of answers: the schemas that models are shown, values that are checked, and types that are none."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union
from uuid import UUID

import pandas as pd
import pytest
from api_rules import Refusal, check_completions, check_messages, check_responses
from pydantic import BaseModel, ConfigDict, Field, create_model
from typing_extensions import TypedDict

from indus_nb.base.errors import UsageError
from indus_nb.core.answers import FRAME, FinalAnswer, InvalidValueError, answer_kind
from indus_nb.core.answers.naming import kind_in, kind_of_option
from indus_nb.core.answers.schemas import tool_schema


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Line(BaseModel):
    model_config = ConfigDict(extra="forbid")
    text: str
    amount: Annotated[Decimal, Field(ge=0)]


class Invoice(BaseModel):
    """An invoice."""

    number: str = Field(alias="invoiceNumber")
    due: date | None = None
    paid_at: Optional[datetime] = None  # noqa: UP045 - as users write it
    colour: Colour = Colour.RED
    lines: list[Line] = []


class Node(BaseModel):
    name: str
    children: list[Node] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str]


@dataclass
class Point:
    x: float
    y: float = 0


class Movie(TypedDict):
    title: str
    year: int


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    when: datetime
    many: tuple[int, ...]


class Odd(BaseModel):
    total: int = Field(alias="grand total €")


def given_to(result: Any, value: Any) -> Any:
    """What comes of a value that a model gives as the tool's only argument, or as all of them."""
    kind = answer_kind(result)
    _, wrapped = tool_schema(kind.schema, kind.name)
    return kind.read(value["answer"] if wrapped else value)


@pytest.mark.parametrize(
    ("result", "arguments", "wanted"),
    [
        (int, {"answer": 42}, 42),
        (str, {"answer": "so"}, "so"),
        (bool, {"answer": False}, False),
        (Literal["a", "b"], {"answer": "b"}, "b"),
        (int | None, {"answer": None}, None),
        (list[Movie], {"answer": [{"title": "Alien", "year": 1979}]}, [{"title": "Alien", "year": 1979}]),
        (dict[str, int], {"answer": {"a b": 1}}, {"a b": 1}),
        (tuple[int, str], {"answer": [1, "a"]}, (1, "a")),
        (Colour, {"answer": "blue"}, Colour.BLUE),
        (UUID, {"answer": "0" * 32}, UUID(int=0)),
        (Decimal, {"answer": "0.10000000000000000000001"}, Decimal("0.10000000000000000000001")),
        (Point, {"x": 1}, Point(1.0)),
        (Movie, {"title": "Alien", "year": "1979"}, {"title": "Alien", "year": 1979}),
        (Node, {"name": "a", "children": [{"name": "b"}]}, Node(name="a", children=[Node(name="b")])),
        (Cat | Dog, {"answer": {"kind": "dog", "tricks": []}}, Dog(kind="dog", tricks=[])),
        (Strict, {"when": "2026-01-02T03:04:05", "many": [1]}, Strict(when=datetime(2026, 1, 2, 3, 4, 5), many=(1,))),  # noqa: DTZ001
        (Odd, {"answer": {"grand total €": 3}}, Odd.model_validate({"grand total €": 3})),
        (
            Invoice,
            {"invoiceNumber": "7", "due": "2026-01-02", "lines": [{"text": "a", "amount": "1.10"}]},
            Invoice(invoiceNumber="7", due=date(2026, 1, 2), lines=[Line(text="a", amount=Decimal("1.10"))]),
        ),
        (
            Annotated[Union[Cat, Dog], Field(discriminator="kind")],  # noqa: UP007 - as users write it
            {"answer": {"kind": "cat", "lives": 9}},
            Cat(kind="cat", lives=9),
        ),
        ({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"a": 1}, {"a": 1}),
        ({"type": "array", "items": {"type": "integer"}}, {"answer": [1]}, [1]),
    ],
)
def test_a_type_makes_a_tool_that_every_api_takes_and_reads_what_the_model_gives(
    result: Any, arguments: Any, wanted: Any
) -> None:
    kind = answer_kind(result)
    schema, _ = tool_schema(kind.schema, kind.name)
    accepted(schema)
    value = given_to(result, arguments)
    assert (value, type(value)) == (wanted, type(wanted))
    assert given_to(result, arguments if "answer" not in arguments else {"answer": kind.to_json(value)}) == wanted


def accepted(schema: dict[str, Any]) -> None:
    """Raise what an API says to a request with a tool of this schema."""
    messages: dict[str, Any] = {"max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
    check_messages({**messages, "tools": [{"name": "answer", "description": "a", "input_schema": schema}]}, 1)
    function = {"name": "answer", "description": "a", "parameters": schema}
    check_completions({**messages, "tools": [{"type": "function", "function": function}]}, 1, "openai")
    check_responses({"input": messages["messages"], "tools": [{"type": "function", **function}]}, 1)


def test_the_rules_of_the_tests_would_notice_a_schema_with_choices_at_the_top() -> None:
    with pytest.raises(Refusal):
        accepted(answer_kind(Cat | Dog).schema)


@pytest.mark.parametrize("result", [Invoice, list[Invoice], Cat | Dog, Decimal, FRAME, list[UUID]])
def test_the_model_is_shown_no_words_that_some_apis_refuse(result: Any) -> None:
    kind = answer_kind(result)
    schema, _ = tool_schema(kind.schema, kind.name)
    shown = json.dumps(schema)
    for word in ('"$ref"', '"$defs"', '"title"', '"discriminator"', "(?", '"format": "date"', '"format": "uuid"'):
        assert word not in shown
    if result is Invoice:
        assert "format: date" in schema["properties"]["due"]["anyOf"][0]["description"]
        assert schema["properties"]["paid_at"]["anyOf"][0]["format"] == "date-time"
        assert schema["properties"]["lines"]["items"]["properties"]["amount"]["type"] == "string"
        assert "at least 0" in shown


def test_a_type_that_holds_itself_keeps_its_references() -> None:
    schema, wrapped = tool_schema(answer_kind(list[Node]).schema, "nodes")
    assert wrapped
    assert schema["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    accepted(schema)


def test_parts_that_are_used_often_stay_references_where_the_schema_would_grow_beyond_measure() -> None:
    fields: dict[str, Any] = {f"field_{number}": (str, ...) for number in range(40)}
    inner = create_model("Inner", **fields)
    outer = create_model("Outer", **{f"part_{number}": (list[inner], ...) for number in range(60)})
    schema, _ = tool_schema(answer_kind(outer).schema, "Outer")
    assert "$defs" in schema
    accepted(schema)


@pytest.mark.parametrize(
    ("result", "value", "problem"),
    [
        (int, "many", "the answer: Input should be a valid integer"),
        (
            Invoice,
            {"invoiceNumber": "1", "lines": [{"text": "a", "amount": -1, "b": 2}]},
            "lines.0.amount: ",
        ),
        (Invoice, {"invoiceNumber": "1", "lines": [{"text": "a", "amount": 1, "b": 2}]}, "lines.0.b: Extra inputs"),
        (Literal["a"], "b", "(given: 'b')"),
        ({"type": "object", "required": ["a"]}, {}, "'a' is a required property"),
        ({"type": "array", "items": {"type": "integer"}}, [1, "b"], "1: 'b' is not of type 'integer'"),
        (
            FRAME,
            {"columns": [{"name": "a", "dtype": "int"}], "records": []},
            "columns.0.dtype: 'int' is none of",
        ),
        (FRAME, {"columns": [{"name": "a", "dtype": "integer"}], "records": [{"a": "x"}]}, "column a: not every value"),
        (FRAME, {"columns": [{"name": "a", "dtype": "integer"}], "records": [{"a": 1.5}]}, "column a: not every value"),
        (FRAME, {"columns": [{"name": "a", "dtype": "boolean"}], "records": [{"a": 1}]}, "column a: not every value"),
        (FRAME, {"columns": [{"name": "a", "dtype": "date"}], "records": [{"a": "soon"}]}, "column a: not every value"),
        (FRAME, {"columns": [], "records": [{"a": [1]}]}, "records.0.a: a cell holds"),
        (FRAME, {"records": []}, "give `columns` and `records`"),
        (FRAME, [], "give `columns` and `records`"),
    ],
)
def test_what_is_wrong_with_a_value_is_said_with_its_place(result: Any, value: Any, problem: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        answer_kind(result).read(value)
    assert problem in str(caught.value)


def test_only_so_many_problems_are_told_each_in_a_line_of_bounded_length() -> None:
    with pytest.raises(InvalidValueError) as caught:
        answer_kind(list[int]).read(["a\nb" * 10_000] * 1000)
    assert caught.value.problems[-1] == "and 980 more"
    assert all("\n" not in each and len(each) < 500 for each in caught.value.problems)


def test_what_a_validator_of_the_users_raises_is_a_problem_too() -> None:
    class Fussy(BaseModel):
        a: int

        def model_post_init(self, _: Any) -> None:
            raise LookupError("not in the list")

    with pytest.raises(InvalidValueError, match="LookupError: not in the list"):
        answer_kind(Fussy).read({"a": 1})


class NoFields:
    pass


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (NoFields, "NoFields cannot be the type of an answer: pydantic knows no fields of"),
        (Callable[[], int], "cannot be the type of an answer: JSON has no such values"),
        ("int", '"int" is a text and no type'),
        (list["Nothing"], "cannot be the type of an answer"),  # noqa: F821 - as a user may write it
        ({"type": "objekt"}, "The JSON schema cannot be used: type: 'objekt' is not valid"),
        ({"type": "object", "x": object()}, "holds what is no JSON"),
        (3, "3 cannot be the type of an answer"),
    ],
)
def test_what_no_schema_can_be_made_of_is_refused_in_plain_words(result: Any, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        FinalAnswer(answer_kind(result))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "arbitrary_types_allowed" not in str(caught.value)


def test_a_schema_that_would_fill_the_request_is_refused() -> None:
    fields: dict[str, Any] = {f"a_field_with_a_long_name_{number}": (str, ...) for number in range(3000)}
    with pytest.raises(UsageError, match=r"its schema has .* bytes, and a request holds at most 100,000"):
        FinalAnswer(answer_kind(create_model("Huge", **fields)))


def test_a_schema_fetches_nothing_that_it_refers_to() -> None:
    kind = answer_kind({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema"}}})
    with pytest.raises(UsageError, match="cannot be used"):
        kind.read({"a": 1})


# --- frames ----------------------------------------------------------------------------------------------------------


def test_a_frame_has_the_columns_in_order_with_the_types_that_were_stated() -> None:
    dtypes = ("string", "integer", "number", "boolean", "date", "category")
    columns = [{"name": name, "dtype": name} for name in dtypes]
    row = {"string": "a", "integer": 1, "number": 2, "boolean": True, "date": "2026-01-02", "category": "x"}
    frame = answer_kind(FRAME).read({"columns": columns, "records": [row, {**row, "extra": 1}]})
    assert list(frame.columns) == [*dtypes, "extra"]
    assert [str(frame[name].dtype) for name in dtypes[1:4]] == ["int64", "float64", "bool"]
    assert (str(frame["date"].dtype).partition("[")[0], str(frame["category"].dtype)) == ("datetime64", "category")
    assert frame["date"][0] == pd.Timestamp("2026-01-02")
    assert answer_kind(pd.DataFrame).to_json(frame)[0]["integer"] == 1


def test_missing_values_of_a_frame_stay_missing_and_an_empty_one_keeps_its_columns() -> None:
    columns = [{"name": name, "dtype": name} for name in ("string", "integer", "boolean", "date", "number")]
    frame = answer_kind(FRAME).read({"columns": columns, "records": [{"integer": 2**60 + 1, "boolean": True}, {}]})
    assert frame.isna().iloc[1].all()
    assert (frame["integer"][0], str(frame["boolean"].dtype)) == (2**60 + 1, "boolean")
    empty = answer_kind(FRAME).read({"columns": columns, "records": []})
    assert (list(empty.columns), len(empty)) == (["string", "integer", "boolean", "date", "number"], 0)


def test_a_frame_without_pandas_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        answer_kind(FRAME)


# --- types as text ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("int", 1),
        ("list[Invoice]", []),
        ("dict[str, list[int]]", {"a": [1]}),
        ("Literal['a', -1]", -1),
        ("int | None", None),
        ("Optional[Decimal]", None),
        ("nested.Invoice.Kind", "red"),
        ("Union[int, str]", "a"),
        ("tuple[int, ...]", [1]),
    ],
)
def test_a_type_is_looked_up_among_the_users_variables(text: str, value: Any) -> None:
    class Nested:
        class Invoice:
            Kind = Colour

    kind_in(text, {"Invoice": Invoice, "nested": Nested}, "--result").read(value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Invoic", "there is no type Invoic here. Did you mean Invoice?"),
        ("list[", "that is no type"),
        ("dict[str,", "in quotes"),
        ("__import__('os').system('true')", "it would run code"),
        ("(lambda: int)()", "it would run code"),
        ("Invoice.nothing", "there is no nothing in Invoice"),
        ("value.real", "in modules and classes only"),
        ("value", "that is a value and no type"),
        ("int[str]", "that is no type"),
        ("x" * 2000, "that is no type"),
    ],
)
def test_a_text_that_names_no_type_is_refused_and_runs_nothing(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        kind_in(text, {"Invoice": Invoice, "value": 3}, "--result")
    assert words in str(caught.value)
    assert str(caught.value).startswith("--result ")


def test_the_word_frame_asks_for_a_frame_whatever_the_variables_are() -> None:
    assert kind_in("frame", {"frame": 3}, "--result").name == FRAME


def test_an_option_may_name_a_module_of_the_working_directory_with_what_stands_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "helper_of_models.py").write_text("NAMES = ('a', 'b')\n")
    (tmp_path / "made_up_models.py").write_text(
        "from __future__ import annotations\nfrom pydantic import BaseModel\nimport helper_of_models\n"
        "class Inner(BaseModel):\n    a: int\nclass Thing(BaseModel):\n    inner: Inner\n"
    )
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    for text in ("made_up_models:Thing", "made_up_models.py:Thing", f"{tmp_path}/made_up_models.py:Thing"):
        assert kind_of_option(text).read({"inner": {"a": 1}}).inner.a == 1
    assert sys.path == path
    for name in ("made_up_models", "helper_of_models", "indus_nb_schema_made_up_models"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no_such_module:Thing", "there is no module no_such_module, neither installed nor here"),
        ("json:Nothing", "there is no Nothing in json"),
        ("missing.json", "the file cannot be read"),
        ("broken.json", "the file is no JSON"),
        ("list.json", "a JSON schema is an object"),
        ("broken.py:Thing", "the module cannot be imported (ZeroDivisionError"),
        ("missing.py:Thing", "there is no module"),
    ],
)
def test_an_option_that_names_nothing_usable_is_refused(
    text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        kind_of_option(text)
    assert words in str(caught.value)
