"""Monitors over stored results: which of them count, when an alert is opened, and that it can be checked."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from collector.live.active import ActiveRule
from collector.live.monitors.monitors import MonitorThread
from collector.live.monitors.streams import EpisodeAlarm
from storage.alerting.alerts import AlertFilter, AlertFinding
from storage.judging.baselines import BaselineRequest, ComparedStream
from tests.matching import write
from tests.storing import a_store, rows, trace_id
from tests.test_alerts import a_webhook
from tests.watching import Made, come, drawn, finish, rebuild, remembered, watching
from tests.working import Book

pytestmark = pytest.mark.costly("collector/delivery", "collector/live", "rules", "storage")

_RULE = """
'' AS tenant, 'rule' AS "name", '' AS "text", true AS enabled, 1 AS "version",
TIMESTAMP '2026-11-20' AS created_at, TIMESTAMP '2026-11-20' AS updated_at
"""
CHECK = {"evaluator": "length", "config": {"maximumOutputLength": 100}}


def test_a_release_that_got_worse_opens_one_alert_that_can_be_checked(tmp_path: Path) -> None:
    """The alert's SQL gives its own counts of both sides, and its examples are failures of the new release."""
    source = random.Random(1)
    with a_store(tmp_path) as store:
        book = Book(store)
        active = book.rule("check", **CHECK)
        a_webhook(store)
        with watching(book) as watched:
            come(store, active, drawn(source, 400, 0.95, first=1))
            watched()
            assert store.alerts.newest() == []
            come(store, active, drawn(source, 300, 0.6, first=401, release="2"))
            watched()
            (alert,) = store.alerts.newest()
            finding = alert.finding
            assert (finding.kind, finding.baseline.release, finding.candidate.release) == ("release", "1", "2")
            assert (finding.project, finding.rule, finding.evaluator) == ("shop", "rule 1", "Politeness")
            assert finding.fingerprint == "print-1"
            assert finding.evidence >= finding.evidence_threshold
            counted = rows(store, str(finding.document["sql"]))
            assert counted == [
                ("baseline", 400, pytest.approx(finding.baseline.rate)),
                ("candidate", finding.candidate.count, pytest.approx(finding.candidate.rate)),
            ]
            failed = round(finding.candidate.count * (1 - finding.candidate.rate))
            assert finding.regressed_count == failed
            examples = finding.document["examples"]
            assert isinstance(examples, list)
            assert len(examples) == min(failed, 10)
            bad = "SELECT trace_id FROM evaluations WHERE NOT passed AND release = '2'"
            assert {each["traceId"] for each in examples if isinstance(each, dict)} <= {t for (t,) in rows(store, bad)}
            come(store, active, drawn(source, 400, 0.97, first=701, release="3"))
            watched()
            (alert,) = store.alerts.newest(AlertFilter(state="recovered"))
            assert alert.recovery is not None
            assert alert.recovery["how"] == "recovered"
        query = "SELECT type, count(*) FROM alert_delivery GROUP BY ALL ORDER BY ALL"
        assert rows(store, query) == [("alert.opened", 1), ("alert.recovered", 1)]
        before = remembered(store)
        assert rebuild(book) == before
        assert rows(store, query) == [("alert.opened", 1), ("alert.recovered", 1)]


def test_an_alert_whose_results_become_much_worse_is_told_again(tmp_path: Path) -> None:
    """It keeps its id, has the current rate with its SQL, and the rate reported before; a rebuild reports nothing."""
    source = random.Random(11)
    with a_store(tmp_path) as store:
        book = Book(store)
        active = book.rule("check", **CHECK, monitor={"severity": "critical"})
        a_webhook(store)
        with watching(book) as watched:
            come(store, active, drawn(source, 600, 0.92, first=1))
            come(store, active, drawn(source, 400, 0.7, first=601, release="2"))
            watched()
            (opened,) = store.alerts.newest()
            assert (opened.state, opened.finding.severity, opened.escalations) == ("open", "critical", 0)
            store.alerts.acknowledge(opened.alert_id, opened.opened_at_ns, by="Ada")
            come(store, active, drawn(source, 200, 0.2, first=1_001, release="2"))
            watched()
            (alert,) = store.alerts.newest()
            finding = alert.finding
            assert (alert.alert_id, alert.state, alert.escalations) == (opened.alert_id, "open", 1)
            assert finding.candidate.rate < 0.4 < opened.finding.candidate.rate
            assert (finding.baseline, finding.severity) == (opened.finding.baseline, "critical")
            counted = rows(store, str(finding.document["sql"]))
            assert counted == [
                ("baseline", 600, pytest.approx(finding.baseline.rate)),
                ("candidate", finding.candidate.count, pytest.approx(finding.candidate.rate)),
            ]
            reported = finding.document["told"]
            assert isinstance(reported, list)
            assert [each["rate"] for each in reported if isinstance(each, dict)] == [opened.finding.candidate.rate]
        events = "SELECT type, count(*) FROM alert_delivery GROUP BY ALL ORDER BY ALL"
        once = [("alert.acknowledged", 1), ("alert.escalated", 1), ("alert.opened", 1)]
        assert rows(store, events) == once
        before = remembered(store)
        assert rebuild(book) == before
        assert rows(store, events) == once


def test_another_severity_begins_nothing_anew(tmp_path: Path) -> None:
    """An alert that is open goes on where only the severity of later ones is another."""
    source = random.Random(12)
    with a_store(tmp_path) as store:
        book = Book(store)
        old = book.rule("check", **CHECK)
        new = book.rule("check", **CHECK, monitor={"severity": "info"})
        book.revisions[2] = new = replace(new, rule_id=old.rule_id)
        write(store, "UPDATE rule_revision SET rule_id = 'id-1'")
        with watching(book) as watched:
            come(store, old, drawn(source, 400, 0.95, first=1))
            come(store, old, drawn(source, 200, 0.5, first=401, release="2"))
            come(store, new, drawn(source, 20, 0.5, first=601, release="2"))
            watched()
        (alert,) = store.alerts.newest()
        assert (alert.state, alert.finding.severity) == ("open", "warning")
        assert remembered(store)[0]["state"]["settings_of"] == 2


def test_results_of_two_tenants_are_never_compared(tmp_path: Path) -> None:
    """By one rule, in one project: each tenant has a stream, and if one becomes worse the alert is the tenant's own."""
    source = random.Random(2)
    with a_store(tmp_path) as store:
        book = Book(store)
        active = book.rule("check", **CHECK)
        with watching(book) as watched:
            come(store, active, drawn(source, 200, 0.95, first=1, tenant="a", release="1"))
            come(store, active, drawn(source, 200, 0.2, first=201, tenant="b", release="2"))
            watched()
            assert store.alerts.newest() == []
            come(store, active, drawn(source, 200, 0.2, first=401, tenant="a", release="2"))
            watched()
        assert sorted(row["tenant"] for row in remembered(store)) == ["a", "b"]
        assert {alert.finding.tenant for alert in store.alerts.newest()} == {"a"}
        assert store.alerts.newest(tenant="b") == []
        assert "tenant = 'a'" in str(store.alerts.newest(tenant="a")[0].finding.document["sql"])


def test_releases_of_two_services_are_never_compared(tmp_path: Path) -> None:
    """By one rule, in one project: a worse service is no worse release of the other, and its own release is."""
    source = random.Random(2)
    with a_store(tmp_path) as store:
        book = Book(store)
        active = book.rule("check", **CHECK)
        with watching(book) as watched:
            for first in range(1, 401, 100):  # both at work at once
                come(store, active, drawn(source, 50, 0.95, first=first, service="cart", release="1"))
                come(store, active, drawn(source, 50, 0.2, first=first + 50, service="search", release="2"))
            watched()
            assert store.alerts.newest() == []
            come(store, active, drawn(source, 200, 0.2, first=401, service="cart", release="2"))
            watched()
            (alert,) = store.alerts.newest()
        assert (alert.finding.baseline.release, alert.finding.candidate.release) == ("1", "2")
        assert alert.finding.document["service"] == "cart"
        baseline, candidate = rows(store, str(alert.finding.document["sql"]))
        assert (baseline[1], candidate[1]) == (alert.finding.baseline.count, alert.finding.candidate.count)
        before = remembered(store)
        assert [row["service"] for row in before] == ["cart", "search"]
        assert rebuild(book) == before
        assert len(store.alerts.newest()) == 1


def test_nothing_happens_when_nothing_changes(tmp_path: Path) -> None:
    """Releases that are as good as those before open no alert, however often the monitors look."""
    source = random.Random(2)
    with a_store(tmp_path) as store:
        book = Book(store)
        active = book.rule("check", **CHECK)
        with watching(book) as watched:
            for part in range(20):
                come(store, active, drawn(source, 60, 0.9, first=1 + 60 * part, release=str(part // 4)))
                watched()
        assert store.alerts.newest() == []
        (stream,) = remembered(store)
        assert stream["state"]["monitor"]["scored"] == 1_200


@pytest.mark.parametrize(
    "changes",
    [
        {"outcome": "failed", "passed": None},
        {"outcome": "skipped", "passed": None},
        {"occasion": "backfill"},
        {"occasion": "again", "round": 1},
        {"fingerprint": None},
    ],
    ids=str,
)
def test_what_is_no_news_does_not_count(tmp_path: Path, changes: dict[str, object]) -> None:
    """Failures, skips, backfills, and targets that were counted before change no state and open no alert."""
    source = random.Random(3)
    with a_store(tmp_path) as store:
        book = Book(store)
        active = book.rule("check", **CHECK)
        with watching(book) as watched:
            come(store, active, drawn(source, 200, 0.95, first=1))
            watched()
            before = remembered(store)
            bad: dict[str, object] = {"passed": False, "release": "2", **changes}
            come(store, active, [Made(number=1_000 + at, **bad) for at in range(200)])  # type: ignore[arg-type]
            watched()
            assert remembered(store) == before
        assert store.alerts.newest() == []
        assert rows(store, "SELECT count(*), max(number) FROM evaluations WHERE NOT counted") == [(200, 400)]


def test_what_was_superseded_when_it_was_stored_does_not_count(tmp_path: Path) -> None:
    """A result that comes when its target is to be evaluated again leaves that to the next round, which counts."""
    with a_store(tmp_path) as store:
        book = Book(store)
        active = book.rule("check", **CHECK)
        book.enqueue(active, [(trace_id(at), None) for at in range(1, 5)])
        book.supersede(2)  # whose successor is job 5
        finish(store, [Made(number=at) for at in (1, 2, 3)])
        finish(store, [Made(number=5)])
        with watching(book) as watched:
            watched()
        assert rows(store, "SELECT job_id, number, counted, superseded FROM evaluations ORDER BY number") == [
            (1, 1, True, False),
            (2, 2, False, True),
            (3, 3, True, False),
            (5, 4, True, False),
        ]
        (stream,) = remembered(store)
        assert (stream["state"]["monitor"]["scored"], stream["state"]["last"]) == (3, 4)


def test_a_failure_that_is_retried_counts_once_it_has_a_score(tmp_path: Path) -> None:
    """The retry of a failure is its target's first score, and keeps what a backfill found out of the monitors."""
    with a_store(tmp_path) as store:
        book = Book(store)
        active = book.rule("check", **CHECK)
        come(store, active, [Made(number=1, outcome="failed"), Made(number=2, outcome="failed", occasion="backfill")])
        store.jobs.retry([1, 2], now_us=1_795_255_200_000_000)
        jobs = rows(store, "SELECT job_id, occasion, round FROM job ORDER BY job_id")
        assert [job[1:] for job in jobs] == [("live", 1), ("backfill", 1)]
        finish(store, [Made(number=int(str(job[0]))) for job in jobs])
        counted = rows(store, "SELECT round, occasion, counted FROM evaluations ORDER BY number")
        assert counted == [(0, "live", False), (0, "backfill", False), (1, "live", True), (1, "backfill", False)]


def test_another_evaluator_begins_anew_and_says_so(tmp_path: Path) -> None:
    """Another fingerprint is not compared with earlier results, and ends the alert that nothing else can end."""
    source = random.Random(4)
    with a_store(tmp_path) as store:
        book = Book(store)
        active = book.rule("check", **CHECK)
        with watching(book) as watched:
            come(store, active, drawn(source, 300, 0.95, first=1))
            come(store, active, drawn(source, 100, 0.5, first=301, release="2"))
            watched()
            (alert,) = store.alerts.newest(AlertFilter(state="open"))
            come(store, active, drawn(source, 9, 0.5, first=401, release="2", fingerprint="print-2"))
            watched()
            assert len(store.alerts.newest(AlertFilter(state="open"))) == 1
            come(store, active, drawn(source, 300, 0.5, first=501, release="2", fingerprint="print-2"))
            watched()
        (alert,) = store.alerts.newest()
        assert alert.recovery == {"how": "evaluator", "at": 410}
        one, two = remembered(store)
        assert (one["fingerprint"], one["state"]["began"], one["state"]["monitor"]["results"]) == (
            "print-1",
            "first",
            0,
        )
        assert (two["state"]["began"], two["state"]["replaced"], two["state"]["first"]) == ("evaluator", "print-1", 401)
        assert rebuild(book) == [one, two]


def test_other_settings_hold_from_the_first_result_and_stragglers_do_not_turn_back(tmp_path: Path) -> None:
    """The newest job of a first round says which settings are used, in whatever order results come."""
    source = random.Random(5)
    with a_store(tmp_path) as store:
        book = Book(store)
        old = book.rule("check", **CHECK)
        new = book.rule("check", **CHECK, monitor={"off": "drift"})
        book.revisions[2] = new = replace(new, rule_id=old.rule_id)
        write(store, "UPDATE rule_revision SET rule_id = 'id-1'")
        with watching(book) as watched:
            come(store, old, drawn(source, 50, 0.9, first=1))
            watched()
            come(store, new, drawn(source, 5, 0.9, first=200))
            come(store, old, drawn(source, 50, 0.9, first=100))
            come(store, old, drawn(source, 5, 0.9, first=300, round=1))
            watched()
        (stream,) = remembered(store)
        state = stream["state"]
        assert (state["began"], state["settings_of"], state["first"]) == ("first", 2, 1)
        assert state["monitor"]["results"] == 110
        assert state["monitor"]["drift"]["watch"]["total"]["weights"] == []
        assert rebuild(book) == [stream]


def edited(book: Book, **monitor: object) -> tuple[ActiveRule, ActiveRule]:
    """Return a rule, and the revision of it that has other settings of its monitors."""
    old, new = book.rule("check", **CHECK), book.rule("check", **CHECK, monitor=monitor)
    book.revisions[2] = new = replace(new, rule_id=old.rule_id)
    write(book.store, "UPDATE rule_revision SET rule_id = 'id-1'")
    return old, new


@pytest.mark.parametrize(
    "seed, monitor",
    [*enumerate([{"minResults": 20}, {"margin": 0.05}, {"alpha": 0.01}, {"baseline": 512}, {"minResults": 50}])],
)
def test_settings_that_change_with_a_release_hide_no_drop(
    tmp_path: Path, seed: int, monitor: dict[str, object]
) -> None:
    """A fall from 80 % to 45 % that comes with an edit of the monitor is reported against results before the edit."""
    source = random.Random(seed)
    with a_store(tmp_path) as store:
        book = Book(store)
        old, new = edited(book, **monitor)
        with watching(book) as watched:
            come(store, old, drawn(source, 500, 0.8, first=1))
            watched()
            come(store, new, drawn(source, 300, 0.45, first=501, release="2"))
            watched()
        (alert,) = store.alerts.newest()
        assert (alert.finding.baseline.release, alert.finding.candidate.release) == ("1", "2")
        assert alert.finding.baseline.count == 500
        (stream,) = remembered(store)
        assert rebuild(book) == [stream]


def test_an_alert_goes_with_the_settings_that_are_in_force(tmp_path: Path) -> None:
    """An open alert stays if the new settings see the drop, else it ends, and a drop that only they see is reported."""
    source = random.Random(11)
    with a_store(tmp_path) as store:
        book = Book(store)
        old, wide = edited(book, margin=0.6)
        for revision, margin in ((3, 0.02), (4, 0.6)):
            more = book.rule("check", **CHECK, monitor={"margin": margin})
            book.revisions[revision] = replace(more, rule_id=old.rule_id)
        write(store, "UPDATE rule_revision SET rule_id = 'id-1'")
        narrow, wide_again = book.revisions[3], book.revisions[4]
        with watching(book) as watched:
            come(store, old, drawn(source, 300, 0.9, first=1))
            come(store, old, drawn(source, 100, 0.5, first=301, release="2"))
            watched()
            (first,) = store.alerts.newest(AlertFilter(state="open"))
            come(store, narrow, drawn(source, 1, 0.5, first=401, release="2"))
            watched()
            assert store.alerts.newest(AlertFilter(state="open")) == [first]
            come(store, wide, drawn(source, 1, 0.5, first=402, release="2"))
            watched()
            (over,) = store.alerts.newest(AlertFilter(state="recovered"))
            assert over.recovery == {"how": "settings", "at": 402}
            come(store, narrow, drawn(source, 1, 0.5, first=403, release="2"))
            watched()
            (again,) = store.alerts.newest(AlertFilter(state="open"))
            assert again.alert_id != first.alert_id
            assert rows(store, str(again.finding.document["sql"]))[0][1:] == (
                300,
                pytest.approx(again.finding.baseline.rate),
            )
            come(store, wide_again, drawn(source, 1, 0.5, first=404, release="2"))
            watched()
        assert [each.alert_id for each in store.alerts.newest(AlertFilter(state="open"))] == []


def test_a_monitor_that_is_off_says_nothing(tmp_path: Path) -> None:
    """A rule can have its results watched by neither monitor."""
    source = random.Random(6)
    with a_store(tmp_path) as store:
        book = Book(store)
        active = book.rule("check", **CHECK, monitor={"off": True})
        with watching(book) as watched:
            come(store, active, drawn(source, 300, 0.95, first=1))
            come(store, active, drawn(source, 300, 0.1, first=301, release="2"))
            watched()
        assert store.alerts.newest() == []
        assert remembered(store)[0]["state"]["monitor"]["scored"] == 600


def test_scores_are_watched_where_a_rule_says_so(tmp_path: Path) -> None:
    """Drift of scores is found, and its SQL counts the same results and means."""
    source = random.Random(7)
    with a_store(tmp_path) as store:
        book = Book(store)
        active = book.rule("check", **CHECK, monitor={"of": "score", "lowerIsBetter": True, "off": "release"})

        def made(first: int, count: int, mean: float) -> list[Made]:
            scores = [min(max(source.gauss(mean, 0.1), 0), 1) for _ in range(count)]
            return [Made(number=first + at, score=score) for at, score in enumerate(scores)]

        with watching(book) as watched:
            come(store, active, made(1, 600, 0.3))
            come(store, active, [Made(number=900, score=2.0), Made(number=901, score=float("nan"))])
            come(store, active, made(1_001, 400, 0.6))
            watched()
        (alert,) = store.alerts.newest()
        finding = alert.finding
        assert (finding.kind, finding.measure, finding.candidate.release) == ("drift", "score", None)
        assert finding.candidate.rate > finding.baseline.rate + 0.05
        sides = zip(("baseline", "candidate"), (finding.baseline, finding.candidate), strict=True)
        expected = [(name, side.count, pytest.approx(side.rate, abs=1e-4)) for name, side in sides]
        assert rows(store, str(finding.document["sql"])) == expected
        examples = finding.document["examples"]
        assert isinstance(examples, list)
        scores = [float(str(each["score"])) for each in examples if isinstance(each, dict)]
        assert scores == sorted(scores, reverse=True)
        assert max(scores) <= 1


@pytest.mark.parametrize("origin, minutes", [("API", 0), ("FILE", 10)])
def test_a_rule_that_is_deleted_ends_its_alerts(tmp_path: Path, origin: str, minutes: int) -> None:
    """Once, and receivers of the open alert are notified; that of a file stays while the file is replaced."""
    source, deleted_s = random.Random(9), 1_795_255_200
    at_s = [deleted_s + 60 * minutes - 1]
    with a_store(tmp_path) as store:
        book = Book(store)
        active, other = (book.rule("check", **CHECK) for _ in range(2))
        a_webhook(store)
        for number, rule in enumerate((active, other)):
            come(store, rule, drawn(source, 300, 0.95, first=1000 * number + 1))
            come(store, rule, drawn(source, 300, 0.3, first=1000 * number + 301, release="2"))
        with watching(book, clock=lambda: at_s[0] * 1_000_000_000) as watched:
            watched()
            for rule, deleted in ((active, f"make_timestamp({deleted_s}000000)"), (other, "NULL")):
                same = f"'{rule.rule_id}' AS rule_id, {rule.revision} AS revision, {deleted} AS deleted_at"
                write(store, f"INSERT INTO rule BY NAME SELECT {same}, '{origin}' AS origin, {_RULE}")
            watched()
            assert len(store.alerts.newest(AlertFilter(state="open"))) == 2
            at_s[0] += 1
            watched()
            watched()
        (over,) = store.alerts.newest(AlertFilter(state="recovered"))
        assert (over.finding.rule_id, over.recovery) == (active.rule_id, {"how": "deleted"})
        query = "SELECT type, count(*) FROM alert_delivery GROUP BY ALL ORDER BY ALL"
        assert rows(store, query) == [("alert.opened", 2), ("alert.recovered", 1)]


def test_a_step_is_stored_whole_or_not_at_all(tmp_path: Path) -> None:
    """When whatever is stored last fails, neither the cursor has moved nor a state, an alert or a delivery is there."""
    source = random.Random(8)
    with a_store(tmp_path) as store:
        book = Book(store)
        active = book.rule("check", **CHECK)
        a_webhook(store)
        come(store, active, drawn(source, 300, 0.95, first=1))
        come(store, active, drawn(source, 300, 0.3, first=301, release="2"))
        thread = MonitorThread(store.monitors, book.revisions.get)
        finding = thread._finding

        def broken(alarm: EpisodeAlarm) -> AlertFinding:
            return replace(finding(alarm), document={"what JSON cannot hold": object()})  # type: ignore[dict-item]

        thread._finding = broken  # type: ignore[method-assign]
        with pytest.raises(TypeError):
            thread._step(store.monitors.cursor())
        assert rows(store, "SELECT number FROM monitor_cursor") == [(0,)]
        for table in ("monitor_state", "alert", "alert_event", "alert_delivery"):
            assert rows(store, f"SELECT count(*) FROM {table}") == [(0,)]
        with watching(book) as watched:
            watched()
        assert rows(store, "SELECT count(*) FROM alert_delivery") == [(1,)]


def test_state_does_not_depend_on_the_steps_in_which_it_was_made(tmp_path: Path) -> None:
    """Streams that are looked at in parts, with restarts in between, are what one look makes of them."""
    source = random.Random(9)
    with a_store(tmp_path) as store:
        book = Book(store)
        active = [book.rule("check", **CHECK), book.rule("check", **CHECK, monitor={"minResults": 30, "baseline": 64})]
        number = 1
        for _ in range(12):
            with watching(book) as watched:
                for _ in range(source.randrange(1, 4)):
                    count = source.randrange(1, 150)
                    rate, print_of = source.choice([0.3, 0.9]), source.choice(["a", "a", "b"])
                    release, project = source.choice(["1", "2", "3", None]), source.choice(["shop", None])
                    same = {"release": release, "project": project, "fingerprint": print_of}
                    come(store, source.choice(active), drawn(source, count, rate, first=number, **same))
                    number += count
                    watched()
        before = remembered(store)
        alerts = rows(store, "SELECT alert_id, state, recovery FROM alert ORDER BY alert_id")
        assert len(before) > 4
        assert len(alerts) >= 3
        assert rebuild(book) == before
        assert rows(store, "SELECT alert_id, state, recovery FROM alert ORDER BY alert_id") == alerts
        write(store, "DELETE FROM alert")
        write(store, "UPDATE monitor_cursor SET number = 0, told = 0")
        write(store, "DELETE FROM monitor_state")
        with watching(book) as watched:
            watched()
        assert rows(store, "SELECT alert_id, state, recovery FROM alert ORDER BY alert_id") == alerts


@pytest.mark.parametrize("seed", range(5))
def test_another_evaluator_compares_with_what_it_judged_again(tmp_path: Path, seed: int) -> None:
    """A fall from 80 % to 45 % that comes with another evaluator is reported once it has judged the release before."""
    source = random.Random(seed)
    with a_store(tmp_path) as store:
        book = Book(store)
        old, new = book.rule("check", **CHECK), book.rule("check", **CHECK, threshold=0.9)
        book.revisions[2] = new = replace(new, rule_id=old.rule_id)
        write(store, "UPDATE rule_revision SET rule_id = 'id-1'")
        with watching(book) as watched:
            come(store, old, drawn(source, 100, 0.8, first=1))
            watched()
            come(store, new, drawn(source, 60, 0.45, first=101, release="2", fingerprint="fp-new"))
            watched()
            assert store.alerts.newest() == []
            come(store, new, drawn(source, 200, 0.8, first=201, fingerprint="fp-new", occasion="baseline"))
            come(store, new, drawn(source, 40, 0.45, first=401, release="2", fingerprint="fp-new"))
            watched()
        (alert,) = store.alerts.newest()
        assert (alert.finding.baseline.release, alert.finding.candidate.release) == ("1", "2")
        assert alert.finding.baseline.count == 200
        counted = rows(store, str(alert.finding.document["sql"]))
        assert counted[0][1:] == (200, pytest.approx(alert.finding.baseline.rate))
        assert rebuild(book) == remembered(store)


@pytest.mark.parametrize("rate", [0.4, 0.95])
def test_an_alert_that_still_holds_goes_on_with_another_evaluator(tmp_path: Path, rate: float) -> None:
    """Judging again reports nothing: the alert stays acknowledged, and ends with live results if it does not hold."""
    source = random.Random(8)
    with a_store(tmp_path) as store:
        book = Book(store)
        active = book.rule("check", **CHECK)
        with watching(book) as watched:
            come(store, active, drawn(source, 300, 0.95, first=1))
            come(store, active, drawn(source, 100, 0.5, first=301, release="2"))
            watched()
            (alert,) = store.alerts.newest(AlertFilter(state="open"))
            store.alerts.acknowledge(alert.alert_id, 1_000, by="key")
            (acknowledged,) = store.alerts.newest()
            again = {"fingerprint": "print-2", "occasion": "baseline"}
            come(store, active, drawn(source, 100, 0.95, first=401, **again))
            come(store, active, drawn(source, 100, rate, first=501, release="2", **again))
            watched()
            assert store.alerts.newest() == [acknowledged]
            come(store, active, drawn(source, 1, rate, first=601, release="2", fingerprint="print-2"))
            watched()
        (alert,) = store.alerts.newest()
        assert alert.recovery == (None if rate < 0.5 else {"how": "evaluator", "at": 601})
        assert rebuild(book) == remembered(store)


def test_a_baseline_that_was_judged_again_is_no_news(tmp_path: Path) -> None:
    """Old results that were worse raise no drift alarm, and begin no release."""
    source = random.Random(3)
    with a_store(tmp_path) as store:
        book = Book(store)
        rule = book.rule("check", **CHECK)
        with watching(book) as watched:
            come(store, rule, drawn(source, 200, 0.9, first=1, release="2"))
            come(store, rule, drawn(source, 200, 0.2, first=301, release="1", occasion="baseline"))
            come(store, rule, drawn(source, 50, 0.9, first=601, release="2"))
            watched()
        assert store.alerts.newest() == []
        (stream,) = remembered(store)
        assert stream["state"]["monitor"]["releases"]["current"] == "2"


def test_a_baseline_of_one_tenant_is_of_its_own_results(tmp_path: Path) -> None:
    """A rule for all judges releases again where monitors lack them, and nothing of another tenant with equal names."""
    source = random.Random(6)
    with a_store(tmp_path) as store:
        active = Book(store).rule("check", **CHECK)
        come(store, active, drawn(source, 20, 0.8, first=1, tenant="a"))
        come(store, active, drawn(source, 20, 0.8, first=101, tenant="b"))
        stream = ComparedStream(
            tenant="b", project="shop", service=None, before=(), current=("1",), fingerprints=("print-2",)
        )
        request = BaselineRequest(rule_id=active.rule_id, revision=2, of_side=5, streams=[stream])
        targets = store.matching.backfills.targets_of_baseline(request)
        assert targets is not None
        assert targets.trace_ids == [trace_id(number) for number in range(120, 115, -1)]
