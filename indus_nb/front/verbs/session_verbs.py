"""Verbs about a conversation as a whole: what was said, its summary, its name, its file, and other sessions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

from indus_nb.base.wire import JsonObject
from indus_nb.base.wire_model import wire_field
from indus_nb.core.session.compaction import CompactionResult
from indus_nb.core.storage import list_sessions
from indus_nb.front.verbs.setting_verbs import context_usage
from indus_nb.front.verbs.verb import MAX_NAME_CHARACTERS, MAX_TEXT_CHARACTERS, Call, Encoded, Verb, check_path


class NewSession(Verb):
    """Replace the session by a new, empty one in a file of its own.

    A run is aborted first. What waited in its queues is not delivered: `dropped` of `session_replaced` names it, also
    after `fork`, `clone` and `switch_session`.
    """

    names: ClassVar[tuple[str, ...]] = ("new_session",)
    for_pages: ClassVar[bool] = True
    parent_session: str | None = wire_field(default=None, check=check_path)

    async def run(self, call: Call) -> JsonObject:
        """Begin the session, unless an extension objects."""
        return {"cancelled": not await call.session.new_session(self.parent_session)}


class GetMessages(Verb):
    """All messages of the conversation."""

    names: ClassVar[tuple[str, ...]] = ("get_messages",)

    def run(self, call: Call) -> Encoded:
        """Return the messages."""
        return Encoded(b'{"messages":%b}' % call.session.conversation.to_json())


class GetLastAssistantText(Verb):
    """The text of the newest answer, or null."""

    names: ClassVar[tuple[str, ...]] = ("get_last_assistant_text",)

    def run(self, call: Call) -> JsonObject:
        """Return the text."""
        return {"text": call.session.last_text}


class Compact(Verb):
    """Summarise the older part of the conversation; a run that is going on is aborted first.

    While a compaction is going on another one is refused.
    """

    names: ClassVar[tuple[str, ...]] = ("compact",)
    for_pages: ClassVar[bool] = True
    custom_instructions: str | None = wire_field(default=None, max_length=MAX_TEXT_CHARACTERS)

    async def run(self, call: Call) -> CompactionResult:
        """Put a summary in the place of the older part.

        Raises:
            CompactionError: There is nothing to compact, or it failed or was aborted.
        """
        return await call.session.compact(self.custom_instructions)


class GetSessionStats(Verb):
    """Counts, tokens and cost of the whole session."""

    names: ClassVar[tuple[str, ...]] = ("get_session_stats",)

    def run(self, call: Call) -> JsonObject:
        """Count."""
        store = call.session.store
        stats: JsonObject = {} if store.path is None else {"sessionFile": str(store.path)}
        stats |= {"sessionId": store.session_id, **call.session.stats().to_wire()}
        if (usage := call.session.context_usage()) is not None:
            stats["contextUsage"] = context_usage(usage)
        return stats


class ExportHtml(Verb):
    """Write the session as one HTML page; returns its path."""

    names: ClassVar[tuple[str, ...]] = ("export_html",)
    output_path: str | None = wire_field(default=None, check=check_path)

    async def run(self, call: Call) -> JsonObject:
        """Write the page.

        Raises:
            SessionFileError: The file cannot be written.
        """
        from indus_nb.render.session_page import export_html, page_name

        store = call.session.store
        path = Path(self.output_path or page_name(store))
        # Tolerably long work on what only ever grows: a thread keeps it from holding up the stream.
        return {"path": str(await asyncio.to_thread(export_html, store, store.cwd / path))}


class SwitchSession(Verb):
    """Continue with the session in another file."""

    names: ClassVar[tuple[str, ...]] = ("switch_session",)
    for_pages: ClassVar[bool] = True
    session_path: str = wire_field(check=check_path)

    async def run(self, call: Call) -> JsonObject:
        """Open the file, unless an extension objects.

        Raises:
            IndusError: It cannot be opened, and the session stays.
        """
        known = len(call.session.problems)
        done = await call.session.switch_session(Path(self.session_path))
        for problem in call.session.problems[known:]:
            call.warn(problem)
        return {"cancelled": not done}


class SetSessionName(Verb):
    """Give the session a name."""

    names: ClassVar[tuple[str, ...]] = ("set_session_name",)
    for_pages: ClassVar[bool] = True
    name: str = wire_field(max_length=MAX_NAME_CHARACTERS)

    async def run(self, call: Call) -> None:
        """Name the session.

        Raises:
            UsageError: The name is empty.
        """
        await call.session.set_name(self.name)


class ListSessions(Verb):
    """The saved sessions next to this one, newest first."""

    names: ClassVar[tuple[str, ...]] = ("list_sessions",)
    for_pages: ClassVar[bool] = True

    async def run(self, call: Call) -> JsonObject:
        """List the sessions."""
        path = call.session.store.path
        found = await asyncio.to_thread(list_sessions, path.parent) if path is not None else []
        return {"sessions": [info.to_wire() for info in found]}
