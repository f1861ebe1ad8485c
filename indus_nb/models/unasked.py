"""Processes in which no model is asked: INDUS_NB_ASK_NO_MODEL is set, as in the kernel of ``%agent verify``.

What this module promises: there every request that would be sent ends with one error instead, and is counted. What a
cassette answers, and the offline model, cost nothing, and are as ever.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from indus_nb.base.messages import NOT_ASKED
from indus_nb.base.streaming import AssistantMessageEvent
from indus_nb.base.variables import ASK_NO_MODEL
from indus_nb.models.catalog import Model
from indus_nb.models.protocol import Context, StreamOptions

_PROBLEM: Final = f"{NOT_ASKED}by code that runs here (INDUS_NB_{ASK_NO_MODEL} is set). Nothing was sent."


class Refusals:
    """Count of the requests that were refused in this process.

    Attributes:
        count: How many.
    """

    def __init__(self) -> None:
        self.count: int = 0


refusals: Refusals = Refusals()
"""Those of this process, for what runs cells in it."""


class RefusingProvider:
    """A provider that sends nothing: each answer is the same error."""

    def preload(self) -> None:
        """Do nothing: nothing is needed."""

    async def stream(
        self, model: Model, context: Context, options: StreamOptions
    ) -> AsyncGenerator[AssistantMessageEvent]:
        """Yield an answer that failed; see ``Provider``.

        Args:
            model: The model that is not asked.
            context: What it would be shown.
            options: How it would answer.

        Returns:
            ``start`` and ``error``.
        """
        from indus_nb.models.http.failures import failed_answer

        del context, options
        refusals.count += 1
        for event in failed_answer(model, _PROBLEM):
            yield event
