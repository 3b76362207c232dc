"""Results of rules by span, and jobs, as the HTTP API shows them."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from collector.api.answers.judging import JobDocument
from collector.api.base.times import time_text
from storage.judging.judgements import Judged


def judged_by_span(judged: Judged) -> Mapping[str | None, Mapping[str, list[Any]]]:
    """Return `evaluations`, `decisions` and `external_scores` by the id of each span, and None for the trace."""
    by_span: dict[str | None, dict[str, list[Any]]] = defaultdict(
        lambda: {"evaluations": [], "decisions": [], "external_scores": []}
    )
    for name in ("evaluations", "decisions", "external_scores"):
        for each in getattr(judged, name):
            by_span[each.span_id][name].append(each)
    return by_span


def job_document(row: Mapping[str, Any]) -> JobDocument:
    """Return a job, done or to be done."""
    return JobDocument.of(
        row,
        id=row["job_id"],
        not_before=time_text(row["not_before_ns"]),
        created_at=time_text(row["created_ns"]),
        finished_at=time_text(row["finished_ns"]),
    )


def refusal(state: str | None) -> str:
    """Return why a job in this state is not evaluated again; None: there is none."""
    return "there is no such job" if state is None else f"it is {state}; what failed, was left out or waits can be"
