"""With ``--wire strict`` every frame of every conversation holds only what the protocol's first documents name."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import outline
import pytest
from test_conformance import CASES, had_again

from indus_nb.front.console.strict import DATA, EVENTS, MESSAGE, STRICT

# Every field that stands in the examples of the documents, wherever it stands there.
_NAMES = """
    id type command success data error message messages toolResults assistantMessageEvent contentIndex delta
    partial content toolCall reason toolCallId toolName args partialResult result isError details summary
    firstKeptEntryId tokensBefore aborted willRetry errorMessage attempt maxAttempts delayMs finalError
    extensionPath event role timestamp attachments api provider model usage stopReason input output cacheRead
    cacheWrite cost total text thinking name arguments source mediaType exitCode cancelled truncated
    fullOutputPath artifactId totalLines totalBytes outputLines outputBytes models baseUrl reasoning
    contextWindow maxTokens thinkingLevel isScoped level isStreaming isCompacting steeringMode followUpMode
    interruptMode sessionFile sessionId sessionName autoCompactionEnabled messageCount pendingMessageCount
    queuedMessageCount userMessages assistantMessages toolCalls totalMessages tokens path entryId version cwd
"""
NAMED = frozenset(_NAMES.split())
UNNAMED_COMMANDS = {"get_available_thinking_levels", "set_label", "get_entries", "get_tree", "clone", "get_commands"}


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    root = tmp_path_factory.mktemp("strict")

    def run(case: dict[str, Any]) -> list[dict[str, Any]]:
        strict = copy.deepcopy(case)
        strict["args"] = [*strict.get("args", []), "--wire", "strict"]
        return had_again(strict, root / case["name"])["frames"]

    with ThreadPoolExecutor(2) as pool:
        return dict(zip((case["name"] for case in CASES), pool.map(run, CASES), strict=True))


def names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if value.get("role") in ("custom", "compactionSummary", "branchSummary"):
            return  # named, and their fields left open
        for name, inner in value.items():
            yield name
            if name not in outline.FREE_FORM:
                yield from names(inner)
    elif isinstance(value, list):
        for item in value:
            yield from names(item)


def known(frame: dict[str, Any]) -> bool:
    return frame["type"] != "response" or frame["command"] not in UNNAMED_COMMANDS


@pytest.mark.parametrize("name", [case["name"] for case in CASES])
def test_no_frame_holds_a_field_that_is_newer(frames: dict[str, list[dict[str, Any]]], name: str) -> None:
    assert frames[name]
    unknown = {(frame["type"], found) for frame in frames[name] if known(frame) for found in names(frame)}
    assert {each for each in unknown if each[1] not in NAMED} == set()


@pytest.mark.parametrize("name", [case["name"] for case in CASES])
def test_every_frame_is_as_the_table_says(frames: dict[str, list[dict[str, Any]]], name: str) -> None:
    for frame in frames[name]:
        if frame["type"] == "response":
            assert STRICT.kept(frame.get("data"), DATA.get(frame["command"])) == frame.get("data")
        else:
            assert STRICT.kept(frame, EVENTS[frame["type"]]) == frame
            for partial in [frame.get("assistantMessageEvent", {}).get("partial")]:
                assert STRICT.kept(partial, MESSAGE) == partial


def test_what_is_left_still_tells_the_conversation(frames: dict[str, list[dict[str, Any]]]) -> None:
    ended = next(frame for frame in frames["bash_tool"] if frame["type"] == "agent_end")
    assert [message["role"] for message in ended["messages"]] == ["user", "assistant", "toolResult", "assistant"]
    assert {"input", "output", "cost"} <= ended["messages"][1]["usage"].keys()
    assert ended["messages"][1]["content"][-1].keys() == {"type", "id", "name", "arguments"}


def test_an_image_is_written_as_the_documents_write_it() -> None:
    message = {"role": "user", "content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]}
    source = {"type": "base64", "mediaType": "image/png", "data": "aGk="}
    assert STRICT.kept(message, MESSAGE)["content"] == [{"type": "image", "source": source}]


def test_what_the_documents_leave_open_is_kept() -> None:
    custom = {"role": "custom", "customType": "note", "content": "x", "display": True}
    assert STRICT.kept(custom, MESSAGE) == custom
    truncation = {"truncated": True, "totalLines": 3, "maxBytes": 9}
    result = {"content": [], "details": {"diff": "-1", "truncation": truncation}}
    shown = STRICT.kept({"type": "tool_execution_end", "result": result}, EVENTS["tool_execution_end"])["result"]
    assert shown["details"] == {"diff": "-1", "truncation": {"truncated": True, "totalLines": 3}}
