"""What a model is shown of a notebook's cells."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import pytest
from notebook_files import code, png, shown, stream, write
from PIL import Image
from work import cpu_stays_in_proportion

from indus_nb.kernel.document import Cell, Reading, read_notebook
from indus_nb.kernel.document.selection import chosen_cells, last_runs, one_cell
from indus_nb.tools.tool import ToolError


def whole(*cells: dict[str, Any], tmp_path: Path, most: int = 40_000) -> tuple[str, Reading]:
    file = read_notebook(write(tmp_path / "whole.ipynb", *cells))
    reading = Reading()
    text, _ = reading.whole(file.cells, [*range(1, len(file.cells) + 1)], most)
    return text, reading


def test_an_output_is_shown_in_its_richest_text(tmp_path: Path) -> None:
    text, reading = whole(
        code("a", stream(["one\n", "two\n"])),
        code("b", shown(text_html="<table>…</table>", text_plain="   x  y\n0  1  2")),
        code("c", shown(text_markdown="**bold**", text_plain="<Markdown object>")),
        code("d", shown(text_html="<b>only html</b>")),
        code(
            "e",
            {"output_type": "error", "ename": "E", "evalue": "bad", "traceback": ["\x1b[31mTrace\x1b[0m", "E: bad"]},
        ),
        code("f", stream("10%\r50%\r100%\ndone")),
        tmp_path=tmp_path,
    )
    assert "one\ntwo" in text
    assert "0  1  2" in text
    assert "<table>" not in text
    assert "**bold**" in text
    assert "[no text: text/html]" in text
    assert "Trace\nE: bad" in text
    assert "\n100%\ndone" in text
    assert reading.images == []


def test_long_outputs_and_tracebacks_keep_both_ends_and_cost_little(tmp_path: Path) -> None:
    lines = "".join(f"line {number}\n" for number in range(1_000_000))
    trace = [f"frame {number}" for number in range(10_000)]
    cells = (
        code("print(…)", stream(lines)),
        code("fail()", {"output_type": "error", "ename": "E", "evalue": "v" * 100_000, "traceback": trace}),
    )
    text, _ = whole(*cells, tmp_path=tmp_path)
    assert cpu_stays_in_proportion(
        25_000, lambda count: whole(code("p", stream(lines[: 12 * count])), tmp_path=tmp_path)
    )
    assert "line 0\n" in text
    assert "line 999999" in text
    assert "frame 9999" in text
    assert "frame 0" not in text
    assert len(text) < 12_000


def test_at_most_four_images_are_shown_and_damaged_ones_are_named(tmp_path: Path) -> None:
    pictures = [shown(image_png=png(), text_plain="<Figure>") for _ in range(6)]
    text, reading = whole(code("draw()", *pictures), code("x", shown(image_png="AAAA")), tmp_path=tmp_path)
    assert len(reading.images) == 4
    assert text.count("images at a time") == 3
    assert "<Figure>" not in text
    text, reading = whole(code("x", shown(image_png="AAAA"), shown(image_jpeg="?" * 7)), tmp_path=tmp_path)
    assert text.count("not shown: it is no") == 2
    assert reading.images == []


def test_a_large_image_is_made_smaller(tmp_path: Path) -> None:
    _, reading = whole(code("draw()", shown(image_png=[png(3000, 100)])), tmp_path=tmp_path)
    with Image.open(io.BytesIO(base64.b64decode(reading.images[0].data))) as image:
        assert image.size[0] <= 2000


def test_transcripts_of_the_agent_are_read_as_they_were_said(tmp_path: Path) -> None:
    said = shown(text_markdown="it costs &#36;5", text_plain="it costs $5")
    text, _ = whole(code("%agent do it", said), code("display(x)", said), tmp_path=tmp_path)
    assert text.index("it costs $5") < text.index("it costs &#36;5"), "of others the Markdown is what they show"
    assert text.count("it costs $5") == 1


def test_transcripts_of_the_agent_are_cut_short_and_show_no_images(tmp_path: Path) -> None:
    said = shown(text_plain="said " * 1000, image_png=png())
    text, reading = whole(code("%agent do it", said), code("%%agent\nmore", said), tmp_path=tmp_path)
    assert len(text) < 1500
    assert text.count("a transcript of an agent") == 2
    assert reading.images == []


def test_a_cell_tells_whether_it_ran_in_this_kernel(tmp_path: Path) -> None:
    cells = [
        Cell("code", "x = 1", run_as=1),
        Cell("code", "y = 2", run_as=2),
        Cell("code", "z = 3"),
        Cell("code", "w = 4"),
        Cell("markdown", "# Title", id="t"),
        Cell("code", "v = 5", by_agent=True),
    ]
    listing = Reading(last_runs(cells, ["", "x = 1\n", "y = 1", "w = 4", "w = 4"], {})).listing(cells)
    assert "code · place 1 · run as In [1] · 1 line" in listing
    assert "code · place 2 · run as In [2] (by an earlier kernel, or changed since)" in listing
    assert "code · place 3 · not run" in listing
    assert "code · place 4 · run as In [4] since it was saved" in listing
    assert "id t · markdown · place 5 · 1 line\n      # Title" in listing
    assert "code · place 6 · run by the agent, as it was written" in listing


def test_of_cells_with_the_same_source_each_has_its_own_number(tmp_path: Path) -> None:
    head = "df.head()"
    cells = [Cell("code", head, id="a", run_as=1), Cell("code", head, id="b"), Cell("code", head, id="c")]
    ran = ["", head, head, "other", head]
    listing = Reading(last_runs(cells, ran, {1: "a", 2: "b", 3: "gone"})).listing(cells)
    assert "id a · code · place 1 · run as In [1] · " in listing
    assert "id b · code · place 2 · run as In [2] since it was saved" in listing
    assert "id c · code · place 3 · not run" in listing, "which of them ran as In [4] is not known"
    saved_anew = [Cell("code", head, id="new", run_as=2, shown_as=2), Cell("code", "other", id="newer")]
    assert last_runs(saved_anew, ran, {1: "a", 2: "b", 3: "gone"}) == {1: 2}, "it shows that number"
    again = [Cell("code", head, id="a"), Cell("code", "changed", id="b")]
    assert last_runs(again, ["", head, head, head], {1: "a", 2: "b", 3: "a"}) == {1: 3}


def test_cells_without_room_are_named_and_their_images_left_out(tmp_path: Path) -> None:
    cells = [Cell("code", "x" * 3000, outputs=[shown(image_png=png())]) for _ in range(4)]
    reading = Reading()
    text, left = reading.whole(cells, [1, 2, 4], 7000)
    assert left == [4]
    assert len(reading.images) == 2
    assert "place 4" not in text


def test_cells_are_chosen_by_place_span_run_and_id() -> None:
    cells = [Cell("code", "", id=name) for name in ("aa", "bb", "123", "5", "ee")]
    assert chosen_cells(cells, "3") == [3]
    assert chosen_cells(cells, "2-4, ee 2") == [2, 3, 4, 5]
    assert chosen_cells(cells, "4-99") == [4, 5]
    assert chosen_cells(cells, "[1]") == [1]
    assert chosen_cells(cells, "5,123") == [5, 3]
    runs = {7: [2], 8: [1, 4]}
    assert chosen_cells(cells, "In [7], In[8] ee", lambda number: runs.get(number, [])) == [2, 1, 4, 5]
    with pytest.raises(ToolError, match=r"There is no cell 'In \[9\]'"):
        chosen_cells(cells, "In [9]", lambda number: runs.get(number, []))
    for wrong in ("0", "6", "zz", "-1", "1-2-3", "9" * 5000):
        with pytest.raises(ToolError, match=r"There is no cell .*1-5"):
            chosen_cells(cells, wrong)


def test_a_number_names_a_cell_to_change_only_if_place_and_run_are_the_same_cell() -> None:
    cells = [Cell("code", f"x = {name!r}", id=name) for name in ("aa", "bb", "cc")]
    runs = {2: [1], 3: [3], 12: [2], 13: [1, 2]}

    def named(wanted: str) -> int:
        return one_cell(cells, wanted, lambda number: runs.get(number, []))

    assert [named(wanted) for wanted in ("1", "3", "12", "In [2]", "in[3]", "bb")] == [1, 3, 2, 1, 3, 2]
    for wanted in ("2", "[2]"):
        with pytest.raises(ToolError, match=r"may be cell bb, at that place .*, or cell aa, run as In \[2\]"):
            named(wanted)
    for wanted in ("13", "In [13]", "1-2"):
        with pytest.raises(ToolError, match=r"cell aa.* cell bb.* Name one, by its id\. Nothing was proposed\."):
            named(wanted)
