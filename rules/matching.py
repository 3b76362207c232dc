"""What becomes of a span, a trace or a session, by a rule: the meaning that SQL is held to."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from rules.fields import Row
from rules.rule import Rule
from rules.sampling import is_sampled


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What becomes of it, and the clause that filtered it."""

    outcome: Literal["matched", "filtered", "sampled_out"]
    clause: int | None = None  # its number in `Rule.clauses`


def failing_clause(rule: Rule, row: Row) -> int | None:
    """The first clause that a span does not meet; None where it meets all."""
    return next((number for number, clause in enumerate(rule.clauses) if not clause.holds(row)), None)


def decide(rule: Rule, rows: Iterable[Row], *, session_id: str | None = None) -> Decision:
    """What becomes of a trace, or a session, with these spans, or of one span alone.

    One span that meets all clauses is enough. Where there is none, the clause that filtered it is the one at
    which the span stopped that came furthest.
    """
    furthest, trace_id = -1, ""
    for row in rows:
        clause, trace_id = failing_clause(rule, row), str(row["trace_id"])
        if clause is None:
            return Decision(
                outcome="matched" if is_sampled(session_id or trace_id, rule.sample_rate) else "sampled_out"
            )
        furthest = max(furthest, clause)
    return Decision(outcome="filtered", clause=furthest)
