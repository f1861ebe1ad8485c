"""Sessions of a notebook and the cassette of the process: which session may talk to it.

What this module promises: a recording holds a conversation from its first message on, of a session without jobs. A
session that was opened before the cassette was there gets no prompt.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from indus_nb.base.errors import UsageError
from indus_nb.core.session.session import AgentSession
from indus_nb.models import Model
from indus_nb.models.cassettes.environment import environment_cassette

_SET = "INDUS_NB_CASSETTE was set, or changed, after this conversation was opened"
_KEPT = "Answers are kept since this conversation was opened"
# The same in each run, whether the one before was open when the first prompt came or not: neither its id nor its time.
_EACH_RUN = (
    "As answers are kept, a new conversation begins here, without what was asked before: `%agent sessions` lists the "
    "others."
)


def _why() -> str:
    return _SET if environment_cassette.kept is None else _KEPT


class Recorded:
    """Remembers which cassette was in use when each session was opened."""

    def __init__(self) -> None:
        self._cassettes: WeakKeyDictionary[AgentSession, int] = WeakKeyDictionary()
        self._resumed: WeakKeyDictionary[AgentSession, tuple[Model | None, str]] = WeakKeyDictionary()

    def note(self, session: AgentSession, cassette: int) -> None:
        """Record the number of the cassette that was in use when the opening of a session began."""
        self._cassettes[session] = cassette

    def note_resumed(self, session: AgentSession) -> None:
        """Record which model and thinking level a session has from an earlier kernel."""
        self._resumed[session] = session.model, session.thinking_level

    def restored(self, session: AgentSession | None) -> tuple[Model | None, str | None]:
        """Return the model and thinking level that a session which the cassette does not admit has from before.

        One that replaces it must not get them, for then the end of one run would count in the next; ``None`` for none.
        """
        resumed = None if session is None else self._resumed.get(session)
        return (None, None) if session is None or resumed is None or self.admits(session) else resumed

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
        if environment_cassette.kept is not None:
            return _EACH_RUN
        path = session.store.path
        back = "" if path is None else f" The one before is kept: `%agent --session {session.store.session_id}`."
        return f"{_why()}: a new one begins here, without what was asked before.{back}"


def not_resumed(offer: str) -> str:
    """Return the sentence about a notebook's conversation that does not go on: ``offer``, unless answers are kept."""
    return offer if environment_cassette.kept is None else _EACH_RUN
