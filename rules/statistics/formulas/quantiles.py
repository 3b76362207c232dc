"""Quantiles of the distributions that the other formulas need."""

import importlib
from statistics import NormalDist
from typing import Any

from rules.statistics.intervals import Interval

_NORMAL = NormalDist()


def z_of(confidence: float) -> float:
    """Return the number of standard errors on each side of a two-sided normal interval: 1.959964 for 95 %."""
    return _NORMAL.inv_cdf((1 + confidence) / 2)


def normal_quantile(level: float) -> float:
    """Return the standard normal value below which this share lies."""
    return _NORMAL.inv_cdf(level)


def t_of(confidence: float, degrees: float) -> float:
    """Return the quantile that `z_of` returns, for Student's t with `degrees` degrees of freedom."""
    return float(_special().stdtrit(degrees, (1 + confidence) / 2))


def around(middle: float, half: float) -> Interval:
    """Return the interval of this half width."""
    return Interval(low=middle - half, high=middle + half)


def _special() -> Any:  # noqa: ANN401 - it has no types
    # Imported on first use: SciPy's special functions load in a fifth of the time of scipy.stats.
    return importlib.import_module("scipy.special")
