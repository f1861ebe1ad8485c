"""Messages on their way into the session's file.

What this module promises:

- Messages are saved in the order in which they were added to the conversation.
- What cannot be written to the file is kept, tried again with the next message, and rescued into another file at the
  end.
- A failure stops the run and becomes a ``session_save_failed``: to go on unsaved is the user's decision.
- Where the file never could be made, nothing is lost that was there: the run goes on in memory, with one notice.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from indus_nb.base.errors import SessionFileError
from indus_nb.base.events import SessionSaveFailed
from indus_nb.base.messages import Message
from indus_nb.core.session.state import SessionState


class Recorder:
    """Saves the messages of one session.

    Args:
        state: the session's shared state; the store of the moment is written to.
    """

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._unsaved: list[Message] = []

    @property
    def unsaved_count(self) -> int:
        """Return the number of messages that are in memory only.

        They could not be written to the file.
        """
        return len(self._unsaved)

    def problems(self) -> list[str]:
        """Return sentences for the user about what is in memory only."""
        count = self.unsaved_count
        if not count:
            return []
        many = "message is" if count == 1 else f"{count} messages are"
        path = self._state.store.path
        return [f"The last {many} kept in memory only: {path} did not take it. It is tried again."]

    def add(self, message: Message) -> None:
        """Add a message to the conversation outside a run, and save it."""
        self._state.messages.append(message)
        self.record(message)

    def record(self, message: Message) -> SessionSaveFailed | None:
        """Save a message after those that wait; a failure stops the run and is returned."""
        self._unsaved.append(message)
        try:
            self.save_all()
        except SessionFileError as error:
            problem = f"{with_full_stop(error)} What was said is kept in memory."
            if self._state.run is not None:
                self._state.run.abort.request(f"{problem} The run was stopped.")
            return SessionSaveFailed(error=problem, unsaved=self.unsaved_count)
        why = self._state.store.kept_in_memory
        if why is None or why in self._state.problems:
            return None
        self._state.problems.append(why)
        return SessionSaveFailed(error=why, unsaved=len(self._state.messages))

    def save_all(self) -> None:
        """Save messages that could not be saved before.

        A caller that reads the conversation from the store must see all of it.

        Raises:
            SessionFileError: The file still takes nothing; what is unsaved is kept for the next try.
        """
        while self._unsaved:
            self._state.store.append_message(self._unsaved[0])
            del self._unsaved[0]

    def rescue(self) -> str | None:
        """Save unsaved messages before the session is left.

        If need be, all of the session goes into another file.

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
        path = self._state.store.path
        for place in (*([path.parent] if path is not None else []), None):
            with suppress(SessionFileError, OSError):
                if (where := self._copied(place)) is not None:
                    self._unsaved.clear()
                    return f"{with_full_stop(own)} The whole conversation was saved in {where} instead."
        raise own

    def _copied(self, place: Path | None) -> Path | None:
        """Save the whole conversation in a new file, in a directory or among temporary files.

        Returns ``None`` if there can be no file; what fails half way leaves none behind.
        """
        from tempfile import mkdtemp  # with modules that no start should wait for

        store, path = self._state.store, None
        directory = place or Path(mkdtemp(prefix="indusagi-rescued-"))
        try:
            with store.copy(store.cwd, directory) as copy:
                path = copy.path
                copy.move_leaf(store.leaf_id)
                for message in self._unsaved:
                    copy.append_message(message)
                return copy.path
        except SessionFileError:
            if path is not None:
                path.unlink(missing_ok=True)
            raise
        finally:
            if place is None:
                with suppress(OSError):  # it holds the file
                    directory.rmdir()

    def rescue_at_end(self) -> str | None:
        """Rescue unsaved messages when nothing can be tried again.

        Returns what the session's own file does not hold.
        """
        try:
            return self.rescue()
        except SessionFileError as error:
            count = self.unsaved_count
            lost = "The last message" if count == 1 else f"The last {count} messages"
            return f"{with_full_stop(error)} {lost} of the conversation could not be saved anywhere."


def with_full_stop(error: Exception) -> str:
    """Return the error's text as a sentence, so that another one can follow."""
    return f"{str(error).rstrip('.')}."
