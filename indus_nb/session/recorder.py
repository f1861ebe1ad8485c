"""What was said, on its way into the session's file; what the file does not take is kept, tried again and rescued."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from indus_nb.errors import SessionFileError
from indus_nb.messages import Message
from indus_nb.storage.store import SessionStore


class Recorder:
    """Saves the messages of a session in the order in which they were said.

    Args:
        store: gives the session's store of the moment.
    """

    def __init__(self, store: Callable[[], SessionStore]) -> None:
        self._store = store
        self._unsaved: list[Message] = []

    @property
    def unsaved_count(self) -> int:
        """How many messages are in memory only, because the file did not take them."""
        return len(self._unsaved)

    def save(self, message: Message) -> None:
        """Save a message after those that wait; raises ``SessionFileError`` and keeps it when that fails."""
        self._unsaved.append(message)
        self.save_all()

    def save_all(self) -> None:
        """Save what could not be saved before: who reads the conversation from the store must see all of it.

        Raises:
            SessionFileError: The file still takes nothing; what is unsaved is kept for the next try.
        """
        while self._unsaved:
            self._store().append_message(self._unsaved[0])
            del self._unsaved[0]

    def rescue(self) -> str | None:
        """Save what is unsaved before the session is left, if need be with all of it in another file.

        Returns:
            A sentence for the user when the session's own file does not hold everything, else ``None``.

        Raises:
            SessionFileError: No place took the messages; they are still unsaved.
        """
        try:
            self.save_all()
        except SessionFileError as error:
            own = error
        else:
            return None
        store = self._store()
        places = [store.path.parent] if store.path is not None else []
        for place in (*places, None):
            try:
                directory = place or Path(tempfile.mkdtemp(prefix="indusagi-rescued-"))
                with store.copy(store.cwd, directory) as rescued:
                    rescued.move_leaf(store.leaf_id)
                    for message in self._unsaved:
                        rescued.append_message(message)
                    where = rescued.path
            except (SessionFileError, OSError):
                continue
            self._unsaved.clear()
            return f"{sentence(own)} The whole conversation was saved in {where} instead."
        raise own


def sentence(error: SessionFileError) -> str:
    """The error's text with a full stop, so that another sentence can follow."""
    return f"{str(error).rstrip('.')}."
