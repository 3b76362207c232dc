"""What a rule would do, as JSON."""

from collector.api.base.times import time_text
from collector.api.documents.reading_documents import Document
from collector.evaluation.rule_trial import Example, RuleTrial


def trial_document(trial: RuleTrial) -> Document:
    """How many targets which decision is made of, what that costs, and examples of what would be judged."""
    budget = trial.rule.budget
    return {
        "rule": trial.rule.document(),
        "revision": trial.rule.revision,
        "windowSeconds": trial.window_s,
        "lookedAt": trial.looked_at,
        "decisions": [{"decision": count.decision, "why": count.why, "count": count.count} for count in trial.counts],
        "cost": {
            "evaluations": trial.evaluations,
            "evaluationsPerDay": trial.evaluations_per_day,
            "judge": trial.judge,
            "judgeCallsAtLeast": trial.evaluations if trial.judge == "always" else 0,
            "budget": None if budget is None else budget.document(),
        },
        "examples": [_example_document(example) for example in trial.examples],
    }


def _example_document(example: Example) -> Document:
    return {
        "traceId": example.trace_id,
        "spanId": example.span_id,
        "sessionId": example.session_id,
        "name": example.name,
        "serviceName": example.service,
        "startTime": time_text(example.start_ns),
        "settlesAt": time_text(example.settles_at_ns),
        "settled": example.settled,
    }
