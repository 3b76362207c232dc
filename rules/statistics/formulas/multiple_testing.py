"""Several tests at once: p-values corrected so that false alarms stay rare."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values corrected for being several, in the order given (Holm 1979).

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
    """Return p-values adjusted so that at most a share of alpha of those below it is expected to be false."""
    values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(-values, kind="stable")
    ranks = np.arange(values.size, 0, -1)
    adjusted = np.empty(values.size)
    adjusted[order] = np.minimum(1.0, np.minimum.accumulate(values[order] * values.size / ranks))
    return [float(each) for each in adjusted]
