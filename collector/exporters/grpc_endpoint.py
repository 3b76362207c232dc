"""Endpoint for OTLP over gRPC: one call, and the outcome of the export from its status."""

from collections.abc import Mapping
from typing import Final, cast
from urllib.parse import urlsplit

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from collector.exporters.answers import LONGEST_TEXT, TIMEOUT_S, Answer, Rejected, RetryLater, taken

PORT: Final = 4317
_METHOD: Final = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
_DETAILS: Final = "grpc-status-details-bin"
_OPTIONS: Final = (
    ("grpc.primary_user_agent", "tracejury"),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_reconnect_backoff_ms", 10_000),  # so that the exporter's own backoff decides; a guess
)
_REFUSED: Final = frozenset({grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ALREADY_EXISTS})
"""Permanent codes; also RESOURCE_EXHAUSTED without RetryInfo. Other codes that OTLP calls final are
retried, since their causes pass, or an operator mends them, such as a key or an address.
"""


class GrpcEndpoint:
    """Receiver of log records over gRPC.

    For one thread at a time. Another thread may call `cancel`, and then `close`.
    """

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        """Set up the endpoint. `url` is `grpc://`, or with TLS `grpcs://`, and an address.

        `headers` are never logged.
        """
        parts = urlsplit(url)
        target = f"dns:///{parts.netloc}" + (f":{PORT}" if parts.port is None else "")
        gzip = grpc.Compression.Gzip
        self._channel = (
            grpc.secure_channel(target, grpc.ssl_channel_credentials(), _OPTIONS, gzip)
            if parts.scheme == "grpcs"
            else grpc.insecure_channel(target, _OPTIONS, gzip)
        )
        self._export: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(_METHOD)
        self._metadata = tuple((name.lower(), value) for name, value in headers.items())

    def post(self, body: bytes) -> Answer:
        """Send a request and return its outcome; errors are outcomes, too."""
        try:
            return taken(self._export(body, timeout=TIMEOUT_S, metadata=self._metadata))
        except ValueError:  # gRPC raises it for a closed channel
            return RetryLater(why="cut off: the server is being stopped")
        except grpc.RpcError as error:
            return _failed(cast("grpc.Call", error))  # a failed call's error is its Call, too

    def cancel(self) -> None:
        """Cut off the request under way, and those after it."""
        self._channel.close()

    def close(self) -> None:
        """Close the connection, which `cancel` does."""
        self._channel.close()


def _failed(call: grpc.Call) -> Answer:
    code, after_s = call.code(), _retry_after_s(call)
    why = f"answered {code.name}: {call.details()}"[:LONGEST_TEXT]
    if code in _REFUSED or (code is grpc.StatusCode.RESOURCE_EXHAUSTED and after_s is None):
        return Rejected(why=why)
    return RetryLater(why=why, after_s=after_s or 0)


def _retry_after_s(call: grpc.Call) -> float | None:
    """Return the delay in the RetryInfo of the failure; None if there is none."""
    info = RetryInfo()
    for name, value in call.trailing_metadata() or ():
        if name == _DETAILS:
            try:
                status = Status.FromString(cast("bytes", value))
                if any(each.Unpack(info) for each in status.details):
                    return float(max(info.retry_delay.seconds + info.retry_delay.nanos / 1e9, 0.0))
            except DecodeError:
                return None
    return None
