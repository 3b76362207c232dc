"""The API over a data directory that no server holds, in this process.

No thread receives, matches, judges, sends or sweeps: the components that do so on a server are created, because routes
refer to them, but never started. A request of `operating` can still sweep, or test a connection.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.types import ASGIApp, Receive, Scope, Send

from collector.access.authenticator import Authenticator, check
from collector.access.caller import Caller, RequestInfo
from collector.access.errors import AccessRefused
from collector.access.journal import AuditJournal
from collector.access.keyring import Keyring
from collector.access.permission import Requirements, Role
from collector.api.base.context import NO_SERVER, Context
from collector.api.serving.application import make_part
from collector.components import body_limits, host_names, query_turns, store_options
from collector.conditions import ServerConditions
from collector.delivery.receivers import Receivers
from collector.ingest import Ingest
from collector.listeners.otlp_http import OtlpReader
from collector.live.jobs.item_traces import ItemTraces
from collector.live.jobs.run_evaluator import RunEvaluator, RunStore
from collector.live.jobs.trials import JudgesAtHand, Trials
from collector.live.judges.connection_trial import ConnectionTrials
from collector.live.judges.egress import address_policy
from collector.live.judges.failing_judges import RuleProblems
from collector.live.judges.judge_services import JudgeServices
from collector.live.judges.playground import Playground
from collector.live.matching.matcher import Matcher
from collector.live.rules.active_rules import ActiveRules
from collector.live.upkeep.eraser import Eraser
from collector.live.upkeep.sweeper import Sweeper
from collector.path_names import subject_of
from collector.reading.spans import ReadingCounts
from collector.secrets import Secrets
from collector.settings import Settings
from storage.engine.database import FILE_NAME
from storage.errors import Unusable
from storage.store import Store

T = TypeVar("T")

_HERE: Final = "http://localhost"


class NoData(Unusable):
    """Refusal of a data directory that is missing or empty."""


def open_to_read(settings: Settings) -> Store:
    """Open the data directory of the settings, which is never created and may be read-only.

    Raises:
        NoData: the directory is missing or empty.
        Unusable: the database cannot be opened, such as while another process holds it.
    """
    if not (settings.data / FILE_NAME).exists():
        raise NoData(f"there is no data in {settings.data}; start a server with `tracejury serve`")
    options = replace(store_options(settings, None, ReadingCounts()), may_only_read=True)
    return Store.open(settings.data, options)


@asynccontextmanager
async def looking(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a read-only client of the API over a directory; the caller closes the client.

    Raises:
        Unusable: the directory cannot be opened.
    """
    store = await asyncio.to_thread(open_to_read, settings)
    try:
        with ExitStack() as stack:
            application = _api(settings, store, Role.VIEWER, stack)
            transport = httpx.ASGITransport(app=application, raise_app_exceptions=False)
            patience_s = settings.sql_seconds + 60
            yield httpx.AsyncClient(transport=transport, base_url=_HERE, trust_env=False, timeout=patience_s)
    finally:
        await asyncio.to_thread(store.close, settings.shutdown_seconds)


@contextmanager
def operating(settings: Settings, store: Store) -> Iterator[httpx.Client]:
    """Yield a synchronous client of the API over an open directory, with the permissions of an administrator."""
    with start_blocking_portal() as portal, ExitStack() as stack:
        application = portal.call(_api, settings, store, Role.ADMIN, stack)
        with httpx.Client(transport=_Portal(portal, application), base_url=_HERE, trust_env=False) as client:
            yield client


class _Portal(httpx.BaseTransport):
    """Transport to an application in the event loop of another thread. Unexpected exceptions are raised here."""

    def __init__(self, portal: BlockingPortal, application: ASGIApp) -> None:
        self._portal, self._transport = portal, httpx.ASGITransport(app=application)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._portal.call(self._respond, request)

    async def _respond(self, request: httpx.Request) -> httpx.Response:
        response = await self._transport.handle_async_request(request)
        return httpx.Response(response.status_code, headers=response.headers, content=await response.aread())


def _api(settings: Settings, store: Store, role: Role, stack: ExitStack) -> ASGIApp:
    """Return the API for callers of one role; each subject is loaded by its first request."""
    context, names = _context(settings, store, role, stack), host_names(settings, "localhost:80")
    parts: dict[str, ASGIApp] = {}

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        subject = subject_of(scope["path"])
        if subject not in parts:
            parts[subject] = make_part(context, names, subject)
        await parts[subject](scope, receive, send)

    return answer


def _context(settings: Settings, store: Store, role: Role, stack: ExitStack) -> Context:
    """Return the components that the API calls; none of them is started."""
    authenticator, judging, rules = _authenticator(store, role), _judging(settings, store, stack), _rules(store)
    return Context(
        settings=settings,
        store=store,
        authenticator=authenticator,
        meters=(),
        conditions=ServerConditions(()),
        reader=OtlpReader(Ingest(store, queue_bytes=settings.queue_bytes), body_limits(settings), authenticator),
        turns=query_turns(settings, stack),
        rules=rules,
        jobs_changed=lambda: None,
        judging=judging,
        connection_trials=_connection_trials(store, judging),
        playground=Playground(judging.connections, judging.judges, settings.own_keys.prices, _asks_nobody),
        trials=Trials(store.windows, settings.own_keys, JudgesAtHand(of=judging.judges, run=_asks_nobody)),
        backfills=_matcher(settings, store).backfills,
        receivers=_receivers(settings, store),
        eraser=Eraser(store.deletions, store.erasure),
        run_evaluator=RunEvaluator(_of_runs(store), judging.judges, _asks_nobody, _traces(settings, store)),
        rule_problems=RuleProblems(judges=judging.judges, rules=rules, failing=lambda _: ()),
        sweeper=Sweeper(
            store.retention,
            interval_s=settings.sweep_interval_seconds,
            max_bytes=None if settings.lake else settings.max_bytes,  # a server lets traces move instead
        ),
        state=NO_SERVER,
    )


class FileOwners(Authenticator):
    """The access of callers that have the files: they need no key, and see the rows of every tenant."""

    def __init__(self, keyring: Keyring, journal: AuditJournal, role: Role) -> None:
        super().__init__(keyring, journal, reads_are_open=True)
        self._owner = Caller(role=role, key_id=None)

    def enter(
        self,
        authorization: str | None,  # noqa: ARG002 - no key is checked
        request_info: RequestInfo,  # noqa: ARG002 - nothing is noted
        need: Requirements,
        without_key: Callable[[], None] | None = None,  # noqa: ARG002 - requests come from this process only
        *,
        signed_in: bytes | None = None,  # noqa: ARG002 - there are no pages
    ) -> Caller:
        """Return the caller.

        Raises:
            AccessRefused: the caller's role does not grant this.
        """
        try:
            check(self._owner, need)
        except AccessRefused as error:
            error.caller = self._owner
            raise
        return self._owner


def _judging(settings: Settings, store: Store, stack: ExitStack) -> JudgeServices:
    judging = JudgeServices.look(store, settings)
    stack.callback(judging.close)
    return judging


def _authenticator(store: Store, role: Role) -> Authenticator:
    keyring = Keyring(store.access, None)
    return FileOwners(keyring, AuditJournal(store.access, keyring, kept=0), role)


def _rules(store: Store) -> ActiveRules:
    rules = ActiveRules(store.rulebook)
    rules.refresh()
    return rules


def _matcher(settings: Settings, store: Store) -> Matcher:
    return Matcher(store.matching, tuple, settings.settling, enqueued=lambda: None)


def _traces(settings: Settings, store: Store) -> ItemTraces:
    return ItemTraces(
        queries=store.queries,
        judgements=store.judgements,
        own_keys=settings.own_keys,
        settling=settings.settling,
    )


def _receivers(settings: Settings, store: Store) -> Receivers:
    rotation_s = settings.webhook_rotation_hours * 3600
    policy = address_policy(settings)
    return Receivers(store.webhooks, store.outbox, policy, secrets=Secrets(None), rotation_s=rotation_s)


def _of_runs(store: Store) -> RunStore:
    return RunStore(runs=store.runs, items=store.run_items, evaluations=store.run_evaluations)


def _connection_trials(store: Store, judging: JudgeServices) -> ConnectionTrials:
    ask_now = partial(_ask_now, store)
    return ConnectionTrials(judging.connections, judging.budgets, judging.judges.health, ask_now)


def _ask_now(store: Store, work: Coroutine[Any, Any, T]) -> Future[T]:
    with closing(work):
        store.require_writable()  # the usage of a request is stored before it is sent
        future: Future[T] = Future()
        future.set_result(asyncio.run(work))
    return future


def _asks_nobody(work: Coroutine[Any, Any, Any]) -> Future[Any]:
    work.close()
    raise RuntimeError("no server runs here, so no model can be called")
