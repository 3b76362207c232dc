"""Two finished sets of results compared: by each evaluator, with one correction over all of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist, fmean, variance
from typing import Literal, TypeAlias

from rules.statistics.finished import (
    LEAST,
    UNTESTED,
    Resampling,
    Test,
    holm,
    mcnemar,
    paired_scores,
    unpaired_passes,
    unpaired_scores,
)

Verdict: TypeAlias = Literal["REGRESSED", "IMPROVED", "UNCHANGED"]
Direction: TypeAlias = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """When a difference is one.

    Raises:
        ValueError: a value is out of its range; the message says which.
    """

    alpha: float = 0.05  # of all evaluators together
    epsilon: float = 0.001  # a smaller difference is rounding
    minimum_effect: float = 0.0  # a smaller difference does not matter
    power: float = 0.8  # with which the smallest detectable effect would be found
    resampling: Resampling = field(default_factory=Resampling)

    def __post_init__(self) -> None:
        for name in ("alpha", "power"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} must be between 0 and 1")
        for name in ("epsilon", "minimum_effect"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredItems:
    """What one evaluator found in both sets: a score for each item, by its key. A pass is 1 and a failure 0."""

    name: str
    baseline: Mapping[str, float]
    candidate: Mapping[str, float]
    better: Direction = "higher"
    paired: bool = True  # the same key means the same item


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How the candidate differs, by one evaluator."""

    name: str
    verdict: Verdict
    baseline_count: int
    candidate_count: int
    compared: int  # pairs; of unpaired sets the smaller count
    added: tuple[str, ...]  # keys that only the candidate has
    removed: tuple[str, ...]
    baseline_mean: float | None  # over all items of the side, None without any
    candidate_mean: float | None
    delta: float  # of what is compared, candidate - baseline
    test: Test
    adjusted_p_value: float
    smallest_detectable: float | None  # what would have been found with the power asked for; None where nothing would


def compare(measures: Sequence[ScoredItems], options: Options | None = None) -> list[Difference]:
    """Each evaluator's difference, in the order given.

    Significant is what is below alpha after Holm's correction over the evaluators. Adding an evaluator changes no
    p-value of another, but for that correction.
    """
    chosen = options or Options()
    found = [_difference(measured, chosen) for measured in measures]
    adjusted = holm([difference.test.p_value for difference in found])
    return [
        replace(difference, adjusted_p_value=p_value, verdict=_verdict(difference.delta, p_value, measured, chosen))
        for difference, p_value, measured in zip(found, adjusted, measures, strict=True)
    ]


def smallest_detectable(spread: float, reached: int, options: Options) -> float | None:
    """The difference that would be significant with the power asked for, were there no other evaluator.

    `spread` is the standard error of the difference, and `reached` the number of results of which each counts
    1/reached. Never less than what lets a two-sided test of signs speak at all: six results at alpha 5 %.
    """
    normal = NormalDist()
    least = math.floor(math.log2(2 / options.alpha)) + 1
    if reached < least:
        return None
    return (normal.inv_cdf(1 - options.alpha / 2) + normal.inv_cdf(options.power)) * spread


def _difference(measured: ScoredItems, options: Options) -> Difference:
    baseline, candidate = measured.baseline, measured.candidate
    if measured.paired:
        keys = [key for key in baseline if key in candidate]
        before, after = [baseline[key] for key in keys], [candidate[key] for key in keys]
        test, spread = _paired(before, after, measured.name, options)
    else:
        before, after = list(baseline.values()), list(candidate.values())
        test, spread = _unpaired(before, after, measured.name, options)
    compared = min(len(before), len(after))
    return Difference(
        name=measured.name,
        verdict="UNCHANGED",
        baseline_count=len(baseline),
        candidate_count=len(candidate),
        compared=compared,
        added=tuple(key for key in candidate if key not in baseline) if measured.paired else (),
        removed=tuple(key for key in baseline if key not in candidate) if measured.paired else (),
        baseline_mean=fmean(baseline.values()) if baseline else None,
        candidate_mean=fmean(candidate.values()) if candidate else None,
        delta=fmean(after) - fmean(before) if compared else 0.0,
        test=test,
        adjusted_p_value=1.0,
        smallest_detectable=smallest_detectable(spread, compared, options),
    )


def _paired(before: Sequence[float], after: Sequence[float], name: str, options: Options) -> tuple[Test, float]:
    """The test and the standard error of the mean difference."""
    if len(before) < LEAST:
        return UNTESTED, 0.0
    differences = [now - then for then, now in zip(before, after, strict=True)]
    spread = math.sqrt(variance(differences) / len(differences))
    if _binary(before) and _binary(after):
        return mcnemar(differences.count(-1), differences.count(1)), spread
    return paired_scores(differences, options.resampling, name), spread


def _unpaired(before: Sequence[float], after: Sequence[float], name: str, options: Options) -> tuple[Test, float]:
    if min(len(before), len(after)) < LEAST:
        return UNTESTED, 0.0
    spread = math.sqrt(variance(before) / len(before) + variance(after) / len(after))
    if _binary(before) and _binary(after):
        counts = ((round(sum(side)), len(side)) for side in (before, after))
        return unpaired_passes(*counts), spread
    return unpaired_scores(before, after, options.resampling, name), spread


def _binary(values: Sequence[float]) -> bool:
    return all(value in {0, 1} for value in values)


def _verdict(delta: float, p_value: float, measured: ScoredItems, options: Options) -> Verdict:
    if p_value >= options.alpha or abs(delta) <= options.epsilon or abs(delta) < options.minimum_effect:
        return "UNCHANGED"
    return "IMPROVED" if (delta > 0) == (measured.better == "higher") else "REGRESSED"
