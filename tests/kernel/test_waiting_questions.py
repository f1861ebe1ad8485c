"""Questions about code that wait while the user runs cells, in real kernels: a yes is for the state that was shown."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from kernels import Kernel, private_environment
from messages_api import MessagesApi, Reply, ToolUse
from panel_pages import Page, Wire
from waiting import wait_until

from indus_nb.safety.sandbox.launcher import can_filter, landlock_version

pytestmark = pytest.mark.skipif(not (landlock_version() and can_filter()), reason="no Landlock here")

OPEN = """\
%agent --model anthropic/claude-sonnet-4-5 --thinking off
from IPython.display import display
from indus_nb import ChatPanel
from indus_nb.front.notebook import conversations_of
display(ChatPanel(conversations_of(get_ipython()).session))"""

KEEP = "w = w[w.n > 20]; print(w.shape)"
AGAIN = "Other code has run in your kernel since you were asked, so this was tried again."
SLOW = """\
import os, time
open("begun", "w").close()
while not os.path.exists("go"):
    time.sleep(0.05)
w = pd.DataFrame({"n": range(400)})"""


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[tuple[Kernel, Page]]:
    root = tmp_path_factory.mktemp("waiting")
    (root / "work").mkdir()
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    settings = {"approve": "effects", "looksSeconds": 600}
    (root / "agent" / "settings.json").write_text(json.dumps(settings))
    with Kernel(root / "work", environment) as kernel:
        assert kernel.run("%load_ext indus_nb\nimport pandas as pd").status == "ok"
        wire = Wire(kernel)
        cell = kernel.run(OPEN)
        (bundle,) = [*cell.displays.values()][-1]
        yield kernel, Page(wire, bundle["application/vnd.jupyter.widget-view+json"]["model_id"])
        wire.close()


@pytest.fixture
def kernel(opened: tuple[Kernel, Page]) -> Kernel:
    kernel = opened[0]
    for name in ("begun", "go"):
        (kernel.folder / name).unlink(missing_ok=True)
    assert kernel.run("w = pd.DataFrame({'n': range(60)}); counted = 0").status == "ok"
    return kernel


@pytest.fixture
def page(kernel: Kernel, opened: tuple[Kernel, Page], api: MessagesApi) -> Page:
    page = opened[1]
    page.tell("new_session")
    page.settle()
    page.wait_for(lambda: not page.state.get("busy"))
    api.requests.clear()
    return page


def ask(page: Page, api: MessagesApi, code: str = KEEP) -> None:
    """Have the model run code about which the user is asked; the question waits."""
    api.add(Reply(ToolUse("python", {"code": code})), "Done.")
    page.prompt("keep w above 20")
    page.wait_for(lambda: page.dialogs)


def question(page: Page) -> str:
    """All that the question that waits shows."""
    ((_, dialog, *_),) = page.dialogs.values()
    return json.dumps(dialog, ensure_ascii=False)


def answer(page: Page, text: str) -> None:
    """Answer the question that waits."""
    ((_, dialog, *_),) = page.dialogs.values()
    page.tell("answer", id=dialog["id"], value=next(each for each in dialog["options"] if each.startswith(text)))
    page.wait_for(lambda: dialog["id"] not in page.dialogs)


def state(kernel: Kernel) -> str:
    return kernel.run("print(len(w), counted)").streams


@pytest.mark.parametrize(("second", "rows"), [("No", 400), ("Yes, once", 379)])
def test_what_is_not_so_any_more_when_the_yes_comes_is_asked_about_anew_with_what_is_so_now(
    kernel: Kernel, page: Page, api: MessagesApi, second: str, rows: int
) -> None:
    ask(page, api)
    assert "changes w 60 → 39 rows" in question(page)
    assert AGAIN not in question(page)
    kernel.run("w = pd.DataFrame({'n': range(400)})")
    answer(page, "Yes, once")
    page.wait_for(lambda: page.dialogs)
    assert "changes w 400 → 379 rows" in question(page)
    assert AGAIN in question(page)
    assert "prints (379, 1)" in question(page)
    answer(page, second)
    page.wait_until_idle("Done.")
    assert state(kernel) == f"{rows} 0\n"
    assert ("did not allow" in json.dumps(api.requests[-1].body)) is (second == "No")


def test_where_the_same_would_happen_after_other_cells_a_yes_is_enough(
    kernel: Kernel, page: Page, api: MessagesApi
) -> None:
    ask(page, api, f"{KEEP}; __import__('warnings').warn('of the copy')")
    assert "UserWarning: of the copy" in question(page)
    kernel.run("other = [1, 2, 3]")
    kernel.run("1 / 0")
    answer(page, "Yes, once")
    page.wait_until_idle("Done.")
    assert not page.dialogs
    assert state(kernel) == "39 0\n"
    assert kernel.run("%agent undo").status == "ok"  # the call that waited is the step
    assert state(kernel) == "60 0\n"


def test_a_cell_that_still_runs_when_the_yes_comes_counts_with_what_it_does_in_the_end(
    kernel: Kernel, page: Page, api: MessagesApi
) -> None:
    ask(page, api)
    cell = kernel.begin(SLOW)
    wait_until((kernel.folder / "begun").exists)
    kernel.begin("w = w.head(100)")
    page.tell("complete", text="/")  # what the page says comes behind the cells
    ((_, dialog, *_),) = page.dialogs.values()
    page.tell("answer", id=dialog["id"], value="Yes, once")
    (kernel.folder / "go").touch()
    assert cell.finish().status == "ok"
    page.wait_for(lambda: page.dialogs and dialog["id"] not in page.dialogs)
    assert "changes w 100 → 79 rows" in question(page)
    answer(page, "Yes, once")
    page.wait_until_idle("Done.")
    assert state(kernel) == "79 0\n"


def test_code_of_which_nothing_was_shown_runs_after_one_yes_whatever_ran_meanwhile(
    kernel: Kernel, page: Page, api: MessagesApi
) -> None:
    cell = kernel.begin(SLOW)
    wait_until((kernel.folder / "begun").exists)
    ask(page, api, "counted += 1")
    assert "could not be tried in a copy of the kernel: a cell of yours runs" in question(page)
    (kernel.folder / "go").touch()
    assert cell.finish().status == "ok"
    answer(page, "Yes, once")
    page.wait_until_idle("Done.")
    assert state(kernel) == "400 1\n"


BESIDE = """\
import os, time
while not os.path.exists("go"):
    time.sleep(0.05)
w, counted, made = w.assign(more=rate), counted + 5, 7"""
ANEW = "What it would change here was changed since you were asked, so you are asked anew."


def ask_beside(kernel: Kernel, page: Page, api: MessagesApi, meanwhile: str) -> None:
    """Have the model run code in a copy while the user runs a cell; the question at its end waits."""
    kernel.run("%reset_selective -f made|beside|time\nrate = 3")
    api.add(Reply(ToolUse("python", {"code": BESIDE, "beside": True})), "It computes.", "Done.")
    page.prompt("compute beside me")
    page.wait_until_idle("It computes.")
    assert kernel.run(meanwhile).status == "ok"
    (kernel.folder / "go").touch()
    page.wait_for(lambda: page.dialogs)


def beside(kernel: Kernel) -> str:
    names = "sorted(each for each in dir() if each.startswith(('made', 'time')) or each.endswith('_beside'))"
    return kernel.run(f"print([*w], counted, {names})").streams


def test_cells_that_change_nothing_of_what_a_job_reads_and_binds_make_no_difference_to_its_values(
    kernel: Kernel, page: Page, api: MessagesApi
) -> None:
    ask_beside(kernel, page, api, "import time\nfor number in range(3): w.sum()")
    assert all(f"changes {what}" in question(page) for what in ("counted 0 → 5", "w 1 → 2 columns"))
    kernel.run("counted = 0; others = [1, 2]; others.append(w)")
    answer(page, "Yes, once")
    page.wait_for(lambda: not page.state["jobs"])
    assert beside(kernel) == "['n', 'more'] 5 ['made', 'time']\n"
    page.prompt("and?")
    page.wait_until_idle("Done.")
    for said in (page.text, json.dumps(api.requests[-1].body, ensure_ascii=False)):
        assert "[It ran in a copy of the kernel. New: made. Changed: counted 0 → 5, w 1 → 2 columns" in said


def test_what_a_cell_changed_while_a_jobs_question_waited_is_asked_about_anew_and_said_in_the_end(
    kernel: Kernel, page: Page, api: MessagesApi
) -> None:
    ask_beside(kernel, page, api, "rate = 4")
    assert ANEW not in question(page)
    kernel.run("others = [3]")
    kernel.run("w.loc[0, 'n'] = 99")
    page.wait_for(lambda: page.dialogs and ANEW in question(page))  # without an answer to the first one
    assert "makes w_beside (w stays as it is)" in question(page)
    kernel.run("counted = 8")
    page.wait_for(lambda: page.dialogs and "makes counted_beside (counted stays as it is)" in question(page))
    kernel.run("counted = 0")
    answer(page, "Yes, once")
    page.wait_for(lambda: not page.state["jobs"])
    assert beside(kernel) == "['n'] 0 ['counted_beside', 'made', 'time', 'w_beside']\n"
    page.prompt("and?")
    page.wait_until_idle("Done.")
    said = json.dumps(api.requests[-1].body, ensure_ascii=False)
    assert "w was changed here meanwhile, so the new value is in w_beside; w itself stays as it is here." in said
    assert "It began before rate changed here, and has read what was there then." in said
