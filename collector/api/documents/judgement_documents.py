"""Results of rules by span, and jobs, as the HTTP API shows them."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from storage.judging.judgements import TraceResults


def judged_by_span(judged: TraceResults) -> Mapping[str | None, Mapping[str, list[Any]]]:
    """Group `evaluations`, `decisions` and `external_scores` by span id; None is the key of those of the trace."""
    by_span: dict[str | None, dict[str, list[Any]]] = defaultdict(
        lambda: {"evaluations": [], "decisions": [], "external_scores": []}
    )
    for name in ("evaluations", "decisions", "external_scores"):
        for each in getattr(judged, name):
            by_span[each.span_id][name].append(each)
    return by_span


def refusal(state: str | None) -> str:
    """Explain why a job in this state cannot be evaluated again; the state None stands for a job that is unknown."""
    return "there is no such job" if state is None else f"it is {state}; jobs that failed, were left out or wait can be"
