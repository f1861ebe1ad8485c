"""What is looked up in the answers of a kernel: their live values, and the numbers that no result shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from indus_nb.core.session.session import AgentSession
from indus_nb.front.notebook.view import blocks
from indus_nb.kernel.claims import LiveAnswers, LiveRun, found, listed, shown_to_model, untraced
from indus_nb.kernel.run.agent_thread import AgentThread
from indus_nb.kernel.run.journal import is_users
from indus_nb.kernel.run.namespace import UserNamespace
from indus_nb.kernel.toolset.user_kernel import UserKernel
from indus_nb.render.untraced import Found, Spans, Tracing

if TYPE_CHECKING:
    from indus_nb.kernel.claims.kept import Claim
    from indus_nb.render.writers import MimeBundle

_NONE = "No answer of this kernel has a value of an expression."


class CheckedAnswers:
    """The answers of one kernel's conversations.

    Attributes:
        live: Their live values.
        wanted: What of its answer a cell that waits for a session has checked; ``None`` leaves it to the settings.
    """

    def __init__(
        self,
        kernel: UserKernel,
        namespace: UserNamespace,
        thread: AgentThread,
        asked_in: Callable[[], str | None],
        execution: Callable[[], int],
    ) -> None:
        """Begin without answers; the last two are those of `LiveAnswers`."""
        self._kernel = kernel
        self._thread = thread
        self.live: LiveAnswers = LiveAnswers(kernel.look, namespace.do, asked_in, execution)
        self.wanted: dict[AgentSession, str | None] = {}

    def watch(self, run: LiveRun, session: AgentSession) -> None:
        """Have the watcher of a session's answers ask about its numbers, where that is wanted."""
        run.unaccounted = partial(self._unaccounted, session)

    def tracing(self, session: AgentSession) -> Tracing:
        """Return what looks the numbers of a session's answers up in what its model was shown, where that is wanted."""

        def is_wanted() -> bool:
            return self._kernel.settings.trace_numbers or self._is_checked(session)

        def untraced_in(text: str) -> Spans:
            return untraced(text, *shown_to_model(session.messages)) if is_wanted() else ()

        def found_in(text: str) -> Found:
            return found(text, *shown_to_model(session.messages)) if is_wanted() else ()

        return Tracing(untraced_in, found_in)

    def _is_checked(self, session: AgentSession) -> bool:
        usual = "numbers" if self._kernel.settings.check_numbers else "none"
        return (self.wanted.get(session) or usual) == "numbers"

    def _unaccounted(self, session: AgentSession, text: str) -> Sequence[str]:
        """Return the numbers of an answer that nothing shows, each once, where its model is asked about them."""
        if not self._is_checked(session):
            return ()
        spans = untraced(text, *shown_to_model(session.messages))
        return [*dict.fromkeys(text[start:end] for start, end in spans)]

    def look_after(self, result: Any) -> None:
        """Look which values are stale, after a cell."""
        outdated = self.live.outdated
        if not outdated.is_idle:
            info = getattr(result, "info", None)
            number = result.execution_count if info is not None and is_users(info) else None
            self._thread.call(partial(outdated.look_soon, number))

    def stated(self) -> list[tuple[str | None, str, str]]:
        """Return the live values, each with the id of its cell and its expression."""
        return [(claim.cell, claim.expression, claim.value.text) for claim in self.live.claims.all()]

    def table(self, asked: Callable[[Claim], str]) -> MimeBundle:
        """Return the live values and whether they still hold, as they are shown; see `listed`."""
        kept = self.live.claims.all()
        return blocks.table(*listed(kept, asked)) if kept else blocks.notice(_NONE)
