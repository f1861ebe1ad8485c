"""The outputs of a run in the notebook, independent of pages that connect and leave meanwhile.

A front end puts displays of a cell into the notebook of the page that ran the cell, and of no other: one that was
loaded again, or was opened by another user, gets none. So each page that connects is asked whether it gets them; if
not, it is sent them, and writes them into its notebook. When the run is over that is repeated with all outputs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from indus_nb.base.wire import JsonObject

if TYPE_CHECKING:
    from indus_nb.front.notebook.page.widget import AgentWidget

_REPLY_SECONDS = 1.0
"""Timeout, in seconds, of a run's end for pages, of which any may be gone."""
_LATE_SECONDS = 60.0
"""Timeout, in seconds, for the reply of a slow page."""


class CellOutputs:
    """Outputs of one run, for the pages that show its widget. Used on the agent's thread."""

    def __init__(
        self, widget: AgentWidget, outputs: Callable[[], Sequence[JsonObject]], place: Mapping[str, Any]
    ) -> None:
        """Bind the outputs to a widget, with no page yet.

        Args:
            outputs: Returns the cell's outputs so far: bundles (``data``) with their ``metadata``.
            place: Where they belong, as of `ended_runs.place_of`.
        """
        self._widget = widget
        self.outputs = outputs
        self.in_notebook: bool = False
        """True once a page is known to have them in its notebook."""
        self.on_late: Callable[[], None] = lambda: None
        """Called when a page that was too slow shows all of the run after all."""
        self._asking: set[asyncio.Task[JsonObject | None]] = set()
        self.place = place

    async def bring(self, page: str) -> None:
        """Send a newly connected page the cell's outputs so far."""
        await self._show(page, over=False, timeout=_REPLY_SECONDS)

    async def settle(self) -> bool:
        """Send all outputs of the finished run to the pages.

        Returns:
            Whether one of them does, or can show nothing but the widget; without any the widget must hold all.
        """
        asked: dict[str, JsonObject | None] = {}
        while pages := [page for page in self._widget.pages if page not in asked]:  # one may come meanwhile
            replies = await asyncio.gather(*map(self._ask, pages))
            asked.update(zip(pages, replies, strict=True))
        self.in_notebook = any(reply is not None and "error" not in reply for reply in asked.values())
        if any(map(_is_shown, asked.values())):
            return True
        for page, reply in asked.items():
            if reply is None:
                self._widget.pages.pop(page, None)
            elif reply.get("gets") == "nothing" and await self.settle_in(page):
                return True
        return False

    async def settle_in(self, page: str) -> bool:
        """Send all outputs of the run to a page that connects after its end."""
        return _is_shown(await self._ask(page, missed=True))

    async def _ask(self, page: str, *, missed: bool = False) -> JsonObject | None:
        """Request a page to show all of the run; returns its reply, or ``None`` after the timeout."""
        asking = asyncio.create_task(self._show(page, over=True, missed=missed, timeout=_LATE_SECONDS))
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)
        await asyncio.wait([asking], timeout=_REPLY_SECONDS)
        if asking.done():
            return asking.result()
        asking.add_done_callback(self._come_late)
        return None

    def _come_late(self, asking: asyncio.Task[JsonObject | None]) -> None:
        if not asking.cancelled() and asking.exception() is None and _is_shown(asking.result()):
            self.on_late()

    async def _show(self, page: str, *, over: bool, timeout: float, missed: bool = False) -> JsonObject | None:  # noqa: ASYNC109 - no page may ever answer
        fields = {**self.place, "outputs": [*self.outputs()], "over": over, "missed": missed}
        return await self._widget.request("show_run", timeout=timeout, page=page, **fields)


def _is_shown(reply: JsonObject | None) -> bool:
    """Return whether a page gets or has written the displays, or cannot because of its front end."""
    return reply is not None and (reply.get("gets") in ("displays", "writes") or reply.get("error") == "unavailable")
