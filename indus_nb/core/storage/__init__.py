"""Session files: the tree of entries, its lines, the file itself, and where such files are found."""

from indus_nb.core.storage.entries import Entry
from indus_nb.core.storage.file import writer_of
from indus_nb.core.storage.listing import (
    SessionInfo,
    describe_session,
    find_session,
    list_sessions,
    most_recent_session,
    session_directory,
    session_with_id,
)
from indus_nb.core.storage.store import SessionStore, TreeNode
from indus_nb.core.storage.text import content_text, entry_text, user_text

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
    "writer_of",
]
