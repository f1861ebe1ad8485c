"""The tree of a session as a flat list, for navigation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from indus_nb.base import textcut
from indus_nb.base.terminal import plain
from indus_nb.base.wire import JsonObject
from indus_nb.core.storage.entries import Entry, as_text
from indus_nb.core.storage.store import SessionStore
from indus_nb.core.storage.text import entry_text, stored_message, subagent_of

_MAX_TEXT_CHARACTERS = 120


def tree_rows(store: SessionStore, limit: int, text_of: Callable[[Entry], str] = entry_text) -> list[JsonObject]:
    """Return the messages of all branches, a row each, parents before children, the current branch last.

    Args:
        text_of: Returns the text of an entry; a line is made of it.
        limit: The most rows that are returned; of more the last ones are, below a row without an id that counts the
            missing ones.

    Returns:
        Rows with ``id``, ``depth`` (of a branch that was left one more than of what it was left for), ``role``,
        ``text``, ``label``, ``leaf`` (whether a branch ends there) and ``here`` (whether it is the current place).
    """
    shown = {entry.id for entry in store.entries if _role(entry) or entry.id in store.labels}
    children = _children(store, shown)
    branch = [entry.id for entry in store.branch()]
    here = next((entry_id for entry_id in reversed(branch) if entry_id in shown), None)
    found = [each for each in _in_order(children, {*branch}) if each[0].id in shown]
    rows = [
        _row(
            _role(entry) or entry.type,
            cut(text_of(entry)),
            entry.id,
            depth=depth,
            leaf=entry.id not in children,
            here=entry.id == here,
            label=store.labels[entry.id][0][:_MAX_TEXT_CHARACTERS] if entry.id in store.labels else None,
        )
        for entry, depth in found[-limit:]
    ]
    missing = len(found) - len(rows)
    text = f"{missing:,} earlier {'entry is' if missing == 1 else 'entries are'} not listed."
    return [_row("note", text), *rows] if missing else rows


def _children(store: SessionStore, shown: set[str]) -> dict[str | None, list[Entry]]:
    """Return the children of each entry, only those that are shown or lead to one that is."""
    parents = {entry.id: entry.parent_id for entry in store.entries}
    leading: set[str] = set()
    for entry_id in shown:
        place: str | None = entry_id
        while place is not None and place not in leading:
            leading.add(place)
            place = parents[place]
    children: dict[str | None, list[Entry]] = {}
    for entry in store.entries:
        if entry.id in leading:
            children.setdefault(entry.parent_id, []).append(entry)
    return children


def _in_order(children: Mapping[str | None, list[Entry]], active: set[str]) -> Iterator[tuple[Entry, int]]:
    """Yield entries and their depths, parents before children, those that are active last.

    The last child goes on at the depth of its parent: however often a conversation branched, it is read along one line.
    """
    waiting: list[tuple[Entry | None, int]] = [(None, 0)]
    while waiting:
        entry, depth = waiting.pop()
        if entry is not None:
            yield entry, depth
        following = children.get(None if entry is None else entry.id, [])
        ordered = sorted(following, key=lambda each: each.id in active)
        waiting += [(each, depth + (at > 0)) for at, each in enumerate(reversed(ordered))]


def _row(
    role: str,
    text: str,
    entry_id: str | None = None,
    *,
    depth: int = 0,
    leaf: bool = False,
    here: bool = False,
    label: str | None = None,
) -> JsonObject:
    return {"id": entry_id, "depth": depth, "role": role, "text": text, "leaf": leaf, "here": here, "label": label}


def cut(text: str) -> str:
    """Return the beginning of a text on one line of at most 120 characters."""
    return textcut.one_line_fit(plain(text[: 10 * _MAX_TEXT_CHARACTERS]), _MAX_TEXT_CHARACTERS)


def _role(entry: Entry) -> str:
    """Return the role of an entry in the list; empty for those that are not in it."""
    match entry.type:
        case "message":
            role = as_text(stored_message(entry).get("role"))
            has_text = role in ("assistant", "bashExecution") and entry_text(entry).strip()
            return role if role == "user" or has_text else ""
        case "custom_message":
            return "custom" if entry.data.get("display") is not False else ""
        case "branch_summary" | "compaction":
            return "summary"
        case "custom":
            return "sub-agent" if subagent_of(entry) else ""
        case _:
            return ""
