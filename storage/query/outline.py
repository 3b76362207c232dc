"""Outline of a trace of any size, and one of its spans in full."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.read_database import ReadDatabase
from storage.ingest.dimensions import resource_of
from storage.query.alarm import text_alarm
from storage.query.queries import MAX_LOGS, MAX_SPANS, summaries_of
from storage.query.rows import logs_of, spans_of
from storage.query.trace_criteria import asked_for, text_asked
from storage.records import LogRecord, Resource, Span, TraceSummary

_MOST_RESOURCES: Final = 20  # a guess: the services of a trace

_FIND_S: Final = 5.0
"""Limit of the time in which the texts of a trace are read. A guess: 10,000 spans of 100 kB take a second or two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineSpan:
    """A span, as a line of a tree shows it."""

    span_id: str
    parent_span_id: str | None
    name: str
    start_ns: int | None
    end_ns: int | None
    is_error: bool
    span_type: str
    is_read: bool  # True once the span's meaning was computed
    model: str | None
    tool_name: str | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    uncaptured: str | None = None  # the notes, if they say that content was not captured


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A trace's summary and its first spans by start time."""

    summary: TraceSummary
    spans: tuple[OutlineSpan, ...]
    bounds: Mapping[str, int]

    @property
    def commits(self) -> tuple[int, int]:
        """Return the first and the last commit with spans of the trace."""
        return self.bounds["first_batch"], self.bounds["last_batch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeSpan:
    """A span, and up to `MAX_LOGS` log records that belong to it."""

    span: Span
    logs: tuple[LogRecord, ...]


class Outlines:
    """Read-only queries about one trace. Thread-safe."""

    def __init__(self, database: ReadDatabase) -> None:
        self._database = database

    def of_trace(self, trace_id: str, *, tenant: str | None = "", max_spans: int = MAX_SPANS) -> Outline | None:
        """Return the outline of a trace, or None if it is not stored. Traces with equal ids: see `Queries.trace`."""
        with self._database.snapshot() as cursor:
            summaries = summaries_of(cursor, tenant, [trace_id])
            if not summaries:
                return None
            summary, bounds = min(summaries, key=lambda each: (each[0].tenant != (tenant or ""), each[0].tenant))
            key = {"tenant": summary.tenant, "trace_id": trace_id, "spans": max_spans}
            table = arrow_table(cursor, sql.query("outline_of_trace"), key | bounds)
            rows: list[dict[str, Any]] = table.to_pylist()
        lines = [{**row, "start_ns": row["start_ns"] or None, "end_ns": row["end_ns"] or None} for row in rows]
        return Outline(summary=summary, spans=tuple(OutlineSpan(**line) for line in lines), bounds=bounds)

    def resources(self, outline: Outline) -> list[Resource]:
        """Return the different resources of the trace's spans, in no order, at most `_MOST_RESOURCES`."""
        key = {"tenant": outline.summary.tenant, "trace_id": outline.summary.trace_id}
        bounds = {"spans": len(outline.spans), "resources": _MOST_RESOURCES} | dict(outline.bounds)
        with self._database.snapshot() as cursor:
            rows = cursor.execute(sql.query("resources_of_trace"), key | bounds).fetchall()
        return [resource_of(*row) for row in rows]

    def digests(self, outline: Outline) -> Mapping[str, tuple[int, int]]:
        """Return by span id the digests of input and output, by which the texts of two traces can be compared."""
        key = {"tenant": outline.summary.tenant, "trace_id": outline.summary.trace_id, "spans": len(outline.spans)}
        with self._database.snapshot() as cursor:
            rows = cursor.execute(sql.query("span_text_digests"), key | dict(outline.bounds)).fetchall()
        return {span_id: (input_digest, output_digest) for span_id, input_digest, output_digest in rows}

    def with_text(self, outline: Outline, text: str) -> set[str]:
        """Return the ids of the spans of the trace that have a text, as `TraceCriteria.text` finds them.

        Raises:
            Overloaded: the time limit was reached.
        """
        key = {"tenant": outline.summary.tenant, "trace_id": outline.summary.trace_id}
        texts = text_asked(text)
        select = asked_for(sql.query("spans_with_text"), {"of_trace", *texts})
        with self._database.snapshot() as cursor, text_alarm(self._database, cursor, _FIND_S):
            rows = cursor.execute(select, key | dict(outline.bounds) | texts).fetchall()
        return {span_id for (span_id,) in rows}

    def span(self, outline: Outline, span_id: str) -> WholeSpan | None:
        """Return one span of the trace, or None if there is none of that id."""
        key = {"tenant": outline.summary.tenant, "trace_id": outline.summary.trace_id, "span_id": span_id}
        with self._database.snapshot() as cursor:
            rows = arrow_table(cursor, sql.query("span_of_trace"), key | dict(outline.bounds))
            if not rows.num_rows:
                return None
            logs = logs_of(arrow_table(cursor, sql.query("logs_of_span"), key | {"logs": MAX_LOGS}))
        (span,) = spans_of(rows)
        return WholeSpan(span=span, logs=tuple(logs))
