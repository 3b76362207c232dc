"""Requests of recorded instrumentations, dialects in equal parts: unseen trace ids, times that end about now.

Some words of each trace are made unlike those of all others, so that nothing is read once for many.
"""

from __future__ import annotations

import itertools
import random
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from benchmarks.spans import Request, Words
from tests.corpus.record import otlp_json

CORPUS: Final = Path(__file__).parent.parent / "tests" / "corpus"
WORD: Final = 8
BEFORE_NS: Final = 5_000_000_000  # that traces begin before they are sent
RECORDED_WORDS: Final = re.compile(
    r"Norway|Oslo|Bergen|Atlantis|\bAda\b|this picture|short sentence|red chair|Hello|yourself"
)


@dataclass(frozen=True, slots=True)
class _Template:
    buffer: bytearray
    words: Words  # the eight bytes that begin at each byte of the buffer
    places: NDArray[np.intp]  # of each span: the two words of its trace id, its start, its end
    traces: NDArray[np.intp]  # the trace of each span
    times_ns: NDArray[np.int64]  # start and end of each span, since the start of the recording


class RecordedRequests:
    """An endless supply of requests with the same number of spans."""

    def __init__(self, spans: int, *, pool_spans: int = 16_384, seed: int = 1, only: str = "") -> None:
        """Serialise templates of `pool_spans` spans in all, of all dialects or of one."""
        self.spans = spans
        source = random.Random(seed)
        recorded = _recorded(source, only)
        templates = [_template(source, _cut(recorded, spans)) for _ in range(max(1, pool_spans // spans))]
        self._turn = itertools.cycle(templates)
        self._ids = np.random.default_rng()

    def next(self) -> Request:
        """Patch the next template."""
        template = next(self._turn)
        traces = self._ids.bytes(16 * (int(template.traces.max()) + 1))
        template.words[template.places[:, :2]] = np.frombuffer(traces, np.uint64).reshape(-1, 2)[template.traces]
        times = template.times_ns + (time.time_ns() - BEFORE_NS)
        template.words[template.places[:, 2:]] = times.astype(np.uint64)
        return Request(body=bytes(memoryview(template.buffer)[:-WORD]), trace_ids=traces)

    def check(self, requests: int = 3) -> None:
        """Raise `AssertionError` unless patched requests parse, and no span occurs twice."""
        seen: set[tuple[bytes, bytes]] = set()
        for _ in range(requests):
            seen.update(
                (span.trace_id, span.span_id) for span in _spans(ExportTraceServiceRequest.FromString(self.next().body))
            )
        if len(seen) != requests * self.spans:
            raise AssertionError(f"{len(seen)} different spans in {requests} requests of {self.spans}")


def dialects() -> list[str]:
    """Return the names of the recorded dialects."""
    return sorted({file.parent.parent.name for file in CORPUS.glob("*/*/traces.json")})


def _recorded(source: random.Random, only: str) -> Iterator[ExportTraceServiceRequest]:
    """Yield recorded requests for ever, the dialects in equal parts by spans."""
    dialects: dict[str, list[ExportTraceServiceRequest]] = defaultdict(list)
    for file in sorted(CORPUS.glob(f"{only or '*'}/*/traces.json")):
        text = file.read_text(encoding="utf-8")
        dialects[file.parent.parent.name].append(otlp_json.loads(text, ExportTraceServiceRequest))
    turns = {name: itertools.cycle(requests) for name, requests in dialects.items()}
    sent = dict.fromkeys(dialects, 0)
    while True:
        name = min(sent, key=sent.__getitem__)
        request = ExportTraceServiceRequest()
        request.CopyFrom(next(turns[name]))
        tag = f"{source.getrandbits(32):x}"
        for span in _spans(request):
            for pair in (*span.attributes, *(pair for event in span.events for pair in event.attributes)):
                _make_unlike(pair.value, tag)
        sent[name] += sum(1 for _ in _spans(request))
        yield request


def _cut(recorded: Iterator[ExportTraceServiceRequest], spans: int) -> list[ExportTraceServiceRequest]:
    """Take requests with `spans` spans in all; the last one is cut."""
    taken: list[ExportTraceServiceRequest] = []
    left = spans
    while left:
        request = next(recorded)
        for part in request.resource_spans:
            for scope in part.scope_spans:
                del scope.spans[left:]
                left -= len(scope.spans)
        taken.append(request)
    return taken


def _template(source: random.Random, requests: list[ExportTraceServiceRequest]) -> _Template:
    whole = ExportTraceServiceRequest()
    marks: list[tuple[bytes, bytes, bytes]] = []
    traces: list[int] = []
    times_ns: list[tuple[int, int]] = []
    numbers: dict[tuple[int, bytes], int] = {}
    for number, request in enumerate(requests):
        first_ns = min((span.start_time_unix_nano for span in _spans(request)), default=0)
        for span in _spans(request):
            traces.append(numbers.setdefault((number, span.trace_id), len(numbers)))
            times_ns.append((span.start_time_unix_nano - first_ns, span.end_time_unix_nano - first_ns))
            mark = source.randbytes(16), source.randbytes(8), source.randbytes(8)
            span.trace_id = mark[0]
            span.start_time_unix_nano, span.end_time_unix_nano = (int.from_bytes(one, "little") for one in mark[1:])
            marks.append(mark)
        whole.resource_spans.extend(request.resource_spans)
    body = whole.SerializeToString()
    buffer = bytearray(body + bytes(WORD))
    places = [_places(body, mark) for mark in marks]
    return _Template(
        buffer=buffer,
        words=np.ndarray((len(body) + 1,), np.uint64, buffer, strides=(1,)),
        places=np.array(places, dtype=np.intp),
        traces=np.array(traces, dtype=np.intp),
        times_ns=np.array(times_ns, dtype=np.int64),
    )


def _places(body: bytes, mark: tuple[bytes, bytes, bytes]) -> tuple[int, ...]:
    trace_id, start, end = (body.index(one) for one in mark)
    return trace_id, trace_id + WORD, start, end


def _spans(request: ExportTraceServiceRequest) -> Iterator[Span]:
    return (span for part in request.resource_spans for scope in part.scope_spans for span in scope.spans)


def _make_unlike(value: AnyValue, tag: str) -> None:
    match value.WhichOneof("value"):
        case "string_value":
            value.string_value = RECORDED_WORDS.sub(lambda match: f"{match[0]} {tag}", value.string_value)
        case "array_value":
            for item in value.array_value.values:
                _make_unlike(item, tag)
        case "kvlist_value":
            for pair in value.kvlist_value.values:
                _make_unlike(pair.value, tag)
        case _:  # no text
            pass
