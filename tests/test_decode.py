"""The decoder: total on any bytes, and in agreement with a plain reading of the same request."""

import gc
import random
import re
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from collector.conventions import names
from collector.otlp import strict, wire
from collector.otlp.decode import Decoded, Receipt, Request, decode
from collector.otlp.faults import Malformed
from collector.otlp.signals import LOGS, TRACES, Signal
from storage.ingest.attributes import decode_attributes
from storage.ingest.batch import RESOURCES, SCOPES, SPANS, SpanBatch
from tests.otlp_requests import all_spans, any_values, requests, resources, scopes, valid_spans
from tests.plain_otlp import exact, flat, is_valid, plain_attributes
from tests.storing import RECEIVED_AT_US, an_export, decoded, span_id, trace_id
from tests.wire import in_field, in_field_of, varint

pytestmark = pytest.mark.costly("collector/conventions", "collector/otlp", "storage/ingest")

Row = dict[str, object]


def group(*bodies: bytes, **options: Any) -> Decoded:
    """Return the bodies decoded as one group."""
    return decode([Request(body=body, **options) for body in bodies], received_at_us=RECEIVED_AT_US)


def check(result: Decoded, requests: int) -> None:
    """Check invariants of every result: one outcome per request, and as many rows as were accepted."""
    assert len(result.outcomes) == requests
    accepted = sum(outcome.accepted for outcome in result.outcomes if isinstance(outcome, Receipt))
    assert result.batch.spans.num_rows == accepted
    assert result.batch.spans.schema.equals(SPANS)
    assert result.batch.resources.schema.equals(RESOURCES)
    assert result.batch.scopes.schema.equals(SCOPES)
    for outcome in result.outcomes:
        assert isinstance(outcome, Receipt | Malformed)
        assert str(outcome) if isinstance(outcome, Malformed) else bool(outcome.rejected) == bool(outcome.message)
    for table in (result.batch.spans, result.batch.resources, result.batch.scopes):
        table.validate(full=True)


def _in_numbers(kind: pa.DataType) -> pa.DataType:
    """Return the type with its instants as numbers."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_list(kind):
        return pa.list_(_in_numbers(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_numbers(field.type)) for field in kind])
    return kind


SPANS_IN_NUMBERS = pa.schema([field.with_type(_in_numbers(field.type)) for field in SPANS])


def rows_of(batch: SpanBatch) -> list[Row]:
    """Return the spans of a batch with their resource and scope, attributes as values."""
    resources = {row["resource_id"]: row for row in batch.resources.to_pylist(maps_as_pydicts="strict")}
    scopes = {row["scope_id"]: row for row in batch.scopes.to_pylist(maps_as_pydicts="strict")}
    rows = []
    for row in batch.spans.cast(SPANS_IN_NUMBERS).to_pylist(maps_as_pydicts="strict"):
        resource, scope = dict(resources[row.pop("resource_id")]), dict(scopes[row.pop("scope_id")])
        del resource["resource_id"], scope["scope_id"]
        for holder in (row, resource, scope, *row["events"], *row["links"]):
            holder["attributes"] = decode_attributes(holder["attributes"], holder.pop("attribute_types"))
        rows.append(row | {"resource": resource, "scope": scope})
    return rows


def plain_rows(request: ExportTraceServiceRequest, tenant: str = "") -> list[Row]:
    """Compute the rows that `rows_of` should return, with the ordinary protobuf classes."""
    return [_plain_row(*each, tenant) for each in flat(request) if is_valid(each[2])]


def _plain_row(resource_spans: ResourceSpans, scope_spans: ScopeSpans, span: Span, tenant: str) -> Row:
    resource, scope = resource_spans.resource, scope_spans.scope
    return {
        "tenant": tenant,
        "trace_id": span.trace_id.hex(),
        "span_id": span.span_id.hex(),
        "parent_span_id": span.parent_span_id.hex() if any(span.parent_span_id) else None,
        "trace_state": span.trace_state,
        "flags": span.flags,
        "name": span.name,
        "kind": span.kind,
        "start_time": span.start_time_unix_nano,
        "end_time": span.end_time_unix_nano,
        **_with_attributes(span),
        "events": [
            {"time": event.time_unix_nano, "name": event.name, **_with_attributes(event)} for event in span.events
        ],
        "dropped_events_count": span.dropped_events_count,
        "links": [
            {
                "trace_id": link.trace_id.hex(),
                "span_id": link.span_id.hex(),
                "trace_state": link.trace_state,
                "flags": link.flags,
                **_with_attributes(link),
            }
            for link in span.links
        ],
        "dropped_links_count": span.dropped_links_count,
        "status_code": span.status.code,
        "status_message": span.status.message,
        "resource": {
            **_with_attributes(resource),
            "schema_url": resource_spans.schema_url,
            "entity_refs": [
                {
                    "schema_url": ref.schema_url,
                    "type": ref.type,
                    "id_keys": list(ref.id_keys),
                    "description_keys": list(ref.description_keys),
                }
                for ref in resource.entity_refs
            ],
        },
        "scope": {
            "name": scope.name,
            "version": scope.version,
            **_with_attributes(scope),
            "schema_url": scope_spans.schema_url,
        },
    }


def _with_attributes(holder: Any) -> Row:
    return {
        "attributes": plain_attributes(holder.attributes),
        "dropped_attributes_count": holder.dropped_attributes_count,
    }


OURS = {"received_at", "project", "service_name"}  # columns that OTLP does not have


def comparable(rows: list[Row]) -> list[object]:
    """Return rows in a form that compares exactly, whatever the order of their columns."""
    return [_sorted({key: value for key, value in row.items() if key not in OURS}) for row in rows]


def _sorted(value: object) -> object:
    match value:
        case dict():
            kept = [(key, exact(item) if key == "attributes" else _sorted(item)) for key, item in value.items()]
            return sorted(kept, key=lambda pair: str(pair[0]))
        case list():
            return [_sorted(item) for item in value]
        case _:
            return exact(value)


@given(st.lists(requests(all_spans), min_size=1, max_size=3))
def test_the_columns_agree_with_a_plain_reading(exports: list[ExportTraceServiceRequest]) -> None:
    """Whatever the requests, the batch holds exactly what the ordinary protobuf classes read of their valid spans."""
    result = decoded(*exports, tenant="t")
    check(result, len(exports))
    expected = [row for export in exports for row in plain_rows(export, "t")]
    assert comparable(rows_of(result.batch)) == comparable(expected)


@given(requests(valid_spans))
def test_project_and_service_come_from_the_resource(export: ExportTraceServiceRequest) -> None:
    """Each span carries the names that the table of conventions finds on its resource."""
    expected = [
        (names.project_of(named), names.service_of(named))
        for resource_spans, _, span in flat(export)
        if is_valid(span)
        for named in [_as_stored(resource_spans.resource.attributes)]
    ]
    batch = decoded(export).batch.spans
    assert list(zip(batch["project"].to_pylist(), batch["service_name"].to_pylist(), strict=True)) == expected


def _as_stored(pairs: Any) -> dict[str, str | None]:
    """Return the attributes as SQL sees them, which is what the conventions read."""
    alone = ExportTraceServiceRequest()
    resource_spans = alone.resource_spans.add()
    resource_spans.resource.attributes.extend(pairs)
    resource_spans.scope_spans.add().spans.add(trace_id=bytes.fromhex(trace_id(1)), span_id=bytes.fromhex(span_id(1)))
    (row,) = decoded(alone).batch.resources.to_pylist(maps_as_pydicts="strict")
    texts: dict[str, str | None] = row["attributes"]
    return texts


@given(st.lists(requests(all_spans), min_size=1, max_size=4))
def test_receipts_count_each_request_by_itself(exports: list[ExportTraceServiceRequest]) -> None:
    """Each receipt counts the spans of its own request, accepted and rejected, and the distinct traces accepted."""
    bodies = [export.SerializeToString() for export in exports]
    outcomes = group(*bodies, counts_traces=True).outcomes
    for export, outcome in zip(exports, outcomes, strict=True):
        spans = [span for _, _, span in flat(export)]
        valid = [span for span in spans if is_valid(span)]
        assert isinstance(outcome, Receipt)
        assert (outcome.accepted, outcome.rejected) == (len(valid), len(spans) - len(valid))
        assert outcome.traces == len({span.trace_id for span in valid})
        assert bool(outcome.message) == (len(spans) > len(valid))


def test_traces_are_counted_only_for_who_asks() -> None:
    """A door whose answer does not tell the number of traces does not pay for counting them."""
    body = an_export(2).SerializeToString()
    asks = [Request(body=body, counts_traces=True), Request(body=body)]
    outcomes = decode(asks, received_at_us=RECEIVED_AT_US).outcomes
    assert outcomes == [Receipt(accepted=2, rejected=0, traces=1), Receipt(accepted=2, rejected=0, traces=0)]


@given(st.lists(st.sampled_from(["", "a", "b"]), min_size=1, max_size=4))
def test_spans_belong_to_the_tenant_of_their_request(tenants: list[str]) -> None:
    """In a group of several tenants each span gets the tenant of the request that brought it."""
    asks = [
        Request(body=an_export(2, first=2 * number).SerializeToString(), tenant=tenant)
        for number, tenant in enumerate(tenants)
    ]
    batch = decode(asks, received_at_us=RECEIVED_AT_US).batch
    assert batch.spans["tenant"].to_pylist() == [tenant for tenant in tenants for _ in range(2)]
    assert batch.spans["span_id"].to_pylist() == [span_id(number) for number in range(2 * len(tenants))]


def test_spans_keep_their_own_resource_and_scope() -> None:
    """With several resources and scopes in one request, equal ones are stored once and each span names its own."""
    request = ExportTraceServiceRequest()
    for service in ("shop", "bank", "shop"):
        resource_spans = request.resource_spans.add()
        resource_spans.resource.attributes.add(key="service.name").value.string_value = service
        for scope in ("http", "llm"):
            scope_spans = resource_spans.scope_spans.add()
            scope_spans.scope.name = scope
            scope_spans.spans.add(trace_id=b"t" * 16, span_id=b"s" * 8, name=f"{service} {scope}")
    batch = decoded(request).batch
    assert (batch.resources.num_rows, batch.scopes.num_rows) == (2, 2)
    spans_read = [(row["service_name"], row["scope"]["name"], row["name"]) for row in rows_of(batch)]  # type: ignore[index]
    assert spans_read == [(s, c, f"{s} {c}") for s in ("shop", "bank", "shop") for c in ("http", "llm")]


@pytest.mark.parametrize(
    "body, accepted",
    [
        (b"", 0),
        (ExportTraceServiceRequest(resource_spans=[ResourceSpans()]).SerializeToString(), 0),
        (ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=[ScopeSpans()])]).SerializeToString(), 0),
        (an_export(2).SerializeToString() + an_export(3).SerializeToString(), 5),
    ],
    ids=["nothing", "an empty resource", "an empty scope", "two requests"],
)
def test_empty_and_concatenated_requests_are_requests(body: bytes, accepted: int) -> None:
    """Nothing at all, empty envelopes, and two requests in one body are taken as protobuf takes them."""
    assert group(body).outcomes == [Receipt(accepted=accepted, rejected=0)]


def invalid(**changes: Any) -> Span:
    """Return a span that is invalid in the ways given."""
    return Span(**{"trace_id": b"t" * 16, "span_id": b"s" * 8, "name": "n"} | changes)


TRACE_FAULT = "trace_id must be 16 bytes, not all zero"
SPAN_FAULT = "span_id must be 8 bytes, not all zero"
PARENT_FAULT = "parent_span_id must be 8 bytes or empty"


@pytest.mark.parametrize(
    "field, value, reason",
    [
        ("trace_id", b"", TRACE_FAULT),
        ("trace_id", bytes(16), TRACE_FAULT),
        ("trace_id", b"t" * 15, TRACE_FAULT),
        ("trace_id", b"t" * 17, TRACE_FAULT),
        ("span_id", b"", SPAN_FAULT),
        ("span_id", bytes(8), SPAN_FAULT),
        ("span_id", b"s" * 16, SPAN_FAULT),
        ("parent_span_id", b"p", PARENT_FAULT),
        ("parent_span_id", bytes(16), PARENT_FAULT),
    ],
)
def test_an_invalid_span_is_rejected_alone_with_its_reason(field: str, value: object, reason: str) -> None:
    """A span without valid ids or a name is left out and explained with its place; its neighbours are stored."""
    request = an_export(3)
    request.resource_spans[0].scope_spans[0].spans.insert(1, invalid(**{field: value}))
    result = decoded(request)
    (receipt,) = result.outcomes
    assert isinstance(receipt, Receipt)
    assert (receipt.accepted, receipt.rejected) == (3, 1)
    assert receipt.message == f"{reason} (span number 2 of the request)"
    assert result.batch.spans["span_id"].to_pylist() == [span_id(number) for number in range(3)]


@pytest.mark.parametrize("name", ["", " \t"])
def test_a_span_may_have_no_name(name: str) -> None:
    """OTLP allows an empty name, which is kept unchanged."""
    request = an_export(1)
    request.resource_spans[0].scope_spans[0].spans[0].name = name
    result = decoded(request)
    assert result.outcomes == [Receipt(accepted=1, rejected=0)]
    assert result.batch.spans["name"].to_pylist() == [name]


def test_every_kind_of_fault_is_named() -> None:
    """A message names each kind of fault in the spans of a request, with the count and the place of the first."""
    request = an_export(1)
    request.resource_spans[0].scope_spans[0].spans.extend(
        [invalid(parent_span_id=b"p"), invalid(span_id=b""), invalid(parent_span_id=b"p")]
    )
    (receipt,) = decoded(request).outcomes
    assert isinstance(receipt, Receipt)
    assert receipt.message == (
        "span_id must be 8 bytes, not all zero (span number 3 of the request); "
        "parent_span_id must be 8 bytes or empty (2 spans, the first is number 2 of the request)"
    )


def with_bad_utf8(place: Callable[[Span], Any]) -> bytes:
    """Return three spans, the second of which holds bytes that are not UTF-8, in a field named by `place`."""
    request = an_export(3)
    place(flat(request)[1][2])
    body = request.SerializeToString()
    assert body.count(b"!bad!") == 1
    return body.replace(b"!bad!", b"\xff\xfe\xfd\xfc\xfb")


def _set(target: Any, field: str) -> None:
    setattr(target, field, "!bad!")


PLACES: dict[str, Callable[[Span], Any]] = {
    "name": lambda span: _set(span, "name"),
    "trace state": lambda span: _set(span, "trace_state"),
    "status": lambda span: _set(span.status, "message"),
    "event": lambda span: _set(span.events.add(), "name"),
    "link": lambda span: _set(span.links.add(), "trace_state"),
    "key": lambda span: _set(span.attributes.add(), "key"),
    "value": lambda span: _set(span.attributes.add(key="k").value, "string_value"),
    "value of an event": lambda span: _set(span.events.add().attributes.add().value, "string_value"),
    "key of a link": lambda span: _set(span.links.add().attributes.add(), "key"),
    "item": lambda span: _set(span.attributes.add().value.array_value.values.add(), "string_value"),
    "key of a map": lambda span: _set(span.attributes.add().value.kvlist_value.values.add(), "key"),
    "item in an event": lambda span: _set(
        span.events.add().attributes.add().value.array_value.values.add(), "string_value"
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_span_with_text_that_is_no_utf8_is_rejected_alone(place: str) -> None:
    """Wherever a span holds such text, it is left out and its neighbours are stored."""
    result = group(with_bad_utf8(PLACES[place]))
    check(result, 1)
    (receipt,) = result.outcomes
    assert isinstance(receipt, Receipt)
    assert (receipt.accepted, receipt.rejected) == (2, 1)
    assert re.fullmatch(r"it cannot be decoded: .+ \(span number 2 of the request\)", receipt.message)
    assert result.batch.spans["span_id"].to_pylist() == [span_id(0), span_id(2)]


def test_faults_of_both_kinds_are_told_together() -> None:
    """Spans that cannot be decoded and spans that are invalid are counted, each kind with the place of its first."""
    request = an_export(2)
    spans = request.resource_spans[0].scope_spans[0].spans
    spans.extend(
        [
            invalid(trace_state="!bad!"),
            invalid(parent_span_id=b"p"),
            invalid(trace_state="!bad!"),
            invalid(parent_span_id=b"p"),
        ]
    )
    result = group(request.SerializeToString().replace(b"!bad!", b"\xff\xff\xff\xff\xff"))
    (receipt,) = result.outcomes
    assert isinstance(receipt, Receipt)
    assert (receipt.accepted, receipt.rejected) == (2, 4)
    assert re.fullmatch(
        r"it cannot be decoded: .+ \(2 spans, the first is number 3 of the request\); "
        r"parent_span_id must be 8 bytes or empty \(2 spans, the first is number 4 of the request\)",
        receipt.message,
    )


def deep(span: Span, levels: int, *, maps: bool = False, leaf: str = "int_value") -> None:
    """Give the span an attribute nested `levels` levels deep."""
    value = span.attributes.add(key="deep").value
    for _ in range(levels):
        value = value.kvlist_value.values.add(key="k").value if maps else value.array_value.values.add()
    setattr(value, leaf, b"x" if leaf == "bytes_value" else 1)


@pytest.mark.parametrize("leaf", ["int_value", "bytes_value"])
@pytest.mark.parametrize("maps, deepest", [(False, 47), (True, 31)])
def test_nesting_is_taken_as_deep_as_protobuf_takes_it(leaf: str, maps: bool, deepest: int) -> None:  # noqa: FBT001
    """Values as deep as protobuf's parsers allow are stored; a much deeper one costs its span alone."""
    request = an_export(3)
    deep(flat(request)[0][2], deepest, maps=maps, leaf=leaf)
    assert ExportTraceServiceRequest.FromString(request.SerializeToString()) == request
    assert decoded(request).outcomes == [Receipt(accepted=3, rejected=0)]
    deep(flat(request)[1][2], 200, maps=maps, leaf=leaf)
    result = decoded(request)
    (receipt,) = result.outcomes
    assert isinstance(receipt, Receipt)
    assert (receipt.accepted, receipt.rejected) == (2, 1)
    assert result.batch.spans["span_id"].to_pylist() == [span_id(0), span_id(2)]


@given(levels=st.integers(28, 60), maps=st.booleans(), leaf=st.sampled_from(["int_value", "bytes_value"]))
@settings(max_examples=40)
@example(levels=40, maps=True, leaf="bytes_value")
def test_nesting_about_the_limit_never_fails(levels: int, maps: bool, leaf: str) -> None:  # noqa: FBT001
    """However deep and whatever it holds, a nested value is stored or costs its span alone."""
    request = an_export(2)
    deep(flat(request)[0][2], levels, maps=maps, leaf=leaf)
    result = decoded(request)
    check(result, 1)
    (receipt,) = result.outcomes
    assert isinstance(receipt, Receipt)
    assert (receipt.accepted, receipt.rejected) in {(2, 0), (1, 1)}


def test_a_resource_that_cannot_be_decoded_makes_its_request_malformed() -> None:
    """A fault outside of the spans has no span to reject, so the request fails with a message."""
    request = an_export(2)
    request.resource_spans[0].resource.attributes.add(key="!bad!")
    (outcome,) = group(request.SerializeToString().replace(b"!bad!", b"\xff\xfe\xfd\xfc\xfb")).outcomes
    assert isinstance(outcome, Malformed)


@pytest.mark.parametrize("position", range(4))
def test_a_malformed_request_fails_alone(position: int) -> None:
    """In a group, the request that is not protobuf fails and the spans of the others are stored, in order."""
    bodies = [an_export(2, first=2 * number).SerializeToString() for number in range(3)]
    bodies.insert(position, b"\x0a\xff")
    result = group(*bodies)
    assert [isinstance(outcome, Malformed) for outcome in result.outcomes] == [n == position for n in range(4)]
    assert result.batch.spans["span_id"].to_pylist() == [span_id(number) for number in range(6)]


def a_rich_request() -> bytes:
    """Build a request with something in every corner."""
    request = an_export(4)
    for _, scope_spans, span in flat(request):
        scope_spans.scope.name = "scope"
        span.parent_span_id = b"p" * 8
        span.status.message = "fine"
        for holder in (span, span.events.add(name="e"), span.links.add(trace_id=b"t" * 16, span_id=b"s" * 8)):
            holder.attributes.add(key="text").value.string_value = "Grüße 🦜"
            items = holder.attributes.add(key="list").value.array_value.values
            items.add(int_value=-1)
            items.add().kvlist_value.values.add(key="raw").value.bytes_value = b"\0\xff"
    return request.SerializeToString()


RICH = a_rich_request()


def agrees_with_protobuf(body: bytes) -> None:
    """Decode, and compare with protobuf's own classes if they accept the bytes."""
    result = group(body)
    check(result, 1)
    (outcome,) = result.outcomes
    try:
        plain = ExportTraceServiceRequest.FromString(body)
    except DecodeError:
        return
    if "field number 0" in (outcome.message if isinstance(outcome, Receipt) else str(outcome)):
        return  # protobuf lets it pass inside an unknown group, in spite of its own specification
    assert isinstance(outcome, Receipt), outcome
    assert outcome.accepted == sum(is_valid(span) for _, _, span in flat(plain))
    assert outcome.accepted + outcome.rejected == len(flat(plain))


@given(st.binary(max_size=200))
def test_any_bytes_get_an_answer(body: bytes) -> None:
    """Random bytes are spans or malformed, and where protobuf reads them, the same number of spans."""
    agrees_with_protobuf(body)


@given(st.lists(st.tuples(st.integers(0, len(RICH) - 1), st.integers(0, 255)), min_size=1, max_size=3))
def test_any_damage_gets_an_answer(changes: list[tuple[int, int]]) -> None:
    """A valid request with a few bytes changed is spans, rejections or malformed."""
    body = bytearray(RICH)
    for place, byte in changes:
        body[place] = byte
    check(group(bytes(body)), 1)


def test_every_truncation_gets_an_answer() -> None:
    """A valid request cut off at any byte is spans, rejections or malformed, as protobuf has it."""
    step = random.Random(len(RICH)).randint(1, 3)
    for end in range(0, len(RICH), step):
        agrees_with_protobuf(RICH[:end])


@given(st.lists(st.sampled_from([RICH, b"", b"\xff", RICH[:-1], an_export(1).SerializeToString()]), max_size=5))
def test_any_group_gets_as_many_answers_as_requests(bodies: list[bytes]) -> None:
    """Whatever sits beside it in a group, a request gets the answer that it gets alone."""
    alone = [str(group(body).outcomes) for body in bodies]
    result = group(*bodies) if bodies else None
    assert [f"[{outcome!r}]" for outcome in (result.outcomes if result else [])] == alone


@pytest.mark.parametrize(
    "body",
    [
        ExportTraceServiceRequest(resource_spans=[ResourceSpans()] * 300_000).SerializeToString(),
        ExportTraceServiceRequest(
            resource_spans=[ResourceSpans(scope_spans=[ScopeSpans()] * 300_000)]
        ).SerializeToString(),
        ExportTraceServiceRequest(
            resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=[Span()] * 100_000)])]
        ).SerializeToString(),
        ExportTraceServiceRequest(
            resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=[invalid(attributes=[KeyValue()] * 300_000)])])]
        ).SerializeToString(),
        ExportTraceServiceRequest(
            resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=[invalid(events=[Span.Event()] * 100_000)])])]
        ).SerializeToString(),
    ],
    ids=["resources", "scopes", "spans", "attributes", "events"],
)
def test_many_tiny_elements_are_no_trouble(body: bytes) -> None:
    """Hundreds of thousands of empty elements in less than a megabyte are decoded in seconds, not in minutes."""
    started = time.monotonic()
    check(group(body), 1)
    assert time.monotonic() - started < 60


def test_many_distinct_resources_are_no_trouble() -> None:
    """A request in which every span has its own resource is decoded in seconds."""
    request = ExportTraceServiceRequest()
    for number in range(3000):
        resource_spans = request.resource_spans.add(schema_url=str(number))
        resource_spans.scope_spans.add().spans.add(trace_id=b"t" * 16, span_id=b"s" * 8, name="n")
    started = time.monotonic()
    result = decoded(request)
    assert result.batch.resources.num_rows == 3000
    assert time.monotonic() - started < 60


def alone(span: bytes) -> bytes:
    """Return a request with this one span."""
    return in_field(1, in_field(2, in_field(2, span)))


PLAIN_SPAN = Span(trace_id=b"t" * 16, span_id=b"s" * 8, name="n").SerializeToString()


def a_deep_value(levels: int) -> bytes:
    """Build sixteen megabytes of text, nested in `levels` arrays."""
    text = b"x" * (16 << 20)
    heads, length = [in_field_of(1, len(text))], len(text)
    for _ in range(levels):
        for number in (1, 5):
            length += len(heads[-1])
            heads.append(in_field_of(number, length))
    return b"".join([*reversed(heads), text])


@pytest.mark.costly("collector/otlp")
@pytest.mark.parametrize(
    "make_fields",
    [
        lambda: b"\x30\x01" * (4 << 20),
        lambda: in_field(9, in_field(2, a_deep_value(levels=400))),
        lambda: in_field(9, in_field(2, a_deep_value(levels=47))),
        lambda: in_field(9, b"") * (2 << 20),
        lambda: in_field(99, b"x") * (2 << 20),
        lambda: in_field(9, in_field(2, in_field(5, in_field(1, b"") * (1 << 20)))),
    ],
    ids=["one field over and over", "too deep", "deep", "empty attributes", "unknown fields", "empty values"],
)
def test_a_large_span_of_an_odd_shape_is_no_trouble(make_fields: Callable[[], bytes]) -> None:
    """One span of some megabytes, whatever it is made of, takes about a second, not a minute."""
    span = alone(PLAIN_SPAN + make_fields())
    started = time.monotonic()
    check(group(span), 1)
    assert time.monotonic() - started < 60


@given(
    values=st.lists(any_values, max_size=3),
    levels=st.integers(0, 44),
    maps=st.booleans(),
    inexact=st.binary(max_size=1),
)
@settings(max_examples=40)
@example(values=[], levels=44, maps=True, inexact=b"")
def test_what_is_large_and_deep_is_read_like_the_rest(
    values: list[AnyValue],
    levels: int,
    maps: bool,  # noqa: FBT001
    inexact: bytes,
) -> None:
    """A nested value of more than a megabyte has the text that it would have if it were small."""
    large = AnyValue(string_value='a"\\\n\x01🦜' * (1 << 18))
    value = AnyValue()
    value.array_value.values.extend([*values, large, AnyValue(double_value=0.1), AnyValue(double_value=1e300)])
    if inexact:
        value.array_value.values.add(bytes_value=inexact)
    for _ in range(levels * 2 // 3 if maps else levels):
        outer = AnyValue()
        inner = outer.kvlist_value.values.add(key='"').value if maps else outer.array_value.values.add()
        inner.CopyFrom(value)
        value = outer
    request = an_export(1)
    flat(request)[0][2].attributes.add(key="k").value.CopyFrom(value)
    result = decoded(request)
    check(result, 1)
    assert comparable(rows_of(result.batch)) == comparable(plain_rows(request))


def a_large_request(spans: int) -> ExportTraceServiceRequest:
    """Build a request of some kilobytes a span."""
    request = an_export(spans)
    request.resource_spans[0].schema_url = "resource"
    request.resource_spans[0].scope_spans[0].schema_url = "scope"
    request.resource_spans[0].scope_spans[0].scope.name = "agent"
    for number, (_, _, span) in enumerate(flat(request)):
        span.attributes.add(key="text").value.string_value = f"{number} " * 500
    return request


def test_a_large_request_is_read_like_a_small_one() -> None:
    """A request of many megabytes gives the rows of a plain reading, with resource and scope, in order."""
    request = a_large_request(3000)
    request.resource_spans.add().CopyFrom(an_export(1, trace=5).resource_spans[0])
    assert request.ByteSize() > 5 << 20
    result = decoded(request)
    assert result.outcomes == [Receipt(accepted=3001, rejected=0)]
    assert comparable(rows_of(result.batch)) == comparable(plain_rows(request))


def test_faults_of_a_large_request_are_told_like_those_of_a_small_one() -> None:
    """Invalid spans are counted over the whole request, and the place of the first is reported."""
    request = a_large_request(3000)
    for number in (100, 1500, 2900):
        flat(request)[number][2].parent_span_id = b"p"
    flat(request)[2000][2].span_id = b""
    request.resource_spans.add().CopyFrom(an_export(1, trace=5).resource_spans[0])
    body = request.SerializeToString()
    (receipt,) = decode([Request(body=body, counts_traces=True)], received_at_us=RECEIVED_AT_US).outcomes
    assert isinstance(receipt, Receipt)
    assert (receipt.accepted, receipt.rejected, receipt.traces) == (2997, 4, 2)
    assert receipt.message == (
        "parent_span_id must be 8 bytes or empty (3 spans, the first is number 101 of the request); "
        "span_id must be 8 bytes, not all zero (span number 2001 of the request)"
    )


def test_a_span_that_cannot_be_decoded_is_rejected_alone_in_a_large_request() -> None:
    """In a request of megabytes, too, text that is not UTF-8 costs its span alone, which is named by its place."""
    request = a_large_request(3000)
    flat(request)[2500][2].trace_state = "!bad!"
    (receipt,) = group(request.SerializeToString().replace(b"!bad!", b"\xff\xfe\xfd\xfc\xfb")).outcomes
    assert isinstance(receipt, Receipt)
    assert (receipt.accepted, receipt.rejected) == (2999, 1)
    assert re.fullmatch(r"it cannot be decoded: .+ \(span number 2501 of the request\)", receipt.message)


ENDLESS = b"\x0a" + b"\xff" * 9 + b"\x01"
"""A first field that claims to be 2**64 - 1 bytes long, at which ptars 0.0.25 panics (docs/upstream/ptars-panic.md)."""


@pytest.fixture
def no_panic(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Check that no Rust panics during the test, and that nothing is written to standard error."""
    before = wire.panics.count
    yield
    assert (wire.panics.count - before, capfd.readouterr().err) == (0, "")


@pytest.mark.usefixtures("no_panic")
def test_a_length_beyond_all_bounds_is_rejected_alone() -> None:
    """A nested value that claims to be 2**64 bytes long costs its span alone, and no panic."""
    request = an_export(2)
    items = flat(request)[0][2].attributes.add(key="k").value.array_value.values
    items.add(string_value="!bad!bad!")
    items.add(string_value="after")
    honest = b"\x0a\x09!bad!bad!"
    body = request.SerializeToString()
    assert body.count(honest) == 1
    result = group(body.replace(honest, ENDLESS))
    check(result, 1)
    assert result.batch.spans["span_id"].to_pylist() == [span_id(1)]


@pytest.mark.usefixtures("no_panic")
@pytest.mark.parametrize("length", [1, 2, 9, 10, 11, 50, 1000])
@pytest.mark.parametrize("depth", range(4))
def test_a_length_that_runs_over_is_malformed(depth: int, length: int) -> None:
    """A length so near to 2**64 that its end lies before its beginning is refused at each level of a request."""
    body = b"\x0a" + varint(2**64 - length)
    for field in (2, 2, 1)[3 - depth :]:
        body = in_field(field, body)
    (outcome,) = group(body).outcomes
    assert isinstance(outcome, Malformed) or (isinstance(outcome, Receipt) and outcome.rejected)


@pytest.mark.usefixtures("no_panic")
@pytest.mark.parametrize("signal", [TRACES, LOGS], ids=["traces", "logs"])
@pytest.mark.parametrize("level", [b"\x0b", b"\x83\x01", b"\x7b\x10\x01"])
@pytest.mark.parametrize("depth", range(4))
def test_groups_inside_each_other_are_malformed(depth: int, level: bytes, signal: Signal) -> None:
    """Unknown groups, 200,000 inside each other, are refused at each level of a request, and the process goes on."""
    body = level * 200_000
    for field in (2, 2, 1)[3 - depth :]:
        body = in_field(field, body)
    (outcome,) = group(body, signal=signal).outcomes
    assert isinstance(outcome, Malformed) or (isinstance(outcome, Receipt) and outcome.rejected)


def test_groups_in_nested_values_cost_their_span_alone() -> None:
    """Unknown groups inside each other in a nested value cost its span alone, however the value is wrapped."""
    request = an_export(2)
    groups = b"\x0b" * 500_000
    flat(request)[0][2].attributes.add(key="k").value.array_value.values.add(string_value="!" + "a" * 499_999)
    honest = b"\x0a" + varint(500_000) + b"!" + b"a" * 499_999
    body = request.SerializeToString()
    assert body.count(honest) == 1
    result = group(body.replace(honest, groups + b"\x0b" * (len(honest) - len(groups))))
    check(result, 1)
    assert result.batch.spans["span_id"].to_pylist() == [span_id(1)]


def test_ptars_still_overflows_the_stack() -> None:
    """The ptars that is installed crashes from groups: without that `wire` need not have protobuf parse long texts."""
    program = r"from collector.otlp import wire; wire.TRACES._handler.list_to_record_batch([b'\x0b' * 4_000_000])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode < 0


@pytest.mark.costly("collector/otlp")
@pytest.mark.usefixtures("no_panic")
def test_mutated_requests_never_panic() -> None:
    """Hostile lengths anywhere in requests make no Rust panic."""
    chosen = random.Random(117)
    body = an_export(3).SerializeToString()
    lengths = [varint(2**64 - step) for step in (1, 2, 60, 300)] + [b"\xff" * 10, b"\xff" * 9 + b"\x7f"]
    for _ in range(2000):
        place = chosen.randrange(len(body))
        check(group(body[:place] + chosen.choice(lengths) + body[place + chosen.randrange(3) :]), 1)


def test_honest_negative_numbers_are_decoded_as_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A negative number has the bytes of such a length, and its request needs no second way."""
    monkeypatch.setattr(strict, "sift", None)
    request = an_export(1)
    flat(request)[0][2].attributes.add(key="k").value.int_value = -1
    (row,) = rows_of(decoded(request).batch)
    assert row["attributes"] == {"k": -1}


def test_ptars_still_panics() -> None:
    """The installed ptars still panics: once it does not, `wire` need not check for such lengths."""
    with pytest.raises(BaseException, match="slice index starts at 10 but ends at 9") as caught:
        wire.TRACES._handler.list_to_record_batch([ENDLESS])
    assert type(caught.value).__name__ == "PanicException"


def test_panics_are_counted_and_told_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A panic that comes all the same is one refused request and is counted; of many a minute the log has one line."""
    now_s = 0.0
    panics = wire.Panics(lambda: now_s)
    monkeypatch.setattr(wire, "panics", panics)
    monkeypatch.setattr(wire, "_may_be_endless", lambda _: False)
    for step_s in (0, 1, 58, 1, 1, 60):
        now_s += step_s
        with pytest.raises(ValueError, match="the columnar decoder gave up"):
            wire.TRACES.decode([ENDLESS])
    assert panics.count == 6
    assert [re.findall(r"\((\d+) times", line) for line in caplog.messages] == [["1"], ["3"], ["2"]]


@pytest.mark.parametrize("place", ["resource", "scope", "value"])
def test_nothing_large_is_remembered(place: str) -> None:
    """Whatever large requests were decoded before, the memory kept for reuse is small."""

    def large(number: int) -> ExportTraceServiceRequest:
        request = an_export()
        ((resource_spans, scope_spans, span),) = flat(request)
        holder: Any = {"resource": resource_spans.resource, "scope": scope_spans.scope, "value": span}[place]
        value = holder.attributes.add(key="large").value.array_value.values.add()
        value.bytes_value = number.to_bytes(2, "big") * 500_000
        return request

    decoded(large(0))
    tracemalloc.start()
    try:
        for number in range(1, 6):
            check(decoded(large(number)), 1)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()


def test_received_at_is_the_time_that_was_passed() -> None:
    """The decoder reads no clock."""
    assert decoded(an_export(2)).batch.spans["received_at"].cast(pa.int64()).to_pylist() == [RECEIVED_AT_US] * 2


def test_a_field_that_occurs_twice_is_read_as_protobuf_reads_it() -> None:
    """Of a scalar that the bytes hold twice the last counts, and messages that they hold twice are merged."""
    span = Span(trace_id=b"t" * 16, span_id=b"s" * 8, name="n", status={"message": "m"})  # type: ignore[arg-type]
    twice = [span.SerializeToString() + Span(name="later", status={"code": 2}).SerializeToString()]  # type: ignore[arg-type]
    value = AnyValue(string_value="x").SerializeToString() + AnyValue(int_value=7).SerializeToString()
    pair = b"\x0a\x01k\x12" + bytes([len(value)]) + value
    twice[0] += b"\x4a" + bytes([len(pair)]) + pair
    inner = b"\x12" + len(twice[0]).to_bytes(1, "big") + twice[0]
    scope = b"\x12" + len(inner).to_bytes(1, "big") + inner
    body = b"\x0a" + len(scope).to_bytes(1, "big") + scope
    plain = plain_rows(ExportTraceServiceRequest.FromString(body))
    assert comparable(rows_of(group(body).batch)) == comparable(plain)
    assert [(row["name"], row["status_code"], row["attributes"]) for row in plain] == [("later", 2, {"k": 7})]
    assert trace_id(0) != plain[0]["trace_id"]


_halves = st.tuples(valid_spans, valid_spans)


@given(
    _halves, st.tuples(resources, resources), st.tuples(scopes, scopes), st.lists(any_values, min_size=2, max_size=4)
)
def test_a_message_that_occurs_twice_is_read_as_protobuf_reads_it(
    spans: tuple[Span, Span],
    resource: tuple[Resource, Resource],
    scope: tuple[InstrumentationScope, InstrumentationScope],
    values: list[AnyValue],
) -> None:
    """Resources, scopes, statuses and values, nested ones too, that the bytes hold twice are merged."""
    one, other = (value.SerializeToString() for value in values[:2])
    value = one + other  # in the same message, and below in another of the same field
    array = b"".join(in_field(5, in_field(1, each.SerializeToString() + value)) for each in values[2:])
    pair = in_field(9, in_field(1, b"k") + in_field(2, value) + in_field(2, other + array))
    span = in_field(2, b"".join(half.SerializeToString() for half in spans) + pair)
    named = b"".join(in_field(1, half.SerializeToString()) for half in scope)
    body = in_field(1, b"".join(in_field(1, half.SerializeToString()) for half in resource) + in_field(2, named + span))
    plain = plain_rows(ExportTraceServiceRequest.FromString(body))
    for request in (body, body + in_field(99, bytes(1 << 20))):  # whole, and in pieces
        result = group(request)
        check(result, 1)
        assert comparable(rows_of(result.batch)) == comparable(plain)
