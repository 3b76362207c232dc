"""Spans as columns, those of many requests at once: the cost of a decode is mostly per call, not per span."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from collector.otlp import wire
from collector.otlp.elements import SPAN_BYTES, SPAN_LENGTH, Bodies, Elements, id_faults, instant, that_occur, tree_of
from collector.otlp.values import attribute_columns, hex_text
from storage.ingest.batch import EVENT, LINK, SPANS, SpanBatch

_NO_LENGTH = pa.scalar(0, pa.int32())
_NO_PARENT = pa.array(["", bytes(SPAN_BYTES).hex()])
_NO_EVENTS, _NO_LINKS = pa.array([], EVENT), pa.array([], LINK)
_NO_TEXT = pa.scalar(None, pa.string())


def decode_spans(requests: Bodies) -> Elements:
    """Decode the spans of the requests.

    Raises:
        NotColumnar: the columnar decoder cannot take them.
    """
    tree = tree_of(wire.TRACES, requests.bodies)
    resources, scopes = tree.resources, tree.scopes
    owners = {
        "tenant": pa.array(requests.tenants, pa.string()).take(pa.array(tree.request_of)),
        "resource_id": resources.column("resource_id", tree.resource_of),
        "project": resources.column("project", tree.resource_of),
        "service_name": resources.column("service_name", tree.resource_of),
        "scope_id": scopes.column("scope_id", tree.scope_of),
        "received_at": pa.array(np.full(len(tree.elements), requests.received_at_us)).cast(pa.timestamp("us")),
    }
    columns = owners | _span_columns(tree.elements)
    spans = pa.table([columns[name] for name in SPANS.names], schema=SPANS)
    faults = that_occur(_checks(tree.elements))
    resource_of, scope_of = tree.resource_of, tree.scope_of
    if faults:
        valid = ~np.logical_or.reduce(list(faults.values()))
        spans, resource_of, scope_of = spans.filter(pa.array(valid)), resource_of[valid], scope_of[valid]
    batch = SpanBatch(
        spans=spans,
        resources=resources.rows_of(resource_of),
        scopes=scopes.rows_of(scope_of),
    )
    return Elements(batch=batch, request_of=tree.request_of, faults=faults, trace_ids=columns["trace_id"])


def check_spans(messages: list[bytes]) -> None:
    """Decode serialised spans only to see whether that works.

    Raises:
        ValueError, NotColumnar: the spans cannot be decoded as columns.
    """
    spans = wire.SPAN.decode(messages)
    attribute_columns(spans.column("attributes"))
    for name in ("events", "links"):
        attribute_columns(spans.column(name).values.field("attributes"))


def _span_columns(spans: pa.StructArray) -> dict[str, pa.Array]:
    attributes, types = attribute_columns(spans.field("attributes"))
    status = spans.field("status")
    parent = hex_text(spans.field("parent_span_id"))
    as_is = (
        "trace_state",
        "flags",
        "name",
        "kind",
        "dropped_attributes_count",
        "dropped_events_count",
        "dropped_links_count",
    )
    return {name: spans.field(name) for name in as_is} | {
        "trace_id": hex_text(spans.field("trace_id")),
        "span_id": hex_text(spans.field("span_id")),
        "parent_span_id": pc.if_else(pc.is_in(parent, value_set=_NO_PARENT), _NO_TEXT, parent),
        "start_time": instant(spans.field("start_time_unix_nano")),
        "end_time": instant(spans.field("end_time_unix_nano")),
        "attributes": attributes,
        "attribute_types": types,
        "events": _events(spans.field("events")),
        "links": _links(spans.field("links")),
        "status_code": pc.struct_field(status, "code").fill_null(0),
        "status_message": pc.struct_field(status, "message").fill_null(""),
    }


def _events(lists: pa.ListArray) -> pa.ListArray:
    events = lists.values
    if not len(events):
        return pa.ListArray.from_arrays(lists.offsets, _NO_EVENTS)
    attributes, types = attribute_columns(events.field("attributes"))
    columns = {"time": instant(events.field("time_unix_nano")), "attributes": attributes, "attribute_types": types}
    return _relist(lists, events, columns, EVENT)


def _links(lists: pa.ListArray) -> pa.ListArray:
    links = lists.values
    if not len(links):
        return pa.ListArray.from_arrays(lists.offsets, _NO_LINKS)
    attributes, types = attribute_columns(links.field("attributes"))
    columns = {
        "trace_id": hex_text(links.field("trace_id")),
        "span_id": hex_text(links.field("span_id")),
        "attributes": attributes,
        "attribute_types": types,
    }
    return _relist(lists, links, columns, LINK)


def _relist(
    lists: pa.ListArray, items: pa.StructArray, columns: dict[str, pa.Array], kind: pa.StructType
) -> pa.ListArray:
    fields = [columns[field.name] if field.name in columns else items.field(field.name) for field in kind]
    return pa.ListArray.from_arrays(lists.offsets, pa.StructArray.from_arrays(fields, fields=list(kind)))


def _checks(spans: pa.StructArray) -> dict[str, pa.BooleanArray]:
    """Return a mask of the invalid spans for each reason."""
    parent_length = pc.binary_length(spans.field("parent_span_id"))
    return id_faults(spans.field("trace_id"), spans.field("span_id")) | {
        "parent_span_id must be 8 bytes or empty": pc.and_(
            pc.not_equal(parent_length, SPAN_LENGTH), pc.not_equal(parent_length, _NO_LENGTH)
        ),
    }
