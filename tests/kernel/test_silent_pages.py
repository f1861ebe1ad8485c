"""Pages that cannot speak while a cell is busy, as expected of VS Code: none is ready, somebody can be asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kernels import Cell, Kernel, private_environment
from messages_api import Gate, MessagesApi, Reply, Text, ToolUse

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
    assert any(WIDGET in bundle for bundles in cell.displays.values() for bundle in bundles)
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
    assert "touch second" in cell.answer("3")
    assert cell.finish().status == "ok"
    assert [path.exists() for path in made] == [True, False]
    assert_is_static(cell)
    (kernel.folder / "first").unlink()


def test_an_interrupt_stops_the_run_before_it_is_known_and_afterwards(kernel: Kernel, api: MessagesApi) -> None:
    for shown in ("The live view of this answer", "On and on"):
        asked = len(api.requests)
        api.add(Reply(Text("On and on ", Gate())))
        cell = kernel.begin(ASK + "go on", asks=True)
        cell.wait_for(lambda cell, shown=shown: any(text.startswith(shown) for text in cell.shown))
        api.wait_for_requests(asked + 1)  # else the answer would be left to the next test
        kernel.interrupt()
        assert cell.finish().status == "error"
        assert "Interrupted" in str(cell.error)
        assert_is_static(cell)
