"""What it costs to read a span: `python -m benchmarks.reading` prints microseconds on one core.

It is off the path of ingestion, and on that of every span that is looked at or evaluated.
"""

import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

from benchmarks.spans import VOCABULARY, Requests
from collector.conventions.own import NO_KEYS
from collector.conventions.span import read_span
from collector.conventions.trace import read_trace
from storage.records import AttributeValue, Resource, Scope, Span

ROUNDS = 20
SPANS = 2_000
LARGE_TRACE_SPANS = 10_000


def main() -> None:
    """Measure, and print a line for each."""
    request = ExportTraceServiceRequest.FromString(Requests(SPANS).next().body)
    spans = [_span(span) for span in request.resource_spans[0].scope_spans[0].spans]
    source = random.Random(1)
    asked = [replace(span, attributes={**span.attributes, **_ten_messages(source)}) for span in spans[:200]]
    numbered = [replace(span, attributes=_ten_numbered(source)) for span in spans[:200]]
    plain = [replace(span, attributes={"http.request.method": "GET", "url.path": "/ask"}) for span in spans]
    for name, group in (
        ("a span of 1.2 kB", spans),
        ("ten messages as JSON", asked),
        ("ten messages as numbered attributes", numbered),
        ("a span that nobody instrumented", plain),
    ):
        print(f"{_seconds(lambda: _read_all(group), ROUNDS) / len(group) * 1e6:8.1f} µs  {name}")  # noqa: B023 - called at once
    large = [
        replace(spans[n % SPANS], span_id=f"{n:016x}", parent_span_id=f"{n // 10:016x}")
        for n in range(LARGE_TRACE_SPANS)
    ]
    print(f"{_seconds(lambda: read_trace(large, (), NO_KEYS), 3) * 1e3:8.1f} ms  a trace of 10,000 spans")


def _read_all(spans: Sequence[Span]) -> None:
    for span in spans:
        read_span(span, (), NO_KEYS)


def _seconds(work: Callable[[], object], rounds: int) -> float:
    """The best of some rounds: what else the machine does only adds."""
    best = float("inf")
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begun)
    return best


def _ten_messages(source: random.Random) -> dict[str, AttributeValue]:
    texts = [" ".join(source.choices(VOCABULARY, k=30)) for _ in range(8)]
    said = [
        {"role": ("user", "assistant")[n % 2], "parts": [{"type": "text", "content": t}]} for n, t in enumerate(texts)
    ]
    call = {"type": "tool_call", "id": "c1", "name": "get_weather", "arguments": {"city": "Oslo", "days": 3}}
    result = {"type": "tool_call_response", "id": "c1", "response": '{"celsius": 7}'}
    messages = [*said, {"role": "assistant", "parts": [call]}, {"role": "tool", "parts": [result]}]
    return {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(messages)}


def _ten_numbered(source: random.Random) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {"openinference.span.kind": "LLM", "llm.model_name": "gpt-5"}
    for number in range(10):
        key = f"llm.input_messages.{number}.message"
        attributes[f"{key}.role"] = ("user", "assistant")[number % 2]
        attributes[f"{key}.content"] = " ".join(source.choices(VOCABULARY, k=30))
    return attributes | {
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "Yes.",
    }


def _span(span: WireSpan) -> Span:
    return Span(
        tenant="",
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_span_id=span.parent_span_id.hex() or None,
        name=span.name,
        kind=span.kind,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        status_code=span.status.code,
        status_message=span.status.message,
        attributes={pair.key: _value(pair.value) for pair in span.attributes},
        events=(),
        links=(),
        trace_state="",
        flags=0,
        dropped_attributes_count=0,
        dropped_events_count=0,
        dropped_links_count=0,
        resource=Resource(
            attributes={"service.name": "bench-agent"}, dropped_attributes_count=0, schema_url="", entity_refs=()
        ),
        scope=Scope(name="bench.agent", version="0.1", attributes={}, dropped_attributes_count=0, schema_url=""),
        project="bench-agent",
        service_name="bench-agent",
    )


def _value(value: AnyValue) -> AttributeValue:
    if value.WhichOneof("value") == "array_value":
        return [_value(item) for item in value.array_value.values]
    found: AttributeValue = getattr(value, value.WhichOneof("value") or "string_value")
    return found


if __name__ == "__main__":
    main()
