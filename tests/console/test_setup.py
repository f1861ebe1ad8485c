"""``indusagi setup`` as somebody uses it at a terminal: a key, and the extension in IPython."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest
from file_keyring import NAME, with_keyring
from kernels import Kernel, private_environment
from messages_api import MessagesApi

KEY = "test-key-that-only-the-keyring-may-have"
PROGRAM = [sys.executable, "-m", "indus_nb"]


@pytest.fixture
def api() -> Iterator[MessagesApi]:
    with MessagesApi() as api:
        api.keys = {KEY}
        yield api


@pytest.fixture
def environment(tmp_path: Path, api: MessagesApi) -> dict[str, str]:
    return private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, **with_keyring(tmp_path / "passwords.json"))


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=240,
    )


def typed(environment: dict[str, str], *answers: tuple[str, str], arguments: tuple[str, ...] = ()) -> str:
    """Answer each question at a terminal; returns all that was shown."""
    shown = []
    process = pexpect.spawn(
        PROGRAM[0],
        [*PROGRAM[1:], "setup", *arguments],
        env=environment,
        encoding="utf-8",
        timeout=240,
        dimensions=(40, 400),
    )
    try:
        for question, answer in answers:
            process.expect_exact(question)
            shown.append(process.before)
            process.sendline(answer)
        process.expect(pexpect.EOF)
        shown.append(process.before)
    finally:
        process.close()
    assert process.exitstatus == 0, shown
    return "".join(shown)


def test_a_key_is_asked_for_tested_and_kept_and_the_next_prompt_uses_it(
    environment: dict[str, str], api: MessagesApi, tmp_path: Path
) -> None:
    answers = [("a name [anthropic]:", "1"), ("(not shown):", "a-wrong-key"), ("[Y/n]", ""), ("(not shown):", KEY)]
    shown = typed(environment, *answers)
    assert f"Keep it in {NAME}?" in shown
    assert "refuses this key (status 401)" in shown
    assert f"It is kept in {NAME}" in shown
    assert "The model is Claude Opus 5.5. A first prompt costs about $0." in shown
    assert KEY not in shown
    assert "a-wrong-key" not in shown
    api.add("Here.")
    assert run(environment, "--no-session", "hello").stdout == "Here.\n"
    assert api.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    with_key = [path.name for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert with_key == ["passwords.json"]
    assert run(environment, "setup", "--forget", "anthropic").returncode == 0
    assert "No model is chosen" in run(environment, "--no-session", "hello").stderr
    assert "No key of that provider is kept" in run(environment, "setup", "--forget", "anthropic").stderr


def test_a_typing_error_is_asked_about_again(environment: dict[str, str], tmp_path: Path) -> None:
    again = [("a name [anthropic]:", "99"), ("a name [anthropic]:", "antropic"), ("a name [anthropic]:", "anthropic")]
    shown = typed(environment, *again, ("(not shown):", KEY), ("[Y/n]", "ja"), ("[Y/n]", "N"))
    assert shown.count("No such provider takes a key. There are: anthropic") == 2
    assert "Answer y or n." in shown
    assert "It ends with this program; nothing else has it." in shown
    assert not (tmp_path / "passwords.json").exists()


def test_without_a_keyring_a_key_is_kept_in_the_file_of_keys_until_it_is_taken_out(
    environment: dict[str, str], api: MessagesApi, tmp_path: Path
) -> None:
    environment = {**environment, "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    file = tmp_path / "agent" / "auth.json"
    other = {"openai": {"type": "oauth", "refresh": "theirs", "expires": 1}}
    file.write_text(json.dumps(other))
    shown = typed(environment, ("(not shown):", KEY), ("[Y/n]", ""), arguments=("--provider", "anthropic"))
    assert "This machine has no keyring that programs can use. The file is not encrypted" in shown
    assert f"It is kept in {file}, readable by you alone." in shown
    assert "`indus-nb setup --forget anthropic` takes it out again." in shown
    assert KEY not in shown
    assert json.loads(file.read_text()) == {**other, "anthropic": {"type": "api_key", "key": KEY}}
    api.add("Here.")
    assert run(environment, "--no-session", "hello").stdout == "Here.\n"
    assert "auth.json any more" in run(environment, "setup", "--forget", "anthropic").stdout
    assert json.loads(file.read_text()) == other
    assert "Kept are: none." in run(environment, "setup", "--forget", "openai").stderr


def test_a_key_that_is_not_kept_leaves_the_older_one_which_is_named(
    environment: dict[str, str], api: MessagesApi, tmp_path: Path
) -> None:
    environment = {**environment, "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    file = tmp_path / "agent" / "auth.json"
    file.write_text(json.dumps({"anthropic": {"type": "api_key", "key": "the-older-key"}}))
    shown = typed(environment, ("(not shown):", KEY), ("[Y/n]", "n"), arguments=("--provider", "anthropic"))
    assert "It ends with this program; nothing else has it." in shown
    assert f"The older key in {file} stays, and later processes use it, before ANTHROPIC_API_KEY" in shown
    assert "`indus-nb setup --forget anthropic` removes it." in shown
    api.keys = {"the-older-key"}
    api.add("Here.")
    assert run({**environment, "ANTHROPIC_API_KEY": KEY}, "--no-session", "hello").stdout == "Here.\n"


def test_where_nothing_can_keep_a_key_the_line_to_set_it_with_is_shown_and_not_the_key(
    environment: dict[str, str], api: MessagesApi, tmp_path: Path
) -> None:
    environment = {**environment, "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    (tmp_path / "agent" / "auth.json").write_text("// mine\n{}")
    shown = typed(environment, ("(not shown):", KEY), arguments=("--provider", "anthropic"))
    assert "This machine has no keyring that programs can use" in shown
    assert "export ANTHROPIC_API_KEY='…'" in shown
    assert KEY not in shown


def test_a_keyring_that_has_lost_a_key_or_cannot_be_asked_says_so(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "agent" / "keyring.json").write_text('["anthropic"]')
    assert "has no key for anthropic any more" in run(environment, "--no-session", "hello").stderr
    (tmp_path / "passwords.json").write_text("no JSON, but a-secret")
    failed = run(environment, "--no-session", "hello").stderr
    assert "which does not answer: JSONDecodeError" in failed
    assert "a-secret" not in failed


@pytest.mark.parametrize(
    ("by", "sentence"),
    [("", "set GROQ_API_KEY in the environment"), ("the data team", "Keys come from the data team.")],
)
def test_without_a_terminal_it_says_what_to_set(environment: dict[str, str], by: str, sentence: str) -> None:
    failed = run({**environment, "INDUS_NB_KEYS_FROM": by}, "setup", "--provider", "groq")
    assert failed.returncode == 2
    assert sentence in failed.stderr
    if not by:
        assert "No such provider takes a key" in run(environment, "setup", "--provider", "nosuch").stderr


def test_the_extension_is_loaded_in_each_kernel_once_the_profile_has_its_line(
    environment: dict[str, str], tmp_path: Path
) -> None:
    profile = Path(environment["IPYTHONDIR"]) / "profile_default" / "ipython_config.py"
    profile.parent.mkdir(parents=True)
    profile.write_text("c.InteractiveShellApp.exec_lines = ['x = 1']")
    assert run(environment, "setup", "--ipython").returncode == 0
    before = profile.read_text()
    profile.write_text(before.replace("indus_nb.front.notebook", "indus_nb"))  # as an earlier version wrote it
    assert run(environment, "setup", "--ipython").returncode == 0
    assert profile.read_text() == before
    assert "has the line already" in run(environment, "setup", "--ipython").stdout
    assert profile.read_text() == before
    with Kernel(tmp_path, environment) as kernel:
        assert kernel.run("%load_ext indus_nb").streams == ""
        assert kernel.run("%agent --provider offline compute 6 * 7").status == "ok"
        assert kernel.run("print(x)").streams == "1\n"
    assert run(environment, "setup", "--ipython", "--remove").returncode == 0
    assert profile.read_text() == "c.InteractiveShellApp.exec_lines = ['x = 1']\n"
    assert "has no such line" in run(environment, "setup", "--ipython", "--remove").stdout
    assert "undoes --ipython" in run(environment, "setup", "--remove").stderr
    (tmp_path / "file").write_text("")
    refused = run({**environment, "IPYTHONDIR": str(tmp_path / "file")}, "setup", "--ipython")
    assert (refused.returncode, "c.InteractiveShellApp" in refused.stderr) == (2, True)
