"""Killed at any moment, a rule that depends on a check judges all flagged targets, each once, and nothing else."""

import random
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from collector.live.active import ActiveRule
from storage.store import Store
from tests.matching import remember, write
from tests.model_server import Says, a_model
from tests.storing import WAIT_S, a_batch, a_store, commit, rows, span_id, trace_id
from tests.test_workers_checks import an_output
from tests.test_workers_crash import wait_for_requests
from tests.worker_process import a_worker
from tests.working import Book, a_connection, in_force, working

TRACES = 24  # whose jobs come with each kill; every third is flagged
EVALUATED = """
SELECT revision, count(*), count(DISTINCT trace_id) FROM evaluation GROUP BY revision ORDER BY revision
"""
UNCALLED = """
SELECT count(*) FROM evaluation WHERE revision = 2
    AND trace_id NOT IN (SELECT trace_id FROM evaluation WHERE revision = 1 AND NOT passed)
"""
BOTH = "SELECT revision, trace_id FROM job UNION ALL SELECT revision, trace_id FROM evaluation"


@pytest.mark.timeout(600)
@pytest.mark.kill(
    "collector/children", "collector/live/jobs", "collector/live/judges", "collector/live/matching", "storage/judging"
)
def test_kills_neither_lose_nor_double_what_a_check_flags(tmp_path: Path, seed: int, kills: int) -> None:
    """After kill -9 at random moments, what the check flagged has one verdict of the judge, and no job is held."""
    source = random.Random(seed)

    def script(_: object) -> Says:
        time.sleep(source.uniform(0, 0.05))
        return Says({"score": 0.9, "reason": "good"})

    check = in_force(1, "check", {"evaluator": "length", "config": {"maximumOutputLength": 10}})
    judging = {"criteria": "Is it polite?", "connectionId": "main", "after": {"rule": "id-1", "passed": False}}
    pair = [check, in_force(2, "judge", judging)]
    with a_model(script) as model:
        with a_store(tmp_path) as store:
            texts = ["far too long an answer" if number % 3 == 0 else "short" for number in range(kills * TRACES)]
            commit(store, a_batch(*(an_output(text, trace=trace) for trace, text in enumerate(texts))))
            remember(store, *pair)
        for kill in range(kills):
            with a_store(tmp_path) as store:
                enqueue(store, pair, range(kill * TRACES, (kill + 1) * TRACES))
            with a_worker(tmp_path, model.base_url, pair):
                if kill % 3:  # in the midst of it, however long the start takes
                    wait_for_requests(model, source.randrange(1, TRACES // 3))
                time.sleep(source.uniform(0.0, 0.3))
            with a_store(tmp_path) as store:
                assert rows(store, f"SELECT 1 FROM ({BOTH}) GROUP BY revision, trace_id HAVING count(*) > 1") == []
        with a_store(tmp_path) as store:
            book = Book(store, revisions={active.revision: active for active in pair})
            with working(book, {"main": a_connection(model.base_url, timeout_s=30)}) as workers:
                assert workers.wait_idle(10 * WAIT_S)
            flagged = kills * TRACES // 3
            assert rows(store, "SELECT count(*) FROM job") == [(0,)]
            assert rows(store, EVALUATED) == [
                (1, kills * TRACES, kills * TRACES),
                (2, flagged, flagged),
            ]
            assert rows(store, UNCALLED) == [(0,)]


def enqueue(store: Store, pair: Sequence[ActiveRule], traces: range) -> None:
    """Queue the jobs of both rules as matching makes them: those of the second are held."""
    book = Book(store, revisions={active.revision: active for active in pair})
    for active in pair:
        book.enqueue(active, [(trace_id(number), span_id(number)) for number in traces])
    named = ", ".join(f"'{trace_id(number)}'" for number in traces)
    write(store, f"UPDATE job SET state = 'held' WHERE revision = 2 AND trace_id IN ({named})")
