"""Which of the agent's calls become cells, and what is said of the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from indus_nb.base.messages import AssistantMessage, Message, TextContent, ToolCall, ToolResultMessage, UserMessage
from indus_nb.front.notebook.cells.run_as_cells import cells_of_run, insert_in
from indus_nb.kernel.document import WrittenCell
from indus_nb.kernel.run.outputs import Output, OutputBoard
from indus_nb.tools import CallDescription, FunctionTool
from indus_nb.tools.tool import Arguments, ToolOutput

LOOKED = {"looked": True}


class Code(Arguments):
    code: str


async def execute(arguments: Code, context: object) -> ToolOutput:
    return ToolOutput(content=[])


def describe(default: CallDescription, arguments: Code) -> CallDescription:
    return CallDescription("python", code=arguments.code)


PYTHON = FunctionTool("python", "", Code, execute, describe=describe)


class Run:
    """A run of calls, each with the kinds of its displays."""

    def __init__(self) -> None:
        self.board = OutputBoard()
        self.messages: list[Message] = [UserMessage(content="go")]
        self.all_tools = {"python": PYTHON}

    def call(self, code: str, details: dict[str, Any] | None = None, shows: Sequence[str] = ()) -> None:
        call = ToolCall(id=code, name="python", arguments={"code": code})
        self.messages.append(AssistantMessage(content=[call], api="a", provider="p", model="m", stop_reason="toolUse"))
        result = ToolResultMessage(tool_call_id=code, tool_name="python", content=[TextContent(text="")])
        result.details = details
        self.messages.append(result)
        self.board.begin(code, lambda value: value).show("", [Output({"x": "y"}, {}, title, 1) for title in shows])

    def made(self) -> tuple[list[str], str]:
        """The sources of the cells that are inserted, and what is said of them."""
        sources: list[str] = []
        waiting: Any = SimpleNamespace(left=None)

        async def insert_finished(cells: Sequence[Any], asked: str | None) -> int:
            sources.extend(cell.source for cell in cells)
            return len(cells)

        async def holding(made: Sequence[Any], asked: str | None) -> list[WrittenCell]:
            return []

        session: Any = self
        notebook: Any = SimpleNamespace(insert_finished=insert_finished, holding=holding)
        asyncio.run(insert_in(notebook, cells_of_run(session, self.board), None, waiting))
        return sources, waiting.left["text/plain"]


def test_how_many_calls_that_only_looked_have_no_cell_is_said() -> None:
    run = Run()
    run.call("len(rows)", LOOKED)
    run.call("rows = [3]", {"changed": "rows"})
    assert run.made() == (
        ["rows = [3]"],
        "The cell below holds what the agent ran, with what it gave. 1 call that only looked is left out.",
    )
    run.call("rows[0]", LOOKED, ["DataFrame"])
    assert run.made()[1].endswith(" 2 calls that only looked are left out.")


@pytest.mark.parametrize("figure", ["figure", "interactive chart"])
def test_a_call_that_only_looked_and_showed_a_figure_has_a_cell(figure: str) -> None:
    run = Run()
    run.call("rows = [3]", {"changed": "rows"})
    run.call("draw(rows)", {"ran": "copy"}, [figure])
    assert run.made() == (
        ["rows = [3]\n\ndraw(rows)"],
        "The cell below holds what the agent ran, with what it gave.",
    )


def test_calls_that_only_looked_have_cells_where_there_are_no_others() -> None:
    run = Run()
    run.call("len(rows)", LOOKED)
    assert run.made() == (["len(rows)"], "The cell below holds what the agent ran, with what it gave.")
