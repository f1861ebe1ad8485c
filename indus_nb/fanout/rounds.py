"""Questions that are asked in rounds, each made of the answers to the one before.

What this module promises: all rounds together have one budget, one journal and one Stop. What earlier calls have paid
counts once. An answer is kept from one call to the next, whatever round it is of; where a round fails, no further one
begins, and what the others gave is still returned.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from indus_nb.base.errors import IndusError
from indus_nb.core.answers import AnswerKind
from indus_nb.core.limits.budget import Budget, spending
from indus_nb.core.limits.words import cost_in_words
from indus_nb.fanout.progress import Progress
from indus_nb.fanout.question import RETRY_OPTIONS, RowQuestion
from indus_nb.fanout.reporting import Reporter, usual_reporter
from indus_nb.fanout.results import Estimate, RowAnswer
from indus_nb.fanout.rows import Table
from indus_nb.fanout.running import Caller, Result
from indus_nb.fanout.template import Template
from indus_nb.fanout.work import Work

ROWS = "rows"
"""The placeholder of a round's template that the rows stand in."""
_RETRY_OPTIONS = RETRY_OPTIONS - {"batch", "over", "dedupe", "sample"}
ResultT = TypeVar("ResultT", bound=Result)


class Rounds(Generic[ResultT]):
    """A question in rounds.

    Args:
        asked: The options of all rounds; its template, rows and type are those of none.
        steps: Asks for one round after another with ``ask`` of this object, and returns the result.
        known: The earlier answers, by their prompts.
        spent: Their cost, in US dollars.
        unconfirmed: The most that they may have cost besides.
    """

    def __init__(
        self,
        asked: RowQuestion,
        steps: Callable[[Rounds[ResultT]], Coroutine[Any, Any, ResultT]],
        known: Mapping[str, RowAnswer] | None = None,
        spent: float = 0.0,
        unconfirmed: float = 0.0,
    ) -> None:
        self._question = asked
        self._steps = steps
        self._known = dict(known or {})
        self._spent = spent, unconfirmed
        self._budget = Budget(asked.max_cost, (spending(),))
        self._work: Work | None = None
        self._stopping = False
        self.asked: int = 0
        """Prompts of all rounds so far."""
        self.kept: int = 0
        """Those of them that were answered before."""
        self.count: int = 0
        """Rounds so far."""
        self.problems: list[str] = []
        self.estimate: Estimate | None = None
        """What the round cost that was not asked, if nothing but that was asked for."""

    @property
    def progress(self) -> Progress:
        """Return how far the present round is."""
        return Progress(None) if self._work is None else self._work.progress

    async def run(self) -> ResultT:
        """Ask for all rounds."""
        return await self._steps(self)

    def here(self, reporter: Reporter) -> ResultT:
        """Ask from plain synchronous code; see ``Caller``.

        Raises:
            IndusError: Nothing could be asked.
            RowsInterrupted: The user has interrupted it.
        """
        return Caller(self, self.run).here(reporter)

    async def ask(self, template: str, bodies: Sequence[str], kind: AnswerKind | None) -> Sequence[RowAnswer]:
        """Ask for the prompts of the next round.

        Args:
            template: The prompt, with ``{rows}`` for a body.
            bodies: What stands in its place, once for each prompt.
            kind: The type of the answers; ``None`` for texts.

        Returns:
            The result of each; with neither an answer nor an error where nothing is asked any more.

        Raises:
            IndusError: Nothing could be asked in the first round.
        """
        if self._stopping or not bodies:
            return [RowAnswer()] * len(bodies)
        parsed = Template(template)
        table = Table((ROWS,), tuple({ROWS: body} for body in bodies))
        prompts = [parsed.text_of(row) for row in table.rows]
        before = None if self._work is None else self._work.progress
        known = [self._known.get(prompt, RowAnswer()) for prompt in prompts] if self._known or any(self._spent) else ()
        question = replace(self._question, template=parsed, table=table, kind=kind)
        self._work = work = Work(question, known, *self._spent, budget=self._budget, before=before)
        self.count += 1
        work.progress.round = self.count
        if self._stopping:  # meanwhile, on another thread
            work.stop()
        try:
            rows = await work.run()
        except IndusError as error:
            if before is None:
                raise
            self.problems.append(f"Round {self.count} could not be asked: {error}")
            self._stopping = True
            return [RowAnswer()] * len(bodies)
        self.asked += len(rows)
        self.kept += work.progress.kept
        self.problems += [each for each in work.problems if each not in self.problems]
        self._known |= {prompt: row for prompt, row in zip(prompts, rows, strict=True) if row.answered}
        if work.estimate is not None and work.estimate.rows:
            self.estimate = work.estimate
        if work.stopped or self.estimate is not None:  # never set to False: another thread may stop it now
            self._stopping = True
        return rows

    def stop(self) -> None:
        """Let no more prompts begin, and no more rounds; from any thread."""
        self._stopping = True
        if self._work is not None:
            self._work.stop()

    def cancel(self) -> None:
        """Abort the prompts that are asked, too; from any thread."""
        self.stop()
        if self._work is not None:
            self._work.cancel()

    @property
    def costs(self) -> dict[str, Any]:
        """Return what it cost so far, by the names that ``Answers`` has for it."""
        budget = self._budget
        return {
            "cost": budget.spent,
            "unconfirmed": budget.unconfirmed,
            "unpriced": budget.unpriced,
            "before": self.progress.cost_before,
        }

    @property
    def summary(self) -> str:
        """Describe in a line what was asked and what it cost."""
        rounds = f"{self.count:,} round{'' if self.count == 1 else 's'}"
        parts = [f"{self.asked:,} prompt{'' if self.asked == 1 else 's'} in {rounds}"]
        parts += [f"{self.kept:,} of them answered before"] if self.kept else []
        costs = self.costs
        parts.append(
            cost_in_words(costs["cost"], costs["unconfirmed"], unpriced=costs["unpriced"], before=costs["before"])
        )
        if self.estimate is not None:
            which = "the first round" if self.count == 1 else f"round {self.count:,}"
            parts.append(f"{self.estimate} for {which}; what later ones cost depends on the answers")
        return ", ".join(parts)

    def again(self, changes: Mapping[str, Any]) -> Rounds[ResultT]:
        """Return the same for what has no answer.

        Args:
            changes: Options in place of what they were.

        Raises:
            TypeError: One cannot be changed.
        """
        asked = self._question.for_retry(changes, _RETRY_OPTIONS)
        budget, known = self._budget, self._known
        if not asked.has_same_tries(self._question):
            known = {prompt: answer.without_tries() for prompt, answer in known.items()}
        return Rounds(asked, self._steps, known, budget.spent, budget.unconfirmed)

    def retried(self, changes: Mapping[str, Any]) -> ResultT:
        """Ask once more for what has no answer; see ``again``."""
        return self.again(changes).here(usual_reporter(changes))
