"""Typed answers of the console program, through real pipes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from messages_api import HttpError, MessagesApi, Reply, ToolUse
from rpc_process import indusagi

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"number": {"type": "string"}, "total": {"type": "number", "minimum": 0}},
    "required": ["number", "total"],
    "additionalProperties": False,
}
GOOD = {"number": "Ä-7", "total": 12.5}


@pytest.fixture
def claude(messages_api: MessagesApi) -> dict[str, str]:
    return {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}


def test_text_mode_prints_the_value_of_a_schema_as_json_after_it_was_corrected(
    messages_api: MessagesApi, claude: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "invoice.json").write_text(json.dumps(SCHEMA))
    wrong = ToolUse("answer", {"answer": {**GOOD, "total": -1}})
    messages_api.add("One.", Reply(wrong), Reply("So:", ToolUse("answer", {"answer": GOOD})))
    done = indusagi("--schema", "invoice.json", "first", "which?", home=tmp_path, **claude)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == '{"number":"Ä-7","total":12.5}\n'
    assert [request.body["tools"] for request in messages_api.requests[1:]] == [
        messages_api.requests[0].body["tools"]
    ] * 2
    assert "total: -1 is less than the minimum of 0" in messages_api.requests[2].texts[0]


@pytest.mark.parametrize("wire", ["snapshot", "delta", "strict"])
def test_json_mode_ends_with_the_value_of_a_named_class(
    wire: str, messages_api: MessagesApi, claude: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(
        "from pydantic import BaseModel\nprint('imported')\n"
        "class Invoice(BaseModel):\n    number: str\n    total: float\n"
    )
    messages_api.add(Reply(ToolUse("answer", GOOD)))
    done = indusagi("--schema", "shop:Invoice", "--mode", "json", "--wire", wire, "which?", home=tmp_path, **claude)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr, lines[-1]) == (0, "imported\n", {"type": "answer", "value": GOOD})
    assert lines[-2]["type"] in ("agent_settled", "agent_end")


@pytest.mark.parametrize("mode", ["text", "json"])
def test_without_a_valid_answer_the_status_is_1_and_the_attempts_are_told(
    mode: str, messages_api: MessagesApi, claude: dict[str, str], tmp_path: Path
) -> None:
    messages_api.default = Reply(ToolUse("answer", {"answer": "many"}))
    done = indusagi("--schema", "int", "--mode", mode, "how many?", home=tmp_path, **claude)
    assert done.returncode == 1
    assert "gave no valid answer (int) in 3 attempts" in done.stderr
    if mode == "text":
        assert done.stdout == ""
    else:
        last = json.loads(done.stdout.splitlines()[-1])
        assert (last["type"], len(last["attempts"]), last["attempts"][0]["given"]) == ("answer", 3, {"answer": "many"})
        assert "many" in last["error"]
    assert len(messages_api.requests) == 3


def test_a_failed_run_is_told_once_and_gives_no_value(
    messages_api: MessagesApi, claude: dict[str, str], tmp_path: Path
) -> None:
    messages_api.add(HttpError(400, "invalid_request_error", "no such thing"))
    done = indusagi("--schema", "int", "how many?", home=tmp_path, **claude)
    assert (done.returncode, done.stdout, done.stderr.count("indus-nb: ")) == (1, "", 1)
    assert "no such thing" in done.stderr


def test_a_frame_is_printed_as_records_and_approvals_do_not_hinder(
    messages_api: MessagesApi, claude: dict[str, str], tmp_path: Path
) -> None:
    columns = [{"name": "city", "dtype": "string"}, {"name": "people", "dtype": "integer"}]
    records = [{"city": "Rome", "people": 3}, {"city": "Oslo", "people": None}]
    messages_api.add(Reply(ToolUse("answer", {"columns": columns, "records": records})))
    done = indusagi("--schema", "frame", "--approve", "always", "where?", home=tmp_path, **claude)
    assert (done.returncode, json.loads(done.stdout)) == (0, records)


@pytest.mark.parametrize(
    ("schema", "mode", "words"),
    [
        ("no_such.json", "text", "the file cannot be read"),
        ("shop:Nothing", "text", "there is no module shop"),
        ("open('x')", "json", "it would run code"),
        ("int", "rpc", "--schema is for the modes text and json"),
    ],
)
def test_a_schema_that_is_none_is_wrong_usage_before_anything_is_sent(
    schema: str, mode: str, words: str, messages_api: MessagesApi, claude: dict[str, str], tmp_path: Path
) -> None:
    prompts = () if mode == "rpc" else ("hi",)
    done = indusagi("--schema", schema, "--mode", mode, *prompts, home=tmp_path, **claude)
    assert (done.returncode, done.stdout, messages_api.requests) == (2, "", [])
    assert words in done.stderr
