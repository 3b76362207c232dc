"""Connections as the API's JSON, which never holds a key."""

import datetime as dt
from collections.abc import Iterable
from typing import Any

from collector.api.responses.judging import SpendingDocument
from collector.live.budgets.budgets import SpentToday
from collector.live.judges.llm_connection import LlmConnection


def connection_document(
    connection: LlmConnection, spent: Iterable[SpentToday], problem: str | None = None
) -> dict[str, Any]:
    """Return a connection with its spending of today, and the reason why it gives no verdicts."""
    row, text = connection.row, connection.text
    return {
        "id": row.connection_id,
        "tenant": row.tenant,
        "origin": row.origin,
        **text.model_dump(mode="json", by_alias=True, exclude={"api_key"}),
        "credential": connection.credential,
        "spentToday": _spent(connection, spent),
        "problem": problem,
        "version": row.version,
        "createdAt": _time(row.created_at),
        "updatedAt": _time(row.updated_at),
    }


def _spent(connection: LlmConnection, spent: Iterable[SpentToday]) -> SpendingDocument:
    key = ("connection", "", connection.connection_id)
    return next(
        (SpendingDocument.of(each) for each in spent if (each.kind, each.tenant, each.identity) == key),
        SpendingDocument(usd=0.0),
    )


def _time(moment: dt.datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z"
