"""Requests of realistic agent spans, made unique by patching bytes instead of building protobuf messages.

Every request is serialised once, with a placeholder in each field that has to differ from send to send. The offsets
of the placeholders are remembered, and a send writes fresh ids, times and tokens over them in one numpy assignment.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

Words = NDArray[np.uint64]

SPANS_PER_TRACE: Final = 10
WORD: Final = 8  # bytes
MEAN_SPAN_BYTES: Final = (1_100, 1_300)
EARLIEST_START_NS: Final = 8_000_000_000  # every span starts within this time before it is sent

RESOURCE: Final = {
    "service.name": "bench-agent",
    "service.version": "1.2.3",
    "telemetry.sdk.name": "opentelemetry",
    "telemetry.sdk.language": "python",
    "telemetry.sdk.version": "1.45.2",
    "host.name": "worker-1",
    "process.pid": 1234,
}
# What a send writes into each span, in words of eight bytes. The last four are hexadecimal text, two bytes for each.
FIELDS: Final = {
    "trace_id": 2,
    "span_id": 1,
    "parent_span_id": 1,
    "start_time": 1,
    "end_time": 1,
    "conversation": 2,
    "response": 4,
    "input": 2,
    "output": 2,
}
TEXTS: Final = ("conversation", "response", "input", "output")
ENDS: Final = dict(zip(FIELDS, itertools.accumulate(FIELDS.values()), strict=True))
COLUMNS: Final = {field: slice(ENDS[field] - words, ENDS[field]) for field, words in FIELDS.items()}
HEX: Final = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint16)

WORDS: Final = (
    "the a an of to in for and or with from by on at as is was are be not this that it its which who when where how "
    "order customer invoice refund shipment parcel account balance payment card currency price total tax discount "
    "weather forecast rain wind temperature city street country airport flight hotel booking date time today tomorrow "
    "search result document page section paragraph table figure source citation summary answer question reply message "
    "tool call argument value error timeout retry limit query database record field column row index key number list "
    "please find show explain compare check update delete create send open close confirm cancel schedule translate "
    "Oslo Lisbon Nairobi Quito Hanoi Perth Austin Lyon Monday Friday January August morning evening north south large "
    "small early late next last first second recent available missing expired approved declined pending delivered"
)
VOCABULARY: Final = WORDS.split()
STATUS_CODES: Final = (
    *(Status.STATUS_CODE_UNSET,) * 15,
    *(Status.STATUS_CODE_OK,) * 4,
    Status.STATUS_CODE_ERROR,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One serialised export request, and the traces in it."""

    body: bytes
    trace_ids: bytes  # 16 bytes each, in the order of spans: each trace has ten, the last one the rest

    @property
    def trace_id(self) -> str:
        """Return the first of them, in 32 lower-case hex digits."""
        return self.trace_ids[:16].hex()


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A serialised request, the places of its changing bytes, and the parents of its spans."""

    buffer: bytearray  # with a spare word at the end, which takes the parent id of a root
    words: Words  # the eight bytes that begin at each byte of the buffer
    offsets: NDArray[np.intp]  # of every word that changes, spans x words
    traces: NDArray[np.intp]  # the trace of each span
    parents: NDArray[np.intp]  # the parent of each span; a root is its own
    starts_ns: NDArray[np.int64]  # relative to the time of the send, so negative
    durations_ns: NDArray[np.int64]


class Requests:
    """An endless supply of unique requests with the same number of spans."""

    def __init__(self, spans: int, *, pool_spans: int = 16_384, seed: int = 1) -> None:
        """Serialise templates of `pool_spans` spans in all.

        The default is two row groups of the server: repeated words compress, as they do in real texts, but no text
        repeats within a row group.
        """
        source = random.Random(seed)
        self.spans = spans
        self._templates = [_template(source, spans) for _ in range(max(1, pool_spans // spans))]
        self._turn = itertools.cycle(self._templates)
        self._ids = np.random.default_rng()

    def next(self) -> Request:
        """Patch the next template: unseen ids and tokens, times that end about now."""
        template = next(self._turn)
        spans = self.spans
        traces = self._ids.bytes(16 * (int(template.traces[-1]) + 1))
        trace_ids = np.frombuffer(traces, np.uint64).reshape(-1, 2)[template.traces]
        unique = np.frombuffer(self._ids.bytes(40 * spans), np.uint64).reshape(spans, 5)
        starts = template.starts_ns + time.time_ns()

        rows = np.empty((spans, sum(FIELDS.values())), np.uint64)
        rows[:, COLUMNS["trace_id"]] = trace_ids
        rows[:, COLUMNS["span_id"]] = unique[:, :1]
        rows[:, COLUMNS["parent_span_id"]] = unique[template.parents, :1]
        rows[:, COLUMNS["start_time"]] = starts[:, None]
        rows[:, COLUMNS["end_time"]] = (starts + template.durations_ns)[:, None]
        rows[:, COLUMNS["conversation"]] = _hexadecimal(trace_ids[:, :1])
        rows[:, COLUMNS["response"].start :] = _hexadecimal(unique[:, 1:])
        template.words[template.offsets] = rows
        return Request(body=bytes(memoryview(template.buffer)[:-WORD]), trace_ids=traces)

    def check(self, requests: int = 3) -> None:
        """Raise `AssertionError` unless patched requests parse, with the properties that this module promises."""
        seen: set[tuple[bytes, bytes]] = set()
        size = 0
        for _ in range(requests):
            body = self.next().body
            size += len(body)
            message = ExportTraceServiceRequest.FromString(body)
            spans = list(message.resource_spans[0].scope_spans[0].spans)
            _expect(len(spans) == self.spans, f"{len(spans)} spans in a request of {self.spans}")
            _expect(_is_forest(spans), "a parent is missing from its trace")
            now = time.time_ns()
            recent = all(
                now - EARLIEST_START_NS < span.start_time_unix_nano <= span.end_time_unix_nano <= now for span in spans
            )
            _expect(recent, "a span is not of the last seconds")
            seen.update((span.trace_id, span.span_id) for span in spans)
        _expect(len(seen) == requests * self.spans, "ids repeat")
        if self.spans >= SPANS_PER_TRACE:
            mean = size / len(seen)
            _expect(MEAN_SPAN_BYTES[0] <= mean <= MEAN_SPAN_BYTES[1], f"spans have {mean:.0f} bytes on average")


def _expect(claim: bool, otherwise: str) -> None:  # noqa: FBT001 - reads as the sentence it checks
    if not claim:
        raise AssertionError(otherwise)


def _is_forest(spans: Sequence[Span]) -> bool:
    ids = {(span.trace_id, span.span_id) for span in spans}
    return all(not span.parent_span_id or (span.trace_id, span.parent_span_id) in ids for span in spans)


def _hexadecimal(ids: Words) -> Words:
    return HEX[np.ascontiguousarray(ids).view(np.uint8)].view(np.uint64)


def _template(source: random.Random, count: int) -> Template:
    order = np.arange(count)
    places = order % SPANS_PER_TRACE
    roots = order - places
    # Half the spans hang below the root, half below the span before them: agents call models that call tools.
    parents = np.where([source.random() < 0.5 for _ in order], roots, np.maximum(order - 1, roots))
    trace_starts = np.array([source.uniform(-7.9, -3.1) for _ in order])[roots]  # seconds before the send
    starts = trace_starts + places * 0.2
    durations = np.where(places == 0, 3.0, [source.uniform(0.01, 0.9) for _ in order])

    marks = [_mark(source) for _ in order]
    spans = [_span(source, mark, has_parent=bool(place)) for mark, place in zip(marks, places, strict=True)]
    body = _request(spans).SerializeToString()
    buffer = bytearray(body + bytes(WORD))
    return Template(
        buffer=buffer,
        words=np.ndarray((len(body) + 1,), np.uint64, buffer, strides=(1,)),
        offsets=np.array([list(_offsets(body, mark)) for mark in marks], dtype=np.intp),
        traces=(order // SPANS_PER_TRACE).astype(np.intp),
        parents=parents.astype(np.intp),
        starts_ns=(starts * 1e9).astype(np.int64),
        durations_ns=(durations * 1e9).astype(np.int64),
    )


def _mark(source: random.Random) -> dict[str, bytes]:
    # Random, so that each placeholder is found at its own place and nowhere else.
    return {
        field: source.randbytes(words * WORD // 2).hex().encode() if field in TEXTS else source.randbytes(words * WORD)
        for field, words in FIELDS.items()
    }


def _offsets(body: bytes, mark: dict[str, bytes]) -> Iterator[int]:
    """Yield the place of each changing word of a span; those that a root lacks are behind the body."""
    start = body.index(mark["trace_id"])
    for field, words in FIELDS.items():
        place = body.find(mark[field], start, start + 4_000)
        _expect(place >= 0 or field == "parent_span_id", f"{field} not found in the serialised span")
        offset = place if place >= 0 else len(body)
        yield from range(offset, offset + words * WORD, WORD)


def _request(spans: Sequence[Span]) -> ExportTraceServiceRequest:
    scope_spans = ScopeSpans(spans=spans)
    scope_spans.scope.name = "bench.agent"
    scope_spans.scope.version = "0.1"
    resource = Resource(attributes=[_attribute(key, value) for key, value in RESOURCE.items()])
    return ExportTraceServiceRequest(resource_spans=[ResourceSpans(resource=resource, scope_spans=[scope_spans])])


def _span(source: random.Random, mark: dict[str, bytes], *, has_parent: bool) -> Span:
    model = source.choice(("gpt-5-mini", "gpt-5", "claude-sonnet-5", "gemini-3-pro"))
    tool = source.choice(("get_weather", "search_orders", "read_page", "send_mail"))
    status = source.choice(STATUS_CODES)
    attributes: dict[str, object]
    if has_parent and source.random() < 0.5:
        name, attributes = f"execute_tool {tool}", _tool_attributes(source, mark, tool)
        if status == Status.STATUS_CODE_ERROR:
            attributes["error.type"] = "TimeoutError"
    else:
        operation, name = ("chat", f"chat {model}") if has_parent else ("invoke_agent", "invoke_agent support")
        attributes = {"gen_ai.operation.name": operation, **_model_attributes(source, mark, model)}
    return Span(
        trace_id=mark["trace_id"],
        span_id=mark["span_id"],
        parent_span_id=mark["parent_span_id"] if has_parent else b"",
        name=name,
        kind=source.choice((Span.SPAN_KIND_INTERNAL, Span.SPAN_KIND_CLIENT)),
        start_time_unix_nano=int.from_bytes(mark["start_time"], "little"),
        end_time_unix_nano=int.from_bytes(mark["end_time"], "little"),
        flags=256,
        status=Status(code=status),
        attributes=[_attribute(key, value) for key, value in attributes.items()],
    )


def _model_attributes(source: random.Random, mark: dict[str, bytes], model: str) -> dict[str, object]:
    return {
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": model,
        "gen_ai.response.model": f"{model}-2026-09-01",
        "gen_ai.request.temperature": source.choice((0.0, 0.2, 0.7, 1.0)),
        "gen_ai.usage.input_tokens": source.randrange(5_000),
        "gen_ai.usage.output_tokens": source.randrange(900),
        "gen_ai.response.id": "resp_" + mark["response"].decode(),
        "gen_ai.conversation.id": "conv_" + mark["conversation"].decode(),
        "gen_ai.response.finish_reasons": [source.choice(("stop", "stop", "tool_calls"))],
        "gen_ai.input.messages": _messages(source, "user", mark["input"].decode()),
        "gen_ai.output.messages": _messages(source, "assistant", mark["output"].decode()),
        "server.address": "api.openai.com",
        "server.port": 443,
    }


def _tool_attributes(source: random.Random, mark: dict[str, bytes], tool: str) -> dict[str, object]:
    """Return the attributes of a tool's execution by the semantic conventions, with arguments and result."""
    head = f'{{"query":"{mark["input"].decode()}'
    arguments = f'{_words(source, head, source.randrange(170, 370))}","limit":{source.randrange(50)}}}'
    result = _words(source, f'{{"found":"{mark["output"].decode()}', source.randrange(300, 800)) + '"}'
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Find what fits the question, newest first",
        "gen_ai.tool.call.id": "call_" + mark["response"].decode(),
        "gen_ai.conversation.id": "conv_" + mark["conversation"].decode(),
        "gen_ai.tool.call.arguments": arguments,
        "gen_ai.tool.call.result": result,
    }


def _messages(source: random.Random, role: str, token: str) -> str:
    head = f'[{{"role":"{role}","parts":[{{"type":"text","content":"{token}'
    return _words(source, head, source.randrange(170, 370) - 4) + '"}]}]'


def _words(source: random.Random, head: str, length: int) -> str:
    """Make a text of `length` characters that begins with `head`."""
    words = [head]
    size = len(head)
    while size < length:
        words.append(source.choice(VOCABULARY) if source.random() < 0.85 else str(source.randrange(10_000)))
        size += 1 + len(words[-1])
    return " ".join(words)


def _attribute(key: str, value: object) -> KeyValue:
    return KeyValue(key=key, value=_any_value(value))


def _any_value(value: object) -> AnyValue:
    match value:
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case list():
            return AnyValue(array_value=ArrayValue(values=[_any_value(item) for item in value]))
        case _:
            return AnyValue(string_value=str(value))
