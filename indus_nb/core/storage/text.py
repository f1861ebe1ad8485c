"""The text of an entry: the one place that looks into stored messages for it.

What this module promises: entries of any shape are looked at, as a file has them, without building a message; what is
not understood counts as empty.
"""

from __future__ import annotations

from typing import cast

from indus_nb.base.wire import JsonObject
from indus_nb.core.storage.entries import Entry, as_text

SUBAGENT = "subagent"
"""``customType`` of entries that report the work of a sub-agent."""
NESTED = "nested-usage"
"""``customType`` of entries that record the usage of code which asked models."""


def content_text(content: object, *, for_editing: bool = False) -> str:
    """Return the text of a stored message's content.

    Args:
        content: a text, or a list of blocks; everything else counts as empty.
        for_editing: whether the text is offered for editing: blocks then stand on lines of their own, and blanks around
            them stay. Where it is listed, a space is between two blocks, and none is at either end.

    Returns:
        The text; blocks without any leave no trace.

    >>> content_text([{"type": "text", "text": "look at"}, {"type": "image"}, {"type": "text", "text": "this"}])
    'look at this'
    """
    if not isinstance(content, list):
        return as_text(content) if for_editing else as_text(content).strip()
    blocks = (cast("JsonObject", block) for block in cast("list[object]", content) if isinstance(block, dict))
    texts = [text for block in blocks if (text := as_text(block.get("text")))]
    return "\n".join(texts) if for_editing else " ".join(texts).strip()


def entry_text(entry: Entry, *, for_editing: bool = False) -> str:
    """Return the text of an entry: a message, a summary or a shell command.

    Args:
        entry: of any type; one without words has an empty text.
        for_editing: as in ``content_text``.
    """
    if entry.type in ("branch_summary", "compaction"):
        return as_text(entry.data.get("summary"))
    if agent := subagent_of(entry):
        return f"{as_text(agent.get('description'))} ({as_text(agent.get('status'))})"
    message = entry.data if entry.type == "custom_message" else stored_message(entry)
    return content_text(message.get("content"), for_editing=for_editing) or as_text(message.get("command"))


def user_text(entry: Entry, *, for_editing: bool = False) -> str:
    """Return the text of a user's message.

    Args:
        entry: of any type; one that is no message of the user has an empty text.
        for_editing: as in ``content_text``.
    """
    message = stored_message(entry)
    return content_text(message.get("content"), for_editing=for_editing) if message.get("role") == "user" else ""


def subagent_of(entry: Entry) -> JsonObject:
    """Return the report of an entry about a sub-agent, as the file has it.

    It is empty for an entry of another type or shape.
    """
    data: object = entry.data.get("data") if entry.type == "custom" else None
    is_one = isinstance(data, dict) and entry.data.get("customType") == SUBAGENT
    return cast("JsonObject", data) if is_one else {}


def stored_message(entry: Entry) -> JsonObject:
    """Return the message of an entry as the file has it.

    It is empty for an entry of another type or shape.
    """
    message: object = entry.data.get("message") if entry.type == "message" else None
    return cast("JsonObject", message) if isinstance(message, dict) else {}
