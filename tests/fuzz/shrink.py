"""Makes a scenario that breaks a rule as small as it can be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from fuzz.scenario import Scenario, Step

PLAIN = {"kind": "text", "words": 20}


def shrink(scenario: Scenario, fails: Callable[[Scenario], bool], tries: int = 120) -> Scenario:
    """The smallest scenario found for which ``fails`` still holds; asks that at most ``tries`` times."""
    best = scenario
    progress = True
    while progress and tries > 0:
        progress = False
        for candidate in candidates(best):
            if tries <= 0:
                break
            tries -= 1
            if fails(candidate):
                best, progress = candidate, True
                break
    return best


def candidates(scenario: Scenario) -> Iterator[Scenario]:
    """Smaller scenarios, the much smaller ones first."""
    steps = scenario.steps
    size = len(steps)
    while size >= 1:
        for start in range(0, len(steps), size):
            if rest := [*steps[:start], *steps[start + size :]]:
                yield scenario.with_steps(rest)
        size //= 2
    if scenario.hurry:
        yield replace(scenario, hurry=False)
    yield from _with_less_extension(scenario)
    for index, step in enumerate(steps):
        for smaller in _smaller_steps(step):
            yield scenario.with_steps([*steps[:index], smaller, *steps[index + 1 :]])
    yield from _with_plainer_answers(scenario)


def _with_less_extension(scenario: Scenario) -> Iterator[Scenario]:
    plan = scenario.extension
    if plan is None:
        return
    yield replace(scenario, extension=None)
    for index in range(len(plan["acts"])):
        acts = [*plan["acts"][:index], *plan["acts"][index + 1 :]]
        yield replace(scenario, extension={**plan, "acts": acts})
    for name in plan["delays"]:
        delays = {other: seconds for other, seconds in plan["delays"].items() if other != name}
        yield replace(scenario, extension={**plan, "delays": delays})


def _smaller_steps(step: Step) -> Iterator[Step]:
    for at in range(len(step.commands)):
        if rest := [*step.commands[:at], *step.commands[at + 1 :]]:
            yield replace(step, commands=rest)
    if step.look and not any("$" in str(list(command.values())) for command in step.commands):
        yield replace(step, look=False)
    if step.wait:
        yield replace(step, wait={})


def _with_plainer_answers(scenario: Scenario) -> Iterator[Scenario]:
    answers = scenario.answers
    for count in (len(answers) // 2, len(answers) - 1):
        if 0 <= count < len(answers):
            yield replace(scenario, answers=answers[:count])
    for index, answer in enumerate(answers):
        if answer != PLAIN:
            yield replace(scenario, answers=[*answers[:index], PLAIN, *answers[index + 1 :]])
