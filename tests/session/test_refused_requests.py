"""A session never dies of what it contains: against servers that refuse what the real ones refuse, it goes on."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from messages_api import HttpError, Redacted, Reply, Text, Thinking, ToolUse
from openai_api import OpenAIApi
from pictures import encoded, picture
from PIL import Image

from indus_nb.base.errors import UsageError
from indus_nb.base.events import ToolOutput
from indus_nb.base.messages import (
    AssistantMessage,
    CustomMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from indus_nb.core.session.session import AgentSession
from indus_nb.extend.api import ExtensionApi, ExtensionTool
from indus_nb.front.notebook.view.transcript import Line, Transcript
from indus_nb.start import SessionOptions, open_session
from indus_nb.tools.tool import ToolError

APIS = ("anthropic-messages", "openai-completions", "openai-responses")
Open = Callable[..., AgentSession]


@pytest.fixture
def server() -> Iterator[OpenAIApi]:
    with OpenAIApi() as server:
        yield server


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def open_(server: OpenAIApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    agent = tmp_path / "agent"
    agent.mkdir()
    monkeypatch.setenv("INDUS_NB_AGENT_DIR", str(agent))
    opened: list[AgentSession] = []

    def open_one(api: str, *extensions: Any, model: dict[str, Any] | None = None, **wishes: Any) -> AgentSession:
        url = server.url if api == "anthropic-messages" else server.v1
        described = {"id": "m", "reasoning": True, "input": ["text", "image"], "maxTokens": 16000, **(model or {})}
        providers = {"here": {"baseUrl": url, "api": api, "apiKey": "sk-test-key", "models": [described]}}
        (agent / "models.json").write_text(json.dumps({"providers": providers}))
        known = {"cwd": tmp_path, "model": "here/m", "thinking": "low", "extensions": extensions, "tools": None}
        session = open_session(SessionOptions(**{**known, **wishes}))
        opened.append(session)
        return session

    yield open_one
    for session in opened:
        session.close()


def holding(session: AgentSession, *messages: Message) -> AgentSession:
    """The session as if these had been said in it, by this version or any other program."""
    for message in messages:
        session.store.append_message(message)
    session.conversation.reload(session.store)
    return session


def answered(*blocks: Any, api: str = "anthropic-messages", model: str = "m", **fields: Any) -> AssistantMessage:
    return AssistantMessage(content=[*blocks], api=api, provider="here", model=model, **fields)


async def goes_on(session: AgentSession, server: OpenAIApi, text: str = "go on") -> dict[str, Any]:
    """The body of the request for one more prompt, which must be answered."""
    server.add("Fine.")
    await session.prompt(text)
    assert session.last_answer.error_message is None
    assert session.last_text == "Fine."
    assert server.refusals == []
    return server.requests[-1].body


def tool(
    name: str, run: Callable[..., Any], parameters: dict[str, Any] | None = None
) -> Callable[[ExtensionApi], None]:
    def extension(api: ExtensionApi) -> None:
        schema = {"type": "object", "properties": {}} if parameters is None else parameters
        api.register_tool(ExtensionTool(name=name, description=name, parameters=schema, execute=run))

    return extension


# --- results of tools ------------------------------------------------------------------------------------------------


async def test_a_failed_result_with_an_image_is_shown_behind_the_results(api, open_, server):
    async def plot(*_: Any) -> ToolOutput:
        error = ToolError("NameError: no such name")
        error.output.content.append(picture(3, 3))
        raise error

    session = open_(api, tool("plot", plot))
    server.add(Reply(ToolUse("plot", {}), ToolUse("plot", {})), "I see.")
    await session.prompt("plot it")
    assert (session.last_text, server.refusals) == ("I see.", [])
    body = json.dumps(await goes_on(session, server))
    assert body.count(encoded(3, 3)) == 2
    assert "NameError" in body


async def test_the_images_of_failed_results_stand_in_the_message_of_the_results(open_, server):
    call = ToolCall(id="c1", name="plot", arguments={})
    failed = ToolResultMessage(
        tool_call_id="c1", tool_name="plot", content=[TextContent(text="no"), picture()], is_error=True
    )
    session = holding(open_("anthropic-messages"), UserMessage(content="plot"), answered(call), failed)
    body = await goes_on(session, server)
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    kinds = [block["type"] for block in body["messages"][-1]["content"]]
    assert kinds == ["tool_result", "text", "image", "text"]
    result = body["messages"][-1]["content"][0]
    assert [part["text"] for part in result["content"]] == ["no", "(The image follows behind the results.)"]


async def test_a_tool_that_was_called_by_an_impossible_name_does_no_harm(api, open_, server):
    session = open_(api)
    server.add(Reply(ToolUse("functions.bash(ls)", {}), ToolUse("x" * 300, {})), "Sorry.")
    await session.prompt("list")
    await goes_on(session, server)


async def test_calls_that_share_an_id_are_told_apart(api, open_, server):
    session = open_(api)
    for _ in range(2):
        server.add(Reply(ToolUse("bash", {"command": "true"}, id="call_0")), "Done.")
        await session.prompt("again")
    body = await goes_on(session, server)
    assert "call_0" in json.dumps(body)


async def test_numbers_that_json_does_not_know_do_not_stop_a_request(api, open_, server):
    session = open_(api)
    server.add(Reply(ToolUse("bash", '{"command": "true", "timeout": NaN}')), "Done.")
    await session.prompt("wait")
    await goes_on(session, server)


# --- answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply",
    [
        Reply(Thinking("endless"), stop_reason="max_tokens"),
        Reply(Thinking("hm"), Text("  ")),
        Reply(Text(" \n")),
    ],
    ids=["cut while thinking", "blank text", "blank"],
)
async def test_an_answer_of_thinking_alone_is_not_replayed(api, open_, server, reply):
    session = open_(api)
    server.add(reply)
    await session.prompt("think")
    body = await goes_on(session, server)
    assert "endless" not in json.dumps(body)


async def test_thinking_behind_the_text_is_not_replayed(open_, server):
    session = open_("anthropic-messages")
    server.add(Reply(Thinking("first"), "Text.", Thinking("second"), Redacted("c2Vj"), stop_reason="max_tokens"))
    await session.prompt("think")
    body = await goes_on(session, server)
    assert [block["type"] for block in body["messages"][1]["content"]] == ["thinking", "text"]


@pytest.mark.parametrize("limit", [500, 1500, 2047, 2048, 3000])
async def test_a_model_with_a_small_limit_is_never_given_an_impossible_budget(open_, server, limit):
    session = open_("anthropic-messages", model={"maxTokens": limit}, thinking="high")
    thinking = (await goes_on(session, server))["thinking"]
    assert thinking.get("budget_tokens", 0) in ((limit - 1024,) if limit >= 2048 else (0,))


# --- messages that say nothing ---------------------------------------------------------------------------------------


async def test_a_blank_message_of_an_extension_may_begin_a_turn(api, open_, server):
    session = open_(api)
    server.add("Yes?")
    await session.send_message(CustomMessage(custom_type="x", content="  "), trigger_turn=True)
    assert (session.last_text, server.refusals) == ("Yes?", [])
    server.add("Again?")
    await session.send_message(CustomMessage(custom_type="x", content=[TextContent(text="")]), trigger_turn=True)
    assert (session.last_text, server.refusals) == ("Again?", [])


async def test_a_conversation_may_begin_with_an_answer(api, open_, server):
    session = holding(open_(api), answered(TextContent(text="Hello"), api=api))
    await goes_on(session, server)


# --- tools that are offered ------------------------------------------------------------------------------------------

REPAIRABLE: list[dict[str, Any]] = [
    {},
    {"type": "object"},
    {"type": ["object", "null"]},
    {"type": "object", "properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    {"oneOf": [{"type": "object", "properties": {"a": {"type": "integer"}}}, {"type": "null"}]},
    {"allOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": {"properties": {"a": {"type": "string"}}, "required": ["a"]}}},
    {"type": "object", "properties": {"a": {"type": "array", "items": [{"type": "string"}]}}},
    {"type": "object", "properties": {"a": {"type": "number", "minimum": 0, "exclusiveMinimum": True}}},
    {"type": "object", "properties": {"a": {"type": "string", "description": None, "enum": []}}},
]
HOPELESS: list[Any] = [
    {"type": "string"},
    {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    {"type": "object", "properties": []},
    {"type": "object", "properties": {"a": {"type": "text"}}},
    {"type": "object", "properties": {"filter[id]": {"type": "string"}}},
    {"type": "object", "properties": {"a": "string"}},
    {"type": "object", "required": "a"},
    {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}},
    {"$ref": "https://example.org/schema"},
]


@pytest.mark.parametrize("schema", REPAIRABLE, ids=json.dumps)
async def test_a_schema_that_can_be_repaired_is(api, open_, server, schema):
    session = open_(api, tool("odd", lambda *_: "done", schema))
    server.add(Reply(ToolUse("odd", {})), "Good.")
    await session.prompt("try it")
    assert (session.last_text, server.refusals, session.hooks.problems()) == ("Good.", [], [])
    assert '"odd"' in json.dumps(server.requests[0].body["tools"])


@pytest.mark.parametrize("schema", HOPELESS, ids=json.dumps)
async def test_a_tool_that_cannot_be_offered_is_left_out_by_name(api, open_, server, schema):
    session = open_(api, tool("hopeless", lambda *_: "done", schema), tool("good", lambda *_: "done"))
    body = await goes_on(session, server)
    assert "hopeless" not in json.dumps(body)
    assert '"good"' in json.dumps(body)
    (problem,) = session.hooks.problems()
    assert "The tool hopeless cannot be offered: " in problem


async def test_choices_at_the_top_allow_what_any_of_them_allowed(open_, server):
    schema = {
        "oneOf": [
            {"type": "object", "properties": {"op": {"const": "a"}, "x": {"type": "string"}}, "required": ["op", "x"]},
            {"type": "object", "properties": {"op": {"const": "b"}}, "required": ["op"]},
        ]
    }
    session = open_("openai-responses", tool("both", lambda *_: "done", schema))
    body = await goes_on(session, server)
    (offered,) = [each["parameters"] for each in body["tools"] if each["name"] == "both"]
    assert offered["required"] == ["op"]
    assert offered["properties"]["op"] == {"anyOf": [{"const": "a"}, {"const": "b"}]}


# --- images ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "image",
    [picture(9000, 20), picture(1800, 1800, noise=True), picture(2500, 2500, "JPEG", noise=True)],
    ids=["too wide", "13 MB of base64", "a photo"],
)
async def test_images_of_a_user_are_scaled_to_what_every_api_takes(api, open_, server, image):
    session = open_(api)
    server.add("Nice.")
    await session.prompt("look", [image])
    assert (session.last_text, server.refusals) == ("Nice.", [])
    (kept,) = [block for block in session.messages[0].content if isinstance(block, ImageContent)]
    assert len(kept.data) < 5_000_000
    await goes_on(session, server)


async def test_images_of_queued_messages_are_scaled_and_stay_in_their_order(open_, server):
    session = open_("anthropic-messages")
    await asyncio.gather(session.steer("first", [picture(9000, 20)]), session.steer("second"))
    assert session.steering.texts == ["first", "second"]
    await session.follow_up("third", [picture(9000, 20)])
    server.add("a", "b", "c")
    await session.prompt("zeroth")
    assert server.refusals == []


async def test_without_scaling_an_image_that_no_api_takes_is_refused_up_front(open_, server, tmp_path):
    (tmp_path / "agent/settings.json").write_text('{"images": {"autoResize": false}}')
    session = open_("anthropic-messages")
    for say in (session.prompt, session.steer, session.follow_up, session.abort_and_prompt):
        with pytest.raises(UsageError, match=r"The image is too large: 9000 x 20 pixels.*images\.autoResize"):
            await say("look", [picture(9000, 20)])
    assert (session.messages, server.requests, session.pending_count) == ([], [], 0)
    server.add("Nice.")
    await session.prompt("look", [picture(3000, 20)])
    assert server.requests[0].body["messages"][0]["content"][1]["source"]["data"] == encoded(3000, 20)


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (ImageContent(data=encoded(40, 40, noise=True)[:800], mime_type="image/png"), "cannot be decoded"),
        (ImageContent(data="bm90IGFuIGltYWdl", mime_type="image/png"), "data is no png image"),
        (ImageContent(data="%%%%", mime_type="image/png"), "data must be base64"),
    ],
    ids=["cut", "no image", "no base64"],
)
async def test_an_image_that_nobody_can_read_is_refused_up_front(open_, server, image, words):
    session = open_("anthropic-messages")
    with pytest.raises(UsageError, match=words):
        await session.prompt("look", [image])
    assert (session.messages, server.requests) == ([], [])
    await goes_on(session, server)


POISON = {
    "cut": ImageContent(data=encoded(40, 40, noise=True)[:800], mime_type="image/png"),
    "no image": ImageContent(data="bm90IGFuIGltYWdl", mime_type="image/png"),
    "no base64": ImageContent(data="%%%%", mime_type="image/png"),
    "another type": ImageContent(data=encoded(kind="JPEG"), mime_type="image/png"),
    "an unknown type": ImageContent(data=encoded(), mime_type="image/tiff"),
    "too wide": picture(9000, 20),
    "too large": picture(1400, 1400, noise=True),
}


@pytest.mark.parametrize("poison", POISON)
async def test_an_image_that_a_session_holds_already_does_no_harm(api, open_, server, poison):
    image = POISON[poison]
    call = ToolCall(id="c1", name="look", arguments={})
    session = holding(
        open_(api),
        UserMessage(content=[TextContent(text="see"), image]),
        answered(call, api=api),
        ToolResultMessage(tool_call_id="c1", tool_name="look", content=[image]),
    )
    body = json.dumps(await goes_on(session, server))
    if poison in ("cut", "no image", "no base64"):
        assert body.count("An image was left out: ") == 2


async def test_with_many_images_the_large_ones_are_left_out(open_, server):
    images = [picture(2100 if number < 3 else 30, 20) for number in range(22)]
    session = holding(open_("anthropic-messages"), UserMessage(content=images))
    body = await goes_on(session, server)
    kinds = [block["type"] for block in body["messages"][0]["content"]]
    assert kinds == ["text"] * 3 + ["image"] * 19 + ["text"]


async def test_of_more_images_than_an_api_takes_the_oldest_are_left_out(open_, server):
    session = holding(open_("anthropic-messages"), UserMessage(content=[picture() for _ in range(105)]))
    body = await goes_on(session, server)
    kinds = [block["type"] for block in body["messages"][0]["content"]]
    assert kinds == ["text"] * 5 + ["image"] * 100 + ["text"]


async def test_of_more_than_fits_into_a_request_the_oldest_images_are_left_out(open_, server):
    one = picture(1000, 1100, noise=True)
    session = holding(open_("anthropic-messages"), *(UserMessage(content=[one.replace()]) for _ in range(9)))
    body = await goes_on(session, server)
    assert len(one.data) * 9 > 32_000_000
    kinds = [block["type"] for block in body["messages"][0]["content"]]
    assert kinds[0] == "text"
    assert kinds.count("image") == 31_900_000 // len(one.data)
    assert kinds[-2] == "image"


async def test_images_that_tools_give_are_scaled_or_told_of(api, open_, server):
    async def look(*_: Any) -> ToolOutput:
        return ToolOutput(content=[picture(9000, 20), ImageContent(data="%%%%", mime_type="image/png")])

    session = open_(api, tool("look", look))
    server.add(Reply(ToolUse("look", {})), "I see.")
    await session.prompt("look")
    (result,) = [message for message in session.messages if isinstance(message, ToolResultMessage)]
    assert [block.type for block in result.content] == ["image", "text"]
    assert "An image that look gave was left out" in result.content[1].text
    await goes_on(session, server)


async def test_the_event_loop_goes_on_while_an_image_is_decoded(open_, server):
    session = open_("anthropic-messages")
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    ticking = asyncio.create_task(tick())
    server.add("Nice.")
    await session.steer("look", [picture(2500, 2500, noise=True)])
    ticking.cancel()
    assert ticks > 20


async def test_an_image_of_too_many_pixels_is_not_unpacked(open_, server):
    buffer = io.BytesIO()
    Image.new("1", (8192, 8192)).save(buffer, "PNG")
    image = ImageContent(data=base64.b64encode(buffer.getvalue()).decode(), mime_type="image/png")
    session = open_("anthropic-messages")
    with pytest.raises(UsageError, match="too large when unpacked, 8192 x 8192 pixels"):
        await session.prompt("look", [image])
    await goes_on(holding(session, UserMessage(content=[image])), server)


# --- Mistral ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def mistral(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[AgentSession, OpenAIApi]]:
    agent = tmp_path / "agent"
    agent.mkdir()
    monkeypatch.setenv("INDUS_NB_AGENT_DIR", str(agent))
    with OpenAIApi(dialect="mistral") as server:
        local = {"providers": {"mistral": {"baseUrl": server.v1, "apiKey": "sk-test-key"}}}
        (agent / "models.json").write_text(json.dumps(local))
        (agent / "settings.json").write_text('{"compaction": {"keepRecentTokens": 10}}')
        with open_session(SessionOptions(cwd=tmp_path, model="mistral/mistral-medium-latest")) as session:
            yield session, server


async def test_mistral_goes_on_with_calls_of_other_models(mistral):
    session, server = mistral
    call = ToolCall(id="toolu_01AbCdEf", name="look", arguments={})
    holding(
        session,
        UserMessage(content="see"),
        answered(ThinkingContent(thinking="hm", thinking_signature="reasoning_content"), call),
        ToolResultMessage(tool_call_id="toolu_01AbCdEf", tool_name="look", content=[picture()]),
    )
    body = await goes_on(session, server)
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user", "user"]
    assert body["messages"][3]["name"] == "look"


async def test_mistral_writes_summaries(mistral):
    session, server = mistral
    await goes_on(session, server)
    await goes_on(session, server, "more " * 100)
    server.add("What was said.", "What was said.")
    await session.compact()
    assert server.refusals == []


# --- what is refused all the same ------------------------------------------------------------------------------------


async def test_an_image_that_the_api_refuses_is_left_out_from_then_on(open_, server):
    session = open_("anthropic-messages")
    server.add(HttpError(400, "invalid_request_error", "messages.0.content.1.image.source: Unsupported colour space"))
    await session.prompt("what is this?", [picture(5, 5)])
    assert session.last_answer.error_message == (
        "400 invalid_request_error: messages.0.content.1.image.source: Unsupported colour space (This is about an "
        'image in the message "what is this?". From now on it is left out of requests: say what you want once more.)'
    )
    body = await goes_on(session, server)
    assert "An image was left out: the API refused it before." in json.dumps(body)


async def test_an_image_that_the_api_refuses_without_saying_which_is_found(api, open_, server):
    session = open_(api)
    server.add("Nice.")
    await session.prompt("look", [picture(6, 6)])
    server.add(HttpError(400, "invalid_request_error", "Could not process image"))
    await session.prompt("and this", [picture(7, 6)])
    assert "This is about the image in the conversation." in session.last_answer.error_message
    body = json.dumps(await goes_on(session, server))
    assert encoded(6, 6) in body
    assert encoded(7, 6) not in body


async def test_signatures_that_are_good_no_more_are_left_out_from_then_on(open_, server):
    session = open_("anthropic-messages")
    for number in range(2):
        server.add(Reply(Thinking(f"thought {number}", f"c2ln{number}x"), "Yes."))
        await session.prompt("think")
    server.add(HttpError(400, "invalid_request_error", "messages.1.content.0: Invalid `signature` in `thinking` block"))
    await session.prompt("more")
    assert 'This is about a thought in the answer "Yes.".' in session.last_answer.error_message
    assert "thought" not in json.dumps((await goes_on(session, server))["messages"])


async def test_a_tool_that_the_api_refuses_is_named_and_left_out_from_then_on(api, open_, server):
    session = open_(api, tool("odd", lambda *_: "done"))
    names = [*session.active_tools]
    await session.start()
    number = [*session.active_tools].index("odd")
    assert "odd" not in names
    words = {
        "anthropic-messages": f"tools.{number}.custom.input_schema: JSON schema is invalid.",
        "openai-completions": "Invalid schema for function 'odd': nobody knows why.",
        "openai-responses": f"Invalid 'tools[{number}].parameters': nobody knows why.",
    }
    server.add(HttpError(400, "invalid_request_error", words[api]))
    await session.prompt("go")
    assert "This is about the tool odd. From now on it is left out" in session.last_answer.error_message
    body = await goes_on(session, server)
    assert '"odd"' not in json.dumps(body["tools"])


async def test_a_message_that_cannot_be_left_out_is_quoted_and_going_back_before_it_helps(api, open_, server):
    session = open_(api)
    server.add("Yes.")
    await session.prompt("the good part")

    def answer(request: Any) -> Any:
        poisoned = "poison" in json.dumps(request.body)
        number = sum(1 for _ in (request.body.get("messages") or request.body["input"])) - 1
        place = f"messages.{number}" if api == "anthropic-messages" else f"Invalid 'input[{number}]'"
        return HttpError(400, "invalid_request_error", f"{place}: Odd text") if poisoned else Reply("Fine.")

    server.add(answer, answer, answer)
    await session.prompt("this is poison")
    events: list[Any] = []
    session.subscribe(events.append)
    await session.prompt("this is poison too")
    told = session.last_answer.error_message
    assert "poison" in told
    assert "navigate to an earlier entry of the session, or fork there" in told
    transcript = Transcript("a model")
    for event in events:
        transcript.feed(event)
    transcript.close()
    assert "%agent tree ENTRY" in str([block.shown for block in transcript.blocks if isinstance(block, Line)])
    poisoned = next(entry for entry in session.store.entries if "this is poison" in json.dumps(entry.data))
    await session.navigate(poisoned.id)
    await session.prompt("go on")
    assert session.last_text == "Fine."
