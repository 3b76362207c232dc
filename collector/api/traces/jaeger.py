"""The query API of Jaeger 1, for its UI and Grafana's data source: a façade over the stored traces."""

import time
from typing import Annotated

from fastapi import Query
from fastapi.responses import Response
from pydantic import BaseModel, Field

from collector.access.permission import Permission, needs
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.traces.jaeger_documents import answer, failure, operation_documents, trace_document
from collector.api.traces.jaeger_search import (
    MOST_TRACES,
    BadSearchParameter,
    duration_ns,
    padded,
    span_like,
    tags_of,
    traces_in_short,
)
from storage.query.search import SpanCriteria

router = api_router(prefix="/jaeger/api", include_in_schema=False)  # Jaeger documents it

_DEFAULT_LOOKBACK_NS = 2 * 86_400 * 1_000_000_000
_DEFAULT_LIMIT = 20
_FARTHEST_US = (2**63 - 1) // 1000


@router.get("/services")
@needs(Permission.READ, by_tenant=True)
def services(context: ContextDep, caller: CallerDep) -> Response:
    """List the services that sent spans."""
    return answer(context.store.search.services(tenant=caller.visible_tenant))


@router.get("/services/{service:name}/operations")
@needs(Permission.READ, by_tenant=True)
def operations_of(service: str, context: ContextDep, caller: CallerDep) -> Response:
    """List the names of a service's spans."""
    return answer(sorted({name for name, _ in context.store.search.operations(service, tenant=caller.visible_tenant)}))


@router.get("/operations")
@needs(Permission.READ, by_tenant=True)
def operations(
    context: ContextDep, caller: CallerDep, service: str, span_kind: Annotated[str, Query(alias="spanKind")] = ""
) -> Response:
    """List the operations of a service, with their span kinds."""
    return answer(
        operation_documents(context.store.search.operations(service, tenant=caller.visible_tenant), span_kind)
    )


@router.get("/dependencies")
@needs(Permission.READ, by_tenant=True)
def dependencies() -> Response:
    """Answer with an empty list: calls between services are not computed."""
    return answer([])


@router.get("/traces/{trace_id}")
@needs(Permission.READ, by_tenant=True)
def trace(trace_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Return a trace; leading zeros of its id may be left out."""
    stored = context.store.queries.trace(padded(trace_id), tenant=caller.visible_tenant)
    return failure(404, "trace not found") if stored is None else answer([trace_document(stored)])


class _Find(BaseModel):
    """Parameters of a search, named as in Jaeger; unknown ones are ignored."""

    service: str = ""
    operation: str = ""
    tags: str = ""
    tag: list[str] = []
    trace_ids: list[str] = Field(default=[], alias="traceID")
    start: int | None = None
    end: int | None = None
    min_duration: str = Field(default="", alias="minDuration")
    max_duration: str = Field(default="", alias="maxDuration")
    limit: int = _DEFAULT_LIMIT


@router.get("/traces")
@needs(Permission.READ, by_tenant=True)
def traces(context: ContextDep, caller: CallerDep, find: Annotated[_Find, Query()]) -> Response:
    """Return the traces with the given ids, else those with a matching span; times are in microseconds."""
    try:
        like = _like(find)
    except BadSearchParameter as error:
        return failure(400, str(error))
    most = max(1, min(find.limit, MOST_TRACES))
    named = [padded(each) for each in find.trace_ids[:most]]
    ids = named or context.store.search.traces(like, limit=most, tenant=caller.visible_tenant)
    documents = [trace_document(each) for each in traces_in_short(context, caller, ids)]
    if documents and not named and len(documents) < len(ids):
        warnings = documents[-1]["warnings"]
        left_out = f"{len(ids) - len(documents)} more traces are not shown"
        documents[-1]["warnings"] = [*(warnings if isinstance(warnings, list) else ()), left_out]
    return answer(documents)


def _like(find: _Find) -> SpanCriteria:
    return span_like(
        window=_window(find.start, find.end),
        names=(find.service, find.operation),
        durations=(duration_ns("minDuration", find.min_duration), duration_ns("maxDuration", find.max_duration)),
        tags=tags_of("tags", find.tags, find.tag),
    )


def _window(start_us: int | None, end_us: int | None) -> tuple[int, int]:
    for name, value in (("start", start_us), ("end", end_us)):
        if value is not None and not 0 <= value <= _FARTHEST_US:
            raise BadSearchParameter(f"{name}: {value} is not a time in microseconds")
    to_ns = time.time_ns() if end_us is None else 1000 * end_us
    return to_ns - _DEFAULT_LOOKBACK_NS if start_us is None else 1000 * start_us, to_ns
