"""Whole batches are read as `read_span` and `read_trace` read their spans one by one."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.conventions.columnar.reader import SpanReader
from collector.conventions.columnar.stored_trace import StoredTrace, stored_spans
from collector.conventions.columnar.traces import meanings
from collector.conventions.member import TraceMember
from collector.conventions.own_keys import NO_KEYS, OwnKeys
from collector.conventions.prices import COMPUTED, price_table, with_costs
from collector.conventions.span import read_span
from collector.conventions.trace import read_trace
from collector.evaluation.trace_case import case_of_stored, case_of_trace, whole_case
from collector.otlp.decode import Request, decode
from collector.otlp.encode import json_document
from collector.otlp.signals import TRACES
from collector.reading.spans import ConventionsReader
from evaluators.model import text_of
from storage.ingest.batch import LOGS, SpanBatch
from storage.ingest.dimensions import spelled_out
from storage.ingest.known_times import with_known_times
from storage.query.rows import spans_of
from storage.records import Span, SpanReading, TraceReading, TraceToolCall
from tests.conventions.corpus_reading import SCENARIOS
from tests.conventions.making import a_span
from tests.conventions.programs_reading import PROGRAMS
from tests.conventions.test_hostile import OWN, spans
from tests.corpus.record import otlp_json
from tests.trying import tried

pytestmark = [
    pytest.mark.timeout(900),  # hypothesis reads everything twice, on a machine that may be busy
    pytest.mark.costly("collector/conventions", "collector/otlp", "collector/reading", "storage/ingest"),
]

JSON = ("input_messages", "output_messages", "tool_arguments")
KEYED = (*JSON, "tool_result")
AS_IS = (
    "span_type", "dialect", "input", "output", "tool_name", "tool_call_id", "model", "provider", "input_tokens",
    "output_tokens", "cached_tokens", "reasoning_tokens", "finish_reason", "cost_usd", "session_id", "user_id",
    "run_id", "item_key", "error", "error_type",
)  # fmt: skip


def a_batch(*requests: ExportTraceServiceRequest) -> SpanBatch:
    """Return the spans of some requests as the decoder hands them on."""
    bodies = [Request(body=request.SerializeToString(), tenant="", signal=TRACES) for request in requests]
    return decode(bodies, received_at_us=1).batch


def rows_of(batch: SpanBatch) -> pa.Table:
    """Return the rows that are read, as the writer makes them."""
    return spelled_out(with_known_times(batch.spans), batch)


def records_of(batch: SpanBatch) -> list[Span]:
    """Return the spans of a batch, one by one."""
    return spans_of(rows_of(batch))


def as_shown(row: dict[str, Any], span: Span) -> dict[str, Any]:
    """Return a row as the view shows it: texts that stand in an attribute spelled out, JSON as a value."""
    fields = {name: row[name] for name in (*AS_IS, "notes")}
    for name in KEYED:
        key = row[f"{name}_key"]
        fields[name] = row[name] if key is None else span.attributes[key]
    for name in (*JSON, "tool_definitions"):
        text = fields.get(name, row.get(name))
        fields[name] = None if text is None else json.loads(text)
    return fields


def as_read(reading: SpanReading) -> dict[str, Any]:
    """Return a reading in the same form."""
    fields = {name: storable(getattr(reading, name)) for name in AS_IS}
    fields["notes"] = storable("\n".join(reading.notes) or None)
    for name in ("input_messages", "output_messages"):
        messages = getattr(reading, name)
        fields[name] = None if messages is None else storable(list(messages))
    fields["tool_arguments"] = storable(reading.tool_arguments)
    is_null = reading.tool_result is None and "tool_result" in reading.sources
    fields["tool_result"] = "null" if is_null else reading.tool_result
    fields["tool_definitions"] = storable(
        [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in reading.tool_definitions
        ]
    ) or None  # fmt: skip
    return fields


def storable(value: Any) -> Any:
    """Return a value as it comes back from JSON in UTF-8."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def assert_alike(batch: SpanBatch, own: OwnKeys = NO_KEYS) -> None:
    """Compare every field of every span, and its notes."""
    table = SpanReader(own).read(rows_of(batch)).columns
    for row, span in zip(table.to_pylist(), records_of(batch), strict=True):
        shown, expected = as_shown(row, span), as_read(read_span(span, (), own))
        if expected["tool_result"] is not None and not isinstance(expected["tool_result"], str):
            expected["tool_result"], shown["tool_result"] = (
                storable(expected["tool_result"]),
                json.loads(shown["tool_result"]),
            )
        assert shown == expected


def corpus(folder: Path) -> ExportTraceServiceRequest:
    """Return a recorded payload."""
    return otlp_json.loads((folder / "traces.json").read_text(encoding="utf-8"), ExportTraceServiceRequest)


@pytest.mark.parametrize("folder", SCENARIOS, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_a_recorded_payload_is_read_alike(folder: Path) -> None:
    """The columns say of each recorded span what `read_span` says."""
    assert_alike(a_batch(corpus(folder)))


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_a_program_sent_is_read_alike(name: str) -> None:
    """Likewise of each recorded program."""
    text = (PROGRAMS[name] / f"{name}.json").read_text(encoding="utf-8")
    assert_alike(a_batch(otlp_json.loads(text, ExportTraceServiceRequest)))


def test_all_payloads_together_are_read_alike() -> None:
    """Shapes and dialects beside each other in one batch, twice through one reader, do not get mixed up."""
    batch = a_batch(*map(corpus, SCENARIOS))
    reader = SpanReader(NO_KEYS)
    spans = rows_of(batch)
    assert reader.read(spans).columns.equals(reader.read(spans).columns)
    assert_alike(batch)


def sent(generated: Sequence[Span]) -> SpanBatch:
    """Draw spans as a batch, after what OTLP makes of them; without those that it refuses."""
    named = [
        replace(span, name=span.name.strip() or "work", trace_id=f"{n + 1:032x}") for n, span in enumerate(generated)
    ]
    return a_batch(a_request([encodable(span) for span in named]))


def a_request(spans: Sequence[Span]) -> ExportTraceServiceRequest:
    """Return the spans as a request."""
    return otlp_json.loads(b"".join(json_document([spans])), ExportTraceServiceRequest)


def encodable(value: Any) -> Any:
    """Return a span without halves of surrogate pairs, which no protobuf message carries."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case list() | tuple():
            return type(value)(encodable(item) for item in value)
        case dict():
            return {encodable(key): encodable(item) for key, item in value.items()}
        case _ if hasattr(value, "__dataclass_fields__"):
            return replace(value, **{name: encodable(getattr(value, name)) for name in value.__dataclass_fields__})
        case _:
            return value


def test_a_call_id_in_the_result_stays_if_the_input_has_none() -> None:
    """A place within JSON that is empty does not erase a value read from the content of a tool's span."""
    attributes = {
        "traceloop.span.kind": "tool",
        "traceloop.entity.name": "f",
        "traceloop.entity.input": '{"inputs": {"a": 1}}',
    }
    message = {"type": "tool", "content": "sun", "tool_call_id": "call_1"}
    span = a_span(
        attributes | {"traceloop.entity.output": json.dumps({"output": message})},
        scope="opentelemetry.instrumentation.langchain",
    )
    assert read_span(span, (), NO_KEYS).tool_call_id == "call_1"
    assert_alike(sent([span]))


@given(st.lists(spans, min_size=1, max_size=8), st.sampled_from([NO_KEYS, OWN]))
@tried(100)
def test_anything_is_read_alike(generated: list[Span], own: OwnKeys) -> None:
    """Whatever values stand under the names of the table, in whatever batch, with an operator's own keys or without."""
    assert_alike(sent(generated), own)


COUNTED: list[dict[str, st.SearchStrategy[Any]]] = [
    {
        f"gen_ai.usage.{name}": st.one_of(st.none(), st.integers(0, 9))
        for name in (
            "input_tokens", "output_tokens", "total_tokens", "cache_read.input_tokens", "cache_creation.input_tokens",
            "reasoning.output_tokens",
        )
    },
    {
        "gen_ai.usage.input_tokens": st.integers(0, 9),
        "gen_ai.usage.output_tokens": st.integers(0, 9),
        "gen_ai.usage.raw": st.sampled_from(
            [json.dumps({"input_tokens_details": {"cached_tokens": count}}) for count in (2, 7, 20)]
        ),
    },
]  # fmt: skip


@given(st.lists(st.one_of(*map(st.fixed_dictionaries, COUNTED)), min_size=1, max_size=8))
@tried(100)
def test_counts_are_completed_alike(counted: list[dict[str, Any]]) -> None:
    """Tokens that the input or the output leaves out are added to columns as to one span."""
    attributes = [{key: value for key, value in counts.items() if value is not None} for counts in counted]
    assert_alike(sent([a_span({"gen_ai.operation.name": "chat", **counts}) for counts in attributes]))


def assert_traces_alike(batch: SpanBatch, own: OwnKeys = NO_KEYS) -> None:
    """Compare every field of every trace, and of every tool call."""
    read = SpanReader(own).read(rows_of(batch))
    columns = with_costs(read.columns, own.prices)
    of_spans = ["tenant", "trace_id", "span_id", "parent_span_id", "start_time", "end_time", "scope_name"]
    table = rows_of(batch).select(of_spans)
    for name in columns.column_names:
        table = table.append_column(name, read.texts.get(name, columns.column(name)))
    traces, calls = meanings(table)
    assert_cases_alike(table, records_of(batch), own)
    by_trace: dict[str, list[Span]] = {}
    for span in records_of(batch):
        by_trace.setdefault(span.trace_id, []).append(span)
    expected = {trace_id: read_trace(spans, (), own) for trace_id, spans in by_trace.items()}
    shown = {row["trace_id"]: row for row in without_times(traces)}
    assert {
        trace_id: of_trace(reading) for trace_id, reading in expected.items() if shown.get(trace_id) or counted(reading)
    } == {trace_id: {name: row[name] for name in SUMS} for trace_id, row in shown.items()}
    calls_shown = [(row["trace_id"], call_of(row)) for row in without_times(calls) if not row["is_sent"]]
    assert sorted(calls_shown, key=str) == sorted(
        ((trace_id, of_call(call)) for trace_id, reading in expected.items() for call in reading.tool_calls), key=str
    )


def assert_cases_alike(table: pa.Table, spans: Sequence[Span], own: OwnKeys) -> None:
    """Compare the test case of every trace without announcements, and of each span."""
    members: dict[str, list[TraceMember]] = {}
    for _, trace_id, member in stored_spans(table):
        members.setdefault(trace_id, []).append(member)
    pending = {row["trace_id"] for row in table.select(["trace_id", "pending"]).to_pylist() if row["pending"]}
    for trace_id in members.keys() - pending:
        of_trace = [span for span in spans if span.trace_id == trace_id]
        alone = [([member], [span]) for member, span in zip(members[trace_id], of_trace, strict=True)]
        for some, read in [(members[trace_id], of_trace), *alone]:
            expected = case_of_trace(read_trace(read, (), own), read)
            case = whole_case(case_of_stored(StoredTrace(trace_id, some)))
            assert storable(json.loads(text_of(case))) == storable(json.loads(text_of(expected)))


def test_what_calls_cost_by_list_prices_is_computed_alike() -> None:
    """Of each recorded span and trace the columns and the readings have one cost, from one source."""
    own = OwnKeys(prices=price_table({"claude-sonnet-4-5": {"input": 3, "cached": 1, "output": 7, "reasoning": 9}}))
    batch = a_batch(*map(corpus, SCENARIOS))
    spans = ConventionsReader(own).spans(rows_of(batch), LOGS.empty_table()).to_pylist()
    readings = [read_span(span, (), own) for span in records_of(batch)]
    assert [row["cost_usd"] for row in spans] == [reading.cost_usd for reading in readings]
    sources = [reading.sources.get("cost_usd", "") for reading in readings]
    assert [row["cost_source"] for row in spans] == [text if text.startswith(COMPUTED) else None for text in sources]
    assert len({row["cost_source"] for row in spans}) > 2, "some are told, some listed and some the operator's"
    assert_traces_alike(batch, own)


SUMS = (
    "input", "output", "final_response", "finish_reason", "session_id", "user_id", "input_tokens", "output_tokens",
    "cost_usd", "tool_call_count",
)  # fmt: skip


def counted(reading: TraceReading) -> bool:
    """Return whether any span of a trace is more than an announcement."""
    return any("announces" not in "".join(span.notes) for span in reading.spans.values())


def of_trace(reading: TraceReading) -> dict[str, Any]:
    """Return a reading of a trace as its row shows it."""
    sums = {name: storable(getattr(reading, name)) for name in SUMS[:-1]}
    return sums | {"tool_call_count": len(reading.tool_calls)}


def of_call(call: TraceToolCall) -> dict[str, Any]:
    """Return a call as its row shows it."""
    fields = ("span_id", "ordinal", "call_id", "name", "is_error", "error")
    values = {name: storable(getattr(call, name)) for name in fields}
    return values | {"arguments": storable(call.arguments), "result": opened(storable(call.result))}


def call_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of a call, its arguments decoded."""
    fields = {name: row[name] for name in ("span_id", "ordinal", "call_id", "name", "is_error", "error")}
    arguments = None if row["arguments"] is None else json.loads(row["arguments"])
    return fields | {"arguments": arguments, "result": opened(row["result"])}


def opened(value: Any) -> Any:
    """Decode a JSON text; results are sent in either form."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def without_times(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows without their times."""
    rows: list[dict[str, Any]] = table.select([name for name in table.column_names if "time" not in name]).to_pylist()
    return rows


def test_recorded_traces_are_added_up_alike() -> None:
    """The columns say of the recorded traces what `read_trace` says, all of them at once."""
    assert_traces_alike(a_batch(*map(corpus, SCENARIOS)))


@given(st.lists(spans, min_size=1, max_size=12), st.lists(st.integers(1, 3), min_size=12, max_size=12))
@tried(80)
def test_any_traces_are_added_up_alike(generated: list[Span], traces: list[int]) -> None:
    """Whatever spans hold, whatever their parents say, some traces beside each other."""
    once = {
        (trace, span.span_id): replace(span, name=span.name.strip() or "work", trace_id=f"{trace:032x}")
        for trace, span in zip(traces, generated, strict=False)
    }
    assert_traces_alike(a_batch(a_request([encodable(span) for span in once.values()])))


IDS = [f"{number:016x}" for number in range(1, 7)]
MESSAGES = '[{"role": "assistant", "parts": [{"type": "text", "content": "It is done."}]}]'
ARGUMENTS = [
    '{"q": 1}', '{"question": "long enough to be kept as a key"}', "[2]", "three", "{'a': 4}", "{}", "", " ", "N/A",
    '{"args": [], "kwargs": {"a": 1}}', "[REDACTED]", '{"a": "\\ud83d"}', '{"cut": off', '{"a": {"b": [1, null]}}',
]  # fmt: skip
RESULTS = [
    "sunny", "sunny all day, and warm at night", '{"ok": true}', '{"error": "no"}', "5", "Error: no such city", "{}",
    '{"temperature": 7, "sky": "rain"}', '{"type": "text", "text": "x"}', '{"output": [{"type": "text", "text": "y"}]}',
    '{"content": [{"type": "text", "text": "z"}], "isError": true}', '"quoted"', "null", "[1, 2]", "REDACTED", "",
]  # fmt: skip
runs = st.lists(
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["execute_tool", "execute_tool", "chat", "invoke_agent"]),
            "parent": st.none() | st.sampled_from(IDS),
            "start_ns": st.integers(1, 4),
            "end_ns": st.none() | st.integers(0, 6),
            "status_code": st.sampled_from([0, 2]),
            "name": st.sampled_from(["search", "mail"]),
            "call_id": st.none() | st.sampled_from(["", "a", "b", "adk-1"]),
            "scope": st.sampled_from(["", "other"]),
            "arguments": st.none() | st.sampled_from(ARGUMENTS),
            "result": st.none() | st.sampled_from(RESULTS),
            "input": st.none() | st.sampled_from(["", "{}", "what is asked", *ARGUMENTS]),
            "messages": st.none() | st.sampled_from([MESSAGES, "[]", "no messages", '[{"role": "user", "parts": []}]']),
        }
    ),
    min_size=1,
    max_size=6,
)


@given(st.lists(runs, min_size=1, max_size=3))
@tried(120)
def test_runs_of_tools_are_told_alike(traces: list[list[dict[str, Any]]]) -> None:
    """However tools' spans are nested, named and timed, with the same ids and arguments or others."""
    spans = [
        replace(a_run(run, IDS[place]), trace_id=f"{trace + 1:032x}")
        for trace, readings in enumerate(traces)
        for place, run in enumerate(readings)
    ]
    batch = a_batch(a_request(spans))
    assert_alike(batch)
    assert_traces_alike(batch)


def a_run(run: dict[str, Any], span_id: str) -> Span:
    """Build the span of a tool, or a parent of such spans."""
    attributes = {
        "gen_ai.operation.name": run["kind"],
        "gen_ai.tool.name": run["name"],
        "gen_ai.tool.call.id": run["call_id"],
        "gen_ai.tool.call.arguments": run["arguments"],
        "gen_ai.tool.call.result": run["result"],
        "input.value": run["input"],
        "gen_ai.output.messages": run["messages"],
    }
    fields = {name: run[name] for name in ("parent", "start_ns", "end_ns", "status_code", "scope")}
    values = {key: value for key, value in attributes.items() if value is not None}
    return a_span(values, span_id=span_id, name=run["name"], status_message="failed", **fields)


RESULT_WITHOUT_ID = [
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "", "response": "sunny"}]},
    {"role": "user", "parts": [{"type": "text", "content": "And now?"}]},
]

ANSWER = [{"role": "assistant", "parts": [{"type": "text", "content": "It rains."}]}]
CALLED = {"gen_ai.tool.call.arguments": '{"q": "weather"}', "gen_ai.tool.call.result": "sunny all day"}


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.operation.name": "chat", "gen_ai.response.id": "null"},
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "Search.__call__", **CALLED},
        {
            "ai.operationId": "ai.generateText.doGenerate",
            "ai.telemetry.metadata.sessionId": "N/A",
            "ai.usage.promptTokens": "none",
        },
        {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(RESULT_WITHOUT_ID)},
    ],
)
def test_what_recipes_take_for_simple_is_read_alike(attributes: dict[str, Any]) -> None:
    """Placeholders, the method that a tool is, notes in their order, a result whose id is empty."""
    assert_alike(a_batch(a_request([a_span(attributes | {"gen_ai.output.messages": json.dumps(ANSWER)})])))
