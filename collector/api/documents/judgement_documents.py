"""What the rules made of traces and spans, as the JSON documents that the HTTP API shows."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from collector.api.answers.judging import JobDocument
from collector.api.base.times import time_text
from collector.api.documents.reading_documents import Document
from collector.api.documents.rule_documents import DIGEST_DIGITS
from storage.judging.judgements import ExternalScore, Judged, StoredDecision, StoredEvaluation

Found = TypeVar("Found", StoredEvaluation, StoredDecision, ExternalScore)


def judged_documents(judged: Judged) -> Mapping[str | None, Document]:
    """By the id of each span, and None for the trace: `evaluations`, `decisions` and `externalScores`."""
    told = {
        "evaluations": _by_span(judged.evaluations, evaluation_document),
        "decisions": _by_span(judged.decisions, decision_document),
        "externalScores": _by_span(judged.external_scores, _external_score),
    }
    documents: dict[str | None, Document] = defaultdict(lambda: {key: [] for key in told})
    for key, found in told.items():
        for span_id, listed in found.items():
            documents[span_id] = {**documents[span_id], key: listed}
    return documents


def _by_span(found: Iterable[Found], told: Callable[[Found], Document]) -> dict[str | None, list[Document]]:
    listed: dict[str | None, list[Document]] = defaultdict(list)
    for each in found:
        listed[each.span_id].append(told(each))
    return listed


def _revision(of: StoredEvaluation | StoredDecision) -> Document:
    return {"ruleId": of.rule_id, "rule": of.rule, "revision": of.revision, "digest": of.digest[:DIGEST_DIGITS]}


def evaluation_document(evaluation: StoredEvaluation) -> Document:
    """What came of one evaluation."""
    return {
        "jobId": evaluation.job_id,
        **_revision(evaluation),
        "evaluator": evaluation.evaluator,
        "name": evaluation.name,
        "outcome": evaluation.outcome,
        "score": evaluation.score,
        "passed": evaluation.passed,
        "threshold": evaluation.threshold,
        "reason": evaluation.reason,
        "errorKind": evaluation.error_kind,
        "metadata": None if evaluation.metadata is None else json.loads(evaluation.metadata),
        "fingerprint": evaluation.fingerprint,
        "judgeModel": evaluation.judge_model,
        "judgeCalls": evaluation.judge_calls,
        "inputTokens": evaluation.input_tokens,
        "outputTokens": evaluation.output_tokens,
        "costUsd": evaluation.cost_usd,
        "latencyMs": evaluation.latency_ms,
        "attempts": evaluation.attempts,
        "release": evaluation.release,
        "round": evaluation.round,
        "superseded": evaluation.superseded,
        "createdAt": time_text(evaluation.created_at_ns),
    }


def decision_document(decision: StoredDecision) -> Document:
    """What became of a target by one revision of a rule."""
    return {
        **_revision(decision),
        "decision": decision.decision,
        "clause": decision.clause,
        "decidedAt": time_text(decision.decided_at_ns),
    }


def _external_score(score: ExternalScore) -> Document:
    return {
        "project": score.project,
        "name": score.name,
        "outcome": score.outcome,
        "score": score.score,
        "passed": score.passed,
        "label": score.label,
        "reason": score.reason,
        "errorKind": score.error_kind,
        "metadata": None if score.metadata is None else json.loads(score.metadata),
        "createdAt": time_text(score.created_at_ns),
    }


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
    """Why a job in this state is not evaluated again; None: there is none."""
    return "there is no such job" if state is None else f"it is {state}; what failed, was left out or waits can be"
