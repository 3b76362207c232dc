"""Anytime-valid intervals for a mean (confidence sequences)."""

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import Final

import numpy as np

from rules.statistics.sample import POINTS, Sample, in_results
from rules.statistics.wealth import log_wealth_higher, stakes

_HALVINGS: Final = 40
# Spread over stakes from 0.1 % on, because intervals are computed for ten results and for a million.
_SPREAD: Final = stakes({0.0: 0.5} | {float(share): 1.0 for share in np.geomspace(0.001, 0.9, 18)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Bounds of a mean."""

    low: float
    high: float


def interval(sample: Sample, alpha: float) -> Interval:
    """Return a confidence sequence: with probability 1 - alpha the mean is inside at every number of results at once.

    It holds the means against which neither bet, that the mean is higher or that it is lower, has reached 2/alpha
    (Waudby-Smith and Ramdas 2024, section 4.1). The mean must not change. A smaller alpha gives an interval that
    contains the one of a greater alpha.

    """
    return Interval(low=_lowest(sample, alpha), high=1.0 - _lowest(sample.mirrored, alpha))


def _lowest(sample: Sample, alpha: float) -> float:
    """Return the lower bound: the mean at which the wealth of betting on more falls below 2/alpha."""
    weights = in_results([sample.dense()])
    used = weights.any(axis=0)
    points, weights = POINTS[used], weights[:, used]
    reached = log(2.0 / alpha)

    def refuted(mean: float) -> bool:
        wealth = log_wealth_higher(weights, points, np.array([mean]), _SPREAD)
        return float(wealth[0, 0]) >= reached

    return _crossing(refuted) if sample.count else 0.0


def _crossing(holds: Callable[[float], bool]) -> float:
    """Return the point up to which `holds` is True, by bisection, rounded down."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
