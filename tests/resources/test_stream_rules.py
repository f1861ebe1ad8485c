"""Stream rules: how they are found, and how an answer is stopped and asked for again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from messages_api import MessagesApi, Reply, Thinking, ToolUse
from rpc_process import RpcProcess

from indus_nb.base.messages import AssistantMessage, ToolResultMessage
from indus_nb.base.streaming import GrowingMessage
from indus_nb.core.resources.settings import StreamRuleSettings, load_settings
from indus_nb.core.resources.stream_rules import RuleWatch, load_rules
from indus_nb.core.session.session import AgentSession
from indus_nb.front.notebook.view.transcript import Line, Transcript
from indus_nb.start import SessionOptions, open_session

NO_PRINT = "---\ncondition: 'console\\.log\\('\ndescription: logging\n---\nUse the logger of the project.\n"


def rule(folder: Path, name: str, text: str) -> Path:
    path = folder / "rules" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def agent_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "agent"
    path.mkdir()
    monkeypatch.setenv("INDUS_NB_AGENT_DIR", str(path))
    return path


@pytest.fixture
def open_(messages_api: MessagesApi, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, agent_dir: Path):
    monkeypatch.setenv("ANTHROPIC_BASE_URL", messages_api.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    opened: list[AgentSession] = []

    def open_one(**wishes: Any) -> AgentSession:
        wishes = {"model": "claude-haiku-4-5", "cwd": tmp_path, "session_dir": tmp_path / "sessions", **wishes}
        opened.append(open_session(SessionOptions(**wishes)))
        return opened[-1]

    yield open_one
    for session in opened:
        session.close()


def watch(session: AgentSession) -> list[Any]:
    events: list[Any] = []
    session.subscribe(events.append)
    return events


def test_rules_of_the_user_and_the_project_are_found_side_by_side(tmp_path: Path):
    user = rule(tmp_path / "agent", "log", NO_PRINT)
    project = rule(
        tmp_path / ".indusagi", "log", "---\nttsrTrigger: [TODO, FIXME]\nscope: thinking, text\n---\nFinish.\n"
    )
    found = load_rules(tmp_path, tmp_path / "agent", trusted=True)
    assert found.problems == []
    assert [one.to_wire() for one in found.rules] == [
        {
            "name": "log",
            "path": str(project),
            "content": "Finish.",
            "condition": ["TODO", "FIXME"],
            "scope": ["text", "thinking"],
            "level": "project",
        },
        {
            "name": "log",
            "path": str(user),
            "content": "Use the logger of the project.",
            "description": "logging",
            "condition": [r"console\.log\("],
            "scope": ["text", "tool"],
            "level": "user",
        },
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("---\ncondition: '('\n---\nx", "is no regular expression"),
        ("---\ncondition: 'a*'\n---\nx", "fits the empty text"),
        ("---\ncondition: '((a{1000}){1000}){1000}'\n---\nx", "repeats more than"),
        ("---\ndescription: d\n---\nx", "no `condition`"),
        ("---\ncondition: a\n---\n", "no text"),
        ("---\ncondition: a\nscope: prose\n---\nx", "its `scope` names 'prose'"),
        ("---\ncondition: {a: b}\n---\nx", "must be a text"),
        ("---\ncondition: a\n---\n" + "x" * (65 << 10), "too long"),
    ],
)
def test_a_rule_that_cannot_be_used_is_named_among_the_problems(text: str, problem: str, tmp_path: Path):
    path = rule(tmp_path / "agent", "odd", text)
    rule(tmp_path / "agent", "good", NO_PRINT)
    found = load_rules(tmp_path, tmp_path / "agent", trusted=True)
    assert [one.name for one in found.rules] == ["good"]
    [told] = found.problems
    assert told.startswith(f"{path} is not used: ")
    assert problem in told


def test_too_many_rules_of_a_project_leave_the_users_in_force(tmp_path: Path):
    rule(tmp_path / "agent", "mine", NO_PRINT)
    for number in range(120):
        rule(tmp_path / ".indusagi", f"r{number:03}", NO_PRINT)
    found = load_rules(tmp_path, tmp_path / "agent", trusted=True)
    assert len(found.rules) == 100
    assert "mine" in {one.name for one in found.rules}
    assert "there are too many" in found.problems[0]


def test_a_project_cannot_let_the_users_rules_rest(tmp_path: Path):
    (tmp_path / ".indusagi").mkdir()
    (tmp_path / ".indusagi" / "settings.json").write_text('{"ttsr": {"enabled": false}}')
    assert load_settings(tmp_path, tmp_path / "agent", trusted=True).settings.ttsr.enabled


async def test_an_answer_is_stopped_told_the_rule_and_asked_for_again(
    open_, messages_api: MessagesApi, agent_dir: Path
):
    rule(agent_dir, "log", NO_PRINT)
    messages_api.add(Reply(f"Then console.log(x) and {'more ' * 50}and the end", chunk=4), Reply("log.info(x)"))
    session = open_()
    events = watch(session)
    await session.prompt("log x")
    [triggered] = [event for event in events if event.type == "ttsr_triggered"]
    assert [one["name"] for one in triggered.rules] == ["log"]
    stopped, answer = [message for message in session.messages if isinstance(message, AssistantMessage)]
    assert stopped.stop_reason == "aborted"
    assert "Stopped by a stream rule: log." in stopped.error_message
    assert stopped.text.startswith("Then console.")
    assert "the end" not in stopped.text
    assert (answer.text, session.last_text) == ("log.info(x)", "log.info(x)")
    types = [event.type for event in events]
    assert (types.count("agent_start"), types.count("agent_end"), types.count("turn_end")) == (1, 1, 2)
    assert types.index("turn_end") < types.index("ttsr_triggered")
    transcript = Transcript("claude")
    for event in events:
        transcript.feed(event)
    transcript.close()
    shown = [block.shown["text/plain"] for block in transcript.blocks if isinstance(block, Line)]
    assert shown[0] == "The answer was stopped by a rule (log). Asking again …"
    assert "stopped" not in shown[-1], "it ended well"
    asked = messages_api.requests[1].body["messages"]
    assert {message["role"] for message in asked} == {"user"}, "the discarded answer is not sent"
    assert "Use the logger of the project." in json.dumps(asked)


async def test_a_tool_call_is_stopped_before_it_is_carried_out(
    open_, messages_api: MessagesApi, tmp_path: Path, agent_dir: Path
):
    rule(agent_dir, "keep", "---\ncondition: rm -rf\n---\nDelete nothing.\n")
    messages_api.add(Reply(ToolUse("bash", {"command": "rm -rf here; touch gone"})), Reply("I will not."))
    session = open_()
    await session.prompt("clean up")
    assert session.last_text == "I will not."
    assert not [message for message in session.messages if isinstance(message, ToolResultMessage)]
    assert not (tmp_path / "gone").exists()


async def test_a_rule_applies_once_in_a_session_also_after_it_is_resumed(
    open_, messages_api: MessagesApi, agent_dir: Path
):
    rule(agent_dir, "log", NO_PRINT)
    messages_api.add(Reply("console.log(1)"), Reply("console.log(2)"), Reply("console.log(3)"))
    session = open_()
    events = watch(session)
    await session.prompt("one")
    assert session.last_text == "console.log(2)"
    path = session.store.path
    session.close()
    resumed = open_(session=str(path), session_dir=None)
    events += watch(resumed)
    await resumed.prompt("three")
    assert resumed.last_text == "console.log(3)"
    assert [event.type for event in events].count("ttsr_triggered") == 1


async def test_a_rule_that_may_apply_again_stops_ten_answers_to_a_prompt_at_most(
    open_, messages_api: MessagesApi, agent_dir: Path
):
    rule(agent_dir, "log", NO_PRINT)
    (agent_dir / "settings.json").write_text('{"ttsr": {"repeatMode": "after-gap", "repeatGap": 1}}')
    messages_api.add(*(Reply(f"console.log({number})") for number in range(11)))
    session = open_()
    events = watch(session)
    await session.prompt("go")
    assert [event.type for event in events].count("ttsr_triggered") == 10
    assert session.last_answer.stop_reason == "stop"


async def test_a_rule_watches_the_parts_of_an_answer_that_it_names(open_, messages_api: MessagesApi, agent_dir: Path):
    rule(agent_dir, "log", NO_PRINT)
    messages_api.add(Reply(Thinking("console.log(x)"), "logged"))
    session = open_(thinking="low")
    events = watch(session)
    await session.prompt("log x")
    assert "ttsr_triggered" not in [event.type for event in events]


def test_over_rpc_the_event_shows_the_rule(messages_api: MessagesApi, tmp_path: Path):
    path = rule(tmp_path / ".indusagi", "log", NO_PRINT)
    more = {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}
    messages_api.add(Reply("console.log(x)"), Reply("log.info(x)"))
    with RpcProcess("--model", "claude-haiku-4-5", "--wire", "strict", "--trust", home=tmp_path, more=more) as process:
        process.ask("prompt", message="log x")
        triggered = process.wait("ttsr_triggered")
        process.wait("agent_end")
        assert process.ask("get_last_assistant_text")["data"] == {"text": "log.info(x)"}
    [shown] = triggered["rules"]
    assert (shown["name"], shown["path"], shown["content"]) == ("log", str(path), "Use the logger of the project.")


def fed(watch: RuleWatch, *pieces: str) -> list[list[str]]:
    """The names of the rules that each piece of a text block, and then its end, make apply."""
    growing = GrowingMessage(api="", provider="", model="")
    begin = [growing.start(), growing.open_text()]
    events = [*(growing.append(0, piece) for piece in pieces), growing.close(0)]
    assert not any(map(watch.feed, begin))
    return [[rule.name for rule in watch.feed(event)] for event in events]


def watching(tmp_path: Path, *conditions: str) -> RuleWatch:
    for number, condition in enumerate(conditions):
        rule(tmp_path, f"rule {number}", f"---\ncondition: '{condition}'\n---\nNo.\n")
    return RuleWatch(load_rules(tmp_path, tmp_path, trusted=True).rules, StreamRuleSettings())


def test_a_condition_is_met_however_the_text_is_cut(tmp_path: Path):
    watch = watching(tmp_path, r"\bbar\b", "^ok$")
    assert fed(watch, "foo ba", "rista b", "ar", " \n", "ok", "\n") == [
        [],
        [],
        [],
        ["rule 0"],
        [],
        ["rule 0", "rule 1"],
        ["rule 0", "rule 1"],
    ]


def test_a_word_at_the_end_is_waited_for(tmp_path: Path):
    watch = watching(tmp_path, r"\bbar\b")
    assert fed(watch, "\nbar", "ista") == [[], [], []]
    assert fed(watch, "\nbar") == [[], ["rule 0"]]


def test_what_spans_more_than_is_looked_back_is_not_found_and_what_is_nearer_is(tmp_path: Path):
    watch = watching(tmp_path, "begin[^x]*end")
    assert not any(fed(watch, "begin", *["a" * 100] * 20, "end\n"))
    assert any(fed(watch, "begin", *["a" * 100] * 5, "end\n."))


def test_a_rule_whose_search_takes_too_long_is_watched_no_more_and_the_others_are(tmp_path: Path):
    watch = watching(tmp_path, "(a+)+b", "end")
    found = fed(watch, "a" * 500, "a" * 500, "the end\n")
    assert [rule.name for rule in watch.too_slow.values()] == ["rule 0"]
    assert ["rule 1"] in found
