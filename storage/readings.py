"""What is to be read of the committed spans, and where what was read of them is kept."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from storage import sql
from storage.database import Database
from storage.queries import dimensions_of
from storage.reading_batch import ReadingBatch
from storage.writer import Writer

_LOGS_EACH = 10
"""Log records that are taken out for each span, in as many bytes as the spans. A guess."""

EVERYTHING = 2**63 - 1
"""Beyond the number of any span."""


class TraceKey(NamedTuple):
    """What tells a trace from all others."""

    tenant: str
    trace_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingState:
    """How far spans (`seq`) and log records (`log_batch`) are read, by which edition of the conventions.

    Spans after `again_after` up to `again_until` were read by an older edition.
    """

    edition: str | None
    seq: int
    log_batch: int
    again_after: int
    again_until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much is taken out at once."""

    rows: int
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Spans as rows of the table `span`, in the order of their commits, with the dimensions that they name.

    All spans of the traces in `whole` are here; of others there are more. `is_cut` says that the limits left out spans
    that were wanted, or log records of those that are here.
    """

    spans: pa.Table
    resources: pa.Table
    scopes: pa.Table
    logs: pa.Table
    span_counts: Mapping[TraceKey, int]  # of each trace, here and elsewhere
    whole: frozenset[TraceKey]
    is_cut: bool

    @property
    def last_seq(self) -> int:
        """The number of the last span."""
        return int(pc.max(self.spans.column("seq")).as_py())

    def only(self, keys: Iterable[TraceKey]) -> "Window":
        """The part of it that is about some of its traces."""
        wanted = frozenset(keys)
        mask = pa.array([key in wanted for key in _keys(self.spans)], pa.bool_())
        counts = {key: count for key, count in self.span_counts.items() if key in wanted}
        return replace(self, spans=self.spans.filter(mask), whole=self.whole & wanted, span_counts=counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What one step of reading brings, stored in one transaction.

    `replaces` says that some of it may have been read before. `due` are traces to be added up later,
    `finished` those that no longer are.
    """

    batch: ReadingBatch
    state: ReadingState
    replaces: bool
    due: Sequence[TraceKey]
    finished: Sequence[TraceKey]


class Readings:
    """The readings' side of a store. Safe to use from any thread but the writer's; one of them waits for spans."""

    def __init__(self, database: Database, writer: Writer, committed: threading.Event) -> None:
        self._database = database
        self._writer = writer
        self._committed = committed
        self._deletions: int | None = (
            None  # how many there had been when spans were first taken out since the last `store`
        )
        self.read = threading.Event()  # for one who follows: set whenever more was read

    def wait_for_spans(self, timeout_s: float) -> None:
        """Wait until something was committed, or the time is over."""
        self._committed.wait(timeout_s)
        self._committed.clear()

    def wake(self) -> None:
        """End a wait for spans."""
        self._committed.set()

    def state(self) -> ReadingState:
        """How far reading has come."""
        with self._database.cursor() as cursor:
            ((edition, seq, log_batch, after, until),) = cursor.execute(sql.query("reading_state")).fetchall()
        return ReadingState(edition=edition, seq=seq, log_batch=log_batch, again_after=after, again_until=until)

    def due(self) -> list[TraceKey]:
        """The traces that are to be added up."""
        with self._database.cursor() as cursor:
            return [TraceKey(*row) for row in cursor.execute(sql.query("due_traces")).fetchall()]

    def window(self, *, after: int, until: int, limits: Limits) -> Window | None:
        """The next spans in the order of their commits; None when there are none."""
        self._note_deletions()
        with self._database.snapshot() as cursor:
            spans, _ = _fetch(cursor, sql.query("spans_after"), limits, after=after, until=until)
            if not spans.num_rows:
                return None
            seen = _counts(spans)
            extents = self._extents(cursor, seen)
            whole = frozenset(key for key, count in seen.items() if key in extents and extents[key].spans <= count)
            window = self._window(cursor, spans, limits)
            return replace(window, whole=whole, span_counts={key: extent.spans for key, extent in extents.items()})

    def traces_of_logs(self, *, after: int, until: int) -> list[TraceKey]:
        """The traces whose log records came with the commits after one and up to another."""
        with self._database.cursor() as cursor:
            rows = cursor.execute(sql.query("traces_of_logs"), {"after": after, "until": until}).fetchall()
        return [TraceKey(*row) for row in rows]

    @property
    def last_commit(self) -> int:
        """The number of the last commit of spans or log records."""
        return self._writer.totals.batch

    def traces(self, keys: Iterable[TraceKey], *, until: int, limits: Limits) -> Window | None:
        """The spans of these traces up to number `until`, as many as fit; None when there are none.

        Spans that were committed since are left to the window that will hold them.
        """
        wanted = set(keys)
        self._note_deletions()
        with self._database.snapshot() as cursor:
            extents = self._extents(cursor, wanted)
            if not extents:
                return None
            bounds = {
                "from_ns": min(extent.first_start_ns for extent in extents.values()),
                "to_ns": max(extent.last_start_ns for extent in extents.values()),
                "first_batch": min(extent.first_batch for extent in extents.values()),
                "last_batch": max(extent.last_batch for extent in extents.values()),
                "until": until,
            }
            cursor.register("wanted_traces", key_table(wanted))
            spans, is_cut = _fetch(cursor, sql.query("spans_of_traces"), limits, **bounds)
            if not spans.num_rows:
                return None
            window = self._window(cursor, spans, limits)
            return replace(window, is_cut=is_cut or window.is_cut)

    def spans(self, numbers: Iterable[int], *, limits: Limits) -> Window | None:
        """The spans with these numbers, as many as fit; None when there are none."""
        wanted = sorted(set(numbers))
        if not wanted:
            return None
        with self._database.snapshot() as cursor:
            cursor.register("wanted_spans", pa.table({"seq": pa.array(wanted, pa.int64())}))
            bounds = {"first": wanted[0], "last": wanted[-1]}
            spans, is_cut = _fetch(cursor, sql.query("spans_by_seq"), limits, **bounds)
            if not spans.num_rows:
                return None
            window = self._window(cursor, spans, limits)
            return replace(window, is_cut=is_cut or window.is_cut)

    def span_count(self, key: TraceKey) -> int:
        """How many spans of a trace are stored."""
        with self._database.snapshot() as cursor:
            extents = self._extents(cursor, [key])
        return extents[key].spans if key in extents else 0

    def _note_deletions(self) -> None:
        if self._deletions is None:
            self._deletions = self._writer.deletions

    def store(self, progress: Progress) -> None:
        """Store what was read, and how far. What was deleted since it was taken out is not stored again.

        Raises:
            Overloaded: nothing was stored, because the database cannot be written now, or is being closed.
        """
        seen, self._deletions = self._deletions, None

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            _write(cursor, progress if self._writer.deletions == seen else _without_deleted(cursor, progress))

        self._writer.store(write, progress.batch.readings.num_rows)
        self.read.set()

    @staticmethod
    def _extents(cursor: duckdb.DuckDBPyConnection, wanted: Iterable[TraceKey]) -> "dict[TraceKey, _Extent]":
        cursor.register("wanted_traces", key_table(wanted))
        rows = cursor.execute(sql.query("extents_of_traces")).fetchall()
        return {TraceKey(tenant, trace_id): _Extent(*numbers) for tenant, trace_id, *numbers in rows}

    @staticmethod
    def _window(cursor: duckdb.DuckDBPyConnection, spans: pa.Table, limits: Limits) -> Window:
        """The spans with all that belongs to them, as if there were no more of their traces."""
        counts = _counts(spans)
        cursor.register("wanted_traces", key_table(counts))
        logs, is_cut = _fetch(cursor, sql.query("logs_of_traces"), replace(limits, rows=_LOGS_EACH * limits.rows))
        resources, scopes = dimensions_of(cursor, spans)
        return Window(
            spans=spans,
            resources=resources,
            scopes=scopes,
            logs=logs,
            span_counts=counts,
            whole=frozenset(counts),
            is_cut=is_cut,
        )


class _Extent(NamedTuple):
    spans: int
    first_start_ns: int
    last_start_ns: int
    first_batch: int
    last_batch: int


def _fetch(cursor: duckdb.DuckDBPyConnection, select: str, limits: Limits, **parameters: int) -> tuple[pa.Table, bool]:
    """The rows as far as they fit, one batch at least; and whether there may be more."""
    reader = cursor.execute(select, parameters | {"rows": limits.rows}).to_arrow_reader(_ROWS_AT_ONCE)
    batches, nbytes = [], 0
    for batch in reader:
        batches.append(batch)
        nbytes += batch.nbytes
        if nbytes > limits.nbytes:
            break
    rows = pa.Table.from_batches(batches, schema=reader.schema)
    return rows, nbytes > limits.nbytes or rows.num_rows >= limits.rows


_KEY_DIGITS = 16  # of a trace id, which the number is that its parts are found by
_ROWS_AT_ONCE = 2048  # DuckDB's own measure; it hands out no fewer


def _keys(spans: pa.Table) -> Iterable[TraceKey]:
    pairs = zip(spans.column("tenant").to_pylist(), spans.column("trace_id").to_pylist(), strict=True)
    return (TraceKey(*pair) for pair in pairs)


def _counts(spans: pa.Table) -> dict[TraceKey, int]:
    counts = spans.group_by(["tenant", "trace_id"]).aggregate([([], "count_all")])
    return dict(zip(_keys(counts), counts.column("count_all").to_pylist(), strict=True))


def key_table(keys: Iterable[TraceKey]) -> pa.Table:
    """The traces as a table, with the number that their parts are found by."""
    listed = list(keys)
    return pa.table(
        {
            "tenant": pa.array([key.tenant for key in listed], pa.string()),
            "trace_id": pa.array([key.trace_id for key in listed], pa.string()),
            "trace_key": pa.array([int(key.trace_id[-_KEY_DIGITS:], 16) for key in listed], pa.uint64()),
        }
    )


def _without_deleted(cursor: duckdb.DuckDBPyConnection, progress: Progress) -> Progress:
    """What of it is about spans and traces that are there still."""
    batch = progress.batch
    if batch.readings.num_rows:
        numbers = pc.min_max(batch.readings.column("seq")).as_py()
        bounds = {"first": numbers["min"], "last": numbers["max"]}
        seqs = cursor.execute(sql.query("numbers_between"), bounds).to_arrow_table().column("seq")
        is_there = pc.is_in(batch.readings.column("seq"), value_set=seqs)
        batch = replace(batch, readings=batch.readings.filter(is_there))
    if batch.traces.num_rows:
        cursor.register("wanted_traces", key_table(set(_keys(batch.traces))))
        rows = cursor.execute(sql.query("extents_of_traces")).fetchall()
        there = {TraceKey(tenant, trace_id) for tenant, trace_id, *_ in rows}
        traces, calls = (
            table.filter(pa.array([key in there for key in _keys(table)], pa.bool_()))
            for table in (batch.traces, batch.tool_calls)
        )
        batch = replace(batch, traces=traces, tool_calls=calls)
    return replace(progress, batch=batch)


def _write(cursor: duckdb.DuckDBPyConnection, progress: Progress) -> None:
    """Store one step. The writer's thread calls this in a transaction."""
    batch, state = progress.batch, progress.state
    if batch.readings.num_rows:
        cursor.register("incoming_readings", batch.readings)
        if progress.replaces:
            numbers = pc.min_max(batch.readings.column("seq"))
            cursor.execute(
                sql.query("delete_readings"), {"first": numbers["min"].as_py(), "last": numbers["max"].as_py()}
            )
        cursor.execute(sql.query("insert_readings"))
    if batch.traces.num_rows:
        cursor.register("incoming_traces", batch.traces)
        cursor.register("incoming_tool_calls", batch.tool_calls)
        if progress.replaces:
            starts = pc.min_max(batch.traces.column("start_time").cast(pa.int64()))
            bounds = {"from_ns": starts["min"].as_py()}
            cursor.execute(sql.query("delete_tool_calls"), bounds)
            cursor.execute(sql.query("delete_trace_readings"), bounds)
        cursor.execute(sql.query("insert_tool_calls"))
        cursor.execute(sql.query("insert_trace_readings"))
    if progress.finished:
        cursor.register("finished_traces", key_table(progress.finished))
        cursor.execute(sql.query("delete_due_traces"))
    if progress.due:
        cursor.register("incoming_due", key_table(progress.due))
        cursor.execute(sql.query("insert_due_traces"))
    cursor.execute(
        sql.query("update_reading_state"),
        {
            "edition": state.edition,
            "seq": state.seq,
            "log_batch": state.log_batch,
            "again_after": state.again_after,
            "again_until": state.again_until,
        },
    )
