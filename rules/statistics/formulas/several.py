"""Several tests at once, and evidence that may be looked at after every item: what keeps false alarms rare.

Evidence rejects when it reaches 1/alpha, at any time (Ville 1939).
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from rules.statistics.formulas.quantiles import beta_share


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


def flip_evidence(worse: int, better: int) -> float:
    """Against flips being a fair coin: a uniform mixture over all coins (Robbins 1970)."""
    flips = worse + better
    return math.exp(flips * math.log(2) + math.lgamma(worse + 1) + math.lgamma(better + 1) - math.lgamma(flips + 2))


def flip_evidence_worse(worse: int, better: int) -> float:
    """Against flips being a fair coin: a uniform mixture over the coins that fall on worse more often."""
    return flip_evidence(worse, better) * 2 * (1 - beta_share(0.5, worse + 1, better + 1))


def score_evidence(differences: ArrayLike, stakes: Sequence[float]) -> float:
    """Against differences from -1 to 1 having the mean 0: the average wealth of these stakes, none above 2.

    Negative stakes bet on worse (Waudby-Smith and Ramdas 2024).
    """
    scaled = (np.asarray(differences, dtype=np.float64) + 1) / 2
    return float(np.mean([np.prod(1 + stake * (scaled - 0.5)) for stake in stakes]))
