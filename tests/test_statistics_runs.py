"""Two runs compared: the verdict in three, what may never pass silently, and what holds for any runs."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.statistics.formulas.resampling import Draws
from rules.statistics.runs.comparison import Comparison, Incomparable, compare
from rules.statistics.runs.items import compare_items
from rules.statistics.runs.options import Options
from rules.statistics.runs.records import SCORED, ComparedEvaluator, FinishedRun, JudgedItem, TrialResult, run_of

QUICK = Options(draws=Draws(count=500))
QUARTERS = st.sampled_from([0, 0.25, 0.5, 1])


def a_run(
    *scores: Any, name: str = "exact", threshold: Any = 0.5, better: str = "higher", **evaluator: Any
) -> FinishedRun:
    """Build a run of these scores, one or several trials an item; None is a failure."""
    trials = [each if isinstance(each, Sequence) else (each,) for each in scores]
    lower = better == "lower"
    return run_of(
        [JudgedItem(key=f"item-{at}", metadata={"half": str(2 * at // len(trials))}) for at in range(len(trials))],
        [ComparedEvaluator(name=name, threshold=threshold, better="lower" if lower else "higher", **evaluator)],
        [
            TrialResult(item=f"item-{at}", evaluator=name, trial=trial, outcome="failed")
            if score is None
            else TrialResult(
                item=f"item-{at}",
                evaluator=name,
                trial=trial,
                score=score,
                passed=score <= threshold if lower else score >= threshold,
            )
            for at, each in enumerate(trials)
            for trial, score in enumerate(each)
        ],
    )


def flipped(worse: int, better: int, count: int) -> Comparison:
    """Return runs of pass and fail with these numbers of flips."""
    before = [1] * worse + [0] * better + [1] * (count - worse - better)
    after = [0] * worse + [1] * better + [1] * (count - worse - better)
    return compare(a_run(*before), a_run(*after), QUICK)


@pytest.mark.parametrize(
    "worse, better, count, margin, verdict",
    [
        (3, 1, 50, 0.05, "inconclusive"),
        (3, 1, 400, 0.02, "not_worse"),
        (12, 2, 50, 0.05, "regressed"),
        (0, 0, 53, 0.05, "inconclusive"),
        (0, 0, 54, 0.05, "not_worse"),
    ],
)
def test_verdicts_are_the_known_ones(worse: int, better: int, count: int, margin: float, verdict: str) -> None:
    """Flips have the verdicts that the interval and the margin give, and no flip proves nothing of few items."""
    before = [1] * worse + [0] * better + [1] * (count - worse - better)
    after = [0] * worse + [1] * better + [1] * (count - worse - better)
    assert compare(a_run(*before), a_run(*after), replace(QUICK, margin=margin)).verdict == verdict


def test_worse_within_the_margin_is_tolerated_and_told() -> None:
    """A loss that is sure and smaller than the margin is not worse, and is marked."""
    before, after = [1] * 2_000, [0] * 20 + [1] * 1_980
    comparison = compare(a_run(*before), a_run(*after), replace(QUICK, margin=0.05))
    assert (comparison.verdict, comparison.differences[0].within_margin) == ("not_worse", True)


def test_lower_is_better_is_turned_around() -> None:
    """The same rise is a regression where lower is better and an improvement where higher is."""
    before, after = [0.2 + at / 1000 for at in range(40)], [0.5 + at / 900 for at in range(40)]
    up = compare(a_run(*before), a_run(*after), QUICK)
    down = compare(a_run(*before, better="lower"), a_run(*after, better="lower"), QUICK)
    assert (up.verdict, up.differences[0].improved) == ("not_worse", True)
    assert (down.verdict, down.differences[0].improved) == ("regressed", False)
    assert all(item.worse for item in down.items)


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_a_score_that_is_no_number_is_a_failure(score: float) -> None:
    """NaN and infinity are counted as failed, and never as a pass."""
    comparison = compare(a_run(*[1.0] * 60), a_run(*[1.0] * 59, score), QUICK)
    assert comparison.differences[0].unscored["failed"] == (0, 1)


@pytest.mark.parametrize(
    "policy, verdict",
    [("check", "inconclusive"), ("exclude", "not_worse"), ("worst", "regressed"), ("refuse", "regressed")],
)
def test_what_is_not_scored_does_what_was_chosen(policy: Any, verdict: str) -> None:
    """Twelve failures of a hundred items change the verdict according to the setting, and are always reported."""
    options = replace(QUICK, unscored={"failed": policy})
    comparison = compare(a_run(*[1] * 100), a_run(*[None] * 12, *[1] * 88), options)
    assert comparison.verdict == verdict
    assert any("12 failed" in warning for warning in comparison.warnings)


def test_nothing_comparable_is_inconclusive() -> None:
    """Runs without a common scored item prove nothing, and without a common evaluator are refused."""
    assert compare(a_run(1, 1), a_run(None, None), QUICK).verdict == "inconclusive"
    with pytest.raises(Incomparable, match=r"in common: the baseline has 'exact', the candidate 'other'"):
        compare(a_run(1), a_run(1, name="other"), QUICK)
    with pytest.raises(Incomparable, match=r"in common of those that are chosen: the baseline has 'exact'"):
        compare(a_run(1), a_run(1), replace(QUICK, evaluators=("other",)))


def test_another_fingerprint_is_refused_and_another_threshold_told() -> None:
    """Scores of two evaluators that share a name are not compared, and a new threshold is a warning."""
    with pytest.raises(Incomparable, match="fingerprint was a and is b"):
        compare(a_run(1, fingerprint="a"), a_run(1, fingerprint="b"), QUICK)
    comparison = compare(a_run(1, threshold=0.5), a_run(1, threshold=0.6), QUICK)
    assert comparison.warnings == ("the threshold of exact was 0.5 and is 0.6",)


@pytest.mark.parametrize("has_failed_before", [True, False])
def test_an_evaluator_that_only_failed_has_no_terms_of_its_own(*, has_failed_before: bool) -> None:
    """No other threshold or direction is reported for it, and as fails its trials are the worst by the other run's."""
    failed, scored = a_run(None, None, threshold=None), a_run(0.1, 0.2, better="lower")
    runs = (failed, scored) if has_failed_before else (scored, failed)
    worst = Options(draws=Draws(count=500), unscored={"failed": "worst"})
    for comparison in (compare(*runs, QUICK), compare_items(*runs, QUICK), compare(*runs, worst)):
        assert not any("threshold" in each for each in comparison.warnings)
    (difference, *_) = compare(*runs, worst).differences
    assert (difference.baseline_mean if has_failed_before else difference.candidate_mean) == 1.0


def test_repeats_are_never_rounded() -> None:
    """With trials the item means are compared by signs, also where each rounds to a flip."""
    comparison = compare(a_run(*[(1, 1, 0)] * 30), a_run(*[(1, 0, 0)] * 30), QUICK)
    assert comparison.differences[0].method == "signs"
    assert comparison.differences[0].delta == pytest.approx(-1 / 3)
    assert comparison.verdict == "regressed"
    assert comparison.items[0].flip == "to_fail"


def test_floors_and_severity_fail_by_single_items() -> None:
    """An item below its floor, or that lost more than is allowed, fails whatever the others do."""
    before, after = a_run(*[(1, 1, 1)] * 100), a_run((1, 0, 0), *[(1, 1, 1)] * 99)
    assert compare(before, after, QUICK).verdict == "not_worse"
    floor = compare(before, after, replace(QUICK, floor=2))
    assert (floor.verdict, floor.failures) == ("regressed", ("item item-0 passed 1 of 3 trials, and 2 are needed",))
    assert compare(before, after, replace(QUICK, severity=0.15)).verdict == "regressed"
    exactly = compare(a_run(*[0.9] * 100), a_run(0.75, *[0.9] * 99), replace(QUICK, severity=0.15))
    assert exactly.failures == ()


def test_slices_find_where_it_is_worse() -> None:
    """A loss in one half is found there, with p-values corrected over the slices."""
    before, after = [1] * 100, [1] * 50 + [0] * 12 + [1] * 38
    comparison = compare(a_run(*before), a_run(*after), replace(QUICK, slices=("half",)))
    assert [(each.value, each.delta) for each in comparison.slices] == [("0", 0.0), ("1", pytest.approx(-0.24))]
    assert comparison.slices[1].adjusted_p_value < 0.05 <= comparison.slices[0].adjusted_p_value


def test_cost_and_time_are_ratios() -> None:
    """A candidate that takes half as much again is detected, and decides only if a margin is set."""
    noise = np.random.default_rng(3).uniform(0.9, 1.1, (2, 60, 1))
    before, after = (
        replace(a_run(*[1] * 60), cost_usd=part * side) for part, side in zip((1.0, 1.5), noise, strict=True)
    )
    comparison = compare(before, after, QUICK)
    assert comparison.verdict == "not_worse"
    assert comparison.ratios[0].interval.low < 1.5 < comparison.ratios[0].interval.high
    assert compare(before, after, replace(QUICK, cost_margin=0.1)).verdict == "regressed"
    assert compare(before, before, replace(QUICK, cost_margin=0.1)).verdict == "not_worse"


def test_several_evaluators_share_the_error() -> None:
    """The pass rate is compared beside two evaluators, and p-values are corrected for there being three."""
    before = _with(a_run(*[1] * 100, name="a"), a_run(*[1] * 100, name="b"))
    after = _with(a_run(*[1] * 99, 0, name="a"), a_run(*[0] * 9, *[1] * 91, name="b"))
    comparison = compare(before, after, QUICK)
    assert [each.name for each in comparison.differences] == ["a", "b", "pass rate"]
    assert comparison.differences[2].delta == pytest.approx(-0.1)
    assert comparison.differences[2].adjusted_p_value == pytest.approx(3 * comparison.differences[2].p_value)
    alone = compare(before, after, replace(QUICK, evaluators=("b",))).differences[0]
    assert alone.adjusted_p_value == alone.p_value == comparison.differences[1].p_value


def _with(one: FinishedRun, other: FinishedRun) -> FinishedRun:
    """Return one run of the same items by the evaluators of both."""
    return replace(
        one,
        evaluators=[*one.evaluators, *other.evaluators],
        scores=np.concatenate([one.scores, other.scores]),
        passed=np.concatenate([one.passed, other.passed]),
        outcomes=np.concatenate([one.outcomes, other.outcomes]),
    )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([0, 0.25, 0.5, 1]), st.sampled_from([0, 0.25, 0.5, 1])), min_size=2, max_size=9)
)
def test_exchanging_the_sides_turns_everything_around(pairs: list[tuple[float, float]]) -> None:
    """With the sides exchanged the difference and its interval change their signs, and p-values of all signs stay."""
    before, after = (a_run(*side) for side in zip(*pairs, strict=True))
    one, other = (compare(*sides, QUICK).differences[0] for sides in ((before, after), (after, before)))
    assert one.delta == pytest.approx(-other.delta)
    assert one.p_value == other.p_value
    assert (one.interval.low, one.interval.high) == pytest.approx((-other.interval.high, -other.interval.low))


@settings(max_examples=40, deadline=None)
@given(worse=st.integers(0, 30), better=st.integers(0, 30))
def test_one_loss_more_never_helps(worse: int, better: int) -> None:
    """Another item that is lost moves the difference and the upper end of its interval down."""
    one, more = (flipped(worse + extra, better, 100).differences[0] for extra in (0, 1))
    assert more.delta < one.delta
    assert more.interval.high <= one.interval.high + 1e-12


def test_p_values_are_uniform_when_nothing_changed() -> None:
    """Of 400 comparisons of the same thing at most the promised share is below 5 %, for scores and for repeats."""
    generator = np.random.default_rng(11)
    for trials in (1, 3):
        below = 0
        for _ in range(200):
            before, after = generator.random((2, 40, trials))
            if trials > 1:
                before, after = (before < 0.7).astype(float), (after < 0.7).astype(float)
            below += compare(_arrays(before), _arrays(after), QUICK).differences[0].p_value < 0.05
        assert 1 <= below <= 22  # of a binomial with 10 expected, far less than once in a thousand


@pytest.mark.simulation
@pytest.mark.parametrize("items, trials", [(20, 1), (20, 3), (60, 1), (60, 3)])
def test_intervals_cover_what_they_say(items: int, trials: int) -> None:
    """With items that differ in their rates, at least 93 % of the intervals hold the true loss of ten points."""
    generator, covered, draws = np.random.default_rng(items + trials), 0, 400
    for _ in range(draws):
        rates = generator.uniform(0.4, 1.0, (items, 1))
        before = (generator.random((items, trials)) < rates).astype(float)
        after = (generator.random((items, trials)) < rates - 0.1).astype(float)
        comparison = compare(_arrays(before), _arrays(after), replace(QUICK, draws=Draws(count=50))).differences[0]
        covered += comparison.interval.low <= -0.1 <= comparison.interval.high
    assert covered / draws >= 0.93


def _arrays(scores: Any) -> FinishedRun:
    return FinishedRun(
        items=[JudgedItem(key=str(at)) for at in range(len(scores))],
        evaluators=[ComparedEvaluator(name="a")],
        outcomes=np.full((1, *scores.shape), SCORED, dtype=np.uint8),
        scores=scores[None],
        passed=(scores[None] >= 0.5).astype(float),
    )
