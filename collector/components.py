"""Parts of the server that follow from the settings: authentication, and the limits of the store and of listeners."""

import asyncio
import logging
from contextlib import AsyncExitStack, ExitStack

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from collector.access.authenticator import Authenticator
from collector.access.journal import AuditJournal
from collector.access.keyring import Keyring
from collector.access.origin import Names, host_of, is_loopback
from collector.access.pace import Rates
from collector.access.proxies import TrustedProxies
from collector.api.base.fair_scheduler import QueryScheduler
from collector.listeners.body import BodyLimits
from collector.listeners.certificate import Certificate
from collector.listeners.connection_limits import ConnectionLimits
from collector.listeners.otlp_http import OtlpHttp
from collector.listeners.response_buffer import ResponseBufferLimit
from collector.listening import ListenerOptions
from collector.machine import memory_bytes, open_files, share_of_memory, share_of_threads
from collector.reading.spans import ConventionsReader, ReadingCounts
from collector.self_tracing import Watch, commit_watcher
from collector.setting_values import bytes_of_size
from collector.settings import Settings
from collector.settings_loading import environment_variable
from storage.aging import AgingOptions
from storage.engine.database import DatabaseOptions
from storage.engine.workarounds import Workarounds
from storage.errors import Unusable
from storage.ingest.writer import WriterOptions
from storage.store import Store, StoreOptions

log = logging.getLogger(__name__)


def make_authenticator(settings: Settings, store: Store, stack: AsyncExitStack) -> Authenticator:
    """Make the authenticator and start its audit, which is stopped with the `stack`.

    Raises:
        Unusable: there is no key, and other machines could connect.
    """
    keyring = Keyring(store.access, operator_key(settings))
    wide = [each for each in (settings.grpc, settings.otlp_http, settings.http) if not is_loopback(host_of(each))]
    if keyring.is_open and wide and not settings.insecure_open:
        raise Unusable(
            f"{wide[0]} can be reached from other machines, and there is no API key: set TRACEJURY_API_KEY, "
            "or insecure_open to give every client full access"
        )
    if not keyring.is_open and not keyring.has_lasting_credential:
        log.warning("no ADMIN key without expiry exists; TRACEJURY_API_KEY sets one")
    rates = Rates(requests=settings.key_requests_per_second, nbytes=settings.key_bytes_per_second)
    journal = AuditJournal(store.access, keyring, kept=settings.audit_entries)
    journal.start()
    stack.push_async_callback(asyncio.to_thread, journal.close)
    return Authenticator(keyring, journal, reads_are_open=settings.reads == "open", rates=rates)


def operator_key(settings: Settings) -> str | None:
    """Return the operator's key of the settings."""
    return None if settings.api_key is None else settings.api_key.get_secret_value()


def certificate(settings: Settings) -> Certificate | None:
    """Load the certificate of the settings.

    Raises:
        OSError: the certificate or its key cannot be read, or is not valid.
    """
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    return Certificate(settings.tls_cert, settings.tls_key)


def listener_options(settings: Settings, tls: Certificate | None) -> ListenerOptions:
    """Return the options of a listener; its limits of connections are reduced to the process's limit of open files."""
    limits = ConnectionLimits(
        total=settings.max_connections,
        per_address=settings.max_connections_per_address,
        first_byte_s=settings.first_byte_seconds,
        header_s=settings.header_seconds,
        header_bytes=settings.max_header_bytes,
        idle_s=settings.idle_seconds,
    )
    return ListenerOptions(
        grace_s=settings.shutdown_seconds / 6,  # for each of three listeners; the other half is for the last commits
        tls=tls,
        proxies=TrustedProxies(settings.trusted_proxies),
        limits=limits.within(open_files()),
        answers=ResponseBufferLimit(settings.answer_bytes),
        path_prefix=settings.path_prefix,
    )


def host_names(settings: Settings, bound: str) -> Names:
    """Return the names by which clients may call one address."""
    return Names(bound=bound, allowed=settings.allowed_hosts, origins=settings.cors_origins)


def store_options(settings: Settings, watch: Watch | None, counts: ReadingCounts) -> StoreOptions:
    """Return the store's limits on this machine, and its callback for commits."""
    memory = settings.duckdb_memory or f"{share_of_memory() >> 20}MiB"
    return StoreOptions(
        backlog_bytes=settings.backlog_bytes,
        database=DatabaseOptions(
            memory_limit=memory,
            query_bytes=settings.sql_memory_bytes or bytes_of_size(memory) // 2,
            queries_at_once=settings.sql_at_once,
            machine_bytes=memory_bytes(),
            threads=settings.duckdb_threads or share_of_threads(),
            workarounds=Workarounds(**settings.workarounds.model_dump(exclude={"watch_quack_clients"})),
        ),
        writer=WriterOptions(
            commit_interval_s=settings.commit_interval_ms / 1000,
            gathered_bytes=settings.backlog_bytes // 3,
            retention_days=settings.retention_days,
            project_retention_days=settings.project_retention_days,
            reads=ConventionsReader(settings.own_keys, counts),
            watch=commit_watcher(watch) if watch else None,
        ),
        aging=aging_options(settings),
        lake=settings.lake,
        lake_endpoint=environment_variable("AWS_ENDPOINT_URL"),
    )


def aging_options(settings: Settings) -> AgingOptions:
    """Return the options of the deletion of expired data."""
    return AgingOptions(interval_s=settings.sweep_interval_seconds, most_share=settings.sweep_share)


def body_limits(settings: Settings) -> BodyLimits:
    """Return the limits of request bodies."""
    return BodyLimits(received=settings.max_body_bytes, decompressed=settings.max_decompressed_bytes)


def with_otlp(application: ASGIApp, otlp: OtlpHttp, settings: Settings) -> ASGIApp:
    """Add OTLP over HTTP to the application: exporters are often configured with the address of the pages."""
    shared = with_cors(otlp, settings)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        is_otlp = scope["type"] == "http" and otlp.takes(scope["path"])
        await (shared if is_otlp else application)(scope, receive, send)

    return answer


def with_cors(application: OtlpHttp, settings: Settings) -> ASGIApp:
    """Allow requests of pages from the configured origins."""
    if not settings.cors_origins:
        return application
    return CORSMiddleware(
        application,
        allow_origins=list(settings.cors_origins),
        allow_methods=["POST"],
        allow_headers=["*"],
    )


def query_turns(settings: Settings, stack: ExitStack | AsyncExitStack) -> QueryScheduler:
    """Make the scheduler of SQL queries, which is closed with the stack."""
    turns = QueryScheduler(at_once=settings.sql_at_once, wait_s=settings.sql_seconds)
    stack.callback(turns.close)
    return turns
