"""Rows as matching and judging write them, made by the tests: decisions, open jobs, and results."""

import datetime as dt
from collections.abc import Mapping
from typing import Any

import duckdb

from storage.store import Store

NOW = dt.datetime(2026, 11, 21, 10, 0, 0)  # noqa: DTZ001 - the tables hold UTC without saying so

_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "decision": {"outcome": 2, "decided_at": NOW},
    "job": {"tenant": "", "project": "shop", "round": 0, "state": "ready", "attempts": 0, "created_at": NOW},
    "evaluation": {
        "tenant": "",
        "project": "shop",
        "round": 0,
        "name": "Tool Error",
        "outcome": "scored",
        "attempts": 1,
        "created_at": NOW,
    },
    "superseded": {"superseded_at": NOW},
    "trace_open": {
        "tenant": "",
        "first_at": NOW,
        "last_at": NOW,
        "root_ended": False,
        "span_count": 1,
        "last_seq": 0,
    },
    "backfill": {
        "after_seq": -1,
        "until_seq": 5,
        "looked_at": 0,
        "matched": 0,
        "state": "running",
        "created_at": NOW,
        "updated_at": NOW,
    },
    "judge_call": {
        "tenant": "",
        "connection_id": "local",
        "reserved_tokens": 0,
        "reserved_usd": 0.0,
        "started_at": NOW,
    },
}


def put(store: Store, table: str, **columns: object) -> None:
    """Insert one row, with defaults for most columns."""
    row = {**_DEFAULTS[table], **columns}

    def write(cursor: duckdb.DuckDBPyConnection) -> None:
        names, marks = (", ".join(each) for each in (row, (f"${name}" for name in row)))
        cursor.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", row)

    store._writer.store(write, 1)


def seqs(store: Store, trace_id: str) -> list[int]:
    """Return the numbers of a trace's spans, by span id."""
    select = "SELECT seq FROM span WHERE trace_id = $trace_id ORDER BY span_id"
    rows = store.queries.sql(select, {"trace_id": trace_id}, max_rows=100, timeout_s=10).rows
    return [int(str(seq)) for (seq,) in rows]
