"""Limits of a run that would go on for ever: number of answers, time, and repeated calls.

What this module promises: a limit that is reached aborts the run with a sentence that names it. Messages and results
so far are kept, results of the tools that have ended included.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from indus_nb.base.events import ToolOutput
from indus_nb.base.messages import AssistantMessage, CustomMessage, ToolCall, text_of
from indus_nb.base.textcut import counted
from indus_nb.base.wire import JsonObject, dump
from indus_nb.core.loop.watchers import RunWatcher

if TYPE_CHECKING:
    from indus_nb.core.answers import FinalAnswer

_NOTED_REPEATS = 5
_MAX_REPEATS = 20
_KEPT = "What was said and done so far is kept"


class RunLimits(RunWatcher):
    """Watches over one prompt.

    Args:
        max_turns: How many answers the model may give.
        timeout: For how many seconds it may be worked on.
    """

    def __init__(self, max_turns: int | None = None, timeout: float | None = None) -> None:
        self.end: Callable[[str], None] = lambda _: None
        """Callback that ends the run, with the reason."""
        self.refusal: Callable[[], str | None] = lambda: None
        """Callback that returns why nothing more may be spent."""
        self.final: FinalAnswer | None = None
        """The typed answer that the run is to end with: it is taken whatever it has cost."""
        self._max_turns = max_turns
        self._timeout = timeout
        self._turns = 0
        self._seen: set[int] = set()
        self._repeats = 0
        self._noted = False

    @contextmanager
    def timed(self) -> Generator[None]:
        """Count the time in this context, on the event loop that runs."""
        timer = None
        if self._timeout is not None:
            sentence = (
                f"Stopped after {self._timeout:g} s, the time that this prompt may take (timeout). {_KEPT}: prompt "
                "again to go on, or allow more."
            )
            timer = asyncio.get_running_loop().call_later(self._timeout, lambda: self.end(sentence))
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()

    def after_answer(self, answer: AssistantMessage) -> None:
        """Count the answers, and end a run that has cost more than could be known. See ``RunWatcher``."""
        self._turns += answer.stop_reason not in ("error", "aborted")
        final = self.final is not None and self.final.is_all_of(answer.tool_calls)
        if answer.tool_calls and not final and (sentence := self.refusal()) is not None:
            self.end(sentence)

    def after_call(self, call: ToolCall, output: ToolOutput, *, is_error: bool) -> bool:
        """Count the calls in a row that brought nothing new; see ``RunWatcher``.

        Returns:
            ``False``: the run ends before the next answer, so that all results are there.
        """
        images = [block.data for block in output.content if block.type == "image"]
        details: object = output.details
        kept = cast("JsonObject", details).get("fullOutputPath") if isinstance(details, dict) else None
        text = text_of(output.content)
        if kept:
            text = text.replace(str(kept), "")  # each call has a file of its own
        brought = hash(dump([call.name, call.arguments, text, images, is_error]))
        self._repeats = self._repeats + 1 if brought in self._seen else 0
        self._noted = self._noted and self._repeats > 0
        self._seen.add(brought)
        return False

    def before_answer(self) -> Sequence[CustomMessage]:
        """End the run at a limit; warn the model of calls that bring nothing new. See ``RunWatcher``."""
        if self._max_turns is not None and self._turns >= self._max_turns:
            self.end(
                f"Stopped after {counted(self._turns, 'turn')}, as many as this prompt may take (max_turns). {_KEPT}: "
                "prompt again to go on, or allow more."
            )
        elif self._repeats >= _MAX_REPEATS:
            self.end(
                f"Stopped: the last {self._repeats} tool calls repeated earlier ones and had the same results. "
                f"{_KEPT}: prompt again and say what to do instead."
            )
        elif self._repeats >= _NOTED_REPEATS and not self._noted:
            self._noted = True
            note = (
                f"Your last {self._repeats} tool calls repeated earlier ones and had the same results. Do something "
                "else, or say what keeps you from going on."
            )
            return [CustomMessage(custom_type="repeated-calls", content=note, display=False)]
        return ()
