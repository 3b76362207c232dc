"""How far a judge can be trusted: what it says against what people say, and the pass rate that people would find."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from rules.statistics.formulas.agreement import ac1, kappa, kappa_error, krippendorff, observed_agreement
from rules.statistics.formulas.judge_error import (
    Estimate,
    Judge,
    Rate,
    Stratum,
    Useless,
    corrected_judge,
    lang_reiczigel,
    stratified,
)
from rules.statistics.formulas.quantiles import around, z_of
from rules.statistics.formulas.rates import wilson
from rules.statistics.intervals import Interval

Standing: TypeAlias = Literal["unknown", "useless", "unproven", "informative"]
Method: TypeAlias = Literal["error_rates", "by_verdict"]
Chosen: TypeAlias = Literal["passed", "failed"]

FEWEST: Final = 5
"""Labels of what people pass, and of what they fail, below which nothing is corrected: the normal approximation
behind the intervals does not hold with less of the rarer class."""

_NEAR_CHANCE: Final = 0.1
"""Sensitivity + specificity - 1 below which a judge is called useless: a correction would divide by it, and make
the interval ten times as wide as that of the raw rate. A guess."""

_CHOSEN_BY_VERDICT: Final = 0.01
"""Once in a hundred times the verdicts of labels that were drawn blindly differ so much from all verdicts. A guess."""

_RESAMPLES: Final = 1_000
_CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion:
    """How often people and the judge pass the same: `passed_failed` is what people pass and the judge fails."""

    passed_passed: int = 0
    passed_failed: int = 0
    failed_passed: int = 0
    failed_failed: int = 0

    @property
    def labels(self) -> int:
        """All of them."""
        return self.passed_passed + self.passed_failed + self.failed_passed + self.failed_failed

    @property
    def table(self) -> list[list[int]]:
        """Rows are people, columns the judge; passes come first."""
        return [[self.passed_passed, self.passed_failed], [self.failed_passed, self.failed_failed]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A measure with its interval; None where it is undefined."""

    value: float | None
    interval: Interval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreLabels:
    """What would halve the interval: so many labels more, None where no number would; and of which results first."""

    count: int | None
    of: Chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """One judge against people. `method` says what was corrected by: error rates, or shares of each verdict."""

    confusion: Confusion
    raw: Measured
    agreement: Measured
    kappa: Measured
    ac1: float | None
    sensitivity: Measured
    specificity: Measured
    standing: Standing
    method: Method
    corrected: Measured
    more: MoreLabels | None


def calibrate(confusion: Confusion, *, judged_passed: int, judged_failed: int) -> Calibration:
    """How a judge stands, from labels of some of the results that it gave.

    Labels are taken to be drawn blindly among results of the same verdict. Where their mix of verdicts is not that of
    all results, as when what failed is reviewed first, error rates counted over them would be wrong (verification
    bias). Then each verdict's labels stand for all results with that verdict.
    """
    judged = judged_passed + judged_failed
    raw = _share(judged_passed, judged)
    method = _method(confusion, judged_passed, judged_failed)
    passed, failed = _strata(confusion, judged_passed, judged)
    if method == "by_verdict":
        sensitivity, specificity = _weighted_errors(passed, failed)
    else:
        sensitivity = _share(confusion.passed_passed, confusion.passed_passed + confusion.passed_failed)
        specificity = _share(confusion.failed_failed, confusion.failed_passed + confusion.failed_failed)
    standing = _standing(confusion, sensitivity, specificity)
    corrected: Measured = Measured(value=None)
    more = None
    if standing in {"unproven", "informative"}:
        if method == "by_verdict":
            corrected, more = _by_verdict(passed, failed, judged)
        else:
            corrected, more = _by_error_rates(confusion, Rate(share=judged_passed / judged, count=judged))
    table = confusion.table
    return Calibration(
        confusion=confusion,
        raw=raw,
        agreement=_share(confusion.passed_passed + confusion.failed_failed, confusion.labels),
        kappa=_kappa(table) if confusion.labels else Measured(value=None),
        ac1=ac1(table) if confusion.labels and observed_agreement(table) < 1 else None,
        sensitivity=sensitivity,
        specificity=specificity,
        standing=standing,
        method=method,
        corrected=corrected,
        more=more,
    )


def alpha_of_people(votes: Sequence[Sequence[bool]], *, seed: int = 0) -> Measured:
    """Krippendorff's alpha of what several people said of the same things, with a bootstrap over these things."""
    units = [[float(vote) for vote in each] for each in votes if len(each) > 1]
    found = krippendorff(units) if units else None
    if found is None:
        return Measured(value=None)
    generator = np.random.default_rng(seed)
    draws = (generator.integers(0, len(units), len(units)).tolist() for _ in range(_RESAMPLES))
    resampled = [alpha for draw in draws if (alpha := krippendorff([units[place] for place in draw])) is not None]
    low, high = np.quantile(resampled, [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2]).tolist()
    return Measured(value=found, interval=Interval(low=low, high=high))


def in_words(found: Calibration) -> str:
    """What follows for whoever reads the judge's pass rate."""
    table = found.confusion
    people_passed = table.passed_passed + table.passed_failed
    if found.standing == "unknown":
        return (
            f"Not known yet: people passed {people_passed} and failed {table.labels - people_passed} of what it "
            f"judged; {FEWEST} of each are needed."
        )
    if found.standing == "useless":
        return "This judge is useless: it passes what people fail as readily as what they pass. Do not use its rate."
    if found.standing == "unproven":
        return "With these labels the judge cannot be told from one that guesses: label more before you use its rate."
    return "The judge tells what people pass from what they fail; the corrected rate is the one to use."


def _share(part: int, whole: int) -> Measured:
    return Measured(value=part / whole, interval=wilson(part, whole)) if whole else Measured(value=None)


def _kappa(table: list[list[int]]) -> Measured:
    found, error = kappa(table), kappa_error(table)
    if found is None or error is None:
        return Measured(value=None)
    return Measured(value=found, interval=around(found, z_of(_CONFIDENCE) * error))


def _method(confusion: Confusion, judged_passed: int, judged_failed: int) -> Method:
    """Whether labels may have been chosen by the verdict."""
    from scipy.stats import fisher_exact  # noqa: PLC0415 - a server starts without it, and most never need it

    passed = confusion.passed_passed + confusion.failed_passed
    failed = confusion.labels - passed
    rest = (max(judged_passed - passed, 0), max(judged_failed - failed, 0))
    chance = float(fisher_exact([[passed, rest[0]], [failed, rest[1]]]).pvalue)
    return "by_verdict" if chance < _CHOSEN_BY_VERDICT else "error_rates"


def _strata(confusion: Confusion, judged_passed: int, judged: int) -> tuple[Stratum, Stratum]:
    share = judged_passed / judged if judged else 0.0
    passed = confusion.passed_passed + confusion.failed_passed
    failed = confusion.passed_failed + confusion.failed_failed
    return (
        Stratum(share=share, passes=confusion.passed_passed, labels=passed),
        Stratum(share=1 - share, passes=confusion.passed_failed, labels=failed),
    )


def _standing(confusion: Confusion, sensitivity: Measured, specificity: Measured) -> Standing:
    people_passed = confusion.passed_passed + confusion.passed_failed
    people_failed = confusion.labels - people_passed
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
    return "informative" if better - z_of(_CONFIDENCE) * error > 0 else "unproven"


def _weighted_errors(passed: Stratum, failed: Stratum) -> tuple[Measured, Measured]:
    """Sensitivity and specificity when labels were chosen by the verdict; intervals on the scale of log odds."""
    if not (passed.labels and failed.labels and 0 < passed.share < 1):
        return Measured(value=None), Measured(value=None)
    sides = []
    wrong = [
        Stratum(share=each.share, passes=each.labels - each.passes, labels=each.labels) for each in (failed, passed)
    ]
    for (hit, miss), pick in (((passed, failed), 0), (tuple(wrong), 1)):
        if not hit.passes + miss.passes:
            return Measured(value=None), Measured(value=None)
        odds = [each.share * (each.passes + 0.5) / (each.labels + 1) for each in (hit, miss)]
        shares = [(each.passes + 0.5) / (each.labels + 1) for each in (hit, miss)]
        variance = sum(
            (1 - share) / (share * (each.labels + 1)) for share, each in zip(shares, (hit, miss), strict=True)
        )
        middle, reach = math.log(odds[0] / odds[1]), z_of(_CONFIDENCE) * math.sqrt(variance)
        value = corrected_judge(passed, failed)[pick]
        low, high = (1 / (1 + math.exp(-each)) for each in (middle - reach, middle + reach))
        sides.append(Measured(value=value, interval=Interval(low=min(low, value), high=max(high, value))))
    return sides[0], sides[1]


def _by_error_rates(confusion: Confusion, judged: Rate) -> tuple[Measured, MoreLabels | None]:
    """Rogan and Gladen's rate with Lang's and Reiczigel's interval."""
    passes = confusion.passed_passed + confusion.passed_failed
    fails = confusion.failed_passed + confusion.failed_failed
    judge = Judge(
        sensitivity=Rate(share=confusion.passed_passed / passes, count=passes),
        specificity=Rate(share=confusion.failed_failed / fails, count=fails),
    )
    try:
        found = lang_reiczigel(judged, judge)
    except Useless:
        return Measured(value=None), None
    soft = [(rate.share * rate.count + 1) / (rate.count + 2) for rate in (judge.sensitivity, judge.specificity)]
    value = min(1.0, max(0.0, found.value))
    parts = (value**2 * soft[0] * (1 - soft[0]) / passes, (1 - value) ** 2 * soft[1] * (1 - soft[1]) / fails)
    fixed = judged.share * (1 - judged.share) / judged.count
    of: Chosen = "failed" if parts[1] / fails > parts[0] / passes else "passed"
    shown = Interval(low=min(found.interval.low, value), high=max(found.interval.high, value))
    return Measured(value=value, interval=shown), MoreLabels(
        count=_to_halve(fixed, sum(parts), confusion.labels), of=of
    )


def _by_verdict(passed: Stratum, failed: Stratum, judged: int) -> tuple[Measured, MoreLabels | None]:
    """Each verdict's labels stand for all results with that verdict; one success and one failure are added to each."""
    if min(passed.labels, failed.labels) < 2:  # noqa: PLR2004 - a variance needs two
        return Measured(value=None), None
    soft = [Stratum(share=each.share, passes=each.passes + 1, labels=each.labels + 2) for each in (passed, failed)]
    rates = [each.passes / each.labels for each in soft]
    parts = [each.share**2 * rate * (1 - rate) / each.labels for each, rate in zip(soft, rates, strict=True)]
    fixed = passed.share * failed.share * (rates[0] - rates[1]) ** 2 / judged
    plain: Estimate = stratified([passed, failed])
    middle = sum(each.share * rate for each, rate in zip(soft, rates, strict=True))
    reach = z_of(_CONFIDENCE) * math.sqrt(sum(parts) + fixed)
    shown = Interval(low=max(0.0, min(middle - reach, plain.value)), high=min(1.0, max(middle + reach, plain.value)))
    of: Chosen = "failed" if parts[1] / failed.labels > parts[0] / passed.labels else "passed"
    labels = passed.labels + failed.labels
    return Measured(value=plain.value, interval=shown), MoreLabels(count=_to_halve(fixed, sum(parts), labels), of=of)


def _to_halve(fixed: float, by_labels: float, labels: int) -> int | None:
    """How many labels more make the error half as large; None where the number of results alone makes it larger."""
    wanted = (fixed + by_labels) / 4 - fixed
    return math.ceil((by_labels / wanted - 1) * labels) if wanted > 0 else None
