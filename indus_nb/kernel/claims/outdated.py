"""Values in answers that do not hold now, for the pages that show these.

What this module promises: a look compares what was remembered, and runs nothing of the user's. Pages get what is
outdated when that has changed, and nothing else. Without claims or pages nothing is looked at, and looks together take
at most a twentieth of the main thread's time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeVar

from indus_nb.base.errors import UsageError
from indus_nb.base.textcut import counted
from indus_nb.kernel.claims.kept import Claim, KeptClaims
from indus_nb.kernel.undo import Reading
from indus_nb.kernel.undo.columns_read import at_rest
from indus_nb.render.live import NO_VALUE
from indus_nb.render.markup import live_title
from indus_nb.tools import ToolError

T = TypeVar("T")
_PAUSE = 20
"""Time between two looks, in times that the first took."""
_PAUSE_AFTER_INTERRUPT = 0.5


class OutdatedValue(NamedTuple):
    """A value in an answer that may be another one now, or is.

    Attributes:
        expression: As the title of the value shows it.
        value: As the answer shows it.
        now: What a check found, `NO_VALUE` for none; ``None`` while it was not computed again.
        why: The reason, in a few words.
        entry: The entry of a conversation that keeps it, by its id.
    """

    expression: str
    value: str
    now: str | None
    why: str
    entry: str = ""


class OutdatedAnswers(NamedTuple):
    """What of the answers of one cell, or of all answers outside of cells, does not hold.

    Attributes:
        cell: The cell that asked, by its id.
    """

    cell: str | None
    values: tuple[OutdatedValue, ...]


Show = Callable[[tuple[OutdatedAnswers, ...]], object]
"""Shows what is outdated; called on the agent's thread."""


class Do(Protocol):
    """Runs a function of the user's variables on the main thread; see `UserNamespace.do`."""

    def __call__(self, work: Callable[[dict[str, Any]], T], /) -> Awaitable[T]:
        """Run it, and return what it returns."""
        ...


class Outdated:
    """Watcher of a kernel's claims; used on the agent's thread, but for `is_idle`.

    Attributes:
        answers: What the last look found.
        shows_again: Whether the next look shows what it found even if that is the same.
    """

    def __init__(self, claims: KeptClaims, do: Do) -> None:
        """Watch claims, for no page yet."""
        self.answers: tuple[OutdatedAnswers, ...] = ()
        self.shows_again: bool = False
        self._claims = claims
        self._do = do
        self._pages: dict[object, Show] = {}
        self._wanted = False
        self._cell: int | None = None
        self._looking: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Return whether a look would be for nothing."""
        return not self._pages or not (self._claims or self.answers)

    def watch(self, show: Show) -> Callable[[], None]:
        """Call ``show`` now and after each change, until what this returns is called."""
        page = object()
        self._pages[page] = show
        show(self.answers)
        self.look_soon()
        return lambda: self._pages.pop(page, None) and None

    def look_soon(self, cell: int | None = None) -> None:
        """Look between cells, once for all that is asked for until then.

        Args:
            cell: The number of the user's cell that has ended.
        """
        if self.is_idle:
            return
        self._wanted, self._cell = True, self._cell if cell is None else cell
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._keep_looking())

    async def _keep_looking(self) -> None:
        while self._wanted and not self.is_idle:
            self._wanted = False
            pause = 0.0
            with suppress(UsageError):  # a cell runs, and asks for another look when it has ended
                try:
                    pause = _PAUSE * await self.look()
                except ToolError:  # the user's interrupt has ended it
                    self._wanted, pause = True, _PAUSE_AFTER_INTERRUPT
            await asyncio.sleep(pause)

    async def look(self) -> float:
        """Find out what is outdated, and show it if that has changed.

        Returns:
            Seconds that the main thread has spent on it.

        Raises:
            UsageError: A cell of the user's runs.
        """
        cell, self._cell = self._cell, None
        try:
            found, seconds = await self._do(lambda _: _timed(lambda: _found(self._claims.all(), cell)))
        except BaseException:  # the next look finds what this one was to find
            self._cell = cell if self._cell is None else self._cell
            raise
        if found != self.answers or self.shows_again:
            self.answers, self.shows_again = found, False
            for show in [*self._pages.values()]:
                show(found)
        return seconds


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    began = time.thread_time()
    return work(), time.thread_time() - began


def _found(claims: Iterable[Claim], cell: int | None) -> tuple[OutdatedAnswers, ...]:
    """Group what does not hold by cells, and note the cell after which that was so first."""
    look = cache(Reading.changed)
    groups: dict[str | None, list[OutdatedValue]] = {}
    with at_rest():
        for claim in claims:
            if (value := _outdated(claim, look, cell)) is not None:
                groups.setdefault(claim.cell, []).append(value)
    return tuple(OutdatedAnswers(cell, tuple(values)) for cell, values in groups.items())


def _outdated(claim: Claim, look: Callable[[Reading], frozenset[str]], cell: int | None) -> OutdatedValue | None:
    state = claim.state(look)
    if not state.is_stale:
        claim.since = ""
        if not (state.is_other or state.is_none) or (now := claim.now) is None:
            return None
        found = now[0].text or NO_VALUE
        return OutdatedValue(live_title(claim.expression), claim.value.text, found, state.words, claim.entry)
    if not claim.since:
        changed = state.words.removeprefix("stale: ")
        claim.since = changed if cell is None else f"[{cell}] ran"
    why = f"from before {claim.since}"
    return OutdatedValue(live_title(claim.expression), claim.value.text, None, why, claim.entry)


def in_words(values: Iterable[OutdatedValue], where: str = "") -> str:
    """Write how many values are outdated, and since when.

    >>> stale = OutdatedValue("n", "1", None, "from before [12] ran")
    >>> in_words([stale, stale, OutdatedValue("n", "1", "2", "differs: now 2")])
    '2 values are from before [12] ran, 1 value has changed'
    >>> in_words([OutdatedValue("n", "1", NO_VALUE, "has no value now: NameError")], "in answers above")
    '1 value in answers above could not be computed again'

    Args:
        where: Where the values stand, for a reader who has something else before them.
    """
    since: dict[str, int] = {}
    others = gone = 0
    for value in values:
        if value.now is None:
            since[value.why] = since.get(value.why, 0) + 1
        elif value.now == NO_VALUE:
            gone += 1
        else:
            others += 1
    parts = [(count, f"{'is' if count == 1 else 'are'} {why}") for why, count in since.items()]
    if others:
        parts.append((others, f"{'has' if others == 1 else 'have'} changed"))
    if gone:
        parts.append((gone, "could not be computed again"))
    return ", ".join(
        " ".join(filter(None, (counted(count, "value"), "" if index else where, said)))
        for index, (count, said) in enumerate(parts)
    )
