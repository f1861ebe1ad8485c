"""The context that goes to the model besides a prompt, such as cells and variables, as a line that unfolds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeGuard

from indus_nb.base import textcut
from indus_nb.base.messages import CONTEXT, Attachment, CustomMessage, Message, UserMessage, text_of
from indus_nb.core.session.compaction import estimated_text_tokens
from indus_nb.render import cards, markup
from indus_nb.render.nodes import Box, CodeBlock, Fold, Node, Sentence

CONTEXT_TYPE = "cells"
"""The ``custom_type`` of the messages."""
_MAX_LINES = 10_000
_MAX_CHARACTERS = 20_000


def is_context(message: Message | None) -> TypeGuard[CustomMessage]:
    """Return whether a message carries cells and variables to the model."""
    return isinstance(message, CustomMessage) and message.custom_type == CONTEXT_TYPE


def context(message: CustomMessage) -> Node:
    """Draw a message that carries cells and variables to the model.

    Viewers that cannot fold show the line alone: what it stands for is in the notebook already.
    """
    details = cards.told_by(message.details)
    told = (("toldCells", "cell"), ("toldVariables", "variable"), ("toldProfiles", "profile"))
    parts = ["a new kernel"] if details.get("newKernel") is True else []
    return _folded([*parts, *(_counted(details.get(key), what) for key, what in told)], text_of(message.content))


def contexts_along(message: UserMessage) -> list[Node]:
    """Draw the texts that went along with the words of the user."""
    return [
        _folded([each.file_name], text_of([each.as_read()])) for each in message.attachments or () if is_along(each)
    ]


def is_along(attachment: Attachment) -> bool:
    """Return whether an attachment is a text that goes along with the words of the user."""
    return attachment.type == CONTEXT


def _folded(parts: Iterable[str], text: str) -> Node:
    parts = [*filter(None, parts), f"about {estimated_text_tokens(len(text)):,} tokens"]
    shown = CodeBlock(markup.cut(text, lines=_MAX_LINES, characters=_MAX_CHARACTERS), "told")
    title = Sentence(" · ".join(["Context", ", ".join(parts)]))
    return Box("quiet", "context", Fold(title, [shown], elsewhere="left out"))


def _counted(count: object, what: str) -> str:
    """Return a count from a session file in words; empty for none."""
    return textcut.counted(count, what) if isinstance(count, int) and count > 0 else ""
