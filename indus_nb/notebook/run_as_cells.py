"""The code that the agent ran since the user's last message, as cells of the notebook with what they gave."""

from __future__ import annotations

import json
from collections.abc import Sequence

from indus_nb.messages import AssistantMessage, ToolCall, ToolResultMessage, UserMessage
from indus_nb.notebook.cell_work import CellWork
from indus_nb.notebook.document import FinishedCell, NotebookTools
from indus_nb.notebook.kernel.outputs import CallOutputs, OutputBoard
from indus_nb.notebook.view import blocks
from indus_nb.session.session import AgentSession
from indus_nb.tools import describe_call
from indus_nb.wire import JsonObject

_MAX_OUTPUT_BYTES = 8_000_000  # servers refuse messages above 10 MB


def cells_of_run(session: AgentSession, board: OutputBoard) -> list[FinishedCell]:
    """Make cells of the calls that ran code in the kernel since the user's last message, and that ended well.

    Args:
        session: The session.
        board: What the newest calls have shown.

    Returns:
        The cells, in the order in which they ran.
    """
    good: set[str] = set()
    cells: list[FinishedCell] = []
    for message in reversed(session.messages):
        match message:
            case UserMessage():
                break
            case ToolResultMessage(is_error=False):
                good.add(message.tool_call_id)
            case AssistantMessage():
                calls = [block for block in message.content if isinstance(block, ToolCall) and block.id in good]
                cells[:0] = [cell for call in calls if (cell := _cell(session, call, board.of(call.id))) is not None]
            case _:
                pass
    return cells


async def insert_in(notebook: NotebookTools, cells: Sequence[FinishedCell], waiting: CellWork) -> None:
    """Insert cells below the one that waits, and say in that what became of them.

    Args:
        notebook: The notebook.
        cells: The cells.
        waiting: The work of the cell that waits.
    """
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
    outputs = [] if shown is None else _outputs(shown)
    if len(json.dumps(outputs)) > _MAX_OUTPUT_BYTES:
        outputs = []
    return FinishedCell(code.strip("\n"), outputs)


def _outputs(shown: CallOutputs) -> list[JsonObject]:
    """What a call printed, and below it what it displayed, in the form of the notebook format."""
    marks = {f"↓ {output.title}" for output in shown.outputs} | {"(no output)"}
    text = "\n".join(line for line in shown.text.split("\n") if line not in marks).strip("\n")
    printed: list[JsonObject] = [{"output_type": "stream", "name": "stdout", "text": f"{text}\n"}] if text else []
    displayed: list[JsonObject] = [
        {"output_type": "display_data", "data": dict(output.data), "metadata": dict(output.metadata)}
        for output in shown.outputs
    ]
    return printed + displayed
