"""``agent.map`` in a cell: its bar, and what an interruption leaves."""

from __future__ import annotations

from pathlib import Path

from kernels import Kernel, private_environment
from messages_api import Gate, MessagesApi, Recorded, Reply, Text


def test_the_cell_shows_how_far_it_is_and_an_interruption_keeps_what_is_done(tmp_path: Path, api: MessagesApi) -> None:
    gate = Gate()

    def answer(request: Recorded) -> Reply:
        content = request.body["messages"][0]["content"]
        row = content if isinstance(content, str) else content[0]["text"]
        return Reply(row) if int(row) < 3 else Reply(Text("late ", gate, row))

    api.default = answer  # type: ignore[assignment]
    environment = private_environment(tmp_path, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(tmp_path, environment) as kernel:
        kernel.run("from indus_nb import agent")
        cell = kernel.begin("done = agent.map('{item}', range(40), parallel=2, model='claude-haiku-4-5')")
        cell.wait_for(lambda cell: any(text.startswith("3 of 40 rows, $") for text in cell.shown))
        kernel.interrupt()
        cell.wait_for(lambda cell: cell.shown[-1].endswith("rows that were asked come to their end"))
        gate.open()
        assert cell.finish().status == "ok"
        (shown,) = cell.shown
        assert shown.startswith("5 of 40 rows, $")
        assert shown.endswith("stopped")
        (bundles,) = cell.displays.values()
        assert '<progress max="40" value="5"' in bundles[-1]["text/html"]
        kept = kernel.run("print([*done][:6], done.failed == [*range(5, 40)])").streams
        assert kept == "['0', '1', '2', 'late 3', 'late 4', None] True\n"
