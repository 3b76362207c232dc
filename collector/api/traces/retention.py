"""Pinning of traces, and sweeps, over HTTP."""

from typing import Annotated

from fastapi import Query
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel

from collector.access.permission import Permission, needs
from collector.api.access.tenants import Tenant, tenant_of
from collector.api.base.json_encoding import json_response
from collector.api.base.problems import problem
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.responses.declaration import response_model
from collector.api.responses.server import SweepForecastDocument, SweptDocument
from collector.live.upkeep.sweeper import wall_clock_us

router = api_router(prefix="/api/v1")


class Pinned(BaseModel):
    """A trace, and the reasons for which it is kept."""

    traceId: str
    pinned: list[str]


@router.post("/traces/{trace_id}/pin", responses={200: {"model": Pinned}})
@needs(Permission.WRITE, by_tenant=True)
def pin(trace_id: str, context: ContextDep, caller: CallerDep, tenant: Tenant = None) -> JSONResponse:
    """Keep a trace beyond its expiry."""
    return _pinned(trace_id, context, tenant_of(caller, tenant), keep=True)


@router.delete("/traces/{trace_id}/pin", responses={200: {"model": Pinned}})
@needs(Permission.WRITE, by_tenant=True)
def unpin(trace_id: str, context: ContextDep, caller: CallerDep, tenant: Tenant = None) -> JSONResponse:
    """Unpin a trace; other reasons to keep it stay."""
    return _pinned(trace_id, context, tenant_of(caller, tenant), keep=False)


@router.post("/sweep")
@needs(Permission.ADMINISTER)
@response_model(SweepForecastDocument | SweptDocument)
def sweep(
    context: ContextDep,
    dry_run: Annotated[bool, Query(alias="dryRun")] = False,  # noqa: FBT002 - named in the URL
    confirm: Annotated[  # noqa: FBT002 - ditto
        bool, Query(description="The clock is right: delete what has expired, however much that is.")
    ] = False,
) -> Response:
    """Delete expired traces now, and free their space; or estimate that.

    While `held` is not null, expired traces stay: the clock is in doubt, or too many have expired at once.
    """
    if dry_run:
        return json_response(SweepForecastDocument.of(context.sweeper.due()))
    return json_response(SweptDocument.of(context.sweeper.sweep(is_confirmed=confirm)))


def _pinned(trace_id: str, context: ContextDep, tenant: str, *, keep: bool) -> JSONResponse:
    key = trace_id.lower()
    trace = context.store.queries.trace(key, tenant=tenant, max_spans=1)
    if trace is None or trace.summary.tenant != tenant:
        return _not_found(trace_id)
    if keep:
        context.store.retention.pin(key, now_us=wall_clock_us(), tenant=tenant)
    else:
        context.store.retention.unpin(key, tenant=tenant)
    return JSONResponse({"traceId": key, "pinned": context.store.retention.pins(key, tenant=tenant)})


def _not_found(trace_id: str) -> JSONResponse:
    return problem(404, f"no trace {trace_id} here")
