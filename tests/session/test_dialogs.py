"""Dialogs and signs of a session, whoever shows them and when."""

from __future__ import annotations

import asyncio
from typing import Any

from indus_nb.core.loop import AbortSignal
from indus_nb.core.session.dialogs import Cancel, Select, SetStatus, SetTitle, SetWidget, Ui, asked_in


async def begun(ui: Ui) -> str:
    """The id of the dialog that is open, once there is one."""
    while not ui.open_dialogs:
        await asyncio.sleep(0)
    return ui.open_dialogs[0].id


async def test_a_dialog_outlives_its_host_and_is_shown_to_the_next_one() -> None:
    ui = Ui()
    detach = ui.attach(lambda frame: None)
    ui.set_status("mood", "fine")
    asking = asyncio.create_task(ui.select("Which?", ["a", "b"]))
    dialog = await begun(ui)
    detach()
    shown: list[Any] = []
    ui.attach(shown.append)
    assert [type(frame) for frame in shown] == [SetStatus, Select]
    assert shown[1].id == dialog
    assert ui.answer(dialog, "b")
    assert await asking == "b"
    assert not ui.answer(dialog, "a")


async def test_of_several_hosts_the_first_answer_counts_and_the_others_are_told() -> None:
    ui = Ui()
    one: list[Any] = []
    other: list[Any] = []
    ui.attach(one.append)
    ui.attach(other.append)
    asking = asyncio.create_task(ui.confirm("Sure?", "Really?"))
    dialog = await begun(ui)
    ui.answer(dialog, True)
    assert await asking
    for shown in (one, other):
        assert isinstance(shown[-1], Cancel)
        assert shown[-1].target_id == dialog


async def test_without_a_host_dialogs_answer_themselves() -> None:
    ui = Ui()
    assert await ui.select("Which?", ["a"]) is None
    assert not await ui.confirm("Sure?", "Really?")
    assert await ui.input("Name?") is None
    assert await ui.editor("Text?", "before") is None


async def test_a_signal_that_was_given_shows_no_dialog_and_one_given_meanwhile_closes_it() -> None:
    ui = Ui()
    shown: list[Any] = []
    ui.attach(shown.append)
    signal = AbortSignal()
    asking = asyncio.create_task(ui.input("Name?", signal=signal))
    await begun(ui)
    signal.request()
    assert await asking is None
    assert isinstance(shown[-1], Cancel)
    shown.clear()
    assert await ui.input("Name?", signal=signal) is None
    assert shown == []


async def test_an_answer_of_another_kind_or_no_option_counts_as_none() -> None:
    ui = Ui()
    ui.attach(lambda frame: None)
    for frame, expected in (
        ({"value": "c"}, None),
        ({"value": 5}, None),
        ({"cancelled": True}, None),
        ({"value": "a"}, "a"),
    ):
        asking = asyncio.create_task(ui.select("Which?", ["a", "b"]))
        ui.take({"id": await begun(ui), **frame})
        assert await asking == expected


async def test_what_stands_is_replaced_and_taken_away() -> None:
    ui = Ui()
    ui.set_widget("list", ["a"])
    ui.set_widget("list", ["b"], "belowEditor")
    ui.set_status("gone", "x")
    ui.set_status("gone", None)
    ui.set_title("Title")
    shown: list[Any] = []
    ui.attach(shown.append)
    assert [type(frame) for frame in shown] == [SetWidget, SetTitle]
    assert shown[0].widget_lines == ["b"]
    ui.clear()
    assert [frame.to_wire().get("widgetLines") for frame in shown[2:]] == [None]


async def test_what_a_host_raises_is_shown_there_alone_and_elsewhere_behind_the_rest_once_it_is_gone() -> None:
    ui = Ui()
    panel: list[Any] = []
    cell: list[Any] = []
    leave = ui.attach(panel.append)
    ui.attach(cell.append)

    async def save() -> bool:
        with asked_in(panel.append):
            return await ui.confirm("Save it?", "")

    saving = asyncio.create_task(save())
    raised = await begun(ui)
    running = asyncio.create_task(ui.select("Run it?", ["yes", "no"]))
    while not cell:
        await asyncio.sleep(0)
    assert [frame.title for frame in panel] == ["Save it?", "Run it?"]
    assert [frame.title for frame in cell] == ["Run it?"]
    assert [frame.title for frame, _ in ui.open_dialogs_with_time(cell.append)] == ["Run it?"]
    assert [frame.title for frame, _ in ui.open_dialogs_with_time(panel.append)] == ["Save it?", "Run it?"]
    late: list[Any] = []
    ui.attach(late.append)
    assert [frame.title for frame in late] == ["Run it?"]

    leave()
    assert [frame.title for frame in cell] == ["Run it?", "Save it?"]
    assert [frame.title for frame, _ in ui.open_dialogs_with_time(cell.append)] == ["Run it?", "Save it?"]
    ui.answer(raised, True)
    assert await saving
    assert isinstance(cell[-1], Cancel)
    ui.cancel_all()
    assert await running is None
