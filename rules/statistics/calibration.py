"""Calibration of a judge against labels of people, and the pass rate corrected for its errors."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np

from rules.statistics.correcting import (
    CONFIDENCE,
    Confusion,
    Corrected,
    DrawnLabel,
    IntervalMeasure,
    Method,
    MoreLabels,
    by_blind_labels,
    by_verdict,
    by_weight,
    strata,
    weighted_shares,
)
from rules.statistics.formulas.agreement import ac1, kappa, kappa_error, krippendorff, observed_agreement
from rules.statistics.formulas.judge_error import Stratum, corrected_judge
from rules.statistics.formulas.quantiles import around, z_of
from rules.statistics.formulas.rates import fisher_p, wilson
from rules.statistics.intervals import Interval

Standing: TypeAlias = Literal["unknown", "useless", "unproven", "informative"]

FEWEST: Final = 5
"""Minimum number of results that people passed, and of results that they failed, for a corrected rate: with fewer of
the rarer class the normal approximation behind the intervals does not hold."""

_NEAR_CHANCE: Final = 0.1
"""Sensitivity + specificity - 1 below which a judge is called useless: a correction would divide by it, and make
the interval ten times as wide as that of the raw rate. A guess."""

_CHOSEN_BY_VERDICT: Final = 0.01
"""p-value of Fisher's exact test, labelled against unlabelled results by the judge's verdict, below which labels count
as chosen by verdict. A guess."""

_RESAMPLES: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A judge compared with people. `method` is the correction, which depends on how the labels were drawn."""

    confusion: Confusion
    raw: IntervalMeasure
    agreement: IntervalMeasure
    kappa: IntervalMeasure
    ac1: float | None
    sensitivity: IntervalMeasure
    specificity: IntervalMeasure
    standing: Standing
    method: Method
    corrected: IntervalMeasure
    more: MoreLabels | None


def calibrate(
    confusion: Confusion, *, judged_passed: int, judged_failed: int, drawn: Sequence[DrawnLabel] = ()
) -> Calibration:
    """Estimate a judge's error rates and the corrected pass rate from labels of some of its results.

    Labels are assumed to be a random sample of the results with the same verdict of the judge. But the judge's verdicts
    may have other shares among them than among all results, for example because failures are reviewed first. Error
    rates counted over such labels are biased (verification bias), so each verdict is weighted by its share of all
    results. `drawn` are labels with known sampling probabilities. If the probabilities differ within a verdict, only
    the labels in `drawn` are used, weighted by the inverse.

    """
    judged = judged_passed + judged_failed
    if _is_uneven(drawn):
        confusion = confusion_of((each.people, each.judged) for each in drawn)
        sides = weighted_shares(drawn, judged_passed, judged)
        method: Method = "by_weight"
    else:
        sides = strata(confusion, judged_passed, judged)
        method = _method(confusion, judged_passed, judged_failed)
    if method == "error_rates":
        sensitivity = _share(confusion.passed_passed, confusion.people_passed)
        specificity = _share(confusion.failed_failed, confusion.people_failed)
    else:
        sensitivity, specificity = (
            _weighted_errors(*sides) if sides else (IntervalMeasure(value=None), IntervalMeasure(value=None))
        )
    standing = _standing(confusion, sensitivity, specificity)
    corrected = Corrected(method=method, rate=IntervalMeasure(value=None), more=None)
    if standing in {"unproven", "informative"}:
        if method == "by_weight":
            corrected = by_weight(drawn, judged_passed, judged)
        elif method == "by_verdict":
            corrected = by_verdict(*strata(confusion, judged_passed, judged), judged)
        else:
            corrected = by_blind_labels(confusion, judged_passed, judged_failed)
    table = confusion.table
    return Calibration(
        confusion=confusion,
        raw=_share(judged_passed, judged),
        agreement=_share(confusion.passed_passed + confusion.failed_failed, confusion.labels),
        kappa=_kappa(table) if confusion.labels else IntervalMeasure(value=None),
        ac1=ac1(table) if confusion.labels and observed_agreement(table) < 1 else None,
        sensitivity=sensitivity,
        specificity=specificity,
        standing=standing,
        method=corrected.method,
        corrected=corrected.rate,
        more=_within(corrected.more, judged - confusion.labels),
    )


def confusion_of(pairs: Iterable[tuple[bool | None, bool]]) -> Confusion:
    """Count pairs of people's and the judge's verdicts; pairs without people's verdict are skipped."""
    cells = list(pairs)
    return Confusion(
        passed_passed=cells.count((True, True)),
        passed_failed=cells.count((True, False)),
        failed_passed=cells.count((False, True)),
        failed_failed=cells.count((False, False)),
    )


def alpha_of_people(votes: Sequence[Sequence[bool]], *, seed: int = 0) -> IntervalMeasure:
    """Compute Krippendorff's alpha of several people's votes on the same targets, with a bootstrap over targets."""
    units = [[float(vote) for vote in each] for each in votes if len(each) > 1]
    alpha_of_all = krippendorff(units) if units else None
    if alpha_of_all is None:
        return IntervalMeasure(value=None)
    generator = np.random.default_rng(seed)
    draws = (generator.integers(0, len(units), len(units)).tolist() for _ in range(_RESAMPLES))
    resampled = [alpha for draw in draws if (alpha := krippendorff([units[place] for place in draw])) is not None]
    low, high = np.quantile(resampled, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]).tolist()
    return IntervalMeasure(value=alpha_of_all, interval=Interval(low=low, high=high))


def in_words(calibration: Calibration) -> str:
    """Explain what the calibration means for the judge's pass rate."""
    table = calibration.confusion
    people_passed = table.passed_passed + table.passed_failed
    if calibration.standing == "unknown":
        return (
            f"Unknown so far: annotators passed {people_passed} and failed {table.labels - people_passed} of its "
            f"results. Needed: {FEWEST} of each, with both verdicts of the judge."
        )
    if calibration.standing == "useless":
        return "This judge is hardly better than chance: it passes bad results about as often as good. Ignore its rate."
    if calibration.standing == "unproven":
        return "These labels cannot distinguish the judge from one that guesses: label more before you use its rate."
    return "The judge separates what annotators pass from what they fail; use the corrected rate."


def _share(part: int, whole: int) -> IntervalMeasure:
    return IntervalMeasure(value=part / whole, interval=wilson(part, whole)) if whole else IntervalMeasure(value=None)


def _kappa(table: list[list[int]]) -> IntervalMeasure:
    value, error = kappa(table), kappa_error(table)
    if value is None or error is None:
        return IntervalMeasure(value=None)
    return IntervalMeasure(value=value, interval=around(value, z_of(CONFIDENCE) * error))


def _method(confusion: Confusion, judged_passed: int, judged_failed: int) -> Method:
    """Choose the method: `by_verdict` if labels were probably chosen by the verdict."""
    passed = confusion.passed_passed + confusion.failed_passed
    failed = confusion.labels - passed
    rest = (max(judged_passed - passed, 0), max(judged_failed - failed, 0))
    chance = fisher_p((passed, rest[0]), (failed, rest[1]))
    return "by_verdict" if chance < _CHOSEN_BY_VERDICT else "error_rates"


def _within(more: MoreLabels | None, rest: int) -> MoreLabels | None:
    return more if more is None or more.count is None or more.count <= rest else replace(more, count=None)


def _is_uneven(drawn: Sequence[DrawnLabel]) -> bool:
    return any(len({each.probability for each in drawn if each.judged is verdict}) > 1 for verdict in (True, False))


def _standing(confusion: Confusion, sensitivity: IntervalMeasure, specificity: IntervalMeasure) -> Standing:
    people_passed, people_failed = confusion.people_passed, confusion.people_failed
    known = sensitivity.value is not None and specificity.value is not None
    if min(people_passed, people_failed) < FEWEST or not known:
        return "unknown"
    assert sensitivity.value is not None  # noqa: S101 - for the type checker
    assert specificity.value is not None  # noqa: S101 - for the type checker
    better = sensitivity.value + specificity.value - 1
    if better < _NEAR_CHANCE:
        return "useless"
    rates = ((sensitivity.value, people_passed), (specificity.value, people_failed))
    softened = [((share * count + 1) / (count + 2), count + 2) for share, count in rates]
    error = math.sqrt(sum(share * (1 - share) / count for share, count in softened))
    return "informative" if better - z_of(CONFIDENCE) * error > 0 else "unproven"


def _weighted_errors(passed: Stratum, failed: Stratum) -> tuple[IntervalMeasure, IntervalMeasure]:
    """Return sensitivity and specificity from weighted labels of both verdicts; intervals are Wald's on log odds."""
    people_passed = passed.passes + failed.passes
    is_known = passed.labels and failed.labels and 0 < passed.share < 1
    if not is_known or not 0 < people_passed < passed.labels + failed.labels:
        return IntervalMeasure(value=None), IntervalMeasure(value=None)
    sides = []
    wrong = [
        Stratum(share=each.share, passes=each.labels - each.passes, labels=each.labels) for each in (failed, passed)
    ]
    for (hit, miss), pick in (((passed, failed), 0), (tuple(wrong), 1)):
        odds = [each.share * (each.passes + 0.5) / (each.labels + 1) for each in (hit, miss)]
        shares = [(each.passes + 0.5) / (each.labels + 1) for each in (hit, miss)]
        variance = sum(
            (1 - share) / (share * (each.labels + 1)) for share, each in zip(shares, (hit, miss), strict=True)
        )
        middle, reach = math.log(odds[0] / odds[1]), z_of(CONFIDENCE) * math.sqrt(variance)
        value = corrected_judge(passed, failed)[pick]
        low, high = (1 / (1 + math.exp(-each)) for each in (middle - reach, middle + reach))
        sides.append(IntervalMeasure(value=value, interval=Interval(low=min(low, value), high=max(high, value))))
    return sides[0], sides[1]
