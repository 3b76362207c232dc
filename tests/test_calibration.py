"""A judge against people: error rates, corrected rates and their coverage; over HTTP, on the page, in the command."""

import re
from collections.abc import Iterator

import numpy as np
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.calibration import a_labelled_sample
from rules.statistics.calibration import Calibration, Confusion, alpha_of_people, calibrate, in_words
from tests.connecting import ENCRYPTION_KEY, a_connection
from tests.live import until
from tests.model_server import Asked, Says, a_model
from tests.offline import Offline, an_offline_server
from tests.paging import Visit
from tests.serving import an_export, post, run
from tests.source_tree import ROOT

PAGE = (ROOT / "docs" / "review.md").read_text(encoding="utf-8")


def table(*counts: int) -> Confusion:
    """Counts in the order people pass and judge passes, pass and fail, fail and pass, fail and fail."""
    names = ("passed_passed", "passed_failed", "failed_passed", "failed_failed")
    return Confusion(**dict(zip(names, counts, strict=True)))


def bounds(found: Calibration) -> tuple[float, float, float]:
    """The corrected rate with its interval."""
    assert found.corrected.value is not None
    assert found.corrected.interval is not None
    return found.corrected.value, found.corrected.interval.low, found.corrected.interval.high


def test_blind_labels_are_corrected_by_error_rates() -> None:
    """The numbers of Lang and Reiczigel: 84 % of 1,000, sensitivity 0.95 of 100, specificity 0.6 of 40, are 80 %."""
    found = calibrate(table(95, 5, 16, 24), judged_passed=840, judged_failed=160)
    assert found.method == "error_rates"
    assert (found.sensitivity.value, found.specificity.value) == (0.95, 0.6)
    assert bounds(found) == pytest.approx((0.8, 0.707287, 0.900537), abs=1e-6)
    assert found.standing == "informative"
    assert found.raw.value == 0.84


def test_labels_chosen_by_the_verdict_are_weighed_by_it() -> None:
    """With what failed reviewed first, naive error rates would say 139 %: the strata say 75.4 %, 0.947 and 0.488."""
    found = calibrate(table(34, 20, 6, 60), judged_passed=840, judged_failed=160)
    assert found.method == "by_verdict"
    assert found.sensitivity.value == pytest.approx(0.94695, abs=1e-5)
    assert found.specificity.value == pytest.approx(0.487805, abs=1e-6)
    value, low, high = bounds(found)
    assert value == pytest.approx(0.754, abs=1e-9)
    assert (low, high) == pytest.approx((0.6586, 0.8494), abs=0.02)


@pytest.mark.parametrize(
    "counts, standing, words",
    [
        ((3, 1, 2, 2), "unknown", "5 of each"),
        ((0, 0, 0, 0), "unknown", "people passed 0 and failed 0"),
        ((45, 5, 45, 5), "useless", "useless"),
        ((5, 45, 45, 5), "useless", "useless"),
        ((5, 2, 3, 3), "unproven", "cannot be told from one that guesses"),
        ((45, 5, 5, 45), "informative", "corrected rate"),
    ],
)
def test_what_a_judge_is_worth_is_said_in_words(counts: tuple[int, ...], standing: str, words: str) -> None:
    """Too few labels, a judge that guesses, one that may, and one that tells something are four different answers."""
    confusion = table(*counts)
    passed = 10 * (confusion.passed_passed + confusion.failed_passed)
    found = calibrate(confusion, judged_passed=passed, judged_failed=10 * confusion.labels - passed)
    assert found.standing == standing
    assert words in in_words(found)
    assert (found.corrected.value is None) is (standing in {"unknown", "useless"})


def test_the_labels_that_are_asked_for_halve_the_interval() -> None:
    """With as many more labels of the same kind as were asked for, the interval is half as long."""
    for counts, judged in (((95, 5, 16, 24), (79_286, 20_714)), ((34, 20, 6, 60), (84_000, 16_000))):
        before = calibrate(table(*counts), judged_passed=judged[0], judged_failed=judged[1])
        assert before.more is not None
        assert before.more.count is not None
        more = [round(count * (1 + before.more.count / sum(counts))) for count in counts]
        after = calibrate(table(*more), judged_passed=judged[0], judged_failed=judged[1])
        assert after.method == before.method
        width_before, width_after = (bounds(each)[2] - bounds(each)[1] for each in (before, after))
        assert width_after / width_before == pytest.approx(0.5, abs=0.06)
    few = calibrate(table(950, 50, 160, 240), judged_passed=84, judged_failed=16)
    assert few.more is not None
    assert few.more.count is None, "a hundred results leave more doubt than any label can take away"


def test_measures_that_are_undefined_are_not_one_and_not_zero() -> None:
    """Kappa of people and a judge who pass everything is undefined, and so is alpha of single votes."""
    found = calibrate(table(20, 0, 0, 0), judged_passed=20, judged_failed=0)
    assert found.kappa.value is None
    assert found.agreement.value == 1
    assert alpha_of_people([[True], [False], [True]]).value is None
    assert alpha_of_people([[True, True], [True, True]]).value is None


def test_people_are_held_against_each_other() -> None:
    """Krippendorff's alpha of three raters with gaps is the published number, inside its interval."""
    raters = ("110101-", "1001011", "110-001")
    votes = [[vote == "1" for vote in unit if vote != "-"] for unit in zip(*raters, strict=True)]
    found = alpha_of_people(votes)
    assert found.value == pytest.approx(0.590909, abs=1e-6)
    assert found.value is not None
    assert found.interval is not None
    assert found.interval.low < found.value <= found.interval.high


@pytest.mark.parametrize("way", ["blind", "failing first"])
def test_the_corrected_rate_covers_what_people_would_find(way: str) -> None:
    """At 95 %, 93 % of 400 samples at least hold the rate, however labels were drawn; of raw rates hardly any do."""
    generator, hits, raw_hits, weighed = np.random.default_rng(6), 0, 0, 0
    for _ in range(400):
        confusion, passed = a_labelled_sample(generator, failing_first=way == "failing first")
        found = calibrate(confusion, judged_passed=passed, judged_failed=1_000 - passed)
        _, low, high = bounds(found)
        assert found.raw.interval is not None
        hits += low <= 0.8 <= high
        raw_hits += found.raw.interval.low <= 0.8 <= found.raw.interval.high
        weighed += found.method == "by_verdict"
    assert hits / 400 >= 0.93
    assert raw_hits / 400 < 0.2
    assert weighed / 400 == 1 if way == "failing first" else weighed / 400 < 0.05


TRACES = 300
"""Of the worked example; every third is voted on."""


def is_good(number: int) -> bool:
    """What people would say of an answer: seven of ten are good."""
    return number % 10 < 7


def a_biased_judge(asked: Asked) -> Says:
    """Passes all good answers but a few, and every other bad one."""
    found = re.search(r"answer number (\d+)", asked.user)
    assert found is not None
    number = int(found[1])
    passes = number % 20 != 0 if is_good(number) else number % 20 < 10
    return Says({"reason": "as I like it", "score": 1.0 if passes else 0.0})


def some_answers() -> bytes:
    """Traces with one answer each."""
    request = ExportTraceServiceRequest()
    for number in range(TRACES):
        one = an_export(f"{number + 1:032x}", "chat", at_s=number)
        span = one.resource_spans[0].scope_spans[0].spans[0]
        span.attributes.add(key="output.value").value.string_value = f"answer number {number}"
        request.MergeFrom(one)
    return request.SerializeToString()


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """A server whose biased judge has judged all answers; nobody has voted."""
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
        until(lambda: api.sql(done), lambda found: found == [[TRACES]])
        yield api


def test_the_worked_example_runs_as_the_page_tells_it(example: Offline) -> None:
    """What the page shows before and after a hundred votes is what the command prints."""
    before, after = re.findall(r"^```\n\$ tracejury calibration polite\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    command = ("calibration", "polite", "--server", example.url)
    assert without_fingerprint(run(*command).output) == without_fingerprint(before)
    with Visit(example.url) as visit:
        rule = example.ask("GET", "trace-eval-rules")["content"][0]
        page = f"/quality?rule={rule['id']}&project=shop"
        assert "people passed 0 and failed 0" in visit.get(page).text
        for number in range(0, TRACES, 3):
            vote = {"verdict": "CORRECT" if is_good(number) else "INCORRECT", "by": "Ada"}
            path = f"traces/{number + 1:032x}/annotation?spanId={1:016x}"
            example.ask("PUT", path, json=vote)
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
    """The lines, with what depends on the connection's address left out."""
    return [re.sub(r"^judge [0-9a-f]{12}", "judge", line).rstrip() for line in text.strip().splitlines()]
