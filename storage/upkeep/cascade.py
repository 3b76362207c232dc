"""Rows of a trace in every table, found and deleted with it.

Each table with rows about spans or traces is in `_of_spans` or `_of_traces`, with the statement that finds its rows;
rows of `trace_part` are found in `erase`. Rows are deleted by row id ("place"), which also tells
`storage.upkeep.compaction` which row groups have deleted rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from storage import sql
from storage.engine.arrow import arrow_table
from storage.ingest.batch import TOOL_CALLS
from storage.ingest.open_calls import complete_calls, open_calls

MOST_ROWS: Final = 65_536
"""Maximum number of rows that one transaction deletes from a table in which one trace may have any number of rows. A
guess: that is half a megabyte of DuckDB's log."""

STEP_SPANS, STEP_PARTS = 16_384, 16_384
"""Limits of one transaction in spans and trace parts: two row groups of spans. Deleting four row groups, with three
decisions a span, took 50 ms at the median and 164 at most on an idle machine, 300 and 564 on a busy one. A commit of
one row group of spans takes 110 ms on an idle machine."""

_REACH_SPANS, _REACH_COMMITS = 32_768, 4_096
"""One transaction covers at most this many spans and commits, even if few of the spans have expired: each row group
from which it deletes a row has holes, which cost memory."""

_MOVED: Final = frozenset({"tool_call", "trace_reading"})

FOR_EVER_US: Final = 4_102_444_800_000_000  # the year 2100

Places: TypeAlias = Mapping[str, NDArray[np.int64]]
"""Row ids by table. DuckDB changes the id of a row when it drops a row group before it."""


class TraceName(NamedTuple):
    """Key of a trace, with its number."""

    tenant: str
    trace_id: str
    trace_key: int


class TraceToDelete(NamedTuple):
    """A trace to delete, with the bounds for finding its rows."""

    tenant: str
    trace_id: str
    trace_key: int
    first_batch: int
    last_batch: int
    first_start_ns: int
    end_ns: int  # not the last start: a tool call that a response requests has the time at which the span ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Result of one transaction of a deletion. If `more` is True, rows are left for another one: repeat the call."""

    spans: int
    places: Places
    spans_of: Mapping[str, int] = field(default_factory=dict)  # number of deleted spans by trace id
    more: bool = False


def _of_spans() -> dict[str, str]:
    by_seq = sql.query("places_by_seq")
    named = {table: by_seq.replace("$table", table) for table in ("span", "decision", "evaluation", "job")}
    return named | {"superseded": sql.query("places_of_superseded")}


def _of_traces() -> dict[str, str]:
    """Return by table the statements that find rows by trace ids."""
    by_time, by_trace = sql.query("places_by_time"), sql.query("places_by_trace")
    about = ("annotation", "counted_score", "review_entry", "review_turn")
    named = ("log_record", "trace_open", "session_open", "trace_pin", *about)
    return {table: by_time.replace("$table", table) for table in ("tool_call", "trace_reading")} | {
        table: by_trace.replace("$table", table) for table in named
    }


TABLES: Final = (*_of_spans(), "trace_part", *_of_traces())
"""All tables that have rows about traces."""


def leaving_among(
    cursor: duckdb.DuckDBPyConnection, keys: Sequence[TraceName], *, cutoff_us: int = FOR_EVER_US, in_any_case: bool
) -> list[TraceToDelete]:
    """Return the traces to delete among `keys`: unpinned ones whose parts have all expired; all if `in_any_case`."""
    if not keys:
        return []
    cursor.register("wanted_traces", _table(keys))
    parameters = {"cutoff_us": cutoff_us, "in_any_case": in_any_case}
    return [TraceToDelete(*row) for row in cursor.execute(sql.query("leaving_traces"), parameters).fetchall()]


def erase(
    cursor: duckdb.DuckDBPyConnection,
    leaving: Sequence[TraceToDelete],
    first_batch: int,
    last_batch: int,
    *,
    whole: bool,
) -> Left:
    """Delete those rows of the traces that commits from `first_batch` to `last_batch` stored.

    With `whole`, rows about a whole trace are deleted, too. If they are too many for one transaction, only some of them
    are deleted, and nothing else.
    """
    if not leaving:
        return Left(spans=0, places={})
    cursor.register("leaving_traces", _table(leaving))
    of_traces = _places_of_traces(cursor, leaving) if whole else {}
    calls = _calls_of(cursor, leaving) if whole else TOOL_CALLS.empty_table()
    too_many = {table: places[:MOST_ROWS] for table, places in of_traces.items() if len(places) > MOST_ROWS}
    if too_many:
        _delete(cursor, too_many)
        complete_calls(cursor, calls)
        return Left(spans=0, places=too_many, more=True)
    batches = {"first_batch": first_batch, "last_batch": last_batch}
    seqs = arrow_table(cursor, sql.query("leaving_spans"), batches)
    of_spans = _places_of_spans(cursor, seqs) if seqs.num_rows else {}
    parts = _found(cursor, sql.query("places_of_parts"), batches)
    places = {**of_spans, "trace_part": parts, **of_traces}
    _delete(cursor, places)
    complete_calls(cursor, calls)
    counts = pc.value_counts(seqs.column("trace_id")).to_pylist()
    spans_of = {each["values"]: each["counts"] for each in counts}
    return Left(spans=int(seqs.num_rows), places=places, spans_of=spans_of)


def move(cursor: duckdb.DuckDBPyConnection, leaving: Sequence[TraceToDelete], first_batch: int) -> Left:
    """Delete all rows of traces that the lake has as well, in one transaction, so that no trace is split."""
    if not leaving:
        return Left(spans=0, places={})
    cursor.register("leaving_traces", _table(leaving))
    batches = {"first_batch": min(each.first_batch for each in leaving), "last_batch": first_batch - 1}
    seqs = arrow_table(cursor, sql.query("leaving_spans"), batches)
    of_spans = _places_of_spans(cursor, seqs) if seqs.num_rows else {}
    of_traces = {table: places for table, places in _places_of_traces(cursor, leaving).items() if table in _MOVED}
    parts = _found(cursor, sql.query("places_of_parts"), batches)
    logs = _found(cursor, sql.query("places_of_logs"), {"first_batch": first_batch})
    places = {**of_spans, "trace_part": parts, **of_traces, "log_record": logs}
    _delete(cursor, places)
    return Left(spans=int(seqs.num_rows), places=places)


def move_rest(cursor: duckdb.DuckDBPyConnection, commits: Mapping[str, int], results: Mapping[str, int]) -> Left:
    """Delete published rows that were stored after their trace had moved; `spans` of the result counts all of them."""
    logs = _found(cursor, sql.query("places_of_lone_logs"), commits)
    seqs = arrow_table(cursor, sql.query("lone_results"), results)
    places = {"log_record": logs, **(_places_of_spans(cursor, seqs) if seqs.num_rows else {})}
    _delete(cursor, places)
    return Left(spans=sum(map(len, places.values())), places=places)


def erase_about(cursor: duckdb.DuckDBPyConnection, moved: pa.Table) -> Left:
    """Delete rows that never move to the lake, such as annotations, of traces that are only in the lake."""
    cursor.register("lake_leaving", moved)
    cursor.register("leaving_traces", arrow_table(cursor, sql.query("traces_of_lake_alone"), {}))
    every = {table: _found(cursor, each, {}) for table, each in _of_traces().items() if table not in _MOVED}
    places = {table: rows[:MOST_ROWS] for table, rows in every.items()}
    _delete(cursor, places)
    return Left(spans=0, places=places, more=any(len(rows) > MOST_ROWS for rows in every.values()))


def erase_results(cursor: duckdb.DuckDBPyConnection, spans: pa.Table) -> Left:
    """Delete jobs, decisions and results about these spans of the lake, which have no rows here."""
    places = _places_of_spans(cursor, spans)
    _delete(cursor, places)
    return Left(spans=0, places=places)


def remove_from_lake(
    cursor: duckdb.DuckDBPyConnection, leaving: Sequence[TraceToDelete], *, is_requested: bool
) -> None:
    """Note traces for removal from the lake: those that readers would find there now, or all if `is_requested`."""
    columns = ("tenant", "trace_id", "first_batch", "last_batch")
    rows = {column: [getattr(each, column) for each in leaving] for column in columns}
    cursor.register("lake_leaving", pa.table(rows))
    cursor.execute(sql.query("put_lake_removals"), {"all": is_requested})


def staying_among(
    cursor: duckdb.DuckDBPyConnection, leaving: Sequence[TraceToDelete], published: Mapping[str, int]
) -> set[tuple[str, str]]:
    """Return the traces that must not move now: pinned, still open or waiting for a job, or with unpublished rows."""
    cursor.register("leaving_traces", _table(leaving))
    return set(cursor.execute(sql.query("traces_that_stay"), published).fetchall())


def next_window(
    cursor: duckdb.DuckDBPyConnection, statement: str, parameters: Mapping[str, int]
) -> tuple[int | None, list[TraceName]]:
    """Return the last of the next commits that fit into one transaction, and the traces of all their parts."""
    rows = cursor.execute(statement, {**parameters, "parts": STEP_PARTS}).fetchall()
    if not rows:
        return None, []
    if len(rows) == STEP_PARTS and rows[0][-1] != rows[-1][-1]:
        rows = [row for row in rows if row[-1] != rows[-1][-1]]  # the last commit may have more parts
    keys: dict[TraceName, None] = {}
    spans, until = 0, rows[0][-1]
    furthest = _furthest(cursor, rows[0][-1], rows[-1][-1])
    for tenant, trace_id, trace_key, span_count, batch in rows:
        if batch != until and (spans >= STEP_SPANS or batch > furthest):
            break
        keys[TraceName(tenant, trace_id, trace_key)] = None
        spans, until = spans + span_count, batch
    return until, list(keys)


def _furthest(cursor: duckdb.DuckDBPyConnection, first: int, last: int) -> int:
    """Return the last commit of a range that one transaction may cover."""
    bounds = {"first_batch": first, "last_batch": last, "commits": _REACH_COMMITS}
    spans, furthest = 0, first
    for batch, more, _ in cursor.execute(sql.query("sizes_of_commits"), bounds).fetchall():
        spans += more
        if spans > _REACH_SPANS:
            break
        furthest = batch
    return max(first, furthest)


def _calls_of(cursor: duckdb.DuckDBPyConnection, leaving: Sequence[TraceToDelete]) -> pa.Table:
    cursor.register("wanted_traces", _table(leaving))
    return open_calls(cursor, from_ns=min(each.first_start_ns for each in leaving))


def _places_of_spans(cursor: duckdb.DuckDBPyConnection, seqs: pa.Table) -> Places:
    """Add the evaluations of these spans to the daily sums, which stay, and return the row ids of all their rows."""
    cursor.register("leaving_spans", seqs)
    bounds = pc.min_max(seqs.column("seq")).as_py()
    numbers = {"first_seq": bounds["min"], "last_seq": bounds["max"]}
    cursor.execute(sql.query("sum_evaluations").replace("$by_day", sql.select_of("evaluation_by_day")), numbers)
    return {table: _found(cursor, statement, numbers) for table, statement in _of_spans().items()}


def _places_of_traces(cursor: duckdb.DuckDBPyConnection, leaving: Iterable[TraceToDelete]) -> Places:
    started = {
        "from_ns": min(each.first_start_ns for each in leaving),
        "to_ns": max(each.end_ns for each in leaving),
    }
    return {
        table: _found(cursor, statement, started if "$from_ns" in statement else {})
        for table, statement in _of_traces().items()
    }


def _found(cursor: duckdb.DuckDBPyConnection, statement: str, parameters: Mapping[str, int]) -> NDArray[np.int64]:
    places = arrow_table(cursor, statement, parameters).column("place")
    return np.asarray(places.to_numpy(), dtype=np.int64)


def _delete(cursor: duckdb.DuckDBPyConnection, places: Places) -> None:
    statement = sql.query("delete_places")
    for table, rows in places.items():
        if len(rows):
            cursor.register("leaving_places", pa.table({"place": rows}))
            bounds = {"first": int(rows.min()), "last": int(rows.max())}
            cursor.execute(statement.replace("$table", table), bounds)


def _table(keys: Sequence[TraceName] | Sequence[TraceToDelete]) -> pa.Table:
    return pa.table(
        {
            "tenant": pa.array([key.tenant for key in keys], pa.string()),
            "trace_id": pa.array([key.trace_id for key in keys], pa.string()),
            "trace_key": pa.array([key.trace_key for key in keys], pa.uint64()),
        }
    )
