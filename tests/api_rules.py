"""What the real APIs refuse, for the fake ones: each rule answers with the status and the words of the real server.

The rules and their sources are those of docs/requests.md. They are written anew here, from the APIs' side: nothing of
the package is used, so that a rule which the package forgets is noticed.
"""

from __future__ import annotations

import base64
import binascii
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
TYPES = {"object", "array", "string", "number", "integer", "boolean", "null"}
STARTS = {
    "image/jpeg": rb"\xff\xd8\xff",
    "image/png": rb"\x89PNG\r\n\x1a\n",
    "image/gif": rb"GIF8[79]a",
    "image/webp": rb"RIFF....WEBP",
}


@dataclass
class Refusal(Exception):  # noqa: N818 - what an API does, and no error of ours
    """A request that an API refuses."""

    message: str
    status: int = 400
    type: str = "invalid_request_error"
    param: str | None = None
    code: str | None = None


# --- Anthropic's Messages API ----------------------------------------------------------------------------------------


def check_messages(body: Mapping[str, Any], size: int) -> None:
    """Raise ``Refusal`` as https://api.anthropic.com/v1/messages refuses."""
    if size > 32_000_000:
        raise Refusal("Request exceeds the maximum size", 413, "request_too_large")
    _check_limits(body)
    for index, tool in enumerate(body.get("tools", ())):
        _check_tool(tool, f"tools.{index}")
    if len({tool["name"] for tool in body.get("tools", ())}) < len(body.get("tools", ())):
        raise Refusal("tools: Tool names must be unique.")
    messages = body["messages"]
    if not messages:
        raise Refusal("messages: at least one message is required")
    if messages[0]["role"] != "user":
        raise Refusal('messages: first message must use the "user" role')
    if messages[-1]["role"] != "user":
        raise Refusal(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )
    for index, message in enumerate(messages):
        _check_content(message, f"messages.{index}")
    _check_calls(messages)
    _check_images(messages)
    _check_marks(body)


def _check_marks(body: Mapping[str, Any]) -> None:
    system = body.get("system", ())
    parts = [*body.get("tools", ()), *(system if isinstance(system, list) else ())]
    for message in body["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            inner = block.get("content") if block["type"] == "tool_result" else ()
            parts += [*(inner if isinstance(inner, list) else ()), block]
    marked = [part for part in parts if "cache_control" in part]
    if len(marked) > 4:
        raise Refusal(f"A maximum of 4 blocks with cache_control may be provided. Found {len(marked)}.")
    if any(part.get("type") in ("thinking", "redacted_thinking") for part in marked):
        raise Refusal("cache_control cannot be set for thinking blocks")
    lifetimes = [part["cache_control"].get("ttl", "5m") for part in marked]
    if not {*lifetimes} <= {"5m", "1h"}:
        raise Refusal("cache_control.ephemeral.ttl: Input should be '5m' or '1h'")
    if lifetimes != sorted(lifetimes):  # "1h" before "5m"
        raise Refusal("a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block.")


def _check_limits(body: Mapping[str, Any]) -> None:
    thinking = body.get("thinking", {})
    if body["max_tokens"] < 1:
        raise Refusal("max_tokens: Input should be greater than or equal to 1")
    if body.get("tool_choice", {}).get("type") in ("any", "tool"):
        if thinking.get("type", "disabled") != "disabled":
            raise Refusal("Thinking may not be enabled when tool_choice forces tool use.")
        if body["tool_choice"].get("name") not in [None, *(tool["name"] for tool in body.get("tools", ()))]:
            raise Refusal(f"tool_choice.tool: '{body['tool_choice']['name']}' is not among the tools")
    if thinking.get("type") == "enabled":
        if thinking["budget_tokens"] < 1024:
            raise Refusal("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
        if thinking["budget_tokens"] >= body["max_tokens"]:
            raise Refusal("`max_tokens` must be greater than `thinking.budget_tokens`.")


def _check_tool(tool: Mapping[str, Any], where: str) -> None:
    if not NAME.fullmatch(tool["name"]):
        raise Refusal(f"{where}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
    schema = tool["input_schema"]
    if "type" not in schema:
        raise Refusal(f"{where}.custom.input_schema.type: Field required")
    if schema["type"] != "object":
        raise Refusal(f"{where}.custom.input_schema.type: Input should be 'object'")
    if any(key in schema for key in ("oneOf", "allOf", "anyOf")):
        raise Refusal(
            f"{where}.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
        )
    if any(not PROPERTY.fullmatch(name) for name in schema.get("properties", {})):
        raise Refusal(
            f"{where}.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$'"
        )
    if not is_schema(schema):
        raise Refusal(
            f"{where}.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12 "
            "(https://json-schema.org/draft/2020-12)."
        )
    if tool.get("strict") and (problem := _strict_problem(schema, all_required=False)):
        raise Refusal(f"{where}.custom: {problem}")


def is_schema(schema: Any) -> bool:
    """Whether it is one by draft 2020-12, as far as tools come near."""
    if isinstance(schema, bool):
        return True
    if not isinstance(schema, dict):
        return False
    kinds = schema.get("type", "object")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    maps = [schema[key] for key in ("properties", "$defs", "patternProperties") if key in schema]
    lists = [schema[key] for key in ("anyOf", "oneOf", "allOf", "prefixItems") if key in schema]
    inner = [schema[key] for key in ("items", "additionalProperties", "not", "contains") if key in schema]
    numbers = [schema[key] for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum") if key in schema]
    required = schema.get("required", [])
    return (
        all(kind in TYPES for kind in kinds)
        and all(isinstance(each, dict) and all(map(is_schema, each.values())) for each in maps)
        and all(isinstance(each, list) and each and all(map(is_schema, each)) for each in lists)
        and all(map(is_schema, inner))
        and all(isinstance(each, int | float) and not isinstance(each, bool) for each in numbers)
        and isinstance(required, list)
        and all(isinstance(name, str) for name in required)
    )


def _strict_problem(schema: Any, *, all_required: bool) -> str | None:
    """What is wrong with a part of a schema that calls are to be held to, in the words of the servers."""
    if not isinstance(schema, dict):
        return None
    words = (
        "minimum",
        "maximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "oneOf",
        "allOf",
        "default",
        "not",
    )
    if unknown := [word for word in words if word in schema]:
        return f"For '{schema.get('type')}' type, property '{unknown[0]}' is not supported"
    if "object" in str(schema.get("type")):
        if schema.get("additionalProperties") is not False:
            return "For 'object' type, 'additionalProperties' must be explicitly set to false"
        if all_required and [*schema["properties"]] != schema.get("required"):
            return "'required' is required to be supplied and to be an array including every key in properties."
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), schema.get("items")]
    return next(filter(None, (_strict_problem(part, all_required=all_required) for part in inner)), None)


def _check_content(message: Mapping[str, Any], where: str) -> None:  # noqa: C901 - rule by rule
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not blocks:
        raise Refusal(
            f"{where}: all messages must have non-empty content except for the optional final assistant message"
        )
    results_over = False
    for index, block in enumerate(blocks):
        place = f"{where}.content.{index}"
        if block["type"] == "text" and not block["text"]:
            raise Refusal("messages: text content blocks must be non-empty")
        if block["type"] == "text" and not block["text"].strip():
            raise Refusal("messages: text content blocks must contain non-whitespace text")
        if block["type"] in ("thinking", "redacted_thinking") and message["role"] == "user":
            raise Refusal(f"{place}: `{block['type']}` blocks may only be in `assistant` messages")
        if block["type"] == "thinking" and not block.get("signature"):
            raise Refusal(f"{place}.thinking.signature: Field required")
        if block["type"] == "tool_use":
            _check_tool_use(block, place)
        if block["type"] == "tool_result":
            if results_over:
                raise Refusal(f"{where}: `tool_result` blocks must come first in the content of a message")
            _check_result(block, place)
        else:
            results_over = True
    if message["role"] == "assistant" and blocks[-1]["type"] in ("thinking", "redacted_thinking"):
        raise Refusal(f"{where}: The final block in an assistant message cannot be `thinking`.")


def _check_tool_use(block: Mapping[str, Any], place: str) -> None:
    if not re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]):
        raise Refusal(f"{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,200}", block["name"]):
        raise Refusal(f"{place}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,200}}$'")
    if not isinstance(block["input"], dict):
        raise Refusal(f"{place}.tool_use.input: Input should be a valid dictionary")


def _check_result(block: Mapping[str, Any], place: str) -> None:
    inner = block["content"] if isinstance(block["content"], list) else []
    if block.get("is_error") and any(part["type"] != "text" for part in inner):
        raise Refusal(f"{place}.tool_result: all content must be type `text` if `is_error` is true")
    if any(part["type"] == "text" and not part["text"].strip() for part in inner):
        raise Refusal("messages: text content blocks must be non-empty")


def _check_calls(messages: Sequence[Mapping[str, Any]]) -> None:
    seen: set[str] = set()
    for index, message in enumerate(messages):
        blocks = message["content"] if isinstance(message["content"], list) else []
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if len({*calls}) < len(calls) or seen & {*calls}:
            raise Refusal(f"messages.{index}: `tool_use` ids must be unique")
        seen |= {*calls}
        after = messages[index + 1]["content"] if index + 1 < len(messages) else []
        results = [b["tool_use_id"] for b in after if b["type"] == "tool_result"] if isinstance(after, list) else []
        if missing := [call for call in calls if call not in results]:
            raise Refusal(
                f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
                "next message."
            )
        for number, block in enumerate(blocks):
            if block["type"] == "tool_result" and not _asked(messages, index, block["tool_use_id"]):
                raise Refusal(
                    f"messages.{index}.content.{number}: unexpected `tool_use_id` found in `tool_result` blocks: "
                    f"{block['tool_use_id']}. Each `tool_result` block must have a corresponding `tool_use` block in "
                    "the previous message."
                )


def _asked(messages: Sequence[Mapping[str, Any]], index: int, call_id: str) -> bool:
    before = messages[index - 1]["content"] if index else []
    return isinstance(before, list) and any(b["type"] == "tool_use" and b["id"] == call_id for b in before)


def _check_images(messages: Sequence[Mapping[str, Any]]) -> None:  # noqa: C901 - rule by rule
    found = [*_anthropic_images(messages)]
    if len(found) > 100:
        raise Refusal(f"Too much media: 0 document pages + {len(found)} images > 100")
    for place, source in found:
        if source["type"] == "url":
            continue
        data, kind = source["data"], source["media_type"]
        if kind not in STARTS:
            raise Refusal(
                f"{place}.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or "
                "'image/webp'"
            )
        if len(data) > 5 * 1024 * 1024:
            raise Refusal(f"{place}.image.source.base64: image exceeds 5 MB maximum: {len(data)} bytes > 5242880 bytes")
        try:
            raw = base64.b64decode(data, validate=True)
        except binascii.Error:
            raise Refusal(f"{place}.image.source.base64.data: Invalid base64 data") from None
        actual = next((name for name, start in STARTS.items() if re.match(start, raw, re.DOTALL)), None)
        if actual is not None and actual != kind:
            raise Refusal(
                f"{place}.image.source.base64: The image was specified using the {kind} media type, but the image "
                f"appears to be a {actual} image"
            )
        size = decoded_size(raw)
        if size is None:
            raise Refusal("Could not process image")
        if max(size) > 8000:
            raise Refusal(
                f"{place}.image.source.base64.data: At least one of the image dimensions exceed max allowed size: "
                "8000 pixels"
            )
        if len(found) > 20 and max(size) > 2000:
            raise Refusal(
                f"{place}.image.source.base64.data: At least one of the image dimensions exceed max allowed size for "
                "many-image requests: 2000 pixels"
            )


def _anthropic_images(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for index, message in enumerate(messages):
        for number, block in enumerate(message["content"] if isinstance(message["content"], list) else ()):
            place = f"messages.{index}.content.{number}"
            if block["type"] == "image":
                yield place, block["source"]
            inner = block.get("content") if block["type"] == "tool_result" else None
            for position, part in enumerate(inner if isinstance(inner, list) else ()):
                if part["type"] == "image":
                    yield f"{place}.tool_result.content.{position}", part["source"]


def decoded_size(data: bytes) -> tuple[int, int] | None:
    """The sides of an image; ``None`` for one that cannot be decoded to its end."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.width * image.height <= 64_000_000:
                image.load()
            return image.size
    except Exception:
        return None


# --- OpenAI's APIs, and those that speak like the older one ----------------------------------------------------------


def check_completions(body: Mapping[str, Any], size: int, dialect: str = "openai") -> None:  # noqa: C901, PLR0912 - rule by rule
    """Raise ``Refusal`` as a server of chat completions refuses; ``dialect`` is ``openai`` or ``mistral``."""
    if size > 50_000_000:
        raise Refusal("Request body too large", 413)
    for index, tool in enumerate(body.get("tools", ())):
        _check_function(tool["function"], f"tools[{index}].function")
    messages = body["messages"]
    if not messages:
        raise Refusal(
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
            param="messages",
            code="empty_array",
        )
    open_calls: list[str] = []
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                raise Refusal(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                    "'tool_calls'.",
                    param=f"messages.[{index}].role",
                )
            open_calls.remove(message["tool_call_id"])
            if not isinstance(message["content"], str) and any(p["type"] != "text" for p in message["content"]):
                raise Refusal(
                    f"Invalid '{where}'. Image URLs are only allowed for messages with role 'user', but this message "
                    "with role 'tool' contains an image URL.",
                    param=where,
                    code="invalid_value",
                )
            continue
        if open_calls:
            raise Refusal(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(open_calls)}",
                param="messages",
            )
        if message["role"] == "assistant":
            if message.get("content") is None and not message.get("tool_calls"):
                raise Refusal(
                    "Invalid value for 'content': expected a string, got null.", param=f"messages.[{index}].content"
                )
            for number, call in enumerate(message.get("tool_calls", ())):
                _check_openai_call(call, f"{where}.tool_calls[{number}]", dialect)
                open_calls.append(call["id"])
        elif not message["content"]:
            raise Refusal(f"Invalid '{where}.content': empty array.", param=f"{where}.content", code="empty_array")
        _check_openai_images(message["content"], where)
    if open_calls:
        raise Refusal("An assistant message with 'tool_calls' must be followed by tool messages.", param="messages")
    if dialect == "mistral":
        _check_mistral(body)


def _check_function(function: Mapping[str, Any], where: str) -> None:
    name, schema = function["name"], function["parameters"]
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name):
        raise Refusal(
            f"Invalid '{where}.name': string does not match pattern. Expected a string that matches the pattern "
            "'^[a-zA-Z0-9_-]+$'.",
            param=f"{where}.name",
            code="invalid_value",
        )

    def refuse(reason: str) -> None:
        param, code = f"{where.removesuffix('.function')}.function.parameters", "invalid_function_parameters"
        raise Refusal(f"Invalid schema for function '{name}': {reason}", param=param, code=code)

    if schema.get("type") != "object":
        kind = schema.get("type")
        refuse(f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'.")
    if any(key in schema for key in ("oneOf", "anyOf", "allOf", "enum", "not")):
        refuse("schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.")
    if "properties" not in schema:
        refuse("In context=(), object schema missing properties.")
    if not is_schema(schema):
        refuse("it is not valid under any of the given schemas.")
    if function.get("strict") and (problem := _strict_problem(schema, all_required=True)):
        refuse(f"In context=(), {problem}")


def _check_openai_call(call: Mapping[str, Any], where: str, dialect: str) -> None:
    if len(call["id"]) > 40:
        raise Refusal(
            f"Invalid '{where}.id': string too long. Expected a string with maximum length 40, but got a string with "
            f"length {len(call['id'])} instead.",
            param=f"{where}.id",
            code="string_above_max_length",
        )
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["function"]["name"]):
        raise Refusal(
            f"Invalid '{where}.function.name': string does not match pattern. Expected a string that matches the "
            "pattern '^[a-zA-Z0-9_-]+$'.",
            param=f"{where}.function.name",
            code="invalid_value",
        )


def _check_openai_images(content: Any, where: str) -> None:
    for number, part in enumerate(content if isinstance(content, list) else ()):
        if part["type"] in ("image_url", "input_image"):
            given = part["image_url"]
            _check_data_url(given if isinstance(given, str) else given["url"], f"{where}.content[{number}].image_url")


def _check_data_url(url: str, param: str) -> None:
    if not url.startswith("data:"):
        return
    try:
        raw = base64.b64decode(url.partition(";base64,")[2], validate=True)
    except binascii.Error:
        raise Refusal("Invalid base64 image_url.", param=param, code="invalid_base64") from None
    if len(raw) > 20_000_000 or decoded_size(raw) is None:
        raise Refusal(
            "You uploaded an unsupported image. Please make sure your image has of one the following formats: "
            "['png', 'jpeg', 'gif', 'webp'].",
            code="invalid_image_format",
        )


def _check_mistral(body: Mapping[str, Any]) -> None:
    for name in ("max_completion_tokens", "reasoning_effort"):
        if name in body:
            raise Refusal(
                f'{{"detail":[{{"type":"extra_forbidden","loc":["body","{name}"],"msg":"Extra inputs are not '
                'permitted"}]}',
                422,
            )
    previous = None
    images = 0
    for index, message in enumerate(body["messages"]):
        for call in message.get("tool_calls", ()):
            if not re.fullmatch(r"[a-zA-Z0-9]{9}", call["id"]):
                raise Refusal(
                    f"Tool call id was {call['id']} but must be a-z, A-Z, 0-9, with a length of 9.",
                    type="invalid_function_call",
                    code="3280",
                )
        if "reasoning_content" in message or "reasoning" in message:
            raise Refusal(
                f'[{{"type":"extra_forbidden","loc":["body","messages",{index},"assistant","reasoning_content"],'
                '"msg":"Extra inputs are not permitted"}]',
                422,
            )
        if (previous, message["role"]) in (("tool", "user"), ("tool", "system"), ("user", "tool")):
            raise Refusal(
                f"Unexpected role '{message['role']}' after role '{previous}'",
                type="invalid_request_message_order",
                code="3230",
            )
        parts = message["content"] if isinstance(message["content"], list) else ()
        images += sum(part["type"] == "image_url" for part in parts)
        previous = message["role"]
    if previous == "assistant":
        raise Refusal(
            "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant",
            type="invalid_request_message_order",
            code="3230",
        )
    if images > 8:
        raise Refusal(f"Too many images in request. Received {images}, maximum allowed is 8.")


def check_responses(body: Mapping[str, Any], size: int) -> None:  # noqa: C901, PLR0912 - rule by rule
    """Raise ``Refusal`` as https://api.openai.com/v1/responses refuses."""
    if size > 50_000_000:
        raise Refusal("Request body too large", 413)
    for index, tool in enumerate(body.get("tools", ())):
        _check_function(tool, f"tools[{index}]")
    items = body["input"]
    if not items:
        raise Refusal("Invalid 'input': empty array.", param="input", code="empty_array")
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    results = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    if len({*calls}) < len(calls):
        raise Refusal("Duplicate item found with the same call_id.", param="input")
    if missing := [call for call in calls if call not in results]:
        raise Refusal(f"No tool output found for function call {missing[0]}.", param="input")
    if unknown := [result for result in results if result not in calls]:
        raise Refusal(f"No tool call found for function call output with call_id {unknown[0]}.", param="input")
    for index, item in enumerate(items):
        where = f"input[{index}]"
        if item.get("type") == "reasoning":
            after = items[index + 1] if index + 1 < len(items) else {}
            if after.get("type") not in ("reasoning", "function_call") and after.get("role") != "assistant":
                raise Refusal(
                    f"Item '{where}' of type 'reasoning' was provided without its required following item.",
                    param="input",
                )
        if item.get("type") == "function_call":
            if len(item["call_id"]) > 64:
                raise Refusal(f"Invalid '{where}.call_id': string too long.", param=f"{where}.call_id")
            if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", item["name"]):
                raise Refusal(
                    f"Invalid '{where}.name': string does not match pattern. Expected a string that matches the "
                    "pattern '^[a-zA-Z0-9_-]+$'.",
                    param=f"{where}.name",
                    code="invalid_value",
                )
        if item.get("role") == "user" and not item["content"]:
            raise Refusal(f"Invalid '{where}.content': empty array.", param=f"{where}.content", code="empty_array")
        _check_openai_images(item.get("content"), where)
        _check_openai_images(item.get("output"), where)
