"""Several tests at once: p-values corrected so that false alarms stay rare."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values adjusted for multiple tests, in the same order (Holm 1979).

    If all values below alpha are taken as significant, the probability that any of them is a false alarm is at most
    alpha, under any dependence of the tests.

    """
    adjusted = [1.0] * len(p_values)
    highest = 0.0
    for rank, at in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = highest
    return adjusted


def benjamini_hochberg(p_values: ArrayLike) -> list[float]:
    """Return p-values adjusted so that, of those below alpha, a share of at most alpha is expected to be false."""
    values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(-values, kind="stable")
    ranks = np.arange(values.size, 0, -1)
    adjusted = np.empty(values.size)
    adjusted[order] = np.minimum(1.0, np.minimum.accumulate(values[order] * values.size / ranks))
    return [float(each) for each in adjusted]
