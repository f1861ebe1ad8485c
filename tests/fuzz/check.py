"""All rules together."""

from __future__ import annotations

from fuzz.files import Files
from fuzz.grammar import Grammar
from fuzz.log import Log, Violation
from fuzz.play import discard, play
from fuzz.promises import Promises, process_violations
from fuzz.scenario import Scenario


def check(log: Log) -> list[Violation]:
    """What is wrong with a round, in the order in which it showed."""
    found = [*Grammar(log).check(), *Promises(log).check(), *process_violations(log), *Files(log).check()]
    return sorted(found, key=lambda violation: violation.at)


def judged(scenario: Scenario) -> tuple[Log, list[Violation]]:
    """What came of a scenario, and which rules that breaks, the first one first."""
    log = play(scenario)
    try:
        return log, check(log)
    finally:
        discard(log)


def complaint(scenario: Scenario, log: Log, found: list[Violation]) -> str:
    """What a person needs to look into the first violation: the frames around it, and how to see it again."""
    kinds = ", ".join(dict.fromkeys(violation.kind for violation in found))
    frames = "\n".join(log.around(found[0].at))
    again = "Save the next line as FILE; again, in the directory tests: python -m fuzz --replay FILE --shrink"
    return f"{kinds}\n{found[0].text}\n{frames}\n{again}\n{scenario.to_json()}"
