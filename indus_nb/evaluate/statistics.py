"""Statistics of a card: intervals of shares, and two harnesses compared on the same tasks."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

_Z = 1.959963984540054
_SAMPLES = 2000


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share.

    >>> [round(bound, 4) for bound in wilson(8, 10)], wilson(0, 0)
    ([0.4902, 0.9433], (0.0, 1.0))
    """
    if trials == 0:
        return 0.0, 1.0
    share, squared = successes / trials, _Z * _Z
    middle = share + squared / (2 * trials)
    half = _Z * math.sqrt(share * (1 - share) / trials + squared / (4 * trials * trials))
    scale = 1 + squared / trials
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


def mcnemar(first_only: int, second_only: int) -> float:
    """Return the exact two-sided p of McNemar's test: how likely so uneven a split is if both are alike.

    >>> [round(mcnemar(*counts), 4) for counts in ((0, 0), (1, 7), (5, 5))]
    [1.0, 0.0703, 1.0]
    """
    trials, fewer = first_only + second_only, min(first_only, second_only)
    return min(1.0, 2 * sum(math.comb(trials, count) for count in range(fewer + 1)) / 2**trials)


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Mean of paired differences, with a 95 % interval by resampling tasks."""

    mean: float
    low: float
    high: float


def paired_difference(differences: Sequence[Sequence[float]], seed: int = 0) -> PairedDifference:
    """Return the mean of differences that come in groups, one for each task; tasks are resampled, not trials.

    >>> paired_difference([[1.0, 1.0], [0.0, 0.0]]).mean
    0.5
    """
    means = [sum(group) / len(group) for group in differences]
    mean = sum(means) / len(means)
    choose = random.Random(seed)  # noqa: S311 - for an interval that is the same each time
    samples = sorted(sum(choose.choices(means, k=len(means))) / len(means) for _ in range(_SAMPLES))
    return PairedDifference(mean, samples[_SAMPLES // 40], samples[-_SAMPLES // 40 - 1])
