"""The true rate behind a judge that errs, from labels by people."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rules.statistics.formulas.quantiles import around, z_of
from rules.statistics.intervals import Interval


class Useless(ValueError):
    """The judge is no better than chance: it passes outputs that people fail as readily as those that they pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredShare:
    """A share, and the number of results behind it."""

    share: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RateEstimate:
    """A true rate, with its standard error and interval."""

    value: float
    error: float
    interval: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeAccuracy:
    """A judge's agreement with people: on outputs that they pass, and on outputs that they fail."""

    sensitivity: MeasuredShare
    specificity: MeasuredShare

    @property
    def youden(self) -> float:
        """Return Youden's index, sensitivity + specificity - 1.

        Raises:
            Useless: the index is 0 or less.

        """
        better = self.sensitivity.share + self.specificity.share - 1
        if better <= 0:
            raise Useless("sensitivity and specificity together are no more than 1: the judge is not informative")
        return better


def lang_reiczigel(judged: MeasuredShare, judge: JudgeAccuracy, confidence: float = 0.95) -> RateEstimate:
    """Return the true rate, with an interval that keeps its coverage with few labels (Lang and Reiczigel 2014).

    Raises:
        Useless: the judge is no better than chance.
    """
    z = z_of(confidence)
    square = z * z
    moved = MeasuredShare(
        share=(judged.count * judged.share + square / 2) / (judged.count + square), count=judged.count
    )
    softer = JudgeAccuracy(sensitivity=_softened(judge.sensitivity), specificity=_softened(judge.specificity))
    value = (moved.share + softer.specificity.share - 1) / softer.youden
    se, sp = softer.sensitivity, softer.specificity
    shift = value * se.share * (1 - se.share) / se.count - (1 - value) * sp.share * (1 - sp.share) / sp.count
    error = _delta_error(value, moved, softer, extra=square)
    plain = around(value + 2 * square * shift, z * error)
    plain_value = (judged.share + judge.specificity.share - 1) / judge.youden
    clipped = Interval(low=min(1.0, max(0.0, plain.low)), high=max(0.0, min(1.0, plain.high)))
    return RateEstimate(value=plain_value, error=error, interval=clipped)


def prediction_powered(
    labels: ArrayLike, judged: ArrayLike, unlabelled: ArrayLike, weight: float | None = None
) -> RateEstimate:
    """Return the mean of people's verdicts, from few labels and many of the judge's (PPI++, Angelopoulos et al. 2023).

    `judged` are the judge's values of the labelled outputs. The weight of the judge is chosen from the data unless it
    is given: 0 is the mean of the labels, 1 is PPI. The interval holds for verdicts and scores of any judge, with about
    30 labels or more.

    """
    people, paired, rest = (np.asarray(each, dtype=np.float64) for each in (labels, judged, unlabelled))
    weight = judge_weight(people, paired, rest) if weight is None else weight
    value = weight * float(rest.mean()) + float((people - weight * paired).mean())
    variance = float((people - weight * paired).var(ddof=1)) / people.size
    variance += weight**2 * float(rest.var(ddof=1)) / rest.size
    error = math.sqrt(variance)
    return RateEstimate(value=value, error=error, interval=around(value, z_of(0.95) * error))


def judge_weight(labels: ArrayLike, judged: ArrayLike, unlabelled: ArrayLike) -> float:
    """Return the weight that `prediction_powered` gives the judge."""
    people, paired, rest = (np.asarray(each, dtype=np.float64) for each in (labels, judged, unlabelled))
    everything = float(np.concatenate([paired, rest]).var(ddof=1))
    together = float(((people - people.mean()) * (paired - paired.mean())).mean())
    return min(1.0, max(0.0, together / ((1 + people.size / rest.size) * everything))) if everything else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratum:
    """A part of all results, with labels of a random sample of it."""

    share: float  # of all
    passes: float  # fractional if labels are weighted
    labels: float


def stratified(strata: list[Stratum], confidence: float = 0.95) -> RateEstimate:
    """Return the stratified rate: the rates of the strata, weighted by their shares of all results."""
    value = variance = 0.0
    for stratum in strata:
        rate = stratum.passes / stratum.labels
        value += stratum.share * rate
        variance += stratum.share**2 * rate * (1 - rate) / (stratum.labels - 1)
    error = math.sqrt(variance)
    return RateEstimate(value=value, error=error, interval=around(value, z_of(confidence) * error))


def corrected_judge(passed: Stratum, failed: Stratum) -> tuple[float, float]:
    """Return sensitivity and specificity from the outputs that the judge passed and failed (Begg and Greenes 1983)."""
    both, missed = (each.share * each.passes / each.labels for each in (passed, failed))
    wrong, right = (each.share * (1 - each.passes / each.labels) for each in (passed, failed))
    return both / (both + missed), right / (right + wrong)


def _softened(rate: MeasuredShare) -> MeasuredShare:
    return MeasuredShare(share=(rate.count * rate.share + 1) / (rate.count + 2), count=rate.count + 2)


def _delta_error(value: float, judged: MeasuredShare, judge: JudgeAccuracy, extra: float = 0.0) -> float:
    se, sp = judge.sensitivity, judge.specificity
    variance = judged.share * (1 - judged.share) / (judged.count + extra)
    variance += value**2 * se.share * (1 - se.share) / se.count
    variance += (1 - value) ** 2 * sp.share * (1 - sp.share) / sp.count
    return math.sqrt(variance) / judge.youden
