"""Outcomes of an export request to an endpoint for OTLP log records, over HTTP or gRPC."""

from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

TIMEOUT_S: Final = 10.0  # OTLP's own default
LONGEST_TEXT: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """Success, and the number of records that the receiver rejected, with its reason."""

    rejected: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """Permanent failure: the receiver will never take these bytes."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLater:
    """Retryable failure: the receiver may take the same bytes later."""

    why: str
    after_s: float = 0


Answer: TypeAlias = Accepted | Rejected | RetryLater


class Endpoint(Protocol):
    """Receiver of log records. For one thread at a time."""

    def post(self, body: bytes) -> Answer:
        """Send a request and return its outcome; errors are outcomes, too."""

    def cancel(self) -> None:
        """Cut off the request under way, and those after it; safe to call from another thread."""

    def close(self) -> None:
        """Close the connection, after `cancel`."""


def taken(body: bytes) -> Accepted:
    """Parse the body of a success, which may be partial; an unreadable body counts as complete success."""
    try:
        partial = ExportLogsServiceResponse.FromString(body).partial_success
    except DecodeError:
        return Accepted()
    return Accepted(rejected=partial.rejected_log_records, why=partial.error_message[:LONGEST_TEXT])
