"""What the newest runs have left, for pages whose notebooks still hold their live views.

A notebook that was saved during a run, and is loaded again before it is saved again, shows the view of a run that is
over.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from indus_nb.base import textcut
from indus_nb.base.wire import JsonObject, dump
from indus_nb.front.notebook.page.cell_outputs import CellOutputs
from indus_nb.front.notebook.view import blocks
from indus_nb.front.notebook.view.blocks import MimeBundle
from indus_nb.front.notebook.view.output import NotebookScreen, Screen

if TYPE_CHECKING:
    from indus_nb.front.notebook.page.widget import AgentWidget

_MAX_ASKED = 1_000
_MAX_RUNS = 50
_MAX_CHARACTERS = 20_000_000


def outputs_on(
    screen: Screen,
    widget: AgentWidget,
    failure: Callable[[], MimeBundle | None],
    start: Callable[[Coroutine[Any, Any, None]], None],
) -> CellOutputs | None:
    """Return the outputs of a widget's run, which pages that connect later get, if the front end identifies the cell.

    Args:
        failure: What the cell fails with so far, which is none of its displays.
        start: Runs work on the agent's thread.
    """
    if not isinstance(screen, NotebookScreen) or (cell := screen.cell).cell is None:
        return None

    def shown() -> list[JsonObject]:
        failed = failure()
        return [*screen.outputs(), *([] if failed is None else [{"data": dict(failed), "metadata": {}}])]

    outputs = CellOutputs(widget, shown, place_of(cell.cell, cell.client, widget.comm_id, cell.source))
    widget.on_ready = lambda: start(outputs.bring(widget.used_page))
    return outputs


def place_of(cell: str, client: str | None, widget: str, source: str) -> JsonObject:
    """Return the fields of `protocol.ShowRun` that say where outputs belong.

    Args:
        client: The id that the page that ran the cell has for the kernel.
        widget: The id of the run's widget.
        source: What the cell held when it ran. A page may hold another text: an older one of the file, for instance.
    """
    asked = blocks.notice(f"Answer to: {textcut.one_line(source, _MAX_ASKED)}")
    shown: JsonObject = {"data": dict(asked), "metadata": {}}
    return {"cell": cell, "client": client, "widget": widget, "source": source, "asked": shown}


class EndedRuns:
    """The outputs of the newest runs, by the ids of their widgets. Used on the agent's thread."""

    def __init__(self) -> None:
        """Create it without a run."""
        self._runs: dict[str, JsonObject] = {}
        self._sizes: dict[str, int] = {}

    def keep(self, place: Mapping[str, Any], outputs: Sequence[JsonObject]) -> None:
        """Keep the outputs of a run, unless they are too large, and forget the oldest where there are too many.

        Args:
            place: Where they belong, as of `place_of`.
        """
        widget = str(place["widget"])
        run: JsonObject = {**place, "outputs": [*outputs]}
        if (size := len(dump(run))) > _MAX_CHARACTERS:
            return
        self._runs[widget], self._sizes[widget] = run, size
        while len(self._runs) > _MAX_RUNS or sum(self._sizes.values()) > _MAX_CHARACTERS:
            oldest = next(iter(self._runs))
            del self._runs[oldest], self._sizes[oldest]

    def of(self, widget: str) -> JsonObject | None:
        """Return what a page is to be asked with `protocol.ShowRun` for a widget; ``None`` for one of no such run."""
        run = self._runs.get(widget)
        return None if run is None else {**run, "over": True, "missed": True}
