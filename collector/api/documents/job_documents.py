"""Jobs as the JSON documents that the HTTP API and `--json` show."""

from collections.abc import Mapping
from typing import Any

from collector.api.base.times import time_text


def job_document(row: Mapping[str, Any]) -> dict[str, object]:
    """A job, done or to be done."""
    return {
        "id": row["job_id"],
        "state": row["state"],
        "tenant": row["tenant"],
        "project": row["project"],
        "rule": row["rule"],
        "ruleId": row["rule_id"],
        "ruleRevision": row["rule_revision"],
        "evaluator": row["evaluator"],
        "traceId": row["trace_id"],
        "spanId": row["span_id"],
        "sessionId": row["session_id"],
        "release": row["release"],
        "round": row["round"],
        "attempts": row["attempts"],
        "notBefore": time_text(row["not_before_ns"]),
        "errorKind": row["error_kind"],
        "error": row["error"],
        "createdAt": time_text(row["created_ns"]),
        "finishedAt": time_text(row["finished_ns"]),
    }


def refusal(state: str | None) -> str:
    """Why a job in this state is not evaluated again; None: there is none."""
    return "there is no such job" if state is None else f"it is {state}; what failed, was left out or waits can be"
