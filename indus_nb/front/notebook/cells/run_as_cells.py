"""The code that the agent ran since the user's last message, as cells with outputs."""

from __future__ import annotations

import ast
import itertools
import json
from collections.abc import Sequence
from typing import NamedTuple

from indus_nb.base import textcut
from indus_nb.base.messages import AssistantMessage, ToolCall, ToolResultMessage, UserMessage
from indus_nb.base.wire import JsonObject
from indus_nb.core.session.session import AgentSession
from indus_nb.front.notebook.cells.cell_work import CellWork
from indus_nb.front.notebook.view import blocks
from indus_nb.kernel.document import FinishedCell, NotebookTools, WrittenCell
from indus_nb.kernel.run.outputs import CallOutputs, OutputBoard
from indus_nb.kernel.trials.trying import had_no_effect
from indus_nb.render.cards import told_by
from indus_nb.tools import describe_call

_MAX_OUTPUT_BYTES = 8_000_000  # servers refuse messages above 10 MB


class CellsOfRun(NamedTuple):
    """The cells, in the order in which their code ran, and how many calls have none since they only looked.

    ``is_code_alone`` is whether what they gave is left out.
    """

    cells: Sequence[FinishedCell]
    left_out: int
    is_code_alone: bool = False


def cells_of_run(session: AgentSession, board: OutputBoard) -> CellsOfRun:
    """Build cells from the successful calls that ran code since the user's last message, and have no cell yet.

    Calls without text of the model between them are one cell, as long as the outputs of each stay the same. Calls
    that had no effect are left out if there are others, but for those that showed a figure, which is a result.
    """
    messages = list(
        itertools.takewhile(lambda message: not isinstance(message, UserMessage), reversed(session.messages))
    )
    good = {
        message.tool_call_id: had_no_effect(message.details)
        for message in messages
        if isinstance(message, ToolResultMessage) and not (message.is_error or _has_cell(message))
    }
    groups: list[list[tuple[FinishedCell, bool]]] = [[]]
    for message in reversed(messages):
        if not isinstance(message, AssistantMessage):
            continue
        if message.text.strip():
            groups.append([])
        for call in message.tool_calls:
            shown = board.of(call.id)
            if call.id in good and (cell := _cell(session, call, shown)) is not None:
                groups[-1].append((cell, good[call.id] and not has_figure(shown)))
    everything = [[cell for cell, _ in group] for group in groups]
    kept = [[cell for cell, looks in group if not looks] for group in groups]
    kept = kept if any(kept) else everything
    left_out = sum(map(len, everything)) - sum(map(len, kept))
    return CellsOfRun([cell for group in kept for cell in _joined(group)], left_out)


def has_figure(shown: CallOutputs | None) -> bool:
    """Return whether a call showed a figure, which is a result, also of code that only looked."""
    return shown is not None and any(output.is_figure for output in shown.outputs)


def _has_cell(result: ToolResultMessage) -> bool:
    return "cell" in told_by(result.details)


def _joined(cells: Sequence[FinishedCell]) -> list[FinishedCell]:
    """Merge cells whose outputs stay the same: a cell shows only the value of its last expression."""
    joined: list[FinishedCell] = []
    for cell in cells:
        before = joined.pop() if joined and not _ends_in_value(joined[-1].source) else FinishedCell("")
        source = f"{before.source}\n\n{cell.source}".lstrip("\n")
        joined.append(FinishedCell(source, [*before.outputs, *cell.outputs], before.call or cell.call))
    return joined


def _ends_in_value(source: str) -> bool:
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return True  # magics may have to be the first line
    if not body or not isinstance(body[-1], ast.Expr):
        return False
    value = body[-1].value
    return not (isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "print")


def in_one_cell(made: CellsOfRun) -> CellsOfRun:
    """Return one cell with all of the code, and without outputs."""
    source = "\n\n".join(cell.source for cell in made.cells)
    return CellsOfRun([FinishedCell(source, call=made.cells[0].call)], 0, is_code_alone=True)


async def insert_in(notebook: NotebookTools, made: CellsOfRun, asked: str | None, waiting: CellWork) -> None:
    """Insert cells below the one that waits unless the notebook has them, and show the result in that one.

    Args:
        asked: The cell whose prompt their code was run for; see `asking_cell`.
    """
    if there := await notebook.holding(made.cells, asked):
        waiting.left = blocks.notice(_there(there, made))
        return
    finished = await notebook.insert_finished(made.cells, asked)
    if finished or len(made.cells) > 1 or not made.is_code_alone:  # else the cell below says it
        waiting.left = blocks.notice(_inserted(finished, made))


def _there(there: Sequence[WrittenCell], made: CellsOfRun) -> str:
    *first, last = [cell.name for cell in there]
    names = f"{', '.join(first)} and {last}" if first else last
    have, delete = ("has", "it") if len(there) == 1 else ("have", "them")
    held = f"{names[0].upper()}{names[1:]} {have} what the agent ran for this prompt"
    if [cell.source for cell in there] == [cell.source for cell in made.cells]:
        return f"{held}: nothing was added."
    return f"{held} before, and nothing was added. Delete {delete} and run this cell again for the code of now."


def _inserted(finished: int, made: CellsOfRun) -> str:
    count, left_out = len(made.cells), ""
    if made.left_out:
        are = "is" if made.left_out == 1 else "are"
        left_out = f" {textcut.counted(made.left_out, 'call')} that only looked {are} left out."
    if finished < count:
        return f"This front end adds one cell: the code is in it, without outputs.{left_out}"
    hold = f"{count} cells below hold" if count > 1 else "The cell below holds"
    gave = "" if made.is_code_alone else ", with what it gave"
    return f"{hold} what the agent ran{gave}.{left_out}"


def _cell(session: AgentSession, call: ToolCall, shown: CallOutputs | None) -> FinishedCell | None:
    code = describe_call(call.name, call.arguments, session.all_tools).code
    if code is None:
        return None
    outputs = [] if shown is None else notebook_outputs(shown)
    return FinishedCell(code.strip("\n"), outputs, call.id)


def notebook_outputs(shown: CallOutputs) -> list[JsonObject]:
    """Build the notebook-format outputs of a call: printed text, then displays; none if they are too large to send."""
    marks = {f"↓ {output.title}" for output in shown.outputs} | {"(no output)"}
    text = "\n".join(line for line in shown.text.split("\n") if line not in marks).strip("\n")
    printed: list[JsonObject] = [{"output_type": "stream", "name": "stdout", "text": f"{text}\n"}] if text else []
    displayed: list[JsonObject] = [
        {"output_type": "display_data", "data": dict(output.data), "metadata": dict(output.metadata)}
        for output in shown.outputs
    ]
    outputs = printed + displayed
    return outputs if len(json.dumps(outputs)) <= _MAX_OUTPUT_BYTES else []
