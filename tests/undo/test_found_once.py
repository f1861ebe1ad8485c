"""What an object of a library finds out once and keeps is no change of it; what is done to it is."""

from __future__ import annotations

import argparse
import email.message
import fractions
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indus_nb.kernel import undo

LIBRARY = """
from collections import defaultdict
from functools import cached_property
class Rules:
    def __init__(self): self.known = defaultdict(set)
    def of(self, name): return self.known[name]
    def learn(self, name): self.known[name].add(1)
class Graph:
    def __init__(self): self._edges, self._cache, self.name = {}, {}, ""
    @cached_property
    def degrees(self): return [len(ends) for ends in self._edges.values()]
    def add(self, a, b): self._edges.setdefault(a, set()).add(b)
    def density(self):
        if "density" not in self._cache: self._cache["density"] = 0.5
        return self._cache["density"]
    def first(self):
        self._first = 1
        return self._first
    def fit(self): self.fitted = True
class Facts(dict):
    pass
class Symbol:
    __slots__ = ("name", "_hash", "_facts")
    shared = Facts()
    def __init__(self, name): self.name, self._hash, self._facts = name, None, self.shared
    def __eq__(self, other): return isinstance(other, Symbol) and self.name == other.name
    def __hash__(self):
        if self._hash is None: self._hash = hash(self.name)
        return self._hash
    def is_real(self):
        if self._facts is self.shared: self._facts = Facts(self.shared)
        self._facts["real"] = True
        return True
    def rename(self, name): self.name = name
"""


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Variables that hold objects of a library, which is installed as far as Python can tell."""
    (tmp_path / "library_of_test.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("indus_nb.base.installed._places", lambda: (f"{tmp_path}/",))
    library = importlib.import_module("library_of_test")
    yield {"graph": library.Graph(), "symbol": library.Symbol("x"), "rules": library.Rules()}
    del sys.modules["library_of_test"]


def changed(space: dict[str, Any], code: str) -> set[str]:
    checkpoint = undo.take(space, code)
    exec(code, space)
    return {*checkpoint.close().found.in_place}


@pytest.mark.parametrize(
    "code",
    [
        "graph.degrees",
        "graph.density()",
        "graph.first()",
        "hash(symbol)",
        "rules.of('x')",
        "symbol.is_real(); symbol.is_real()",
    ],
)
def test_what_it_finds_out_is_no_change(space: dict[str, Any], code: str) -> None:
    assert changed(space, code) == set()


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("graph.add(1, 2)", "graph"),
        ("graph.fit()", "graph"),
        ("graph.name = 'g'", "graph"),
        ("graph._edges = None", "graph"),
        ("graph.first(); graph._first = 2; graph.fit()", "graph"),
        ("symbol.rename('y')", "symbol"),
        ("rules.learn('x')", "rules"),
        ("del graph._cache", "graph"),
    ],
)
def test_what_is_done_to_it_is_one(space: dict[str, Any], code: str, name: str) -> None:
    assert changed(space, code) == {name}


def test_what_is_found_out_is_taken_back_with_the_rest(space: dict[str, Any]) -> None:
    checkpoint = undo.take(space, "graph.degrees; graph.add(1, 2)")
    exec("graph.degrees; graph.add(1, 2)", space)
    checkpoint.close().undo()
    space["graph"].add(3, 4)
    assert space["graph"].degrees == [1]


def test_a_class_of_the_users_keeps_nothing_for_itself() -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec("class Mine:\n    _cache = None\nmine = Mine()", space)
    assert changed(space, "mine._cache = {}") == {"mine"}


def test_attributes_of_pythons_own_classes_are_compared() -> None:
    space: dict[str, Any] = {
        "message": email.message.Message(),
        "options": argparse.Namespace(),
        "third": fractions.Fraction(1, 3),
    }
    assert changed(space, "message['To'] = 'ann'; options.depth = 3; hash(third)") == {"message", "options"}
