"""Tests of two finished sets of results, which may be looked at once."""

import hashlib
import importlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rules.statistics.intervals import Interval

Method: TypeAlias = Literal["none", "mcnemar_exact", "mcnemar_corrected", "fisher_exact", "permutation"]

_EXACT_BELOW: Final = 25  # discordant pairs; above, the corrected chi-square is within 0.003 of the exact p-value
_NUMBERS_AT_A_TIME: Final = 2_000_000  # of resamples, so that 16 MB are enough

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """What a two-sided test found."""

    p_value: float
    method: Method
    interval: Interval | None = None  # of the difference, candidate - baseline


@dataclass(frozen=True, slots=True, kw_only=True)
class Resampling:
    """How often it is drawn, and from which stream of random numbers."""

    seed: int = 42
    resamples: int = 10_000
    confidence: float = 0.95

    def stream(self, *names: str) -> np.random.Generator:
        """The random numbers of this purpose alone, so that a further evaluator changes no other's p-value."""
        text = "\x1f".join([str(self.seed), *names])
        return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()))


LEAST: Final = 2  # results of a side; of fewer nothing is significant

UNTESTED: Final = Test(p_value=1.0, method="none")


def mcnemar(worse: int, better: int) -> Test:
    """Pass or fail of the same items, of which so many became worse and so many better.

    McNemar, Psychometrika 12 (1947).
    """
    if worse + better < _EXACT_BELOW:
        return Test(p_value=mcnemar_exact(worse, better), method="mcnemar_exact")
    return Test(p_value=mcnemar_corrected(worse, better), method="mcnemar_corrected")


def mcnemar_exact(worse: int, better: int) -> float:
    """The p-value if each discordant pair were a fair coin; 1 when there is none."""
    return float(_scipy().binomtest(worse, worse + better).pvalue) if worse + better else 1.0


def mcnemar_corrected(worse: int, better: int) -> float:
    """The p-value of the chi-square with the continuity correction; 1 when no pair is discordant."""
    if not worse + better:
        return 1.0
    statistic = max(0, abs(worse - better) - 1) ** 2 / (worse + better)
    return float(_scipy().chi2.sf(statistic, df=1))


def paired_scores(differences: Sequence[float], resampling: Resampling, name: str) -> Test:
    """Scores of the same items: random signs of the differences, with the bootstrap's interval of their mean.

    All signs are tried where there are no more of them than resamples (Fisher 1935); else p = (hits + 1) / (resamples +
    1). The interval is the percentile bootstrap's (Efron 1979).
    """
    if len(differences) < LEAST:
        return UNTESTED
    found = np.asarray(differences, dtype=np.float64)
    tested = _scipy().permutation_test(
        (found,),
        _mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=resampling.resamples,
        batch=_batch(found),
        rng=resampling.stream(name, "permutation"),
    )
    p_value = float(tested.pvalue) if found.any() else 1.0
    return Test(p_value=p_value, method="permutation", interval=_bootstrap((found,), _mean, resampling, name))


def unpaired_passes(baseline: tuple[int, int], candidate: tuple[int, int]) -> Test:
    """Pass or fail of different items: passes and results of each side (Fisher's exact test)."""
    if min(baseline[1], candidate[1]) < LEAST:
        return UNTESTED
    table = [[passes, results - passes] for passes, results in (baseline, candidate)]
    return Test(p_value=float(_scipy().fisher_exact(table).pvalue), method="fisher_exact")


def unpaired_scores(baseline: Sequence[float], candidate: Sequence[float], resampling: Resampling, name: str) -> Test:
    """Scores of different items: `permuted_scores`, with the bootstrap's interval of the difference."""
    tested = permuted_scores(baseline, candidate, resampling, name)
    if tested is UNTESTED:
        return tested
    sides = (np.asarray(candidate, dtype=np.float64), np.asarray(baseline, dtype=np.float64))
    return replace(tested, interval=_bootstrap(sides, _mean_difference, resampling, name))


def permuted_scores(baseline: Sequence[float], candidate: Sequence[float], resampling: Resampling, name: str) -> Test:
    """Scores of different items: the difference of the means under random assignment."""
    if min(len(baseline), len(candidate)) < LEAST:
        return UNTESTED
    sides = (np.asarray(candidate, dtype=np.float64), np.asarray(baseline, dtype=np.float64))
    tested = _scipy().permutation_test(
        sides,
        _mean_difference,
        permutation_type="independent",
        vectorized=True,
        n_resamples=resampling.resamples,
        batch=_batch(*sides),
        rng=resampling.stream(name, "permutation"),
    )
    return Test(p_value=float(tested.pvalue), method="permutation")


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values corrected for being several, in the order given (Holm, Scand. J. Statist. 6 (1979)).

    The chance that any of those which are below alpha is so by accident is at most alpha, however they depend on each
    other.
    """
    adjusted = [1.0] * len(p_values)
    highest = 0.0
    for rank, at in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = highest
    return adjusted


def _bootstrap(sides: tuple[Numbers, ...], statistic: Any, resampling: Resampling, name: str) -> Interval:  # noqa: ANN401 - scipy's
    drawn = (
        _scipy()
        .bootstrap(
            sides,
            statistic,
            method="percentile",
            vectorized=True,
            confidence_level=resampling.confidence,
            n_resamples=resampling.resamples,
            batch=_batch(*sides),
            rng=resampling.stream(name, "bootstrap"),
        )
        .confidence_interval
    )
    return Interval(low=float(drawn.low), high=float(drawn.high))


def _batch(*sides: Numbers) -> int:
    return max(1, _NUMBERS_AT_A_TIME // sum(map(len, sides)))


def _mean(values: Numbers, axis: int) -> Numbers:
    return np.asarray(values.mean(axis=axis))


def _mean_difference(candidate: Numbers, baseline: Numbers, axis: int) -> Numbers:
    return np.asarray(candidate.mean(axis=axis) - baseline.mean(axis=axis))


def _scipy() -> Any:  # noqa: ANN401 - it has no types
    """SciPy's statistics, loaded by the first who asks: they cost a server 0.7 s of CPU and 60 MB."""
    return importlib.import_module("scipy.stats")
