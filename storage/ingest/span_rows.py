"""Meaning of spans as columns of their rows, read from the spans and from the log records that belong to them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage import sql
from storage.engine.arrow import arrow_reader, arrow_table
from storage.ingest import presence
from storage.ingest.batch import MEANINGS
from storage.ingest.meaning import Reads
from storage.ingest.windows import TraceKey, bounds_of, extents_of

_SPAN_DIGITS: Final = 16
_SCORE: Final = "gen_ai.evaluation.result"  # log records of this event do not change the meaning of a span
_KNOWN_LOGS: Final = 1 << 21
"""Number of the latest log records whose span may come in a later commit, 8 bytes each. A guess at how many arrive
while a span lasts. Records of commits before these are not searched, so that a search does not get slower as the table
grows: among three million records, finding those of one span takes 25 ms of CPU with this bound and 80 without, and
those of 200 spans 35 and 210."""

_READ: Final = [
    "tenant", "trace_id", "span_id", "event_name", "logged_at", "body", "body_type", "attributes", "attribute_types"
]  # fmt: skip
"""The columns of a log record that are read."""

_CALL_EVENTS: Final = pa.schema([("event_name", pa.string()), ("call_key", pa.string())])
_NO_CALLS: Final = pa.schema([(name, pa.string()) for name in ("tenant", "trace_id", "tool_call_id")]).empty_table()

_EVERY_ROW: Final = 2**63 - 1  # beyond the number of any log record
_AT_ONCE: Final = 256  # spans that are read again together; a guess: some megabytes of large ones


class SpanRows:
    """Meanings of new spans, and of stored spans that get log records later. For the writer's thread."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._logged = presence.RecentKeys(capacity=_KNOWN_LOGS)
        self._events = pa.array(reads.call_ids, pa.string())
        self._has_ends_of_calls = False
        self._edition: int | None = None

    def start(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Read the latest keys of log records back. For a cursor within a transaction."""
        if self._reads.edition:
            cursor.execute(sql.query("use_edition"), {"digest": self._reads.edition})
        self._edition = edition_number(cursor, self._reads.edition)
        most = self._logged.capacity // 2  # a record has two keys at most
        records, since = 0, 0
        for keys in arrow_reader(cursor, 1 << 18, sql.query("latest_log_keys"), {"rows": most}):
            self._remember(pa.Table.from_batches([keys]), 0)
            records, since = records + keys.num_rows, keys.column("batch")[-1].as_py()
        self._logged.start(since if records == most else 0)

    def complete(
        self, cursor: duckdb.DuckDBPyConnection, spans: pa.Table, new_logs: pa.Table, *, batch: int
    ) -> pa.Table:
        """Return the rows of a commit with their meanings, by log records of this commit and earlier ones."""
        logs = self._logs_of(cursor, spans, _readable(new_logs), batch)
        return _with_meanings(self._reads, self._edition, spans, logs)

    def note(self, new_logs: pa.Table, commit: int) -> None:
        """Remember log records that were committed."""
        telling = _readable(new_logs)
        if telling.num_rows:
            self._remember(telling, commit)

    def _remember(self, logs: pa.Table, commit: int) -> None:
        """Remember the keys of spans that have log records, and of traces with a record of the end of a call."""
        self._logged.add(presence.key_hashes(logs), commit)
        ends = logs.filter(pc.is_in(logs.column("event_name"), value_set=self._events))
        if ends.num_rows:
            self._has_ends_of_calls = True
            self._logged.add(np.unique(_trace_hashes(ends)), commit)

    def complete_again(
        self, cursor: duckdb.DuckDBPyConnection, new_logs: pa.Table, *, before: int
    ) -> Mapping[TraceKey, int]:
        """Update the meanings of spans below number `before` that got log records; count the changed spans by trace."""
        telling = _readable(new_logs)
        if not telling.num_rows:
            return {}
        extents = extents_of(cursor, {TraceKey(*key) for key in _pairs(telling)})
        counts: dict[TraceKey, int] = {}
        if not extents:
            return counts
        cursor.register("wanted_spans", telling.select(presence.KEY))
        cursor.register("wanted_calls", _calls_in(telling, self._reads.call_ids))
        numbers = arrow_table(cursor, sql.query("numbers_of_spans"), bounds_of(extents.values()) | {"before": before})
        for at in range(0, numbers.num_rows, _AT_ONCE):
            for key in self._read_again(cursor, numbers.slice(at, _AT_ONCE)):
                counts[key] = counts.get(key, 0) + 1
        return counts

    def _read_again(self, cursor: duckdb.DuckDBPyConnection, numbers: pa.Table) -> Iterator[TraceKey]:
        cursor.register("wanted_spans", numbers)
        bounds = pc.min_max(numbers.column("seq"))
        spans = arrow_table(
            cursor,
            sql.query("spans_by_seq"),
            {"first": bounds["min"].as_py(), "last": bounds["max"].as_py(), "rows": numbers.num_rows},
        )
        if not spans.num_rows:
            return
        replace_meanings(cursor, read_again(cursor, self._reads, self._edition, spans))
        yield from (TraceKey(*key) for key in _pairs(spans))

    def _logs_of(self, cursor: duckdb.DuckDBPyConnection, spans: pa.Table, new_logs: pa.Table, batch: int) -> pa.Table:
        """Return the log records that belong to spans: new ones of this commit, and stored ones."""
        if self._logged.is_empty:
            return new_logs
        suspects = self._logged.suspects(presence.key_hashes(spans))
        if self._has_ends_of_calls:
            suspects |= self._logged.suspects(_trace_hashes(spans))
        if not suspects.any():
            return new_logs
        since = self._logged.since - 1  # the filter may have some keys of the commit before
        stored = _stored_logs(cursor, self._reads, spans.filter(pa.array(suspects)), since=since, before=batch)
        read = new_logs.select(_READ)
        return pa.concat_tables([stored.cast(read.schema), read])


def replace_meanings(cursor: duckdb.DuckDBPyConnection, rows: pa.Table) -> None:
    """Replace the meanings of stored spans, by their numbers."""
    cursor.register("incoming_meanings", rows.select(["seq", *MEANINGS.names, "edition"]))
    bounds = pc.min_max(rows.column("seq"))
    cursor.execute(sql.query("replace_meanings"), {"first": bounds["min"].as_py(), "last": bounds["max"].as_py()})


def read_again(cursor: duckdb.DuckDBPyConnection, reads: Reads, edition: int | None, spans: pa.Table) -> pa.Table:
    """Return stored rows of spans with their meanings by an edition and all their log records."""
    bare = spans.drop_columns([*MEANINGS.names, "edition"])
    return _with_meanings(reads, edition, bare, _stored_logs(cursor, reads, spans))


def edition_number(cursor: duckdb.DuckDBPyConnection, digest: str) -> int | None:
    """Return the number of an edition in this file, or None."""
    rows = cursor.execute(sql.query("edition_number"), {"digest": digest}).fetchall()
    return int(rows[0][0]) if rows else None


def _with_meanings(reads: Reads, edition: int | None, spans: pa.Table, logs: pa.Table) -> pa.Table:
    meanings = reads.spans(spans, logs)
    for name in meanings.column_names:
        spans = spans.append_column(name, meanings.column(name))
    return spans.append_column("edition", pa.repeat(pa.scalar(edition, pa.int32()), spans.num_rows))


def _stored_logs(
    cursor: duckdb.DuckDBPyConnection, reads: Reads, spans: pa.Table, *, since: int = 0, before: int = _EVERY_ROW
) -> pa.Table:
    cursor.register("logged_spans", spans.select([*presence.KEY, "attributes"]))
    events, keys = list(reads.call_ids), list(reads.call_ids.values())
    cursor.register("call_events", pa.table({"event_name": events, "call_key": keys}, schema=_CALL_EVENTS))
    return arrow_table(cursor, sql.query("logs_of_spans"), {"since": since, "before": before})


def _calls_in(logs: pa.Table, keys: Mapping[str, str]) -> pa.Table:
    """Return the tool calls whose end is reported by log records."""
    tables = []
    for event, key in keys.items():
        ends = logs.filter(pc.equal(logs.column("event_name"), event))
        ids = pc.map_lookup(ends.column("attributes"), pa.scalar(key), "first")
        tables.append(ends.select(["tenant", "trace_id"]).append_column("tool_call_id", ids))
    return pa.concat_tables(tables) if tables else _NO_CALLS


def _trace_hashes(rows: pa.Table) -> presence.Hashes:
    # A trace is hashed as the key of a span with an id that no span has.
    no_span = pa.repeat(pa.scalar("0" * _SPAN_DIGITS), rows.num_rows)
    return presence.key_hashes(rows.select(["tenant", "trace_id"]).append_column("span_id", no_span))


def _readable(logs: pa.Table) -> pa.Table:
    if not logs.num_rows:
        return logs
    is_whole = pc.equal(pc.utf8_length(logs.column("span_id")), _SPAN_DIGITS)
    return logs.filter(pc.and_(is_whole, pc.not_equal(logs.column("event_name"), _SCORE)))


def _pairs(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(rows.column("tenant").to_pylist(), rows.column("trace_id").to_pylist(), strict=True)
