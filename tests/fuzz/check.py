"""All rules together."""

from __future__ import annotations

from fuzz.files import Files
from fuzz.grammar import Grammar
from fuzz.log import Log, Violation
from fuzz.promises import Promises, process_violations


def check(log: Log) -> list[Violation]:
    """What is wrong with a round, in the order in which it showed."""
    found = [*Grammar(log).check(), *Promises(log).check(), *process_violations(log), *Files(log).check()]
    return sorted(found, key=lambda violation: violation.at)
