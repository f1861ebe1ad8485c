"""Bursts of commands against a real process, an awkward server and an awkward extension: the order of events holds."""

from __future__ import annotations

from typing import Any

import pytest
from fuzz.check import complaint, judged
from fuzz.scenario import Scenario, Step, make_scenario

LONG = {"kind": "text", "words": 120}
SLOW = {"kind": "slow", "words": 60, "pauses": 6, "seconds": 0.05}
OVERLOADED = {"kind": "error", "status": 529}
IDLE = {"idle": True}


def step(wait: dict[str, Any], *commands: str) -> Step:
    """Commands ``name kind`` in one go; what a prompt says is its name."""
    named = [dict(zip(("id", "type"), command.split(), strict=True)) for command in commands]
    return Step(
        [{**each, "message": f"text {each['id']}"} if "prompt" in each["type"] else each for each in named], wait
    )


def frame(kind: str) -> dict[str, Any]:
    return {"frame": kind}


ONCE_BROKEN = {
    "a prompt that waits for two compactions": Scenario(
        seed=0,
        wire="delta",
        steps=[
            step(IDLE, "one prompt"),
            step(IDLE, "two prompt"),
            step(frame("message_update"), "c1 compact", "c2 compact", "three prompt"),
            step({"seconds": 0.1}, "four prompt"),
            step(IDLE, "stop abort"),
        ],
        answers=[LONG, LONG, LONG, SLOW, SLOW, SLOW],
    ),
    "an abort of the answer that was asked for again": Scenario(
        seed=0,
        wire="snapshot",
        steps=[
            step(IDLE, "one prompt"),
            step(frame("auto_retry_start"), "two prompt"),
            step(frame("message_update"), "ask get_state"),
            step(IDLE, "stop abort"),
        ],
        answers=[LONG, OVERLOADED, SLOW],
    ),
    "an overflow, and a compaction that fails": Scenario(
        seed=0,
        wire="delta",
        steps=[step(IDLE, "one prompt"), step(IDLE, "two prompt"), step(IDLE, "three prompt")],
        answers=[LONG, LONG, {"kind": "overflow"}, {"kind": "error", "status": 400}],
    ),
    "an abort, and a prompt while the aborted run settles": Scenario(
        seed=0,
        wire="delta",
        steps=[
            step(IDLE, "one prompt"),
            step(frame("message_update"), "two prompt"),
            step(frame("agent_end"), "stop abort"),
            step(IDLE, "three prompt"),
        ],
        answers=[LONG, SLOW, SLOW],
        extension={"delays": {"agent_settled": 0.2}, "acts": []},
    ),
    "an abort while an extension thinks": Scenario(
        seed=0,
        wire="delta",
        steps=[step({"seconds": 0.1}, "one prompt"), step(IDLE, "stop abort", "new new_session")],
        extension={"delays": {"before_agent_start": 0.3}, "acts": []},
    ),
}


@pytest.mark.parametrize("scenario", ONCE_BROKEN.values(), ids=ONCE_BROKEN)
def test_what_once_broke_the_order_does_not_any_more(scenario: Scenario) -> None:
    log, found = judged(scenario)
    assert not found, complaint(scenario, log, found)


@pytest.mark.parametrize("seed", range(1, 9))
def test_a_storm_of_commands_breaks_no_rule(seed: int) -> None:
    scenario = make_scenario(seed)
    log, found = judged(scenario)
    assert not found, complaint(scenario, log, found)
