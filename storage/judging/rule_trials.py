"""SQL statements that try a rule on stored data; they read the documented views, and have bound parameters."""

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
"""SQL conditions under which a result `e` is about a target `t`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialQuestion:
    """Expressions of a rule, in SQL."""

    target: TrialTarget
    clause: str  # the number of the clause that a span fails first
    sampled: str  # condition of sampling
    sums: Mapping[str, str]  # columns of the view `traces` that the conditions read, by their names in the conditions
    goes_by_results: bool  # True if results of another rule select the targets

    def counts(self) -> str:
        """Return the statement that counts by decision the targets that started within a window."""
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


def spans_to_decide(columns: Sequence[str], sums: Mapping[str, str]) -> str:
    """Return the statement that selects these columns, and the start in nanoseconds, of the spans of wanted traces."""
    select = sql.query("spans_to_decide")
    return select.replace("$columns", ", ".join(columns)).replace("$source", _source(sums))


def spans_called_for() -> str:
    """Return the statement for the spans of one trace that results of another rule select; NULL is the trace itself."""
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
