"""Brakes: switching a rule off and lowering a budget act on waiting jobs and on calls not yet sent."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from collector.live.active import ActiveRule
from rules.rule import Budget
from tests.connecting import Hub, a_connection
from tests.live import until
from tests.model_server import ModelRequest, ModelServer, Says, Status, Step, a_model
from tests.storing import a_batch, a_store, commit, rows, span_id, trace_id
from tests.test_workers_checks import an_output
from tests.working import Book, eventually, states, working

pytestmark = pytest.mark.costly(
    "collector/children",
    "collector/conventions",
    "collector/evaluation",
    "collector/live",
    "evaluators",
    "rules",
    "storage",
)

JOBS = 40


@contextmanager
def a_rule_at_work(directory: Path, model: ModelServer, **limits: object) -> Iterator[tuple[Book, ActiveRule]]:
    """Yield a rule with more jobs than its connection lets leave soon, some of which have left."""
    with a_store(directory) as store:
        commit(store, a_batch(*(an_output(f"answer {trace}", trace=trace) for trace in range(JOBS))))
        book, hub = Book(store), Hub(store)
        limits_set = {"attempts": 2, "timeoutSeconds": 30, "inFlight": 16, **limits}
        hub.connections.create(a_connection(model.base_url, limits=limits_set))
        active = book.rule("judge", criteria="Is it polite?", budget={"callsPerDay": 1000})
        book.enqueue(active, [(trace_id(trace), span_id(trace)) for trace in range(JOBS)])
        with working(book, judges=hub.judges):
            until(lambda: len(model.requests), lambda count: count >= 3)
            yield book, active


def kinds(book: Book) -> list[tuple[object, ...]]:
    """Count jobs by error kind."""
    select = "SELECT coalesce(error_kind, outcome) AS kind, count(*) FROM evaluation GROUP BY kind ORDER BY kind"
    return rows(book.store, select)


def test_a_rule_that_is_switched_off_asks_nobody_any_more(tmp_path: Path) -> None:
    """Jobs that wait are skipped, those that wait for their turn to leave as well, and the decision says so."""
    with a_model(Says({"score": 1})) as model, a_rule_at_work(tmp_path, model, requestsPerMinute=300) as (book, active):
        book.edit(active, enabled=False)
        request_count = len(model.requests)
        jobs = eventually(
            lambda: states(book.store),
            lambda seen: sum(map(int, map(str, seen.values()))) == JOBS and set(seen) <= {"scored", "skipped"},
        )
        assert request_count <= len(model.requests) <= request_count + 1  # one may have been on its way
        assert jobs["scored"] == len(model.requests)
        assert kinds(book) == [("rule_disabled", JOBS - len(model.requests)), ("scored", len(model.requests))]
        ((reason,),) = rows(book.store, "SELECT DISTINCT reason FROM evaluation WHERE error_kind = 'rule_disabled'")
        assert reason == "not evaluated, because the rule rule 1 was switched off"


def test_a_rule_that_is_switched_off_makes_no_further_attempts(tmp_path: Path) -> None:
    """A job whose first attempt was answered with an error makes no second one."""

    def fail(_: ModelRequest) -> Step:
        time.sleep(0.2)
        return Status(503)

    with a_model(fail) as model, a_rule_at_work(tmp_path, model, inFlight=4, attempts=10) as (book, active):
        book.edit(active, enabled=False)
        request_count = len(model.requests)
        eventually(lambda: kinds(book), lambda seen: seen == [("rule_disabled", JOBS)])
        assert len(model.requests) <= request_count + 1


def test_a_lowered_budget_acts_on_what_has_not_left(tmp_path: Path) -> None:
    """Once as many requests have left as the budget has by now, no more do, and the jobs are over budget."""
    with a_model(Says({"score": 1})) as model, a_rule_at_work(tmp_path, model, requestsPerMinute=300) as (book, active):
        limit = len(model.requests) + 2
        book.edit(active, budget=Budget(calls_per_day=limit))
        eventually(lambda: kinds(book), lambda seen: seen == [("over_budget", JOBS - limit), ("scored", limit)])
        assert len(model.requests) == limit


@pytest.mark.parametrize("kind", ["rule_disabled", "over_budget"])
def test_what_was_left_out_is_taken_up_in_bulk(tmp_path: Path, kind: str) -> None:
    """All that was left out for one reason is evaluated again when that is asked for, and only then."""
    with a_model(Says({"score": 1})) as model, a_rule_at_work(tmp_path, model, requestsPerMinute=600) as (book, active):
        change = {"enabled": False} if kind == "rule_disabled" else {"budget": Budget(calls_per_day=1)}
        book.edit(active, **change)
        eventually(
            lambda: states(book.store).get("skipped", 0),
            lambda skipped: int(str(skipped)) >= JOBS - len(model.requests),
        )
        left_out = int(str(states(book.store)["skipped"]))
        assert book.store.jobs.retry_failed(rule=None, error_kind=None, now_us=0).jobs == 0
        book.edit(active)
        assert book.store.jobs.retry_failed(rule=None, error_kind=kind, now_us=0).jobs == left_out
        eventually(lambda: states(book.store), lambda seen: seen == {"scored": JOBS, "superseded": left_out})
