"""The HTML page of a session."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from indus_nb.errors import SessionFileError, UsageError
from indus_nb.messages import (
    AssistantMessage,
    BashExecutionMessage,
    Cost,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from indus_nb.render.session_page import export_html, page_name, session_page
from indus_nb.storage.store import SessionStore

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
HOSTILE = (
    "</pre></details></div><script>steal()</script><img src=x onerror=steal()> "
    "[link](javascript:steal()) ![pic](http://evil.example/p.png) <style>*{display:none}</style> \u202e \x1b[31m"
)


class Tags(HTMLParser):
    """Which elements and attributes a page has, and whether they are closed as they were opened."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.attributes: set[tuple[str, str | None]] = set()
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        self.attributes.update(attributes)
        if tag not in ("meta", "img", "br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def answer(*content: TextContent | ThinkingContent | ToolCall) -> AssistantMessage:
    usage = Usage(input=1000, output=50, total_tokens=1050, cost=Cost(total=0.0125))
    return AssistantMessage(content=list(content), api="a", provider="p", model="claude", usage=usage)


def user(text: str) -> UserMessage:
    return UserMessage(content=[TextContent(text=text)])


@pytest.fixture
def store(tmp_path: Path):
    with SessionStore.in_memory(tmp_path) as store:
        yield store


def test_a_page_shows_the_conversation_with_its_tools_images_and_price(store: SessionStore) -> None:
    store.append_message(user("Draw **it**"))
    call = ToolCall(id="1", name="edit", arguments={"path": "a.py"})
    store.append_message(answer(ThinkingContent(thinking="Hm."), TextContent(text="```python\nx = 1\n```"), call))
    image = ImageContent(data=PIXEL, mime_type="image/png")
    result = ToolResultMessage(
        tool_call_id="1", tool_name="edit", content=[TextContent(text="done"), image], details={"diff": "+1 x\n-2 y"}
    )
    store.append_message(result)
    store.append_message(BashExecutionMessage(command="ls", output="a.py\n", exit_code=0))
    store.append("session_info", name="A <drawing>")
    page = session_page(store)
    tags = Tags(page)
    assert tags.open == []
    assert {"details", "summary", "pre", "strong", "img"} <= tags.found
    assert ("src", f"data:image/png;base64,{PIXEL}") in tags.attributes
    for words in ("A &lt;drawing&gt;", "Thinking", "$0.0125", "1,000 tokens in, 50 out", "exit code 0", "a.py"):
        assert words in page, words
    assert "script" not in tags.found
    assert not re.search(r"(?:src|href)=.?https?:", page)


def test_other_branches_are_folded_where_they_begin_and_labels_are_shown(store: SessionStore) -> None:
    store.append_message(user("first"))
    fork_point = store.append_message(answer(TextContent(text="One.")))
    store.append_message(user("left"))
    store.append_message(answer(TextContent(text="Left answer.")))
    store.move_leaf(fork_point)
    store.append_message(user("right"))
    store.append("label", target_id=fork_point, label="the <fork>")
    page = session_page(store)
    branch = page.index("Another branch: left")
    assert page.index("One.") < branch < page.index("Left answer.") < page.index("right")
    assert "the &lt;fork&gt;" in page
    assert Tags(page).open == []


def test_hostile_text_is_shown_and_does_nothing(store: SessionStore) -> None:
    store.append_message(user(HOSTILE))
    call = ToolCall(id="1", name=HOSTILE, arguments={HOSTILE: HOSTILE})
    store.append_message(answer(ThinkingContent(thinking=HOSTILE), TextContent(text=HOSTILE), call))
    fake = ImageContent(data=PIXEL, mime_type='image/svg+xml"><script>')
    store.append_message(
        ToolResultMessage(
            tool_call_id="1", tool_name=HOSTILE, content=[TextContent(text=HOSTILE), fake], details={"diff": HOSTILE}
        )
    )
    store.append_message(answer(TextContent(text="x")).model_copy(update={"error_message": HOSTILE, "model": HOSTILE}))
    store.append_message(BashExecutionMessage(command=HOSTILE, output=HOSTILE))
    store.append("session_info", name=HOSTILE)
    store.append("label", target_id=store.entries[0].id, label=HOSTILE)
    store.append("compaction", summary=HOSTILE, first_kept_entry_id="x", tokens_before=1)
    store.append("branch_summary", summary=HOSTILE, from_id="x")
    tags = Tags(session_page(store))
    assert tags.open == []
    assert not {"script", "iframe", "object", "form"} & tags.found
    assert not [name for name, _ in tags.attributes if name.startswith("on")]
    assert not [value for name, value in tags.attributes if name == "href" and "javascript" in (value or "")]
    assert not [value for name, value in tags.attributes if name == "src" and not (value or "").startswith("data:")]
    assert "\u202e" not in session_page(store)


def test_a_long_conversation_needs_no_deep_recursion(store: SessionStore) -> None:
    for number in range(1500):
        store.append_message(user(f"message {number}"))
        store.move_leaf(None if number % 2 else store.leaf_id)
    assert session_page(store).count("<article") == 1500


def test_an_empty_session_and_a_bad_path_are_said_and_leave_nothing(store: SessionStore, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Nothing to export yet"):
        export_html(store, tmp_path / "page.html")
    store.append_message(user("hi"))
    (tmp_path / "folder").mkdir()
    with pytest.raises(SessionFileError, match="cannot be written"):
        export_html(store, tmp_path / "folder")
    assert export_html(store, tmp_path / "new" / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["folder", "new", "page.html"]


def test_an_id_from_a_file_cannot_lead_the_page_to_another_folder(tmp_path: Path) -> None:
    store = SessionStore.create(tmp_path, tmp_path / "sessions")
    store.append_message(user("Hello"))
    store.close()
    path = store.path
    assert path is not None
    assert page_name(store) == f"indusagi-session-{store.session_id}.html"
    path.write_text(path.read_text().replace(store.session_id, "/../../../evil"))
    hostile = SessionStore.open(path)
    assert hostile.session_id == "/../../../evil"
    assert Path(page_name(hostile)).name == page_name(hostile)
    hostile.close()
