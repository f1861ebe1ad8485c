"""A plan is made by looks alone, changed by the user, and carried out once they said go."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from kernels import Kernel, private_environment
from messages_api import Gate, HttpError, MessagesApi, Reply, Text, ToolUse
from panel_pages import NotebookPage, Wire

OPEN = """\
%agent --new --model anthropic/claude-sonnet-4-5 --thinking off --approve never
%agent panel"""
STEPS = ["Drop empty rows (assumes there are few)", "Draw the rest"]


def plan(*steps: str) -> ToolUse:
    return ToolUse("answer", {"answer": json.dumps(steps)})


def python(code: str) -> ToolUse:
    return ToolUse("python", {"code": code})


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Kernel]:
    root = tmp_path_factory.mktemp("plan-first")
    (root / "work").mkdir()
    environment = private_environment(
        root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key", JPY_SESSION_NAME="book.ipynb"
    )
    with Kernel(root / "work", environment) as kernel:
        assert kernel.run("%load_ext indus_nb").status == "ok"
        yield kernel


@pytest.fixture
def page(kernel: Kernel, api: MessagesApi) -> Iterator[NotebookPage]:
    api.requests.clear()
    api._answers.clear()
    wire = Wire(kernel)
    kernel.run("rows = [1]")
    cell = kernel.begin(OPEN, asks=True).finish()
    assert cell.status == "ok", cell.error
    bundle = [bundles[-1] for bundles in cell.displays.values()][-1]
    page = NotebookPage(wire, bundle["application/vnd.jupyter.widget-view+json"]["model_id"])
    page.tell("switch", mode="plan", on=True)
    page.wait_for(lambda: page.state.get("plan"))
    try:
        yield page
    finally:
        wire.close()


def answer(page: NotebookPage, value: str, reason: str | None = None) -> str:
    """Answer the dialog that comes next; returns its text."""
    page.wait_for(lambda: page.dialogs)
    ((name, opened),) = page.dialogs.items()
    page.tell("answer", id=name, value=value, reason=reason)
    page.wait_for(lambda: name not in page.dialogs)
    return str(opened.dialog["title"])


def messages(api: MessagesApi) -> str:
    return str(api.requests[-1].body["messages"])


def test_until_go_nothing_is_changed_and_then_the_edited_steps_are_carried_out(
    kernel: Kernel, page: NotebookPage, api: MessagesApi
) -> None:
    api.add(
        Reply(python("rows.append(2)")),
        Reply(plan(*STEPS)),
        Reply(ToolUse("todo", {"op": "init", "phases": [{"name": "Plan", "tasks": ["Draw all"]}]})),
        Reply(python("rows.append(3)")),
        Reply(ToolUse("todo", {"op": "done", "task": "Draw all"})),
        Reply("Drawn."),
    )
    page.prompt("clean and draw")
    page.wait_for(lambda: page.dialogs and all(step in page.text for step in STEPS))
    assert "only looks are allowed now" in messages(api)
    assert kernel.run("print(rows)").streams == "[1]\n"
    assert page.state["plan"] is False, "it is of one prompt"
    assert answer(page, "Change the steps") == "Carry out this plan?", "the plan stands above"
    assert answer(page, "Draw all\n\n") == "The plan, a step in each line"
    assert answer(page, "Go") == "Carry out this plan?\n\n1. Draw all"
    page.wait_until_idle("Drawn.")
    assert kernel.run("print(rows)").streams == "[1, 3]\n"
    assert page.text.index("Go, with these steps:\n\n1. Draw all") > page.text.index(STEPS[0])
    assert messages(api).count("1. Draw all") == 1
    tree = "\n".join(kernel.run("%agent tree").shown)
    assert "user: Go, with these steps: 1. Draw all" in tree
    assert "Keep the steps with" not in tree
    assert page.state["approve"] == "never"
    assert "todo" in [tool["name"] for tool in api.requests[-1].body["tools"]]


def test_a_plan_is_drawn_as_its_steps_and_not_as_a_call_that_was_accepted(
    kernel: Kernel, page: NotebookPage, api: MessagesApi
) -> None:
    api.add(Reply(plan(*STEPS)), Reply("All done."))
    page.prompt("clean and draw")
    page.wait_for(lambda: page.dialogs and STEPS[1] in page.text and '["' not in page.text)  # no JSON stays
    assert STEPS[0] in page.text
    assert "accepted" not in page.text
    answer(page, "Go")
    page.wait_until_idle("All done.")
    assert "with these steps" not in page.text, "what was not changed is not said again"
    assert messages(api).count(STEPS[0]) == 1
    assert "accepted" not in page.text


def test_a_no_with_a_reason_has_it_planned_anew_and_one_without_leaves_it(
    kernel: Kernel, page: NotebookPage, api: MessagesApi
) -> None:
    api.add(Reply(plan(*STEPS)), Reply(python("rows.append(2)")), Reply(plan("Only count")))
    page.prompt("clean and draw")
    answer(page, "No", "too much")
    page.wait_for(lambda: page.dialogs and "Only count" in page.text)
    assert "Change the plan: too much" in messages(api)
    answer(page, "No")
    page.wait_for(lambda: "nothing of it was done" in f"{page.text} {page.toasts}")
    assert kernel.run("print(rows)").streams == "[1]\n"


def test_a_mode_that_the_user_chooses_meanwhile_counts_once_the_plan_is_made(
    kernel: Kernel, page: NotebookPage, api: MessagesApi
) -> None:
    thinks = Gate()
    api.add(Reply(Text("I look.", thinks), python("rows.append(2)")), Reply(plan(*STEPS)), Reply("All done."))
    page.prompt("clean and draw")
    page.wait_for(lambda: "I look." in page.text)
    assert kernel.begin("%agent --approve writes", asks=True).finish().status == "ok"
    assert page.state["approve"] == "looks"
    thinks.open()
    answer(page, "Go")
    page.wait_until_idle("All done.")
    assert kernel.run("print(rows)").streams == "[1]\n"
    assert page.state["approve"] == "writes"


@pytest.mark.parametrize(
    ("choice", "reason", "told"),
    [
        ("Go on with the others", None, "go on with the other tasks"),
        ("Stop here", None, "stop here"),
        ("Stop here", "take the mean", "how to go on: take the mean"),
    ],
)
def test_where_a_step_fails_the_user_says_how_it_goes_on(
    page: NotebookPage, api: MessagesApi, choice: str, reason: str | None, told: str
) -> None:
    begin = {"op": "init", "phases": [{"name": "Plan", "tasks": STEPS}]}
    fail = {"op": "fail", "task": STEPS[0], "reason": "half of them are empty"}
    ends = [Reply("I stop.")] if told == "stop here" else [Reply(ToolUse("todo", {"op": "done"})), Reply("I stop.")]
    api.add(Reply(plan(*STEPS)), Reply(ToolUse("todo", begin)), Reply(ToolUse("todo", fail)), *ends)
    page.prompt("clean and draw")
    answer(page, "Go")
    asked = answer(page, choice, reason)
    assert asked.startswith(f"A step failed: {STEPS[0]}. Go on with the others?")
    assert "half of them are empty" in asked
    page.wait_until_idle("I stop.")
    assert told in messages(api)
    assert "✗" in page.text


def test_a_cell_without_a_page_asks_about_the_plan_too(kernel: Kernel, page: NotebookPage, api: MessagesApi) -> None:
    api.add(Reply(plan(*STEPS)), Reply("All done."))
    cell = kernel.begin("%agent --plan clean and draw", asks=True)
    asked = cell.answer("1")
    assert "Carry out this plan?" in asked
    assert STEPS[1] in str(cell.shown), "it is shown before the question"
    assert cell.finish().status == "ok", cell.error
    assert "Carry out this plan, step by step." in messages(api)


def test_where_no_plan_comes_that_is_said(kernel: Kernel, page: NotebookPage, api: MessagesApi) -> None:
    said = "No plan came, so nothing was done. Ask again, or without a plan."
    api.add(*["1. Drop the empty rows. 2. Draw the rest."] * 3)
    cell = kernel.begin("%agent --plan clean and draw", asks=True).finish()
    assert any(said in text for text in cell.shown)
    api.add(*["1. Drop the empty rows. 2. Draw the rest."] * 3)
    api.requests.clear()
    page.prompt("clean and draw")
    page.wait_for(lambda: len(api.requests) == 3 and said in f"{page.text} {page.toasts}")
    page.wait_until_idle("")
    api.add("1. Drop the empty rows.", HttpError(400, "invalid_request_error", "no"))
    assert "No plan came" not in "".join(kernel.begin("%agent --plan clean", asks=True).finish().shown)
