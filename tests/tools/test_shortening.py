"""Long results as the model reads them: both ends, what is left out, and the file with all of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from messages_api import MessagesApi, Reply, ToolUse

from indus_nb import agent
from indus_nb.base.errors import RunFailedError
from indus_nb.base.events import ToolExecutionEnd
from indus_nb.base.messages import ToolResultMessage, text_of
from indus_nb.core.session.session import AgentSession
from indus_nb.start import SessionOptions, open_session
from indus_nb.tools.truncate import GrowingTail, kept_outputs

LINE = re.compile(
    r"\[(\S+ \S+) are left out here\. The whole output: (\S+), which read shows from here with offset=(\d+)"
)


def opened(home: Path, *tools: str, **options: Any) -> AgentSession:
    return open_session(SessionOptions(cwd=home / "work", model="claude-haiku-4-5", tools=[*tools], **options))


async def results(session: AgentSession, api: MessagesApi, *calls: ToolUse) -> list[str]:
    """What the model reads of calls, one after the other."""
    before = sum(isinstance(message, ToolResultMessage) for message in session.messages)
    api.add(*(Reply(call) for call in calls), Reply("done"))
    await session.prompt("go")
    found = [text_of(m.as_read().content) for m in session.messages if isinstance(m, ToolResultMessage)][before:]
    sent = [
        block["content"][0]["text"] if isinstance(block["content"], list) else block["content"]
        for message in api.requests[-1].body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]
    assert sent[before:] == found
    return found


@pytest.mark.parametrize("count", [3_000, 30_000])
async def test_the_model_reads_both_ends_of_a_long_output_and_the_rest_with_read(
    home: Path, messages_api: MessagesApi, count: int
) -> None:
    shown: list[str] = []
    with opened(home, "bash", "read") as session:
        session.subscribe(
            lambda event: shown.append(text_of(event.result.content)) if isinstance(event, ToolExecutionEnd) else None
        )
        (text,) = await results(session, messages_api, ToolUse("bash", {"command": f"seq 1 {count}; exit 3"}))
        assert len(text) < 8_300
        assert text.startswith("1\n2\n3\n")
        assert text.endswith(f"{count}\n\n\nCommand exited with code 3")
        left_out, path, offset = LINE.findall(text)[0]
        first = int(text.partition("\n[")[0].rpartition("\n")[2])
        assert (offset, first) == (str(first + 1), first), "whole lines"
        whole = "".join(f"{number}\n" for number in range(1, count + 1))
        assert Path(path).read_text().startswith(whole)
        assert float(left_out.split()[0]) * 1024 == pytest.approx(len(whole) - 8_000, rel=0.1)
        (read,) = await results(session, messages_api, ToolUse("read", {"path": path, "offset": int(offset)}))
        assert read.startswith(f"{first + 1}\n{first + 2}\n")
    assert len(shown[0]) > len(text), "views show as much as before"


@pytest.mark.parametrize("lines", [2_000, 3_000])
async def test_calls_in_circles_are_noticed_though_each_has_a_file_of_its_own(
    home: Path, messages_api: MessagesApi, lines: int
) -> None:
    messages_api.default = lambda _: Reply(ToolUse("bash", {"command": f"seq {lines}"}))
    with opened(home, "bash") as session:
        await session.prompt("go")
        with pytest.raises(RunFailedError, match="the last 20 tool calls repeated earlier ones"):
            session.answer_or_raise()


async def test_one_long_line_is_cut_where_it_must_be(home: Path, messages_api: MessagesApi) -> None:
    with opened(home, "bash") as session:
        command = {"command": "python3 -c \"print('ab' * 10_000)\""}
        (text,) = await results(session, messages_api, ToolUse("bash", command))
    beginning, line, end = text.rstrip().split("\n")
    assert (len(beginning), len(end)) == (4_000, 3_999)
    assert "offset" not in line
    assert "11.7 KB are left out here" in line


async def test_what_a_tool_of_the_user_returns_is_shortened_too(home: Path, messages_api: MessagesApi) -> None:
    def table(rows: int) -> str:
        """Return a table.

        Args:
            rows: How many.
        """
        return "\n".join(f"row {number}" for number in range(rows))

    calls = [ToolUse("table", {"rows": rows}) for rows in (10, 2_000, 20_000)]
    agent.tool(table)
    try:
        with opened(home, "table", more_tools=["table"]) as session:
            small, long, huge = await results(session, messages_api, *calls)
    finally:
        agent.forget()
    assert small.endswith("row 9")
    for text, last in ((long, 1_999), (huge, 19_999)):
        assert text.startswith("row 0\n")
        assert text.endswith(f"row {last}")
        (found,) = LINE.findall(text)
        assert Path(found[1]).read_text().endswith(f"row {last}")
        assert Path(found[1]) in kept_outputs, "it may be read unasked"


async def test_secrets_are_hidden_in_both_ends_and_in_the_file(home: Path, messages_api: MessagesApi) -> None:
    key = "sk-ant-api03-" + "A1b2C3d4" * 11 + "AA"
    with opened(home, "bash") as session:
        command = {"command": f"echo {key[:20]}''{key[20:]}; seq 1 30000; echo {key[:20]}''{key[20:]}"}
        (text,) = await results(session, messages_api, ToolUse("bash", command))
    assert key[20:] not in text
    assert key[20:] not in Path(LINE.findall(text)[0][1]).read_text()


async def test_a_file_is_read_in_a_first_part_unless_a_part_is_asked_for(home: Path, messages_api: MessagesApi) -> None:
    lines = [f"{number:04d} {'x' * 44}" for number in range(1, 1001)]
    (home / "work/long.txt").write_text("\n".join(lines))
    with opened(home, "read") as session:
        whole, rest, part = await results(
            session,
            messages_api,
            ToolUse("read", {"path": "long.txt"}),
            ToolUse("read", {"path": "long.txt", "offset": 321}),
            ToolUse("read", {"path": "long.txt", "limit": 900}),
        )
    assert whole.startswith("0001")
    assert whole.endswith("\n\n[Lines 1-320 of 1000, cut at 15.6 KB. Continue with offset=321]")
    assert rest.startswith("0321")
    assert rest.endswith(lines[-1])
    assert part.endswith(f"{lines[899]}\n\n[100 more lines in the file. Continue with offset=901]")


async def test_the_limit_is_a_setting_and_can_be_none(home: Path, messages_api: MessagesApi) -> None:
    settings = home / "agent/settings.json"
    settings.parent.mkdir(exist_ok=True)
    for written, length in (("2000", 2_300), ("null", 20_000)):
        settings.write_text(f'{{"tools": {{"resultCharacters": {written}}}}}')
        with opened(home, "bash") as session:
            (text,) = await results(session, messages_api, ToolUse("bash", {"command": "seq 1 3000"}))
        assert (len(text) > 10_000) == (written == "null")
        assert len(text) < length


async def test_the_session_holds_the_whole_and_sends_what_it_sent_when_it_is_opened_again(
    home: Path, messages_api: MessagesApi
) -> None:
    with opened(home, "bash") as session:
        path = session.state.store.path
        await results(session, messages_api, ToolUse("bash", {"command": "seq -f 'line %g' 1900"}))
    assert path is not None
    assert "line 950\\n" in path.read_text()
    before = messages_api.requests[-1].body["messages"]
    with opened(home, "bash", session=str(path)) as session:
        messages_api.add(Reply("done"))
        await session.prompt("and now?")
    after = messages_api.requests[-1].body["messages"]
    assert without_marks(after)[: len(before)] == without_marks(before)


async def test_after_what_was_cleared_no_line_of_the_file_is_named(tmp_path: Path) -> None:
    tail = GrowingTail("python")
    tail.append("".join(f"old {number}\n" for number in range(20_000)))
    tail.clear()
    tail.append("".join(f"new {number}\n" for number in range(20_000)))
    assert tail.shown().beginning == ""
    tail.close()


def without_marks(messages: list[dict[str, Any]]) -> list[Any]:
    return [
        [{key: value for key, value in block.items() if key != "cache_control"} for block in message["content"]]
        for message in messages
    ]
