"""Log records as columns: those with the content of a span, which some instrumentations put only there."""

from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from collector.otlp import wire
from collector.otlp.elements import (
    Bodies,
    Elements,
    ElementTree,
    id_faults,
    parents,
    storable_instant,
    that_occur,
    tree_of,
)
from collector.otlp.values import NotColumnar, attribute_columns, hex_text, value_columns
from storage.ingest.batch import LOGS, SPANS, SpanBatch

KEPT_EVENTS = "gen_ai."
"""Prefix of the names of all events of OTel GenAI, whatever its version."""

CLAUDE_CODE = "claude_code."
CLAUDE_CODE_EVENTS = ("tool_result", "api_request", "assistant_response")
"""Events of Claude Code with data that its spans lack. Their bodies are these names after `claude_code.`."""

CODEX_EVENTS = ("codex.user_prompt", "codex.tool_result")
"""Events of Codex with data that its spans lack. Their `event_name` holds a place in the source of Codex."""

_EVENT_NAME = "event.name"  # the attribute that older SDKs put the name into, before records had a field for it
_IS_KEPT = f"the event name must start with {KEPT_EVENTS}, or be one that is kept of Claude Code or Codex"
_BODIES = pa.array([f"{CLAUDE_CODE}{name}" for name in CLAUDE_CODE_EVENTS])
_ATTRIBUTES = pa.array(CODEX_EVENTS)
_KEPT = pa.array([*_BODIES.to_pylist(), *CODEX_EVENTS])
_NO_SPANS = SPANS.empty_table()
_NO_NAME, _NO_TIME = pa.scalar(""), pa.scalar(0, pa.uint64())


def decode_logs(requests: Bodies) -> Elements:
    """Decode the supported log records of the requests; of others only ids and names.

    Raises:
        NotColumnar: the columnar decoder cannot take them.
    """
    tree = tree_of(wire.ELEMENTS, requests.bodies)
    try:
        records = wire.LOG_RECORD.decode(tree.elements)
    except ValueError as error:
        raise NotColumnar(str(error)) from error
    names = _event_names(records)
    faults = that_occur(_checks(records, names))
    valid = np.ones(len(names), dtype=np.bool_)
    for mask in faults.values():
        valid &= ~mask
    return Elements(
        batch=_batch(requests, tree, records.append_column("name", names), valid),
        request_of=tree.request_of,
        faults=faults,
        trace_ids=hex_text(records.column("trace_id")),
    )


def check_logs(messages: list[bytes]) -> None:
    """Decode serialised log records only to see whether that works.

    Raises:
        ValueError, NotColumnar: the records cannot be decoded as columns.
    """
    records = wire.LOG_RECORD.decode(messages)
    attribute_columns(records.column("attributes"))
    value_columns(records.column("body"))


def _event_names(records: pa.RecordBatch) -> pa.StringArray:
    """Return the name of each event; "" if it has none.

    The name is the body for events of Claude Code, the attribute `event.name` for those of Codex, else the field, else
    that attribute. If the attribute occurs repeatedly, the last one counts.
    """
    attributes, names = records.column("attributes"), records.column("event_name")
    pairs = attributes.values
    named = np.flatnonzero(pc.equal(pairs.field("key"), _EVENT_NAME).to_numpy(zero_copy_only=False))
    place = np.full(len(names), -1, dtype=np.int64)
    place[parents(attributes)[named]] = named
    texts = pairs.field("value").field("string_value").take(pa.array(place, mask=place < 0)).fill_null("")
    is_theirs = pc.or_(pc.equal(names, _NO_NAME), pc.is_in(texts, value_set=_ATTRIBUTES))
    names = pc.if_else(is_theirs, texts, names)
    bodies = records.column("body").field("string_value").fill_null("")
    return pc.if_else(pc.is_in(bodies, value_set=_BODIES), bodies, names)


def _checks(records: pa.RecordBatch, names: pa.StringArray) -> dict[str, pa.BooleanArray]:
    kept = pc.or_(pc.starts_with(names, KEPT_EVENTS), pc.is_in(names, value_set=_KEPT))
    ids = id_faults(records.column("trace_id"), records.column("span_id"))
    return {_IS_KEPT: pc.invert(kept)} | {reason: pc.and_(kept, mask) for reason, mask in ids.items()}


def _batch(requests: Bodies, tree: ElementTree, records: pa.RecordBatch, valid: npt.NDArray[np.bool_]) -> SpanBatch:
    mask, rows = pa.array(valid), np.flatnonzero(valid)
    resources, scopes = tree.resources, tree.scopes
    owners = {
        "tenant": pa.array(requests.tenants, pa.string()).take(pa.array(tree.request_of[rows])),
        "resource_id": resources.column("resource_id", tree.resource_of[rows]),
        "scope_id": scopes.column("scope_id", tree.scope_of[rows]),
        "received_at": pa.array(np.full(len(rows), requests.received_at_us)).cast(pa.timestamp("us")),
        "record_id": _record_ids(tree.elements.filter(mask)),
    }
    columns = owners | _columns(records.filter(mask))
    return SpanBatch(
        spans=_NO_SPANS,
        resources=resources.rows_of(tree.resource_of[rows]),
        scopes=scopes.rows_of(tree.scope_of[rows]),
        logs=pa.table([columns[name] for name in LOGS.names], schema=LOGS),
    )


def _columns(records: pa.RecordBatch) -> dict[str, pa.Array]:
    attributes, types = attribute_columns(records.column("attributes"))
    body, body_type = value_columns(records.column("body"))
    time, observed = records.column("time_unix_nano"), records.column("observed_time_unix_nano")
    as_is = ("severity_number", "severity_text", "dropped_attributes_count", "flags")
    return {name: records.column(name) for name in as_is} | {
        "trace_id": hex_text(records.column("trace_id")),
        "span_id": hex_text(records.column("span_id")),
        "time": storable_instant(time),
        "observed_time": storable_instant(observed),
        "logged_at": storable_instant(pc.if_else(pc.equal(time, _NO_TIME), observed, time)),
        "event_name": records.column("name"),
        "body": body,
        "body_type": body_type,
        "attributes": attributes,
        "attribute_types": types,
    }


def _record_ids(messages: pa.BinaryArray) -> pa.UInt64Array:
    digests = (blake2b(message.as_buffer(), digest_size=8).digest() for message in messages)
    return pa.array([int.from_bytes(digest, "little") for digest in digests], pa.uint64())
