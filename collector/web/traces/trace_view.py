"""Verdicts of rules on a trace and its spans, for pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from storage.judging.judgements import StoredDecision, StoredEvaluation, TraceResults

_NOT_DONE: Final = ("filtered", "sampled_out", "unflagged", "undecided", "over_budget", "rule_disabled", "skipped")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """Verdicts on one span, or on the trace: results, and the reasons for missing ones."""

    evaluations: Sequence[StoredEvaluation]
    not_done: Sequence[tuple[StoredDecision, str]]  # with a sentence
    to_be_done: Sequence[StoredDecision]


def verdicts_of(judged: TraceResults, span_id: str | None) -> Verdicts:
    """Return the verdicts on a span, or with None on the trace; superseded results come last."""
    evaluations = [each for each in judged.evaluations if each.span_id == span_id]
    decisions = [each for each in judged.decisions if each.span_id == span_id]
    scored = {each.rule_id for each in evaluations if each.outcome == "scored" and not each.superseded}
    return Verdicts(
        evaluations=sorted(evaluations, key=lambda each: (each.superseded, each.rule, -each.job_id)),
        not_done=[
            (each, _why(each)) for each in decisions if each.decision in _NOT_DONE and each.rule_id not in scored
        ],
        to_be_done=[each for each in decisions if each.decision in {"waiting", "held", "ready", "claimed"}],
    )


def _why(decision: StoredDecision) -> str:
    """Return why a rule did not judge the span or trace."""
    match decision.decision:
        case "filtered":
            return f"not matched: {decision.clause}" if decision.clause else "not matched"
        case "sampled_out":
            return "sampled out"
        case "unflagged":
            return "not called for by the rule that it runs after"
        case "over_budget":
            return "the budget was used up"
        case "rule_disabled":
            return "the rule was disabled before the evaluation"
        case "undecided":
            return "undecided because of a server error"
        case _:
            return decision.decision
