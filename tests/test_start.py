"""What becomes of a user's wishes and settings: model, thinking, tools, system prompt, file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indus_nb.errors import IndusError, SessionFileError, SessionLockedError, UsageError
from indus_nb.messages import TextContent, UserMessage
from indus_nb.session import AgentSession
from indus_nb.settings import agent_directory, load_settings
from indus_nb.start import SessionOptions, open_session
from indus_nb.store import SessionStore


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("INDUSAGI_CODING_AGENT_DIR", str(tmp_path / "agent"))
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "INDUSAGI_CODING_AGENT_SESSION_DIR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "agent").mkdir()
    (tmp_path / "work" / ".indusagi").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def opened(home: Path):
    sessions: list[AgentSession] = []

    def open_one(**wishes: Any) -> AgentSession:
        sessions.append(open_session(SessionOptions(**{"cwd": home / "work", **wishes})))
        return sessions[-1]

    yield open_one
    for session in sessions:
        session.close()


Opened = Callable[..., AgentSession]


def write_settings(home: Path, own: object = None, project: object = None) -> None:
    for path, content in ((home / "agent", own), (home / "work" / ".indusagi", project)):
        if content is not None:
            text = content if isinstance(content, str) else json.dumps(content)
            (path / "settings.json").write_text(text)


# Settings


def test_the_projects_settings_lie_over_the_users_one_level_deep(home: Path) -> None:
    write_settings(
        home,
        {"defaultModel": "mine", "thinkingBudgets": {"low": 1, "high": 2}, "images": {"autoResize": False}},
        {"defaultModel": "ours", "thinkingBudgets": {"high": 3}, "unheardOf": {"kept": True}},
    )
    loaded = load_settings(home / "work", agent_directory())
    assert loaded.problems == []
    assert loaded.settings.default_model == "ours"
    assert loaded.settings.thinking_budgets == {"low": 1, "high": 3}
    assert loaded.settings.images.auto_resize is False
    assert loaded.settings.to_wire()["unheardOf"] == {"kept": True}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"defaultModel": ', "no JSON"),
        ("[1]", "a JSON object"),
        ('{"steeringMode": "sometimes"}', "`steeringMode` is wrong"),
        ('{"images": {"autoResize": "perhaps"}}', "`images.autoResize` is wrong"),
    ],
)
def test_a_broken_settings_file_is_named_ignored_and_left_alone(
    home: Path, opened: Opened, content: str, words: str
) -> None:
    write_settings(home, content, {"defaultProvider": "offline"})
    session = opened(no_session=True)
    (problem,) = session.problems
    assert str(home / "agent" / "settings.json") in problem
    assert words in problem
    assert session.model is not None
    assert session.model.provider == "offline"
    assert (home / "agent" / "settings.json").read_text() == content


def test_queue_modes_interrupts_and_tool_order_come_from_the_settings(home: Path, opened: Opened) -> None:
    modes = {"steeringMode": "all", "followUpMode": "all", "interruptMode": "wait", "toolExecution": "sequential"}
    write_settings(home, {"defaultProvider": "offline", **modes})
    session = opened(no_session=True)
    assert (session.steering.mode, session.follow_up_queue.mode) == ("all", "all")
    assert (session.settings.interrupt_mode, session.settings.tool_execution) == ("wait", "sequential")


# Model and thinking


def test_a_wish_counts_more_than_the_session_and_the_session_more_than_the_settings(home: Path, opened: Opened) -> None:
    write_settings(home, {"defaultProvider": "anthropic", "defaultModel": "claude-opus-4-5"})

    def chosen(**wishes: Any) -> str:
        session = opened(**wishes)
        assert session.model is not None
        session.store.append_message(UserMessage(content=[TextContent(text="hello")]))
        session.close()
        return f"{session.model.id}:{session.thinking_level}"

    assert chosen() == "claude-opus-4-5:medium"
    assert chosen(model="claude-haiku-4-5:low") == "claude-haiku-4-5:low"
    assert chosen(continue_last=True) == "claude-haiku-4-5:low"
    assert chosen(continue_last=True, thinking="high") == "claude-haiku-4-5:high"
    assert chosen(continue_last=True, model="sonnet-4-5") == "claude-sonnet-4-5:high"
    assert chosen(continue_last=True, provider="offline").startswith("offline:")


def test_a_model_in_the_settings_that_is_unknown_is_reported_and_another_goes_on(home: Path, opened: Opened) -> None:
    write_settings(home, {"defaultProvider": "offline", "defaultModel": "nonesuch"})
    session = opened(no_session=True)
    assert session.model is not None
    assert session.model.provider == "offline"
    assert "nonesuch" in session.problems[0]


def test_without_key_and_settings_there_is_no_model_and_with_a_key_there_is(opened: Opened) -> None:
    assert opened(no_session=True).model is None
    session = opened(no_session=True, api_key="sk-given")
    assert session.model is not None
    assert session.model.provider == "anthropic"
    assert session.settings.api_keys == {"anthropic": "sk-given"}


def test_a_key_reaches_neither_the_session_file_nor_a_representation(opened: Opened) -> None:
    session = opened(api_key="sk-very-secret")
    session.store.save()
    assert session.store.path is not None
    assert "secret" not in session.store.path.read_text()
    assert "secret" not in repr(session.settings)
    assert "secret" not in repr(SessionOptions(api_key="sk-very-secret"))


# Tools and system prompt


def test_tools_are_offered_as_wished_and_described_in_the_prompt(opened: Opened) -> None:
    session = opened(no_session=True, provider="offline", tools=["read", "ls", "read"])
    assert list(session.equipment.tools) == ["read", "ls"]
    assert "- read: " in session.equipment.system_prompt
    assert "- bash: " not in session.equipment.system_prompt
    nothing = opened(no_session=True, provider="offline", tools=[])
    assert nothing.equipment.tools == {}
    assert "(none)" in nothing.equipment.system_prompt


def test_the_system_prompt_can_be_replaced_and_added_to_by_texts_and_files(home: Path, opened: Opened) -> None:
    (home / "base.md").write_text("Be brief.")
    session = opened(
        no_session=True,
        provider="offline",
        system_prompt=str(home / "base.md"),
        append_system_prompt=["Speak Latin.", "a name " * 1000],
    )
    prompt = session.equipment.system_prompt
    assert prompt.startswith("Be brief.\n\nSpeak Latin.\n\na name ")
    assert prompt.endswith(f"Current working directory: {(home / 'work').as_posix()}")
    assert "Guidelines" not in prompt


def test_guidelines_of_the_prompt_follow_the_tools(opened: Opened) -> None:
    def prompt(*tools: str) -> str:
        return opened(no_session=True, provider="offline", tools=tools).equipment.system_prompt

    assert "through bash" in prompt("bash")
    assert "with grep, ls rather than with bash" in prompt("bash", "grep", "ls")
    assert "bash" not in prompt("read").replace("- bash", "bash")


# The file


def test_a_refused_wish_leaves_no_file_and_no_lock(home: Path, opened: Opened) -> None:
    session = opened(provider="offline")
    session.store.save()
    path = session.store.path
    assert path is not None
    session.close()
    before = sorted(home.rglob("*"))
    for wishes in (
        {"model": "nonesuch"},
        {"provider": "nobody"},
        {"tools": ["fly"]},
        {"thinking": "much"},
        {"no_session": True},
        {"continue_last": True},
    ):
        with pytest.raises(IndusError):
            opened(**{"session": str(path), **wishes})
    assert sorted(home.rglob("*")) == before
    assert opened(session=str(path)).store.path == path


def test_a_session_that_is_open_elsewhere_is_refused_by_name(opened: Opened) -> None:
    first = opened(provider="offline")
    first.store.save()
    with pytest.raises(SessionLockedError, match=r"is open for writing in .*Close it there"):
        opened(session=first.store.session_id)


def test_a_session_whose_working_directory_is_gone_says_so(home: Path, opened: Opened) -> None:
    gone = home / "gone"
    gone.mkdir()
    with SessionStore.create(gone, home) as store:
        store.save()
    gone.rmdir()
    with pytest.raises(SessionFileError, match=f"{gone} is gone"):
        opened(session=str(store.path))
    with pytest.raises(UsageError, match=f"{gone} does not exist"):
        opened(cwd=gone)


def test_continue_without_a_session_starts_one(opened: Opened) -> None:
    assert opened(provider="offline", continue_last=True).messages == []
