"""An outcome's document as the ledger keeps it: texts that can be stored, of bounded length."""

import json
from collections.abc import Mapping
from typing import Any, Final

from storage.judging.job_results import JobResult, OutcomeName
from storage.records import MAX_COUNT

REASON_CHARACTERS: Final = 20_000
METADATA_CHARACTERS: Final = 200_000
"""Guesses at more than a person reads."""

_OUTCOMES: Final[Mapping[str, OutcomeName]] = {"verdict": "scored", "failure": "failed", "skipped": "skipped"}


def result_of(
    job_id: int, document: Mapping[str, Any], *, latency_ms: float | None, judge_model: str | None = None
) -> JobResult:
    """Convert an outcome's document to the result of a job."""
    usage = document["usage"] or {}
    failure = document["failure"] or {}
    model = usage.get("model") or judge_model
    return JobResult(
        job_id=job_id,
        name=storable_text(document["name"]),
        fingerprint=document["fingerprint"],
        outcome=_OUTCOMES[document["outcome"]],
        score=document["score"],
        passed=document["success"],
        threshold=document["threshold"],
        reason=None if document["reason"] is None else storable_text(document["reason"]),
        error_kind=failure.get("kind"),
        metadata=_metadata(document["metadata"]),
        judge_model=None if model is None else storable_text(model),
        judge_calls=usage.get("calls"),
        input_tokens=count_of(usage.get("inputTokens")),
        output_tokens=count_of(usage.get("outputTokens")),
        cost_usd=usage.get("costUsd"),
        latency_ms=latency_ms,
    )


def count_of(number: int | None) -> int | None:
    """Return a count that an endpoint reported, or None if it cannot be one."""
    return number if number is not None and 0 <= number <= MAX_COUNT else None


def storable_text(text: str) -> str:
    """Return the text without lone surrogates, which cannot be stored, and cut to the length of a reason."""
    whole = text.encode("utf-8", "replace").decode() if not text.isascii() else text
    return whole if len(whole) <= REASON_CHARACTERS else f"{whole[:REASON_CHARACTERS]}…"


def _metadata(metadata: Mapping[str, Any]) -> str | None:
    if not metadata:
        return None
    text = json.dumps(metadata)
    return text if len(text) <= METADATA_CHARACTERS else json.dumps({"truncated": True, "characters": len(text)})
