"""What models and tools wrote, as HTML and Markdown: it looks like it did, and does nothing."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser

import pytest
from hostile import HOSTILE
from work import cpu_stays_in_proportion, grows_with

from indus_nb.base.messages import Usage
from indus_nb.front.notebook.view import blocks
from indus_nb.render import markup
from indus_nb.render.markdown import rendition
from indus_nb.render.markup import markdown_html
from indus_nb.tools import describe_call
from indus_nb.tools.agents import agents_tool

STYLES = {*markup.STYLES.values()}


class Auditor(HTMLParser):
    """Collects what a page is made of, and checks that its elements are closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.links: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag not in ("br", "hr"):
            self.open.append(tag)
        for name, value in attrs:
            self.attributes.add((name, value or ""))
            if name == "href":
                self.links.append(value or "")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def everything_made_of(text: str) -> list[blocks.MimeBundle]:
    """Every kind of block, with ``text`` wherever a model, a tool or a server can put something."""
    cards = [
        blocks.Call(
            name=text,
            arguments={"command": text, text: text, "nested": {text: [text]}, "lines": f"{text}\n{text}"},
            state=state,
            output=text,
            diff=diff,
            seconds=1,
        )
        for state in ("writing", "running", "done", "failed", "not run")
        for diff in (None, f"+{text}\n-{text}\n {text}")
    ]
    return [
        blocks.answer(text),
        blocks.answer(f"- item\n\n  {text}\n\n> {text}\n\n# {text}"),
        blocks.thinking(text),
        blocks.thinking(text, growing=True),
        *map(blocks.call, cards),
        blocks.error(text),
        blocks.notice(text),
        blocks.waiting(text),
        blocks.usage(text, blocks.measures(Usage(input=1), 1), text),
        blocks.listing(text),
    ]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_hostile_becomes_markup_wherever_it_stands(text: str) -> None:
    for bundle in everything_made_of(text):
        page = Auditor(bundle["text/html"])
        assert page.tags <= markup._TAGS
        assert not page.open
        for name, value in page.attributes:
            assert name in {"href", "title", "rel", "start", "open", "style", "class"}, name
            if name == "style":
                assert value in markup._ALLOWED_STYLES
            if name == "class":
                assert value in markup._ALLOWED_CLASSES
        assert all(re.match(r"(https?://|mailto:)", link) for link in page.links), page.links
        assert "\x1b" not in bundle["text/plain"]
        assert "\x00" not in "".join(bundle.values())


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_has_neither_tags_nor_images_for_viewers_that_would_run_them(text: str) -> None:
    from markdown_it import MarkdownIt

    lenient = MarkdownIt("commonmark", {"html": True}).enable("table")
    for bundle in everything_made_of(text):
        for token in lenient.parse(bundle["text/markdown"]):
            kinds = {token.type, *(child.type for child in token.children or ())}
            assert not kinds & {"html_block", "html_inline", "image"}, bundle["text/markdown"]


IMAGE = "<img src=x onerror=window.hacked=1>"


@pytest.mark.parametrize(
    "before",
    [
        "```",
        "~~~~ x",
        "  ```\nx",
        "- item",
        "- ```\nx",
        "1. a\n\n   ~~~",
        "> ```",
        "    code",
        "$$",
        "$$\n```\n$$",
        "<!--",
        "`",
    ],
)
@pytest.mark.parametrize(
    "text",
    [
        f"```\n{IMAGE}\n```",
        f"  ```\n{IMAGE}\n  ```",
        f"~~~\n{IMAGE}",
        f"    {IMAGE}",
        f"\t{IMAGE}",
        f"$$\n```\n$$\n```\n{IMAGE}\n```",
        f"- ```\n{IMAGE}\n```",
    ],
)
def test_markdown_is_as_harmless_below_other_markdown(before: str, text: str) -> None:
    from markdown_it import MarkdownIt
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    above = [blocks.answer(before), blocks.user_message(before), blocks.thinking(before), blocks.notice(before)]
    below = [
        blocks.answer(text),
        blocks.user_message(text),
        blocks.thinking(text),
        blocks.call(blocks.Call("bash", {"a": text})),
    ]
    for viewer in (MarkdownIt("commonmark"), MarkdownIt("commonmark").use(dollarmath_plugin)):
        for first in above:
            for second in below:
                page = f"{first['text/markdown']}\n\n{second['text/markdown']}"
                assert "<img" not in viewer.render(page), page


def test_a_name_and_an_argument_cannot_make_a_code_span_between_them() -> None:
    from markdown_it import MarkdownIt

    card = blocks.call(blocks.Call("a`", {"command": f"x ` {IMAGE} "}))
    assert "<img" not in MarkdownIt("commonmark").render(card["text/markdown"])


def test_half_characters_can_be_shown_and_sent() -> None:
    for bundle in everything_made_of("a\ud83d"):
        assert "a\ufffd" in bundle["text/html"]
        assert all(text.encode() for text in bundle.values())
    assert "\ufffd" in blocks.call(blocks.Call("python", {"code": "x = '\ude00'"}))["text/html"]


def test_text_that_looks_like_markup_is_shown_as_it_was_written() -> None:
    shown = Auditor(blocks.answer("if a <b> c, then <script>x</script> & `<i>`")["text/html"]).text
    assert shown.strip() == "if a <b> c, then <script>x</script> & <i>"
    output = blocks.call(blocks.Call("bash", {}, state="done", output="<b>bold</b> &amp;"))["text/html"]
    assert "<b>bold</b> &amp;" in Auditor(output).text


def test_links_to_the_web_stay_and_cannot_reach_back() -> None:
    page = blocks.answer("[docs](https://example.org/a?b=1&c=2) <https://example.org> [mail](mailto:a@example.org)")
    assert Auditor(page["text/html"]).links == [
        "https://example.org/a?b=1&c=2",
        "https://example.org",
        "mailto:a@example.org",
    ]
    assert page["text/html"].count('rel="noopener noreferrer"') == 3


def test_an_image_becomes_a_link_that_is_loaded_only_when_clicked() -> None:
    page = Auditor(blocks.answer("![a chart](https://example.org/chart.png)")["text/html"])
    assert "img" not in page.tags
    assert page.links == ["https://example.org/chart.png"]
    assert "a chart" in page.text


def test_tables_lists_and_emphasis_are_drawn() -> None:
    page = Auditor(blocks.answer("| a | b |\n|---|---|\n| 1 | ~~2~~ |\n\n3. *x*\n4. **y**")["text/html"])
    assert {"table", "td", "s", "ol", "li", "em", "strong"} <= page.tags
    assert ("start", "3") in page.attributes


def test_code_is_coloured_and_keeps_its_text() -> None:
    code = 'def f(x):  # half\n    return f"{x}" + "<b>"\n'
    page = blocks.answer(f"```python\n{code}```")["text/html"]
    assert page.count("<span") == 4
    assert "<b>def</b>" in page
    assert "<em># half</em>" in page
    assert Auditor(page).text.strip() == code.strip()


@pytest.mark.parametrize("info", ["", "no-such-language", "python title=x"])
def test_code_of_any_language_keeps_its_text(info: str) -> None:
    page = blocks.answer(f"```{info}\na < b\n```")["text/html"]
    assert Auditor(page).text.strip() == "a < b"


def test_dollar_signs_in_prose_cannot_meet_and_form_a_formula_but_formulas_stay_whole() -> None:
    page = blocks.answer("it costs $5 or $10, as $a_1 * b_2$ and `$x$`")["text/html"]
    assert "<span>$</span>5 or <span>$</span>10" in page
    assert "$a_1 * b_2$" in page


def test_long_text_is_cut_in_the_middle_and_says_so() -> None:
    text = markup.cut("\n".join(map(str, range(10_000))))
    assert text.startswith("0\n1\n")
    assert text.endswith("\n9999")
    assert "[... 9,880 lines left out ...]" in text
    assert len(markup.cut("x" * 10**6)) < 13_000


@pytest.mark.parametrize(
    "part",
    ["word " * 8 + "\n\n", "- item\n", "x" * 70 + "\n", "y" * 90, "| a | b |\n", "```\ncode\n```\n\n", "> quote\n\n"],
)
def test_a_growing_answer_is_split_without_losing_or_repeating_anything(part: str) -> None:
    text, rest, heads = "", "", []
    while len(text) < 40_000:
        more = part * (500 // len(part))
        text += more
        rest += more
        while True:
            head, rest = markup.split_answer(rest)
            if not head:
                break
            heads.append(head)
        assert len(rest) <= 12_000 + 500
    assert "".join(heads) + rest == text
    assert len(heads) >= 3


@pytest.mark.parametrize("sentence", ["The mean of this group is larger than that of all others! ", "平均值更大。"])
def test_a_long_paragraph_is_cut_after_a_sentence(sentence: str) -> None:
    head, rest = markup.split_answer(sentence * 1_000, soft=0, hard=2_000)
    assert head == sentence * (len(head) // len(sentence))
    assert rest.startswith(sentence)


def test_a_long_block_of_code_is_continued_in_a_block_of_code() -> None:
    code = "".join(f"line {number}\n" for number in range(5_000))
    rest, heads = f"```python\n{code}```\n\nThe end.", []
    while (split := markup.split_answer(rest))[0]:
        heads.append(split[0])
        rest = split[1]
    pages = [Auditor(blocks.answer(piece)["text/html"]) for piece in [*heads, rest]]
    assert all("pre" in page.tags for page in pages)
    assert "".join(page.text for page in pages).count("line ") == 5_000
    assert pages[-1].text.endswith("line 4999\nThe end.\n")


def test_a_long_table_is_continued_in_a_table() -> None:
    rest, pieces = "| a | b |\n|---|---|\n" + "".join(f"| {n} | x |\n" for n in range(5_000)) + "\nThe end.", []
    while (split := markup.split_answer(rest))[0]:
        pieces.append(split[0])
        rest = split[1]
    pages = [Auditor(blocks.answer(piece)["text/html"]) for piece in [*pieces, rest]]
    assert len(pages) > 3
    assert all("td" in page.tags for page in pages[:-1])
    assert "|" not in "".join(page.text for page in pages)
    assert "".join(page.text for page in pages).split().count("x") == 5_000
    assert pages[-1].text.endswith("The end.\n")


@pytest.mark.parametrize("block", ["word and more\n", "```\n" + "code\n" * 100, "| 1 | 2 |\n", "\n", "x"])
def test_what_comes_all_at_once_is_split_with_work_in_proportion_to_its_length(block: str) -> None:
    def split_all(length: int) -> None:
        rest = "| a | b |\n|---|---|\n" * (block[0] == "|") + block * (length // len(block))
        while (split := markup.split_answer(rest, soft=0, hard=2_000))[0]:
            assert len(split[0]) <= 4_000
            rest = split[1]
        assert len(rest) <= 4_000

    assert grows_with(30_000, split_all) < 2.2


def test_blocks_of_code_and_lists_are_not_torn_apart_while_they_grow() -> None:
    text = "Intro.\n\n" + "para " * 700 + "\n\n```python\nx = 1\n\ny = 2\n"
    head, rest = markup.split_answer(text)
    assert rest == "```python\nx = 1\n\ny = 2\n"
    assert head + rest == text
    numbered = "para " * 700 + "\n\n1. one\n\n2. two\n\n3."
    assert markup.split_answer(numbered)[1] == "1. one\n\n2. two\n\n3."


@pytest.mark.parametrize("piece", ["[", "`", "\x1b]", "*a ", "<", "$"])
def test_hostile_lengths_are_work_in_proportion(piece: str) -> None:
    def show(length: int) -> None:
        text = piece * (length // len(piece))
        for bundle in (blocks.answer(text), blocks.call(blocks.Call("bash", {"command": text}, output=text))):
            assert bundle["text/html"]

    assert cpu_stays_in_proportion(12_500, show)


@pytest.mark.parametrize("info", ["autohotkey", "make", "scala", "cfengine3", "gherkin", *markup._LANGUAGES])
def test_code_that_is_made_to_keep_a_lexer_busy_does_not(info: str) -> None:
    for part in ("a\n ", "\n ", "a\n", "aA:", "((a"):
        for length in (1_998, 9_999):
            began = time.thread_time()
            shown = markup.highlighted(part * (length // len(part)), info)
            assert time.thread_time() - began < 2
            assert Auditor(shown).text.split() == (part * (length // len(part))).split()


def test_a_difference_is_coloured_as_code_within_its_lines() -> None:
    shown = markup.coloured_diff("1 of 2 · new\n 7 x = 1\n-8 def f(): pass\n+8 def g(): pass\n+9 \n", "python")
    assert Auditor(shown).text == "1 of 2 · new\n 7 x = 1\n-8 def f(): pass\n+8 def g(): pass\n+9 \n"
    assert shown.count("<b>def</b>") == 2
    assert "<b>1 of 2 · new</b>" in shown
    assert [shown.count(markup.STYLES[style]) for style in ("added", "removed")] == [1, 1]


def test_a_call_shows_its_main_argument_in_the_title_and_the_others_below() -> None:
    call = blocks.Call(
        "grep", {"pattern": "x+", "path": "src", "limit": 5}, state="done", output="a:1: x", seconds=0.25
    )
    bundle = blocks.call(call)
    assert bundle["text/plain"] == "✓ grep  src  (0.2 s)\n  pattern: x+\n  limit: 5\n  a:1: x"
    assert bundle["text/markdown"].startswith("✓ **grep** `src` · 0.2 s")


def test_a_call_with_a_diff_shows_it_instead_of_the_texts_to_replace() -> None:
    call = blocks.Call(
        "edit", {"path": "a.py", "edits": [{"oldText": "1"}]}, state="done", output="ok", diff="-1 a\n+1 b"
    )
    bundle = blocks.call(call)
    assert "oldText" not in bundle["text/html"]
    assert markup.STYLES["added"] in bundle["text/html"]
    assert "```diff\n-1 a\n+1 b\n```" in bundle["text/markdown"]


def test_output_cannot_break_out_of_its_fence_in_markdown() -> None:
    bundle = blocks.call(blocks.Call("bash", {"command": "x`y"}, state="done", output="```\n# not a heading\n````"))
    assert bundle["text/markdown"].endswith("`````text\n```\n# not a heading\n````\n`````")
    assert "`x`&#96;`y`" in bundle["text/markdown"]


def test_long_output_is_folded_away_and_failures_stay_open() -> None:
    long = "\n".join(map(str, range(100)))
    assert "<details>" in blocks.call(blocks.Call("read", {"path": "a"}, state="done", output=long))["text/html"]
    assert "<details open" in blocks.call(blocks.Call("read", {"path": "a"}, state="failed", output=long))["text/html"]
    assert "<details open" in blocks.call(blocks.Call("ls", {}, state="done", output="a\nb"))["text/html"]


def test_every_bundle_says_the_same_in_three_forms() -> None:
    for bundle in everything_made_of("plainly said"):
        assert set(bundle) == {"text/html", "text/markdown", "text/plain"}
        assert all("plainly said" in form for form in bundle.values())


@pytest.mark.parametrize(
    ("text", "html", "markdown"),
    [
        (r"Let \(x_1\) be", "<p>Let $x_1$ be</p>", "Let $x_1$ be"),
        (r"so \[ a\,b = \tfrac12 \] is", r"<p>so $$ a\,b = \tfrac12 $$ is</p>", r"so $$a\,b = \tfrac12$$ is"),
        ("so\n\\[\na\n- b\n\\]\nis", "<p>so</p>\n<div>$$\na\n- b\n$$</div><p>is</p>", "so\n\n$$a - b$$\n\nis"),
        ("> \\[ a\n> = b \\]", "<blockquote>\n<div>$$ a\n= b $$</div></blockquote>", "> $$a = b$$"),
        (r"see \[1\]", "<p>see [1]</p>", "see &#91;1&#93;"),
        (r"\[x_1\](http://a.example)", "<p>[x_1](http://a.example)</p>", None),
        (r"\(costs $5\)", "<p>(costs <span>$</span>5)</p>", None),
        (r"\[ without an end", "<p>[ without an end</p>", None),
        (r"`\(a\)`", r"<p><code>\(a\)</code></p>", None),
    ],
)
def test_formulas_in_brackets_are_formulas(text: str, html: str, markdown: str | None) -> None:
    assert markdown_html(text).strip() == html
    assert markdown is None or rendition(text) == markdown


def test_tasks_have_boxes() -> None:
    text = "- [ ] one\n- [x] two\n- [link](http://a.example)\n\n[ ] three"
    shown = markdown_html(text)
    assert "<li>☐ one</li>\n<li>☑ two</li>" in shown
    assert ">link</a></li>" in shown
    assert "<p>[ ] three</p>" in shown
    assert rendition(text).startswith("- ☐ one\n- ☑ two\n")


@pytest.mark.parametrize("piece", ["\\(", "\\[", "\\[\n", "> \\[\n", "\\[ a\n"])
def test_formulas_that_never_end_are_looked_for_once(piece: str) -> None:
    assert grows_with(1_000, lambda length: markdown_html(piece * length)) < 2.5


def test_the_card_of_agents_lists_their_tasks() -> None:
    arguments = {"tasks": [{"title": "Read", "prompt": "Read all.\nTwice."}, {"title": "Count", "prompt": "Count."}]}
    described = describe_call("agents", arguments, {"agents": agents_tool(None, [])})
    shown = blocks.call(blocks.Call("agents", arguments, state="done", described=described))["text/plain"]
    assert "1. Read:\n    Read all.\n    Twice.\n  2. Count: Count." in shown
    assert "{" not in shown


def test_the_folded_line_of_a_call_that_failed_says_its_error_and_not_the_note_below_that() -> None:
    note = "[It ran in a copy of the kernel: ax is not kept: only a cell that the user runs keeps it.]"
    failed = blocks.Call(
        "python",
        {"code": "1 / 0"},
        state="failed",
        folded=True,
        output=f"ZeroDivisionError: division by zero\n\n{note}",
    )
    line = blocks.call(failed)["text/html"].partition("</summary>")[0]
    assert "ZeroDivisionError: division by zero" in line
    assert "only a cell" not in line
