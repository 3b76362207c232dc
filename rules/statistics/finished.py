"""Tests of two finished sets of results, which may be looked at once."""

import hashlib
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Method: TypeAlias = Literal["none", "fisher_exact", "permutation"]

_NUMBERS_AT_A_TIME: Final = 2_000_000  # of resamples, so that 16 MB are enough

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """What a two-sided test found."""

    p_value: float
    method: Method


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


def unpaired_passes(baseline: tuple[int, int], candidate: tuple[int, int]) -> Test:
    """Pass or fail of different items: passes and results of each side (Fisher's exact test)."""
    if min(baseline[1], candidate[1]) < LEAST:
        return UNTESTED
    table = [[passes, results - passes] for passes, results in (baseline, candidate)]
    return Test(p_value=float(_scipy().fisher_exact(table).pvalue), method="fisher_exact")


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


def _batch(*sides: Numbers) -> int:
    return max(1, _NUMBERS_AT_A_TIME // sum(map(len, sides)))


def _mean_difference(candidate: Numbers, baseline: Numbers, axis: int) -> Numbers:
    return np.asarray(candidate.mean(axis=axis) - baseline.mean(axis=axis))


def _scipy() -> Any:  # noqa: ANN401 - it has no types
    """SciPy's statistics, loaded by the first who asks: they cost a server 0.7 s of CPU and 60 MB."""
    return importlib.import_module("scipy.stats")
