"""Events on their way to the handlers of a session's extensions, and the answers that come back.

What this module promises: handlers are called in the order of the extensions, each with what the ones before have
changed. A handler has a time limit, which does not count while the user is asked; one that fails, or whose answer is
none, is reported, and the next one is called, unless the caller cannot do without it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from indus_nb.base.errors import UsageError
from indus_nb.core.loop import RunAborted
from indus_nb.extend import events as ev
from indus_nb.extend.calling import contained
from indus_nb.extend.context import Context
from indus_nb.extend.runtime import Runtime

AnswerT = TypeVar("AnswerT", bound=ev.Answer)
SHUTDOWN_SECONDS = 2.0
_INTERRUPTED = (ev.UserInput, ev.BeforeAgentStart, ev.ModelContext, ev.BeforeProviderRequest, ev.ToolCallEvent)
"""Events that an abort need not wait for."""


class Dispatcher:
    """Calls the handlers of ``runtime``'s extensions, each of which may take as many ``seconds``."""

    def __init__(self, runtime: Runtime, seconds: float) -> None:
        self._runtime = runtime
        self._seconds = seconds

    async def ask(self, event: ev.Asking[AnswerT], *, needed: bool = False) -> list[AnswerT]:
        """Call the handlers of an event, change it as they answer, and return the answers.

        Args:
            event: The event; an answer that ends it is the last one.
            needed: Whether a handler that fails is raised, once it is reported, instead of being passed over.

        Raises:
            RunAborted: An abort ended a handler that is needed.
            Exception: What a handler raised that is needed, or a ``UsageError`` for its answer.
        """
        answers: list[AnswerT] = []
        for extension, handler in self._runtime.handlers(event.type):
            try:
                returned = await self._call(handler, event)
                if returned is None:
                    continue
                answer = _answer(event, returned)
            except RunAborted:
                if needed:
                    raise
                continue  # the next handler may have something to clean up
            except Exception as error:
                await self._runtime.report(extension, event.type, error)
                if needed:
                    raise
                continue
            answers.append(answer)
            if answer.ends:
                break
        return answers

    async def notify(self, event: Any) -> None:
        """Call the handlers of an event that takes no answer."""
        await self.ask(event)

    async def _call(self, handler: Callable[..., Any], event: Any) -> Any:
        """Return a handler's answer; raises ``RunAborted`` when an abort ends its thinking, if it may."""
        with contained():
            result = handler(event, Context(self._runtime))
            if not inspect.isawaitable(result):
                return result
            limited, signal = self._runtime.calls.limited, self._runtime.session.abort_signal
            if signal is None or not isinstance(event, _INTERRUPTED):
                aborted = signal is not None and signal.requested
                ending = aborted or isinstance(event, ev.SessionShutdown)
                return await limited(result, SHUTDOWN_SECONDS if ending else self._seconds)
            if signal.requested and inspect.iscoroutine(result):
                result.close()
            with signal.interruptible():
                return await limited(result, self._seconds)


def _answer(event: ev.Asking[AnswerT], returned: object) -> AnswerT:
    """Return what a handler returned as an answer, and change the event by it."""
    if not hasattr(event, "answer"):
        raise UsageError(f"{returned!r} is no answer: {event.type} has none")
    answer = event.answer.of(returned)
    answer.change(event)
    return answer
