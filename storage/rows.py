"""Rows of the tables, as Arrow, to records.

Column by column, because a row of DuckDB's own, with its maps, costs three times as much.
"""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from storage.attributes import decode_attributes, decode_value
from storage.records import AttributeValue, EntityRef, Event, Link, LogRecord, Resource, Scope, Span

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


def spans_of(table: pa.Table, resources: Mapping[int, Resource], scopes: Mapping[int, Scope]) -> list[Span]:
    """The spans of rows of the table `span`, in their order, with the resources and scopes that they name."""
    columns = {name: table.column(name).to_pylist() for name in _SPAN_AS_IS}
    columns["start_ns"] = _nanoseconds(table.column("start_time"))
    columns["end_ns"] = [end_ns or None for end_ns in _nanoseconds(table.column("end_time"))]
    columns["attributes"] = _attributes(table.column("attributes"), table.column("attribute_types"))
    columns["events"] = _lists(table.column("events"), _events)
    columns["links"] = _lists(table.column("links"), _links)
    columns["resource"] = [resources[number] for number in table.column("resource_id").to_pylist()]
    columns["scope"] = [scopes[number] for number in table.column("scope_id").to_pylist()]
    return [Span(**fields) for fields in _rows(columns)]


def resources_of(table: pa.Table) -> dict[int, Resource]:
    """The resources of rows of the table `resource`, by their ids."""
    columns = {
        "attributes": _attributes(table.column("attributes"), table.column("attribute_types")),
        "dropped_attributes_count": table.column("dropped_attributes_count").to_pylist(),
        "schema_url": table.column("schema_url").to_pylist(),
        "entity_refs": [tuple(map(_entity_ref, refs or ())) for refs in table.column("entity_refs").to_pylist()],
    }
    return dict(
        zip(table.column("resource_id").to_pylist(), (Resource(**fields) for fields in _rows(columns)), strict=True)
    )


def scopes_of(table: pa.Table) -> dict[int, Scope]:
    """The scopes of rows of the table `scope`, by their ids."""
    as_is = ("name", "version", "dropped_attributes_count", "schema_url")
    columns = {name: table.column(name).to_pylist() for name in as_is}
    columns["attributes"] = _attributes(table.column("attributes"), table.column("attribute_types"))
    return dict(zip(table.column("scope_id").to_pylist(), (Scope(**fields) for fields in _rows(columns)), strict=True))


def logs_of(table: pa.Table) -> list[LogRecord]:
    """The log records of rows of the table `log_record`, by time and then as they came."""
    columns = {name: table.column(name).to_pylist() for name in ("tenant", "trace_id", "span_id", "event_name")}
    columns["time_ns"] = _nanoseconds(table.column("logged_at"))
    bodies = zip(table.column("body").to_pylist(), table.column("body_type").to_pylist(), strict=True)
    columns["body"] = [decode_value(text, letter) for text, letter in bodies]
    columns["attributes"] = _attributes(table.column("attributes"), table.column("attribute_types"))
    return sorted((LogRecord(**fields) for fields in _rows(columns)), key=lambda record: record.time_ns)


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


def _lists(column: pa.ChunkedArray, decode: Any) -> list[tuple[Any, ...]]:  # noqa: ANN401 - one of the two below
    whole = _whole(column)
    items = decode(whole.values)
    bounds = whole.offsets.to_pylist()
    return [tuple(items[start:stop]) for start, stop in itertools.pairwise(bounds)]


def _events(structs: pa.StructArray) -> list[Event]:
    columns = {
        "time_ns": _nanoseconds(structs.field("time")),
        "name": structs.field("name").to_pylist(),
        "attributes": _attributes(structs.field("attributes"), structs.field("attribute_types")),
        "dropped_attributes_count": structs.field("dropped_attributes_count").to_pylist(),
    }
    return [Event(**fields) for fields in _rows(columns)]


def _links(structs: pa.StructArray) -> list[Link]:
    as_is = ("trace_id", "span_id", "trace_state", "dropped_attributes_count", "flags")
    columns = {name: structs.field(name).to_pylist() for name in as_is}
    columns["attributes"] = _attributes(structs.field("attributes"), structs.field("attribute_types"))
    return [Link(**fields) for fields in _rows(columns)]


def _entity_ref(ref: Mapping[str, Any]) -> EntityRef:
    return EntityRef(
        schema_url=ref["schema_url"],
        type=ref["type"],
        id_keys=tuple(ref["id_keys"]),
        description_keys=tuple(ref["description_keys"]),
    )
