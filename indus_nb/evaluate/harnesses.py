"""What tasks can be solved with, by name."""

from __future__ import annotations

from indus_nb.evaluate.harness import Harness, bare, cheater, idle, oracle, ours
from indus_nb.evaluate.other_programs import program

OTHER_PROGRAMS = ("pi", "omp")
ASKS_NO_MODEL = ("oracle", "idle", "cheater")
HARNESSES: dict[str, Harness] = {
    "ours": ours,
    "bare": bare,
    **{name: program(name) for name in OTHER_PROGRAMS},
    "oracle": oracle,
    "idle": idle,
    "cheater": cheater,
}
