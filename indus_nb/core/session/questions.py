"""A question with its parts: what a front end needs to lay it out, beside the text that every host is shown."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, TypeVar

_T = TypeVar("_T")

ChoiceKind = Literal["yes", "more", "again", "no"]
"""Kinds of an answer: allow this once, this and something besides, allow it from now on, or allow nothing."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An answer.

    Attributes:
        label: The text of a button; by default the option.
    """

    option: str
    kind: ChoiceKind
    label: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """A question in parts, in the order in which they are shown.

    Attributes:
        heading: The question itself, in one line.
        warnings: What the user should know, a line each.
        body: What is asked about: code, a command, a difference.
        outcome: What would happen, if that was found out; lines of text.
        choices: The answers, in the order of their buttons.
        language: The language of ``body``, as it stands behind a fence; empty for plain text.
        diff: A difference with numbered lines, which a front end may show in the place of ``body``.
        takes_reason: Whether a no may come with a reason.
        subject: What it is about, for a front end that shows that where it stands.
        irreversible: Whether what a yes does cannot be taken back: Enter then gives a no.
        goes_on: Whether what it is about runs while the user is asked, so that the time counts. Enter then gives the
            last answer, which waits for its end.
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
    irreversible: bool = False
    goes_on: bool = False

    @property
    def options(self) -> list[str]:
        """Return the answers as a list of options."""
        return [choice.option for choice in self.choices]

    @property
    def keys(self) -> list[str]:
        """Return the key of each answer: its number as the buttons stand.

        Answers that allow it from now on have one button, which opens them: but for the first they are counted last.

        >>> kinds: list[ChoiceKind] = ["yes", "again", "again", "no"]
        >>> Question("Run this?", [Choice(kind, kind) for kind in kinds]).keys
        ['1', '2', '4', '3']
        """
        places = range(len(self.choices))
        behind = [place for place in places if self.choices[place].kind == "again"][1:]
        order = [*(place for place in places if place not in behind), *behind]
        return [str(order.index(place) + 1) for place in places]

    @property
    def default(self) -> str | None:
        """Return the option that Enter gives: the first one if it is a yes, a no instead if that is irreversible.

        >>> choices = [Choice("Yes, run it here", "yes"), Choice("No", "no"), Choice("Wait for its end", "no")]
        >>> Question("Run it here?", choices, goes_on=True).default
        'Wait for its end'
        """
        if self.goes_on:
            return self.choices[-1].option
        if self.irreversible:
            return next((choice.option for choice in self.choices if choice.kind == "no"), None)
        return next((choice.option for choice in self.choices[:1] if choice.kind == "yes"), None)

    def text(self) -> str:
        r"""Return all parts but the answers, as one text.

        >>> Question("Run this?", [], warnings=["It runs in /tmp."], body="ls").text()
        'Run this?\nIt runs in /tmp.\n\nls'
        """
        head = "\n".join([self.heading, *self.warnings])
        return "\n\n".join(filter(None, [head, self.body, self.outcome]))


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
