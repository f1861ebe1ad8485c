"""Sessions of a notebook and the cassette of the process: which session may talk to it.

What this module promises: a recording holds a conversation from its first message on, of a session without jobs. A
session that was opened before the cassette was there gets no prompt.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from indus_nb.base.errors import UsageError
from indus_nb.core.session.session import AgentSession
from indus_nb.models.cassettes.environment import environment_cassette

_SET = "INDUS_NB_CASSETTE was set, or changed, after this conversation was opened"
_KEPT = "Answers are kept since this conversation was opened"


def _why() -> str:
    return _SET if environment_cassette.kept is None else _KEPT


class Recorded:
    """Remembers which cassette was in use when each session was opened."""

    def __init__(self) -> None:
        self._cassettes: WeakKeyDictionary[AgentSession, int] = WeakKeyDictionary()

    def note(self, session: AgentSession) -> None:
        """Record that a session is opened now."""
        self._cassettes[session] = environment_cassette.number()

    def admits(self, session: AgentSession) -> bool:
        """Return whether a session may be asked: there is no cassette, or it is the one that it was opened with.

        Raises:
            UsageError: INDUS_NB_CASSETTE_MODE is unknown.
        """
        return environment_cassette.number() in (0, self._cassettes.get(session))

    def check(self, session: AgentSession) -> None:
        """Reject a prompt that is neither recorded nor replayed from the beginning of a conversation.

        Raises:
            UsageError: The session was opened before the cassette was there.
        """
        if not self.admits(session):
            raise UsageError(f"Nothing was sent: {_why()}. Run `%agent --new` in a cell for one that begins with it.")

    def replaced(self, session: AgentSession) -> str | None:
        """Return a sentence for a session that another one replaces; ``None`` if nothing was asked in it."""
        if not session.messages:
            return None
        path = session.store.path
        back = "" if path is None else f" The one before is kept: `%agent --session {session.store.session_id}`."
        return f"{_why()}: a new one begins here, without what was asked before.{back}"
