"""Typed answers over real HTTP servers: asked for, checked, corrected, and what stays as it is besides."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from messages_api import Gate, HttpError, Reply, Text, ToolUse
from openai_api import OpenAIApi
from pydantic import BaseModel, ConfigDict

from indus_nb.base.errors import InvalidAnswerError, RunFailedError, UsageError
from indus_nb.base.events import ToolExecutionStart
from indus_nb.base.messages import ToolResultMessage, text_of
from indus_nb.core.session.session import AgentSession
from indus_nb.core.storage import SessionStore
from indus_nb.start import SessionOptions, open_session

MODELS = {
    "anthropic": "anthropic/claude-haiku-4-5",
    "completions": "local/small",
    "responses": "openai/gpt-new",
}
Open = Callable[..., AgentSession]


class Invoice(BaseModel):
    model_config = ConfigDict(extra="forbid")
    number: str
    total: float


GOOD = {"number": "A-7", "total": 12.5}


@pytest.fixture
def server():
    with OpenAIApi() as server:
        yield server


@pytest.fixture
def open_(server: OpenAIApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    agent = tmp_path / "agent"
    agent.mkdir()
    providers = {
        "local": {"baseUrl": server.v1, "api": "openai-completions", "models": [{"id": "small", "reasoning": True}]},
        "openai": {
            "baseUrl": server.v1,
            "api": "openai-responses",
            "apiKey": "sk-o",
            "models": [{"id": "gpt-new"}],
        },
    }
    (agent / "models.json").write_text(json.dumps({"providers": providers}))
    (agent / "settings.json").write_text(
        json.dumps({"retry": {"baseDelayMs": 1}, "compaction": {"keepRecentTokens": 10}})
    )
    monkeypatch.setenv("INDUS_NB_AGENT_DIR", str(agent))
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test")
    opened: list[AgentSession] = []

    def open_one(**options: Any) -> AgentSession:
        options = {"model": MODELS["anthropic"], "thinking": "off", "cwd": tmp_path, "no_session": True, **options}
        session = open_session(SessionOptions(**options))
        opened.append(session)
        return session

    yield open_one
    for session in opened:
        session.close()


def tool_of(body: dict[str, Any]) -> dict[str, Any]:
    """The tool for the answer in a request, in the words of the Messages API."""
    for tool in body.get("tools", ()):
        fields = tool.get("function", tool)
        if fields["name"] == "answer":
            return {"name": "answer", "input_schema": fields.get("input_schema") or fields["parameters"]}
    return {}


@pytest.mark.parametrize("api", MODELS)
async def test_every_api_gives_the_value_by_a_call_that_ends_the_run(api: str, open_: Open, server: OpenAIApi) -> None:
    server.add(Reply("I look.", ToolUse("ls", {})), Reply("It is this.", ToolUse("answer", GOOD)))
    session = open_(model=MODELS[api])
    invoice = await session.ask("which invoice?", result=Invoice)
    assert (invoice, type(invoice)) == (Invoice(number="A-7", total=12.5), Invoice)
    assert len(server.requests) == 2
    assert set(tool_of(server.requests[0].body)["input_schema"]["properties"]) == {"number", "total"}
    assert all("tool_choice" not in request.body for request in server.requests)
    assert server.refusals == []


@pytest.mark.parametrize("api", MODELS)
async def test_a_value_that_is_not_valid_is_told_with_its_problems_and_corrected(
    api: str, open_: Open, server: OpenAIApi
) -> None:
    server.add(Reply(ToolUse("answer", {"number": "A-7", "total": "dear"})), Reply(ToolUse("answer", GOOD)))
    session = open_(model=MODELS[api])
    assert await session.ask("which invoice?", result=Invoice) == Invoice(**GOOD)
    told = json.dumps(server.requests[1].body)
    assert "total: Input should be a valid number" in told
    assert "call answer again" in told


async def test_after_the_last_repair_the_run_ends_and_the_error_has_every_attempt(
    open_: Open, server: OpenAIApi
) -> None:
    server.add(
        Reply(ToolUse("answer", {"number": 1})),
        Reply("It is A-7."),
        Reply(ToolUse("answer", '{"number": ')),
        Reply("never asked for"),
    )
    session = open_()
    with pytest.raises(InvalidAnswerError, match=r"no valid answer \(Invoice\) in 3 attempts") as caught:
        await session.ask("which invoice?", result=Invoice)
    assert isinstance(caught.value, RunFailedError)
    first, second, third = caught.value.attempts
    assert first.given == {"number": 1}
    assert "total: Field required" in " ".join(first.problems)
    assert (second.given, second.problems) == (None, ("The model ended without an answer.",))
    assert third.given == '{"number": '
    assert "not a JSON object" in third.problems[0]
    assert len(server.requests) == 3
    assert not session.is_running


@pytest.mark.parametrize(("repairs", "requests"), [(0, 1), (1, 2), (4, 5)])
async def test_the_caller_says_how_often_an_answer_may_be_corrected(
    repairs: int, requests: int, open_: Open, server: OpenAIApi
) -> None:
    server.default = Reply(ToolUse("answer", {}))
    with pytest.raises(InvalidAnswerError):
        await open_().ask("which invoice?", result=Invoice, repairs=repairs)
    assert len(server.requests) == requests


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({}, {"type": "tool", "name": "answer"}),
        ({"thinking": "low"}, None),
        ({"model": "anthropic/claude-opus-5-5"}, None),
        ({"model": "anthropic/claude-sonnet-5-5"}, None),
        ({"model": "anthropic/claude-haiku-5-5"}, {"type": "tool", "name": "answer"}),
        ({"model": MODELS["responses"]}, {"type": "function", "name": "answer"}),
        ({"model": MODELS["completions"]}, None),
    ],
)
async def test_a_model_that_ends_without_an_answer_is_asked_for_it_and_made_to_call_where_that_may_be_asked(
    options: dict[str, Any], chosen: Any, open_: Open, server: OpenAIApi
) -> None:
    server.add(Reply("It is A-7."), Reply(ToolUse("answer", GOOD)))
    session = open_(**options)
    assert await session.ask("which invoice?", result=Invoice) == Invoice(**GOOD)
    first, second = (request.body for request in server.requests)
    assert "Your answer is missing" in json.dumps(second)
    assert ("tool_choice" in first, second.get("tool_choice"), server.refusals) == (False, chosen, [])


async def test_with_no_other_tool_the_model_has_to_answer_at_once(open_: Open, server: OpenAIApi) -> None:
    server.add(Reply(ToolUse("answer", {"answer": 42})), Reply("As I said."))
    session = open_(tools=())
    assert await session.ask("how many?", result=int) == 42
    assert server.requests[0].body["tool_choice"] == {"type": "tool", "name": "answer"}
    await session.prompt("and now?")
    assert "tool_choice" not in server.requests[1].body
    assert tool_of(server.requests[1].body) == {}


async def test_the_next_prompt_has_no_such_tool_and_the_file_is_plain_to_read(open_: Open, server: OpenAIApi) -> None:
    server.add(Reply(ToolUse("answer", {"answer": [1, 2]})), Reply("Gladly."))
    session = open_(no_session=False)
    assert await session.ask("count", result=list[int]) == [1, 2]
    await session.prompt("go on")
    assert "answer" not in session.active_tools
    assert "answer" not in [tool["name"] for tool in server.requests[1].body["tools"]]
    path = session.store.path
    assert path is not None
    session.close()
    with SessionStore.open(path) as stored:
        messages = stored.context().messages()
    assert [message.role for message in messages] == ["user", "assistant", "toolResult", "user", "assistant"]
    assert messages[1].tool_calls[0].arguments == {"answer": [1, 2]}
    assert isinstance(messages[2], ToolResultMessage)
    assert not messages[2].is_error


async def test_an_answer_beside_other_calls_may_be_corrected_after_their_results(
    open_: Open, server: OpenAIApi
) -> None:
    server.add(
        Reply(ToolUse("ls", {}), ToolUse("answer", {"answer": 1})),
        Reply(ToolUse("answer", {"answer": 2})),
        Reply(ToolUse("answer", {"answer": 3}), ToolUse("ls", {})),
        Reply("That is all."),
    )
    session = open_()
    assert await session.ask("how many?", result=int) == 2
    assert await session.ask("and now?", result=int) == 3


async def test_an_inner_value_that_is_written_as_a_text_of_json_is_read(open_: Open, server: OpenAIApi) -> None:
    server.add(Reply(ToolUse("answer", {"answer": "[1, 2]"})), Reply(ToolUse("answer", {"answer": "[1, 2]"})))
    session = open_()
    assert await session.ask("count", result=list[int]) == [1, 2]
    assert await session.ask("say so", result=str) == "[1, 2]"


async def test_what_the_user_says_meanwhile_is_heard_before_the_answer_counts(open_: Open, server: OpenAIApi) -> None:
    gate = Gate()
    server.add(
        Reply(Text("Let me", gate, " see."), ToolUse("answer", {"answer": 1})), Reply(ToolUse("answer", {"answer": 2}))
    )
    session = open_()
    asking = asyncio.create_task(session.ask("how many?", result=int))
    await asyncio.to_thread(gate.reached.wait, 240)
    await session.steer("count twice")
    gate.open()
    assert await asking == 2
    assert "count twice" in json.dumps(server.requests[1].body)


async def test_an_abort_ends_it_as_any_run(open_: Open, server: OpenAIApi) -> None:
    gate = Gate()
    server.add(Reply(Text("Let me", gate)), Reply("Hello."))
    session = open_()
    asking = asyncio.create_task(session.ask("how many?", result=int))
    await asyncio.to_thread(gate.reached.wait, 240)
    await session.abort()
    gate.open()
    with pytest.raises(RunFailedError) as caught:
        await asking
    assert caught.value.stop_reason == "aborted"
    assert await session.ask("hello") == "Hello."
    assert tool_of(server.requests[1].body) == {}


async def test_a_retry_and_a_compaction_keep_the_tool(open_: Open, server: OpenAIApi) -> None:
    server.add(
        Reply("long ago"),
        HttpError(529, "overloaded_error", "Overloaded"),
        HttpError(400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum"),
        Reply("A summary."),
        Reply(ToolUse("answer", {"answer": json.dumps(GOOD)})),
    )
    session = open_()
    await session.prompt("first " + "x" * 200_000)
    assert await session.ask("which invoice? " + "y " * 400, result=Invoice) == Invoice(**GOOD)
    asked = [bool(tool_of(request.body)) for request in server.requests]
    assert asked == [False, True, True, False, True]
    assert [json.dumps(request.body).count("<answer-schema>") for request in server.requests] == asked


async def test_a_type_that_a_summary_stands_for_is_told_again(open_: Open, server: OpenAIApi) -> None:
    full = HttpError(400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum")
    server.add(Reply("Hello."), Reply("x" * 2000, ToolUse("ls", {})), full)
    server.default = lambda request: (  # type: ignore[assignment]
        Reply(ToolUse("answer", {"answer": "1"})) if request.body.get("tools") else Reply("A summary.")
    )
    session = open_()
    await session.prompt("hello")
    assert await session.ask("how many?", result=int) == 1
    told = [json.dumps(request.body).count("<answer-schema>") for request in server.requests]
    assert (told[:3], told[-1]) == ([0, 1, 1], 1)
    assert "how many?" not in json.dumps(server.requests[-1].body).replace("A summary.", "")


async def test_a_failed_run_is_told_as_such(open_: Open, server: OpenAIApi) -> None:
    server.add(HttpError(400, "invalid_request_error", "no such thing"))
    with pytest.raises(RunFailedError, match="no such thing") as caught:
        await open_().ask("which invoice?", result=Invoice)
    assert not isinstance(caught.value, InvalidAnswerError)


async def test_secrets_in_what_is_not_valid_stand_neither_in_the_error_nor_in_what_the_model_is_told(
    open_: Open, server: OpenAIApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "a-key-that-nobody-guesses-42")
    server.add(Reply(ToolUse("answer", {"answer": "a-key-that-nobody-guesses-42"})))
    with pytest.raises(InvalidAnswerError) as caught:
        await open_().ask("how many?", result=int, repairs=0)
    assert "nobody-guesses" not in f"{caught.value} {caught.value.attempts}"
    server.add(
        Reply(ToolUse("answer", {"answer": "a-key-that-nobody-guesses-42"})), Reply(ToolUse("answer", {"answer": 1}))
    )
    session = open_()
    assert await session.ask("how many?", result=int) == 1
    results = [message for message in session.messages if isinstance(message, ToolResultMessage)]
    assert "nobody-guesses" not in text_of(results[0].content)


async def test_the_answer_asks_for_no_approval_and_an_extension_may_block_it(open_: Open, server: OpenAIApi) -> None:
    server.add(Reply(ToolUse("answer", {"answer": 1})))
    assert await open_(approve="always").ask("how many?", result=int) == 1

    def setup(api: Any) -> None:
        @api.on("tool_call")
        def refuse(event: Any, _: Any) -> Any:
            return {"block": True, "reason": "Not today."}

    server.default = Reply(ToolUse("answer", {"answer": 1}))
    with pytest.raises(InvalidAnswerError, match="Not today") as caught:
        await open_(extensions=[setup]).ask("how many?", result=int)
    assert len(caught.value.attempts) == 3


async def test_a_tool_of_the_users_keeps_its_name(open_: Open, server: OpenAIApi) -> None:
    def setup(api: Any) -> None:
        @api.tool
        def answer(text: str) -> str:
            """Answer the phone."""
            return text

    server.add(Reply(ToolUse("answer", {"text": "hello"})), Reply(ToolUse("final_answer", {"answer": 3})))
    session = open_(extensions=[setup])
    started: list[str] = []
    session.subscribe(lambda event: started.append(event.tool_name) if isinstance(event, ToolExecutionStart) else None)
    assert await session.ask("how many?", result=int) == 3
    assert started == ["answer", "final_answer"]


async def test_a_type_that_is_none_is_refused_before_anything_is_sent(open_: Open, server: OpenAIApi) -> None:
    session = open_()
    with pytest.raises(UsageError, match="cannot be the type of an answer"):
        await session.ask("how many?", result=object())
    assert (server.requests, session.messages) == ([], [])


async def test_a_chosen_model_of_another_provider_goes_on_with_the_tool(open_: Open, server: OpenAIApi) -> None:
    gate = Gate()
    server.add(Reply(ToolUse("ls", {}), gate), Reply(ToolUse("answer", GOOD)))
    session = open_()
    asking = asyncio.create_task(session.ask("which invoice?", result=Invoice))
    await asyncio.to_thread(gate.reached.wait, 240)
    await session.set_model(session.registry.find(MODELS["completions"]))
    gate.open()
    assert await asking == Invoice(**GOOD)
    assert tool_of(server.requests[1].body)["input_schema"]["properties"].keys() == {"number", "total"}


def shown(body: dict[str, Any]) -> list[str]:
    """What a model is shown in a request, piece by piece in the order in which providers cache it, without marks."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(each) for key, each in value.items() if key != "cache_control"}
        return [*map(plain, value)] if isinstance(value, list | tuple) else value

    pieces = [("tools", each) for each in body["tools"]] + [("system", body.get("system", body.get("instructions")))]
    for message in body.get("messages", body.get("input")):
        content = message.get("content")
        parts = content if isinstance(content, list) else [content]
        rest = {key: value for key, value in message.items() if key != "content"}
        pieces += [("message", {**rest, "part": part}) for part in parts]
    return [json.dumps(plain(piece)) for piece in pieces]


@pytest.mark.parametrize("api", MODELS)
async def test_a_typed_prompt_in_a_conversation_changes_nothing_that_the_model_was_shown_before(
    api: str, open_: Open, server: OpenAIApi
) -> None:
    session = open_(model=MODELS[api], typed_prompts=True)
    server.add(
        Reply("Hello."),
        Reply(ToolUse("ls", {})),
        Reply(ToolUse("answer", {"answer": '{"number": 7}'})),
        Reply("It is A-7."),
        Reply(ToolUse("answer", {"answer": json.dumps(GOOD)})),
        Reply("Gladly."),
        Reply(ToolUse("answer", {"answer": "[1, 2]"})),
        Reply("Goodbye."),
    )
    await session.prompt("hello")
    assert await session.ask("which invoice?", result=Invoice) == Invoice(**GOOD)
    await session.prompt("thank you")
    assert await session.ask("count", result=list[int]) == [1, 2]
    await session.prompt("goodbye")
    bodies = [request.body for request in server.requests]
    assert len(bodies) == 8
    for before, after in pairwise(bodies):
        assert shown(after)[: len(shown(before))] == shown(before)
        assert before.get("tool_choice") == after.get("tool_choice") is None
    assert server.refusals == []
    assert "total: Field required" in json.dumps(bodies[3])
    assert "Your answer is missing" in json.dumps(bodies[4])


async def test_the_tool_for_all_types_is_small(open_: Open, server: OpenAIApi) -> None:
    server.add(Reply("Hello."))
    await open_(typed_prompts=True).prompt("hello")
    (tool,) = [tool for tool in server.requests[0].body["tools"] if tool["name"] == "answer"]
    assert len(json.dumps([tool["name"], tool["description"], tool["input_schema"]])) < 4 * 80


async def test_a_conversation_that_mixes_prompts_gets_that_tool_with_the_first_typed_one_and_keeps_it(
    open_: Open, server: OpenAIApi
) -> None:
    session = open_()
    server.add(Reply("Hello."), Reply(ToolUse("answer", {"answer": "1"})), Reply("Bye."))
    await session.prompt("hello")
    assert await session.ask("how many?", result=int) == 1
    await session.prompt("goodbye")
    tools = [request.body["tools"] for request in server.requests]
    assert [any(tool["name"] == "answer" for tool in offered) for offered in tools] == [False, True, True]
    assert shown(server.requests[2].body)[: len(shown(server.requests[1].body))] == shown(server.requests[1].body)


async def test_that_tool_is_there_too_when_the_conversation_is_reopened_and_in_no_other_one(
    open_: Open, server: OpenAIApi
) -> None:
    session = open_(no_session=False)
    server.add(Reply("Hello."), Reply(ToolUse("answer", {"answer": "1"})), Reply("Bye."), Reply("New."))
    await session.prompt("hello")
    assert await session.ask("how many?", result=int) == 1
    path = session.store.path
    session.close()
    again = open_(no_session=False, session=str(path))
    await again.prompt("goodbye")
    before, after = (shown(request.body) for request in server.requests[1:3])
    assert after[: len(before)] == before
    await again.new_session()
    await again.prompt("hello")
    assert tool_of(server.requests[3].body) == {}


async def test_from_before_a_typed_prompt_it_goes_on_without_the_type(open_: Open, server: OpenAIApi) -> None:
    session = open_(typed_prompts=True)
    server.add(Reply("Hello."), Reply(ToolUse("answer", {"answer": "1"})), Reply("Two."))
    await session.prompt("hello")
    assert await session.ask("how many?", result=int) == 1
    entry = next(entry for entry in session.store.entries if "how many?" in json.dumps(entry.data))
    assert await session.fork(entry.id) == "how many?"
    await session.prompt("how many, in words?")
    assert "<answer-schema>" in json.dumps(server.requests[1].body)
    assert "<answer-schema>" not in json.dumps(server.requests[2].body)


async def test_an_answer_that_was_not_asked_for_is_told_so_and_the_run_goes_on(open_: Open, server: OpenAIApi) -> None:
    session = open_(typed_prompts=True)
    server.add(Reply(ToolUse("answer", {"answer": "1"})), Reply("One."))
    await session.prompt("how many?")
    assert session.last_text == "One."
    assert "No message asks for a value" in json.dumps(server.requests[1].body)


@pytest.mark.parametrize(
    ("result", "given", "value"),
    [
        (str, "plain words", "plain words"),
        (str, '"quoted"', "quoted"),
        (str, "42", "42"),
        (int, 42, 42),
        (list[str], '["a", "b"]', ["a", "b"]),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (str | None, "null", None),
        (Invoice, json.dumps(GOOD), Invoice(**GOOD)),
    ],
)
async def test_a_value_for_the_tool_of_all_types_is_read_as_json_else_as_it_is(
    result: Any, given: Any, value: Any, open_: Open, server: OpenAIApi
) -> None:
    server.add(Reply(ToolUse("answer", {"answer": given})))
    assert await open_(typed_prompts=True).ask("which?", result=result, repairs=0) == value


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"answer": '{"number": '}, "answer: this text is no JSON"),
        ({"answer": "[]"}, "the answer: Input should be an object"),
        (GOOD, "this argument holds the answer, and is missing"),
    ],
)
async def test_what_is_wrong_with_such_a_value_is_told(
    arguments: Any, problem: str, open_: Open, server: OpenAIApi
) -> None:
    server.add(Reply(ToolUse("answer", arguments)), Reply(ToolUse("answer", {"answer": json.dumps(GOOD)})))
    assert await open_(typed_prompts=True).ask("which?", result=Invoice) == Invoice(**GOOD)
    assert problem in json.dumps(server.requests[1].body)


async def test_without_a_type_the_answer_is_its_text(open_: Open, server: OpenAIApi) -> None:
    server.add(Reply("Four."))
    assert await open_().ask("how many?") == "Four."


async def test_a_recorded_answer_is_played_again_with_its_correction(
    open_: Open, server: OpenAIApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDUS_NB_CASSETTE", str(tmp_path / "answers.json"))
    server.add(Reply(ToolUse("answer", {"number": "A-7"})), Reply(ToolUse("answer", GOOD)))
    for mode in ("record", "replay"):
        monkeypatch.setenv("INDUS_NB_CASSETTE_MODE", mode)
        session = open_()
        assert await session.ask("which invoice?", result=Invoice) == Invoice(**GOOD)
        await session.end()
    assert len(server.requests) == 2


def test_the_offline_assistant_gives_values_too_from_plain_code(tmp_path: Path) -> None:
    program = """
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal
from indus_nb import SessionOptions, open_session

@dataclass
class Node:
    name: str
    size: Decimal
    kind: Literal["leaf", "branch"]
    inner: "list[Node]"

with open_session(SessionOptions(provider="offline", no_session=True)) as session:
    print(session.run("compute 6 * 7", result=int), session.run("compute 6 * 7", result=list[float]))
    print(session.run("run `echo ash`", result=Node).kind)
    print(session.run("compute 2**3", result="frame").shape)
    session.run("hello")
with open_session(SessionOptions(provider="offline", no_session=True, typed_prompts=True)) as session:
    print(session.run("compute 6 * 7", result=int), "offline" in session.run("hello"))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.stdout, done.stderr) == ("42 [42.0]\nleaf\n(1, 1)\n42 True\n", "")
