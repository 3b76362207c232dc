"""Intervals of one rate and of the difference of two.

Paired rates are given as four counts: `both` passed on both sides, `worse` from pass to fail, `better` from fail to
pass, `neither` passed on either side. Differences are candidate - baseline.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from rules.statistics.formulas.quantiles import around, z_of
from rules.statistics.intervals import Interval

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Counts of pass and fail of the same items in two runs."""

    both: int
    worse: int
    better: int
    neither: int

    @property
    def count(self) -> int:
        """Return the number of pairs."""
        return self.both + self.worse + self.better + self.neither

    @property
    def difference(self) -> float:
        """Return the candidate's rate - the baseline's; 0 without pairs."""
        return (self.better - self.worse) / max(self.count, 1)


def wilson(passes: float, count: float, confidence: float = CONFIDENCE) -> Interval:
    """Return the score interval of a rate (Wilson 1927); [0, 1] without results."""
    if not count:
        return Interval(low=0.0, high=1.0)
    z, rate = z_of(confidence), passes / count
    middle = (rate + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(rate * (1 - rate) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return Interval(low=max(0.0, middle - half) if passes else 0.0, high=min(1.0, middle + half))


def newcombe_two_samples(
    baseline: tuple[int, int], candidate: tuple[int, int], confidence: float = CONFIDENCE
) -> Interval:
    """Return the interval of the difference of two rates, each as passes and count (Newcombe 1998, method 10)."""
    first, second = candidate[0] / candidate[1], baseline[0] / baseline[1]
    new, old = wilson(*candidate, confidence), wilson(*baseline, confidence)
    return Interval(
        low=first - second - math.hypot(first - new.low, old.high - second),
        high=first - second + math.hypot(new.high - first, second - old.low),
    )


def bonett_price(pairs: Pairs, confidence: float = CONFIDENCE) -> Interval:
    """Return the interval with one added flip either way (Bonett and Price 2012): it is not a point without flips."""
    count = pairs.count + 2
    worse, better = (pairs.worse + 1) / count, (pairs.better + 1) / count
    spread = math.sqrt((worse + better - (better - worse) ** 2) / count)
    interval = around(better - worse, z_of(confidence) * spread)
    return Interval(low=max(-1.0, interval.low), high=min(1.0, interval.high))


_ALIKE: Final = 1e-7
"""Relative difference of probability below which two tables count as equally likely, such as mirror images."""


def fisher_p(baseline: tuple[int, int], candidate: tuple[int, int]) -> float:
    """Return the two-sided p-value of the hypothesis that both sides, each (passes, failures), have the same rate.

    It is the probability, given the four marginal sums, of tables at most as likely as this one (R. A. Fisher,
    Statistical Methods for Research Workers, 1934, 21.02; two-sided as in R's `fisher.test`). Time and memory grow
    with the smaller side; the p-value is 1.0 if a side has no results, or if all results
    are passes or all are failures.

    Raises:
        ValueError: a count is negative.

    """
    if min(*baseline, *candidate) < 0:
        raise ValueError(f"counts are at least 0, not {baseline} and {candidate}")
    passes = baseline[0] + candidate[0]
    drawn, others = sum(baseline), sum(candidate)
    first, last = max(0, passes - others), min(passes, drawn)
    if first == last:
        return 1.0
    counts = np.arange(first, last, dtype=np.float64)  # of passes of the baseline; each step leads to one more
    steps = np.log((passes - counts) * (drawn - counts)) - np.log((counts + 1) * (others - passes + counts + 1))
    logs = np.concatenate(([0.0], np.cumsum(steps)))
    likely = np.exp(logs - logs.max())
    seen = likely[baseline[0] - first]
    return float(min(likely[likely <= seen * (1 + _ALIKE)].sum() / likely.sum(), 1.0))
