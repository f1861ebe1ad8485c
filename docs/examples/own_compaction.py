"""Compacts without asking a model: what the user wanted, word for word, the files, and how the last answer ended.

It costs nothing and takes no time. When somebody compacts with instructions, the usual summary is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import takewhile

from indus_nb.base.messages import AssistantMessage, Message, UserMessage, text_of
from indus_nb.core.session.compaction import FileNames
from indus_nb.core.storage import Entry
from indus_nb.extend.api import Context, ExtensionApi
from indus_nb.extend.events import CompactAnswer, CompactionAnswer, SessionBeforeCompact

LONGEST = 600
"""Characters that are kept of a request, and of the answer."""
ROOM = 12_000
"""Characters for all requests together; the oldest are left out."""


def setup(api: ExtensionApi) -> None:
    """Answer before a summary is written."""

    @api.on("session_before_compact")
    def summarise(event: SessionBeforeCompact, _ctx: Context) -> CompactAnswer | None:
        if event.custom_instructions:
            return None
        kept = event.preparation.first_kept_entry_id
        # From the root, so that what an earlier compaction left out is looked at again and nothing wears away.
        messages = said(takewhile(lambda entry: entry.id != kept, event.branch_entries))
        files = FileNames.of(messages)
        return CompactAnswer(
            compaction=CompactionAnswer(
                summary=summary(messages) + files.blocks(),
                first_kept_entry_id=kept,
                tokens_before=event.preparation.tokens_before,
                details=files.details(),
            )
        )


def said(entries: Iterable[Entry]) -> list[Message]:
    """The messages of ``entries``; those of a kind unknown here are left out."""
    messages: list[Message] = []
    for entry in entries:
        with suppress(ValueError):
            if entry.type == "message" and entry.message is not None:
                messages.append(entry.message)
    return messages


def summary(messages: Sequence[Message]) -> str:
    """The user's requests, newest last, and the latest answer."""
    requests: list[str] = []
    room = ROOM
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            request = f"- {shortened(text_of(message.content))}"
            room -= len(request)
            if room < 0:
                requests.append("- (older requests are left out)")
                break
            requests.append(request)
    answers = (message.text for message in reversed(messages) if isinstance(message, AssistantMessage) and message.text)
    answer = shortened(next(answers, "(none)"))
    return "\n".join(["## What the user asked for", *reversed(requests), "", "## The latest answer to that", answer])


def shortened(text: str) -> str:
    """At most ``LONGEST`` characters, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} …"
