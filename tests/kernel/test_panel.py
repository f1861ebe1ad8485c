"""The chat panel in real kernels, spoken to as a page speaks to it: over its comm, next to the cells."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernels import Kernel, private_environment
from messages_api import Gate, MessagesApi, Reply, Text, ToolUse
from panel_pages import Page, Wire
from pictures import DOT

PNG = DOT


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory, api: MessagesApi) -> Iterator[Kernel]:
    root = tmp_path_factory.mktemp("panel")
    (root / "work").mkdir()
    environment = private_environment(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="test-key")
    with Kernel(root / "work", environment) as kernel:
        cell = kernel.run(
            "from IPython.display import display\n"
            "from indus_nb.base.messages import UserMessage\n"
            "from indus_nb.front.notebook.page.comm_gate import CommGate\n"
            "from indus_nb.front.notebook.panel.chat_panel import ChatPanel\n"
            "from indus_nb.kernel.run.agent_thread import AgentThread, Inbox\n"
            "from indus_nb.start import SessionOptions, open_session\n"
            "thread = AgentThread()\n"
            "gate = CommGate(get_ipython().kernel, thread.call)\n"
            "panels = []\n"
            "def new_session(**more):\n"
            "    global session\n"
            "    options = {'model': 'anthropic/claude-sonnet-4-5', 'thinking': 'off', **more}\n"
            "    session = open_session(SessionOptions(**options))\n"
            "def show(**more):\n"
            "    panels.append(ChatPanel(session, thread=thread, gate=gate, **more))\n"
            "    display(panels[-1])\n"
        )
        assert cell.status == "ok", cell.error
        yield kernel


@pytest.fixture
def wire(kernel: Kernel, api: MessagesApi) -> Iterator[Wire]:
    api.requests.clear()
    api._answers.clear()  # what another test did not ask for
    wire = Wire(kernel)
    try:
        yield wire
    finally:
        kernel.run("for panel in panels: panel.close()\npanels.clear()\nthread.call(session.close)")
        wire.close()


def show(kernel: Kernel, wire: Wire) -> Page:
    """One more panel on the session."""
    cell = kernel.run("show()")
    assert cell.status == "ok", cell.error
    assert not cell.streams
    (bundle,) = next(iter(cell.displays.values()))
    return Page(wire, bundle["application/vnd.jupyter.widget-view+json"]["model_id"])


@pytest.fixture
def page(kernel: Kernel, wire: Wire) -> Page:
    """A panel on a session of its own."""
    assert kernel.run("new_session()").status == "ok"
    return show(kernel, wire)


def said(api: MessagesApi, request: int = -1) -> list[str]:
    """What a request tells of, as text."""
    contents = [message["content"] for message in api.requests[request].body["messages"]]
    return [content if isinstance(content, str) else content[0].get("text", "") for content in contents]


def test_a_conversation_is_shown_while_it_goes_on(page: Page, api: MessagesApi) -> None:
    gate = Gate()
    api.add(Reply(Text("It is ", gate, "blue.")), "Again: blue.")
    page.prompt("which colour?")
    page.wait_for(lambda: "It is" in page.text)
    assert page.state["busy"] is True
    assert "which colour?" in page.text
    gate.open()
    page.wait_until_idle("It is blue.")
    assert page.state["tokens"] == "100 in · 20 out"
    assert page.state["cost"] == "$0.0006"
    assert page.state["model"] == "Claude Sonnet 4.5"
    page.prompt("again?")
    page.wait_until_idle("Again: blue.")
    assert said(api) == ["which colour?", "It is blue.", "again?"]
    assert page.state["cost"] == "$0.0006 · session $0.0012"
    assert page.text.count("Again: blue.") == 1
    assert not page.toasts


def test_a_page_that_comes_later_is_given_everything(page: Page, wire: Wire, api: MessagesApi) -> None:
    api.add("Noted.")
    page.prompt("my colour is blue")
    page.wait_until_idle("Noted.")
    assert Page(wire, page.comm_id).text == page.text


def test_a_cell_of_the_users_may_run_meanwhile(kernel: Kernel, page: Page, api: MessagesApi) -> None:
    api.add("At once.")
    waits = kernel.run("import ipykernel\nprint(ipykernel.version_info[0])").streams == "6\n"
    cell = kernel.begin(f"import threading; released = threading.Event(); released.wait({1 if waits else 20})")
    page.prompt("are you there?")
    page.wait_until_idle("At once.")
    if waits:
        return  # ipykernel 6 looks at one message after the other: the cell has ended by itself
    kernel.interrupt()
    assert cell.finish().status == "error"


def test_what_is_said_during_a_run_steers_it_or_follows_it(page: Page, api: MessagesApi) -> None:
    gate = Gate()
    api.add(Reply(Text("Working", gate)), "Steered.", "Followed.")
    page.prompt("begin")
    page.wait_for(lambda: "Working" in page.text)
    page.prompt("later", "followUp")
    page.prompt("now", "steer")
    page.wait_for(lambda: page.state["queue"] == {"steering": ["now"], "followUp": ["later"]})
    gate.open()
    page.wait_until_idle("Followed.")
    assert page.state["queue"] == {"steering": [], "followUp": []}
    assert said(api) == ["begin", "Working", "now", "Steered.", "later"]


def test_a_message_that_waits_can_be_taken_back_into_the_composer(page: Page, api: MessagesApi) -> None:
    gate = Gate()
    api.add(Reply(Text("Working", gate)), "Then.")
    page.prompt("begin")
    page.wait_for(lambda: "Working" in page.text)
    for text in ("one", "two", "three"):
        page.prompt(text, "followUp")
    page.wait_for(lambda: page.state["queue"]["followUp"] == ["one", "two", "three"])
    page.tell("unqueue", queue="followUp", index=2, text="two")  # as it stood before something was delivered
    page.wait_for(lambda: page.state["queue"]["followUp"] == ["one", "three"])
    assert page.state["composer"]["text"] == "two"
    page.tell("unqueue", queue="followUp", index=0, text="two")
    page.wait_for(lambda: any("delivered" in toast for toast in page.toasts))
    page.tell("clear_queue")
    page.wait_for(lambda: not page.state["queue"]["followUp"])
    gate.open()
    page.wait_until_idle("Working")
    assert len(api.requests) == 1


def test_escape_ends_the_run_and_gives_back_what_waited(page: Page, api: MessagesApi) -> None:
    gate = Gate()
    api.add(Reply(Text("Working", gate, " for ever")))
    page.prompt("begin")
    page.wait_for(lambda: "Working" in page.text)
    page.prompt("now", "steer")
    page.prompt("later", "followUp", [{"data": PNG, "mimeType": "image/png"}])
    page.wait_for(lambda: page.state["queue"] == {"steering": ["now"], "followUp": ["later"]})
    page.tell("abort")
    page.wait_until_idle("stopped")
    assert page.state["composer"]["text"] == "now\n\nlater"
    assert any("images" in toast for toast in page.toasts)
    assert page.state["queue"] == {"steering": [], "followUp": []}
    assert page.state["stopping"] is False
    assert len(api.requests) == 1
    api.add("Here.")
    page.prompt("still there?")
    page.wait_until_idle("Here.")


def test_stop_ends_the_run_and_leaves_what_waits(page: Page, api: MessagesApi) -> None:
    gate = Gate()
    api.add(Reply(Text("Working", gate, " for ever")), "Both.", "Last.")
    page.prompt("begin")
    page.wait_for(lambda: "Working" in page.text)
    page.prompt("later", "followUp")
    page.wait_for(lambda: page.state["queue"]["followUp"] == ["later"])
    page.tell("stop")
    page.wait_until_idle("stopped")
    assert page.state["queue"]["followUp"] == ["later"]
    page.prompt("go on")
    page.wait_until_idle("Last.")
    assert said(api)[-1] == "later"


def test_two_panels_that_send_what_waits_at_once_send_it_once(
    kernel: Kernel, wire: Wire, page: Page, api: MessagesApi
) -> None:
    other = show(kernel, wire)
    api.add(Reply(Text("Working", Gate(), " for ever")), "First.", "Second.")
    page.prompt("begin")
    page.wait_for(lambda: "Working" in page.text)
    page.prompt("one", "followUp")
    page.prompt("two", "followUp")
    page.wait_for(lambda: page.state["queue"]["followUp"] == ["one", "two"])
    page.tell("stop")
    for each in (page, other):
        each.wait_until_idle("stopped")
    for each in (page, other, page):
        each.tell("send_queued")
    for each in (page, other):
        each.wait_until_idle("Second.")
        assert each.state["queue"]["followUp"] == []
        assert not each.toasts
    assert [request.texts[-1] for request in api.requests] == ["begin", "one", "two"]


def test_stop_is_heard_however_much_was_asked_for_before(kernel: Kernel, page: Page, api: MessagesApi) -> None:
    gate = Gate()
    api.add(Reply(Text("Working", gate, " for ever")))
    page.prompt("begin")
    page.wait_for(lambda: "Working" in page.text)
    assert kernel.run("busy = [object() for _ in range(64)]\npanels[-1]._requests._tasks.update(busy)").status == "ok"
    page.tell("compact")
    page.wait_for(lambda: any("Too much" in toast for toast in page.toasts))
    page.tell("stop")
    page.wait_until_idle("stopped")
    assert kernel.run("panels[-1]._requests._tasks.difference_update(busy)").status == "ok"


def test_a_prompt_that_is_refused_comes_back_into_the_composer(kernel: Kernel, wire: Wire, api: MessagesApi) -> None:
    kernel.run("new_session(model='openai/gpt-5')")
    page = show(kernel, wire)
    page.prompt("hello?")
    page.wait_for(lambda: (page.state.get("keys") or {}).get("problem"))
    assert page.state["keys"]["problem"].startswith("Your prompt was not sent")
    assert page.toasts == []
    assert page.state["composer"]["text"] == "hello?"


def test_model_and_thinking_can_be_chosen(page: Page, api: MessagesApi) -> None:
    listed = {(model["provider"], model["id"]) for model in page.state["models"]}
    assert ("anthropic", "claude-haiku-4-5") in listed
    assert ("offline", "offline") in listed or any(provider == "offline" for provider, _ in listed)
    assert not any(provider == "openai" for provider, _ in listed)
    page.tell("set_model", provider="anthropic", modelId="claude-haiku-4-5")
    page.wait_for(lambda: page.state["current_model"] == {"provider": "anthropic", "id": "claude-haiku-4-5"})
    page.tell("set_thinking_level", level="high")
    page.wait_for(lambda: page.state["level"] == "high")
    assert "high" in page.state["levels"]
    api.add("Yes.")
    page.prompt("who are you?")
    page.wait_until_idle("Yes.")
    assert api.requests[-1].body["model"] == "claude-haiku-4-5"
    assert api.requests[-1].body["thinking"]["type"] == "enabled"
    page.tell("set_model", provider="anthropic", modelId="claude-of-tomorrow")
    page.wait_for(lambda: any("claude-of-tomorrow" in toast for toast in page.toasts))


def rows(page: Page) -> dict[str, dict[str, Any]]:
    """The tree's rows by their text."""
    page.tell("show_tree")
    page.settle()
    return {row["text"]: row for row in page.state["tree"]}


def test_one_can_go_back_to_another_branch_and_is_warned_of_the_variables(page: Page, api: MessagesApi) -> None:
    api.add("First answer.", "Second answer.", "Other answer.")
    page.prompt("first")
    page.wait_until_idle("First answer.")
    page.prompt("second")
    page.wait_until_idle("Second answer.")
    before = rows(page)
    assert list(before) == ["first", "First answer.", "second", "Second answer."]
    assert {row["depth"] for row in before.values()} == {0}
    assert [text for text, row in before.items() if row["here"]] == ["Second answer."]
    page.tell("navigate_tree", targetId=before["second"]["id"])
    page.wait_for(lambda: "Second answer." not in page.text)
    assert "First answer." in page.text
    assert "variables" in page.state["warning"]
    assert page.state["composer"]["text"] == "second"
    page.prompt("other")
    page.wait_until_idle("Other answer.")
    assert page.state["warning"] is None
    assert said(api) == ["first", "First answer.", "other"]
    after = rows(page)
    assert [(text, row["depth"]) for text, row in after.items()] == [
        ("first", 0),
        ("First answer.", 0),
        ("second", 1),
        ("Second answer.", 1),
        ("other", 0),
        ("Other answer.", 0),
    ]
    assert [text for text, row in after.items() if row["leaf"]] == ["Second answer.", "Other answer."]
    page.tell("navigate_tree", targetId=after["Second answer."]["id"])
    page.wait_for(lambda: "Second answer." in page.text and "Other answer." not in page.text)


def test_a_fork_goes_on_in_a_session_of_its_own(page: Page, api: MessagesApi) -> None:
    api.add("First answer.", "Second answer.")
    page.prompt("first")
    page.wait_until_idle("First answer.")
    page.prompt("second")
    page.wait_until_idle("Second answer.")
    origin = page.state["session"]["id"]
    tree = rows(page)
    page.tell("fork", entryId=tree["second"]["id"])
    page.wait_for(lambda: page.state["session"]["id"] != origin and page.state["composer"]["text"] == "second")
    page.wait_for(lambda: "Second answer." not in page.text)
    assert "First answer." in page.text
    assert "variables" in page.state["warning"]
    page.tell("fork", entryId=rows(page)["First answer."]["id"])
    page.wait_for(lambda: "variables" in (page.state["warning"] or ""))
    api.add("Third answer.")
    page.prompt("third")
    page.wait_until_idle("Third answer.")
    assert said(api) == ["first", "First answer.", "third"]


def test_sessions_of_the_folder_are_listed_and_can_be_gone_to(page: Page, api: MessagesApi) -> None:
    api.add("Noted.", "No idea.")
    page.prompt("my number is 7")
    page.wait_until_idle("Noted.")
    page.tell("set_session_name", name="  colours ")
    page.wait_for(lambda: page.state["session"]["name"] == "colours")
    page.tell("new_session")
    page.wait_for(lambda: "Noted." not in page.text and page.state["session"]["name"] is None)
    assert page.state["warning"] is None
    page.prompt("which number?")
    page.wait_until_idle("No idea.")
    page.tell("list_sessions")
    page.wait_for(lambda: page.state.get("sessions"))
    listed = {each["name"]: each for each in page.state["sessions"]}
    assert listed["which number?"]["current"] is True
    assert listed["colours"]["current"] is False
    assert listed["colours"]["messages"] == 2
    page.tell("switch_session", sessionPath=listed["colours"]["path"])
    page.wait_for(lambda: page.state["session"]["name"] == "colours" and "Noted." in page.text)
    assert "No idea." not in page.text
    assert page.text.count("tokens in, ") == 1  # what the answer took, as it was said then
    api.add("Seven.")
    page.prompt("which number?")
    page.wait_until_idle("Seven.")
    assert said(api) == ["my number is 7", "Noted.", "which number?"]


def test_only_a_listed_session_is_opened(page: Page, tmp_path: Path) -> None:
    header = {"type": "session", "version": 3, "id": "x", "timestamp": "2026-01-01T00:00:00Z", "cwd": str(tmp_path)}
    (tmp_path / "x.jsonl").write_text(json.dumps(header) + "\n")
    before = page.state["session"]
    page.tell("switch_session", sessionPath=str(tmp_path / "x.jsonl"))
    page.wait_for(lambda: any("not in the list" in toast for toast in page.toasts))
    assert page.state["session"] == before


def test_two_panels_on_one_session_stay_in_step(kernel: Kernel, wire: Wire, page: Page, api: MessagesApi) -> None:
    other = show(kernel, wire)
    gate = Gate()
    api.add(Reply(Text("Half ", gate, "whole.")))
    page.prompt("say it")
    wire.wait_for(lambda: "Half" in page.text and "Half" in other.text)
    other.prompt("from the other", "followUp")
    wire.wait_for(lambda: page.state["queue"]["followUp"] == ["from the other"])
    late = show(kernel, wire)
    api.add("Good.")
    gate.open()
    for each in (page, other, late):
        each.wait_until_idle("Good.")
        assert "Half whole." in each.text
        assert each.text.count("Good.") == 1
    other.tell("set_model", provider="anthropic", modelId="claude-haiku-4-5")
    wire.wait_for(lambda: page.state["current_model"]["id"] == "claude-haiku-4-5")
    other.tell("set_session_name", name="both")
    wire.wait_for(lambda: page.state["session"]["name"] == "both")
    tree = rows(other)
    other.tell("navigate_tree", targetId=tree["Half whole."]["id"])
    wire.wait_for(lambda: "Good." not in other.text and "Good." not in page.text)
    assert "variables" in page.state["warning"]
    other.tell("new_session")
    wire.wait_for(lambda: "Half" not in page.text and page.state["session"]["name"] is None)
    assert not page.toasts


def test_a_dialog_is_answered_in_any_panel_and_closes_in_the_others(
    kernel: Kernel, wire: Wire, api: MessagesApi
) -> None:
    kernel.run("new_session(approve='writes')")
    page, other = show(kernel, wire), show(kernel, wire)
    api.add(Reply(ToolUse("bash", {"command": "touch made-by-panel"})), "Done.")
    page.prompt("make a file")
    wire.wait_for(lambda: page.dialogs and other.dialogs)
    late = show(kernel, wire)
    late.wait_for(lambda: late.dialogs)
    ((_, frame, *_),) = other.dialogs.values()
    assert "touch made-by-panel" in frame["title"]
    other.tell("answer", id=frame["id"], value=frame["options"][0])
    page.wait_until_idle("Done.")
    assert (kernel.folder / "made-by-panel").exists()
    wire.wait_for(lambda: not page.dialogs and not other.dialogs and not late.dialogs)


def test_what_a_panel_raises_is_asked_there_alone_and_never_in_the_place_of_a_run_s_question(
    kernel: Kernel, wire: Wire, api: MessagesApi
) -> None:
    kernel.run("new_session(approve='writes')")
    page, other = show(kernel, wire), show(kernel, wire)
    page.tell("file", name="extra.csv", data="YQ==")
    page.wait_for(lambda: page.dialogs)
    api.add(Reply(ToolUse("bash", {"command": "touch made-meanwhile"})), "Done.")
    other.prompt("make a file")
    wire.wait_for(lambda: other.dialogs and len(page.dialogs) == 2)
    late = Page(wire, other.comm_id)
    for each in (other, late):
        (asked,) = each.dialogs.values()
        assert "touch made-meanwhile" in asked.dialog["title"]
    again = Page(wire, page.comm_id)
    assert "Save extra.csv" in next(iter(again.dialogs.values())).dialog["title"]
    other.tell("answer", id=asked.dialog["id"], value=asked.dialog["options"][0])
    other.wait_until_idle("Done.")
    assert (kernel.folder / "made-meanwhile").exists()
    assert not (kernel.folder / "extra.csv").exists()
    (saving,) = page.dialogs.values()
    page.tell("answer", id=saving.dialog["id"], value=True)
    page.wait_for(lambda: page.state.get("inserted", {}).get("text") == "@extra.csv")


def test_an_answer_of_a_wrong_kind_dismisses_the_dialog(kernel: Kernel, wire: Wire, api: MessagesApi) -> None:
    kernel.run("new_session(approve='writes')")
    page = show(kernel, wire)
    api.add(Reply(ToolUse("bash", {"command": "touch not-made"})), "Done.")
    page.prompt("make a file")
    page.wait_for(lambda: page.dialogs)
    page.tell("answer", id=next(iter(page.dialogs)), value={"yes": True})
    page.wait_until_idle("Done.")
    assert not (kernel.folder / "not-made").exists()


def test_signs_of_an_extension_are_shown(kernel: Kernel, page: Page) -> None:
    page.settle()  # by then it is known that somebody sees them
    kernel.run(
        "def signs():\n"
        "    session.ui.set_status('mood', 'good')\n"
        "    session.ui.notify('look here')\n"
        "    session.ui.set_title('A title')\n"
        "    session.ui.set_editor_text('write this')\n"
        "thread.call(signs)"
    )
    page.wait_for(lambda: page.state.get("composer"))
    assert page.state["status"] == {"mood": "good"}
    assert page.state["title"] == "A title"
    assert page.state["composer"]["text"] == "write this"
    assert "look here" in page.toasts


def test_images_go_with_a_prompt(page: Page, api: MessagesApi) -> None:
    api.add("A picture.")
    page.prompt("what is it?", images=[{"data": PNG, "mimeType": "image/png"}])
    page.wait_until_idle("A picture.")
    image = api.requests[-1].body["messages"][0]["content"][1]
    assert image["type"] == "image"
    assert image["source"]["data"] == PNG


@pytest.mark.parametrize(
    "content",
    [
        {"kind": "eval", "code": "1"},
        {"kind": "prompt"},
        {"kind": "prompt", "text": 1, "how": "send"},
        {"kind": "prompt", "text": "x", "how": "shout"},
        {"kind": "prompt", "text": "x" * 1_000_001},
        {"kind": "unqueue", "queue": "steering", "index": -1, "text": "x"},
        {"kind": "unqueue", "queue": "steering", "index": True, "text": "x"},
        {"kind": "set_thinking_level", "level": "to the moon"},
        {"kind": "set_session_name", "name": "x" * 1_001},
        {"kind": "set_session_name", "name": "  "},
        {"kind": "navigate_tree", "targetId": "nowhere"},
        {"kind": "fork", "entryId": "nowhere"},
        {"kind": "switch_session", "sessionPath": "/etc/passwd"},
        {"kind": "unqueue", "queue": "steering", "index": 3, "text": "x"},
        {"kind": "export"},
        {"kind": "prompt", "text": "  "},
    ],
    ids=lambda content: json.dumps(content)[:60],
)
def test_a_wrong_message_is_rejected_with_a_sentence_and_does_nothing(
    shared: Page, api: MessagesApi, content: dict[str, Any]
) -> None:
    api.requests.clear()
    before = len(shared.toasts)
    shared.wire.send(shared.comm_id, content)
    shared.wait_for(lambda: len(shared.toasts) > before)
    assert len(shared.toasts[-1]) < 500
    assert "reason of the program's own" not in shared.toasts[-1]
    assert not api.requests
    shared.wait_for(lambda: shared.state["busy"] is False)  # a panel looks busy while its session opens


@pytest.mark.parametrize(
    "image",
    [
        {"data": "PHN2Zz4=", "mimeType": "image/svg+xml"},
        {"data": "AAAA" * 1_700_000, "mimeType": "image/png"},
        {"data": base64.b64encode(b"no image").decode(), "mimeType": "image/png"},
        {"data": "no base64", "mimeType": "image/png"},
        {"mimeType": "image/png"},
        {"data": 1, "mimeType": {}},
    ],
    ids=lambda image: json.dumps(image)[:40],
)
def test_a_wrong_image_is_rejected_with_a_sentence_and_the_prompt_with_it(
    shared: Page, api: MessagesApi, image: dict[str, Any]
) -> None:
    api.requests.clear()
    before = len(shared.toasts)
    shared.prompt("what is it?", images=[image])
    shared.wait_for(lambda: len(shared.toasts) >= before + 2)
    assert "an image that was rejected" in shared.toasts[-2]
    assert "was not sent" in shared.toasts[-1]
    assert all(len(toast) < 500 for toast in shared.toasts[-2:])
    assert shared.state["composer"]["text"] == "what is it?"
    assert not api.requests


@pytest.fixture(scope="module")
def shared(kernel: Kernel) -> Iterator[Page]:
    """A panel for messages that change nothing."""
    wire = Wire(kernel)
    kernel.run("new_session()")
    yield show(kernel, wire)
    kernel.run("panels.pop().close()\nthread.call(session.close)")
    wire.close()


def test_of_a_long_conversation_the_newest_part_is_shown(kernel: Kernel, wire: Wire) -> None:
    cell = kernel.run(
        "new_session()\n"
        "for number in range(1000):\n"
        "    session.store.append_message(UserMessage(content=f'message {number}'))\n"
        "session.conversation.reload(session.store)\n"
    )
    assert cell.status == "ok", cell.error
    page = show(kernel, wire)
    page.wait_for(lambda: "message 999" in page.text)
    assert "message 800" in page.text
    assert "message 799" not in page.text
    assert page.text.startswith("800 earlier messages are not shown")
    assert len(page.blocks) == 201
    listed = list(rows(page))
    assert listed[0] == "500 earlier entries are not listed."
    assert listed[1:] == [f"message {number}" for number in range(500, 1000)]
    assert page.largest < 500_000


def test_a_history_of_long_messages_stays_small_enough_for_a_page(kernel: Kernel, wire: Wire) -> None:
    kernel.run(
        "new_session()\n"
        "for number in range(50):\n"
        "    session.store.append_message(UserMessage(content=f'message {number} ' + 'word ' * 10_000))\n"
        "session.conversation.reload(session.store)\n"
    )
    page = show(kernel, wire)
    page.wait_for(lambda: "message 49" in page.text)
    assert page.largest < 1_000_000
    assert "earlier messages are not shown" in page.text


def test_a_run_that_grows_long_pushes_its_beginning_out(
    kernel: Kernel, page: Page, wire: Wire, api: MessagesApi
) -> None:
    kernel.run("import indus_nb.front.notebook.panel.chat_panel as module\nmodule._MAX_BLOCKS = 10")
    try:
        api.add(*(Reply(f"Turn {turn}.", ToolUse("ls", {"path": f"gone-{turn}"})) for turn in range(20)), "The end.")
        page.prompt("look around")
        page.wait_until_idle("The end.")
        assert len(page.blocks) == 11
        assert page.text.startswith("What was said earlier is not shown any more.\n")
        assert "look around" not in page.text
        assert Page(wire, page.comm_id).text == page.text
    finally:
        kernel.run("module._MAX_BLOCKS = 600")


def test_what_is_wrong_with_extensions_is_told(kernel: Kernel, wire: Wire) -> None:
    folder = kernel.folder / ".indusagi" / "extensions"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "broken.py").write_text("import no_such_module\n")
    try:
        kernel.run("new_session(trust=True)")
        page = show(kernel, wire)
        page.wait_for(lambda: "no_such_module" in page.text)
    finally:
        (folder / "broken.py").unlink()


def test_commands_are_completed_and_carried_out(kernel: Kernel, wire: Wire, api: MessagesApi) -> None:
    prompts = kernel.folder / ".indusagi" / "prompts"
    prompts.mkdir(parents=True, exist_ok=True)
    (prompts / "greet.md").write_text("---\ndescription: Say hello\n---\nSay hello to $1.\n")
    kernel.run("new_session(trust=True)")
    page = show(kernel, wire)
    page.tell("complete", text="/gr")
    page.wait_for(lambda: page.state.get("completions"))
    (item,) = page.state["completions"]["items"]
    assert item == {"text": "/greet ", "label": "/greet", "detail": "Say hello", "whole": False}
    assert {"name": "greet", "description": "Say hello", "source": "prompt", "whole": False} in page.state["commands"]
    page.tell("complete", text="/new")
    page.wait_for(lambda: page.state["completions"]["text"] == "/new")
    assert page.state["completions"]["items"][0]["whole"] is True
    api.add("Hello, Ada.")
    page.prompt("/greet Ada")
    page.wait_until_idle("Hello, Ada.")
    assert said(api) == ["Say hello to Ada."]
    (prompts / "greet.md").unlink()
    prompts.rmdir()  # else those that come ask whether the project is trusted


def test_a_session_is_handed_over_as_a_page(page: Page, wire: Wire, api: MessagesApi) -> None:
    api.add("Noted.")
    page.prompt("my colour is blue")
    page.wait_until_idle("Noted.")
    page.tell("export")
    page.wait_for(lambda: page.downloads)
    (download,) = page.downloads
    assert download["html"].startswith("<!doctype html>")
    assert "my colour is blue" in download["html"]
    assert download["name"] == f"indusagi-session-{page.state['session']['id']}.html"
    assert not Page(wire, page.comm_id).downloads


def test_a_compaction_shows_the_summary_in_the_place_of_what_it_stands_for(
    kernel: Kernel, wire: Wire, api: MessagesApi
) -> None:
    kernel.run("new_session()\nsession.settings.compaction.keep_recent_tokens = 10")
    page = show(kernel, wire)
    api.add("Long ago. " + "blah " * 300, "Recently.")
    page.prompt("the first thing")
    page.wait_until_idle("Long ago.")
    page.prompt("the second thing")
    page.wait_until_idle("Recently.")
    gate = Gate()
    api.add(Reply(Text(gate, "They spoke of two things.")))
    page.tell("compact")
    page.wait_for(lambda: page.state["busy"])
    gate.open()
    page.wait_until_idle("They spoke of two things.")
    page.wait_for(lambda: "the first thing" not in page.text)
    assert not page.toasts


def test_a_compaction_of_too_little_says_so_once(page: Page, api: MessagesApi) -> None:
    api.requests.clear()
    page.tell("compact")
    page.wait_for(lambda: "nothing to compact yet" in page.text)
    page.settle()
    assert page.text.strip() == "There is nothing to compact yet: nobody has said anything."
    assert page.toasts == []
    assert api.requests == []


def test_a_panel_on_a_closed_session_says_so_and_lets_go_of_it(kernel: Kernel, page: Page, wire: Wire) -> None:
    page.settle()
    kernel.run("import gc, weakref\nghost = weakref.ref(session)\nthread.drive(session.end, Inbox(), lambda: None)\n")
    page.wait_for(lambda: "closed" in (page.state["warning"] or ""))
    page.prompt("hello?")
    page.wait_for(lambda: any("closed" in toast for toast in page.toasts))
    assert page.state["composer"]["text"] == "hello?"
    kernel.run("new_session()")
    show(kernel, wire).settle()  # until another session begins, the definitions of the process know the last one
    cell = kernel.run("gc.collect()\nprint(ghost() is None)")
    assert cell.streams == "True\n"


def test_a_closed_panel_leaves_the_session_as_it_is(kernel: Kernel, page: Page, wire: Wire, api: MessagesApi) -> None:
    other = show(kernel, wire)
    kernel.run("panels[0].close()")
    api.add("Still here.")
    other.prompt("hello?")
    other.wait_until_idle("Still here.")
    assert "Still here." not in page.text
    cell = kernel.run("print(len(session.publisher.listeners), len(session.ui._hosts))")
    assert cell.streams == "1 1\n"
