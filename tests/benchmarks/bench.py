"""Whole processes measured from outside, side by side with peers in the same run.

    python tests/benchmarks/bench.py [--peer NAME=COMMAND ...] [--runs N] [--json FILE] [--docs PAGE]

A peer is a program that speaks the same protocol, such as ``--peer "pi=node DIR/node_modules/.bin/pi"``. Runs are
interleaved; the table has medians, and the ratio of ours to each peer's. Targets are about the peer that is named last.
What is ours is installed into a fresh environment, as users have it, unless ``--ours`` says how to start it.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import re
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from installing import Installer

from benchmarks.figures import BARE, Report, Spread, replace_block
from benchmarks.programs import Program
from benchmarks.scenarios import Figures, Scenario, scenarios


def main() -> None:
    """Measure, or read what was measured, and write it."""
    options = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if options.read:
        report = Report.from_json(json.loads(options.read.read_text()))
    else:
        with our_command(options.ours, options.keep) as ours:
            report = measured(options, [Program("ours", ours), *options.peer])
    if options.json:
        options.json.write_text(json.dumps(report.as_json(), indent=2) + "\n")
    if options.docs:
        replace_block(options.docs, report.page())
    print(report.table())


def arguments() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", action="append", default=[], type=peer, metavar="NAME=COMMAND")
    parser.add_argument("--runs", type=int, default=5, help="of each scenario and program (5)")
    parser.add_argument(
        "--only", action="append", default=[], metavar="PATTERN", help="scenarios that match; see --list"
    )
    parser.add_argument("--list", action="store_true", help="the names of the scenarios, and nothing else")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write medians, minima, ratios and targets")
    parser.add_argument("--docs", type=Path, metavar="PAGE", help="replace the figures of a page in Markdown")
    parser.add_argument("--read", type=Path, metavar="FILE", help="take what --json wrote instead of measuring")
    parser.add_argument("--ours", metavar="COMMAND", help="start ours so instead of installing it")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="install it here, and find here what it needs next time"
    )
    parser.add_argument("--processes", type=int, default=50, help="that run at once in the scenario `many` (50)")
    parser.add_argument("--against", metavar="NAME", help="the peer that the targets are about (the last one)")
    options = parser.parse_args()
    if options.list:
        print("\n".join(scenario.name for scenario in scenarios(options.processes, print)))
        sys.exit()
    return options


def peer(text: str) -> Program:
    """A peer as the command line names it."""
    name, equals, command = text.partition("=")
    if not (name and equals and command):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=COMMAND")
    return Program(name, words(command))


def words(command: str) -> tuple[str, ...]:
    """The words of a command; paths in it are made absolute, for programs are started in a home of their own."""
    split = shlex.split(command)
    return tuple(str(Path(word).absolute()) if "/" in word and Path(word).exists() else word for word in split)


@contextmanager
def our_command(command: str | None, keep: Path | None) -> Iterator[tuple[str, ...]]:
    """The command that starts ours: what was given, or that of an environment into which it has just been installed."""
    if command:
        yield words(command)
        return
    with tempfile.TemporaryDirectory(prefix="bench-environment-") as folder:
        place = keep.resolve() if keep else Path(folder) / "environment"
        print("installing ours ...", file=sys.stderr)
        installer = Installer()
        new = not (place / "bin" / "python").exists()
        python = installer.make_environment(place) if new else place / "bin" / "python"
        wheel = installer.build(Path(folder) / "wheel")
        compiled = ("--compile-bytecode",) if installer.uv else ()  # pip does so unasked
        installer.install(python, *compiled, str(wheel))
        if not new:
            installer.install(python, *compiled, "--force-reinstall", "--no-deps", str(wheel))
        yield (str(place / "bin" / "indusagi"),)


class Measuring:
    """Runs scenarios, and gathers what they find, also what went wrong."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.failures: list[str] = []
        self._found: dict[str, dict[str, list[float]]] = {}

    @property
    def figures(self) -> dict[str, dict[str, Spread]]:
        """What was found, by figure and program."""
        return {figure: {name: Spread.of(found) for name, found in by.items()} for figure, by in self._found.items()}

    def note(self, text: str) -> None:
        """Keep a remark on how something was measured."""
        self._once(self.notes, text)

    def run(self, scenario: Scenario, name: str, measure: Callable[[], Figures]) -> None:
        """Measure once; whatever a program does wrong, the others are measured."""
        print(f"{scenario.name}: {name} ...", file=sys.stderr)
        try:
            for figure, value in measure().items():
                self._found.setdefault(figure, {}).setdefault(name, []).append(value)
        except Exception as error:
            self._once(self.failures, f"{scenario.name}: {name} failed: {error or type(error).__name__}")

    def _once(self, into: list[str], text: str) -> None:
        if text not in into:
            into.append(text)
            print(text, file=sys.stderr)


def run_all(measuring: Measuring, chosen: list[Scenario], programs: list[Program], *, first: int) -> None:
    """Run each scenario once with each program."""
    for scenario in chosen:
        for program in programs[first:] + programs[:first]:
            if program.ours or not scenario.only_ours:
                measuring.run(scenario, program.name, partial(scenario.measure, program))
        if scenario.bare is not None:
            measuring.run(scenario, BARE, scenario.bare)


def measured(options: argparse.Namespace, programs: list[Program]) -> Report:
    """Run every chosen scenario with every program, in turn."""
    measuring = Measuring()
    every = scenarios(options.processes, measuring.note)
    chosen = [one for one in every if not options.only or any(re.search(p, one.name) for p in options.only)]
    if not chosen:
        sys.exit(f"No scenario matches; there are {', '.join(one.name for one in every)}.")
    try:
        for number in range(options.runs):
            run_all(measuring, chosen, programs, first=number % len(programs))  # nobody is always first
    except KeyboardInterrupt:
        measuring.note("Interrupted: some figures are of fewer runs.")
    peers = [program.name for program in programs[1:]]
    return Report(
        date=dt.datetime.now(dt.UTC).date().isoformat(),
        machine=machine(),
        runs=options.runs,
        against=options.against or (peers[-1] if peers else ""),
        programs={program.name: program.version for program in programs},
        figures=measuring.figures,
        notes=measuring.notes,
        failures=measuring.failures,
    )


def machine() -> str:
    """What the figures depend on."""
    cores, memory = os.cpu_count(), psutil.virtual_memory().total / 2**30
    return (
        f"{platform.system()} {platform.machine()}, {cores} cores, {memory:.0f} GB, Python {platform.python_version()}"
    )


if __name__ == "__main__":
    main()
