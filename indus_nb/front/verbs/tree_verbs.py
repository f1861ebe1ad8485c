"""Verbs about the tree of a session: its entries, and going on from one of them."""

from __future__ import annotations

from typing import ClassVar

from indus_nb.base.errors import UsageError
from indus_nb.base.wire import JsonObject, dump
from indus_nb.base.wire_model import wire_field
from indus_nb.core.storage import user_text
from indus_nb.front.verbs.verb import MAX_NAME_CHARACTERS, MAX_TEXT_CHARACTERS, Call, Encoded, Verb


class Fork(Verb):
    """Continue in a new session that ends before a message of the user; returns that message's text."""

    names: ClassVar[tuple[str, ...]] = ("fork", "branch")
    for_pages: ClassVar[bool] = True
    entry_id: str = wire_field(max_length=MAX_NAME_CHARACTERS)

    async def run(self, call: Call) -> JsonObject:
        """Begin the new session, unless an extension objects.

        Raises:
            UsageError: There is no such message of the user.
        """
        text = await call.session.fork(self.entry_id)
        if text is None:  # the session is still the one that has the message
            text = user_text(call.session.store.entry(self.entry_id), for_editing=True)
            return {"text": text, "cancelled": True}
        return {"text": text, "cancelled": False}


class GetForkMessages(Verb):
    """The messages of the user that can be forked from."""

    names: ClassVar[tuple[str, ...]] = ("get_fork_messages", "get_branch_messages")

    def run(self, call: Call) -> JsonObject:
        """List the messages."""
        listed = ((entry.id, user_text(entry)) for entry in call.session.store.entries)
        return {"messages": [{"entryId": entry_id, "text": text} for entry_id, text in listed if text]}


class Clone(Verb):
    """Continue in a new session with a copy of this one's branch."""

    names: ClassVar[tuple[str, ...]] = ("clone",)

    async def run(self, call: Call) -> JsonObject:
        """Begin the new session, unless an extension objects."""
        return {"cancelled": not await call.session.clone()}


class GetEntries(Verb):
    """All entries of the session, or those after the entry ``since``."""

    names: ClassVar[tuple[str, ...]] = ("get_entries",)
    since: str | None = wire_field(default=None, max_length=MAX_NAME_CHARACTERS)

    def run(self, call: Call) -> Encoded:
        """Return the entries as they are saved.

        Raises:
            UsageError: There is no entry ``since``.
        """
        store = call.session.store
        entries = list(store.entries)
        if self.since is not None:
            entries = entries[entries.index(store.entry(self.since)) + 1 :]
        lines = b",".join(entry.to_json() for entry in entries)
        return Encoded(b'{"entries":[%b],"leafId":%b}' % (lines, dump(store.leaf_id)))


class GetTree(Verb):
    """The entries as trees, with labels.

    The response's ``tree`` is nested as deep as the conversation is long, and refused beyond 400 entries, where JSON
    parsers give up. With ``flat`` it has ``nodes`` instead, a parent before its children, each with its
    ``entry``, its ``depth``, its ``parentId`` (``null`` for a root) and the ids of its ``children``.
    """

    names: ClassVar[tuple[str, ...]] = ("get_tree",)
    flat: bool = False

    def run(self, call: Call) -> Encoded | JsonObject:
        """Return the tree.

        Raises:
            UsageError: Nested it would be too deep.
        """
        from indus_nb.front.verbs.trees import MAX_NESTED, encoded_tree, flat_tree

        store = call.session.store
        nodes = flat_tree(store.tree())
        if self.flat:
            return {"nodes": nodes, "leafId": store.leaf_id}
        if (depth := max((node["depth"] for node in nodes), default=0)) > MAX_NESTED:
            raise UsageError(
                f"The tree is {depth:,} entries deep, and parsers of JSON give up at some hundreds. Ask for it with "
                '"flat": true: its nodes then come in a list.'
            )
        return Encoded(b'{"tree":%b,"leafId":%b}' % (encoded_tree(store.tree()), dump(store.leaf_id)))


class NavigateTree(Verb):
    """Continue from another entry of this session, with a summary of what is left behind if wanted."""

    names: ClassVar[tuple[str, ...]] = ("navigate_tree",)
    for_pages: ClassVar[bool] = True
    target_id: str = wire_field(max_length=MAX_NAME_CHARACTERS)
    summarize: bool = False
    custom_instructions: str | None = wire_field(default=None, max_length=MAX_TEXT_CHARACTERS)
    replace_instructions: bool = False
    label: str | None = wire_field(default=None, max_length=MAX_NAME_CHARACTERS)

    async def run(self, call: Call) -> JsonObject:
        """Go to the entry, unless an extension objects.

        Raises:
            UsageError: There is no such entry.
        """
        done = await call.session.navigate(
            self.target_id,
            summarize=self.summarize,
            instructions=self.custom_instructions,
            replace_instructions=self.replace_instructions,
            label=self.label,
        )
        data: JsonObject = {"cancelled": done.cancelled}
        if done.aborted:
            data["aborted"] = True
        if done.editor_text is not None:
            data["editorText"] = done.editor_text
        if done.summary_entry is not None:
            data["summaryEntry"] = done.summary_entry.data
        return data


class SetLabel(Verb):
    """Label an entry; an empty label removes it."""

    names: ClassVar[tuple[str, ...]] = ("set_label",)
    entry_id: str = wire_field(max_length=MAX_NAME_CHARACTERS)
    label: str | None = wire_field(default=None, max_length=MAX_NAME_CHARACTERS)

    def run(self, call: Call) -> None:
        """Set the label."""
        call.session.set_label(self.entry_id, self.label)
