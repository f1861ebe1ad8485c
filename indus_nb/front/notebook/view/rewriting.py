"""An answer that its model writes anew, as expressions in it have no value: only the second one is shown.

What this module promises: the first one stands until the words of the second one come, and is not lost where these end
badly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeGuard

from indus_nb.base.messages import AssistantMessage, CustomMessage, Message, TextContent
from indus_nb.front.notebook.view.parts import Prose
from indus_nb.render.live import VALUES_TYPE, LiveLookup, expressions_in, pending
from indus_nb.render.markup import markdown_text, markdown_tokens


class Rewriting:
    """The texts of an answer that may be written anew."""

    def __init__(self) -> None:
        """Start without any."""
        self._held: list[Prose] = []
        self._is_sent_back = False
        self._withdrawn: list[Prose] = []

    def hold(self, answer: Iterable[Prose]) -> Sequence[Prose]:
        """Return the texts of an answer that may be sent back, of which the last word is not spoken; else none."""
        texts = [block for block in answer if not block.thinking]
        self._held = texts if lacking(texts) else []
        return self._held

    def send_back(self) -> None:
        """Note that the model is asked to write the answer anew."""
        self._is_sent_back = bool(self._held)

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
        return rewritten(lacking(withdrawn)) if withdrawn else ""

    def lost(self) -> Sequence[Prose]:
        """Return what was withdrawn for an answer that has ended badly."""
        lost, self._withdrawn = self._withdrawn, []
        self._held, self._is_sent_back = [], False
        return lost


def lacking(texts: Iterable[Prose]) -> int:
    """Count the expressions in texts that have no value, and that their model may mend."""
    return sum(_lacking(block.text, block.live) for block in texts)


def _lacking(text: str, live: LiveLookup | None) -> int:
    if live is None or live is pending:
        return 0
    values = map(live, expressions_in(markdown_tokens(text)))
    return sum(value is not None and value.is_lacking for value in values)


def rewritten(count: int) -> str:
    """Say that an answer was written anew.

    Args:
        count: Number of expressions without a value; 0 if that is not known any more.

    >>> rewritten(1), rewritten(3)
    ('rewritten: one value could not be computed', 'rewritten: 3 values could not be computed')
    """
    values = "values" if not count else "one value" if count == 1 else f"{count} values"
    return f"rewritten: {values} could not be computed"


def with_values(text: str, live: LiveLookup | None) -> str:
    """Return the Markdown of an answer with its values, where they are known."""
    return text if live is None or live is pending else markdown_text(text, live)


def is_rewritten(messages: Sequence[Message]) -> TypeGuard[Sequence[AssistantMessage]]:
    """Return whether the first of some stored messages is an answer that the model has written anew."""
    match messages:
        case [AssistantMessage(stop_reason="stop"), CustomMessage(custom_type=kind), AssistantMessage() as anew, *_]:
            return kind == VALUES_TYPE and anew.stop_reason not in ("error", "aborted")
        case _:
            return False


def stored_text(answer: AssistantMessage) -> list[str]:
    """Return the texts of a stored answer."""
    return [block.text for block in answer.content if isinstance(block, TextContent)]
