"""Judges that err, people who disagree, and evidence that is looked at always: against known numbers."""

import numpy as np
import pytest

from rules.statistics.formulas.agreement import (
    ac1,
    fleiss_kappa,
    kappa,
    kappa_error,
    krippendorff,
    observed_agreement,
    pabak,
)
from rules.statistics.formulas.judge_error import (
    JudgeAccuracy,
    MeasuredShare,
    Stratum,
    Useless,
    best_label_ratio,
    corrected_judge,
    judge_weight,
    lang_reiczigel,
    prediction_powered,
    rogan_gladen,
    stratified,
)
from rules.statistics.formulas.pairs import mcnemar_exact
from rules.statistics.formulas.quantiles import around
from rules.statistics.formulas.several import e_benjamini_hochberg, flip_evidence, flip_evidence_worse, score_evidence

LABELS = [int(each) for each in "1101011011"]
JUDGED = [int(each) for each in "1111011110"]
UNLABELLED = [1] * 30 + [0] * 10


@pytest.mark.parametrize(
    "judged, sensitivity, specificity, value, delta, interval",
    [
        ((0.4, 1000), (0.9, 200), (0.7, 200), 0.166667, (0.064319, 0.269015), (0.056351, 0.262733)),
        ((0.84, 1000), (0.95, 100), (0.6, 40), 0.8, (0.707183, 0.892817), (0.707287, 0.900537)),
    ],
)
def test_the_rate_behind_a_judge_is_known(
    judged: tuple[float, int],
    sensitivity: tuple[float, int],
    specificity: tuple[float, int],
    value: float,
    delta: tuple[float, float],
    interval: tuple[float, float],
) -> None:
    """Rogan's and Gladen's rate, its delta interval and Lang's and Reiczigel's are the known ones."""
    judge = JudgeAccuracy(
        sensitivity=MeasuredShare(share=sensitivity[0], count=sensitivity[1]),
        specificity=MeasuredShare(share=specificity[0], count=specificity[1]),
    )
    plain = rogan_gladen(MeasuredShare(share=judged[0], count=judged[1]), judge)
    better = lang_reiczigel(MeasuredShare(share=judged[0], count=judged[1]), judge)
    assert plain.value == better.value == pytest.approx(value, abs=6e-7)
    assert (plain.interval.low, plain.interval.high) == pytest.approx(delta, abs=6e-7)
    assert (better.interval.low, better.interval.high) == pytest.approx(interval, abs=2e-6)


def test_a_judge_no_better_than_chance_is_refused() -> None:
    """With sensitivity and specificity of 1 together nothing is told."""
    judge = JudgeAccuracy(
        sensitivity=MeasuredShare(share=0.4, count=10), specificity=MeasuredShare(share=0.6, count=10)
    )
    with pytest.raises(Useless, match="tells nothing"):
        rogan_gladen(MeasuredShare(share=0.5, count=100), judge)


def test_labels_are_best_split_by_their_errors() -> None:
    """At equal rates and errors labels are split evenly, and with many passes fewer labels of fails are needed."""
    even = JudgeAccuracy(sensitivity=MeasuredShare(share=0.9, count=1), specificity=MeasuredShare(share=0.9, count=1))
    assert best_label_ratio(0.5, even) == pytest.approx(1)
    assert best_label_ratio(0.8, even) == pytest.approx(0.25)


def test_few_labels_and_many_judged_are_put_together() -> None:
    """PPI++ has the known weight, value, error and interval; a weight of 1 is PPI and of 0 the labels' mean."""
    assert judge_weight(LABELS, JUDGED, UNLABELLED) == pytest.approx(0.17193, abs=6e-6)
    found = prediction_powered(LABELS, JUDGED, UNLABELLED)
    assert (found.value, found.error) == pytest.approx((0.691404, 0.149909), abs=6e-7)
    assert (found.interval.low, found.interval.high) == pytest.approx((0.397587, 0.98522), abs=6e-6)
    plain = prediction_powered(LABELS, JUDGED, UNLABELLED, weight=1.0)
    assert (plain.value, plain.error) == pytest.approx((0.65, 0.192432), abs=6e-7)
    assert prediction_powered(LABELS, JUDGED, UNLABELLED, weight=0.0).value == pytest.approx(0.7)


def test_labels_chosen_by_the_verdict_are_weighed() -> None:
    """Each part of all weighs as much as it is, and sensitivity and specificity are corrected alike."""
    passed, failed = Stratum(share=0.84, passes=34, labels=40), Stratum(share=0.16, passes=20, labels=80)
    found = stratified([passed, failed])
    assert (found.value, found.error) == pytest.approx((0.754, 0.048657), abs=6e-7)
    assert (found.interval.low, found.interval.high) == pytest.approx((0.6586, 0.8494), abs=5e-5)
    assert corrected_judge(passed, failed) == pytest.approx((0.94695, 0.487805), abs=6e-6)
    naive = JudgeAccuracy(
        sensitivity=MeasuredShare(share=34 / 54, count=54), specificity=MeasuredShare(share=60 / 66, count=66)
    )
    assert rogan_gladen(MeasuredShare(share=0.84, count=1000), naive).value == pytest.approx(1.39, abs=5e-3)


@pytest.mark.parametrize(
    "table, same, cohen, interval, gwet, adjusted",
    [
        (((20, 5), (10, 15)), 0.7, (0.4, 0.126996), (0.151092, 0.648908), 0.405941, 0.4),
        (((85, 5), (8, 2)), 0.87, (0.166667, 0.143501), (-0.11459, 0.447923), 0.846054, 0.74),
    ],
)
def test_two_who_label_agree_as_known(
    table: tuple[tuple[int, int], ...],
    same: float,
    cohen: tuple[float, float],
    interval: tuple[float, float],
    gwet: float,
    adjusted: float,
) -> None:
    """Cohen's kappa with its error and interval, AC1 and PABAK are the known ones, also where kappa is misleading."""
    assert observed_agreement(table) == pytest.approx(same)
    assert (kappa(table), kappa_error(table)) == pytest.approx(cohen, abs=6e-7)
    half = 1.959964 * (kappa_error(table) or 0)
    assert ((kappa(table) or 0) - half, (kappa(table) or 0) + half) == pytest.approx(interval, abs=2e-6)
    assert ac1(table) == pytest.approx(gwet, abs=6e-7)
    assert pabak(table) == pytest.approx(adjusted)


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


@pytest.mark.parametrize(
    "worse, better, both, one",
    [
        (6, 0, 9.142857, 18.142857),
        (12, 2, 12.00293, 23.917216),
        (20, 5, 24.290515, 48.520452),
        (9, 0, 51.2, 102.3),
        (3, 3, 0.457143, 0.457143),
    ],
)
def test_evidence_of_flips_is_known(worse: int, better: int, both: float, one: float) -> None:
    """The evidence of flips is the known one, two-sided and for worse alone."""
    assert flip_evidence(worse, better) == pytest.approx(both, rel=1e-6)
    assert flip_evidence_worse(worse, better) == pytest.approx(one, rel=1e-6)


def test_evidence_of_scores_is_the_mean_wealth() -> None:
    """Four differences have the known wealth of each stake and in the mean."""
    differences = [-1, -1, 0, -1]
    wealth = [score_evidence(differences, [stake]) for stake in (-2, -1, 1, 2)]
    assert wealth == pytest.approx([8, 3.375, 0.125, 0])
    assert score_evidence(differences, (-2, -1, 1, 2)) == pytest.approx(2.875)


def test_evidence_of_several_is_corrected() -> None:
    """Of four e-values those are found that reach m/(k alpha) together, in the order given."""
    assert e_benjamini_hochberg([100.0, 1.0, 45.0, 20.0], 0.05) == [True, False, True, False]
    assert e_benjamini_hochberg([], 0.05) == []


def test_looking_after_every_pair_alarms_falsely_by_a_fixed_test_alone() -> None:
    """Looked at after each of 200 pairs, evidence of 20 is seldom a false alarm, and a fixed test often."""
    generator = np.random.default_rng(5)
    fixed = always = 0
    for _ in range(300):
        falls = generator.random(200) < 0.5
        worse = np.cumsum(falls)
        better = np.arange(1, 201) - worse
        seen = list(zip(worse.tolist(), better.tolist(), strict=True))
        always += any(flip_evidence(*each) >= 20 for each in seen)
        fixed += any(mcnemar_exact(*each) < 0.05 for each in seen[::5])
    assert always / 300 < 0.06
    assert fixed / 300 > 0.15


@pytest.mark.parametrize(
    "rate, sensitivity, specificity, sizes, shares",
    [
        (0.95, 0.97, 0.7, (500, 40, 20), (0.81, 0.85, 0.99)),
        (0.8, 0.95, 0.6, (1000, 100, 40), (0.08, 0.97, 0.96)),
    ],
)
def test_intervals_hold_the_true_rate_as_often_as_is_known(
    rate: float,
    sensitivity: float,
    specificity: float,
    sizes: tuple[int, int, int],
    shares: tuple[float, float, float],
) -> None:
    """Of 2,000 samples the judge's interval, the delta method's and Lang's and Reiczigel's hold the known shares."""
    generator, draws = np.random.default_rng(11), 2_000
    count, passes, fails = sizes
    hits = np.zeros(3)
    for _ in range(draws):
        judged = MeasuredShare(
            share=generator.binomial(count, rate * sensitivity + (1 - rate) * (1 - specificity)) / count, count=count
        )
        judge = JudgeAccuracy(
            sensitivity=MeasuredShare(share=generator.binomial(passes, sensitivity) / passes, count=passes),
            specificity=MeasuredShare(share=generator.binomial(fails, specificity) / fails, count=fails),
        )
        intervals = (
            around(judged.share, 1.959964 * float(np.sqrt(judged.share * (1 - judged.share) / count))),
            rogan_gladen(judged, judge).interval,
            lang_reiczigel(judged, judge).interval,
        )
        hits += [each.low <= rate <= each.high for each in intervals]
    assert tuple(hits / draws) == pytest.approx(shares, abs=0.035)
