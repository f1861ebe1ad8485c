"""The console program as a user calls it: JSON and text mode, sessions, and what it says to mistakes."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from living import ending
from messages_api import Cut, Gate, HttpError, MessagesApi, Raw, Reply, Text, Thinking, ToolUse
from openai_api import OpenAIApi
from pictures import DOT
from rpc_process import environment, indusagi

from indus_nb.version import __version__

PNG = base64.b64decode(DOT)


def claude(messages_api: MessagesApi) -> dict[str, str]:
    return {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}


def events_of(output: str) -> list[dict]:
    return [json.loads(line) for line in output.splitlines()]


def test_text_mode_writes_no_code_that_a_terminal_obeys_also_into_a_pipe(
    tmp_path: Path, messages_api: MessagesApi
) -> None:
    messages_api.add(Reply("\x1b]52;c;ZXZpbA==\x07Done\x1b[31m.\u202e\n\tEnd"))
    more = {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}
    done = indusagi("--model", "claude-haiku-4-5", "--thinking", "off", "go", home=tmp_path, **more)
    assert done.stdout == "Done.\n\tEnd\n"


def test_json_mode_prints_the_header_and_a_whole_stream_and_saves_a_session_to_go_on_with(
    messages_api: MessagesApi, tmp_path: Path
):
    messages_api.add(
        Reply(Thinking("I should look."), "Let me look.", ToolUse("bash", {"command": "echo found"})),
        Reply("Found it."),
        Reply("Still here."),
    )
    arguments = ("--mode", "json", "--provider", "anthropic", "--model", "claude-haiku-4-5")
    first = indusagi(*arguments, "look", home=tmp_path, **claude(messages_api))
    assert (first.returncode, first.stderr) == (0, "")
    header, *events = events_of(first.stdout)
    assert (header["type"], header["version"], header["cwd"]) == ("session", 3, str(tmp_path))
    assert [events[0]["type"], events[-2]["type"], events[-1]["type"]] == ["agent_start", "agent_end", "agent_settled"]
    for opening, closing in (("turn_start", "turn_end"), ("message_start", "message_end")):
        kinds = [event["type"] for event in events]
        assert kinds.count(opening) == kinds.count(closing)
    updates = [e["assistantMessageEvent"] for e in events if e["type"] == "message_update"]
    assert {"thinking_delta", "text_delta", "toolcall_delta", "done"} <= {update["type"] for update in updates}
    (result,) = (event for event in events if event["type"] == "tool_execution_end")
    assert (result["result"]["content"][0]["text"], result["isError"]) == ("found\n", False)
    (path,) = (tmp_path / "agent" / "sessions").glob("*/*.jsonl")
    assert json.loads(path.read_text().splitlines()[0]) == header

    second = indusagi("--continue", "and now?", home=tmp_path, **claude(messages_api))
    assert (second.returncode, second.stdout) == (0, "Still here.\n")
    roles = [message["role"] for message in messages_api.requests[2].body["messages"]]
    assert roles == ["user", "assistant", "user", "assistant", "user"]
    assert messages_api.requests[2].body["model"] == "claude-haiku-4-5"


def test_text_mode_prints_the_last_answer_alone(tmp_path: Path, messages_api: MessagesApi):
    messages_api.add(Reply(ToolUse("bash", {"command": "echo noise"})), Reply("The *answer*."), Reply("Another."))
    done = indusagi("-p", "one", "two", home=tmp_path, **claude(messages_api))
    assert (done.returncode, done.stdout, done.stderr) == (0, "Another.\n", "")


def test_files_images_and_piped_input_come_before_the_first_prompt(tmp_path: Path, messages_api: MessagesApi):
    messages_api.add(Reply("Seen."))
    (tmp_path / "a.txt").write_text("file text")
    (tmp_path / "b.png").write_bytes(PNG)
    done = indusagi("@a.txt", "@b.png", "explain", home=tmp_path, stdin="piped text\n", **claude(messages_api))
    assert done.returncode == 0, done.stderr
    content = messages_api.requests[0].body["messages"][0]["content"]
    assert re.search("(?s)file text.*piped text.*explain", content[0]["text"])
    assert content[1]["source"]["media_type"] == "image/png"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (HttpError(400, "invalid_request_error", "max_tokens: too large"), "max_tokens: too large"),
        (HttpError(500, body="<html>Bad gateway</html>"), "500"),
        (Reply(Text("half an ans", Cut())), ""),
        (Reply(Text("half an ans", Raw(b"event: content_block_delta\ndata: {garbage\n\n"))), ""),
    ],
)
@pytest.mark.parametrize("mode", ["text", "json"])
def test_a_failed_answer_exits_with_1_and_one_sentence_and_keeps_what_was_said(
    messages_api: MessagesApi, tmp_path: Path, mode: str, answer: object, words: str
):
    messages_api.add(answer)
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "settings.json").write_text('{"retry": {"enabled": false}}')
    done = indusagi("--mode", mode, "hi", home=tmp_path, **claude(messages_api))
    assert done.returncode == 1
    assert words in done.stderr
    assert done.stderr.startswith("indus-nb: ")
    assert "Traceback" not in done.stderr
    (path,) = (tmp_path / "agent" / "sessions").glob("*/*.jsonl")
    user, answered = (json.loads(line)["message"] for line in path.read_text().splitlines()[-2:])
    assert user["content"][0]["text"] == "hi"
    assert answered["stopReason"] == "error"
    if isinstance(answer, Reply):
        assert mode == "json" or done.stdout == "half an ans\n"
        assert answered["content"][0]["text"] == "half an ans"
    if mode == "json":
        assert events_of(done.stdout)[-1]["type"] == "agent_settled"


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("--nonesuch", "hi"), 2, "--nonesuch"),
        (("--mode", "loud", "hi"), 2, "loud"),
        (("--model", "claude-haiko-4-5", "hi"), 2, "Model not found: claude-haiko-4-5"),
        (("--provider", "nobody", "hi"), 2, "Unknown provider: nobody"),
        (("--provider", "offline", "--tools", "read,fly", "hi"), 2, "Unknown tool: fly"),
        (("--provider", "offline", "--thinking", "much", "hi"), 2, "much"),
        (("--provider", "offline", "--no-tools", "--tools", "read", "hi"), 2, "--no-tools"),
        (("--provider", "offline", "--no-session", "--continue", "hi"), 2, "--no-session"),
        ((), 2, "Nothing to do"),
        (("--provider", "offline"), 2, "Nothing to do"),
        (("--nope",), 2, "--nope is no option of `indus-nb`"),
        (("--provider", "offline", " "), 2, "empty"),
        (("--provider", "offline", "--session", "", "hi"), 2, "Name the session"),
        (("--provider", "offline", "@missing.txt", "hi"), 2, "missing.txt"),
        (("--mode", "rpc", "@file.txt"), 2, "@file arguments"),
        (("--provider", "offline", "--session", "missing.jsonl", "hi"), 1, "missing.jsonl"),
        (("--provider", "offline", "--session", "notes.jsonl", "hi"), 1, "notes.jsonl"),
        (("hi",), 1, "ANTHROPIC_API_KEY"),
        (("--model", "claude-haiku-4-5", "hi"), 1, "--provider offline"),
        (("--provider", "offline", "--max-cost", "0", "hi"), 2, "max_cost is a number above zero"),
        (("--model", "gemini-3.6-flash", "--api-key", "k", "--max-cost", "1", "hi"), 2, "gemini-3.6-flash is unknown"),
    ],
)
def test_a_mistake_gets_one_clear_sentence_and_a_status(
    tmp_path: Path, arguments: tuple[str, ...], status: int, words: str
):
    (tmp_path / "notes.jsonl").write_text("these are notes\n")
    done = indusagi(*arguments, home=tmp_path)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith("indus-nb: ")
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert (tmp_path / "notes.jsonl").read_text() == "these are notes\n"


@pytest.mark.parametrize(
    ("limit", "requests", "words"),
    [
        (("--max-turns", "2"), 2, "Stopped after 2 turns"),
        (("--timeout", "3600"), 21, "the last 20 tool calls repeated earlier ones"),
        (("--max-cost", "0.0001"), 0, "The budget of $0.0001 has no room: $0.0000 are spent"),
    ],
)
def test_a_limit_ends_what_would_go_on_for_ever_with_a_sentence_and_status_1(
    messages_api: MessagesApi, tmp_path: Path, limit: tuple[str, str], requests: int, words: str
):
    messages_api.default = lambda _: Reply(ToolUse("read", {"path": "none.txt"}))
    done = indusagi("--model", "claude-haiku-4-5", *limit, "look", home=tmp_path, **claude(messages_api))
    assert (done.returncode, done.stdout, len(messages_api.requests)) == (1, "", requests)
    assert words in done.stderr


def test_a_path_that_is_none_is_neither_shown_at_length_nor_with_what_looks_like_a_key(tmp_path: Path):
    key = "sk-ant-0123456789"
    done = indusagi("--provider", "offline", "-e", f"{tmp_path}/{key}/{'x' * 5000}", "hi", home=tmp_path)
    assert "is no Python module" in done.stderr
    assert key not in done.stderr
    assert len(done.stderr) < 600


def test_credentials_in_the_place_of_their_path_are_no_path_and_are_not_shown(tmp_path: Path):
    account = json.dumps({"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\n" + "MIIE" * 400})
    place = {"GOOGLE_APPLICATION_CREDENTIALS": account, "GOOGLE_CLOUD_PROJECT": "p"}
    listed = indusagi("--list-models", "google-vertex", home=tmp_path, **place)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert listed.stdout.splitlines()[1].endswith("missing")


@pytest.mark.parametrize(
    ("text", "words"), [("{broken", "is no JSON"), ("[]", "JSON object"), ('{"steeringMode": 5}', "steeringMode")]
)
def test_broken_settings_are_reported_left_alone_and_ignored(tmp_path: Path, text: str, words: str):
    settings = tmp_path / "agent" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(text)
    done = indusagi("--provider", "offline", "--no-session", "hello", home=tmp_path)
    assert done.returncode == 0
    assert str(settings) in done.stderr
    assert words in done.stderr
    assert settings.read_text() == text


def test_project_settings_lie_over_the_users_own(tmp_path: Path):
    for folder, text in (
        ("agent", '{"defaultProvider": "anthropic", "defaultModel": "claude-haiku-4-5"}'),
        (".indusagi", '{"defaultProvider": "offline", "defaultModel": "offline"}'),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "settings.json").write_text(text)
    done = indusagi("--no-session", "--trust", "who are you?", home=tmp_path)
    assert done.returncode == 0
    assert "no language model" in done.stdout


def test_version_is_bare_and_models_are_listed(tmp_path: Path):
    assert indusagi("--version", home=tmp_path).stdout == f"{__version__}\n"
    listed = indusagi("--list-models", "anthropic/claude-opus-4", home=tmp_path)
    assert listed.returncode == 0
    assert {"claude-opus-4-5", "claude-opus-4-8"} <= set(listed.stdout.split())
    assert {line.split()[-1] for line in listed.stdout.splitlines()[1:]} == {"missing"}
    listed = indusagi("--list-models", "anthropic/claude-opus-4", home=tmp_path, ANTHROPIC_API_KEY="k")
    assert {line.split()[-1] for line in listed.stdout.splitlines()[1:]} == {"yes"}
    assert indusagi("--list-models", "nonesuch", home=tmp_path).returncode == 2
    assert "--mode" in indusagi("--help", home=tmp_path).stdout


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("setpu", "setup"),
        ("docto", "doctor"),
        ("evla", "eval"),
        ("setups", "setup"),
        ("versoin", "version"),
        ("login", "setup"),
    ],
)
@pytest.mark.parametrize("options", [(), ("--provider", "offline")])
def test_a_word_that_nearly_is_a_command_is_not_sent(tmp_path: Path, typed: str, meant: str, options: tuple[str, ...]):
    done = indusagi(typed, *options, home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"There is no command {typed}. Did you mean indus-nb {meant}?" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--provider=offline", "--", "setpu"],
        ["setpu", "shell"],
        ["work", "--provider=offline"],
        ["help me"],
        ["doctor extra"],
    ],
)
def test_what_can_only_be_a_prompt_is_sent(tmp_path: Path, arguments: list[str]):
    done = indusagi(*arguments, home=tmp_path)
    assert "no command" not in done.stderr
    assert "takes options alone" not in done.stderr


@pytest.mark.parametrize("words", ["help me", "doctor extra", "version 2"])
def test_words_behind_a_command_that_takes_none_are_not_sent(tmp_path: Path, words: str):
    done = indusagi(*words.split(), "--provider", "offline", home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"in quotes: indus-nb '{words}'" in done.stderr


@pytest.mark.parametrize("name", ["map", "eval", "setup", "doctor"])
def test_the_help_of_a_command_is_had_in_both_ways(tmp_path: Path, name: str):
    asked = indusagi("help", name, home=tmp_path)
    assert (asked.returncode, asked.stdout) == (0, indusagi(name, "--help", home=tmp_path).stdout)
    assert f"usage: indus-nb {name}" in asked.stdout
    assert f"`indus-nb {name}" in indusagi("--help", home=tmp_path).stdout


@pytest.mark.parametrize(("typed", "meant"), [("mapp rows.csv", "map"), ("list-model opus", "list-models")])
def test_a_mistyped_command_before_what_may_be_its_argument_is_not_sent(tmp_path: Path, typed: str, meant: str):
    done = indusagi(*typed.split(), "--provider", "offline", home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"Did you mean indus-nb {meant}?" in done.stderr


def test_a_file_is_no_mistyped_command(tmp_path: Path):
    (tmp_path / "map").write_text("compute 6 * 7")
    done = indusagi("@map", "--provider", "offline", home=tmp_path)
    assert (done.returncode, "no command" in done.stderr) == (0, False)


@pytest.mark.parametrize("word", ["help", "version"])
def test_words_for_what_is_printed_are_no_prompts(tmp_path: Path, word: str):
    asked = indusagi(word, home=tmp_path)
    assert (asked.returncode, asked.stdout) == (0, indusagi(f"--{word}", home=tmp_path).stdout)
    listed = indusagi("list-models", "opus", home=tmp_path).stdout
    assert listed == indusagi("--list-models", "opus", home=tmp_path).stdout


@pytest.mark.parametrize("asked", ["--doctor", "doctor"])
def test_the_diagnosis_says_what_is_set_up_what_this_machine_can_confine_and_what_is_wrong(tmp_path: Path, asked: str):
    (project := tmp_path / "project").mkdir()
    (project / "AGENTS.md").write_text("Speak of bananas.")
    done = indusagi(asked, "--provider", "offline", home=tmp_path, cwd=project)
    assert done.returncode == 0
    said = dict(line.partition(": ")[::2] for line in done.stdout.splitlines() if not line.startswith("- "))
    assert said["model"].startswith("offline/offline (needs no key)")
    assert (said["project"], said["sandbox"], said["context files"]) == ("ignored, brings AGENTS.md", "off", "none")
    assert "- used: " in done.stdout
    assert f"- {project} is not trusted" in done.stdout.split("\nproblems:")[1]
    assert not list(tmp_path.glob("agent/sessions/**/*.jsonl"))


def test_the_diagnosis_names_a_missing_model_and_an_extension_that_fails(tmp_path: Path):
    (extensions := tmp_path / "agent" / "extensions").mkdir(parents=True)
    (extensions / "broken.py").write_text("def setup(api):\n    raise ValueError('no bananas')\n")
    problems = indusagi("doctor", home=tmp_path).stdout.split("\nproblems:")[1]
    assert "- No model is chosen. `indus-nb setup` in a terminal" in problems
    assert "broken.py" in problems
    assert "no bananas" in problems


def test_the_diagnosis_begins_before_the_extensions_are_loaded(tmp_path: Path):
    (extensions := tmp_path / "agent" / "extensions").mkdir(parents=True)
    os.mkfifo(tmp_path / "told")
    (extensions / "slow.py").write_text(f"open({str(tmp_path / 'told')!r}).read()\ndef setup(api):\n    pass\n")
    command = [sys.executable, "-m", "indus_nb", "doctor", "--provider", "offline"]
    settings = {"cwd": tmp_path, "env": environment(tmp_path)}
    with ending(subprocess.Popen(command, **settings, stdout=subprocess.PIPE, text=True)) as doctor:
        assert doctor.stdout is not None
        assert doctor.stdout.readline().startswith("indus_nb ")
        assert doctor.stdout.readline().startswith("session: ")
        (tmp_path / "told").write_text("go on")
        assert "\nproblems: none" in doctor.stdout.read()
    assert doctor.returncode == 0


def test_the_functions_of_the_readme_make_an_extension_below_the_line_that_it_names(tmp_path: Path):
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8").split("## Make it your own")[1]
    functions = readme.split("```python\nfrom indus_nb import agent\n")[1].split("```")[0]
    line = re.search(r"below `(def .+?:)` in the place of the import", readme)
    assert line is not None
    (extensions := tmp_path / "agent" / "extensions").mkdir(parents=True)
    (extensions / "mine.py").write_text(line[1] + textwrap.indent(functions, "    "))
    said = indusagi("doctor", "--provider", "offline", home=tmp_path).stdout
    assert re.search(r"^tools: .*\brows\b", said, re.MULTILINE)
    assert "\nproblems: none" in said


@pytest.mark.parametrize("options", [(), ("--provider", "openai")])
def test_without_a_key_a_prompt_names_what_asks_for_one(tmp_path: Path, options: tuple[str, ...]):
    done = indusagi("--no-session", *options, "hello", home=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "`indus-nb setup` asks for a key and keeps it." in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "{home}/agent/sessions/"),
        (("--no-session",), "not saved"),
        (("--session-dir", "{home}/file/below"), "kept in memory only, for nothing can be written to {home}/file\n"),
    ],
)
def test_the_diagnosis_says_whether_and_where_sessions_are_kept(tmp_path: Path, options: tuple[str, ...], said: str):
    (tmp_path / "file").write_text("no directory")
    done = indusagi("doctor", *(option.format(home=tmp_path) for option in options), home=tmp_path)
    assert f"\nsession: {said.format(home=tmp_path)}" in done.stdout
    assert not list(tmp_path.glob("agent/sessions/**/*.jsonl"))


def test_models_of_the_users_file_are_listed_and_its_mistakes_told(tmp_path: Path):
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "models.json").write_text("""{"providers": { // two of them
        "ollama": {"baseUrl": "http://localhost:1/v1", "api": "openai-completions", "models": [{"id": "llama"},]},
        "wrong": {"baseUrl": 5}}}""")
    listed = indusagi("--list-models", "ollama", home=tmp_path)
    assert listed.returncode == 0
    assert listed.stdout.splitlines()[1].split()[:2] == ["ollama", "llama"]
    assert listed.stdout.splitlines()[1].endswith("none needed")
    assert listed.stderr.startswith(
        f"indus-nb: {tmp_path / 'agent' / 'models.json'}: `providers.wrong.baseUrl` is wrong"
    )


def test_prompts_and_tools_are_the_users_choice(messages_api: MessagesApi, tmp_path: Path):
    messages_api.add(Reply("a"), Reply("b"))
    (tmp_path / "more.md").write_text("Speak like a pirate.")
    appended = ("--append-system-prompt", "more.md", "--append-system-prompt", "Be kind.")
    indusagi("--tools", "read,grep", *appended, "hi", home=tmp_path, **claude(messages_api))
    body = messages_api.requests[0].body
    assert [tool["name"] for tool in body["tools"]] == ["read", "grep"]
    assert re.search(
        "(?s)^You are a coding agent.*Speak like a pirate.*Be kind.*Current date", body["system"][0]["text"]
    )
    indusagi("--no-tools", "--system-prompt", "Only this.", "hi", home=tmp_path, **claude(messages_api))
    body = messages_api.requests[1].body
    assert not body.get("tools")
    assert body["system"][0]["text"].startswith("Only this.")


def test_an_interrupt_ends_the_run_in_order(messages_api: MessagesApi, tmp_path: Path):
    gate = Gate()
    messages_api.add(Reply(Text("one ", gate)))
    process = subprocess.Popen(
        [sys.executable, "-m", "indus_nb", "--mode", "json", "talk"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment(tmp_path, **claude(messages_api)),
    )
    assert gate.reached.wait()
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate()
    assert process.returncode == 130
    assert errors == "indus-nb: Request was aborted.\n"
    assert [event["type"] for event in events_of(output)[-2:]] == ["agent_end", "agent_settled"]


def test_keys_reach_neither_session_nor_output(messages_api: MessagesApi, tmp_path: Path):
    key = "sk-ant-very-secret"
    messages_api.add(HttpError(401, "authentication_error", f"invalid x-api-key {key}"), Reply("ok"))
    for mode in ("json", "text"):
        done = indusagi("--mode", mode, "--api-key", key, "hi", home=tmp_path, ANTHROPIC_BASE_URL=messages_api.url)
        assert key not in done.stdout + done.stderr
    assert key in str(messages_api.requests[0].headers)
    for path in (tmp_path / "agent").rglob("*"):
        assert path.is_dir() or key not in path.read_text()


def test_a_failed_prompt_is_told_and_the_next_one_is_still_asked(messages_api: MessagesApi, tmp_path: Path):
    messages_api.add(HttpError(400, "invalid_request_error", "no such thing"), Reply("Fine."))
    done = indusagi("one", "two", home=tmp_path, **claude(messages_api))
    assert (done.returncode, done.stdout) == (0, "Fine.\n")
    assert "no such thing" in done.stderr


def test_nothing_of_an_older_answer_is_printed_when_a_prompt_is_refused(messages_api: MessagesApi, tmp_path: Path):
    messages_api.add(Reply("Of yesterday."))
    indusagi("one", home=tmp_path, **claude(messages_api))
    done = indusagi("--continue", "two", home=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "ANTHROPIC_API_KEY" in done.stderr


def test_a_provider_of_the_settings_that_is_unknown_is_reported_and_what_works_goes_on(
    messages_api: MessagesApi, tmp_path: Path
):
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "settings.json").write_text('{"defaultProvider": "nobody"}')
    messages_api.add(Reply("Here."))
    done = indusagi("one", home=tmp_path, **claude(messages_api))
    assert (done.returncode, done.stdout) == (0, "Here.\n")
    assert "`defaultProvider`" in done.stderr
    assert "nobody" in done.stderr


@pytest.mark.parametrize("mode", ["json", "text", "rpc", "models", "doctor"])
def test_output_that_nobody_reads_ends_the_program_without_a_word(tmp_path: Path, mode: str):
    read_end, write_end = os.pipe()
    os.close(read_end)
    printing = {"models": ["--list-models"], "doctor": ["doctor"]}
    arguments = printing.get(mode) or ["--mode", mode, "--provider", "offline", "--no-session"]
    with ending(
        subprocess.Popen(
            [sys.executable, "-m", "indus_nb", *arguments, *(["hello"] if mode in ("json", "text") else [])],
            stdin=subprocess.PIPE if mode == "rpc" else subprocess.DEVNULL,
            stdout=write_end,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env=environment(tmp_path),
        )
    ) as process:
        os.close(write_end)
        if mode == "rpc":
            process.stdin.write(b'{"type": "get_state"}\n')
            process.stdin.flush()
        # A host that reads no more has gone, which is how RPC mode ends; the others end as SIGPIPE ends programs.
        assert process.wait() == (0 if mode == "rpc" else 128 + signal.SIGPIPE)
        assert process.stderr.read() == b""


def test_an_answer_that_nobody_can_get_is_a_failure(tmp_path: Path):
    program = f"exec {shlex.quote(sys.executable)} -m indus_nb --provider offline --no-session hello >&-"
    done = subprocess.run(
        ["/bin/sh", "-c", program], capture_output=True, cwd=tmp_path, env=environment(tmp_path), check=False
    )
    assert (done.returncode, done.stderr) == (1, b"indus-nb: The output could not be written: Bad file descriptor.\n")


def test_standard_descriptors_that_were_closed_are_never_taken_for_a_file_of_ours(tmp_path: Path):
    program = f"exec {shlex.quote(sys.executable)} -m indus_nb --provider offline --mode json hello <&- 2>&-"
    done = subprocess.run(
        ["/bin/sh", "-c", program], capture_output=True, cwd=tmp_path, env=environment(tmp_path), check=False
    )
    assert done.returncode == 0
    assert json.loads(done.stdout.splitlines()[-1])["type"] == "agent_settled"
    (path,) = (tmp_path / "agent" / "sessions").glob("*/*.jsonl")
    assert all(isinstance(json.loads(line), dict) for line in path.read_bytes().splitlines())


@pytest.mark.parametrize("library", ["h11", "httpx2"])
@pytest.mark.parametrize("model", ["claude-haiku-4-5", "openai/gpt-5.4"])
def test_an_http_library_that_cannot_be_imported_is_told_once_and_without_a_traceback(
    tmp_path: Path, model: str, library: str
):
    (tmp_path / "path" / library).mkdir(parents=True)
    (tmp_path / "path" / library / "__init__.py").write_text("raise ImportError('this library is broken')\n")
    keys = {"ANTHROPIC_API_KEY": "sk-test", "OPENAI_API_KEY": "sk-test", "PYTHONPATH": str(tmp_path / "path")}
    if library == "httpx2":
        keys["HTTPS_PROXY"] = "http://127.0.0.1:9"  # what only it knows how to ask
    done = indusagi("--model", model, "--no-session", "hi", home=tmp_path, **keys)
    assert (done.returncode, done.stdout) == (1, "")
    assert "this library is broken" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("api", ["openai-completions", "openai-responses", "anthropic-messages"])
def test_a_first_answer_needs_no_sdk(tmp_path: Path, api: str):
    """An SDK that is imported all the same leaves a file behind, and fails."""
    for sdk in ("openai", "anthropic"):
        (tmp_path / "path" / sdk).mkdir(parents=True)
        code = f"import pathlib\npathlib.Path({str(tmp_path / 'imported')!r}).touch()\nraise ImportError('missing')\n"
        (tmp_path / "path" / sdk / "__init__.py").write_text(code)
    with OpenAIApi("Hello from the server.") as server:
        url = server.url if api == "anthropic-messages" else server.v1
        local = {"baseUrl": url, "api": api, "apiKey": "k", "models": [{"id": "m"}]}
        (tmp_path / "agent").mkdir()
        (tmp_path / "agent" / "models.json").write_text(json.dumps({"providers": {"local": local}}))
        done = indusagi("--model", "local/m", "--no-session", "hi", home=tmp_path, PYTHONPATH=str(tmp_path / "path"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "Hello from the server." in done.stdout
    assert not (tmp_path / "imported").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_a_file_that_never_ends_is_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "fifo")
    for name in ("fifo", "/dev/zero"):
        ran = indusagi("--provider", "offline", f"@{name}", "hi", home=tmp_path, cwd=tmp_path)
        assert ran.returncode == 2
        assert "is no file that could be read to its end" in ran.stderr
