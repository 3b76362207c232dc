"""The evidence that a candidate is worse than a baseline: its guarantees, enumerated and for any results."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.statistics.intervals import interval
from rules.statistics.sample import NOTHING, POINTS, Sample, WeightTally, in_results
from rules.statistics.two_sample import contest, least, log_evidence, refuted_mean
from rules.statistics.watch import NOTHING_SEEN, Watch, since_ever
from rules.statistics.wealth import BASELINE, CANDIDATE, Stakes, log_wealth_lower, log_wealth_of_baselines

pytestmark = pytest.mark.simulation

ROUNDING = 1e-9
MEANS = (0.02, 0.3, 0.5, 0.8, 0.92, 0.99)
MARGINS = (0.0, 0.01, 0.15)

scores = st.lists(st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1)), max_size=40)
margins = st.sampled_from(MARGINS)


def sequences(length: int) -> Iterator[tuple[int, ...]]:
    """Return all outcomes of `length` results that pass or fail."""
    return itertools.product((0, 1), repeat=length)


def chance(passes: int, results: int, mean: float) -> float:
    """Return the probability of one sequence of `results` results with `passes` passes."""
    return float(mean**passes * (1 - mean) ** (results - passes))


@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("mean", MEANS)
def test_the_evidence_has_a_mean_of_at_most_one_without_a_drop(mean: float, margin: float) -> None:
    """Summed over all outcomes of 9 baseline and 9 candidate results, at the null's edge, the mean is at most 1."""
    lower = max(mean - margin, 0.0)
    total = 0.0
    for before, after in itertools.product(range(10), range(10)):
        weight = math.comb(9, before) * chance(before, 9, mean) * math.comb(9, after) * chance(after, 9, lower)
        total += weight * math.exp(log_evidence(Sample.of_passes(before, 9), Sample.of_passes(after, 9), margin))
    assert total <= 1 + ROUNDING


@pytest.mark.parametrize(
    "before, after",
    [
        ({0.0: 0.3, 0.5: 0.2, 1.0: 0.5}, {0.0: 0.4, 1.0: 0.6}),
        ({0.0: 0.4, 1.0: 0.6}, {0.37: 0.5, 0.83: 0.5}),
        ({0.2: 0.5, 0.61: 0.3, 0.9: 0.2}, {0.2: 0.5, 0.61: 0.3, 0.9: 0.2}),
    ],
)
def test_scores_of_any_shape_are_no_evidence_without_a_drop(
    before: dict[float, float], after: dict[float, float]
) -> None:
    """Summed over all outcomes of 5 and 5 scores whose means are alike but not their shapes, the mean is at most 1."""

    def outcomes(shape: dict[float, float]) -> Iterator[tuple[float, Sample]]:
        for drawn in itertools.combinations_with_replacement(shape, 5):
            orders = math.factorial(5) / math.prod(math.factorial(drawn.count(score)) for score in shape)
            yield orders * math.prod(shape[score] for score in drawn), Sample.of_scores(drawn)

    pairs = itertools.product(outcomes(before), outcomes(after))
    total = sum(one * other * math.exp(log_evidence(first, second)) for (one, first), (other, second) in pairs)
    assert 0.5 < total <= 1 + ROUNDING


@pytest.mark.parametrize("mean", MEANS)
def test_stopping_when_it_looks_best_does_not_lift_the_mean(mean: float) -> None:
    """Stopping at a wealth of 1.15, with results of both sides alternating, still has an expectation of at most 1."""
    known: dict[tuple[int, int, int, int], float] = {}

    def evidence(outcome: tuple[int, ...]) -> float:
        before, after = outcome[::2], outcome[1::2]
        key = (sum(before), len(before), sum(after), len(after))
        if key not in known:
            known[key] = math.exp(log_evidence(Sample.of_passes(*key[:2]), Sample.of_passes(*key[2:]), planned=7))
        return known[key]

    total, stopped = 0.0, 0
    for outcome in sequences(14):
        path = (evidence(outcome[:end]) for end in range(1, 15))
        at_best = next((value for value in path if value >= 1.15), None)
        stopped += at_best is not None
        total += chance(sum(outcome), 14, mean) * (evidence(outcome) if at_best is None else at_best)
    assert stopped > 100
    assert total <= 1 + ROUNDING


@pytest.mark.parametrize("margin", [0.0, 0.15])
@pytest.mark.parametrize("mean", MEANS)
def test_a_false_alarm_is_as_rare_as_promised(mean: float, margin: float) -> None:
    """Of all outcomes of 8 baseline and 9 candidate results, alarms at alpha 40 % have at most 40 %."""
    log_threshold = -math.log(0.4)
    lower = max(mean - margin, 0.0)
    total = 0.0
    for before in range(9):
        baseline = Sample.of_passes(before, 8)
        refuted = refuted_mean(baseline, 8, log_threshold)

        @cache
        def alarms(passes: int, results: int, baseline: Sample = baseline, refuted: float = refuted) -> bool:
            tested = contest(baseline, Sample.of_passes(passes, results), margin)
            return least(replace(tested, floor=refuted)).log_evidence >= log_threshold

        for outcome in sequences(9):
            if any(alarms(sum(outcome[:end]), end) for end in range(1, 10)):
                total += math.comb(8, before) * chance(before, 8, mean) * chance(sum(outcome), 9, lower)
    assert total <= 0.4


@given(sample=scores, planned=st.integers(1, 100), log_threshold=st.floats(0, 5))
def test_a_refuted_mean_is_refuted(sample: list[float], planned: int, log_threshold: float) -> None:
    """A baseline has the evidence wanted against the mean that it refutes, and not against one a little above."""
    baseline = Sample.of_scores(sample)
    mean = refuted_mean(baseline, planned, log_threshold)
    weights, plan = in_results([baseline.dense()]), np.array([planned])
    wealth = log_wealth_of_baselines(weights, plan, POINTS, np.array([mean, min(mean + 0.001, 1.0)]))[:, 0]
    assert mean == 0 or wealth[0] >= log_threshold
    assert mean > 0.99 or wealth[1] < log_threshold


@given(before=scores, after=scores, margin=margins)
def test_the_order_of_results_does_not_matter(before: list[float], after: list[float], margin: float) -> None:
    """Sorted results make the very same evidence."""
    evidence = log_evidence(Sample.of_scores(before), Sample.of_scores(after), margin)
    assert log_evidence(Sample.of_scores(sorted(before)), Sample.of_scores(sorted(after)), margin) == evidence


@given(before=scores, after=scores, margin=margins, grid=st.integers(1, 200))
def test_the_evidence_is_below_every_single_bet(
    before: list[float], after: list[float], margin: float, grid: int
) -> None:
    """At any mean of the baseline the product of the wealths is at least the evidence, and somewhere hardly more."""
    tested = contest(Sample.of_scores(before), Sample.of_scores(after), margin)
    evidence = least(tested)
    products = tested.terms(*(np.linspace(0, 1, grid + 1),) * 2)[:, 0]
    assert evidence.log_evidence <= products.min() + ROUNDING
    assert evidence.log_evidence <= evidence.above <= evidence.log_evidence + 0.02


@given(before=scores, after=scores, low=margins, more=st.floats(0, 0.2))
def test_a_greater_margin_leaves_less_evidence(
    before: list[float], after: list[float], low: float, more: float
) -> None:
    """Evidence falls with the margin, and when the candidate becomes better or the baseline worse."""
    baseline, candidate = Sample.of_scores(before), Sample.of_scores(after)
    evidence = log_evidence(baseline, candidate, low)
    slack = 0.01  # of the search for the least
    assert log_evidence(baseline, candidate, low + more) <= evidence + slack
    better = Sample.of_scores([min(score + more, 1.0) for score in after])
    assert log_evidence(baseline, better, low) <= evidence + slack
    worse = Sample.of_scores([max(score - more, 0.0) for score in before])
    assert log_evidence(worse, candidate, low) <= evidence + slack


@given(values=scores)
def test_splitting_a_score_keeps_the_mean_and_lowers_the_wealth(values: list[float]) -> None:
    """The weights have the mean of the scores, and no bet has grown to more than it would have with the scores."""
    sample = Sample.of_scores(values)
    rounded = [sum(part * weight for part, weight in Sample.of_scores([v]).weights) / (32 * 2048) for v in values]
    assert sample.count == len(values)
    assert sample.mean == pytest.approx(sum(rounded) / max(len(rounded), 1))
    weights, exact = in_results([sample.dense()]), np.ones((1, len(values)))
    means = np.array([0.1, 0.5, 0.93])
    higher = partial(log_wealth_of_baselines, planned=np.array([20]))
    for wealth in (higher, log_wealth_lower):
        kept = wealth(weights, points=POINTS, means=means)
        unsplit = wealth(exact, points=np.array(rounded), means=means)
        assert np.all(kept <= unsplit + ROUNDING)


@pytest.mark.parametrize("spread", [BASELINE, CANDIDATE], ids=["baseline", "candidate"])
def test_the_stakes_are_one_gamblers(spread: Stakes) -> None:
    """The parts of the first stake sum to 1, and some of it is never staked."""
    assert np.exp(spread.log_parts).sum() == pytest.approx(1)
    assert spread.shares.min() == 0


@given(values=scores, planned=st.integers(1, 5_000), first=st.floats(0, 1), second=st.floats(0, 1))
def test_wealth_is_monotone_in_the_mean_that_is_bet_against(
    values: list[float], planned: int, first: float, second: float
) -> None:
    """Betting on a higher mean falls with the mean that it is against, and betting on a lower one grows."""
    weights, means = in_results([Sample.of_scores(values).dense()]), np.array(sorted((first, second)))
    higher = log_wealth_of_baselines(weights, np.array([planned]), POINTS, means)[:, 0]
    lower = log_wealth_lower(weights, POINTS, means)[:, 0]
    assert higher[0] >= higher[1] - ROUNDING
    assert lower[0] <= lower[1] + ROUNDING


@given(first=scores, second=scores)
def test_samples_add_up(first: list[float], second: list[float]) -> None:
    """The sample of all results is the sum of the samples, and taking one away gives the other."""
    together = Sample.of_scores(first + second)
    assert Sample.of_scores(first) + Sample.of_scores(second) == together
    assert together - Sample.of_scores(first) == Sample.of_scores(second)
    assert together.mirrored.mirrored == together


@given(values=scores, alpha=st.floats(0.001, 0.4), smaller=st.floats(0.1, 1.0))
def test_intervals_hold_the_mean_and_each_other(values: list[float], alpha: float, smaller: float) -> None:
    """An interval contains the observed mean, and the interval of a smaller alpha contains that interval."""
    sample = Sample.of_scores(values)
    computed, wider = interval(sample, alpha), interval(sample, alpha * smaller)
    assert 0 <= wider.low <= computed.low <= computed.high <= wider.high <= 1
    if values:
        assert computed.low <= sample.mean <= computed.high
    mirrored = interval(sample.mirrored, alpha)
    assert (mirrored.low, mirrored.high) == pytest.approx((1 - computed.high, 1 - computed.low))


@pytest.mark.parametrize("mean", [0.5, 0.92, 0.99])
def test_intervals_miss_the_mean_at_most_as_often_as_they_say(mean: float) -> None:
    """Of 200 streams, looked at 20 times, at alpha 20 % no more than 40 leave the mean out even once."""
    generator = np.random.default_rng(7)
    known: dict[tuple[int, int], bool] = {}

    def missed(passes: int, results: int) -> bool:
        if (passes, results) not in known:
            computed = interval(Sample.of_passes(passes, results), 0.2)
            known[passes, results] = not computed.low <= mean <= computed.high
        return known[passes, results]

    misses = 0
    for _ in range(200):
        passes = np.cumsum(generator.random(600) < mean)
        misses += any(missed(int(passes[at]), at + 1) for at in range(0, 600, 30))
    assert 0 < misses <= 40


@given(
    before=st.lists(st.booleans(), min_size=1, max_size=60),
    after=st.lists(st.tuples(st.booleans(), st.booleans()), max_size=120),
    margin=margins,
)
def test_a_watch_speaks_exactly_when_the_evidence_is_there(
    before: list[bool], after: list[tuple[bool, bool]], margin: float
) -> None:
    """In any order of both sides' results, a watch finds what the samples show as soon as they do."""
    log_threshold = 1.0
    baseline, candidate = WeightTally(Sample.of_scores(map(float, before))), WeightTally()
    watch = Watch(since_ever(baseline.sample(), NOTHING, log_threshold), margin=margin, log_threshold=log_threshold)
    refuted = refuted_mean(baseline.sample(), len(before), log_threshold)
    for passed, is_candidate in after:
        point = 32 * passed
        if not is_candidate:
            baseline.add(point, 0)
            watch.add_baseline(point, 0)
            continue
        candidate.add(point, 0)
        alarm = watch.found() if watch.add(point, 0) else None
        tested = contest(baseline.sample(), candidate.sample(), margin, len(before))
        expected = least(replace(tested, floor=refuted)).log_evidence
        assert (alarm is not None) == (expected >= log_threshold)
        if alarm is not None:
            assert alarm.log_evidence == pytest.approx(expected)
            assert (alarm.baseline, alarm.candidate) == (baseline.sample(), candidate.sample())
            return


def test_a_watch_of_nothing_is_silent() -> None:
    """Without a start nothing is found, whatever comes."""
    watch = Watch(NOTHING_SEEN, margin=0.0, log_threshold=0.0)
    assert [watch.found() for _ in range(50) if watch.add(0, 0)] == [None] * 50


def test_the_evidence_of_the_plain_cases() -> None:
    """No results are not evidence, equal ones speak against a drop, and ten failures in a row prove it."""
    baseline = Sample.of_passes(460, 500)
    assert log_evidence(NOTHING, NOTHING) <= 0
    assert log_evidence(baseline, NOTHING) <= 0
    assert log_evidence(baseline, baseline) < 0
    assert log_evidence(baseline, Sample.of_passes(0, 10)) > math.log(20)
    assert log_evidence(baseline, Sample.of_passes(10, 10)) < 0
