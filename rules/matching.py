"""Matching of a span, trace or session by a rule: the reference for the SQL that does the same.

Sampling depends on an id alone, so that all rules sample the same traces.
"""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from rules.fields import Row
from rules.rule import Rule

_DIGITS: Final = 13  # hex digits of the hash, as many bits as a double's fraction, so that a rate is exact
_EVERY: Final = "g"  # above every hex digit


def bound(rate: float) -> str:
    """Return the exclusive upper bound for the hash of a sampled trace id, as hex digits.

    `rate` is from 0 to 1; a greater rate has a greater bound. The bound of rate 1 is "g", above every hash.

    """
    below = math.ceil(rate * 16**_DIGITS)
    return _EVERY if below >= 16**_DIGITS else f"{below:0{_DIGITS}x}"


def is_sampled(trace_id: str, rate: float) -> bool:
    """Return True if a trace is sampled. One that is sampled at a rate is sampled at every greater rate."""
    return hashlib.sha256(trace_id.encode()).hexdigest()[:_DIGITS] < bound(rate)


def sampled_sql(trace_id: str, bound_parameter: str) -> str:
    """Return the SQL condition of `is_sampled`, from a trace id's expression and the parameter that holds `bound`."""
    return f"left(sha256({trace_id}), {_DIGITS}) < {bound_parameter}::VARCHAR"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Result of matching one span, trace or session, with the clause that filtered it."""

    outcome: Literal["matched", "filtered", "sampled_out"]
    clause: int | None = None  # its number in `Rule.clauses`


def failing_clause(rule: Rule, row: Row) -> int | None:
    """Return the number of the first clause that a span does not meet; None if it meets all."""
    return next((number for number, clause in enumerate(rule.clauses) if not clause.holds(row)), None)


def decide(rule: Rule, rows: Iterable[Row], *, session_id: str | None = None) -> Decision:
    """Match a rule with the spans of a trace or session, or with one span.

    One span that meets all clauses is enough. If none does, `clause` is the furthest clause that any span reached.

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
