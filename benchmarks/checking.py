"""Throughput of checks through the ledger: from jobs in their table to evaluations in theirs."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NoReturn, TypeAlias

import duckdb

from benchmarks.spans import Requests
from collector.conventions.columnar.stored_trace import StoredTrace, stored_spans
from collector.conventions.member import TraceMember
from collector.conventions.own_keys import NO_KEYS
from collector.evaluation.trace_case import case_of_stored, whole_case
from collector.live.active import ActiveRule
from collector.live.jobs.work.target import case_for_rule
from collector.live.jobs.workers import WorkerOptions, Workers
from collector.live.judges.judge_health import JudgeHealth
from collector.otlp.decode import Request, decode
from collector.reading.spans import ConventionsReader
from evaluators.errors import BadConfiguration
from evaluators.evaluator import run
from evaluators.registry import build
from rules.rule_text import parse_rule
from storage.ingest.batch import SpanBatch
from storage.ingest.windows import Limits, TraceKey
from storage.ingest.writer import WriterOptions
from storage.store import Store, StoreOptions

Target: TypeAlias = Literal["TRACE", "SPAN"]

TRACES: Final = 8_000
SPANS: Final = 8
CHECKS: Final[dict[Target, tuple[str, ...]]] = {"TRACE": ("tool_error", "tool_call_validity"), "SPAN": ("tool_error",)}
REQUESTS_A_COMMIT: Final = 256
PATIENCE_S: Final = 600.0
BACKLOG_BYTES: Final = 16 << 20  # a third of what a store takes before it refuses
WARM_UP: Final = 2_000  # traces that are checked before, so that the start of the processes is not counted
TOOLS: Final = [
    {"name": name, "inputSchema": {"required": ["query"], "properties": {"limit": {"type": "integer"}}}}
    for name in ("get_weather", "search_orders", "read_page", "send_mail")
]

_JOBS = """
INSERT INTO job BY NAME SELECT
    (SELECT last_job FROM matching_state) + row_number() OVER () AS job_id,
    r.revision, s.seq, s.tenant, s.project, s.trace_id, CASE WHEN $is_span THEN s.span_id END AS span_id,
    0 AS round, 'ready' AS state, 0 AS attempts, $now AS created_at, 'live' AS occasion
FROM (
    SELECT * FROM span WHERE seq IN (
        SELECT unnest(CASE WHEN $is_span THEN list(seq) ELSE [max(seq)] END)
        FROM (SELECT *, dense_rank() OVER (ORDER BY trace_id) AS number FROM span)
        WHERE number BETWEEN $first AND $last
        GROUP BY trace_id
    )
) AS s CROSS JOIN rule_revision AS r
ORDER BY s.seq
"""
_REVISION = """
INSERT INTO rule_revision VALUES ($number, $name, '', $digest, $name, NULL, $target, $name, '{}', [], $now)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checking:
    """Checks of traces, one of each rule for each trace, or of their spans."""

    target: Target
    traces: int
    spans_a_trace: int
    checks: int
    seconds: float
    server_us: float  # CPU of the server's process a check, most of it the database's
    child_us: float  # CPU of the processes that make cases and check
    evaluator_us: float  # CPU of the evaluators alone, over cases that are made

    @property
    def per_s(self) -> float:
        """Checks a second."""
        return self.checks / self.seconds


def measure_checking(directory: Path, traces: int = TRACES, target: Target = "TRACE") -> Checking:
    """Check `traces` traces, or their spans, with nothing else to do."""
    reads = ConventionsReader(NO_KEYS)
    with Store.open(directory, StoreOptions(writer=WriterOptions(reads=reads))) as store:
        for batch in _batches(WARM_UP + traces):
            store.append([batch])
            if store.backlog_bytes > BACKLOG_BYTES:
                store.wait_committed(PATIENCE_S)
        store.wait_committed(PATIENCE_S)
        rules = _rules(target)
        store._writer.store(lambda cursor: _note(cursor, rules), 1)  # noqa: SLF001 - as matching does, in its place
        workers = Workers(store.jobs, store.windows, rules.get, _NoJudges(), WorkerOptions(own=NO_KEYS))
        workers.start()
        _enqueue(store, target, 1, WARM_UP)
        assert workers.wait_idle(PATIENCE_S)
        _enqueue(store, target, WARM_UP + 1, WARM_UP + traces)
        before_s = sum(map(_cpu_s, workers.checking_pids))
        began_s, server_s = time.perf_counter(), time.process_time()
        workers.wake()
        assert workers.wait_idle(PATIENCE_S)
        seconds = time.perf_counter() - began_s
        server_s, child_s = time.process_time() - server_s, sum(map(_cpu_s, workers.checking_pids)) - before_s
        workers.close()
        counted = store.queries.sql("SELECT outcome, count(*) FROM evaluation GROUP BY 1", max_rows=9, timeout_s=60)
        evaluator_us = asyncio.run(_evaluator_us(store, target))
    each = len(CHECKS[target]) * (SPANS if target == "SPAN" else 1)
    assert {outcome: int(str(count)) for outcome, count in counted.rows} == {"scored": (WARM_UP + traces) * each}
    checks = traces * each
    return Checking(
        target=target,
        traces=traces,
        spans_a_trace=SPANS,
        checks=checks,
        seconds=seconds,
        server_us=server_s / checks * 1e6,
        child_us=child_s / checks * 1e6,
        evaluator_us=evaluator_us,
    )


async def _evaluator_us(store: Store, target: Target) -> float:
    """Measure CPU microseconds of the evaluators alone, for the first hundred traces."""
    trace_ids = store.queries.sql("SELECT DISTINCT trace_id FROM span LIMIT 100", max_rows=100, timeout_s=60)
    keys = [TraceKey("", str(trace_id)) for (trace_id,) in trace_ids.rows]
    window = store.windows.meanings_of_traces(keys, limits=Limits(rows=100_000, nbytes=1 << 30))
    assert window is not None
    members: dict[str, list[TraceMember]] = {}
    for _, trace_id, member in stored_spans(window.spans):
        members.setdefault(trace_id if target == "TRACE" else member.span_id, []).append(member)
    adds = {"tools": TOOLS, "expected": None}
    cases = [
        whole_case(case_for_rule(case_of_stored(StoredTrace("", some)), adds, asks_for_input=False))
        for some in members.values()
    ]
    checks = [build(name, {}) for name in CHECKS[target]]
    for check in checks:
        await run(check, cases[0])  # which imports the modules it needs
    began_s = time.process_time()
    for case in cases:
        for check in checks:
            await run(check, case)
    return (time.process_time() - began_s) / (len(cases) * len(checks)) * 1e6


class _NoJudges:
    """Judges for rules that need none."""

    def __init__(self) -> None:
        self.health = JudgeHealth()

    def connection_of(self, active: ActiveRule) -> NoReturn:
        raise BadConfiguration(active.rule.name)

    def jurors(self, active: ActiveRule) -> NoReturn:
        raise BadConfiguration(active.rule.name)

    def in_flight(self, connection_id: str) -> NoReturn:
        raise BadConfiguration(connection_id)

    def fallback(self, connection_id: str) -> None:
        """Return None."""

    def judge(self, active: ActiveRule, job: object, *, current: object, over: object = None) -> NoReturn:
        raise BadConfiguration(f"{active.rule.name}: {job}, {current}, {over}")

    async def close(self) -> None:
        pass


def _batches(traces: int) -> Iterator[SpanBatch]:
    requests = Requests(SPANS, pool_spans=4_096)
    for first in range(0, traces, REQUESTS_A_COMMIT):
        some = [Request(body=requests.next().body) for _ in range(min(REQUESTS_A_COMMIT, traces - first))]
        yield decode(some, received_at_us=time.time_ns() // 1000).batch


def _rules(target: Target) -> dict[int, ActiveRule]:
    return {
        number: ActiveRule(
            tenant="",
            rule_id=name,
            revision=number,
            rule=parse_rule(json.dumps({"name": name, "target": target, "evaluator": name, "tools": TOOLS})).rule,
            executor_kind="check",
        )
        for number, name in enumerate(CHECKS[target], start=1)
    }


def _note(cursor: duckdb.DuckDBPyConnection, rules: dict[int, ActiveRule]) -> None:
    for number, active in rules.items():
        rule = active.rule
        values = {"number": number, "name": rule.name, "digest": rule.revision, "target": rule.target, "now": _now()}
        cursor.execute(_REVISION, values)


def _enqueue(store: Store, target: Target, first: int, last: int) -> None:
    """Make jobs of some traces, or of their spans."""
    values = {"is_span": target == "SPAN", "first": first, "last": last, "now": _now()}

    def write(cursor: duckdb.DuckDBPyConnection) -> None:
        cursor.execute(_JOBS, values)
        cursor.execute("UPDATE matching_state SET last_job = greatest(last_job, (SELECT max(job_id) FROM job))")

    store._writer.store(write, last - first)  # noqa: SLF001 - as above


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC).replace(tzinfo=None)


def _cpu_s(pid: int) -> float:
    numbers = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    import tempfile

    for which in CHECKS:
        with tempfile.TemporaryDirectory() as matcher_db:
            print(measure_checking(Path(matcher_db), target=which))
