"""Judges that err, and people who disagree: against known numbers."""

import pytest

from rules.statistics.formulas.agreement import (
    ac1,
    fleiss_kappa,
    kappa,
    kappa_error,
    krippendorff,
    observed_agreement,
)
from rules.statistics.formulas.judge_error import (
    JudgeAccuracy,
    MeasuredShare,
    Stratum,
    Useless,
    corrected_judge,
    judge_weight,
    lang_reiczigel,
    prediction_powered,
    stratified,
)

LABELS = [int(each) for each in "1101011011"]
JUDGED = [int(each) for each in "1111011110"]
UNLABELLED = [1] * 30 + [0] * 10


@pytest.mark.parametrize(
    "judged, sensitivity, specificity, value, interval",
    [
        ((0.4, 1000), (0.9, 200), (0.7, 200), 0.166667, (0.056351, 0.262733)),
        ((0.84, 1000), (0.95, 100), (0.6, 40), 0.8, (0.707287, 0.900537)),
    ],
)
def test_the_rate_behind_a_judge_is_known(
    judged: tuple[float, int],
    sensitivity: tuple[float, int],
    specificity: tuple[float, int],
    value: float,
    interval: tuple[float, float],
) -> None:
    """Rogan's and Gladen's rate with Lang's and Reiczigel's interval are the known ones."""
    judge = JudgeAccuracy(
        sensitivity=MeasuredShare(share=sensitivity[0], count=sensitivity[1]),
        specificity=MeasuredShare(share=specificity[0], count=specificity[1]),
    )
    computed = lang_reiczigel(MeasuredShare(share=judged[0], count=judged[1]), judge)
    assert computed.value == pytest.approx(value, abs=6e-7)
    assert (computed.interval.low, computed.interval.high) == pytest.approx(interval, abs=2e-6)


def test_a_judge_no_better_than_chance_is_refused() -> None:
    """A judge whose sensitivity and specificity sum to 1 is not informative, and is refused."""
    judge = JudgeAccuracy(
        sensitivity=MeasuredShare(share=0.4, count=10), specificity=MeasuredShare(share=0.6, count=10)
    )
    with pytest.raises(Useless, match="not informative"):
        lang_reiczigel(MeasuredShare(share=0.5, count=100), judge)


def test_few_labels_and_many_judged_are_put_together() -> None:
    """PPI++ has the known weight, value, error and interval; a weight of 1 is PPI and of 0 the labels' mean."""
    assert judge_weight(LABELS, JUDGED, UNLABELLED) == pytest.approx(0.17193, abs=6e-6)
    computed = prediction_powered(LABELS, JUDGED, UNLABELLED)
    assert (computed.value, computed.error) == pytest.approx((0.691404, 0.149909), abs=6e-7)
    assert (computed.interval.low, computed.interval.high) == pytest.approx((0.397587, 0.98522), abs=6e-6)
    plain = prediction_powered(LABELS, JUDGED, UNLABELLED, weight=1.0)
    assert (plain.value, plain.error) == pytest.approx((0.65, 0.192432), abs=6e-7)
    assert prediction_powered(LABELS, JUDGED, UNLABELLED, weight=0.0).value == pytest.approx(0.7)


def test_labels_chosen_by_the_verdict_are_weighed() -> None:
    """Each part of all weighs as much as it is, and sensitivity and specificity are corrected alike."""
    passed, failed = Stratum(share=0.84, passes=34, labels=40), Stratum(share=0.16, passes=20, labels=80)
    computed = stratified([passed, failed])
    assert (computed.value, computed.error) == pytest.approx((0.754, 0.048657), abs=6e-7)
    assert (computed.interval.low, computed.interval.high) == pytest.approx((0.6586, 0.8494), abs=5e-5)
    assert corrected_judge(passed, failed) == pytest.approx((0.94695, 0.487805), abs=6e-6)
    naive = JudgeAccuracy(
        sensitivity=MeasuredShare(share=34 / 54, count=54), specificity=MeasuredShare(share=60 / 66, count=66)
    )
    assert lang_reiczigel(MeasuredShare(share=0.84, count=1000), naive).value == pytest.approx(1.39, abs=5e-3)


@pytest.mark.parametrize(
    "table, same, cohen, interval, gwet",
    [
        (((20, 5), (10, 15)), 0.7, (0.4, 0.126996), (0.151092, 0.648908), 0.405941),
        (((85, 5), (8, 2)), 0.87, (0.166667, 0.143501), (-0.11459, 0.447923), 0.846054),
    ],
)
def test_two_who_label_agree_as_known(
    table: tuple[tuple[int, int], ...],
    same: float,
    cohen: tuple[float, float],
    interval: tuple[float, float],
    gwet: float,
) -> None:
    """Cohen's kappa with its error and interval, and AC1 are the known ones, also where kappa is misleading."""
    assert observed_agreement(table) == pytest.approx(same)
    assert (kappa(table), kappa_error(table)) == pytest.approx(cohen, abs=6e-7)
    half = 1.959964 * (kappa_error(table) or 0)
    assert ((kappa(table) or 0) - half, (kappa(table) or 0) + half) == pytest.approx(interval, abs=2e-6)
    assert ac1(table) == pytest.approx(gwet, abs=6e-7)


def test_kappa_is_weighted_and_may_be_undefined() -> None:
    """Three classes have the known kappas, and where all say one thing there is none."""
    table = ((20, 5, 1), (4, 15, 6), (2, 3, 14))
    assert kappa(table) == pytest.approx(0.547692, abs=6e-7)
    assert kappa(table, "linear") == pytest.approx(0.608392, abs=6e-7)
    assert kappa(table, "quadratic") == pytest.approx(0.67033, abs=6e-7)
    assert kappa(((10, 0), (0, 0))) is None
    assert kappa_error(((10, 0), (0, 0))) is None


def test_many_who_label_agree_as_known() -> None:
    """Fleiss' kappa of a small table and of his classic one are the known ones."""
    assert fleiss_kappa([(3, 0), (2, 1), (0, 3), (1, 2), (3, 0), (0, 3)]) == pytest.approx(0.555556, abs=6e-7)
    classic = """0 0 0 0 14,0 2 6 4 2,0 0 3 5 6,0 3 9 2 0,2 2 8 1 1,7 7 0 0 0,3 2 6 3 0,2 5 3 2 2,6 5 2 1 0,0 2 2 3 7"""
    counts = [[int(each) for each in row.split()] for row in classic.split(",")]
    assert fleiss_kappa(counts) == pytest.approx(0.209931, abs=6e-7)
    assert fleiss_kappa([(3, 0), (3, 0)]) is None


def test_labels_that_are_missing_are_no_disagreement() -> None:
    """Krippendorff's alpha of three who label with gaps is the known one, and of a single label there is none."""
    raters = ("110101-", "1001011", "110-001")
    units = [[float(each) for each in unit if each != "-"] for unit in zip(*raters, strict=True)]
    assert krippendorff(units) == pytest.approx(0.590909, abs=6e-7)
    assert krippendorff([[1.0]]) is None
    assert krippendorff([[1.0, 1.0], [1.0, 1.0]]) is None


@pytest.mark.parametrize(
    "metric, value", [("nominal", 0.743421), ("ordinal", 0.815388), ("interval", 0.849107), ("ratio", 0.797403)]
)
def test_krippendorffs_own_example_comes_out(metric: str, value: float) -> None:
    """The published example of four who label twelve units has its alpha by each metric."""
    raters = ("123321412...", "1233224125.3", ".3332342251.", "12332441251.")
    units = [[float(each) for each in unit if each != "."] for unit in zip(*raters, strict=True)]
    assert sum(len(unit) for unit in units if len(unit) > 1) == 40
    assert krippendorff(units, metric) == pytest.approx(value, abs=6e-7)  # type: ignore[arg-type] # one of the four
