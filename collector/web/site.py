"""Assembly of the web interface: the menu, the routers of its modules, and the hooks for the API application."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.types import Scope

from collector.api.serving.gate import Site
from collector.web import assets, costs, home, places
from collector.web.alerts import alerts, muting, webhooks
from collector.web.navigation import MenuEntry
from collector.web.offline import (
    dataset_version,
    datasets,
    experiments,
    promoting,
    review,
    review_queue_form,
    run,
    run_diff,
)
from collector.web.operations import audit, connections, jobs, keys, projects, signing_in, status
from collector.web.playground import playground
from collector.web.quality import quality, quality_results
from collector.web.rendering import page, see_other
from collector.web.rules import rule_backfills, rule_editing, rules
from collector.web.sign_in_sessions import Sessions
from collector.web.traces import (
    annotating,
    chosen,
    comparing,
    judging,
    list_overview,
    media,
    saved_views,
    sessions,
    trace,
    trace_preview,
    traces,
)
from collector.web.visitor import cookie_of, path_of

MENU: Final = (
    MenuEntry(label="Home", path="/", key="h", icon="house", endpoint=home.show_home),
    MenuEntry(label="Traces", path="/traces", key="t", icon="list-tree", endpoint=traces.list_traces),
    MenuEntry(label="Sessions", path="/sessions", key="s", icon="messages-square", endpoint=sessions.list_sessions),
    MenuEntry(label="Quality", path="/quality", key="q", icon="chart-line", endpoint=quality.show_quality),
    MenuEntry(
        label="Alerts", path="/alerts", key="a", icon="bell", endpoint=alerts.list_alerts, beside=("/metric-monitors",)
    ),
    MenuEntry(label="Rules", path="/rules", key="r", icon="scale", endpoint=rules.list_rules, group="Evaluate"),
    MenuEntry(
        label="Review", path="/review", key="v", icon="clipboard-check", endpoint=review.list_queues, group="Evaluate"
    ),
    MenuEntry(
        label="Datasets", path="/datasets", key="d", icon="database", endpoint=datasets.list_datasets, group="Evaluate"
    ),
    MenuEntry(
        label="Experiments",
        path="/experiments",
        key="e",
        icon="flask-conical",
        endpoint=experiments.list_experiments,
        group="Evaluate",
        beside=("/runs",),
    ),
    MenuEntry(
        label="Playground",
        path="/playground",
        key="p",
        icon="square-terminal",
        endpoint=playground.show_playground,
        group="Evaluate",
    ),
    MenuEntry(
        label="Connections",
        path="/connections",
        icon="plug",
        endpoint=connections.list_connections,
        group="Settings",
    ),
    MenuEntry(label="Webhooks", path="/webhooks", icon="webhook", endpoint=webhooks.list_webhooks, group="Settings"),
    MenuEntry(label="Keys", path="/keys", icon="key-round", endpoint=keys.list_keys, group="Settings"),
    MenuEntry(label="Projects", path="/projects", icon="folders", endpoint=projects.list_projects, group="Operations"),
    MenuEntry(label="Jobs", path="/jobs", icon="list-checks", endpoint=jobs.list_jobs, group="Operations"),
    MenuEntry(label="Audit", path="/audit", icon="scroll-text", endpoint=audit.list_entries, group="Operations"),
    MenuEntry(label="Status", path="/status", icon="heart-pulse", endpoint=status.show_status, group="Operations"),
)
"""Entries in the order of the menu: daily work, then setup, then operations."""

_MODULES: Final = (
    assets,
    signing_in,
    home,
    costs,
    places,
    traces,
    list_overview,  # before the route that would take `overview` for a trace
    saved_views,
    chosen,  # before the route that would take `chosen` for a trace
    trace,
    trace_preview,
    sessions,
    annotating,
    comparing,
    judging,
    media,
    quality,
    quality_results,
    alerts,
    muting,
    rule_editing,
    rules,
    rule_backfills,
    playground,
    datasets,
    dataset_version,
    promoting,
    experiments,
    run,
    run_diff,
    review_queue_form,  # before the route that would take `new` for a queue
    review,
    connections,
    webhooks,
    keys,
    audit,
    projects,
    jobs,
    status,
)

_WORDS: Final = {
    400: "Bad request",
    401: "Please sign in",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    413: "Too large",
    429: "Too many requests",
    500: "Internal error",
    503: "Temporarily unavailable",
}


def make_site() -> Site:
    """Assemble the pages with an empty session store."""
    signed_in = Sessions()

    def key_of(scope: Scope) -> bytes | None:
        sent = cookie_of(scope)
        return None if sent is None else signed_in.key_of(sent)

    def attach(application: FastAPI) -> None:
        application.state.sessions = signed_in
        application.state.menu = MENU

    return Site(
        routers=tuple(module.router for module in _MODULES),
        key_of=key_of,
        problem_page=problem_page,
        attach=attach,
    )


def problem_page(request: Request, status: int, message: str, headers: Mapping[str, str]) -> Response:
    """Render an error as a page; on 401, redirect a GET for HTML without credentials to the sign-in page."""
    asks_for_page = request.method == "GET" and "text/html" in request.headers.get("accept", "")
    if status == HTTPStatus.UNAUTHORIZED and asks_for_page and "authorization" not in request.headers:
        address = path_of(request) + (f"?{request.url.query}" if request.url.query else "")
        return see_other(f"/sign-in?{urlencode({'next': address})}")
    title = _WORDS.get(status, HTTPStatus(status).phrase)
    answer = page(request, "problem.html", status=status, title=title, message=message, number=status)
    answer.headers.update(headers)
    return answer
