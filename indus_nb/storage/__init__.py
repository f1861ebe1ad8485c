"""Session files: the tree of entries, its lines, the file itself, and where such files are found."""

from typing import TYPE_CHECKING

from indus_nb._moved import Renamed
from indus_nb.storage.entries import Entry
from indus_nb.storage.listing import (
    SessionInfo,
    describe_session,
    find_session,
    list_sessions,
    most_recent_session,
    session_directory,
    session_with_id,
)
from indus_nb.storage.store import SessionStore, TreeNode
from indus_nb.storage.text import content_text, entry_text, user_text

__all__ = [
    "Entry",
    "SessionInfo",
    "SessionStore",
    "TreeNode",
    "content_text",
    "describe_session",
    "entry_text",
    "find_session",
    "list_sessions",
    "most_recent_session",
    "session_directory",
    "session_with_id",
    "user_text",
]

if not TYPE_CHECKING:
    __getattr__ = Renamed(__name__, {"StoredContext": "indus_nb.storage.format:StoredContext"})
