"""Jobs that are held until another rule's result decides whether they run."""

from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from storage import sql
from storage.engine.arrow import arrow_table

_KEYS: Final = ["tenant", "target", "span_id", "revision"]
_NOTHING: Final = pa.table({"seq": pa.array([], pa.int64())})


def tell_held(cursor: duckdb.DuckDBPyConnection, changed: pa.Table, *, first: int, last: int, now_us: int) -> None:
    """Release held jobs whose condition is met, and drop those whose condition can no longer be met.

    Only jobs about the targets in `changed` are checked. Its columns are `tenant` and `target` (a trace or a session),
    `span_id` if only that span is meant, and `revision` if a result or job of that revision changed. Call this in the
    transaction that stores results or decisions, so that each job is released or dropped once and none is missed. Only
    results whose last span has a number from `first` to `last` are read.

    """
    if not changed.num_rows or not _is_any_held(cursor):
        return
    while changed.num_rows:  # jobs that depend on a dropped job are checked next; cycles do not exist
        cursor.register("changed_targets", changed.select(_KEYS))
        decided = arrow_table(cursor, sql.query("held_jobs"), {"first": first, "last": last})
        if not decided.num_rows:
            return
        cursor.register("told_jobs", decided)
        cursor.execute(sql.query("release_held_jobs"), {"now_us": now_us})
        cursor.execute(sql.query("drop_held_jobs"))
        changed = decided.filter(pc.invert(decided["is_called"])).select(_KEYS)


def tell_held_by_results(cursor: duckdb.DuckDBPyConnection, stored: pa.Table, *, now_us: int) -> None:
    """Release or drop jobs that are held for results just stored; `stored` is the return value of `finished`."""
    if stored.num_rows:
        numbers = pc.min_max(stored["seq"])
        tell_held(cursor, stored, first=numbers["min"].as_py(), last=numbers["max"].as_py(), now_us=now_us)


def finished(cursor: duckdb.DuckDBPyConnection) -> pa.Table:
    """Return the targets of the registered `incoming_results` whose jobs exist; an empty table if no job is held."""
    if not _is_any_held(cursor):
        return _NOTHING
    return arrow_table(cursor, sql.query("targets_of_results"))


def _is_any_held(cursor: duckdb.DuckDBPyConnection) -> bool:
    return bool(cursor.execute(sql.query("is_any_held")).fetchall()[0][0])


def targets_of_jobs(jobs: pa.Table) -> pa.Table:
    """Return the targets of jobs to be stored. The `trace_id` of a job about a session is the session's id."""
    return targets_of(jobs["tenant"], jobs["trace_id"], jobs["span_id"])


def targets_of(tenants: pa.ChunkedArray, targets: pa.ChunkedArray, spans: pa.ChunkedArray | None = None) -> pa.Table:
    """Return the traces or sessions, or spans of them, of decisions."""
    return pa.table(
        {
            "tenant": tenants,
            "target": targets,
            "span_id": pa.nulls(len(targets), pa.string()) if spans is None else spans,
            "revision": pa.nulls(len(targets), pa.int32()),
        }
    )
