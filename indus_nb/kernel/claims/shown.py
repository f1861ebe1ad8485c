"""What the model of a conversation was shown: the outputs that numbers of its answers may come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from indus_nb.base.messages import CustomMessage, Message, ToolResultMessage, UserMessage, text_of
from indus_nb.base.wire import JsonObject
from indus_nb.kernel.claims.evidence import Output
from indus_nb.render.live import REWRITES


def shown_to_model(messages: Sequence[Message]) -> tuple[tuple[Output, ...], str]:
    """Collect results of calls, what went along with prompts, and the user's own words.

    Args:
        messages: Those of a conversation, in their order.

    Returns:
        The outputs in their order, with an empty ``call_id`` for what is no result of a call; and the words.
    """
    outputs: list[Output] = []
    words: list[str] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            outputs.append(Output(message.tool_call_id, text_of(message.content)))
        elif isinstance(message, UserMessage):
            words.append(text_of(message.content))
            along = "\n".join(text_of([each.as_read()]) for each in message.attachments or ())
            outputs += [Output("", along)] if along else []
        elif isinstance(message, CustomMessage) and not _quotes_an_answer(message):
            outputs.append(Output("", text_of(message.content)))
    return tuple(outputs), "\n".join(words)


def _quotes_an_answer(message: CustomMessage) -> bool:
    """Return whether a message sends an answer back, and names numbers of it, which is no evidence of them."""
    details: object = message.details
    return isinstance(details, dict) and REWRITES in cast("JsonObject", details)
