"""The exact but slow way: a request taken apart with the ordinary protobuf classes, span by span."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from google.protobuf.message import DecodeError
from opentelemetry.proto.trace.v1 import trace_pb2

from collector.otlp import wire
from collector.otlp.errors import Malformed
from collector.otlp.values import Unfit, attribute_columns


def sift(body: bytes) -> tuple[bytes, int, str]:
    """The request without the spans that cannot be decoded; how many those were, and the first one's fault.

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
    rejected, reason = _sort_out(envelope, _parsed)
    clean: bytes = envelope.SerializeToString()
    if not _decodes(clean):
        more, other = _sort_out(envelope, _decoded)
        rejected, reason = rejected + more, reason or other
        clean = envelope.SerializeToString()
    return clean, rejected, reason


def _sort_out(envelope: Any, check: Callable[[bytes], bytes]) -> tuple[int, str]:  # noqa: ANN401 - made at run time
    """Leave in the envelope what `check` makes of each span; how many it refused, and the first one's fault."""
    rejected, reason, number = 0, "", 0
    for resource_spans in envelope.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            kept = []
            for message in scope_spans.spans:
                number += 1
                try:
                    kept.append(check(message))
                except (DecodeError, ValueError, Unfit) as error:
                    rejected += 1
                    reason = reason or f"span number {number} of the request cannot be decoded: {error}"
            del scope_spans.spans[:]
            scope_spans.spans.extend(kept)
    return rejected, reason


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
