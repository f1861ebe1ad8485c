"""Values on the wire: how they are declared and read, and what is said of one that is rejected."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from indus_nb.base.events import ToolOutput
from indus_nb.base.messages import ImageContent, TextContent, UserMessage
from indus_nb.base.readers import InvalidFieldsError
from indus_nb.base.wire import JsonObject, check_json_depth, dump
from indus_nb.base.wire_model import FrozenModel, WireModel, wire_field


def _no_luck(value: str) -> str:
    if not value.startswith("sk-"):
        raise ValueError("a key begins with sk-")
    return value


class _Key(WireModel):
    key_value: str = wire_field(check=_no_luck)
    uses_left: int = 1


class _Account(WireModel):
    keys: list[_Key]

    def __post_init__(self) -> None:
        if not self.keys:
            raise ValueError("there is no key")


def _error(value: Any) -> InvalidFieldsError:
    with pytest.raises(InvalidFieldsError) as caught:
        _Account.from_wire(value)
    return caught.value


def test_a_problem_names_the_keys_as_they_stand_in_the_file() -> None:
    error = _error({"keys": [{"keyValue": "sk-1"}, {"keyValue": "sk-2", "usesLeft": "many"}]})
    assert error.within("accounts.me")[0].path == "accounts.me.keys.1.usesLeft"
    assert str(error).startswith("`keys.1.usesLeft` is wrong: Input should be a valid integer")


def test_a_checks_own_words_are_the_reason() -> None:
    assert str(_error({"keys": [{"keyValue": "hunter2"}]})) == "`keys.0.keyValue` is wrong: a key begins with sk-"
    [problem] = _error({"keys": []}).problems
    assert (problem.path, problem.reason, str(problem)) == ("", "there is no key", "it is wrong: there is no key")


def test_every_problem_is_there_in_the_order_of_the_fields() -> None:
    problems = _error({"keys": [{"usesLeft": None}, {"keyValue": 5}]}).problems
    assert [(problem.path, problem.kind) for problem in problems] == [
        ("keys.0.keyValue", "missing"),
        ("keys.0.usesLeft", "value"),
        ("keys.1.keyValue", "value"),
    ]


def test_what_was_given_shows_neither_as_text_nor_in_a_debugger() -> None:
    [problem] = _error({"keys": [{"keyValue": "hunter2"}]}).problems
    assert problem.value == "hunter2"
    assert "hunter2" not in f"{problem}{problem!r}"


class _Inner(WireModel):
    place: str = "here"


class _Whole(WireModel):
    inner: _Inner = wire_field(default_factory=_Inner)
    count_of: int = wire_field(default=1, ge=0)
    hidden: int = wire_field(default=0, hidden=True, repr=False)
    kind: Literal["whole"] = wire_field(default="whole", key="type")
    _kept: int = 0


class _Derived(_Whole):
    more: int = 0
    count_of: int = 2


def test_a_class_has_the_fields_of_those_that_it_stands_on() -> None:
    made = _Derived(more=1)
    assert [*_Derived.wire_fields] == ["inner", "count_of", "hidden", "kind", "more"]
    assert repr(made) == "_Derived(inner=_Inner(place='here'), count_of=2, kind='whole', more=1)"
    assert made.to_wire() == {"inner": {"place": "here"}, "countOf": 2, "type": "whole", "more": 1}
    assert made.inner is not _Derived().inner
    assert vars(made) == {"inner": _Inner(), "more": 1}


def test_an_object_is_made_of_what_its_class_has_and_nothing_else() -> None:
    kind: Any = _Key
    with pytest.raises(TypeError, match="needs key_value"):
        kind(uses_left=2)
    with pytest.raises(TypeError, match="has no key"):
        kind(key_value="sk-", key=1)
    with pytest.raises(TypeError, match="has no key"):
        kind(key_value="sk-").replace(key=1)


def test_keys_that_a_class_does_not_know_survive_copies_too_unless_it_ignores_or_refuses_them() -> None:
    class Ignoring(_Inner, unknown="ignored"):
        pass

    class Refusing(_Inner, unknown="refused"):
        pass

    value: JsonObject = {"place": "there", "more": [{"a": None}], "less": None}
    read = _Inner.from_wire(value)
    assert read.to_wire() == read.replace().to_wire() == copy.deepcopy(read).to_wire() == value
    assert read.replace(place="here").to_wire() == {**value, "place": "here"}
    assert read != _Inner(place="there")
    assert Ignoring.from_wire(value).to_wire() == {"place": "there"}
    with pytest.raises(InvalidFieldsError, match="`more` is wrong: Extra inputs are not permitted"):
        Refusing.from_wire(value)


def test_a_copy_leaves_the_object_and_what_it_has_remembered() -> None:
    first = _Whole()
    first._kept = 5
    second = first.replace(count_of=7)
    assert (first.count_of, first._kept, second.count_of, second._kept) == (1, 5, 7, 0)
    assert second.inner is first.inner
    assert first.replace() == first


def test_attributes_match_patterns() -> None:
    match _Derived(count_of=3):
        case _Whole(count_of=count, kind="whole"):
            assert count == 3
        case _:
            pytest.fail("it does not match")


def test_a_frozen_object_stays_as_it_is_and_can_be_a_key() -> None:
    class Point(FrozenModel):
        x: int
        label: str | None = None

    point: Any = Point(x=1)
    for change in (lambda: setattr(point, "x", 2), lambda: delattr(point, "x")):
        with pytest.raises(AttributeError, match="frozen"):
            change()
    assert len({point, Point(x=1), point.replace(x=2)}) == 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(_Inner())


def test_values_of_others_are_written_as_pydantic_writes_them() -> None:
    @dataclass
    class Found:
        where: Path
        what: Any = None

    values = {"a": {1: float("nan")}, "found": Found(Path("x"), _Inner()), "set": {1}, (1, 2): float("inf")}
    assert dump(values) == b'{"a":{"1":null},"found":{"where":"x","what":{"place":"here"}},"set":[1],"1,2":null}'
    assert dump({"n": float("inf"), "in": [_Inner(place="\ud800é")]}) == '{"n":null,"in":[{"place":"�é"}]}'.encode()
    endless: list[Any] = []
    endless.append(endless)
    for value in (object(), endless, lambda: None):
        with pytest.raises(ValueError, match=r"(?i)unable to serialize|circular|nested"):
            dump(value)


def test_an_object_can_be_unpickled_in_a_process_that_did_not_use_its_class_yet(tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(pickle.dumps(UserMessage(content="hello")))
    program = (
        "import copy, pickle\n"
        "message = pickle.load(open('kept', 'rb'))\n"
        "print(message.to_wire()['content'], message == copy.deepcopy(message))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout == "hello True\n"


@pytest.mark.parametrize("text", ['{"a":' + "[" * 200 + "]" * 200 + "}", "{" * 201, "[" * 201 + "]" * 201])
def test_json_that_is_too_deep_to_be_written_everywhere_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="nested more than 200 deep"):
        check_json_depth(text)


@pytest.mark.parametrize("text", ["[" * 200 + "]" * 200, '"' + "[" * 500 + '"', "[]," * 300, "]" * 300 + "[" * 10])
def test_brackets_in_texts_and_side_by_side_are_not_deep(text: str) -> None:
    check_json_depth(text)


@pytest.mark.parametrize("content", [[TextContent(text=5)], [TextContent(text="a"), ImageContent(data=5, mime_type=7)]])
def test_what_other_code_has_made_is_checked_within_too(content: Any) -> None:
    with pytest.raises(InvalidFieldsError, match="valid string"):
        ToolOutput(content=content).checked()


def test_a_pattern_is_that_of_the_whole_text() -> None:
    class Named(WireModel):
        name: str = wire_field(pattern=r"^[a-z]+$")

    assert Named.from_wire({"name": "abc"}).name == "abc"
    for name in ("abc\n", "a b", ""):
        with pytest.raises(InvalidFieldsError, match="should match pattern"):
            Named.from_wire({"name": name})
