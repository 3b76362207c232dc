"""Connections as the API's JSON. A key is no part of what this module is given."""

import datetime as dt
from collections.abc import Iterable
from typing import Any

from collector.live.budgets.budgets import SpentToday
from collector.live.judges.llm_connection import LlmConnection


def connection_document(
    found: LlmConnection, spent: Iterable[SpentToday], problem: str | None = None
) -> dict[str, Any]:
    """Return a connection with its spending of today, and the reason why it gives no verdicts."""
    row, text = found.row, found.text
    return {
        "id": row.connection_id,
        "tenant": row.tenant,
        "origin": row.origin,
        **text.model_dump(mode="json", by_alias=True, exclude={"api_key"}),
        "credential": found.credential,
        "spentToday": _spent(found, spent),
        "problem": problem,
        "version": row.version,
        "createdAt": _time(row.created_at),
        "updatedAt": _time(row.updated_at),
    }


def _spent(found: LlmConnection, spent: Iterable[SpentToday]) -> dict[str, Any]:
    key = ("connection", "", found.connection_id)
    for each in spent:
        if (each.kind, each.tenant, each.identity) == key:
            return {
                "calls": each.calls,
                "failedCalls": each.failed_calls,
                "tokens": each.tokens,
                "usd": each.usd,
                "unpricedCalls": each.unpriced_calls,
            }
    return {"calls": 0, "failedCalls": 0, "tokens": 0, "usd": 0.0, "unpricedCalls": 0}


def _time(moment: dt.datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z"
