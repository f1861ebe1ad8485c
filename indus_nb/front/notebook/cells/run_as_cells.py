"""The code that the agent ran since the user's last message, as cells with outputs."""

from __future__ import annotations

import ast
import itertools
import json
from collections.abc import Sequence

from indus_nb.base.messages import AssistantMessage, ToolCall, ToolResultMessage, UserMessage
from indus_nb.base.wire import JsonObject
from indus_nb.core.session.session import AgentSession
from indus_nb.front.notebook.cells.cell_work import CellWork
from indus_nb.front.notebook.view import blocks
from indus_nb.kernel.document import FinishedCell, NotebookTools
from indus_nb.kernel.run.outputs import CallOutputs, OutputBoard
from indus_nb.kernel.trials.trying import had_no_effect
from indus_nb.render.cards import told_by
from indus_nb.tools import describe_call

_MAX_OUTPUT_BYTES = 8_000_000  # servers refuse messages above 10 MB


def cells_of_run(session: AgentSession, board: OutputBoard) -> list[FinishedCell]:
    """Build cells from the successful calls that ran code since the user's last message, and have no cell yet.

    Calls without text of the model between them are one cell, as long as the outputs of each stay the same. Calls
    that had no effect are left out if there are others.

    Returns:
        The cells, in the order in which they ran.
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
        calls = (call for call in message.tool_calls if call.id in good)
        groups[-1] += [
            (cell, good[call.id]) for call in calls if (cell := _cell(session, call, board.of(call.id))) is not None
        ]
    everything = [[cell for cell, _ in group] for group in groups]
    kept = [[cell for cell, looks in group if not looks] for group in groups]
    return [cell for group in (kept if any(kept) else everything) for cell in _joined(group)]


def _has_cell(result: ToolResultMessage) -> bool:
    return "cell" in told_by(result.details)


def _joined(cells: Sequence[FinishedCell]) -> list[FinishedCell]:
    """Merge cells whose outputs stay the same: a cell shows only the value of its last expression."""
    joined: list[FinishedCell] = []
    for cell in cells:
        before = joined.pop() if joined and not _ends_in_value(joined[-1].source) else FinishedCell("")
        source = f"{before.source}\n\n{cell.source}".lstrip("\n")
        joined.append(FinishedCell(source, [*before.outputs, *cell.outputs]))
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


async def insert_in(notebook: NotebookTools, cells: Sequence[FinishedCell], waiting: CellWork) -> None:
    """Insert cells below the one that waits, and show the result in that one."""
    finished = await notebook.insert_finished(cells)
    waiting.left = blocks.notice(_inserted(finished, len(cells)))


def _inserted(finished: int, count: int) -> str:
    if finished < count:
        return "This front end adds one cell: the code is in it, without outputs."
    return (
        f"{f'{count} cells below hold' if count > 1 else 'The cell below holds'} what the agent ran, with what it gave."
    )


def _cell(session: AgentSession, call: ToolCall, shown: CallOutputs | None) -> FinishedCell | None:
    code = describe_call(call.name, call.arguments, session.all_tools).code
    if code is None:
        return None
    outputs = [] if shown is None else notebook_outputs(shown)
    return FinishedCell(code.strip("\n"), outputs)


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
