"""Results for tests of monitors: stored as workers store them, and what monitors made of them."""

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from collector.live.active import ActiveRule
from collector.live.monitors.monitors import MonitorThread
from storage.judging.job_results import JobResult
from storage.judging.jobs import LedgerTurn
from storage.store import Store
from tests.matching import write
from tests.storing import WAIT_S, rows, trace_id
from tests.working import NOW, Book

_JOBS = """
INSERT INTO job BY NAME SELECT
    number AS job_id, $revision AS revision, number AS seq, tenant, project, trace_id, NULL AS span_id, release,
    service, round, 'claimed' AS state, 1 AS attempts, $now AS created_at, occasion
FROM incoming_jobs
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A result to be stored; by default, its job is the number of its trace."""

    number: int
    passed: bool | None = True
    release: str | None = "1"
    score: float | None = None
    outcome: str = "scored"
    fingerprint: str | None = "print-1"
    project: str | None = "shop"
    tenant: str = ""
    service: str | None = None
    occasion: str = "live"
    round: int = 0


def come(store: Store, active: ActiveRule, results: Sequence[Made]) -> None:
    """Make jobs of these and store their results, in one transaction."""
    table = pa.Table.from_pylist(
        [
            {
                "number": each.number,
                "project": each.project,
                "tenant": each.tenant,
                "trace_id": trace_id(each.number),
                "release": each.release,
                "service": each.service,
                "round": each.round,
                "occasion": each.occasion,
            }
            for each in results
        ],
        schema=pa.schema(
            [
                ("number", pa.int64()),
                ("project", pa.string()),
                ("tenant", pa.string()),
                ("trace_id", pa.string()),
                ("release", pa.string()),
                ("service", pa.string()),
                ("round", pa.int32()),
                ("occasion", pa.string()),
            ]
        ),
    )

    def insert(cursor: duckdb.DuckDBPyConnection) -> None:
        cursor.register("incoming_jobs", table)
        cursor.execute(_JOBS, {"revision": active.revision, "now": NOW})
        cursor.execute(
            "UPDATE matching_state SET last_job = greatest(last_job, (SELECT max(number) FROM incoming_jobs))"
        )

    store._writer.store(insert, len(results))
    finish(store, results)


def finish(store: Store, results: Sequence[Made]) -> None:
    """Store the results of existing jobs."""
    finished = [
        JobResult(
            job_id=each.number,
            name="Politeness",
            outcome=each.outcome,  # type: ignore[arg-type] # of the test's making
            fingerprint=each.fingerprint,
            score=each.score if each.score is not None or each.passed is None else float(each.passed),
            passed=each.passed,
            reason=f"result {each.number}",
        )
        for each in results
    ]
    store.jobs.take_turn(LedgerTurn(now_us=1_795_255_200_000_000, until_us=1_795_255_260_000_000, finished=finished))


def drawn(source: random.Random, count: int, rate: float, *, first: int, **same: Any) -> list[Made]:
    """Return results that pass at this rate."""
    return [Made(number=first + at, passed=source.random() < rate, **same) for at in range(count)]


@contextmanager
def watching(book: Book, *, clock: Callable[[], int] = time.time_ns) -> Iterator[Callable[[], None]]:
    """Run monitors on the store; yield a function that waits until they are up to date."""
    thread = MonitorThread(book.store.monitors, book.revisions.get, clock=clock)
    thread.start()

    def watched() -> None:
        assert thread.wait_watched(WAIT_S)

    try:
        yield watched
    finally:
        thread.close()


def remembered(store: Store) -> list[dict[str, Any]]:
    """Read the stored state of each stream's monitors."""
    stored = rows(store, "SELECT * FROM monitor_state ORDER BY project, rule_id, service, fingerprint")
    names = ("tenant", "project", "rule_id", "fingerprint", "state", "since", "updated", "service")
    return [dict(zip(names, row, strict=True)) | {"state": json.loads(str(row[4]))} for row in stored]


def rebuild(book: Book) -> list[dict[str, Any]]:
    """Run the monitors over all results from the first one; return their state."""
    write(book.store, "UPDATE monitor_cursor SET edition = -1")
    with watching(book) as watched:
        watched()
    return remembered(book.store)
