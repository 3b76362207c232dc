"""Repeated trials of the same items."""

import math


def pass_at_k(trials: int, passes: int, k: int) -> float | None:
    """Return the chance that one of k trials passes, unbiased (Chen et al. 2021); None with fewer than k trials."""
    if trials < k:
        return None
    return 1.0 - math.comb(trials - passes, k) / math.comb(trials, k)


def pass_hat_k(trials: int, passes: int, k: int) -> float | None:
    """Return the chance that all of k trials pass, unbiased (tau-bench, 2024); None with fewer than k trials."""
    if trials < k:
        return None
    return math.comb(passes, k) / math.comb(trials, k)
