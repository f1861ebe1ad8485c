"""Pages without a kernel, as Chromium lays them out: an exported conversation, and a notebook by nbconvert."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbformat
from jupyterlab_page import keep_screenshot
from playwright.sync_api import Page, expect

from indus_nb.base.messages import AssistantMessage, TextContent, UserMessage
from indus_nb.core.storage.store import SessionStore
from indus_nb.front.notebook.view import blocks
from indus_nb.render.session_page import export_html

COLUMNS = ("carrier", "flights", "distance", "delay", "cancelled", "share", "seats", "departure", "arrival", "origin")
ROW = ("UA", "51,108", "1,234.56", "-0.405415", "1,148", "0.0466467", "2,345,678", "06:15", "09:45", "EWR")
TABLE = "\n".join(f"| {' | '.join(row)} |" for row in (COLUMNS, ["---:"] * len(COLUMNS), *[ROW] * 3))
LINES_OF_CELLS = """cells => cells.map(cell => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return new Set([...range.getClientRects()].map(({top}) => top)).size;
})"""


def test_numbers_in_the_tables_of_an_exported_page_stay_whole(page: Page, tmp_path: Path) -> None:
    store = SessionStore.in_memory(tmp_path)
    said = AssistantMessage(content=[TextContent(text=f"{TABLE}\n\n{'word' * 100}")], api="a", provider="p", model="m")
    for message in (UserMessage(content="Which carrier is late?"), said):
        store.append_message(message)
    page.goto(export_html(store, tmp_path / "page.html").as_uri())
    for width in (1200, 700, 360):
        page.set_viewport_size({"width": width, "height": 800})
        keep_screenshot(page, f"exported-table-{width}")
        cells = page.locator("td, th")
        assert cells.evaluate_all(LINES_OF_CELLS) == [1] * len(COLUMNS) * 4
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), (
            "the page itself scrolls sideways"
        )


def test_code_and_what_it_prints_is_monospaced_in_a_notebook_that_nbconvert_made_a_page(
    page: Page, tmp_path: Path
) -> None:
    call = blocks.Call("python", {"code": "print(rates)"}, state="done", output="a    b\n1    2")
    bundles = [
        blocks.answer("Look at `rates`:\n\n```python\nrates = 1\n```"),
        blocks.call(call),
        blocks.listing("a    b\n1    2"),
    ]
    outputs = [nbformat.v4.new_output("display_data", data) for data in bundles]
    cell = nbformat.v4.new_code_cell("%agent look", outputs=outputs)
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "saved.ipynb")
    convert = [sys.executable, "-m", "nbconvert", "--to", "html", "saved.ipynb"]
    subprocess.run(convert, cwd=tmp_path, check=True, capture_output=True)
    page.goto((tmp_path / "saved.html").as_uri())
    for summary in page.locator("summary").all():
        summary.click()
    expect(page.get_by_text("rates = 1")).to_be_visible()
    keep_screenshot(page, "nbconvert-page")
    fonts = page.locator(".jp-OutputArea-output :is(pre, code)").evaluate_all(
        "nodes => nodes.map(node => getComputedStyle(node).fontFamily)"
    )
    assert len(fonts) >= 4
    assert all("mono" in font for font in fonts), fonts
