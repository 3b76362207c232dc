"""What a rule would match of what is stored, and what that would cost: questions in SQL, and what the answers say."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from evaluators.evaluator import Need
from rules.conditions import Condition, fields_of, label
from rules.fields import Row
from rules.matching import decide, failing_clause
from rules.predicate import predicate
from rules.rule import Rule
from rules.sampling import bound, sampled_sql
from rules.settling import Arrivals, Settling, settles_at_ns

Parameters: TypeAlias = Mapping[str, str | float | bool | None]
Ask: TypeAlias = Callable[[str, Parameters], Sequence[Sequence[Any]]]
"""Asks the store: a SELECT and its parameters; the rows."""

EXAMPLES: Final = 5
_DAY_S: Final = 86_400

_SPANS: Final = """
    SELECT trace_id, span_id, name, service_name, start_time, clause,
        false AS root_ended, received_at AS first_arrival, received_at AS last_arrival, tenant, seq, project,
        NULL AS session_id
    FROM looked_at
"""
_TRACES: Final = """
    SELECT
        trace_id,
        NULL AS span_id,
        coalesce(
            arg_min(name, start_time) FILTER (WHERE parent_span_id IS NULL), arg_min(name, start_time)
        ) AS name,
        arg_min(service_name, start_time) AS service_name,
        min(start_time) AS start_time,
        CASE WHEN bool_and(clause IS NOT NULL) THEN max(clause) END AS clause,
        bool_or(parent_span_id IS NULL AND end_time IS NOT NULL) AS root_ended,
        min(received_at) AS first_arrival,
        max(received_at) AS last_arrival,
        tenant,
        max(seq) AS seq,
        coalesce(
            arg_min(project, start_time) FILTER (WHERE parent_span_id IS NULL), arg_min(project, start_time)
        ) AS project,
        NULL AS session_id
    FROM looked_at
    GROUP BY tenant, trace_id
"""
_SESSIONS: Final = """
    SELECT
        arg_max(trace_id, (trace_start, trace_id)) AS trace_id,
        NULL AS span_id,
        arg_min(name, start_time) AS name,
        arg_min(service_name, start_time) AS service_name,
        min(start_time) AS start_time,
        CASE WHEN bool_and(clause IS NOT NULL) THEN max(clause) END AS clause,
        true AS root_ended,
        min(received_at) AS first_arrival,
        max(received_at) AS last_arrival,
        tenant,
        max(seq) AS seq,
        coalesce(
            arg_min(project, start_time) FILTER (WHERE parent_span_id IS NULL), arg_min(project, start_time)
        ) AS project,
        told.session_id
    FROM looked_at
    INNER JOIN (
        SELECT
            tenant,
            trace_id,
            min(start_time) AS trace_start,
            coalesce(
                arg_min(session_id, start_time) FILTER (WHERE parent_span_id IS NULL), arg_min(session_id, start_time)
            ) AS session_id
        FROM looked_at
        GROUP BY tenant, trace_id
    ) AS told USING (tenant, trace_id)
    WHERE told.session_id IS NOT NULL
    GROUP BY tenant, told.session_id
"""
_TARGETS: Final = {"SPAN": _SPANS, "TRACE": _TRACES, "SESSION": _SESSIONS}
_OF_TRACE: Final = """
    trace_id = $trace_id
    AND tenant = coalesce($tenant::VARCHAR, (SELECT min(tenant) FROM spans WHERE trace_id = $trace_id))
"""
_COUNTS: Final = "SELECT clause, clause IS NULL AND sampled AS sampled, count(*) FROM target GROUP BY ALL ORDER BY ALL"
_EXAMPLES: Final = f"""
SELECT trace_id, span_id, name, service_name, epoch_ns(start_time), root_ended,
    epoch_ns(first_arrival), epoch_ns(last_arrival), epoch_ns(now()::TIMESTAMP), tenant, seq, project, session_id
FROM target WHERE clause IS NULL AND sampled ORDER BY start_time DESC, trace_id, span_id LIMIT {EXAMPLES}
"""  # noqa: S608 - a number of ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many targets one thing becomes of."""

    decision: str
    why: str | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A span, trace or session that would be judged."""

    tenant: str
    project: str | None
    seq: int  # of the span, or of the last of the trace or session
    trace_id: str  # of a session its latest
    span_id: str | None  # None for a trace or a session
    session_id: str | None  # None for a span or a trace
    name: str
    service: str
    start_ns: int
    settles_at_ns: int | None  # None for a span, which is judged as it comes
    settled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTrial:
    """What a rule would match in a window of time, and what it would cost."""

    rule: Rule
    judge: Need
    window_s: float
    counts: tuple[Count, ...]
    examples: tuple[Example, ...]

    @property
    def looked_at(self) -> int:
        """How many spans, traces or sessions there were."""
        return sum(count.count for count in self.counts)

    @property
    def evaluations(self) -> int:
        """How many would be judged."""
        return sum(count.count for count in self.counts if count.decision == "matched")

    @property
    def evaluations_per_day(self) -> float:
        """How many would be judged a day."""
        return self.evaluations * _DAY_S / self.window_s


def try_rule(rule: Rule, judge: Need, window_s: float, ask: Ask, *, tenant: str | None = None) -> RuleTrial:
    """What the rule would match of the spans that started within the window, up to this moment.

    With a tenant, of its spans.
    """
    found = predicate(rule.clauses)
    looked_at = f"""
    SELECT tenant, trace_id, span_id, parent_span_id, name, service_name, start_time, end_time, received_at,
        seq, project, session_id, {found.sql} AS clause
    FROM spans
    WHERE start_time >= now()::TIMESTAMP - to_seconds($window_s::DOUBLE)
        AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
    """  # noqa: S608 - the predicate has bound parameters only
    targets = _TARGETS[rule.target]
    sampled = sampled_sql("coalesce(session_id, trace_id)", "$sampled_below")
    tables = f"""
    WITH looked_at AS ({looked_at}),
        each_target AS ({targets}),
        target AS (SELECT *, {sampled} AS sampled FROM each_target)
    """  # noqa: S608 - the predicate has bound parameters only
    bounds: Parameters = {"window_s": window_s, "sampled_below": bound(rule.sample_rate), "tenant": tenant}
    parameters: Parameters = {**found.parameters, **bounds}
    return RuleTrial(
        rule=rule,
        judge=judge,
        window_s=window_s,
        counts=tuple(_count(rule, *row) for row in ask(tables + _COUNTS, parameters)),
        examples=tuple(_example(rule, row) for row in ask(tables + _EXAMPLES, parameters)),
    )


def explain_trace(rule: Rule, trace_id: str, ask: Ask, *, tenant: str | None = None) -> dict[str, Any] | None:
    """What becomes of one trace and of each of its spans, and why, as JSON; None where no span of it is stored.

    Of a tenant's trace; without one, of the trace of no tenant, or of the first that has one with this id.
    """
    asked = (column for field in fields_of(rule.clauses) for column in field.columns)
    columns = sorted({"trace_id", "span_id", "name", *asked})
    select = f"SELECT {', '.join(columns)} FROM spans WHERE {_OF_TRACE} ORDER BY start_time, span_id"  # noqa: S608
    rows: list[Row] = [
        dict(zip(columns, row, strict=True)) for row in ask(select, {"trace_id": trace_id, "tenant": tenant})
    ]
    if not rows:
        return None
    decision = decide(rule, rows)
    spans = [_explained(rule, row) for row in rows]
    whole = {"decision": decision.outcome, "clause": _label(rule, decision.clause)}
    return {"traceId": trace_id, **(whole if rule.target == "TRACE" else {}), "spans": spans}


def _explained(rule: Rule, row: Row) -> dict[str, Any]:
    failing = failing_clause(rule, row)
    clause = None if failing is None else rule.clauses[failing]
    found = {"value": clause.of.value(row)} if isinstance(clause, Condition) else {}
    outcome = decide(rule, [row]).outcome
    return {
        "spanId": row["span_id"],
        "name": row["name"],
        "decision": outcome,
        "clause": _label(rule, failing),
        **found,
    }


def _label(rule: Rule, clause: int | None) -> str | None:
    return None if clause is None else label(rule.clauses[clause])


def _count(rule: Rule, clause: int | None, sampled: bool, count: int) -> Count:  # noqa: FBT001 - a row of an answer
    if clause is not None:
        return Count(decision="filtered", why=_label(rule, clause), count=count)
    if sampled:
        return Count(decision="matched", why=None, count=count)
    return Count(decision="sampled_out", why=f"sampleRate {rule.sample_rate:g}", count=count)


def _example(rule: Rule, row: Sequence[Any]) -> Example:
    trace_id, span_id, name, service, start_ns, root_ended, first_ns, last_ns, now_ns, tenant, seq, project, of = row
    arrivals = Arrivals(root_ended=root_ended, first_ns=first_ns, last_ns=last_ns)
    settles_ns = settles_at_ns(arrivals, Settling()) if rule.target == "TRACE" else None
    if rule.target == "SESSION":
        settles_ns = last_ns + round((Settling().session_s if rule.settle_s is None else rule.settle_s) * 1e9)
    return Example(
        tenant=tenant,
        project=project,
        seq=seq,
        trace_id=trace_id,
        span_id=span_id,
        session_id=of,
        name=name,
        service=service,
        start_ns=start_ns,
        settles_at_ns=settles_ns,
        settled=settles_ns is None or now_ns >= settles_ns,
    )
