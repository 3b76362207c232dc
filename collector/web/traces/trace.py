"""Routes of one trace: its page, its neighbours, its uncut texts, its spans as OTLP/JSON, pinning and deletion."""

import gzip
from dataclasses import replace
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlsplit

from fastapi import Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.access.tenants import tenant_of, visible_tenant_of
from collector.api.base.context import Context
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.base.streamed import streamed
from collector.api.traces.deletions import refuse_without_lake
from collector.api.traces.list_filters import filter_of
from collector.conventions.names import ENVIRONMENT_KEYS, SERVICE_VERSION, capture_hint
from collector.conventions.trace import read_trace
from collector.live.upkeep.sweeper import wall_clock_us
from collector.otlp.encode import json_document
from collector.web.navigation import may_use
from collector.web.offline.promoting import promote_trace
from collector.web.playground.playground import show_playground
from collector.web.rendering import TEXT_HEADERS, in_snapshot, page, plain_text, see_other
from collector.web.rules.rule_editing import new_rule
from collector.web.spans.span_view import Detail, detail_of, text_of
from collector.web.traces.agent_view import agents_of
from collector.web.traces.annotating import annotate, votes_on_trace
from collector.web.traces.judging import judge_trace
from collector.web.traces.trace_conversation import calls_view, trace_talk
from collector.web.traces.trace_list import PAGE_ROWS, known_query
from collector.web.traces.trace_tree import SpanTree
from collector.web.traces.trace_view import verdicts_of
from collector.web.visitor import FormDep, page_router, path_of, return_address, with_parameters, with_query
from storage.errors import NotFound
from storage.judging.judgements import TraceResults
from storage.query.listing import ListPosition
from storage.query.outline import Outline
from storage.query.text_pattern import MOST_CHARACTERS
from storage.query.trace_criteria import TraceCriteria
from storage.records import TraceSummary
from storage.upkeep.deletions import DeletionCriteria

router = page_router()

_VIEWS: Final = ("spans", "conversation", "agents", "verdicts")
_WITHOUT_DECISIONS: Final = frozenset({"conversation", "agents"})
_MOST_SPANS: Final = 10_000
_MOST_DIGITS: Final = 7
_AHEAD_NS: Final = 86_400 * 10**9  # clocks of senders may be ahead; a guess


@router.get("/traces/{trace_id}")
@needs(Permission.READ, by_tenant=True)
@in_snapshot
def show_trace(request: Request, trace_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Show a trace: its spans and one of them whole, its conversation, its agents, or its verdicts.

    The script requests parts: `part=tree` is JSON of at most 10,000 spans; `part=span` is the panel of one span;
    `part=find` are the ids of the spans with a text.
    """
    params = request.query_params
    outline = _outline(context, trace_id, visible_tenant_of(caller, params.get("tenant")))
    summary = outline.summary
    if params.get("part") == "find":
        find = _find(request)
        return JSONResponse(sorted(context.store.outlines.with_text(outline, find)) if find else [])
    is_tree, view = params.get("part") == "tree", params.get("view", "spans")
    judged = context.store.judgements.by_rules(
        summary.trace_id,
        tenant=summary.tenant,
        commits=outline.commits,
        decided=not is_tree and view not in _WITHOUT_DECISIONS,
    )
    if is_tree:
        return _packed(SpanTree(outline.spans, judged.evaluations).document())
    is_own = caller.sees_all or summary.tenant == caller.tenant
    values = {
        "view": view if view in _VIEWS else "spans",
        "trace": summary,
        "may_write_rules": may_use(caller, new_rule),
        "may_promote": may_use(caller, promote_trace, "POST"),
        "may_judge": may_use(caller, judge_trace, "POST"),
        "may_play": may_use(caller, show_playground),
        "may_vote": is_own and may_use(caller, annotate, "POST"),
        "tenant": params.get("tenant"),
        **_shown(request, context, outline, judged, view),
    }
    if params.get("part") == "span":
        return page(request, "trace_pane.html", **values)
    return page(
        request,
        "trace.html",
        is_cut=len(outline.spans) < summary.span_count,
        capture=capture_hint(note for span in outline.spans for note in (span.uncaptured or "").splitlines()),
        brief=context.store.listing.reading(summary),
        named=_named(context, outline),
        pins=context.store.retention.pins(summary.trace_id, tenant=summary.tenant),
        may_pin=is_own and may_use(caller, pin_trace, "POST"),
        may_delete=is_own and may_use(caller, delete_trace, "POST"),
        of_trace=verdicts_of(judged, None),
        **_in_list(request),
        **values,
    )


def _named(context: Context, outline: Outline) -> dict[str, list[str]]:
    """Return the models, releases and environments that spans of the trace name, each sorted."""
    resources = [each.attributes for each in context.store.outlines.resources(outline)]
    environments = (each.get(key) for each in resources for key in ENVIRONMENT_KEYS)
    values = {
        "models": (span.model for span in outline.spans),
        "releases": (each.get(SERVICE_VERSION) for each in resources),
        "environments": environments,
    }
    return {name: sorted({str(each) for each in every if each}) for name, every in values.items()}


def _in_list(request: Request) -> dict[str, Any]:
    """Return the query of the list that the visitor came from, and the addresses that keep it."""
    query = request.query_params.get("list")
    if query is None:
        query = urlsplit(return_address(request, "/traces")).query
    query = known_query(query)
    kept = {"list": query} if query else {}
    passed_on = kept | {name: value for name in ("view", "tenant") if (value := request.query_params.get(name))}
    neighbours = f"{path_of(request)}/next"
    return {
        "next_href": with_query(neighbours, **passed_on),
        "previous_href": with_query(neighbours, **passed_on, to="previous"),
        "list_query": query,
        "list_address": f"/traces?{query}" if query else "/traces",
        "address": lambda **changed: with_parameters(request, **(kept | {"edge": None} | changed)),
        "edge": request.query_params.get("edge", ""),
    }


@router.get("/traces/{trace_id}/next")
@needs(Permission.READ, by_tenant=True)
@in_snapshot
def show_next(request: Request, trace_id: str, context: ContextDep, caller: CallerDep, to: str = "") -> Response:
    """Redirect to the next trace of a list (`list` has its query), or with `to=previous` to the one before."""
    params = request.query_params
    summary = _outline(context, trace_id, visible_tenant_of(caller, params.get("tenant")), most=1).summary
    query = known_query(params.get("list", ""))
    trace = _neighbour(context, caller, summary, query, is_newer=to == "previous")
    kept = {"list": query or None, "view": params.get("view")}
    if trace is None:
        edge = "first" if to == "previous" else "last"
        return see_other(with_query(f"/traces/{summary.trace_id}", **kept, tenant=params.get("tenant"), edge=edge))
    tenant = trace.tenant if trace.tenant and caller.sees_all else None
    return see_other(with_query(f"/traces/{trace.trace_id}", **kept, tenant=tenant))


def _neighbour(
    context: Context, caller: Caller, trace: TraceSummary, query: str, *, is_newer: bool
) -> TraceSummary | None:
    """Return the trace before or after one in a list; without a valid list, of all traces by time."""
    chosen, listing = filter_of(dict(parse_qsl(query)), context.now_ns()), context.store.listing
    like = TraceCriteria() if chosen.problems else chosen.like
    tenant = caller.visible_tenant
    if chosen.by is not None and not chosen.problems:
        ranked = listing.ranked(like, by=chosen.by, limit=PAGE_ROWS, tenant=tenant).traces
        keys = [(each.tenant, each.trace_id) for each in ranked]
        here = (trace.tenant, trace.trace_id)
        at = keys.index(here) + (-1 if is_newer else 1) if here in keys else len(keys)
        return ranked[at] if 0 <= at < len(ranked) else None
    place = ListPosition(start_ns=trace.start_ns, trace_id=trace.trace_id, tenant=trace.tenant)
    if is_newer:
        near = replace(like, to_ns=min(like.to_ns, context.now_ns() + _AHEAD_NS))
        return listing.newer(near, place, tenant=tenant)
    return next(iter(listing.traces(like, after=place, limit=1, tenant=tenant).traces), None)


def _packed(document: bytes) -> Response:
    headers = {"content-encoding": "gzip", "cache-control": "no-store", **TEXT_HEADERS}
    return Response(gzip.compress(document, compresslevel=1), media_type="application/json", headers=headers)


def _shown(request: Request, context: Context, outline: Outline, judged: TraceResults, view: str) -> dict[str, Any]:
    """Return the variables of the chosen view."""
    if view == "conversation":
        return _conversation(request, context, outline)
    if view == "agents":
        return agents_of(outline, request.query_params.get("tenant"))
    if view == "verdicts":
        names = {span.span_id: span.name for span in outline.spans}
        return {
            "evaluations": sorted(judged.evaluations, key=lambda each: (each.passed is not False, each.superseded)),
            "names": names,
        }
    find = _find(request)
    spans = SpanTree(outline.spans, judged.evaluations)
    with_text = context.store.outlines.with_text(outline, find) if find else ()
    tree = spans.view(
        chosen=request.query_params.get("span"), begin=_place(request, "at"), find=find, with_text=with_text
    )
    return {
        "tree": tree,
        "find": find,
        "is_whole": "span" not in request.query_params
        or tree.chosen in [each.span.span_id for each in spans.nodes[:1]],
        "detail": _detail(context, outline, tree.chosen),
        "of_span": verdicts_of(judged, tree.chosen),
        "votes": votes_on_trace(context, outline.summary, tree.chosen),
    }


def _find(request: Request) -> str:
    return request.query_params.get("find", "").strip()[:MOST_CHARACTERS]


def _place(request: Request, name: str) -> int | None:
    text = request.query_params.get(name, "")
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def _detail(context: Context, outline: Outline, chosen: str | None) -> Detail | None:
    span = context.store.outlines.span(outline, chosen) if chosen else None
    return None if span is None else detail_of(span, context.own_keys, outline.summary.start_ns)


def _conversation(request: Request, context: Context, outline: Outline) -> dict[str, Any]:
    summary = outline.summary
    trace = context.store.queries.trace(summary.trace_id, tenant=summary.tenant or "")
    if trace is None:
        raise _no_trace(summary.trace_id, context)
    reading = read_trace(trace.spans, trace.logs, context.own_keys)
    talked = trace_talk(summary, trace.spans, reading, begin=_place(request, "turns"))
    return {"talked": talked, "called": calls_view(talked.calls, begin=_place(request, "calls"))}


@router.get("/traces/{trace_id}/spans/{span_id}/text")
@needs(Permission.READ, by_tenant=True)
def show_text(
    request: Request, trace_id: str, span_id: str, context: ContextDep, caller: CallerDep, of: str = "input"
) -> Response:
    """Show the whole of a text that the span's page cuts."""
    outline = _outline(context, trace_id, visible_tenant_of(caller, request.query_params.get("tenant")), most=1)
    span = context.store.outlines.span(outline, span_id)
    text = None if span is None else text_of(span, of, context.own_keys)
    if text is None:
        raise HTTPException(404, "there is no such text here")
    return plain_text(text)


@router.get("/traces/{trace_id}/otlp")
@needs(Permission.READ, by_tenant=True)
def show_otlp(request: Request, trace_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Serve the spans as they were received, as OTLP/JSON."""
    visible_tenant = visible_tenant_of(caller, request.query_params.get("tenant"))
    batches = context.store.exports.trace(trace_id.lower(), tenant=visible_tenant)
    if batches is None:
        raise _no_trace(trace_id, context)
    return streamed(json_document(batches), batches, media_type="application/json", headers=TEXT_HEADERS)


@router.post("/traces/{trace_id}/pin")
@needs(Permission.WRITE, by_tenant=True)
def pin_trace(trace_id: str, context: ContextDep, caller: CallerDep, form: FormDep) -> Response:
    """Pin a trace, so that it outlives its expiry, or with `keep` 0 unpin it."""
    key, tenant = trace_id.lower(), tenant_of(caller, form.texts("tenant")[0] if form.checked("tenant") else None)
    trace = context.store.queries.trace(key, tenant=tenant, max_spans=1)
    if trace is None or trace.summary.tenant != tenant:
        raise _no_trace(trace_id, context)
    if form.text("keep") == "0":
        context.store.retention.unpin(key, tenant=tenant)
    else:
        context.store.retention.pin(key, now_us=wall_clock_us(), tenant=tenant)
    return RedirectResponse(f"/traces/{key}{_query(tenant)}", 303)


@router.post("/traces/{trace_id}/delete")
@needs(Permission.ADMINISTER, by_tenant=True)
def delete_trace(trace_id: str, context: ContextDep, caller: CallerDep, form: FormDep) -> Response:
    """Delete a trace from every table."""
    tenant = tenant_of(caller, form.texts("tenant")[0] if form.checked("tenant") else None)
    criteria = DeletionCriteria(tenant=tenant, trace_id=trace_id.lower())
    refuse_without_lake(context)
    if not context.eraser.erasure.is_stored(criteria):
        raise _no_trace(trace_id, context)
    context.eraser.delete(criteria, now_us=wall_clock_us(), created_by=caller.key_name)
    return RedirectResponse("/traces", 303)


def _outline(context: Context, trace_id: str, tenant: str | None, *, most: int = _MOST_SPANS) -> Outline:
    outline = context.store.outlines.of_trace(trace_id.lower(), tenant=tenant, max_spans=most)
    if outline is None:
        raise _no_trace(trace_id, context)
    return outline


def _query(tenant: str) -> str:
    return f"?tenant={quote(tenant)}" if tenant else ""


def _no_trace(trace_id: str, context: Context) -> NotFound:
    return NotFound(f"no trace {trace_id[:64]} here; {context.store.left_behind or 'it may have expired'}")
