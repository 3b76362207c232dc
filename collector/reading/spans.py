"""Reading of spans, a batch at a time, whatever they hold."""

import functools
import hashlib
import json
import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from collector.conventions.agent_logs import CALL_IDS, CallEnds
from collector.conventions.columnar.reader import SpanReader, row_of_span, rows_table
from collector.conventions.own_keys import OwnKeys
from collector.conventions.prices import with_costs
from collector.memory import collecting_later
from storage.ingest.batch import MEANINGS
from storage.query.rows import logs_of, spans_of
from storage.records import LogRecord, Span

log = logging.getLogger(__name__)

_KEY: Final = ("tenant", "trace_id", "span_id")
_NOTE_CHARS: Final = 1000


class ReadingCounts:
    """Counts of spans that were read one by one, or not at all, since the start, by reason. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: Counter[str] = Counter(dict.fromkeys(REASONS, 0))

    def add(self, spans: Mapping[str, int]) -> None:
        """Count some more."""
        with self._lock:
            self._spans.update(spans)

    @property
    def spans(self) -> Mapping[str, int]:
        """Return the counts so far; each reason has one."""
        with self._lock:
            return dict(self._spans)


REASONS: Final = ("log_records", "failed", "unreadable")
"""Log records belong to the span; its batch failed to be read in columns; the span failed to be read by itself."""


class ConventionsReader:
    """Reader of spans by the conventions. For one thread."""

    def __init__(self, own: OwnKeys, counts: ReadingCounts | None = None) -> None:
        self._own = own
        self._reader = SpanReader(own)
        self._counts = counts or ReadingCounts()
        self.edition = edition_of(own)
        self.call_ids = CALL_IDS

    def spans(self, spans: pa.Table, logs: pa.Table) -> pa.Table:
        """Return a row of `MEANINGS` for each span and the log records that belong to it; never raises."""
        with collecting_later():
            return with_costs(self._meanings_of_spans(spans, logs), self._own.prices)

    def _meanings_of_spans(self, spans: pa.Table, logs: pa.Table) -> pa.Table:
        """Read spans in columns, those with log records one by one. If that fails, read all without log records."""
        try:
            columns = self._reader.read(spans).columns
        except Exception:  # noqa: BLE001 - one bad span must not hide the whole batch
            log.exception("cannot read %d spans in columns; reading them one by one", spans.num_rows)
            self._reader = SpanReader(self._own)
            self._counts.add({"failed": spans.num_rows})
            return self._one_by_one(spans, {})
        return self._with_logs(columns, spans, logs) if logs.num_rows else columns

    def _with_logs(self, columns: pa.Table, spans: pa.Table, logs: pa.Table) -> pa.Table:
        """Re-read the spans that have log records one by one, and replace their rows in the columns."""
        of_span: dict[tuple[str, ...], list[LogRecord]] = defaultdict(list)
        records = logs_of(logs)
        for record in records:
            of_span[record.tenant, record.trace_id, record.span_id].append(record)
        ends = CallEnds(records)
        keys: list[tuple[str, str, str]] = list(zip(*(spans.column(name).to_pylist() for name in _KEY), strict=True))
        for row in _rows_of_calls(columns, ends.call_ids):
            of_span[keys[row]] += ends.beside(keys[row], columns.column("tool_call_id")[row].as_py())
        rows = [row for row, key in enumerate(keys) if of_span.get(key)]
        if not rows:
            return columns
        self._counts.add({"log_records": len(rows)})
        reread = self._one_by_one(spans.take(pa.array(rows)), of_span)
        mask = np.zeros(spans.num_rows, dtype=np.bool_)
        mask[rows] = True
        whole = [_over(columns.column(name), pa.array(mask), reread.column(name)) for name in MEANINGS.names]
        return pa.table(whole, schema=MEANINGS)

    def _one_by_one(self, spans: pa.Table, logs: Mapping[tuple[str, ...], Sequence[LogRecord]]) -> pa.Table:
        try:
            records = spans_of(spans)
        except Exception as error:  # noqa: BLE001 - whatever the values are, a span is stored
            log.exception("cannot split %d spans", spans.num_rows)
            self._counts.add({"unreadable": spans.num_rows})
            return rows_table([_unreadable(error)] * spans.num_rows)
        return rows_table(
            [self._row(span, logs.get((span.tenant, span.trace_id, span.span_id), ())) for span in records]
        )

    def _row(self, span: Span, logs: Sequence[LogRecord]) -> Mapping[str, Any]:
        try:
            return row_of_span(span, logs, self._own)
        except Exception as error:  # noqa: BLE001 - one span that cannot be read must not hide all others
            self._counts.add({"unreadable": 1})
            return _unreadable(error)


def _rows_of_calls(columns: pa.Table, call_ids: Collection[str]) -> list[int]:
    """Return the row numbers of tool spans whose call id is in `call_ids`."""
    if not call_ids:
        return []
    ids = pa.array(call_ids, pa.string())
    is_one = pc.and_(pc.equal(columns.column("span_type"), "tool"), pc.is_in(columns.column("tool_call_id"), ids))
    rows: list[int] = pc.indices_nonzero(is_one.combine_chunks()).to_pylist()
    return rows


def edition_of(own: OwnKeys) -> str:
    """Return a digest of all that decides how spans are read: the code, the operator's own keys, and prices."""
    parts = json.dumps([_code_digest(), own.projects, own.prices.digest], sort_keys=True)
    return hashlib.sha256(parts.encode()).hexdigest()[:16]


@functools.cache
def _code_digest() -> str:
    digest = hashlib.sha256()
    for file in _sources(resources.files("collector").joinpath("conventions")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _sources(folder: Traversable) -> list[Traversable]:
    sources: list[Traversable] = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            sources += _sources(entry)
        elif entry.name.endswith(".py"):
            sources.append(entry)
    return sources


def _over(column: pa.ChunkedArray, mask: pa.BooleanArray, values: pa.ChunkedArray) -> pa.Array:
    return pc.replace_with_mask(column.combine_chunks(), mask, values.combine_chunks())


def _unreadable(error: BaseException) -> Mapping[str, Any]:
    why = f"this span could not be read: {type(error).__name__}: {error}"
    return {"span_type": "other", "notes": why[:_NOTE_CHARS]}
