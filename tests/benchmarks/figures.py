"""Figures of several programs: medians, ratios, targets, and the table in Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

BARE = "bare reader"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"

TARGETS = {
    "spawn to get_state, s": 0.6,
    "200 deltas, first prompt, s": 1.0,
    "10,000 deltas, first prompt, s": 0.5,
    "memory after the first answer, RSS, MB": 0.6,
    "20,000 entries, spawn to get_state, s": 0.8,
    "20,000 entries, switch_session, s": 1.0,
    "20,000 entries, get_messages, s": 1.0,
    "1,000 pipelined get_state, /s": 1.0,
}
"""Ours divided by the peer's: at most so much of seconds and MB, at least so much of what is counted per second."""


@dataclass(frozen=True)
class Spread:
    """What several runs found."""

    median: float
    minimum: float
    runs: int

    @classmethod
    def of(cls, values: list[float]) -> Self:
        """Of these values."""
        return cls(statistics.median(values), min(values), len(values))


@dataclass(frozen=True)
class Report:
    """Everything that one call measured."""

    date: str
    machine: str
    runs: int
    against: str
    """The peer that the targets are about."""
    programs: dict[str, str]
    """Their versions, by name."""
    figures: dict[str, dict[str, Spread]]
    """By name of the figure and of the program."""
    notes: list[str]
    failures: list[str]

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """What ``as_json`` made."""
        figures = {
            name: {program: Spread(**spread) for program, spread in found["programs"].items()}
            for name, found in data["figures"].items()
        }
        return cls(**{**data, "figures": figures})

    def as_json(self) -> dict[str, Any]:
        """For a file: with the ratios and what has become of the targets."""
        figures = {
            name: {
                "programs": {program: asdict(spread) for program, spread in by.items()},
                "ratios": {program: ratio for program in by if (ratio := self.ratio(name, program)) is not None},
                **({"target": TARGETS[name], "met": self.met(name)} if name in TARGETS else {}),
            }
            for name, by in self.figures.items()
        }
        return {**asdict(self), "figures": figures}

    def ratio(self, figure: str, program: str) -> float | None:
        """Ours divided by that of a peer."""
        by = self.figures[figure]
        if program in ("ours", BARE) or "ours" not in by or program not in by or not by[program].median:
            return None
        return by["ours"].median / by[program].median

    def met(self, figure: str) -> bool | None:
        """Whether a target is met; None if it was not measured."""
        ratio = self.ratio(figure, self.against)
        if ratio is None:
            return None
        return ratio >= TARGETS[figure] if more_is_better(figure) else ratio <= TARGETS[figure]

    def table(self, figures: Iterable[str] | None = None) -> str:
        """The medians as Markdown, with the ratio of ours to each peer's in brackets."""
        names = list(self.figures if figures is None else figures)
        shown = [*self.programs, *([BARE] if any(BARE in self.figures[name] for name in names) else [])]
        targets = self.against and any(name in TARGETS for name in names)
        rows = [["figure", *shown, *(["target"] if targets else [])]]
        rows.append(["---", *["---:"] * len(shown), *(["---"] if targets else [])])
        rows += [
            [name, *(self._cell(name, program) for program in shown), *([self._target(name)] if targets else [])]
            for name in names
        ]
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)

    def _cell(self, figure: str, program: str) -> str:
        if (spread := self.figures[figure].get(program)) is None:
            return "" if program == BARE else "-"
        ratio = self.ratio(figure, program)
        return number(spread.median) + (f" ({ratio:.2f} x)" if ratio is not None else "")

    def _target(self, figure: str) -> str:
        if figure not in TARGETS:
            return ""
        sign = "≥" if more_is_better(figure) else "≤"
        result = {True: "met", False: "**not met**", None: "not measured"}[self.met(figure)]
        return f"{sign} {TARGETS[figure]:g} x {self.against}: {result}"

    def page(self) -> str:
        """What stands in the documentation: when and how it was measured, what has a target, and the rest."""
        versions = ", ".join(
            f"this package {version}" if name == "ours" else name if version in name else f"{name} (version {version})"
            for name, version in self.programs.items()
        )
        about = f"Measured on {self.date}: {versions}. {self.machine}. Medians of {self.runs} interleaved runs."
        aimed = [name for name in self.figures if name in TARGETS]
        other = [name for name in self.figures if name not in TARGETS]
        tables = [self.table(names) for names in (aimed, other) if names]
        return "\n\n".join([" ".join([about, *self.notes]), *tables])


def more_is_better(figure: str) -> bool:
    """Whether it is counted per second."""
    return figure.endswith("/s")


def number(value: float) -> str:
    """Three digits that count, and whole numbers above a thousand."""
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"


def replace_block(page: Path, text: str) -> None:
    """Put a text between the two marks of a page.

    Raises:
        ValueError: The page has not both marks.
    """
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no lines {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")
