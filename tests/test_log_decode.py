"""The decoder of log records: fields that are kept unchanged, and an answer to any bytes."""

import random
import time
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, LogsData, ResourceLogs, ScopeLogs
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from collector.otlp import json_request
from collector.otlp.decode import Decoded, Receipt, Request, decode
from collector.otlp.faults import Malformed
from collector.otlp.signals import LOGS as LOGS_SIGNAL
from storage.ingest.attributes import decode_attributes, decode_value
from storage.ingest.batch import LOGS, RESOURCES, SCOPES, SPANS
from tests.log_requests import (
    MESSAGE,
    a_log,
    a_log_export,
    all_records,
    decoded_logs,
    event_name_of,
    flat_logs,
    is_kept,
    log_requests,
    logs_as_json,
    some_logs,
)
from tests.plain_otlp import exact, plain, plain_attributes
from tests.storing import RECEIVED_AT_US, START_NS, an_export, span_id, trace_id
from tests.wire import in_field


def check(result: Decoded, requests: int) -> None:
    """Check invariants of every result: one outcome per request, and as many rows as were accepted."""
    assert len(result.outcomes) == requests
    accepted = sum(outcome.accepted for outcome in result.outcomes if isinstance(outcome, Receipt))
    batch = result.batch
    assert (batch.logs.num_rows, batch.spans.num_rows) == (accepted, 0)
    for table, schema in (
        (batch.logs, LOGS),
        (batch.spans, SPANS),
        (batch.resources, RESOURCES),
        (batch.scopes, SCOPES),
    ):
        assert table.schema.equals(schema)
        table.validate(full=True)
    for outcome in result.outcomes:
        assert isinstance(outcome, Receipt | Malformed)
        assert str(outcome) if isinstance(outcome, Malformed) else bool(outcome.rejected) == bool(outcome.message)


def receipt_of(request: bytes | ExportLogsServiceRequest) -> Receipt:
    """Return the receipt of a request."""
    result = decoded_logs(request)
    check(result, 1)
    (receipt,) = result.outcomes
    assert isinstance(receipt, Receipt), receipt
    return receipt


def rows_of(result: Decoded) -> list[object]:
    """Return the decoded records in a form that compares exactly."""
    resources = {row["resource_id"]: row for row in result.batch.resources.to_pylist(maps_as_pydicts="strict")}
    scopes = {row["scope_id"]: row for row in result.batch.scopes.to_pylist(maps_as_pydicts="strict")}
    rows = []
    for row in result.batch.logs.cast(LOGS_IN_NUMBERS).to_pylist(maps_as_pydicts="strict"):
        resource, scope = resources[row["resource_id"]], scopes[row["scope_id"]]
        rows.append(
            {
                **{name: row[name] for name in AS_IS},
                "body": decode_value(row["body"], row["body_type"]),
                "attributes": decode_attributes(row["attributes"], row["attribute_types"]),
                "resource": decode_attributes(resource["attributes"], resource["attribute_types"]),
                "scope": (scope["name"], scope["version"]),
                "urls": (resource["schema_url"], scope["schema_url"]),
            }
        )
    return [exact(row) for row in rows]


TIMES = ("time", "observed_time", "logged_at")
AS_IS = (
    *TIMES,
    "event_name",
    "severity_number",
    "severity_text",
    "dropped_attributes_count",
    "flags",
    "trace_id",
    "span_id",
)
LOGS_IN_NUMBERS = pa.schema([field.with_type(pa.int64()) if field.name in TIMES else field for field in LOGS])


def plain_rows(request: ExportLogsServiceRequest) -> list[object]:
    """Compute the rows that `rows_of` should return, with the ordinary protobuf classes."""
    return [exact(_plain_row(*each)) for each in flat_logs(request) if is_kept(each[2])]


def _plain_row(resource_logs: ResourceLogs, scope_logs: ScopeLogs, record: LogRecord) -> dict[str, object]:
    return {
        "time": record.time_unix_nano,
        "observed_time": record.observed_time_unix_nano,
        "logged_at": record.time_unix_nano or record.observed_time_unix_nano,
        "event_name": event_name_of(record),
        "severity_number": record.severity_number,
        "severity_text": record.severity_text,
        "dropped_attributes_count": record.dropped_attributes_count,
        "flags": record.flags,
        "trace_id": record.trace_id.hex(),
        "span_id": record.span_id.hex(),
        "body": plain(record.body),
        "attributes": plain_attributes(record.attributes),
        "resource": plain_attributes(resource_logs.resource.attributes),
        "scope": (scope_logs.scope.name, scope_logs.scope.version),
        "urls": (resource_logs.schema_url, scope_logs.schema_url),
    }


@given(st.lists(log_requests(all_records), min_size=1, max_size=3))
def test_the_columns_agree_with_a_plain_reading(exports: list[ExportLogsServiceRequest]) -> None:
    """Of every request exactly the records to keep are kept, with every field and its type, and the others counted."""
    result = decoded_logs(*exports)
    check(result, len(exports))
    assert rows_of(result) == [row for export in exports for row in plain_rows(export)]
    kept = [sum(is_kept(record) for _, _, record in flat_logs(export)) for export in exports]
    expected = [(number, len(flat_logs(export)) - number) for number, export in zip(kept, exports, strict=True)]
    assert [(one.accepted, one.rejected) for one in result.outcomes if isinstance(one, Receipt)] == expected


def test_every_field_of_a_log_record_has_a_column() -> None:
    """A field that OTLP adds to log records is missed here first."""
    columns = {"time_unix_nano": "time", "observed_time_unix_nano": "observed_time"}
    fields = {columns.get(field.name, field.name) for field in LogRecord.DESCRIPTOR.fields}
    assert fields - set(LOGS.names) == set()


def test_log_requests_have_the_envelope_of_traces() -> None:
    """Down to the records, a message of logs has the numbers and kinds of the message of traces in its place."""

    def shape(message: Descriptor, depth: int = 3) -> list[object]:
        inner = [(f.number, f.type, f.is_repeated, f.message_type) for f in message.fields]
        return [
            (number, kind, repeated, shape(below, depth - 1) if below is not None and depth > 1 and repeated else None)
            for number, kind, repeated, below in sorted(inner, key=lambda field: field[0])
        ]

    logs: Any = LogsData.DESCRIPTOR
    traces: Any = TracesData.DESCRIPTOR
    assert shape(logs) == shape(traces)


NAMED: dict[str, tuple[str, list[str], str | None]] = {
    "field": (MESSAGE, [], MESSAGE),
    "attribute": ("", [MESSAGE], MESSAGE),
    "the field comes first": (MESSAGE, ["app.started"], MESSAGE),
    "the field comes first, also where it is another": ("app.started", [MESSAGE], None),
    "the last attribute": ("", ["app.started", MESSAGE], MESSAGE),
    "the last attribute, also where it is another": ("", [MESSAGE, "app.started"], None),
    "none": ("", [], None),
    "without the point": ("gen_ai", [], None),
    "in the middle": ("app.gen_ai.choice", [], None),
}


@pytest.mark.parametrize("name, attributes, expected", NAMED.values(), ids=NAMED)
def test_events_of_genai_are_kept(name: str, attributes: list[str], expected: str | None) -> None:
    """The name is that of the field, else of the attribute, and decides whether the record is kept."""
    pairs = [KeyValue(key="event.name", value=AnyValue(string_value=text)) for text in attributes]
    result = decoded_logs(a_log_export(a_log(1), a_log(2, event_name=name, attributes=pairs), a_log(3)))
    check(result, 1)
    names = [MESSAGE, *([expected] if expected else []), MESSAGE]
    assert result.batch.logs.column("event_name").to_pylist() == names


@pytest.mark.parametrize(
    "fields, reason",
    [
        (
            {"event_name": "app.started"},
            "the event name must start with gen_ai., or be one that is kept of Claude Code or Codex",
        ),
        (
            {"event_name": "", "trace_id": b""},
            "the event name must start with gen_ai., or be one that is kept of Claude Code or Codex",
        ),
        ({"trace_id": b"x" * 15}, "trace_id must be 16 bytes, not all zero"),
        ({"trace_id": bytes(16)}, "trace_id must be 16 bytes, not all zero"),
        ({"span_id": b""}, "span_id must be 8 bytes, not all zero"),
        ({"span_id": bytes(8)}, "span_id must be 8 bytes, not all zero"),
    ],
)
def test_a_record_that_is_not_kept_is_rejected_alone_with_its_reason(fields: dict[str, Any], reason: str) -> None:
    """The others of its request are kept, and the receipt names reason and place."""
    receipt = receipt_of(a_log_export(a_log(1), a_log(2, **fields), a_log(3)))
    assert (receipt.accepted, receipt.rejected) == (2, 1)
    assert receipt.message == f"{reason} (log record number 2 of the request)"


def test_a_request_with_nothing_to_keep_brings_nothing() -> None:
    """Of records that are not kept, no resource and no scope is stored either."""
    result = decoded_logs(some_logs(3, event_name=""))
    check(result, 1)
    assert result.batch.num_rows == result.batch.resources.num_rows == result.batch.scopes.num_rows == 0
    (receipt,) = result.outcomes
    assert isinstance(receipt, Receipt)
    assert receipt.message == (
        "the event name must start with gen_ai., or be one that is kept of Claude Code or Codex"
        " (3 log records, the first is number 1 of the request)"
    )


def test_text_that_is_no_utf8_costs_its_record_alone() -> None:
    """A record that protobuf refuses is rejected by its place, and the others are kept."""
    body = some_logs(3).SerializeToString()
    assert body.count(b"message 1") == 1
    result = decoded_logs(body.replace(b"message 1", b"\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7"))
    check(result, 1)
    (receipt,) = result.outcomes
    assert isinstance(receipt, Receipt)
    assert (receipt.accepted, receipt.rejected) == (2, 1)
    assert "it cannot be decoded" in receipt.message
    assert "(log record number 2 of the request)" in receipt.message
    assert result.batch.logs.column("body").to_pylist() == ["message 0", "message 2"]


def test_spans_and_log_records_of_one_group_get_each_their_answer() -> None:
    """Requests of both kinds that are decoded together keep their order, their rows, and their failures."""
    requests = [
        Request(body=an_export(2).SerializeToString()),
        Request(body=some_logs(3).SerializeToString(), signal=LOGS_SIGNAL),
        Request(body=b"\xff"),
        Request(body=a_log_export(a_log(9), a_log(8, span_id=b"")).SerializeToString(), signal=LOGS_SIGNAL),
        Request(body=b"\xff", signal=LOGS_SIGNAL),
        Request(body=an_export(1, first=2).SerializeToString(), counts_traces=True),
    ]
    result = decode(requests, received_at_us=RECEIVED_AT_US)
    counts = [
        (one.accepted, one.rejected, one.traces) if isinstance(one, Receipt) else type(one) for one in result.outcomes
    ]
    assert counts == [(2, 0, 0), (3, 0, 0), Malformed, (1, 1, 0), Malformed, (1, 0, 1)]
    errors = [str(one).partition(" in ")[0] for one in result.outcomes if isinstance(one, Malformed)]
    assert errors == ["not an ExportTraceServiceRequest", "not an ExportLogsServiceRequest"]
    assert result.batch.spans.column("span_id").to_pylist() == [span_id(number) for number in range(3)]
    assert result.batch.logs.column("body").to_pylist() == [*(f"message {n}" for n in range(3)), "message 9"]
    assert result.batch.logs.column("trace_id").to_pylist() == [trace_id(0)] * 4


def test_copies_have_one_id_whatever_the_encoding() -> None:
    """A record has the id of its copy in JSON, and another than a record that differs in anything."""
    record = a_log(1, attributes=[KeyValue(key="a", value=AnyValue(int_value=1))])
    others = [
        a_log(1),
        a_log(2),
        a_log(1, span=1),
        a_log(1, trace=1),
        a_log(1, body=AnyValue(string_value="other")),
        a_log(1, observed_time_unix_nano=START_NS),
        a_log(1, attributes=[KeyValue(key="a", value=AnyValue(string_value="1"))]),
    ]
    request = a_log_export(record, *others)
    as_text = json_request.to_protobuf(logs_as_json(request), ExportLogsServiceRequest)
    ids = [decoded_logs(body).batch.logs.column("record_id").to_pylist() for body in (request, as_text)]
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == len(others) + 1


def rich() -> bytes:
    """Return a request with every kind of value."""
    values = [
        AnyValue(),
        AnyValue(bool_value=True),
        AnyValue(int_value=-1),
        AnyValue(double_value=0.5),
        AnyValue(bytes_value=b"\0"),
    ]
    body = AnyValue()
    body.kvlist_value.values.add(key="role").value.string_value = "user"
    body.kvlist_value.values.add(key="parts").value.array_value.values.extend(values)
    pairs = [KeyValue(key=str(number), value=value) for number, value in enumerate(values)]
    return a_log_export(a_log(1, body=body), a_log(2, attributes=pairs), a_log(3, event_name="")).SerializeToString()


RICH = rich()


def agrees_with_protobuf(body: bytes) -> None:
    """Decode, and compare with protobuf's own classes if they accept the bytes."""
    result = decoded_logs(body)
    check(result, 1)
    (outcome,) = result.outcomes
    try:
        request = ExportLogsServiceRequest.FromString(body)
    except DecodeError:
        return
    if "field number 0" in (outcome.message if isinstance(outcome, Receipt) else str(outcome)):
        return  # protobuf lets it pass inside an unknown group, in spite of its own specification
    assert isinstance(outcome, Receipt), outcome
    records = [record for _, _, record in flat_logs(request)]
    assert (outcome.accepted, outcome.rejected) == (
        sum(map(is_kept, records)),
        len(records) - sum(map(is_kept, records)),
    )


@given(st.binary(max_size=200))
def test_any_bytes_get_an_answer(body: bytes) -> None:
    """Random bytes are log records or malformed, and where protobuf reads them, the same number of records."""
    agrees_with_protobuf(body)


@given(st.lists(st.tuples(st.integers(0, len(RICH) - 1), st.integers(0, 255)), min_size=1, max_size=3))
@settings(max_examples=200)
def test_any_damage_gets_an_answer(changes: list[tuple[int, int]]) -> None:
    """A valid request with a few bytes changed is log records, rejections or malformed."""
    body = bytearray(RICH)
    for place, byte in changes:
        body[place] = byte
    check(decoded_logs(bytes(body)), 1)


def test_every_truncation_gets_an_answer() -> None:
    """A valid request cut off at any byte is log records, rejections or malformed, as protobuf has it."""
    for end in range(0, len(RICH), random.Random(len(RICH)).randint(1, 3)):
        agrees_with_protobuf(RICH[:end])


def test_a_large_request_is_read_like_a_small_one() -> None:
    """A request of many megabytes gives the rows of a plain reading, in order, and the places of its faults."""
    text = AnyValue(string_value="what was said " * 200)
    request = a_log_export(*(a_log(number, body=text) for number in range(2000)), project="large")
    request.resource_logs.add().CopyFrom(some_logs(2, trace=5).resource_logs[0])
    flat_logs(request)[1500][2].span_id = b""
    assert request.ByteSize() > 5 << 20
    result = decoded_logs(request)
    check(result, 1)
    (receipt,) = result.outcomes
    assert isinstance(receipt, Receipt)
    assert (receipt.accepted, receipt.rejected) == (2001, 1)
    assert receipt.message == "span_id must be 8 bytes, not all zero (log record number 1501 of the request)"
    assert rows_of(result) == plain_rows(request)


def nested(levels: int) -> AnyValue:
    """Return a value nested in `levels` arrays."""
    value = AnyValue(string_value="deep")
    for _ in range(levels):
        outer = AnyValue()
        outer.array_value.values.append(value)
        value = outer
    return value


def test_nesting_without_end_costs_its_record_alone() -> None:
    """A body that is nested as deep as parsers take it is kept, and one that is far deeper is rejected."""
    receipt = receipt_of(a_log_export(a_log(1, body=nested(40)), a_log(2)))
    assert (receipt.accepted, receipt.rejected) == (2, 0)
    deep = b""
    for _ in range(400):
        deep = in_field(5, in_field(1, deep))
    receipt = receipt_of(in_field(1, in_field(2, in_field(2, a_log(1).SerializeToString() + in_field(5, deep)))))
    assert (receipt.accepted, receipt.rejected) == (0, 1)


PLAIN = a_log(1).SerializeToString()


@pytest.mark.costly("collector/otlp")
@pytest.mark.parametrize(
    "body",
    [
        in_field(1, in_field(2, in_field(2, b"") * 400_000)),
        in_field(1, in_field(2, in_field(2, b"") * 8_000_000)),
        in_field(1, b"") * 4_000_000,
        in_field(1, in_field(2, in_field(2, PLAIN + in_field(6, b"") * (4 << 20)))),
        in_field(1, in_field(2, in_field(2, PLAIN + in_field(99, b"x") * (2 << 20)))),
        in_field(1, in_field(2, in_field(2, PLAIN + in_field(5, in_field(5, in_field(1, b"") * (4 << 20)))))),
    ],
    ids=["records", "millions of records", "resources", "attributes", "unknown fields", "values"],
)
def test_many_tiny_elements_are_no_trouble(body: bytes) -> None:
    """Millions of empty elements are decoded or refused in seconds, not in minutes."""
    started = time.monotonic()
    check(decoded_logs(body), 1)
    assert time.monotonic() - started < 60
