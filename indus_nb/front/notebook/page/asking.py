"""Requests to the pages of the right notebook: several notebooks may use one kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from indus_nb.base.wire import JsonObject
from indus_nb.kernel.cell_ids import Origin

if TYPE_CHECKING:
    from indus_nb.front.notebook.page.widget import AgentWidget


async def ask_notebook(
    widgets: Sequence[AgentWidget], origin: Origin, what: str, payload: Mapping[str, Any]
) -> JsonObject | None:
    """Send a request to the pages of the notebook that it comes from, over the newest widget first.

    Args:
        origin: Where the request comes from.

    Returns:
        The first answer; ``None`` when no such page gives one.
    """
    asks: JsonObject = {} if origin.cell is None else {"origin": {"cell": origin.cell, "client": origin.client}}
    for widget in reversed(widgets):
        if origin.widget in (None, widget.comm_id):
            answer = await widget.request(what, **payload, **asks)
            if answer is not None and answer.get("error") != "elsewhere":
                return answer
    return None
