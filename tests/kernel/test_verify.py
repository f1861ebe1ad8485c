"""``%agent verify``: a saved notebook is run in a fresh kernel, which is gone afterwards."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
import pytest
from kernels import Kernel, private_environment
from messages_api import MessagesApi, Reply, ToolUse
from panel_pages import Page, Wire
from waiting import wait_until

from indus_nb.kernel.document.claimed import claimed
from indus_nb.kernel.document.verifying import difference
from indus_nb.safety.sandbox.launcher import can_filter, landlock_version

ASK = "%agent --model anthropic/claude-sonnet-4-5 --thinking off "


def write(path: Path, *cells: tuple[str, str] | tuple[str, str, str]) -> None:
    """Save a notebook with these sources, what they print, and their tags."""
    made = nbformat.v4.new_notebook()
    for source, printed, *tags in cells:
        cell = nbformat.v4.new_code_cell(source, execution_count=1)
        cell.metadata["tags"] = tags
        if printed:
            cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=printed)]
        made.cells.append(cell)
    nbformat.write(made, path)


@contextmanager
def kernel_in(root: Path, api: MessagesApi) -> Generator[Kernel]:
    (root / "work").mkdir()
    environment = private_environment(
        root,
        ANTHROPIC_BASE_URL=api.url,
        ANTHROPIC_API_KEY="test-key",
        JPY_SESSION_NAME=str(root / "work" / "book.ipynb"),
    )
    api.requests.clear()
    with Kernel(root / "work", environment) as kernel:
        kernel.run("%load_ext indus_nb")
        yield kernel


@pytest.fixture
def kernel(tmp_path: Path, api: MessagesApi) -> Iterator[Kernel]:
    with kernel_in(tmp_path, api) as kernel:
        yield kernel


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Kernel]:
    with kernel_in(tmp_path_factory.mktemp("verify"), api) as kernel:
        yield kernel


@pytest.fixture
def silent_kernel(shared: Kernel) -> Kernel:
    """A kernel whose agent was never asked, and whose folder is empty."""
    for file in shared.folder.iterdir():
        file.unlink()
    return shared


def test_the_first_broken_cell_and_other_outputs_are_reported_and_the_agent_is_asked(
    kernel: Kernel, api: MessagesApi
) -> None:
    write(
        kernel.folder / "book.ipynb",
        ("%load_ext indus_nb", ""),
        (
            "import time, os\nprint(object(), time.time() * 0 + 0.1 + 0.2, '3.1 s')",
            "<object object at 0x7f1234567890> 0.3 7 s\n",
        ),
        ("print('now')", "before\n"),
        (f"{ASK}go", ""),
        ("print(only_here)", "1\n"),
        ("print('later')", "later\n"),
    )
    kernel.run("only_here = 1")
    before = kernel.children()
    shown = "\n".join(kernel.run(f"{ASK}verify", 90).shown)
    assert "3 of 5 cells ran well in a fresh kernel" in shown
    assert "Not run, for they are for the agent: the 4th cell." in shown
    assert "The 5th cell fails: NameError: name 'only_here' is not defined" in shown
    assert "Not run, for they come after it: the 6th cell." in shown
    assert "The 3rd cell gives something else:\n    - before\n    + now" in shown
    assert "The 2nd cell" not in shown
    assert kernel.children() == before
    assert "`%agent verify --fix` has the agent look into it." in shown
    assert api.requests == []
    api.add(Reply("I see."))
    fixed = kernel.run("%agent verify --fix", 90)
    assert fixed.status == "ok"
    assert "5th cell fails" in str(fixed.shown)
    assert "verify --fix" not in str(fixed.shown)
    assert "verify --fix" not in str(api.requests[-1].body["messages"])
    failed = json.loads((kernel.folder / "book.ipynb").read_text())["cells"][4]["id"]
    assert f"Cell {failed} fails: NameError" in str(api.requests[-1].body["messages"][-1])


def test_a_variable_that_the_agent_made_is_told_with_its_cell_and_what_brings_the_code_into_cells(
    kernel: Kernel, api: MessagesApi
) -> None:
    write(
        kernel.folder / "book.ipynb",
        ("%load_ext indus_nb", ""),
        (f"{ASK}sum up", ""),
        ("print(by_region)", "3\n"),
        ("print(elsewhere)", "3\n"),
    )
    asking = json.loads((kernel.folder / "book.ipynb").read_text())["cells"][1]["id"]
    api.add(Reply(ToolUse("python", {"code": "by_region = 3"})), Reply("Done."))
    assert kernel.run(f"{ASK}--approve never sum up", cell_id=asking).status == "ok"
    shown = "\n".join(kernel.run("%agent verify", 90).shown)
    assert "The 3rd cell fails: NameError: name 'by_region' is not defined" in shown
    assert (
        "by_region was made by the agent in the 2nd cell, which was left out.\n"
        "    → `%agent cell all` in a new cell right below it writes its code into cells."
    ) in shown
    api.add(Reply("Hello."))
    kernel.run("%agent hello")
    shown = "\n".join(kernel.run("%agent verify", 90).shown)
    assert (
        "left out.\n    1. Run that cell again.\n"
        "    2. Right after that, `%agent cell all` in a new cell right below it writes its code into cells.\n"
    ) in shown
    kernel.run("%agent undo")  # then it is not known to be the agent's
    shown = "\n".join(kernel.run("%agent verify", 90).shown)
    assert "by_region was made by" not in shown
    assert (
        "Left out before it: the 2nd cell. If by_region was made there by the agent:\n    1. Run that cell again.\n"
        in shown
    )


@pytest.mark.parametrize("asks", ["--new -o by_region sum up", "map --output by_region '{item}' over range(2)"])
def test_a_variable_that_is_an_answer_is_told_with_the_cell_that_asks_for_it(silent_kernel: Kernel, asks: str) -> None:
    write(
        silent_kernel.folder / "book.ipynb",
        ("%load_ext indus_nb", ""),
        (f"%agent {asks}", ""),
        ("%agent hello", ""),
        ("print(by_region)", "3\n"),
    )
    shown = "\n".join(silent_kernel.run("%agent verify", 90).shown)
    assert "The 4th cell fails: NameError: name 'by_region' is not defined" in shown
    assert (
        "by_region is an answer that the 2nd cell asks the agent for, which was left out.\n"
        "    → Write its value into a cell above the 4th cell.\n"
    ) in shown
    assert "agent cell all" not in shown


def test_a_cell_below_that_assigns_what_is_lacking_is_to_be_moved(silent_kernel: Kernel) -> None:
    write(
        silent_kernel.folder / "book.ipynb",
        ("%load_ext indus_nb", ""),
        (f"{ASK}sum up", ""),
        ("print(by_region)", "3\n"),
        ("%time by_region\nby_region", ""),
        ("def use():\n    by_region = 1\nfor by_region in [3]: pass", ""),
    )
    shown = "\n".join(silent_kernel.run("%agent verify", 90).shown)
    assert "The 3rd cell fails: NameError: name 'by_region' is not defined" in shown
    assert (
        "The 5th cell stands below and assigns by_region.\n    → If that is its code, move it above the 3rd cell.\n"
    ) in shown


def test_a_variable_that_the_agent_changed_outside_of_cells_is_reported_where_the_fresh_one_differs(
    kernel: Kernel, api: MessagesApi
) -> None:
    prices = "prices = ['1', '2']"
    write(
        kernel.folder / "book.ipynb", ("%load_ext indus_nb", ""), (prices, ""), (f"{ASK}numbers", ""), ("same = 1", "")
    )
    asking = json.loads((kernel.folder / "book.ipynb").read_text())["cells"][2]["id"]
    kernel.run(f"{prices}; same = 1")
    code = "prices[:] = map(int, prices); same = 1; new = 2"
    api.add(Reply(ToolUse("python", {"code": code})), Reply("Done."))
    assert kernel.run(f"{ASK}--approve never numbers", cell_id=asking).status == "ok"
    shown = "\n".join(kernel.run("%agent verify", 90).shown)
    assert (
        "≠ prices is another in the fresh kernel:\n    - list of 2 · [1, 2]\n    + list of 2 · ['1', '2']\n"
        "prices was changed last by the agent in the 3rd cell, which was left out.\n"
        "    → `%agent cell all` in a new cell right below it writes its code into cells."
    ) in shown
    assert "✓" not in shown
    assert "same is" not in shown
    assert "new is" not in shown
    kernel.run("prices[:] = ['1', '2']")
    assert "✓ All outputs are as the notebook shows them." in "\n".join(kernel.run("%agent verify", 90).shown)


ROWS = "%load_ext indus_nb\nfrom indus_nb import agent\nmodel = 'anthropic/claude-sonnet-4-5'\nfriends = ['a', 'b']"


def test_code_that_asks_a_model_asks_none_in_the_fresh_kernel_and_ends_there(kernel: Kernel, api: MessagesApi) -> None:
    api.default = Reply("yes")
    swallows = "try:\n    kinds = agent.map('{item}', friends, model=model)\nexcept Exception:\n    pass"
    session = (
        "from indus_nb import SessionOptions, open_session\n"
        "with open_session(SessionOptions(model=model, no_session=True)) as session:\n"
        "    said = session.run('hello')"
    )
    sources = (
        ROWS,
        "kinds = agent.map('{item}', friends, model=model, journal='rows.jsonl')\nprint('asked')",
        "for each in agent.stream('{item}', iter(friends), model=model): print(each)",
        "streamed = await agent.map_async('{item}', friends, model=model)",
        swallows,
        session,
        "free = agent.map('{item}', friends, model='offline')\nprint('free')",
        "print(len(kinds))",
        "print('later')",
    )
    shows = ("", "asked\n", "", "", "", "", "free\n", "2\n", "later\n")
    write(kernel.folder / "book.ipynb", *zip(sources, shows, strict=True))
    kernel.run(ROWS)
    shown = "\n".join(kernel.run("%agent verify", 90).shown)
    assert api.requests == []
    assert "Not run to their end, for they ask a model: the 2nd cell, the 3rd cell, the 4th cell, the 5th cell" in shown
    assert "2 of 4 cells ran well in a fresh kernel." in shown
    assert "The 8th cell fails: NameError: name 'kinds' is not defined" in shown
    assert (
        "kinds is made in the 5th cell, not run to its end, for it asks a model.\n"
        "    → `%agent keep answers.json` before that cell is run keeps its answers, which are used here then."
    ) in shown
    assert "≠" not in shown
    assert not (kernel.folder / "rows.jsonl").exists() or "error" not in (kernel.folder / "rows.jsonl").read_text()


def test_what_rows_of_a_journal_cost_and_when_they_were_answered_is_not_compared(
    kernel: Kernel, api: MessagesApi
) -> None:
    api.default = Reply("yes")
    (kernel.folder / "rows.jsonl").unlink(missing_ok=True)
    asks = "kinds = agent.map('{item}', friends, model=model, journal='rows.jsonl')\nprint(kinds)"
    kernel.run(ROWS)
    printed = kernel.run(asks).streams
    write(kernel.folder / "book.ipynb", (ROWS, ""), (asks, printed))
    assert "2 answered, $0." in printed
    shown = "\n".join(kernel.run("%agent verify", 90).shown)
    assert "✓ All outputs are as the notebook shows them." in shown
    write(kernel.folder / "book.ipynb", (ROWS, ""), (asks, printed.replace("2 answered", "1 answered")))
    assert "≠" in "\n".join(kernel.run("%agent verify", 90).shown)


def test_answers_that_are_kept_are_used_in_the_fresh_kernel(kernel: Kernel, api: MessagesApi) -> None:
    api.default = Reply("yes")
    asks = "kinds = agent.map('{item}', friends, model=model)\nprint([*kinds])"
    more = "print([*agent.map('{item}', [*friends, 'c'], model=model)])"
    write(
        kernel.folder / "book.ipynb", (ROWS, ""), (asks, "['yes', 'yes']\n"), (more, ""), ("print(len(kinds))", "2\n")
    )
    kernel.run("%agent keep answers.json")
    kernel.run(ROWS)
    kernel.run(asks)
    assert len(api.requests) == 2
    before = (kernel.folder / "answers.json").read_bytes()
    shown = "\n".join(kernel.run("%agent verify", 90).shown)
    assert len(api.requests) == 2
    assert "3 of 3 cells ran well in a fresh kernel." in shown
    assert "Not run to their end, for they ask a model: the 3rd cell." in shown
    assert "✓ All outputs are as the notebook shows them." in shown
    assert (kernel.folder / "answers.json").read_bytes() == before


def test_variables_that_the_agent_changed_are_not_compared_where_cells_were_not_run(
    kernel: Kernel, api: MessagesApi
) -> None:
    prices = "prices = ['1', '2']"
    last = "prices[:] = map(int, prices)"
    write(
        kernel.folder / "book.ipynb",
        ("%load_ext indus_nb", ""),
        (prices, ""),
        (f"{ASK}go", ""),
        ("1 / 0", ""),
        (last, ""),
    )
    kernel.run(prices)
    api.add(Reply(ToolUse("python", {"code": last})), Reply("Done."))
    assert kernel.run(f"{ASK}--approve never go").status == "ok"
    shown = "\n".join(kernel.run("%agent verify", 90).shown)
    assert "The 4th cell fails: ZeroDivisionError" in shown
    assert "Not run, for they come after it: the 5th cell." in shown
    assert "prices" not in shown


def test_the_last_prompt_of_the_notebooks_conversation_may_stand_in_the_panel(kernel: Kernel, api: MessagesApi) -> None:
    write(kernel.folder / "book.ipynb", ("%load_ext indus_nb", ""), ("print(by_region)", "3\n"))
    kernel.run(f"{ASK}--approve never")
    wire = Wire(kernel)
    shown = kernel.begin("%agent panel", asks=True).finish()
    bundle = [bundles[-1] for bundles in shown.displays.values()][-1]
    page = Page(wire, bundle["application/vnd.jupyter.widget-view+json"]["model_id"])
    api.add(Reply(ToolUse("python", {"code": "by_region = 3"})), Reply("Done."))
    page.prompt("sum up")
    page.wait_until_idle("Done.")
    kernel.run("%agent --name other")
    shown = "\n".join(kernel.run("%agent verify", 90).shown)
    assert "by_region was made by the agent, whose code stands in no cell.\n    1. Ask for it again.\n" in shown
    kernel.run("%agent --name main")
    shown = "\n".join(kernel.run("%agent verify", 90).shown)
    wire.close()
    assert (
        "by_region was made by the agent, whose code stands in no cell.\n"
        "    → `%agent cell all` in a new cell above the 2nd cell writes its code into cells."
    ) in shown


def test_that_the_file_is_not_known_is_said_in_a_sentence(silent_kernel: Kernel) -> None:
    cell = silent_kernel.run("%agent verify", 90)
    assert cell.error is not None
    (said,) = cell.error["traceback"]
    assert "book.ipynb was this kernel's notebook when it was started, and is not there any more." in said


def test_tags_say_what_is_left_out_what_may_fail_and_what_varies(silent_kernel: Kernel) -> None:
    write(
        silent_kernel.folder / "book.ipynb",
        ("%load_ext indus_nb", ""),
        ("import sys; sys.exit('never')", "", "skip-execution"),
        ("1 / 0", "", "raises-exception"),
        ("print('now')", "before\n", "nbval-ignore-output"),
        ("print('later')", "later\n", "a-tag-of-my-own"),
    )
    shown = "\n".join(silent_kernel.run(f"{ASK}verify", 90).shown)
    assert "4 of 4 cells ran well in a fresh kernel" in shown
    assert "Not run, for their tags say so: the 2nd cell." in shown
    assert "✓ All outputs are as the notebook shows them." in shown


def test_cells_that_were_never_run_are_left_out_and_named(silent_kernel: Kernel) -> None:
    path = silent_kernel.folder / "book.ipynb"
    write(path, ("%load_ext indus_nb", ""), ("x = 1", ""), ("print(y)", ""), ("saved_before_it_ran = 2", ""))
    made = nbformat.read(path, as_version=4)
    for cell in made.cells[2:]:
        cell.execution_count = None
    nbformat.write(made, path)
    silent_kernel.run("saved_before_it_ran = 2", cell_id=made.cells[3].id)
    shown = "\n".join(silent_kernel.run("%agent verify", 90).shown)
    assert "3 of 3 cells ran well in a fresh kernel." in shown
    assert "Left out, for the notebook has never run them: the 3rd cell." in shown
    assert "✓ All outputs are as the notebook shows them." in shown


def test_a_notebook_of_which_no_cell_was_run_is_run_as_a_whole(silent_kernel: Kernel) -> None:
    path = silent_kernel.folder / "book.ipynb"
    write(path, ("never = 1", ""), ("%agent verify", ""))
    made = nbformat.read(path, as_version=4)
    made.cells[0].execution_count = None
    nbformat.write(made, path)
    shown = "\n".join(silent_kernel.run("%agent verify", 90, cell_id=made.cells[1].id).shown)
    assert "1 of 1 cells ran well in a fresh kernel." in shown
    assert "Left out" not in shown


def test_an_interrupt_ends_it_with_all_that_its_cells_started(silent_kernel: Kernel) -> None:
    write(
        silent_kernel.folder / "book.ipynb",
        ("%load_ext indus_nb", ""),
        ("import subprocess, pathlib\nsubprocess.Popen(['sleep', '600'])\npathlib.Path('begun').touch()", ""),
        ("import time\ntime.sleep(600)", ""),
    )
    before = silent_kernel.children()
    cell = silent_kernel.begin(f"{ASK}verify")
    wait_until((silent_kernel.folder / "begun").exists)
    cell.wait_for(
        lambda cell: any("the 3rd cell runs in a fresh kernel: import time" in text for text in cell.shown), 60
    )
    silent_kernel.interrupt()
    assert cell.finish(60).status == "error"
    assert cell.error is not None
    assert cell.error["evalue"] == "Stopped: the fresh kernel has ended, and all that its cells had started."
    shown = "\n".join(cell.shown)
    assert "2 of 3 cells ran well in a fresh kernel" in shown
    assert "The 3rd cell was running when it was stopped." in shown
    assert "verify --fix" not in shown
    assert silent_kernel.children() == before


def test_what_varies_by_itself_is_no_difference() -> None:
    def printed(text: str) -> list[dict[str, str]]:
        return [{"output_type": "stream", "name": "stdout", "text": text}]

    same = difference(
        printed("at 2026-01-02 10:11:12, 3.25 ms, 0.30000000001\n"), printed("at 2027-03-04 01:02:03, 9 ms, 0.3")
    )
    assert same == ""
    assert difference(printed("1200 rows"), printed("1148 rows")) == "- 1200 rows\n+ 1148 rows"
    assert difference(printed("0.4054"), printed("-0.0466")) == "- 0.4054\n+ -0.0466"
    long = difference(printed("a" * 9_000 + "b" * 9_000), printed("a" * 9_000 + "c" * 9_000))
    assert long == f"- …{'a' * 40}{'b' * 120}…\n+ …{'a' * 40}{'c' * 120}…"
    assert difference(printed("9 rows, 1,929 rows/min"), printed("9 rows, 2,002 rows/min")) == ""
    many = difference(printed("\n".join(map(str, range(90)))), printed("\n".join(map(str, range(100, 190)))))
    assert many == "- 0\n- 1\n- 2\n- … 87 more lines\n+ 100\n+ 101\n+ 102\n+ … 87 more lines"
    figure = {"output_type": "display_data", "data": {"image/png": "abc", "text/plain": "<Figure size 640x480>"}}
    other = {"output_type": "display_data", "data": {"image/png": "def", "text/plain": "<Figure size 600x400>"}}
    assert difference([figure], [other]) == ""
    assert "- [figure]" in difference([figure], [])
    bar = {"output_type": "display_data", "data": {"text/html": "<progress></progress> 1 row", "text/plain": "1 row"}}
    assert difference([bar], []) == ""
    assert difference([{"output_type": "stream", "name": "stderr", "text": "warning"}], []) == ""


def write_claims(path: Path, *claims: tuple[str, str]) -> None:
    """Add a cell for the agent to a notebook, whose answer shows values of expressions."""
    made = nbformat.read(path, as_version=4)
    cell = nbformat.v4.new_code_cell(f"{ASK}so", execution_count=9)
    values = [{"expression": expression, "value": value, "reads": []} for expression, value in claims]
    shown = nbformat.v4.new_output("display_data", {"text/plain": "so"}, metadata={"indus_nb": {"values": values}})
    cell.outputs = [shown]
    made.cells.insert(-1, cell)
    nbformat.write(made, path)


@pytest.mark.skipif(not (landlock_version() and can_filter()), reason="no Landlock here")
def test_values_in_answers_are_computed_in_the_fresh_kernel_where_they_stand(silent_kernel: Kernel) -> None:
    path = silent_kernel.folder / "book.ipynb"
    write(path, ("%load_ext indus_nb", ""), ("items = [1, 2]", ""), ("items = []", ""))
    write_claims(path, ("sum(items)", "3"), ("len(items)", "5"), ("by_agent + 1", "7"), ("open('made', 'w')", "x"))
    shown = "\n".join(silent_kernel.run("%agent verify").shown)
    assert "3 of 3 cells ran well in a fresh kernel." in shown
    assert "≠ Values in the answer of cell [9] do not hold now:" in shown
    assert "    5 is 2: len(items)" in shown
    assert "    7 is not computed (NameError: name 'by_agent' is not defined): by_agent + 1" in shown
    assert "    x is not computed (" in shown
    assert "1 value in answers: the same." in shown
    assert "All outputs are as the notebook shows them" not in shown
    assert [each.name for each in silent_kernel.folder.iterdir()] == ["book.ipynb"]


@pytest.mark.skipif(not (landlock_version() and can_filter()), reason="no Landlock here")
def test_values_that_are_the_same_are_counted(silent_kernel: Kernel) -> None:
    path = silent_kernel.folder / "book.ipynb"
    write(path, ("%load_ext indus_nb", ""), ("items = [1, 2]", ""), ("print(items)", "[1, 2]\n"))
    write_claims(path, ("sum(items)", "3"), ("f'{items[0]:.1f}'", "1.0"))
    shown = "\n".join(silent_kernel.run("%agent verify").shown)
    assert "2 values in answers: the same." in shown
    assert "✓ All outputs are as the notebook shows them." in shown


@pytest.mark.skipif(not (landlock_version() and can_filter()), reason="no Landlock here")
def test_values_of_what_the_agent_wrote_into_cells_are_computed_where_these_have_run(silent_kernel: Kernel) -> None:
    path = silent_kernel.folder / "book.ipynb"
    cells = ("w = 3000", "w = 1", "at_the_end = 4", "w = 2")
    write(path, ("%load_ext indus_nb", ""), *((source, "") for source in cells))
    write_claims(path, ("w", "3000"), ("at_the_end", "4"), ("never", "5"))
    made = nbformat.read(path, as_version=4)
    made.cells.insert(1, made.cells.pop(-2))
    made.cells[2].metadata["indus_nb"] = {"run": "a", "call": "b"}
    nbformat.write(made, path)
    shown = "\n".join(silent_kernel.run("%agent verify").shown)
    assert "2 values in answers: the same." in shown
    assert "    5 is not computed (NameError: name 'never' is not defined): never" in shown
    assert "3000 is" not in shown


@pytest.mark.skipif(not (landlock_version() and can_filter()), reason="no Landlock here")
def test_values_that_are_not_saved_are_said_not_to_be_compared(kernel: Kernel, api: MessagesApi) -> None:
    path = kernel.folder / "book.ipynb"
    write(path, ("%load_ext indus_nb", ""), ("items = [1, 2]", ""), (f"{ASK}so", ""), (f"{ASK}more", ""))
    saved = json.loads(path.read_text())["cells"]
    kernel.run("items = [1, 2]")
    api.add("It is `{python} sum(items)`.", "It is nothing.")
    kernel.run(f"{ASK}so", cell_id=saved[2]["id"])
    kernel.run(f"{ASK}more", cell_id=saved[3]["id"])
    shown = "\n".join(kernel.run("%agent verify").shown)
    assert "Values in answers are not compared where the cell was not saved since: the 3rd cell." in shown
    assert "✓ All outputs are as the notebook shows them." in shown


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {"indus_nb": 1},
        {"indus_nb": {"values": {}}},
        {"indus_nb": {"values": [1, {"expression": 1, "value": ""}, {"expression": "x"}, {"value": "x"}]}},
        {"indus_nb": {"values": [{"expression": "x" * 10_000, "value": "1"}]}},
    ],
)
def test_metadata_of_others_is_no_claim(metadata: object) -> None:
    assert claimed([{"metadata": metadata}, {}]) == []
