"""Export of any number of spans by start time, in windows that fit into memory.

A window is read completely before its first span is returned, so that no cursor is open while a client is slow. Spans
that are stored or deleted during an export may or may not be in it; no span is in it twice.
"""

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Final, Generic, NamedTuple, TypeVar

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from storage import sql
from storage.engine.arrow import arrow_reader
from storage.engine.read_database import ReadDatabase
from storage.errors import Damaged
from storage.query.concurrency_limit import Places
from storage.query.queries import summaries_of
from storage.query.rows import spans_of
from storage.records import Span

_Item = TypeVar("_Item")

WINDOW_ROWS: Final = 8192
"""Maximum number of spans in a window. If the spans of a window lie in seven row groups, because thousands came in a
second, reading a span costs 17 µs of CPU with windows of 2,048 and 6 µs with 8,192. It costs less with either if spans
came in the order of their start."""

WINDOW_BYTES: Final = 16 << 20
"""A window with more bytes is split. 8,192 spans of agents have some 12 MB."""

BATCH_ROWS: Final = 512
"""Number of spans in a yielded batch. Measured, ms of CPU for a window of 7,063 spans: 282 with 64, 67 with 256, 52
with 1,024 and 48 with all. 512 spans are some 900 kB of OTLP/JSON, little enough for one request."""

_FILLED: Final = 0.75  # share of a window that the estimate fills, so that few windows turn out too large; a guess
_AT_ONCE: Final = 6  # concurrent exports, at most three of one caller; a guess: each has a window or two in memory
_RETRY_AFTER_S: Final = 30  # a guess
_STRETCHES: Final = 1024  # number of stretches counted at once: 84 s each for a day; a guess
_DAMAGED_STRETCHES: Final = 16
_LEFT_OUT_ROWS: Final = 64
"""A damaged window with no more spans is left out. A guess: a damaged window of 8,192 is read in at most 272 pieces."""
_LEFT_OUT_NS: Final = 10 * 10**9  # the same for a window by time, if even numbers of spans are damaged; a guess
_MAX_INT64: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Selection:
    """Tenants and traces of the selected spans; None means all."""

    tenant: str | None
    or_tenant: str | None
    trace_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _ExportWindow:
    """Bounds of spans by start time and by number, inclusive; `rows` is their count, once it is known."""

    first_ns: int
    last_ns: int
    first_seq: int = 0
    last_seq: int = _MAX_INT64
    rows: int = _MAX_INT64  # not counted


class DamagedRange(NamedTuple):
    """Damaged spans that are left out: their start times, from the first nanosecond to the last, and their number."""

    first_ns: int
    last_ns: int
    rows: int | None  # None: could not be counted


LEFT_OUT: Final = "leftOut"
"""The API's name for the damaged spans that an export lacks: a key of its last line, or of its last batch."""


def left_out_text(unread: Sequence[DamagedRange]) -> str:
    """Return damaged spans as the JSON of the API; times are texts, as in OTLP/JSON."""
    return json.dumps(
        [
            {"firstUnixNano": str(each.first_ns), "lastUnixNano": str(each.last_ns), "spans": each.rows}
            for each in unread
        ]
    )


def left_out_in(text: bytes) -> list[DamagedRange]:
    """Return the damaged spans that the API's JSON lists."""
    return [
        DamagedRange(int(each["firstUnixNano"]), int(each["lastUnixNano"]), each["spans"]) for each in json.loads(text)
    ]


class _WindowSize:
    """Estimate of how many spans fit into a window, from the size of the spans that were read last."""

    def __init__(self) -> None:
        self.rows = WINDOW_ROWS

    def note(self, rows: int, nbytes: int) -> None:
        """Learn how large spans are."""
        self.rows = max(1, min(WINDOW_ROWS, int(rows * _FILLED * WINDOW_BYTES / max(nbytes, 1))))


class _Export(NamedTuple, Generic[_Item]):
    """Query, selection, and conversion of an export."""

    select: str
    selection: _Selection
    finish: Callable[[pa.Table], Iterable[_Item]]
    pace: _WindowSize
    unread: list[DamagedRange] | None = None  # receives the damaged parts; None: damage ends the export


class Exports:
    """Exports of any size. Thread-safe."""

    def __init__(self, database: ReadDatabase) -> None:
        self._database = database
        self._places = Places(_AT_ONCE, "exports", retry_after_s=_RETRY_AFTER_S)

    @property
    def running(self) -> int:
        """Return how many exports run now."""
        return self._places.held

    def rows(
        self,
        from_ns: int,
        to_ns: int,
        *,
        tenant: str | None,
        client_id: str | None = None,
        unread: list[DamagedRange] | None = None,
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows of the view `spans` that start between two instants, after an empty batch with the schema.

        Rows of a tenant plus shared ones are returned; None returns those of all tenants. Damaged spans are skipped and
        appended to `unread`; without `unread`, damage ends the export.

        Raises:
            Overloaded: at the first batch, if this caller (`client_id`), or all callers, run too many exports.

        """
        select = sql.query("export_spans").replace("FROM span", "FROM spans")
        selection = _Selection(tenant=tenant, or_tenant="", trace_id=None)
        export = _Export(select, selection, _rows, _WindowSize(), unread)
        with self._places.take(client_id):
            with self._database.cursor() as cursor:
                schema = _open(cursor, export, _ExportWindow(first_ns=1, last_ns=0)).schema
            yield pa.RecordBatch.from_pylist([], schema=schema)
            yield from self._read(export, _ExportWindow(first_ns=from_ns, last_ns=to_ns - 1))

    def spans(
        self,
        from_ns: int,
        to_ns: int,
        *,
        tenant: str | None,
        client_id: str | None = None,
        unread: list[DamagedRange] | None = None,
    ) -> Generator[list[Span], None, None]:
        """Yield spans that start between two instants, of a tenant plus shared ones (None: all), in batches.

        Damaged spans are skipped and appended to `unread`; without `unread`, damage ends the export.

        Raises:
            Overloaded: at the first batch, if this caller (`client_id`), or all callers, run too many exports.

        """
        selection = _Selection(tenant=tenant, or_tenant="", trace_id=None)
        export = _Export(sql.query("export_spans"), selection, _spans, _WindowSize(), unread)
        with self._places.take(client_id):
            yield from self._read(export, _ExportWindow(first_ns=from_ns, last_ns=to_ns - 1))

    def trace(self, trace_id: str, *, tenant: str | None) -> Generator[list[Span], None, None] | None:
        """Return all spans of one trace, some hundreds at a time; None if no span of it is stored.

        If several traces have the id, return the tenant's own before the shared one; with None, the shared one first.

        """
        with self._database.snapshot() as cursor:
            summaries = summaries_of(cursor, tenant, [trace_id])
        if not summaries:
            return None
        summary, bounds = min(summaries, key=lambda each: (each[0].tenant != (tenant or ""), each[0].tenant))
        selection = _Selection(tenant=summary.tenant, or_tenant=summary.tenant, trace_id=trace_id)
        window = _ExportWindow(first_ns=bounds["from_ns"], last_ns=bounds["to_ns"], rows=summary.span_count)
        return self._read(_Export(sql.query("export_spans"), selection, _spans, _WindowSize()), window)

    def _read(self, export: _Export[_Item], window: _ExportWindow) -> Generator[_Item, None, None]:
        """Yield the converted rows of a window, in parts if it does not fit."""
        if window.rows <= export.pace.rows:
            try:
                items = self._whole(export, window)
            except Damaged:
                if export.unread is None:
                    raise
                yield from self._around_damage(export, window, export.unread)
                return
            if items is not None:
                yield from items
                return
        for part in self._parts(export, window):
            yield from self._read(export, part)

    def _around_damage(
        self, export: _Export[_Item], window: _ExportWindow, unread: list[DamagedRange]
    ) -> Iterator[_Item]:
        """Read the readable parts of a counted window that is damaged."""
        if window.rows <= _LEFT_OUT_ROWS:
            unread.append(DamagedRange(window.first_ns, window.last_ns, window.rows))
            return
        for part in self._stretches(export, window, most=_DAMAGED_STRETCHES):
            yield from self._read(export, part)

    def _whole(self, export: _Export[_Item], window: _ExportWindow) -> Iterable[_Item] | None:
        """Return the converted rows of a window, or None if they exceed `WINDOW_BYTES` or DuckDB's memory."""
        try:
            with self._database.snapshot() as cursor:
                table = _fetch(cursor, export, window)
            return None if table is None else export.finish(table)
        except duckdb.OutOfMemoryException:
            if window.rows == 1:
                raise
            export.pace.rows = max(1, window.rows // 2)
            return None

    def _parts(self, export: _Export[_Item], window: _ExportWindow) -> Iterator[_ExportWindow]:
        """Split a window into windows that are estimated to fit, in order."""
        gathered: _ExportWindow | None = None
        for part in self._stretches(export, window, most=_STRETCHES):
            if gathered is not None and gathered.rows + part.rows <= export.pace.rows:
                gathered = _joined(gathered, part)
                continue
            if gathered is not None:
                yield gathered
                gathered = None
            if part.rows > export.pace.rows:
                yield from self._parts(export, part)
            else:
                gathered = part
        if gathered is not None:
            yield gathered

    def _stretches(self, export: _Export[_Item], window: _ExportWindow, *, most: int) -> list[_ExportWindow]:
        """Split a window by time; if it spans one nanosecond, by number."""
        try:
            return self._counted(export.selection, window, most)
        except Damaged:
            if export.unread is None:
                raise
        return self._halves(window, export.unread)

    def _halves(self, window: _ExportWindow, unread: list[DamagedRange]) -> list[_ExportWindow]:
        """Halve a window whose spans cannot even be counted: by number, the order of storage, or else by time."""
        last_seq = self._last_seq() if window.last_seq == _MAX_INT64 else window.last_seq
        if last_seq is not None and last_seq - window.first_seq >= _LEFT_OUT_ROWS:
            middle = (window.first_seq + last_seq) // 2
            return [replace(window, last_seq=middle), replace(window, first_seq=middle + 1, last_seq=last_seq)]
        if last_seq is None and window.last_ns - window.first_ns >= _LEFT_OUT_NS:
            middle = (window.first_ns + window.last_ns) // 2
            return [replace(window, last_ns=middle), replace(window, first_ns=middle + 1)]
        unread.append(DamagedRange(window.first_ns, window.last_ns, None))
        return []

    def _last_seq(self) -> int | None:
        # None if it cannot be read: damage must not end an export.
        with suppress(Damaged), self._database.cursor() as cursor:
            ((last,),) = cursor.execute(sql.query("last_span_number")).fetchall()
            return 0 if last is None else int(last)
        return None

    def _counted(self, selection: _Selection, window: _ExportWindow, most: int) -> list[_ExportWindow]:
        if window.first_ns < 0 <= window.last_ns:  # a difference across 0 could overflow BIGINT
            return [replace(window, last_ns=-1), replace(window, first_ns=0)]
        in_time = window.last_ns > window.first_ns
        first, last = (window.first_ns, window.last_ns) if in_time else (window.first_seq, window.last_seq)
        step = 1 + (last - first) // most
        select = sql.query("span_stretches").replace("$axis", "epoch_ns(start_time)" if in_time else "seq")
        with self._database.cursor() as cursor:
            counts = cursor.execute(select, _named(selection, window) | {"start": first, "step": step}).fetchall()
        windows = [
            replace(window, first_seq=first_seq, last_seq=last_seq, rows=rows)
            for _, rows, first_seq, last_seq in counts
        ]
        if not in_time:
            return windows
        starts = [first + number * step for number, *_ in counts]
        return [
            replace(one, first_ns=at, last_ns=min(at + step - 1, last)) for one, at in zip(windows, starts, strict=True)
        ]


def _joined(window: _ExportWindow, later: _ExportWindow) -> _ExportWindow:
    return _ExportWindow(
        first_ns=window.first_ns,
        last_ns=later.last_ns,
        first_seq=min(window.first_seq, later.first_seq),
        last_seq=max(window.last_seq, later.last_seq),
        rows=window.rows + later.rows,
    )


def _named(selection: _Selection, window: _ExportWindow) -> dict[str, object]:
    bounds = asdict(window)
    del bounds["rows"]
    return asdict(selection) | bounds


def _open(cursor: duckdb.DuckDBPyConnection, export: _Export[_Item], window: _ExportWindow) -> pa.RecordBatchReader:
    return arrow_reader(cursor, BATCH_ROWS, export.select, _named(export.selection, window))


def _fetch(cursor: duckdb.DuckDBPyConnection, export: _Export[_Item], window: _ExportWindow) -> pa.Table | None:
    """Return the rows of a window, or None if they exceed `WINDOW_BYTES`. A single span is always returned."""
    batches, rows, nbytes = [], 0, 0
    reader = _open(cursor, export, window)
    try:
        for batch in reader:
            batches.append(batch)
            rows, nbytes = rows + batch.num_rows, nbytes + batch.nbytes
            if nbytes > WINDOW_BYTES and window.rows > 1:
                break
    finally:
        if rows:
            export.pace.note(rows, nbytes)
    is_whole = nbytes <= WINDOW_BYTES or window.rows == 1
    return pa.Table.from_batches(batches, schema=reader.schema).combine_chunks() if is_whole else None


def _rows(table: pa.Table) -> Iterator[pa.RecordBatch]:
    return (table.take(some).to_batches()[0] for some in _by_start(table))


def _spans(table: pa.Table) -> Iterator[list[Span]]:
    return (spans_of(table.take(some)) for some in _by_start(table))


def _by_start(table: pa.Table) -> list[pa.Array]:
    order = pc.sort_indices(table, sort_keys=[("start_time", "ascending")])  # stable
    return [order.slice(first, BATCH_ROWS) for first in range(0, len(order), BATCH_ROWS)]
