"""Evaluation of agents on tasks about data: suites, harnesses, graded trials, and the card of their results.

The extra ``eval`` brings what its tasks are made of: ``pip install ".[eval]"`` in a clone. See docs/evaluation.md.
"""

from indus_nb.evaluate.attempts import Attempt, Conditions, attempt
from indus_nb.evaluate.benchmark_task import BenchmarkTask
from indus_nb.evaluate.series import Series, read_series, run_series

__all__ = ["Attempt", "BenchmarkTask", "Conditions", "Series", "attempt", "read_series", "run_series"]
