"""A copy of a process knows of large arrays by their pages whether it has written to them."""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from indus_nb.kernel import undo
from indus_nb.kernel.undo.objects import libraries
from indus_nb.kernel.undo.objects.pages import Probe

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pages are Linux's")

SETUP = "import numpy as np\nlarge = np.ones(1_000_000)\nsmall = np.ones(10)\nview = large[5:]"


def in_copy(work: Callable[[], Any], *, follows: bool = True) -> Any:
    """What work returns in a fork of this process that follows its pages."""
    probe = Probe()
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            pages = probe.pages()
            assert pages is not None or not follows
            libraries.follow(pages)
            os.write(writing, pickle.dumps(work()))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as found:
        data = found.read()
    os.waitpid(process, 0)
    return pickle.loads(data)


def changed(space: dict[str, Any], code: str) -> set[str]:
    checkpoint = undo.take(space, code)
    exec(code, space)
    return {*checkpoint.close().found.in_place}


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("large.sum(), small.sum(), view.mean(), large[::7].copy()", set()),
        ("large[500_000] = 2", {"large"}),
        ("large[0] = 2", {"large"}),
        ("large[-1] = 2", {"large"}),
        ("view[1] = 3", {"large", "view"}),
        ("small[3] = 0", {"small"}),
        ("large.sort()", set()),
        ("large.shape = (1000, 1000)", {"large"}),
    ],
)
def test_what_was_written_to_is_known(code: str, names: set[str]) -> None:
    space: dict[str, Any] = {}
    exec(SETUP, space)
    found = in_copy(lambda: changed(space, code))
    assert found == names or (code == "large.sort()" and found == {"large"})  # it may write what was there


def test_memory_that_was_never_touched_is_not_changed_by_reading_it() -> None:
    space: dict[str, Any] = {"large": np.zeros(10_000_000)}
    assert in_copy(lambda: changed(space, "large.sum()")) == set()
    assert in_copy(lambda: changed(space, "large[5_000_000] = 0")) == {"large"}


def test_what_the_copy_wrote_to_before_is_compared_by_its_bytes() -> None:
    space: dict[str, Any] = {"large": np.ones(1_000_000)}

    def work() -> list[set[str]]:
        space["large"][7] = 1
        return [changed(space, "large.sum()"), changed(space, "large[7] = 1"), changed(space, "large[7] = 2")]

    assert in_copy(work) == [set(), set(), {"large"}]


def test_gigabytes_are_followed_within_the_room_of_a_small_budget() -> None:
    space: dict[str, Any] = {"large": np.ones(30_000_000)}

    def work() -> object:
        checkpoint = undo.take(space, "large.sum()", undo.CheckpointBudget(2.0, 1 << 20))
        return dict(checkpoint.left_out)

    assert in_copy(work) == {}
