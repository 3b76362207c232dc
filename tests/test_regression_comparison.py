"""The comparison of two finished sets: known numbers, and what holds for any sets."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.statistics.comparison import Difference, Options, ScoredItems, compare
from rules.statistics.finished import (
    Resampling,
    holm,
    mcnemar,
    mcnemar_corrected,
    mcnemar_exact,
    paired_scores,
    unpaired_passes,
    unpaired_scores,
)

FEW = Resampling(resamples=500)
QUICK = Options(resampling=FEW)


def keyed(*values: float) -> dict[str, float]:
    """The values under the keys of their positions."""
    return {f"item-{at}": value for at, value in enumerate(values)}


def difference(*values: ScoredItems, options: Options = QUICK) -> Difference:
    """How the one measured differs."""
    return compare(values, options)[0]


@pytest.mark.parametrize(
    "worse, better, p_value", [(12, 2, 0.01616), (5, 0, 0.0736), (6, 0, 0.0412), (7, 7, 1.0), (0, 0, 1.0)]
)
def test_the_corrected_chi_square_has_the_known_values(worse: int, better: int, p_value: float) -> None:
    """The p-values of the corrected test are the published ones."""
    assert mcnemar_corrected(worse, better) == pytest.approx(p_value, abs=5e-5)


@given(worse=st.integers(0, 40), better=st.integers(0, 40))
def test_the_exact_test_is_a_fair_coin(worse: int, better: int) -> None:
    """The exact p-value is the probability of a split at least as uneven, and is used below 25 discordant pairs."""
    count = worse + better
    uneven = [math.comb(count, at) for at in range(count + 1) if abs(2 * at - count) >= abs(worse - better)]
    assert mcnemar_exact(worse, better) == pytest.approx(sum(uneven) / 2**count)
    assert mcnemar(worse, better).method == ("mcnemar_exact" if count < 25 else "mcnemar_corrected")
    assert mcnemar(worse, better).p_value == mcnemar(better, worse).p_value
    if count >= 25:
        assert mcnemar(worse, better).p_value == pytest.approx(mcnemar_exact(worse, better), abs=0.003)


def test_signs_of_few_differences_are_all_tried() -> None:
    """Six differences of one sign have a p-value of 2/64 and five of 2/32; a single one or none are not tested."""
    assert paired_scores([0.1, 0.2, 0.3, 0.1, 0.2, 0.3], FEW, "a").p_value == pytest.approx(2 / 64)
    assert paired_scores([0.1] * 5, FEW, "a").p_value == pytest.approx(2 / 32)
    assert paired_scores([0.0] * 5, FEW, "a").p_value == 1
    assert paired_scores([0.5], FEW, "a").p_value == 1
    assert paired_scores([], FEW, "a").interval is None


def test_many_differences_are_sampled_with_one_added() -> None:
    """No p-value is below 1/(resamples + 1) on each side, and the bootstrap's interval is around the mean."""
    found = paired_scores([0.1, 0.2, 0.3, 0.15] * 20, FEW, "a")
    assert found.p_value == pytest.approx(2 / 501)
    assert found.interval is not None
    assert 0.15 < found.interval.low < 0.1875 < found.interval.high < 0.23


def test_unpaired_sets_have_their_own_tests() -> None:
    """Fisher's tea tasting has its p-value, and separated scores the one of all assignments."""
    assert unpaired_passes((3, 4), (1, 4)).p_value == pytest.approx(34 / 70)
    found = unpaired_scores([0.9, 0.8, 0.85], [0.1, 0.2, 0.15], FEW, "a")
    assert found.p_value == pytest.approx(2 / math.comb(6, 3))
    assert found.interval is not None
    assert found.interval.high < -0.5
    assert unpaired_passes((1, 1), (0, 9)).p_value == 1


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_is_bonferroni_for_the_least_and_keeps_the_order(p_values: list[float]) -> None:
    """Corrected p-values are no smaller, at most Bonferroni's, ordered alike, and the least has the full factor."""
    adjusted = holm(p_values)
    for p_value, corrected in zip(p_values, adjusted, strict=True):
        assert p_value <= corrected <= min(1.0, len(p_values) * p_value) or corrected == 1.0 == p_value
    for one, other in itertools.permutations(range(len(p_values)), 2):
        assert p_values[one] > p_values[other] or adjusted[one] <= adjusted[other]
    if p_values:
        assert min(adjusted) == min(1.0, len(p_values) * min(p_values))


def test_holm_reproduces_an_example() -> None:
    """Of 0.01, 0.04, 0.03 and 0.005 the corrected values are 0.03, 0.06, 0.06 and 0.02."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_a_direction_decides_what_is_worse() -> None:
    """The same fall is a regression where higher is better and an improvement where lower is."""
    before, after = keyed(*[1.0] * 20), keyed(*[0.0] * 10, *[1.0] * 10)
    found = difference(ScoredItems(name="a", baseline=before, candidate=after))
    assert (found.verdict, found.delta, found.test.method) == ("REGRESSED", -0.5, "mcnemar_exact")
    assert difference(ScoredItems(name="a", baseline=before, candidate=after, better="lower")).verdict == "IMPROVED"
    assert difference(ScoredItems(name="a", baseline=after, candidate=before)).verdict == "IMPROVED"


def test_a_difference_must_be_large_enough_to_matter() -> None:
    """A significant difference below the minimum effect, or within epsilon, is none."""
    before, after = keyed(*[0.5] * 20), keyed(*[0.48] * 20)
    measured = ScoredItems(name="a", baseline=before, candidate=after)
    assert difference(measured).verdict == "REGRESSED"
    assert difference(measured, options=Options(minimum_effect=0.05, resampling=FEW)).verdict == "UNCHANGED"
    assert difference(measured, options=Options(epsilon=0.03, resampling=FEW)).verdict == "UNCHANGED"


def test_another_evaluator_changes_no_p_value_but_the_corrected_ones() -> None:
    """With a second evaluator the first has the same p-value and interval; only the corrected p-value doubles."""
    scores = [0.1, 0.9, 0.4, 0.6, 0.3, 0.8, 0.7, 0.2, 0.5, 0.65, 0.35, 0.45, 0.55]
    one = ScoredItems(name="a", baseline=keyed(*scores), candidate=keyed(*[max(s - 0.1, 0.05) for s in scores]))
    other = ScoredItems(name="b", baseline=keyed(*scores), candidate=keyed(*scores))
    alone, beside = compare([one], QUICK)[0], compare([other, one], QUICK)[1]
    assert alone.test == beside.test
    assert alone.verdict == "REGRESSED"
    assert beside.adjusted_p_value == pytest.approx(2 * alone.test.p_value)


def test_items_of_one_side_are_told_and_not_compared() -> None:
    """Added and removed items are named; the means are over all items of a side, and the difference over the pairs."""
    found = difference(ScoredItems(name="a", baseline={"x": 1.0, "y": 0.0}, candidate={"y": 1.0, "z": 0.0}))
    assert (found.added, found.removed, found.compared, found.delta) == (("z",), ("x",), 1, 1.0)
    assert (found.baseline_mean, found.candidate_mean) == (0.5, 0.5)
    assert (found.verdict, found.smallest_detectable) == ("UNCHANGED", None)


def test_the_smallest_detectable_effect_is_detected_as_often_as_said() -> None:
    """With 400 items each and a spread of 0.3, it is 2.8 standard errors, and nothing is detectable of five items."""
    before = {f"{at}": 0.2 + 0.6 * (at % 2) for at in range(400)}
    after = {f"{at}": 0.2 + 0.6 * (at % 2) for at in range(400)}
    found = difference(ScoredItems(name="a", baseline=before, candidate=after, paired=False))
    assert found.smallest_detectable == pytest.approx(2.8016 * 0.3 * math.sqrt(2 / 399), rel=1e-3)
    few = ScoredItems(name="a", baseline=keyed(*[1.0] * 5), candidate=keyed(*[0.0] * 5))
    assert difference(few).smallest_detectable is None
    assert difference(few).verdict == "UNCHANGED"


@settings(max_examples=30)
@given(pairs=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=8))
def test_exchanging_the_sides_turns_the_difference_around(pairs: list[tuple[float, float]]) -> None:
    """With the sides exchanged, the difference has the other sign and the p-value of all signs is the same."""
    before = {f"{at}": one for at, (one, _) in enumerate(pairs)}
    after = {f"{at}": other for at, (_, other) in enumerate(pairs)}
    forth = difference(ScoredItems(name="a", baseline=before, candidate=after))
    back = difference(ScoredItems(name="a", baseline=after, candidate=before))
    assert forth.delta == pytest.approx(-back.delta)
    assert forth.test.p_value == pytest.approx(back.test.p_value)


@pytest.mark.parametrize(
    "wrong", [{"alpha": 0}, {"alpha": 1}, {"power": 1.5}, {"epsilon": -1}, {"minimum_effect": -0.1}]
)
def test_options_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    """An option that means nothing is refused by its name."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Options(**wrong)  # type: ignore[arg-type]
