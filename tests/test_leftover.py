"""A restart resumes the evaluations that an earlier process left, and reports its progress."""

import logging
from pathlib import Path

import pytest

from collector.live.jobs.work.ledger import LeftOver
from storage.judging.job_results import JobResult
from storage.judging.jobs import LedgerTurn
from storage.store import Store
from tests.matching import write
from tests.storing import a_store, trace_id
from tests.working import LONG_S, Book, working


class HandClock:
    """A manual clock."""

    now_s = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the messages that were logged, in order."""
    messages = [record.getMessage() for record in caplog.records if record.name.endswith("ledger")]
    caplog.clear()
    return messages


def store_results(store: Store, *job_ids: int) -> None:
    """Let jobs be done."""
    results = [JobResult(job_id=job_id, name="x", outcome="scored", score=1.0) for job_id in job_ids]
    store.jobs.take_turn(LedgerTurn(now_us=0, until_us=0, finished=results))


def test_what_waited_is_told_at_the_start_on_the_way_and_at_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Progress is logged every ten seconds, whatever arrives meanwhile, and held jobs are not waited for."""
    caplog.set_level(logging.INFO)
    clock = HandClock()
    with a_store(tmp_path) as store:
        book = Book(store)
        rule = book.rule(target="TRACE", evaluator="tool_error")
        book.enqueue(rule, [(trace_id(number), None) for number in range(4)])
        write(store, "UPDATE job SET state = 'held' WHERE job_id = 4")
        left_over = LeftOver(store.jobs, clock)
        left_over.begin()
        assert logged(caplog) == ["resuming 3 evaluations from before this start"]
        store_results(store, 1)
        book.enqueue(rule, [(trace_id(9), None)])
        left_over.tell(is_idle=False)
        left_over.tell(is_idle=True)
        assert logged(caplog) == []
        clock.now_s = 10
        left_over.tell(is_idle=False)
        left_over.tell(is_idle=False)
        assert logged(caplog) == ["2 of 3 resumed evaluations are left after 10 s"]
        store_results(store, 2, 3)
        clock.now_s = 12.5
        left_over.tell(is_idle=True)
        left_over.tell(is_idle=True)
        assert logged(caplog) == ["all 3 resumed evaluations are done after 12.5 s"]


def test_workers_tell_what_they_take_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A start with nothing left logs nothing; one with jobs logs their number, and their completion."""
    caplog.set_level(logging.INFO)
    with a_store(tmp_path) as store:
        book = Book(store)
        with working(book) as workers:
            assert workers.wait_idle(LONG_S)
        assert logged(caplog) == []
        rule = book.rule(target="TRACE", evaluator="tool_error")
        book.enqueue(rule, [(trace_id(number), None) for number in range(3)])
        with working(book) as workers:
            assert workers.wait_idle(LONG_S)
        first, *_, last = logged(caplog)
        assert first == "resuming 3 evaluations from before this start"
        assert last.startswith("all 3 resumed evaluations are done after ")
