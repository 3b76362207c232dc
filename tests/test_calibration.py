"""A judge against people: error rates, corrected rates and their coverage; over HTTP, on the page, in the command."""

import re
from collections.abc import Iterator

import numpy as np
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.calibration import a_labelled_sample, a_weighted_sample
from rules.statistics.calibration import Calibration, alpha_of_people, calibrate, confusion_of, in_words
from rules.statistics.correcting import Confusion, IntervalMeasure, by_error_rates, by_verdict, strata
from rules.statistics.formulas.judge_error import JudgeAccuracy, MeasuredShare, prediction_powered
from rules.statistics.surviving import (
    CorrectedDifference,
    JudgedSide,
    corrected_difference,
    corrected_rate,
    known_judge,
)
from tests.connecting import ENCRYPTION_KEY, a_connection
from tests.live import until
from tests.model_server import ModelRequest, Says, a_model
from tests.offline import Offline, an_offline_server
from tests.paging import Visit
from tests.serving import an_export, post, run
from tests.source_tree import ROOT

PAGE = (ROOT / "docs" / "review.md").read_text(encoding="utf-8")


def table(*counts: int) -> Confusion:
    """Build a confusion matrix: people pass and judge passes, pass and fail, fail and pass, fail and fail."""
    names = ("passed_passed", "passed_failed", "failed_passed", "failed_failed")
    return Confusion(**dict(zip(names, counts, strict=True)))


def bounds(calibration: Calibration) -> tuple[float, float, float]:
    """Return the corrected rate with its interval."""
    assert calibration.corrected.value is not None
    assert calibration.corrected.interval is not None
    return calibration.corrected.value, calibration.corrected.interval.low, calibration.corrected.interval.high


def test_blind_labels_are_corrected_by_error_rates() -> None:
    """The numbers of Lang and Reiczigel: 84 % of 1,000, sensitivity 0.95 of 100, specificity 0.6 of 40, are 80 %."""
    calibration = calibrate(table(95, 5, 16, 24), judged_passed=840, judged_failed=160)
    assert (calibration.sensitivity.value, calibration.specificity.value) == (0.95, 0.6)
    by_rates = by_error_rates(table(95, 5, 16, 24), MeasuredShare(share=0.84, count=1_000))
    assert by_rates.rate.value == pytest.approx(0.8, abs=1e-9)
    assert by_rates.rate.interval is not None
    assert (by_rates.rate.interval.low, by_rates.rate.interval.high) == pytest.approx((0.707287, 0.900537), abs=2e-6)
    assert calibration.standing == "informative"
    assert calibration.raw.value == 0.84


def test_prediction_power_corrects_where_it_is_tighter() -> None:
    """Of the same labels PPI++ makes the tighter interval, with one label more of each kind; few labels have none."""
    calibration = calibrate(table(95, 5, 16, 24), judged_passed=840, judged_failed=160)
    assert calibration.method == "prediction_powered"
    people, judged = [1.0] * 100 + [0.0] * 40, [1.0] * 95 + [0.0] * 5 + [1.0] * 16 + [0.0] * 24
    rest = [1.0] * 729 + [0.0] * 131
    plain = prediction_powered(people, judged, rest)
    soft = prediction_powered([1.0, 1.0, 0.0, 0.0, *people], [1.0, 0.0, 1.0, 0.0, *judged], rest)
    assert bounds(calibration) == pytest.approx((plain.value, soft.interval.low, soft.interval.high), abs=1e-9)
    assert calibration.more is not None
    few = calibrate(table(15, 1, 3, 8), judged_passed=667, judged_failed=333)
    assert few.method == "error_rates"
    none_left = calibrate(table(95, 5, 16, 24), judged_passed=111, judged_failed=29)
    assert none_left.method == "error_rates", "all results have labels: there is no rest to predict"


def test_labels_chosen_by_the_verdict_are_weighed_by_it() -> None:
    """With failures reviewed first, naive error rates would give 139 %: the strata give 75.4 %, 0.947 and 0.488."""
    calibration = calibrate(table(34, 20, 6, 60), judged_passed=840, judged_failed=160)
    assert calibration.method == "by_verdict"
    assert calibration.sensitivity.value == pytest.approx(0.94695, abs=1e-5)
    assert calibration.specificity.value == pytest.approx(0.487805, abs=1e-6)
    value, low, high = bounds(calibration)
    assert value == pytest.approx(0.754, abs=1e-9)
    assert (low, high) == pytest.approx((0.6586, 0.8494), abs=0.02)


@pytest.mark.parametrize(
    "counts, standing, words",
    [
        ((3, 1, 2, 2), "unknown", "5 of each"),
        ((0, 0, 0, 0), "unknown", "annotators passed 0 and failed 0"),
        ((45, 5, 45, 5), "useless", "hardly better than chance"),
        ((5, 45, 45, 5), "useless", "hardly better than chance"),
        ((5, 2, 3, 3), "unproven", "cannot distinguish the judge from one that guesses"),
        ((45, 5, 5, 45), "informative", "corrected rate"),
    ],
)
def test_what_a_judge_is_worth_is_said_in_words(counts: tuple[int, ...], standing: str, words: str) -> None:
    """Too few labels, a guessing judge, a possibly guessing one, and an informative one are four different answers."""
    confusion = table(*counts)
    passed = 10 * (confusion.passed_passed + confusion.failed_passed)
    calibration = calibrate(confusion, judged_passed=passed, judged_failed=10 * confusion.labels - passed)
    assert calibration.standing == standing
    assert words in in_words(calibration)
    assert (calibration.corrected.value is None) is (standing in {"unknown", "useless"})


def test_the_labels_that_are_asked_for_halve_the_interval() -> None:
    """With as many more labels of the same kind as were asked for, the interval is half as long."""
    for counts, judged in (((95, 5, 16, 24), (79_286, 20_714)), ((34, 20, 6, 60), (84_000, 16_000))):
        before = calibrate(table(*counts), judged_passed=judged[0], judged_failed=judged[1])
        assert before.more is not None
        assert before.more.count is not None
        more = [round(count * (1 + before.more.count / sum(counts))) for count in counts]
        after = calibrate(table(*more), judged_passed=judged[0], judged_failed=judged[1])
        assert after.method == before.method
        assert before.method == ("prediction_powered" if counts[0] == 95 else "by_verdict")
        width_before, width_after = (bounds(each)[2] - bounds(each)[1] for each in (before, after))
        assert width_after / width_before == pytest.approx(0.5, abs=0.06)
    few = calibrate(table(950, 50, 160, 240), judged_passed=84, judged_failed=16)
    assert few.more is not None
    assert few.more.count is None, "a hundred results leave more doubt than any label can take away"


def test_measures_that_are_undefined_are_not_one_and_not_zero() -> None:
    """Kappa of people and a judge who pass everything is undefined, and so is alpha of single votes."""
    calibration = calibrate(table(20, 0, 0, 0), judged_passed=20, judged_failed=0)
    assert calibration.kappa.value is None
    assert calibration.agreement.value == 1
    assert alpha_of_people([[True], [False], [True]]).value is None
    assert alpha_of_people([[True, True], [True, True]]).value is None


def test_people_are_held_against_each_other() -> None:
    """Krippendorff's alpha of three raters with gaps is the published number, inside its interval."""
    raters = ("110101-", "1001011", "110-001")
    votes = [[vote == "1" for vote in unit if vote != "-"] for unit in zip(*raters, strict=True)]
    alpha = alpha_of_people(votes)
    assert alpha.value == pytest.approx(0.590909, abs=1e-6)
    assert alpha.value is not None
    assert alpha.interval is not None
    assert alpha.interval.low < alpha.value <= alpha.interval.high


@pytest.mark.parametrize("way", ["blind", "failing first"])
def test_the_corrected_rate_covers_what_people_would_find(way: str) -> None:
    """At 95 %, 93 % of 400 samples at least hold the rate, however labels were drawn; of raw rates hardly any do."""
    generator, hits, raw_hits, weighed = np.random.default_rng(6), 0, 0, 0
    for _ in range(400):
        confusion, passed = a_labelled_sample(generator, failing_first=way == "failing first")
        calibration = calibrate(confusion, judged_passed=passed, judged_failed=1_000 - passed)
        _, low, high = bounds(calibration)
        assert calibration.raw.interval is not None
        hits += low <= 0.8 <= high
        raw_hits += calibration.raw.interval.low <= 0.8 <= calibration.raw.interval.high
        weighed += calibration.method == "by_verdict"
    assert hits / 400 >= 0.93
    assert raw_hits / 400 < 0.2
    assert weighed / 400 == 1 if way == "failing first" else weighed / 400 < 0.05


def test_weighted_labels_cover_what_people_would_find() -> None:
    """With labels mostly near the threshold, weighted intervals cover the rate in 92 %; unweighted ones rarely do."""
    generator, hits, unweighted, known = np.random.default_rng(6), 0, 0, 0
    for _ in range(300):
        drawn, judged_passed, judged = a_weighted_sample(generator)
        failed = judged - judged_passed
        confusion = confusion_of((each.people, each.judged) for each in drawn)
        calibration = calibrate(confusion, judged_passed=judged_passed, judged_failed=failed, drawn=drawn)
        assert calibration.method == "by_weight"
        _, low, high = bounds(calibration)
        known += 1
        hits += low <= 0.8 <= high
        plain = calibrate(confusion, judged_passed=judged_passed, judged_failed=failed).corrected.interval
        unweighted += plain is not None and plain.low <= 0.8 <= plain.high
    assert hits / known >= 0.92
    assert unweighted / known < 0.5


def of(difference: CorrectedDifference | None) -> CorrectedDifference:
    """Narrow an optional difference."""
    assert difference is not None
    return difference


def test_a_difference_survives_what_is_known_of_the_judge() -> None:
    """A clear difference survives a good judge; with few labels, or of a judge that nearly guesses, it does not."""
    before, after = JudgedSide(passed=800, failed=200), JudgedSide(passed=700, failed=300)
    good = calibrate(table(95, 5, 10, 90), judged_passed=1_050, judged_failed=950)
    difference = of(corrected_difference(before, after, good))
    assert (difference.basis, difference.survives) == ("shared_labels", True)
    assert difference.difference == pytest.approx(-0.1 / 0.85, abs=0.01)
    assert difference.interval.high < 0
    assert "survives" in difference.in_words
    weak = calibrate(table(8, 3, 5, 6), judged_passed=1_500, judged_failed=500)
    lost = of(corrected_difference(before, after, weak))
    assert not lost.survives
    assert lost.interval.low < 0 < lost.interval.high
    useless = calibrate(table(45, 5, 45, 5), judged_passed=1_500, judged_failed=500)
    assert corrected_difference(before, after, useless) is None
    assert corrected_difference(before, JudgedSide(passed=0, failed=0), good) is None


def test_a_judge_that_errs_otherwise_after_a_release_is_found_out() -> None:
    """Where each release has labels its own count: a judge that grew lenient shows a gain that people do not see."""
    before = JudgedSide(passed=600, failed=400, labels=table(55, 5, 5, 35))
    after = JudgedSide(passed=800, failed=200, labels=table(57, 3, 25, 15))
    shared = calibrate(table(112, 8, 30, 50), judged_passed=1_400, judged_failed=600)
    difference = of(corrected_difference(before, after, shared))
    assert (difference.basis, difference.survives) == ("own_labels", False)
    assert difference.baseline.value == pytest.approx(0.6, abs=0.01)
    assert difference.candidate.value == pytest.approx(0.59, abs=0.01)


def test_corrected_differences_hold_what_people_would_find() -> None:
    """At 95 %, 92 % of 400 samples at least hold the true difference, by labels of each side and by those of all."""
    generator, hits = np.random.default_rng(5), {"own_labels": 0, "shared_labels": 0}
    for _ in range(400):
        sides, labels = [], []
        for rate in (0.8, 0.7):
            confusion, passed = a_labelled_sample(generator, failing_first=False, rate=rate)
            labels.append(confusion)
            sides.append(JudgedSide(passed=passed, failed=1_000 - passed, labels=confusion))
        cells = [[count for row in each.table for count in row] for each in labels]
        together = table(*(one + other for one, other in zip(*cells, strict=True)))
        judged = sum(each.passed for each in sides)
        known = calibrate(together, judged_passed=judged, judged_failed=2_000 - judged)
        for basis in hits:
            own = basis == "own_labels"
            pair = sides if own else [JudgedSide(passed=each.passed, failed=each.failed) for each in sides]
            difference = of(corrected_difference(pair[0], pair[1], known))
            assert difference.basis == basis
            hits[basis] += difference.interval.low <= -0.1 <= difference.interval.high
    assert min(hits.values()) / 400 >= 0.92, hits


def test_a_judge_is_as_well_known_as_its_interval_says() -> None:
    """A judge known by its intervals gives the same corrected rate as by its counts; a useless one gives none."""
    calibration = calibrate(table(95, 5, 16, 24), judged_passed=840, judged_failed=160)
    judge = known_judge(calibration)
    assert isinstance(judge, JudgeAccuracy)
    assert (judge.sensitivity.count, judge.specificity.count) == pytest.approx((100, 40), rel=0.2)
    rate: IntervalMeasure = corrected_rate(840, 1_000, judge)
    assert rate.value == pytest.approx(0.8)
    assert rate.interval is not None
    assert (rate.interval.low, rate.interval.high) == pytest.approx((0.707, 0.9), abs=0.02)
    assert known_judge(calibrate(table(45, 5, 45, 5), judged_passed=90, judged_failed=10)) is None


TRACES = 300
"""Of the worked example; every third is voted on."""


def is_good(number: int) -> bool:
    """Return the label that people would give: seven of ten answers are good."""
    return number % 10 < 7


def a_biased_judge(request: ModelRequest) -> Says:
    """Pass all good answers but a few, and every other bad one."""
    match = re.search(r"answer number (\d+)", request.user)
    assert match is not None
    number = int(match[1])
    passes = number % 20 != 0 if is_good(number) else number % 20 < 10
    return Says({"reason": "as I like it", "score": 1.0 if passes else 0.0})


def some_answers() -> bytes:
    """Return traces with one answer each."""
    request = ExportTraceServiceRequest()
    for number in range(TRACES):
        one = an_export(f"{number + 1:032x}", "chat", at_s=number)
        span = one.resource_spans[0].scope_spans[0].spans[0]
        span.attributes.add(key="output.value").value.string_value = f"answer number {number}"
        request.MergeFrom(one)
    return request.SerializeToString()


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Start a server whose biased judge has judged all answers, without any votes."""
    with (
        a_model(a_biased_judge) as model,
        an_offline_server(tmp_path_factory.mktemp("example") / "data", encryption_key=ENCRYPTION_KEY) as api,
    ):
        assert api.running is not None
        made = api.running.context.judging.connections.create(a_connection(model.base_url))
        rule = {
            "name": "polite",
            "evaluator": "llm_judge",
            "connectionId": made.connection_id,
            "config": {"criteria": "Is it polite?", "evaluationParams": ["ACTUAL_OUTPUT"]},
        }
        api.ask("POST", "projects/shop/trace-eval-rules", 201, json=rule)
        post(f"http://{api.running.otlp_http}/v1/traces", some_answers())
        done = "SELECT count(*) FROM evaluations WHERE outcome = 'scored'"
        until(lambda: api.sql(done), lambda rows: rows == [[TRACES]])
        yield api


def vote_on_every_third(example: Offline) -> None:
    """Cast a hundred votes of Ada's; casting them again changes nothing."""
    for number in range(0, TRACES, 3):
        vote = {"verdict": "CORRECT" if is_good(number) else "INCORRECT", "by": "Ada"}
        path = f"traces/{number + 1:032x}/annotation?spanId={1:016x}"
        example.ask("PUT", path, json=vote)


@pytest.mark.costly("collector/api", "collector/cli", "docs/review.md", "rules", "storage")
def test_the_worked_example_runs_as_the_page_tells_it(example: Offline) -> None:
    """What the page shows before and after a hundred votes is what the command prints."""
    before, after = re.findall(r"^```\n\$ tracejury calibration polite\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    command = ("calibration", "polite", "--server", example.url)
    assert without_fingerprint(run(*command).output) == without_fingerprint(before)
    with Visit(example.url) as visit:
        rule = example.ask("GET", "trace-eval-rules")["content"][0]
        page = f"/quality?rule={rule['id']}&project=shop"
        assert "annotators passed 0 and failed 0" in visit.get(page).text
        vote_on_every_third(example)
        assert without_fingerprint(run(*command).output) == without_fingerprint(after)
        shown = visit.get(page).text
        assert "100 results" in shown
        assert 'href="/traces/' in shown.partition("disagreements")[2]
    path = f"projects/shop/trace-eval-rules/{rule['id']}/calibration"
    (judge,) = example.ask("GET", path)["judges"]
    assert judge["corrected"]["low"] < 0.7 < judge["corrected"]["high"]
    assert judge["raw"]["low"] > 0.7
    assert {each["peoplePassed"] for each in judge["disagreements"]} == {True, False}
    assert example.ask("GET", path, params={"source": "user"})["judges"][0]["labelled"] == 0
    example.ask("GET", path.replace(rule["id"], "none"), 404)


def test_an_even_vote_counts_for_nothing_until_it_is_decided(example: Offline) -> None:
    """Two people who disagree leave a result without a label, which an adjudicator gives it."""
    rule = example.ask("GET", "trace-eval-rules")["content"][0]
    path = f"projects/shop/trace-eval-rules/{rule['id']}/calibration?name=tone"
    vote = f"traces/{2:032x}/annotation?spanId={1:016x}"
    for name, verdict in (("Ada", "CORRECT"), ("Bob", "INCORRECT")):
        example.ask("PUT", vote, json={"name": "tone", "verdict": verdict, "by": name})
    (judge,) = example.ask("GET", path)["judges"]
    assert (judge["labelled"], judge["undecided"]) == (0, 1)
    example.ask("PUT", vote, json={"name": "tone", "verdict": "INCORRECT", "by": "Eve", "adjudicates": True})
    (judge,) = example.ask("GET", path)["judges"]
    assert (judge["labelled"], judge["undecided"]) == (1, 0)


def without_fingerprint(text: str) -> list[str]:
    """Return the lines, with what depends on the connection's address left out."""
    return [re.sub(r"^judge [0-9a-f]{12}", "judge", line).rstrip() for line in text.strip().splitlines()]


def test_corrected_rates_stand_beside_the_raw_ones(example: Offline) -> None:
    """The lines of the quality route and the overview have corrected rates beside the raw ones."""
    if example.sql("SELECT labels FROM judge_rates") != [[100]]:  # this test runs alone
        vote_on_every_third(example)
    rule = example.ask("GET", "trace-eval-rules")["content"][0]
    (line,) = example.ask("GET", "quality", params={"rule": rule["id"], "by": "project"})["lines"]
    assert line["rate"] == pytest.approx(0.8)
    assert line["corrected"]["value"] == pytest.approx(0.7, abs=0.001)
    assert line["corrected"]["low"] < 0.7 < line["corrected"]["high"]
    with Visit(example.url) as visit:
        assert "70.0 %" in visit.get("/quality").text
    columns = "rule, labels, passed_passed, passed_failed, failed_passed, failed_failed, useless"
    rows = example.sql(f"SELECT {columns} FROM judge_rates")
    assert rows == [["polite", 100, 65, 5, 15, 15, False]]
    ((rate, low, high, sensitivity),) = example.sql(
        "SELECT corrected, corrected_low, corrected_high, sensitivity FROM judge_rates"
    )
    assert (rate, sensitivity) == pytest.approx((0.7, 65 / 70), abs=0.001)
    expected = by_verdict(*strata(table(65, 5, 15, 15), 240, 300), 300).rate.interval
    assert expected is not None
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-6)
