"""Displays that nobody was asked about do nothing in a page but show themselves."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest
from hostile_html import HOSTILE

from indus_nb.kernel.run.inert import inert
from indus_nb.kernel.run.outputs import Displays, received

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


@pytest.mark.parametrize("html", HOSTILE)
def test_nothing_runs_in_a_frame_and_nothing_is_fetched_for_it(html: str) -> None:
    html = html.replace("ADDRESS", "https://evil.example/x").replace("RUN", "alert(1)")
    shown = str((inert({"text/html": html}) or {}).get("text/html", ""))
    frame = _Frame()
    frame.feed(shown)
    assert frame.tags == ["iframe"]
    assert frame.attributes["sandbox"] in ("", None)
    assert {*frame.attributes} == {"sandbox", "title", "style", "srcdoc"}
    inside = _Frame()
    inside.feed(frame.attributes["srcdoc"] or "")
    assert inside.tags[:2] == ["meta", "body"]
    policy = inside.first["content"] or ""
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert "http" not in policy
    others = {*inside.tags[1:]}
    assert not others & {"meta", "script", "link", "base", "img", "image", "use", "iframe", "object", "form", "button"}
    assert not others & {"foreignobject", "animate", "set", "area", "video", "template", "noscript"}
    assert not [
        name for name in inside.attributes if name.startswith("on") or name in ("href", "src", "action", "ping")
    ]


class _Frame(HTMLParser):
    """The elements of a page, and their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: dict[str, str | None] = {}
        self.first: dict[str, str | None] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.first = self.first if self.tags else dict(attrs)
        self.tags.append(tag)
        self.attributes |= dict(attrs)


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


@pytest.mark.parametrize(
    "formula",
    [
        r"x^2 + \sqrt{\frac{1}{2}}",
        r"\int\limits_{-\infty}^{\infty} e^{- x^{2}}\, dx = \sqrt{\pi}",
        r"\left[\begin{matrix}1 & x\\y & 2\end{matrix}\right] \left(x\right)",
        r"\begin{cases} x & \text{for}\: x > 0 \\0 & \text{otherwise} \end{cases}",
        r"\frac{d}{d x} f{\left(x \right)} = \sum_{n=0}^{\infty} \hat{\alpha}_{n} \operatorname{erf}{\left(n \right)}",
        r"\left\{1, 2\right\} \subseteq \left\{ x\; \middle|\; x \in \mathbb{Z}\right\} \setminus \emptyset",
        r"\begin{array}{c|rl} a & b \\ \hline c & d \end{array}",
        r"\lim_{x \to 0^+} \left\lfloor{x}\right\rfloor \equiv x \bmod 2 \Rightarrow \mathrm{d}\mathbf{x}",
        r"{{}_{1}F_{1}\left(\begin{matrix} 1 \\ 2 \end{matrix}\middle| {x} \right)} \leq \overline{z} \quad\ldots",
    ],
)
def test_formulas_stay_as_they_are(formula: str) -> None:
    for written in (f"${formula}$", f"$\\displaystyle {formula}$"):
        assert inert({"text/plain": "x", "text/latex": written}) == {"text/plain": "x", "text/latex": written}


@pytest.mark.parametrize(
    "formula",
    [
        r"\bbox[background:url(https://evil/?x)]{x}",
        r"\bbox[position:fixed;top:0]{x}",
        r"\mmlToken{mtext}[href=x]{x}",
        r'\mmlToken{mtext}[style="position:fixed;inset:0"]{x}',
        r"\href{x}{y}",
        r"\style{position:fixed}{x}",
        r"\class{jp-Dialog}{x}",
        r"\cssId{x}{y}",
        r"\color{red}{x}",
        r"\def\x{\href}\x{y}{z}",
        r"\let\frac\href \frac{y}{z}",
        r"\newcommand{\x}{y}",
        r"\require{html}",
        r"\unicode{x263a}",
        r"\hspace{-90em}x",
        r"\kern-90em x",
        r"\raise 90em x",
        r"\llap{x}",
        r"\rule{90em}{90em}",
        r"\begin{matrix}x\\[-90em]y\end{matrix}",
        r"\begin{array}{@{\href{x}{y}}c}x\end{array}",
        r"\begin{array}{p{90em}}x\end{array}",
        r"\begin{CD}x\end{CD}",
        r"\begin{x}y\end{x}",
        r"^^5chref{x}{y}",
        r"\ref{x}\label{y}\tag{z}",
        r"\verb|x|",
        "![x](x)",
        "[x](x)",
        "[x]: x",
        "x://y",
        "x\\",
        "<b>x</b>",
    ],
)
def test_a_formula_that_does_more_than_draw_is_shown_as_text(formula: str) -> None:
    kept = {"text/plain": "x"}
    assert inert({"text/plain": "x", "text/latex": f"${formula}$"[: None if formula[-1] != "\\" else -1]}) == kept
    assert (
        inert({"text/plain": "x", "text/markdown": f"so: ${formula}$"[: None if formula[-1] != "\\" else -1]}) == kept
    )


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
