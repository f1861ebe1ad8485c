"""What the agent itself has made in a conversation it makes anew unasked, until the user has changed it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from kernels import Kernel, private_environment
from messages_api import MessagesApi, Reply, ToolUse

from indus_nb.safety.sandbox.launcher import can_filter, landlock_version

pytestmark = pytest.mark.skipif(not (landlock_version() and can_filter()), reason="no Landlock here")


def python(code: str) -> ToolUse:
    return ToolUse("python", {"code": code})


def _unbroken(question: str) -> str:
    """A question in one line, however long the path in it is."""
    return question.replace("\n┆ ", "")


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Kernel]:
    root = tmp_path_factory.mktemp("own-work")
    (root / "work").mkdir()
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(root / "work", environment) as kernel:
        assert kernel.run("%load_ext indus_nb").status == "ok"
        yield kernel


@pytest.mark.parametrize("plans", ["--plan", ""])
def test_what_the_agent_has_made_itself_it_makes_anew_unasked_until_the_user_has_changed_it(
    kernel: Kernel, api: MessagesApi, plans: str
) -> None:
    name = f"made{len(plans)}"
    file = kernel.folder / f"{name}.txt"
    write = {"path": file.name, "content": "one"}
    api.add(*[Reply(ToolUse("answer", {"answer": json.dumps(["Make it"])}))][: len(plans)])
    api.add(
        Reply(python(f"{name} = [0]")),
        Reply(python(f"{name} = [1]")),
        Reply(python(f"{name}.append(2)")),
        Reply(ToolUse("write", write)),
        Reply(ToolUse("write", {**write, "content": "two"})),
        Reply(ToolUse("edit", {"path": file.name, "oldText": "two", "newText": "three"})),
        Reply(ToolUse("bash", {"command": f"echo four >> {file.name}"})),
        Reply("All done."),
    )
    model = "--model anthropic/claude-sonnet-4-5 --thinking off"
    cell = kernel.begin(f"%agent --name {name} {model} --approve effects {plans} make it", asks=True)
    if plans:
        assert "Carry out this plan?" in cell.answer("1")
    assert f"changes {name} 1 → 2 items" in cell.answer("1"), "others may hold the object"
    assert f"Write {file}?" in _unbroken(cell.answer("1"))
    assert cell.finish().status == "ok", cell.error
    assert file.read_text() == "threefour\n"
    file.write_text("the user's")
    kernel.run(f"{name} = {name}")
    api.add(Reply(python(f"{name} = [3]")), Reply(ToolUse("write", write)), Reply("All done."))
    cell = kernel.begin("%agent change it", asks=True)
    assert f"changes {name}" in cell.answer("n")
    assert f"Write {file}?" in _unbroken(cell.answer("n"))
    assert cell.finish().status == "ok", cell.error
    assert kernel.run(f"print({name})").streams == "[1, 2]\n"
    assert file.read_text() == "the user's"
    kernel.run("%agent undo prompt over")


def test_a_file_of_another_conversation_is_asked_about(kernel: Kernel, api: MessagesApi) -> None:
    file = kernel.folder / "theirs.txt"
    model = "--model anthropic/claude-sonnet-4-5 --thinking off --approve effects"
    for conversation in ("one", "two"):
        api.add(Reply(ToolUse("write", {"path": file.name, "content": conversation})), Reply("All done."))
        cell = kernel.begin(f"%agent --name {conversation} {model} write it", asks=True)
        assert f"Write {file}?" in _unbroken(cell.answer("1"))
        assert cell.finish().status == "ok", cell.error
