"""The HTML page of a session."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from work import grows_with

from indus_nb.base.errors import SessionFileError, UsageError
from indus_nb.base.messages import (
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
from indus_nb.core.storage.store import SessionStore
from indus_nb.render.session_page import export_html, page_name, session_page

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
    for words in (
        "A &lt;drawing&gt;",
        "Thinking",
        "$0.0125",
        "1,000 tokens in, 50 out",
        "exit code 0",
        "a.py",
        "+1 \N{MINUS SIGN}1",
    ):
        assert words in page, words
    assert "script" not in tags.found
    assert not re.search(r"(?:src|href)=.?https?:", page)


def shown_code(page: str) -> list[str]:
    """The blocks of code of a page, as a reader sees them."""
    blocks = re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL)
    return [unescape(re.sub(r"<[^>]*>", "", block)) for block in blocks]


def test_a_call_is_shown_once_with_its_code_and_what_it_changed(store: SessionStore) -> None:
    code = "total = sales['units'].sum()\nprint(total)"
    store.append_message(user("How many?"))
    store.append_message(answer(ToolCall(id="1", name="python", arguments={"code": code, "timeout": 5})))
    details = {"code": code, "executionSeconds": 2.04, "changed": "total new"}
    content = [TextContent(text="1200")]
    store.append_message(ToolResultMessage(tool_call_id="1", tool_name="python", content=content, details=details))
    page = session_page(store)
    assert shown_code(page) == [f"{code}\n", "timeout: 5", "1200"]
    assert "Changed: total new" in page.rpartition("</pre>")[2]
    assert "2.0 s" in page
    assert r"\n" not in page


@pytest.mark.parametrize("seconds", ["1e999", "-1e999", "NaN", "1" + "0" * 400, '"2"'])
def test_a_time_that_is_none_keeps_no_session_from_being_exported(tmp_path: Path, seconds: str) -> None:
    store = SessionStore.create(tmp_path, tmp_path)
    store.append_message(user("How many?"))
    store.append_message(answer(ToolCall(id="1", name="python", arguments={"code": "1"})))
    details = {"code": "1", "executionSeconds": "SECONDS"}
    store.append_message(ToolResultMessage(tool_call_id="1", tool_name="python", content=[], details=details))
    assert store.path is not None
    text = store.path.read_text()
    assert text.count('"SECONDS"') == 1
    store.close()
    store.path.write_text(text.replace('"SECONDS"', seconds))
    again = SessionStore.open(store.path)
    assert "How many?" in session_page(again)
    again.close()


def test_a_page_has_one_header_for_an_answer_however_many_calls_it_took(store: SessionStore) -> None:
    store.append_message(user("Look around"))
    for number in range(3):
        store.append_message(answer(ToolCall(id=f"{number}", name="bash", arguments={"command": f"echo {number}"})))
        content = [TextContent(text=f"{number}")]
        failed = number == 2
        store.append_message(
            ToolResultMessage(tool_call_id=f"{number}", tool_name="bash", content=content, is_error=failed)
        )
    store.append_message(answer(TextContent(text="That is all.")))
    page = session_page(store)
    assert [unescape(title).split(" · ")[0] for title in re.findall("<h2>(.*?)</h2>", page)] == ["User", "claude"]
    assert "4,000 tokens in, 200 out" in page
    assert "<summary" in page
    assert page.index("3 steps · 1 failed") < page.index("echo 0") < page.index("That is all.")


def test_a_page_shows_what_the_user_refused_as_that(store: SessionStore) -> None:
    store.append_message(user("Look around"))
    for number, details in enumerate(({"refusedByUser": True}, None)):
        store.append_message(answer(ToolCall(id=f"{number}", name="bash", arguments={"command": f"echo {number}"})))
        store.append_message(
            ToolResultMessage(tool_call_id=f"{number}", tool_name="bash", content=[], details=details, is_error=True)
        )
    assert "2 steps · 1 failed · 1 refused" in session_page(store)


def test_what_was_called_on_another_branch_or_never_answered_is_shown(store: SessionStore) -> None:
    store.append_message(user("Go"))
    store.append_message(answer(ToolCall(id="1", name="bash", arguments={"command": "sleep 9"})))
    store.append_message(
        ToolResultMessage(tool_call_id="elsewhere", tool_name="read", content=[TextContent(text="some text")])
    )
    page = session_page(store)
    assert "not run" in page
    assert "some text" in page


def test_nothing_of_a_long_output_is_left_out(store: SessionStore) -> None:
    output = "\n".join(f"line {number}" for number in range(2000))
    store.append_message(user("Go"))
    store.append_message(answer(ToolCall(id="1", name="bash", arguments={"command": "seq"})))
    store.append_message(ToolResultMessage(tool_call_id="1", tool_name="bash", content=[TextContent(text=output)]))
    assert shown_code(session_page(store)) == [output]


def test_tables_keep_their_sides_and_formulas_what_was_typed(store: SessionStore) -> None:
    store.append_message(user("Tell me"))
    store.append_message(
        answer(TextContent(text="| a | b |\n|---|---:|\n| x | 1 |\n\nLet $x_1$ be\n\n\\[ \\int_0^1 x\\,dx \\]"))
    )
    page = session_page(store)
    assert '<td style="text-align:left">x</td>' in page
    assert '<td style="text-align:right">1</td>' in page
    assert '<math display="inline" alttext="x_1"><mrow><msub><mi>x</mi><mn>1</mn></msub></mrow></math>' in page
    assert '<math display="block" alttext=" \\int_0^1 x\\,dx ">' in page


@pytest.mark.parametrize(
    "latex",
    [
        r"\unknown{x}",
        r"\frac{a",
        "{" * 1000,
        r"\frac{" * 400 + "x" + "}{y}" * 400,
        r"\sqrt" * 700 + "x",
        "x+" * 1600,
    ],
)
def test_a_formula_that_cannot_be_drawn_stays_what_was_typed(store: SessionStore, latex: str) -> None:
    store.append_message(user("Tell me"))
    store.append_message(answer(TextContent(text=f"Let $$ {latex} $$ be")))
    page = session_page(store)
    assert "<math" not in page
    assert f"$$ {latex} $$" in page


def test_the_brackets_of_a_matrix_are_as_high_as_it(store: SessionStore) -> None:
    store.append_message(user("Tell me"))
    store.append_message(answer(TextContent(text=r"$$A = \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}$$")))
    page = session_page(store)
    assert '<mo form="prefix" stretchy="true">(</mo><mtable>' in page
    assert '</mtable><mo form="postfix" stretchy="true">)</mo>' in page


def test_a_formula_brings_no_links_styles_or_tags_of_its_own(store: SessionStore) -> None:
    latex = r"\href{javascript:alert(1)}{x} \style{color:red}{y} \class{a}{z} \text{</math><script>}"
    store.append_message(user("Tell me"))
    store.append_message(answer(TextContent(text=f"Let ${latex}$ be")))
    (drawn,) = re.findall(r"<math.*?</math>", session_page(store))
    elements = drawn.partition(">")[2]
    assert "<mi>x</mi>" in elements
    assert "&lt;script&gt;" in elements
    for unwanted in ("href", "javascript", "color", "class", "<script"):
        assert unwanted not in elements


def test_formulas_of_a_page_are_drawn_up_to_a_size_of_all(store: SessionStore) -> None:
    store.append_message(user("Tell me"))
    text = "\n\n".join(f"$$x_{{{number}}} + {'y' * 2000}$$" for number in range(120))
    store.append_message(answer(TextContent(text=text)))
    page = session_page(store)
    assert 50 < page.count("<math") < 120
    assert "$$x_{119} + y" in page


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


@pytest.mark.parametrize("shape", ["beside each other", "within each other"])
def test_very_many_branches_make_a_page_of_bounded_size_and_depth(store: SessionStore, shape: str) -> None:
    fork_point = first = store.append_message(user("first"))
    for number in range(3000):
        store.move_leaf(fork_point)
        inner = store.append_message(user(f"left {number}"))
        if shape == "within each other":
            store.move_leaf(fork_point)
            store.append_message(user(f"right {number}"))
            fork_point = inner
    store.move_leaf(first)
    store.append_message(user("last"))
    page = session_page(store)
    assert page.count("<details") <= 1000
    assert page.index("first") < page.index("last")
    assert " more branches are not shown here" in page
    deepest = depth = 0
    for end in re.findall("<(/?)details", page):
        depth += -1 if end else 1
        deepest = max(deepest, depth)
    assert deepest <= 8
    assert Tags(page).open == []


@pytest.mark.parametrize("looks", ["start", "end"])
def test_the_title_of_a_branch_is_found_without_a_look_at_all_of_it(store: SessionStore, looks: str) -> None:
    def page(size: int) -> None:
        grown = SessionStore.in_memory(store.cwd)
        grown.append_message(user("first"))
        for _ in range(size):
            before = grown.leaf_id
            grown.append("custom", custom_type="x", data=1)
            inner = grown.leaf_id
            grown.move_leaf(before)
            grown.append("custom", custom_type="x", data=1)
            grown.move_leaf(inner if looks == "start" else grown.leaf_id)
        session_page(grown)

    assert grows_with(2000, page) < 2.6


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
    store.append_message(answer(TextContent(text="x")).replace(error_message=HOSTILE, model=HOSTILE))
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
