"""Notebooks as files: which one a kernel works for, what is read of it, and files that are none."""

from __future__ import annotations

import base64
import io
import json
import os
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from work import grows_with

from indus_nb.notebook.document.cells import (
    Cell,
    Reading,
    Traces,
    chosen_cells,
    find_notebook,
    named_notebook,
    read_notebook,
)
from indus_nb.tools.tool import ToolError


def code(source: str, *outputs: dict[str, Any], own_id: str | None = None, run_as: int | None = None) -> dict[str, Any]:
    cell = {"cell_type": "code", "source": source, "metadata": {}, "outputs": [*outputs], "execution_count": run_as}
    return cell if own_id is None else {**cell, "id": own_id}


def stream(text: str | list[str]) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def shown(**data: Any) -> dict[str, Any]:
    bundle = {name.replace("_", "/", 1): value for name, value in data.items()}
    return {"output_type": "display_data", "data": bundle, "metadata": {}}


def png(width: int = 2, height: int = 2) -> str:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def write(path: Path, *cells: dict[str, Any], **more: Any) -> Path:
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [*cells], **more}))
    return path


def whole(*cells: dict[str, Any], tmp_path: Path, most: int = 40_000) -> tuple[str, Reading]:
    file = read_notebook(write(tmp_path / "whole.ipynb", *cells))
    reading = Reading(ran=[])
    text, _ = reading.whole(file.cells, [*range(1, len(file.cells) + 1)], most)
    return text, reading


def test_sources_may_be_one_text_or_lines_and_ids_may_be_missing(tmp_path: Path) -> None:
    cells = [code("a\nb", own_id="one"), {"cell_type": "markdown", "source": ["# T\n", "text"]}]
    file = read_notebook(write(tmp_path / "a.ipynb", *cells))
    assert [(cell.type, cell.source, cell.id) for cell in file.cells] == [
        ("code", "a\nb", "one"),
        ("markdown", "# T\ntext", None),
    ]
    assert abs(file.saved - time.time()) < 60


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b'{"nbformat": 4, "cells": [{"cell_ty', "being saved at this moment"),
        (b"[1, 2]", "no notebook"),
        (b'{"some": "json"}', "no notebook"),
        (b'{"nbformat": 3, "worksheets": [{"cells": []}]}', "notebook format 3"),
        (b'{"nbformat": 99, "cells": []}', "notebook format 99"),
        (b'{"nbformat": 4, "cells": 7}', "no list of cells"),
        (b'{"nbformat": 4, "cells": ' + b"[" * 500_000, "no whole JSON"),
        (b"\xff\xfe\x00garbage", "no whole JSON"),
    ],
)
def test_what_is_no_notebook_is_refused_with_the_reason(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "bad.ipynb"
    path.write_bytes(content)
    with pytest.raises(ToolError, match=reason) as raised:
        read_notebook(path)
    assert str(path) in str(raised.value)
    assert len(str(raised.value)) < 500


def test_a_file_of_200_mb_is_refused_at_once_and_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.ipynb"
    with path.open("wb") as file:
        file.truncate(200 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(ToolError, match=r"200\.0 MB, more than the 64\.0 MB"):
            read_notebook(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_pipe_and_a_folder_and_nothing_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.ipynb")
    (tmp_path / "folder.ipynb").mkdir()
    for name in ("pipe.ipynb", "folder.ipynb"):
        with pytest.raises(ToolError, match="no regular file"):
            read_notebook(tmp_path / name)
    with pytest.raises(ToolError, match="No such file"):
        read_notebook(tmp_path / "gone.ipynb")


def test_fields_of_wrong_types_harm_nothing(tmp_path: Path) -> None:
    path = tmp_path / "odd.ipynb"
    cells: list[Any] = [
        None,
        7,
        {"cell_type": ["x"], "source": {"a": 1}, "outputs": "none", "id": 5, "execution_count": "1"},
        code("x", {"output_type": "stream", "text": 3}, {"output_type": 7, "data": [1]}, {"data": {"image/png": 1}}),
        code("y", {"output_type": "error", "traceback": [1, "two"], "ename": None}, shown(text_plain=None)),
        code("%agent x", {"output_type": "display_data", "data": {"text/plain": 5}}),
    ]
    path.write_text(json.dumps({"nbformat": 4, "cells": cells}))
    file = read_notebook(path)
    assert [cell.source for cell in file.cells] == ["", "x", "y", "%agent x"]
    reading = Reading(ran=["", "z"])
    assert "two" in reading.whole(file.cells, [1, 2, 3, 4], 10_000)[0]
    assert "[2] code" in reading.listing(file.cells)


def test_numbers_that_json_does_not_know_and_half_characters_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_bytes(
        b'\xef\xbb\xbf{"nbformat": 4, "cells": [{"cell_type": "code", "source": "half \\ud83d", "outputs": '
        b'[{"output_type": "display_data", "data": {"application/json": {"x": NaN}}}]}]}'
    )
    text, _ = Reading(ran=[]).whole(read_notebook(path).cells, [1], 1000)
    text.encode()
    assert "half \ufffd" in text
    assert '{"x": NaN}' in text


def test_an_output_is_told_in_the_words_that_say_most(tmp_path: Path) -> None:
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
    assert grows_with(10_000, lambda count: whole(code("p", stream(lines[: 12 * count])), tmp_path=tmp_path)) < 2.2
    assert "line 0\n" in text
    assert "line 999999" in text
    assert "frame 9999" in text
    assert "frame 0" not in text
    assert len(text) < 12_000


def test_at_most_four_images_are_shown_and_what_is_no_image_is_said(tmp_path: Path) -> None:
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
    ]
    listing = Reading(ran=["", "x = 1\n", "y = 1", "w = 4", "w = 4"]).listing(cells)
    assert "[1] code · run as In [1] · 1 line" in listing
    assert "[2] code · run as In [2] (by an earlier kernel, or changed since)" in listing
    assert "[3] code · not run" in listing
    assert "[4] code · run as In [4] since it was saved" in listing
    assert "[5] markdown · id t · 1 line\n      # Title" in listing


def test_what_finds_no_room_is_named_and_its_images_are_left_out(tmp_path: Path) -> None:
    cells = [Cell("code", "x" * 3000, outputs=[shown(image_png=png())]) for _ in range(4)]
    reading = Reading(ran=[])
    text, left = reading.whole(cells, [1, 2, 4], 7000)
    assert left == [4]
    assert len(reading.images) == 2
    assert "[4]" not in text


def test_cells_are_chosen_by_number_span_and_id() -> None:
    cells = [Cell("code", "", id=name) for name in ("aa", "bb", "123", "5", "ee")]
    assert chosen_cells(cells, "3") == [3]
    assert chosen_cells(cells, "2-4, ee 2") == [2, 3, 4, 5]
    assert chosen_cells(cells, "4-99") == [4, 5]
    assert chosen_cells(cells, "[1]") == [1]
    assert chosen_cells(cells, "5,123") == [5, 3]
    for wrong in ("0", "6", "zz", "-1", "1-2-3", "9" * 5000):
        with pytest.raises(ToolError, match=r"There is no cell .*1-5"):
            chosen_cells(cells, wrong)


# Which file it is


def test_the_server_or_the_editor_tells_the_path(tmp_path: Path) -> None:
    path = write(tmp_path / "my book.ipynb")
    name = {"JPY_SESSION_NAME": str(path)}
    assert named_notebook(name, {}, tmp_path, "ab12cd34") == (path, False)
    assert named_notebook({}, {"__vsc_ipynb_file__": str(path)}, tmp_path, None) == (path, False)
    uri = f"vscode-notebook-cell:{tmp_path}/my%20book.ipynb#W1sZmlsZQ%3D%3D"
    other = {"JPY_SESSION_NAME": str(tmp_path / "my book-jvsc-1f2e.ipynb")}
    assert named_notebook(other, {}, tmp_path, uri) == (path, True)


@pytest.mark.parametrize(
    "name", ["", "console", "/etc/passwd", "a\0.ipynb", "/somewhere/", "fc6c0d2a-0000-4000-8000-7b2d5cf5b1aa"]
)
def test_the_names_of_other_clients_are_no_notebooks(tmp_path: Path, name: str) -> None:
    assert named_notebook({"JPY_SESSION_NAME": name}, {}, tmp_path, None) == (None, False)


def test_a_wrong_word_of_an_editor_is_passed_over(tmp_path: Path) -> None:
    for said in (5, "gone.ipynb", str(tmp_path / "gone.ipynb"), str(tmp_path), "a\0b.ipynb"):
        assert named_notebook({}, {"__vsc_ipynb_file__": said}, tmp_path, None) == (None, False)
    for uri in ("vscode-notebook-cell:Untitled-1.ipynb?jupyter-notebook#W0", "vscode-notebook-cell://[#x", "other:x"):
        assert named_notebook({}, {}, tmp_path, uri) == (None, False)


def test_a_relative_name_counts_only_where_it_fits_the_folder_of_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    path = write(tmp_path / "sub" / "a.ipynb")
    name = {"JPY_SESSION_NAME": "sub/a.ipynb"}
    assert named_notebook(name, {}, tmp_path / "sub", None) == (path, False)
    assert named_notebook(name, {}, tmp_path, None) == (path, False)
    (tmp_path / "other").mkdir()
    write(tmp_path / "other" / "a.ipynb")
    assert named_notebook(name, {}, tmp_path / "other", None) == (None, False)


def test_a_file_without_any_cell_that_ran_here_is_doubted_or_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ipynb", code("x = 1", own_id="cell-one"))
    assert find_notebook(Traces(path, ids=frozenset({"cell-one"}))).note is None
    assert find_notebook(Traces(path, ran=["", "x = 1"])).note is None
    assert find_notebook(Traces(path, certain=True)).note is None
    doubted = find_notebook(Traces(path, ids=frozenset({"cell-new"}), ran=["", "y"]))
    assert doubted.note is not None
    assert "not saved since, or it is another one" in doubted.note
    with pytest.raises(ToolError, match="inherited from another kernel"):
        find_notebook(Traces(path, ran=["", "y = 1"]))
    with pytest.raises(ToolError, match="did not tell"):
        find_notebook(Traces(None, ran=["", "x = 1"]))


def test_a_renamed_notebook_is_found_by_the_cells_that_ran(tmp_path: Path) -> None:
    named = tmp_path / "Untitled.ipynb"
    ids = frozenset({"cell-one"})
    write(tmp_path / "unrelated.ipynb", code("x = 1", own_id="cell-xxx"))
    (tmp_path / "broken.ipynb").write_text('{"cell-one"')
    with pytest.raises(ToolError, match="not there any more"):
        find_notebook(Traces(named, ids=ids, ran=["", "x = 1"]))
    renamed = write(tmp_path / "analysis.ipynb", code("x = 1", own_id="cell-one"))
    found = find_notebook(Traces(named, ids=ids))
    assert found.path == renamed
    assert found.note == "It was Untitled.ipynb when the kernel was started."
    # Another notebook has taken the old name since.
    write(named, code("something else", own_id="cell-two"))
    assert find_notebook(Traces(named, ids=ids)).path == renamed
    write(tmp_path / "copy.ipynb", code("x = 1", own_id="cell-one"))
    with pytest.raises(ToolError, match=r"its cells are in each of .*copy\.ipynb"):
        find_notebook(Traces(named, ids=ids))


def test_the_reason_why_the_named_file_cannot_be_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text('{"nbformat": 3}')
    with pytest.raises(ToolError, match="notebook format 3"):
        find_notebook(Traces(path, ids=frozenset({"cell-one"})))
