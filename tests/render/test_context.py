"""What the model was told besides a prompt, as a line that unfolds."""

from __future__ import annotations

import re
from html import unescape

import pytest

from indus_nb.base.events import MessageEnd
from indus_nb.base.messages import AssistantMessage, CustomMessage, TextContent, UserMessage, going_along
from indus_nb.core.storage.store import SessionStore
from indus_nb.front.notebook.view.transcript import Transcript
from indus_nb.render.context import context
from indus_nb.render.session_page import session_page
from indus_nb.render.writers import as_html, as_text, bundle

TEXT = "The user ran these cells since the last message:\n\nCell [3]:\n```python\nprice = '$5 <b>'\n```"


def told(text: str = TEXT, **details: object) -> CustomMessage:
    return CustomMessage(custom_type="cells", content=text, display=False, details=details)


def shown_text(html: str) -> str:
    found = re.search(r"<pre[^>]*>(.*?)</pre>", html, re.DOTALL)
    assert found is not None
    return unescape(found[1])


def test_it_is_one_line_that_unfolds_to_the_very_text() -> None:
    shown = bundle(context(told(toldCells=2, toldVariables=1)))
    assert shown["text/plain"] == "Context · 2 cells, 1 variable, about 23 tokens"
    assert shown["text/markdown"] == "*Context · 2 cells, 1 variable, about 23 tokens*"
    assert shown["text/plain"] in shown["text/html"].split("</summary>")[0]
    assert "<details open" not in shown["text/html"]
    assert shown_text(shown["text/html"]) == TEXT


def test_profiles_of_data_are_counted() -> None:
    shown = as_text(context(told(toldVariables=2, toldProfiles=1)))
    assert shown == "Context · 2 variables, 1 profile, about 23 tokens"


@pytest.mark.parametrize("details", [{}, {"toldCells": 0, "toldVariables": "many"}, {"toldCells": -1}])
def test_what_is_not_known_of_a_file_is_left_out(details: dict[str, object]) -> None:
    assert as_text(context(told(**details))) == "Context · about 23 tokens"


def test_as_much_as_is_ever_told_is_shown_whole() -> None:
    text = "a\n" * 4000 + "b" * 2000
    assert shown_text(as_html(context(told(text)))) == text


def test_it_stands_above_the_answer_in_cells_panels_and_exported_pages(tmp_path) -> None:
    answer = AssistantMessage(content=[TextContent(text="It is odd.")], api="a", provider="p", model="m")
    messages = [told(toldCells=2), UserMessage(content="Why?"), answer]
    panel = Transcript("M", whole=True)
    panel.add_history(messages)
    titles = [getattr(block, "shown", {}).get("text/plain", "the answer") for block in panel.blocks]
    assert titles == ["> Why?", "Context · 2 cells, about 23 tokens", "the answer", "m"]
    store = SessionStore.in_memory(tmp_path)
    for message in messages:
        store.append_message(message)
    page = session_page(store)
    assert page.index("Context · 2 cells") < page.index("Why?</p>") < page.index("It is odd.")
    assert TEXT in unescape(page)


def test_what_goes_along_with_words_is_folded_beside_them(tmp_path) -> None:
    along = going_along("the failed cell", TEXT)
    asked = UserMessage(content="Fix this error", attachments=[along])
    panel = Transcript("M", whole=True)
    panel.add_history([told(toldCells=2), asked])
    titles = [getattr(block, "shown", {}).get("text/plain") for block in panel.blocks]
    context_line = "Context · the failed cell, about 23 tokens"
    assert titles == ["> Fix this error", "Context · 2 cells, about 23 tokens", context_line]
    cell = Transcript("M")
    cell.feed(MessageEnd(message=asked))
    assert [getattr(block, "shown", {}).get("text/plain") for block in cell.blocks] == [context_line]
    store = SessionStore.in_memory(tmp_path)
    store.append_message(asked)
    page = session_page(store)
    assert page.index(context_line) < page.index("Fix this error</p>")
    assert TEXT in unescape(page)


def test_a_prompt_with_which_nothing_was_told_has_none() -> None:
    panel = Transcript("M", whole=True)
    panel.add_history([told(), UserMessage(content="Why?"), UserMessage(content="And now?")])
    titles = [getattr(block, "shown", {}).get("text/plain") for block in panel.blocks]
    assert titles == ["> Why?", "Context · about 23 tokens", "> And now?"]
