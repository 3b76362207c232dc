"""What came of an evaluation, as the ledger keeps it: texts that can be stored, of bounded length."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from collector.live.active import ActiveRule
from evaluators.outcome import Usage
from storage.judging.jobs import Job, JobResult, OutcomeName

REASON_CHARACTERS: Final = 20_000
METADATA_CHARACTERS: Final = 200_000
"""Guesses at more than anybody reads."""

_MOST: Final = 2**63 - 1

_OUTCOMES: Final[Mapping[str, OutcomeName]] = {"verdict": "scored", "failure": "failed", "skipped": "skipped"}


def result_of(
    job: Job, document: Mapping[str, Any], *, latency_ms: float | None, judge_model: str | None = None
) -> JobResult:
    """An outcome's document as what came of the job."""
    usage = document["usage"] or {}
    failure = document["failure"] or {}
    return JobResult(
        job_id=job.job_id,
        name=_text(document["name"]),
        fingerprint=document["fingerprint"],
        outcome=_OUTCOMES[document["outcome"]],
        score=document["score"],
        passed=document["success"],
        threshold=document["threshold"],
        reason=None if document["reason"] is None else _text(document["reason"]),
        error_kind=failure.get("kind"),
        metadata=_metadata(document["metadata"]),
        judge_model=_model(usage.get("model") or judge_model),
        judge_calls=usage.get("calls"),
        input_tokens=count_of(usage.get("inputTokens")),
        output_tokens=count_of(usage.get("outputTokens")),
        cost_usd=usage.get("costUsd"),
        latency_ms=latency_ms,
    )


def failed(job: Job, active: ActiveRule | None, kind: str, message: str) -> JobResult:
    """A job whose evaluator did not come to speak."""
    return _without_score(job, active, "failed", kind, message)


def skipped(job: Job, active: ActiveRule | None, kind: str, message: str, usage: Usage | None = None) -> JobResult:
    """A job that is not done, and will not be, with what it took so far."""
    result = _without_score(job, active, "skipped", kind, message)
    if usage is None:
        return result
    return replace(
        result,
        judge_calls=usage.calls,
        input_tokens=count_of(usage.input_tokens),
        output_tokens=count_of(usage.output_tokens),
        cost_usd=usage.cost_usd,
    )


def _without_score(job: Job, active: ActiveRule | None, outcome: OutcomeName, kind: str, message: str) -> JobResult:
    name = "" if active is None else active.rule.configuration.get("name") or active.rule.evaluator
    return JobResult(job_id=job.job_id, name=_text(str(name)), outcome=outcome, error_kind=kind, reason=_text(message))


def _metadata(metadata: Mapping[str, Any]) -> str | None:
    if not metadata:
        return None
    text = json.dumps(metadata)
    return text if len(text) <= METADATA_CHARACTERS else json.dumps({"truncated": True, "characters": len(text)})


def _model(name: str | None) -> str | None:
    return None if name is None else _text(name)


def count_of(number: int | None) -> int | None:
    """What an endpoint says it counted, if it can be a count."""
    return number if number is not None and 0 <= number <= _MOST else None


def _text(text: str) -> str:
    """The text without halves of surrogate pairs, which cannot be stored, and not longer than anybody reads."""
    whole = text.encode("utf-8", "replace").decode() if not text.isascii() else text
    return whole if len(whole) <= REASON_CHARACTERS else f"{whole[:REASON_CHARACTERS]}…"
