"""Diagnosis of requests that the API rejected: which part is at fault, and how the session goes on.

What a request does without is left out of it, and it is sent again: see ``forgo``.

The API names a place in the request (``messages.12.content.0``, ``tools[3]``), which only this program knows.
``explain`` describes what is there, and remembers a part that a session can do without (an image, a thought, a
tool), so that ``conforming`` leaves it out of the requests to come. For anything else it names the way to go back to
before it.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from indus_nb.base import textcut
from indus_nb.base.messages import ImageContent, ThinkingContent
from indus_nb.base.wire import JsonObject, dump
from indus_nb.models.catalog import Model
from indus_nb.models.http.failures import one_line
from indus_nb.models.protocol import ToolSpec

_MAX_REMEMBERED = 10_000
_MAX_QUOTED = 60
_HOUR = "ttl"
"""The field of a mark by which it keeps for an hour."""
_KEY = "key"
_STATUSES = (400, 413, 422)
_UNAUTHORISED = 401
_SPEAKS_OF_KEY = r"(?i)\bapi[ _-]?key\b.{0,20}(?:not valid|invalid)|\b(?:invalid|incorrect) api[ _-]?key\b"
"""Google and xAI answer a wrong key with 400."""
GO_BACK = "If that goes on, continue from before it: navigate to an earlier entry of the session, or fork there."
"""A part of the sentence, by which an interface knows where its own words for that are wanted."""
_LEFT_OUT = "From now on it is left out of requests: say what you want once more."
MOST_SENT = 5
"""How often a request is sent at most, each time without what its server has refused before."""
_SPEAKS_OF_STRICTNESS = r"(?i)\bstrict\b|\bgrammar\b|schema is too complex|structured output"
_MESSAGE = (
    r"\b(?:messages|input)(?:\.|\.?\[)(\d+)\]?(?:\.(?:content|output)(?:\.|\.?\[)(\d+)\]?)?"
    r"(?:\.tool_result)?(?:\.content(?:\.|\[)(\d+)\]?)?"
)
_TOOL = r"\btools(?:\.|\[)(\d+)\]?(?:\.function_declarations\[(\d+)\])?"
_FUNCTION = r"function '([^']{1,100})'"
_IMAGES = ("image", "image_url", "input_image")
_THOUGHTS = ("thinking", "redacted_thinking")
_SPEAKS_OF_DEFINITION = r"(?i)schema|parameters|name|description"
_SPEAKS_OF_IMAGE = r"(?i)\bimages?\b|image_url"

_refused: OrderedDict[tuple[str, str, object], None] = OrderedDict()


def refused(model: Model, part: ImageContent | ThinkingContent | ToolSpec) -> bool:
    """Return whether the model's server rejected a request because of this part.

    Refusals are remembered while this process lives.

    Args:
        model: The model, by its provider and URL.
        part: An image, thinking, or a tool with its sound schema.

    Returns:
        Whether it must be left out of requests.
    """
    return bool(_refused) and (model.provider, model.base_url, _key(part)) in _refused


def refused_hour(model: Model) -> bool:
    """Return whether the model's server rejected a request because it was to be kept for an hour."""
    return (model.provider, model.base_url, (_HOUR, model.id)) in _refused


def note_key(status: int, reason: str, key: str | None, model: Model) -> None:
    """Remember that the model's server rejected a key, if the status of its answer or the API's words say so."""
    if key and is_about_key(status, reason):
        _remember(model, (_KEY, hash(key)))


def is_about_key(status: int | None, reason: str) -> bool:
    """Return whether a server rejected a request for its key, as the status or the API's words say."""
    return status == _UNAUTHORISED or (status in (400, 403) and re.search(_SPEAKS_OF_KEY, reason) is not None)


def note_answer(key: str | None, model: Model) -> None:
    """Forget that the model's server rejected a key, for now it has begun to answer."""
    if _refused and key:
        _refused.pop((model.provider, model.base_url, (_KEY, hash(key))), None)


def refused_key(model: Model, key: str) -> bool:
    """Return whether the model's server rejected this key."""
    return (model.provider, model.base_url, (_KEY, hash(key))) in _refused


def forgo(status: int, reason: str, body: JsonObject, model: Model) -> bool:
    """Remember what a server refused that the request does without.

    That is that it is kept for an hour, or that calls are held to their schema.

    Args:
        reason: The API's words, with the name of the parameter if it gave one.

    Returns:
        Whether to write the request anew and send it again at once.
    """
    if status not in _STATUSES:
        return False
    if re.search(rf"\b{_HOUR}\b", reason) and _is_kept_long(body):
        _remember(model, (_HOUR, model.id))
        return True
    unheld = _refused_strict(reason, body)
    for spec in unheld:
        _remember(model, _key(spec))
    return bool(unheld)


def _refused_strict(reason: str, body: JsonObject) -> list[ToolSpec]:
    """Return the tools whose calls the server will not hold to their schema: the one it names, else all."""
    strict = [spec for spec in _specs(body) if spec.strict]
    tool = None if re.search(r"(?i)\bstrict\b", reason) else _tool(reason, body)
    if tool is not None:
        return [spec for spec in strict if spec.name == _spec(tool).name]
    return strict if re.search(_SPEAKS_OF_STRICTNESS, reason) else []


def explain(status: int, reason: str, body: JsonObject, model: Model) -> str:
    """Describe the cause of a rejected request, and how to go on.

    Args:
        reason: The API's words, with the name of the parameter if it gave one.

    Returns:
        Sentences for the user; empty when the API did not name what was at fault.
    """
    if status not in _STATUSES:
        return ""
    if (tool := _tool(reason, body)) is not None:
        return _about_tool(_spec(tool), reason, model)
    messages = _objects(body.get("messages") or body.get("input"))
    match = re.search(_MESSAGE, reason)
    if match is None or int(match[1]) >= len(messages):
        return _without_place(reason, messages, model)
    message = messages[int(match[1])]
    part = _part(message, [int(number) for number in match.groups()[1:] if number is not None])
    return _about_message(message, part, messages, reason, model)


def _about_tool(spec: ToolSpec, reason: str, model: Model) -> str:
    name = f"the tool {spec.name[:_MAX_QUOTED]}"
    if spec.strict or not re.search(_SPEAKS_OF_DEFINITION, reason):
        return f" (This is about {name}.)"
    _remember(model, _key(spec))
    return f" (This is about {name}. {_LEFT_OUT})"


def _about_message(
    message: JsonObject, part: JsonObject, messages: Sequence[JsonObject], reason: str, model: Model
) -> str:
    where = _described(message)
    kind = part.get("type")
    images = [*_images_in(part)] if kind in _IMAGES or re.search(_SPEAKS_OF_IMAGE, reason) else []
    if images:
        for block in images:
            _remember(model, _image_key(block))
        return f" (This is about an image in {where}. {_LEFT_OUT})"
    if kind in _THOUGHTS:
        # What makes one signature invalid (another key, another region) does so for all.
        blocks = (block for each in messages for block in _objects(_content(each)) if block.get("type") in _THOUGHTS)
        for block in blocks if "signature" in reason else (part,):
            _remember(model, hash(str(block.get("signature") or block.get("data") or "")))
        return f" (This is about a thought in {where}. {_LEFT_OUT})"
    return f" (This is about {where}. {GO_BACK})"


def _without_place(reason: str, messages: Sequence[JsonObject], model: Model) -> str:
    """Explain a rejection because of an unnamed image: it is among those that no earlier request had."""
    if not re.search(_SPEAKS_OF_IMAGE, reason):
        return ""
    latest = max((index for index, message in enumerate(messages) if _is_answer(message)), default=-1)
    suspects = [image for message in messages[latest + 1 :] for image in _images_in(message)]
    suspects = suspects or [image for message in messages for image in _images_in(message)]
    for image in suspects:
        _remember(model, _image_key(image))
    if not suspects:
        return ""
    which = "the image" if len(suspects) == 1 else f"one of {len(suspects)} images"
    return f" (This is about {which} in the conversation. {_LEFT_OUT})"


def _remember(model: Model, key: object) -> None:
    _refused[model.provider, model.base_url, key] = None
    if len(_refused) > _MAX_REMEMBERED:
        _refused.popitem(last=False)


# --- what a part is known by: the same in a session and in a request -------------------------------------------------


def _key(part: ImageContent | ThinkingContent | ToolSpec) -> object:
    match part:
        case ImageContent():
            return part.source.url if part.source is not None else hash(part.data or "")
        case ThinkingContent():
            return hash(part.thinking_signature or "")
        case ToolSpec():
            return part.name, hash(part.description), hash(dump(part.parameters)), part.strict


def _image_key(block: JsonObject) -> object:
    source: object = block.get("source") or block.get("image_url")
    fields = cast("JsonObject", source) if isinstance(source, dict) else {"url": source}
    if "data" in fields:
        return hash(str(fields["data"]))
    url = str(fields.get("url") or "")
    return hash(url.partition(";base64,")[2]) if url.startswith("data:") else url


def _spec(tool: JsonObject) -> ToolSpec:
    function: object = tool.get("function")
    fields = cast("JsonObject", function) if isinstance(function, dict) else tool
    parameters: Any = fields.get("input_schema") or fields.get("parameters") or {}
    strict = fields.get("strict") is True
    return ToolSpec(str(fields.get("name")), str(fields.get("description")), parameters, strict=strict)


# --- the parts of a body ---------------------------------------------------------------------------------------------


def _tool(reason: str, body: JsonObject) -> JsonObject | None:
    tools = _objects(body.get("tools"))
    if (match := re.search(_TOOL, reason)) is not None:
        index = int(match[2] or match[1])
        return tools[index] if index < len(tools) else None
    if (match := re.search(_FUNCTION, reason)) is not None:
        return next((tool for tool in tools if _spec(tool).name == match[1]), None)
    return None


def _specs(body: JsonObject) -> list[ToolSpec]:
    return [*map(_spec, _objects(body.get("tools")))]


def _is_kept_long(body: JsonObject) -> bool:
    parts = [*_objects(body.get("system")), *_objects(body.get("tools"))]
    parts += [part for message in _objects(body.get("messages")) for part in _objects(_content(message))]
    return any(_HOUR in (part.get("cache_control") or ()) for part in parts)


def _objects(value: object) -> list[JsonObject]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("JsonObject", item) if isinstance(item, dict) else {} for item in items]


def _part(message: JsonObject, path: Sequence[int]) -> JsonObject:
    part = message
    for index in path:
        inner = _objects(_content(part))
        if index >= len(inner):
            return part
        part = inner[index]
    return part


def _content(fields: JsonObject) -> list[Any]:
    for name in ("content", "output"):
        if isinstance(value := fields.get(name), list):
            return cast("list[Any]", value)
    return []


def _images_in(part: object) -> Iterator[JsonObject]:
    if not isinstance(part, dict):
        return
    fields = cast("JsonObject", part)
    if fields.get("type") in _IMAGES:
        yield fields
    for inner in _content(fields):
        yield from _images_in(inner)


def _is_answer(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "assistant" or message.get("type") in ("function_call", "reasoning")


def _described(message: JsonObject) -> str:
    words = one_line(" ".join(_texts(message)))
    quoted = f' "{textcut.head(words, _MAX_QUOTED)}"' if words else ""
    kinds = {cast("JsonObject", part).get("type") for part in _content(message) if isinstance(part, dict)}
    if message.get("role") == "tool" or message.get("type") == "function_call_output" or "tool_result" in kinds:
        return f"the result of a tool{quoted}"
    return f"the answer{quoted}" if _is_answer(message) else f"the message{quoted}"


def _texts(part: object) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, list):
        for inner in cast("list[object]", part):
            yield from _texts(inner)
    elif isinstance(part, dict):
        fields = cast("JsonObject", part)
        for name in ("text", "content", "output"):
            yield from _texts(fields.get(name))
