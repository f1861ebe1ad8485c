r"""Regular expressions over text that arrives in pieces, in time that grows with the text and with nothing else.

``re`` goes back and tries again, so a pattern can keep it busy for ever on text that is made for that, and nothing else
runs in the process meanwhile. Here all ways through all patterns are followed side by side, one character after the
other, and what was found out about a character in a situation is remembered. That is possible for what regular
expressions are in the strict sense: literals, ``.``, classes and their escapes, groups, ``|``, ``* + ? {m,n}``, ``^``
and ``$`` (of a line), ``\b``, ``\B``, and ``(?i)`` or ``(?s)`` in front. Everything else is rejected when a pattern is
made.

>>> scanner = Automaton([Pattern("err(or)?s"), Pattern("^ok$")]).scanner()
>>> scanner.feed("ok, err"), scanner.feed("ors\nok"), scanner.end()
(frozenset(), frozenset({0}), frozenset({1}))
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

MAX_PATTERN_CHARACTERS = 1000
MAX_PATTERN_STATES = 1000
MAX_NESTED_GROUPS = 50
MAX_REPEATS = 1000
MAX_REMEMBERED_STATES = 200_000
MAX_STEPS = 500_000
"""What a scanner may spend on situations that are new, in states looked at; less than a second."""

_FLAGS = re.compile(r"\(\?([is]+)\)")
_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*\}|.)", re.DOTALL)
_QUANTIFIER = re.compile(r"[*+?]|\{(?:([0-9]+)(?:(,)([0-9]*))?|(,)([0-9]+))\}")
_WORD = re.compile(r"\w")
_UNKNOWN = ""
_END = "\n"  # what holds at the end of the text holds at that of a line

_Assertion = Literal["^", "$", r"\b", r"\B"]
_Step: TypeAlias = "tuple[frozenset[int], frozenset[int]]"


class PatternError(ValueError):
    """A pattern that cannot be used; the text follows its name in a sentence."""


class TooCostlyError(Exception):
    """The patterns met so many new situations in one text that a scanner gave up."""


@dataclass(slots=True)
class _States:
    """An automaton: what each state consumes and where that leads, and where it leads without consuming anything."""

    consumes: list[tuple[re.Pattern[str], int] | None] = field(default_factory=list[tuple[re.Pattern[str], int] | None])
    leads: list[list[tuple[_Assertion | None, int]]] = field(
        default_factory=list[list[tuple["_Assertion | None", int]]]
    )
    limit: int | None = None

    def add(self, consumes: tuple[re.Pattern[str], int] | None = None) -> int:
        if self.limit is not None and len(self.leads) >= self.limit:
            raise PatternError(f"is too long with its repetitions written out (more than {self.limit} parts)")
        self.consumes.append(consumes)
        self.leads.append([])
        return len(self.leads) - 1


class Pattern:
    """A regular expression; raises ``PatternError`` for one that cannot be used, or that fits the empty text."""

    def __init__(self, source: str) -> None:
        if len(source) > MAX_PATTERN_CHARACTERS:
            raise PatternError(f"is longer than {MAX_PATTERN_CHARACTERS} characters")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                re.compile(source)
        except (re.error, OverflowError, RecursionError) as error:
            raise PatternError(f"is no regular expression ({error})") from error
        self.source = source
        self._tree, self._flags = _Parser(source).parse()
        states = _States(limit=MAX_PATTERN_STATES)
        end = states.add()
        start = self.build(states, end)
        if end in _reached(states, {start}):
            raise PatternError("fits the empty text, so it would fit everything")
        self.size = len(states.leads)

    def build(self, states: _States, end: int) -> int:
        """Add the pattern to an automaton, leading to the state ``end``; returns where it begins."""
        return self._tree.build(states, end, self._flags)


# What a pattern is made of


@dataclass(frozen=True, slots=True)
class _Atom:
    source: str

    def build(self, states: _States, end: int, flags: re.RegexFlag) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return states.add((re.compile(self.source, flags), end))


@dataclass(frozen=True, slots=True)
class _Assert:
    kind: _Assertion

    def build(self, states: _States, end: int, flags: re.RegexFlag) -> int:
        del flags
        state = states.add()
        states.leads[state].append((self.kind, end))
        return state


@dataclass(frozen=True, slots=True)
class _Sequence:
    parts: Sequence[_Node]

    def build(self, states: _States, end: int, flags: re.RegexFlag) -> int:
        for part in reversed(self.parts):
            end = part.build(states, end, flags)
        return end


@dataclass(frozen=True, slots=True)
class _Choice:
    branches: Sequence[_Node]

    def build(self, states: _States, end: int, flags: re.RegexFlag) -> int:
        state = states.add()
        for branch in self.branches:
            states.leads[state].append((None, branch.build(states, end, flags)))
        return state


@dataclass(frozen=True, slots=True)
class _Repeat:
    part: _Node
    least: int
    most: int | None

    def build(self, states: _States, end: int, flags: re.RegexFlag) -> int:
        if self.most is None:
            again = states.add()
            states.leads[again] += [(None, self.part.build(states, again, flags)), (None, end)]
            start = again
        else:
            start = end
            for _ in range(self.most - self.least):
                maybe = states.add()
                states.leads[maybe] += [(None, self.part.build(states, start, flags)), (None, end)]
                start = maybe
        for _ in range(self.least):
            start = self.part.build(states, start, flags)
        return start


_Node: TypeAlias = _Atom | _Assert | _Sequence | _Choice | _Repeat


class _Parser:
    """Takes a regular expression apart that ``re`` understands."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._depth = 0

    def parse(self) -> tuple[_Node, re.RegexFlag]:
        flags = re.NOFLAG
        if found := _FLAGS.match(self._source):
            self._at = found.end()
            flags |= re.IGNORECASE if "i" in found[1] else re.NOFLAG
            flags |= re.DOTALL if "s" in found[1] else re.NOFLAG
        return self._choice(), flags

    def _choice(self) -> _Node:
        branches = [self._sequence()]
        while self._source.startswith("|", self._at):
            self._at += 1
            branches.append(self._sequence())
        return branches[0] if len(branches) == 1 else _Choice(branches)

    def _sequence(self) -> _Node:
        parts: list[_Node] = []
        while self._at < len(self._source) and self._source[self._at] not in "|)":
            part = self._part()
            while found := _QUANTIFIER.match(self._source, self._at):
                part = self._repeated(part, found)
            parts.append(part)
        return _Sequence(parts)

    def _repeated(self, part: _Node, found: re.Match[str]) -> _Node:
        self._at = found.end()
        if self._source.startswith("+", self._at):
            raise PatternError("has a possessive repetition, which is not known here: leave out the second +")
        if self._source.startswith("?", self._at):
            self._at += 1  # how much a lazy repetition takes makes no difference to whether it fits
        usual = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if found[0] in usual:
            least, most = usual[found[0]]
        elif found[4]:
            least, most = 0, int(found[5])
        else:
            least = int(found[1])
            most = least if not found[2] else int(found[3]) if found[3] else None
        if max(least, most or 0) > MAX_REPEATS:
            raise PatternError(f"repeats something more than {MAX_REPEATS} times")
        return _Repeat(part, least, most)

    def _part(self) -> _Node:
        char = self._source[self._at]
        match char:
            case "(":
                return self._group()
            case "[":
                return self._class()
            case "\\":
                return self._escape()
            case "^" | "$":
                self._at += 1
                return _Assert(char)
            case _:
                self._at += 1
                return _Atom("." if char == "." else re.escape(char))

    def _group(self) -> _Node:
        opening = re.compile(r"\((?:\?:|\?P<\w+>|(?!\?))").match(self._source, self._at)
        if opening is None:
            kind = self._source[self._at : self._at + 4]
            raise PatternError(f"has a group that is not known here ({kind}…): looking around and back is not possible")
        self._at = opening.end()
        self._depth += 1
        if self._depth > MAX_NESTED_GROUPS:
            raise PatternError(f"has more than {MAX_NESTED_GROUPS} groups within each other")
        inner = self._choice()
        self._depth -= 1
        self._at += 1
        return inner

    def _class(self) -> _Node:
        start = self._at
        self._at += 2 if self._source.startswith("[^", start) else 1
        self._at += 1 if self._source.startswith("]", self._at) else 0
        while self._source[self._at] != "]":
            self._at += 2 if self._source[self._at] == "\\" else 1
        self._at += 1
        return _Atom(self._source[start : self._at])

    def _escape(self) -> _Node:
        found = _ESCAPE.match(self._source, self._at)
        if found is None or found[0][1] in "0123456789AZ":
            what = self._source[self._at : self._at + 2]
            raise PatternError(
                f"has {what}, which is not known here: groups, beginnings and ends of texts have no names"
            )
        self._at = found.end()
        if found[0] == r"\b":
            return _Assert(r"\b")
        return _Assert(r"\B") if found[0] == r"\B" else _Atom(found[0])


# Following them


def _reached(states: _States, start: set[int], before: str | None = None, after: str | None = None) -> set[int]:
    """The states that can be had without consuming anything, between two characters; without ``after``: any two."""
    reached = set(start)
    waiting = list(start)
    while waiting:
        for assertion, target in states.leads[waiting.pop()]:
            if target not in reached and (assertion is None or after is None or _holds(assertion, before, after)):
                reached.add(target)
                waiting.append(target)
    return reached


def _holds(assertion: _Assertion, before: str | None, after: str) -> bool:
    if assertion == "^":
        return before is None or before == "\n"
    if after == _UNKNOWN:
        return False
    if assertion == "$":
        return after == "\n"
    at_edge = bool(before and _WORD.match(before)) is not bool(_WORD.match(after))
    return at_edge if assertion == r"\b" else not at_edge


class Automaton:
    """Several patterns as one; they are known by their places in the list."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self.states = _States()
        self.ends = {self.states.add(): index for index in range(len(patterns))}
        self.starts = frozenset(
            pattern.build(self.states, end) for pattern, end in zip(patterns, self.ends, strict=True)
        )
        self.known: dict[tuple[frozenset[int], str | None], dict[str, _Step]] = {}
        self.remembered = 0

    def scanner(self) -> Scanner:
        """Look at a new text."""
        return Scanner(self)


class Scanner:
    """Looks for the patterns in one text."""

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._within: frozenset[int] = frozenset()
        self._before: str | None = None
        self._steps = 0

    def feed(self, text: str) -> frozenset[int]:
        """Take more of the text.

        Returns:
            the patterns that fit somewhere up to its end, as far as that can be said before more has come
        Raises:
            TooCostlyError: from here on this text cannot be followed any more.
        """
        found: frozenset[int] = frozenset()
        known = self._automaton.known
        for char in text:
            try:
                fits, self._within = known[self._within, self._before][char]
            except KeyError:
                fits, self._within = self._step(char)
            if fits:
                found |= fits
            self._before = char if char == "\n" else "w" if _WORD.match(char) else " "
        return found | self._peek(_UNKNOWN)

    def end(self) -> frozenset[int]:
        """The patterns that fit at the end of the text; raises ``TooCostlyError``."""
        return self._peek(_END)

    def _peek(self, after: str) -> frozenset[int]:
        if not self._within:
            return frozenset()
        reached = self._reached(set(self._within), after)
        return frozenset(self._automaton.ends[state] for state in reached if state in self._automaton.ends)

    def _step(self, char: str) -> _Step:
        automaton = self._automaton
        reached = self._reached({*self._within, *automaton.starts}, char)
        fits = frozenset(automaton.ends[state] for state in reached if state in automaton.ends)
        consuming = (automaton.states.consumes[state] for state in reached)
        within = frozenset(taken[1] for taken in consuming if taken is not None and taken[0].match(char))
        if automaton.remembered >= MAX_REMEMBERED_STATES:
            automaton.known.clear()
            automaton.remembered = 0
        automaton.known.setdefault((self._within, self._before), {})[char] = fits, within
        automaton.remembered += 1 + len(within)
        return fits, within

    def _reached(self, start: set[int], after: str) -> set[int]:
        reached = _reached(self._automaton.states, start, self._before, after)
        self._steps += len(reached)
        if self._steps > MAX_STEPS:
            raise TooCostlyError
        return reached
