"""States under names: whatever comes between, a state is what it was when it got its name."""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest

from indus_nb.kernel.undo import (
    LAST,
    Book,
    CheckpointBudget,
    Contents,
    Dropped,
    Files,
    History,
    RefusedError,
    Step,
    TouchedError,
    is_of_left,
    take,
)

np: Any = import_module("numpy")
pd: Any = import_module("pandas")
PROGRAMS = 500
BLOCKS = 4
BEGINNING = """
import numpy as np
import pandas as pd
rows = [1, [2, 3], {'k': [4]}]
also = rows[1]
table = {'a': 1, 'b': [2, 3], 'c': {'d': []}}
array = np.arange(12.0).reshape(3, 4)
view = array[1:]
frame = pd.DataFrame({'x': [3, 1, 2], 'y': [1.0, None, 3.0], 's': list('uvw')})
count = 0
"""
ACTIONS = (
    "rows.append({i})",
    "rows.insert(0, [{i}])",
    "rows[1].append({i}) if isinstance(rows[1], list) else rows.reverse()",
    "rows = [*rows, {i}]",
    "rows.clear(); rows.extend([{i}, [{i}], {{'k': [{i}]}}])",
    "also.append({i})",
    "also = rows",
    "also = [{i}]",
    "table['n{i}'] = rows",
    "table['b'] = [{i}]",
    "table.setdefault('b', []).append({i})",
    "table.pop('a', None); table['a'] = {i}",
    "table = {{**table, 'm': also}}",
    "table.clear()",
    "array += {i}",
    "array[0] = {i}",
    "array = array * 2",
    "view[...] = {i}",
    "view = array[:1]",
    "frame['x'] = frame['x'] + {i}",
    "frame.loc[frame.index[0], 'y'] = {i}",
    "frame['n{i}'] = range(len(frame))",
    "frame.sort_values('x', inplace=True)",
    "frame = frame.dropna()",
    "frame = pd.concat([frame, frame])",
    "frame.drop(columns=frame.columns[-1], inplace=True)",
    "new{i} = frame",
    "new{i} = [rows, array]",
    "del count",
    "count = {i}",
    "rows[0] = frame; frame.index.name = 'i{i}'",
    "raise ValueError",
)
FILE_ACTIONS = (
    "(work / 'a').write_text('{i}')",
    "(work / 'b').write_text('{i}')",
    "(work / 'a').unlink()",
    "(work / 'b').write_text((work / 'a').read_text() + '{i}')",
)
SAVED = ("one", "two", "three")


def run(code: str, namespace: dict[str, Any]) -> None:
    try:
        with warnings.catch_warnings(action="ignore"):
            exec(code, namespace)
    except Exception:
        return


class Snapshot:
    """A model of a state: deep copies of all values, which variables are the same object, and what files hold."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        held = {name: value for name, value in namespace.items() if name not in ("np", "pd") and name[:2] != "__"}
        self.values = copy.deepcopy(held)
        work = namespace.get("work")
        self.files = {path.name: path.read_text() for path in work.iterdir()} if work else {}
        self.shared = {(one, other) for one in held for other in held if held[one] is held[other]}

    def differs(self, namespace: dict[str, Any]) -> list[str]:
        other = Snapshot(namespace)
        names = [name for name in self.values.keys() | other.values.keys() if not self._is_same(name, other)]
        names += ["files"] if self.files != other.files else []
        return [*names, *(["what is shared"] if self.shared != other.shared else [])]

    def _is_same(self, name: str, other: Snapshot) -> bool:
        both = name in self.values and name in other.values
        return both and equal(self.values[name], other.values[name])


def equal(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, pd.DataFrame):
        return one.equals(other) and [*one.columns] == [*other.columns] and one.index.names == other.index.names
    if isinstance(one, np.ndarray):
        return one.shape == other.shape and one.tobytes() == other.tobytes()
    if type(one) is dict:
        return [*one] == [*other] and equal([*one.values()], [*other.values()])
    if type(one) is list:
        return len(cast("list[Any]", one)) == len(other) and all(map(equal, cast("list[Any]", one), other))
    return bool(one == other)


class Program:
    """Random steps, names, jumps, undo and redo, with a model: the states on the way, the redo list and the names."""

    def __init__(self, seed: int, root: Path | None = None) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.room = self.chance.choice([1 << 30, 1 << 30, 4_000, 1_500])
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        exec(BEGINNING, self.namespace)
        self.book: Book | None = None
        if root is not None:
            (root / "work").mkdir(parents=True)
            self.namespace["work"] = root / "work"
            self.book = Book(Files(root / "work", Contents(root / "kept")), b"key")
        self.actions = (*ACTIONS, *(FILE_ACTIONS * 4 if root else ()))
        self.history = History(self.namespace)
        self.path = [Snapshot(self.namespace)]
        self.undone: list[Snapshot] = []
        self.named: dict[str, list[Snapshot]] = {}
        self.did: list[str] = []
        self.jumps = self.lost = 0

    def go(self, length: int) -> None:
        moves: list[Callable[[], None]] = [self.step, self.save, self.back, self.undo, self.redo, self.drop, self.look]
        for _ in range(length):
            move = self.chance.choices(moves, [9, 3, 4, 2, 2, 1, 1])[0]
            move()
            where = f"program {self.seed}: {self.did}"
            assert self.path[-1].differs(self.namespace) == [], where
            assert {held.name for held in self.history.states()} == self.named.keys(), where
            assert len(self.history.done) == len(self.path) - 1, where

    def step(self) -> None:
        code = "; ".join(self.chance.sample(self.actions, self.chance.randint(1, 2))).format(
            i=self.chance.randint(0, 9)
        )
        self.did.append(code)
        files = self.book and self.book.files.begin([self.namespace["work"] / name for name in "ab"])
        budget = CheckpointBudget(60, 1 << 30, below_frames=self.chance.random() < 0.5)
        checkpoint = take(self.namespace, code, budget)
        run(code, self.namespace)
        step = Step(code, "run", checkpoint.close(), files and files.close(), self.book)
        if step.is_empty:
            return
        dropped, lost = self.history.add(step, self.room)
        self.undone.clear()
        self.path.append(Snapshot(self.namespace))
        for name in lost:
            del self.named[name]
        for path in (self.path, *self.named.values()):
            del path[:dropped]
        self.lost += len(lost)
        assert self.history.weight <= self.room or len(self.path) == 2, f"{self.seed}: {self.did}"

    def save(self) -> None:
        name = self.chance.choice(SAVED)
        self.did.append(f"save {name}")
        self.history.save(name)
        self.named[name] = [*self.path]

    def back(self) -> None:
        if not self.named:
            return
        name = self.chance.choice([*self.named])
        self.did.append(f"back {name}")
        self.history.back(name)
        if self.named[name] != self.path:
            there = [*self.named[name]]
            lasts = [self.named.pop(each) for each in sorted(filter(is_of_left, self.named), key=lambda n: (len(n), n))]
            held = {*there, *self.path}.union(*self.named.values())
            left = [self.path]
            for earlier in lasts:
                if not held.issuperset(earlier):
                    left.append(earlier)
                    held.update(earlier)
            self.named |= {LAST if at == 1 else f"{LAST}-{at}": path for at, path in enumerate(left, 1)}
            self.path = there
            self.undone.clear()
            self.jumps += 1

    def undo(self) -> None:
        count = self.chance.randint(1, 3)
        self.did.append(f"undo {count}")
        if count >= len(self.path):
            with pytest.raises(RefusedError):
                self.history.undo(count)
            return
        self.history.undo(count)
        self.undone += reversed(self.path[-count:])
        del self.path[-count:]

    def redo(self) -> None:
        if self.undone:
            self.did.append("redo")
            self.history.redo(1)
            self.path.append(self.undone.pop())

    def drop(self) -> None:
        name = self.chance.choice(SAVED)
        self.did.append(f"drop {name}")
        assert self.history.drop(name) == (self.named.pop(name, None) is not None)

    def look(self) -> None:
        for name, path in self.named.items():
            self.did.append(f"diff {name}")
            said, too_large = self.history.differences(name, CheckpointBudget(60, 1 << 30))
            assert not too_large
            assert bool(said) >= bool({*path[-1].differs(self.namespace)} - {"what is shared"}), f"{self.seed}: {said}"


@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_state_is_what_deep_copies_say_it_was_after_any_steps_and_jumps(block: int) -> None:
    jumps = lost = 0
    for seed in range(block, PROGRAMS, BLOCKS):
        program = Program(seed)
        program.go(24)
        jumps, lost = jumps + program.jumps, lost + program.lost
    assert jumps > PROGRAMS // BLOCKS  # else it shows little
    assert lost > 0


def test_states_hold_files_as_well_and_their_contents_go_with_the_last_that_needs_them(tmp_path: Path) -> None:
    for seed in range(40):
        program = Program(seed, tmp_path / str(seed))
        program.go(24)
        for name in [*program.named]:
            program.history.drop(name)
        program.history.add(Step("1", "run", book=program.book), 1 << 30)
        files = [step.files for step in program.history.done if step.files is not None]
        wanted = set[str]().union(*(each.digests() for each in files))
        assert {path.name for path in (tmp_path / str(seed) / "kept").glob("?" * 64)} <= wanted


class Place:
    """Variables that steps change, and a history of these."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"x": [1], "y": [1]}
        self.history = History(self.names)

    def step(self, code: str, room: int = 1 << 30) -> Dropped:
        checkpoint = take(self.names, code, CheckpointBudget(30, 1 << 30))
        exec(code, self.names)
        return self.history.add(Step(code, "run", checkpoint.close()), room)

    @property
    def differing(self) -> dict[str, list[str]]:
        return {held.name: [*held.differing] for held in self.history.states()}


def test_to_go_to_a_state_that_is_here_loses_neither_the_one_that_was_left_nor_what_can_be_redone() -> None:
    place = Place()
    place.history.save("raw")
    place.step("x.append(2)")
    place.history.back("raw")
    place.history.back("raw")
    place.history.back(LAST)
    assert place.names["x"] == [1, 2]
    place.history.undo(1)
    place.history.back("raw")
    place.history.redo(1)
    assert place.names["x"] == [1, 2]


def test_a_jump_that_is_turned_back_leaves_every_state_as_it_was() -> None:
    place = Place()
    place.history.save("raw")
    place.step("x.append(2)")
    place.history.back("raw")
    place.step("y.append(2)")
    place.names["y"].append("mine")
    place.history.settle()
    before = place.history.states()
    moved = place.history.back("raw", "over")
    moved.back()
    assert place.history.states() == before
    place.history.back(LAST, "over")
    assert (place.names["x"], place.names["y"]) == ([1, 2], [1])


def test_what_the_user_changes_again_and_again_is_recorded_once_and_pushes_no_steps_out() -> None:
    place = Place()
    place.step("x.append(2); z = 0")
    place.history.save("raw")
    for number in range(150):
        place.names["x"].append("mine")
        place.names["z"] = [number] * 1000
        place.history.settle()
    assert place.history.weight < 100_000
    assert (len(place.history.done), place.differing) == (1, {"raw": ["x", "z"]})
    place.history.back("raw", "over")
    assert (place.names["x"], place.names["z"]) == ([1, 2], 0)
    place.history.back(LAST)
    assert (place.names["x"], place.names["z"]) == ([1, 2, *["mine"] * 150], [149] * 1000)


def test_a_first_jump_that_is_turned_back_leaves_no_last_state() -> None:
    place = Place()
    place.history.save("raw")
    place.step("x.append(2)")
    place.history.back("raw").back()
    assert [held.name for held in place.history.states()] == ["raw"]


def test_a_comparison_names_each_variable_that_going_back_changes_functions_and_modules_among_them() -> None:
    place = Place()
    place.history.save("raw")
    place.step("def clean(): pass")
    place.step("import json; " + "; ".join(f"v{number} = {number}" for number in range(30)))
    place.step("x.append(2); del y")
    said, _ = place.history.differences("raw", CheckpointBudget(60, 1 << 30))
    named = {part.split()[0] for part in said.split(", ")}
    assert named == {*place.history.back("raw").names}
    assert {"clean", "json", "v29", "x", "y"} <= named


def test_what_was_changed_outside_of_steps_is_in_the_way_and_nothing_is_done() -> None:
    place = Place()
    place.history.save("raw")
    place.step("x.append(2)")
    place.step("y.append(2)")
    place.names["x"].append("mine")
    with pytest.raises(TouchedError) as refused:
        place.history.back("raw")
    assert refused.value.names == ["x"]
    assert (place.names["x"], place.names["y"]) == ([1, 2, "mine"], [1, 2])
    assert [held.name for held in place.history.states()] == ["raw"]


def test_what_is_overwritten_is_taken_from_no_state() -> None:
    place = Place()
    place.history.save("raw")
    place.step("x.append(2)")
    place.history.save("two")
    place.step("y.append(2)")
    place.names["x"].append("mine")
    place.history.back("raw", "over")
    assert (place.names["x"], place.names["y"]) == ([1], [1])
    place.history.back("two")
    assert place.names["x"] == [1, 2]


def test_what_is_overwritten_is_in_the_state_that_was_left() -> None:
    place = Place()
    place.history.save("raw")
    place.step("x.append(2)")
    place.names["x"].append("mine")
    place.history.back("raw", "over")
    place.history.back(LAST)
    assert place.names["x"] == [1, 2, "mine"]
    place.history.back("raw")
    assert place.names["x"] == [1]


@pytest.mark.parametrize(("code", "change"), [("x.append(2)", "x.append('mine')"), ("x = [1, 2]", "x = ['mine']")])
def test_a_state_is_gone_back_to_though_redo_overwrote_what_the_user_had(code: str, change: str) -> None:
    place = Place()
    place.history.save("raw")
    place.step(code)
    place.history.undo(1)
    exec(change, place.names)
    place.history.redo(1, "over")
    assert place.names["x"] == [1, 2]
    place.history.back("raw", "over")
    place.history.back(LAST)
    assert place.names["x"] == [1, 2]


@pytest.mark.parametrize("touched", ["keep", "both"])
def test_what_undo_leaves_as_the_user_has_it_is_still_in_the_way_of_states(touched: Any) -> None:
    place = Place()
    place.history.save("raw")
    place.step("x = [1, 2]; new = 1")
    place.history.save("two")
    place.names["x"] = ["mine"]
    assert place.history.undo(1, touched).kept == {"x"}
    assert "new" not in place.names
    assert place.differing == {"raw": ["x"], "two": ["x"]}
    with pytest.raises(TouchedError):
        place.history.back("raw")
    place.history.back("raw", "over")
    assert place.names["x"] == [1]
    place.history.back("two")
    assert (place.names["x"], place.names["new"]) == ([1, 2], 1)
    place.history.back("raw")
    assert place.names["x"] == [1]


def test_a_state_that_is_here_but_for_what_the_user_changed_since_is_gone_back_to() -> None:
    place = Place()
    place.step("x = [1, 2]")
    place.history.save("two")
    place.names["x"] = ["mine"]
    with pytest.raises(TouchedError):
        place.history.back("two")
    place.history.back("two", "over")
    assert place.names["x"] == [1, 2]
    place.history.back(LAST)
    assert place.names["x"] == ["mine"]


def test_what_the_user_changed_before_a_name_was_given_is_a_part_of_that_state_alone() -> None:
    place = Place()
    place.step("x = [1, 2]")
    place.history.save("two")
    place.names["x"] = ["mine"]
    place.history.save("mine")
    place.step("x = [3]")
    place.history.back("two", "over")
    assert place.names["x"] == [1, 2]
    place.history.back("mine")
    assert place.names["x"] == ["mine"]
    place.history.drop("two")
    place.history.drop("mine")
    place.history.drop(LAST)
    assert place.history.weight < 500
    place.history.undo(1, "over")
    assert place.names["x"] == [1]


def test_what_undo_leaves_is_neither_counted_nor_taken_back_by_itself() -> None:
    place = Place()
    place.history.save("raw")
    place.step("y.append(2)")
    place.step("x.append(2); new = 1")
    place.names["x"].append("mine")
    place.history.undo(1, "keep")
    assert (len(place.history.done), len(place.history.undone)) == (1, 1)
    place.history.undo(1)
    assert (place.names["x"], place.names["y"]) == ([1, 2, "mine"], [1])
    place.history.redo(2)
    assert (place.names["x"], place.names["y"], place.names["new"]) == ([1, 2, "mine"], [1, 2], 1)


class Mixed:
    """Random steps, jumps, undo and redo with the user's own changes in between, and what each state was."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.names: dict[str, Any] = {"__name__": "__main__"}
        exec(BEGINNING, self.names)
        self.history = History(self.names)
        self.named: dict[str, Snapshot] = {}
        self.free: dict[str, set[str]] = {}
        self.did: list[str] = []
        self.jumps = self.tight = 0

    def go(self, length: int) -> None:
        moves = [self.step, self.own, self.save, self.back, self.undo, self.redo, self.there_and_back, self.drop]
        for _ in range(length):
            self.chance.choices(moves, [8, 5, 3, 4, 3, 3, 1, 1])[0]()
        for name in [*self.named]:
            self.jump(name)

    def code(self) -> str:
        return self.chance.choice(ACTIONS).format(i=self.chance.randint(0, 9))

    def step(self) -> None:
        code = self.code()
        self.did.append(code)
        self.history.settle()
        checkpoint = take(self.names, code, CheckpointBudget(60, 1 << 30))
        run(code, self.names)
        step = Step(code, f"run {self.chance.randint(0, 1)}", checkpoint.close())
        if not step.is_empty:
            assert self.history.add(step, 1 << 30) == (0, [])

    def own(self) -> None:
        before, bound, code = Snapshot(self.names), {**self.names}, self.code()
        self.did.append(f"own {code}")
        run(code, self.names)
        changed = {*before.differs(self.names)} - {"what is shared"}
        self.history.settle()
        recorded = {held.name: {*held.differing} for held in self.history.states()}
        steps = [*self.history.done, *self.history.undone]
        found = [step.variables.found for step in steps if step.variables is not None]
        known = set[str]().union(*(each.created | each.rebound | each.deleted for each in found))
        rebound = {name for name in changed if bound.get(name) is not self.names.get(name)}
        for name in self.free:
            self.free[name] |= rebound - known
            if changed - rebound - recorded[name]:  # in objects that other variables may lead to in that state
                self.free[name] |= self.named[name].values.keys() | self.names.keys()

    def save(self) -> None:
        self.keep(self.chance.choice(SAVED))

    def keep(self, name: str) -> None:
        self.did.append(f"save {name}")
        self.history.save(name)
        self.named[name], self.free[name] = Snapshot(self.names), set()

    def back(self) -> None:
        if self.named:
            self.jump(self.chance.choice([*self.named]))

    def jump(self, name: str) -> None:
        touched: Any = self.chance.choice(["", "", "over", "keep", "both"])
        self.did.append(f"back {name} {touched}")
        before = Snapshot(self.names)
        try:
            moved = self.history.back(name, touched)
        except TouchedError:
            assert before.differs(self.names) == [], self.where
            self.did.append("over")
            moved = self.history.back(name, "over")
        for _ in range(2):  # first what steps are in the way of, then what is by itself
            if moved.kept:
                moved = self.history.back(name, "over")
        state = next(held for held in self.history.states() if held.name == name)
        assert (state.steps, state.differing) == (0, []), self.where
        differing = {*self.named[name].differs(self.names)} - {"what is shared"}
        differing -= {each for each in differing if "_before" in each}  # put beside by `both`, which is no step
        assert differing <= self.free[name] | {*state.unsure}, f"{differing} {self.where}"
        self.jumps += 1
        self.tight += len(self.named[name].values.keys() - self.free[name])

    @property
    def where(self) -> str:
        return f"program {self.seed}: {self.did}"

    def undo(self) -> None:
        self.move("undo", self.history.done, self.history.undo)

    def redo(self) -> None:
        self.move("redo", self.history.undone, self.history.redo)

    def move(self, verb: str, side: list[Step], turn: Callable[..., Any]) -> None:
        if not side:
            return
        of_prompt = next((at for at, step in enumerate(reversed(side)) if step.run != side[-1].run), len(side))
        count = self.chance.choice([1, min(2, len(side)), of_prompt])
        touched = self.chance.choice(["", "over", "keep", "both"])
        self.did.append(f"{verb} {count} {touched}")
        before, bound = Snapshot(self.names), {**self.names}
        try:
            moved = turn(count, touched)
        except TouchedError as refused:
            named = refused.names
            assert before.differs(self.names) == [], self.where
            assert touched == "", self.where
            self.did.append("keep")
            moved = turn(count, "keep")
            assert moved.kept.issuperset(named), self.where
        assert count > 1 or all(bound.get(name) is self.names.get(name) for name in moved.kept), self.where
        assert len(side) - count == len(self.history.done if verb == "undo" else self.history.undone), self.where

    def there_and_back(self) -> None:
        if self.history.done:
            self.did.append("undo over, redo")
            before, asked = Snapshot(self.names), self._asked()
            self.history.undo(1, "over")
            self.history.redo(1)
            assert before.differs(self.names) == [], self.where
            assert self._asked() == asked, self.where

    def _asked(self) -> list[str]:
        """Return what of the user's is in the way of an undo."""
        try:
            self.history.undo(1)
        except TouchedError as refused:
            return refused.names
        self.history.redo(1)
        return []

    def drop(self) -> None:
        name = self.chance.choice(SAVED)
        self.did.append(f"drop {name}")
        assert self.history.drop(name) == (self.named.pop(name, None) is not None), self.where
        self.free.pop(name, None)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_state_is_what_it_was_whatever_the_user_changed_and_undo_kept_or_overwrote_in_between(block: int) -> None:
    jumps = compared = 0
    for seed in range(block, PROGRAMS, BLOCKS):
        program = Mixed(seed)
        program.go(20)
        jumps, compared = jumps + program.jumps, compared + program.tight
    assert jumps > PROGRAMS // BLOCKS  # else it shows little
    assert compared > jumps * 2


def test_a_state_that_is_lost_takes_its_steps_along_and_leaves_others_whole() -> None:
    place = Place()
    place.names["data"] = bytearray(1000)
    place.history.save("raw")
    place.step("data[0] = 1")
    place.history.save("one")
    room = place.history.weight * 5 // 2
    assert place.step("data[0] = 2", room) == (0, [])
    assert place.step("data[0] = 3", room) == (1, ["raw"])
    assert place.history.weight <= room
    place.history.back("one")
    assert place.names["data"][0] == 1
    with pytest.raises(RefusedError, match="no state of the name raw"):
        place.history.back("raw")


class Interrupting(dict[str, Any]):
    """Variables of which one cannot be bound without an interrupt."""

    name = ""

    def __setitem__(self, name: str, value: Any) -> None:
        if name == self.name:
            raise KeyboardInterrupt
        super().__setitem__(name, value)


def test_steps_that_a_state_needs_outlast_the_hundred_that_are_kept_without_up_to_five_hundred() -> None:
    place = Place()
    for _ in range(50):
        place.step("x.append(1)")
    place.history.save("early")
    for number in range(500):
        assert place.step(f"y = {number}").states == []
    assert len(place.history.done) == 500
    assert place.step("y = None") == (401, ["early"])
    assert len(place.history.done) == 100


class InterruptedOnce(dict[str, Any]):
    """Variables that are interrupted when so many are bound."""

    left = 0

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def test_an_interrupt_while_states_are_compared_leaves_variables_as_they_are() -> None:
    interrupted = 0
    for left in range(1, 9):
        names = InterruptedOnce(x=1, y=1, z=1)
        place = Place()
        place.names, place.history = names, History(names)
        place.history.save("raw")
        for name in "xyz":
            place.step(f"{name} = 2")
        names.left = left
        try:
            place.history.differences("raw", CheckpointBudget(60, 1 << 30))
        except KeyboardInterrupt:
            interrupted += 1
        names.left = 0
        assert [names[name] for name in "xyz"] == [2, 2, 2], left
        place.history.back("raw")
        assert [names[name] for name in "xyz"] == [1, 1, 1], left
    assert interrupted == 6  # three are turned, and turned back


def test_an_interrupt_on_the_way_leaves_everything_as_it_was() -> None:
    names = Interrupting(x=1, y=1)
    place = Place()
    place.names, place.history = names, History(names)
    place.history.save("raw")
    place.step("y = 2")
    place.step("x = 2")
    names.name = "y"
    with pytest.raises(KeyboardInterrupt):
        place.history.back("raw")
    assert (names["x"], names["y"]) == (2, 2)
    assert [held.name for held in place.history.states()] == ["raw"]
    names.name = ""
    place.history.back("raw")
    assert (names["x"], names["y"]) == (1, 1)
