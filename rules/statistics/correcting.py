"""Pass rates corrected for a judge's errors by labels: a method for each way to draw labels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from rules.statistics.formulas.judge_error import (
    JudgeAccuracy,
    MeasuredShare,
    RateEstimate,
    Stratum,
    Useless,
    lang_reiczigel,
    prediction_powered,
    stratified,
)
from rules.statistics.formulas.quantiles import z_of
from rules.statistics.intervals import Interval

Method: TypeAlias = Literal["error_rates", "prediction_powered", "by_verdict", "by_weight"]
Chosen: TypeAlias = Literal["passed", "failed"]

CONFIDENCE: Final = 0.95
ENOUGH: Final = 30
"""Minimum number of labels, and of results without a label, for prediction-powered inference: below it, its normal
approximation is unreliable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion:
    """Counts of results by people's and the judge's verdict; `passed_failed`: people pass, the judge fails."""

    passed_passed: int = 0
    passed_failed: int = 0
    failed_passed: int = 0
    failed_failed: int = 0

    @property
    def labels(self) -> int:
        """Return the number of labels."""
        return self.passed_passed + self.passed_failed + self.failed_passed + self.failed_failed

    @property
    def people_passed(self) -> int:
        """Return the number of results that people pass."""
        return self.passed_passed + self.passed_failed

    @property
    def people_failed(self) -> int:
        """Return the number of results that people fail."""
        return self.failed_passed + self.failed_failed

    @property
    def table(self) -> list[list[int]]:
        """Return the counts by people (rows) and judge (columns); passes come first."""
        return [[self.passed_passed, self.passed_failed], [self.failed_passed, self.failed_failed]]


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalMeasure:
    """A measure with its interval; None if undefined."""

    value: float | None
    interval: Interval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreLabels:
    """Number of further labels that would halve the interval (None if no number would), and which to label first."""

    count: int | None
    of: Chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLabel:
    """A label of a result that was sampled with a known probability."""

    people: bool
    judged: bool
    probability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """A corrected pass rate, its method, and the labels that would narrow its interval."""

    method: Method
    rate: IntervalMeasure
    more: MoreLabels | None


def _nothing(method: Method) -> Corrected:
    return Corrected(method=method, rate=IntervalMeasure(value=None), more=None)


def judge_of(confusion: Confusion) -> JudgeAccuracy:
    """Return the judge's sensitivity and specificity over labels, which must include passes and fails of people."""
    return JudgeAccuracy(
        sensitivity=MeasuredShare(
            share=confusion.passed_passed / confusion.people_passed, count=confusion.people_passed
        ),
        specificity=MeasuredShare(
            share=confusion.failed_failed / confusion.people_failed, count=confusion.people_failed
        ),
    )


def by_blind_labels(confusion: Confusion, judged_passed: int, judged_failed: int) -> Corrected:
    """Correct by labels of a random sample: by error rates, or prediction-powered if that interval is narrower."""
    judged = judged_passed + judged_failed
    corrected = by_error_rates(confusion, MeasuredShare(share=judged_passed / judged, count=judged))
    rest = judged - confusion.labels
    if confusion.labels < ENOUGH or rest < ENOUGH:
        return corrected
    other = _powered(confusion, judged_passed - confusion.passed_passed - confusion.failed_passed, rest)
    if corrected.rate.interval is None or _width(other) < _width(corrected.rate.interval):
        value = _plain_power(confusion, judged_passed - confusion.passed_passed - confusion.failed_passed, rest)
        passed, failed = strata(confusion, judged_passed, judged)
        return Corrected(
            method="prediction_powered",
            rate=IntervalMeasure(value=value, interval=_holding(other, value)),
            more=by_verdict(passed, failed, judged).more,
        )
    return corrected


def by_error_rates(confusion: Confusion, judged: MeasuredShare) -> Corrected:
    """Return Rogan and Gladen's rate with Lang and Reiczigel's interval; undefined for a useless judge."""
    judge = judge_of(confusion)
    try:
        estimate = lang_reiczigel(judged, judge)
    except Useless:
        return _nothing("error_rates")
    passes, fails = confusion.people_passed, confusion.people_failed
    soft = [(rate.share * rate.count + 1) / (rate.count + 2) for rate in (judge.sensitivity, judge.specificity)]
    value = min(1.0, max(0.0, estimate.value))
    parts = (value**2 * soft[0] * (1 - soft[0]) / passes, (1 - value) ** 2 * soft[1] * (1 - soft[1]) / fails)
    fixed = judged.share * (1 - judged.share) / judged.count
    of: Chosen = "failed" if parts[1] / fails > parts[0] / passes else "passed"
    return Corrected(
        method="error_rates",
        rate=IntervalMeasure(value=value, interval=_holding(estimate.interval, value)),
        more=MoreLabels(count=_to_halve(fixed, sum(parts), confusion.labels), of=of),
    )


def strata(confusion: Confusion, judged_passed: int, judged: int) -> tuple[Stratum, Stratum]:
    """Return the labels of the results that the judge passed, and of those that it failed."""
    share = judged_passed / judged if judged else 0.0
    passed = confusion.passed_passed + confusion.failed_passed
    failed = confusion.passed_failed + confusion.failed_failed
    return (
        Stratum(share=share, passes=confusion.passed_passed, labels=passed),
        Stratum(share=1 - share, passes=confusion.passed_failed, labels=failed),
    )


def by_verdict(passed: Stratum, failed: Stratum, judged: int) -> Corrected:
    """Weigh labels by verdict: each stands for all results of its verdict.

    For the interval, not for the rate, one success and one failure are added to each verdict.
    """
    if min(passed.labels, failed.labels) < 2:  # noqa: PLR2004 - a variance needs two
        return _nothing("by_verdict")
    soft = [Stratum(share=each.share, passes=each.passes + 1, labels=each.labels + 2) for each in (passed, failed)]
    rates = [each.passes / each.labels for each in soft]
    parts = [each.share**2 * rate * (1 - rate) / each.labels for each, rate in zip(soft, rates, strict=True)]
    fixed = passed.share * failed.share * (rates[0] - rates[1]) ** 2 / judged
    plain: RateEstimate = stratified([passed, failed])
    middle = sum(each.share * rate for each, rate in zip(soft, rates, strict=True))
    of: Chosen = "failed" if parts[1] / failed.labels > parts[0] / passed.labels else "passed"
    labels = passed.labels + failed.labels
    return Corrected(
        method="by_verdict",
        rate=IntervalMeasure(value=plain.value, interval=_around(middle, math.sqrt(sum(parts) + fixed), plain.value)),
        more=MoreLabels(count=_to_halve(fixed, sum(parts), labels), of=of),
    )


def by_weight(drawn: Sequence[DrawnLabel], judged_passed: int, judged: int) -> Corrected:
    """Weigh each label by the inverse of its sampling probability, within the judge's verdict (Hájek 1971).

    The standard error is that of a ratio estimator. For the interval, one success and one failure of the mean weight
    are added to each verdict.
    """
    sides = [[each for each in drawn if each.judged is verdict] for verdict in (True, False)]
    if min(map(len, sides)) < 2:  # noqa: PLR2004 - a variance needs two
        return _nothing("by_weight")
    shares = (judged_passed / judged, 1 - judged_passed / judged)
    plain = sum(share * _weighted(side)[0] for share, side in zip(shares, sides, strict=True))
    soft = [_weighted(side, extra=1) for side in sides]
    parts = [share**2 * variance for share, (_, variance) in zip(shares, soft, strict=True)]
    fixed = shares[0] * shares[1] * (soft[0][0] - soft[1][0]) ** 2 / judged
    middle = sum(share * mean for share, (mean, _) in zip(shares, soft, strict=True))
    of: Chosen = "failed" if parts[1] / len(sides[1]) > parts[0] / len(sides[0]) else "passed"
    return Corrected(
        method="by_weight",
        rate=IntervalMeasure(value=plain, interval=_around(middle, math.sqrt(sum(parts) + fixed), plain)),
        more=MoreLabels(count=_to_halve(fixed, sum(parts), len(drawn)), of=of),
    )


def weighted_shares(drawn: Sequence[DrawnLabel], judged_passed: int, judged: int) -> tuple[Stratum, Stratum] | None:
    """Return the labels of both verdicts as strata with Kish's effective sample sizes; None if a verdict has none."""
    strata_by_verdict = []
    for verdict, share in ((True, judged_passed / judged), (False, 1 - judged_passed / judged)):
        side = [each for each in drawn if each.judged is verdict]
        if not side:
            return None
        weights = np.array([1 / each.probability for each in side])
        count = float(weights.sum() ** 2 / (weights**2).sum())
        strata_by_verdict.append(Stratum(share=share, passes=_weighted(side)[0] * count, labels=count))
    return strata_by_verdict[0], strata_by_verdict[1]


def _weighted(side: Sequence[DrawnLabel], extra: int = 0) -> tuple[float, float]:
    """Return the weighted mean of one verdict's labels and its variance, with `extra` successes and failures added."""
    weights = np.array([1 / each.probability for each in side])
    passes = np.array([float(each.people) for each in side])
    if extra:
        weights = np.concatenate([weights, np.full(2 * extra, weights.mean())])
        passes = np.concatenate([passes, [1.0] * extra, [0.0] * extra])
    mean = float((weights * passes).sum() / weights.sum())
    spread = float(((weights * (passes - mean)) ** 2).sum() / weights.sum() ** 2)
    return mean, spread * len(passes) / max(len(passes) - 1, 1)


def _powered(confusion: Confusion, rest_passed: int, rest: int) -> Interval:
    # One label more of each kind: without these, few labels that all agree look too sure.
    counts = (count + 1 for row in confusion.table for count in row)
    return _of_counts(tuple(counts), rest_passed, rest).interval


def _plain_power(confusion: Confusion, rest_passed: int, rest: int) -> float:
    counts = tuple(count for row in confusion.table for count in row)
    return min(1.0, max(0.0, _of_counts(counts, rest_passed, rest).value))


def _of_counts(counts: tuple[int, ...], rest_passed: int, rest: int) -> RateEstimate:
    rest_passed = min(max(rest_passed, 0), rest)
    people, judged = (np.repeat(side, counts) for side in ([1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0]))
    return prediction_powered(people, judged, np.repeat([1.0, 0.0], [rest_passed, rest - rest_passed]))


def _width(interval: Interval) -> float:
    return interval.high - interval.low


def _around(middle: float, error: float, value: float) -> Interval:
    reach = z_of(CONFIDENCE) * error
    return _holding(Interval(low=max(0.0, middle - reach), high=min(1.0, middle + reach)), value)


def _holding(interval: Interval, value: float) -> Interval:
    return Interval(low=max(0.0, min(interval.low, value)), high=min(1.0, max(interval.high, value)))


def _to_halve(fixed: float, by_labels: float, labels: float) -> int | None:
    target = (fixed + by_labels) / 4 - fixed
    return math.ceil((by_labels / target - 1) * labels) if target > 0 else None
