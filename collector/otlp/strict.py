"""The exact but slow way: a request taken apart with the ordinary protobuf classes, span by span."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from google.protobuf.message import DecodeError
from opentelemetry.proto.trace.v1 import trace_pb2

from collector.otlp import wire
from collector.otlp.errors import Malformed
from collector.otlp.faults import Fault
from collector.otlp.values import Unfit, attribute_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Sifted:
    """A request without the spans that cannot be decoded."""

    body: bytes
    rejected: int
    faults: tuple[Fault, ...]
    kept: list[int]  # the numbers that the spans of `body` had in the request, from 1


def sift(body: bytes) -> Sifted:
    """Take out the spans that cannot be decoded.

    What protobuf refuses goes first, which is cheap to see. Only where the columnar decoder refuses what is
    left, which hardly occurs, each span is tried in it by itself, at a hundred times the cost.

    Raises:
        Malformed: the request is broken outside its spans.
    """
    envelope: Any = wire.Envelope()
    try:
        envelope.ParseFromString(body)
    except DecodeError as error:
        what = str(error).rpartition(": ")[2]
        raise Malformed(f"not an ExportTraceServiceRequest in protobuf: {what}") from error
    refused: dict[int, str] = {}
    kept = _sort_out(envelope, _parsed, None, refused)
    clean: bytes = envelope.SerializeToString()
    if not _decodes(clean):
        kept = _sort_out(envelope, _decoded, kept, refused)
        clean = envelope.SerializeToString()
    return Sifted(body=clean, rejected=len(refused), faults=_faults(refused), kept=kept)


def _faults(refused: dict[int, str]) -> tuple[Fault, ...]:
    """One fault for all: what is wrong with the first of them is told, so that a reply stays short."""
    if not refused:
        return ()
    first = min(refused)
    return (Fault(reason=f"it cannot be decoded: {refused[first]}", spans=len(refused), first=first),)


def _sort_out(
    envelope: Any,  # noqa: ANN401 - made at run time
    check: Callable[[bytes], bytes],
    numbers: list[int] | None,
    refused: dict[int, str],
) -> list[int]:
    """Leave in the envelope what `check` makes of each span; the numbers of those that it does not refuse."""
    passed: list[int] = []
    position = 0
    for resource_spans in envelope.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            kept = []
            for message in scope_spans.spans:
                number = numbers[position] if numbers else position + 1
                position += 1
                try:
                    kept.append(check(message))
                    passed.append(number)
                except (DecodeError, ValueError, Unfit) as error:
                    refused[number] = str(error)
            del scope_spans.spans[:]
            scope_spans.spans.extend(kept)
    return passed


def _parsed(message: bytes) -> bytes:
    """The span as protobuf understands it: what it holds twice is merged, or the last of it counts."""
    return trace_pb2.Span.FromString(message).SerializeToString()


def _decoded(message: bytes) -> bytes:
    """The span as it is, if it can be decoded as columns."""
    _attributes_of(wire.SPAN.decode([message]).column)
    return message


def _decodes(body: bytes) -> bool:
    try:
        resources = wire.TRACES.decode([body]).column(0).values
        spans = resources.field("scope_spans").values.field("spans").values
        _attributes_of(spans.field)
    except (ValueError, Unfit):
        return False
    return True


def _attributes_of(column: Callable[[str], pa.Array]) -> None:
    """Decode all attributes of spans whose columns are given by name, for the sake of what may go wrong."""
    attribute_columns(column("attributes"))
    for name in ("events", "links"):
        attribute_columns(column(name).values.field("attributes"))
