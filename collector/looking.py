"""A data directory that no server holds, behind the routes of the API: whoever asks may look, and nothing goes on.

Nothing is received, matched, judged, told or swept: what does so on a server is made here, as the routes name it, and
never started.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx

from collector.access.authenticator import Authenticator, check
from collector.access.caller import Caller, RequestInfo
from collector.access.errors import AccessRefused
from collector.access.journal import AuditJournal
from collector.access.keyring import Keyring
from collector.access.permission import Need, Role
from collector.api.base.context import Context, ProjectSettings, Reviews, SqlLimits
from collector.api.base.turns import QueryTurns
from collector.api.serving.application import make_application
from collector.conditions import ServerConditions
from collector.delivery.receivers import Receivers
from collector.doors.otlp_http import OtlpReader
from collector.ingest import Ingest
from collector.live.jobs.item_traces import ItemTraces
from collector.live.jobs.run_evaluator import RunEvaluator, RunStore
from collector.live.jobs.trials import JudgesAtHand, Trials
from collector.live.judges.connection_trial import ConnectionTrials
from collector.live.judges.egress import address_policy
from collector.live.judges.failing_judges import RuleProblems
from collector.live.judges.judging_hub import JudgeServices
from collector.live.judges.playground import Playground
from collector.live.matching.matcher import Matcher
from collector.live.rules.rules_in_force import RulesInForce
from collector.live.upkeep.eraser import Eraser
from collector.live.upkeep.sweeper import Sweeper
from collector.parts import body_limits, host_names, open_backup, store_options
from collector.reading.spans import ReadingCounts
from collector.secrets import Secrets
from collector.settings import Settings
from collector.web.site import make_site
from rules.settling import Settling
from storage.engine.database import FILE_NAME
from storage.errors import Unusable
from storage.store import Store

_HERE: Final = "http://localhost"
_ONLOOKER: Final = Caller(role=Role.VIEWER, key_id=None)


@asynccontextmanager
async def looking(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the API over the data directory of the settings, which is never created; whoever asks it closes it.

    Raises:
        Unusable: there is none, or a server holds it.
    """
    _check(settings.data)
    async with AsyncExitStack() as stack:
        options = replace(store_options(settings, None, ReadingCounts()), may_only_read=True)
        store = await asyncio.to_thread(Store.open, settings.data, options)
        stack.push_async_callback(asyncio.to_thread, store.close, settings.shutdown_seconds)
        context = _context(settings, store, stack)
        application = make_application(context, host_names(settings, "localhost:80"), make_site())
        transport = httpx.ASGITransport(app=application, raise_app_exceptions=False)
        patience_s = settings.sql_seconds + 60
        yield httpx.AsyncClient(transport=transport, base_url=_HERE, trust_env=False, timeout=patience_s)


def _check(data: Path) -> None:
    if not (data / FILE_NAME).exists():
        raise Unusable(f"there is no data in {data}; start a server with `tracejury serve`")


def _context(settings: Settings, store: Store, stack: AsyncExitStack) -> Context:
    """What the API speaks to; nothing of it was started."""
    authenticator, judging, rules = _authenticator(store), _judging(settings, store, stack), _rules(store)
    return Context(
        queries=store.queries,
        access=store.access,
        authenticator=authenticator,
        meters=(),
        conditions=ServerConditions(()),
        reader=OtlpReader(Ingest(store, queue_bytes=settings.queue_bytes), body_limits(settings), authenticator),
        sql_limits=SqlLimits(rows=settings.sql_rows, seconds=settings.sql_seconds),
        turns=_turns(settings, stack),
        overloaded=lambda: store.overload is not None,
        set_aside=lambda: store.totals.set_aside,
        own_keys=settings.own_keys,
        rules=rules,
        jobs=store.jobs,
        jobs_changed=lambda: None,
        judging=judging,
        connection_trials=ConnectionTrials(judging.connections, judging.budgets, judging.judges.health, _asks_nobody),
        playground=Playground(judging.connections, judging.judges, settings.own_keys.prices, _asks_nobody),
        rulebook=store.rulebook,
        rule_record=store.rule_record,
        trials=Trials(store.windows, settings.own_keys, JudgesAtHand(of=judging.judges, run=_asks_nobody)),
        backfills=_matcher(settings, store).backfills,
        judgements=store.judgements,
        status=store.status,
        backlog_bytes=lambda: store.backlog_bytes,
        alerts=store.alerts,
        alert_mutes=store.alert_mutes,
        annotations=store.annotations,
        labels=store.labels,
        reviews=_reviews(settings, store),
        outbox=store.outbox,
        receivers=_receivers(settings, store),
        monitors=store.monitors,
        metric_monitors=store.metric_monitors,
        quality=store.quality,
        retention=store.retention,
        eraser=Eraser(store.deletions, store.erasure),
        search=store.search,
        sessions=store.sessions,
        session_idle_ns=int(settings.session_idle_seconds * 1e9),
        listing=store.listing,
        saved_views=store.saved_views,
        overview=store.overview,
        outlines=store.outlines,
        exports=store.exports,
        datasets=store.datasets,
        runs=store.runs,
        run_items=store.run_items,
        run_evaluations=store.run_evaluations,
        run_evaluator=RunEvaluator(_of_runs(store), judging.judges, _asks_nobody, _traces(settings, store)),
        rule_problems=RuleProblems(judges=judging.judges, rules=rules, failing=lambda _: ()),
        data=settings.data,
        backup=partial(open_backup, store, settings.data),
        sweeper=Sweeper(store.retention, interval_s=settings.sweep_interval_seconds, max_bytes=settings.max_bytes),
        configured=_configured(settings),
        state="ready",
    )


class Onlookers(Authenticator):
    """Who looks at a directory: whoever has the files reads, sees the rows of every tenant, and needs no key."""

    def enter(
        self,
        authorization: str | None,  # noqa: ARG002 - no key is looked at
        request_info: RequestInfo,  # noqa: ARG002 - nothing is noted
        need: Need,
        without_key: Callable[[], None] | None = None,  # noqa: ARG002 - nobody else can ask
        *,
        signed_in: bytes | None = None,  # noqa: ARG002 - there are no pages
    ) -> Caller:
        """A reader.

        Raises:
            Refused: it changes something.
        """
        try:
            check(_ONLOOKER, need)
        except AccessRefused as error:
            error.caller = _ONLOOKER
            raise
        return _ONLOOKER


def _judging(settings: Settings, store: Store, stack: AsyncExitStack) -> JudgeServices:
    judging = JudgeServices.look(store, settings)
    stack.callback(judging.close)
    return judging


def _authenticator(store: Store) -> Authenticator:
    keyring = Keyring(store.access, None)
    return Onlookers(keyring, AuditJournal(store.access, keyring, kept=0), reads_are_open=True)


def _rules(store: Store) -> RulesInForce:
    rules = RulesInForce(store.rulebook)
    rules.refresh()
    return rules


def _matcher(settings: Settings, store: Store) -> Matcher:
    return Matcher(store.matching, tuple, _settling(settings), enqueued=lambda: None)


def _traces(settings: Settings, store: Store) -> ItemTraces:
    return ItemTraces(
        queries=store.queries,
        judgements=store.judgements,
        own_keys=settings.own_keys,
        settling=_settling(settings),
    )


def _settling(settings: Settings) -> Settling:
    return Settling(
        after_root_s=settings.settle_after_root_seconds,
        quiet_s=settings.settle_quiet_seconds,
        missing_s=settings.settle_missing_seconds,
        longest_s=settings.settle_longest_seconds,
    )


def _turns(settings: Settings, stack: AsyncExitStack) -> QueryTurns:
    turns = QueryTurns(at_once=settings.sql_at_once, wait_s=settings.sql_seconds)
    stack.callback(turns.close)
    return turns


def _reviews(settings: Settings, store: Store) -> Reviews:
    return Reviews(
        queues=store.review_queues,
        turns=store.review_turns,
        feeding=store.review_feeding,
        lease_s=settings.review_lease_seconds,
    )


def _receivers(settings: Settings, store: Store) -> Receivers:
    rotation_s = settings.webhook_rotation_hours * 3600
    policy = address_policy(settings)
    return Receivers(store.webhooks, store.outbox, policy, secrets=Secrets(None), rotation_s=rotation_s)


def _of_runs(store: Store) -> RunStore:
    return RunStore(runs=store.runs, items=store.run_items, evaluations=store.run_evaluations)


def _configured(settings: Settings) -> ProjectSettings:
    return ProjectSettings(
        retention_days=settings.retention_days,
        project_retention_days=settings.project_retention_days,
        max_bytes=settings.max_bytes,
        project_budgets={},
    )


def _asks_nobody(work: Coroutine[Any, Any, Any]) -> Future[Any]:
    work.close()
    raise RuntimeError("no server runs here, and no model is asked")
