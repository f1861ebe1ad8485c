"""Messages on their way to a model, and answers while they grow."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from other_versions import oldest_pydantic_path

from indus_nb.base.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    for_model,
    parse_message,
    text_of,
)
from indus_nb.base.streaming import GrowingMessage, partial_arguments

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda values: st.lists(values, max_size=4) | st.dictionaries(st.text(), values, max_size=4),
    max_leaves=12,
)


def answer(*content: TextContent | ToolCall, stop_reason: str = "stop") -> AssistantMessage:
    fields = {"api": "a", "provider": "p", "model": "m", "stop_reason": stop_reason}
    return AssistantMessage.from_wire({**fields, "content": list(content)})


def call(call_id: str) -> ToolCall:
    return ToolCall(id=call_id, name="ls", arguments={})


def result(call_id: str) -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=call_id, tool_name="ls", content=[TextContent(text="a")], is_error=False)


def spoken(message: Message) -> str:
    (shown,) = for_model([message])
    assert isinstance(shown, UserMessage)
    return text_of(shown.content)


def test_shell_commands_summaries_and_extensions_speak_as_the_user() -> None:
    bash = BashExecutionMessage(command="ls", output="a\nb", exit_code=2, cancelled=False, truncated=False)
    assert spoken(bash) == "Ran `ls`\n```\na\nb\n```\n\nCommand exited with code 2"
    cut = bash.replace(output="", cancelled=True, truncated=True, full_output_path="/tmp/all")
    assert spoken(cut).startswith("Ran `ls`\n(no output)\n\n(the command was cancelled)\n\n[Output truncated")
    assert "<summary>\nshort\n</summary>" in spoken(CompactionSummaryMessage(summary="short", tokens_before=9))
    assert "<summary>\nleft\n</summary>" in spoken(BranchSummaryMessage(summary="left", from_id="abc"))
    assert spoken(CustomMessage(custom_type="note", content="remember", display=False)) == "remember"
    assert for_model([bash.replace(exclude_from_context=True)]) == []


def test_failed_answers_and_results_that_nobody_asked_for_are_not_shown_to_the_model() -> None:
    user = UserMessage(content="hi")
    good = answer(TextContent(text="hello"))
    failed = answer(call("1"), stop_reason="error")
    aborted = answer(TextContent(text="half"), stop_reason="aborted")
    assert for_model([user, failed, result("1"), aborted, good, result("9")]) == [user, good]


def test_a_prompt_for_which_no_request_was_sent_goes_along_with_no_later_one() -> None:
    first, told, refused, second = (
        UserMessage(content="first"),
        CustomMessage(custom_type="context", content="x = 1", display=False),
        UserMessage(content="too dear"),
        UserMessage(content="second"),
    )
    reason = "The budget of $0.1 has no room: $0.0000 are spent."
    unpaid = answer(stop_reason="error").replace(error_message=reason)
    shown = for_model([first, answer(stop_reason="error"), told, refused, unpaid, second])
    assert [message.content for message in shown] == ["first", "x = 1", "second"]
    asked = answer(call("1"), stop_reason="toolUse")
    assert for_model([first, asked, result("1"), second, unpaid]) == [first, asked, result("1"), second]


def test_a_call_without_a_result_gets_one_that_says_so_before_anything_else_is_said() -> None:
    asked = answer(call("1"), call("2"), stop_reason="toolUse")
    user = UserMessage(content="go on")
    shown = for_model([asked, result("2"), user])
    assert [type(message).__name__ for message in shown] == [
        "AssistantMessage",
        "ToolResultMessage",
        "ToolResultMessage",
        "UserMessage",
    ]
    missing = shown[2]
    assert isinstance(missing, ToolResultMessage)
    assert (missing.tool_call_id, missing.is_error) == ("1", True)
    assert for_model([asked])[1:] != []


def test_calls_that_have_the_same_id_keep_a_result_each() -> None:
    asked = answer(call("1"), call("1"), call("2"), stop_reason="toolUse")
    results = [result("1"), result("2"), result("1")]
    assert for_model([asked, *results, result("1")]) == [asked, *results]
    (missing,) = for_model([asked, *results[:2]])[3:]
    assert isinstance(missing, ToolResultMessage)
    assert (missing.tool_call_id, missing.is_error) == ("1", True)


def test_keys_that_are_unknown_here_survive_a_round_trip() -> None:
    wire = {
        "role": "assistant",
        "content": [{"type": "text", "text": "hi", "novel": [1]}],
        "api": "a",
        "provider": "p",
        "model": "m",
        "usage": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 3, "reasoning": 1},
        "stopReason": "stop",
        "timestamp": 5,
        "diagnostics": {"a": None},
    }
    back = parse_message(wire).to_wire()
    assert back["content"] == wire["content"]
    assert back["usage"]["reasoning"] == 1
    assert "diagnostics" in back


@given(st.dictionaries(st.text(), JSON, max_size=4), st.data())
def test_arguments_can_be_read_at_any_moment_and_are_whole_at_the_end(
    arguments: dict[str, object], data: st.DataObject
) -> None:
    text = json.dumps(arguments, ensure_ascii=data.draw(st.booleans()))
    for end in range(len(text)):
        assert partial_arguments(text[:end]).keys() <= arguments.keys()
    assert partial_arguments(text) == arguments


@given(st.lists(st.text(st.characters(), max_size=5), max_size=8))
def test_deltas_add_up_to_the_text_and_to_every_snapshot(deltas: list[str]) -> None:
    growing = GrowingMessage(api="a", provider="p", model="m")
    index = growing.open_text().content_index
    seen = ""
    for delta in deltas:
        seen += growing.append(index, delta).delta
        assert growing.snapshot().text == seen
    assert growing.close(index).content == seen
    assert growing.finish("stop").message.text == seen


def test_arguments_that_are_no_object_are_kept_as_they_came() -> None:
    growing = GrowingMessage(api="a", provider="p", model="m")
    index = growing.open_tool_call("1", "ls").content_index
    growing.append(index, '{"path": ')
    assert growing.snapshot().tool_calls[0].arguments == {}
    ended = growing.close(index)
    assert (ended.tool_call.arguments, ended.tool_call.malformed) == ({}, '{"path": ')
    assert ended.to_wire()["toolCall"]["arguments"] == {}


UNUSED_CLASSES = """
import json, os, sys
from indus_nb.base.messages import CustomMessage, parse_message
from indus_nb.base.wire import dump

def within(message):
    return json.dumps(CustomMessage(custom_type="x", content="", details=message).to_wire()["details"]).encode()

messages = [json.loads(line) for line in sys.stdin]
for message, write in [(message, dump) for message in messages] + [(messages[0], within)]:
    if os.fork() == 0:  # so that no class is built by one message before the next is read
        os.write(1, write(parse_message(message)) + b"\\n")
        os._exit(0)
    os.wait()
"""


@pytest.mark.parametrize("oldest", [False, True], ids=["this pydantic", "oldest pydantic"])
def test_a_message_that_is_the_first_of_its_kind_can_be_written_as_soon_as_it_is_read(*, oldest: bool) -> None:
    messages: list[dict[str, object]] = [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": [], "api": "a", "provider": "p", "model": "m"},
        {"role": "toolResult", "toolCallId": "1", "toolName": "ls", "content": []},
        {"role": "bashExecution", "command": "ls", "output": "a"},
        {"role": "custom", "customType": "note", "content": "x"},
        {"role": "branchSummary", "summary": "s", "fromId": "1"},
        {"role": "compactionSummary", "summary": "s", "tokensBefore": 5},
    ]
    done = subprocess.run(
        [sys.executable, "-c", UNUSED_CLASSES],
        input="\n".join(map(json.dumps, messages)),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **({"PYTHONPATH": str(oldest_pydantic_path())} if oldest else {})},
    )
    assert done.stderr == ""
    written = [json.loads(line) for line in done.stdout.splitlines()]
    assert [message["role"] for message in written] == [message["role"] for message in (*messages, messages[0])]
