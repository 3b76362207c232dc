"""OTLP over gRPC."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import Any, Final, NoReturn
from urllib.parse import unquote

import grpc
import grpc.aio
from google.protobuf.message import Message

from collector.access.authenticator import Authenticator
from collector.access.caller import Caller, RequestInfo
from collector.access.errors import AccessRefused
from collector.access.proxies import FORWARDED_FOR, TrustedProxies, unmapped
from collector.ingest import Ingest
from collector.listeners.body import BodyLimits, HeldBody, arriving
from collector.listeners.certificate import Certificate, Loaded
from collector.listeners.client_calls import ClientCalls
from collector.listeners.closed_connections import Reason, ReportClosed
from collector.listeners.connection_calls import ConnectionCalls, Peer
from collector.listeners.connection_limits import ConnectionLimits
from collector.listeners.otlp_http import logs_reply, metrics_reply, trace_reply
from collector.listeners.refusals import Refusals
from collector.listeners.status import BodyTooLarge, FailureAnswer, TooSlow, failure_of
from collector.otlp.decode import Receipt, Request
from collector.otlp.signals import LOGS, TRACES, Signal
from storage.errors import Overloaded
from storage.limit import Limit

log = logging.getLogger(__name__)

_PACKAGE = "opentelemetry.proto.collector"
_READING_BYTES = 256 << 20
"""Memory that arriving messages may hold, if none is larger than the largest recent one."""

_MOST_AT_ONCE, _LEAST_AT_ONCE = 32, 4
"""Bounds of the number of messages read at a time. With 32, a few stalled senders do not block the others; four
messages of 64 MiB fill `_READING_BYTES`."""

_STREAMS: Final = 256
"""Calls at the same time on one connection. A guess: exporters have one or two, and a proxy opens more connections."""

_PENDING: Final = 10_000
"""Calls that may wait in gRPC's core (its default: 1,000). Beyond them it cancels calls of any client."""

_CALLS_LIMIT: Final = Limit(value=5_000, unit="calls", remedy="wait for answers, and call again after some seconds")
"""Calls of an address at a time, including those with unread answers; each further one counts as wasted. A guess."""

_LEFT_SECONDS: Final = 1.0
"""A call that its client cancels sooner counts as wasted. A guess: exporters cancel theirs after 10 s."""

_ENTRY_BYTES: Final = 32
"""Overhead that HTTP/2 counts for an entry of metadata besides its name and value (RFC 9113, 6.5.2)."""

_FORGET_S = 60.0
_READ_SECONDS = 60.0
_TURN_SECONDS = 5.0
"""Longest wait of a sender for a turn; then its call is refused. A guess: exporters time out after 10 s."""

_STALLED_SECONDS = 3.0
"""A message may take this long while a sender without a turn waits, which it does for `_TURN_SECONDS`. A guess."""

_Context = grpc.aio.ServicerContext[bytes, bytes]
_Answer = Callable[[HeldBody, Caller], Awaitable[Message]]


class _Turns:
    """Turns at reading a message, shared by senders.

    gRPC reports a message's size only once it is here, so the number of turns follows the largest message of the last
    minute: many while messages are small, few when they are large. A sender holds at most three times what is free, as
    in `storage.ingest.shares`, and a sender without a turn ends a stalled turn of the sender with the most.
    """

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._reading: dict[asyncio.Timeout, str] = {}  # in the order in which they began
        self._largest = 0
        self._largest_at_s = 0.0

    @asynccontextmanager
    async def take(self, sender: str) -> AsyncIterator[None]:
        """Wait for a turn and hold it during the block.

        Raises:
            Overloaded: no turn became free in time.
            TooSlow: the block took too long, or others wait and it has stalled.
        """
        if not self._has_room(sender):
            await self._wait(sender)
        began_s = time.monotonic()
        turn = asyncio.timeout(_READ_SECONDS)
        self._reading[turn] = sender
        try:
            async with turn:
                yield
        except TimeoutError:
            limit = Limit(
                value=round(time.monotonic() - began_s), unit="s", remedy="send smaller requests, or compress them"
            )
            raise TooSlow(f"the message did not arrive within {limit}") from None
        finally:
            del self._reading[turn]
            async with self._changed:
                self._changed.notify_all()

    def _has_room(self, sender: str) -> bool:
        free = self._allowed() - len(self._reading)
        own = sum(each == sender for each in self._reading.values())
        return free > 0 and own < max(3 * free, 1)

    async def _wait(self, sender: str) -> None:
        self._end_stalled(sender)
        try:
            async with asyncio.timeout(_TURN_SECONDS), self._changed:
                await self._changed.wait_for(lambda: self._has_room(sender))
        except TimeoutError:
            if not self._has_room(sender):  # else a turn became free just now, and no other sender has taken it
                limit = Limit(value=self._allowed(), unit="messages at a time", remedy="send again, smaller messages")
                raise Overloaded(
                    f"{len(self._reading)} other messages are still arriving; the limit is {limit}"
                ) from None

    def _end_stalled(self, sender: str) -> None:
        """Shorten the oldest turn of the sender with the most turns, if `sender` has none."""
        held = Counter(self._reading.values())
        if not held or sender in held:
            return
        most = held.most_common(1)[0][0]
        soon_s = asyncio.get_running_loop().time() + _STALLED_SECONDS
        for turn, owner in self._reading.items():
            if owner == most and not turn.expired() and (turn.when() or 0.0) > soon_s:
                turn.reschedule(max(soon_s - _STALLED_SECONDS, (turn.when() or 0.0) - _READ_SECONDS + _STALLED_SECONDS))
                return

    def saw(self, nbytes: int) -> None:
        """Note the size of a message, which decides the number of turns."""
        now_s = time.monotonic()
        if nbytes >= self._largest or now_s - self._largest_at_s > _FORGET_S:
            self._largest, self._largest_at_s = nbytes, now_s

    def _allowed(self) -> int:
        return min(max(_READING_BYTES // max(self._largest, 1), _LEAST_AT_ONCE), _MOST_AT_ONCE)


class OtlpGrpc:
    """The gRPC server: `Export` of traces and of logs, and a documented refusal of metrics."""

    def __init__(
        self,
        ingest: Ingest,
        authenticator: Authenticator,
        proxies: TrustedProxies,
        limits: ConnectionLimits,
        report: ReportClosed,
        *,
        max_message_bytes: int,
    ) -> None:
        self._ingest = ingest
        self._authenticator = authenticator
        self._proxies = proxies
        self._message_limit = BodyLimits(received=max_message_bytes, decompressed=max_message_bytes).received_limit()
        self._limits = limits
        self._report = report
        self.calls = ConnectionCalls()
        self._client_calls = ClientCalls()
        self._turns = _Turns()
        self._refusals = Refusals()
        options = [
            ("grpc.max_receive_message_length", max_message_bytes),
            ("grpc.so_reuseport", 0),  # a second server on the port must fail, not share
            ("grpc.max_allowed_incoming_connections", limits.total),
            ("grpc.server_handshake_timeout_ms", int(limits.first_byte_s * 1000)),  # with the client's first frame
            ("grpc.max_connection_idle_ms", int(limits.idle_s * 1000)),
            ("grpc.keepalive_time_ms", int(limits.idle_s * 1000)),
            # Above the limit that is checked here, since the core does not report its own refusals.
            ("grpc.max_metadata_size", 2 * limits.header_bytes),
            ("grpc.absolute_max_metadata_size", 2 * limits.header_bytes),
            ("grpc.max_concurrent_streams", _STREAMS),
            ("grpc.server.max_pending_requests", _PENDING),
            ("grpc.server.max_pending_requests_hard_limit", _PENDING),
        ]
        self._server = grpc.aio.server(options=options)
        self._server.add_generic_rpc_handlers(
            tuple(
                grpc.method_handlers_generic_handler(f"{_PACKAGE}.{service}", {"Export": self._method(service, answer)})
                for service, answer in (
                    ("trace.v1.TraceService", self._traces),
                    ("metrics.v1.MetricsService", self._metrics),
                    ("logs.v1.LogsService", self._logs),
                )
            )
        )
        self._server.add_generic_rpc_handlers((_AnyMethod(self._handler(self._unknown)),))

    async def start(self, address: str, tls: Certificate | None = None) -> int:
        """Bind and serve; return the port that was bound.

        Raises:
            OSError: the address cannot be bound.
        """
        try:
            if tls is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, _credentials(tls))
        except RuntimeError as error:
            raise OSError(str(error)) from error
        await self._server.start()
        return port

    async def stop(self, grace_s: float) -> None:
        """Take no more requests; those under way get `grace_s` to finish."""
        await self._server.stop(grace_s)

    def _method(self, service: str, answer: _Answer) -> Any:  # noqa: ANN401 - grpc's handlers have no public type
        # Registered as a stream of requests although each call carries one, because only then the message
        # is read when the handler requests it, and reading can be bounded. On the wire the two are the same.
        method = f"/{_PACKAGE}.{service}/Export"

        async def answered(context: _Context, peer: Peer) -> bytes:
            address = self._address_of(context, peer)
            has_entered = False
            try:
                caller = self._enter(context, RequestInfo(method="gRPC", path=method, address=address), peer)
                has_entered = True
                async with self._client_calls.turn(caller.client):
                    with arriving(self._ingest.budget, self._authenticator.traffic, "grpc", caller.client) as body:
                        await self._read(context, body, caller.client)
                        reply = (await answer(body, caller)).SerializeToString()
                self._authenticator.traffic.called(method, grpc.StatusCode.OK.name)
                return reply
            except Exception as error:  # noqa: BLE001 - the border of the listener: every call gets an answer from the table
                failure = _failure_of(error)
            self._authenticator.traffic.called(method, failure.grpc_code.name)
            if not has_entered:
                await self._refusals.wait(address)
            # Outside of the `except` block, because gRPC keeps the exception that `_abort` raises in a reference cycle,
            # which is freed late. Raised inside of the block, it would keep `error`, whose frames hold the message.
            return await _abort(context, failure)

        return self._handler(answered)

    def _handler(self, answered: Callable[[_Context, Peer], Awaitable[bytes]]) -> Any:  # noqa: ANN401
        """Make a handler that records calls until their answers are sent, and counts wasted calls."""

        async def begun(_requests: object, context: _Context) -> bytes:
            peer, began_s, noted = _peer_of(context), time.monotonic(), ExitStack()
            if peer is None:
                raise asyncio.CancelledError  # an answer would fail, with a traceback in the log
            noted.enter_context(self.calls.under_way(peer))
            context.add_done_callback(lambda _: noted.close())  # type: ignore[arg-type] # its type names no lambda
            if self.calls.of(peer[0]) > _CALLS_LIMIT.value:
                self._waste(peer)
            if self.calls.refused.is_refused(peer[0]):  # the guard ends the connection, and the call with it
                await asyncio.sleep(_READ_SECONDS)
                await context.abort(
                    grpc.StatusCode.UNAVAILABLE,
                    f"this address cancelled too many calls at once, or had more calls under way than {_CALLS_LIMIT}",
                )
            try:
                return await answered(context, peer)
            except asyncio.CancelledError:
                if time.monotonic() - began_s < _LEFT_SECONDS:
                    self._waste(peer)
                raise

        return grpc.stream_unary_rpc_method_handler(begun)

    def _waste(self, peer: Peer) -> None:
        if peer[0] not in self._proxies:
            self.calls.refused.waste(peer[0])

    async def _unknown(self, context: _Context, peer: Peer) -> bytes:
        await self._refusals.wait(self._address_of(context, peer))
        return await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")

    def _address_of(self, context: _Context, peer: Peer) -> str:
        metadata = context.invocation_metadata() or ()
        forwarded_for = [str(value) for name, value in metadata if name == FORWARDED_FOR]
        return self._proxies.client_of(peer[0], forwarded_for)

    def _enter(self, context: _Context, request_info: RequestInfo, peer: Peer) -> Caller:
        metadata = tuple(context.invocation_metadata() or ())
        if sum(len(name) + len(value) + _ENTRY_BYTES for name, value in metadata) > self._limits.header_bytes:
            self._report(Reason.HEADER_TOO_LARGE, peer[0], 1)
            self._waste(peer)
            self._authenticator.traffic.not_decoded("grpc", "too_large", 0)
            raise BodyTooLarge(f"the metadata is larger than {self._limits.header_limit()}")
        authorization = dict(metadata).get("authorization")
        try:
            return self._authenticator.enter_to_send(
                None if authorization is None else str(authorization), request_info
            )
        except AccessRefused as error:
            failure = failure_of(error)
            self._authenticator.journal.note(request_info, error.caller, failure.http_status, str(error))
            self._authenticator.traffic.not_decoded("grpc", failure.reason, 0)
            raise

    async def _read(self, context: _Context, body: HeldBody, sender: str) -> None:
        async with self._turns.take(sender):
            message: object = await context.read()
        if isinstance(message, bytes):  # of one that is missing or too large, gRPC keeps nothing
            self._turns.saw(len(message))
        if not isinstance(message, bytes):
            raise BodyTooLarge(f"no message, or one larger than {self._message_limit}")
        body.data = message
        body.receive(len(message))

    async def _traces(self, body: HeldBody, caller: Caller) -> Message:
        return trace_reply(await self._offer(body, TRACES, caller))

    async def _logs(self, body: HeldBody, caller: Caller) -> Message:
        return logs_reply(await self._offer(body, LOGS, caller))

    async def _offer(self, body: HeldBody, signal: Signal, caller: Caller) -> Receipt:
        self._authenticator.sent(caller, len(body.data))
        if not body.data:
            return Receipt(accepted=0, rejected=0)
        request = Request(body=body.data, signal=signal, tenant=caller.tenant, sender=caller.client)
        return await self._ingest.offer(request)

    async def _metrics(self, body: HeldBody, caller: Caller) -> Message:
        self._authenticator.sent(caller, len(body.data))
        return metrics_reply(body.data)


class _AnyMethod(grpc.GenericRpcHandler):
    """A handler for all unknown methods."""

    def __init__(self, method: Any) -> None:  # noqa: ANN401 - grpc's handlers have no public type
        self._method = method

    def service(self, _details: object) -> Any:  # noqa: ANN401
        return self._method


def _credentials(tls: Certificate) -> grpc.ServerCredentials:
    """Return credentials that show each new connection the current certificate."""
    shown = tls.current

    def changed() -> grpc.ServerCertificateConfiguration | None:
        nonlocal shown
        if shown is tls.current:
            return None
        shown = tls.current
        return _configuration(shown)

    return grpc.dynamic_ssl_server_credentials(_configuration(shown), changed)  # type: ignore[arg-type] # None: no change


def _configuration(loaded: Loaded) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(loaded.key, loaded.chain)])


def _peer_of(context: _Context) -> Peer | None:
    """Read what gRPC calls a peer, such as ipv4:127.0.0.1:4317 or ipv6:%5B::1%5D:4317.

    Returns None for a call that was over before it began, such as past its deadline: gRPC knows no peer of it.
    """
    family, _, place = context.peer().partition(":")
    if family not in {"ipv4", "ipv6"}:
        return None
    address, _, port = unquote(place).rpartition(":")
    return unmapped(address.strip("[]")), int(port)


def _failure_of(error: Exception) -> FailureAnswer:
    failure = failure_of(error)
    if failure.grpc_code is grpc.StatusCode.INTERNAL:
        log.error("an OTLP call failed", exc_info=error)
    return failure


async def _abort(context: _Context, failure: FailureAnswer) -> NoReturn:
    details = ("grpc-status-details-bin", failure.status().SerializeToString())
    await context.abort(failure.grpc_code, failure.message, (details,))
    raise AssertionError  # `abort` raises
