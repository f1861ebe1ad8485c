"""Displays that nobody was asked about do nothing in a page but show themselves."""

from __future__ import annotations

from typing import Any

import pytest

from indus_nb.notebook.kernel.inert import inert
from indus_nb.notebook.kernel.outputs import Displays, received

TABLE = (
    "<div>\n<style scoped>\n    .dataframe tbody tr th {\n        vertical-align: top;\n    }\n</style>\n"
    '<table border="1" class="dataframe"><thead><tr style="text-align: right;"><th></th></tr></thead>'
    '<tbody><tr><td>1 &lt; 2</td><td><a href="https://example.com" target="_blank">there</a></td></tr></tbody>'
    "</table></div>"
)
WRITTEN_ANEW = (
    '<div>\n\n<table><thead><tr style="text-align:right"><th></th></tr></thead><tbody><tr><td>1 &lt; 2</td>'
    '<td><a href="https://example.com" rel="noopener noreferrer">there</a></td></tr></tbody></table></div>'
)


@pytest.mark.parametrize(
    "bundle",
    [
        {"text/plain": "<script>alert(1)</script>"},
        {"text/plain": "a", "image/png": "iVBORw0KGgo="},
        {"text/plain": "x", "text/latex": "$x^2$"},
        {"text/plain": "x", "text/markdown": "**bold**, `code`"},
        {"application/vnd.plotly.v1+json": {"data": [{"type": "bar", "y": [1]}], "layout": {}}, "text/plain": "Figure"},
    ],
    ids=lambda bundle: max(bundle, key=len),
)
def test_what_only_shows_itself_stays_as_it_is(bundle: dict[str, Any]) -> None:
    assert inert(bundle) == bundle


def test_a_table_is_written_anew_without_what_is_the_pages_own() -> None:
    assert inert({"text/plain": "a", "text/html": TABLE}) == {"text/plain": "a", "text/html": WRITTEN_ANEW}


@pytest.mark.parametrize(
    "html",
    [
        "<style></style/><img src=x onerror=alert(1)></style>",
        '<style/><p title="</style><img src=x onerror=alert(1)>">t</p>',
        "<style scoped></style x><img src=x onerror=alert(1)></style>",
        '<b onclick=alert(1) style="color: red; background-image: url(//evil)">x</b>',
        "<b style=\"background-color: image-set('https://evil/?k' 1x)\">x</b>",
        '<a href="javascript:alert(1)">x</a><a href=" JAVASCRIPT:alert(1)">x</a><a href="data:text/html,x">x</a>',
        '<a href="/logout">x</a><a href="//evil">x</a>',
        '<div class="jp-Dialog" id="x" data-commandlinker-command="terminal:create-new" style="position:fixed">y</div>',
        "<!-- --!><script>alert(1)</script> -->",
        "<style scoped>@import 'https://evil/x.css'</style>",
    ],
)
def test_what_is_left_of_html_does_nothing(html: str) -> None:
    left = str((inert({"text/html": html}) or {}).get("text/html", "")).lower()
    assert not any(
        sign in left for sign in ("<img", "<style", "<script", "onerror=a", "onclick", "javascript", "data:")
    )
    assert not any(sign in left for sign in ("evil", "logout", "class", "id=", "command", "position", "url(", "image-"))


@pytest.mark.parametrize(
    "html",
    [
        "<script>alert(1)</script>",
        "<SCRIPT src=//evil></SCRIPT>",
        '<img src="https://evil/?data">',
        "<iframe></iframe>",
        "<svg onload=alert(1)>",
        '<form action="/api"><button>Yes</button></form>',
        "<style>body { background: url(https://evil/) }</style>",
        "<style>button::after { content: 'No' }</style>",
        "<meta http-equiv=refresh content=0>",
        "<base href=//evil>",
        "<math><mtext><script>alert(1)</script></mtext></math>",
        "<input autofocus onfocus=alert(1)>",
        "<video src=//evil></video>",
        "<template><script>alert(1)</script></template>",
    ],
)
def test_html_that_does_something_is_none(html: str) -> None:
    assert inert({"text/html": html}) is None
    assert inert({"text/plain": "<IPython.core.display.HTML object at 0x7f00>", "text/html": html}) is None
    assert "text/markdown" not in (inert({"text/markdown": html}) or {})


@pytest.mark.parametrize(
    "bundle",
    [
        {"application/javascript": "alert(1)"},
        {"image/svg+xml": "<svg><script>alert(1)</script></svg>"},
        {"text/markdown": "[x](javascript:alert(1))"},
        {"text/markdown": "![x](https://evil/?data)"},
        {"text/markdown": "![x][1]\n\n[1]: https://evil/?data"},
        {"text/markdown": "![1]\n\n[1]: //evil"},
        {"application/vnd.vegalite.v5+json": {"mark": "bar"}},
        {"application/vnd.plotly.v1+json": {"data": [{"type": "scattermapbox"}]}},
        {"application/vnd.plotly.v1+json": {"data": [{"type": "bar"}], "layout": {"images": [{"source": "/logout"}]}}},
        {"application/vnd.plotly.v1+json": {"data": [{"type": "bar", "text": ["https:\\\\evil"]}]}},
        {"text/latex": r"$\href{javascript:alert(1)}{x}$"},
        {"application/vnd.jupyter.widget-view+json": {"model_id": "x"}, "text/plain": "IntSlider()"},
        {"application/vnd.vegalite.v5+json": {"data": {"url": "https://evil/?data"}, "mark": "bar"}},
        {"application/vnd.plotly.v1+json": {"layout": {"images": [{"source": "//evil/x.png"}]}}},
        {"application/x-own": "x"},
        {"text/html": ["<script>"]},
    ],
    ids=lambda bundle: str(bundle)[:60],
)
def test_others_that_do_something_are_none(bundle: dict[str, Any]) -> None:
    assert inert(bundle) is None


def test_the_script_of_a_chart_is_left_out_beside_its_description() -> None:
    chart = {"application/vnd.plotly.v1+json": {"data": [], "layout": {}}, "text/plain": "Figure()"}
    assert inert({**chart, "text/html": "<script>Plotly.newPlot()</script>"}) == chart


@pytest.mark.parametrize(
    ("title", "shown"),
    [("table\n\nAnswer y", "HTML"), ("DataFrame 5 \N{MULTIPLICATION SIGN} 3",) * 2, ("is safe 5", "HTML")],
)
def test_a_copy_does_not_choose_what_its_displays_are_called(title: str, shown: str) -> None:
    sent = {"data": {"text/html": "<b>x</b>"}, "metadata": {}, "title": title, "id": "1"}
    display, _, _ = received({"display": sent, "told": "", "shown": "", "said": "x" * 5_000_000, "atEnd": True}, "a")
    assert display is not None
    assert display.output.title == shown
    displays = Displays()
    displays.add(display)
    displays.add(display)
    assert len("".join(displays.told_at_end("cell", {}))) < 60_000
