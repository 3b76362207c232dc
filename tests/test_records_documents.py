"""Records, and the JSON documents made of them."""

import dataclasses
import datetime as dt
import inspect
import json
import math
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic.alias_generators import to_camel

from collector.api.base.times import time_text
from collector.api.documents.documents import (
    span_document,
    table_document,
    trace_document,
)
from collector.api.documents.judgement_documents import judged_by_span
from collector.api.responses.base import json_value
from collector.api.responses.traces import TraceSummaryDocument
from collector.api.responses.wire import WireDocument
from collector.conventions.own_keys import NO_KEYS
from collector.conventions.span import read_span
from collector.conventions.trace import read_trace
from storage import records
from storage.judging.judgements import TraceResults
from storage.records import (
    AttributeValue,
    Link,
    LogRecord,
    QueryColumn,
    Resource,
    Scope,
    Span,
    SpanEvent,
    SpanReading,
    Table,
    Trace,
    TraceSummary,
)

TRACE_ID, SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
START_NS = 1_795_255_200_000_000_123  # 2026-11-21T10:00:00.000000123Z

JUDGED_KEYS = {"evaluations", "decisions", "externalScores"}
SUMMARY_KEYS = {
    "traceId", "tenant", "project", "serviceName", "rootSpanName", "startTime", "endTime", "durationMs", "spanCount",
    "errorCount", "expiresAt",
}  # fmt: skip
TRACE_KEYS = {
    "input", "output", "finalResponse", "sessionId", "userId", "inputTokens", "outputTokens", "costUsd", "toolCalls",
    "finishReason", "toolDefinitions", "conversation", "spans", "summedSpanCount",
}  # fmt: skip
SPAN_KEYS = {
    "spanId", "parentSpanId", "name", "kind", "startTime", "endTime", "durationMs", "statusCode", "statusMessage",
    "input", "output", "attributes", "events", "links", "traceState", "flags", "droppedAttributesCount",
    "droppedEventsCount", "droppedLinksCount", "resource", "scope", "project", "serviceName", "logs", "spanType",
    "dialect", "inputMessages", "outputMessages", "toolName", "toolCallId", "toolArguments", "toolResult",
    "toolDefinitions", "model", "provider", "inputTokens", "outputTokens", "cachedTokens", "reasoningTokens", "costUsd",
    "finishReason", "sessionId", "userId", "runId", "itemKey", "error", "errorType", "sources", "notes",
}  # fmt: skip

attribute_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def a_span(
    *,
    span_id: str = SPAN_ID,
    start_ns: int = START_NS,
    end_ns: int | None = START_NS + 1_500_000,
    attributes: Mapping[str, AttributeValue] | None = None,
) -> Span:
    """Build a span of a tool call that failed, with something in every field."""
    return Span(
        tenant="",
        trace_id=TRACE_ID,
        span_id=span_id,
        parent_span_id="a" * 16,
        name="execute_tool get_order",
        kind=3,
        start_ns=start_ns,
        end_ns=end_ns,
        status_code=2,
        status_message="it broke",
        attributes=attributes or {},
        events=(SpanEvent(time_ns=START_NS, name="exception", attributes={"n": 1}, dropped_attributes_count=0),),
        links=(
            Link(
                trace_id="b" * 32,
                span_id="c" * 16,
                trace_state="x=1",
                attributes={"why": "retry"},
                dropped_attributes_count=0,
                flags=1,
            ),
        ),
        trace_state="vendor=1",
        flags=257,
        dropped_attributes_count=1,
        dropped_events_count=2,
        dropped_links_count=3,
        resource=Resource(
            attributes={"service.name": "shop"}, dropped_attributes_count=0, schema_url="https://r", entity_refs=()
        ),
        scope=Scope(
            name="lib", version="1.2", attributes={"s": True}, dropped_attributes_count=0, schema_url="https://s"
        ),
        project="shop",
        service_name="shop",
        sent_times=(),
    )


def shown(document: WireDocument) -> dict[str, Any]:
    """Return a document as a client reads it."""
    return cast("dict[str, Any]", json.loads(msgspec.json.encode(document)))


def shown_span(span: Span, *logs: LogRecord) -> dict[str, object]:
    """Return the document of a span, read without keys of an operator's own."""
    return shown(span_document(span, read_span(span, logs, NO_KEYS), logs, judged_by_span(TraceResults())[None]))


def shown_trace(trace: Trace) -> dict[str, object]:
    """Return the document of a trace, read without keys of an operator's own."""
    return shown(trace_document(trace, read_trace(trace.spans, trace.logs, NO_KEYS), TraceResults()))


def a_summary(*, end_ns: int | None = START_NS + 2_000_000) -> TraceSummary:
    """Return one row of the list of traces."""
    return TraceSummary(
        trace_id=TRACE_ID,
        tenant="",
        project="shop",
        service_name="shop",
        root_name="invoke_agent",
        start_ns=START_NS,
        end_ns=end_ns,
        span_count=2,
        error_count=1,
        expires_at_ns=START_NS,
    )


def test_records_are_frozen_values_without_defaults() -> None:
    """Every record is frozen, slotted, keyword-only, and says each of its fields."""
    classes = [value for _, value in inspect.getmembers(records, inspect.isclass) if dataclasses.is_dataclass(value)]
    assert len(classes) == 16
    for record in classes:
        fields = dataclasses.fields(record)
        assert "__slots__" in vars(record)
        assert record.__hash__ is not None, "frozen, for only frozen dataclasses that compare have a hash"
        assert all(field.kw_only and field.default is dataclasses.MISSING for field in fields), record


def test_a_trace_document_has_the_keys_of_the_api() -> None:
    """A trace is its summary with its spans, under the names that the API promises; it says when spans are missing."""
    document = shown_trace(Trace(summary=a_summary(), spans=(a_span(),), logs=()))
    assert document.keys() == SUMMARY_KEYS | TRACE_KEYS | JUDGED_KEYS | {"truncated"}
    whole = dataclasses.replace(a_summary(), span_count=1)
    assert (
        shown_trace(Trace(summary=whole, spans=(a_span(),), logs=())).keys() == SUMMARY_KEYS | TRACE_KEYS | JUDGED_KEYS
    )
    (span,) = cast("list[dict[str, object]]", document["spans"])
    assert span.keys() == SPAN_KEYS | JUDGED_KEYS


def test_a_span_document_says_everything_about_the_span() -> None:
    """Every field of a span arrives in its document."""
    log = LogRecord(
        tenant="",
        trace_id=TRACE_ID,
        span_id=SPAN_ID,
        time_ns=START_NS,
        event_name="gen_ai.choice",
        body={"index": 0},
        attributes={"gen_ai.system": "openai"},
    )
    document = shown_span(a_span(attributes={"input.value": "order 4711?", "tokens": 7}), log)
    meaning = {to_camel(field.name) for field in dataclasses.fields(SpanReading)} | JUDGED_KEYS
    assert {name: document[name] for name in document.keys() - (meaning - {"input", "output"})} == {
        "spanId": SPAN_ID,
        "parentSpanId": "a" * 16,
        "name": "execute_tool get_order",
        "kind": "CLIENT",
        "startTime": "2026-11-21T10:00:00.000000123Z",
        "endTime": "2026-11-21T10:00:00.001500123Z",
        "durationMs": 1.5,
        "statusCode": "ERROR",
        "statusMessage": "it broke",
        "input": "order 4711?",
        "output": None,
        "attributes": {"input.value": "order 4711?", "tokens": 7},
        "events": [{"time": "2026-11-21T10:00:00.000000123Z", "name": "exception", "attributes": {"n": 1}}],
        "links": [
            {
                "traceId": "b" * 32,
                "spanId": "c" * 16,
                "traceState": "x=1",
                "attributes": {"why": "retry"},
                "flags": 1,
            }
        ],
        "logs": [
            {
                "time": "2026-11-21T10:00:00.000000123Z",
                "eventName": "gen_ai.choice",
                "body": {"index": 0},
                "attributes": {"gen_ai.system": "openai"},
            }
        ],
        "traceState": "vendor=1",
        "flags": 257,
        "droppedAttributesCount": 1,
        "droppedEventsCount": 2,
        "droppedLinksCount": 3,
        "resource": {"attributes": {"service.name": "shop"}, "schemaUrl": "https://r"},
        "scope": {"name": "lib", "version": "1.2", "attributes": {"s": True}, "schemaUrl": "https://s"},
        "project": "shop",
        "serviceName": "shop",
    }


def test_what_never_ended_has_no_end_and_no_duration() -> None:
    """An end that is unknown is null, and so is the duration that would follow from it."""
    for document in (shown_span(a_span(end_ns=None)), shown(TraceSummaryDocument.of(a_summary(end_ns=None)))):
        assert document["endTime"] is None
        assert document["durationMs"] is None


def test_spans_come_by_start_time() -> None:
    """The spans of a trace document are ordered by their start, whatever order they were stored in."""
    spans = tuple(a_span(span_id=f"{at:016x}", start_ns=START_NS + at) for at in (2, 0, 1))
    document = shown_trace(Trace(summary=a_summary(), spans=spans, logs=()))
    shown = cast("list[dict[str, object]]", document["spans"])
    assert [span["spanId"] for span in shown] == [f"{at:016x}" for at in range(3)]


def test_numbers_that_no_enum_knows_read_as_not_set() -> None:
    """A kind or status that a newer OTLP might bring does not break the document."""
    document = shown_span(dataclasses.replace(a_span(), kind=17, status_code=-1))
    assert (document["kind"], document["statusCode"]) == ("UNSPECIFIED", "UNSET")


@pytest.mark.parametrize(
    "time_ns, text",
    [
        (None, None),
        (0, None),
        (1, "1970-01-01T00:00:00.000000001Z"),
        (START_NS, "2026-11-21T10:00:00.000000123Z"),
        (2**64 - 1, "2554-07-21T23:34:33.709551615Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
    ],
)
def test_times_have_nine_digits(time_ns: int | None, text: str | None) -> None:
    """An instant keeps its nanoseconds, over all that OTLP can carry, and 0 is not an instant."""
    assert time_text(time_ns) == text


@given(attribute_values)
def test_every_attribute_value_has_a_document(value: AttributeValue) -> None:
    """Whatever OTLP carries becomes strict JSON."""
    assert json.loads(json.dumps(json_value(value), allow_nan=False)) == json_value(value)


@given(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text())
def test_what_json_has_keeps_its_type(value: AttributeValue) -> None:
    """A string, a number, a bool or null is itself."""
    assert json_value(value) is value


@pytest.mark.parametrize(
    "value, shown",
    [
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (b"\x00\xff", "AP8="),
        ([1, b"", {"a": math.nan}], [1, "", {"a": "NaN"}]),
        (Decimal("1.50"), 1.5),
        (Decimal("0.1234567890123456789"), "0.1234567890123456789"),
        (dt.datetime(2026, 11, 21, 10, 0, 0, 5), "2026-11-21T10:00:00.000005000Z"),  # noqa: DTZ001 - as DuckDB answers
        (dt.datetime(2026, 11, 21, 12, tzinfo=dt.timezone(dt.timedelta(hours=2))), "2026-11-21T10:00:00.000000000Z"),
        (dt.date(2026, 11, 21), "2026-11-21"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ({1: "a", None: "b"}, {"1": "a", "None": "b"}),
        ((1, 2), [1, 2]),
        (2**100, 2**100),
    ],
)
def test_values_beyond_json_have_one_spelling(value: object, shown: object) -> None:
    """Bytes, special numbers and what only DuckDB answers with become text in a way that is written down."""
    assert json_value(value) == shown


def test_a_table_document_keeps_rows_and_types() -> None:
    """A query's answer has its columns with DuckDB's types, its rows as lists, and whether there is more."""
    columns = (QueryColumn(name="id", type="VARCHAR"), QueryColumn(name="raw", type="BLOB"))
    document = table_document(Table(columns=columns, rows=(("a", b"\x01"), (None, None)), truncated=True))
    assert document == {
        "columns": [{"name": "id", "type": "VARCHAR"}, {"name": "raw", "type": "BLOB"}],
        "rows": [["a", "AQ=="], [None, None]],
        "truncated": True,
    }
