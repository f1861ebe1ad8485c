"""Keys that are kept in ``auth.json``: what is written there, and which files are left alone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from indus_nb.base.errors import UsageError
from indus_nb.models.kept_keys import KeyFile

KEY = "test-key-of-the-file"


@pytest.fixture
def file(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "agent" / "auth.json")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "agent").mkdir(mode=0o700)
    return tmp_path / "agent" / "auth.json"


def content(path: Path) -> object:
    return json.loads(path.read_text())


def test_the_first_key_makes_directory_and_file_for_the_user_alone(file: KeyFile, tmp_path: Path) -> None:
    assert file.problem() == ""
    file.keep("anthropic", KEY)
    path = tmp_path / "agent" / "auth.json"
    assert content(path) == {"anthropic": {"type": "api_key", "key": KEY}}
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert KEY not in repr(file)


def test_another_key_takes_the_place_of_the_first_and_all_else_stays(file: KeyFile, path: Path) -> None:
    others = {"openai": {"type": "oauth", "refresh": "é"}, "groq": {"key": "!pass groq"}, "x": ["of another program"]}
    path.write_text(json.dumps({"anthropic": {"type": "api_key", "key": "old", "more": 1}, **others}))
    path.chmod(0o644)
    file.keep("anthropic", KEY)
    assert content(path) == {"anthropic": {"type": "api_key", "key": KEY, "more": 1}, **others}
    assert path.stat().st_mode & 0o777 == 0o600
    assert file.providers() == {"anthropic"}
    assert file.forget("anthropic")
    assert content(path) == others
    assert not any(file.forget(provider) for provider in ("anthropic", "openai", "groq", "x", "none"))
    assert content(path) == others
    assert [found.name for found in path.parent.iterdir()] == ["auth.json"]


@pytest.mark.parametrize("entry", [{"type": "oauth", "refresh": "r"}, {"key": "!pass show"}, "text", None])
def test_a_sign_in_or_command_for_the_same_provider_stays(file: KeyFile, path: Path, entry: object) -> None:
    path.write_text(json.dumps({"anthropic": entry}))
    with pytest.raises(UsageError, match="another sign-in or a command: it stays"):
        file.keep("anthropic", KEY)
    assert content(path) == {"anthropic": entry}


@pytest.mark.parametrize("text", ["{ broken", "[]", "", '// mine\n{"a": {}}', '{"a": {},}', "[" * 100_000])
def test_a_file_that_is_damaged_or_has_comments_is_left_as_it_is(file: KeyFile, path: Path, text: str) -> None:
    path.write_text(text)
    assert "it is left as it is" in file.problem()
    for change in (lambda: file.keep("anthropic", KEY), lambda: file.forget("anthropic")):
        with pytest.raises(UsageError, match="no plain JSON object"):
            change()
    assert path.read_text() == text
    assert file.providers() == frozenset()


def test_a_link_is_not_followed(file: KeyFile, path: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.json"
    target.write_text("{}")
    for link in (path.symlink_to, path.hardlink_to):
        link(target)
        assert "is a link" in file.problem()
        with pytest.raises(UsageError, match="is a link"):
            file.keep("anthropic", KEY)
        path.unlink()
    path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="is a link"):
        file.keep("anthropic", KEY)
    assert target.read_text() == "{}"
    assert not (tmp_path / "nowhere").exists()


def test_what_others_can_write_to_keeps_no_key(file: KeyFile, path: Path) -> None:
    path.write_text("{}")
    for open_to_others in (path, path.parent):
        open_to_others.chmod(0o777)
        with pytest.raises(UsageError, match="Others than you can write to"):
            file.keep("anthropic", KEY)
        assert "Others than you can write to" in file.problem()
        open_to_others.chmod(0o700)
    assert path.read_text() == "{}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_cannot_be_written_keeps_no_key(file: KeyFile, path: Path) -> None:
    path.parent.chmod(0o500)
    assert "cannot be written" in file.problem()
    with pytest.raises(UsageError, match="cannot be written"):
        file.keep("anthropic", KEY)
    path.parent.chmod(0o700)


@pytest.mark.parametrize("key", ["!rm -rf x", "HOME"])
def test_a_key_that_the_file_would_give_another_meaning_is_not_written(file: KeyFile, path: Path, key: str) -> None:
    with pytest.raises(UsageError, match="cannot stand in"):
        file.keep("anthropic", key)
    assert not path.exists()
