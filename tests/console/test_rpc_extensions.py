"""Extensions behind RPC mode and on the command line: dialogs as frames, gates, commands, flags and defects."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
from messages_api import MessagesApi, Reply, ToolUse
from rpc_process import RpcProcess, indusagi

ASKING = """
def setup(api):
    api.register_flag("colour", type="string", default="red")

    @api.on("session_start")
    async def start(event, ctx):
        chosen = await ctx.ui.select("Which?", ["one", "two"], timeout=TIMEOUT)
        ctx.ui.notify(f"chosen: {chosen}, {api.get_flag('colour')}", "warning")
        ctx.ui.set_status("mood", "fine")
        ctx.ui.set_widget("list", ["a", "b"], placement="belowEditor")
        print("stray output")

    @api.command("ask")
    async def ask(arguments, ctx):
        told = [
            await ctx.ui.confirm("Sure?", "Really?"),
            await ctx.ui.input("Name?", "your name"),
            await ctx.ui.editor("Text?", "before"),
        ]
        api.append_entry("told", told)
"""


@pytest.fixture
def more(messages_api: MessagesApi) -> dict[str, str]:
    return {"ANTHROPIC_BASE_URL": messages_api.url, "ANTHROPIC_API_KEY": "sk-test"}


def extension(folder: Path, *, timeout: str = "None") -> str:
    path = folder / "asking.py"
    path.write_text(ASKING.replace("TIMEOUT", timeout))
    return str(path)


def start(folder: Path, more: dict[str, str], *arguments: str) -> RpcProcess:
    return RpcProcess("--model", "claude-haiku-4-5", "--thinking", "off", *arguments, home=folder, more=more)


def request(method: str) -> Any:
    return lambda frame: frame["type"] == "extension_ui_request" and frame["method"] == method


def test_a_dialog_raised_while_the_session_starts_is_answered_and_the_session_goes_on(
    messages_api: MessagesApi, more: dict[str, str], tmp_path: Path
) -> None:
    messages_api.add(Reply("Hello."))
    with start(tmp_path, more, "-e", extension(tmp_path), "--colour=blue") as process:
        process.send({"id": "p", "type": "prompt", "message": "hi"})
        dialog = process.wait(request("select"))
        assert (dialog["title"], dialog["options"]) == ("Which?", ["one", "two"])
        assert process.ask("get_state")["success"]  # nothing else is held up
        process.send({"type": "extension_ui_response", "id": "unknown", "value": "one"})
        process.send({"type": "extension_ui_response", "id": dialog["id"], "value": "two"})
        told = process.wait(request("notify"))
        assert (told["message"], told["notifyType"]) == ("chosen: two, blue", "warning")
        status = process.wait(request("setStatus"))
        assert (status["statusKey"], status["statusText"]) == ("mood", "fine")
        widget = process.wait(request("setWidget"))
        assert (widget["widgetLines"], widget["widgetPlacement"]) == (["a", "b"], "belowEditor")
        assert process.answer_to("p")["success"]
        process.wait("agent_settled")
        assert not any(frame["type"] == "not a frame" for frame in process.frames)
        assert not any(frame.get("method") == "cancel" for frame in process.frames)


def test_a_dialog_that_nobody_answers_ends_by_itself_and_the_client_is_told(
    messages_api: MessagesApi, more: dict[str, str], tmp_path: Path
) -> None:
    messages_api.add(Reply("Hello."))
    with start(tmp_path, more, "-e", extension(tmp_path, timeout="0.2")) as process:
        dialog = process.wait(request("select"))
        assert dialog["timeout"] == 200
        assert process.wait(request("cancel"))["targetId"] == dialog["id"]
        assert process.wait(request("notify"))["message"] == "chosen: None, red"
        assert process.ask("prompt", message="hi")["success"]


def test_a_command_asks_its_questions_and_saves_what_was_said(more: dict[str, str], tmp_path: Path) -> None:
    with start(tmp_path, more, "-e", extension(tmp_path, timeout="0.01")) as process:
        listed = process.ask("get_commands")["data"]["commands"]
        assert [(command["name"], command["source"]) for command in listed] == [("ask", "extension")]
        process.send({"id": "p", "type": "prompt", "message": "/ask now"})
        for method, fields, answer in (
            ("confirm", {"title": "Sure?", "message": "Really?"}, {"confirmed": True}),
            ("input", {"title": "Name?", "placeholder": "your name"}, {"value": "Ada"}),
            ("editor", {"title": "Text?", "prefill": "before"}, {"cancelled": True}),
        ):
            dialog = process.wait(request(method))
            assert fields.items() <= dialog.items()
            process.send({"type": "extension_ui_response", "id": dialog["id"], **answer})
        assert process.answer_to("p")["success"]

        def told() -> list[Any]:
            entries = process.ask("get_entries")["data"]["entries"]
            return [entry["data"] for entry in entries if entry["type"] == "custom"]

        for _ in range(100):
            if told():
                break
        assert told() == [[True, "Ada", None]]


@pytest.mark.parametrize(("answer", "made"), [("Yes, once", True), ("No", False)])
def test_the_gate_asks_the_client(
    messages_api: MessagesApi, more: dict[str, str], tmp_path: Path, answer: str, *, made: bool
) -> None:
    messages_api.add(Reply(ToolUse("write", {"path": "made.txt", "content": "new\n"})), Reply("Done."))
    (tmp_path / "made.txt").write_text("old\n")
    with start(tmp_path, more, "--approve", "writes") as process:
        process.ask("prompt", message="go")
        dialog = process.wait(request("select"))
        assert "-old\n+new" in dialog["title"]
        process.send({"type": "extension_ui_response", "id": dialog["id"], "value": answer})
        process.wait("agent_settled")
    assert ((tmp_path / "made.txt").read_text() == "new\n") is made


def test_what_is_allowed_for_a_folder_is_kept_as_a_readable_rule(
    messages_api: MessagesApi, more: dict[str, str], tmp_path: Path
) -> None:
    writing = ToolUse("write", {"path": "out/made.txt", "content": "new"})
    messages_api.add(Reply(writing), Reply("Done."), Reply(writing), Reply("Done."))
    for asked in (True, False):
        with start(tmp_path, more, "--approve", "writes", "--no-session") as process:
            process.ask("prompt", message="go")
            if asked:
                dialog = process.wait(request("select"))
                rule = next(option for option in dialog["options"] if "folder" in option)
                process.send({"type": "extension_ui_response", "id": dialog["id"], "value": rule})
            process.wait("agent_settled")
    rules = json.loads((tmp_path / "agent" / "approved.json").read_text())
    assert rules == {str(tmp_path): [f"writes_file: {tmp_path}/out/"]}


@pytest.mark.parametrize("end", ["stdin", "abort", signal.SIGTERM])
def test_an_open_dialog_ends_with_the_run_or_the_process(
    messages_api: MessagesApi, more: dict[str, str], tmp_path: Path, end: Any
) -> None:
    messages_api.add(Reply(ToolUse("bash", {"command": "sleep 1000"})), Reply("Done."))
    with start(tmp_path, more, "--approve", "always", "--session-dir", "sessions") as process:
        process.ask("prompt", message="go")
        dialog = process.wait(request("select"))
        children = psutil.Process(process.pid).children(recursive=True)
        if end == "abort":
            assert process.ask("abort")["success"]
            assert [f["targetId"] for f in process.frames if f.get("method") == "cancel"] == [dialog["id"]]
            process.close_stdin()
        elif end == "stdin":
            process.close_stdin()
        else:
            process.signal(end)
        assert process.wait_for_end() == (143 if end is signal.SIGTERM else 0)
    assert not children
    (path,) = (tmp_path / "sessions").glob("*.jsonl")
    assert "sleep 1000" in path.read_text()
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_an_extension_can_end_the_process_once_it_is_idle(more: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "leaving.py"
    path.write_text("def setup(api):\n    api.register_command('leave', lambda arguments, ctx: ctx.shutdown())\n")
    with start(tmp_path, more, "-e", str(path)) as process:
        assert process.ask("prompt", message="/leave")["success"]
        assert process.wait_for_end() == 0


def test_a_defect_of_an_extension_is_a_frame(more: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("def setup(api):\n    api.on('session_start', lambda event, ctx: 1 / 0)\n")
    with start(tmp_path, more, "-e", str(path)) as process:
        frame = process.wait("extension_error")
        assert (frame["extensionPath"], frame["event"]) == (str(path), "session_start")
        assert "division by zero" in frame["error"]
        assert process.ask("get_state")["success"]


def test_an_option_that_no_extension_knows_is_a_mistake(more: dict[str, str], tmp_path: Path) -> None:
    path = extension(tmp_path, timeout="0.01")
    done = indusagi("-e", path, "--colur=x", "--provider", "offline", "hi", home=tmp_path, **more)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--colur" in done.stderr
    done = indusagi("-e", path, "--colour", "--provider", "offline", "hi", home=tmp_path, **more)
    assert "--colour=VALUE" in done.stderr
    done = indusagi("-e", path, "--colour=green", "--provider", "offline", "compute 1", home=tmp_path, **more)
    assert (done.returncode, done.stderr) == (0, "stray output\n")


def test_skills_templates_and_context_files_reach_the_model(
    messages_api: MessagesApi, more: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "AGENTS.md").write_text("Always say moo.")
    skill = tmp_path / ".indusagi" / "skills" / "counting"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: counting\ndescription: How to count.\n---\nOne, two, three.\n")
    prompts = tmp_path / ".indusagi" / "prompts"
    prompts.mkdir()
    (prompts / "greet.md").write_text("Greet $1 and $2.")
    messages_api.add(Reply("Moo."), Reply("Moo."))
    with start(tmp_path, more, "--trust") as process:
        names = [(c["name"], c["source"]) for c in process.ask("get_commands")["data"]["commands"]]
        assert names == [("greet", "prompt"), ("skill:counting", "skill")]
        for text in ("/greet Ada Bob", "/skill:counting to ten"):
            process.ask("prompt", message=text)
            process.wait("agent_settled")
    system = messages_api.requests[0].body["system"][0]["text"]
    assert "Always say moo." in system
    assert "How to count." in system
    said = [message["content"][0]["text"] for message in messages_api.requests[1].body["messages"][::2]]
    assert said[0] == "Greet Ada and Bob."
    assert "One, two, three." in said[1]
    assert said[1].endswith("to ten")


def test_an_answer_about_the_project_counts_for_the_prompt_behind_it_and_none_holds_a_prompt_up(
    messages_api: MessagesApi, more: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "AGENTS.md").write_text("Always say moo.")
    messages_api.add(*(Reply("Moo.") for _ in range(3)))
    with start(tmp_path, more, "--no-session") as process:
        dialog = process.wait(request("select"))
        process.ask("prompt", message="before the answer")
        process.wait("agent_settled")
        process.send(
            {"type": "extension_ui_response", "id": dialog["id"], "value": "Trust it for this session only"},
            {"id": "p", "type": "prompt", "message": "behind it"},
        )
        process.wait("agent_settled")
    with start(tmp_path, more, "--no-session") as process:
        dialog = process.wait(request("select"))
        process.send(
            {"type": "extension_ui_response", "id": dialog["id"], "value": dialog["options"][0]},
            {"id": "p", "type": "prompt", "message": "the first"},
        )
        process.wait("agent_settled")
    assert ["moo" in json.dumps(each.body["system"]) for each in messages_api.requests] == [False, True, True]


def test_a_client_is_told_what_a_command_offers_for_its_arguments(more: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "release.py"
    path.write_text("def setup(api):\n    api.register_command('release', print, complete=lambda typed: ['patch'])\n")
    with start(tmp_path, more, "-e", str(path)) as process:
        answer = process.ask("get_command_completions", name="release", prefix="pa")
        assert answer["data"] == {"completions": [{"value": "patch"}]}
        assert process.ask("get_command_completions", name="unknown")["data"] == {"completions": []}


def test_a_branch_is_guarded_and_terminal_methods_are_harmless_over_rpc(
    messages_api: MessagesApi, more: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "ported.py"
    path.write_text(
        """
def setup(api):
    api.on("goal_updated", print)
    api.on("session_before_branch", lambda event, ctx: {"cancel": True})

    @api.on("session_start")
    async def start(event, ctx):
        ctx.ui.set_working_message("Working")
        ctx.ui.set_widget("list", lambda tui, theme: None)
        await ctx.ui.custom(lambda *_: None)
        ctx.ui.notify(ctx.ui.set_theme("dark")["error"])
"""
    )
    messages_api.add(Reply("Hello."))
    with start(tmp_path, more, "-e", str(path)) as process:
        told = process.wait(request("notify"))
        assert told["message"] == "Theme switching not supported in RPC mode"
        process.ask("prompt", message="hi")
        process.wait("agent_settled")
        listed = process.ask("get_branch_messages")["data"]["messages"]
        answer = process.ask("branch", entryId=listed[0]["entryId"])
        assert answer["data"] == {"text": "hi", "cancelled": True}
        assert "no event named 'goal_updated'" in process.ask("get_commands")["data"]["problems"][0]
        methods = {frame["method"] for frame in process.frames if frame["type"] == "extension_ui_request"}
        assert methods == {"notify"}
