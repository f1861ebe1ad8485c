"""Pages that cannot speak while a cell is busy, as expected of VS Code: none is ready, somebody can be asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from kernels import Cell, Kernel, private_environment
from messages_api import Gate, MessagesApi, Reply, Text, ToolUse
from waiting import wait_until

WIDGET = "application/vnd.jupyter.widget-view+json"
ASK = "%agent --new --model anthropic/claude-sonnet-4-5 --thinking off --approve writes "


@pytest.fixture(scope="module")
def api() -> Iterator[MessagesApi]:
    with MessagesApi() as api:
        yield api


@pytest.fixture(scope="module", params=["server", "VS Code"])
def kernel(
    tmp_path_factory: pytest.TempPathFactory, api: MessagesApi, request: pytest.FixtureRequest
) -> Iterator[Kernel]:
    root = tmp_path_factory.mktemp("silent")
    path = root / "work" / "silent.ipynb"
    path.parent.mkdir()
    by_server = {"JPY_SESSION_NAME": str(path)} if request.param == "server" else {}
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key", **by_server)
    with Kernel(path.parent, environment) as kernel:
        if request.param == "VS Code":  # which leaves its path in the user's namespace
            kernel.run(f"__vsc_ipynb_file__ = {str(path)!r}")
        assert kernel.run("%load_ext indus_nb").status == "ok"
        yield kernel


def assert_is_static(cell: Cell) -> None:
    """A widget was tried, and nothing is left of it."""
    assert any(WIDGET in bundle for bundles in (*cell.displays.values(), *cell.cleared) for bundle in bundles)
    assert not any(WIDGET in bundles[-1] for bundles in cell.displays.values())


def test_what_grows_is_drawn_as_displays_after_three_seconds(kernel: Kernel, api: MessagesApi) -> None:
    held = Gate()
    api.add(Reply(Text("One, ", held, "two.")))
    cell = kernel.begin(ASK + "count", asks=True)
    cell.wait_for(lambda cell: any(text.strip() == "One," for text in cell.shown))
    assert_is_static(cell)
    held.open()
    cell.wait_for(lambda cell: any(text.strip() == "One, two." for text in cell.shown))
    assert cell.finish().status == "ok"
    assert_is_static(cell)


def test_questions_are_asked_with_input(kernel: Kernel, api: MessagesApi) -> None:
    made: list[Path] = [kernel.folder / name for name in ("first", "second")]
    api.add(*(Reply(ToolUse("bash", {"command": f"touch {path.name}"})) for path in made), "Done.")
    cell = kernel.begin(ASK + "make two files", asks=True)
    assert "touch first" in cell.answer("1")
    assert "touch second" in cell.answer("2")
    assert cell.finish().status == "ok"
    assert [path.exists() for path in made] == [True, False]
    assert_is_static(cell)
    (kernel.folder / "first").unlink()


def test_where_changes_get_lost_what_stays_is_shown_once_and_not_changed(kernel: Kernel, api: MessagesApi) -> None:
    api.add(Reply(ToolUse("python", {"code": "print(6 * 7)"})), "Done.")
    cell = kernel.run(ASK + "reckon")
    if "__vsc_ipynb_file__" in kernel.run("print([*globals()])").streams:
        assert [len(bundles) for bundles in cell.displays.values()] == [1] * len(cell.displays)
        assert cell.cleared
    assert any("print(6 * 7)" in text for text in cell.shown)
    assert all(text.strip() for text in cell.shown)


def test_formulas_stay_in_what_the_front_end_typesets(kernel: Kernel, api: MessagesApi) -> None:
    """VS Code typesets no HTML, which it prefers to Markdown; what holds no formula keeps its styles."""
    call = ToolUse("python", {"code": "print(6 * 7)"})
    api.add(Reply(Text("It *grows*, by $n$.\n\n" + "And on. " * 400), call), Reply("So $x^2$."), "It costs $5.")
    cells = [kernel.run(ASK + "tell"), kernel.run(ASK + "pay")]
    kept = (bundles[-1] for cell in cells for bundles in cell.displays.values())
    shown = {kinds["text/markdown"]: set(kinds) for kinds in kept}
    in_vs_code = "__vsc_ipynb_file__" in kernel.run("print([*globals()])").streams
    typeset = {"text/markdown", "text/plain"}
    for formula in ("$n$", "$x^2$"):
        assert [kinds == typeset for text, kinds in shown.items() if formula in text] == [in_vs_code]
    assert all("text/html" in kinds for text, kinds in shown.items() if "costs" in text or "6 * 7" in text)


def test_vs_code_s_user_is_told_once_what_a_live_view_needs(tmp_path: Path, api: MessagesApi) -> None:
    with Kernel(tmp_path, private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="key")) as kernel:
        kernel.run(f"__vsc_ipynb_file__ = {str(tmp_path / 'new.ipynb')!r}\n%load_ext indus_nb")
        for times in (1, 0):
            held = Gate()
            api.add(Reply(Text("One, ", held, "two.")))
            cell = kernel.begin(ASK + "count", asks=True)
            cell.wait_for(lambda cell: any(text.strip() == "One," for text in cell.shown))
            held.open()
            assert sum("Jupyter Notebook Renderers" in text for text in cell.finish().shown) == times


def test_who_wrote_an_edited_notebook_while_a_call_ran_is_not_claimed_to_be_known(
    kernel: Kernel, api: MessagesApi
) -> None:
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")])
    path = kernel.folder / "silent.ipynb"
    nbformat.write(made, path)
    command = "touch begun; until [ -e saved ]; do sleep 0.05; done; rm begun saved"
    asked = len(api.requests)
    api.add(Reply(ToolUse("bash", {"command": command})), "Done.")
    cell = kernel.begin(ASK.replace("writes", "never") + "wait")
    wait_until((kernel.folder / "begun").exists)
    made.cells[0].source = "2"
    nbformat.write(made, path)
    (kernel.folder / "saved").touch()
    told = [text for text in cell.finish().shown if "was written as a file" in text]
    assert told
    assert all("by it, or by a front end" in text and "asks at its next save" not in text for text in told)
    assert "by it, or by a front end" in str(api.requests[asked + 1].body["messages"][-1])


def test_what_the_front_end_saves_while_a_call_runs_was_not_written_by_it(kernel: Kernel, api: MessagesApi) -> None:
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(ASK + "wait")])
    path = kernel.folder / "silent.ipynb"
    nbformat.write(made, path)
    command = "touch begun; until [ -e saved ]; do sleep 0.05; done; rm begun saved"
    api.add(Reply(ToolUse("bash", {"command": command})), "Done.")
    cell = kernel.begin(ASK.replace("writes", "never") + "wait")
    wait_until((kernel.folder / "begun").exists)
    made.cells[0].outputs = [nbformat.v4.new_output("stream", text="so far\n")]
    nbformat.write(made, path)
    (kernel.folder / "saved").touch()
    assert cell.finish().status == "ok"
    assert not any("was written as a file" in text for text in cell.shown)
    assert "silent.ipynb" not in "".join(kernel.run("%agent undo").shown)
    assert "so far" in path.read_text()


def test_an_interrupt_stops_the_run_before_it_is_known_and_afterwards(kernel: Kernel, api: MessagesApi) -> None:
    for shown in ("The live view of this answer", "On and on"):
        asked = len(api.requests)
        api.add(Reply(Text("On and on ", Gate())))
        cell = kernel.begin(ASK + "go on", asks=True)
        cell.wait_for(lambda cell, shown=shown: any(text.startswith(shown) for text in cell.shown))
        for text in cell.shown:
            if text.startswith("The live view"):  # what a page reads that does not show it
                assert "`%agent panel`, shows it with what it asks." in text
                assert text.count(". ") == 1
        api.wait_for_requests(asked + 1)  # else the answer would be left to the next test
        kernel.interrupt()
        assert cell.finish().status == "error"
        assert "Interrupted" in str(cell.error)
        assert_is_static(cell)
