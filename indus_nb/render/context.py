"""The context that goes to the model besides a prompt, such as cells and variables, as a line that unfolds."""

from __future__ import annotations

from typing import TypeGuard

from indus_nb.base import textcut
from indus_nb.base.messages import CustomMessage, Message, text_of
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
    text = text_of(message.content)
    title = _title(message, estimated_text_tokens(len(text)))
    shown = CodeBlock(markup.cut(text, lines=_MAX_LINES, characters=_MAX_CHARACTERS), "told")
    return Box("quiet", "context", Fold(Sentence(title), [shown], elsewhere="left out"))


def _title(message: CustomMessage, tokens: int) -> str:
    details = cards.told_by(message.details)
    told = (("toldCells", "cell"), ("toldVariables", "variable"), ("toldProfiles", "profile"))
    parts = [_counted(details.get(key), what) for key, what in told]
    return " · ".join(["Context", ", ".join([*filter(None, parts), f"about {tokens:,} tokens"])])


def _counted(count: object, what: str) -> str:
    """Return a count from a session file in words; empty for none."""
    return textcut.counted(count, what) if isinstance(count, int) and count > 0 else ""
