"""A saved notebook whose outputs are Markdown only, as viewers that prefer it show it, in a real JupyterLab."""

from __future__ import annotations

import nbformat
import pytest
from attacks.test_markdown import CORPUS, everything_of
from jupyterlab_page import Lab
from playwright.sync_api import Page, expect
from viewers import links

MAX_OUTPUTS = 50
"""How many of a cell JupyterLab draws."""


@pytest.mark.parametrize("trusted", [False, True])
def test_a_saved_notebook_of_markdown_asks_nobody_for_anything(lab: Lab, page: Page, trusted: bool) -> None:
    shown = [bundle for text in CORPUS.values() for bundle in everything_of(text)[:4]]
    texts = [bundle["text/markdown"] for bundle in shown]
    together = -(-len(texts) // MAX_OUTPUTS)
    outputs = [
        nbformat.v4.new_output("display_data", {"text/markdown": "\n\n".join(texts[at : at + together])})
        for at in range(0, len(texts), together)
    ]
    cell = nbformat.v4.new_code_cell("'shown'", execution_count=1, outputs=outputs)
    cell.metadata["trusted"] = trusted
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), lab.folder / "saved.ipynb")
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.on("dialog", lambda dialog: requested.append(dialog.message))
    notebook = lab.open_without_kernel(page, "saved.ipynb")
    drawn = notebook.cell(0).locator(".jp-RenderedMarkdown")
    expect(drawn).to_have_count(len(outputs))
    page.evaluate("() => new Promise(requestIdleCallback)")
    own = (lab.url, lab.url.replace("http", "ws"), "data:", "blob:")
    assert [url for url in requested if not url.startswith(own)] == []
    assert page.evaluate("window.hacked") is None
    assert drawn.locator("script, iframe, img, object, embed, form, style, link").count() == 0
    found = {str(link) for link in drawn.locator("a[href]").evaluate_all("all => all.map(a => a.getAttribute('href'))")}
    web = {link for link in found if not link.startswith("#")}
    wanted = {link for bundle in shown for link in links(bundle["text/html"])}
    assert len(web) <= len(wanted)
    assert all(link.startswith(("http://", "https://", "mailto:")) for link in web), web
