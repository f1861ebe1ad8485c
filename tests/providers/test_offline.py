"""The offline demonstration: what it understands, which tools it calls, and what it says."""

from __future__ import annotations

import asyncio
import subprocess

import pytest

from indus_nb.base.messages import (
    AssistantMessage,
    ImageContent,
    ModelMessage,
    TextContent,
    ToolResultMessage,
    UserMessage,
)
from indus_nb.base.streaming import AssistantMessageEvent, StreamDone
from indus_nb.models import Context, StreamOptions, ToolSpec
from indus_nb.models.apis.offline import OfflineProvider
from indus_nb.models.apis.offline_values import wanted_in
from indus_nb.models.catalog import find_model

MODEL = find_model("offline")


def tool(name: str, *parameters: str) -> ToolSpec:
    return ToolSpec(name, "", {"type": "object", "properties": {parameter: {} for parameter in parameters}})


BASH = tool("bash", "command", "timeout")
FILE_TOOLS = [
    tool("read", "path", "offset", "limit"),
    tool("write", "path", "content"),
    tool("grep", "pattern", "path", "literal"),
    tool("find", "pattern", "path"),
    tool("ls", "path"),
]
TOOLS = [BASH, *FILE_TOOLS]


async def stream(
    messages: list[ModelMessage], tools: list[ToolSpec], thinking: str = "off"
) -> list[AssistantMessageEvent]:
    context = Context("You are helpful.", messages, tools)
    return [event async for event in OfflineProvider().stream(MODEL, context, StreamOptions(thinking=thinking))]


async def reply(messages: list[ModelMessage], tools: list[ToolSpec]) -> AssistantMessage:
    last = (await stream(messages, tools))[-1]
    assert isinstance(last, StreamDone)
    return last.message


async def call_for(request: str, tools: list[ToolSpec] = TOOLS) -> tuple[str, dict] | None:
    calls = (await reply([UserMessage(content=request)], tools)).tool_calls
    return (calls[0].name, calls[0].arguments) if calls else None


async def converse(request: str, *outcomes: ToolResultMessage | str) -> tuple[list[tuple[str, dict]], str]:
    """The calls made for a request whose calls end as given, and the report."""
    messages: list[ModelMessage] = [UserMessage(content=request)]
    calls: list[tuple[str, dict]] = []
    for outcome in [*outcomes, None]:
        answer = await reply(messages, TOOLS)
        if outcome is None:
            assert answer.stop_reason == "stop", answer
            return calls, answer.text
        assert answer.stop_reason == "toolUse"
        [call] = answer.tool_calls
        calls.append((call.name, call.arguments))
        content = [TextContent(text=outcome)] if isinstance(outcome, str) else outcome.content
        is_error = isinstance(outcome, ToolResultMessage) and outcome.is_error
        result = ToolResultMessage(tool_call_id=call.id, tool_name=call.name, content=content, is_error=is_error)
        messages += [answer, result]
    raise AssertionError


@pytest.mark.parametrize(
    ("request_", "call"),
    [
        ("list the files in src", ("ls", {"path": "src"})),
        ("Please list the files.", ("ls", {"path": "."})),
        ("list the files in .", ("ls", {"path": "."})),
        ("What files are here?", ("ls", {"path": "."})),
        ("Can you show me the files in `my docs`?", ("ls", {"path": "my docs"})),
        ("find *.py", ("find", {"pattern": "*.py", "path": "."})),
        ("find all files named 'a b.txt' in src", ("find", {"pattern": "a b.txt", "path": "src"})),
        ("search for TODO in src", ("grep", {"pattern": "TODO", "path": "src", "literal": True})),
        ('search for "two words"', ("grep", {"pattern": "two words", "path": ".", "literal": True})),
        ("list the files in . then compute 6*7.", ("ls", {"path": "."})),
        ("compute 6*7.", ("bash", {"command": "python3 -c 'print(6*7)'"})),
        ("read README.md", ("read", {"path": "README.md"})),
        ("Read the file `a b.md`.", ("read", {"path": "a b.md"})),
        ("run `ls -la`", ("bash", {"command": "ls -la"})),
        ("run git status --short", ("bash", {"command": "git status --short"})),
        (
            "run ```bash\nfor i in 1 2; do\n  echo $i\ndone\n```",
            ("bash", {"command": "for i in 1 2; do\n  echo $i\ndone"}),
        ),
        ("compute 6*7", ("bash", {"command": "python3 -c 'print(6*7)'"})),
        ("What is 2**10 + 1?", ("bash", {"command": "python3 -c 'print(2**10 + 1)'"})),
        ("write hello world to out.txt", ("write", {"path": "out.txt", "content": "hello world"})),
        ('write "to be" to `b c.txt`', ("write", {"path": "b c.txt", "content": "to be"})),
    ],
)
async def test_a_plain_request_becomes_the_call_that_it_means(request_, call):
    assert await call_for(request_) == call


@pytest.mark.parametrize(
    "request_",
    [
        "hello",
        "",
        "what is love?",
        "read the room carefully",
        "compute __import__('os').system('id')",
        "compute 9**9**9**9",
        "compute 10**99999",
        "compute (9**999)**999",
        "compute (1).real",
        "compute 1 2",
        "run",
        "run the tests",
        "run tests",
        "x" * 100_000,
        "then " * 50_000,
    ],
)
async def test_anything_else_is_answered_plainly_without_a_call(request_):
    answer = await reply([UserMessage(content=request_)], TOOLS)
    assert answer.tool_calls == []
    assert answer.text.startswith("I am no language model.")
    assert "compute 6*7" in answer.text


async def test_without_a_tool_a_sum_is_known_all_the_same():
    assert (await reply([UserMessage(content="what is 2+2?")], [])).text == "`2+2` is 4."
    assert "is not defined" in (await reply([UserMessage(content="compute 1/0")], [])).text
    typed = ToolSpec(
        "answer", "", {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}, True
    )
    assert (await reply([UserMessage(content="what is 6*7?")], [typed])).tool_calls[0].arguments == {"n": 42}


async def test_where_the_program_that_computes_is_missing_the_result_is_told_without_it():
    content = [TextContent(text="bash: python3: command not found")]
    missing = ToolResultMessage(tool_call_id="1", tool_name="bash", content=content, is_error=True)
    _, report = await converse("compute 6*7", missing)
    assert report.endswith("Without that program: `6*7` is 42.")


async def test_a_text_before_the_request_is_counted_as_the_console_puts_it_there():
    piped = "commit 1f\nAuthor: Ada\n\n    Mend it\n\ncommit 2e"
    text = (await reply([UserMessage(content=f"{piped}\n\nwhat changed?")], TOOLS)).text
    assert "- what stands before the last paragraph: 6 lines, 8 words, beginning with `commit 1f`" in text
    assert "count what came along" not in (await reply([UserMessage(content="what changed?")], TOOLS)).text


async def test_what_comes_along_is_counted_and_not_explained():
    diff = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1,2 @@\n-x\n+y\n+z\n"
    request = f'<file name="/w/README.md">\n# Title\n\nTwo words\n</file>\n\n{diff}\n\nwrite a message'
    text = (await reply([UserMessage(content=request)], TOOLS)).text
    assert "- `/w/README.md`: 3 lines, 4 words, beginning with `# Title`" in text
    assert "- `a.py`: changed, 2 lines more and 1 less" in text
    assert "I am no language model." in text


async def test_a_request_about_what_was_said_is_told_that_nothing_is_remembered():
    said = await reply([UserMessage(content="hello")], TOOLS)
    assert "last message alone" not in said.text
    assert (
        "last message alone"
        in (await reply([UserMessage(content="hello"), said, UserMessage(content="shorter")], TOOLS)).text
    )


async def test_without_the_right_tool_the_shell_does_it():
    assert await call_for("list the files in my docs", [BASH]) is None
    assert await call_for("list the files in `my docs`", [BASH]) == ("bash", {"command": "ls -la -- 'my docs'"})
    assert await call_for("read a.txt", [BASH]) == ("bash", {"command": "cat -- a.txt"})
    assert await call_for("find *.py", [BASH]) == ("bash", {"command": "find . -name '*.py'"})
    assert await call_for("search for it's in src", [BASH]) == ("bash", {"command": "grep -rnF -- 'it'\"'\"'s' src"})


async def test_without_a_shell_a_python_tool_computes():
    python = tool("python", "code")
    assert await call_for("compute 6*7", [python]) == ("python", {"code": "print(6*7)"})
    assert await call_for("run python `df.head()`", [python, BASH]) == ("python", {"code": "df.head()"})


async def test_a_command_is_started_in_the_background_where_there_are_jobs():
    tools = [tool("bash", "command", "timeout", "background")]
    for request in ("run `sleep 600` in the background", "start the command `sleep 600` in the background."):
        assert await call_for(request, tools) == ("bash", {"command": "sleep 600", "background": True})
    assert await call_for("run `echo in the background`", tools) == ("bash", {"command": "echo in the background"})
    assert await call_for("run `sleep 600` in the background") is None


async def test_a_message_behind_the_request_that_asks_for_nothing_is_passed_over():
    told = [UserMessage(content="compute 6*7"), UserMessage(content="job-1 (bash: sleep 600) was stopped.")]
    assert (await reply([*told], TOOLS)).tool_calls[0].name == "bash"


async def test_what_no_tool_can_do_is_said():
    answer = await reply([UserMessage(content="run `ls`")], FILE_TOOLS)
    assert answer.text == "I cannot run `ls`: none of the tools that do it is switched on (bash)."
    bare = await reply([UserMessage(content="hello")], [])
    assert "No tool that I could use is switched on" in bare.text


async def test_the_introduction_only_offers_what_the_tools_can_do():
    text = (await reply([UserMessage(content="hello")], [tool("read", "path")])).text
    assert "- read README.md" in text
    assert "run" not in text.split("tools:")[1].split("For real")[0]


@pytest.mark.parametrize(("sum_", "result"), [("6*7", "42"), ("2**10 + 1", "1025"), ("(1 + 2) / 4", "0.75")])
async def test_the_arithmetic_command_really_computes(sum_, result):
    name, arguments = await call_for(f"compute {sum_}")
    done = subprocess.run(["bash", "-c", arguments["command"]], capture_output=True, text=True, check=True)
    assert (name, done.stdout.strip()) == ("bash", result)


async def test_the_writing_command_writes_exactly_the_text(tmp_path):
    _, arguments = await call_for('write "it\'s 100% $HOME `x`" to out.txt', [BASH])
    subprocess.run(["bash", "-c", arguments["command"]], cwd=tmp_path, check=True)
    assert (tmp_path / "out.txt").read_text() == "it's 100% $HOME `x`"


async def test_requests_joined_by_then_become_one_call_a_turn():
    request = "write `x = 1; then` to a.py, then read a.py and then run `if true; then echo hi; fi`"
    calls, report = await converse(request, "Wrote 11 bytes", "x = 1; then", "hi\n")
    assert calls == [
        ("write", {"path": "a.py", "content": "x = 1; then"}),
        ("read", {"path": "a.py"}),
        ("bash", {"command": "if true; then echo hi; fi"}),
    ]
    assert report == (
        "Writing `a.py`:\n\n```\nWrote 11 bytes\n```\n\n"
        "`a.py`:\n\n```\nx = 1; then\n```\n\n"
        "Output of `if true; then echo hi; fi`:\n\n```\nhi\n```"
    )


async def test_parts_that_are_not_understood_are_named():
    _, report = await converse("compute 1+1 then frobnicate it", "2")
    assert report == "`1+1`:\n\n```\n2\n```\n\nI did not understand `frobnicate it`."


FAILED_CELL = """\
This cell of my notebook failed. Find the cause, then propose the mended cell.

Cell [3]:
```python
total = pirce * 2
```
Error:
```
NameError: name 'pirce' is not defined
```"""


@pytest.mark.parametrize(
    ("output", "words"),
    [("['price']", "total = price * 2"), ("[]", "`pirce` is not defined, and no other name is like it.")],
)
async def test_a_cell_that_failed_at_an_unknown_name_is_mended_with_a_known_one(output, words):
    messages: list[ModelMessage] = [UserMessage(content=FAILED_CELL)]
    asked = await reply(messages, [tool("python", "code")])
    [call] = asked.tool_calls
    assert '"pirce"' in call.arguments["code"]
    result = ToolResultMessage(tool_call_id=call.id, tool_name="python", content=[TextContent(text=output)])
    assert words in (await reply([*messages, asked, result], [tool("python", "code")])).text


async def test_failures_are_reported_as_failures():
    failed = ToolResultMessage(
        tool_call_id="", tool_name="", content=[TextContent(text="No such file: x")], is_error=True
    )
    _, report = await converse("read x", failed)
    assert report == "`x` failed:\n\n```\nNo such file: x\n```"


async def test_a_report_is_short_and_its_fence_holds():
    _, report = await converse("read long.md", "```\nline\n" * 5000)
    assert report.startswith("`long.md`:\n\n````\n```\nline")
    assert report.endswith("more characters\n````")
    assert len(report) < 2500


async def test_images_and_silence_are_reported():
    image = ImageContent(data="aGk=", mime_type="image/png")
    shown = ToolResultMessage(tool_call_id="", tool_name="", content=[image])
    assert (await converse("read a.png", shown))[1] == "`a.png`: an image came back."
    silent = ToolResultMessage(tool_call_id="", tool_name="", content=[])
    assert "(no output)" in (await converse("run true", silent))[1]


async def test_a_new_user_message_starts_afresh():
    first = [UserMessage(content="compute 1+1 then compute 2+2")]
    answer = await reply(first, TOOLS)
    result = ToolResultMessage(tool_call_id=answer.tool_calls[0].id, tool_name="bash", content=[TextContent(text="2")])
    steered = await reply([*first, answer, result, UserMessage(content="read a.txt")], TOOLS)
    assert [call.name for call in steered.tool_calls] == ["read"]


async def test_the_same_conversation_goes_on_in_the_same_way():
    messages = [UserMessage(content="compute 1+1", timestamp=5)]
    one, two = await reply(messages, TOOLS), await reply(messages, TOOLS)
    assert one.content == two.content
    again = await reply([*messages, one, UserMessage(content="compute 1+1", timestamp=6)], TOOLS)
    assert again.tool_calls[0].id != one.tool_calls[0].id


async def test_everything_streams_in_small_deltas():
    events = await stream([UserMessage(content="list the files in src")], TOOLS, thinking="low")
    kinds = list(dict.fromkeys(event.type for event in events))
    assert kinds == [
        *("start", "thinking_start", "thinking_delta", "thinking_end"),
        *("text_start", "text_delta", "text_end"),
        *("toolcall_start", "toolcall_delta", "toolcall_end"),
        "done",
    ]
    deltas = [event.delta for event in events if event.type.endswith("_delta")]
    assert len(deltas) > 10
    assert max(map(len, deltas)) < 50


async def test_thinking_is_shown_only_when_wished():
    events = await stream([UserMessage(content="hello")], TOOLS)
    assert not any(event.type.startswith("thinking") for event in events)


async def test_others_get_their_turn_while_it_speaks_and_can_stop_it():
    heard: list[str] = []

    async def listen() -> None:
        context = Context("", [UserMessage(content="hello")])
        async for event in OfflineProvider().stream(MODEL, context, StreamOptions()):
            heard.append(event.type)  # noqa: PERF401 - watched while it grows

    task = asyncio.create_task(listen())
    while heard.count("text_delta") < 3:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert 3 <= heard.count("text_delta") < 6


async def test_usage_is_an_estimate_that_costs_nothing():
    events = await stream([UserMessage(content="x" * 400)], [])
    assert events[0].growing.usage.input >= 100
    usage = events[-1].message.usage
    assert usage.input == -(-(400 + len("You are helpful.")) // 4)
    assert usage.output == -(-len(events[-1].message.text) // 4)
    assert usage.cost.total == 0


def test_nothing_is_left_to_import():
    OfflineProvider().preload()


def test_a_long_text_that_nearly_asks_for_a_value_asks_for_none_and_takes_no_time() -> None:
    text = "calling the tool a: " * 400_000  # what took a time that grows with the square of that took an hour
    end = "</answer-schema>\n</system-reminder>"
    assert wanted_in(text) is None
    assert wanted_in(text + end) is None
    assert wanted_in(f"{text}<answer-schema>{'[' * 100_000}{end}") is None
    assert wanted_in(f'{text}<answer-schema>{{"type": "null"}}{end}') == ("a", {"type": "null"})
