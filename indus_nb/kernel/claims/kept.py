"""Claims of a kernel's answers: what each said, what it was computed from, and whether that is still so.

What this module promises: whether a claim is stale is found by comparing what it read, and runs nothing. After an undo
of what changed that, it is as it was. Only `Claim.check`, which gets a new value, says what a claim would say now.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

from indus_nb.base import textcut
from indus_nb.base.textcut import counted
from indus_nb.kernel.undo import CheckpointBudget, Reading, read
from indus_nb.kernel.undo.columns_read import Use, at_rest, columns_in
from indus_nb.kernel.undo.reach import names_in_source
from indus_nb.kernel.undo.reading import outside_in
from indus_nb.render.live import LiveValue

_MAX_CLAIMS = 500
_MAX_FOLLOWED = 100
"""Claims whose variables are remembered, the newest: of older ones only the value is kept."""
_SECONDS, _ROOM = 0.3, 64 << 20
"""Processor time for remembering what the expressions of one answer read, and bytes for what those of all read."""
_MAX_NAMES_CHARACTERS = 120

Look: TypeAlias = Callable[[Reading], frozenset[str]]
"""Returns what of a reading has changed."""


class State(NamedTuple):
    """Whether a claim still holds.

    Attributes:
        is_stale: Whether it may have another value now.
        is_other: Whether a check found another value.
        is_none: Whether a check found none.
    """

    words: str
    is_stale: bool = False
    is_other: bool = False
    is_none: bool = False


@dataclass(slots=True)
class Claim:
    """A value in an answer.

    It may cease to be followed while it is looked at from another thread.

    Attributes:
        source: The expression as Python writes it.
        value: What the answer shows.
        cell: The cell that asked, by its id; ``None`` where it is not known.
        reading: What it was computed from; ``None`` once that is not followed any more.
        now: What a check found last, and from what.
        session: The id of the conversation in which it was given.
        entry: The entry that keeps it there, by its id, which it has in a fork as well.
        since: Before what it was computed, in words for pages, while it is stale.
        execution: The number of the execution of the cell.
        answer: The text that shows it.
    """

    expression: str
    source: str
    value: LiveValue
    cell: str | None
    reading: Reading | None
    now: tuple[LiveValue, Reading] | None = None
    session: str = ""
    entry: str = ""
    since: str = ""
    execution: int = 0
    answer: str = ""

    def check(self, value: LiveValue, reading: Reading) -> None:
        """Take a value that was computed now."""
        self.now = value, reading

    def differing(self, look: Look = Reading.changed) -> frozenset[str]:
        """Return the variables that it read and that are not as they were, nor as at the last check."""
        reading, now = self.reading, self.now
        differing = self._differing_in(reading, look)
        return self._differing_in(now[1], look) if differing and now is not None else differing

    def _differing_in(self, reading: Reading | None, look: Look) -> frozenset[str]:
        return frozenset() if reading is None else reading.concerning(self.source, look(reading))

    @property
    def readings(self) -> tuple[Reading, ...]:
        """Return what is remembered for it, the newest first."""
        now, reading = self.now, self.reading
        newest = () if now is None else (now[1],)
        return newest if reading is None else (*newest, reading)

    def state(self, look: Look = Reading.changed) -> State:
        """Describe whether it still holds, in a few words.

        Args:
            look: Returns what of a reading has changed.
        """
        reading, now = self.reading, self.now
        if reading is None:
            return State("not followed any more")
        if not (names := self._differing_in(reading, look)):
            left_out = _listed(reading.left_out)
            return State(f"holds as far as is known: what is in {left_out} is not followed" if left_out else "holds")
        if now is not None:
            names = self._differing_in(now[1], look)
        if names:
            return State(f"stale: {_listed(names)} changed", is_stale=True)
        found = self.value if now is None else now[0]
        if found.problem:
            return State(f"has no value now: {found.problem}", is_none=True)
        if found.text == self.value.text:
            return State("holds, checked")
        return State(f"differs: now {found.text}", is_other=True)


class KeptClaims:
    """The claims of one kernel, oldest first; one thread may change them while another looks at them."""

    def __init__(self, room: int = _ROOM) -> None:
        """Begin without claims.

        Args:
            room: Bytes for what all of them were computed from.
        """
        self._claims: tuple[Claim, ...] = ()
        self._changing = Lock()
        self._room = room

    def __len__(self) -> int:
        """Return how many claims there are."""
        return len(self._claims)

    def add(self, claims: Iterable[Claim]) -> None:
        """Keep the claims of an answer; the oldest of too many are not followed any more."""
        with self._changing:
            self._claims = (*self._claims, *claims)[-_MAX_CLAIMS:]
        self.make_room()

    def make_room(self) -> None:
        """Stop to follow the oldest claims, as far as what is remembered for all takes more than there is room."""
        weighed = set[Reading]()
        left = self._room
        for number, claim in enumerate(reversed(self._claims)):
            new = {*claim.readings} - weighed
            weighed |= new
            left -= sum(reading.weight for reading in new)
            if left < 0 or number >= _MAX_FOLLOWED:
                claim.reading = claim.now = None

    def forget(self, cell: str | None, execution: int) -> None:
        """Forget the claims of earlier executions of a cell that asks anew, whose answers are replaced."""
        if cell is not None:
            self._keep(lambda claim: claim.cell != cell or claim.execution == execution)

    def note_entry(self, answer: str, session: str, entry: str) -> None:
        """Note the entry that keeps the values of a new answer."""
        for claim in self._claims:
            if not claim.entry and claim.answer == answer and claim.session == session:
                claim.entry = entry

    def withdraw(self, answer: str, session: str) -> None:
        """Forget the claims of an answer that is written anew."""
        self._keep(lambda claim: claim.answer != answer or claim.session != session)

    def _keep(self, stays: Callable[[Claim], bool]) -> None:
        with self._changing:
            self._claims = (*filter(stays, self._claims),)

    def drop(self) -> int:
        """Forget all claims, and what they were computed from; return how many there were."""
        with self._changing:
            dropped, self._claims = self._claims, ()
        return len(dropped)

    def all(self) -> list[Claim]:
        """Return all claims."""
        return [*self._claims]

    def stale(self) -> list[Claim]:
        """Return those that may have another value now."""
        look = cache(Reading.changed)
        with at_rest():
            return [claim for claim in self.all() if claim.differing(look)]

    def read(self, namespace: Mapping[str, Any], sources: Iterable[str]) -> dict[str, Reading]:
        """Remember what expressions read, in one budget; those that read the same share it, also with earlier claims.

        Args:
            sources: Python expressions.
        """
        with at_rest():
            return self._read(namespace, sources)

    def _read(self, namespace: Mapping[str, Any], sources: Iterable[str]) -> dict[str, Reading]:
        budget = CheckpointBudget(_SECONDS, self._room, below_frames=False)
        earlier = {reading: claim.source for claim in self._claims for reading in claim.readings}
        known = {_reads(namespace, source): reading for reading, source in earlier.items() if not reading.left_out}
        found: dict[str, Reading] = {}
        shared: dict[Reads, Reading] = {}
        for source in sources:
            if (reads := _reads(namespace, source)) not in shared:
                reading = known.get(reads)
                is_as_it_was = reading is not None and not reading.changed()
                shared[reads] = reading if reading is not None and is_as_it_was else read(namespace, source, budget)
            found[source] = shared[reads]
        return found


Reads: TypeAlias = tuple[frozenset[str], frozenset[str], frozenset[tuple[str, frozenset[Use]]]]
"""Names in an expression that are no builtins, those by which it reads past variables, and columns that it reads."""


def _reads(namespace: Mapping[str, Any], source: str) -> Reads:
    names = names_in_source(source, str)
    named = {name for name in names.names if name in namespace or not hasattr(builtins, name)}
    columns = frozenset(columns_in(namespace, source).items())
    return frozenset(named), outside_in(names.names, names.mentioned), columns


def listed(claims: Sequence[Claim], asked: Callable[[Claim], str]) -> tuple[str, list[list[str]]]:
    """Write claims as a title and rows: where it was asked, expression, value then, and whether it holds.

    Args:
        asked: Returns the cell or prompt that asked, in a few words.
    """
    look = cache(Reading.changed)
    with at_rest():
        states = [claim.state(look) for claim in claims]
    stale, other = sum(state.is_stale for state in states), sum(state.is_other for state in states)
    found = f", {other} of another value now" if other else ""
    if none := sum(state.is_none for state in states):
        found += f", {none} without a value now"
    title = f"{counted(len(claims), 'value')} in answers, {stale} stale{found}."
    if stale:
        title = f"{title} `%agent claims check` computes these again."
    rows = [
        [asked(claim), textcut.one_line(claim.expression, _MAX_NAMES_CHARACTERS), claim.value.text, state.words]
        for claim, state in zip(claims, states, strict=True)
    ]
    return title, rows


def _listed(names: Iterable[str]) -> str:
    return textcut.one_line(", ".join(sorted(names)), _MAX_NAMES_CHARACTERS)
