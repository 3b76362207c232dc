"""Sums of traces, which are a trace's columns computed from its spans: which are outdated, and their storage."""

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, LiteralString, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.database import Database
from storage.ingest.batch import TOOL_CALLS
from storage.ingest.meaning import Reads
from storage.ingest.open_calls import complete_calls, open_calls
from storage.ingest.span_rows import edition_number, read_again, replace_meanings
from storage.ingest.windows import Limits, TraceKey, extents_of, fetch, key_table, keys_of
from storage.ingest.writer import Writer

_MOST_CHANGES: Final = 200_000
"""Maximum number of changed traces that are kept in memory. Beyond it all are dropped, and the follower reads stored
changes instead. A guess: 40 MB."""


class TraceChange(NamedTuple):
    """Changes of a trace: the first commit that changed it, and the number of spans that changed since."""

    batch: int
    spans: int


class Changes:
    """Traces that commits changed, for one follower. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._arrived = threading.Event()
        self._traces: dict[TraceKey, TraceChange] = {}
        self._last_batch = 0
        self._is_complete = False  # False if changes are missing: at the start, and after a drop

    def note(self, traces: Mapping[TraceKey, int], batch: int) -> None:
        """Note how many spans of each trace a commit changed."""
        with self._lock:
            known = self._traces
            for key, spans in traces.items():
                before = known.get(key)
                known[key] = (
                    TraceChange(batch, spans) if before is None else TraceChange(before.batch, before.spans + spans)
                )
            self._last_batch = batch
            if len(known) > _MOST_CHANGES:
                self._is_complete = False
                known.clear()
        self._arrived.set()

    def take(self) -> tuple[Mapping[TraceKey, TraceChange], int, bool]:
        """Return the changes since the last call, the last commit, and whether the changes are complete.

        If they are not, `TraceMeanings.changed` reads the stored ones.
        """
        with self._lock:
            traces, self._traces = self._traces, {}
            is_complete, self._is_complete = self._is_complete, True
            return traces, self._last_batch, is_complete

    def wait(self, timeout_s: float) -> None:
        """Wait until something was committed, or the time is over."""
        self._arrived.wait(timeout_s)
        self._arrived.clear()

    def wake(self) -> None:
        """End a wait."""
        self._arrived.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSpans:
    """The spans of some traces, with their meanings; if not all spans fit the limits, only the first ones."""

    keys: Collection[TraceKey]
    spans: pa.Table
    parts: pa.Table  # the sums of the traces' `trace_part` rows, as in the view `trace_roll_up`
    from_ns: int  # no span of these traces starts earlier
    is_cut: bool
    deletions: int  # `Writer.deletions` when these spans were read


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSums:
    """Sums of some traces, as rows of `storage.ingest.batch.TRACES` and `TOOL_CALLS`.

    They replace all rows about the traces of `of`, and include the changes of commits up to `batch`.

    """

    of: TraceSpans
    traces: pa.Table
    tool_calls: pa.Table
    batch: int
    is_bare: bool = False  # a row without sums, for a trace whose sums cannot be stored; a restart tries it again


class TraceMeanings:
    """Sums of traces. For one thread beside the writer's, which follows `changes`."""

    def __init__(self, database: Database, writer: Writer, changes: Changes) -> None:
        self._database = database
        self._writer = writer
        self.changes = changes

    def changed(self) -> tuple[dict[TraceKey, TraceChange], int]:
        """Return the traces with spans or log records of commits after the last sums, and the last commit."""
        with self._database.snapshot() as cursor:
            rows = cursor.execute(sql.query("changed_traces")).fetchall()
            ((last_batch, *_),) = cursor.execute(sql.query("ingest_state")).fetchall()
        return {
            TraceKey(tenant, trace_id): TraceChange(batch, spans) for tenant, trace_id, batch, spans in rows
        }, last_batch

    def last_batch(self) -> int:
        """Return the number of the last commit."""
        with self._database.cursor() as cursor:
            ((last_batch, *_),) = cursor.execute(sql.query("ingest_state")).fetchall()
        return int(last_batch)

    def spans(self, keys: Collection[TraceKey], limits: Limits) -> TraceSpans:
        """Return the spans of these traces, as many as fit."""
        return self._spans(keys, sql.query("meanings_of_traces"), limits)

    def _spans(self, keys: Collection[TraceKey], select: LiteralString, limits: Limits) -> TraceSpans:
        deletions = self._writer.deletions
        with self._database.snapshot() as cursor:
            cursor.register("wanted_traces", key_table(keys))
            parts = _parts_of_wanted(cursor)
            bounds = _bounds_of(parts) if parts.num_rows else _NOTHING
            spans, is_cut = fetch(cursor, select, limits, **bounds)
        from_ns = bounds["from_ns"] if parts.num_rows == len(keys) else 0
        return TraceSpans(keys=keys, spans=spans, parts=parts, from_ns=from_ns, is_cut=is_cut, deletions=deletions)

    def long_trace(self, key: TraceKey, limits: Limits) -> TraceSpans:
        """Return the spans of one trace that is too long to be read whole, without texts that no sum needs."""
        return self._spans([key], sql.query("meanings_of_long_trace"), limits)

    def store(self, sums: TraceSums) -> None:
        """Store sums of traces, without those that were deleted since their spans were read.

        Raises:
            Overloaded: nothing was stored, because the database cannot be written now, or is being closed.
        """

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            is_whole = self._writer.deletions == sums.of.deletions
            _store(cursor, sums if is_whole else _without_deleted(cursor, sums))

        self._writer.store(write, sums.traces.num_rows)

    def store_state(self, batch: int) -> None:
        """Store that the sums include the changes of all commits up to `batch`.

        Raises:
            Overloaded: as for `store`.
        """
        self._writer.store(lambda cursor: cursor.execute(sql.query("update_trace_state"), {"batch": batch}), 0)

    def read_older_spans(self, reads: Reads, limits: Limits) -> int:
        """Recompute the meanings of some spans that another edition computed; return how many, 0 if none are left.

        Raises:
            Overloaded: nothing was stored, because the database cannot be written now, or is being closed.
        """
        with self._database.snapshot() as cursor:
            edition = edition_number(cursor, reads.edition)
            spans, _ = fetch(cursor, sql.query("older_spans"), limits, edition=edition)
            if not spans.num_rows:
                return 0
            rows = read_again(cursor, reads, edition, spans)
        self._writer.store(lambda cursor: replace_meanings(cursor, rows), rows.num_rows)
        return int(rows.num_rows)

    def older_traces(self, reads: Reads, most: int) -> list[TraceKey]:
        """Return some of the traces whose sums were computed with another edition of the conventions."""
        with self._database.cursor() as cursor:
            parameters = {"edition": edition_number(cursor, reads.edition), "traces": most}
            return [TraceKey(*row) for row in cursor.execute(sql.query("older_traces"), parameters).fetchall()]


_NOTHING: Final = {"from_ns": 1, "to_ns": 0, "first_batch": 1, "last_batch": 0}


def _parts_of_wanted(cursor: duckdb.DuckDBPyConnection) -> pa.Table:
    select = sql.query("wanted_trace_parts").replace("$roll_up", sql.select_of("trace_roll_up"))
    return arrow_table(cursor, select)


def _bounds_of(parts: pa.Table) -> dict[str, int]:
    """Return the bounds for finding the spans of these traces, as parameters of statements; `parts` is not empty."""
    return {
        "from_ns": pc.min(parts.column("start_time")).value,
        "to_ns": pc.max(parts.column("last_start_time")).value,
        "first_batch": pc.min(parts.column("first_batch")).as_py(),
        "last_batch": pc.max(parts.column("last_batch")).as_py(),
    }


def _without_deleted(cursor: duckdb.DuckDBPyConnection, sums: TraceSums) -> TraceSums:
    extents = extents_of(cursor, sums.of.keys)
    traces, calls = (
        table.filter(pa.array([key in extents for key in keys_of(table)], pa.bool_()))
        for table in (sums.traces, sums.tool_calls)
    )
    return replace(sums, traces=traces, tool_calls=calls)


def _store(cursor: duckdb.DuckDBPyConnection, sums: TraceSums) -> None:
    """Store sums. The writer's thread calls this in a transaction."""
    known = TOOL_CALLS.empty_table()
    if sums.of.keys:
        bounds = {"from_ns": sums.of.from_ns}
        cursor.register("wanted_traces", key_table(sums.of.keys))
        known = open_calls(cursor, **bounds)
        cursor.execute(sql.query("delete_tool_calls"), bounds)
        cursor.execute(sql.query("delete_trace_readings"))
        counts = sums.of.spans.group_by(["tenant", "trace_id"]).aggregate([("edition", "min"), ([], "count_all")])
        if sums.is_bare:  # no edition, so that `older_traces` returns the trace after a restart
            edition = counts.schema.get_field_index("edition_min")
            counts = counts.set_column(edition, "edition_min", pa.nulls(counts.num_rows, pa.int32()))
        cursor.register("incoming_traces", sums.traces)
        cursor.register("incoming_parts", sums.of.parts)
        cursor.register("incoming_counts", counts)
        cursor.execute(sql.query("insert_trace_readings"))
    if sums.tool_calls.num_rows:
        cursor.register("incoming_tool_calls", sums.tool_calls)
        cursor.execute(sql.query("insert_tool_calls"))
    if not sums.is_bare:  # skipped for bare sums: it may be the step that failed
        complete_calls(cursor, known, sums.tool_calls)
    cursor.execute(sql.query("update_trace_state"), {"batch": sums.batch})
