"""Evidence that may be looked at after every item: reject when it reaches 1/alpha, at any time (Ville 1939)."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from rules.statistics.formulas.quantiles import beta_share


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
