"""What follows from the answer of an endpoint that takes log records, whatever protocol it speaks."""

from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

TIMEOUT_S: Final = 10.0  # OTLP's own default
LONGEST_TEXT: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """They have it; of what was in it, they rejected so many records."""

    rejected: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """They will never take these bytes."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLater:
    """They may take the same bytes later."""

    why: str
    after_s: float = 0


Answer: TypeAlias = Accepted | Rejected | RetryLater


class Endpoint(Protocol):
    """Where log records are sent. For one thread at a time."""

    def post(self, body: bytes) -> Answer:
        """Send a request and say what follows; whatever goes wrong is an answer too."""

    def cancel(self) -> None:
        """Cut off the request under way, and those after it; safe to call from another thread."""

    def close(self) -> None:
        """Let go of the connection, after `cancel`."""


def taken(body: bytes) -> Accepted:
    """A success, which may be partial; one that cannot be read is whole."""
    try:
        partial = ExportLogsServiceResponse.FromString(body).partial_success
    except DecodeError:
        return Accepted()
    return Accepted(rejected=partial.rejected_log_records, why=partial.error_message[:LONGEST_TEXT])
