"""Objects of models that are made without pydantic: each is what it would have made, or there is none."""

from __future__ import annotations

import random
from importlib import import_module
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel as pydantics_camel
from pydantic.alias_generators import to_snake as pydantics_snake

from indus_nb.base import light_models
from indus_nb.base.messages import Cost, Message, TextContent, ToolCall, Usage
from indus_nb.base.wire import to_camel, to_snake

NAMES = [
    *("base.events", "core.loop.retry", "base.messages", "front.verbs.host_tools"),
    *(f"front.verbs.{about}_verbs" for about in ("prompt", "session", "setting", "tree", "program")),
    *("models.catalog", "models.models_file", "core.resources.settings", "core.session.conversation"),
    *("core.session.dialogs", "tools.files.read"),
]
MODULES = {import_module(f"indus_nb.{name}").__name__ for name in NAMES}
CLASSES = [cls for cls in light_models.DECLARED if cls.__module__ in MODULES]
VALUES: list[Any] = [
    *("text", "", "user", "off", "stop", "never", "all", "notify", "info", "immediate", "1", "1.5", "http://localhost"),
    *("a\0", "a\ud800", 0, 1, -1, 2**70, 0.5, -2.0, float("nan"), True, False, None, b"x", object()),
    *([], {}, (), {"a": 1}, {1: 2}, {"a": "b"}, {"a": None}, ["a", "b"], ["text", "image"], [1], [None], [["a"]]),
    *([{"x": 1}], {"type": "text", "text": "a"}, [{"type": "text", "text": "a"}], {"input": 1, "cost": {"total": 0.5}}),
    *(TextContent(text="a"), [TextContent(text="a")], [ToolCall(id="1", name="a", arguments={})], Usage(input=1)),
    *(Cost(), {"enabled": False}, {"enabled": 1, "more": 2}),
]


def state(model: BaseModel) -> Any:
    """All that an object holds, with the classes of its values."""
    return (
        type(model),
        [(name, shown(value)) for name, value in model.__dict__.items()],
        model.__pydantic_fields_set__,
        model.__pydantic_extra__,
        model.__pydantic_private__,
    )


def shown(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return state(value)
    if isinstance(value, list):
        return list, [shown(each) for each in value]
    return type(value), repr(value)


def some_fields(cls: Any, fitting: dict[str, list[Any]], chance: random.Random) -> dict[str, Any]:
    """Values for fields by their names or keys; those without a default mostly have one, and mostly of their type."""
    given: dict[str, Any] = {}
    for name, field in cls.model_fields.items():
        if chance.random() < (0.97 if field.is_required() else 0.3):
            key = chance.choice((name, field.alias or name))
            given[key] = chance.choice((chance.random() < 0.97 and fitting[name]) or VALUES)
    if chance.random() < 0.2:
        given["unheardOf"] = chance.choice(VALUES)
    return given


def fits(cls: Any, name: str, value: Any) -> bool:
    try:
        cls.__pydantic_validator__.validate_assignment(cls.model_construct(), name, value)
    except Exception:
        return False
    return True


def can_be_certain(cls: Any, fitting: dict[str, list[Any]]) -> bool:
    """Whether each field that must be given has values that need no check by pydantic."""
    fields = light_models.fields_of(cls)
    if fields is None:
        return False
    required = [name for name, field in cls.model_fields.items() if field.is_required()]
    return all(any(is_taken(fields[name], value) for value in fitting[name]) for name in required)


def is_taken(field: light_models.LightField, value: Any) -> bool:
    try:
        field.taken(value)
    except light_models.UncertainError:
        return False
    return True


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_an_object_made_without_pydantic_is_the_one_that_it_makes(cls: Any) -> None:
    cls.model_rebuild()
    fitting = {name: [value for value in VALUES if fits(cls, name, value)] for name in cls.model_fields}
    chance = random.Random(cls.__name__)
    certain = 0
    for _ in range(200):
        given = some_fields(cls, fitting, chance)
        light = light_models.made(cls, given)
        if light is not None:
            certain += 1
            real = cls.model_validate(given)
            # The moment of its making is a default of some.
            for each in (light, real):
                if "timestamp" not in given:
                    each.__dict__.pop("timestamp", None)
            assert state(light) == state(real), given
    assert certain or not can_be_certain(cls, fitting)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_field_is_called_on_the_wire_what_pydantic_calls_it(cls: Any) -> None:
    for name in cls.model_fields:
        assert to_camel(name) == pydantics_camel(name)
        assert to_snake(to_camel(name)) == pydantics_snake(pydantics_camel(name))
    light = light_models.fields_of(cls)
    if light is not None:
        assert list(light) == list(cls.model_fields)
        shown_as = {name: field.key for name, field in light.items()}
        assert shown_as == {name: field.alias or name for name, field in cls.model_fields.items()}
        hidden = {name for name, field in light.items() if field.is_hidden}
        assert hidden == {name for name, field in cls.model_fields.items() if field.exclude}


TEXT = {"type": "text", "text": "a"}
USAGE = {"input": 1, "output": 2, "cost": {"input": 0, "output": 0.5, "total": 2**60}}
ANSWER = {"role": "assistant", "api": "a", "provider": "p", "model": "m", "stopReason": "stop", "timestamp": 1}
READ = {"role": "toolResult", "toolCallId": "1", "toolName": "ls", "content": [TEXT], "isError": False, "timestamp": 1}


@pytest.mark.parametrize(
    ("message", "certain"),
    [
        ({"role": "user", "content": "a", "timestamp": 1}, True),
        ({"role": "user", "content": [TEXT, {**TEXT, "textSignature": "s"}], "timestamp": 1}, True),
        ({**ANSWER, "content": [TEXT, {"type": "thinking", "thinking": "b"}], "usage": {"input": 0}}, True),
        ({**ANSWER, "content": [{"type": "toolCall", "id": "1", "name": "ls", "arguments": {"path": "."}}]}, True),
        ({**ANSWER, "content": [], "usage": {"input": 1, "cost": {"input": 0, "total": 1}}}, True),
        (READ, True),
        ({**ANSWER, "content": [TEXT], "usage": USAGE}, False),
        ({"role": "user", "content": [{"type": "image", "data": "", "mimeType": "image/png"}], "timestamp": 1}, False),
        ({**ANSWER, "content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}]}, False),
        ({**ANSWER, "content": [{"text": "a"}]}, False),
        ({**ANSWER, "content": [{**TEXT, "type": "toolCall"}]}, False),
        ({**ANSWER, "content": [{**TEXT, "type": ["text"]}]}, False),
        ({**READ, "role": "nobody"}, False),
        ({**READ, "role": None}, False),
        ({"content": "a"}, False),
        ([], False),
        (None, False),
    ],
)
def test_of_several_models_the_one_that_a_field_names_is_made(message: Any, certain: bool) -> None:
    light = light_models.taken(message, Message)
    assert (light is not None) == certain
    try:
        real = TypeAdapter[Any](Message).validate_python(message)
    except ValidationError:
        assert light is None
    else:
        assert light is None or state(light) == state(real)
