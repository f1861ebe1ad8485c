"""Finished calls in a cell: each folds to a line when something follows it, and a row of them into one line at its end.

A row is made of calls that follow each other, with no more between them than a sentence or the model's reasoning. What
stands in displays of its own (figures, tables) ends a row, so that everything keeps its order.

Nothing is ever taken out before it stands elsewhere: the row's line, with all cards in it, is shown first, and then the
displays of the cards are emptied. Every card is sent a bounded number of times: when it is finished, when it folds, and
when its row does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from indus_nb.front.notebook.view.blocks import MimeBundle, Steps, steps
from indus_nb.front.notebook.view.output import NOTHING, Display, Own
from indus_nb.front.notebook.view.parts import Card

_MAX_SEPARATE_CARDS = 10
_MAX_ROW_CHARACTERS = 200_000


@dataclass
class _Part:
    """A display of a row: a card's, or a remark's, which has no card."""

    display: Display
    bundle: MimeBundle
    card: Card | None = None
    is_folded: bool = True
    alone: MimeBundle | None = None
    """How it is shown below the row, if not as within it."""
    own: Own | None = None
    """Its metadata below the row."""

    @property
    def shown(self) -> MimeBundle:
        """What its own display shows."""
        return self.alone or self.bundle

    def may_fold(self) -> bool:
        return self.card is not None and not self.is_folded and self.card.call.folded

    def fold(self) -> None:
        if self.card is not None:
            self.bundle, self.is_folded = self.card.bundle(), True


@dataclass
class _Line:
    """Cards that were folded into a line: its display, and their summary."""

    display: Display
    amount: Steps
    bundles: list[MimeBundle]


class Rows:
    """Calls of one run that may still be folded."""

    def __init__(self, vacate: Callable[[Sequence[Display]], None]) -> None:
        """Create the state, without a row.

        Args:
            vacate: Called with displays that are empty now.
        """
        self._vacate = vacate
        self._line: _Line | None = None
        """The line that the first cards of the row are folded into already, if there are many."""
        self._parts: list[_Part] = []
        """From the first card to the last one."""
        self._remarks: list[_Part] = []
        """Remarks since the last card: they belong to the row if another card follows."""
        self._ended = False

    @property
    def is_open(self) -> bool:
        """Return whether another card would belong to the row."""
        return bool(self._parts) and not self._ended

    def add_card(self, card: Card, display: Display, bundle: MimeBundle) -> None:
        """Add a finished card.

        Args:
            display: The display that shows it.
        """
        self._parts += [*self._remarks, _Part(display, bundle, card, is_folded=card.call.folded)]
        self._remarks = []

    def add_remark(
        self, display: Display, bundle: MimeBundle, alone: MimeBundle | None = None, own: Own | None = None
    ) -> None:
        """Add a short text, or reasoning, which may stand between two cards.

        Args:
            display: The display that shows it.
            alone: How it is shown below the row, if not as within it.
            own: Its metadata there.
        """
        if self.is_open:
            self._remarks.append(_Part(display, bundle, alone=alone, own=own))

    def end(self) -> None:
        """End the row: later cards do not belong to it."""
        self._ended = True

    def settle(self) -> None:
        """Fold the cards that something follows, and the row if it has ended."""
        if not self._parts:
            self._ended = False
            return
        ready = [part for part in self._parts if part.may_fold()]
        for part in ready:
            part.fold()
        is_over = self._ended and all(part.is_folded for part in self._parts)
        is_long = len(self._parts) > _MAX_SEPARATE_CARDS and all(part.is_folded for part in self._parts[:-1])
        if is_over:
            if self._line is None and len(self._parts) == 1:
                for part in (*self._parts, *self._remarks):
                    part.display.update(part.shown, final=True, own=part.own)
            else:
                self._gather(self._parts, self._remarks, final=True)
            self._line, self._parts, self._remarks, self._ended = None, [], [], False
        elif is_long:
            self._gather(self._parts[:-1], self._parts[-1:] + self._remarks, final=False)
            self._parts = self._parts[-1:]
        else:
            for part in ready:
                part.display.update(part.bundle, final=False)

    def _gather(self, parts: Sequence[_Part], following: Sequence[_Part], *, final: bool) -> None:
        """Fold cards into one line, and move up what follows them."""
        for part in parts:
            if part.card is not None:
                part.card.is_in_row = True
        bundles = [part.bundle for part in parts]
        amount = sum((part.card.call.steps() for part in parts if part.card is not None), Steps())
        displays = [part.display for part in (*parts, *following)]
        before = self._line
        if before is not None and _size(before.bundles) + _size(bundles) <= _MAX_ROW_CHARACTERS:
            bundles, amount = before.bundles + bundles, before.amount + amount
            displays.insert(0, before.display)
        self._line = _Line(displays[0], amount, bundles)
        displays[0].update(steps(amount, bundles), final=final)
        for display, part in zip(displays[1:], following, strict=False):
            part.display = display
            display.update(part.shown, final=part.card is None, own=part.own)
        empty = displays[1 + len(following) :]
        for display in empty:
            display.update(NOTHING, final=False)
        self._vacate(empty)


def _size(bundles: Sequence[MimeBundle]) -> int:
    return sum(len(bundle["text/html"]) for bundle in bundles)
