"""Requests to the pages of the right notebook: several notebooks may use one kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from indus_nb.base.wire import JsonObject
from indus_nb.kernel.cell_ids import Origin


class Askable(Protocol):
    """A connection to a page that shows a notebook: a widget, or a door."""

    comm_id: str

    async def request(self, what: str, **payload: Any) -> JsonObject | None:
        """Send a request to the page; ``None`` when it gives no answer."""
        ...


async def ask_notebook(
    pages: Sequence[Askable], origin: Origin, what: str, payload: Mapping[str, Any]
) -> JsonObject | None:
    """Send a request to the pages of the notebook that it comes from, over the newest connection first.

    Args:
        pages: The connections, oldest first.
        origin: Where the request comes from.

    Returns:
        The first answer; ``None`` when no such page gives one.
    """
    asks: JsonObject = {} if origin.cell is None else {"origin": {"cell": origin.cell, "client": origin.client}}
    for page in reversed(pages):
        if origin.widget in (None, page.comm_id):
            answer = await page.request(what, **payload, **asks)
            if answer is not None and answer.get("error") != "elsewhere":
                return answer
    return None
