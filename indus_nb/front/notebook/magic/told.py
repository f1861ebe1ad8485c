"""Context of the next request to the model, part by part, in tokens: as the server has counted them, else estimated."""

from __future__ import annotations

from indus_nb.base.wire import dump
from indus_nb.core.session.compaction import estimated_text_tokens
from indus_nb.core.session.session import AgentSession
from indus_nb.render import markup

_MAX_LINES = 60
_MAX_CHARACTERS = 8_000


async def told(session: AgentSession, going_along: str) -> list[tuple[str, str, str]]:
    """List the parts of the next request, in tokens.

    Args:
        going_along: The cells and variables that go along with the next message.

    Returns:
        A row for each part: its name, its length, and what it holds.
    """
    await session.start()
    tools = [tool.spec for tool in session.active_tools.values()]
    names = ", ".join(tool.name for tool in tools)
    system = estimated_text_tokens(len(session.system_prompt))
    described = estimated_text_tokens(len(dump([[tool.name, tool.description, tool.parameters] for tool in tools])))
    tokens = session.state.conversation.tokens()
    # A server counts all together; what is not of the two other parts is of the messages.
    left_out = session.clearing.saves()
    messages = max(0, tokens.counted - system - described - left_out) + tokens.estimated
    cleared = f", without old results of about {left_out:,} tokens" if left_out else ""
    parts = [
        ("system prompt", system, ""),
        ("tools", described, names),
        ("messages", messages, f"{len(session.messages):,} in the conversation{cleared}"),
        (
            "goes along",
            estimated_text_tokens(len(going_along)),
            "new cells and variables" if going_along else "nothing",
        ),
    ]
    total = sum(size for _, size, _ in parts)
    estimated = total + left_out - tokens.counted
    how = "" if not estimated else "estimated" if not tokens.counted else f"of which {estimated:,} are estimated"
    return [(name, f"{size:,} tokens", note) for name, size, note in (*parts, ("together", total, how))]


def going_along_in_short(text: str) -> str:
    """Return what goes along with the next message, below a sentence about it."""
    shown = markup.cut(text, lines=_MAX_LINES, characters=_MAX_CHARACTERS)
    return f"With your next message goes along:\n\n{shown}"
