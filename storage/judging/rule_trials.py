"""Statements for trying a rule on stored data. They read documented views, with bound parameters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from storage import sql

TrialTarget: TypeAlias = Literal["SPAN", "TRACE", "SESSION"]

_SAME: Final[Mapping[TrialTarget, str]] = {
    "SPAN": "e.trace_id = t.trace_id AND e.span_id = t.span_id",
    "TRACE": "e.trace_id = t.trace_id AND e.session_id IS NULL",
    "SESSION": "e.session_id = t.session_id",
}
"""Conditions that results `e` are about a target `t`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialQuestion:
    """Expressions of a rule, in SQL."""

    target: TrialTarget
    clause: str  # the number of the clause that a span fails first
    sampled: str  # whether a target is sampled
    sums: Mapping[str, str]  # columns of the view `traces` that its conditions read, by the names that these use
    goes_by_results: bool  # of another rule

    def counts(self) -> str:
        """Return the statement that counts targets by decision, of those that started within a window."""
        return self._asking(sql.query("trial_counts"))

    def examples(self) -> str:
        """Return the statement that selects some targets that would be judged."""
        return self._asking(sql.query("trial_examples"))

    def _asking(self, question: str) -> str:
        return (
            sql.query("trial_of_rule")
            .replace("$failing", self.clause)
            .replace("$source", _source(self.sums))
            .replace("$targets", _targets(self.target))
            .replace("$is_sampled", self.sampled)
            .replace("$is_called_for", self._called_for())
            .replace("$question", sql.bare(question))
        )

    def _called_for(self) -> str:
        if not self.goes_by_results:
            return "true"
        results = sql.bare(sql.query("results_that_call"))
        return f"EXISTS (SELECT 1 FROM (\n{results}\n) AS e WHERE e.tenant = t.tenant AND {_SAME[self.target]})"  # noqa: S608 - texts of ours


def spans_of_trace(columns: Sequence[str], sums: Mapping[str, str]) -> str:
    """Return the statement that selects these columns of the spans of one trace."""
    return sql.bare(sql.query("trial_trace")).replace("$columns", ", ".join(columns)).replace("$source", _source(sums))


def spans_called_for() -> str:
    """Return the statement for the spans of one trace, and NULL for it, that results of another rule call for."""
    return sql.bare(sql.query("spans_called_for")).replace("$results", sql.bare(sql.query("results_that_call")))


def _targets(target: TrialTarget) -> str:
    match target:
        case "SPAN":
            return sql.bare(sql.query("trial_spans"))
        case "TRACE":
            return sql.bare(sql.query("trial_traces"))
        case "SESSION":
            return sql.bare(sql.query("trial_sessions"))


def _source(sums: Mapping[str, str]) -> str:
    # Conditions read columns of spans, and of the sums of their traces.
    if not sums:
        return "spans"
    columns = ", ".join(f"t.{column} AS {name}" for name, column in sorted(sums.items()))
    return "(\n" + sql.bare(sql.query("spans_with_sums").replace("$columns", columns)) + "\n)"
