"""The ledger's thread and the basis of its decisions: failed turns, connections that are down, growing waits."""

import random
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.conventions.own_keys import OwnKeys
from collector.live.jobs.work.connection_queue import Breaker
from collector.live.jobs.work.retry_policy import RetryPolicy
from collector.live.jobs.workers import WorkerOptions, Workers
from storage.engine.read_database import ReadDatabase
from storage.errors import Overloaded
from storage.judging.jobs import Claim, Job, Jobs, LedgerTurn
from storage.store import Store
from tests.storing import a_batch, a_store, an_export, commit, files_no_larger_than, rows, trace_id
from tests.working import QUICK, Book, LocalJudges, eventually, states, working


class Unsure(Jobs):
    """A ledger whose turns fail often, before or after they are stored."""

    source = random.Random(1)
    failures = 0

    def take_turn(self, turn: LedgerTurn) -> list[list[Job]]:
        """Fail, or take the turn, or take it and fail."""
        fate = self.source.random()
        if fate < 0.2:
            self._fail()
        claimed = super().take_turn(turn)
        if fate < 0.5:
            self._fail()
        return claimed

    def _fail(self) -> None:
        self.failures += 1
        raise Overloaded("injected")


def a_book(store: Store, traces: int) -> Book:
    """Return two rules with a job for each trace."""
    commit(store, a_batch(*(an_export(1, trace=trace, first=trace) for trace in range(traces))))
    book = Book(store)
    for _ in range(2):
        active = book.rule(target="TRACE", evaluator="tool_error")
        book.enqueue(active, [(trace_id(trace), None) for trace in range(traces)])
    return book


def test_turns_that_fail_lose_and_double_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it is unknown whether a turn was stored, it is taken again, and each job has one evaluation."""
    monkeypatch.setattr("collector.live.jobs.work.ledger._PAUSE_S", 0.01)
    with a_store(tmp_path) as store:
        book = a_book(store, 300)
        jobs = Unsure(store._database, store._writer, ReadDatabase(store._database))
        retry_policy = RetryPolicy(lease_s=0.3, look_s=0.05)
        options = WorkerOptions(own=OwnKeys({}), retry_policy=retry_policy)
        workers = Workers(jobs, store.windows, book.revisions.get, LocalJudges(), options)
        workers.start()
        try:
            eventually(lambda: states(store), lambda counts: counts == {"scored": 600})
        finally:
            workers.close()
        assert jobs.failures
        assert rows(store, "SELECT count(*), count(DISTINCT job_id) FROM evaluation") == [(600, 600)]


def test_what_an_earlier_process_had_claimed_is_free_at_once(tmp_path: Path) -> None:
    """Jobs that a process was at when it ended are evaluated by the next one, however long their leases are."""
    with a_store(tmp_path) as store:
        book = a_book(store, 3)
        now_us = time.time_ns() // 1000
        claims = [Claim(revisions=sorted(book.revisions), jobs=10)]
        store.jobs.take_turn(LedgerTurn(now_us=now_us, until_us=now_us + 3_600_000_000, claims=claims))
        assert states(store) == {"claimed": 6}
        with working(book):
            eventually(lambda: states(store), lambda counts: counts == {"scored": 6})


def test_a_full_disk_only_delays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """While nothing can be written jobs wait, which is logged once; with room they are done, each once."""
    monkeypatch.setattr("collector.live.jobs.work.ledger._PAUSE_S", 0.05)
    with a_store(tmp_path) as store:
        book = a_book(store, 300)
        size = (tmp_path / "tracejury.duckdb.wal").stat().st_size
        with working(book) as workers:
            with files_no_larger_than(size):
                assert not workers.wait_idle(1)
                assert states(store).keys() <= {"ready", "claimed"}
            waits = [record.getMessage() for record in caplog.records if "jobs wait" in record.getMessage()]
            assert len(waits) == len(set(waits)) > 0
            eventually(lambda: states(store), lambda counts: counts == {"scored": 600})
        assert rows(store, "SELECT count(*), count(DISTINCT job_id) FROM evaluation") == [(600, 600)]


@dataclass(slots=True)
class Endpoint:
    """A breaker, and the seconds that pass."""

    breaker: Breaker = field(
        default_factory=lambda: Breaker(wait_s=lambda pauses, requested_s: max(pauses, requested_s or 0))
    )
    now_s: float = 100.0

    def room(self, running: int = 0) -> int:
        """Return how many jobs may begin, of four."""
        return self.breaker.room(self.now_s, 4, running)

    def fail(self, times: int = 1, *, requested_s: float | None = None, asks_for_pause: bool = False) -> None:
        """Not answer."""
        for _ in range(times):
            self.breaker.failed(self.now_s, requested_s=requested_s, asks_for_pause=asks_for_pause)


def test_three_failures_in_a_row_open_the_breaker() -> None:
    """A connection is down after three failures in a row, is asked once after each pause, and pauses grow."""
    endpoint = Endpoint()
    endpoint.fail(2)
    assert endpoint.room(1) == 3
    endpoint.breaker.answered(endpoint.now_s)
    endpoint.fail(2)
    assert endpoint.room() == 4
    endpoint.fail()
    assert (endpoint.room(), endpoint.breaker.resumes_s) == (0, 101)
    endpoint.fail(3)  # of jobs that were under way
    assert endpoint.breaker.resumes_s == 101
    endpoint.now_s = 101
    assert (endpoint.room(), endpoint.room(1)) == (1, 0)
    endpoint.fail()
    assert (endpoint.room(), endpoint.breaker.resumes_s) == (0, 103)
    assert endpoint.breaker.down_for_s(endpoint.now_s) == 1
    endpoint.breaker.answered(endpoint.now_s)
    assert (endpoint.room(), endpoint.breaker.down_for_s(endpoint.now_s)) == (4, None)


def test_an_answer_does_not_end_a_pause_that_was_asked_for() -> None:
    """Calls under way when the endpoint requested a pause are answered in it, and none begins before its end."""
    endpoint = Endpoint()
    endpoint.fail(requested_s=60, asks_for_pause=True)
    endpoint.now_s += 59
    endpoint.breaker.answered(endpoint.now_s)
    assert endpoint.room() == 0
    endpoint.now_s += 1
    assert endpoint.room() == 1
    endpoint.breaker.answered(endpoint.now_s)
    assert endpoint.room() == 4


def test_a_wish_for_a_pause_is_met_at_once() -> None:
    """One reply that asks for a pause is enough, and the longest pause that was asked for counts."""
    endpoint = Endpoint()
    endpoint.fail(requested_s=30, asks_for_pause=True)
    assert (endpoint.room(), endpoint.breaker.resumes_s) == (0, 130)
    endpoint.fail(requested_s=60, asks_for_pause=True)
    assert endpoint.breaker.resumes_s == 160


@given(attempts=st.integers(0, 10**6), requested_s=st.none() | st.floats(0, 10**9))
def test_waits_are_bounded(attempts: int, requested_s: float | None) -> None:
    """However often something failed, and whatever was asked for, the wait has an end and is as long as asked."""
    retry_policy = RetryPolicy()
    wait_s = retry_policy.wait_s(attempts, requested_s)
    assert retry_policy.first_wait_s / 2 <= wait_s <= max(retry_policy.longest_wait_s, retry_policy.longest_requested_s)
    assert wait_s >= min(requested_s or 0, retry_policy.longest_requested_s)


def test_waits_grow() -> None:
    """Each wait is about twice as long as the previous one, up to a limit."""
    least = [min(QUICK.wait_s(attempts) for _ in range(200)) for attempts in (1, 2, 3, 9)]
    assert least == sorted(least)
    assert least[-1] >= QUICK.longest_wait_s / 2
