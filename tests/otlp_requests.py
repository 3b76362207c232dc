"""Random OTLP trace requests, for property tests."""

from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    EntityRef,
    InstrumentationScope,
    KeyValue,
    KeyValueList,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

LAST_NS = 2**63 - 2  # DuckDB's TIMESTAMP_NS has no later instant: 2**63 - 1 is its infinity

texts = st.sampled_from(
    ["", "a", "ab", "\0", "\x01\x1f\x7f", 'a"b\\c/d', "\\", "\n\r\t\b\f", "null", "1", "1.0", "[]", "{}", "ÿé",
     "\u2028", "🦜🏽", "\U0010ffff"]
) | st.text(max_size=6)  # fmt: skip
doubles = (
    st.sampled_from([0.0, -0.0, 1.0, -7.0, 0.1, 1e16, 1e300, 5e-324, float("inf"), -float("inf"), float("nan")])
    | st.floats()
)
ints = st.sampled_from([0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63)]) | st.integers(-(2**63), 2**63 - 1)
counts = st.sampled_from([0, 0, 1, 2**32 - 1]) | st.integers(0, 2**32 - 1)
times = st.sampled_from([0, 1, 1_795_255_200_000_000_123, LAST_NS]) | st.integers(0, LAST_NS)
keys = st.sampled_from(["k", "gen_ai.request.model", "service.name", "dokimos.project"]) | texts

_leaves = st.one_of(
    st.just(AnyValue()),
    st.builds(AnyValue, string_value=texts),
    st.builds(AnyValue, bool_value=st.booleans()),
    st.builds(AnyValue, int_value=ints),
    st.builds(AnyValue, double_value=doubles),
    st.builds(AnyValue, bytes_value=st.binary(max_size=5)),
    st.builds(AnyValue, string_value_strindex=st.integers(0, 3)),
)


def _nested(values: st.SearchStrategy[AnyValue]) -> st.SearchStrategy[AnyValue]:
    arrays = st.builds(ArrayValue, values=st.lists(values, max_size=3))
    pairs = st.builds(KeyValue, key=st.sampled_from(["", "a"]) | texts, value=st.none() | values)
    maps = st.builds(KeyValueList, values=st.lists(pairs, max_size=3))
    return st.builds(AnyValue, array_value=arrays) | st.builds(AnyValue, kvlist_value=maps)


any_values = st.recursive(_leaves, _nested, max_leaves=6)
_pairs = st.builds(KeyValue, key=keys, value=st.none() | any_values, key_strindex=st.sampled_from([0, 0, 0, 1]))
attribute_lists = st.lists(_pairs, max_size=3)

trace_ids = st.sampled_from([bytes(15) + b"\1", bytes(15) + b"\2", b"\xff" * 16])
span_ids = st.sampled_from([bytes(7) + b"\1", bytes(7) + b"\2", b"\xff" * 8]) | st.binary(
    min_size=8, max_size=8
).filter(any)
parent_ids = st.sampled_from([b"", bytes(8)]) | span_ids
any_ids = trace_ids | span_ids | st.sampled_from([b"", bytes(16), bytes(8), b"x", b"x" * 15, b"x" * 17, b"x" * 7])

_events = st.builds(
    Span.Event, time_unix_nano=times, name=texts, attributes=attribute_lists, dropped_attributes_count=counts
)
_links = st.builds(
    Span.Link,
    trace_id=any_ids,
    span_id=any_ids,
    trace_state=texts,
    attributes=attribute_lists,
    dropped_attributes_count=counts,
    flags=counts,
)
_kinds = st.integers(0, 5) | st.sampled_from([99, -1])  # an open enum: numbers of the future are kept
_status = st.builds(Status, code=st.integers(0, 3), message=texts)


def _spans(
    trace: st.SearchStrategy[bytes],
    own: st.SearchStrategy[bytes],
    parent: st.SearchStrategy[bytes],
    name: st.SearchStrategy[str],
) -> st.SearchStrategy[Span]:
    return st.builds(
        Span,
        trace_id=trace,
        span_id=own,
        parent_span_id=parent,
        trace_state=texts,
        flags=counts,
        name=name,
        kind=_kinds,
        start_time_unix_nano=times,
        end_time_unix_nano=times,
        attributes=attribute_lists,
        dropped_attributes_count=counts,
        events=st.lists(_events, max_size=2),
        dropped_events_count=counts,
        links=st.lists(_links, max_size=2),
        dropped_links_count=counts,
        status=st.none() | _status,
    )


_names = texts.filter(str.strip)
valid_spans = _spans(trace_ids, span_ids, parent_ids, _names)
all_spans = valid_spans | _spans(any_ids, any_ids, any_ids, texts)

_refs = st.builds(
    EntityRef,
    schema_url=texts,
    type=texts,
    id_keys=st.lists(texts, max_size=2),
    description_keys=st.lists(texts, max_size=2),
)
resources = st.builds(
    Resource, attributes=attribute_lists, dropped_attributes_count=counts, entity_refs=st.lists(_refs, max_size=2)
)
scopes = st.builds(
    InstrumentationScope, name=texts, version=texts, attributes=attribute_lists, dropped_attributes_count=counts
)
_urls = st.sampled_from(["", "https://opentelemetry.io/schemas/1.44.0"]) | texts


def requests(spans: st.SearchStrategy[Span]) -> st.SearchStrategy[ExportTraceServiceRequest]:
    """Return requests of up to two resources with up to two scopes with up to three spans each."""
    scope_spans = st.builds(ScopeSpans, scope=st.none() | scopes, spans=st.lists(spans, max_size=3), schema_url=_urls)
    resource_spans = st.builds(
        ResourceSpans,
        resource=st.none() | resources,
        scope_spans=st.lists(scope_spans, max_size=2),
        schema_url=_urls,
    )
    return st.builds(ExportTraceServiceRequest, resource_spans=st.lists(resource_spans, max_size=2))
