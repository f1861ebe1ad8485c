"""Context of the next request to the model, part by part, in tokens: as the server has counted them, else estimated."""

from __future__ import annotations

import textwrap

from indus_nb.base.wire import dump
from indus_nb.core.session.compaction import estimated_text_tokens
from indus_nb.core.session.session import AgentSession
from indus_nb.render import markup

_MAX_LINES = 60
_MAX_CHARACTERS = 8_000
_LINE_CHARACTERS = 84
"""Longest line that a cell shows without wrapping, where a file browser is beside the notebook."""


async def told(session: AgentSession, going_along: str) -> str:
    """List the parts of the next request.

    Args:
        going_along: The cells and variables that go along with the next message.

    Returns:
        A line for each part, and the text of what goes along.
    """
    await session.start()
    tools = [tool.spec for tool in session.active_tools.values()]
    names = ", ".join(tool.name for tool in tools)
    system = estimated_text_tokens(len(session.system_prompt))
    described = estimated_text_tokens(len(dump([[tool.name, tool.description, tool.parameters] for tool in tools])))
    tokens = session.state.conversation.tokens()
    # A server counts all together; what is not of the two other parts is of the messages.
    messages = max(0, tokens.counted - system - described) + tokens.estimated
    parts = [
        ("system prompt", system, ""),
        ("tools", described, names),
        ("messages", messages, f"{len(session.messages):,} in the conversation"),
        (
            "goes along",
            estimated_text_tokens(len(going_along)),
            "new cells and variables" if going_along else "nothing",
        ),
    ]
    rows = [
        textwrap.fill(note, _LINE_CHARACTERS, initial_indent=label, subsequent_indent=" " * len(label))
        or label.rstrip()
        for name, size, note in parts
        for label in [f"{name:14} {size:>9,} tokens  "]
    ]
    total = sum(size for _, size, _ in parts)
    estimated = total - tokens.counted
    how = "" if not estimated else ", estimated" if not tokens.counted else f", of which {estimated:,} are estimated"
    shown = markup.cut(going_along, lines=_MAX_LINES, characters=_MAX_CHARACTERS)
    text = ["", "With your next message goes along:", "", shown] if going_along else []
    return "\n".join(["What the model is told next.", "", *rows, f"{'together':14} {total:>9,} tokens{how}", *text])
