"""Claims of a kernel's answers: what each said, what it was computed from, and whether that is still so.

What this module promises: whether a claim is stale is found by comparing what it read, and runs nothing. After an undo
of what changed that, it is as it was. Only `Claim.check`, which gets a new value, says what a claim would say now.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from indus_nb.base import textcut
from indus_nb.base.textcut import counted
from indus_nb.kernel.undo import CheckpointBudget, Reading, read
from indus_nb.kernel.undo.reach import names_in_source
from indus_nb.render.live import LiveValue

_MAX_CLAIMS = 500
_MAX_FOLLOWED = 100
"""Claims whose variables are remembered, the newest: of older ones only the value is kept."""
_SECONDS, _ROOM = 0.3, 64 << 20
"""Processor time and bytes for remembering what the expressions of one answer read."""
_MAX_NAMES_CHARACTERS = 120


@dataclass(slots=True)
class Claim:
    """A value in an answer.

    Attributes:
        source: The expression as Python writes it.
        value: What the answer shows.
        cell: The cell that asked, by its id; ``None`` where it is not known.
        reading: What it was computed from; ``None`` once that is not followed any more.
        now: What a check found last, and from what.
    """

    expression: str
    source: str
    value: LiveValue
    cell: str | None
    reading: Reading | None
    now: tuple[LiveValue, Reading] | None = None

    def check(self, value: LiveValue, reading: Reading) -> None:
        """Take a value that was computed now."""
        self.now = value, reading

    def differing(self) -> frozenset[str]:
        """Return the variables that it read and that are not as they were, nor as at the last check."""
        differing = frozenset[str]() if self.reading is None else self.reading.differing()
        return self.now[1].differing() if differing and self.now is not None else differing

    @property
    def is_stale(self) -> bool:
        """Return whether its value may be another one now, as far as is known."""
        return bool(self.differing())

    def state(self) -> str:
        """Describe whether it still holds, in a few words."""
        if self.reading is None:
            return "not followed any more"
        if not self.reading.differing():
            left_out = _listed(self.reading.left_out)
            return f"holds, but for what {left_out} may hold since" if left_out else "holds"
        if self.now is None or (names := self.now[1].differing()):
            names = self.differing()
            return f"stale: {_listed(names)} changed"
        found = self.now[0]
        if found.problem:
            return f"has no value now: {found.problem}"
        return "holds, checked" if found.text == self.value.text else f"differs: now {found.text}"


class KeptClaims:
    """The claims of one kernel, oldest first; used on the main thread, or while nothing of the user's runs there."""

    def __init__(self) -> None:
        """Begin without claims."""
        self._claims: deque[Claim] = deque(maxlen=_MAX_CLAIMS)

    def add(self, claims: Iterable[Claim]) -> None:
        """Keep the claims of an answer; the oldest of too many are not followed any more."""
        self._claims.extend(claims)
        for claim in [*self._claims][:-_MAX_FOLLOWED]:
            claim.reading = claim.now = None

    def forget(self, cell: str | None) -> None:
        """Forget the claims of a cell that asks anew, whose answers are replaced."""
        if cell is not None:
            self._claims = deque((claim for claim in self._claims if claim.cell != cell), maxlen=_MAX_CLAIMS)

    def all(self) -> list[Claim]:
        """Return all claims."""
        return [*self._claims]

    def stale(self) -> list[Claim]:
        """Return those that may have another value now."""
        return [claim for claim in self.all() if claim.is_stale]


def readings(namespace: Mapping[str, Any], sources: Iterable[str]) -> dict[str, Reading]:
    """Remember what expressions read, in one budget; expressions that read the same share it.

    Args:
        sources: Python expressions.
    """
    budget = CheckpointBudget(_SECONDS, _ROOM)
    found: dict[str, Reading] = {}
    shared: dict[frozenset[str], Reading] = {}
    for source in sources:
        names = names_in_source(source, str).names
        if names not in shared:
            shared[names] = read(namespace, source, budget)
        found[source] = shared[names]
    return found


def listed(claims: Sequence[Claim]) -> tuple[str, list[list[str]]]:
    """Write claims as a title and rows: expression, value then, and whether it holds."""
    stale = sum(claim.is_stale for claim in claims)
    title = f"{counted(len(claims), 'value')} in answers, {stale} stale."
    if stale:
        title = f"{title} `%agent claims check` computes these again."
    rows = [
        [textcut.one_line(claim.expression, _MAX_NAMES_CHARACTERS), claim.value.text, claim.state()] for claim in claims
    ]
    return title, rows


def _listed(names: Iterable[str]) -> str:
    return textcut.one_line(", ".join(sorted(names)), _MAX_NAMES_CHARACTERS)
