"""Fisher's exact test of two counts, without a library that takes a second to load."""

from typing import Final

import numpy as np

_ALIKE: Final = 1e-7
"""Tables whose probability differs by less, relative to it, are as likely: such as their own mirror images."""


def fisher_p(baseline: tuple[int, int], candidate: tuple[int, int]) -> float:
    """The two-sided p-value that both sides, each (passes, failures), have one rate.

    It is the probability, given all four sums, of tables that are at most as likely as this one (R. A. Fisher,
    Statistical Methods for Research Workers, 1934, 21.02; two-sided as in R's `fisher.test`). Time and memory grow
    with the smaller side; 1.0 where a side has no results, or there are only passes or only failures.

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
