"""The running server: what starts, in which order, and how it stops."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from socket import socket
from typing import TYPE_CHECKING

from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from collector.access.authenticator import Authenticator
from collector.api.base.context import Context
from collector.components import (
    body_limits,
    certificate,
    host_names,
    listener_options,
    make_authenticator,
    query_turns,
    store_options,
    with_cors,
    with_otlp,
)
from collector.conditions import ServerConditions
from collector.delivery.configured import file_webhooks
from collector.delivery.deliverer import Deliverer, DeliveryOptions
from collector.delivery.receivers import BadWebhook, Receivers
from collector.delivery.sending import Sender, SystemResolver
from collector.dropped_scopes import ScopeFilter
from collector.experiments.watching import RunWatcher
from collector.exporters.configured import telling, tracing
from collector.exporters.results import ResultsExporter
from collector.ingest import Ingest
from collector.listeners.otlp_grpc import OtlpGrpc
from collector.listeners.otlp_http import OtlpHttp, OtlpReader
from collector.listening import ListenerOptions, address_of, bind, reached_at, serving, serving_grpc
from collector.live.judges.egress import address_policy
from collector.live.judges.judge_services import OwnDoor
from collector.live.pipeline import Pipeline
from collector.live.upkeep.eraser import Eraser
from collector.live.upkeep.lake_publisher import LakePublisher, publishing
from collector.live.upkeep.sweeper import Sweeper
from collector.mcp.http_door import with_mcp
from collector.quack.serving import serving_quack
from collector.reading.spans import ConventionsReader, ReadingCounts
from collector.reading.updater import REST, TraceUpdater
from collector.redaction.columns import Redactor
from collector.redaction.values import ValueRedactor
from collector.secrets import Secrets
from collector.self_tracing import Watch
from collector.server_conditions import ServerState, server_conditions
from collector.server_meters import MeasuredServer, server_meters
from collector.settings import BadSettings, Settings
from collector.startup import DeferredApplication, StartingApplication
from storage.clock import in_seconds
from storage.store import Store
from storage.work import StartStep

if TYPE_CHECKING:
    from fastapi import FastAPI

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Addresses of a running server, as host:port, and its parts."""

    grpc: str
    otlp_http: str
    http: str
    quack: str | None
    store: Store
    traces: TraceUpdater
    pipeline: Pipeline
    context: Context


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Running]:
    """Run the server, from the data directory up to the listeners; these open last, except `/health`, and close first.

    Raises:
        Unusable: the data directory cannot be opened.
        BadSettings: a configured webhook is not valid, or the path prefix is a path of the server itself.
        OSError: an address cannot be bound, or the certificate cannot be read.
    """
    async with AsyncExitStack() as stack:
        listener = listener_options(settings, certificate(settings))
        http_socket = stack.enter_context(bind(settings.http))
        otlp_socket = stack.enter_context(bind(settings.otlp_http))
        starting = StartingApplication(f"{'https' if listener.tls else 'http'}://{address_of(http_socket)}")
        standing_in = await _standing_in(stack, starting, http_socket, listener)
        watch = own_traces.watch if (own_traces := await tracing(stack, settings)) else None
        store, counts = await _opened(stack, settings, watch, starting)
        authenticator = make_authenticator(settings, store, stack)
        traces = await _adding_up(stack, settings, store, counts)
        own_door = OwnDoor(address=reached_at(address_of(otlp_socket)), key=authenticator.keyring.own_key)
        pipeline = await _judging(stack, settings, store, own_door, watch)
        sweeper, eraser = await _sweeping(stack, settings, store)
        receivers = await _delivering(stack, settings, store, pipeline.judging.secrets, watch)
        ingest = _ingesting(stack, settings, store, watch)
        parts = _Parts(
            store=store,
            traces=traces,
            ingest=ingest,
            reader=OtlpReader(ingest, body_limits(settings), authenticator),
            authenticator=authenticator,
            pipeline=pipeline,
            receivers=receivers,
            sweeper=sweeper,
            eraser=eraser,
            exporter=await telling(stack, settings, store, _behind(settings, store)),
            lake=await publishing(stack, settings, store, _behind(settings, store)),
            reading=counts,
            watch=watch,
            listener=listener,
        )
        context = _context(settings, parts, stack)
        api = _api(stack, settings, parts, context)
        await standing_in.aclose()  # new connections wait in the backlog of the socket
        await stack.enter_async_context(serving(api, http_socket, listener.named("http")))
        await _serving_otlp(stack, settings, parts, otlp_socket, listener)
        grpc = await _serving_grpc(stack, settings, parts, listener)
        await _comparing(stack, store, context)
        store.keep_room()
        context.state = "ready"
        yield Running(
            grpc=grpc,
            otlp_http=address_of(otlp_socket),
            http=address_of(http_socket),
            quack=await stack.enter_async_context(serving_quack(settings, context, listener.named("quack"))),
            store=store,
            traces=traces,
            pipeline=pipeline,
            context=context,
        )
        context.state = "stopping"
        await asyncio.to_thread(pipeline.cut_off)  # before the listeners close, which wait for their requests


async def _opened(
    stack: AsyncExitStack, settings: Settings, watch: Watch | None, starting: StartingApplication
) -> tuple[Store, ReadingCounts]:
    """Open the store, which is closed with the stack; return it and the counts of its reader."""
    counts = ReadingCounts()
    options = replace(store_options(settings, watch, counts), http=starting.url, report=starting.note)
    store = await asyncio.to_thread(Store.open, settings.data, options)
    starting.note(StartStep(name="starting the threads"))
    stack.push_async_callback(asyncio.to_thread, store.close, settings.shutdown_seconds / 2)
    return store, counts


async def _adding_up(stack: AsyncExitStack, settings: Settings, store: Store, counts: ReadingCounts) -> TraceUpdater:
    """Start the thread that updates the summaries of traces after commits; it stops with the stack."""
    reads = ConventionsReader(settings.own_keys, counts)
    traces = TraceUpdater(store.trace_meanings, reads, ingest_is_behind=_behind(settings, store), rest=REST)
    traces.start()
    stack.push_async_callback(asyncio.to_thread, traces.close)
    return traces


async def _judging(
    stack: AsyncExitStack, settings: Settings, store: Store, own_door: OwnDoor, watch: Watch | None
) -> Pipeline:
    """Start the pipeline of rules; it stops with the stack."""
    behind = _behind(settings, store)
    opening = partial(Pipeline.open, own_door=own_door, ingest_is_behind=behind, watch=watch)
    pipeline = await asyncio.to_thread(opening, store, settings)
    stack.push_async_callback(asyncio.to_thread, pipeline.close)
    return pipeline


async def _sweeping(stack: AsyncExitStack, settings: Settings, store: Store) -> tuple[Sweeper, Eraser]:
    """Start the threads that delete expired traces and run requested deletions, until the stack is closed."""
    eraser = Eraser(store.deletions, store.erasure)
    eraser.start()
    stack.push_async_callback(asyncio.to_thread, eraser.close)
    sweeper = Sweeper(store.retention, interval_s=settings.sweep_interval_seconds, max_bytes=settings.max_bytes)
    sweeper.start()
    stack.push_async_callback(asyncio.to_thread, sweeper.close)
    return sweeper, eraser


def _ingesting(stack: AsyncExitStack, settings: Settings, store: Store, watch: Watch | None) -> Ingest:
    """Start the ingest; it stops with the stack."""
    plan = settings.redaction.plan
    ingest = Ingest(
        store,
        queue_bytes=settings.queue_bytes,
        redactor=Redactor(plan) if plan else None,
        scopes=ScopeFilter(settings.drop_scopes),
        watch=watch,
    )
    ingest.start()
    stack.push_async_callback(asyncio.to_thread, ingest.close)
    return ingest


def _behind(settings: Settings, store: Store) -> Callable[[], bool]:
    spare = settings.backlog_bytes // 4
    return lambda: store.backlog_bytes > spare


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """Parts of the server."""

    store: Store
    traces: TraceUpdater
    ingest: Ingest
    reader: OtlpReader
    authenticator: Authenticator
    pipeline: Pipeline
    receivers: Receivers
    sweeper: Sweeper
    eraser: Eraser
    exporter: ResultsExporter | None
    lake: LakePublisher | None
    reading: ReadingCounts
    watch: Watch | None
    listener: ListenerOptions


def _context(settings: Settings, parts: _Parts, stack: AsyncExitStack) -> Context:
    return Context(
        settings=settings,
        store=parts.store,
        authenticator=parts.authenticator,
        meters=server_meters(_measured(settings, parts, conditions := _watching(parts, stack))),
        conditions=conditions,
        reader=parts.reader,
        turns=query_turns(settings, stack),
        answers=parts.listener.answers,
        rules=parts.pipeline.rules,
        jobs_changed=parts.pipeline.workers.wake,
        judging=parts.pipeline.judging,
        connection_trials=parts.pipeline.connection_trials,
        playground=parts.pipeline.playground,
        trials=parts.pipeline.trials,
        backfills=parts.pipeline.matcher.backfills,
        receivers=parts.receivers,
        eraser=parts.eraser,
        run_evaluator=parts.pipeline.run_evaluator,
        rule_problems=parts.pipeline.rule_problems,
        redact=ValueRedactor(settings.redaction.plan).redact if settings.redaction.plan else None,
        sweeper=parts.sweeper,
        watch=parts.watch,
        lake=parts.lake,
    )


async def _standing_in(
    stack: AsyncExitStack, starting: StartingApplication, http_socket: socket, listener: ListenerOptions
) -> AsyncExitStack:
    standing_in = await stack.enter_async_context(AsyncExitStack())
    await standing_in.enter_async_context(serving(starting, http_socket.dup(), listener.named("http")))
    return standing_in


async def _serving_otlp(
    stack: AsyncExitStack, settings: Settings, parts: _Parts, otlp_socket: socket, listener: ListenerOptions
) -> None:
    names = host_names(settings, settings.otlp_http)
    otlp = with_cors(OtlpHttp(parts.reader, parts.authenticator, names), settings)
    await stack.enter_async_context(serving(otlp, otlp_socket, listener.named("otlp_http")))


async def _serving_grpc(stack: AsyncExitStack, settings: Settings, parts: _Parts, listener: ListenerOptions) -> str:
    """Serve OTLP over gRPC until the stack is closed; returns the address that it is bound to."""
    listener = listener.named("grpc")
    otlp = OtlpGrpc(
        parts.ingest,
        parts.authenticator,
        listener.proxies,
        listener.limits,
        listener.report,
        max_message_bytes=settings.max_body_bytes,
    )
    return await stack.enter_async_context(serving_grpc(otlp, settings.grpc, listener))


def _api(stack: AsyncExitStack, settings: Settings, parts: _Parts, context: Context) -> ASGIApp:
    """Make the API, the pages, MCP and OTLP over HTTP, until the stack is closed."""
    names = host_names(settings, settings.http)

    def load() -> "FastAPI":
        from collector.api.serving.application import make_application  # noqa: PLC0415 - see DeferredApplication
        from collector.web.site import make_site  # noqa: PLC0415 - as above

        return make_application(context, names, make_site())

    def load_probes() -> "FastAPI":
        from collector.api.serving.probes import make_probes  # noqa: PLC0415 - as above

        return make_probes(context, names)

    if settings.path_prefix:
        _check_prefix(settings.path_prefix, load().routes)
    application = DeferredApplication(load, load_probes)
    otlp = OtlpHttp(parts.reader, parts.authenticator, names)
    return with_otlp(with_mcp(stack, application, names, context), otlp, settings)


def _check_prefix(prefix: str, routes: Sequence[BaseRoute]) -> None:
    first = prefix.split("/")[1]
    if first in {"v1", "mcp", *(getattr(route, "path", "").split("/")[1] for route in routes)}:
        # A proxy may or may not strip the prefix, so a request below it could also be for the server's own path.
        raise BadSettings(f"path_prefix: /{first} is a path of the server itself; put another one before it")


def _measured(settings: Settings, parts: _Parts, conditions: ServerConditions) -> MeasuredServer:
    """Return the measured parts of the server."""
    return MeasuredServer(
        data=settings.data,
        store=parts.store,
        ingest=parts.ingest,
        authenticator=parts.authenticator,
        budgets=parts.pipeline.judging.budgets,
        sweeper=parts.sweeper,
        exporter=parts.exporter,
        lake=parts.lake,
        conditions=conditions,
        failing_judges=parts.pipeline.rule_problems.failing,
        rules_by_state=parts.pipeline.rule_problems.count,
        reading=parts.reading,
        closed=parts.listener.counts,
        answers=parts.listener.answers,
    )


def _watching(parts: _Parts, stack: AsyncExitStack) -> ServerConditions:
    """Start the thread that watches the state of the server; it stops with the stack."""
    conditions = ServerConditions(
        server_conditions(
            ServerState(
                store=parts.store,
                ingest=parts.ingest,
                traffic=parts.authenticator.traffic,
                rules=parts.pipeline.rules.active,
                judge_problem=parts.pipeline.rule_problems.unable,
                failing_judges=parts.pipeline.rule_problems.failing,
                unbound_budgets=parts.pipeline.unbound_budgets,
                traces_set_aside=lambda: parts.traces.set_aside,
                certificate=parts.listener.tls,
                closed=parts.listener.counts,
                lake=parts.lake,
            )
        )
    )
    conditions.start()
    stack.push_async_callback(asyncio.to_thread, conditions.close)
    return conditions


async def _comparing(stack: AsyncExitStack, store: Store, context: Context) -> None:
    watcher = RunWatcher(store.runs, store.run_items, store.run_looks, context.kept_comparisons)
    watcher.start()
    stack.push_async_callback(asyncio.to_thread, watcher.close)


async def _delivering(
    stack: AsyncExitStack, settings: Settings, store: Store, secrets: Secrets, watch: Watch | None
) -> Receivers:
    """Start the thread that delivers alerts, which stops with the stack; return the receivers."""
    policy = address_policy(settings)
    receivers = Receivers(
        store.webhooks,
        store.outbox,
        policy,
        secrets=secrets,
        rotation_s=settings.webhook_rotation_hours * 3600,
    )
    try:
        await asyncio.to_thread(receivers.take_files, file_webhooks(settings.alert_webhooks))
    except BadWebhook as error:
        raise BadSettings(f"alert_webhooks: {error}") from error
    options = DeliveryOptions(watch=watch)
    resolver = SystemResolver(threads=options.at_once)
    stack.callback(resolver.close)
    sender, clock = Sender(policy, resolver), in_seconds(store.delays.now_ns)
    deliverer = Deliverer(store.outbox, receivers, sender, clock=clock, options=options)
    deliverer.start()
    stack.push_async_callback(asyncio.to_thread, deliverer.close)
    return receivers
