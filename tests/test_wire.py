"""Problems of rejected values: where they are, why, and nothing of the value itself in their words."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError, field_validator, model_validator

from indus_nb.base.wire import WireModel, field_problems, first_problem


class _Key(WireModel):
    key_value: str
    uses_left: int = 1

    @field_validator("key_value")
    @classmethod
    def _check(cls, value: str) -> str:
        if not value.startswith("sk-"):
            raise ValueError("a key begins with sk-")
        return value


class _Account(WireModel):
    keys: list[_Key]

    @model_validator(mode="after")
    def _check(self) -> _Account:
        if not self.keys:
            raise ValueError("there is no key")
        return self


def _error(value: Any) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        _Account.model_validate(value)
    return caught.value


def test_a_problem_names_the_keys_as_they_stand_in_the_file() -> None:
    error = _error({"keys": [{"keyValue": "sk-1"}, {"keyValue": "sk-2", "usesLeft": "many"}]})
    assert first_problem(error, where="accounts.me").path == "accounts.me.keys.1.usesLeft"
    assert str(first_problem(error)).startswith("`keys.1.usesLeft` is wrong: Input should be a valid integer")


def test_a_validators_own_words_are_the_reason() -> None:
    assert str(first_problem(_error({"keys": [{"keyValue": "hunter2"}]}))) == (
        "`keys.0.keyValue` is wrong: a key begins with sk-"
    )
    problem = first_problem(_error({"keys": []}))
    assert (problem.path, problem.reason, str(problem)) == ("", "there is no key", "it is wrong: there is no key")


def test_every_problem_is_there_in_the_order_of_the_fields() -> None:
    problems = field_problems(_error({"keys": [{"usesLeft": None}, {"keyValue": 5}]}))
    assert [(problem.path, problem.kind) for problem in problems] == [
        ("keys.0.keyValue", "missing"),
        ("keys.0.usesLeft", "int_type"),
        ("keys.1.keyValue", "string_type"),
    ]


def test_what_was_given_shows_neither_as_text_nor_in_a_debugger() -> None:
    problem = first_problem(_error({"keys": [{"keyValue": "hunter2"}]}))
    assert problem.value == "hunter2"
    assert "hunter2" not in f"{problem}{problem!r}"
