"""The API as one ASGI application, or a part of it."""

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from fastapi import FastAPI
from starlette.routing import BaseRoute

from collector.access.origin import Names
from collector.api.base.context import Context
from collector.api.serving.completing import complete
from collector.api.serving.gate import Site

MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "alerting.agents": ("agents",),
    "alerting.alert_mutes": ("alert-mutes",),
    "alerting.alerts": ("alerts",),
    "review.annotations": ("annotations", "runs", "scores", "traces"),
    "access.audit": ("audit",),
    "rules.backfills": ("projects",),
    "operations.backup": ("backup",),
    "review.agreement": ("agreement",),
    "review.better_judges": ("projects",),
    "review.calibration": ("projects",),
    "base.caller": ("caller",),
    "rules.connections": ("llm-connections",),
    "serving.contract": ("docs", "llms.txt", "openapi.json"),
    "review.dataset_promotion": ("datasets",),
    "offline.datasets": ("datasets",),
    "offline.dataset_files": ("datasets",),
    "traces.deletions": ("deletions", "traces"),
    "traces.export": ("export",),
    "operations.health": ("health", "ready"),
    "operations.lake": ("lake", "projects"),
    "traces.jaeger": ("jaeger",),
    "traces.jaeger_v3": ("jaeger",),
    "rules.jobs": ("jobs",),
    "rules.judge_now": ("projects",),
    "access.keys": ("api-keys",),
    "alerting.metric_monitors": ("metric-monitors",),
    "operations.metrics": ("metrics",),
    "alerting.monitors": ("monitors",),
    "rules.playground": ("playground",),
    "alerting.quality": ("quality",),
    "traces.retention": ("sweep", "traces"),
    "review.review_queues": ("review-queues",),
    "review.reviewing": ("review-queues",),
    "rules.rules": ("projects", "trace-eval-rules"),
    "offline.run_evaluations": ("runs",),
    "offline.run_export": ("runs",),
    "gating.run_diff": ("experiments",),
    "gating.run_gate": ("experiments",),
    "offline.runs": ("experiments", "projects", "runs"),
    "traces.saved_views": ("saved-views",),
    "review.session_annotations": ("session-annotation",),
    "traces.sessions": ("sessions",),
    "traces.sql": ("sql",),
    "operations.status": ("status",),
    "traces.traces": ("traces",),
    "review.undecided_items": ("review-queue",),
    "alerting.webhooks": ("alert-webhooks", "projects"),
}
"""The modules of routes, in the order in which routes are tried, with the subjects of their paths."""


def routes(subject: str | None = None) -> list[BaseRoute]:
    """Return the routes of the API. With a subject, import only the modules that have routes of that subject."""
    names = [name for name, subjects in MODULES.items() if subject is None or subject in subjects]
    return [route for name in names for route in import_module(f"collector.api.{name}").router.routes]


def make_application(context: Context, names: Names, site: Site) -> FastAPI:
    """Return the application over the components of a running server; `names` has its origins, `site` its pages."""
    from collector.api.serving import contract  # noqa: PLC0415 - commands on a directory need no OpenAPI document

    application = _application([*routes(), *site.routes])
    site.attach(application)
    contract.describe(application, routes())
    complete(application, context, names, routes(), site)
    return application


def make_part(context: Context, names: Names, subject: str) -> FastAPI:
    """Return an application of the routes of one subject."""
    application = _application(routes(subject))
    complete(application, context, names, routes(subject), None)
    return application


def _application(routes: list[BaseRoute]) -> FastAPI:
    return FastAPI(title="Tracejury", routes=routes, openapi_url=None, docs_url=None, redoc_url=None)
