"""What the readers of annotations take and refuse is what pydantic takes and refuses, in its words."""

from __future__ import annotations

import random
from functools import cache
from importlib import import_module
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic.alias_generators import to_camel as pydantics_camel
from pydantic.alias_generators import to_snake as pydantics_snake

from indus_nb.base.messages import Cost, Message, TextContent, ToolCall, Usage
from indus_nb.base.readers import InvalidFieldsError, Limits, field_problems, reader
from indus_nb.base.wire import to_camel, to_snake
from indus_nb.base.wire_model import WireField, WireModel

NAMES = [
    *(
        *(f"front.verbs.{about}_verbs" for about in ("prompt", "session", "setting", "tree", "program")),
        "front.verbs.host_tools",
        "front.console.acp.requests",
        "front.notebook.page.protocol",
    ),
    *(
        "base.events",
        "base.messages",
        "base.streaming",
        "core.loop.retry",
        "core.resources.settings",
        "core.session.stats",
    ),
    *(
        "core.resources.sandbox_settings",
        "core.session.conversation",
        "core.session.compaction",
        "core.session.dialogs",
    ),
    *("models.catalog", "models.models_file", "models.cassettes.file", "extend.mcp.config", "extend.events"),
    *("tools.agents", "tools.todo", "tools.jobs", "tools.files.read", "tools.files.search", "tools.files.writing"),
    *("tools.commands.bash", "kernel.toolset.declarations"),
]
MODULES = {import_module(f"indus_nb.{name}").__name__ for name in NAMES}
VALUES: list[Any] = [
    *("text", "", "user", "off", "stop", "never", "all", "notify", "info", "immediate", "1", "1.0", "1.5", "yes", "No"),
    *("a\0", "http://localhost", "x" * 1001, 0, 1, 2, -1, 2**70, 0.5, 1.0, -2.0, float("nan"), float("inf")),
    *(True, False, None, object(), [], {}, (), ("a",), {"a": 1}, {"a": "b"}, {"a": None}, ["a", "b"]),
    *(
        ["text", "image"],
        [1],
        [None],
        [["a"]],
        [{"x": 1}],
        {"type": "text", "text": "a"},
        [{"type": "text", "text": 5}],
    ),
    *(
        [{"type": "text", "text": "a"}],
        {"input": 1, "cost": {"total": 0.5}},
        {"enabled": False},
        {"enabled": 1, "x": 2},
    ),
    *(
        TextContent(text="a"),
        [TextContent(text="a")],
        [ToolCall(id="1", name="a", arguments={})],
    ),
]


def all_of(cls: type[Any]) -> list[type[Any]]:
    return [each for below in cls.__subclasses__() for each in (below, *all_of(below))]


def has_own_ways(cls: type[WireModel]) -> bool:
    """Whether a class does more with what it reads or writes than its fields say, which has tests of its own."""
    names = ("__post_init__", "frame", "usual_shape")
    return any(getattr(cls, name).__qualname__ != getattr(WireModel, name).__qualname__ for name in names)


CLASSES = [cls for cls in dict.fromkeys(all_of(WireModel)) if cls.__module__ in MODULES and cls.wire_fields]
PLAIN = [cls for cls in CLASSES if not has_own_ways(cls)]


@cache
def twin(cls: type[WireModel]) -> type[BaseModel]:
    """A model of pydantic's that is declared as a class is."""
    kinds = get_type_hints(cls, include_extras=True)
    extra = {"kept": "allow", "ignored": "ignore", "refused": "forbid"}[cls._unknown_keys]
    config = ConfigDict(
        strict=cls._is_strict, extra=extra, validate_by_name=True, validate_by_alias=True, arbitrary_types_allowed=True
    )
    fields: dict[str, Any] = {
        name: (checked(of_pydantics(kinds[name]), each), declared(each)) for name, each in cls.wire_fields.items()
    }
    return create_model(f"{cls.__name__}Twin", __config__=config, **fields)


def checked(kind: Any, each: WireField) -> Any:
    return kind if each.check is None else Annotated[kind, AfterValidator(each.check)]


def declared(each: WireField) -> Any:
    bounds: dict[str, Any] = {**each.bounds}
    if bounds.pop("finite", False):
        bounds["allow_inf_nan"] = False
    if "min_items" in bounds:
        bounds["min_length"] = bounds.pop("min_items")
    given = {"default": each.default} if each.has_default else {}
    return (
        Field(**given, default_factory=each.factory, alias=each.key, **bounds)
        if not given
        else Field(**given, alias=each.key, **bounds)
    )


def of_pydantics(kind: Any) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, WireModel):
        return Annotated[Any, PlainValidator(kind.from_wire)] if has_own_ways(kind) else twin(kind)
    if origin is Annotated:
        limits = [Field(**mark.bounds) for mark in parts[1:] if isinstance(mark, Limits)]
        return Annotated[of_pydantics(parts[0]), *limits] if limits else of_pydantics(parts[0])
    if origin in (Union, UnionType):
        some = [part for part in parts if part is not NoneType]
        if len(some) > 1 and all(isinstance(part, type) and issubclass(part, WireModel) for part in some):
            read = reader(kind)
            return Annotated[Any, PlainValidator(read)]
        return Union[tuple(map(of_pydantics, parts))]  # noqa: UP007 - of parts that are found at run time
    if origin in (list, dict):
        return origin[tuple(map(of_pydantics, parts))]
    return kind


def result(read: Any, value: Any) -> Any:
    """What comes of a value: its JSON, or the first part of each problem's path with the reason."""
    try:
        made = read(value)
    except ValidationError as error:
        problems = field_problems(error)
    except InvalidFieldsError as error:
        problems = error.problems
    else:
        return shown(made)
    return {problem.path.split(".")[0] for problem in problems}


def reasons(read: Any, value: Any) -> Any:
    try:
        read(value)
    except ValidationError as error:
        return [problem.reason for problem in field_problems(error)]
    except InvalidFieldsError as error:
        return [problem.reason for problem in error.problems]
    return []


def shown(value: Any) -> Any:
    """What an object holds, by the names of its fields and with the classes of values."""
    if isinstance(value, WireModel):
        return {name: shown(getattr(value, name)) for name in value.wire_fields} | shown({**value._unknown})
    if isinstance(value, BaseModel):
        return {name: shown(each) for name, each in value}
    if isinstance(value, list):
        return [shown(each) for each in value]
    if isinstance(value, dict):
        return {key: shown(each) for key, each in value.items()}
    return type(value), repr(value)


def some_fields(cls: Any, fitting: dict[str, list[Any]], chance: random.Random) -> dict[str, Any]:
    """Values for fields by their names or keys; those without a default mostly have one, and mostly of their type."""
    given: dict[str, Any] = {}
    for name, field in cls.wire_fields.items():
        if chance.random() < (0.97 if field.is_required else 0.3):
            key = chance.choice((name, field.key))
            given[key] = chance.choice((chance.random() < 0.9 and fitting[name]) or VALUES)
    if chance.random() < 0.2:
        given["unheardOf"] = chance.choice(VALUES)
    return given


def fits(read: Any, value: Any) -> bool:
    try:
        read(value)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("cls", PLAIN, ids=lambda cls: cls.__name__)
def test_values_are_taken_and_refused_as_pydantic_does(cls: Any) -> None:
    kinds = get_type_hints(cls, include_extras=True)
    fields = {name: each.reader(kinds[name], strict=cls._is_strict) for name, each in cls.wire_fields.items()}
    fitting = {name: [value for value in VALUES if fits(read, value)] for name, read in fields.items()}
    chance = random.Random(cls.__name__)
    for _ in range(200):
        given = some_fields(cls, fitting, chance)
        mine, theirs = result(cls.from_wire, given), result(twin(cls).model_validate, given)
        for each in (mine, theirs):
            if isinstance(each, dict) and "timestamp" not in given:
                each.pop("timestamp", None)  # the moment of its making is a default of some
        assert mine == theirs, given


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    "kind",
    [
        *(
            str,
            int,
            float,
            bool,
            NoneType,
            list[str],
            list[int],
            dict[str, int],
            Literal["off", "stop", "all"],
            int | None,
        ),
        *(Literal["off"], list[Literal["text", "image"]], dict[Literal["a"], int], dict[str, Any], Any, Usage, Cost),
    ],
    ids=str,
)
def test_the_reason_is_in_pydantics_words(kind: Any, strict: bool) -> None:
    adapter = TypeAdapter(of_pydantics(kind), config=None if kind in (Usage, Cost) else ConfigDict(strict=strict))
    read = reader(kind, strict=strict)
    for value in [*VALUES, {1: 2}, {"a": 1, "b": "c"}]:
        if (
            isinstance(value, WireModel)
            or (kind is bool and value in (2**70, -2))
            or (kind in (Usage, Cost) and value == {1: 2})
        ):
            continue
        words = [
            reason.replace("UsageTwin", "Usage").replace("CostTwin", "Cost")
            for reason in reasons(adapter.validate_python, value)
        ]
        assert reasons(read, value) == words, value


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_field_is_called_on_the_wire_what_pydantic_calls_it(cls: Any) -> None:
    for name in cls.wire_fields:
        assert to_camel(name) == pydantics_camel(name)
        assert to_snake(to_camel(name)) == pydantics_snake(pydantics_camel(name))


TEXT = {"type": "text", "text": "a"}
ANSWER = {"role": "assistant", "api": "a", "provider": "p", "model": "m", "stopReason": "stop", "timestamp": 1}
READ = {"role": "toolResult", "toolCallId": "1", "toolName": "ls", "content": [TEXT], "isError": False, "timestamp": 1}


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ({"role": "user", "content": "a", "timestamp": 1}, None),
        ({"role": "user", "content": [TEXT, {**TEXT, "textSignature": "s"}], "timestamp": 1}, None),
        ({**ANSWER, "content": [TEXT, {"type": "thinking", "thinking": "b"}], "usage": {"input": 0}}, None),
        ({**ANSWER, "content": [{"type": "toolCall", "id": "1", "name": "ls", "arguments": {"path": "."}}]}, None),
        (READ, None),
        ({"role": "user", "content": [{"type": "image", "data": "", "mimeType": "a"}]}, "user.content.list.0.image"),
        ({**ANSWER, "content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}]}, "assistant.content.0"),
        ({**ANSWER, "content": [{"text": "a"}]}, "assistant.content.0"),
        ({**ANSWER, "content": [{**TEXT, "type": "toolCall"}]}, "assistant.content.0.toolCall.id"),
        ({**ANSWER, "content": [{**TEXT, "type": ["text"]}]}, "assistant.content.0"),
        *(({**READ, "role": role}, "") for role in ("nobody", None, ["user"])),
        ({"content": "a"}, ""),
        ([], ""),
        (None, ""),
    ],
)
def test_of_several_classes_the_one_that_a_field_names_is_made(message: Any, problem: str | None) -> None:
    if problem is not None:
        with pytest.raises(InvalidFieldsError) as caught:
            reader(Message)(message)
        assert problem in [each.path for each in caught.value.problems]
        return
    made = reader(Message)(message)
    assert made.role == message["role"]
    assert reader(Message)(made) is made
