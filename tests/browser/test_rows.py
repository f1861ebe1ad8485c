"""Many rows that a cell asks for in a real JupyterLab: how far they are, and Stop."""

from __future__ import annotations

import pytest
from jupyterlab_page import Lab
from messages_api import Gate, MessagesApi, Recorded, Reply, Text
from playwright.sync_api import Page, expect

KEEPS_PAGE = True


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('%agent map -o done --model claude-haiku-4-5 --parallel 2 "{item}" over range(40)', "done"),
        ("done = agent.map('{item}', range(40), model='claude-haiku-4-5', parallel=2)", "agent.interrupted"),
    ],
    ids=["magic", "function"],
)
def test_a_cell_shows_how_far_its_rows_are_and_stop_keeps_what_is_done_and_fails_the_cell(
    lab: Lab, page: Page, api: MessagesApi, line: str, name: str
) -> None:
    gate = Gate()

    def answer(request: Recorded) -> Reply:
        row = request.body["messages"][0]["content"][0]["text"]
        return Reply(row) if int(row) < 3 else Reply(Text("late ", gate, row))

    api.default = answer  # type: ignore[assignment]
    set_up = "%load_ext indus_nb\nfrom indus_nb import agent\n%agent --no-session --model claude-haiku-4-5"
    lab.write("rows.ipynb", set_up, line, f"print(list({name})[:6], len({name}.failed))")
    notebook = lab.open(page, "rows.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    notebook.run(1)
    cell = notebook.cell(1)
    expect(cell).to_contain_text("3 of 40 rows, $0.00")
    assert cell.locator("progress").evaluate("bar => [bar.value, bar.max]") == [3, 40]
    notebook.screenshot("rows")
    cell.get_by_role("button", name="Stop").click()
    expect(cell).to_contain_text("stopping: rows that were asked come to their end")
    gate.open()
    notebook.wait_until_run(1)
    expect(cell).to_contain_text("5 of 40 rows, $0.00")
    expect(cell).to_contain_text("stopped")
    expect(cell).to_contain_text(f"{name} has the answers so far, {name}.retry() asks for the others.")
    expect(cell).not_to_contain_text("Traceback")
    expect(cell.get_by_role("button", name="Stop")).to_have_count(0)
    notebook.screenshot("rows-stopped")
    notebook.run(2)
    expect(notebook.cell(2)).to_contain_text("['0', '1', '2', 'late 3', 'late 4', None] 35")


def test_a_page_that_was_too_busy_at_first_gets_stop_as_well(lab: Lab, page: Page, api: MessagesApi) -> None:
    gate = Gate()
    api.default = Reply(Text("late ", gate, "on"))
    set_up = "%load_ext indus_nb\nfrom indus_nb import agent"
    rows = "late = agent.map('{item}', range(40), model='claude-haiku-4-5', parallel=2)"
    lab.write("busy.ipynb", set_up, rows)
    notebook = lab.open(page, "busy.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    notebook.run_in_busy_page(1, seconds=6)
    notebook.cell(1).get_by_role("button", name="Stop").click()
    expect(notebook.cell(1)).to_contain_text("stopping: rows that were asked come to their end")
    gate.open()
    notebook.wait_until_run(1)
    expect(notebook.cell(1)).to_contain_text("2 of 40 rows")
