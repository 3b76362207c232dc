"""Rows of a trace in every table, found and deleted with it.

A table with rows about spans or traces has its line in `_of_spans` or `_of_traces`: how these rows are found. They are
deleted by their places, which also tell how many row groups have holes then (`storage.upkeep.rewriting`).
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
"""Rows that one transaction deletes from a table in which one trace may have any number. A guess: that is half a
megabyte of DuckDB's log."""

FOR_EVER_US: Final = 4_102_444_800_000_000  # the year 2100

Places: TypeAlias = Mapping[str, NDArray[np.int64]]
"""Rows of tables, by the number that DuckDB gives them; it changes when row groups before them are dropped."""


class TraceName(NamedTuple):
    """Key of a trace, with its number."""

    tenant: str
    trace_id: str
    trace_key: int


class Leaving(NamedTuple):
    """A trace to delete, with the bounds for finding its rows."""

    tenant: str
    trace_id: str
    trace_key: int
    first_batch: int
    last_batch: int
    first_start_ns: int
    end_ns: int  # a call that an answer requested is of the moment at which its span ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Result of one transaction of a deletion. With `more`, it was too large: run it again."""

    spans: int
    places: Places
    spans_of: Mapping[str, int] = field(default_factory=dict)  # by the id of their trace
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
"""All that hold rows about traces."""


def leaving_among(
    cursor: duckdb.DuckDBPyConnection, keys: Sequence[TraceName], *, cutoff_us: int = FOR_EVER_US, in_any_case: bool
) -> list[Leaving]:
    """Return those of these traces that leave: expired with all their parts and not pinned, or in any case."""
    if not keys:
        return []
    cursor.register("wanted_traces", _table(keys))
    parameters = {"cutoff_us": cutoff_us, "in_any_case": in_any_case}
    return [Leaving(*row) for row in cursor.execute(sql.query("leaving_traces"), parameters).fetchall()]


def erase(
    cursor: duckdb.DuckDBPyConnection, leaving: Sequence[Leaving], first_batch: int, last_batch: int, *, whole: bool
) -> Left:
    """Delete the rows about these traces that came with the commits between two numbers.

    With `whole`, rows about a trace as a whole are deleted too; if they are too many for one transaction, before the
    others.
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


def _calls_of(cursor: duckdb.DuckDBPyConnection, leaving: Sequence[Leaving]) -> pa.Table:
    cursor.register("wanted_traces", _table(leaving))
    return open_calls(cursor, from_ns=min(each.first_start_ns for each in leaving))


def _places_of_spans(cursor: duckdb.DuckDBPyConnection, seqs: pa.Table) -> Places:
    """Add up the evaluations of these spans, then find the rows about them."""
    cursor.register("leaving_spans", seqs)
    bounds = pc.min_max(seqs.column("seq")).as_py()
    numbers = {"first_seq": bounds["min"], "last_seq": bounds["max"]}
    cursor.execute(sql.query("sum_evaluations").replace("$by_day", sql.select_of("evaluation_by_day")), numbers)
    return {table: _found(cursor, statement, numbers) for table, statement in _of_spans().items()}


def _places_of_traces(cursor: duckdb.DuckDBPyConnection, leaving: Iterable[Leaving]) -> Places:
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


def _table(keys: Sequence[TraceName] | Sequence[Leaving]) -> pa.Table:
    return pa.table(
        {
            "tenant": pa.array([key.tenant for key in keys], pa.string()),
            "trace_id": pa.array([key.trace_id for key in keys], pa.string()),
            "trace_key": pa.array([key.trace_key for key in keys], pa.uint64()),
        }
    )
