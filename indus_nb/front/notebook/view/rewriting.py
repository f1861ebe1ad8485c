"""An answer that its model is asked to write anew, as of values or numbers in it: only the second one is shown.

What this module promises: the first one stands until the words of the second one come, and is not lost where these end
badly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice, takewhile
from typing import cast

from indus_nb.base import textcut
from indus_nb.base.messages import AssistantMessage, CustomMessage, Message, TextContent, UserMessage
from indus_nb.base.wire import JsonObject
from indus_nb.front.notebook.view.parts import Prose
from indus_nb.render.live import REWRITES, VALUES_TYPE, LiveLookup, expressions_in, pending
from indus_nb.render.markup import markdown_text, markdown_tokens

_MAX_REASON_CHARACTERS = 200


class Rewriting:
    """The texts of an answer that may be written anew."""

    def __init__(self) -> None:
        """Start without any."""
        self._held: list[Prose] = []
        self._is_sent_back = False
        self._withdrawn: list[Prose] = []
        self.words: str = ""
        """Says that and why the answer was written anew."""

    def hold(self, answer: Iterable[Prose]) -> Sequence[Prose]:
        """Return the texts of an answer that may be sent back, of which the last word is not spoken; else none."""
        texts = [block for block in answer if not block.thinking]
        self._held = texts if any(map(_may_be_sent_back, texts)) else []
        return self._held

    def send_back(self, asked: CustomMessage) -> None:
        """Note that the model is asked to write the answer anew, if it is."""
        self.words = rewritten(asked)
        self._is_sent_back = bool(self._held and self.words)

    def release(self) -> Sequence[Prose]:
        """Return the texts that stay as they are, as the model is not asked to write them anew."""
        if self._is_sent_back:
            return ()
        held, self._held = self._held, []
        return held

    def withdraw(self) -> Sequence[Prose]:
        """Return the texts that others take the place of now; none where they are not written anew."""
        if not self._is_sent_back:
            return ()
        self._withdrawn, self._held, self._is_sent_back = self._held, [], False
        return self._withdrawn

    def end(self) -> str:
        """Forget what was withdrawn, now that all of the new answer is there; return words for it, empty for none."""
        withdrawn, self._withdrawn = self._withdrawn, []
        return self.words if withdrawn else ""

    def lost(self) -> Sequence[Prose]:
        """Return what was withdrawn for an answer that has ended badly."""
        lost, self._withdrawn = self._withdrawn, []
        self._held, self._is_sent_back = [], False
        return lost


def _may_be_sent_back(block: Prose) -> bool:
    """Return whether a text has an expression without a value, or a number that no result shows."""
    if block.tracing is not None and block.tracing.untraced_in(block.text):
        return True
    if block.live is None or block.live is pending:
        return False
    values = map(block.live, expressions_in(markdown_tokens(block.text)))
    return any(value is not None and value.is_lacking for value in values)


def rewritten(asked: CustomMessage) -> str:
    """Return the words for an answer that a message has sent back; empty if it has sent none."""
    details: object = asked.details
    reason: object = cast("JsonObject", details).get(REWRITES) if isinstance(details, dict) else None
    is_asked = asked.custom_type == VALUES_TYPE and isinstance(reason, str)
    return f"rewritten: {textcut.head(str(reason), _MAX_REASON_CHARACTERS)}" if is_asked else ""


def with_values(text: str, live: LiveLookup | None) -> str:
    """Return the Markdown of an answer with its values, where they are known."""
    return text if live is None or live is pending else markdown_text(text, live)


def stored_rewritten(messages: Sequence[Message], at: int) -> tuple[AssistantMessage, str] | None:
    """Return the stored message at a place if it is an answer that was written anew, with the words for it."""
    match messages[at : at + 2]:
        case [AssistantMessage(stop_reason="stop") as first, CustomMessage() as asked] if words := rewritten(asked):
            behind = takewhile(lambda each: not isinstance(each, UserMessage), islice(messages, at + 2, None))
            answers = (each for each in behind if isinstance(each, AssistantMessage))
            return (first, words) if any(each.stop_reason == "stop" and each.text.strip() for each in answers) else None
        case _:
            return None


def stored_text(answer: AssistantMessage) -> list[str]:
    """Return the texts of a stored answer."""
    return [block.text for block in answer.content if isinstance(block, TextContent)]
