"""How far rows are, for whoever shows it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from indus_nb.core.limits.words import cost_in_words
from indus_nb.fanout.words import duration


@dataclass(slots=True)
class Progress:
    """Progress of the rows; read from any thread."""

    total: int | None
    """How many rows there are; ``None`` as long as nobody knows."""
    done: int = 0
    failed: int = 0
    kept: int = 0
    """Rows that were answered before, and are not asked."""
    cost: float = 0.0
    cost_before: float | None = None
    """The part of ``cost`` that earlier calls have paid; ``None`` if there were none."""
    unconfirmed: float = 0.0
    """Upper bound of what interrupted requests may have cost besides."""
    to_ask: int = 0
    """Rows that are left, but for those that will share the answer of another one."""
    row_cost: float | None = None
    """Mean cost of a row, without the first, after which the others are read from a cache; ``None`` as yet."""
    unpriced: bool = False
    """``True`` if the price of requests is unknown."""
    started: float = field(default_factory=time.monotonic)
    paused_until: float = 0.0
    waiting: str = ""
    """Description of what is waited for, if requests wait in batches."""
    stopping: bool = False
    ended: bool = False
    model: str = ""
    """The name of the model that is asked."""
    round: int = 0
    """The number of the round, from 1; 0 where there is but one."""
    note: str = ""
    """Description of what the user should know before the rest is paid for."""
    failure: str = ""
    """The newest reason why a row waits for another attempt; empty where none does."""
    all_wait: bool = False
    """``True`` if all rows under way wait for another attempt: how long that takes says no rate."""

    @property
    def per_minute(self) -> float:
        """Return how many rows end in a minute."""
        return (self.done - self.kept) / max(time.monotonic() - self.started, 1e-3) * 60

    @property
    def seconds_left(self) -> float | None:
        """Return the time that the other rows will take at this rate; ``None`` where it says nothing about them."""
        rate = self.per_minute
        return None if self.total is None or rate <= 0 or self.all_wait else (self.total - self.done) / rate * 60

    @property
    def cost_left(self) -> float | None:
        """Return what the rows that are left will cost if they are as those before; ``None`` as long as none was."""
        is_known = self.row_cost is not None and self.total is not None and not self.unpriced
        return (self.row_cost or 0) * self.to_ask if is_known else None

    @property
    def spent(self) -> str:
        """Describe how many rows have failed, if any, and what all of it has cost."""
        cost = cost_in_words(self.cost, self.unconfirmed, unpriced=self.unpriced, before=self.cost_before)
        return ", ".join([*([f"{self.failed:,} failed"] if self.failed else []), cost])

    @property
    def state(self) -> str:
        """Describe what is waited for, if it is not rows alone; empty else."""
        if self.stopping:
            waiting = self.waiting or "rows that were asked come to their end"
            return "stopped" if self.ended else f"stopping: {waiting}"
        if self.has_all:
            return ""
        if self.waiting:
            return self.waiting
        wait = self.paused_until - time.monotonic()
        parts = [f"the server asked to wait {duration(wait)}"] if wait > 1 else []
        return ", ".join([*parts, *([f"asking again after: {self.failure}"] if self.failure else [])])

    @property
    def has_all(self) -> bool:
        """Return whether each row has its outcome."""
        return self.ended if self.total is None else self.done >= self.total

    def __str__(self) -> str:
        parts = [f"{self.done:,} rows" if self.total is None else f"{self.done:,} of {self.total:,} rows"]
        parts += [f"{self.kept:,} of them answered before"] if self.kept else []
        parts += [self.spent, *([f"{self.per_minute:,.0f} rows/min"] if self.kept != self.total else [])]
        goes_on = not self.has_all and not self.stopping and not self.waiting
        if goes_on and (left := self.seconds_left) is not None:
            parts.append(f"{duration(left)} left")
        if goes_on and (rest := self.cost_left):
            parts.append(f"about ${self.cost + rest:.2f} {'after this round' if self.round else 'in all'}")
        which = f"round {self.round}" if self.round else ""
        return ", ".join([*parts, *filter(None, [which, self.model, self.note, self.state])])
