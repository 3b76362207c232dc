"""Traces over HTTP: received by POST, returned as documents."""

import logging
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import Depends, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from collector.access.permission import Permission, needs
from collector.api.access.tenants import Tenant, visible_tenant_of
from collector.api.base.context import Context
from collector.api.base.json_encoding import json_response
from collector.api.base.problems import problem
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.base.streamed import streamed
from collector.api.base.times import time_text
from collector.api.documents.documents import trace_document
from collector.api.responses.declaration import response_model
from collector.api.responses.traces import TraceDocument, TraceExport, TracePage, TraceSummaryDocument
from collector.api.traces.trace_filters import Filters, like_of, place_of, place_text
from collector.conventions.trace import read_trace
from collector.listeners.body import Disconnected
from collector.listeners.status import failure_of
from collector.otlp.encode import json_document
from storage.errors import BadQuery
from storage.records import ANY_JUDGING, Judging

log = logging.getLogger(__name__)
router = api_router(prefix="/api/v1/traces")

_MAX_PAGE = 10_000
_LONGEST_S = 10.0
"""Approximate limit of a search for rare traces, unless the request sets another. A guess: programs wait longer than
people."""

_OBJECT_OR_NULL: dict[str, Any] = {"type": ["object", "null"]}
_SCOPES: dict[str, Any] = {"type": ["array", "null"], "items": _OBJECT_OR_NULL}
_RESOURCES: dict[str, Any] = {
    "type": ["array", "null"],
    "items": _OBJECT_OR_NULL | {"properties": {"scopeSpans": _SCOPES}},
}
_EXPORT = {"type": "object", "properties": {"resourceSpans": _RESOURCES}}
_BODY = {
    "requestBody": {
        "required": True,
        "description": "An OTLP ExportTraceServiceRequest; gzip, deflate and zstd are taken.",
        "content": {
            "application/json": {"schema": _EXPORT},
            "application/x-protobuf": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


class TracesReceipt(BaseModel):
    """Numbers of accepted and rejected spans of a request."""

    acceptedSpans: int = Field(description="Stored, or stored already.")
    rejectedSpans: int
    traces: int = Field(description="Distinct trace ids among the accepted.")
    errorMessage: str | None = Field(default=None, description="The reason why spans were rejected.")


@router.post(
    "",
    openapi_extra=_BODY,
    responses={200: {"model": TracesReceipt}, 408: {"description": "The request took too long."}},
)
@needs(Permission.SEND, by_tenant=True, takes_spans=True)
async def ingest(request: Request, context: ContextDep, caller: CallerDep) -> Response:
    """Take an OTLP `ExportTraceServiceRequest`, protobuf or JSON; the counts are those of this request."""
    try:
        receipt = await context.reader.read(request.scope, request.receive, caller, counts_traces=True)
    except Disconnected:
        return Response(status_code=400)
    except Exception as error:  # noqa: BLE001 - the border of the listener: `failure_of` has a response for each
        failure = failure_of(error)
        if failure.http_status == HTTPStatus.INTERNAL_SERVER_ERROR:
            log.exception("an ingest request failed")
        return problem(failure.http_status, failure.message, headers=failure.http_headers())
    reply: dict[str, object] = {
        "acceptedSpans": receipt.accepted,
        "rejectedSpans": receipt.rejected,
        "traces": receipt.traces,
    }
    return JSONResponse(reply | ({"errorMessage": receipt.message} if receipt.message else {}))


def _judging(
    rule: str | None = None,
    outcome: Literal["scored", "failed", "skipped"] | None = None,
    passed: bool | None = None,  # noqa: FBT001 - a query parameter
) -> Judging:
    return Judging(rule=rule, outcome=outcome, passed=passed)


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Number and size of the requested page, and a time limit."""

    page: Annotated[int, Query(ge=0, le=_MAX_PAGE)] = 0
    size: Annotated[int, Query(ge=1, le=200)] = 50
    within_ms: Annotated[
        int | None,
        Query(alias="withinMs", ge=1, le=10_000, description="The approximate limit of time for a search."),
    ] = None


@router.get("")
@needs(Permission.READ, by_tenant=True)
@response_model(TracePage)
def list_traces(
    context: ContextDep,
    caller: CallerDep,
    judging: Annotated[Judging, Depends(_judging)],
    at: Annotated[PageQuery, Depends()],
    filters: Annotated[Filters, Depends()],
    tenant: Tenant = None,
) -> Response:
    """List traces that match all filters by start time, newest first; `before` continues after a page."""
    visible_tenant, offset, limit = visible_tenant_of(caller, tenant), at.page * at.size, at.size + 1
    if filters.is_new or at.within_ms is not None:
        return _listed(context, judging, at, filters, visible_tenant)
    project = filters.project
    if judging == ANY_JUDGING:
        summaries = context.store.queries.newest_traces(
            tenant=visible_tenant, project=project, offset=offset, limit=limit
        )
    else:
        summaries = context.store.queries.judged_traces(
            judging, tenant=visible_tenant, project=project, offset=offset, limit=limit
        )
    documents = [TraceSummaryDocument.of(summary) for summary in summaries]
    return json_response(TracePage.page(documents, at.page, at.size, next=None, searched_to=None))


def _listed(
    context: Context, judging: Judging, at: PageQuery, filters: Filters, visible_tenant: str | None
) -> Response:
    # A page number does not say where these lists go on, so only `before` selects the next page.
    if at.page:
        raise BadQuery(
            "page: not allowed with these filters or withinMs; send `before`, with the `next` of the previous page"
        )
    like = like_of(filters, rule=judging.rule, outcome=judging.outcome, passed=judging.passed)
    after = None if filters.before is None else place_of(filters.before)
    within_s = _LONGEST_S if at.within_ms is None else at.within_ms / 1000
    listed = context.store.listing.traces(like, after=after, limit=at.size, tenant=visible_tenant, within_s=within_s)
    return json_response(
        TracePage(
            content=[TraceSummaryDocument.of(summary) for summary in listed.traces],
            number=0,
            size=at.size,
            number_of_elements=len(listed.traces),
            first=after is None,
            last=listed.next is None,
            next=None if listed.next is None else place_text(listed.next),
            searched_to=time_text(listed.searched_to_ns),
        )
    )


@router.get("/{trace_id}")
@needs(Permission.READ, by_tenant=True)
@response_model(TraceDocument)
def show_trace(trace_id: str, context: ContextDep, caller: CallerDep, tenant: Tenant = None) -> Response:
    """Return a trace with its spans by start time (at most 10,000), their meaning, and the results of rules."""
    trace = context.store.queries.trace(trace_id.lower(), tenant=visible_tenant_of(caller, tenant))
    if trace is None:
        return _not_found(trace_id, context)
    reading = read_trace(trace.spans, trace.logs, context.own_keys)
    judged = context.store.judgements.of_trace(trace.summary.trace_id, tenant=trace.summary.tenant)
    is_part = len(trace.spans) < trace.summary.span_count
    sums = context.store.listing.reading(trace.summary) if is_part else None
    return json_response(trace_document(trace, reading, judged, sums))


@router.get("/{trace_id}/otlp", response_class=JSONResponse)
@needs(Permission.READ, by_tenant=True)
@response_model(TraceExport)
def export_trace(trace_id: str, context: ContextDep, caller: CallerDep, tenant: Tenant = None) -> Response:
    """Export a trace as the OTLP/JSON request that would send it, however many spans it has."""
    batches = context.store.exports.trace(trace_id.lower(), tenant=visible_tenant_of(caller, tenant))
    if batches is None:
        return _not_found(trace_id, context)
    return streamed(json_document(batches), batches, media_type="application/json")


def _not_found(trace_id: str, context: Context) -> JSONResponse:
    return problem(404, "; ".join(filter(None, (f"no trace {trace_id} here", context.store.left_behind))))
