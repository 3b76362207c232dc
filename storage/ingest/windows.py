"""Windows: spans with their log records, within limits of rows and bytes."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import duckdb
import pyarrow as pa

from storage import sql
from storage.engine.arrow import arrow_reader
from storage.engine.database import Database
from storage.engine.read_database import ReadDatabase

_LOGS_EACH = 10
"""Maximum number of log records in a window, for each span that the limit allows. A guess."""

_ENDS_AT_ONCE = 256  # a guess: few look-ups, and few more bytes than fit

COMMITS_EACH = 16
"""Groups of traces with adjacent commits are looked up one by one if they span more than this many commits per group. A
guess: another look-up takes as long as searching this many commits."""

_ENDS = 500
"""If a trace exceeds the limits, its roots and this many of its first and of its last spans are read: the spans whose
texts the sums of a long trace use, too (`meanings_of_long_trace`)."""

SUMMED_SPANS = 50_000
"""The sums of a trace in the views include at most this many of its spans, the first ones."""

TRACE_ID = re.compile("[0-9a-f]{32}")


class TraceKey(NamedTuple):
    """Key of a trace."""

    tenant: str
    trace_id: str


class SessionKey(NamedTuple):
    """Key of a session."""

    tenant: str
    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one window."""

    rows: int
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanWindow:
    """Spans as rows of the table `span`, and the log records of their traces.

    `is_cut` is True if the limits may have cut off requested spans, or log records of their traces.
    """

    spans: pa.Table
    logs: pa.Table
    is_cut: bool
    sessions: Mapping[SessionKey, Sequence[str]] = field(default_factory=dict)  # the traces of each, in order


@dataclass(frozen=True, slots=True, kw_only=True)
class MeaningWindow:
    """Stored meanings of spans, which take their log records into account. `is_cut` as in `SpanWindow`.

    The column `is_complete` is false for spans whose stored meaning is not current, such as one of another edition.

    """

    spans: pa.Table
    is_cut: bool


class Windows:
    """Reader of spans by trace, session or number, within limits. Thread-safe."""

    def __init__(self, database: Database | ReadDatabase, edition: str) -> None:
        """`edition` is that of the conventions by which spans are read."""
        self._database = database
        self._edition = edition

    def traces(self, keys: Iterable[TraceKey], *, limits: Limits) -> SpanWindow | None:
        """Return the spans of these traces, as many as fit; None if there are none.

        If one trace is requested and does not fit, return the spans that determine its input and its output.

        """
        trace_keys = set(keys)
        return self._whole_or_ends(trace_keys, limits, is_one=len(trace_keys) == 1)

    def _whole_or_ends(self, trace_keys: Collection[TraceKey], limits: Limits, *, is_one: bool) -> SpanWindow | None:
        with self._database.snapshot() as cursor:
            extents = extents_of(cursor, trace_keys)
            window = spans_within(cursor, extents, limits)
            if window is None or not (is_one and _lacks_spans(window.spans, extents)):
                return window
            spans = _ends(cursor, extents, limits, sql.query("spans_by_seq"))
            return _window(cursor, spans, limits, is_cut=True)

    def sessions(self, keys: Iterable[SessionKey], *, limits: Limits) -> SpanWindow | None:
        """Return the spans of the traces of these sessions, as many as fit; None if there are none.

        If one session is requested and does not fit, return the spans that determine its traces' inputs and outputs.

        """
        by_session: dict[SessionKey, list[str]] = {}
        tenants, ids = zip(*keys, strict=True)
        session_rows = pa.table({"tenant": pa.array(tenants, pa.string()), "session_id": pa.array(ids, pa.string())})
        with self._database.cursor() as cursor:
            cursor.register("wanted_sessions", session_rows)
            for tenant, session_id, trace_id in cursor.execute(sql.query("traces_of_session_keys")).fetchall():
                by_session.setdefault(SessionKey(tenant, session_id), []).append(trace_id)
        traces = [TraceKey(key.tenant, trace_id) for key, trace_ids in by_session.items() for trace_id in trace_ids]
        window = self._whole_or_ends(traces, limits, is_one=len(by_session) == 1)
        return None if window is None else replace(window, sessions=by_session)

    def spans(self, numbers: Iterable[int], *, limits: Limits) -> SpanWindow | None:
        """Return the spans with these numbers, as many as fit; None if there are none."""
        seqs = sorted(set(numbers))
        if not seqs:
            return None
        with self._database.snapshot() as cursor:
            cursor.register("wanted_spans", pa.table({"seq": pa.array(seqs, pa.int64())}))
            bounds = {"first": seqs[0], "last": seqs[-1]}
            spans, is_cut = fetch(cursor, sql.query("spans_by_seq"), limits, **bounds)
            if not spans.num_rows:
                return None
            return _window(cursor, spans, limits, is_cut=is_cut)

    def meanings_of_traces(self, keys: Iterable[TraceKey], *, limits: Limits) -> MeaningWindow | None:
        """Return the meanings of these traces' spans, as many as fit, or None. A long trace is read as by `traces`."""
        trace_keys = set(keys)
        with self._database.snapshot() as cursor:
            extents = extents_of(cursor, trace_keys)
            if not extents:
                return None
            cursor.register("wanted_traces", key_table(trace_keys))
            bounds = bounds_of(extents.values())
            window = self._meanings(cursor, sql.query("stored_meanings_of_traces"), limits, bounds)
            if window is None or not (len(trace_keys) == 1 and _lacks_spans(window.spans, extents)):
                return window
            select = sql.query("stored_meanings").replace("$these", sql.bare(sql.query("stored_meanings_by_seq")))
            spans = _ends(cursor, extents, limits, select, edition=self._edition)
            return MeaningWindow(spans=spans, is_cut=True)

    def meanings_of_spans(self, numbers: Iterable[int], *, limits: Limits) -> MeaningWindow | None:
        """Return the meanings of the spans with these numbers, as many as fit, or None."""
        seqs = sorted(set(numbers))
        if not seqs:
            return None
        with self._database.cursor() as cursor:
            cursor.register("wanted_spans", pa.table({"seq": pa.array(seqs, pa.int64())}))
            bounds = {"first": seqs[0], "last": seqs[-1]}
            return self._meanings(cursor, sql.query("stored_meanings_by_seq"), limits, bounds)

    def _meanings(
        self, cursor: duckdb.DuckDBPyConnection, these: str, limits: Limits, bounds: Mapping[str, int]
    ) -> MeaningWindow | None:
        select = sql.query("stored_meanings").replace("$these", sql.bare(these))
        spans, is_cut = fetch(cursor, select, limits, edition=self._edition, **bounds)
        return MeaningWindow(spans=spans, is_cut=is_cut) if spans.num_rows else None

    def span_count(self, keys: Iterable[TraceKey]) -> int:
        """Count the stored spans of some traces."""
        with self._database.snapshot() as cursor:
            return sum(extent.spans for extent in extents_of(cursor, keys).values())


class Extent(NamedTuple):
    """Number of a trace's spans, their times, and the commits that brought them."""

    spans: int
    first_start_ns: int
    last_start_ns: int
    first_batch: int
    last_batch: int


def extents_of(cursor: duckdb.DuckDBPyConnection, keys: Iterable[TraceKey]) -> dict[TraceKey, Extent]:
    """Return the extent of each of the traces that is stored."""
    cursor.register("wanted_traces", key_table(keys))
    rows = cursor.execute(sql.query("extents_of_traces")).fetchall()
    return {TraceKey(tenant, trace_id): Extent(*numbers) for tenant, trace_id, *numbers in rows}


def bounds_of(extents: Collection[Extent]) -> dict[str, int]:
    """Return the bounds for finding the spans of some traces, as parameters of statements; `extents` is not empty."""
    return {
        "from_ns": min(extent.first_start_ns for extent in extents),
        "to_ns": max(extent.last_start_ns for extent in extents),
        "first_batch": min(extent.first_batch for extent in extents),
        "last_batch": max(extent.last_batch for extent in extents),
    }


def groups_of(extents: Mapping[TraceKey, Extent], *, commits_each: int = COMMITS_EACH) -> list[list[TraceKey]]:
    """Group traces for look-ups: all in one group, or if they are far apart, groups with adjacent commits."""
    ordered = sorted(extents, key=lambda key: extents[key].first_batch)
    groups: list[list[TraceKey]] = []
    last_batch = first_batch = extents[ordered[0]].first_batch if ordered else 0
    for key in ordered:
        extent = extents[key]
        if groups and extent.first_batch <= last_batch + 1:
            groups[-1].append(key)
        else:
            groups.append([key])
        last_batch = max(last_batch, extent.last_batch)
    is_far_apart = last_batch - first_batch > commits_each * len(groups)
    return groups if is_far_apart else [ordered]


def spans_within(
    cursor: duckdb.DuckDBPyConnection, extents: Mapping[TraceKey, Extent], limits: Limits
) -> SpanWindow | None:
    """Return the spans of traces with these extents, as many as fit; None if there are none."""
    if not extents:
        return None
    spans, is_cut = _spans(cursor, extents, limits)
    return _window(cursor, spans, limits, is_cut=is_cut) if spans.num_rows else None


def _spans(
    cursor: duckdb.DuckDBPyConnection, extents: Mapping[TraceKey, Extent], limits: Limits
) -> tuple[pa.Table, bool]:
    """Return spans of the traces in `extents`, which is not empty, up to the limits, and True if there may be more."""
    tables: list[pa.Table] = []
    left = limits
    for group in groups_of(extents):
        bounds = bounds_of([extents[key] for key in group])
        if len(group) == 1:
            spans, is_cut = fetch(cursor, sql.query("spans_of_one_trace"), left, **bounds, **group[0]._asdict())
        else:
            cursor.register("wanted_traces", key_table(group))
            spans, is_cut = fetch(cursor, sql.query("spans_of_traces"), left, **bounds)
        tables.append(spans)
        left = Limits(rows=left.rows - spans.num_rows, nbytes=left.nbytes - spans.nbytes)
        if is_cut:
            return pa.concat_tables(tables), True
    return pa.concat_tables(tables), False


def _lacks_spans(spans: pa.Table, extents: Mapping[TraceKey, Extent]) -> bool:
    return bool(spans.num_rows < sum(extent.spans for extent in extents.values()))


def _ends(
    cursor: duckdb.DuckDBPyConnection,
    extents: Mapping[TraceKey, Extent],
    limits: Limits,
    select: str,
    **parameters: str,
) -> pa.Table:
    """Return the roots and the first and last spans of traces that exceed the limits, the most important ones first."""
    cursor.register("wanted_traces", key_table(extents))
    bounds = bounds_of(extents.values()) | {"ends": _ENDS, "most": SUMMED_SPANS, "rows": limits.rows}
    numbers = [seq for (seq,) in cursor.execute(sql.query("ends_of_traces"), bounds).fetchall()]
    tables: list[pa.Table] = []
    nbytes = at = 0
    while at < len(numbers) and nbytes <= limits.nbytes:
        some = numbers[at : at + _ENDS_AT_ONCE]
        at += len(some)
        cursor.register("wanted_spans", pa.table({"seq": pa.array(some, pa.int64())}))
        left = Limits(rows=len(some) + 1, nbytes=limits.nbytes - nbytes)
        spans, _ = fetch(cursor, select, left, first=min(some), last=max(some), **parameters)
        tables.append(spans)
        nbytes += spans.nbytes
    return pa.concat_tables(tables)


def _window(cursor: duckdb.DuckDBPyConnection, spans: pa.Table, limits: Limits, *, is_cut: bool) -> SpanWindow:
    cursor.register("wanted_traces", key_table(set(keys_of(spans))))
    logs, logs_are_cut = fetch(cursor, sql.query("logs_of_traces"), replace(limits, rows=_LOGS_EACH * limits.rows))
    return SpanWindow(spans=spans, logs=logs, is_cut=is_cut or logs_are_cut)


def fetch(
    cursor: duckdb.DuckDBPyConnection, select: str, limits: Limits, **parameters: int | str | None
) -> tuple[pa.Table, bool]:
    """Return the rows that fit, at least one batch, and True if there may be more."""
    reader = arrow_reader(cursor, _ROWS_AT_ONCE, select, parameters | {"rows": limits.rows})
    batches, nbytes = [], 0
    for batch in reader:
        batches.append(batch)
        nbytes += batch.nbytes
        if nbytes > limits.nbytes:
            break
    rows = pa.Table.from_batches(batches, schema=reader.schema)
    return rows, nbytes > limits.nbytes or rows.num_rows >= limits.rows


_KEY_DIGITS = 16  # hex digits of a trace id that make its key
_ROWS_AT_ONCE = 2048  # size of DuckDB's vectors, the smallest batch that it returns


def keys_of(spans: pa.Table) -> Iterable[TraceKey]:
    """Return the trace of each row."""
    pairs = zip(spans.column("tenant").to_pylist(), spans.column("trace_id").to_pylist(), strict=True)
    return (TraceKey(*pair) for pair in pairs)


def counts_of(spans: pa.Table) -> dict[TraceKey, int]:
    """Count the spans of each trace."""
    counts = spans.group_by(["tenant", "trace_id"]).aggregate([([], "count_all")])
    return dict(zip(keys_of(counts), counts.column("count_all").to_pylist(), strict=True))


def key_table(keys: Iterable[TraceKey]) -> pa.Table:
    """Return the traces as a table, with `trace_key`, by which the rows of `trace_part` are found."""
    listed = list(keys)
    return pa.table(
        {
            "tenant": pa.array([key.tenant for key in listed], pa.string()),
            "trace_id": pa.array([key.trace_id for key in listed], pa.string()),
            "trace_key": pa.array([int(key.trace_id[-_KEY_DIGITS:], 16) for key in listed], pa.uint64()),
        }
    )
