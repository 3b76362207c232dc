"""Trial of a rule: the stored spans, traces or sessions that it would match, and their cost."""

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
from storage.judging.rule_trials import TrialQuestion, spans_called_for, spans_of_trace

Parameters: TypeAlias = Mapping[str, str | float | bool | None]
Ask: TypeAlias = Callable[[str, Parameters], Sequence[Sequence[Any]]]
"""Function that runs a SELECT with its parameters on the store, and returns the rows."""

_DAY_S: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """A number of targets with the same decision."""

    decision: str
    why: str | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetExample:
    """A span, trace or session that would be judged. The fields from `name` on are displayed, and do not affect it."""

    tenant: str
    project: str | None
    seq: int  # of the span, or of the last span of the trace or session
    trace_id: str  # for a session, its latest trace
    span_id: str | None  # None for a trace or a session
    session_id: str | None = None  # None for a span or a trace
    name: str = ""
    service: str = ""
    start_ns: int = 0
    settles_at_ns: int | None = None  # None for a span, which is judged on arrival
    settled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTrial:
    """Matches of a rule in a window of time, and their cost."""

    rule: Rule
    judge: Need
    window_s: float
    counts: tuple[Count, ...]
    examples: tuple[TargetExample, ...]

    @property
    def looked_at(self) -> int:
        """Return the number of spans, traces or sessions that the rule was tested on."""
        return sum(count.count for count in self.counts)

    @property
    def evaluations(self) -> int:
        """Return the number of targets that the rule would judge."""
        return sum(count.count for count in self.counts if count.decision == "matched")

    @property
    def evaluations_per_day(self) -> float:
        """Return the number of targets that the rule would judge per day, extrapolated from the window."""
        return self.evaluations * _DAY_S / self.window_s


def try_rule(
    rule: Rule, judge: Need, window_s: float, ask: Ask, *, settling: Settling, tenant: str | None = None
) -> RuleTrial:
    """Match a rule against the spans that started within the window, up to now.

    With a tenant, against its spans only.
    """
    compiled = predicate(rule.clauses)
    question = TrialQuestion(
        target=rule.target,
        clause=compiled.sql,
        sampled=sampled_sql("coalesce(session_id, trace_id)", "$sampled_below"),
        sums=sums_read_by(rule),
        goes_by_results=rule.after is not None,
    )
    bounds: Parameters = {"window_s": window_s, "sampled_below": bound(rule.sample_rate), "tenant": tenant}
    parameters: Parameters = {**compiled.parameters, **bounds, **(_after_parameters(rule.after) if rule.after else {})}
    return RuleTrial(
        rule=rule,
        judge=judge,
        window_s=window_s,
        counts=tuple(_count(rule, *row) for row in ask(question.counts(), parameters)),
        examples=tuple(_example(rule, settling, row) for row in ask(question.examples(), parameters)),
    )


def explain_trace(rule: Rule, trace_id: str, ask: Ask, *, tenant: str | None = None) -> dict[str, Any] | None:
    """Explain the decisions on one trace and each of its spans, as JSON; None if no span of it is stored.

    With `tenant`, only a trace of this tenant counts. Without it, the trace without a tenant counts, else that of the
    first tenant that has a trace with this id.
    """
    read_columns = (column for field in fields_of(rule.clauses) for column in field.columns)
    columns = sorted({"trace_id", "span_id", "name", *read_columns})
    select = spans_of_trace(columns, sums_read_by(rule))
    rows: list[Row] = [
        dict(zip(columns, row, strict=True)) for row in ask(select, {"trace_id": trace_id, "tenant": tenant})
    ]
    if not rows:
        return None
    decision = decide(rule, rows)
    flagged = _flagged_targets(rule, ask, {"trace_id": trace_id, "tenant": tenant})
    spans = [_explained(rule, row, flagged) for row in rows]
    whole = {"decision": _decision(decision.outcome, None, flagged), "clause": _label(rule, decision.clause)}
    return {"traceId": trace_id, **(whole if rule.target == "TRACE" else {}), "spans": spans}


def sums_read_by(rule: Rule) -> dict[str, str]:
    """Return columns of the view `traces` that the conditions of a rule read, by the names that these use."""
    columns = {field.column: name.removeprefix("trace.") for name, field in TOTALS.items()}
    read_columns = {field.column for field in fields_of(rule.clauses)}
    return {name: column for name, column in columns.items() if name in read_columns}


def _after_parameters(after: AfterRule) -> Parameters:
    return {
        "after_rule": after.rule,
        "after_outcome": after.outcome,
        "after_passed": after.passed,
        "after_below": after.below,
        "after_at_least": after.at_least,
    }


def _flagged_targets(rule: Rule, ask: Ask, of_trace: Parameters) -> frozenset[str | None] | None:
    if rule.after is None or rule.target == "SESSION":
        return None
    spans = frozenset(row[0] for row in ask(spans_called_for(), {**of_trace, **_after_parameters(rule.after)}))
    return spans | ({None} if spans else frozenset())


def _decision(outcome: str, span_id: str | None, flagged: frozenset[str | None] | None) -> str:
    return "unflagged" if outcome == "matched" and flagged is not None and span_id not in flagged else outcome


def _explained(rule: Rule, row: Row, flagged: frozenset[str | None] | None) -> dict[str, Any]:
    failing = failing_clause(rule, row)
    clause = None if failing is None else rule.clauses[failing]
    seen = {"value": clause.of.value(row)} if isinstance(clause, Condition) else {}
    outcome = _decision(decide(rule, [row]).outcome, str(row["span_id"]) if rule.target == "SPAN" else None, flagged)
    return {
        "spanId": row["span_id"],
        "name": row["name"],
        "decision": outcome,
        "clause": _label(rule, failing),
        **seen,
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


def _example(rule: Rule, settling: Settling, row: Sequence[Any]) -> TargetExample:
    trace_id, span_id, name, service, start_ns, root_ended, first_ns, last_ns, now_ns, tenant, seq, project, of = row
    arrivals = Arrivals(root_ended=root_ended, first_ns=first_ns, last_ns=last_ns)
    settles_ns = settles_at_ns(arrivals, settling) if rule.target == "TRACE" else None
    if rule.target == "SESSION":
        settles_ns = last_ns + round((settling.session_s if rule.settle_s is None else rule.settle_s) * 1e9)
    return TargetExample(
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
