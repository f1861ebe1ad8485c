"""Tools whose calls a server holds to their schema: who is asked to, with which one, and what becomes of a refusal."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages_api import HttpError

from indus_nb.base.messages import UserMessage
from indus_nb.models import Context, Model, StreamOptions, ToolSpec
from indus_nb.models.apis.adapters import adapter
from indus_nb.models.apis.rules import holds_schemas
from indus_nb.models.apis.strict_schemas import strict_schema
from indus_nb.models.catalog import find_model

HI = [UserMessage(content="Hi")]
SCHEMA = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "minimum": 1, "description": "How many."},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "tags": {"type": "array", "items": {"enum": ["a", "b"], "type": "string"}, "maxItems": 3},
        "kind": {"const": "x", "type": "string", "default": "x"},
    },
    "required": ["count"],
}
CLOSED = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "description": "How many. (minimum: 1)"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"enum": ["a", "b"], "type": "string"}, "description": "(maxItems: 3)"},
        "kind": {"type": "string", "enum": ["x"]},
    },
    "required": ["count", "note", "tags", "kind"],
    "additionalProperties": False,
}
HELD = {"supportsStrictTools": True}
HAIKU, MINI = (find_model(name).replace(compat=HELD) for name in ("claude-haiku-4-5", "gpt-5-mini"))


def spec(schema: dict[str, Any] = SCHEMA, name: str = "answer", *, strict: bool = True) -> ToolSpec:
    return ToolSpec(name, "Takes the answer.", schema, strict=strict)


async def asked(server: Any, model: Model, *tools: ToolSpec) -> tuple[dict[str, Any], Any]:
    url = server.url if model.api.startswith("anthropic") else server.v1
    stream = adapter(model.api).stream(model.replace(base_url=url), Context("", HI, tools), StreamOptions(api_key="k"))
    last = [event async for event in stream][-1]
    return server.requests[-1].body, last


def sent(body: dict[str, Any]) -> list[tuple[bool, Any]]:
    tools = [tool.get("function", tool) for tool in body["tools"]]
    return [(tool.get("strict", False), tool.get("input_schema", tool.get("parameters"))) for tool in tools]


@pytest.mark.parametrize("model", [HAIKU, MINI, MINI.replace(api="openai-completions")], ids=lambda model: model.api)
async def test_a_tool_that_is_marked_is_sent_with_a_closed_schema_and_others_as_they_are(server, model):
    server.add("x")
    body, end = await asked(server, model, spec(), spec(name="other", strict=False))
    assert sent(body) == [(True, CLOSED), (False, SCHEMA)]
    assert end.type == "done"


@pytest.mark.parametrize("name", ["claude-haiku-4-5", "gpt-5-mini"])
async def test_a_gateway_that_bears_a_providers_name_is_not_taken_for_its_own_server(server, name):
    server.add("x")
    assert holds_schemas(find_model(name))
    body, _ = await asked(server, find_model(name), spec())
    assert sent(body) == [(False, SCHEMA)]


@pytest.mark.parametrize("model", [HAIKU, MINI], ids=lambda model: model.api)
async def test_a_server_that_is_not_known_to_hold_schemas_is_not_asked_to(server, model):
    server.add("x")
    body, _ = await asked(server, model.replace(provider="mine", compat=None), spec())
    assert sent(body) == [(False, SCHEMA)]


@pytest.mark.parametrize("model", [HAIKU, MINI, MINI.replace(api="openai-completions")], ids=lambda model: model.api)
@pytest.mark.parametrize(
    "refusal",
    [
        "The compiled grammar is too large, reduce the number of strict tools.",
        "Schema is too complex for compilation.",
        "tools.0.custom: For 'string' type, property 'enum' is not supported",
        "tools.0.strict: Extra inputs are not permitted",
    ],
)
async def test_what_a_server_refuses_to_hold_is_asked_for_again_at_once_and_from_then_on_without(
    server, model, refusal
):
    model = model.replace(provider=f"mine of {model.api} {refusal}")
    server.add(HttpError(400, "invalid_request_error", refusal), "x", "x")
    body, end = await asked(server, model, spec())
    assert end.type == "done"
    assert [sent(request.body) for request in server.requests] == [[(True, CLOSED)], [(False, SCHEMA)]]
    body, end = await asked(server, model, spec())
    assert (sent(body), end.type, len(server.requests)) == ([(False, SCHEMA)], "done", 3)


async def test_a_server_that_names_one_tool_holds_the_others_and_one_that_knows_no_strict_holds_none(server):
    tools = spec(name="a"), spec(name="b"), spec(name="c")
    for refusal, held in (("tools.1.custom: odd", [True, False, True]), ("tools.1.strict: unknown", [False] * 3)):
        server.add(HttpError(400, "invalid_request_error", refusal), "x")
        body, end = await asked(server, HAIKU.replace(provider=f"mine of {refusal}"), *tools)
        assert ([strict for strict, _ in sent(body)], end.type) == (held, "done")


async def test_a_server_that_refuses_whatever_it_is_sent_is_not_asked_for_ever(server):
    server.default = HttpError(400, "invalid_request_error", "tools.0.custom: odd, strict or not")

    async def insistent(body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "tools": [{**tool, "strict": True} for tool in body["tools"]]}

    url = HAIKU.replace(base_url=server.url, provider="insisted on")
    options = StreamOptions(api_key="k", on_request=insistent)
    events = [event async for event in adapter(url.api).stream(url, Context("", HI, [spec()]), options)]
    assert (events[-1].type, len(server.requests)) == ("error", 5)


def of(part: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": part}, "required": ["a"], **more}


@pytest.mark.parametrize(
    "schema",
    [
        of({}),
        of(True),
        of({"type": "object"}),
        of({"type": "string"}, additionalProperties=True),
        of({"type": "object", "additionalProperties": {"type": "string"}}),
        {"type": "object", "properties": {"a": {"type": "string"}}},
        of({"$ref": "#/$defs/node"}, **{"$defs": {"node": {"type": "string"}}}),
        of({"type": "array", "prefixItems": [{"type": "string"}]}),
        of({"type": "array"}),
        of({"allOf": [{"type": "string"}]}),
        of({"type": "string", "format": "uuid"}),
        of({"anyOf": [{"type": "string"}], "oneOf": [{"type": "string"}]}),
        of({"type": "odd"}),
        {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(200)}, "required": []},
        of({"type": "integer", "enum": list(range(1000))}),
        of({"enum": [1, "a"]}),
        of({"const": "a"}),
    ],
)
def test_a_schema_that_says_what_servers_cannot_hold_has_no_closed_form(schema):
    assert strict_schema(schema) is None


def test_a_schema_that_is_nested_too_deeply_has_no_closed_form():
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(500):
        schema = of(schema)
    assert strict_schema(schema) is None


_PARTS = st.recursive(
    st.sampled_from(
        [
            {"type": "string"},
            {"type": "integer", "minimum": 0},
            {"type": ["string", "null"]},
            {"type": "boolean", "default": False},
            {"enum": ["a", "b"], "type": "string"},
            {"const": "x", "type": "string"},
        ]
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries(
            {
                "type": st.just("object"),
                "properties": st.dictionaries(st.sampled_from("abc"), inner, min_size=1),
                "required": st.lists(st.sampled_from("abc"), unique=True),
            }
        ),
    ),
    max_leaves=8,
)


def example(schema: dict[str, Any]) -> Any:
    """A value that keeps a closed schema."""
    if "enum" in schema:
        return schema["enum"][-1]
    if "anyOf" in schema:
        return example(schema["anyOf"][-1])
    if "properties" in schema:
        return {name: example(part) for name, part in schema["properties"].items()}
    if "items" in schema:
        return [example(schema["items"])]
    return {"integer": 3, "boolean": True}.get(str(schema["type"]), "text")


@given(st.dictionaries(st.sampled_from("abc"), _PARTS, min_size=1), st.booleans())
def test_what_keeps_the_closed_schema_keeps_the_given_one(properties, required):
    schema = {"type": "object", "properties": properties, "required": sorted(properties) if required else []}
    closed = strict_schema(schema)
    if closed is not None:
        value = example(closed)
        jsonschema.validate(value, closed)
        jsonschema.validate(value, schema)
