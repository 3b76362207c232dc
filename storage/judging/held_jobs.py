"""Jobs that are held until another rule's result says whether they are evaluated."""

from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from storage import sql

_KEYS: Final = ["tenant", "target", "span_id", "revision"]
_NOTHING: Final = pa.table({"seq": pa.array([], pa.int64())})


def tell_held(cursor: duckdb.DuckDBPyConnection, changed: pa.Table, *, first: int, last: int, now_us: int) -> None:
    """Release those that a result calls for, and drop those for which none will: where something changed.

    `changed` has `tenant` and `target`, a trace or a session; `span_id` where it is about that span alone; and
    `revision` where a result or a job of it is what changed. This is called in whatever transaction stores results,
    or decides what is evaluated, so that each job is released or dropped once, and none is left that nobody looks at
    again. Results are looked at that end with spans between two numbers.
    """
    if not changed.num_rows or not _is_any_held(cursor):
        return
    while changed.num_rows:  # what goes by a job that is dropped is looked at in turn; there are no circles
        cursor.register("changed_targets", changed.select(_KEYS))
        told = cursor.execute(sql.query("held_jobs"), {"first": first, "last": last}).to_arrow_table()
        if not told.num_rows:
            return
        cursor.register("told_jobs", told)
        cursor.execute(sql.query("release_held_jobs"), {"now_us": now_us})
        cursor.execute(sql.query("drop_held_jobs"))
        changed = told.filter(pc.invert(told["is_called"])).select(_KEYS)


def tell_held_by_results(cursor: duckdb.DuckDBPyConnection, stored: pa.Table, *, now_us: int) -> None:
    """Tell jobs that wait for the results that were just stored; `stored` is what `finished` returned before."""
    if stored.num_rows:
        numbers = pc.min_max(stored["seq"])
        tell_held(cursor, stored, first=numbers["min"].as_py(), last=numbers["max"].as_py(), now_us=now_us)


def finished(cursor: duckdb.DuckDBPyConnection) -> pa.Table:
    """What results that come in are about, while their jobs are there; nothing where no job is held."""
    if not _is_any_held(cursor):
        return _NOTHING
    return cursor.execute(sql.query("targets_of_results")).to_arrow_table()


def _is_any_held(cursor: duckdb.DuckDBPyConnection) -> bool:
    return bool(cursor.execute(sql.query("is_any_held")).fetchall()[0][0])


def targets_of_jobs(jobs: pa.Table) -> pa.Table:
    """The traces, or sessions, that jobs to be stored are about: of a session, `trace_id` is its id."""
    return targets_of(jobs["tenant"], jobs["trace_id"], jobs["span_id"])


def targets_of(tenants: pa.ChunkedArray, targets: pa.ChunkedArray, spans: pa.ChunkedArray | None = None) -> pa.Table:
    """Traces or sessions, or spans of them, about which was decided."""
    return pa.table(
        {
            "tenant": tenants,
            "target": targets,
            "span_id": pa.nulls(len(targets), pa.string()) if spans is None else spans,
            "revision": pa.nulls(len(targets), pa.int32()),
        }
    )
