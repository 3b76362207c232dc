"""Connections that deliver one serialised request at a time and classify the response."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final, Protocol

import grpc
import grpc.aio
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from benchmarks.generator import Door

METHOD: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
TIMEOUT_S: Final = 30.0
CHANNEL_OPTIONS: Final = (
    ("grpc.max_send_message_length", 1 << 28),
    ("grpc.use_local_subchannel_pool", 1),  # each sender has a connection of its own, as applications have
    ("grpc.enable_retries", 0),  # a refusal is counted, not hidden
    ("grpc.initial_reconnect_backoff_ms", 200),  # a server that comes back is found soon
    ("grpc.max_reconnect_backoff_ms", 1_000),
)
RETRYABLE_CODES: Final = frozenset(
    {
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    },
)
RETRYABLE_STATUSES: Final = frozenset({429, 502, 503, 504})


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """The spans are the server's, but for those it rejected."""

    rejected_spans: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Refusal of a request that may be retried, after a delay if the server named one."""

    retry_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A final error, or no answer at all."""

    reason: str


Answer = Acknowledged | Refused | Failed


class Sender(Protocol):
    """A connection of a sender."""

    async def send(self, body: bytes) -> Answer:
        """Deliver a request and wait for the answer."""
        ...

    async def close(self) -> None:
        """End the connection."""
        ...


async def connect(door: Door, target: str, key: str | None = None) -> Sender:
    """Open a connection to a door; it is ready when this returns."""
    sender = GrpcSender(target, key) if door == "grpc" else HttpSender(target)
    await sender.open()
    return sender


class GrpcSender:
    """A channel that carries raw bytes. `grpc.aio` costs half of what threads do for small requests."""

    def __init__(self, target: str, key: str | None) -> None:
        self._metadata = (("authorization", f"Bearer {key}"),) if key else None
        self._channel = grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS)
        self._export: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(METHOD)

    async def open(self) -> None:
        """Wait until the channel is connected."""
        await asyncio.wait_for(self._channel.channel_ready(), TIMEOUT_S)

    async def send(self, body: bytes) -> Answer:
        """Call Export."""
        try:
            answer: bytes = await self._export(body, timeout=TIMEOUT_S, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            retry_s = _retry_info_s(error)
            if error.code() in RETRYABLE_CODES or retry_s is not None:
                return Refused(retry_s=retry_s)
            return Failed(reason=f"{error.code().name}: {error.details()}")
        return Acknowledged(rejected_spans=_rejected(answer))

    async def close(self) -> None:
        """Close the channel."""
        await self._channel.close()


def _retry_info_s(error: grpc.aio.AioRpcError) -> float | None:
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            for detail in Status.FromString(value).details:
                info = RetryInfo()
                if detail.Unpack(info):
                    return info.retry_delay.ToTimedelta().total_seconds()
    return None


class HttpSender:
    """A kept-alive connection that writes HTTP/1.1 by itself: client libraries cost more than the answer does."""

    def __init__(self, target: str) -> None:
        self._host, _, self._port = target.rpartition(":")
        lines = (
            "POST /v1/traces HTTP/1.1",
            f"host: {target}",
            "content-type: application/x-protobuf",
            "content-length: ",
        )
        self._head = "\r\n".join(lines).encode()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def open(self) -> None:
        """Connect."""
        self._streams = await asyncio.open_connection(self._host.strip("[]"), int(self._port))

    async def send(self, body: bytes) -> Answer:
        """Post the request; a connection that the server closed is opened again first."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await self._post(body)
        except (OSError, EOFError, TimeoutError) as error:
            await self.close()
            return Failed(reason=f"{type(error).__name__}: {error}")

    async def _post(self, body: bytes) -> Answer:
        if self._streams is None:
            await self.open()
            assert self._streams is not None
        reader, writer = self._streams
        writer.writelines((self._head, b"%d\r\n\r\n" % len(body), body))
        await writer.drain()
        status_line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().splitlines()
        headers = dict(line.split(": ", 1) for line in lines if line)
        content = await reader.readexactly(int(headers["content-length"]))
        if headers.get("connection") == "close":
            await self.close()
        return _meaning(int(status_line.split()[1]), headers, content)

    async def close(self) -> None:
        """Close the connection, if there is one."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def _meaning(status: int, headers: dict[str, str], content: bytes) -> Answer:
    if status == 200:
        return Acknowledged(rejected_spans=_rejected(content))
    if status in RETRYABLE_STATUSES:
        retry_after = headers.get("retry-after", "")
        return Refused(retry_s=float(retry_after) if retry_after.isdigit() else None)
    return Failed(reason=f"{status}: {content[:200]!r}")


def _rejected(answer: bytes) -> int:
    return ExportTraceServiceResponse.FromString(answer).partial_success.rejected_spans if answer else 0
