"""Killed at any moment, between claim, call and result: no job is lost, and none is evaluated twice."""

import random
import time
from pathlib import Path
from typing import Any

import pytest

from collector.live.active import ExecutorKind
from storage.store import Store
from tests.model_server import ModelServer, Says, a_model
from tests.storing import WAIT_S, a_batch, a_store, commit, rows, span_id, trace_id
from tests.test_workers_checks import an_output
from tests.worker_process import a_worker
from tests.working import Book, a_connection, states, working

TRACES = 25  # whose jobs come with each kill

RULES: list[tuple[ExecutorKind, dict[str, Any]]] = [
    ("check", {"evaluator": "length", "config": {"maximumOutputLength": 100}}),
    ("check", {"evaluator": "tool_error", "target": "TRACE"}),
    ("judge", {"criteria": "Is it polite?", "connectionId": "main"}),
    ("code", {"evaluator": "code_judge", "config": {"script": ["/bin/echo", '{"score": 1}'], "reads": []}}),
]


@pytest.mark.timeout(600)
@pytest.mark.kill(
    "collector/children",
    "collector/live/budgets",
    "collector/live/jobs",
    "collector/live/judges",
    "evaluators/chat",
    "evaluators/process.py",
    "storage/judging",
)
def test_kills_lose_no_job_and_double_none(tmp_path: Path, seed: int, kills: int) -> None:
    """After kill -9 at random moments, every job has one evaluation, a score, and nothing is left over."""
    source = random.Random(seed)

    def script(_: object) -> Says:
        time.sleep(source.uniform(0, 0.1))
        return Says({"score": 0.9, "reason": "good"})

    with a_model(script) as model:
        with a_store(tmp_path) as store:
            commit(store, a_batch(*(an_output("answer", trace=trace) for trace in range(kills * TRACES))))
            book = Book(store)
            rules = [book.rule(executor_kind, **keys) for executor_kind, keys in RULES]
        for kill in range(kills):
            with a_store(tmp_path) as store:
                check_once_each(store, kill * TRACES)
                for active in rules:
                    whole = active.rule.target == "TRACE"
                    traces = range(kill * TRACES, (kill + 1) * TRACES)
                    targets = [(trace_id(n), None if whole else span_id(n)) for n in traces]
                    Book(store).enqueue(active, targets)
            with a_worker(tmp_path, model.base_url, rules):
                if kill % 4:  # in the midst of it, however long the start takes
                    wait_for_requests(model, source.randrange(1, TRACES))
                time.sleep(source.uniform(0.0, 0.5))
        with a_store(tmp_path) as store:
            check_once_each(store, kills * TRACES)
            done, jobs = states(store), kills * TRACES * len(RULES)
            assert 0 < int(str(done["scored"])) < jobs  # the kills came in the midst of it
            book = Book(store, revisions={active.revision: active for active in rules})
            with working(book, {"main": a_connection(model.base_url, timeout_s=30)}) as workers:
                assert workers.wait_idle(10 * WAIT_S)
            check_once_each(store, kills * TRACES)
            assert states(store) == {"scored": jobs}


def wait_for_requests(model: ModelServer, count: int) -> None:
    """Wait until the model has received `count` more requests, or for a while."""
    request_count, deadline_s = len(model.requests), time.monotonic() + 20
    while len(model.requests) < request_count + count and time.monotonic() < deadline_s:
        time.sleep(0.01)


def check_once_each(store: Store, targets: int) -> None:
    """Check that every job is open or has one evaluation, and each target one job of each rule."""
    both = "SELECT job_id, revision, trace_id FROM job UNION ALL SELECT job_id, revision, trace_id FROM evaluation"
    counts = f"SELECT count(*), count(DISTINCT job_id), count(DISTINCT (revision, trace_id)) FROM ({both})"
    jobs = targets * len(RULES)
    assert rows(store, counts) == [(jobs, jobs, jobs)]
