"""OTLP/JSON: what senders write, read leniently, and with the path of what cannot be read."""

import base64
import json
import math
import re
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collector.otlp.decode import Receipt, Request, decode
from collector.otlp.faults import Malformed
from collector.otlp.json_request import to_protobuf
from collector.otlp.values import MAX_DEPTH
from tests.otlp_requests import all_spans, requests
from tests.plain_otlp import flat
from tests.storing import RECEIVED_AT_US

TRACE_ID, SPAN_ID = "5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174"
Json = dict[str, Any]


def a_span(**fields: Any) -> Json:
    """Build a request with one span that has these fields."""
    span = {"traceId": TRACE_ID, "spanId": SPAN_ID, "name": "n"} | fields
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def a_value(value: Any) -> Json:
    """Build a request with one span that has one attribute."""
    return a_span(attributes=[{"key": "k", "value": value}])


def read(document: object) -> ExportTraceServiceRequest:
    """Return the document as the decoder will see it."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return ExportTraceServiceRequest.FromString(to_protobuf(body))


def span_of(document: object) -> Span:
    """Return the only span of a request."""
    ((_, _, span),) = flat(read(document))
    return span


def value_of(document: object) -> AnyValue:
    """Return the value of its only attribute."""
    (pair,) = span_of(document).attributes
    return pair.value


def fault(document: object) -> str:
    """Return the error for a document."""
    with pytest.raises(Malformed) as refusal:
        read(document)
    return str(refusal.value)


def read_or_fault(document: object) -> str:
    """Read a document; why it is refused, or nothing."""
    try:
        read(document)
    except Malformed as refusal:
        assert str(refusal)  # noqa: PT017 - being read is right, too
        return str(refusal)
    return ""


def test_the_official_example_is_read() -> None:
    """The example of opentelemetry-proto (examples/trace.json) becomes the request that it means."""
    document = """
    {"resourceSpans": [{
      "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "my.service"}}]},
      "scopeSpans": [{
        "scope": {
          "name": "my.library", "version": "1.0.0",
          "attributes": [{"key": "my.scope.attribute", "value": {"stringValue": "some scope attribute"}}]
        },
        "spans": [{
          "traceId": "5B8EFFF798038103D269B633813FC60C", "spanId": "EEE19B7EC3C1B174",
          "parentSpanId": "EEE19B7EC3C1B173", "name": "I'm a server span",
          "startTimeUnixNano": "1544712660000000000", "endTimeUnixNano": "1544712661000000000", "kind": 2,
          "attributes": [{"key": "my.span.attr", "value": {"stringValue": "some value"}}]
        }]
      }]
    }]}"""
    expected = ExportTraceServiceRequest()
    resource_spans = expected.resource_spans.add()
    resource_spans.resource.attributes.add(key="service.name").value.string_value = "my.service"
    scope_spans = resource_spans.scope_spans.add()
    scope_spans.scope.name, scope_spans.scope.version = "my.library", "1.0.0"
    scope_spans.scope.attributes.add(key="my.scope.attribute").value.string_value = "some scope attribute"
    span = scope_spans.spans.add(
        trace_id=bytes.fromhex("5b8efff798038103d269b633813fc60c"),
        span_id=bytes.fromhex("eee19b7ec3c1b174"),
        parent_span_id=bytes.fromhex("eee19b7ec3c1b173"),
        name="I'm a server span",
        start_time_unix_nano=1544712660000000000,
        end_time_unix_nano=1544712661000000000,
        kind=Span.SPAN_KIND_SERVER,
    )
    span.attributes.add(key="my.span.attr").value.string_value = "some value"
    assert read(document.encode()) == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        (TRACE_ID, bytes.fromhex(TRACE_ID)),
        (TRACE_ID.upper(), bytes.fromhex(TRACE_ID)),
        (TRACE_ID[:16] + TRACE_ID[16:].upper(), bytes.fromhex(TRACE_ID)),
        (base64.b64encode(bytes.fromhex(TRACE_ID)).decode(), bytes.fromhex(TRACE_ID)),
        ("", b""),
        (None, b""),
        ("ab", b"\xab"),
    ],
)
def test_ids_are_hex_in_any_case_or_base64_of_the_right_length(text: str | None, expected: bytes) -> None:
    """A trace id in hex, or in base64 that decodes to sixteen bytes, is those bytes; other hex is kept as it is."""
    assert span_of(a_span(traceId=text)).trace_id == expected


@pytest.mark.parametrize("name", ["traceId", "spanId", "parentSpanId"])
@pytest.mark.parametrize("text", ["xyz", "é", "abc", "g" * 32, "AAAA", "====", "\ud800", TRACE_ID + SPAN_ID, " "])
def test_a_bad_id_costs_its_span_alone(name: str, text: str) -> None:
    """An id that is neither hex nor base64 of its length makes its span invalid, not the request."""
    document = a_span(**{name: text})
    document["resourceSpans"][0]["scopeSpans"][0]["spans"].append(
        {"traceId": TRACE_ID, "spanId": "1" * 16, "name": "m"}
    )
    body = to_protobuf(json.dumps(document).encode())
    (receipt,) = decode([Request(body=body)], received_at_us=RECEIVED_AT_US).outcomes
    assert isinstance(receipt, Receipt)
    assert (receipt.accepted, receipt.rejected) == (1, 1)


def test_link_ids_are_hex_too() -> None:
    """The ids of a link are read as those of a span, and are empty if they cannot be read."""
    (link,) = span_of(a_span(links=[{"traceId": TRACE_ID.upper(), "spanId": SPAN_ID}])).links
    assert (link.trace_id.hex(), link.span_id.hex()) == (TRACE_ID, SPAN_ID)
    (link,) = span_of(a_span(links=[{"traceId": "not-an-id!", "spanId": "x!"}])).links
    assert (link.trace_id, link.span_id) == (b"", b"")


@pytest.mark.parametrize(
    "value",
    [1544712660000000000, "1544712660000000000", 1544712660000000000.0, "1.54471266e18", "1544712660000000000.0"],
    ids=repr,
)
def test_long_integers_come_as_strings_numbers_or_floats(value: object) -> None:
    """Senders write 64-bit integers in each of these ways, and all mean the same."""
    assert span_of(a_span(startTimeUnixNano=value)).start_time_unix_nano == 1544712660000000000
    assert value_of(a_value({"intValue": value})) == AnyValue(int_value=1544712660000000000)


@pytest.mark.parametrize("number", [2**53 + 1, 2**63 - 1, -(2**63), 0, -1])
@pytest.mark.parametrize("write", [int, str])
def test_integers_keep_every_digit(number: int, write: type) -> None:
    """The largest integers arrive exactly, as numbers and as strings."""
    assert value_of(a_value({"intValue": write(number)})) == AnyValue(int_value=number)


@pytest.mark.parametrize("kind", [3, "3", 3.0, "SPAN_KIND_CLIENT"], ids=repr)
def test_enums_come_as_numbers_or_names(kind: object) -> None:
    """A span kind is read from its number and from its name."""
    assert span_of(a_span(kind=kind)).kind == Span.SPAN_KIND_CLIENT


def test_a_status_may_be_named() -> None:
    """Status codes are read from their names too, and numbers of the future are kept."""
    assert span_of(a_span(status={"code": "STATUS_CODE_ERROR", "message": "m"})).status.code == 2
    assert span_of(a_span(kind=99)).kind == 99


def test_keys_may_be_snake_case() -> None:
    """The proto names of fields are read like their JSON names."""
    span = {
        "trace_id": TRACE_ID,
        "span_id": SPAN_ID,
        "name": "n",
        "start_time_unix_nano": "5",
        "dropped_links_count": 2,
    }
    span["attributes"] = [{"key": "k", "value": {"string_value": "v"}}]
    document = {"resource_spans": [{"schema_url": "u", "scope_spans": [{"spans": [span]}]}]}
    camel = {"traceId": TRACE_ID, "spanId": SPAN_ID, "name": "n", "startTimeUnixNano": "5", "droppedLinksCount": 2}
    camel["attributes"] = [{"key": "k", "value": {"stringValue": "v"}}]
    assert read(document) == read({"resourceSpans": [{"schemaUrl": "u", "scopeSpans": [{"spans": [camel]}]}]})


def test_unknown_fields_and_nulls_are_ignored() -> None:
    """Fields unknown to OTLP, at any level, and null for known ones, are ignored."""
    noise = {"whatever": [1, {"traceId": "x"}], "status": None, "attributes": None, "kind": None, "links": None}
    document = a_span(**noise, endTimeUnixNano=None)
    document |= {"unknown": {}, "more": None}
    document["resourceSpans"][0] |= {"instrumentationLibrarySpans": [], "resource": None}
    document["resourceSpans"][0]["scopeSpans"][0] |= {"scope": None, "schemaUrl": None}
    assert read(document) == read(a_span())


def test_a_null_in_an_array_is_an_empty_element() -> None:
    """A null among attributes or values is the empty message, as the Collector reads it."""
    span = span_of(
        a_span(attributes=[None, {"key": "k", "value": {"arrayValue": {"values": [None, {"intValue": 1}]}}}])
    )
    assert [pair.key for pair in span.attributes] == ["", "k"]
    assert [value.WhichOneof("value") for value in span.attributes[1].value.array_value.values] == [None, "int_value"]


@pytest.mark.parametrize(
    "value, expected",
    [
        ({"stringValue": ""}, AnyValue(string_value="")),
        ({"stringValue": "a\0b\u2028🦜"}, AnyValue(string_value="a\0b\u2028🦜")),
        ({"boolValue": False}, AnyValue(bool_value=False)),
        ({"doubleValue": 1}, AnyValue(double_value=1.0)),
        ({"doubleValue": "1.5"}, AnyValue(double_value=1.5)),
        ({"doubleValue": "Infinity"}, AnyValue(double_value=math.inf)),
        ({"doubleValue": "-Infinity"}, AnyValue(double_value=-math.inf)),
        ({"doubleValue": math.inf}, AnyValue(double_value=math.inf)),
        ({"doubleValue": 10**400}, AnyValue(double_value=math.inf)),
        ({"doubleValue": -(10**400)}, AnyValue(double_value=-math.inf)),
        ({"doubleValue": "1e400"}, AnyValue(double_value=math.inf)),
        ({"bytesValue": "AP8="}, AnyValue(bytes_value=b"\0\xff")),
        ({"bytesValue": "AP8"}, AnyValue(bytes_value=b"\0\xff")),
        ({"bytesValue": "-_-_"}, AnyValue(bytes_value=b"\xfb\xff\xbf")),
        ({"bytesValue": ""}, AnyValue(bytes_value=b"")),
        ({"arrayValue": {}}, AnyValue(array_value={})),  # type: ignore[arg-type]
        ({"kvlistValue": {"values": []}}, AnyValue(kvlist_value={})),  # type: ignore[arg-type]
        ({}, AnyValue()),
        (None, AnyValue()),
        ({"intValue": 1, "stringValue": "last"}, AnyValue(string_value="last")),
    ],
)
def test_values_of_every_kind_are_read(value: Any, expected: AnyValue) -> None:
    """Each kind of attribute value arrives with its type and value, in every allowed spelling."""
    assert value_of(a_value(value)) == expected


@pytest.mark.parametrize("value", ["NaN", math.nan])
def test_not_a_number_is_read(value: object) -> None:
    """NaN is taken as the string that the JSON mapping prescribes, and as the bare word that Python writes."""
    assert math.isnan(value_of(a_value({"doubleValue": value})).double_value)


@pytest.mark.parametrize(
    "text, expected",
    [
        ('"a\\ud83d"', "a\ufffd"),
        ('"\\ude00b"', "\ufffdb"),
        ('"\\ude00\\ud83d"', "\ufffd\ufffd"),
        ('"\\ud83d\\ude00"', "😀"),
        ('"é\\ud83d\\ud83d\\ude00"', "é\ufffd😀"),
    ],
)
@pytest.mark.parametrize("place", ["value", "key", "name"])
def test_half_a_surrogate_pair_becomes_the_replacement_character(place: str, text: str, expected: str) -> None:
    """Text that JavaScript cut inside an emoji is kept, with a mark where it was cut."""
    span = a_span(attributes=[{"key": "KEY", "value": {"stringValue": "VALUE"}}], traceState="NAME")
    span_read = span_of(json.dumps(span).replace(f'"{place.upper()}"', text).encode())
    texts = {
        "value": span_read.attributes[0].value.string_value,
        "key": span_read.attributes[0].key,
        "name": span_read.trace_state,
    }
    assert texts[place] == expected


ATTRIBUTE = "resourceSpans[0].scopeSpans[0].spans[0].attributes[0]"
UNSIGNED = "an integer from 0 to 18446744073709551615"
LONG = "an integer from -9223372036854775808 to 9223372036854775807"


@pytest.mark.parametrize(
    "document, message",
    [
        ([], "the body: expected an object, got []"),
        ("text", 'the body: expected an object, got "text"'),
        (None, "the body: expected an object, got null"),
        ({"resourceSpans": {}}, "resourceSpans: expected an array, got {}"),
        ({"resourceSpans": [1]}, "resourceSpans[0]: expected an object, got 1"),
        ({"resourceSpans": [{}, {"schemaUrl": 1}]}, "resourceSpans[1].schemaUrl: expected a string, got 1"),
        ({"resourceSpans": [{"resource": []}]}, "resourceSpans[0].resource: expected an object, got []"),
        (a_span(traceId=5), "resourceSpans[0].scopeSpans[0].spans[0].traceId: expected a string, got 5"),
        (a_span(name={}), "resourceSpans[0].scopeSpans[0].spans[0].name: expected a string, got {}"),
        (a_span(kind="CLIENT"), "resourceSpans[0].scopeSpans[0].spans[0].kind: expected an integer from"),
        (a_span(kind=2**31), "resourceSpans[0].scopeSpans[0].spans[0].kind: expected an integer from"),
        (a_span(flags=-1), "resourceSpans[0].scopeSpans[0].spans[0].flags: expected an integer from 0 to 4294967295"),
        (a_span(startTimeUnixNano=-1), f"spans[0].startTimeUnixNano: expected {UNSIGNED}, got -1"),
        (a_span(startTimeUnixNano=2**64), f"spans[0].startTimeUnixNano: expected {UNSIGNED}, got 18446744073709551616"),
        (a_span(startTimeUnixNano="soon"), f'spans[0].startTimeUnixNano: expected {UNSIGNED}, got "soon"'),
        (a_span(attributes="k=v"), "spans[0].attributes: expected an array, got"),
        (a_span(attributes=[[]]), f"{ATTRIBUTE}: expected an object, got []"),
        (a_span(attributes=[{"key": 1}]), f"{ATTRIBUTE}.key: expected a string, got 1"),
        (a_value("text"), f'{ATTRIBUTE}.value: expected an object, got "text"'),
        (a_value({"stringValue": 5}), f"{ATTRIBUTE}.value.stringValue: expected a string, got 5"),
        (a_value({"boolValue": "true"}), f'{ATTRIBUTE}.value.boolValue: expected true or false, got "true"'),
        (a_value({"boolValue": 1}), f"{ATTRIBUTE}.value.boolValue: expected true or false, got 1"),
        (a_value({"intValue": 2**63}), f"{ATTRIBUTE}.value.intValue: expected {LONG}, got 9223372036854775808"),
        (a_value({"intValue": str(2**63)}), f"{ATTRIBUTE}.value.intValue: expected {LONG}"),
        (a_value({"intValue": 1.5}), f"{ATTRIBUTE}.value.intValue: expected {LONG}, got 1.5"),
        (a_value({"intValue": True}), f"{ATTRIBUTE}.value.intValue: expected {LONG}, got true"),
        (a_value({"intValue": math.nan}), f"{ATTRIBUTE}.value.intValue: expected {LONG}, got NaN"),
        (a_value({"intValue": math.inf}), f"{ATTRIBUTE}.value.intValue: expected {LONG}, got Infinity"),
        (a_value({"intValue": ""}), f'{ATTRIBUTE}.value.intValue: expected {LONG}, got ""'),
        (a_value({"doubleValue": "much"}), f'{ATTRIBUTE}.value.doubleValue: expected a number, got "much"'),
        (a_value({"doubleValue": True}), f"{ATTRIBUTE}.value.doubleValue: expected a number, got true"),
        (a_value({"bytesValue": "*"}), f'{ATTRIBUTE}.value.bytesValue: expected base64, got "*"'),
        (a_value({"bytesValue": "é"}), f'{ATTRIBUTE}.value.bytesValue: expected base64, got "\\u00e9"'),
        (a_value({"bytesValue": "A"}), f'{ATTRIBUTE}.value.bytesValue: expected base64, got "A"'),
        (a_value({"bytesValue": [1]}), f"{ATTRIBUTE}.value.bytesValue: expected a string, got [1]"),
        (a_value({"arrayValue": []}), f"{ATTRIBUTE}.value.arrayValue: expected an object, got []"),
        (
            a_value({"arrayValue": {"values": [{}, {"kvlistValue": {"values": [{"key": "k", "value": 5}]}}]}}),
            f"{ATTRIBUTE}.value.arrayValue.values[1].kvlistValue.values[0].value: expected an object, got 5",
        ),
        (a_span(name=["x" * 1000]), f'.name: expected a string, got ["{"x" * 38}…'),
    ],
)  # fmt: skip
def test_a_bad_value_is_named_by_its_path(document: object, message: str) -> None:
    """A value of the wrong type refuses the request with its path, the expected type, and the actual one."""
    assert message in fault(document)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"nonsense", b"\xff\xfe\xfd", b'{"resourceSpans": [{"schemaUrl": "\xff"}]}', b"{} {}", b"\0", b"'"],
)
def test_what_is_not_json_is_said_to_be_not_json(body: bytes) -> None:
    """Bytes that are not JSON are refused as such."""
    assert fault(body).startswith("not JSON: ")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_every_unicode_encoding_of_json_is_read(encoding: str) -> None:
    """JSON is read in any of the encodings that RFC 4627 allowed, with and without a byte order mark."""
    assert span_of(json.dumps(a_span(name="🦜"), ensure_ascii=False).encode(encoding)).name == "🦜"


def nested(levels: int, kind: str) -> Json:
    """Return a value that many levels deep."""
    value: Json = {"intValue": 1}
    for _ in range(levels):
        items = [value] if kind == "arrayValue" else [{"key": "k", "value": value}]
        value = {kind: {"values": items}}
    return value


@pytest.mark.parametrize("kind", ["arrayValue", "kvlistValue"])
def test_nesting_is_taken_as_deep_as_it_is_stored(kind: str) -> None:
    """JSON takes values as deep as the decoder does, wherever they are, and refuses far deeper ones by name."""
    attribute = {"key": "k", "value": nested(MAX_DEPTH, kind)}
    document = a_span(attributes=[attribute], events=[{"attributes": [attribute]}])
    body = to_protobuf(json.dumps(document).encode())
    outcomes = decode([Request(body=body, tenant="")], received_at_us=RECEIVED_AT_US).outcomes
    assert outcomes == [Receipt(accepted=1, rejected=0)]
    assert "levels" in fault(a_value(nested(2 * MAX_DEPTH, kind)))


@pytest.mark.parametrize("levels", [500, 900, 5_000, 100_000])
@pytest.mark.parametrize("opening, closing", [("[", "]"), ('{"arrayValue":{"values":[', "]}}"), ('{"x":', "}")])
def test_nesting_without_end_is_refused(levels: int, opening: str, closing: str) -> None:
    """However deep a body is nested, known fields or not, it is read or refused."""
    inner = opening * levels + ("1" if opening == '{"x":' else "") + closing * levels
    body = json.dumps(a_value("HERE")).replace('"HERE"', inner).encode()
    assert len(read_or_fault(body)) < 100_000


def test_numbers_with_thousands_of_digits_are_refused() -> None:
    """An integer longer than Python converts is refused, as a number and as a string."""
    for text in ("9" * 5000, f'"{"9" * 5000}"'):
        assert fault(json.dumps(a_span(flags="HERE")).replace('"HERE"', text).encode())


def as_json(request: ExportTraceServiceRequest) -> Json:
    """Return the request in OTLP's JSON, written with protobuf's own printer: only ids and enums differ."""
    document: Json = json_format.MessageToDict(request, use_integers_for_enums=True)
    for resource_spans in document.get("resourceSpans", []):
        for scope_spans in resource_spans.get("scopeSpans", []):
            for span in scope_spans.get("spans", []):
                for message in (span, *span.get("links", [])):
                    for name in ("traceId", "spanId", "parentSpanId"):
                        if name in message:
                            message[name] = base64.b64decode(message[name]).hex()
    return document


@given(requests(all_spans))
def test_json_means_the_same_as_protobuf(request_: ExportTraceServiceRequest) -> None:
    """Any request written as JSON is read as the very request, so that both store the same rows."""
    assert _text(read(as_json(request_))) == _text(request_)


def _text(request: ExportTraceServiceRequest) -> str:
    # NaN is equal to NaN in text.
    return re.sub(r"\n *key_strindex: 1", "", str(request))


@given(requests(all_spans))
@settings(max_examples=50)
def test_json_and_protobuf_store_the_same_rows(request_: ExportTraceServiceRequest) -> None:
    """The batch decoded from the JSON body is the batch decoded from the protobuf body."""
    bodies = [to_protobuf(json.dumps(as_json(request_)).encode()), request_.SerializeToString()]
    from_json, from_protobuf = (decode([Request(body=body)], received_at_us=RECEIVED_AT_US) for body in bodies)
    assert from_json.outcomes == from_protobuf.outcomes
    assert from_json.batch.spans.drop_columns(["resource_id", "scope_id"]).equals(
        from_protobuf.batch.spans.drop_columns(["resource_id", "scope_id"])
    )


keys = st.sampled_from(
    ["resourceSpans", "scopeSpans", "spans", "resource", "attributes", "key", "value", "traceId", "kind", "intValue",
     "doubleValue", "arrayValue", "kvlistValue", "values", "bytesValue", "status", "flags", "entityRefs", "idKeys"]
)  # fmt: skip
documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.just(10**400)
    | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=15,
)


@given(documents)
def test_any_json_is_read_or_refused(document: object) -> None:
    """Whatever the document, the answer is a request or `Malformed`."""
    read_or_fault(document)


@given(st.dictionaries(keys, documents, max_size=3), st.sampled_from(["span", "attribute", "value"]))
def test_anything_inside_a_span_is_read_or_refused(content: Json, place: str) -> None:
    """Whatever stands where a span, an attribute or a value belongs, the answer is a request or `Malformed`."""
    made = {
        "span": lambda: a_span(**content),
        "attribute": lambda: a_span(attributes=[content]),
        "value": lambda: a_value(content),
    }
    read_or_fault(made[place]())
