"""Several tests at once."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values corrected for being several, in the order given (Holm 1979).

    The chance that any of those which are below alpha is so by accident is at most alpha, however they depend on each
    other.
    """
    adjusted = [1.0] * len(p_values)
    highest = 0.0
    for rank, at in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = highest
    return adjusted


def benjamini_hochberg(p_values: ArrayLike) -> list[float]:
    """The p-values corrected so that, of those below alpha, a share of at most alpha is expected to be accidents."""
    found = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(-found, kind="stable")
    ranks = np.arange(found.size, 0, -1)
    adjusted = np.empty(found.size)
    adjusted[order] = np.minimum(1.0, np.minimum.accumulate(found[order] * found.size / ranks))
    return [float(each) for each in adjusted]


def e_benjamini_hochberg(evidence: Sequence[float], alpha: float = 0.05) -> list[bool]:
    """Which of several are found by their evidence, with the same promise at any time (Wang and Ramdas 2022)."""
    order = sorted(range(len(evidence)), key=evidence.__getitem__, reverse=True)
    found = [rank for rank, at in enumerate(order, start=1) if evidence[at] >= len(evidence) / (rank * alpha)]
    chosen = set(order[: max(found, default=0)])
    return [at in chosen for at in range(len(evidence))]
