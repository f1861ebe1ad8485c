"""Dialogs and definitions in real kernels: asked in the cell, answered, dismissed, interrupted, and where nobody is."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernels import Kernel, private_environment
from messages_api import MessagesApi, Reply, ToolUse


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dialogs")


@pytest.fixture(scope="module")
def kernel(folder: Path, api: MessagesApi) -> Iterator[Kernel]:
    environment = private_environment(folder, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    (folder / "agent" / "settings.json").unlink()
    (folder / "work").mkdir()
    with Kernel(folder / "work", environment) as kernel:
        assert kernel.run("%load_ext indus_nb").status == "ok"
        yield kernel


@pytest.fixture
def claude(kernel: Kernel, api: MessagesApi) -> Kernel:
    assert kernel.run("%agent --new --model anthropic/claude-sonnet-4-5 --thinking off").status == "ok"
    api.requests.clear()
    return kernel


def result_of(api: MessagesApi) -> str:
    return json.dumps(api.requests[-1].body["messages"][-1]["content"])


@pytest.mark.parametrize(("answer", "made"), [("1", True), ("2", False), ("", False)])
def test_a_notebook_asks_before_a_command_runs(
    claude: Kernel, api: MessagesApi, folder: Path, answer: str, *, made: bool
) -> None:
    file = folder / "work" / f"made-{answer}"
    api.add(Reply(ToolUse("bash", {"command": f"touch {file.name}"})), Reply("Done."))
    cell = claude.begin("%agent make a file", asks=True)
    question = cell.answer(answer)
    assert f"touch {file.name}" in question
    assert "2  No" in question
    above, _, line = question.rpartition("\n")
    assert above.startswith(f"│ This writes {file.name}. Run this command?\n")
    begins = f"This writes {file.name}. Run this command? "
    assert line == f"{begins}1 Yes · 2 No, y, n, n and why, or nothing to dismiss: "
    assert cell.finish().status == "ok"
    assert file.exists() is made
    assert ("did not allow" in result_of(api)) is not made


@pytest.mark.parametrize("line", ["%agent answer", "%agent and now?"])
def test_a_question_of_a_cell_that_does_not_wait_is_asked_in_another_one(
    claude: Kernel, api: MessagesApi, folder: Path, line: str
) -> None:
    made = folder / "work" / f"aside-{len(line)}"
    api.add(Reply(ToolUse("bash", {"command": f"touch {made.name}"})), Reply("Done."))
    cell = claude.begin("%agent --no-wait make a file", asks=True).goes_on()
    cell.wait_for(lambda cell: any("`%agent answer` in another cell" in text for text in cell.shown))
    assert len(api.requests) == 1
    refused = claude.run("%agent --no-wait -o later and then?").error
    assert refused is not None
    assert f"waits for your answer to “This writes {made.name}. Run this command?”" in refused["evalue"]
    assert "Nobody is there" in str(claude.run("%agent answer").error)
    asking = claude.begin(line, asks=True)
    assert f"touch {made.name}" in asking.answer("1")
    asking.finish()
    cell.wait_for(lambda cell: "Done." in cell.shown)
    assert made.exists()
    assert "No question waits" in claude.begin("%agent answer", asks=True).finish().shown[0]


def written(*paths: str) -> list[Reply]:
    return [Reply(ToolUse("write", {"path": path, "content": "x"})) for path in paths]


def test_a_yes_for_the_session_is_a_rule_that_is_not_asked_again(
    claude: Kernel, api: MessagesApi, folder: Path
) -> None:
    api.add(*written("out/a.txt", "out/b.txt"), Reply("Done."))
    cell = claude.begin("%agent write twice", asks=True)
    assert "2  Yes, always in this session: may write below out/" in cell.answer("2")
    assert cell.finish().status == "ok"
    api.add(*written("out/c.txt"), Reply("Done."))
    assert claude.begin("%agent write again", asks=True).finish().status == "ok"
    api.add(*written("out/Makefile"), Reply("Done."))
    cell = claude.begin("%agent do more", asks=True)
    assert "1 Yes · 2 No, y, n" in cell.answer("3")  # no rule is offered for such a file
    assert "'3' is none of 1, 2, y, n" in cell.answer("2")
    assert cell.finish().status == "ok"
    assert sorted(path.name for path in (folder / "work" / "out").iterdir()) == ["a.txt", "b.txt", "c.txt"]


def test_what_is_always_allowed_is_listed_and_asked_about_again_once_it_is_taken_back(
    claude: Kernel, api: MessagesApi, folder: Path
) -> None:
    assert claude.run("%agent approved").shown == ["No answer of yours allows anything here for good."]
    for path, answer in (("out/a.txt", "2"), ("data/a.txt", "4")):
        api.add(*written(path), Reply("Done."))
        cell = claude.begin("%agent write", asks=True)
        assert "4  Yes, always in this directory" in cell.answer(answer)
        assert cell.finish().status == "ok"
    work = folder / "work"
    listed = claude.run("%agent approved").shown[-1]
    assert f"writes_file: {work}/out/" in listed
    assert f"writes_file: {work}/data/" in listed
    failed = claude.run("%agent approved forget 3")
    assert "2 rules kept here, and none has the number 3" in str(failed.error)
    assert claude.run("%agent approved forget 1").shown == [f"Allowed no more by this: writes_file: {work}/data/."]
    assert claude.run("%agent approved forget all").shown == [f"Allowed no more by this: writes_file: {work}/out/."]
    for path in ("out/b.txt", "data/b.txt"):
        api.add(*written(path), Reply("Done."))
        cell = claude.begin("%agent write again", asks=True)
        assert "4  Yes, always in this directory" in cell.answer("3")
        assert cell.finish().status == "ok"
    assert claude.run("%agent approved").shown == ["No answer of yours allows anything here for good."]


def test_what_is_too_large_to_be_undone_is_kept_if_the_user_says_so(tmp_path: Path, api: MessagesApi) -> None:
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    (tmp_path / "agent" / "settings.json").write_text(json.dumps({"notebook": {"undoMegabytes": 1}}))
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("%load_ext indus_nb\nbig = bytearray(3 << 20)")
        kernel.run("%agent --new --model anthropic/claude-sonnet-4-5 --thinking off")
        api.add(Reply(ToolUse("python", {"code": "big[0] = 7"})), Reply("Done."))
        cell = kernel.begin("%agent change it", asks=True)
        question = cell.answer("2")
        assert "cannot be undone: big (3 MB)." in question.replace("\n┆ ", "")
        assert "2  Yes, and keep big (3 MB) for undo" in question
        assert cell.finish().status == "ok"
        assert kernel.run("print(big[0])").streams == "7\n"
        assert kernel.run("%agent undo").status == "ok"
        assert kernel.run("print(big[0])").streams == "0\n"


def test_of_what_is_too_large_no_warning_is_given_where_the_trial_has_seen_that_it_is_only_bound_anew(
    tmp_path: Path, api: MessagesApi
) -> None:
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    (tmp_path / "agent" / "settings.json").write_text(json.dumps({"notebook": {"undoMegabytes": 1}}))
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("%load_ext indus_nb\nbig = list(range(1 << 19))")
        kernel.run("%agent --new --model anthropic/claude-sonnet-4-5 --thinking off")
        for code, is_inside in (("big = big[:9]; big.append(1)", False), ("big.append(1)", True)):
            api.add(Reply(ToolUse("python", {"code": code})), Reply("Done."))
            cell = kernel.begin("%agent change it", asks=True)
            question = cell.answer("1").replace("\n┆ ", "")
            assert "big" in question
            assert ("cannot be undone: big" in question) == is_inside
            assert cell.finish().status == "ok"
            if not is_inside:
                assert kernel.run("%agent undo").status == "ok"
                assert kernel.run("print(len(big))").streams == f"{1 << 19}\n"


def test_where_nobody_can_be_asked_nothing_with_effects_runs(claude: Kernel, api: MessagesApi, folder: Path) -> None:
    api.add(Reply(ToolUse("bash", {"command": "touch unasked"})), Reply("Done."))
    assert claude.run("%agent make a file").status == "ok"
    assert not (folder / "work" / "unasked").exists()
    assert "--approve never" in result_of(api)
    api.add(Reply(ToolUse("bash", {"command": "touch allowed"})), Reply("Done."))
    assert claude.run("%agent --approve never make a file").status == "ok"
    assert (folder / "work" / "allowed").exists()
    claude.run("%agent --approve writes")


def test_an_interrupt_at_a_question_stops_the_agent(claude: Kernel, api: MessagesApi, folder: Path) -> None:
    api.add(Reply(ToolUse("bash", {"command": "touch interrupted"})))
    cell = claude.begin("%agent make a file", asks=True)
    cell.answer(None)
    claude.interrupt()
    assert cell.finish().status == "error"
    assert not (folder / "work" / "interrupted").exists()
    api.add(Reply("Still here."))
    assert "Still here." in " ".join(claude.run("%agent and now?").shown)


def test_a_function_in_a_cell_becomes_a_tool_and_running_it_again_replaces_it(claude: Kernel, api: MessagesApi) -> None:
    cell = claude.run(
        "from indus_nb import agent\n"
        "@agent.tool(read_only=True)\n"
        "def double(number: int) -> int:\n"
        "    '''Double a number.'''\n"
        "    print('called')\n"
        "    return 2 * number\n"
    )
    assert cell.status == "ok", cell.error
    api.add(Reply(ToolUse("double", {"number": 21})), Reply("42."))
    assert claude.run("%agent double 21").status == "ok"
    assert '"42"' in result_of(api)
    claude.run("@agent.tool(read_only=True)\ndef double(number: int) -> str:\n    '''Other.'''\n    return 'other'\n")
    api.add(Reply(ToolUse("double", {"number": 21})), Reply("42."))
    assert claude.run("%agent double 21").status == "ok"
    assert '"other"' in result_of(api)
    assert [tool["description"] for tool in api.requests[-1].body["tools"] if tool["name"] == "double"] == ["Other."]


def test_a_message_of_an_extension_is_drawn_as_the_extension_says(claude: Kernel, api: MessagesApi) -> None:
    cell = claude.run(
        "from indus_nb import agent\n"
        "@agent.renderer('table')\n"
        "def draw(message):\n"
        "    return {'text/plain': f'drawn: {message.content}'}\n"
        "@agent.on('before_agent_start')\n"
        "def add(event, ctx):\n"
        "    return {'message': {'customType': event.prompt, 'content': '1 2 3'}}\n"
    )
    assert cell.status == "ok", cell.error
    api.add(Reply("Yes."), Reply("Yes."))
    assert "drawn: 1 2 3" in claude.run("%agent table").shown
    assert "1 2 3" in claude.run("%agent other").shown
    claude.run("agent.forget()")


def test_the_doctor_tells_what_there_is_and_what_is_wrong(claude: Kernel, folder: Path) -> None:
    skill = folder / "work" / ".indusagi" / "skills" / "nameless"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: nameless\n---\nNo description.\n")
    extensions = folder / "work" / ".indusagi" / "extensions"
    extensions.mkdir()
    (extensions / "broken.py").write_text("import no_such_module\n")
    (shown,) = claude.run("%agent --new --trust --approve writes --doctor").shown
    for told in ("anthropic/claude-sonnet-4-5", "bash", "SKILL.md", "broken.py", "no_such_module"):
        assert told in shown
    assert re.search(r"^approve +writes$", shown, re.MULTILINE)
    shutil.rmtree(folder / "work" / ".indusagi")  # else those that come ask whether the project is trusted


def test_a_gate_and_a_command_can_be_defined_in_a_cell(claude: Kernel, api: MessagesApi, folder: Path) -> None:
    claude.run(
        "from indus_nb import agent\n"
        "@agent.on('tool_call')\n"
        "def gate(event, ctx):\n"
        "    return {'block': True, 'reason': 'Not today.'} if event.tool_name == 'write' else None\n"
        "@agent.command()\n"
        "async def greet(arguments, ctx):\n"
        "    name = await ctx.ui.input('Who?')\n"
        "    ctx.ui.notify(f'Hello {name}, {arguments}')\n"
    )
    api.add(Reply(ToolUse("write", {"path": "x.txt", "content": "x"})), Reply("Done."))
    assert claude.begin("%agent write x", asks=True).finish().status == "ok"
    assert "Not today." in result_of(api)
    cell = claude.begin("%agent /greet good day", asks=True)
    assert "Who?" in cell.answer("Ada")
    assert cell.finish().status == "ok", cell.error
    assert "Hello Ada, good day" in " ".join(cell.shown)


def test_where_nobody_can_be_asked_signs_are_shown_all_the_same(claude: Kernel) -> None:
    claude.run(
        "from indus_nb import agent\n"
        "@agent.command()\n"
        "async def hail(arguments, ctx):\n"
        "    sure = await ctx.ui.confirm('Sure?', '')\n"
        "    ctx.ui.notify(f'Hail {arguments}! Sure: {sure}')\n"
    )
    assert "Hail Ada! Sure: False" in " ".join(claude.run("%agent /hail Ada").shown)


def test_functions_can_be_chosen_as_tools_by_name(claude: Kernel, api: MessagesApi) -> None:
    claude.run("@agent.tool(read_only=True)\ndef cups() -> int:\n    '''Count.'''\n    return 3")
    api.add("ok")
    assert claude.run("%agent --new --tools variables,cups hello").status == "ok"
    assert [tool["name"] for tool in api.requests[-1].body["tools"]] == ["variables", "cups", "answer"]
