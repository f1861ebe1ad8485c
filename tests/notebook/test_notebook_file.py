"""Notebooks as files: which one a kernel works for, and files that are none."""

from __future__ import annotations

import json
import os
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from notebook_files import code, shown, write

from indus_nb.kernel.document import Reading, Traces, find_notebook, named_notebook, read_notebook
from indus_nb.kernel.document.notebook_file import notebooks_run_so_far, parse_cell
from indus_nb.kernel.document.open_notebooks import read_whole
from indus_nb.tools.tool import ToolError


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


def test_a_pipe_and_a_directory_and_nothing_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.ipynb")
    (tmp_path / "folder.ipynb").mkdir()
    for name in ("pipe.ipynb", "folder.ipynb"):
        with pytest.raises(ToolError, match="no regular file"):
            read_notebook(tmp_path / name)
    with pytest.raises(ToolError, match="No such file"):
        read_notebook(tmp_path / "gone.ipynb")


def test_a_notebook_that_is_being_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "book.ipynb", code("x = 1"))
    whole = path.read_bytes()
    path.write_bytes(b"")
    writing = threading.Timer(0.1, path.write_bytes, [whole])
    writing.start()
    assert [cell.source for cell in read_whole(path)] == ["x = 1"]
    path.write_bytes(whole[:20])
    with pytest.raises(ToolError):
        read_whole(path)


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
    reading = Reading({3: 1})
    assert "two" in reading.whole(file.cells, [1, 2, 3, 4], 10_000)[0]
    assert "code · place 2" in reading.listing(file.cells)


def test_a_cell_of_the_agents_was_run_though_it_has_no_number(tmp_path: Path) -> None:
    own = {"run": "a", "call": "b"}
    marked = {**code("x = 1"), "metadata": {"indus_nb": own}}
    file = read_notebook(write(tmp_path / "a.ipynb", marked, code("x = 1"), {**code("x"), "metadata": {"indus_nb": 3}}))
    from_page = [parse_cell({"type": "code", "source": "x = 1", "agent": own}), parse_cell({"type": "code"})]
    assert [cell.was_run for cell in file.cells] == [True, False, False]
    assert [cell is not None and cell.was_run for cell in from_page] == [True, False]


def test_numbers_that_json_does_not_know_and_half_characters_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_bytes(
        b'\xef\xbb\xbf{"nbformat": 4, "cells": [{"cell_type": "code", "source": "half \\ud83d", "outputs": '
        b'[{"output_type": "display_data", "data": {"application/json": {"x": NaN}}}]}]}'
    )
    text, _ = Reading().whole(read_notebook(path).cells, [1], 1000)
    text.encode()
    assert "half \ufffd" in text
    assert '{"x": NaN}' in text


def test_the_server_or_the_editor_names_the_path(tmp_path: Path) -> None:
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


def test_a_wrong_path_from_an_editor_is_ignored(tmp_path: Path) -> None:
    for said in (5, "gone.ipynb", str(tmp_path / "gone.ipynb"), str(tmp_path), "a\0b.ipynb"):
        assert named_notebook({}, {"__vsc_ipynb_file__": said}, tmp_path, None) == (None, False)
    for uri in ("vscode-notebook-cell:Untitled-1.ipynb?jupyter-notebook#W0", "vscode-notebook-cell://[#x", "other:x"):
        assert named_notebook({}, {}, tmp_path, uri) == (None, False)


def test_a_relative_name_counts_only_where_it_fits_the_directory_of_the_kernel(tmp_path: Path) -> None:
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


def test_the_error_says_why_the_named_file_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text('{"nbformat": 3}')
    with pytest.raises(ToolError, match="notebook format 3"):
        find_notebook(Traces(path, ids=frozenset({"cell-one"})))


def test_notebooks_are_looked_for_among_the_newest_and_in_no_more_than_64_mb(tmp_path: Path) -> None:
    for age, (name, size) in enumerate([("newest", 40 << 20), ("next", 40 << 20), ("oldest", 0)]):
        path = write(tmp_path / f"{name}.ipynb", code("a = 1"))
        with path.open("a") as file:
            file.write(" " * size)
        os.utime(path, (1e9 - age, 1e9 - age))
    assert [file.path.stem for file in notebooks_run_so_far(tmp_path, ["a = 1"])] == ["newest", "oldest"]
