"""Live values and their expressions in what people make of a saved notebook: pages, texts, and notebooks again."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from executed_notebooks import NOTEBOOKS
from nbconvert import HTMLExporter, MarkdownExporter, NotebookExporter, get_exporter
from nbformat import NotebookNode
from traitlets.config import Config

from indus_nb.kernel.document.claimed import Claimed, claimed

SENTENCES = (
    "15,124 cups were sold in 40 days.",
    "Most were sold at the beach, and a cup costs least at the station.",
    "The hottest day had 215.0 °C.",
    "The hottest day had 28.9 °C, at the beach.",
)
HOTTEST = 'f"{sales.temperature.max():.1f}"'
CLAIMS = (
    ('f"{sales.cups.sum():,}"', "15,124"),
    ("sales.day.nunique()", "40"),
    ('sales.groupby("stall", observed=True).cups.sum().idxmax()', "beach"),
    ("min(prices, key=prices.get)", "station"),
    (HOTTEST, "215.0"),
    (HOTTEST, "28.9"),
    ("sales.stall[sales.temperature.idxmax()]", "beach"),
)


@pytest.fixture
def saved() -> NotebookNode:
    return nbformat.read(NOTEBOOKS / "answers_that_stay_true.ipynb", as_version=4)


def claims(notebook: NotebookNode) -> list[Claimed]:
    """What a notebook's metadata hold, as ``%agent verify`` reads it."""
    return [claim for cell in notebook.cells for claim in claimed(cell.get("outputs", ()))]


class Read(HTMLParser):
    """The text of a page, and what its titled pieces of text say."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.titled: list[tuple[str, str]] = []
        self.text = ""
        self._title: str | None = None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._title = dict(attrs).get("title") if tag == "span" else None

    def handle_endtag(self, tag: str) -> None:
        self._title = None

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._title is not None:
            self.titled.append((self._title, data))


@pytest.mark.parametrize("name", ["html", "slides", "markdown"])
def test_a_page_has_values_as_text_and_expressions_as_titles(name: str, saved: NotebookNode) -> None:
    page = Read(get_exporter(name)().from_notebook_node(saved)[0])
    assert [sentence for sentence in SENTENCES if sentence not in page.text] == []
    assert tuple(page.titled) == CLAIMS


def test_a_page_that_is_cleaned_of_attributes_has_the_values(saved: NotebookNode) -> None:
    page = Read(HTMLExporter(sanitize_html=True).from_notebook_node(saved)[0])
    assert [sentence for sentence in SENTENCES if sentence not in page.text] == []
    assert page.titled == []


@pytest.mark.parametrize("form", ["text/markdown", "text/plain"])
def test_formats_without_html_get_the_values_as_text(form: str, saved: NotebookNode) -> None:
    # The exporters to LaTeX and AsciiDoc prefer these, and need pandoc for the rest.
    only = Config({"NbConvertBase": {"display_data_priority": [form, "text/plain"]}})
    text = MarkdownExporter(config=only).from_notebook_node(saved)[0]
    assert [sentence for sentence in SENTENCES if sentence not in text] == []
    assert "<span" not in text


def test_a_notebook_that_is_read_and_written_keeps_values_and_expressions(saved: NotebookNode) -> None:
    assert tuple(claims(saved)) == CLAIMS
    nbformat.validate(saved)
    assert claims(nbformat.reads(nbformat.writes(saved), as_version=4)) == claims(saved)
    converted = NotebookExporter().from_notebook_node(saved)[0]
    assert claims(nbformat.reads(converted, as_version=4)) == claims(saved)


def jupytext(*arguments: str | Path) -> None:
    """Run the program as people do."""
    done = subprocess.run([sys.executable, "-m", "jupytext", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("form", "suffix", "new_cell"),
    [("py:percent", ".py", "\n# %%\nprices['pier'] = 3\n"), ("md", ".md", "\n```python\nprices['pier'] = 3\n```\n")],
)
def test_a_text_of_jupytext_has_no_values_and_an_update_from_it_keeps_those_of_the_notebook(
    form: str, suffix: str, new_cell: str, saved: NotebookNode, tmp_path: Path
) -> None:
    notebook = tmp_path / "answers.ipynb"
    nbformat.write(saved, notebook)
    jupytext("--to", form, notebook)
    text = notebook.with_suffix(suffix)
    assert "15,124" not in text.read_text(encoding="utf-8")
    with text.open("a", encoding="utf-8") as file:
        file.write(new_cell)
    jupytext("--update", "--to", "ipynb", text)
    updated = nbformat.read(notebook, as_version=4)
    assert [cell.source for cell in updated.cells] == [*(cell.source for cell in saved.cells), "prices['pier'] = 3"]
    assert claims(updated) == claims(saved)
    jupytext("--to", "ipynb", text)
    assert claims(nbformat.read(notebook, as_version=4)) == []


def test_a_prompt_that_looks_like_code_survives_jupytext_with_the_tag_that_makes_it_a_comment(tmp_path: Path) -> None:
    prompt = '%%agent\nWhat is wrong here?\n# %% load\n"""\nx = 1'
    notebook = tmp_path / "answers.ipynb"
    cells = [nbformat.v4.new_code_cell(prompt, metadata={"tags": ["active-ipynb"]}), nbformat.v4.new_code_cell("x")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"language_info": {"name": "python"}}), notebook)
    jupytext("--to", "py:percent", notebook)
    jupytext("--to", "ipynb", notebook.with_suffix(".py"))
    assert [cell.source for cell in nbformat.read(notebook, as_version=4).cells] == [prompt, "x"]
