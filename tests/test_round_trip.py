"""OTLP in, DuckDB, OTLP out: every field and every kind of value comes back unchanged."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from collector.otlp import encode, json_request
from collector.otlp.decode import Receipt, Request, decode
from storage.records import Trace
from storage.store import Store
from tests.every_field import NOT_KEPT, Filler, fields_of
from tests.otlp_requests import LAST_NS, requests, valid_spans
from tests.plain_otlp import flat, normal_spans
from tests.storing import RECEIVED_AT_US, START_NS, a_batch, a_store, an_export, commit, rows, trace_id

pytestmark = pytest.mark.costly("collector/otlp", "storage")

SPANS_COLUMNS = [
    "tenant", "trace_id", "span_id", "parent_span_id", "name", "kind", "service_name", "project", "start_time",
    "end_time", "duration_ms", "status_code", "status_message", "attributes", "resource_attributes", "scope_name",
    "scope_version", "scope_attributes", "events", "links", "trace_state", "flags",
]  # fmt: skip
MORE_SPANS_COLUMNS = [
    "dropped_attributes_count", "dropped_events_count", "dropped_links_count", "resource_schema_url",
    "scope_schema_url", "received_at", "attribute_types",
]  # fmt: skip
TRACES_COLUMNS = [
    "tenant", "trace_id", "root_name", "project", "service_name", "start_time", "end_time", "duration_ms",
    "span_count", "error_count", "expires_at", "input", "output", "final_response", "session_id", "user_id",
    "input_tokens", "output_tokens", "cost_usd", "tool_call_count", "summed_span_count", "finish_reason",
]  # fmt: skip
READ_COLUMNS = [
    "span_type", "dialect", "input", "output", "input_messages", "output_messages", "tool_name", "tool_call_id",
    "tool_arguments", "tool_result", "tool_definitions", "model", "provider", "input_tokens", "output_tokens",
    "cached_tokens", "reasoning_tokens", "cost_usd", "session_id", "user_id", "error", "error_type", "notes",
    "seq", "service_version", "response_id", "cost_source", "run_id", "item_key", "finish_reason",
]  # fmt: skip
TOOL_CALLS_COLUMNS = [
    "tenant", "trace_id", "span_id", "ordinal", "call_id", "name", "arguments", "result", "is_error", "error",
    "start_time", "duration_ms",
]  # fmt: skip

tenants = (f"tenant {number}" for number in itertools.count())


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield one store for all: each test and each example is a tenant of its own."""
    with a_store(tmp_path_factory.mktemp("data")) as opened:
        yield opened


def stored(store: Store, request: ExportTraceServiceRequest) -> tuple[str, list[Trace]]:
    """Store a request for a tenant of its own: the tenant, and its traces."""
    tenant = next(tenants)
    decoded = decode([Request(body=request.SerializeToString(), tenant=tenant)], received_at_us=RECEIVED_AT_US)
    assert decoded.outcomes == [Receipt(accepted=len(flat(request)), rejected=0)]
    if decoded.batch.spans.num_rows:
        commit(store, decoded.batch)
    ids = {span.trace_id.hex() for _, _, span in flat(request)}
    traces = [store.queries.trace(each, tenant=tenant) for each in sorted(ids)]
    return tenant, [trace for trace in traces if trace is not None]


def there_and_back(store: Store, request: ExportTraceServiceRequest) -> ExportTraceServiceRequest:
    """Return the request as it is exported again, and read by what reads the OTLP/JSON of senders."""
    return exported(stored(store, request)[1])


def exported(traces: Iterable[Trace]) -> ExportTraceServiceRequest:
    """Return the traces as one request that was OTLP/JSON."""
    document = b"".join(encode.json_document(trace.spans for trace in traces))
    return ExportTraceServiceRequest.FromString(json_request.to_protobuf(document))


def with_attribute(fill: Callable[[AnyValue], object]) -> ExportTraceServiceRequest:
    """Return a request that has an attribute wherever OTLP has attributes."""
    request = an_export()
    ((resource_spans, scope_spans, span),) = flat(request)
    for holder in (resource_spans.resource, scope_spans.scope, span, span.events.add(), span.links.add()):
        fill(holder.attributes.add(key="k").value)
    return request


@pytest.mark.parametrize("extra_bytes", [0, 3 << 20])
def test_every_field_of_otlp_comes_back(store: Store, extra_bytes: int) -> None:
    """A request with every field of the trace messages set, at every level and of any size, comes back as it was."""
    request, filler = ExportTraceServiceRequest(), Filler()
    filler.fill(request)
    for _, _, span in flat(request)[:2]:
        span.attributes.add(key="extra").value.string_value = "x" * extra_bytes
    assert fields_of(request.DESCRIPTOR, set()) - filler.seen == NOT_KEPT - filler.seen
    assert sorted(normal_spans(there_and_back(store, request))) == sorted(normal_spans(request))


def test_the_unset_comes_back_unset(store: Store) -> None:
    """A span with nothing but its ids and its name comes back with nothing else."""
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add(trace_id=b"t" * 16, span_id=b"s" * 8, name="n")
    assert normal_spans(there_and_back(store, request)) == normal_spans(request)


@pytest.mark.costly("collector/exporters", "collector/otlp", "storage")
@pytest.mark.parametrize(
    "field, value",
    [
        ("string_value", ""),
        ("string_value", "\0"),
        ("string_value", "a\0b"),
        ("string_value", "\x01\x08\x0b\x0c\x1f\x7f\x80\x9f\n\r\t\"\\/'"),
        ("string_value", "\u2028\u2029\ufeff\ufffd\uffff"),
        ("string_value", "👩🏽‍🚀 Ελλάδα 中文 \U0010ffff"),
        ("string_value", "null"),
        ("string_value", "x" * 100_000),
        ("bool_value", False),
        ("bool_value", True),
        ("int_value", 0),
        ("int_value", -1),
        ("int_value", 2**53 + 1),
        ("int_value", 2**63 - 1),
        ("int_value", -(2**63)),
        ("double_value", 0.0),
        ("double_value", -0.0),
        ("double_value", 1.0),
        ("double_value", -7.0),
        ("double_value", 0.1),
        ("double_value", 1e15),
        ("double_value", 1e16),
        ("double_value", 1e300),
        ("double_value", 1.7976931348623157e308),
        ("double_value", 5e-324),
        ("double_value", 9007199254740993.0),
        ("double_value", math.inf),
        ("double_value", -math.inf),
        ("double_value", math.nan),
        ("bytes_value", b""),
        ("bytes_value", b"\0"),
        ("bytes_value", bytes(range(256))),
    ],
)
def test_a_value_comes_back_in_every_place(store: Store, field: str, value: object) -> None:
    """A scalar keeps its type and its exact value as an attribute of anything, inside arrays, and inside maps."""

    def alone(target: Any) -> None:
        setattr(target, field, value)

    def nested(target: Any) -> None:
        alone(target.array_value.values.add())
        alone(target.array_value.values.add().kvlist_value.values.add(key="").value)
        alone(target.array_value.values.add().kvlist_value.values.add(key="k").value.array_value.values.add())

    for request in (with_attribute(alone), with_attribute(nested)):
        assert normal_spans(there_and_back(store, request)) == normal_spans(request)


def an_empty_array(value: AnyValue) -> None:
    """Encode an array without items."""
    value.array_value.SetInParent()


def an_empty_map(value: AnyValue) -> None:
    """Encode a map without pairs."""
    value.kvlist_value.SetInParent()


def nothing(value: AnyValue) -> None:
    """Set none of the kinds."""
    value.Clear()


def a_list_of_nothing(value: AnyValue) -> None:
    """Put unset values, empty arrays and empty maps inside an array."""
    items = value.array_value.values
    items.add()
    an_empty_array(items.add())
    an_empty_map(items.add())


def a_list_of_all(value: AnyValue) -> None:
    """Encode one item of each kind."""
    items = value.array_value.values
    items.add(string_value="1")
    items.add(int_value=1)
    items.add(double_value=1)
    items.add(bool_value=True)
    items.add(bytes_value=b"\1")
    items.add()
    items.add(string_value_strindex=1)


def a_map_without_keys_or_values(value: AnyValue) -> None:
    """Encode pairs that lack one half or both."""
    value.kvlist_value.values.add(key="k")
    value.kvlist_value.values.add().value.bytes_value = b"x"


def a_map_with_a_repeated_key(value: AnyValue) -> None:
    """Repeat a key; the last one counts."""
    for number in (1, 2, 3):
        value.kvlist_value.values.add(key="again").value.int_value = number
        value.kvlist_value.values.add(key=f"other {number}").value.double_value = math.nan


def as_deep_as_protobuf_goes(value: AnyValue) -> None:
    """Nest arrays, as many as fit into the 100 messages of protobuf's parsers."""
    for _ in range(47):
        value = value.array_value.values.add()
    value.bytes_value = b"bottom"


def maps_as_deep_as_protobuf_goes(value: AnyValue) -> None:
    """Nest maps, as many as fit into the 100 messages of protobuf's parsers."""
    for _ in range(31):
        value = value.kvlist_value.values.add(key="down").value
    value.bytes_value = b"bottom"


@pytest.mark.parametrize(
    "fill",
    [
        nothing,
        an_empty_array,
        an_empty_map,
        a_list_of_nothing,
        a_list_of_all,
        a_map_without_keys_or_values,
        a_map_with_a_repeated_key,
        as_deep_as_protobuf_goes,
        maps_as_deep_as_protobuf_goes,
    ],
)
def test_a_composite_value_comes_back(store: Store, fill: Callable[[AnyValue], object]) -> None:
    """Arrays, maps and unset values keep their shape and their order wherever they are."""
    request = with_attribute(fill)
    assert normal_spans(there_and_back(store, request)) == normal_spans(request)


def test_the_last_of_repeated_attribute_keys_stays(store: Store) -> None:
    """If an attribute list has a key more than once, the last value is stored, in its place."""
    request = an_export()
    attributes = flat(request)[0][2].attributes
    for key, number in (("a", 1), ("b", 2), ("a", 3), ("c", 4)):
        attributes.add(key=key).value.int_value = number
    (trace,) = stored(store, request)[1]
    assert list(trace.spans[0].attributes.items()) == [("b", 2), ("a", 3), ("c", 4)]


def test_a_parent_of_zeros_is_no_parent(store: Store) -> None:
    """A span whose parent id is eight zero bytes is a root."""
    request = an_export(2)
    flat(request)[0][2].parent_span_id = bytes(8)
    flat(request)[1][2].parent_span_id = b"p" * 8
    (trace,) = stored(store, request)[1]
    assert [span.parent_span_id for span in trace.spans] == [None, (b"p" * 8).hex()]


def test_resources_and_scopes_that_differ_at_the_far_end_of_a_long_url_stay_apart(store: Store) -> None:
    """A schema URL is part of the identity of a stored resource and scope, however long it is."""
    request = ExportTraceServiceRequest()
    for number in range(2):
        url = f"https://schemas.example.com/{'x' * 100}/{number}"
        resource_spans = request.resource_spans.add(schema_url=url)
        scope_spans = resource_spans.scope_spans.add(schema_url=url)
        scope_spans.spans.add(
            trace_id=b"t" * 16, span_id=bytes([number + 1]) * 8, name="n", start_time_unix_nano=number
        )
    assert normal_spans(there_and_back(store, request)) == normal_spans(request)


@given(requests(valid_spans))
@settings(max_examples=60)
def test_any_request_comes_back(store: Store, request: ExportTraceServiceRequest) -> None:
    """Whatever valid request is sent comes back, but for the documented changes; of copies of a span the first."""
    first: dict[tuple[bytes, bytes], str] = {}
    for (_, _, span), text in zip(flat(request), normal_spans(request), strict=True):
        first.setdefault((span.trace_id, span.span_id), text)
    assert sorted(normal_spans(there_and_back(store, request))) == sorted(first.values())


def an_odd_export(odd_ns: int) -> ExportTraceServiceRequest:
    """Return spans that start, end, or have an event at an odd time, and one that does not."""
    pairs = [(START_NS, START_NS), (odd_ns, 0), (odd_ns, odd_ns), (START_NS, odd_ns), (odd_ns, START_NS)]
    request = an_export(len(pairs) + 1)
    for (_, _, span), (start_ns, end_ns) in zip(flat(request), pairs, strict=False):
        span.start_time_unix_nano, span.end_time_unix_nano = start_ns, end_ns
    flat(request)[-1][2].events.add(time_unix_nano=odd_ns)
    return request


@pytest.mark.parametrize("odd_ns", [LAST_NS, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1])
def test_times_at_the_ends_of_what_the_wire_can_say_do_no_harm(store: Store, odd_ns: int) -> None:
    """A span with a time far from today comes back as it was sent, and can be read in SQL beside the others."""
    request = an_odd_export(odd_ns)
    tenant = next(tenants)
    decoded = decode([Request(body=request.SerializeToString(), tenant=tenant)], received_at_us=RECEIVED_AT_US)
    commit(store, decoded.batch)
    accepted = set(decoded.batch.spans.column("span_id").to_pylist())
    assert len(accepted) == len(flat(request))
    expected = normal_spans(request)
    trace = store.queries.trace(trace_id(0), tenant=tenant)
    assert trace is not None
    assert sorted(normal_spans(exported([trace]))) == sorted(expected)
    assert [summary.span_count for summary in store.queries.newest_traces(tenant=tenant)] == [len(accepted)]
    assert len(rows(store, f"SELECT * FROM spans WHERE tenant = '{tenant}'")) == len(accepted)
    assert len(rows(store, f"SELECT * FROM traces WHERE tenant = '{tenant}'")) == 1
    for view in ("spans", "traces"):
        wrong = f"SELECT count(*) FROM {view} WHERE tenant = '{tenant}' AND (duration_ms < 0 OR end_time < start_time)"
        assert rows(store, wrong) == [(0,)]


def test_attributes_are_plain_values_in_sql(store: Store) -> None:
    """`attributes['k']` is the text that a person would write for the value, and NULL for an unset one."""
    request = an_export()
    attributes = flat(request)[0][2].attributes
    attributes.add(key="model").value.string_value = "gpt-6"
    attributes.add(key="stream").value.bool_value = True
    attributes.add(key="tokens").value.int_value = -(2**63)
    attributes.add(key="temperature").value.double_value = 0.1
    attributes.add(key="top_p").value.double_value = 1.0
    attributes.add(key="raw").value.bytes_value = b"\0\xff"
    reasons = attributes.add(key="reasons").value.array_value.values
    reasons.add(string_value='st"op')
    reasons.add(double_value=2)
    attributes.add(key="arguments").value.kvlist_value.values.add(key="city").value.string_value = "Oslo"
    attributes.add(key="unset")
    commit(store, a_batch(request, tenant="sql"))
    keys = ["model", "stream", "tokens", "temperature", "top_p", "raw", "reasons", "arguments", "unset", "absent"]
    columns = ", ".join(f"attributes['{key}']" for key in keys)
    (row,) = rows(store, f"SELECT {columns} FROM spans WHERE tenant = 'sql'")
    assert dict(zip(keys, row, strict=True)) == {
        "model": "gpt-6",
        "stream": "true",
        "tokens": "-9223372036854775808",
        "temperature": "0.1",
        "top_p": "1",
        "raw": "00ff",
        "reasons": '["st\\"op",2.0]',
        "arguments": '{"city":"Oslo"}',
        "unset": None,
        "absent": None,
    }
    computed = "attributes['tokens']::BIGINT + 1, attributes['arguments']->>'city', attributes['reasons']->>'$[0]'"
    assert rows(store, f"SELECT {computed} FROM spans WHERE tenant = 'sql'") == [(1 - 2**63, "Oslo", 'st"op')]


def test_the_views_have_the_columns_that_are_promised(store: Store) -> None:
    """`spans`, `traces` and `tool_calls` have the columns that the docs document, in that order."""
    assert [row[0] for row in rows(store, "DESCRIBE spans")] == SPANS_COLUMNS + MORE_SPANS_COLUMNS + READ_COLUMNS
    assert [row[0] for row in rows(store, "DESCRIBE traces")] == TRACES_COLUMNS
    assert [row[0] for row in rows(store, "DESCRIBE tool_calls")] == TOOL_CALLS_COLUMNS


def test_a_span_reads_well_in_sql(store: Store) -> None:
    """Ids are lower-case hex, kinds and states are words, and times are instants with a duration in milliseconds."""
    request = an_export()
    span = flat(request)[0][2]
    span.kind, span.parent_span_id = Span.SPAN_KIND_CLIENT, b"\xab" * 8
    span.status.code, span.status.message = Status.STATUS_CODE_ERROR, "boom"
    commit(store, a_batch(request, tenant="reads well"))
    (row,) = rows(
        store,
        "SELECT trace_id, span_id, parent_span_id, kind, status_code, status_message, duration_ms, "
        "epoch_ns(start_time), service_name, project FROM spans WHERE tenant = 'reads well'",
    )
    assert row == (
        "0" * 31 + "1", "0" * 15 + "1", "ab" * 8, "CLIENT", "ERROR", "boom", 1.0, START_NS, "shop", "shop"
    )  # fmt: skip


def test_a_span_that_has_not_ended_has_no_end_and_no_duration(store: Store) -> None:
    """An end time of 0 is NULL in both views, not 1970."""
    request = an_export()
    flat(request)[0][2].end_time_unix_nano = 0
    commit(store, a_batch(request, tenant="unfinished"))
    for view in ("spans", "traces"):
        assert rows(store, f"SELECT end_time, duration_ms FROM {view} WHERE tenant = 'unfinished'") == [(None, None)]
