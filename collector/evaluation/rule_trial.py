"""What a rule would match of what is stored, and what that would cost: questions in SQL, and what the answers say."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from evaluators.evaluator import Need
from rules.conditions import Condition, fields_of, label
from rules.fields import TOTALS, Row
from rules.matching import bound, decide, failing_clause, sampled_sql
from rules.predicate import predicate
from rules.rule import AfterRule, Rule
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
_COUNTS: Final = """
SELECT clause, clause IS NULL AND sampled AS sampled, clause IS NULL AND sampled AND flagged AS flagged, count(*)
FROM target
GROUP BY ALL
ORDER BY ALL
"""
_EXAMPLES: Final = f"""
SELECT trace_id, span_id, name, service_name, epoch_ns(start_time), root_ended,
    epoch_ns(first_arrival), epoch_ns(last_arrival), epoch_ns(now()::TIMESTAMP), tenant, seq, project, session_id
FROM target WHERE clause IS NULL AND sampled AND flagged ORDER BY start_time DESC, trace_id, span_id LIMIT {EXAMPLES}
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
    flagged = _flagged(rule)
    looked_at = f"""
    SELECT tenant, trace_id, span_id, parent_span_id, name, service_name, start_time, end_time, received_at,
        seq, project, session_id, {found.sql} AS clause
    FROM {_source(rule)}
    WHERE start_time >= now()::TIMESTAMP - to_seconds($window_s::DOUBLE)
        AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
    """  # noqa: S608 - the predicate has bound parameters only
    targets = _TARGETS[rule.target]
    sampled = sampled_sql("coalesce(session_id, trace_id)", "$sampled_below")
    tables = f"""
    WITH looked_at AS ({looked_at}),
        each_target AS ({targets}),
        target AS (SELECT *, {sampled} AS sampled, {flagged.sql} AS flagged FROM each_target AS t)
    """  # noqa: S608 - the predicate has bound parameters only
    bounds: Parameters = {"window_s": window_s, "sampled_below": bound(rule.sample_rate), "tenant": tenant}
    parameters: Parameters = {**found.parameters, **bounds, **flagged.parameters}
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
    select = f"SELECT {', '.join(columns)} FROM {_source(rule)} WHERE {_OF_TRACE} ORDER BY start_time, span_id"  # noqa: S608
    rows: list[Row] = [
        dict(zip(columns, row, strict=True)) for row in ask(select, {"trace_id": trace_id, "tenant": tenant})
    ]
    if not rows:
        return None
    decision = decide(rule, rows)
    flagged = _flagged_targets(rule, ask, {"trace_id": trace_id, "tenant": tenant})
    spans = [_explained(rule, row, flagged) for row in rows]
    whole = {"decision": _told(decision.outcome, None, flagged), "clause": _label(rule, decision.clause)}
    return {"traceId": trace_id, **(whole if rule.target == "TRACE" else {}), "spans": spans}


def _source(rule: Rule) -> str:
    """Where the columns are that conditions of a rule are about: those of spans, and of the sums of their traces."""
    totals = {field.column: name.removeprefix("trace.") for name, field in TOTALS.items()}
    asked = {field.column for field in fields_of(rule.clauses) if field.column in totals}
    if not asked:
        return "spans"
    columns = ", ".join(f"t.{totals[column]} AS {column}" for column in sorted(asked))
    join = "LEFT JOIN traces AS t ON t.tenant = s.tenant AND t.trace_id = s.trace_id"
    return f"(SELECT s.*, {columns} FROM spans AS s {join})"  # noqa: S608 - names of ours


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flagged:
    """Whether a result of another rule calls for a target `t`, in SQL."""

    sql: str
    parameters: Parameters


def _flagged(rule: Rule) -> _Flagged:
    if rule.after is None:
        return _Flagged(sql="true", parameters={})
    same = {
        "SPAN": "e.trace_id = t.trace_id AND e.span_id = t.span_id",
        "TRACE": "e.trace_id = t.trace_id AND e.session_id IS NULL",
        "SESSION": "e.session_id = t.session_id",
    }[rule.target]
    sql = f"EXISTS (SELECT 1 FROM evaluations AS e WHERE e.tenant = t.tenant AND {same} AND {_CALLS})"  # noqa: S608
    return _Flagged(sql=sql, parameters=_wanted(rule.after))


_CALLS: Final = """
    $after_rule::VARCHAR IN (e.rule, e.rule_id) AND NOT e.superseded AND e.outcome = $after_outcome::VARCHAR
    AND ($after_passed::BOOLEAN IS NULL OR e.passed = $after_passed::BOOLEAN)
    AND ($after_below::DOUBLE IS NULL OR e.score < $after_below::DOUBLE)
    AND ($after_at_least::DOUBLE IS NULL OR e.score >= $after_at_least::DOUBLE)
"""
"""Whether a row `e` of the view `evaluations` says what a rule goes by."""


def _wanted(after: AfterRule) -> Parameters:
    return {
        "after_rule": after.rule,
        "after_outcome": after.outcome,
        "after_passed": after.passed,
        "after_below": after.below,
        "after_at_least": after.at_least,
    }


def _flagged_targets(rule: Rule, ask: Ask, of_trace: Parameters) -> frozenset[str | None] | None:
    """The spans of a trace, and None for the trace, for which a result calls; None where the rule goes by none.

    Results about its session are not looked at.
    """
    if rule.after is None or rule.target == "SESSION":
        return None
    select = f"""
    SELECT DISTINCT e.span_id FROM evaluations AS e
    WHERE e.trace_id = $trace_id AND e.session_id IS NULL AND {_CALLS}
        AND e.tenant = coalesce($tenant::VARCHAR, (SELECT min(tenant) FROM spans WHERE trace_id = $trace_id))
    """  # noqa: S608 - a condition of ours with bound parameters
    found = frozenset(row[0] for row in ask(select, {**of_trace, **_wanted(rule.after)}))
    return found | ({None} if found else frozenset())


def _told(outcome: str, span_id: str | None, flagged: frozenset[str | None] | None) -> str:
    """The decision about a span, or with None about the trace, by what its conditions say and what was flagged."""
    return "unflagged" if outcome == "matched" and flagged is not None and span_id not in flagged else outcome


def _explained(rule: Rule, row: Row, flagged: frozenset[str | None] | None) -> dict[str, Any]:
    failing = failing_clause(rule, row)
    clause = None if failing is None else rule.clauses[failing]
    found = {"value": clause.of.value(row)} if isinstance(clause, Condition) else {}
    outcome = _told(decide(rule, [row]).outcome, str(row["span_id"]) if rule.target == "SPAN" else None, flagged)
    return {
        "spanId": row["span_id"],
        "name": row["name"],
        "decision": outcome,
        "clause": _label(rule, failing),
        **found,
    }


def _label(rule: Rule, clause: int | None) -> str | None:
    return None if clause is None else label(rule.clauses[clause])


def _count(rule: Rule, clause: int | None, sampled: bool, flagged: bool, count: int) -> Count:  # noqa: FBT001 - a row of an answer
    if clause is not None:
        return Count(decision="filtered", why=_label(rule, clause), count=count)
    if flagged:
        return Count(decision="matched", why=None, count=count)
    if sampled:
        return Count(decision="unflagged", why=str(rule.after), count=count)
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
