"""What a cell displayed is told in words, whatever it was, and keeping it never fails in the user's code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
from work import cpu_stays_in_proportion

from indus_nb.kernel.run.execution import Routes
from indus_nb.kernel.run.journal import Cell, Journal, as_text
from indus_nb.kernel.run.outputs import described


def told(html: str) -> str:
    return described({"text/html": html, "text/plain": "<IPython.core.display.HTML object>"})


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<style>p{}</style><p>so <b>many</b></p><td>1</td><td>2</td>", "so many\n1 | 2"),
        ("<script>if (a<b && c>d) x('</p>')</script>5 &lt; 6", "5 < 6"),
        ("<!-- <b>not</b> this -->a<br/>b\nc", "a\nb c"),
        ("<a title=\"a>b\" href='x>y'>link</a> and x < y --> z", "link and x < y --> z"),
        ("<svg><style/><text>words</text></svg>", "words"),
        ("<TABLE><TR><TH>n<TH>m<TR><TD>1<TD>2</TABLE>", "n | m\n1 | 2"),
        ("<SCRIPT>x</SCRIPT>seen<script>never closed", "seen"),
        ("&#" + "9" * 5000 + ";", "&#" + "9" * 3998 + "…"),
    ],
)
def test_html_is_told_as_its_words(html: str, text: str) -> None:
    assert told(html) == text


@pytest.mark.parametrize("odd", ["<a b", "<a b='", "<!--", "</", "<![CDATA[", "<?", "<!D", "<table>", '<a "', "<"])
def test_odd_html_is_read_in_a_time_that_grows_with_its_length(odd: str) -> None:
    assert cpu_stays_in_proportion(400, lambda length: told(odd * length))


def test_displays_are_put_into_words_once_and_from_the_last_until_they_fill_the_room() -> None:
    class Counted(dict[str, Any]):
        def __init__(self, text: str) -> None:
            super().__init__({"text/plain": text})
            self.asked = 0

        def items(self) -> Any:
            self.asked += 1
            return super().items()

    shown = [Counted(f"{number} {'x' * 900}") for number in range(10)]
    cell = Cell(1, 1, "show()", shown=cast("list[Mapping[str, Any]]", shown))
    first = as_text(cell)
    assert "9 xxx" in first
    assert [each.asked for each in shown] == [0] * 7 + [1] * 3
    assert as_text(cell) == first
    assert [each.asked for each in shown] == [0] * 7 + [1] * 3


class ShellOfKernel(InteractiveShell):
    kernel = True

    def ask_exit(self) -> None:
        raise SystemExit


def test_a_display_of_any_kind_reaches_the_user_and_is_noted_as_far_as_it_is_text(tmp_path: Path) -> None:
    shell = ShellOfKernel(ipython_dir=str(tmp_path), config=Config(HistoryManager={"enabled": False}))
    routes = Routes(shell)
    journal = Journal(shell, routes)
    try:
        shell.run_cell(
            "publish = get_ipython().display_pub.publish\n"
            "publish({None: 1, 'text/plain': 'one'})\n"
            "publish({'text/plain': 'two'}, transient={'display_id': [1]})\n"
            "publish({'text/plain': ['three']})\n"
            "publish({'k' * 1_000_000: 1, 'text/plain': 'four'})\n",
            store_history=True,
        )
    finally:
        journal.close()
        routes.remove()
    told, count = journal.since(0)
    assert count == 1
    assert "Error" not in told
    assert "Shown:\n```\none\ntwo\n[text/plain]\nfour\n```" in told
