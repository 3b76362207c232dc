"""Conversion of Arrow rows to records.

Conversion is done by column, because fetching rows with maps from DuckDB costs three times as much.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from storage.ingest.attributes import decode_attributes, decode_value
from storage.ingest.dimensions import RESOURCE_COLUMNS, SCOPE_COLUMNS, resource_of, scope_of
from storage.ingest.known_times import SENT
from storage.records import AttributeValue, Link, LogRecord, Span, SpanEvent

_Attributes = Mapping[str, AttributeValue]
_SPAN_AS_IS = (
    "tenant",
    "trace_id",
    "span_id",
    "parent_span_id",
    "name",
    "kind",
    "status_code",
    "status_message",
    "trace_state",
    "flags",
    "dropped_attributes_count",
    "dropped_events_count",
    "dropped_links_count",
    "project",
    "service_name",
)


def spans_of(table: pa.Table) -> list[Span]:
    """Return the spans of rows of the table `span`, in their order."""
    columns = {name: table.column(name).to_pylist() for name in _SPAN_AS_IS}
    columns["start_ns"] = _nanoseconds(table.column("start_time"))
    columns["end_ns"] = [end_ns or None for end_ns in _nanoseconds(table.column("end_time"))]
    columns["attributes"] = _attributes(table.column("attributes"), table.column("attribute_types"))
    columns["events"] = events_of(table.column("events"))
    columns["links"] = _lists(table.column("links"), _links)
    columns["sent_times"] = [tuple(times or ()) for times in table.column(SENT.name).to_pylist()]
    columns["resource"] = _each(table, RESOURCE_COLUMNS, resource_of)
    columns["scope"] = _each(table, SCOPE_COLUMNS, scope_of)
    return [Span(**fields) for fields in _rows(columns)]


def logs_of(table: pa.Table) -> list[LogRecord]:
    """Return the log records of rows of the table `log_record`, by time and then by arrival."""
    columns = {name: table.column(name).to_pylist() for name in ("tenant", "trace_id", "span_id", "event_name")}
    columns["time_ns"] = _nanoseconds(table.column("logged_at"))
    bodies = zip(table.column("body").to_pylist(), table.column("body_type").to_pylist(), strict=True)
    columns["body"] = [decode_value(text, letter) for text, letter in bodies]
    columns["attributes"] = _attributes(table.column("attributes"), table.column("attribute_types"))
    return sorted((LogRecord(**fields) for fields in _rows(columns)), key=lambda record: record.time_ns)


def _each(table: pa.Table, names: Sequence[str], record_of: Callable[..., Any]) -> list[Any]:
    return [record_of(*values) for values in zip(*(table.column(name).to_pylist() for name in names), strict=True)]


def _rows(columns: Mapping[str, list[Any]]) -> Iterable[dict[str, Any]]:
    names = tuple(columns)
    return (dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True))


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _nanoseconds(column: pa.ChunkedArray | pa.Array) -> list[int]:
    numbers: list[int] = column.cast(pa.int64()).to_pylist()
    return numbers


def _attributes(maps: pa.ChunkedArray | pa.Array, letters: pa.ChunkedArray | pa.Array) -> list[_Attributes]:
    whole = _whole(maps)
    bounds = whole.offsets.to_pylist()
    keys, texts = whole.keys.to_pylist(), whole.items.to_pylist()
    return [
        decode_attributes(dict(zip(keys[start:stop], texts[start:stop], strict=True)), types)
        for start, stop, types in zip(bounds, bounds[1:], letters.to_pylist(), strict=False)
    ]


def events_of(lists: pa.ChunkedArray | pa.Array) -> list[tuple[SpanEvent, ...]]:
    """Return the events of each span."""
    return _lists(lists, _events)


def _lists(column: pa.ChunkedArray | pa.Array, decode: Any) -> list[tuple[Any, ...]]:  # noqa: ANN401 - one of the two below
    whole = _whole(column)
    items = decode(whole.values)
    bounds = whole.offsets.to_pylist()
    return [tuple(items[start:stop]) for start, stop in itertools.pairwise(bounds)]


def _events(structs: pa.StructArray) -> list[SpanEvent]:
    columns = {
        "time_ns": _nanoseconds(structs.field("time")),
        "name": structs.field("name").to_pylist(),
        "attributes": _attributes(structs.field("attributes"), structs.field("attribute_types")),
        "dropped_attributes_count": structs.field("dropped_attributes_count").to_pylist(),
    }
    return [SpanEvent(**fields) for fields in _rows(columns)]


def _links(structs: pa.StructArray) -> list[Link]:
    as_is = ("trace_id", "span_id", "trace_state", "dropped_attributes_count", "flags")
    columns = {name: structs.field(name).to_pylist() for name in as_is}
    columns["attributes"] = _attributes(structs.field("attributes"), structs.field("attribute_types"))
    return [Link(**fields) for fields in _rows(columns)]
