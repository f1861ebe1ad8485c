"""What a widget sends a page and what it does with a page's messages."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from fake_page import FakePage
from hypothesis import given
from hypothesis import strategies as st

from indus_nb.base.wire import JsonObject
from indus_nb.core.session.dialogs import Ui, UiFrame
from indus_nb.front.notebook.page import protocol
from indus_nb.front.notebook.page.widget import AgentWidget


def live_and_page(
    heard: list[protocol.PanelRequest] | None = None, kind: protocol.WidgetKind = "panel"
) -> tuple[AgentWidget, FakePage]:
    live = AgentWidget(kind, (heard if heard is not None else []).append, lambda work: work())
    return live, FakePage.of(live)


def say(live: AgentWidget, **message: Any) -> None:
    """What a page sends."""
    live._on_message(None, message, [])


def frame(method: str, **more: Any) -> JsonObject:
    return {"type": "extension_ui_request", "method": method, **more}


GIF = "R0lGODdh"
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "grow", "drop", "send", "resync"]), st.sampled_from("abc"), st.text("x😀é<")
    ),
    max_size=40,
)


@given(ACTIONS)
def test_a_page_has_the_blocks_in_their_order_whatever_happened(actions: list[tuple[str, str, str]]) -> None:
    live, page = live_and_page()
    model: dict[str, str] = {}
    for action, key, text in actions:
        match action:
            case "put":
                model[key] = text
                live.put(key, text)
            case "grow":
                model[key] = model.get(key, "") + text
                live.put(key, model[key])
            case "drop":
                model.pop(key, None)
                live.drop(key)
            case "send":
                live.send()
            case _:
                say(live, kind="resync")
    live.send()
    assert list(page.blocks.items()) == list(model.items())
    numbers = [message["n"] for message in page.messages if message["kind"] == "patch"]
    assert numbers == list(range(1, len(numbers) + 1))
    live.close()


def test_only_the_end_of_a_growing_block_is_sent_and_nothing_twice() -> None:
    live, page = live_and_page()
    text = "<p>" + "word 😀 " * 1000
    live.put("a", text + "</p>")
    live.set(note="busy", cost="$1")
    live.send()
    live.put("a", text + "more</p>")
    live.put("a", text + "more and more</p>")
    live.set(note="busy", cost="$2")
    live.send()
    live.put("a", text + "more and more</p>")
    live.set(note="busy")
    live.send()
    assert len(page.messages) == 2
    assert len(str(page.messages[1])) < 200
    assert list(page.blocks.items()) == [("a", text + "more and more</p>")]
    assert page.state == {"widget": live.comm_id, "note": "busy", "cost": "$2"}
    live.close()


def test_numbers_that_lead_to_cards_are_sent_once_and_again_to_a_page_that_comes_later() -> None:
    live, page = live_and_page()
    live.put("card", "<p>5</p>")
    for key in ("answer", "gone"):
        live.put(key, "<p>It is 5.</p>")
        live.lead_to_cards(key, [["5", "card"]])
    live.lead_to_cards("card", [])
    live.send()
    live.lead_to_cards("answer", [["5", "card"]])
    live.send()
    assert len(page.messages) == 1
    assert page.found == {"answer": [["5", "card"]], "gone": [["5", "card"]]}
    live.drop("gone")
    page.found.clear()
    say(live, kind="resync")
    assert page.found == {"answer": [["5", "card"]]}
    live.close()


async def test_a_late_page_is_shown_everything_that_stands() -> None:
    live, page = live_and_page()
    ui = Ui()

    def show(shown: UiFrame) -> None:
        live.signal(shown.to_wire())

    ui.attach(show)
    live.open_dialogs = lambda: ui.open_dialogs_with_time(show)
    asked = asyncio.create_task(ui.select("?", ["a"], timeout=60))
    answered = asyncio.create_task(ui.confirm("?", ""))
    await asyncio.sleep(0)
    first, second = page.dialogs
    ui.answer(second, answer=True)  # and what waits for it does not know yet
    live.put("a", "<p>a</p>")
    live.set(started_ms_ago=5000, note="x")
    live.signal(frame("notify", id="4", message="hello", notifyType="info"))
    live.signal(frame("setStatus", id="5", statusKey="k", statusText="s"))
    live.signal(frame("setWidget", id="6", widgetKey="w", widgetLines=["l"], widgetPlacement="belowEditor"))
    live.signal(frame("unheard_of", id="7"))
    assert not live.ready.is_set()
    began = time.monotonic()
    while (passed := 1000 * (time.monotonic() - began)) < 5:
        pass
    say(live, kind="ready", page="one")
    assert live.ready.is_set()
    assert not live.reloaded
    assert page.messages[-1]["kind"] == "full"
    assert list(page.blocks.items()) == [("a", "<p>a</p>")]
    assert list(page.dialogs) == [first]
    assert 0 < (page.dialogs[first].left or 0) <= 60_000 - int(passed)
    assert 5000 + int(passed) <= page.state["started_ms_ago"]
    assert page.toasts == ["hello"]
    assert page.state["status"] == {"k": "s"}
    assert page.state["widgets"] == {"w": {"lines": ["l"], "placement": "belowEditor"}}
    say(live, kind="ready", page="two")
    assert live.reloaded
    ui.cancel_all()
    assert (await asked, await answered) == (None, True)
    live.close()


async def test_the_first_answer_counts_and_ends_the_dialog_on_every_page() -> None:
    ui = Ui()
    live = AgentWidget("cell", lambda message: ui.answer(message.id, message.value), lambda work: work())
    page = FakePage.of(live)
    ui.attach(lambda shown: live.signal(shown.to_wire()))
    asked = asyncio.create_task(ui.select("?", ["a", "b"]))
    await asyncio.sleep(0)
    (dialog,) = page.dialogs
    for dialog_id, value in ((dialog, "a"), (dialog, "b"), ("nothing", None)):
        say(live, kind="answer", id=dialog_id, value=value)
    assert page.dialogs == {}
    assert await asked == "a"
    live.close()


@pytest.mark.parametrize("kind", ["cell", "panel"])
@pytest.mark.parametrize("content", ["no object", {"unkind": True}, {"kind": "stop", "page": 1}, {"kind": "answer"}])
def test_a_message_that_is_rejected_is_told_of_and_changes_nothing(kind: Any, content: object) -> None:
    heard: list[Any] = []
    live, page = live_and_page(heard, kind)
    live._on_message(None, content, [])
    assert heard == []
    (toast,) = page.toasts
    assert toast.startswith("The page sent something that was rejected: ")
    assert not live.ready.is_set()
    live.close()


def test_a_cell_understands_no_requests_of_a_panel() -> None:
    heard: list[Any] = []
    live, page = live_and_page(heard, "cell")
    say(live, kind="new_session")
    say(live, kind="stop")
    assert [request.kind for request in heard] == ["stop"]
    assert len(page.toasts) == 1
    live.close()


def test_a_prompt_with_an_image_that_was_rejected_is_not_sent_and_comes_back() -> None:
    heard: list[Any] = []
    live, page = live_and_page(heard)
    say(live, kind="image", page="p", data=GIF, mimeType="image/gif")
    say(live, kind="image", page="p", data="none", mimeType="image/gif")
    say(live, kind="prompt", page="p", text="look")
    assert heard == []
    assert "an image that was rejected" in page.toasts[0]
    assert "was not sent" in page.toasts[1]
    assert page.state["composer"]["text"] == "look"
    say(live, kind="prompt", page="p", text="look again")
    assert [(prompt.text, list(prompt.images)) for prompt in heard] == [("look again", [])]
    live.close()


def test_images_come_one_by_one_and_their_number_is_bounded() -> None:
    heard: list[Any] = []
    live, _ = live_and_page(heard)
    for _ in range(10):
        say(live, kind="image", page="p", data=GIF, mimeType="image/gif")
    say(live, kind="image", page="other", data=GIF, mimeType="image/gif")
    say(live, kind="prompt", page="p", text="look", how="send")
    say(live, kind="prompt", page="p", text="again", how="send")
    assert [len(prompt.images) for prompt in heard] == [8, 0]
    assert heard[0].images[0].to_wire() == {"type": "image", "data": GIF, "mimeType": "image/gif"}
    assert heard[0].text == "look"
    live.close()


def test_a_file_is_given_to_the_pages_of_the_moment_and_not_kept() -> None:
    live, page = live_and_page()
    live.set(download={"name": "a", "html": "x", "n": 1})
    live.send()
    assert page.state["download"]["html"] == "x"
    say(live, kind="resync")
    assert "download" not in page.state
    live.close()


async def test_a_page_is_asked_only_when_there_is_one_and_not_for_ever() -> None:
    live, page = live_and_page()
    assert await live.request("cells") is None
    assert page.messages == []
    say(live, kind="ready", page="p")
    asked = asyncio.create_task(live.request("cells", some="thing"))
    await asyncio.sleep(0)
    request = page.messages[-1]
    assert (request["kind"], request["what"], request["some"]) == ("request", "cells", "thing")
    say(live, kind="reply", id="another", value={"not": "this"})
    say(live, kind="reply", id=request["id"], value=["no object"])
    say(live, kind="reply", id=request["id"], value={"cells": []})
    say(live, kind="reply", id=request["id"], value={"too": "late"})
    assert await asked == {"cells": []}
    assert await live.request("cells", timeout=0.01) is None
    live.close()
    assert await live.request("cells") is None


async def test_of_several_pages_the_one_that_was_used_last_is_asked() -> None:
    live, page = live_and_page()
    for name in ("one", "two"):
        say(live, kind="ready", page=name)
    say(live, kind="to_cell", page="one", code="1")
    asked = asyncio.create_task(live.request("change_cells", edits=[]))
    await asyncio.sleep(0)
    assert page.messages[-1]["page"] == "one"
    say(live, kind="reply", page="one", id=page.messages[-1]["id"], value={"id": "x"})
    assert await asked == {"id": "x"}
    live.close()


@pytest.mark.parametrize("value", [1.5, ["a"], {"a": 1}, None])
def test_an_answer_that_makes_no_sense_dismisses_its_dialog(value: object) -> None:
    heard: list[Any] = []
    live, page = live_and_page(heard)
    live.signal(frame("confirm", id="1", title="?", message=""))
    say(live, kind="answer", id="1", value=value)
    assert [(answer.id, answer.value) for answer in heard] == [("1", None)]
    assert page.dialogs == {}
    live.close()


def test_signs_that_follow_each_other_closely_are_few_messages() -> None:
    live, page = live_and_page()
    for number in range(10_000):
        live.signal(frame("notify", id="n", message=f"notice {number}", notifyType="info"))
        live.signal(frame("setStatus", id="s", statusKey=f"key {number}", statusText="busy"))
    live.signal(frame("confirm", id="1", title="?", message=""))
    assert [each.left for each in page.dialogs.values()] == [None]
    assert page.toasts[-1] == "notice 9999"
    assert len(page.state["status"]) == 10_000
    assert len(page.messages) < 200
    late = FakePage.of(live)
    late.tell("ready")
    assert late.toasts == [f"notice {number}" for number in range(9_995, 10_000)]
    live.close()


def test_images_without_a_prompt_are_kept_for_a_few_pages_only() -> None:
    heard: list[Any] = []
    live, _ = live_and_page(heard)
    for number in range(1_000):
        say(live, kind="image", page=str(number), data=GIF, mimeType="image/gif")
    assert sum(map(len, live._images.values())) < 10
    for number in (5, 999):
        say(live, kind="prompt", page=str(number), text="", how="send")
    assert [len(prompt.images) for prompt in heard] == [0, 1]
    live.close()


@pytest.mark.parametrize("kind", ["cell", "panel"])
def test_half_characters_do_not_break_a_message(kind: Any) -> None:
    live, page = live_and_page(kind=kind)
    live.set(note="cut \ud83d")
    live.signal(frame("notify", id="1", message="cut \ud83d", notifyType="info"))
    for message in page.messages:
        str(message).encode()
    live.close()
