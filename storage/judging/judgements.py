"""What became of traces and their spans by the rules: decisions, and evaluations; and what others made of them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from storage import sql
from storage.engine.database import Database
from storage.ingest.backlog import SEQ_BITS
from storage.ingest.windows import TRACE_ID, Extent, TraceKey, bounds_of, extents_of, groups_of

_COMMITS_EACH = 8_192
"""As of spans, of results: these have fewer columns, so that one more look-up takes as long as to look through more of
them. Ten traces that lie apart in 2.4 million results took 110 ms one by one, and 14 together."""

MAX_DECISIONS = 20_000
"""Decisions about one trace that are read at once, and evaluations. A guess: of 1,000 spans by 20 rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvaluation:
    """What came of one evaluation. None: not told, or there is none."""

    job_id: int
    rule_id: str
    rule: str
    revision: int
    digest: str
    evaluator: str  # the name of its kind
    span_id: str | None  # None: of the trace, or the session
    name: str  # what the evaluator's outcomes are called
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
class ExternalScore:
    """A score that somebody else gave and sent. None: not told."""

    span_id: str | None  # None: of the trace
    project: str | None
    name: str
    outcome: str  # scored, failed or skipped
    score: float | None  # as it came
    passed: bool | None  # as its label says
    label: str | None
    reason: str | None
    error_kind: str | None
    metadata: str | None  # JSON
    created_at_ns: int  # when it came


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDecision:
    """What became of a span or a trace by one revision of a rule.

    `decision` is filtered (`clause` says by which), sampled_out, unflagged, waiting, held, ready, claimed, over_budget,
    rule_disabled, failed, skipped, scored, undecided where that could not be found out, or matched where what came of
    it is not kept.
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
    """A span or a trace that somebody wants judged."""

    tenant: str
    trace_id: str
    span_id: str | None  # None: the trace
    seq: int  # the span's, or that of the trace's last span
    project: str | None
    is_open: bool  # the trace has not settled
    first_arrival_ns: int
    last_arrival_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What the rules, and others, made of a trace and its spans; `whole` unless there is more than is read at once."""

    evaluations: Sequence[StoredEvaluation] = ()
    decisions: Sequence[StoredDecision] = ()
    external_scores: Sequence[ExternalScore] = ()
    whole: bool = True


class Judgements:
    """Read-only questions about what the rules made of what is stored. Safe to ask from any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_trace(self, trace_id: str, *, tenant: str = "") -> Judged:
        """What the rules made of one trace and its spans; nothing where it is not stored."""
        key: dict[str, object] = {"tenant": tenant, "trace_ids": [trace_id], "session_id": None}
        with self._database.snapshot() as cursor:
            own = _numbers(cursor, tenant, [trace_id])
            if own is None:
                return Judged()
            found = _evaluations(cursor, key | own)
            about: dict[str, object] = {"tenant": tenant, "trace_id": trace_id}
            rows = _rows(cursor, sql.query("decisions_of_trace"), about | own)
            decisions = [StoredDecision(**row) for row in rows]
            select = sql.query("external_scores_of_trace")
            scores = [ExternalScore(**row) for row in _rows(cursor, select, about | {"rows": MAX_DECISIONS})]
        evaluations = found.get(trace_id, [])
        whole = max(len(evaluations), len(decisions), len(scores)) < MAX_DECISIONS
        return Judged(evaluations=evaluations, decisions=decisions, external_scores=scores, whole=whole)

    def by_rules(self, trace_id: str, *, tenant: str, commits: tuple[int, int], decided: bool) -> Judged:
        """What the rules alone made of one trace, whose spans came with the commits from one to another, and its spans.

        Without `decided`, their evaluations only.
        """
        asked: dict[str, object] = {"tenant": tenant, "rows": MAX_DECISIONS} | _numbers_of(*commits)
        with self._database.snapshot() as cursor:
            found = _evaluations(cursor, asked | {"trace_ids": [trace_id], "session_id": None})
            about = asked | {"trace_id": trace_id}
            rows = _rows(cursor, sql.query("decisions_of_trace"), about) if decided else []
        evaluations = found.get(trace_id, [])
        whole = max(len(evaluations), len(rows)) < MAX_DECISIONS
        return Judged(evaluations=evaluations, decisions=[StoredDecision(**row) for row in rows], whole=whole)

    def target(self, trace_id: str, span_id: str | None, *, tenant: str) -> TargetToJudge | None:
        """What is to be known of a span or a trace to judge it; None where it is not stored."""
        asked: dict[str, object] = {"tenant": tenant, "trace_id": trace_id, "span_id": span_id}
        with self._database.snapshot() as cursor:
            own = _numbers(cursor, tenant, [trace_id])
            if own is None:
                return None
            bounds = {name: own[name] for name in ("first_seq", "last_seq")}
            found = _rows(cursor, sql.query("target_to_judge"), asked | bounds)
        if not found:
            return None
        return TargetToJudge(tenant=tenant, trace_id=trace_id, span_id=span_id, **found[0])

    def evaluations_of(
        self, extents: Mapping[TraceKey, Extent], *, tenant: str
    ) -> Mapping[str, list[StoredEvaluation]]:
        """What came of the evaluations of a tenant's traces with these extents, and of their spans, by trace id.

        20,000 at most.
        """
        found: dict[str, list[StoredEvaluation]] = {}
        left = MAX_DECISIONS
        with self._database.snapshot() as cursor:
            for group in groups_of(extents, commits_each=_COMMITS_EACH) if extents else ():
                ids = [key.trace_id for key in group]
                asked: dict[str, object] = {"tenant": tenant, "trace_ids": ids, "session_id": None}
                numbers = _between([extents[key] for key in group]) | {"rows": left}
                found |= _evaluations(cursor, asked | numbers)
                left = MAX_DECISIONS - sum(map(len, found.values()))
        return found

    def of_session(self, session_id: str, *, tenant: str = "") -> Judged:
        """What rules about sessions made of one; what became of its traces stands with these."""
        with self._database.snapshot() as cursor:
            if not cursor.execute(sql.query("has_session_rules")).fetchall():
                return Judged()
            wanted = {"tenant": [tenant], "session_id": [session_id]}
            cursor.register("wanted_sessions", pa.table(wanted, pa.schema([(name, pa.string()) for name in wanted])))
            traces = [row["trace_id"] for row in _rows(cursor, sql.query("traces_of_session_keys"), {})]
            own = _reach(cursor, tenant, session_id, traces)
            if own is None:
                return Judged()
            key: dict[str, object] = {"tenant": tenant, "trace_ids": traces, "session_id": session_id}
            found = _evaluations(cursor, key | own)
            decisions = [StoredDecision(**row) for row in _rows(cursor, sql.query("decisions_of_session"), key | own)]
        evaluations = sorted((one for listed in found.values() for one in listed), key=lambda one: one.job_id)
        whole = max(len(evaluations), len(decisions)) < MAX_DECISIONS
        return Judged(evaluations=evaluations, decisions=decisions, whole=whole)


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
    """Between which numbers is what rules about sessions made of one, and how many rows are read; None: nothing."""
    extents = extents_of(cursor, [TraceKey(tenant, each) for each in trace_ids if TRACE_ID.fullmatch(each)])
    if not extents:
        return None
    each = [_between([extent]) for extent in extents.values()]
    cursor.register("numbers_of_session", pa.Table.from_pylist(each))
    asked = _between(extents.values()) | {"tenant": tenant, "session_id": session_id}
    ((first, last),) = cursor.execute(sql.query("reach_of_session"), asked).fetchall()
    return None if first is None else {"first_seq": first, "last_seq": last, "rows": MAX_DECISIONS}


def _evaluations(cursor: duckdb.DuckDBPyConnection, asked: Mapping[str, object]) -> dict[str, list[StoredEvaluation]]:
    found: dict[str, list[StoredEvaluation]] = {}
    for row in _rows(cursor, sql.query("evaluations_of_traces"), dict(asked)):
        found.setdefault(row.pop("trace_id"), []).append(StoredEvaluation(**row))
    return found


def _rows(cursor: duckdb.DuckDBPyConnection, select: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = cursor.execute(select, parameters).to_arrow_table().to_pylist()
    return rows
