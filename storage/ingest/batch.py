"""The columns in which spans and log records travel from the decoder through the spool into DuckDB.

One `SpanBatch` holds the spans and log records of one decoded group and the resources and scopes that
they name, so that a batch can be stored by itself, in any order, after any restart.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pyarrow as pa

ATTRIBUTES = pa.map_(pa.string(), pa.string())
"""Attribute values as text; a second column holds one letter of `TYPE_LETTERS` for each value."""

TYPE_LETTERS = {
    "s": "string, as it came",
    "b": "bool: true or false",
    "i": "int: decimal",
    "d": "double: shortest text that reads back equal; nan, inf, -inf",
    "x": "bytes: lower-case hex",
    "a": "array: JSON (doubles always with a point or an exponent)",
    "m": "map: JSON object, in the order that came, duplicate keys kept",
    "v": "array or map that JSON cannot carry (bytes, NaN, infinity inside): OTLP/JSON AnyValue",
    "n": "nothing set: the value is NULL",
}

_ATTRIBUTE_FIELDS = [
    pa.field("attributes", ATTRIBUTES),
    pa.field("attribute_types", pa.string()),
    pa.field("dropped_attributes_count", pa.uint32()),
]

EVENT = pa.struct([pa.field("time", pa.timestamp("ns")), pa.field("name", pa.string()), *_ATTRIBUTE_FIELDS])

LINK = pa.struct(
    [
        pa.field("trace_id", pa.string()),
        pa.field("span_id", pa.string()),
        pa.field("trace_state", pa.string()),
        *_ATTRIBUTE_FIELDS,
        pa.field("flags", pa.uint32()),
    ]
)

ENTITY_REF = pa.struct(
    [
        pa.field("schema_url", pa.string()),
        pa.field("type", pa.string()),
        pa.field("id_keys", pa.list_(pa.string())),
        pa.field("description_keys", pa.list_(pa.string())),
    ]
)

SPANS = pa.schema(
    [
        pa.field("tenant", pa.string()),
        pa.field("trace_id", pa.string()),
        pa.field("span_id", pa.string()),
        pa.field("parent_span_id", pa.string()),
        pa.field("trace_state", pa.string()),
        pa.field("flags", pa.uint32()),
        pa.field("name", pa.string()),
        pa.field("kind", pa.int32()),
        pa.field("start_time", pa.timestamp("ns")),
        pa.field("end_time", pa.timestamp("ns")),
        *_ATTRIBUTE_FIELDS,
        pa.field("events", pa.list_(EVENT)),
        pa.field("dropped_events_count", pa.uint32()),
        pa.field("links", pa.list_(LINK)),
        pa.field("dropped_links_count", pa.uint32()),
        pa.field("status_code", pa.int32()),
        pa.field("status_message", pa.string()),
        pa.field("project", pa.string()),
        pa.field("service_name", pa.string()),
        pa.field("resource_id", pa.uint64()),
        pa.field("scope_id", pa.uint64()),
        pa.field("received_at", pa.timestamp("us")),
    ]
)

MEANINGS = pa.schema(
    [
        pa.field("span_type", pa.string()),
        pa.field("dialect", pa.string()),
        pa.field("input", pa.string()),
        pa.field("output", pa.string()),
        pa.field("input_messages", pa.string()),
        pa.field("input_messages_key", pa.string()),
        pa.field("output_messages", pa.string()),
        pa.field("output_messages_key", pa.string()),
        pa.field("tool_name", pa.string()),
        pa.field("tool_call_id", pa.string()),
        pa.field("tool_arguments", pa.string()),
        pa.field("tool_arguments_key", pa.string()),
        pa.field("tool_result", pa.string()),
        pa.field("tool_result_key", pa.string()),
        pa.field("tool_result_is_text", pa.bool_()),  # True: a text, stored as it is; NULL: stored as JSON
        pa.field("tool_definitions", pa.string()),
        pa.field("model", pa.string()),
        pa.field("provider", pa.string()),
        pa.field("response_id", pa.string()),
        pa.field("input_tokens", pa.int64()),
        pa.field("output_tokens", pa.int64()),
        pa.field("cached_tokens", pa.int64()),
        pa.field("reasoning_tokens", pa.int64()),
        pa.field("finish_reason", pa.string()),
        pa.field("cost_usd", pa.float64()),
        pa.field("cost_source", pa.string()),  # the prices it was computed with; NULL if the span has the cost
        pa.field("session_id", pa.string()),
        pa.field("user_id", pa.string()),
        pa.field("run_id", pa.string()),
        pa.field("item_key", pa.string()),
        pa.field("error", pa.string()),
        pa.field("error_type", pa.string()),
        pa.field("notes", pa.string()),
        pa.field(
            "output_is_answer", pa.bool_()
        ),  # True: `output` is the last text of the output messages; NULL: it is another text; False: they have no text
        pa.field("pending", pa.bool_()),  # announces a span that is sent again when it has ended
    ]
)
KEYED = ("input_messages", "output_messages", "tool_arguments", "tool_result")
"""The meanings of spans with a column `…_key`. A text that equals an attribute is not stored again: the column names
the attribute. Messages, arguments, definitions, and results that are not text, are JSON."""

TRACES = pa.schema(
    [
        pa.field("tenant", pa.string()),
        pa.field("trace_id", pa.string()),
        pa.field("start_time", pa.timestamp("ns")),
        pa.field("input", pa.string()),
        pa.field("output", pa.string()),
        pa.field("final_response", pa.string()),
        pa.field("finish_reason", pa.string()),
        pa.field("session_id", pa.string()),
        pa.field("user_id", pa.string()),
        pa.field("input_tokens", pa.int64()),
        pa.field("output_tokens", pa.int64()),
        pa.field("cost_usd", pa.float64()),
        pa.field("tool_call_count", pa.int32()),
    ]
)
"""Columns of the meaning of traces."""

TOOL_CALLS = pa.schema(
    [
        pa.field("tenant", pa.string()),
        pa.field("trace_id", pa.string()),
        pa.field("span_id", pa.string()),
        pa.field("ordinal", pa.int32()),
        pa.field("call_id", pa.string()),
        pa.field("name", pa.string()),
        pa.field("arguments", pa.string()),
        pa.field("result", pa.string()),
        pa.field("is_error", pa.bool_()),
        pa.field("error", pa.string()),
        pa.field("start_time", pa.timestamp("ns")),
        pa.field("end_time", pa.timestamp("ns")),
        pa.field("call_key", pa.uint64()),  # matches calls without a result to results that are in other traces
        pa.field("is_sent", pa.bool_()),  # True: not a call, but a result in this trace of another trace's call
    ]
)
"""The calls of tools in traces, each once, and the results of calls of other traces."""

LOGS = pa.schema(
    [
        pa.field("tenant", pa.string()),
        pa.field("trace_id", pa.string()),
        pa.field("span_id", pa.string()),
        pa.field("time", pa.timestamp("ns")),
        pa.field("observed_time", pa.timestamp("ns")),
        pa.field("logged_at", pa.timestamp("ns")),
        pa.field("event_name", pa.string()),
        pa.field("severity_number", pa.int32()),
        pa.field("severity_text", pa.string()),
        pa.field("body", pa.string()),
        pa.field("body_type", pa.string()),
        *_ATTRIBUTE_FIELDS,
        pa.field("flags", pa.uint32()),
        pa.field("resource_id", pa.uint64()),
        pa.field("scope_id", pa.uint64()),
        pa.field("record_id", pa.uint64()),
        pa.field("received_at", pa.timestamp("us")),
    ]
)

RESOURCES = pa.schema(
    [
        pa.field("resource_id", pa.uint64()),
        *_ATTRIBUTE_FIELDS,
        pa.field("entity_refs", pa.list_(ENTITY_REF)),
        pa.field("schema_url", pa.string()),
    ]
)

SCOPES = pa.schema(
    [
        pa.field("scope_id", pa.uint64()),
        pa.field("name", pa.string()),
        pa.field("version", pa.string()),
        *_ATTRIBUTE_FIELDS,
        pa.field("schema_url", pa.string()),
    ]
)

_LENGTHS = struct.Struct("<QQQ")
_LEAST_ROW_BYTES = 32  # least size of a streamed span; a guess: an almost empty one takes 185
_NO_LOGS = LOGS.empty_table()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanBatch:
    """Spans, log records, and the resources and scopes that they name, each a table of the schema above."""

    spans: pa.Table
    resources: pa.Table
    scopes: pa.Table
    logs: pa.Table = field(default_factory=lambda: _NO_LOGS)

    @property
    def num_rows(self) -> int:
        """Return the number of rows to store: the spans, and after them the log records."""
        return int(self.spans.num_rows + self.logs.num_rows)

    @property
    def nbytes(self) -> int:
        """Return the bytes of memory that the batch holds."""
        spans = int(self.spans.nbytes + self.resources.nbytes + self.scopes.nbytes)
        return spans + int(self.logs.nbytes) if self.logs.num_rows else spans

    def slice(self, start: int, length: int) -> "SpanBatch":
        """Return some of the rows, with all resources and scopes."""
        spans = self.spans.slice(start, length)
        logs = self.logs
        if logs.num_rows:
            logs = logs.slice(max(start - self.spans.num_rows, 0), length - spans.num_rows)
        return replace(self, spans=spans, logs=logs)

    def to_buffers(self) -> list[pa.Buffer | bytes]:
        """Return the batch as buffers that, joined, `from_buffer` reads back.

        The lengths of three Arrow IPC streams come first, then these streams: spans, resources, scopes. A fourth
        stream, with the log records if there are any, takes the rest.

        """
        streams = [ipc_stream(table) for table in (self.spans, self.resources, self.scopes)]
        lengths = _LENGTHS.pack(*(stream.size for stream in streams))
        return [lengths, *streams, ipc_stream(self.logs)] if self.logs.num_rows else [lengths, *streams]

    @classmethod
    def from_buffer(cls, data: pa.Buffer) -> "SpanBatch":
        """Read what `to_buffers` wrote, also by an older version: missing columns become NULL.

        Raises:
            pa.ArrowException, OSError, struct.error: the bytes are not such a batch.
        """
        streams, offset = [], _LENGTHS.size
        for size in _LENGTHS.unpack(data.slice(0, _LENGTHS.size).to_pybytes()):
            streams.append(data.slice(offset, size))
            offset += size
        rest = [data.slice(offset)] if offset < data.size else []
        return cls.from_streams([*streams, *rest])

    @staticmethod
    def count_rows(data: pa.Buffer) -> int | None:
        """Count the spans and log records of what `to_buffers` wrote, although its values may be damaged.

        Return None if the damage hides their number.
        """
        try:
            sizes = _LENGTHS.unpack(data.slice(0, _LENGTHS.size).to_pybytes())
            streams = [data.slice(_LENGTHS.size, sizes[0]), data.slice(_LENGTHS.size + sum(sizes))]
            rows = sum(batch.num_rows for each in streams if each.size for batch in pa.ipc.open_stream(each))
        except (pa.ArrowException, OSError, struct.error, ValueError, IndexError, OverflowError):
            return None
        return rows if 0 < rows <= data.size // _LEAST_ROW_BYTES else None

    @classmethod
    def from_streams(cls, streams: Iterable[pa.Buffer]) -> "SpanBatch":
        """Make a batch from its streams, one by one, without copying: it holds these buffers and nothing else."""
        tables = [
            _conform(pa.ipc.open_stream(stream).read_all(), schema)
            for stream, schema in zip(streams, (SPANS, RESOURCES, SCOPES, LOGS), strict=False)
        ]
        spans, resources, scopes, *logs = tables
        return cls(spans=spans, resources=resources, scopes=scopes, logs=logs[0] if logs else _NO_LOGS)


def concatenate(batches: list[SpanBatch]) -> SpanBatch:
    """Return one batch of all rows, in order.

    The spans are in one piece: in many, DuckDB makes many small row groups of them (twice the disk, measured).

    """
    if not batches:
        return SpanBatch(spans=SPANS.empty_table(), resources=RESOURCES.empty_table(), scopes=SCOPES.empty_table())
    logs = [batch.logs for batch in batches if batch.logs.num_rows]
    return SpanBatch(
        spans=pa.concat_tables([batch.spans for batch in batches]).combine_chunks(),
        resources=pa.concat_tables([batch.resources for batch in batches]),
        scopes=pa.concat_tables([batch.scopes for batch in batches]),
        logs=pa.concat_tables(logs).combine_chunks() if logs else _NO_LOGS,
    )


def ipc_stream(table: pa.Table) -> pa.Buffer:
    """Serialize the table into a buffer of exactly its size: a growing one is up to twice as large."""
    size = pa.MockOutputStream()
    _write(table, size)
    buffer = pa.allocate_buffer(size.size())
    _write(table, pa.FixedSizeBufferWriter(buffer))
    return buffer


def _write(table: pa.Table, sink: pa.NativeFile) -> None:
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def _conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    if table.schema.equals(schema):
        return table
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
