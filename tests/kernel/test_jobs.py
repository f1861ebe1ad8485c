"""Code and commands that take long, in real kernels: they go on as jobs, in the cell that waits or beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from kernels import Cell, Kernel, private_environment
from messages_api import Gate, MessagesApi, Reply, Text, ToolUse
from panel_pages import Page, Wire
from waiting import wait_until

LONG = """\
import os, time
print("begun", flush=True)
while not os.path.exists("go"):
    time.sleep(0.05)
print("over")
"""
COMMAND = "echo $$ > pid; echo begun; until [ -e go ]; do sleep 0.05; done; echo over"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Kernel]:
    root = tmp_path_factory.mktemp("kernel-jobs")
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    (root / "agent" / "settings.json").write_text(json.dumps({"approve": "never", "jobs": {"afterSeconds": 1}}))
    with Kernel(root, environment) as kernel:
        assert kernel.run("%load_ext indus_nb").status == "ok"
        yield kernel


@pytest.fixture
def claude(kernel: Kernel, api: MessagesApi) -> Iterator[Kernel]:
    assert kernel.run("%agent --new --model anthropic/claude-sonnet-4-5 --thinking off").status == "ok"
    (kernel.folder / "go").unlink(missing_ok=True)
    api.requests.clear()
    yield kernel
    (kernel.folder / "go").touch()
    kernel.run("%agent abort")


def go(kernel: Kernel) -> None:
    (kernel.folder / "go").touch()


def result(api: MessagesApi, request: int) -> dict:
    """The result of the call that a request brings."""
    return api.requests[request].body["messages"][-1]["content"][0]


def text_of(found: dict) -> str:
    content = found["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def test_code_that_takes_long_goes_on_and_the_cell_follows_it_and_what_its_end_begins(
    claude: Kernel, api: MessagesApi
) -> None:
    api.add(Reply(ToolUse("python", {"code": LONG})), "It runs.", "I have seen it.")
    cell = claude.begin("%agent go")
    cell.wait_for(lambda cell: "It runs." in " ".join(cell.shown))
    assert "goes on as job-1. Its last lines:\nbegun" in text_of(result(api, 1))
    assert not result(api, 1).get("is_error")
    go(claude)
    assert cell.finish().status == "ok"
    shown = " ".join(cell.shown)
    assert "I have seen it." in shown
    assert "begun\n" in shown
    assert "over" in next(text for text in cell.shown if "begun" in text)
    (told,) = [text for text in api.requests[2].texts if text.startswith("job-1 ")]
    assert told.startswith('job-1 (python: print("begun", flush=True) …) ended after ')
    assert told.endswith("begun\nover\n")


def test_what_it_displays_as_a_job_still_comes_to_its_cell(claude: Kernel, api: MessagesApi) -> None:
    code = (
        "import os, time\nfrom IPython.display import HTML, display\nfor name in ('first', 'go'):\n"
        "    while not os.path.exists(name):\n        time.sleep(0.05)\n"
        "    display(HTML(f'<b>at {name}</b>'))\n"
    )
    api.add(Reply(ToolUse("python", {"code": code})), "It runs.", "Seen.")
    cell = claude.begin("%agent go")
    api.wait_for_requests(2)

    def html(cell: object) -> str:
        return " ".join(bundles[-1].get("text/html", "") for bundles in cell.displays.values())

    (claude.folder / "first").touch()
    cell.wait_for(lambda cell: "<b>at first</b>" in html(cell))
    go(claude)
    cell.finish()
    assert "<b>at go</b>" in html(cell)


def test_meanwhile_other_tools_work_and_other_code_is_rejected_with_what_to_do(
    claude: Kernel, api: MessagesApi
) -> None:
    api.add(
        Reply(ToolUse("python", {"code": LONG})),
        Reply(ToolUse("python", {"code": "1"})),
        Reply(ToolUse("variables", {})),
        Reply(ToolUse("bash", {"command": "echo free; touch go"})),
        Reply(ToolUse("job", {"action": "wait"})),
        "Done.",
    )
    assert claude.run("%agent go").status == "ok"
    for request in (2, 3):
        assert result(api, request)["is_error"]
        assert text_of(result(api, request)).startswith("Nothing was run: the user's kernel still runs job-1 (print(")
    assert text_of(result(api, 4)) == "free\n"
    assert text_of(result(api, 5)).endswith("begun\nover\n")
    assert len(api.requests) == 6


def test_the_model_may_stop_it_and_reads_what_it_printed(claude: Kernel, api: MessagesApi) -> None:
    api.add(Reply(ToolUse("python", {"code": LONG})), Reply(ToolUse("job", {"action": "stop"})), "Stopped.")
    assert claude.run("%agent go").status == "ok"
    said = text_of(result(api, 2))
    assert " was stopped after " in said
    assert said.endswith("begun\n\n\nIt was stopped: the code was interrupted.")
    assert claude.run("6 * 7").status == "ok"


def test_an_interrupt_stops_it_and_the_model_is_told_with_the_next_prompt(claude: Kernel, api: MessagesApi) -> None:
    api.add(Reply(ToolUse("python", {"code": LONG})), "It runs.")
    cell = claude.begin("%agent go")
    cell.wait_for(lambda cell: "It runs." in " ".join(cell.shown))
    claude.interrupt()
    assert cell.finish().status == "error"
    assert any("begun" in text and "was interrupted" in text for text in cell.shown)
    assert len(api.requests) == 2
    api.add("I see.")
    assert claude.run("%agent and now?").status == "ok"
    told = json.dumps(api.requests[2].body["messages"][-1])
    assert " was stopped by the user after " in told
    assert "begun" in told


def test_an_interrupt_while_the_model_answers_stops_both(claude: Kernel, api: MessagesApi) -> None:
    gate = Gate()
    api.add(Reply(ToolUse("python", {"code": LONG})), Reply(Text("I wait", gate)))
    cell = claude.begin("%agent go")
    assert gate.reached.wait()
    claude.interrupt()
    assert cell.finish().status == "error"
    gate.open()
    assert claude.run("6 * 7").status == "ok"


def test_what_it_changed_can_be_taken_back_once_it_has_ended(claude: Kernel, api: MessagesApi) -> None:
    claude.run("numbers = [1, 2, 3]")
    api.add(Reply(ToolUse("python", {"code": f"numbers.append(4)\n{LONG}numbers.append(5)"})), "It runs.", "Seen.")
    cell = claude.begin("%agent go")
    api.wait_for_requests(2)
    go(claude)
    cell.finish()
    assert any("Changed: numbers" in text for text in cell.shown)
    assert claude.run("print(numbers)").streams == "[1, 2, 3, 4, 5]\n"
    assert claude.run("%agent undo keep").status == "ok"  # what lets it go on is a file that the test made
    assert claude.run("print(numbers)").streams == "[1, 2, 3]\n"


def test_a_limit_of_the_users_own_ends_it(claude: Kernel, api: MessagesApi) -> None:
    file = claude.folder / "agent" / "settings.json"
    before = file.read_text()
    file.write_text(json.dumps({**json.loads(before), "notebook": {"pythonTimeoutSeconds": 2}}))
    try:
        assert claude.run("%agent --new").status == "ok"
        api.add(Reply(ToolUse("python", {"code": LONG})), "It runs.", "Seen.")
        assert claude.run("%agent go").status == "ok"
    finally:
        file.write_text(before)
    (told,) = [text for text in api.requests[2].texts if text.startswith("job-1 ")]
    assert " failed after 2 s." in told
    assert told.endswith("begun\n\n\nThe code was interrupted after 2 seconds.")


def test_a_command_leaves_the_kernel_to_the_user_and_is_listed_and_stopped(claude: Kernel, api: MessagesApi) -> None:
    api.add(Reply(ToolUse("bash", {"command": COMMAND, "background": True})), "It runs.")
    assert claude.run("%agent go").status == "ok"
    assert claude.run("print(6 * 7)").streams == "42\n"
    (listed,) = claude.run("%agent jobs").shown
    assert "job-1 (bash: echo $$ > pid; echo begun;" in listed
    assert "has run for" in listed
    assert "    begun" in listed
    pid = int((claude.folder / "pid").read_text())
    assert "was stopped by you" in claude.run("%agent jobs stop 1").shown[0]
    wait_until(lambda: not psutil.pid_exists(pid))
    assert claude.run("%agent jobs stop 7").error["evalue"].startswith("There is no job 7.")
    api.add("I see.")
    assert claude.run("%agent and now?").status == "ok"
    assert "was stopped by the user" in json.dumps(api.requests[2].body["messages"][-1])


def test_where_nobody_would_see_a_run_the_model_is_told_with_the_next_prompt(claude: Kernel, api: MessagesApi) -> None:
    api.add(Reply(ToolUse("bash", {"command": COMMAND, "background": True})), "It runs.")
    claude.run("%agent go")
    go(claude)
    wait_until(lambda: "ended after" in claude.run("%agent jobs").shown[0])
    assert len(api.requests) == 2
    api.add("I see.")
    claude.run("%agent and now?")
    assert "begun\\nover" in json.dumps(api.requests[2].body["messages"][-1])


def test_another_conversation_in_its_place_ends_its_jobs(claude: Kernel, api: MessagesApi) -> None:
    api.add(Reply(ToolUse("bash", {"command": COMMAND, "background": True})), "It runs.")
    claude.run("%agent go")
    pid = int((claude.folder / "pid").read_text())
    assert claude.run("%agent --new").status == "ok"
    wait_until(lambda: not psutil.pid_exists(pid))
    assert claude.run("%agent jobs").shown == ["There are no jobs."]


AWAITS = """\
import asyncio, os
print("begun")
while not os.path.exists("go"):
    await asyncio.sleep(0.05)
print("over")
"""


def test_code_that_awaits_leaves_the_kernel_to_the_user_and_its_cell_shows_the_end(
    claude: Kernel, api: MessagesApi
) -> None:
    api.add(Reply(ToolUse("python", {"code": AWAITS})), "It runs.", "I have seen it.")
    cell = claude.begin("%agent --no-wait go").goes_on()
    cell.wait_for(lambda cell: "It runs." in " ".join(cell.shown))
    assert claude.run("print(6 * 7)").streams == "42\n"
    go(claude)
    cell.wait_for(lambda cell: "I have seen it." in " ".join(cell.shown))
    assert "over" in next(text for text in cell.shown if "begun" in text)


def test_nothing_is_taken_back_while_code_of_the_agents_runs(claude: Kernel, api: MessagesApi) -> None:
    claude.run("x = y = 1")
    api.add(Reply(ToolUse("python", {"code": "x = 2"})), "Done.")
    claude.run("%agent go")
    api.add(Reply(ToolUse("python", {"code": f"y = 2\n{AWAITS}"})), "It runs.", "I have seen it.")
    cell = claude.begin("%agent --no-wait go").goes_on()
    cell.wait_for(lambda cell: "It runs." in " ".join(cell.shown))
    refused = claude.run("%agent undo")
    assert "code of the agent's still runs" in f"{refused.error} {refused.streams} {refused.shown}"
    go(claude)
    cell.wait_for(lambda cell: "I have seen it." in " ".join(cell.shown))
    assert claude.run("%agent undo keep").status == "ok"
    assert claude.run("print(x, y)").streams == "2 1\n"


def test_a_prompt_meanwhile_is_answered_in_its_own_cell_which_does_not_wait_for_the_code(
    claude: Kernel, api: MessagesApi
) -> None:
    api.add(Reply(ToolUse("python", {"code": AWAITS})), "It runs.", "I am free.", "I have seen it.")
    first = claude.begin("%agent --no-wait go").goes_on()
    first.wait_for(lambda cell: "It runs." in " ".join(cell.shown))
    second = claude.run("%agent are you free?")
    assert second.status == "ok"
    assert "I am free." in " ".join(second.shown)
    go(claude)
    first.wait_for(lambda cell: "I have seen it." in " ".join(cell.shown))
    assert "I am free." not in " ".join(first.shown)
    assert "I have seen it." not in " ".join(second.shown)


def test_code_that_awaits_is_stopped_by_a_command_of_the_users(claude: Kernel, api: MessagesApi) -> None:
    api.add(Reply(ToolUse("python", {"code": AWAITS})), "It runs.")
    cell = claude.begin("%agent --no-wait go").goes_on()
    cell.wait_for(lambda cell: "It runs." in " ".join(cell.shown))
    assert claude.run("%agent jobs stop 1").status == "ok"
    wait_until(lambda: "was stopped by you" in claude.run("%agent jobs").shown[0])
    api.add(Reply(ToolUse("python", {"code": "6 * 7"})), "Free.")
    assert claude.run("%agent go on").status == "ok"
    assert text_of(result(api, -1)) == "42\n"


BESIDE = """\
import time
while not os.path.exists("go"):
    time.sleep(0.05)
losses = [start * number for number in range(3)]
mine = "from the copy"
listed = [*listed, "from the copy"]
print("trained")
"""


def test_code_beside_the_user_leaves_the_kernel_free_and_its_values_come_at_its_end(
    claude: Kernel, api: MessagesApi
) -> None:
    claude.run("import os\nstart, mine, listed = 2, 1, []")
    api.add(Reply(ToolUse("python", {"code": BESIDE, "beside": True})), "It trains.", "Trained.")
    assert claude.run("%agent train").shown[-2] == "It trains."
    assert "goes on as job-" in text_of(result(api, 1))
    claude.run("listed.append('meanwhile')")
    assert claude.run("mine = 'changed meanwhile'; 1 + 1").results[-1]["text/plain"] == "2"  # while it goes on
    assert claude.run("'losses' in dir()").results[-1]["text/plain"] == "False"
    go(claude)
    wait_until(lambda: claude.run("'losses' in dir()").results[-1]["text/plain"] == "True")
    assert claude.run("losses, mine, mine_beside").results[-1]["text/plain"] == (
        "([0, 2, 4], 'changed meanwhile', 'from the copy')"
    )
    both = claude.run("listed, listed_beside[-1]")  # a slow machine makes the copy after the user's line
    assert both.results[-1]["text/plain"] == "(['meanwhile'], 'from the copy')"
    claude.run("%agent and?")
    (told,) = [text for text in api.requests[2].texts if text.startswith("job-")]
    assert "(python beside: " in told
    assert told.endswith(
        "trained\n\n\n[It ran in a copy of the kernel. New: losses. "
        "listed was changed here meanwhile, so the new value is in listed_beside; listed itself stays as it is here. "
        "mine was changed here meanwhile, so the new value is in mine_beside; mine itself stays as it is here.]"
    )
    assert "[It ran in a copy of the kernel. New: losses." in "\n".join(claude.run("%agent jobs").shown)
    assert claude.run("%agent undo").status == "ok"
    assert claude.run("'losses' in dir(), mine").results[-1]["text/plain"] == "(False, 'changed meanwhile')"


def test_code_beside_a_cell_that_runs_has_ended_while_its_values_wait_for_that(
    tmp_path: Path, api: MessagesApi
) -> None:
    environment = private_environment(
        tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key", JPY_SESSION_NAME="jobs.ipynb"
    )
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("%load_ext indus_nb")
        api.add(Reply(ToolUse("python", {"code": f"{LONG}made = 1", "beside": True})), "It trains.", "Trained.")
        kernel.run("%agent --new --model anthropic/claude-sonnet-4-5 --thinking off --approve never train")
        shown = kernel.begin("%agent panel", asks=True).finish()
        bundle = [bundles[-1] for bundles in shown.displays.values()][-1]
        wire = Wire(kernel)
        page = Page(wire, bundle["application/vnd.jupyter.widget-view+json"]["model_id"])
        page.wait_for(lambda: page.state.get("jobs"))
        cell = kernel.begin("import os, time\nwhile not os.path.exists('free'): time.sleep(0.02)")
        go(kernel)
        page.wait_for(lambda: page.state["jobs"] and page.state["jobs"][0]["ran"].endswith("s, waits for your cell"))
        (tmp_path / "free").touch()
        assert cell.finish().status == "ok"
        page.wait_for(lambda: not page.state["jobs"])
        wire.close()


def test_code_beside_the_user_changes_the_agents_variables_and_adds_what_was_not_there(
    claude: Kernel, api: MessagesApi
) -> None:
    change = ToolUse("python", {"code": "monthly, tmp_a, fresh = monthly * 2, [], 3", "beside": True})
    wait = Reply(ToolUse("job", {"action": "wait"}))
    api.add(Reply(ToolUse("python", {"code": "monthly, tmp_a = 5, [1]"})), Reply(change), wait, "Doubled.")
    claude.run("%agent go")
    said = text_of(result(api, 2)) + text_of(result(api, 3))  # of a slow copy the job tells
    assert "New: fresh. Changed: monthly 5 → 10, tmp_a 1 → 0 items.]" in said
    api.add(Reply(change), "Asked.")
    cell = claude.begin("%agent --approve writes again", asks=True)
    question = " ".join(cell.answer("1").split())
    cell.finish()
    claude.run("%agent --approve never")
    assert "changes monthly 10 → 20" in question
    assert "adds" not in question


def beside(claude: Kernel, api: MessagesApi, code: str) -> str:
    """Have code run beside the user; return what the model reads of its end."""
    api.add(Reply(ToolUse("python", {"code": code, "beside": True})), Reply(ToolUse("job", {"action": "wait"})), "Oh.")
    before = len(api.requests)
    claude.run("%agent go")
    return "".join(text_of(result(api, at)) for at in range(before + 1, len(api.requests)))  # of a slow copy the job


def test_what_code_beside_the_user_changes_in_itself_comes_back_as_new_values(claude: Kernel, api: MessagesApi) -> None:
    claude.run("import pandas as pd\nframe = pd.DataFrame({'a': [1, 2], 'b': [3, 4]})\nrows = [[1], [2]]")
    claude.run("by_name, other, holder = {'rows': rows}, rows, (rows,)\ndef grow():\n    by_name['more'] = 1")
    said = beside(
        claude, api, "frame.drop(columns='b', inplace=True); rows[0].append(9); rows.append([3]); grow(); n = 1"
    )
    assert "New: n. Changed: " in said
    assert "by_name, frame, other, rows are new objects here, and what else held the old one still has that." in said
    shown = claude.run("[*frame], rows, by_name['rows'] is rows is other, by_name['more'], holder[0], n").results[-1]
    assert shown["text/plain"] == "(['a'], [[1, 9], [2], [3]], True, 1, [[1], [2]], 1)"
    claude.run("%agent undo")
    shown = claude.run("[*frame], rows, rows is other is holder[0], [*by_name]").results[-1]
    assert shown["text/plain"] == "(['a', 'b'], [[1], [2]], True, ['rows'])"


def test_what_the_user_has_changed_meanwhile_is_not_overwritten_by_what_was_changed_in_itself(
    claude: Kernel, api: MessagesApi
) -> None:
    claude.run("%reset_selective -f beside\nimport os, time\nlisted = [1]\ndone_now = False")
    code = "while not os.path.exists('go'):\n    time.sleep(0.05)\nlisted.append(2); done_now = True"
    api.add(Reply(ToolUse("python", {"code": code, "beside": True})), "It runs.")
    claude.run("%agent go")
    claude.run("listed.append('mine')")
    go(claude)
    wait_until(lambda: claude.run("done_now").results[-1]["text/plain"] == "True")
    assert claude.run("listed, 2 in listed_beside").results[-1]["text/plain"] == "([1, 'mine'], True)"
    assert "listed was changed here meanwhile, so the new value is in listed_beside;" in "".join(
        claude.run("%agent jobs").shown
    )


def test_a_value_that_cannot_be_brought_back_is_named_and_the_others_come(claude: Kernel, api: MessagesApi) -> None:
    claude.run("class Model:\n    fitted = False\nmodel = Model(); model.size = 1; rows = [1]")
    said = beside(claude, api, "model.size = 2; rows.append(2)")
    assert "[Not brought back, so it is missing here: it changes model" in said
    assert "a Model, which has to be made in the kernel" in said
    assert "rows is a new object here" in said
    assert not result(api, len(api.requests) - 2).get("is_error")
    assert claude.run("model.size, rows").results[-1]["text/plain"] == "(1, [1, 2])"
    said = beside(claude, api, "model.size = 2")
    assert "nothing was kept: it changes model" in said


@pytest.mark.parametrize(
    ("module", "name", "is_beside"), [("tree", "ExtraTreeClassifier", True), ("mixture", "GaussianMixture", False)]
)
def test_a_class_that_a_package_has_from_a_module_of_its_own_comes_from_the_copy_to_a_kernel_without_either(
    claude: Kernel, api: MessagesApi, module: str, name: str, *, is_beside: bool
) -> None:
    assert claude.run(f"import sys; 'sklearn.{module}' in sys.modules").results[-1]["text/plain"] == "False"
    code = f"from sklearn.{module} import {name}\nscore = 0.5"
    if is_beside:
        assert f"New: {name}, score." in beside(claude, api, code)
    else:
        api.add(Reply(ToolUse("python", {"code": code})), "Oh.")
        assert claude.run("%agent go").status == "ok"
        assert not result(api, len(api.requests) - 1).get("is_error"), result(api, len(api.requests) - 1)
    assert claude.run(f"{name}.__module__, score").results[-1]["text/plain"].startswith(f"('sklearn.{module}._")


def test_the_card_of_code_beside_the_user_is_an_error_where_it_brought_nothing_and_not_done_while_it_goes_on(
    claude: Kernel, api: MessagesApi
) -> None:
    claude.run("import os, time\nclass Model: ...\nmodel = Model()")
    code = "while not os.path.exists('go'):\n    time.sleep(0.05)\nmodel.size = 2"
    api.add(Reply(ToolUse("python", {"code": code, "beside": True})), "It runs.")
    shown = "\n".join(claude.run("%agent go").shown)
    assert "→ python" in shown
    assert re.search(r"It went on as job-\d+\. %agent jobs says what came of it\.", shown)
    go(claude)
    wait_until(lambda: "failed after" in "".join(claude.run("%agent jobs").shown))
    (claude.folder / "go").unlink()
    gate = Gate()
    api.add(Reply(ToolUse("python", {"code": code, "beside": True})), Reply(gate, ToolUse("job", {"action": "wait"})))
    api.add("Oh.")
    cell = claude.begin("%agent again")
    assert gate.reached.wait(60)
    go(claude)
    gate.open()
    shown = "\n".join(cell.finish().shown)
    assert "✗ python" in shown
    assert "nothing was kept: it changes model" in shown


def test_what_cannot_be_brought_back_is_said_and_nothing_is_kept(claude: Kernel, api: MessagesApi) -> None:
    code = "import io\nwith open('from_beside', 'w') as file:\n    file.write('x')\nfound = 1"
    api.add(Reply(ToolUse("python", {"code": code, "beside": True})), Reply(ToolUse("job", {"action": "wait"})), "Oh.")
    claude.run("%agent write")
    said = text_of(result(api, 1)) + text_of(result(api, 2))  # of a slow copy the job tells
    assert "nothing was kept" in said
    assert "Run it without beside." in said
    assert not (claude.folder / "from_beside").exists()
    assert claude.run("'found' in dir()").results[-1]["text/plain"] == "False"


ASKS = """\
while not os.path.exists("go"):
    time.sleep(0.05)
total, mine, losses = 6, "from the copy", [1]
print("trained")
"""


def ask_beside(kernel: Kernel, api: MessagesApi) -> tuple[Cell, str]:
    """Have code run beside the user, who changes ``mine`` meanwhile.

    Returns the cell that asks at its end, and the question.
    The model's answers in that cell are held until the question is there.
    """
    kernel.run("%reset_selective -f losses|beside\nimport os, time\ntotal, mine = 50, 1")
    api.add(Reply(ToolUse("python", {"code": ASKS, "beside": True})), "It trains.")
    kernel.run("%agent --approve effects train")
    kernel.run("mine = 'changed meanwhile'")
    gate = Gate()
    api.add(Reply(gate, ToolUse("job", {"action": "look"})), Reply(ToolUse("job", {"action": "wait"})), "I see.")
    cell = kernel.begin("%agent and?", asks=True)
    assert gate.reached.wait(60)
    go(kernel)
    question = cell.answer(None)
    gate.open()
    wait_until(lambda: len(api.requests) == 4)
    return cell, " ".join(question.replace("\n┆ ", "").split())


def answer(cell: Cell, text: str) -> None:
    cell.client.input(text)
    cell.finish()


def test_a_job_whose_code_has_ended_says_so_while_it_asks_and_its_time_does_not_count_that(
    claude: Kernel, api: MessagesApi
) -> None:
    cell, _ = ask_beside(claude, api)
    said = text_of(result(api, 3))
    ended = re.search(r" ended after \d+ s(?=, and waits for the user's answer\.)", said)
    assert ended is not None, said
    answer(cell, "1")
    claude.run("%agent --approve never")
    assert f"{ended[0]}." in text_of(result(api, 4))


def test_the_question_at_a_jobs_end_says_that_it_ran_what_gets_another_name_and_what_no_means(
    claude: Kernel, api: MessagesApi
) -> None:
    cell, question = ask_beside(claude, api)
    answer(cell, "1")
    claude.run("%agent --approve never")
    assert "This adds losses, makes mine_beside (mine stays as it is) and changes total 50 → 6." in question
    assert "job-1 has ended: take its variables over? It does not run again; with No they are left out" in question
    assert "It has run beside you: prints trained" in question
    assert "Run this code" not in question
    assert claude.run("total, mine, mine_beside, losses").results[-1]["text/plain"] == (
        "(6, 'changed meanwhile', 'from the copy', [1])"
    )


def test_a_no_at_a_jobs_end_leaves_its_variables_out(claude: Kernel, api: MessagesApi) -> None:
    cell, _ = ask_beside(claude, api)
    answer(cell, "n")
    claude.run("%agent --approve never")
    assert claude.run("total, mine, 'losses' in dir(), 'mine_beside' in dir()").results[-1]["text/plain"] == (
        "(50, 'changed meanwhile', False, False)"
    )
    assert "Nothing of what the code made was taken over, and it is gone." in text_of(result(api, 4))


def test_where_nobody_can_be_asked_at_a_jobs_end_its_values_come_beside_those_that_are_there(
    claude: Kernel, api: MessagesApi
) -> None:
    claude.run("%reset_selective -f losses|beside\nimport os, time\ntotal, mine = 50, 1")
    api.add(Reply(ToolUse("python", {"code": ASKS, "beside": True})), "It trains.")
    claude.run("%agent --approve effects train")
    go(claude)
    wait_until(lambda: claude.run("'losses' in dir()").results[-1]["text/plain"] == "True")
    claude.run("%agent --approve never")
    assert claude.run("total, mine, total_beside, mine_beside, losses").results[-1]["text/plain"] == (
        "(50, 1, 6, 'from the copy', [1])"
    )
    why = "total would have got another value, and nobody could be asked, so the new value is in total_beside;"
    assert why in "".join(claude.run("%agent jobs").shown)


def test_where_only_looks_are_allowed_code_beside_the_user_leaves_nothing(claude: Kernel, api: MessagesApi) -> None:
    look = ToolUse("python", {"code": "longest = 5", "beside": True})
    api.add(Reply(look), Reply(ToolUse("job", {"action": "wait"})), "I see.")
    claude.run("%agent --approve looks look")
    claude.run("%agent --approve never")
    assert claude.run("'longest' in dir()").results[-1]["text/plain"] == "False"
    assert "longest is not kept" in text_of(result(api, 1)) + text_of(result(api, 2))  # of a slow copy the job tells


def test_after_a_restart_the_model_is_told_once_that_a_job_ended_with_the_old_kernel(
    claude: Kernel, api: MessagesApi
) -> None:
    claude.run("import os, time\ntotal, mine = 50, 1")
    api.add(Reply(ToolUse("python", {"code": ASKS, "beside": True})), "It trains.")
    claude.run("%agent train")
    claude.restart()
    claude.run("%load_ext indus_nb")
    api.add("It is gone.", "Yes.")
    claude.run("%agent --continue and?")
    claude.run("%agent sure?")
    for request in api.requests[2:]:
        told = json.dumps(request.body["messages"])
        assert told.count("job-1 (python beside) is over: it ended with the kernel or the program that it ran in,") == 1
