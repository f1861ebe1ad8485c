"""Running the cell of the last turn again, in a real kernel: that turn is replaced, and stays in the tree."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernels import Kernel, private_environment
from messages_api import Gate, HttpError, MessagesApi, Reply, Text, ToolUse
from waiting import wait_until

REPLACES = "replaces the answer before, which %agent tree has"
BEGIN = "%agent --model anthropic/claude-sonnet-4-5 --thinking off begin"
CONTINUE = "%agent --continue "


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Kernel]:
    root = tmp_path_factory.mktemp("turns")
    with Kernel(root, private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")) as kernel:
        assert kernel.run("%load_ext indus_nb").status == "ok"
        yield kernel


@pytest.fixture
def kernel(shared: Kernel, api: MessagesApi) -> Kernel:
    assert shared.run("%agent --new --model anthropic/claude-sonnet-4-5 --thinking off --tools python").status == "ok"
    api.requests.clear()
    return shared


def closing(kernel: Kernel, code: str, cell_id: str) -> str:
    """The line below an answer, as a user without our page has it: what the file does not keep stands in it, too."""
    return kernel.begin(code, cell_id=cell_id, asks=True).finish().shown[-1]


def test_what_an_answer_replaces_is_not_kept_in_the_file(kernel: Kernel, api: MessagesApi) -> None:
    api.add("One.", "Two.")
    first = kernel.run("%agent count", cell_id="cell-b")
    assert kernel.run("%agent count", cell_id="cell-b").shown[-1] == first.shown[-1]


def test_the_cell_of_the_last_turn_run_again_replaces_it(kernel: Kernel, api: MessagesApi) -> None:
    api.add("Zero.", "One.", "Two.")
    kernel.run("%agent begin", cell_id="cell-a")
    assert REPLACES not in closing(kernel, "%agent count", "cell-b")
    assert closing(kernel, "%agent count, please", "cell-b").endswith(f" · {REPLACES}")
    texts = [m["content"][-1]["text"] for m in api.requests[-1].body["messages"]]
    assert texts == ["begin", "Zero.", "count, please"]
    tree = kernel.run("%agent tree").shown[0]
    assert "One." in tree
    assert "Two." in tree


def test_nothing_is_replaced_once_something_else_was_said(kernel: Kernel, api: MessagesApi) -> None:
    api.add("One.", "Two.", "Three.")
    kernel.run("%agent count", cell_id="cell-b")
    kernel.run("%agent something else", cell_id="cell-c")
    assert REPLACES not in closing(kernel, "%agent count", "cell-b")
    assert len(api.requests[-1].body["messages"]) == 5


def test_a_look_or_another_model_in_between_is_nothing_said(kernel: Kernel, api: MessagesApi) -> None:
    api.add("One.", "Two.")
    kernel.run("%agent count", cell_id="cell-b")
    kernel.run("%agent tree", cell_id="cell-c")
    line = closing(kernel, "%agent --model haiku-4-5 count", "cell-b")
    assert line.startswith("claude-haiku-4-5")
    assert line.endswith(REPLACES)
    assert len(api.requests[-1].body["messages"]) == 1


PAGE = """
conversations = __import__("indus_nb").front.notebook.conversations_of(get_ipython())
class Page:
    comm_id, client = "page", get_ipython().get_parent()["header"]["session"]
    def refresh(self): pass
    async def request(self, what, **fields):
        return {"empty": EMPTY} if what == "ran_empty" else {"error": "unavailable"}
conversations._doors["page"] = Page()
"""


@pytest.mark.parametrize(("empty", "left"), [(True, ["count", "One.", "go on"]), (False, ["go on"]), (None, ["go on"])])
def test_another_prompt_replaces_no_answer_that_its_cell_does_not_show(
    kernel: Kernel, api: MessagesApi, *, empty: bool | None, left: list[str]
) -> None:
    api.add("One.", "Two.", "Three.")
    kernel.run(PAGE.replace("EMPTY", repr(empty)))
    kernel.run("%agent count", cell_id="cell-b")
    closing(kernel, "%agent go on", "cell-b")
    assert asked(api) == left
    assert closing(kernel, "%agent go on", "cell-b").endswith(REPLACES)
    assert asked(api) == left
    kernel.run("del conversations._doors['page']")


def test_another_cell_replaces_nothing(kernel: Kernel, api: MessagesApi) -> None:
    api.add("One.", "Two.", "Three.")
    kernel.run("%agent count", cell_id="cell-b")
    assert REPLACES not in closing(kernel, "%agent count", "cell-c")
    assert REPLACES not in kernel.run("%agent count").shown[-1]
    assert len(api.requests[-1].body["messages"]) == 5


def test_all_turns_of_a_cell_are_replaced_together(kernel: Kernel, api: MessagesApi) -> None:
    code = "for what in ('one', 'two'):\n    get_ipython().run_line_magic('agent', what)"
    api.add("1", "2", "3", "4")
    kernel.run(code, cell_id="cell-b")
    assert len(api.requests[-1].body["messages"]) == 3
    kernel.run(code, cell_id="cell-b")
    assert len(api.requests[-1].body["messages"]) == 3


def test_a_turn_that_failed_is_replaced(kernel: Kernel, api: MessagesApi) -> None:
    api.add(HttpError(400, "invalid_request_error", "the prompt is too odd"), "Better now.")
    assert kernel.run("%agent hello", cell_id="cell-b").status == "error"
    assert closing(kernel, "%agent hello", "cell-b").endswith(REPLACES)
    assert len(api.requests[-1].body["messages"]) == 1


def test_a_prompt_that_is_not_accepted_leaves_the_turn_in_place(kernel: Kernel, api: MessagesApi) -> None:
    api.add("One.", "Two.")
    kernel.run("%agent count", cell_id="cell-b")
    kernel.run("key = __import__('os').environ.pop('ANTHROPIC_API_KEY')")
    assert kernel.run("%agent count", cell_id="cell-b").status == "error"
    kernel.run("__import__('os').environ['ANTHROPIC_API_KEY'] = key")
    kernel.run("%agent on", cell_id="cell-c")
    assert len(api.requests[-1].body["messages"]) == 3


def test_cells_that_the_replaced_turn_was_told_of_are_told_again(kernel: Kernel, api: MessagesApi) -> None:
    api.add("One.", "Two.", "Three.")
    kernel.run("%agent begin", cell_id="cell-a")
    kernel.run("apples = 3")
    kernel.run("%agent count", cell_id="cell-b")
    kernel.run("pears = 4")
    kernel.run("%agent count again", cell_id="cell-b")
    asked = json.dumps(api.requests[-1].body["messages"])
    assert asked.count("apples = 3\\n") == 1
    assert asked.count("pears = 4\\n") == 1
    assert "Two." not in asked


def test_what_the_replaced_turn_left_in_the_kernel_is_said_to_both(kernel: Kernel, api: MessagesApi) -> None:
    api.add(Reply(ToolUse("python", {"code": "left_by_agent = [1, 2]"})), "Done.", "Done.")
    kernel.run("%agent --approve never make it", cell_id="cell-b")
    again = kernel.run("%agent make it", cell_id="cell-b")
    assert any("Variables and files are as the agent left them" in text for text in again.shown)
    assert "left_by_agent" in json.dumps(api.requests[-1].body["messages"])


def test_what_the_users_cells_have_bound_anew_since_is_not_said_to_be_as_the_agent_left_it(
    kernel: Kernel, api: MessagesApi
) -> None:
    api.add(Reply(ToolUse("python", {"code": "items.append(4)"})), "Done.", "Done.")
    kernel.run("items = [1, 2, 3]")
    kernel.run("%agent --approve never append", cell_id="cell-b")
    kernel.run("items = [1, 2, 3]")
    again = kernel.run("%agent append", cell_id="cell-b")
    assert not any("as the agent left them" in text for text in again.shown)


def test_with_the_setting_append_the_conversation_goes_on(tmp_path: Path, api: MessagesApi) -> None:
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    (tmp_path / "agent" / "settings.json").write_text('{"notebook": {"rerun": "append"}}')
    api.add("One.", "Two.")
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("%load_ext indus_nb")
        kernel.run("%agent --model sonnet-4-5 --thinking off count", cell_id="cell-b")
        assert REPLACES not in closing(kernel, "%agent count", "cell-b")
    assert len(api.requests[-1].body["messages"]) == 3


def started(folder: Path, api: MessagesApi) -> Kernel:
    """Another kernel for the same notebook."""
    environment = private_environment(folder, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    kernel = Kernel(folder, environment)
    assert kernel.run("%load_ext indus_nb").status == "ok"
    return kernel


def asked(api: MessagesApi) -> list[str]:
    return [message["content"][-1].get("text", "") for message in api.requests[-1].body["messages"]]


def test_after_a_restart_the_cell_of_the_last_turn_replaces_it_still(tmp_path: Path, api: MessagesApi) -> None:
    api.add("Zero.", "One.", "Two.", "Three.", "Four.")
    with started(tmp_path, api) as kernel:
        kernel.run(BEGIN, cell_id="cell-a")
        kernel.run("%agent count", cell_id="cell-b")
    with started(tmp_path, api) as kernel:
        assert closing(kernel, CONTINUE + "count, please", "cell-b").endswith(REPLACES)
        assert asked(api) == ["begin", "Zero.", "count, please"]
    with started(tmp_path, api) as kernel:
        kernel.run(CONTINUE)
        assert REPLACES not in closing(kernel, "%agent on", "cell-c")
        assert asked(api) == ["begin", "Zero.", "count, please", "Two.", "on"]
        assert REPLACES not in closing(kernel, "%agent count", "cell-b")
        tree = kernel.run("%agent tree").shown[0]
    assert "One." in tree
    assert "notebook_cell" not in tree


def test_what_was_told_with_a_replaced_turn_is_gone_with_it_after_a_restart(tmp_path: Path, api: MessagesApi) -> None:
    api.add("Zero.", "One.", "Two.", "Three.")
    with started(tmp_path, api) as kernel:
        kernel.run("pears = 4")
        kernel.run(BEGIN, cell_id="cell-a")
        kernel.run("apples = 3")
        kernel.run("%agent count", cell_id="cell-b")
    for _ in range(2):
        with started(tmp_path, api) as kernel:
            kernel.run("apples = 3")
            assert closing(kernel, CONTINUE + "count", "cell-b").endswith(REPLACES)
            told = json.dumps(api.requests[-1].body["messages"])
            assert told.count("apples = 3\\n") == told.count("The kernel is a new one") == 1


def test_a_turn_that_a_crash_cut_off_is_replaced_when_its_cell_is_run_again(tmp_path: Path, api: MessagesApi) -> None:
    api.add("Zero.", Reply("I look.", ToolUse("bash", {"command": "touch looked; sleep 60"})), "Two.")
    with started(tmp_path, api) as kernel:
        kernel.run(BEGIN, cell_id="cell-a")
        cell = kernel.begin("%agent --approve never count", cell_id="cell-b")
        cell.wait_for(lambda cell: any("● bash" in text for text in cell.shown))
        kernel.kill()
    with started(tmp_path, api) as kernel:
        assert closing(kernel, CONTINUE + "count, please", "cell-b").endswith(REPLACES)
        assert asked(api) == ["begin", "Zero.", "count, please"]


def test_a_turn_that_was_steered_is_replaced_as_a_whole_after_a_restart(tmp_path: Path, api: MessagesApi) -> None:
    held = Gate()
    api.add("Zero.", Reply(Text("One, ", held, "two.")), "Three.", "Again.", "There.", "Count.")
    with started(tmp_path, api) as kernel:
        kernel.run(BEGIN, cell_id="cell-a")
        cell = kernel.begin("%agent --no-wait count", cell_id="cell-b").goes_on()
        cell.wait_for(lambda cell: any("One" in text for text in cell.shown))
        kernel.run("%agent steer and three", cell_id="cell-c")
        held.open()
        cell.wait_for(
            lambda cell: any("Three." in text for text in cell.shown) and cell.shown[-1] == "claude-sonnet-4-5"
        )
        (file,) = tmp_path.rglob("sessions/**/*.jsonl")
        wait_until(lambda: file.read_text().count('"over":true') == 2)  # behind the last line of the cell
    with started(tmp_path, api) as kernel:
        assert closing(kernel, CONTINUE + "count", "cell-b").endswith(REPLACES)
        assert asked(api) == ["begin", "Zero.", "count"]
        kernel.run("conversations = __import__('indus_nb').front.notebook.conversations_of(get_ipython())")
        kernel.run("conversations.thread.ask(lambda: conversations.session.prompt('elsewhere'), 20)")
        assert asked(api)[-1] == "elsewhere"
        assert REPLACES not in closing(kernel, "%agent count", "cell-b")
