"""What the agent's code displays, in a real JupyterLab: tables and charts as the user's own cells show them."""

from __future__ import annotations

import json

from jupyterlab_page import Lab
from messages_api import Gate, MessagesApi, Reply, Text, ToolUse
from playwright.sync_api import Page, expect

ASK = "%agent --new --model sonnet-4-5 --thinking off --approve never "
TABLE = """\
import pandas as pd
sales = pd.DataFrame({"region": ["West", "East", "North"], "units": [12, 7, 31], "price": [3.5, 4.25, 1.0]})
print(len(sales), "rows")
sales"""
CHART = """\
import plotly.express as px
px.bar(sales, x="region", y="units", width=500, height=300)"""
LONG = 120_000
"""Milliseconds for libraries that take long to load on a busy machine."""
LIBRARIES = """\
%load_ext indus_nb
import altair as alt, matplotlib.pyplot, pandas as pd, vl_convert
alt.renderers.enable("html", template="inline")  # which needs no network
len(pd.DataFrame({"a": [1]}).style.background_gradient().to_html())
print("drawn", len(vl_convert.vegalite_to_png(alt.Chart().mark_bar().to_dict())))"""
ALTAIR = """\
chart = alt.Chart(sales).mark_bar().encode(x="region", y="units").properties(width=300, height=160)
display({"application/vnd.vegalite.v5+json": chart.to_dict(), "text/plain": "<VegaLite 5 object>"}, raw=True)
chart"""
STYLED = """\
from IPython.display import Markdown
display(Markdown("The mean price is $\\\\bar{p} = 2.9$."))
sales.style.background_gradient(subset=["units"], cmap="Blues").format({"price": "{:.2f} €"}).hide(axis="index")"""
WITHIN = """\
import ipywidgets
from IPython.display import HTML
out = ipywidgets.Output(layout={"border": "1px solid gray"})
display(out)
print("outside before")
with out:
    print("within")
    display(HTML("<b class='within'>bold</b>"))
    raise ValueError("also within")
print("outside after")"""
PROGRESS = """\
import time
from IPython.display import HTML, clear_output
from tqdm.auto import tqdm
for step in tqdm(range(3)):
    display(HTML(f"<b class='step'>step {step}</b>"))
open("shown", "w").close()
while not os.path.exists("go-on"):
    time.sleep(0.05)"""


def test_tables_and_charts_of_the_agents_code_are_outputs_of_the_cell(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("outputs.ipynb", "%load_ext indus_nb", ASK + "show me the sales", "# the next cell")
    notebook = lab.open(page, "outputs.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    api.add(
        Reply(ToolUse("python", {"code": TABLE})),
        Reply(ToolUse("python", {"code": CHART})),
        Reply("North sells most."),
    )
    notebook.run(1)
    cell = notebook.cell(1)
    notebook.wait_until_run(1)
    expect(cell.locator("table.dataframe td", has_text="West")).to_be_visible()
    expect(cell.locator(".js-plotly-plot .bars path")).to_have_count(3)
    expect(cell).to_contain_text("North sells most.")
    notebook.screenshot("outputs")
    notebook.save()
    outputs = json.loads((lab.folder / "outputs.ipynb").read_text())["cells"][1]["outputs"]
    kinds = [sorted(output["data"]) for output in outputs]
    table = next(number for number, output in enumerate(outputs) if "dataframe" in str(output["data"].get("text/html")))
    chart = next(number for number, kind in enumerate(kinds) if "application/vnd.plotly.v1+json" in kind)
    assert chart == table + 2  # with the card of the second call between them
    assert "3 rows" in "".join(outputs[table - 1]["data"]["text/plain"])
    assert "North" in "".join(outputs[chart + 1]["data"]["text/plain"])


def test_an_altair_chart_and_a_styled_table_are_drawn_in_light_and_dark(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("altair.ipynb", LIBRARIES, ASK + "chart the sales", "# the next cell")
    notebook = lab.open(page, "altair.ipynb")
    notebook.run(0)
    expect(notebook.cell(0)).to_contain_text("drawn", timeout=LONG)
    api.add(
        Reply(ToolUse("python", {"code": TABLE})),
        Reply(ToolUse("python", {"code": STYLED})),
        Reply(ToolUse("python", {"code": ALTAIR})),
        Reply("North sells most, by the model $u = \\alpha p$."),
    )
    notebook.run(1)
    cell = notebook.cell(1)
    expect(cell.locator(".indus-usage")).to_be_visible(timeout=LONG)
    notebook.wait_until_run(1)
    own, of_altair = cell.locator(".jp-RenderedVegaCommon5"), cell.locator(".vega-embed").last
    for chart in (own, of_altair):
        expect(chart.locator("canvas, svg").first).to_be_visible()
        drawn = chart.locator("canvas, svg").first.bounding_box()
        assert drawn is not None
        assert drawn["width"] > 250
        assert drawn["height"] > 150
    styled = cell.locator("td", has_text="4.25 €")
    expect(styled).to_be_visible()
    shades = cell.locator("td.col1").filter(has_text="31")
    assert shades.first.evaluate("cell => getComputedStyle(cell).backgroundColor") not in ("rgba(0, 0, 0, 0)", "")
    expect(cell.locator("mjx-container")).to_have_count(2)
    said = str(api.requests[-1].body["messages"])
    assert "interactive chart (Vega-Lite: bar) is shown to the user" in said
    of_altair.scroll_into_view_if_needed()
    notebook.screenshot("altair-light")
    styled.scroll_into_view_if_needed()
    notebook.screenshot("styler-light")
    notebook.use_theme("JupyterLab Dark")
    try:
        notebook.screenshot("styler-dark")
        of_altair.scroll_into_view_if_needed()
        notebook.screenshot("altair-dark")
    finally:
        notebook.use_theme("JupyterLab Light")


def test_what_is_shown_within_an_output_widget_stands_there_and_nothing_else_does(
    lab: Lab, page: Page, api: MessagesApi
) -> None:
    lab.write("within.ipynb", "%load_ext indus_nb", ASK + "fill the widget", "with out: print('mine')")
    notebook = lab.open(page, "within.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    api.add(Reply(ToolUse("python", {"code": WITHIN})), Reply("It is filled."))
    notebook.run(1)
    cell = notebook.cell(1)
    notebook.wait_until_run(1)
    expect(cell).to_contain_text("It is filled.")
    widget = cell.locator(".jupyter-widgets .jp-OutputArea, .widget-output .jp-OutputArea").first
    expect(widget).to_contain_text("within")
    expect(widget.locator("b.within")).to_have_text("bold")
    expect(widget).to_contain_text("ValueError: also within")
    expect(widget).not_to_contain_text("outside after")
    expect(widget).not_to_contain_text("It is filled.")
    expect(cell.locator(".indus-call").first).to_contain_text("outside before")
    expect(cell.locator("b.within")).to_have_count(1)
    notebook.run(2)  # the user's own code is shown there as before
    expect(widget).to_contain_text("mine")
    notebook.screenshot("output-widget")


def test_formulas_are_typeset_in_a_view_that_was_loaded_again(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("formulas.ipynb", "%load_ext indus_nb", ASK + "which formula?")
    notebook = lab.open(page, "formulas.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    held = Gate()
    api.add(Reply(Text("First $a^2$ and\n\n$$b^2$$\n\nand ", held, "then $c^2$.")))
    notebook.run(1)
    cell = notebook.cell(1)
    expect(cell.locator("mjx-container")).to_have_count(2)
    notebook.save()
    page.reload()
    page.locator(".jp-Notebook").wait_for()
    expect(cell.locator("mjx-container")).to_have_count(2)
    held.open()
    expect(cell.locator(".indus-usage")).to_be_visible()
    expect(cell.locator("mjx-container")).to_have_count(3)
    expect(cell).not_to_contain_text("^2")
    notebook.screenshot("formulas-after-reload")


def test_displays_appear_while_the_code_runs(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("progress.ipynb", "%load_ext indus_nb\nimport os", ASK + "train")
    notebook = lab.open(page, "progress.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    api.add(Reply(ToolUse("python", {"code": PROGRESS})), Reply("Trained."))
    notebook.run(1)
    cell = notebook.cell(1)
    expect(cell.locator("b.step")).to_have_count(3)
    expect(cell.locator(".jupyter-widgets")).to_contain_text(["3/3"])
    expect(cell.get_by_role("button", name="Stop")).to_be_visible()
    notebook.screenshot("outputs-while-code-runs")
    (lab.folder / "go-on").touch()
    notebook.wait_until_run(1)
    expect(cell).to_contain_text("Trained.")
    expect(cell.locator("b.step")).to_have_count(3)
    result = api.requests[-1].body["messages"][-1]["content"][0]["content"]
    assert "[A widget is shown to the user: 100%" in str(result)


def test_a_panel_shows_tables_within_the_card(lab: Lab, page: Page, api: MessagesApi) -> None:
    lab.write("panel.ipynb", "%load_ext indus_nb", "%agent --new --model sonnet-4-5 --approve never panel")
    notebook = lab.open(page, "panel.ipynb")
    notebook.run(0)
    notebook.wait_until_run(0)
    notebook.run(1)
    panel = notebook.cell(1)
    panel.locator(".ia-panel").get_by_label("Message").fill("show me the sales")
    api.add(Reply(ToolUse("python", {"code": TABLE})), Reply("North sells most."))
    page.keyboard.press("Enter")
    expect(panel).to_contain_text("North sells most.")
    expect(panel.locator(".ia-panel table td", has_text="West")).to_be_visible()
    notebook.screenshot("outputs-in-a-panel")
