"""Queries about the results of rules: sums by step, and results one by one."""

import datetime as dt
from collections.abc import Iterator

import pytest

from rules.statistics.sample import Sample
from storage.alerting.monitors import RuleKey
from storage.alerting.quality import Basis, Cell, Latest, OfRule, ResultCriteria, ScoresOf, StreamDay
from storage.store import Store
from tests.judged import NOW, put
from tests.matching import write
from tests.storing import a_store, trace_id
from tests.working import Book

FROM_US = 1_795_219_200_000_000 - 30 * 86_400_000_000
HOUR = dt.timedelta(hours=1)
DAY = 24 * HOUR
OF_DAY = """(day, tenant, project, revision, "name", fingerprint, release, scored, failed, skipped, passed, not_passed,
score_sum, score_square_sum, judge_calls, input_tokens, output_tokens, cost_usd)"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield one store for all tests, each with a rule of its own."""
    with a_store(tmp_path_factory.mktemp("quality")) as store:
        yield store


@pytest.fixture(scope="module")
def book(store: Store) -> Book:
    """Return the rules of the store, all active."""
    return Book(store)


class Results:
    """Results of one rule."""

    jobs = 0

    def __init__(self, book: Book, project: str | None = "shop") -> None:
        active = book.rule(evaluator="length")
        self.store, self.revision = book.store, active.revision
        self.key = RuleKey("", project, active.rule_id)

    def add(self, score: float | None = 1.0, **columns: object) -> int:
        """Add a result."""
        Results.jobs += 1
        fields = {
            "score": score,
            "passed": None if score is None else score >= 0.5,
            "fingerprint": "one",
            "release": "1",
        }
        fixed = {"job_id": Results.jobs, "revision": self.revision, "seq": Results.jobs, "project": self.key.project}
        put(self.store, "evaluation", trace_id=trace_id(Results.jobs), **(fixed | fields | columns))
        return Results.jobs

    def days(self) -> list[StreamDay]:
        """Return the results by day, as the overview of all rules has them."""
        return [day for day in self.store.quality.streams(from_us=FROM_US) if day.rule_id == self.key.rule_id]

    def steps(self, step: str = "day", **basis: bool) -> list[Cell]:
        """Return the sums of the results."""
        basis_of = Basis(**basis)
        return self.store.quality.steps(self.key, from_us=FROM_US, step=step, basis=basis_of)  # type: ignore[arg-type] # of the tests


def test_results_are_added_up_by_step_evaluator_and_release(book: Book) -> None:
    """Every result is in the one cell of its hour, its evaluator and its release, with its cost."""
    results = Results(book)
    for hours, fingerprint, release in ((0, "one", "1"), (0, "one", "2"), (0, "two", "2"), (2, "two", "2")):
        results.add(created_at=NOW + hours * HOUR, fingerprint=fingerprint, release=release, cost_usd=0.5)
    by_hour = results.steps("hour")
    assert len({cell.at_us for cell in by_hour}) == 2
    assert [(cell.fingerprint, cell.release, cell.scored) for cell in by_hour] == [
        ("one", "1", 1),
        ("one", "2", 1),
        ("two", "2", 1),
        ("two", "2", 1),
    ]
    days = results.steps("day")
    assert [(cell.fingerprint, cell.release, cell.scored) for cell in days][-1] == ("two", "2", 2)
    assert sum(cell.cost_usd for cell in days) == 2.0


def test_calls_whose_cost_is_unknown_are_counted_beside_what_was_spent(book: Book) -> None:
    """Every sum of costs says how many calls it leaves out, also of traces that have left."""
    results = Results(book)
    results.add(cost_usd=0.5, judge_calls=1)
    results.add(cost_usd=None, judge_calls=3)
    results.add(None, outcome="failed", cost_usd=None, judge_calls=None)
    gone = OF_DAY.replace("cost_usd", "cost_usd, unpriced_calls")
    write(
        book.store,
        f"INSERT INTO evaluation_day {gone} VALUES (DATE '2026-11-20', '', 'shop', {results.revision},"
        " 'Length', 'one', '1', 3, 1, 0, 2, 1, 2.5, 2.25, 9, 0, 0, 0.25, 2)",
    )
    cells, days = results.steps(), results.days()
    assert (sum(cell.cost_usd for cell in cells), sum(cell.unpriced_calls for cell in cells)) == (0.75, 5)
    assert (sum(day.cost_usd for day in days), sum(day.unpriced_calls for day in days)) == (0.75, 5)
    of = OfRule(rule=results.key.rule_id, from_us=FROM_US, project=None, tenant=None)
    (release,) = book.store.quality.groups(of, by="release", limit=10)
    assert (release.cost_usd, release.unpriced_calls) == (0.75, 5)


def test_failed_and_skipped_are_not_scores(book: Book) -> None:
    """Results without a score are counted separately, and are in no rate."""
    results = Results(book)
    results.add(0.2)
    results.add(None, outcome="failed")
    results.add(None, outcome="skipped")
    (cell,) = results.steps()
    assert (cell.scored, cell.failed, cell.skipped, cell.passed, cell.not_passed) == (1, 1, 1, 0, 1)
    assert sum(point.scored for point in cell.points) == 1


def test_a_result_that_was_replaced_costs_and_counts_no_more(book: Book) -> None:
    """The money is spent, and the score is that of the later round."""
    results = Results(book)
    replaced = results.add(0.0, cost_usd=1.0)
    put(book.store, "superseded", job_id=replaced)
    results.add(1.0, cost_usd=1.0, round=1)
    (cell,) = results.steps()
    assert (cell.scored, cell.passed, cell.cost_usd) == (1, 1, 2.0)
    assert [each.score for each in book.store.quality.results(results.key, ResultCriteria())] == [1.0]
    (day,) = results.days()
    assert (day.scored, day.score_sum, day.cost_usd) == (1, 1.0, 2.0)


def test_points_hold_scores_as_monitors_do(book: Book) -> None:
    """The sample read back equals the sample of the scores themselves; a score beyond 0 to 1 is left out."""
    results = Results(book)
    scores = [0.0, 0.015, 0.33333, 0.5, 0.77, 0.999, 1.0, 1.0]
    for score in (*scores, 7.0):
        results.add(score)
    (cell,) = results.steps()
    weights = [0] * 33
    for point, scored, above in cell.points:
        weights[point] += scored * 2048 - above
        if above:
            weights[point + 1] += above
    assert Sample.of_weights(weights) == Sample.of_scores(scores)
    assert cell.scored == 9


def test_results_of_traces_that_left_are_in_the_sums_of_days(book: Book) -> None:
    """They are reported as sums of scores in days and longer steps, and not in hours, which are not kept."""
    results = Results(book)
    results.add(1.0)
    write(
        book.store,
        f"INSERT INTO evaluation_day {OF_DAY} VALUES (DATE '2026-11-20', '', 'shop', {results.revision},"
        " 'Length', 'one', '1', 3, 1, 0, 2, 1, 2.5, 2.25, 0, 0, 0, 0.25)",
    )
    gone, kept = results.steps()
    assert (gone.scored, gone.failed, gone.passed, gone.summed, gone.score_sum, gone.points) == (3, 1, 2, 3, 2.5, ())
    assert (kept.scored, kept.summed) == (1, 0)
    assert [cell.scored for cell in results.steps("hour")] == [1]
    assert sum(cell.scored for cell in results.steps("month")) == 4
    days = results.days()
    assert [day.scored for day in days] == [3, 1]


def test_groups_are_of_a_tenant_and_of_nobody(book: Book) -> None:
    """Results of another tenant are in no line, and the operator sees all; a rule is found by its name or id."""
    results = Results(book)
    for tenant, release in (("", "1"), ("acme", "1"), ("acme", "2"), ("other", "2")):
        results.add(tenant=tenant, release=release, cost_usd=0.25)
    results.add(0.0, tenant="acme", release="2")

    def lines(
        tenant: str | None, rule: str = results.key.rule_id, project: str | None = None
    ) -> list[tuple[object, ...]]:
        of = OfRule(rule=rule, from_us=FROM_US, project=project, tenant=tenant)
        groups = book.store.quality.groups(of, by="release", limit=10)
        return sorted((each.group, each.passed, each.not_passed) for each in groups)

    assert lines("acme") == [("1", 2, 0), ("2", 1, 1)]
    assert lines("other") == [("1", 1, 0), ("2", 1, 0)]
    assert lines(None) == [("1", 2, 0), ("2", 2, 1)]
    assert lines(None, project="elsewhere") == lines("acme", rule="unheard") == []
    of = OfRule(rule=results.key.rule_id, from_us=FROM_US, project="shop", tenant=None)
    (day,) = book.store.quality.groups(of, by="day", limit=10)
    assert (day.group, day.scored, day.mean_score, day.cost_usd) == (f"{NOW:%Y-%m-%d}", 5, 0.8, 1.0)
    assert len(book.store.quality.groups(of, by="release", limit=1)) == 1


def test_the_latest_result_names_the_project(book: Book) -> None:
    """It is that of the latest result of a tenant's spans, also where only the day of it is known; or there is none."""
    results = Results(book)

    def latest(tenant: str = "") -> Latest | None:
        return book.store.quality.latest(results.key.rule_id, tenant=tenant)

    assert latest() is None
    results.add(created_at=NOW, project="later")
    results.add(created_at=NOW - HOUR)
    results.add(created_at=NOW + HOUR, tenant="acme", project="theirs")
    assert latest() == Latest("later", f"rule {results.revision}")
    assert latest("acme") == Latest("theirs", f"rule {results.revision}")
    write(
        book.store,
        f"INSERT INTO evaluation_day {OF_DAY} VALUES (DATE '2026-11-22', '', NULL, {results.revision},"
        " 'Length', 'one', '1', 1, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0)",
    )
    assert latest() == Latest(None, f"rule {results.revision}")


def test_a_project_without_a_name_is_one_too(book: Book) -> None:
    """Results of spans that name no project are not those of any other."""
    nameless = Results(book, None)
    nameless.add()
    assert [cell.scored for cell in nameless.steps()] == [1]
    other = RuleKey("", "shop", nameless.key.rule_id)
    assert book.store.quality.steps(other, from_us=FROM_US, step="day") == []
    (day,) = nameless.days()
    assert (day.project, day.rule) == (None, f"rule {nameless.revision}")


def test_another_tenant_is_not_mixed_in(book: Book) -> None:
    """Results are asked for as those of one tenant."""
    results = Results(book)
    results.add()
    results.add(tenant="acme")
    assert [cell.scored for cell in results.steps()] == [1]
    acme = results.key._replace(tenant="acme")
    assert [cell.scored for cell in book.store.quality.steps(acme, from_us=FROM_US, step="day")] == [1]


def test_results_are_found_one_by_one(book: Book) -> None:
    """By time, release, outcome, pass and score, the latest first; or the worst first."""
    results = Results(book)
    first = results.add(0.9, created_at=NOW - HOUR)
    second = results.add(0.1, release="2")
    third = results.add(0.4, release=None, fingerprint="two")
    fourth = results.add(None, outcome="failed", error_kind="timeout")
    at_us = 1_795_255_200_000_000

    def numbers_like(worst: str | None = None, **like: object) -> list[int]:
        listed = book.store.quality.results(results.key, ResultCriteria(**like), worst=worst)  # type: ignore[arg-type] # of the tests
        return [int(each.trace_id, 16) - 1 for each in listed]

    assert numbers_like() == [fourth, third, second, first]
    assert numbers_like("lowest") == [second, third, first, fourth]
    assert numbers_like("highest")[0] == first
    assert numbers_like(from_us=at_us) == [fourth, third, second]
    assert numbers_like(to_us=at_us) == [first]
    assert numbers_like(release="2") == [second]
    assert numbers_like(unreleased=True) == [third]
    assert numbers_like(fingerprint="two") == [third]
    assert numbers_like(outcome="failed") == [fourth]
    assert numbers_like(passed=False) == [third, second]
    assert numbers_like(low=0.4, high=0.9) == [third]


def test_scores_are_the_latest_of_each_release(book: Book) -> None:
    """The scores of a release are its latest up to a limit, by one evaluator, and without failures."""
    results = Results(book)
    for number in range(4):
        results.add(number / 4, created_at=NOW + number * HOUR)
    results.add(0.5, release="2")
    results.add(0.6, release="2", fingerprint="two")
    results.add(None, release="2", outcome="failed")
    of = ScoresOf(fingerprint="one", service="", releases=("1", "2", "3"))
    scores = book.store.quality.scores(results.key, of, from_us=FROM_US, each=2)
    assert scores == {"1": [0.5, 0.75], "2": [0.5], "3": []}


def test_results_stand_at_the_time_of_what_was_judged(book: Book) -> None:
    """A backfill of today counts for the days of its traces, or for today if the time of the judgement is requested."""
    results = Results(book)
    for days in (1, 1, 9):
        results.add(started_at=NOW - days * DAY)
    results.add(started_at=NOW - 300 * DAY)  # before the period, although it was judged just now
    of_traces, judged = results.steps(), results.steps(judged=True)
    assert [(cell.at_us, cell.scored) for cell in of_traces] == [(_day(9), 1), (_day(1), 2)]
    assert [(cell.at_us, cell.scored) for cell in judged] == [(_day(0), 4)]
    assert [(day.day_us, day.scored) for day in results.days()] == [(_day(9), 1), (_day(1), 2)]
    (today,) = (
        day for day in book.store.quality.streams(from_us=FROM_US, judged=True) if day.rule_id == results.key.rule_id
    )
    assert (today.day_us, today.scored) == (_day(0), 4)
    for judged_at, like, expected in ((False, _day(1), 2), (True, _day(1), 0), (True, _day(0), 4)):
        bounds = ResultCriteria(from_us=like, to_us=like + 86_400_000_000, judged=judged_at)
        assert len(book.store.quality.results(results.key, bounds)) == expected
    for judged_at, lines in ((False, [(f"{NOW - DAY:%Y-%m-%d}", 2), (f"{NOW - 9 * DAY:%Y-%m-%d}", 1)]), (True, 4)):
        of = OfRule(rule=results.key.rule_id, from_us=FROM_US, project="shop", tenant="", judged=judged_at)
        groups = book.store.quality.groups(of, by="day", limit=10)
        assert ([(each.group, each.scored) for each in groups] if lines != 4 else groups[0].scored) == lines


def _day(days: int) -> int:
    start = (NOW - days * DAY).replace(hour=0, minute=0, second=0, microsecond=0)
    return (start - dt.datetime(1970, 1, 1, tzinfo=start.tzinfo)) // dt.timedelta(microseconds=1)


def test_releases_are_told_apart_by_service(book: Book) -> None:
    """Two services that count their releases alike are two sums, two lines and two lists."""
    results = Results(book)
    for service, score in (("cart", 1.0), ("cart", 1.0), ("search", 0.0), (None, 0.5)):
        results.add(score, service=service, release="1.0")
    assert {cell.service: (cell.scored, cell.score_sum or cell.passed) for cell in results.steps()} == {
        "cart": (2, 2),
        "search": (1, 0),
        None: (1, 1),
    }
    for service, expected in (("cart", 2), ("search", 1), ("", 1), (None, 4)):
        assert len(book.store.quality.results(results.key, ResultCriteria(service=service, release="1.0"))) == expected
    of = OfRule(rule=results.key.rule_id, from_us=FROM_US, project="shop", tenant="")
    lines = book.store.quality.groups(of, by="release", limit=10)
    assert {(each.group, each.service, each.scored) for each in lines} == {
        ("1.0", "cart", 2),
        ("1.0", "search", 1),
        ("1.0", None, 1),
    }
    assert [each.scored for each in book.store.quality.groups(of, by="day", limit=10)] == [4]
    scores = ScoresOf(fingerprint="one", service="cart", releases=("1.0",))
    assert book.store.quality.scores(results.key, scores, from_us=FROM_US, each=9) == {"1.0": [1.0, 1.0]}


def test_what_monitors_count_can_be_counted_alone(book: Book) -> None:
    """The first score of each target is counted, also once another round replaced it; a backfill is not."""
    results = Results(book)
    first = results.add(0.0, counted=True)
    put(book.store, "superseded", job_id=first)
    results.add(1.0, round=1, occasion="again")
    results.add(1.0, occasion="backfill")
    results.add(1.0, counted=True)
    results.add(None, outcome="failed")
    (every,), (counted,) = results.steps(), results.steps(counted=True)
    assert (every.scored, every.passed, every.not_passed, every.failed) == (3, 3, 0, 1)
    assert (counted.scored, counted.passed, counted.not_passed, counted.failed) == (2, 1, 1, 1)
    assert (every.counted, counted.counted) == (2, 2)
    listed = book.store.quality.results(results.key, ResultCriteria(outcome="scored", counted=True))
    assert sorted(each.score or 0.0 for each in listed) == [0.0, 1.0]
