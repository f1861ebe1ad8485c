"""The Markdown of a saved notebook, in every viewer: no image, no tag, and no link that its HTML does not have."""

from __future__ import annotations

import random

import pytest
from hostile import HOSTILE
from viewers import VIEWERS, Found, in_jupyterlab, links
from work import counting_work, cpu_stays_in_proportion, grows_with

from indus_nb.front.notebook.view import blocks
from indus_nb.render import markdown, markup

SEED = 13
COUNT = 600
IMAGE = "![x](http://host/?data)"
TRICKS = {
    "a fence between dollar signs on lines of their own": f"$\n```\n$\n{IMAGE}\n```\n",
    "a fence between double dollar signs": f"$$\n```\n$$\n{IMAGE}\n```\n",
    "a fence in a list": f"- ```\n  $\n- ```\n$ {IMAGE}\n```",
    "a fence in a quote": f"> ```\n> $\n{IMAGE}\n> $\n> ```",
    "code that begins a formula": f"`$$` and\n\n```\n$$\n{IMAGE}\n```",
    "code with a dollar sign behind a formula": f"$5 and `$ {IMAGE}` and $",
    "a formula that opens an environment": f"$\\begin{{a}}$\n\n```\n\\end{{a}}\n{IMAGE}\n```",
    "code that opens an environment": f"`\\begin{{a}}`\n\n```\n\\end{{a}}\n{IMAGE}\n```",
    "code that opens a displayed formula": f"`\\\\[` x\n\n```\n\\\\]\n{IMAGE}\n```",
    "a formula that is an image": f"${IMAGE}$",
    "a displayed formula that is an image": f"$$\n{IMAGE}\n$$",
    "a formula that defines a reference": "$$\n[x]: http://host/ \n$$\n\n[x] ![x]",
    "a formula that is a tag": "$<img src=http://host/>$",
    "a formula behind a backslash": f"\\\\$x ```$\n```\n$ {IMAGE}",
    "code over two lines": f"`a\n{IMAGE}`",
    "code that is never closed": f"`` {IMAGE} `",
    "indented code": f"    {IMAGE}\n\n\t{IMAGE}",
    "an exclamation mark before a link": "!\\[x](http://host/) \\![x](http://host/)",
    "an escaped link": "\\[x](http://host/) [x\\](http://host/)",
    "references in code": "[y]\n\n- `x`\n\n      [y]: http://host/",
    "an escaped character of a protocol": "[x](&#106;avascript:a) [x](java&Tab;script:a) <jav&#x61;script:a>",
    "an encoded character of a protocol": "[x](javascript%3Aa) [x](\x01javascript:a) [x](JAVASCRIPT&colon;a)",
    "data": "[x](data:text/html,<script>a</script>) ![x](data:image/svg+xml;base64,PHN2Zz4=)",
    "a file": "[x](file:///etc/passwd) <file:///etc/passwd> ![x](file:///etc/passwd)",
    "a link without a protocol": "[x](//host) ![x](//host/x.png) [x](\\\\host\\share)",
    "a title that ends the link": '[x](http://a.example "t\\" onclick=b") [x](http://a.example \'t"\') ',
    "an address that ends the link": "[x](<http://a.example/) ![y](http://host/>) [x](<http://a.example/ b>)",
    "an address with signs": "[x](http://a.example/*_~`$|^{}'\"!?a=1&copy=2&#41;#\\*)",
    "bare addresses": "http://host/x www.host.example ftp://host/x //host.example/x host.example a@host.example",
    "bare addresses without a host": "http:///host.example https://[::1]/ http://1.2.3.4/x 1.2.3.4",
    "an address of mail": "mailto:a@host.example xmpp:a@host.example ;@host.example",
    "tags over lines": "<img\nsrc=http://host/>\n\n<a\nhref=http://host/>x</a>",
    "a block of tags": f"<div>\n\n{IMAGE}\n\n</div>\n\n<pre>\n{IMAGE}\n</pre>",
    "a comment": f"<!-- `{IMAGE}` -->\n\n```\n-->\n{IMAGE}\n```",
    "a table with code in it": f"| a | b |\n|---|---|\n| `x | {IMAGE}` | y |",
    "a table with an escaped bar": f"| a | b |\n|---|---|\n| `\\|` `{IMAGE}` | $\\|$ |",
    "a footnote": f"x[^1] ^[{IMAGE}]\n\n[^1]: {IMAGE}",
    "an abbreviation": f"*[x]: {IMAGE}\n\nx",
    "a definition": f"x\n: {IMAGE}\n",
    "front matter": f"---\nimage: http://host/\n---\n{IMAGE}",
    "a directive": "```{image} http://host/x.png\n```\n\n{image}`http://host/x.png` {download}`x <http://host>`",
    "a diagram": '```mermaid\ngraph LR\nclick a href "http://host"\n```\n\n~~~ geojson\n{}\n~~~',
    "a wiki's link": "[[http://host]] [[x|http://host]] ![[http://host/x.png]]",
    "attributes": "x{: style='background:url(http://host)'} [x]{href=http://host} {.a onclick=b}",
    "a formula's link": "\\(\\href{http://host}{x}\\) and $5 \\href{http://host}{x} $6",
    "marks that viewers use themselves": f"@@0@@ $x$ @@1@@ ~D```~D~T `@@0@@` {IMAGE}",
    "other ends of lines": f"```\u2028{IMAGE}\u2028``` `\x85{IMAGE}` `\x0c{IMAGE}\x0b`\r```\r{IMAGE}",
    "invisible characters": f"`\u200b`` {IMAGE} \u2060` \ufeff```\n{IMAGE}\n```",
    "a lazy quote": f"> ```\n{IMAGE}\n\n> - ```\n{IMAGE}",
    "a heading over code": f"`a\n===\n{IMAGE}`\n---",
    "a list in a list": f"1. - 3) ```\n{IMAGE}\n   ```\n2. {IMAGE}",
    "a file whose name ends a fence": "``` b",
    "a file that is a diagram": "mermaid",
    "deep quotes": "> " * 60 + IMAGE,
    "deep lists": "".join(f"{'  ' * depth}- x\n" for depth in range(60)) + IMAGE,
    "deep brackets": "![" * 60 + "x" + "](http://host/)" * 60,
}
CORPUS = {**TRICKS, **{f"hostile text {number}": text for number, text in enumerate(HOSTILE)}}
PARTS = [
    *(
        IMAGE,
        "[x](javascript:a)",
        "[y](http://a.example/a_(b)?x=1&copy=2)",
        "[m](mailto:a@b.example)",
        "[z](<http://h >)",
    ),
    *("<http://a.example>", "<b>", "<img src=http://host>", "<div>", "</div>", "<pre>", "<!--", "-->", "<details>"),
    *("http://host/x", "www.host.example", "a@host.example", "//host.example/x", "file.py", "https://", "mailto:"),
    *("$", "$$", "`", "``", "```", "~~~", "```python", "````", "$`", "`$", "\\", "\\\\", "\\(", "\\)", "\\[", "\\]"),
    *("\\\\(", "\\\\[", "\\\\)", "\\\\]", "\\begin{a}", "\\end{a}", "\\begin", "{", "}", "\\href{http://h}{x}"),
    *("\n", "\n", "\n\n", "\n\n", "    ", "  ", "\t", "\r", "\x0c", "\u2028", "\x85", "\u200b", "\x1b]8;;http://h\x07"),
    *("> ", "- ", "* ", "1. ", "10) ", "# ", "---", "===", "***", "|", "| a | b |\n|---|---|\n", "|---|", ": d"),
    *("!", "[", "]", "(", ")", "[x]", "[x][]", "![x][x]", "[x]: http://h/d", "[^1]", f"[^1]: {IMAGE}", "^[", "[[x]]"),
    *("&#106;", "&lt;", "&", "x", "word", "a b", "*", "**", "_", "__", "~~", "=", "+", "%", "5", "@@0@@", "~T", "~D"),
]


def what_others_find(shown: list[blocks.MimeBundle]) -> list[str]:
    """For each viewer that finds what the HTML does not have: its name, the Markdown, and what it is."""
    problems: list[str] = []
    written = [bundle["text/markdown"] for bundle in shown]
    for bundle, text, in_lab in zip(shown, written, in_jupyterlab(written), strict=True):
        wanted = {("a", "href", target) for target in links(bundle["text/html"])}
        pages = {"JupyterLab": in_lab, **{name: render(text) for name, render in VIEWERS.items()}}
        for name, page in pages.items():
            found = Found(page)
            if more := (found.targets - wanted) | found.tags:
                problems.append(f"{name} finds {more} in {text!r}")
    return problems


def everything_of(text: str) -> list[blocks.MimeBundle]:
    done = blocks.Call(text, {"command": text, text: text}, state="done", output=text)
    return [
        blocks.answer(text),
        blocks.answer(f"- item\n\n  {text}\n\n> {text}\n\n# {text}\n\n*{text}* [{text}](http://a.example)"),
        blocks.joined(blocks.answer(text), blocks.answer(f"{text}\n\n{IMAGE}")),
        blocks.thinking(text),
        blocks.folded(text, text),
        blocks.user_message(text),
        blocks.call(done),
        blocks.call(blocks.Call("edit", {}, state="done", diff=f"+{text}\n-{text}")),
        blocks.call(blocks.Call("write", {"path": f"a.{text}", "content": IMAGE}, state="done")),
        blocks.table(text, [[text, text]]),
        blocks.joined(blocks.notice(text), blocks.call(done)),
        blocks.error(text),
        blocks.listing(text),
    ]


@pytest.fixture(scope="module")
def problems() -> dict[str, list[str]]:
    """What viewers find too much of each text of the corpus: all at once, for JupyterLab's code takes long to load."""
    shown = {trick: everything_of(text) for trick, text in CORPUS.items()}
    found = what_others_find([bundle for bundles in shown.values() for bundle in bundles])
    texts = {trick: [repr(bundle["text/markdown"]) for bundle in bundles] for trick, bundles in shown.items()}
    return {trick: [each for each in found if each.endswith(tuple(texts[trick]))] for trick in CORPUS}


@pytest.mark.parametrize("trick", CORPUS)
def test_no_viewer_finds_in_the_markdown_what_the_html_does_not_have(
    trick: str, problems: dict[str, list[str]]
) -> None:
    assert problems[trick] == []


def test_no_viewer_finds_more_in_what_is_put_together_at_random() -> None:
    chance = random.Random(SEED)
    texts = ["".join(chance.choices(PARTS, k=chance.randint(1, 25))) for _ in range(COUNT)]
    shown = [blocks.answer(text) for text in texts]
    shown += [blocks.thinking(text) for text in texts[::4]]
    shown += [blocks.user_message(text) for text in texts[1::4]]
    shown += [blocks.joined(first, second) for first, second in zip(shown[:COUNT:4], shown[1:COUNT:4], strict=True)]
    assert sum(bool(links(bundle["text/html"])) for bundle in shown) > COUNT / 4, "else nothing was put to the test"
    assert what_others_find(shown) == []


def test_every_viewer_finds_the_links_that_the_html_has() -> None:
    text = "[docs](https://a.example/x_(y)?b=1&copy=2#z) *[so](http://b.example)* <http://c.example> [m](mailto:d@e.f)"
    shown = blocks.answer(f"{text}\n\n- {text}\n\n> # {text}\n\n| a |\n|---|\n| {text} |")
    expected = {"https://a.example/x_(y)?b=1&copy=2#z", "http://b.example", "http://c.example", "mailto:d@e.f"}
    assert links(shown["text/html"]) == expected
    written = shown["text/markdown"]
    for page in (*in_jupyterlab([written]), *(render(written) for render in VIEWERS.values())):
        assert links(page) == expected


@pytest.mark.parametrize(
    "text",
    [
        "# Title\n\nText with `code`, **bold**, *emphasis* and ~~none~~.\n\n## Another",
        "- one\n- two\n  - three\n  - four\n\n3. five\n4. six",
        "> said\n>\n> - by\n> - two",
        "| a | b |\n| :-- | --: |\n| 1 | 2 |",
        "```python\nx = '$' # ![a](b)\n```\n\nText.\n\n```\n<b>\n```",
        "The area is $a_1 * b^2$ and\n\n$$\\sum_i x_i$$",
        "first  \nsecond\nthird",
        "above\n\n___\n\nbelow",
    ],
)
def test_markdown_without_harm_in_it_stays_as_it_was_written(text: str) -> None:
    assert markdown.rendition(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1\\. not a list", "1&#46; not a list"),
        ("\\# no title\n\\- no item", "&#35; no title\n&#45; no item"),
        ("- x\n  ```\n  code\n  ```\n- y", "- x\n\n```\ncode\n```\n\n- y"),
        ("2. x\n\n       code\n\n   more\n3. y", "2. x\n\n```\ncode\n```\n\nmore\n\n3. y"),
        ("`a$b|c`", "`a`&#36;`b`&#124;`c`"),
        ("`\\begin{a}\\\\`", "&#92;`begin{a}`&#92;&#92;"),
        ("$a$ `$` $`$", "$a$ &#36; &#36;&#96;&#36;"),
        ("![a *b*](http://h/c)", "[&#91;image: a *b*&#93;](http://h/c)".replace("*", "&#42;")),
        ("-\n- x\n-", "-\n- x\n-"),
    ],
)
def test_what_viewers_read_differently_is_written_so_that_they_do_not(text: str, shown: str) -> None:
    assert markdown.rendition(text) == shown


def test_what_a_user_said_is_shown_word_for_word() -> None:
    said = "do this:\n    if x:\n\t# not a title\n\n- `no` item\n![x](http://host)"
    quoted = blocks.user_message(said)["text/markdown"]
    page = VIEWERS["CommonMark"](quoted)
    text = "".join(page.replace("<br />\n", "\n").partition("<p>")[2].rpartition("</p>")[0].split("</p>\n<p>"))
    assert text.replace("\xa0", " ").replace("\u2060", "") == said.replace("\t", "    ").replace("\n\n", "")


@pytest.mark.parametrize(
    "unit", ["> ", "- ", "[", "![", "](", "*", "`", "``` ", "$", "|", "x\n", "\\", "&", "www.", "<", "é"]
)
def test_long_and_deep_markdown_is_work_in_proportion(unit: str) -> None:
    def show(length: int) -> None:
        assert markup.markdown_html(unit * (length // len(unit)))
        markdown.rendition(unit * (length // len(unit)))

    assert cpu_stays_in_proportion(5_000, show)


@pytest.mark.parametrize(
    "unit", ["x ", "- x\n", "> x\n\n", "`a$b` ", "$x$ ", "# x\n", "[x](http://a) ", "```\nx\n```\n"]
)
def test_writing_markdown_is_work_in_proportion(unit: str) -> None:
    assert grows_with(4_000, lambda length: markdown.rendition(unit * (length // len(unit)))) < 2.5


@pytest.mark.parametrize(
    "text",
    [
        "|a" * 1_500 + "\n" + "|-" * 1_500 + "\n" + "x\n" * 3_000,
        "> " + "|a" * 100 + "\n> " + "|-" * 100 + "\n" + "> x\n" * 3_000,
        "[a]: http://x/" + "y" * 6_000 + "\n\n" + "[a]" * 2_000,
        "[a]: http://x/" + "y" * 6_000 + "\n\n" + "![a]" * 2_000,
    ],
    ids=["cells that are left out", "cells that are left out in a quote", "references", "references to images"],
)
def test_little_markdown_does_not_become_much(text: str) -> None:
    with counting_work(everywhere=True) as work:
        shown = blocks.answer(text)
    assert work.lines < 4_000_000
    assert len(shown["text/html"]) < 20 * len(text)
    assert len(shown["text/markdown"]) < 20 * len(text)
    ordinary = blocks.answer("| a | b |\n|---|---|\n| [x] | 2 |\n\n[x]: http://a.example")
    assert links(ordinary["text/html"]) == {"http://a.example"}
    assert "<td" in ordinary["text/html"]
