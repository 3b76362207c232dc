"""Every formula against numbers that were published, or computed by other programs."""

import math

import numpy as np
import pytest

from rules.statistics.formulas.multiple_testing import benjamini_hochberg, holm
from rules.statistics.formulas.pairs import fisher, mcnemar_exact, mcnemar_mid_p
from rules.statistics.formulas.power import (
    items_needed,
    smallest_difference,
)
from rules.statistics.formulas.quantiles import z_of
from rules.statistics.formulas.rates import (
    Pairs,
    bonett_price,
    newcombe_two_samples,
    wilson,
)
from rules.statistics.formulas.resampling import (
    Draws,
    assignment_p_value,
    cautious_interval,
    signs_p_value,
    t_interval,
)
from rules.statistics.formulas.trials import pass_at_k, pass_hat_k
from rules.statistics.intervals import Interval

SIX = (0.0, 0.1, 0.1, 0.3, -0.2, 0.6)


def is_near(interval: Interval | None, low: float, high: float, within: float = 6e-7) -> bool:
    """Compare an interval with a published one, up to the rounding of the latter."""
    return interval is not None and (interval.low, interval.high) == pytest.approx((low, high), abs=within)


@pytest.mark.parametrize(
    "worse, better, exact, mid_p",
    [
        (5, 0, 0.0625, 0.03125),
        (6, 0, 0.03125, 0.015625),
        (12, 2, 0.012939, 0.007385),
        (3, 3, 1, 0.84375),
        (8, 1, 0.039062, 0.021484),
        (7, 2, 0.179688, 0.109375),
        (15, 5, 0.041389, 0.026604),
        (25, 10, 0.016674, 0.011331),
        (0, 0, 1, 0.5),
    ],
)
def test_mcnemar_has_the_known_p_values(worse: int, better: int, exact: float, mid_p: float) -> None:
    """The exact and the mid-p test have the known p-values, whichever side is worse."""
    for first, second in ((worse, better), (better, worse)):
        assert mcnemar_exact(first, second) == pytest.approx(exact, abs=6e-7)
        assert mcnemar_mid_p(first, second) == pytest.approx(mid_p, abs=6e-7)


def test_fishers_tea_has_its_p_value() -> None:
    """Three of four cups of each kind identified have p = 34/70."""
    assert fisher((1, 4), (3, 4)) == pytest.approx(34 / 70)


def test_signs_have_the_known_p_value() -> None:
    """Of the 256 sign vectors of eight differences 28 are as far from 0, and of one-way differences two are."""
    assert signs_p_value([0.2, 0.1, -0.05, 0.3, 0, 0.15, 0.25, -0.1], Draws()) == pytest.approx(28 / 256)
    assert signs_p_value([0.1, 0.2, 0.3, 0.1, 0.2, 0.3], Draws()) == pytest.approx(2 / 2**6)
    assert signs_p_value([0.0] * 20, Draws()) == 1


def test_sums_that_are_equal_but_for_rounding_are_ties() -> None:
    """Differences of tenths, whose sums differ in the last bit, have the p-value of the same in whole numbers."""
    tenths = [0.1, 0.2, 0.3, -0.3, 0.7, -0.1, 0.6]
    whole = [round(10 * each) for each in tenths]
    assert signs_p_value(tenths, Draws()) == signs_p_value(whole, Draws())


@pytest.mark.parametrize("spread", ["few sizes", "all different"])
def test_sampled_signs_agree_with_all_signs(spread: str) -> None:
    """Both ways of drawing signs find the p-value of trying them all."""
    sizes = np.linspace(0.1, 1.3, 13) if spread == "all different" else np.full(13, 0.5)
    differences = np.where(np.arange(13) % 4 == 0, -sizes, sizes)
    every = signs_p_value(differences, Draws(count=2**13))
    assert signs_p_value(np.repeat(differences, 1), Draws(count=8_000)) == pytest.approx(every, abs=0.02)
    many = np.concatenate([differences, np.linspace(0.001, 0.002, 70)]) if spread == "all different" else differences
    assert signs_p_value(many, Draws(count=8_000)) == pytest.approx(every, abs=0.03)


def test_few_assignments_are_all_tried() -> None:
    """Of the 20 ways to split six scores into two sides, two are as far apart as sorted ones."""
    assert assignment_p_value([1, 2, 3], [4, 5, 6], Draws()) == pytest.approx(2 / 20)
    sampled = assignment_p_value([1, 2, 3], [4, 5, 6], Draws(count=19))
    assert 1 / 20 <= sampled <= 0.5


def test_a_mean_has_the_known_interval() -> None:
    """Six values have the interval of Student that SciPy computes."""
    assert is_near(t_interval(SIX), -0.1374, 0.4374, within=5e-5)


@pytest.mark.parametrize(
    "passes, count, score",
    [
        (45, 50, (0.786398, 0.956524)),
        (10, 10, (0.722467, 1)),
        (0, 10, (0, 0.277533)),
        (81, 263, (0.255289, 0.36621)),
    ],
)
def test_rates_have_the_known_intervals(passes: int, count: int, score: tuple[float, float]) -> None:
    """Wilson's intervals are the known ones."""
    assert is_near(wilson(passes, count), *score)


def test_two_samples_have_the_known_interval() -> None:
    """Newcombe's own example of two samples has his interval."""
    assert is_near(newcombe_two_samples((48, 80), (56, 70)), 0.052431, 0.333873)


@pytest.mark.parametrize(
    "pairs, delta, bonett",
    [((1, 7, 1, 12), -0.2857, (-0.508359, -0.01338)), ((33, 12, 2, 3), -0.2, (-0.333724, -0.050892))],
)
def test_paired_rates_have_the_known_intervals(
    pairs: tuple[int, int, int, int],
    delta: float,
    bonett: tuple[float, float],
) -> None:
    """Bonett's and Price's intervals of paired rates are the known ones."""
    counts = Pairs(both=pairs[0], worse=pairs[1], better=pairs[2], neither=pairs[3])
    assert counts.difference == pytest.approx(delta, abs=5e-5)
    assert is_near(bonett_price(counts), *bonett)


@pytest.mark.parametrize(
    "worse, better, count, low, high",
    [(3, 1, 50, -0.1302, 0.0533), (3, 1, 400, -0.0169, 0.007), (12, 2, 50, -0.3337, -0.0509)],
)
def test_bonett_price_decides_as_known(worse: int, better: int, count: int, low: float, high: float) -> None:
    """The intervals that verdicts are explained with are the known ones, and item means have the same formula."""
    pairs = Pairs(both=count - worse - better, worse=worse, better=better, neither=0)
    assert is_near(bonett_price(pairs), low, high, within=1e-4)
    differences = [-1.0] * worse + [1.0] * better + [0.0] * (count - worse - better)
    same = bonett_price(pairs)
    assert is_near(cautious_interval(differences), same.low, same.high, within=1e-12)


@pytest.mark.parametrize("margin, first", [(0.05, 54), (0.03, 91), (0.02, 137)])
def test_no_flip_proves_a_margin_from_so_many_items_on(margin: float, first: int) -> None:
    """Without any flip it takes 54 items to prove a margin of 0.05, 91 for 0.03 and 137 for 0.02."""
    ends = [bonett_price(Pairs(both=n, worse=0, better=0, neither=0)).low for n in range(1, first + 1)]
    assert [n for n, low in enumerate(ends, start=1) if low > -margin] == [first]


@pytest.mark.parametrize(
    "trials, passes, k, any_of, all_of, power",
    [
        (5, 3, 2, 0.9, 0.3, 0.36),
        (8, 6, 4, 1, 0.214286, 0.316406),
        (10, 9, 10, 1, 0, 0.348678),
        (5, 1, 2, 0.4, 0, 0.04),
    ],
)
def test_passes_of_k_trials_are_known(
    trials: int, passes: int, k: int, any_of: float, all_of: float, power: float
) -> None:
    """pass@k and pass^k have the known values, which are not powers of the rate."""
    assert pass_at_k(trials, passes, k) == pytest.approx(any_of, abs=6e-7)
    assert pass_hat_k(trials, passes, k) == pytest.approx(all_of, abs=6e-7)
    assert (passes / trials) ** k == pytest.approx(power, abs=6e-7)
    assert pass_at_k(k - 1, 0, k) is None
    assert pass_hat_k(k - 1, 0, k) is None


@pytest.mark.parametrize(
    "k, all_of, any_of",
    [(1, 0.53125, 0.53125), (2, 0.410714, 0.651786), (4, 0.303571, 0.732143), (8, 0.25, 0.75)],
)
def test_passes_of_k_trials_are_means_over_items(k: int, all_of: float, any_of: float) -> None:
    """Items with 8, 6, 3 and 0 passes of 8 have the known means."""
    passes = (8, 6, 3, 0)
    assert sum(pass_hat_k(8, each, k) or 0 for each in passes) / 4 == pytest.approx(all_of, abs=6e-7)
    assert sum(pass_at_k(8, each, k) or 0 for each in passes) / 4 == pytest.approx(any_of, abs=6e-7)


def test_a_power_of_the_rate_is_biased_and_pass_hat_k_is_not() -> None:
    """With a rate of 0.7 and five trials, the expectation of pass^3 is 0.343, and that of the rate's cube 0.428."""
    likely = [math.comb(5, c) * 0.7**c * 0.3 ** (5 - c) for c in range(6)]
    assert sum(p * (pass_hat_k(5, c, 3) or 0) for c, p in enumerate(likely)) == pytest.approx(0.343)
    assert sum(p * (c / 5) ** 3 for c, p in enumerate(likely)) == pytest.approx(0.42784)


def test_sizes_of_means_are_known() -> None:
    """The smallest detectable difference is 2.8 errors, and Miller's numbers of items come out."""
    assert z_of(0.95) == pytest.approx(1.959964, abs=6e-7)
    assert smallest_difference(1.0) == pytest.approx(2.801585, abs=6e-7)
    assert smallest_difference(0.3 / math.sqrt(50)) == pytest.approx(0.118861, abs=6e-7)
    assert smallest_difference(0.3 / math.sqrt(200)) == pytest.approx(0.059431, abs=6e-7)
    assert items_needed(1 / 3, 0.03) == 969


def test_several_p_values_are_corrected_as_known() -> None:
    """Holm's and Benjamini's and Hochberg's corrections of five p-values are the known ones."""
    p_values = [0.01, 0.04, 0.03, 0.005, 0.2]
    assert holm(p_values) == pytest.approx([0.04, 0.09, 0.09, 0.025, 0.2])
    assert benjamini_hochberg(p_values) == pytest.approx([0.025, 0.05, 0.05, 0.025, 0.2])
    assert (holm([]), benjamini_hochberg([])) == ([], [])
