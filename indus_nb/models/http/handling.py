"""Dispatch of a server's events to an answer, for every provider that decodes them itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, cast

from indus_nb.base.streaming import AssistantMessageEvent
from indus_nb.base.wire import JsonObject

_MANY = 32


class GrowingAnswer(Protocol):
    """An answer that a server's events add up to."""

    @property
    def complete(self) -> bool:
        """Return whether nothing follows."""
        ...

    def handle(self, event: object) -> Iterable[AssistantMessageEvent]:
        """Return what an event adds."""
        ...

    def delta_in(self, event: object) -> tuple[object, str] | None:
        """Return the target and the text of an event, if it says nothing else."""
        ...

    def with_delta(self, event: JsonObject, text: str) -> JsonObject:
        """Return a copy of an event of ``delta_in`` with another text.

        Returns:
            An event that says the same with this text.
        """
        ...


def updates(answer: GrowingAnswer, events: Sequence[object]) -> Iterator[AssistantMessageEvent]:
    """Yield what a batch of events adds to an answer.

    With many of them the server is ahead of the reader: deltas of one block that follow each other are then one delta.

    Args:
        answer: The answer so far. Events behind its end are left out.

    Yields:
        The updates. What ``handle`` raises comes after all that the events before it add.
    """
    for event in _joined(answer, events) if len(events) > _MANY else events:
        yield from answer.handle(event)
        if answer.complete:
            return


def _joined(answer: GrowingAnswer, events: Sequence[object]) -> Iterator[object]:
    first: object = None
    where: object = None
    texts: list[str] = []
    for event in events:
        found = answer.delta_in(event)
        if found is not None and texts and found[0] == where:
            texts.append(found[1])
            continue
        if texts:
            yield _whole(answer, first, texts)
            texts = []
        if found is None:
            yield event
        else:
            first, where, texts = event, found[0], [found[1]]
    if texts:
        yield _whole(answer, first, texts)


def _whole(answer: GrowingAnswer, first: object, texts: list[str]) -> object:
    return answer.with_delta(cast("JsonObject", first), "".join(texts)) if len(texts) > 1 else first
