"""The query API of Jaeger 2, `/api/v3`: traces as OTLP/JSON, in the envelope of Jaeger's gRPC gateway."""

from typing import Annotated, Final

from fastapi import Query, Request
from fastapi.responses import JSONResponse, Response
from starlette.datastructures import QueryParams

from collector.access.permission import Permission, needs
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.base.times import stored_ns
from collector.api.traces.jaeger_documents import operation_documents
from collector.api.traces.jaeger_search import (
    MOST_TRACES,
    BadSearchParameter,
    duration_ns,
    padded,
    span_like,
    tags_of,
    traces_in_short,
)
from collector.otlp.encode import resource_spans
from storage.query.search import SpanCriteria

router = api_router(prefix="/jaeger/api/v3", include_in_schema=False)  # Jaeger documents it

_DEFAULT_DEPTH: Final = 100  # a guess: in Jaeger, the default is that of the storage backend


@router.get("/services")
@needs(Permission.READ, by_tenant=True)
def services(context: ContextDep, caller: CallerDep) -> JSONResponse:
    """List the services that sent spans."""
    return JSONResponse({"services": context.store.search.services(tenant=caller.visible_tenant)})


@router.get("/operations")
@needs(Permission.READ, by_tenant=True)
def operations(
    context: ContextDep,
    caller: CallerDep,
    service: str = "",
    kind: Annotated[str, Query(alias="spanKind")] = "",
    earlier_kind: Annotated[str, Query(alias="span_kind")] = "",
) -> JSONResponse:
    """List the operations of a service, with their span kinds."""
    if not service:
        return _failure(400, "service is required")
    rows = context.store.search.operations(service, tenant=caller.visible_tenant)
    return JSONResponse({"operations": operation_documents(rows, kind or earlier_kind)})


@router.get("/traces/{trace_id}")
@needs(Permission.READ, by_tenant=True)
def trace(trace_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Return a trace; leading zeros of its id may be left out."""
    stored = context.store.queries.trace(padded(trace_id), tenant=caller.visible_tenant)
    return _failure(404, "trace not found") if stored is None else _result([resource_spans(stored.spans)])


@router.get("/traces")
@needs(Permission.READ, by_tenant=True)
def traces(context: ContextDep, caller: CallerDep, request: Request) -> Response:
    """Return traces with a matching span, latest span first; times are RFC 3339, and required."""
    try:
        like, most = _like(request.query_params), _depth(request.query_params)
    except BadSearchParameter as error:
        return _failure(400, str(error))
    ids = context.store.search.traces(like, limit=most, tenant=caller.visible_tenant)
    results = [resource_spans(one.spans) for one in traces_in_short(context, caller, ids)]
    return _result(results) if results else _failure(404, "No traces found")


def _result(traces: list[bytes]) -> Response:
    content = b'{"result":{"resourceSpans":[' + b",".join(traces) + b"]}}"
    return Response(content, media_type="application/json")


def _failure(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": {"httpCode": status, "message": message}}, status_code=status)


def _parameter(parameters: QueryParams, name: str, *earlier: str) -> str:
    # Clients still use the `earlier` names.
    return next((value for each in (name, *earlier) if (value := parameters.get(f"query.{each}"))), "")


def _like(parameters: QueryParams) -> SpanCriteria:
    for name in ("filter", "pagination.pageToken"):
        if _parameter(parameters, name):  # if ignored, the answer would have traces that it excludes
            raise BadSearchParameter(f"query.{name} is not supported")
    from_ns = _instant(parameters, "startTimeMin", "start_time_min")
    end_ns = _instant(parameters, "startTimeMax", "start_time_max")
    if from_ns >= end_ns:
        raise BadSearchParameter("query.startTimeMin must be before query.startTimeMax")
    least = _parameter(parameters, "durationMin", "duration_min")
    most = _parameter(parameters, "durationMax", "duration_max")
    return span_like(
        window=(from_ns, end_ns - 1),  # `startTimeMax` is exclusive
        names=(
            _parameter(parameters, "serviceName", "service_name"),
            _parameter(parameters, "operationName", "operation_name"),
        ),
        durations=(duration_ns("query.durationMin", least), duration_ns("query.durationMax", most)),
        tags=tags_of("query.attributes", _parameter(parameters, "attributes")),
    )


def _instant(parameters: QueryParams, name: str, earlier: str) -> int:
    text = _parameter(parameters, name, earlier)
    if not text:
        raise BadSearchParameter(f"query.{name} is required")
    try:
        return stored_ns(text)
    except ValueError as error:
        raise BadSearchParameter(f"malformed parameter query.{name}: {error}") from error


def _depth(parameters: QueryParams) -> int:
    text = _parameter(parameters, "searchDepth", "search_depth", "num_traces")
    if not text:
        return _DEFAULT_DEPTH
    if not (text.isascii() and text.isdecimal()):
        raise BadSearchParameter(f"malformed parameter query.searchDepth: {text!r}")
    return max(1, min(int(text[:9]), MOST_TRACES))
