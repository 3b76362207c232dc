"""Fisher's exact test, against numbers of others."""

import pytest
import scipy  # whose part `stats` takes two seconds, once it is asked for
from hypothesis import given
from hypothesis import strategies as st

from rules.statistics.formulas.rates import fisher_p

COUNTS = st.tuples(st.integers(0, 300), st.integers(0, 300))


def test_the_lady_who_tastes_tea() -> None:
    """Three of four cups identified, as in Fisher's example, give 34/70, and all four 2/70."""
    assert fisher_p((3, 1), (1, 3)) == pytest.approx(34 / 70)
    assert fisher_p((4, 0), (0, 4)) == pytest.approx(2 / 70)


@given(COUNTS, COUNTS)
def test_it_is_what_scipy_says(baseline: tuple[int, int], candidate: tuple[int, int]) -> None:
    """Of any counts."""
    assert fisher_p(baseline, candidate) == pytest.approx(
        float(scipy.stats.fisher_exact([baseline, candidate]).pvalue), abs=1e-9
    )


@given(COUNTS, COUNTS)
def test_neither_side_comes_first(baseline: tuple[int, int], candidate: tuple[int, int]) -> None:
    """Nor does passing come before failing."""
    p = fisher_p(baseline, candidate)
    assert fisher_p(candidate, baseline) == pytest.approx(p, abs=1e-12)
    assert fisher_p(baseline[::-1], candidate[::-1]) == pytest.approx(p, abs=1e-12)


def test_large_counts_lose_no_digits() -> None:
    """A million results of each side: as SciPy has it, to eight digits."""
    tables = (((900_000, 100_000), (899_000, 101_000)), ((500_000, 500_000), (500_300, 499_700)))
    for baseline, candidate in tables:
        p_value = float(scipy.stats.fisher_exact([baseline, candidate]).pvalue)
        assert fisher_p(baseline, candidate) == pytest.approx(p_value, rel=1e-8)


def test_where_nothing_can_differ() -> None:
    """No results, or all of one kind."""
    assert fisher_p((0, 0), (3, 4)) == fisher_p((5, 0), (9, 0)) == fisher_p((0, 5), (0, 9)) == 1.0


def test_a_negative_count_is_refused() -> None:
    """A negative count raises a `ValueError`."""
    with pytest.raises(ValueError, match="at least 0"):
        fisher_p((-1, 2), (1, 2))
