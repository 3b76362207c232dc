"""The running server: what starts, in which order, and how it stops."""

import asyncio
import json
import logging
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import uvicorn
from starlette.middleware.cors import CORSMiddleware

from collector.api.application import make_application
from collector.api.context import Context, SqlLimits
from collector.conventions.own import OwnKeys
from collector.doors.body import BodyLimits
from collector.doors.otlp_grpc import OtlpGrpc
from collector.doors.otlp_http import OtlpHttp, OtlpReader
from collector.ingest import Ingest
from collector.memory import keep_freed_memory
from collector.reading.process import ReadingProcess
from collector.reading.reader import Reader, edition_of
from collector.settings import Settings
from storage.database import DatabaseOptions
from storage.errors import Unusable
from storage.store import Store, StoreOptions
from storage.writer import WriterOptions

log = logging.getLogger(__name__)

_KEEP_ALIVE_S = 75
"""Longer than the minute after which common load balancers drop idle connections, so that they close first."""

_FAILED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Where a running server listens, as host:port."""

    grpc: str
    otlp_http: str
    http: str
    store: Store
    reader: Reader


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Running]:
    """The server, from the data directory up to the doors; they open last and close first.

    Raises:
        Unusable: the data directory cannot be opened.
        OSError: an address cannot be bound.
    """
    async with AsyncExitStack() as stack:
        http_socket = stack.enter_context(_bind(settings.http))
        otlp_socket = stack.enter_context(_bind(settings.otlp_http))
        store = await asyncio.to_thread(Store.open, settings.data, _store_options(settings))
        stack.push_async_callback(asyncio.to_thread, store.close, settings.shutdown_seconds / 2)
        own_keys = OwnKeys(settings.attribute_keys)
        spare = settings.backlog_bytes // 4
        span_reader = Reader(
            store.readings,
            ReadingProcess(own_keys),
            edition=edition_of(own_keys),
            ingest_is_behind=lambda: store.backlog_bytes > spare,
        )
        span_reader.start()
        stack.push_async_callback(asyncio.to_thread, span_reader.close)
        grace_s = settings.shutdown_seconds / 6  # for each of the three doors
        ingest = Ingest(store, queue_bytes=settings.queue_bytes)
        ingest.start()
        stack.push_async_callback(asyncio.to_thread, ingest.close)
        limits = BodyLimits(received=settings.max_body_bytes, decompressed=settings.max_decompressed_bytes)
        reader = OtlpReader(ingest, limits)
        context = Context(
            queries=store.queries,
            reader=reader,
            sql_limits=SqlLimits(rows=settings.sql_rows, seconds=settings.sql_seconds),
            overloaded=lambda: store.overload is not None,
            set_aside=lambda: store.totals.set_aside,
            own_keys=own_keys,
        )
        api = make_application(context, cors_origins=settings.cors_origins)
        await stack.enter_async_context(_serving(api, http_socket, grace_s))
        otlp = _with_cors(OtlpHttp(reader), settings)
        await stack.enter_async_context(_serving(otlp, otlp_socket, grace_s))
        grpc_door = OtlpGrpc(ingest, max_message_bytes=settings.max_body_bytes)
        _bind(settings.grpc).close()  # for an error that says which address; gRPC's own says little
        grpc_port = await grpc_door.start(settings.grpc)
        stack.push_async_callback(grpc_door.stop, grace_s)
        context.state = "ready"
        http = _address_of(http_socket)
        store.announce(f"http://{http}")
        grpc_host = settings.grpc.rpartition(":")[0]
        yield Running(
            grpc=f"{grpc_host}:{grpc_port}",
            otlp_http=_address_of(otlp_socket),
            http=http,
            store=store,
            reader=span_reader,
        )
        context.state = "stopping"


def serve(settings: Settings, *, with_sample: bool) -> int:
    """Run until SIGTERM or SIGINT; the exit code. `with_sample` sends the sample to an empty data directory first."""
    logging.basicConfig(
        stream=sys.stderr, level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    keep_freed_memory()
    logging.getLogger("uvicorn").setLevel(logging.WARNING)  # it tells of each of our two HTTP servers what we tell once
    try:
        asyncio.run(_serve(settings, with_sample=with_sample))
    except (Unusable, OSError) as error:
        print(f"tracejury: {error}", file=sys.stderr)  # noqa: T201 - the last word to a person
        return _FAILED
    return 0


async def _serve(settings: Settings, *, with_sample: bool) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with running(settings) as server:
        ready = {
            "event": "ready",
            "grpc": server.grpc,
            "otlp_http": server.otlp_http,
            "http": server.http,
            "data": str(settings.data),
        }
        print(json.dumps(ready), flush=True)  # noqa: T201 - the ready line is the interface
        if with_sample and not server.store.totals.stored:
            await _send_sample(server)
        await stop.wait()
        log.info("stopping")


async def _send_sample(server: Running) -> None:
    from collector import sample  # noqa: PLC0415 - the exporters in it make a fifth of the time that a start takes

    try:
        report = await asyncio.to_thread(sample.send_sample, grpc=server.grpc, otlp_http=server.otlp_http)
    except Exception:  # noqa: BLE001 - a failed sample must not stop the server it was sent to
        log.exception("the sample could not be sent")
        return
    await asyncio.to_thread(server.store.wait_committed, 10)
    await asyncio.to_thread(server.reader.wait_read, 10)
    options = f"--server http://{server.http}"
    command = "tracejury" if shutil.which("tracejury") else sys.argv[0]
    print(sample.describe(report, http=server.http, options=options, command=command), file=sys.stderr)  # noqa: T201 - for the person who ran it


def _store_options(settings: Settings) -> StoreOptions:
    return StoreOptions(
        backlog_bytes=settings.backlog_bytes,
        database=DatabaseOptions(memory_limit=settings.duckdb_memory, threads=settings.duckdb_threads),
        writer=WriterOptions(
            commit_interval_s=settings.commit_interval_ms / 1000, retention_days=settings.retention_days
        ),
    )


def _with_cors(application: OtlpHttp, settings: Settings) -> object:
    if not settings.cors_origins:
        return application
    return CORSMiddleware(
        application,
        allow_origins=list(settings.cors_origins),
        allow_methods=["POST"],
        allow_headers=["*"],
    )


def _bind(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio switches Nagle's delay off only for sockets that say they are TCP: 40 ms an answer otherwise.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, int(port)))
    except OSError as error:
        bound.close()
        raise _cannot_listen(address, error) from error
    return bound


def _cannot_listen(address: str, error: OSError) -> OSError:
    return OSError(f"cannot listen on {address}: {error.strerror}")


def _address_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@asynccontextmanager
async def _serving(application: object, bound: socket.socket, grace_s: float) -> AsyncIterator[None]:
    """An ASGI application on a bound socket, until the block ends."""
    try:
        bound.listen()
    except OSError as error:  # two may bind an address as long as neither listens
        raise _cannot_listen(_address_of(bound), error) from error
    config = uvicorn.Config(
        application,  # type: ignore[arg-type] # an ASGI application by shape
        http="httptools",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(int(grace_s), 1),
    )
    server = _Server(config)
    task = asyncio.create_task(server._serve([bound]))  # noqa: SLF001 - `serve` would take the process's signals for itself
    await server.up.wait()
    try:
        yield
    finally:
        server.should_exit = True
        await task


class _Server(uvicorn.Server):
    """Says when it is up."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()
