"""How a server stands, as a JSON document."""

from collections.abc import Iterable

from collector.api.base.times import time_text
from collector.api.documents.reading_documents import Document
from collector.api.documents.rule_documents import ProblemOf, no_problem, problem_document
from collector.conditions import Lasting
from collector.live.rules.rule_folder import FileProblem
from collector.live.rules.rules_in_force import KeptRule
from storage.operation.status import Lag, Status


def status_document(
    status: Status,
    rules: Document,
    *,
    server: Document | None,
    now_ns: int,
) -> Document:
    """How it stands at that moment; `server` is what only a running one knows."""
    totals = status.totals
    return {
        "time": time_text(now_ns),
        "server": server,
        "spans": {"stored": totals.stored, "alreadyPresent": totals.already_present, "setAside": totals.set_aside},
        "logs": {"stored": totals.logs_stored, "alreadyPresent": totals.logs_already_present},
        "traces": _lag(status.adding_up, now_ns),
        "olderSpans": status.older_spans,
        "matching": _lag(status.matching, now_ns),
        "rules": rules,
        "jobs": {
            **status.jobs,
            "tried": status.tried_jobs,
            "oldestAt": time_text(status.oldest_job_ns),
            "oldestSeconds": _seconds_since(status.oldest_job_ns, now_ns),
        },
        "openTraces": status.open_traces,
        "deletions": dict(status.deletions),
        "last24h": dict(status.outcomes),
        "spentToday": {
            "calls": status.spent_today.calls,
            "failedCalls": status.spent_today.failed_calls,
            "tokens": status.spent_today.tokens,
            "usd": status.spent_today.usd,
            "unpricedCalls": status.spent_today.unpriced_calls,
        },
    }


def rule_counts_document(
    kept: Iterable[KeptRule],
    problems: Iterable[FileProblem],
    problem_of: ProblemOf = no_problem,
    comparison_of: ProblemOf = no_problem,
) -> Document:
    """Count rules, and list those that judge nothing or compare anew, and what is wrong with files."""
    kept = list(kept)
    enabled = [each.stored.enabled for each in kept]
    return {
        "inForce": enabled.count(True),
        "disabled": enabled.count(False),
        "unable": _noted(kept, problem_of),
        "comparingAnew": _noted(kept, comparison_of),
        "problems": [problem_document(problem) for problem in problems],
    }


def _noted(kept: Iterable[KeptRule], note_of: ProblemOf) -> list[Document]:
    """List the rules in force of which there is a note."""
    return [
        {"id": each.stored.rule_id, "name": each.stored.name, "project": each.stored.project, "message": message}
        for each in kept
        if each.stored.enabled and (message := note_of(each.active)) is not None
    ]


def condition_document(lasting: Lasting) -> Document:
    """Something that holds for now."""
    return {"name": lasting.name, "message": lasting.told, "since": time_text(lasting.since_ns)}


def _lag(lag: Lag, now_ns: int) -> Document:
    return {"spansBehind": lag.spans, "secondsBehind": _seconds_since(lag.since_ns, now_ns) or 0.0}


def _seconds_since(time_ns: int | None, now_ns: int) -> float | None:
    return None if time_ns is None else max(now_ns - time_ns, 0) / 1e9
