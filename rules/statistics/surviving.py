"""Difference of two pass rates, corrected for the judge's errors in both."""

import math
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from rules.statistics.calibration import FEWEST, Calibration
from rules.statistics.correcting import CONFIDENCE, Confusion, IntervalMeasure, by_verdict, strata
from rules.statistics.formulas.judge_error import JudgeAccuracy, MeasuredShare, Useless, lang_reiczigel
from rules.statistics.formulas.quantiles import z_of
from rules.statistics.intervals import Interval

Basis: TypeAlias = Literal["own_labels", "shared_labels"]

_IN_WORDS: Final = {
    (True, "own_labels"): "It survives the correction: people would find a difference, too.",
    (True, "shared_labels"): "It survives the correction, if the judge errs alike on both sides.",
    (
        False,
        "own_labels",
    ): "It does not survive the correction: people may find no difference, or another.",
    (False, "shared_labels"): "It does not survive the correction: there are too few results or labels.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSide:
    """Results of a judge for one side of a comparison, with the labels of that side."""

    passed: int
    failed: int
    labels: Confusion = field(default_factory=Confusion)

    @property
    def count(self) -> int:
        """Return the number of all results."""
        return self.passed + self.failed


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedDifference:
    """Both corrected rates, their difference (candidate - baseline), and whether its sign survives.

    `basis` says whose labels were used: those of each side, or those of all results for both, which holds if the
    judge errs alike on both sides.
    """

    baseline: IntervalMeasure
    candidate: IntervalMeasure
    difference: float
    interval: Interval
    basis: Basis
    survives: bool

    @property
    def in_words(self) -> str:
        """Explain the corrected difference."""
        return _IN_WORDS[self.survives, self.basis]


def corrected_difference(
    baseline: JudgedSide, candidate: JudgedSide, calibration: Calibration
) -> CorrectedDifference | None:
    """Return the difference that people would find; None while too little is known of the judge, or it is useless."""
    if calibration.standing not in {"unproven", "informative"} or not (baseline.count and candidate.count):
        return None
    raw = candidate.passed / candidate.count - baseline.passed / baseline.count
    if all(min(each.labels.people_passed, each.labels.people_failed) >= FEWEST for each in (baseline, candidate)):
        difference = _by_own_labels(baseline, candidate, raw)
        if difference is not None:
            return difference
    judge = known_judge(calibration)
    return None if judge is None else _by_shared_labels(baseline, candidate, judge)


def known_judge(calibration: Calibration) -> JudgeAccuracy | None:
    """Return sensitivity and specificity, each with the number of equally weighted labels that gives its interval."""
    rates = [_as_rate(each) for each in (calibration.sensitivity, calibration.specificity)]
    if rates[0] is None or rates[1] is None or calibration.standing not in {"unproven", "informative"}:
        return None
    return JudgeAccuracy(sensitivity=rates[0], specificity=rates[1])


def corrected_rate(passed: int, count: int, judge: JudgeAccuracy) -> IntervalMeasure:
    """Return the pass rate corrected by a judge's errors that were measured elsewhere (Lang and Reiczigel)."""
    try:
        estimate = lang_reiczigel(MeasuredShare(share=passed / count, count=count), judge)
    except Useless:
        return IntervalMeasure(value=None)
    value = min(1.0, max(0.0, estimate.value))
    low, high = min(estimate.interval.low, value), max(estimate.interval.high, value)
    return IntervalMeasure(value=value, interval=Interval(low=low, high=high))


def _by_own_labels(baseline: JudgedSide, candidate: JudgedSide, raw: float) -> CorrectedDifference | None:
    """Correct each side by its own labels, and combine the two intervals by Newcombe's method."""
    rates = [
        by_verdict(*strata(each.labels, each.passed, each.count), each.count).rate for each in (baseline, candidate)
    ]
    (before, one), (after, other) = ((each.value, each.interval) for each in rates)
    if before is None or after is None or one is None or other is None:
        return None
    difference = after - before
    low = difference - math.hypot(after - other.low, one.high - before)
    high = difference + math.hypot(other.high - after, before - one.low)
    return CorrectedDifference(
        baseline=rates[0],
        candidate=rates[1],
        difference=difference,
        interval=Interval(low=low, high=high),
        basis="own_labels",
        survives=low > 0 if raw > 0 else high < 0,
    )


def _by_shared_labels(baseline: JudgedSide, candidate: JudgedSide, judge: JudgeAccuracy) -> CorrectedDifference | None:
    """Return the raw difference divided by the judge's Youden index, whose error widens the interval."""
    sides = [corrected_rate(each.passed, each.count, judge) for each in (baseline, candidate)]
    if sides[0].value is None or sides[1].value is None:
        return None
    z = z_of(CONFIDENCE)
    raw = candidate.passed / candidate.count - baseline.passed / baseline.count
    difference = raw / judge.youden
    variance = sum(_softened_variance(each.passed, each.count, z**2 / 2) for each in (baseline, candidate))
    doubt = sum(
        _softened_variance(round(rate.share * rate.count), rate.count, 1)
        for rate in (judge.sensitivity, judge.specificity)
    )
    reach = z * math.sqrt(variance + difference**2 * doubt) / judge.youden
    return CorrectedDifference(
        baseline=sides[0],
        candidate=sides[1],
        difference=difference,
        interval=Interval(low=difference - reach, high=difference + reach),
        basis="shared_labels",
        survives=abs(difference) > reach,
    )


def _softened_variance(passes: int, count: int, extra: float) -> float:
    share = (passes + extra) / (count + 2 * extra)
    return share * (1 - share) / (count + 2 * extra)


def _as_rate(rate: IntervalMeasure) -> MeasuredShare | None:
    """Return the share with the number of equally weighted labels that gives the same interval."""
    if rate.value is None or rate.interval is None:
        return None
    middle = (rate.interval.low + rate.interval.high) / 2
    error = max((rate.interval.high - rate.interval.low) / 2 / z_of(CONFIDENCE), 1e-6)
    return MeasuredShare(share=rate.value, count=max(1, round(middle * (1 - middle) / error**2)))
