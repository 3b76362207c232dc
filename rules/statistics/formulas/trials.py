"""Repeated trials of the same items: items are what is independent, trials are not."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


def clustered_error(clusters: Sequence[ArrayLike], *, corrected: bool = True) -> float:
    """The standard error of the mean over all trials when trials of one item go together (Miller 2024).

    Corrected, its variance has the factor C/(C - 1) of so many items, and with equal numbers of trials it is exactly
    sd(item means)/sqrt(C).
    """
    trials = [np.asarray(each, dtype=np.float64) for each in clusters]
    total = sum(each.size for each in trials)
    mean = sum(float(each.sum()) for each in trials) / total
    squares = sum(float((each - mean).sum()) ** 2 for each in trials)
    factor = len(trials) / (len(trials) - 1) if corrected else 1.0
    return math.sqrt(factor * squares) / total


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Where the spread of a mean over items comes from."""

    within: float  # the mean of the items' variances over their trials
    of_means: float  # the variance of item means
    trials: int

    @property
    def between(self) -> float:
        """The variance of what items would have with endless trials; estimated, so at least 0."""
        return max(0.0, self.of_means - self.within / self.trials)

    def error(self, items: int, trials: int) -> float:
        """The standard error of the mean with so many items and trials; never below sqrt(between/items)."""
        return math.sqrt((self.between + self.within / trials) / items)


def spread_of(scores: ArrayLike) -> Spread:
    """The spread of items (rows), each with the same number of trials, at least two."""
    found = np.asarray(scores, dtype=np.float64)
    return Spread(
        within=float(found.var(axis=1, ddof=1).mean()),
        of_means=float(found.mean(axis=1).var(ddof=1)),
        trials=found.shape[1],
    )


def pass_at_k(trials: int, passes: int, k: int) -> float | None:
    """The chance that at least one of k trials passes, unbiased (Chen et al. 2021); None with fewer than k trials."""
    if trials < k:
        return None
    return 1.0 - math.comb(trials - passes, k) / math.comb(trials, k)


def pass_hat_k(trials: int, passes: int, k: int) -> float | None:
    """The chance that all of k trials pass, unbiased (tau-bench, 2024); None with fewer than k trials."""
    if trials < k:
        return None
    return math.comb(passes, k) / math.comb(trials, k)
