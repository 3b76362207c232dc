"""Results about traces and their spans: decisions and evaluations by rules, and external scores."""

import math
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.read_database import ReadDatabase
from storage.errors import Overloaded, Reopened
from storage.ingest.backlog import SEQ_BITS
from storage.ingest.windows import TRACE_ID, Extent, TraceKey, bounds_of, extents_of, groups_of

_COMMITS_EACH = 8_192
"""Replaces `windows.COMMITS_EACH` for results. They have fewer columns than spans, so more commits can be
scanned in the time of another look-up. Ten scattered traces among 2.4 million results took 110 ms one by one, and 14 ms
together."""

_COUNTS_S = 30.0
"""Time for which counts of jobs are kept: an open page polls, and each query reads all results of jobs. A guess."""

_MOST_LAKE_JOBS = 20
_MOST_RULES = 100  # guesses

MAX_DECISIONS = 20_000
"""Maximum number of decisions, and of evaluations, that one call returns. A guess: those of 1,000 spans by 20 rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvaluation:
    """Result of one evaluation. None means unknown or absent."""

    job_id: int
    rule_id: str
    rule: str
    revision: int
    digest: str
    evaluator: str  # name of the evaluator, as in the rule
    span_id: str | None  # None for a result about the trace or the session
    name: str  # name of the score
    fingerprint: str | None
    outcome: str  # scored, failed or skipped
    score: float | None
    passed: bool | None
    threshold: float | None
    reason: str | None
    error_kind: str | None
    metadata: str | None  # JSON
    judge_model: str | None
    judge_calls: int | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    latency_ms: float | None
    attempts: int
    release: str | None
    round: int
    created_at_ns: int
    superseded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeJobCounts:
    """Counts of the results of a job over the lake, and the range of start times of the judged spans and traces."""

    job: str
    from_ns: int
    to_ns: int
    results: int
    passed: int
    not_passed: int
    failed: int
    skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalScore:
    """A score that was sent by another application. None means unknown."""

    span_id: str | None  # None: of the trace
    project: str | None
    name: str
    outcome: str  # scored, failed or skipped
    score: float | None  # as received
    passed: bool | None  # as its label says
    label: str | None
    reason: str | None
    error_kind: str | None
    metadata: str | None  # JSON
    created_at_ns: int  # when it was received


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDecision:
    """Decision about a span or a trace by one revision of a rule.

    `decision` is filtered (`clause` is the condition that failed), sampled_out, unflagged, waiting, held, ready,
    claimed, over_budget, rule_disabled, failed, skipped or scored. `undecided` means that matching failed,
    `matched` that the target matched, but neither its job nor its result is stored any more.

    """

    rule_id: str
    rule: str
    revision: int
    digest: str
    span_id: str | None  # None: of the trace
    decision: str
    clause: str | None
    decided_at_ns: int | None  # None: it is not decided yet


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetToJudge:
    """A span or a trace to judge on request."""

    tenant: str
    trace_id: str
    span_id: str | None  # None: the trace
    seq: int  # the span's, or that of the trace's last span
    project: str | None
    is_open: bool  # the trace has not settled
    first_arrival_ns: int
    last_arrival_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceResults:
    """Results about a trace and its spans; `whole` is False if more than `MAX_DECISIONS` of one kind may exist."""

    evaluations: Sequence[StoredEvaluation] = ()
    decisions: Sequence[StoredDecision] = ()
    external_scores: Sequence[ExternalScore] = ()
    whole: bool = True


class Judgements:
    """Read-only queries about decisions and evaluations. Thread-safe."""

    def __init__(self, database: ReadDatabase) -> None:
        self._database = database
        self._lake_jobs: dict[str, tuple[float, list[LakeJobCounts]]] = {}

    def lake_jobs(self, rule_id: str) -> list[LakeJobCounts]:
        """Return a rule's jobs over the lake, latest first; up to 30 s old, and older while the lake cannot be read."""
        read_s, counts = self._lake_jobs.get(rule_id, (-math.inf, []))
        if time.monotonic() - read_s > _COUNTS_S:
            with suppress(Overloaded, Reopened), self._database.snapshot() as cursor:
                (bounds,) = _rows(cursor, sql.query("bounds_of_revisions"), {"rule_id": rule_id})
                key = {"rule_id": rule_id, "jobs": _MOST_LAKE_JOBS, **bounds}
                rows = _rows(cursor, sql.query("lake_jobs_of_rule"), key)
                counts = [LakeJobCounts(**row) for row in rows]
            if len(self._lake_jobs) >= _MOST_RULES:
                self._lake_jobs.clear()
            self._lake_jobs[rule_id] = time.monotonic(), counts
        return counts

    def of_trace(self, trace_id: str, *, tenant: str = "") -> TraceResults:
        """Return the rules' results for one trace and its spans; empty if it is not stored."""
        key: dict[str, object] = {"tenant": tenant, "trace_ids": [trace_id], "session_id": None}
        with self._database.snapshot() as cursor:
            own = _numbers(cursor, tenant, [trace_id])
            if own is None:
                return TraceResults()
            by_trace = _evaluations(cursor, key | own)
            about: dict[str, object] = {"tenant": tenant, "trace_id": trace_id}
            rows = _rows(cursor, sql.query("decisions_of_trace"), about | own)
            decisions = [StoredDecision(**row) for row in rows]
            select = sql.query("external_scores_of_trace")
            scores = [ExternalScore(**row) for row in _rows(cursor, select, about | {"rows": MAX_DECISIONS})]
        evaluations = by_trace.get(trace_id, [])
        whole = max(len(evaluations), len(decisions), len(scores)) < MAX_DECISIONS
        return TraceResults(evaluations=evaluations, decisions=decisions, external_scores=scores, whole=whole)

    def by_rules(self, trace_id: str, *, tenant: str, commits: tuple[int, int], decided: bool) -> TraceResults:
        """Return the rules' results for one trace and its spans; commits in the range `commits` stored the spans.

        Without `decided`, return evaluations only.

        """
        parameters: dict[str, object] = {"tenant": tenant, "rows": MAX_DECISIONS} | _numbers_of(*commits)
        with self._database.snapshot() as cursor:
            by_trace = _evaluations(cursor, parameters | {"trace_ids": [trace_id], "session_id": None})
            about = parameters | {"trace_id": trace_id}
            rows = _rows(cursor, sql.query("decisions_of_trace"), about) if decided else []
        evaluations = by_trace.get(trace_id, [])
        whole = max(len(evaluations), len(rows)) < MAX_DECISIONS
        return TraceResults(evaluations=evaluations, decisions=[StoredDecision(**row) for row in rows], whole=whole)

    def target(self, trace_id: str, span_id: str | None, *, tenant: str) -> TargetToJudge | None:
        """Return the data needed to judge a span or a trace, or None if it is not stored."""
        parameters: dict[str, object] = {"tenant": tenant, "trace_id": trace_id, "span_id": span_id}
        with self._database.snapshot() as cursor:
            own = _numbers(cursor, tenant, [trace_id])
            if own is None:
                return None
            bounds = {name: own[name] for name in ("first_seq", "last_seq")}
            rows = _rows(cursor, sql.query("target_to_judge"), parameters | bounds)
        if not rows:
            return None
        return TargetToJudge(tenant=tenant, trace_id=trace_id, span_id=span_id, **rows[0])

    def evaluations_of(
        self, extents: Mapping[TraceKey, Extent], *, tenant: str
    ) -> Mapping[str, list[StoredEvaluation]]:
        """Return the evaluations of a tenant's traces with these extents, and of their spans, by trace id.

        At most `MAX_DECISIONS` evaluations are returned.

        """
        by_trace: dict[str, list[StoredEvaluation]] = {}
        left = MAX_DECISIONS
        with self._database.snapshot() as cursor:
            for group in groups_of(extents, commits_each=_COMMITS_EACH) if extents else ():
                ids = [key.trace_id for key in group]
                parameters: dict[str, object] = {"tenant": tenant, "trace_ids": ids, "session_id": None}
                numbers = _between([extents[key] for key in group]) | {"rows": left}
                by_trace |= _evaluations(cursor, parameters | numbers)
                left = MAX_DECISIONS - sum(map(len, by_trace.values()))
        return by_trace

    def of_session(self, session_id: str, *, tenant: str = "") -> TraceResults:
        """Return the results of session rules for one session, without results about single traces and spans of it."""
        with self._database.snapshot() as cursor:
            if not cursor.execute(sql.query("has_session_rules")).fetchall():
                return TraceResults()
            session = {"tenant": [tenant], "session_id": [session_id]}
            cursor.register("wanted_sessions", pa.table(session, pa.schema([(name, pa.string()) for name in session])))
            traces = [row["trace_id"] for row in _rows(cursor, sql.query("traces_of_session_keys"), {})]
            own = _reach(cursor, tenant, session_id, traces)
            if own is None:
                return TraceResults()
            key: dict[str, object] = {"tenant": tenant, "trace_ids": traces, "session_id": session_id}
            by_trace = _evaluations(cursor, key | own)
            decisions = [StoredDecision(**row) for row in _rows(cursor, sql.query("decisions_of_session"), key | own)]
        evaluations = sorted((one for listed in by_trace.values() for one in listed), key=lambda one: one.job_id)
        whole = max(len(evaluations), len(decisions)) < MAX_DECISIONS
        return TraceResults(evaluations=evaluations, decisions=decisions, whole=whole)


def _numbers(cursor: duckdb.DuckDBPyConnection, tenant: str, trace_ids: Collection[str]) -> dict[str, int] | None:
    extents = extents_of(cursor, [TraceKey(tenant, each) for each in trace_ids if TRACE_ID.fullmatch(each)])
    if not extents:
        return None
    return _between(extents.values()) | {"rows": MAX_DECISIONS}


def _between(extents: Collection[Extent]) -> dict[str, int]:
    bounds = bounds_of(extents)
    return _numbers_of(bounds["first_batch"], bounds["last_batch"])


def _numbers_of(first_batch: int, last_batch: int) -> dict[str, int]:
    return {"first_seq": first_batch << SEQ_BITS, "last_seq": ((last_batch + 1) << SEQ_BITS) - 1}


def _reach(
    cursor: duckdb.DuckDBPyConnection, tenant: str, session_id: str, trace_ids: Collection[str]
) -> dict[str, int] | None:
    """Return query parameters that bound a session's results: their first and last number, and the maximum of rows."""
    extents = extents_of(cursor, [TraceKey(tenant, each) for each in trace_ids if TRACE_ID.fullmatch(each)])
    if not extents:
        return None
    each = [_between([extent]) for extent in extents.values()]
    cursor.register("numbers_of_session", pa.Table.from_pylist(each))
    parameters = _between(extents.values()) | {"tenant": tenant, "session_id": session_id}
    ((first, last),) = cursor.execute(sql.query("reach_of_session"), parameters).fetchall()
    return None if first is None else {"first_seq": first, "last_seq": last, "rows": MAX_DECISIONS}


def _evaluations(
    cursor: duckdb.DuckDBPyConnection, parameters: Mapping[str, object]
) -> dict[str, list[StoredEvaluation]]:
    by_trace: dict[str, list[StoredEvaluation]] = {}
    for row in _rows(cursor, sql.query("evaluations_of_traces"), dict(parameters)):
        by_trace.setdefault(row.pop("trace_id"), []).append(StoredEvaluation(**row))
    return by_trace


def _rows(cursor: duckdb.DuckDBPyConnection, select: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = arrow_table(cursor, select, parameters).to_pylist()
    return rows
