"""Watching the answers of a run: one may be stopped, and messages may be added when the run would end."""

from __future__ import annotations

from collections.abc import Sequence

from indus_nb.base.events import ToolOutput
from indus_nb.base.messages import AssistantMessage, CustomMessage, ToolCall
from indus_nb.base.streaming import AssistantMessageEvent


class RunWatcher:
    """Asked by the loop on the session's event loop; this one changes nothing.

    None of its methods may raise.
    """

    def objection(self, event: AssistantMessageEvent) -> str | None:
        """Return why the answer must end here, before anything more is acted upon.

        It is asked about every piece of every answer, right after the piece was emitted, so it must be quick. The
        answer ends as aborted with that reason, and ``after_turn`` is asked how to go on.
        """
        del event
        return None

    def before_answer(self) -> Sequence[CustomMessage]:
        """Return messages for the model, which is asked next.

        It may request the run's abort instead: the answer then ends with the reason of that before anything is asked.
        """
        return ()

    def after_answer(self, answer: AssistantMessage) -> None:
        """Look at a whole answer, before its tool calls are carried out; see ``before_answer``."""

    def after_call(self, call: ToolCall, output: ToolOutput, *, is_error: bool) -> bool:
        """Look at a tool call that was carried out, or failed.

        Args:
            call: The call.
            output: What it gave.
            is_error: Whether it failed.

        Returns:
            Whether the run ends with this turn, unless a message of the user's waits.
        """
        del call, output, is_error
        return False

    async def after_turn(self, answer: AssistantMessage) -> Sequence[CustomMessage]:
        """Return messages for the model when the run would end.

        With them the run goes on.

        It is not asked after an abort of the user's, nor while the model goes on anyhow.
        """
        del answer
        return ()
