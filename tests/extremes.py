"""Numbers at the ends of what OTLP and JSON carry: requests that hold all of them, and values in place of a number."""

import itertools
import json
from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

TIMES_NS: Final = (
    0,
    1,
    365 * 86_400 * 10**9,  # 1971
    7_258_118_400 * 10**9,  # 2200
    2**63 - 2,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
COUNTS: Final = (2**53, 2**53 + 1, 2**63 - 1, -(2**63), -1, 0)
DOUBLES: Final = (1e308, -1e308, float("inf"), float("-inf"), float("nan"), -0.0, 5e-324, 2.0**53, 2.0**64)
TEXTS: Final = ("9" * 30, str(2**53 + 1), "-1", "NaN", "Infinity", "1e308", "-0.0", "9" * 500)
COUNTED: Final = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.reasoning_tokens",
    "llm.token_count.prompt",
    "llm.usage.total_tokens",
    "dokimos.cached_tokens",
    "dokimos.reasoning_tokens",
    "dokimos.cost_usd",
    "gen_ai.usage.cost",
    "llm.cost.total",
)
JSON_NUMBERS: Final = (
    "0", "-0.0", "-1", "0.5", "1e-320", "1e308", "-1e308", "1e400", "NaN", "Infinity", "-Infinity",
    str(2**31), str(2**53 + 1), str(2**63 - 1), str(2**63), str(-(2**63) - 1), str(2**64), "9" * 400, "1" * 5_000,
)  # fmt: skip
"""What JSON, or what Python reads as JSON, can say in place of a number."""

_INTEGERS: Final = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_ENUM: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_UINT32: (2**32 - 1,),
    FieldDescriptor.TYPE_FIXED32: (2**32 - 1,),
    FieldDescriptor.TYPE_FIXED64: TIMES_NS,
}
BEGAN_NS: Final = 1_795_255_200_000_000_000
EVERY_TIME: Final = b"\xee" * 16
"""A trace whose spans start and end at every pair of extremes, as traces of one span each do beside it."""
ENDS: Final = len(TIMES_NS) + 1
"""The starts of spans, and as many ends: the extremes, and a time of today."""


def extreme_traces(began_ns: int = BEGAN_NS, *, project: str = "shop") -> ExportTraceServiceRequest:
    """Return spans of one session that hold each number of OTLP, and each that is read, at each of its extremes."""
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    for key, value in (("service.name", project), ("dokimos.project", project)):
        group.resource.attributes.add(key=key).value.string_value = value
    group.resource.dropped_attributes_count = 2**32 - 1
    spans = group.scope_spans.add()
    spans.scope.dropped_attributes_count = 2**32 - 1
    numbers = itertools.count(1)
    for change in _changes():
        span = _a_span(spans.spans, next(numbers), began_ns)
        change(span)
    together = _a_span(spans.spans, next(numbers), began_ns)
    for number in itertools.chain(range(1_100)):  # whose sum does not fit into 64 bits
        inner = _a_span(spans.spans, next(numbers), began_ns)
        inner.trace_id, inner.parent_span_id = together.trace_id, together.span_id
        inner.attributes.add(key=COUNTED[number % 2]).value.int_value = 2**53
    for change in itertools.chain([_unchanged], _times()):
        span = _a_span(spans.spans, next(numbers), began_ns)
        change(span)
        span.trace_id, span.parent_span_id = EVERY_TIME, (0xE).to_bytes(8, "big")
    for id_byte in (b"\x00", b"\xff"):
        span = _a_span(spans.spans, next(numbers), began_ns)
        span.trace_id, span.span_id = id_byte * 15 + b"\xff", id_byte * 7 + b"\xff"
        span.links.add(trace_id=b"\xff" * 16, span_id=b"\0" * 8, flags=2**32 - 1)
    return request


def extreme_logs(began_ns: int = BEGAN_NS, *, project: str = "shop") -> ExportLogsServiceRequest:
    """Return log records of the first span whose numbers are at their extremes."""
    request = ExportLogsServiceRequest()
    group = request.resource_logs.add()
    group.resource.attributes.add(key="service.name").value.string_value = project
    records = group.scope_logs.add().log_records
    for time_ns, severity, count in itertools.product(TIMES_NS, (-(2**31), 2**31 - 1), (0, 2**32 - 1)):
        record = records.add(time_unix_nano=time_ns, observed_time_unix_nano=time_ns, flags=2**32 - 1)
        record.severity_number = severity  # type: ignore[assignment] # protobuf takes any number
        record.trace_id, record.span_id = (1).to_bytes(16, "big"), (1).to_bytes(8, "big")
        record.dropped_attributes_count = count
        record.body.double_value = float("nan")
    score = records.add(time_unix_nano=began_ns, event_name="gen_ai.evaluation.result")
    score.trace_id, score.span_id = (1).to_bytes(16, "big"), (1).to_bytes(8, "big")
    for number in DOUBLES:
        again = records.add()
        again.CopyFrom(score)
        again.attributes.add(key="gen_ai.evaluation.name").value.string_value = "extreme"
        again.attributes.add(key="gen_ai.evaluation.score.value").value.double_value = number
    return request


def replaced(document: Any) -> Iterator[str]:
    """Yield a body as JSON with each of its numbers replaced by each extreme."""
    text = json.dumps(_marked(document, itertools.count()))
    marks = sorted({f'"@{number}@{value}"' for number, value in _numbers(document)})
    for mark in marks:
        for extreme in JSON_NUMBERS:
            changed = text.replace(mark, extreme)
            for other in marks:
                changed = changed.replace(other, other.rpartition("@")[2][:-1])
            yield changed


def _a_span(spans: Any, number: int, began_ns: int) -> Span:
    span: Span = spans.add(
        trace_id=number.to_bytes(16, "big"),
        span_id=number.to_bytes(8, "big"),
        name="chat",
        start_time_unix_nano=began_ns,
        end_time_unix_nano=began_ns + 10**9,
    )
    for key, value in (
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.request.model", "gpt-4o"),
        ("session.id", "extreme"),
    ):
        span.attributes.add(key=key).value.string_value = value
    return span


def _unchanged(_: Span) -> None:
    pass


def _times() -> Iterator[Any]:
    def set_time(start_ns: int, end_ns: int) -> Any:
        def change(span: Span) -> None:
            span.start_time_unix_nano, span.end_time_unix_nano = start_ns, end_ns
            span.events.add(name="event", time_unix_nano=start_ns)

        return change

    return itertools.starmap(set_time, itertools.product((*TIMES_NS, BEGAN_NS), (*TIMES_NS, BEGAN_NS)))


def _changes() -> Iterator[Any]:
    def set_value(key: str, field: str, value: object) -> Any:
        return lambda span: setattr(span.attributes.add(key=key).value, field, value)

    def set_field(name: str, value: int) -> Any:
        return lambda span: setattr(span, name, value)

    yield _unchanged
    yield from _times()
    kinds = (("int_value", COUNTS), ("double_value", DOUBLES), ("string_value", TEXTS))
    for key, (field, values) in itertools.product((*COUNTED, "any"), kinds):
        yield from (set_value(key, field, value) for value in values)
    for described in Span.DESCRIPTOR.fields:
        if not described.is_repeated:
            yield from (set_field(described.name, value) for value in _INTEGERS.get(described.type, ()))
    for code in _INTEGERS[FieldDescriptor.TYPE_ENUM]:
        yield lambda span, code=code: setattr(span.status, "code", code)


def _marked(document: Any, numbers: Iterator[int]) -> Any:
    match document:
        case bool():
            return document
        case int() | float():
            return f"@{next(numbers)}@{document}"
        case dict():
            return {key: _marked(value, numbers) for key, value in document.items()}
        case list():
            return [_marked(value, numbers) for value in document]
        case _:
            return document


def _numbers(document: Any) -> list[tuple[int, float]]:
    numbers: list[float] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict | list):
            for inner in value.values() if isinstance(value, dict) else value:
                walk(inner)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            numbers.append(value)

    walk(document)
    return list(enumerate(numbers))
