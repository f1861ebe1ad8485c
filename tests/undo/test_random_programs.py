"""Whatever code did, taking it back leaves what was before, and doing it once more what was after."""

from __future__ import annotations

import os
import random
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from undo.namespaces import Portrait, program, surroundings

from indus_nb.kernel.undo import Change, CheckpointBudget, take

PROGRAMS = int(os.environ.get("INDUS_NB_UNDO_PROGRAMS", "100"))
START = int(os.environ.get("INDUS_NB_UNDO_START", "0"))
BLOCKS = 4


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    directory, path, variables = Path.cwd(), [*sys.path], dict(os.environ)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    os.chdir(directory)
    sys.path[:] = path
    for name in os.environ.keys() - variables.keys():
        del os.environ[name]


def run(code: str, namespace: dict[str, Any]) -> None:
    try:
        exec(compile(code, "<code>", "exec"), namespace)
    except Exception:
        return


def check(seed: int) -> None:
    setup, pieces = program(seed)
    random.seed(seed)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    run(setup, namespace)
    moments = [(Portrait(namespace), surroundings())]
    changes: list[Change] = []
    for piece in pieces:
        checkpoint = take(namespace, piece, CheckpointBudget(60, 1 << 30))
        assert not checkpoint.left_out, (seed, checkpoint.left_out)
        run(piece, namespace)
        changes.append(checkpoint.close())
        assert not changes[-1].left_out, (seed, changes[-1].left_out)
        moments.append((Portrait(namespace), surroundings()))

    def compare(at: int, what: str) -> None:
        portrait, around = Portrait(namespace), surroundings()
        wanted, wanted_around = moments[at]
        differing = [(was, now) for was, now in zip(wanted.text, portrait.text, strict=False) if was != now]
        assert portrait.text == wanted.text, f"{what} {at} of program {seed}\n{pieces}\n{differing[:2]}"
        assert portrait.identities == wanted.identities, f"identities: {what} {at} of program {seed}\n{pieces}"
        assert around == wanted_around, f"{what} {at} of program {seed}"

    for _ in range(2):
        for at in reversed(range(len(changes))):
            assert not changes[at].touched(), f"{at} of program {seed}: {changes[at].touched()}"
            changes[at].undo()
            compare(at, "undo")
        for at in range(len(changes)):
            assert not changes[at].touched(), f"{at} of program {seed}: {changes[at].touched()}"
            changes[at].redo()
            compare(at + 1, "redo")


@pytest.mark.parametrize("block", range(BLOCKS))
def test_what_random_programs_change_is_taken_back_and_done_once_more(block: int) -> None:
    for seed in range(START + block, START + PROGRAMS, BLOCKS):
        check(seed)
