"""The API as one ASGI application."""

from fastapi import FastAPI
from starlette.routing import BaseRoute

from collector.access.origin import Names
from collector.api.access import audit, keys
from collector.api.alerting import alert_mutes, alerts, metric_monitors, monitors, quality, webhooks
from collector.api.base import caller
from collector.api.base.context import Context
from collector.api.gating import run_diff, run_gate
from collector.api.offline import dataset_files, datasets, run_evaluations, run_export, runs
from collector.api.operations import backup, health, metrics, status
from collector.api.review import (
    agreement,
    annotations,
    better_judges,
    calibration,
    dataset_promotion,
    review_queues,
    reviewing,
    session_annotations,
    undecided_items,
)
from collector.api.rules import backfills, connections, jobs, judge_now, playground, rules
from collector.api.serving import contract
from collector.api.serving.completing import complete
from collector.api.serving.gate import Site
from collector.api.traces import deletions, export, jaeger, jaeger_v3, retention, saved_views, sessions, sql, traces

_MODULES = (
    alert_mutes,
    alerts,
    annotations,
    audit,
    backfills,
    backup,
    agreement,
    better_judges,
    calibration,
    caller,
    connections,
    contract,
    dataset_promotion,
    datasets,
    dataset_files,
    deletions,
    export,
    health,
    jaeger,
    jaeger_v3,
    jobs,
    judge_now,
    keys,
    metric_monitors,
    metrics,
    monitors,
    playground,
    quality,
    retention,
    review_queues,
    reviewing,
    rules,
    run_evaluations,
    run_export,
    run_diff,
    run_gate,
    runs,
    saved_views,
    session_annotations,
    sessions,
    sql,
    status,
    traces,
    undecided_items,
    webhooks,
)


def routes() -> list[BaseRoute]:
    """Every route of the API."""
    return [route for module in _MODULES for route in module.router.routes]


def make_application(context: Context, names: Names, site: Site) -> FastAPI:
    """Return the application over a running server's parts; `names` is what it is called, `site` its pages."""
    application = FastAPI(
        title="Tracejury", routes=[*routes(), *site.routes], openapi_url=None, docs_url=None, redoc_url=None
    )
    site.attach(application)
    contract.describe(application, routes())
    complete(application, context, names, routes(), site)
    return application
