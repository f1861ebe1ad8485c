"""The variables of a kernel, for the model: in words, and whose they are.

The agent's are those that its code bound last, unless other code binds them anywhere.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from indus_nb.kernel.run.journal import Journal
from indus_nb.kernel.toolset.profiles import FrameProfiles, Profiles
from indus_nb.kernel.undo.reach import bound_in_source
from indus_nb.kernel.values import overview

_HIDDEN = frozenset({"In", "Out", "exit", "quit", "get_ipython", "open"})


class KernelVariables:
    """The variables of one shell."""

    def __init__(self, shell: Any, journal: Journal) -> None:
        """Begin without any of the agent's; what the journal's cells bind is the user's."""
        self._shell = shell
        self._journal = journal
        self._agents: dict[str, int] = {}
        self._bound_by_others: set[str] = set()
        """Names that code of the user's or of another program's binds, wherever it does: no variable of these is the
        agent's, for what they are bound to may be the same object again."""
        self._knowing = threading.Lock()
        self._profiles = FrameProfiles()

    def disown(self) -> None:
        """Treat the agent's variables as the user's: a conversation that was rewound does not know them."""
        self._agents.clear()

    def own(self) -> dict[str, int]:
        """Return the agent's own variables, with the ids of their values; on any thread."""
        with self._knowing:
            while self._journal.begun:
                self._forget(self._journal.begun[0])
                self._journal.begun.popleft()
            return dict(self._agents)

    def _forget(self, code: str) -> None:
        """Stop counting variables as the agent's once other code binds them."""
        bound = bound_in_source(code, self._shell.transform_cell)
        self._bound_by_others |= bound or set()
        for name in [*self._agents] if bound is None else bound:
            self._agents.pop(name, None)

    def names(self) -> dict[str, int]:
        """Return all names of the namespace, with the ids of their values; on the main thread."""
        held = dict(self._shell.user_ns)
        return dict(zip(held, map(id, held.values()), strict=True))

    def note(self, code: str, before: Mapping[str, int], after: Mapping[str, int], *, by_agent: bool) -> None:
        """Record whose the variables are that code has bound.

        Args:
            before: The names before it ran, with the ids of what they were bound to.
            after: The same, after it ran.
            by_agent: Whether it is the agent's, not that of another program.
        """
        if not by_agent:
            self._journal.begun.append(code)
            return
        own = self.own()
        for name, identity in after.items():
            held = before.get(name)
            if held != identity and (held is None or own.get(name) == held) and name not in self._bound_by_others:
                self._agents[name] = identity

    def listing(self, pattern: str) -> str:
        """Describe those that the user or the agent defined, as ``%who`` lists them; on the main thread."""
        shell = self._shell
        hidden: Mapping[str, object] = shell.user_ns_hidden
        held = {
            name: value
            for name, value in dict(shell.user_ns).items()
            if not name.startswith("_") and name not in _HIDDEN and hidden.get(name, shell) is not value
        }
        return overview.listing(held, _HIDDEN, pattern, self.own(), self._profiles.closer)

    def profiles(self, names: Iterable[str], known: Mapping[str, str], seconds: float) -> Profiles:
        """Write the profiles of frames that a conversation does not know, in so much processor time."""
        space: Mapping[str, object] = self._shell.user_ns
        held = ((name, space.get(name)) for name in dict.fromkeys(names) if not name.startswith("_"))
        return self._profiles.new(held, known, time.thread_time() + seconds)

    def summary(self, recent: Sequence[str], seconds: float, only: Collection[str] | None = None) -> overview.Summary:
        """List the user's for a prompt, in so much processor time.

        If there are very many, those come first that ``recent`` names.

        Args:
            only: Names to list, whoever's they are; all of the user's otherwise.
        """
        space, hidden, own = self._shell.user_ns, self._shell.user_ns_hidden, self.own()

        def is_users(name: str, value: object) -> bool:
            is_listed = own.get(name) != id(value) if only is None else name in only
            return hidden.get(name, space) is not value and is_listed

        return overview.summary(space, _HIDDEN, is_users=is_users, recent=recent, seconds=seconds)
