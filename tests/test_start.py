"""What becomes of a user's wishes and settings: model, thinking, tools, system prompt, file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indus_nb.base.errors import IndusError, SessionFileError, SessionLockedError, UsageError
from indus_nb.base.messages import TextContent, UserMessage
from indus_nb.core.session.session import AgentSession
from indus_nb.core.storage.listing import session_directory
from indus_nb.core.storage.store import SessionStore
from indus_nb.start import SessionOptions, open_session


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("INDUS_NB_AGENT_DIR", str(tmp_path / "agent"))
    for name in os.environ:
        if name.endswith(("_API_KEY", "_AUTH_TOKEN", "_SESSION_DIR")):
            monkeypatch.delenv(name)
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


def test_queue_modes_interrupts_and_tool_order_come_from_the_settings(home: Path, opened: Opened) -> None:
    modes = {"steeringMode": "all", "followUpMode": "all", "interruptMode": "wait", "toolExecution": "sequential"}
    write_settings(home, {"defaultProvider": "offline", **modes})
    session = opened(no_session=True)
    assert (session.steering.mode, session.follow_up_queue.mode) == ("all", "all")
    assert (session.settings.interrupt_mode, session.settings.tool_execution) == ("wait", "sequential")


def test_without_the_settings_that_spoke_of_a_sandbox_nothing_starts(home: Path, opened: Opened) -> None:
    write_settings(home, '{"sandbox": {"mode": "workspace"}, "approve": ')
    with pytest.raises(UsageError, match=r"settings\.json: is no JSON .* --sandbox off"):
        opened(no_session=True)
    assert opened(no_session=True, sandbox="off").settings.approve == "writes"


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
    (problem,) = session.problems
    assert (
        f"{home / 'agent' / 'settings.json'}: `defaultModel` is rejected. Model not found: offline/nonesuch" in problem
    )


def test_the_file_that_names_an_unknown_provider_is_told(home: Path, opened: Opened) -> None:
    write_settings(home, {"defaultModel": "offline"}, {"defaultProvider": "nobody"})
    session = opened(no_session=True, trust=True)
    assert session.model is not None
    assert session.model.id == "offline"
    (problem,) = session.problems
    assert f"{home / 'work' / '.indusagi' / 'settings.json'}: `defaultProvider` is rejected." in problem


@pytest.mark.parametrize(
    "wishes",
    [
        {"model": "anthropic/my-model"},
        {"model": "my-model", "provider": "anthropic"},
        {"model": "anthropic/my-model", "provider": "anthropic"},
    ],
)
def test_a_model_that_is_not_listed_is_believed_when_its_provider_is_named(opened: Opened, wishes: Any) -> None:
    session = opened(no_session=True, **wishes)
    assert session.model is not None
    assert (session.model.provider, session.model.id) == ("anthropic", "my-model")
    (problem,) = session.problems
    assert "asked for all the same" in problem


@pytest.mark.parametrize(
    ("name", "taken", "others"),
    [
        ("anthropic/claude", "claude-opus-5-5", "anthropic/claude-sonnet-5-5"),
        ("flash", "gemini-3.5-flash", "deepseek/deepseek-v4-flash"),
        ("sonnet", "claude-sonnet-5-5", ""),
        ("claude-haiku-4-5", "claude-haiku-4-5", ""),
    ],
)
def test_words_that_may_be_several_models_take_one_and_say_which(
    opened: Opened, name: str, taken: str, others: str
) -> None:
    session = opened(no_session=True, model=name)
    assert session.model is not None
    assert session.model.id == taken
    said = [f"/{taken} is taken, not " in problem and others in problem for problem in session.problems]
    assert said == ([True] if others else [])


def test_an_id_may_name_the_provider_that_is_named_besides(home: Path, opened: Opened) -> None:
    write_settings(home, {"defaultProvider": "anthropic", "defaultModel": "anthropic/claude-opus-4-5"})
    named = {"model": "anthropic/claude-haiku-4-5:low", "provider": "anthropic"}
    of_a_gateway = {"model": "openrouter/openai/gpt-oss-120b", "provider": "openrouter"}
    for wishes, wanted in (({}, "claude-opus-4-5"), (named, "claude-haiku-4-5"), (of_a_gateway, "openai/gpt-oss-120b")):
        session = opened(no_session=True, **wishes)
        assert session.model is not None
        assert (session.model.id, [*session.problems]) == (wanted, [])


def test_a_new_session_starts_with_the_first_model_to_cycle_through_and_an_old_one_with_its_own(
    home: Path, opened: Opened
) -> None:
    write_settings(
        home, {"defaultModel": "claude-opus-4-5", "enabledModels": ["claude-haiku-4-5:low", "nonesuch", "sonnet-4-5"]}
    )

    def chosen(**wishes: Any) -> str:
        session = opened(**wishes)
        assert session.model is not None
        session.store.append_message(UserMessage(content=[TextContent(text="hello")]))
        session.close()
        return f"{session.model.id}:{session.thinking_level}"

    assert chosen() == "claude-haiku-4-5:low"
    assert chosen(thinking="high") == "claude-haiku-4-5:high"
    assert chosen(models=["opus-4-6", "offline"]) == "claude-opus-4-6:medium"
    assert chosen(models=["opus-4-6", "offline"], provider="offline") == "offline:medium"
    assert chosen(models=["*haiku-4-5*:high"], continue_last=True) == "offline:medium"
    session = opened(no_session=True)
    assert [scoped.model.id for scoped in session.settings.cycled_models or ()] == [
        "claude-haiku-4-5",
        "claude-sonnet-4-5",
    ]
    (problem,) = session.problems
    assert "settings.json: `enabledModels` names an unknown model. Model not found: nonesuch" in problem
    with pytest.raises(UsageError, match="nonesuch"):
        opened(models=["nonesuch"])


async def test_cycling_takes_the_level_that_was_named_with_a_model(opened: Opened) -> None:
    session = opened(no_session=True, models=["claude-haiku-4-5:low", "claude-sonnet-4-5:high", "offline"])
    levels = []
    for _ in range(3):
        model = await session.cycle_model()
        assert model is not None
        levels.append((model.id, session.thinking_level))
    assert levels == [("claude-sonnet-4-5", "high"), ("offline", "high"), ("claude-haiku-4-5", "low")]


def test_the_first_provider_with_a_key_is_taken_anthropic_first(
    home: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chosen() -> str | None:
        session = opened(no_session=True)
        return session.model and session.model.provider

    assert chosen() is None
    monkeypatch.setenv("GROQ_API_KEY", "k")
    assert chosen() == "groq"
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert chosen() == "openai"
    (home / "agent" / "auth.json").write_text('{"anthropic": {"type": "api_key", "key": "k"}}')
    (home / "agent" / "auth.json").chmod(0o600)
    assert chosen() == "anthropic"


def test_a_session_whose_model_is_gone_says_so_and_goes_on_with_another(home: Path, opened: Opened) -> None:
    models = home / "agent" / "models.json"
    entry = {"baseUrl": "http://localhost:1/v1", "api": "openai-completions", "models": [{"id": "llama"}]}
    models.write_text(json.dumps({"providers": {"ollama": entry}}))
    session = opened(model="llama")
    session.store.append_message(UserMessage(content=[TextContent(text="hello")]))
    session.close()
    session = opened(continue_last=True)
    assert session.model is not None
    assert (session.model.provider, session.problems) == ("ollama", [])
    session.close()
    models.write_text("{broken")
    write_settings(home, {"defaultProvider": "offline"})
    session = opened(continue_last=True)
    assert session.model is not None
    assert session.model.id == "offline"
    assert [str(models) in problem for problem in session.problems] == [True, False]
    assert "Model not found: ollama/llama" in session.problems[1]


def test_without_key_and_settings_there_is_no_model_and_with_a_key_there_is(opened: Opened) -> None:
    assert opened(no_session=True).model is None
    session = opened(no_session=True, api_key="sk-given")
    assert session.model is not None
    assert session.model.provider == "anthropic"
    assert session.registry.key_for(session.model) == "sk-given"


def test_a_key_reaches_neither_the_session_file_nor_a_representation(opened: Opened) -> None:
    session = opened(api_key="sk-very-secret")
    session.store.save()
    assert session.store.path is not None
    assert "very-secret" not in session.store.path.read_text()
    assert "very-secret" not in repr(session.settings) + repr(session.registry)
    assert "very-secret" not in repr(SessionOptions(api_key="sk-very-secret"))


# Tools and system prompt


def test_tools_are_offered_as_wished_and_the_prompt_speaks_of_no_others(opened: Opened) -> None:
    session = opened(no_session=True, provider="offline", tools=["read", "ls", "read"])
    assert list(session.active_tools) == ["read", "ls"]
    assert "bash" not in session.system_prompt
    assert "bash" in opened(no_session=True, provider="offline", tools=["bash"]).system_prompt
    nothing = opened(no_session=True, provider="offline", tools=[])
    assert nothing.active_tools == {}
    assert "bash" not in nothing.system_prompt


def test_the_settings_choose_the_tools_when_nobody_else_does(home: Path, opened: Opened) -> None:
    write_settings(home, {"defaultTools": ["read", "fly", "ls"]})
    session = opened(no_session=True)
    assert list(session.active_tools) == ["read", "ls"]
    (problem,) = session.problems
    assert "settings.json: `defaultTools`" in problem
    assert "Unknown tool: fly" in problem
    assert list(opened(no_session=True, tools=["grep"]).active_tools) == ["grep"]


def test_the_system_prompt_can_be_replaced_and_added_to_by_texts_and_files(home: Path, opened: Opened) -> None:
    (home / "base.md").write_text("Be brief.")
    session = opened(
        no_session=True,
        provider="offline",
        system_prompt=str(home / "base.md"),
        append_system_prompt=["Speak Latin.", "a name " * 1000],
    )
    prompt = session.system_prompt
    assert prompt.startswith("Be brief.\n\nSpeak Latin.\n\na name ")
    assert prompt.endswith(f"Current working directory: {(home / 'work').as_posix()}")
    assert "Guidelines" not in prompt


def test_guidelines_of_the_prompt_follow_the_tools(opened: Opened) -> None:
    def prompt(*tools: str) -> str:
        return opened(no_session=True, provider="offline", tools=tools).system_prompt

    assert "through bash" in prompt("bash")
    assert "with grep, ls rather than with bash" in prompt("bash", "grep", "ls")
    assert "bash" not in prompt("read")


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
    with SessionStore.create(gone, session_directory(gone, home / "agent")) as store:
        store.save()
    gone.rmdir()
    with pytest.raises(SessionFileError, match=f"{gone} is gone"):
        opened(session=str(store.path))
    with pytest.raises(UsageError, match=f"{gone} does not exist"):
        opened(cwd=gone)


def test_continue_without_a_session_starts_one(opened: Opened) -> None:
    assert opened(provider="offline", continue_last=True).messages == []
