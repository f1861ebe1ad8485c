"""Patterns over text in pieces: they find what ``re`` finds, and cannot be kept busy."""

from __future__ import annotations

import random
import re

import pytest

from indus_nb.patterns import Automaton, Pattern, PatternError, TooCostlyError

PARTS = (
    *("a", "b", ".", "A", "{", r"\n", "[ab]", "[^a]", "[]a]", r"[\w-]", r"\w", r"\S", r"\x61", r"\b", r"\B", "^", "$"),
    *("(a|b)", "(?:ab)+", "(?P<n>a)", "a*", "b??", "a{2,3}", "c{2}", "(a|bc)*", "x{,2}", "b{1,}"),
)


def found(source: str, text: str, size: int = 3) -> bool:
    scanner = Automaton([Pattern(source)]).scanner()
    pieces = [scanner.feed(text[start : start + size]) for start in range(0, len(text), size)]
    return bool(frozenset().union(*pieces, scanner.end()))


def test_what_is_found_is_what_re_finds_however_the_text_is_cut():
    chance = random.Random(7)
    tried = 0
    while tried < 1500:
        source = chance.choice(("", "(?i)", "(?s)", "(?is)")) + "".join(chance.choices(PARTS, k=chance.randint(1, 5)))
        try:
            Pattern(source)
        except PatternError:
            continue
        text = "".join(chance.choices("aabbc \nxA{-", k=chance.randint(0, 12)))
        expected = re.search(source, text, re.MULTILINE) is not None
        assert found(source, text, chance.randint(1, 4)) == expected, (source, text)
        tried += 1


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("(", "is no regular expression"),
        ("a*", "fits the empty text"),
        (r"^\b", "fits the empty text"),
        (r"(a)\1", "is not known here"),
        ("a(?=b)", "looking around"),
        (r"a\Z", "is not known here"),
        ("a{1001}", "more than 1000 times"),
        ("(a{50}){50}", "is too long with its repetitions written out"),
        ("a" * 1001, "longer than 1000 characters"),
        ("(" * 51 + "a" + ")" * 51, "more than 50 groups"),
    ],
)
def test_a_pattern_that_cannot_be_used_says_why(source: str, problem: str):
    with pytest.raises(PatternError, match=problem):
        Pattern(source)


def test_of_several_patterns_those_that_fit_are_told():
    scanner = Automaton([Pattern("foo"), Pattern(r"\bbar\b"), Pattern("baz$")]).scanner()
    assert scanner.feed("foo ba") == {0}
    assert scanner.feed("r") == frozenset(), "the word may go on"
    assert scanner.feed(" baz") == {1}
    assert scanner.end() == {2}


@pytest.mark.parametrize("source", ["(a+)+b", "(x+x+)+y|a*a*a*a*a*b", "(a|aa)+$b"])
def test_text_that_keeps_re_busy_is_done_with_at_once(source: str):
    scanner = Automaton([Pattern(source)]).scanner()
    for _ in range(20):
        assert not scanner.feed("a" * 1000)


def test_a_text_that_is_new_at_every_character_is_given_up():
    chance = random.Random(1)
    scanner = Automaton([Pattern("(a|b)*a(a|b){300}c")]).scanner()
    with pytest.raises(TooCostlyError):
        scanner.feed("".join(chance.choices("ab", k=100_000)))
