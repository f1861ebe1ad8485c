"""What the settings files say: typed, merged, migrated, and left alone when they are broken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from indus_nb.core.resources.settings import LoadedSettings, Settings, load_settings


@pytest.fixture
def load(tmp_path: Path):
    def load_both(own: object = None, project: object = None, *, trusted: bool = True) -> LoadedSettings:
        for path, content in ((own_file(tmp_path), own), (project_file(tmp_path), project)):
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is not None:
                path.write_text(content if isinstance(content, str) else json.dumps(content))
        return load_settings(tmp_path / "work", tmp_path / "agent", trusted=trusted)

    return load_both


def own_file(folder: Path) -> Path:
    return folder / "agent" / "settings.json"


def project_file(folder: Path) -> Path:
    return folder / "work" / ".indusagi" / "settings.json"


def test_without_files_everything_has_its_default(load) -> None:
    loaded = load()
    assert loaded == LoadedSettings(Settings())
    settings = loaded.settings
    assert settings.approve is None
    assert settings.extension_handlers.timeout_ms == 30_000
    assert (settings.enabled_models, settings.default_tools, settings.mcp_servers) == (None, None, {})


def test_the_projects_settings_lie_over_the_users_one_level_deep(load, tmp_path: Path) -> None:
    loaded = load(
        {
            "defaultModel": "mine",
            "thinkingBudgets": {"low": 1, "high": 2},
            "images": {"autoResize": False},
            "enabledModels": ["a", "b"],
            "mcpServers": {"one": {"command": "x", "args": []}, "two": {"url": "y"}},
        },
        {
            "defaultModel": "ours",
            "thinkingBudgets": {"high": 3},
            "unheardOf": {"kept": True},
            "enabledModels": ["c"],
            "mcpServers": {"two": {"url": "z"}},
        },
    )
    settings = loaded.settings
    assert loaded.problems == []
    assert settings.default_model == "ours"
    assert settings.thinking_budgets == {"low": 1, "high": 3}
    assert settings.images.auto_resize is False
    assert settings.to_wire()["unheardOf"] == {"kept": True}
    assert settings.enabled_models == ["c"]
    assert settings.mcp_servers == {"one": {"command": "x", "args": []}, "two": {"url": "z"}}
    assert loaded.place("defaultModel") == f"{project_file(tmp_path)}: `defaultModel`"
    assert loaded.place("images") == f"{own_file(tmp_path)}: `images`"


def test_lists_of_resources_are_joined_and_counted_from_the_folder_of_their_file(
    load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    settings = load(
        {"skills": ["mine", "!mine/old/*"], "extensions": ["~/ext.py"], "prompts": ["/abs"]},
        {"skills": ["../ours", "-mine"], "prompts": ["+p.md"]},
    ).settings
    own, project = own_file(tmp_path).parent, project_file(tmp_path).parent
    assert settings.skills == [f"{project}/../ours", f"-{project}/mine", f"{own}/mine", f"!{own}/mine/old/*"]
    assert settings.extensions == ["/home/me/ext.py"]
    assert settings.prompts == [f"+{project}/p.md", "/abs"]


def test_keys_with_underscores_count_as_those_of_files_and_the_file_stays(load, tmp_path: Path) -> None:
    given = {"steering_mode": "all", "default_model": "old", "defaultModel": "new"}
    loaded = load(given)
    assert loaded.problems == []
    assert loaded.settings == Settings.from_wire({"steeringMode": "all", "defaultModel": "new"})
    assert json.loads(own_file(tmp_path).read_text()) == given


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"defaultModel": ', "is no JSON"),
        ("[1]", "a JSON object"),
        ({"steeringMode": "sometimes"}, "`steeringMode` is wrong"),
        ({"images": {"autoResize": "perhaps"}}, "`images.autoResize` is wrong"),
        ({"approve": "maybe"}, "`approve` is wrong"),
        ({"effects": {"writes": "deny"}}, "effects.writes.[key]` is wrong: Input should be 'reads_outside'"),
        ({"effects": {"deletes": "never"}}, "`effects.deletes` is wrong"),
        ({"extensionHandlers": {"timeoutMs": 0}}, "`extensionHandlers.timeoutMs` is wrong"),
        ({"skills": [5]}, "`skills.0` is wrong"),
        ({"skills": {"customDirectories": "x"}}, "`skills` is wrong"),
        ({"retry": {"provider": {"maxRetryDelayMs": "x"}}}, "`retry.provider.maxRetryDelayMs` is wrong"),
        ({"enabledModels": "x"}, "`enabledModels` is wrong"),
    ],
)
def test_a_broken_file_is_named_with_its_field_ignored_and_left_alone(load, tmp_path: Path, content, words) -> None:
    loaded = load(content, {"defaultProvider": "offline"})
    before = own_file(tmp_path).read_text()
    (problem,) = loaded.problems
    assert str(problem).startswith(f"{own_file(tmp_path)}: ")
    assert words in str(problem)
    assert problem.path == own_file(tmp_path)
    assert loaded.settings == Settings(default_provider="offline", approve="writes")
    assert own_file(tmp_path).read_text() == before


@pytest.mark.parametrize("rest", ['"defaultModel": ', '"steeringMode": 5}', '"defaultModel": "x"]'])
def test_a_broken_file_protects_no_less_than_it_would_if_it_were_whole(load, rest: str) -> None:
    shell = '"shellEnvironment": ["MY_KEY", "!AWS_*", "!OTHER_TOKEN"], "effects": {"deletes": "deny"}, '
    settings = load('{"approve": "always", "notebook": {"tell_cells": false}, ' + shell + rest).settings
    assert settings.approve == "always"
    assert settings.effects == {"deletes": "deny"}
    assert settings.shell_environment == ["!AWS_*", "!OTHER_TOKEN"]
    assert not settings.notebook.tell_cells


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize(
    ("own", "project", "counts"),
    [
        ({}, {"effects": {"deletes": "deny", "new_names": "ask"}}, {"deletes": "deny", "new_names": "ask"}),
        ({}, {"effects": {"deletes": "allow"}}, {}),
        ({"effects": {"deletes": "deny"}}, {"effects": {"deletes": "ask"}}, {"deletes": "deny"}),
        (
            {"effects": {"writes_file": "allow", "unknown": "deny"}},
            {"effects": {"writes_file": "ask", "unknown": "allow"}},
            {"writes_file": "ask", "unknown": "deny"},
        ),
    ],
)
def test_a_project_makes_decisions_about_effects_stricter_only(load, own, project, counts, *, trusted: bool) -> None:
    assert load(own, project, trusted=trusted).settings.effects == counts


@pytest.mark.parametrize(
    ("own", "project", "counts"),
    [
        (None, "never", None),
        (None, "effects", None),
        (None, "writes", "writes"),
        ("never", "effects", "effects"),
        ("effects", "never", "effects"),
        ("effects", "writes", "writes"),
        ("writes", "effects", "writes"),
        ("writes", "always", "always"),
        ("never", None, "never"),
    ],
)
def test_a_project_has_the_user_asked_more_never_less(load, own, project, counts) -> None:
    assert load({"approve": own}, {"approve": project}).settings.approve == counts
