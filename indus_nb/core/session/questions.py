"""A question with its parts: what a front end needs to lay it out, beside the text that every host is shown."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, TypeVar

_T = TypeVar("_T")

ChoiceKind = Literal["yes", "again", "no"]
"""Kinds of an answer: allow this once, allow more than this, or allow nothing."""


_USUAL: Mapping[ChoiceKind, int] = {"yes": 1, "again": 2, "no": 3}
WAIT, SAVE, AGAIN_IN_DIRECTORY, YES_AND_MORE = 4, 5, 6, 7
"""Digits of answers beside the usual ones: each has the same meaning in every question."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An answer.

    Attributes:
        label: The text of a button; by default the option.
        digit: The key that gives it; by default 1 for the first yes of a question, 2 for the first that allows more, 3
            for the first no. What a digit up to 7 means is the same in every question.
    """

    option: str
    kind: ChoiceKind
    label: str = ""
    digit: int | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A question in parts, in the order in which they are shown.

    Attributes:
        heading: The question itself, in one line.
        warnings: What the user should know, a line each.
        body: What is asked about: code, a command, a difference.
        outcome: What would happen, if that was found out; lines of text.
        choices: The answers; the first one is what Enter gives.
        language: The language of ``body``, as it stands behind a fence; empty for plain text.
        diff: A difference with numbered lines, which a front end may show in the place of ``body``.
        takes_reason: Whether a no may come with a reason.
        subject: What it is about, for a front end that shows that where it stands.
    """

    heading: str
    choices: Sequence[Choice]
    warnings: Sequence[str] = ()
    body: str = ""
    outcome: str = ""
    names: Sequence[str] = ()
    language: str = ""
    diff: str = ""
    takes_reason: bool = False
    subject: object = None

    @property
    def options(self) -> list[str]:
        """Return the answers as a list of options."""
        return [choice.option for choice in self.choices]

    @property
    def keys(self) -> list[str]:
        """Return the key of each answer.

        >>> Question("Run this?", [Choice("Yes", "yes"), Choice("No", "no"), Choice("Wait", "no", digit=WAIT)]).keys
        ['1', '3', '4']
        """
        found: list[str] = []
        others = itertools.count(YES_AND_MORE + 1)
        for choice in self.choices:
            key = str(choice.digit or _USUAL[choice.kind])
            found.append(str(next(others)) if key in found else key)
        return found

    def text(self) -> str:
        r"""Return all parts but the answers, as one text.

        >>> Question("Run this?", [], warnings=["It runs in /tmp."], body="ls").text()
        'Run this?\nIt runs in /tmp.\n\nls'
        """
        head = "\n".join([self.heading, *self.warnings])
        return "\n\n".join([head, self.body, *([self.outcome] if self.outcome else [])])


caller: ContextVar[str] = ContextVar("indus_nb caller", default="")
"""Name of the program that has made the running tool call; empty where it is the model."""

subagent: ContextVar[str] = ContextVar("indus_nb sub-agent", default="")
"""Name of the sub-agent that has made the running tool call; empty where there is none."""


@contextmanager
def bound(variable: ContextVar[_T], value: _T) -> Generator[None]:
    """Set a context variable for what is called within the block, and for tasks that it begins."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def by_caller(title: str) -> str:
    """Return a question with the name of the program or sub-agent for whose call it is asked."""
    who = caller.get() or subagent.get()
    return f"{who} asks: {title}" if who else title


@dataclass(frozen=True, slots=True)
class Decision:
    """Choice of the user: one of the options, ``None`` when it was dismissed, and a reason if one was given."""

    option: str | None
    reason: str = ""
