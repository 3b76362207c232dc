"""The coverage of each interval of the formulas, exactly or by seeded simulation."""

from collections.abc import Callable

import numpy as np
import pytest
import scipy  # whose part `stats` takes two seconds, once it is asked for

from rules.statistics.formulas.judge_error import JudgeAccuracy, MeasuredShare, lang_reiczigel
from rules.statistics.formulas.rates import (
    Pairs,
    bonett_price,
    newcombe_two_samples,
    wilson,
)
from rules.statistics.formulas.resampling import (
    cautious_interval,
    t_interval,
)
from rules.statistics.intervals import Interval

pytestmark = pytest.mark.simulation

RATES = np.linspace(0.05, 0.95, 19)


def covered_rates(interval: Callable[[int, int, float], Interval], count: int, confidence: float) -> list[float]:
    """Return the exact share of binomial samples whose interval holds the rate, for each of the rates."""
    intervals = [interval(passes, count, confidence) for passes in range(count + 1)]
    return [
        sum(
            float(scipy.stats.binom.pmf(k, count, rate))
            for k, each in enumerate(intervals)
            if each.low <= rate <= each.high
        )
        for rate in RATES.tolist()
    ]


def covered_pairs(interval: Callable[[Pairs, float], Interval], count: int, confidence: float) -> float:
    """Return the share of 2,000 samples of pairs (10 % worse, 3 % better) whose interval holds the difference."""
    generator, hits = np.random.default_rng(count), 0
    for both, worse, better, neither in generator.multinomial(count, [0.7, 0.1, 0.03, 0.17], 2_000).tolist():
        computed = interval(Pairs(both=both, worse=worse, better=better, neither=neither), confidence)
        hits += computed.low <= -0.07 <= computed.high
    return hits / 2_000


@pytest.mark.parametrize("confidence", [0.8, 0.95])
@pytest.mark.parametrize("count", [10, 50])
def test_wilson_covers_the_average_rate(count: int, confidence: float) -> None:
    """Over all rates the coverage of Wilson's interval is about its confidence."""
    assert abs(float(np.mean(covered_rates(wilson, count, confidence))) - confidence) < 0.02


@pytest.mark.parametrize("count", [20, 100])
def test_the_interval_of_pairs_covers_what_it_says(count: int) -> None:
    """At 95 % it covers at least 94 % of samples, and at 80 % it is shorter and covers less."""
    assert covered_pairs(bonett_price, count, 0.95) >= 0.94
    assert 0.77 <= covered_pairs(bonett_price, count, 0.8) < covered_pairs(bonett_price, count, 0.95)


def test_newcombe_covers_the_difference_of_two_samples() -> None:
    """At 95 % at least 94 % of 2,000 samples of 40 and 60 items."""
    generator = np.random.default_rng(1)
    before, after = generator.binomial(40, 0.85, 2_000).tolist(), generator.binomial(60, 0.7, 2_000).tolist()
    intervals = [newcombe_two_samples((b, 40), (a, 60)) for b, a in zip(before, after, strict=True)]
    assert sum(each.low <= -0.15 <= each.high for each in intervals) / 2_000 >= 0.94


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_students_interval_covers_exactly_what_it_says(confidence: float) -> None:
    """Of normal values it covers the level, within three standard errors of 2,000 samples."""
    generator, hits = np.random.default_rng(2), 0
    for _ in range(2_000):
        computed = t_interval(generator.normal(0.1, 0.3, 12), confidence)
        hits += computed.low <= 0.1 <= computed.high
    error = 3 * (confidence * (1 - confidence) / 2_000) ** 0.5
    assert abs(hits / 2_000 - confidence) < error + 0.005


def test_the_cautious_interval_covers_where_hardly_any_item_changed() -> None:
    """Of 15 items with three trials, of which one in twenty changes, it covers at least 95 % of 1,000 samples."""
    generator, hits = np.random.default_rng(3), 0
    for _ in range(1_000):
        changes = generator.choice([0.0, -1 / 3, 1 / 3], size=15, p=[0.95, 0.04, 0.01])
        computed = cautious_interval(changes, 0.95)
        hits += computed.low <= -0.01 <= computed.high
    assert hits / 1_000 >= 0.95


def test_lang_and_reiczigel_cover_the_rate_behind_a_judge() -> None:
    """With 100 and 40 labels it covers at least 93 % of 1,000 samples, while the judge's own rate is mostly wrong."""
    generator, hits = np.random.default_rng(5), 0
    for _ in range(1_000):
        judged, right, refused = generator.binomial([1_000, 100, 40], [0.84, 0.95, 0.6]).tolist()
        judge = JudgeAccuracy(
            sensitivity=MeasuredShare(share=right / 100, count=100),
            specificity=MeasuredShare(share=refused / 40, count=40),
        )
        computed = lang_reiczigel(MeasuredShare(share=judged / 1_000, count=1_000), judge).interval
        hits += computed.low <= 0.8 <= computed.high
    assert hits / 1_000 >= 0.93
