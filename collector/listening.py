"""The addresses at which the server listens, and the servers behind them."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

import uvicorn
from starlette.types import ASGIApp

from collector.access.proxies import TrustedProxies
from collector.listeners.acceptor import Acceptor
from collector.listeners.certificate import Certificate
from collector.listeners.closed_connections import ClosedConnections, ReportClosed
from collector.listeners.connection_limits import ConnectionLimits
from collector.listeners.forwarded import ForwardedClient
from collector.listeners.http_protocol import ConnectionCallbacks, HttpProtocol
from collector.listeners.otlp_grpc import OtlpGrpc
from collector.listeners.path_prefix import PathPrefix
from collector.listeners.request_starts import InTurns, RequestStarts
from collector.listeners.response_buffer import ResponseBufferLimit
from collector.listeners.socket_guard import guarded

_BACKLOG = 2048
"""Connections that wait for their accept; the kernel takes at most net.core.somaxconn."""

TICK_S = 1.0
"""Interval of `on_tick`, which makes the `Date` header, in whole seconds, and of the checks for slow clients."""

_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - where such a server is found, nothing binds


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerOptions:
    """Options of a listener."""

    grace_s: float = 1.0  # for the requests under way at its end
    tls: Certificate | None = None
    proxies: TrustedProxies = field(default_factory=TrustedProxies)
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    name: str = "internal"
    counts: ClosedConnections = field(default_factory=ClosedConnections)
    starts: RequestStarts = field(default_factory=RequestStarts)
    answers: ResponseBufferLimit = field(default_factory=ResponseBufferLimit)
    path_prefix: str = ""

    @property
    def report(self) -> ReportClosed:
        """Return the function by which this listener reports the connections that it closes early."""
        return self.counts.of(self.name, self.limits)

    def named(self, name: str) -> "ListenerOptions":
        """Return the same options for the listener of this name, which is one of LISTENERS."""
        return replace(self, name=name)


def bind(address: str) -> socket.socket:
    """Bind a socket that does not listen yet.

    Raises:
        OSError: the socket cannot be bound; the message names the address.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio switches Nagle's delay off only for sockets that are declared as TCP: 40 ms an answer otherwise.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, int(port)))
    except OSError as error:
        bound.close()
        raise _cannot_listen(address, error) from error
    return bound


def _cannot_listen(address: str, error: OSError) -> OSError:
    other = "choose another address (--grpc, --otlp-http, --http; port 0 picks a free one), or stop what listens there"
    return OSError(f"cannot listen on {address}: {error.strerror}; {other}")


def address_of(bound: socket.socket) -> str:
    """Return the bound address of a socket, as host:port."""
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def reached_at(address: str) -> str:
    """Return the address by which this process reaches one of its listeners."""
    host, _, port = address.rpartition(":")
    return f"{_ANY_ADDRESS.get(host, host)}:{port}"


@asynccontextmanager
async def serving_grpc(door: OtlpGrpc, address: str, options: ListenerOptions) -> AsyncIterator[str]:
    """Serve the gRPC listener until the block ends; yields the address that it is bound to."""
    bind(address).close()  # its error names the address; gRPC's does not
    port = await door.start(address, options.tls)
    try:
        is_plain = options.tls is None
        with guarded(port, options.limits, options.proxies, options.report, door.calls, goaway=is_plain):
            yield f"{address.rpartition(':')[0]}:{port}"
    finally:
        await door.stop(options.grace_s)


@asynccontextmanager
async def serving(application: ASGIApp, bound: socket.socket, options: ListenerOptions) -> AsyncIterator[None]:
    """Serve an ASGI application on a bound socket until the block ends."""
    try:
        bound.listen(_BACKLOG)
    except OSError as error:  # two may bind an address as long as neither listens
        raise _cannot_listen(address_of(bound), error) from error
    if options.path_prefix:
        application = PathPrefix(application, options.path_prefix)
    config = uvicorn.Config(
        ForwardedClient(InTurns(application, options.starts), options.proxies),
        http="httptools",
        ws="none",
        proxy_headers=False,  # it would trust the loopback interface, where any program may run
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=options.limits.idle_s,  # type: ignore[arg-type] # passed to call_later unchanged
        timeout_graceful_shutdown=max(int(options.grace_s), 1),
    )
    server = _ListeningServer(config, options)
    task = asyncio.create_task(server._serve([bound]))  # noqa: SLF001 - `serve` would take the process's signals for itself
    await server.up.wait()
    try:
        yield
    finally:
        server.end()
        await task


class _ListeningServer(uvicorn.Server):
    """uvicorn server that accepts connections within limits, and stops at once.

    uvicorn's own main loop checks ten times a second whether to stop.
    """

    def __init__(self, config: uvicorn.Config, options: ListenerOptions) -> None:
        super().__init__(config)
        self.up = asyncio.Event()
        self._ending = asyncio.Event()
        self._limits = options.limits
        self._acceptor = Acceptor(self._make_protocol, options.limits, options.proxies, options.tls, options.report)

    def end(self) -> None:
        """Begin to end."""
        self.should_exit = True
        self._ending.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        self.servers = [self._acceptor]  # type: ignore[list-item] # it is closed, and waited for
        for listening in sockets or ():
            self._acceptor.start(listening)
        self.up.set()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):  # sets the `Date` header of responses
            self._acceptor.check_progress()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), TICK_S)

    def _make_protocol(self, around: ConnectionCallbacks) -> HttpProtocol:
        return HttpProtocol(
            self._limits,
            around,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
