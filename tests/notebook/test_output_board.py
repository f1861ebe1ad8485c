"""What the newest calls showed is kept, as much of it as memory should hold."""

from __future__ import annotations

import pytest

from indus_nb.kernel.run import outputs
from indus_nb.kernel.run.outputs import Output, OutputBoard


def test_the_oldest_calls_are_forgotten_when_their_outputs_take_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "_MAX_BYTES_OF_CALLS", 250)
    board = OutputBoard()
    for number in range(5):
        call = board.begin(str(number), lambda value: value)
        call.show("", [Output({"text/plain": "x" * 100}, {}, "text", 100)])
    assert [number for number in range(5) if board.of(str(number)) is not None] == [2, 3, 4]
