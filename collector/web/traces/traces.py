"""The list of traces."""

from typing import Any, Final

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.base.context import Context
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.traces.list_filters import NONE, ORDERS, RANKED_SINCE, SINCE, TraceFilter, filter_of
from collector.api.traces.saved_views import SAVED_VIEWS
from collector.api.traces.trace_filters import place_of, place_text
from collector.web.rendering import in_snapshot, page
from collector.web.traces.chosen import actions_for
from collector.web.traces.list_look import COLUMNS, DENSITIES, ListLook, look_of, remember
from collector.web.traces.trace_list import (
    PAGE_ROWS,
    chips,
    listed_query,
    overview_of,
    rows_of,
)
from collector.web.visitor import page_router, with_parameters
from storage.query.listing import Listed, ListPosition
from storage.query.text_pattern import SEARCHED, text_pattern

router = page_router()

_ENOUGH_S: Final = 0.25
"""Time after which a search returns the traces that it found so far. A guess: what feels immediate."""

_MOST_VIEWS: Final = 12  # above the list
_LOOK: Final = frozenset({"columns", "density", "remember", "before", "live"})


@router.get("/traces")
@needs(Permission.READ, by_tenant=True)
@in_snapshot
def list_traces(request: Request, context: ContextDep, caller: CallerDep, before: str = "", live: str = "") -> Response:
    """List traces that match all filters, newest first, or the greatest by an amount."""
    chosen, look = filter_of(request.query_params, context.now_ns()), look_of(request)
    elsewhere = _elsewhere(request, context, caller, chosen, look)
    if elsewhere is not None:
        return elsewhere
    after = place_of(before) if before and chosen.by is None else None
    listed = _listed(context, caller, chosen, after)
    older = None if listed.next is None else with_parameters(request, before=place_text(listed.next), live=None)
    return page(
        request,
        "traces.html",
        status=400 if chosen.problems else 200,
        filters=chosen.values,
        problems=chosen.problems,
        chips=chips(request, chosen),
        rows=rows_of(context.store.listing, listed, with_spans=look.needs_spans),
        older=older,
        newest=with_parameters(request, before=None) if before else None,
        searched_to_ns=listed.searched_to_ns,
        searched=_searched(chosen, listed),
        is_live=live == "1" and not before and chosen.by is None,
        is_newest=not before and chosen.by is None and not chosen.problems and not chosen.values["text"],
        is_empty=not listed.traces and not chosen.given and after is None and chosen.by is None,
        actions=actions_for(caller),
        **_choices(context, caller, chosen),
        **_beside(request, context, caller, chosen),
        **_looks(request, look),
    )


def _elsewhere(
    request: Request, context: Context, caller: Caller, query: TraceFilter, look: ListLook
) -> Response | None:
    """Redirect an address that is not a list: a saved view, a look to remember, the id of a trace."""
    if "view" in request.query_params:
        view = SAVED_VIEWS.one(context, caller, request.query_params["view"])
        return RedirectResponse(f"/traces?{view.query}" if view.query else "/traces", 303)
    if "remember" in request.query_params:
        return remember(request, look)
    if query.trace_id is not None and context.store.outlines.of_trace(
        query.trace_id, tenant=caller.visible_tenant, max_spans=1
    ):
        return RedirectResponse(f"/traces/{query.trace_id}", 303)
    return None


def _choices(context: Context, caller: Caller, query: TraceFilter) -> dict[str, Any]:
    """Return the options of the filters."""
    return {
        "projects": _projects(context, caller.tenant if not caller.sees_all else ""),
        "no_name": NONE,
        "times": [(key, f"Last {label}") for key, (label, _) in SINCE.items()],
        "orders": ORDERS,
        "by": query.by or "",
        "ranked_since": "" if query.values["since"] or query.values["from"] else SINCE[RANKED_SINCE][0],
        "rules": sorted({kept.active.rule.name for kept in context.rules.kept()}) if caller.sees_all else [],
    }


def _beside(request: Request, context: Context, caller: Caller, filters: TraceFilter) -> dict[str, Any]:
    """Return the parts above and beside the list: its overview, and the saved views that fit the chosen project."""
    query, project = listed_query(request), filters.values["project"]
    views = [
        view
        for view in context.store.saved_views.find(caller.visible_tenant)
        if not project or view.project in {None, project} or view.query == query
    ]
    return {
        "overview": overview_of(request),
        "views": views[:_MOST_VIEWS],
        "views_left_out": max(len(views) - _MOST_VIEWS, 0),
        "is_saved": any(view.query == query for view in views),
        "query": query,
        "may_save": caller.may(SAVED_VIEWS.write),
    }


def _looks(request: Request, look: ListLook) -> dict[str, Any]:
    kept = [pair for pair in request.query_params.multi_items() if pair[0] not in _LOOK]
    return {"look": look, "columns": COLUMNS, "densities": DENSITIES, "kept": [pair for pair in kept if pair[1]]}


def _listed(context: Context, caller: Caller, query: TraceFilter, after: ListPosition | None) -> Listed:
    if query.problems:
        return Listed(traces=(), commits=(0, 0), next=None, is_full=True)
    if query.by is not None:
        return context.store.listing.ranked(query.like, by=query.by, limit=PAGE_ROWS, tenant=caller.visible_tenant)
    return context.store.listing.traces(
        query.like, after=after, limit=PAGE_ROWS, tenant=caller.visible_tenant, enough_s=_ENOUGH_S
    )


def _searched(query: TraceFilter, listed: Listed) -> dict[str, Any] | None:
    """Return what a search for a text read: the texts, how far back, and the part of a long text that was searched."""
    text = query.like.text
    if text is None:
        return None
    _, beginning = text_pattern(text)
    return {
        "texts": SEARCHED,
        "to_ns": listed.searched_to_ns or (listed.next.start_ns if listed.next else None),
        "has_bounds": any(query.values[name] for name in ("since", "from", "to")) or query.by is not None,
        "beginning": None if beginning == " ".join(text.split()) else beginning,
    }


def _projects(context: Context, tenant: str) -> list[str]:
    return context.store.rulebook.project_names(tenant)
