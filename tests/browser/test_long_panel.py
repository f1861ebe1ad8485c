"""A panel with a thousand messages: how much of the page is touched when it opens, and when the user types."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bare_page import full_message, messages, open_panel, served
from playwright.sync_api import Page, expect

COUNT = 1_000
FILLED = "[...document.querySelectorAll('.ia-block')].filter((node) => node.firstChild).length"
WATCH = """() => {
    window.touched = 0;
    const watch = new MutationObserver((records) => { window.touched += records.length; });
    watch.observe(document.querySelector(".ia-area"), {subtree: true, childList: true, characterData: true});
}"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served() as address:
        yield address


@pytest.fixture
def panel(page: Page, address: str) -> Page:
    open_panel(page, address, full_message(messages(COUNT)))
    return page


def test_the_end_is_there_at_once_and_the_rest_follows_in_tasks_of_their_own(panel: Page) -> None:
    places, filled, last = panel.evaluate(
        f"""() => {{
            window.receive(window.full);
            const blocks = document.querySelectorAll(".ia-block");
            return [blocks.length, {FILLED}, blocks[blocks.length - 1].textContent];
        }}"""
    )
    assert places == COUNT
    assert 0 < filled < COUNT
    assert last.startswith(f"Part {COUNT - 1} ")
    panel.wait_for_function(f"{FILLED} === {COUNT}")
    texts = panel.locator(".ia-block").all_text_contents()
    assert [text for text in texts if text.startswith("Say")] == [
        f"Say what is odd about part {number}, in a few words." for number in range(0, COUNT, 4)
    ]
    assert panel.evaluate("(() => { const s = document.querySelector('.ia-scroll'); return s.scrollTop > 1000; })()")


def test_what_changes_before_a_block_is_there_is_shown_as_it_is_then(panel: Page) -> None:
    panel.evaluate("""() => {
        window.receive(window.full);
        window.receive({kind: "patch", n: 1, ops: [["put", "b0", "<p>Changed</p>"], ["drop", "b1"]]});
    }""")
    panel.wait_for_function(f"{FILLED} === {COUNT - 1}")
    expect(panel.locator(".ia-block").first).to_have_text("Changed")
    expect(panel.locator(".ia-block").nth(1)).to_contain_text("ls part-2")


def test_typing_touches_no_message_and_neither_does_waiting(panel: Page) -> None:
    panel.evaluate("() => window.receive(window.full)")
    panel.wait_for_function(f"{FILLED} === {COUNT}")
    panel.evaluate(WATCH)
    panel.get_by_label("Message").press_sequentially("Why is that so? /compact src/a")
    panel.wait_for_timeout(700)  # longer than the tick of a view
    assert panel.evaluate("window.touched") == 0


def test_text_far_above_is_found_by_a_search_in_the_page(panel: Page) -> None:
    panel.evaluate("() => window.receive(window.full)")
    panel.wait_for_function(f"{FILLED} === {COUNT}")
    assert panel.evaluate("window.find('odd about part 4,')")
