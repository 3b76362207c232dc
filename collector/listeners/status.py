"""Table of failure responses: the status of each error over gRPC and over HTTP.

Sources: opentelemetry-proto `docs/specification.md`, "Failures" and "OTLP/HTTP Response"; google.rpc error model.
"""

from dataclasses import dataclass
from http import HTTPStatus

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

from collector.access.errors import CrossOrigin, Forbidden, TooMany, Unauthenticated
from collector.otlp.faults import Malformed
from storage.errors import Barred, Damaged, Overloaded


class Unreadable(Exception):
    """Refusal of a request before it is decoded."""


class BodyTooLarge(Unreadable):
    """Refusal of a body over a limit; permanent."""


class TooSlow(Unreadable):
    """Refusal of a body that did not arrive in time; retryable."""


class UnknownType(Unreadable):
    """Refusal of an unsupported content type or encoding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureAnswer:
    """An answer that is not a success."""

    grpc_code: grpc.StatusCode
    http_status: int
    message: str
    reason: str  # label value of metrics
    retry_after_s: int | None = None  # None: no advice when to send it again

    def http_headers(self) -> dict[str, str]:
        """Return the headers of the answer over HTTP."""
        later = {} if self.retry_after_s is None else {"retry-after": str(self.retry_after_s)}
        return later | ({"www-authenticate": "Bearer"} if self.http_status == HTTPStatus.UNAUTHORIZED else {})

    def status(self) -> status_pb2.Status:
        """Return the answer as `google.rpc.Status`, which both transports carry."""
        status = status_pb2.Status(code=self.grpc_code.value[0], message=self.message)
        if self.retry_after_s is not None:
            status.details.append(
                _packed(error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=self.retry_after_s)))
            )
        elif self.grpc_code is grpc.StatusCode.INVALID_ARGUMENT:
            violation = error_details_pb2.BadRequest.FieldViolation(field="body", description=self.message)
            status.details.append(_packed(error_details_pb2.BadRequest(field_violations=[violation])))
        return status


def _packed(detail: error_details_pb2.RetryInfo | error_details_pb2.BadRequest) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(detail)
    return packed


_TABLE: tuple[tuple[type[Exception], grpc.StatusCode, int, str], ...] = (
    (Malformed, grpc.StatusCode.INVALID_ARGUMENT, 400, "malformed"),
    (BodyTooLarge, grpc.StatusCode.RESOURCE_EXHAUSTED, 413, "too_large"),
    (TooSlow, grpc.StatusCode.DEADLINE_EXCEEDED, 408, "too_slow"),
    (UnknownType, grpc.StatusCode.UNIMPLEMENTED, 415, "unsupported"),
    (Barred, grpc.StatusCode.RESOURCE_EXHAUSTED, 429, "too_often"),
    (Overloaded, grpc.StatusCode.UNAVAILABLE, 503, "overloaded"),
    (Damaged, grpc.StatusCode.DATA_LOSS, 500, "damaged"),
    (Unauthenticated, grpc.StatusCode.UNAUTHENTICATED, 401, "unauthenticated"),
    (Forbidden, grpc.StatusCode.PERMISSION_DENIED, 403, "forbidden"),
    (CrossOrigin, grpc.StatusCode.PERMISSION_DENIED, 403, "forbidden"),
    (TooMany, grpc.StatusCode.RESOURCE_EXHAUSTED, 429, "too_often"),
)


def failure_of(error: BaseException) -> FailureAnswer:
    """Return the answer to a failed request; an error without a row of the table is an internal one without details."""
    for kind, code, http_status, reason in _TABLE:
        if isinstance(error, kind):
            return FailureAnswer(
                grpc_code=code,
                http_status=http_status,
                message=str(error),
                reason=reason,
                retry_after_s=error.retry_after_s if isinstance(error, Overloaded | TooMany) else None,
            )
    return FailureAnswer(
        grpc_code=grpc.StatusCode.INTERNAL,
        http_status=500,
        message="internal error; the server's log has it",
        reason="internal_error",
    )
