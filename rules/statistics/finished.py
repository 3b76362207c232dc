"""Tests of two finished sets of results. They are valid once, not for repeated looks while results arrive."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from rules.statistics.formulas.rates import fisher_p
from rules.statistics.formulas.resampling import Draws, assignment_p_value

Method: TypeAlias = Literal["none", "fisher_exact", "permutation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """Result of a two-sided test."""

    p_value: float
    method: Method


LEAST: Final = 2  # results per side; fewer are never significant

UNTESTED: Final = Test(p_value=1.0, method="none")


def unpaired_passes(baseline: tuple[int, int], candidate: tuple[int, int]) -> Test:
    """Compare pass rates over different items by Fisher's exact test; a side is (passes, results)."""
    if min(baseline[1], candidate[1]) < LEAST:
        return UNTESTED
    one, other = ((passes, results - passes) for passes, results in (baseline, candidate))
    return Test(p_value=fisher_p(one, other), method="fisher_exact")


def permuted_scores(baseline: Sequence[float], candidate: Sequence[float], draws: Draws, name: str) -> Test:
    """Compare scores of different items: the difference of the means under random assignment."""
    if min(len(baseline), len(candidate)) < LEAST:
        return UNTESTED
    return Test(p_value=assignment_p_value(baseline, candidate, draws, name), method="permutation")
