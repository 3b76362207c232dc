"""The published coverage of intervals, and what p-values are when nothing changed; exactly, or by seeded simulation."""

import numpy as np
import pytest
import scipy  # whose part `stats` takes two seconds, once it is asked for
from numpy.typing import NDArray

from rules.statistics.formulas.judge_error import (
    JudgeAccuracy,
    MeasuredShare,
    Stratum,
    lang_reiczigel,
    prediction_powered,
    stratified,
)
from rules.statistics.formulas.pairs import fisher, mcnemar_exact, mcnemar_mid_p
from rules.statistics.formulas.quantiles import around
from rules.statistics.formulas.rates import Pairs, bonett_price
from rules.statistics.formulas.resampling import (
    Draws,
    assignment_p_value,
    signs_p_value,
    t_interval,
)
from rules.statistics.intervals import Interval
from rules.statistics.runs.options import Options
from rules.statistics.runs.ratios import ratio_of
from rules.statistics.runs.records import SCORED, ComparedEvaluator, FinishedRun, JudgedItem

pytestmark = pytest.mark.simulation

LEVELS = (0.01, 0.05, 0.1, 0.2, 0.5)


def holds(interval: Interval, truth: float) -> bool:
    """Return whether an interval contains the true value, its ends included."""
    return interval.low - 1e-12 <= truth <= interval.high + 1e-12


@pytest.mark.parametrize("count, published", [(10, 0.87), (20, 0.95)])
def test_few_pairs_are_covered_as_published(count: int, published: float) -> None:
    """With 15 % worse and 5 % better Student's interval covers 87 % with 10 pairs, and 95 % with 20."""
    # Weighed over all samples that can be, so within the error of the published simulation.
    covered = 0.0
    for worse in range(count + 1):
        for better in range(count + 1 - worse):
            same = count - worse - better
            likely = float(scipy.stats.multinomial.pmf([worse, better, same], count, [0.15, 0.05, 0.8]))
            if likely < 1e-7:
                continue
            changes = np.repeat([-1.0, 1.0, 0.0], [worse, better, same])
            covered += likely * holds(t_interval(changes), -0.1)
    assert covered == pytest.approx(published, abs=0.02)


def test_twenty_pairs_are_covered_as_published() -> None:
    """With 10 % worse and 3 % better, weighed over all tables of 20 pairs that can be."""
    coverage, shares = 0.0, [0.1, 0.03, 0.7, 0.17]
    for worse in range(12):
        for better in range(8):
            same = 20 - worse - better
            both = np.arange(max(0, same) + 1)
            if same < 0:
                continue
            tables = np.stack([np.full_like(both, worse), np.full_like(both, better), both, same - both], axis=1)
            likely = scipy.stats.multinomial.pmf(tables, 20, shares)
            for count, chance in zip(both.tolist(), likely.tolist(), strict=True):
                pairs = Pairs(both=count, worse=worse, better=better, neither=same - count)
                coverage += chance * holds(bonett_price(pairs, 0.95), -0.07)
    assert coverage == pytest.approx(0.996, abs=0.006)


@pytest.mark.parametrize(
    "rate, errors, counts, covered",
    [
        (0.95, (0.97, 0.7), (500, 40, 20), (0.81, 0.99)),
        (0.8, (0.95, 0.6), (1_000, 100, 40), (0.08, 0.96)),
    ],
)
def test_a_judges_rate_is_covered_as_published(
    rate: float, errors: tuple[float, float], counts: tuple[int, int, int], covered: tuple[float, float]
) -> None:
    """The true rate lies in the judge's own interval as seldom as published, and in the corrected one as often."""
    generator, hits, draws = np.random.default_rng(counts[0]), np.zeros(2), 3_000
    passes = rate * errors[0] + (1 - rate) * (1 - errors[1])
    for seen, right, refused in generator.binomial(counts, (passes, *errors), (draws, 3)).tolist():
        judged = MeasuredShare(share=seen / counts[0], count=counts[0])
        judge = JudgeAccuracy(
            sensitivity=MeasuredShare(share=right / counts[1], count=counts[1]),
            specificity=MeasuredShare(share=refused / counts[2], count=counts[2]),
        )
        coverage = (
            around(judged.share, 1.96 * (judged.share * (1 - judged.share) / judged.count) ** 0.5),
            lang_reiczigel(judged, judge).interval,
        )
        hits += [holds(each, rate) for each in coverage]
    assert (hits / draws).tolist() == pytest.approx(covered, abs=0.02)


def test_labels_and_a_judge_together_cover_the_true_rate() -> None:
    """PPI++ with 150 labels, and labels drawn by the verdict, cover 95 % of 2,000 samples within two points."""
    generator, hits = np.random.default_rng(9), np.zeros(2)
    for _ in range(2_000):
        truth = generator.random(1_150) < 0.7
        judged = np.where(truth, generator.random(1_150) < 0.9, generator.random(1_150) < 0.3)
        passed = 0.7 * 0.9 + 0.3 * 0.3
        right = generator.binomial((60, 60), (0.7 * 0.9 / passed, 0.7 * 0.1 / (1 - passed))).tolist()
        strata = [
            Stratum(share=share, passes=count, labels=60)
            for share, count in zip((passed, 1 - passed), right, strict=True)
        ]
        powered = prediction_powered(truth[:150], judged[:150], judged[150:])
        hits += (holds(powered.interval, 0.7), holds(stratified(strata).interval, 0.7))
    assert (hits / 2_000).tolist() == pytest.approx([0.95, 0.95], abs=0.02)


def a_run(latency_ms: NDArray[np.float64]) -> FinishedRun:
    """Build a run of which only the times matter."""
    shape = (1, *latency_ms.shape)
    return FinishedRun(
        items=[JudgedItem(key=str(at)) for at in range(len(latency_ms))],
        evaluators=[ComparedEvaluator(name="a")],
        outcomes=np.full(shape, SCORED, dtype=np.uint8),
        scores=np.ones(shape),
        passed=np.ones(shape),
        latency_ms=latency_ms,
    )


def test_a_ratio_of_times_is_covered_and_its_p_value_uniform() -> None:
    """Of 600 pairs of runs 95 % have the true ratio in their interval, and without a change every p is as likely."""
    generator, hits, p_values = np.random.default_rng(10), 0, []
    places = (np.arange(25), np.arange(25))
    options = Options(draws=Draws(count=999))
    for _ in range(600):
        before, after = generator.lognormal(5, 0.6, (2, 25, 1))
        slower = ratio_of("latency_ms", a_run(before), a_run(1.3 * after), places, options)
        equal = ratio_of("latency_ms", a_run(before), a_run(after), places, options)
        assert slower is not None
        assert equal is not None
        hits += holds(slower.interval, 1.3)
        p_values.append(equal.p_value)
    assert hits / 600 == pytest.approx(0.95, abs=0.03)
    assert scipy.stats.kstest(p_values, "uniform").pvalue > 0.001


@pytest.mark.parametrize("level", [0.01, 0.05, 0.1])
def test_flips_that_are_fair_coins_reach_a_level_as_often_as_it_says(level: float) -> None:
    """The exact test never exceeds its level and wastes some; the mid-p test keeps it over all numbers of flips."""
    reached = []
    for flips in range(8, 101):
        chances = scipy.stats.binom.pmf(np.arange(flips + 1), flips, 0.5)
        p_values = [(mcnemar_exact(at, flips - at), mcnemar_mid_p(at, flips - at)) for at in range(flips + 1)]
        reached.append((chances[:, None] * (np.array(p_values) <= level)).sum(axis=0))
    exact, mid = np.array(reached).T
    assert exact.max() <= level + 1e-9
    assert exact.mean() < 0.85 * level
    assert mid.mean() == pytest.approx(level, rel=0.12)


@pytest.mark.parametrize("rate", [0.3, 0.85])
def test_fishers_test_reaches_a_level_at_most_as_often_as_it_says(rate: float) -> None:
    """Of different items with one rate, weighed over all pairs of 25 and 30 items."""
    one, other = scipy.stats.binom.pmf(np.arange(26), 25, rate), scipy.stats.binom.pmf(np.arange(31), 30, rate)
    p_values = np.array([[fisher((a, 25), (b, 30)) for b in range(31)] for a in range(26)])
    for level in LEVELS:
        assert float((np.outer(one, other) * (p_values <= level)).sum()) <= level + 1e-9


@pytest.mark.parametrize("count", [9, 40, 400])
def test_p_values_by_chance_are_uniform(count: int) -> None:
    """Signs of all kinds (tried, counted, drawn by eights) and random assignment, of 600 samples without a change."""
    generator, signs, assigned = np.random.default_rng(count), [], []
    for draw in range(600):
        draws = Draws(seed=draw, count=999)
        signs.append(signs_p_value(generator.standard_t(4, count), draws))
        if count < 400:
            one, other = generator.random((2, count))
            assigned.append(assignment_p_value(one, other, draws))
    for p_values in filter(None, (signs, assigned)):
        assert scipy.stats.kstest(p_values, "uniform").pvalue > 0.001
        for level in LEVELS:
            share = float((np.array(p_values) <= level).mean())
            assert share == pytest.approx(level, abs=4 * (level * (1 - level) / 600) ** 0.5 + 0.004)
