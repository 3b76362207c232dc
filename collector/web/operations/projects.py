"""Pages of projects: their stored data, retention and budgets; kept traces; sweeping; a backup of the database."""

import heapq
from collections import Counter
from dataclasses import dataclass
from typing import Final

from fastapi import Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from collector.access.permission import Permission, needs
from collector.api.base.context import Context
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.base.streamed import streamed
from collector.api.operations.backup import chunks, open_backup
from collector.live.judges.judges import ANY_PROJECT
from collector.web.navigation import may_use
from collector.web.operations.spending import SpendingMeasure, budget_of_project, measures
from collector.web.operations.status import numbers_of
from collector.web.questions import questions_of
from collector.web.rendering import page, see_other
from collector.web.visitor import FormDep, page_router
from storage.operation.status import ProjectSize
from storage.upkeep.retention import BY_HAND, SweepForecast

router = page_router()

_MOST_PINS: Final = 200
_MOST_ROWS: Final = 500
"""Projects on the page. A guess: names come from clients, so there is no bound to how many are stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A project. `share` is its share of all spans, an estimate of its share of the bytes."""

    name: str | None
    tenant: str
    size: ProjectSize | None
    share: float
    rules: int
    retention_days: int
    is_own_retention: bool
    measures: list[SpendingMeasure]


@router.get("/projects")
@needs(Permission.READ)
def list_projects(request: Request, context: ContextDep, caller: CallerDep, q: str = "") -> Response:
    """List the largest projects with spans, from the rulebook or the settings; `q` filters by a part of the name."""
    rows, count = _rows(context, q)
    pins = context.store.retention.pinned(limit=_MOST_PINS)
    return page(
        request,
        "projects.html",
        rows=rows,
        all_projects=count,
        searched=q,
        used_bytes=int(numbers_of(context).get("database_bytes", 0)),
        max_bytes=context.settings.max_bytes,
        usual_days=context.settings.retention_days,
        rules_for_all=sum(each.stored.enabled and each.stored.project is None for each in context.rules.kept()),
        pins=pins,
        questions=questions_of(context, [pin.trace_id for pin in pins], None),
        has_more_pins=len(pins) == _MOST_PINS,
        by_hand=BY_HAND,
        may_unpin=may_use(caller, unpin, "POST"),
        may_sweep=may_use(caller, sweep, "POST"),
        may_copy=may_use(caller, download_copy, "POST"),
    )


@router.post("/projects/unpin")
@needs(Permission.WRITE)
def unpin(context: ContextDep, form: FormDep) -> Response:
    """Remove the manual pin of a trace. It stays while other reasons keep it."""
    context.store.retention.unpin(form.required("trace").lower(), tenant=form.text("tenant"))
    return see_other("/projects#kept")


@router.get("/projects/sweep")
@needs(Permission.ADMINISTER)
def ask_to_sweep(request: Request, context: ContextDep) -> Response:
    """Show what a sweep would delete, and ask for confirmation."""
    return _sweep_page(request, context.sweeper.due(), context)


@router.post("/projects/sweep")
@needs(Permission.ADMINISTER)
def sweep(request: Request, context: ContextDep, form: FormDep) -> Response:
    """Delete the expired data now, and free its space."""
    swept = context.sweeper.sweep(is_confirmed=form.text("confirm") == "yes")
    return page(request, "swept.html", swept=swept)


@router.post("/projects/backup")
@needs(Permission.ADMINISTER)
def download_copy(context: ContextDep) -> Response:
    """Download the database as a DuckDB file: everything stored before the request, as of one moment."""
    try:
        file = open_backup(context.store, context.settings.data)
    except OSError as error:
        raise HTTPException(503, f"the copy cannot be written: {error.strerror}") from None
    named = {"content-disposition": 'attachment; filename="tracejury.duckdb"'}
    return streamed(chunks(file), file, media_type="application/octet-stream", headers=named)


def _sweep_page(request: Request, due: SweepForecast, context: Context) -> Response:
    return page(request, "sweep.html", due=due, max_bytes=context.settings.max_bytes)


def _rows(context: Context, part: str) -> tuple[list[_Row], int]:
    """Return the largest projects whose name contains a text, by name, and the number of such projects."""
    sizes = {(each.project, each.tenant): each for each in context.store.status.projects()}
    own_days, usual_days = context.settings.project_retention_days, context.settings.retention_days
    named = {each.name for each in context.store.rulebook.projects("")}
    named |= own_days.keys() | (context.project_budgets.keys() - {ANY_PROJECT})
    keys = sizes.keys() | {(name, "") for name in named - {project for project, _ in sizes}}
    keys = {key for key in keys if part.lower() in (key[0] or "").lower()}
    shown = heapq.nlargest(_MOST_ROWS, keys, key=lambda key: sizes[key].spans if key in sizes else 0)
    every = sum(each.spans for each in sizes.values()) or 1
    spent = {(each.identity, each.tenant): each for each in context.judging.budgets.today() if each.kind == "project"}
    rules = Counter(each.stored.project for each in context.rules.kept() if each.stored.enabled)
    rows = []
    for name, tenant in sorted(shown, key=lambda key: (key[0] is None, key[0] or "", key[1])):
        size, paid = sizes.get((name, tenant)), spent.get((name, tenant))
        rows.append(
            _Row(
                name=name,
                tenant=tenant,
                size=size,
                share=size.spans / every if size else 0.0,
                rules=0 if name is None else rules[name],
                retention_days=own_days.get(name or "", usual_days),
                is_own_retention=name in own_days,
                measures=[each for each in measures(paid, budget_of_project(context, name)) if each.limit is not None],
            )
        )
    return rows, len(keys)
