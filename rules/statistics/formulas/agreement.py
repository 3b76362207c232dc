"""Agreement of raters beyond chance. A measure that is undefined is None, neither 0 nor 1."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]
Weighting: TypeAlias = Literal["none", "linear", "quadratic"]
Metric: TypeAlias = Literal["nominal", "ordinal", "interval", "ratio"]


def observed_agreement(table: ArrayLike) -> float:
    """Return the share of equal labels; rows are one rater's, columns the other's."""
    counts = np.asarray(table, dtype=np.float64)
    return float(np.trace(counts) / counts.sum())


def kappa(table: ArrayLike, weighting: Weighting = "none") -> float | None:
    """Compute Cohen's kappa (1960), weighted by the distance of classes if they have an order."""
    shares = np.asarray(table, dtype=np.float64) / np.sum(table)
    expected = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    weights = _distances(len(shares), weighting)
    chance = float((weights * expected).sum())
    return 1 - float((weights * shares).sum()) / chance if chance else None


def kappa_error(table: ArrayLike) -> float | None:
    """Return the standard error of an unweighted kappa that is not 0 (Fleiss, Cohen and Everitt 1969)."""
    value = kappa(table)
    if value is None:
        return None
    total = float(np.sum(table))
    shares = np.asarray(table, dtype=np.float64) / total
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    chance = float((rows * columns).sum())
    diagonal = np.diag(shares)
    same = float((diagonal * (1 - (rows + columns) * (1 - value)) ** 2).sum())
    crossed = (shares - np.diag(diagonal)) * np.add.outer(columns, rows) ** 2
    other = (1 - value) ** 2 * float(crossed.sum())
    last = (value - chance * (1 - value)) ** 2
    return math.sqrt(max(0.0, same + other - last) / total) / (1 - chance)


def ac1(table: ArrayLike) -> float:
    """Compute Gwet's AC1 (2008) of two raters of pass and fail: unlike kappa, it stays high when nearly all pass."""
    shares = np.asarray(table, dtype=np.float64) / np.sum(table)
    passes = float(shares[0].sum() + shares[:, 0].sum()) / 2
    chance = 2 * passes * (1 - passes)
    return (observed_agreement(table) - chance) / (1 - chance)


def fleiss_kappa(counts: ArrayLike) -> float | None:
    """Compute Fleiss' kappa (1971) for equally many labels of each item: rows are items, columns counts by class."""
    choices = np.asarray(counts, dtype=np.float64)
    raters = choices[0].sum()
    agreed = float(((choices**2).sum(axis=1) - raters).mean() / (raters * (raters - 1)))
    chance = float(((choices.sum(axis=0) / choices.sum()) ** 2).sum())
    return (agreed - chance) / (1 - chance) if chance < 1 else None


def krippendorff(units: Sequence[Sequence[float]], metric: Metric = "nominal") -> float | None:
    """Compute Krippendorff's alpha over units with any number of labels; those with fewer than two are ignored."""
    used = [unit for unit in units if len(unit) > 1]
    values = sorted({value for unit in used for value in unit})
    place = {value: at for at, value in enumerate(values)}
    together = np.zeros((len(values), len(values)))
    for unit in used:
        for one, first in enumerate(unit):
            for other, second in enumerate(unit):
                if one != other:
                    together[place[first], place[second]] += 1 / (len(unit) - 1)
    totals = together.sum(axis=1)
    apart = _METRICS[metric](np.asarray(values, dtype=np.float64), totals)
    count = float(totals.sum())
    if count < 2:  # noqa: PLR2004 - two labels can differ
        return None
    expected = float((np.outer(totals, totals) * apart).sum()) / (count * (count - 1))
    return 1 - float((together * apart).sum()) / count / expected if expected else None


def _distances(size: int, weighting: Weighting) -> Numbers:
    if weighting == "none":
        return 1 - np.eye(size)
    apart = np.abs(np.subtract.outer(np.arange(size), np.arange(size))) / max(size - 1, 1)
    return np.asarray(apart if weighting == "linear" else apart**2)


def _nominal(values: Numbers, _: Numbers) -> Numbers:
    return 1 - np.eye(values.size)


def _ordinal(_: Numbers, totals: Numbers) -> Numbers:
    middle = np.cumsum(totals) - totals / 2
    return np.asarray(np.subtract.outer(middle, middle) ** 2)


def _interval(values: Numbers, _: Numbers) -> Numbers:
    return np.asarray(np.subtract.outer(values, values) ** 2)


def _ratio(values: Numbers, _: Numbers) -> Numbers:
    sums = np.add.outer(values, values)
    return np.asarray((np.subtract.outer(values, values) / np.where(sums == 0, 1, sums)) ** 2)


_METRICS: Final[Mapping[Hashable, Callable[[Numbers, Numbers], Numbers]]] = {
    "nominal": _nominal,
    "ordinal": _ordinal,
    "interval": _interval,
    "ratio": _ratio,
}
