"""Fuzzes RPC mode, in the directory ``tests``: ``python -m fuzz --seed 1 --rounds 50`` or ``--minutes 10``.

``--json FILE`` writes a report, ``--shrink`` makes the first scenario of each kind of violation small, and
``--replay FILE`` plays the scenario in that file again. The program under test is the one that this Python has
installed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from fuzz.check import judged
from fuzz.log import Violation
from fuzz.scenario import Scenario, make_scenario
from fuzz.shrink import shrink


def main() -> int:
    """Fuzz, and tell what was found; the exit status is 1 when a rule was broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--rounds", type=int, help="how many seeds")
    parser.add_argument("--minutes", type=float, help="how long")
    parser.add_argument("--json", type=Path, help="where to write the report")
    parser.add_argument("--shrink", action="store_true", help="make what fails small")
    parser.add_argument("--tries", type=int, default=2, help="how often a smaller scenario is tried")
    parser.add_argument("--replay", type=Path, help="play the scenario in this file")
    parser.add_argument("--times", type=int, default=5, help="how often to replay")
    parser.add_argument("--quiet", action="store_true", help="do not show the frames around violations")
    options = parser.parse_args()
    storm = Storm(options)
    if options.replay:
        scenario = Scenario.from_json(options.replay.read_text())
        for _ in range(options.times):
            storm.try_out(scenario)
    else:
        storm.run()
    storm.report()
    return 1 if storm.kinds else 0


class Storm:
    """The rounds of one call, and the figures of them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._begin = time.monotonic()
        self.kinds: Counter[str] = Counter()
        self._figures: Counter[str] = Counter()
        self._found: list[dict[str, Any]] = []
        self._shrunk: set[str] = set()

    def run(self) -> None:
        """Play seed after seed."""
        seed = self._options.seed
        rounds = self._options.rounds or (10 if self._options.minutes is None else sys.maxsize)
        end = self._begin + 60 * (self._options.minutes or 10**6)
        while seed < self._options.seed + rounds and time.monotonic() < end:
            self.try_out(make_scenario(seed))
            seed += 1

    def try_out(self, scenario: Scenario) -> None:
        """Play one scenario, and shrink it if it is the first to break that rule."""
        found = self.round(scenario)
        if self._options.shrink and found and (kind := found[0].kind) not in self._shrunk:
            self._shrunk.add(kind)
            self._shrink(scenario, kind)

    def round(self, scenario: Scenario) -> list[Violation]:
        """Play one scenario, and note what it breaks; the kind that shows first is what the round is counted under."""
        log, found = judged(scenario)
        self._figures.update(scenarios=1, commands=log.commands, frames=log.frames)
        self._figures.update({f"wire {scenario.wire}": 1, "with extension": log.has_extension})
        if found:
            kinds = list(dict.fromkeys(violation.kind for violation in found))
            self.kinds.update(kinds)
            self._figures["failed"] += 1
            first = found[0]
            print(f"\nseed {scenario.seed}: {', '.join(kinds)}\n  {first.text}")
            if not self._options.quiet:
                print("\n".join(log.around(first.at)), flush=True)
            frames = log.around(first.at)
            self._found.append({"seed": scenario.seed, "kinds": kinds, "text": first.text, "frames": frames})
        return found

    def _shrink(self, scenario: Scenario, kind: str) -> None:
        def fails(candidate: Scenario) -> bool:
            return any(any(v.kind == kind for v in judged(candidate)[1]) for _ in range(self._options.tries))

        small = shrink(scenario, fails)
        log, found = judged(small)
        again = next((violation for violation in found if violation.kind == kind), None)
        print(f"\n{kind}, shrunk from {scenario.size} commands to {small.size}:\n{small.to_json()}")
        frames = log.around(again.at) if again else []
        print("\n".join(frames), flush=True)
        self._found.append({"shrunk": kind, "seed": scenario.seed, "scenario": small.to_json(), "frames": frames})

    def report(self) -> None:
        """Print the figures, and write them where they are wanted."""
        seconds = round(time.monotonic() - self._begin)
        figures = {**self._figures, "seconds": seconds, "violations": dict(self.kinds.most_common())}
        print(f"\n{json.dumps(figures, indent=1)}")
        if self._options.json:
            self._options.json.write_text(json.dumps({**figures, "found": self._found}, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    sys.exit(main())
