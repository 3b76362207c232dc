"""What becomes of a span, a trace or a session, by a rule: the meaning that SQL is held to.

Sampling goes by an id alone, so that all rules look at the same traces.
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
    """What the hash of a trace id must be below, as text. A greater rate has a greater bound.

    `rate` is from 0 to 1.
    """
    below = math.ceil(rate * 16**_DIGITS)
    return _EVERY if below >= 16**_DIGITS else f"{below:0{_DIGITS}x}"


def is_sampled(trace_id: str, rate: float) -> bool:
    """Whether a trace is looked at. One that is in at a rate is in at every greater one."""
    return hashlib.sha256(trace_id.encode()).hexdigest()[:_DIGITS] < bound(rate)


def sampled_sql(trace_id: str, bound_parameter: str) -> str:
    """Whether a trace is looked at, in SQL, of a trace id's expression and the parameter that holds `bound`."""
    return f"left(sha256({trace_id}), {_DIGITS}) < {bound_parameter}::VARCHAR"


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
