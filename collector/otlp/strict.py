"""The exact but slow way: a request taken apart with the ordinary protobuf classes, span by span."""

from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.trace.v1 import trace_pb2

from collector.otlp import wire
from collector.otlp.errors import Malformed
from collector.otlp.values import Unfit, attribute_columns


def sift(body: bytes) -> tuple[bytes, int, str]:
    """The request without the spans that protobuf refuses; how many those were, and the first one's fault.

    Raises:
        Malformed: the request is broken outside its spans.
    """
    envelope: Any = wire.Envelope()
    try:
        envelope.ParseFromString(body)
    except DecodeError as error:
        what = str(error).rpartition(": ")[2]
        raise Malformed(f"not an ExportTraceServiceRequest in protobuf: {what}") from error
    rejected, reason, number = 0, "", 0
    for resource_spans in envelope.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            kept = []
            for message in scope_spans.spans:
                number += 1
                try:
                    kept.append(_clean(message))
                except (DecodeError, ValueError, Unfit) as error:
                    rejected += 1
                    reason = reason or f"span number {number} of the request cannot be decoded: {error}"
            del scope_spans.spans[:]
            scope_spans.spans.extend(kept)
    return envelope.SerializeToString(), rejected, reason


def _clean(message: bytes) -> bytes:
    """A serialised span that the columnar decoder takes: each field once, as the ordinary classes write it.

    Raises:
        DecodeError, ValueError, Unfit: it cannot be decoded.
    """
    clean = trace_pb2.Span.FromString(message).SerializeToString()
    span = wire.SPAN.decode([clean])
    attribute_columns(span.column("attributes"))
    for name in ("events", "links"):
        attribute_columns(span.column(name).values.field("attributes"))
    return clean
