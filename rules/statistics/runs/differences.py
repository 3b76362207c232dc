"""Difference of two runs by one measure: the test that fits it, its interval, and one of three verdicts."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rules.statistics.formulas.pairs import mcnemar_mid_p
from rules.statistics.formulas.power import items_needed, smallest_difference
from rules.statistics.formulas.rates import Pairs, bonett_price
from rules.statistics.formulas.resampling import cautious_interval, signs_p_value, t_interval
from rules.statistics.intervals import Interval
from rules.statistics.runs.measures import Measure, unscored_of
from rules.statistics.runs.options import Options
from rules.statistics.runs.records import Numbers

Verdict: TypeAlias = Literal["regressed", "not_worse", "inconclusive"]
Method: TypeAlias = Literal["none", "mcnemar_mid_p", "signs"]

FEW_FLIPS: Final = 20
"""With fewer items that changed, pass and fail have the cautious interval: Student's covers 87 % instead of 95 % with
10 pairs, and 95 % from 20 on."""
FEW_CHANGES: Final = 6  # of scores: with fewer, no test of signs reaches 5 % either
EVERYTHING: Final = Interval(low=-math.inf, high=math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Difference of the candidate by one measure: candidate - baseline, whichever direction is better."""

    name: str
    better: str
    verdict: Verdict
    improved: bool
    within_margin: bool  # significantly worse, by less than the margin
    margin: float
    compared: int  # items
    worse: int  # of the items that are compared
    equal: int
    baseline_mean: float | None  # over the items that are compared
    candidate_mean: float | None
    delta: float
    interval: Interval
    method: Method
    p_value: float
    adjusted_p_value: float
    smallest_detectable: float | None
    items_needed: int | None  # to prove the margin, if nothing changed
    unscored: Mapping[str, tuple[int, int]]  # by kind: of the baseline, of the candidate
    unsettled: bool  # the candidate's trials without a score, taken as fails, would move the verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    method: Method
    p_value: float
    interval: Interval
    spread: float  # standard deviation of an item's difference


def difference_of(measure: Measure, places: tuple[NDArray[np.intp], NDArray[np.intp]], options: Options) -> Difference:
    """Compare two runs by one measure; the verdict is set after Holm's correction.

    `places` are the indices of the paired items in each run.

    """
    settled = measure.settled(options)
    before, after = settled.baseline.means()[places[0]], settled.candidate.means()[places[1]]
    both = ~np.isnan(before) & ~np.isnan(after)
    before, after = before[both], after[both]
    test = _paired(settled, before, after, options)
    changes = measure.sign * (after - before)
    count = before.size
    error = test.spread / math.sqrt(count) if count else math.inf
    margin = options.margin_of(measure.name)
    delta = float(after.mean() - before.mean()) if count else 0.0
    return Difference(
        name=measure.name,
        better=measure.better,
        verdict="inconclusive",
        improved=False,
        within_margin=False,
        margin=margin,
        compared=count,
        worse=int((changes < -options.epsilon).sum()),
        equal=int((np.abs(changes) <= options.epsilon).sum()),
        baseline_mean=float(before.mean()) if before.size else None,
        candidate_mean=float(after.mean()) if after.size else None,
        delta=delta,
        interval=test.interval,
        method=test.method,
        p_value=test.p_value,
        adjusted_p_value=test.p_value,
        smallest_detectable=smallest_difference(error, options.alpha, options.power) if count > 1 else None,
        items_needed=items_needed(test.spread, margin, options.alpha, options.power) if count > 1 and margin else None,
        unscored=unscored_of(measure),
        unsettled=False,
    )


def decided(difference: Difference, adjusted_p_value: float, options: Options) -> Difference:
    """Return the difference with its verdict, from the interval and the p-value corrected for all evaluators."""
    low, high = difference.interval.low, difference.interval.high
    if difference.better == "lower":
        low, high = -high, -low
    gain = difference.delta if difference.better == "higher" else -difference.delta
    sure = adjusted_p_value < options.alpha and abs(gain) > options.epsilon
    lost, proven = sure and gain < 0 and high < 0, low > -difference.margin and difference.compared > 0
    return replace(
        difference,
        adjusted_p_value=adjusted_p_value,
        improved=sure and low > 0,
        within_margin=lost and proven,
        verdict="not_worse" if proven else "regressed" if lost else "inconclusive",
    )


def _paired(measure: Measure, before: Numbers, after: Numbers, options: Options) -> _Found:
    confidence, changes = 1 - options.alpha, after - before
    if not changes.size:
        return _Found(method="none", p_value=1.0, interval=EVERYTHING, spread=math.inf)
    spread = float(changes.std(ddof=1)) if changes.size > 1 else 0.0
    spread = spread or float(np.concatenate([changes, [1.0, -1.0]]).std())
    changed = int((np.abs(changes) > options.epsilon).sum())
    is_pass_or_fail = measure.baseline.is_pass_or_fail and measure.candidate.is_pass_or_fail
    if is_pass_or_fail and bool((np.isin(before, (0, 1)) & np.isin(after, (0, 1))).all()) and _single(measure):
        return _flips(before, after, spread, options)
    few = changed < (FEW_FLIPS if is_pass_or_fail else FEW_CHANGES)
    return _Found(
        method="signs",
        p_value=signs_p_value(changes, options.draws, measure.name),
        interval=cautious_interval(changes, confidence) if few else t_interval(changes, confidence),
        spread=spread,
    )


def _single(measure: Measure) -> bool:
    # By number of trials, not by scores: rounded repeats look like passes and fails.
    return all(
        int((side.outcomes > 0).sum(axis=1).max(initial=0)) <= 1 for side in (measure.baseline, measure.candidate)
    )


def _flips(before: Numbers, after: Numbers, spread: float, options: Options) -> _Found:
    pairs = Pairs(
        both=int(((before == 1) & (after == 1)).sum()),
        worse=int((before > after).sum()),
        better=int((before < after).sum()),
        neither=int(((before == 0) & (after == 0)).sum()),
    )
    return _Found(
        method="mcnemar_mid_p",
        p_value=mcnemar_mid_p(pairs.worse, pairs.better) if pairs.worse + pairs.better else 1.0,
        interval=bonett_price(pairs, 1 - options.alpha),
        spread=spread,
    )
