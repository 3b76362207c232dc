"""Tests of pass and fail of the same items (McNemar, Psychometrika 12 (1947))."""

import math

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def mcnemar_exact(worse: int, better: int) -> float:
    """Return the two-sided p-value of the hypothesis that flips either way are equally likely; 1 without flips."""
    less, flips = min(worse, better), worse + better
    return min(1.0, 2 * float(_fair(flips)[: less + 1].sum()))


def mcnemar_mid_p(worse: int, better: int) -> float:
    """Return the exact p-value less half of the probability of equally likely tables.

    In practice it keeps its level; the exact test is conservative (Fagerland et al., BMC Med Res Methodol 13 (2013)).
    """
    less, flips = min(worse, better), worse + better
    likely = float(_fair(flips)[less])
    if worse == better:
        return 1.0 - likely / 2
    return min(1.0, mcnemar_exact(worse, better) - likely)


def fisher(baseline: tuple[int, int], candidate: tuple[int, int]) -> float:
    """Compare two rates of different items, each as passes and count, by Fisher's exact test, two-sided.

    It sums every table that is at most as likely as the one seen.
    """
    passes, count = baseline[0] + candidate[0], baseline[1] + candidate[1]
    low, high = max(0, passes - baseline[1]), min(passes, candidate[1])
    log_shares = np.array(
        [_log_choose(candidate[1], k) + _log_choose(baseline[1], passes - k) for k in range(low, high + 1)]
    ) - _log_choose(count, passes)
    seen = log_shares[candidate[0] - low]
    return min(1.0, float(np.exp(log_shares[log_shares <= seen + 1e-7]).sum()))


def binomial(count: int, share: float) -> Numbers:
    """Return the probability of each number of successes, from 0 to `count`."""
    if share in {0.0, 1.0}:
        certain = np.zeros(count + 1)
        certain[round(share) * count] = 1.0
        return certain
    ways = np.array([_log_choose(count, k) for k in range(count + 1)])
    successes = np.arange(count + 1)
    shares: Numbers = np.exp(ways + successes * math.log(share) + (count - successes) * math.log1p(-share))
    return shares


def _fair(count: int) -> Numbers:
    return binomial(count, 0.5)


def _log_choose(count: int, chosen: int) -> float:
    return math.lgamma(count + 1) - math.lgamma(chosen + 1) - math.lgamma(count - chosen + 1)
