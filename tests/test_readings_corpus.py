"""SQL shows of every recorded payload what Python reads of it, wherever its log records come."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.api.documents.documents import trace_document
from collector.api.documents.reading_documents import trace_reading_of
from collector.api.responses.traces import TraceDocument
from collector.conventions.columnar.stored import json_text
from collector.conventions.own_keys import NO_KEYS
from collector.conventions.trace import read_trace
from collector.otlp.decode import Request, decode
from collector.otlp.signals import LOGS, TRACES, Signal
from storage.ingest.batch import SpanBatch
from storage.judging.judgements import TraceResults
from storage.records import SpanReading
from storage.store import Store
from tests.conventions.corpus_reading import SCENARIOS, tenant_of
from tests.corpus.record import otlp_json
from tests.matching import adding_up
from tests.storing import RECEIVED_AT_US, a_store, commit

pytestmark = pytest.mark.costly("collector/api", "collector/conventions", "collector/reading", "storage")

WAIT_S = 100.0
JSON = {"input_messages", "output_messages", "tool_arguments", "tool_definitions", "arguments"}
RESULTS = {"tool_result", "result"}
CALL = ("span_id", "ordinal", "call_id", "name", "arguments", "result", "is_error", "error")
TRACE = (
    "input", "output", "final_response", "session_id", "user_id", "input_tokens", "output_tokens", "cost_usd"
)  # fmt: skip
AS_IS = (
    "span_type", "dialect", "input", "output", "tool_name", "tool_call_id", "model", "provider", "input_tokens",
    "output_tokens", "cached_tokens", "reasoning_tokens", "cost_usd", "session_id", "user_id", "error", "error_type",
)  # fmt: skip
LOGS_FIRST = ("otel-openai-v2-chat", "otel-openai-v2-events-tool-call")

each_scenario = pytest.mark.parametrize("folder", SCENARIOS, ids=lambda p: f"{p.parent.name}/{p.name}")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield all scenarios, each a tenant: most with their log records last, some with them first, all read."""
    traces = {tenant_of(folder): a_part(folder, "traces") for folder in SCENARIOS}
    logs = {tenant_of(folder): a_part(folder, "logs") for folder in SCENARIOS if (folder / "logs.json").exists()}
    assert set(LOGS_FIRST) <= logs.keys()
    with a_store(tmp_path_factory.mktemp("data")) as opened, adding_up(opened) as traces_of:
        commit(opened, *(logs[tenant] for tenant in LOGS_FIRST))
        assert traces_of.wait_idle(WAIT_S)
        commit(opened, *traces.values())
        assert traces_of.wait_idle(WAIT_S)
        commit(opened, *(batch for tenant, batch in logs.items() if tenant not in LOGS_FIRST))
        assert traces_of.wait_idle(WAIT_S)
        yield opened


def a_part(folder: Path, name: str) -> SpanBatch:
    """Load the spans or log records of a scenario."""
    kind, signal = KINDS[name]
    request = otlp_json.loads((folder / f"{name}.json").read_text(encoding="utf-8"), kind)
    sent = Request(body=request.SerializeToString(), tenant=tenant_of(folder), signal=signal)
    return decode([sent], received_at_us=RECEIVED_AT_US).batch


KINDS: dict[str, tuple[type[Any], Signal]] = {
    "traces": (ExportTraceServiceRequest, TRACES),
    "logs": (ExportLogsServiceRequest, LOGS),
}


@each_scenario
def test_views_show_what_python_reads(store: Store, folder: Path) -> None:
    """Every column of `spans`, `tool_calls` and `traces` that is read equals what the conventions say."""
    tenant = tenant_of(folder)
    payload = json.loads((folder / "traces.json").read_text(encoding="utf-8"))
    trace_id = payload["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"]
    trace = store.queries.trace(trace_id, tenant=tenant)
    assert trace is not None
    assert bool(trace.logs) == (folder / "logs.json").exists()
    read = read_trace(trace.spans, trace.logs, NO_KEYS)
    order = {span.span_id: at for at, span in enumerate(trace.spans)}
    shown = sorted(records(store, "spans", tenant), key=lambda row: order[row["span_id"]])
    expected = [span_row(read.spans[span.span_id]) for span in trace.spans]
    both = zip(shown, expected, strict=True)
    assert [{name: decoded(name, row[name], like[name]) for name in like} for row, like in both] == expected
    calls = sorted(records(store, "tool_calls", tenant), key=lambda row: row["ordinal"])
    calls_read = [{name: getattr(call, name) for name in CALL} for call in read.tool_calls]
    pairs = zip(calls, calls_read, strict=True)
    assert [{name: decoded(name, row[name], like[name]) for name in like} for row, like in pairs] == calls_read
    (summary,) = records(store, "traces", tenant)
    assert {name: summary[name] for name in TRACE} == {name: getattr(read, name) for name in TRACE}
    assert summary["tool_call_count"] == len(read.tool_calls)


@each_scenario
def test_a_document_says_all_of_a_reading(store: Store, folder: Path) -> None:
    """What the API says of a trace, as JSON text, is read back as the same reading."""
    (trace_id,) = {row["trace_id"] for row in records(store, "spans", tenant_of(folder))}
    trace = store.queries.trace(trace_id, tenant=tenant_of(folder))
    assert trace is not None
    reading = read_trace(trace.spans, trace.logs, NO_KEYS)
    encoded = msgspec.json.encode(trace_document(trace, reading, TraceResults()))
    assert trace_reading_of(msgspec.json.decode(encoded, type=TraceDocument)) == reading


def span_row(reading: SpanReading) -> dict[str, Any]:
    """Compute the row that the view should show, with its JSON decoded."""
    row = {name: getattr(reading, name) for name in AS_IS}
    for name in ("input_messages", "output_messages"):
        messages = getattr(reading, name)
        row[name] = None if messages is None else json.loads(json_text(list(messages)))
    row["tool_arguments"] = reading.tool_arguments
    row["tool_result"] = reading.tool_result
    row["tool_definitions"] = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in reading.tool_definitions
    ] or None
    row["notes"] = "\n".join(reading.notes) or None
    return row


def decoded(name: str, value: Any, like: Any = None) -> Any:
    """Return a column as a value: JSON decoded, whatever its spacing. A result is JSON unless it is a text."""
    is_json = name in JSON or (name in RESULTS and not isinstance(like, str))
    return json.loads(value) if is_json and value is not None else value


def records(store: Store, view: str, tenant: str) -> list[dict[str, Any]]:
    """Return the rows of a view that belong to a scenario."""
    table = store.queries.sql(f"FROM {view} WHERE tenant = '{tenant}'", max_rows=10_000, timeout_s=60)
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


def test_late_logs_tell_what_the_span_did_not(store: Store) -> None:
    """Content that came in log records stands beside the span, whether they came before it or after it."""
    inputs = {
        tenant: [row["input"] for row in records(store, "spans", tenant) if row["span_type"] == "llm"]
        for tenant in (*LOGS_FIRST, "otel-openai-v2-tool-call", "otel-openai-v2-events-chat")
    }
    assert all(inputs.values())
    assert None not in [text for texts in inputs.values() for text in texts]
