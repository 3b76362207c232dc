"""How many checks a second come out of the ledger: from jobs in their table to evaluations in theirs."""

from __future__ import annotations

import datetime as dt
import json
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import duckdb

from benchmarks.spans import Requests
from collector.conventions.own import OwnKeys
from collector.live.active import ActiveRule
from collector.live.jobs.workers import WorkerOptions, Workers
from collector.otlp.decode import Request, decode
from evaluators.errors import BadConfiguration
from rules.rule_text import parse_rule
from storage.ingest.batch import SpanBatch
from storage.store import Store

TRACES: Final = 8_000
SPANS: Final = 8
CHECKS: Final = ("tool_error", "tool_call_validity")
REQUESTS_A_COMMIT: Final = 256
PATIENCE_S: Final = 600.0

_JOBS = """
INSERT INTO job BY NAME SELECT
    (SELECT last_job FROM matching_state) + row_number() OVER () AS job_id,
    r.revision, t.last_batch AS seq, t.tenant, t.project, t.trace_id, 0 AS round, 'ready' AS state, 0 AS attempts,
    $now AS created_at
FROM trace_roll_up AS t CROSS JOIN rule_revision AS r
ORDER BY t.start_time
"""
_REVISION = """
INSERT INTO rule_revision VALUES ($number, $name, '', $digest, $name, NULL, 'TRACE', $name, '{}', [], $now)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checking:
    """Checks of traces, one of each rule for each trace."""

    traces: int
    spans_a_trace: int
    checks: int
    seconds: float
    server_us: float  # CPU of the server's process a check, most of it the database's
    child_us: float  # CPU of the process that reads and checks

    @property
    def per_s(self) -> float:
        """Checks a second."""
        return self.checks / self.seconds


def measure_checking(directory: Path, traces: int = TRACES) -> Checking:
    """Check so many traces, with nothing else to do."""
    with Store.open(directory) as store:
        for batch in _batches(traces):
            store.append([batch])
        store.wait_committed(PATIENCE_S)
        rules = _rules()
        store._writer.store(lambda cursor: _enqueue(cursor, rules), traces)  # noqa: SLF001 - as matching does, in its place
        workers = Workers(store.jobs, store.windows, rules.get, _NoJudges(), WorkerOptions(own=OwnKeys({})))
        began_s, server_s, child_s = time.perf_counter(), time.process_time(), _children_s()
        workers.start()
        assert workers.wait_idle(PATIENCE_S)
        seconds = time.perf_counter() - began_s
        server_s = time.process_time() - server_s
        workers.close()
        counted = store.queries.sql("SELECT outcome, count(*) FROM evaluation GROUP BY 1", max_rows=9, timeout_s=60)
    checks = traces * len(CHECKS)
    assert sum(int(str(count)) for _, count in counted.rows) == checks, counted.rows
    return Checking(
        traces=traces,
        spans_a_trace=SPANS,
        checks=checks,
        seconds=seconds,
        server_us=server_s / checks * 1e6,
        child_us=(_children_s() - child_s) / checks * 1e6,
    )


class _NoJudges:
    """No rule here asks a judge."""

    def connection_of(self, active: ActiveRule) -> NoReturn:
        raise BadConfiguration(active.rule.name)

    def in_flight(self, connection_id: str) -> NoReturn:
        raise BadConfiguration(connection_id)

    def fallback(self, connection_id: str) -> None:
        """There is none."""

    def judge(self, active: ActiveRule, job: object, *, current: object, over: object = None) -> NoReturn:
        raise BadConfiguration(f"{active.rule.name}: {job}, {current}, {over}")

    async def close(self) -> None:
        pass


def _batches(traces: int) -> Iterator[SpanBatch]:
    requests = Requests(SPANS, pool_spans=4_096)
    for first in range(0, traces, REQUESTS_A_COMMIT):
        some = [Request(body=requests.next().body) for _ in range(min(REQUESTS_A_COMMIT, traces - first))]
        yield decode(some, received_at_us=time.time_ns() // 1000).batch


def _rules() -> dict[int, ActiveRule]:
    return {
        number: ActiveRule(
            tenant="",
            rule_id=name,
            revision=number,
            rule=parse_rule(json.dumps({"name": name, "target": "TRACE", "evaluator": name})).rule,
            lane="check",
        )
        for number, name in enumerate(CHECKS, start=1)
    }


def _enqueue(cursor: duckdb.DuckDBPyConnection, rules: dict[int, ActiveRule]) -> None:
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    for number, active in rules.items():
        name = active.rule.name
        values = {"number": number, "name": name, "digest": active.rule.revision, "now": now}
        cursor.execute(_REVISION, values)
    cursor.execute(_JOBS, {"now": now})
    cursor.execute("UPDATE matching_state SET last_job = (SELECT max(job_id) FROM job)")


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        print(measure_checking(Path(scratch)))
