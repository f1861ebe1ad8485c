"""The outputs of a run are brought to the pages that come and go while it goes on."""

from __future__ import annotations

import asyncio
from typing import Any

from indus_nb.front.notebook.cells.ended_runs import EndedRuns, place_of
from indus_nb.front.notebook.page.cell_outputs import CellOutputs
from indus_nb.front.notebook.page.widget import AgentWidget


def widget_of(pages: dict[str, str]) -> AgentWidget:
    """A widget whose pages reply with what they are to say of the outputs; those not named say nothing."""
    widget = AgentWidget("cell", lambda _: None, lambda work: asyncio.get_running_loop().call_soon(work))

    def send(message: dict[str, Any]) -> None:
        if message["kind"] == "request" and (gets := pages.get(message["page"])):
            value = {"error": "no"} if gets == "error" else {"gets": gets}
            reply = {"kind": "reply", "page": message["page"], "id": message["id"], "value": value}
            widget._on_message(None, reply, [])

    widget._widget.send = send
    return widget


def come(widget: AgentWidget, page: str) -> None:
    widget._on_message(None, {"kind": "ready", "page": page}, [])


async def test_a_page_that_comes_while_another_is_waited_for_gets_the_outputs_too() -> None:
    widget = widget_of({"new": "writes"})
    outputs = CellOutputs(widget, list, place_of("cell", "client", widget.comm_id, "%agent ask"))
    come(widget, "gone")
    while not widget.ready.is_set():
        await asyncio.sleep(0)
    settling = asyncio.create_task(outputs.settle())
    while not widget._requests:  # the page that went away is waited for by now
        await asyncio.sleep(0)
    come(widget, "new")
    assert await settling
    assert outputs.in_notebook
    assert "new" in widget.pages


async def test_without_a_page_that_shows_them_the_outputs_are_not_settled() -> None:
    for gets in ("", "error"):
        widget = widget_of({"one": gets})
        outputs = CellOutputs(widget, list, place_of("cell", "client", widget.comm_id, "%agent ask"))
        come(widget, "one")
        while not widget.ready.is_set():
            await asyncio.sleep(0)
        assert not await outputs.settle()
        assert not outputs.in_notebook
        assert ("one" in widget.pages) is bool(gets)


async def test_a_page_that_was_only_slow_counts_when_it_replies() -> None:
    widget = widget_of({})
    sent: list[dict[str, Any]] = []
    widget._widget.send = sent.append
    outputs = CellOutputs(widget, list, place_of("cell", "client", widget.comm_id, "%agent ask"))
    late = asyncio.Event()
    come(widget, "slow")
    while not widget.ready.is_set():
        await asyncio.sleep(0)
    assert not await outputs.settle()
    outputs.on_late = late.set
    request = next(message for message in sent if message["kind"] == "request")
    reply = {"kind": "reply", "page": "slow", "id": request["id"], "value": {"gets": "writes"}}
    widget._on_message(None, reply, [])
    await asyncio.wait_for(late.wait(), 120)


def test_the_newest_runs_are_kept_for_pages_to_come_and_huge_ones_push_out_all_others() -> None:
    ended = EndedRuns()
    for number in range(60):
        ended.keep(
            place_of("cell", "client", f"{number}", "%agent ask"), [{"data": {"text/plain": "said"}, "metadata": {}}]
        )
    assert ended.of("0") is None
    assert ended.of("59") == {
        **place_of("cell", "client", "59", "%agent ask"),
        "outputs": [{"data": {"text/plain": "said"}, "metadata": {}}],
        "over": True,
        "missed": True,
    }
    ended.keep(
        place_of("cell", None, "huge", "%agent ask"), [{"data": {"text/plain": "x" * 30_000_000}, "metadata": {}}]
    )
    assert [ended.of(each) is None for each in ("59", "huge")] == [False, True]
