"""OTLP over HTTP, as a plain ASGI application, and the reading of OTLP requests for the API's own path."""

import asyncio
import codecs
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from google.protobuf import json_format
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError, Message
from google.rpc import status_pb2
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

from collector.access.authenticator import Authenticator
from collector.access.caller import Caller, RequestInfo
from collector.access.errors import AccessRefused
from collector.access.origin import Names
from collector.ingest import ByteBudget, Ingest
from collector.listeners.body import BodyLimits, Disconnected, HeldBody, Receive, arriving, read_body
from collector.listeners.status import BodyTooLarge, FailureAnswer, UnknownType, failure_of
from collector.logs import request_id, request_id_of
from collector.otlp import json_request
from collector.otlp.decode import Receipt, Request, receipt_with
from collector.otlp.faults import Malformed
from collector.otlp.json_request import memory_needed
from collector.otlp.logs import KEPT_EVENTS
from collector.otlp.signals import LOGS, TRACES, Signal
from collector.otlp.strict import Sifted
from storage.errors import Overloaded
from storage.limit import Limit

T = TypeVar("T")

_JSON_LIMIT = Limit(value=360 << 20, unit="bytes", remedy="send fewer spans at once, or protobuf")
"""Memory to parse one body, and all that are parsed at a time. 24 MiB of agent spans with plain texts take it all."""

_SMALL_JSON_BYTES = 64 << 10
"""Largest body for the thread of small ones, which it holds for 50 ms if its spans are the smallest. A guess."""


class JsonReader:
    """Reader of JSON bodies within a memory limit: small ones in one thread, large ones in another.

    More threads would only compete for the GIL with each other and the event loop. Of each sender, one body is queued
    for a thread at a time, so that a sender with many bodies does not delay the others.
    """

    def __init__(self) -> None:
        self._budget = ByteBudget(_JSON_LIMIT)
        self._small = ThreadPoolExecutor(1, "otlp-json-small")
        self._large = ThreadPoolExecutor(1, "otlp-json-large")
        self._senders: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # while their bodies are read

    async def read(self, data: bytes, parse: Callable[[bytes], T], sender: str) -> T:
        """Call `parse` on a body in a thread, and return the result; a sender's bodies are parsed one at a time.

        Raises:
            BodyTooLarge: reading the body would take more memory than the limit.
            Overloaded: other bodies are being read.
        """
        thread = self._small if len(data) <= _SMALL_JSON_BYTES else self._large
        turn = self._senders.setdefault(sender, asyncio.Lock())
        async with turn:
            return await asyncio.get_running_loop().run_in_executor(thread, self._read, data, parse, sender)

    def _read(self, data: bytes, parse: Callable[[bytes], T], sender: str) -> T:
        needed = memory_needed(data)
        if needed > _JSON_LIMIT.value:
            raise BodyTooLarge(f"reading this JSON would take more memory than {_JSON_LIMIT}")
        working = HeldBody(self._budget, sender)
        try:
            working.hold(needed)
            return parse(data)
        except Malformed as error:
            raise error.with_traceback(None) from None  # its frames hold the body, in a cycle
        finally:
            del data
            working.let_go()


log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

PROTOBUF, JSON = "application/x-protobuf", "application/json"
_TYPES = {PROTOBUF: PROTOBUF, "application/protobuf": PROTOBUF, JSON: JSON}

_AROUND_JSON = b" \t\r\n\0" + codecs.BOM_UTF8 + codecs.BOM_UTF16_LE
"""Bytes before and after braces, in each encoding of JSON that is read for spans: UTF-8, UTF-16 and UTF-32."""

_NOT_READ = "Tracejury does not read metrics: they were dropped. Switch their exporter off to save the traffic."
_KEPT_LOGS = (
    f"Tracejury keeps log records with trace_id and span_id whose event name starts with {KEPT_EVENTS},"
    " and some of Claude Code and Codex"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Headers:
    """The headers with a meaning in OTLP."""

    content_type: str
    content_encoding: str
    authorization: str | None
    host: str | None
    origin: str | None
    request_id: str

    @classmethod
    def of(cls, headers: Iterable[tuple[bytes, bytes]]) -> "_Headers":
        values = {name.lower(): value.decode("latin-1") for name, value in headers}
        return cls(
            content_type=values.get(b"content-type", "").partition(";")[0].strip().lower(),
            content_encoding=values.get(b"content-encoding", ""),
            authorization=values.get(b"authorization"),
            host=values.get(b"host"),
            origin=values.get(b"origin"),
            request_id=request_id_of(values.get(b"x-request-id")),
        )

    def reply_type(self) -> str:
        """Return the content type of the answer: the request's own if supported."""
        return _TYPES.get(self.content_type, JSON)


class OtlpReader:
    """Reader of HTTP requests, up to the receipt for their spans or log records."""

    def __init__(self, ingest: Ingest, limits: BodyLimits, authenticator: Authenticator) -> None:
        self.ingest = ingest
        self._limits = limits
        self._authenticator = authenticator
        self._json = JsonReader()

    async def read(
        self, scope: Scope, receive: Receive, caller: Caller, signal: Signal = TRACES, *, counts_traces: bool = False
    ) -> Receipt:
        """Store what a request holds, for the tenant of its caller; it is durable on return.

        Raises:
            Exception: any that `collector.listeners.status` maps to a status.
            Disconnected: the client left.
        """
        headers = _Headers.of(scope["headers"])
        with arriving(self.ingest.budget, self._authenticator.traffic, "http", caller.client) as body:
            try:
                await self._read(headers, receive, body)
                self._authenticator.sent(caller, len(body.data))
                sifted = Sifted(body=b"")
                if headers.reply_type() == JSON:
                    body.hold(len(body.data))
                    parse = partial(json_request.sift, signal=signal)
                    sifted = await self._json.read(body.data, parse, caller.client)
                    body.data = sifted.body
                if not body.data:
                    return receipt_with(sifted, Receipt(accepted=0, rejected=0))
                request = Request(
                    body=body.data,
                    signal=signal,
                    tenant=caller.tenant,
                    sender=caller.client,
                    counts_traces=counts_traces,
                )
                return receipt_with(sifted, await _unless_gone(self.ingest.offer(request), receive))
            except asyncio.CancelledError:  # the grace period of a stop is over; the sender may retry
                raise Overloaded("the server stopped before it had the whole request") from None

    async def take(self, request: bytes, caller: Caller) -> Receipt:
        """Store an export request that the server made, in protobuf, for the caller's tenant; it is durable on return.

        Raises:
            Exception: any that `collector.listeners.status` maps to a status.
        """
        with arriving(self.ingest.budget, self._authenticator.traffic, "http", caller.client) as body:
            body.receive(len(request))
            body.data = request
            return await self.ingest.offer(Request(body=request, tenant=caller.tenant, sender=caller.client))

    async def skip(self, scope: Scope, receive: Receive, caller: Caller) -> Message:
        """Read metrics, which are not stored, and return the answer.

        Raises:
            Exception: any that `collector.listeners.status` maps to a status.
            Disconnected: the client left.
        """
        headers = _Headers.of(scope["headers"])
        with arriving(self.ingest.budget, self._authenticator.traffic, "http", caller.client) as body:
            await self._read(headers, receive, body)
            self._authenticator.sent(caller, len(body.data))
            return metrics_reply(body.data, is_json=headers.reply_type() == JSON)

    async def _read(self, headers: _Headers, receive: Receive, body: HeldBody) -> None:
        if headers.content_type not in _TYPES:
            msg = f"content-type {headers.content_type or '(none)'} is not OTLP; use {PROTOBUF} or {JSON}"
            raise UnknownType(msg)
        await read_body(receive, headers.content_encoding, self._limits, body)


async def _unless_gone(answer: "asyncio.Future[Receipt]", receive: Receive) -> Receipt:
    """Wait for an answer; if the client leaves, cancel it, which skips the decoding that has not begun."""
    left = asyncio.ensure_future(_client_left(receive))
    try:
        await asyncio.wait((answer, left), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise Disconnected
        return answer.result()
    finally:
        answer.cancel()
        left.cancel()
        del answer, left  # a failure holds this frame, and they hold the failure


async def _client_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class OtlpHttp:
    """The ASGI application behind the OTLP/HTTP address: traces, logs, and metrics, which are accepted and dropped."""

    def __init__(self, reader: OtlpReader, authenticator: Authenticator, names: Names) -> None:
        self._reader = reader
        self._authenticator = authenticator
        self._names = names
        self._routes: dict[str, Callable[[Scope, Receive, Caller], Awaitable[Message]]] = {
            "/v1/traces": self._traces,
            "/v1/metrics": self._metrics,
            "/v1/logs": self._logs,
        }

    def takes(self, path: str) -> bool:
        """Return whether a path is one of OTLP's."""
        return path.rstrip("/") in self._routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        if scope["type"] != "http":
            return
        path = scope["path"].rstrip("/")
        route = self._routes.get(path)
        headers = _Headers.of(scope["headers"])
        kind = headers.reply_type()
        request_id.set(headers.request_id)
        answered = partial(self._authenticator.traffic.answered, scope["method"], path if route else None)
        send = _numbered(send, headers.request_id, answered)
        if route is None:
            await _send(send, 404, kind, _error("no such path; traces go to POST /v1/traces, logs to POST /v1/logs"))
        elif scope["method"] != "POST":
            await _send(send, 405, kind, _error("use POST"), {"allow": "POST"})
        else:
            try:
                reply = await route(scope, receive, self._enter(scope, headers))
            except Disconnected:
                return
            except Exception as error:  # noqa: BLE001 - the border of the listener: every request gets an answer from the table
                await _send_failure(send, kind, failure_of(error), error)
            else:
                await _send(send, 200, kind, reply)

    def _enter(self, scope: Scope, headers: _Headers) -> Caller:
        request_info = RequestInfo(
            method="POST", path=scope["path"], address=address_of(scope), request_id=headers.request_id
        )
        try:
            return self._authenticator.enter_to_send(
                headers.authorization,
                request_info,
                lambda: self._names.check(headers.host, headers.origin, changes=True),
            )
        except AccessRefused as error:
            failure = failure_of(error)
            self._authenticator.journal.note(request_info, error.caller, failure.http_status, str(error))
            self._authenticator.traffic.not_decoded("http", failure.reason, 0)
            raise

    async def _traces(self, scope: Scope, receive: Receive, caller: Caller) -> Message:
        return trace_reply(await self._reader.read(scope, receive, caller, TRACES))

    async def _metrics(self, scope: Scope, receive: Receive, caller: Caller) -> Message:
        return await self._reader.skip(scope, receive, caller)

    async def _logs(self, scope: Scope, receive: Receive, caller: Caller) -> Message:
        return logs_reply(await self._reader.read(scope, receive, caller, LOGS))


def _numbered(send: Send, number: str, answered: Callable[[int], None]) -> Send:
    """Wrap `send`: when the response starts, count it by status, and add the request id as a header."""

    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            answered(message["status"])
            message["headers"].append((b"x-request-id", number.encode()))
        await send(message)

    return sending


def address_of(scope: Scope) -> str:
    """Return the address of the client, without the port."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def trace_reply(receipt: Receipt) -> trace_service_pb2.ExportTraceServiceResponse:
    """Return OTLP's answer to spans: `partial_success` only if some were rejected."""
    reply = trace_service_pb2.ExportTraceServiceResponse()
    if receipt.rejected:
        reply.partial_success.rejected_spans = receipt.rejected
        reply.partial_success.error_message = receipt.message
    return reply


def metrics_reply(data: bytes, *, is_json: bool = False) -> metrics_service_pb2.ExportMetricsServiceResponse:
    """Return OTLP's answer to metrics, which are not stored: the reason, without a count, which would need decoding.

    Raises:
        Malformed: the body is not an OTLP message.
    """
    reply = metrics_service_pb2.ExportMetricsServiceResponse()
    if is_json:
        text = data.strip(_AROUND_JSON)
        if not (text.startswith(b"{") and text.endswith(b"}")):
            raise Malformed("not an ExportMetricsServiceRequest: no JSON object")
        is_empty = not text[1:-1].strip(_AROUND_JSON)
    else:
        try:
            Empty.FromString(data)  # parses the outermost fields only, 25 ms for 8 million of them
        except DecodeError as error:
            raise Malformed(f"not an ExportMetricsServiceRequest: {error}") from error
        is_empty = not data
    if not is_empty:
        reply.partial_success.error_message = _NOT_READ
    return reply


def logs_reply(receipt: Receipt) -> logs_service_pb2.ExportLogsServiceResponse:
    """Return OTLP's answer to log records: the number of rejected ones, and which ones are kept."""
    reply = logs_service_pb2.ExportLogsServiceResponse()
    if receipt.rejected:
        reply.partial_success.rejected_log_records = receipt.rejected
        reply.partial_success.error_message = f"{_KEPT_LOGS}: {receipt.message}"
    return reply


def _error(message: str) -> Message:
    return status_pb2.Status(message=message)


async def _send_failure(send: Send, kind: str, failure: FailureAnswer, error: Exception) -> None:
    if failure.http_status == HTTPStatus.INTERNAL_SERVER_ERROR:
        log.error("an OTLP request failed", exc_info=error)
    await _send(send, failure.http_status, kind, failure.status(), failure.http_headers())


async def _send(send: Send, status: int, kind: str, reply: Message, extra: dict[str, str] | None = None) -> None:
    body = reply.SerializeToString() if kind == PROTOBUF else json_format.MessageToJson(reply, indent=None).encode()
    headers = {"content-type": kind, "content-length": str(len(body))} | (extra or {})
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
