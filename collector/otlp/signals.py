"""The received signals: spans and log records. One decoder takes both, as only the innermost elements differ."""

from collections.abc import Callable
from dataclasses import dataclass

from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collector.otlp.elements import Bodies, Elements
from collector.otlp.logs import check_logs, decode_logs
from collector.otlp.spans import check_spans, decode_spans


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Signal:
    """A kind of request, and the reader of its innermost elements."""

    noun: str  # the name of an innermost element
    request: type[Message]
    element: type[Message]
    lists: tuple[str, str, str]  # what OTLP calls the lists inside each other
    decode: Callable[[Bodies], Elements]  # raises NotColumnar if the columnar decoder cannot take them
    check: Callable[[list[bytes]], None]  # raises ValueError or NotColumnar if it cannot take one of these elements


TRACES = Signal(
    noun="span",
    request=ExportTraceServiceRequest,
    element=Span,
    lists=("resource_spans", "scope_spans", "spans"),
    decode=decode_spans,
    check=check_spans,
)
LOGS = Signal(
    noun="log record",
    request=ExportLogsServiceRequest,
    element=LogRecord,
    lists=("resource_logs", "scope_logs", "log_records"),
    decode=decode_logs,
    check=check_logs,
)
