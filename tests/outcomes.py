"""What became of each test, in a file that is complete up to the moment when a run was cut off."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VARIABLE = "INDUS_NB_OUTCOMES"
"""Names the file that a run of pytest writes."""


@dataclass
class Outcomes:
    """The tests of a run that did not simply pass."""

    failed: Sequence[str] = ()
    """Their ids, as pytest takes them."""
    left_out: Counter[str] = field(default_factory=Counter)
    """How many were skipped for each reason."""
    complete: bool = False
    """Whether all tests had their turn: none ended its worker, nobody interrupted the run."""


def read(file: Path) -> Outcomes:
    """Read what a run of pytest wrote."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    found = [json.loads(line) for line in lines]
    failed = dict.fromkeys(each["test"] for each in found if each["outcome"] == "failed")
    skipped = Counter(each["reason"] for each in found if each["outcome"] == "skipped")
    return Outcomes([*failed], skipped, any(each["outcome"] == "complete" for each in found))


class Recorder:
    """A plugin for pytest that writes them.

    Args:
        file: is appended to
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._complete = True

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Write the outcome of a test's setup, call or teardown."""
        self._record(report.nodeid, report)

    def pytest_collectreport(self, report: Any) -> None:
        """Write that a file could not be imported."""
        self._record(report.nodeid, report)

    def pytest_sessionfinish(self, session: Any, exitstatus: int) -> None:
        """Write that every test had its turn."""
        if self._complete and exitstatus in (0, 1) and not session.shouldfail:  # as after ``--maxfail``
            self._write(outcome="complete")

    def _record(self, test: str, report: Any) -> None:
        if report.outcome == "passed":
            return
        self._complete &= getattr(report, "when", "") != "???"  # pytest-xdist does not know: the worker is gone
        reason = report.longrepr[2] if report.outcome == "skipped" and isinstance(report.longrepr, tuple) else ""
        self._write(outcome=report.outcome, test=test, reason=reason.removeprefix("Skipped: "))
        if report.outcome == "failed":
            print(f"\nfailed: {test}", flush=True)  # pytest itself says so at the end, which may not come

    def _write(self, **line: str) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
