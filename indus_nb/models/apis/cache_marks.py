"""Marks in a request up to which Claude's servers are to keep it, by their API and by gateways in front of it.

What this module promises:

- A request has four marks at most. The first stands behind the system prompt, and so behind the tools, which come
  before it. One stands behind what the first message has in common with other requests, if anything. The others stand
  at the last places where the user's side ends, before an answer and at the end.
- Such a place is where an earlier request has ended, so that what was kept then is found again whatever a turn holds:
  a server looks for it at a mark, and only so many blocks before it.
- All marks of a request keep for the same time: a longer time may not follow a shorter one.
"""

from __future__ import annotations

from collections.abc import Sequence

from indus_nb.base.wire import JsonObject
from indus_nb.models.apis.rules import keeps_long
from indus_nb.models.catalog import Model
from indus_nb.models.protocol import StreamOptions

_IN_MESSAGES = 3
_NEVER_MARKED = ("image_url",)
"""Parts of gateways' messages that take no mark."""


def cache_mark(model: Model, options: StreamOptions) -> JsonObject | None:
    """Return the mark of a request, ``None`` if nothing of it is to be kept."""
    if options.cache_retention == "none":
        return None
    return {"type": "ephemeral", "ttl": "1h"} if is_kept_long(model, options) else {"type": "ephemeral"}


def is_kept_long(model: Model, options: StreamOptions) -> bool:
    """Return whether the server is asked to keep the request for an hour."""
    return options.cache_retention == "long" and keeps_long(model)


def set_marks(
    mark: JsonObject, head: JsonObject | None, messages: Sequence[JsonObject], options: StreamOptions
) -> None:
    """Set the marks of a request, in place.

    Args:
        mark: The mark.
        head: The last part of what precedes the messages; ``None`` if nothing does.
        messages: The messages as they are sent; their content may be made a list of parts.
        options: Say what other requests begin with.
    """
    if head is not None:
        head["cache_control"] = mark
    is_split = _split_shared(mark, messages, options.shared_characters)
    for message in _ends(messages)[-(_IN_MESSAGES - is_split) :] if options.is_continued else ():
        content: str | list[JsonObject] = message["content"]
        if isinstance(content, str):
            content = message["content"] = [{"type": "text", "text": content}]
        if parts := [part for part in content if part["type"] not in _NEVER_MARKED]:
            parts[-1]["cache_control"] = mark


def _split_shared(mark: JsonObject, messages: Sequence[JsonObject], characters: int) -> bool:
    """Make the shared start of the first message of the user a part of its own, with a mark."""
    first = next((message for message in messages if message["role"] == "user"), None) if characters else None
    if first is None:
        return False
    content: str | list[JsonObject] = first["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    text = parts[0].get("text", "") if parts else ""
    if len(text) <= characters:
        return False
    shared = {"type": "text", "text": text[:characters], "cache_control": mark}
    first["content"] = [shared, {**parts[0], "text": text[characters:]}, *parts[1:]]
    return True


def _ends(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the messages of the user's side that an answer follows, and the last one."""
    followed = [*(message["role"] == "assistant" for message in messages[1:]), True]
    return [
        message
        for message, ends in zip(messages, followed, strict=True)
        if ends and message["role"] not in ("assistant", "system")
    ]
