"""What programs do to objects of many kinds is taken back, or named; nothing is lost silently."""

from __future__ import annotations

import os
import random
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from undo.kinds_of_objects import program
from undo.pictures import Picture

from indus_nb.kernel.undo import Change, CheckpointBudget, RefusedError, take

PROGRAMS = int(os.environ.get("INDUS_NB_UNDO_PROGRAMS", "300"))
START = int(os.environ.get("INDUS_NB_UNDO_START", "0"))
BLOCKS = 4


@pytest.fixture(autouse=True)
def without_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def run(code: str, namespace: dict[str, Any]) -> None:
    try:
        exec(compile(code, "<code>", "exec"), namespace)
    except Exception:
        return


def outcome(seed: int) -> str:
    """Whether a program was taken back and done once more exactly, or but for what was named; else what is wrong."""
    setup, steps = program(seed)
    random.seed(seed)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(setup, namespace)
    moments = [Picture(namespace)]
    changes: list[Change] = []
    named: set[str] = set()
    for step in steps:
        checkpoint = take(namespace, step, CheckpointBudget(60, 1 << 30))
        named |= checkpoint.left_out.keys()
        run(step, namespace)
        changes.append(checkpoint.close())
        named |= changes[-1].left_out.keys()
        moments.append(Picture(namespace))
    inexact = False
    for number in range(2):
        moves = [*reversed([*enumerate(changes)]), *((at + 1, change) for at, change in enumerate(changes))]
        for place, (at, change) in enumerate(moves):
            try:
                (change.redo if change.undone else change.undo)(over=change.touched())
            except RefusedError as error:
                return "refused" if named else f"refused, and nothing was named: {error}"
            differing = moments[at].differing(Picture(namespace))
            inexact = inexact or bool(differing)
            known = {part for name in differing.keys() & named for part in differing[name]}
            silent = {
                (name, part): what
                for name in differing.keys() - named
                for part, what in differing[name].items()
                if part not in known
            }
            if silent:
                return f"silent: move {number}/{place} to {at}: {silent}"
    return "named" if inexact else "exact"


@pytest.mark.parametrize("block", range(BLOCKS))
def test_nothing_that_programs_do_to_objects_of_any_kind_is_lost_silently(block: int) -> None:
    found = {seed: outcome(seed) for seed in range(START + block, START + PROGRAMS, BLOCKS)}
    wrong = {seed: what for seed, what in found.items() if what not in ("exact", "named", "refused")}
    print(Counter(what.partition(":")[0] for what in found.values()))
    assert not wrong
