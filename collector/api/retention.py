"""Keeping and deleting traces, and sweeping, over HTTP."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from collector.access.permission import Permission, needs
from collector.api.context import Here, Who
from collector.api.problems import problem
from collector.api.tenants import Tenant, tenant_of
from collector.api.times import DATE_TIME, stored_ns
from collector.live.sweeper import wall_clock_us
from storage.retention import Due, Swept, Wanted

router = APIRouter(prefix="/api/v1")

_MOST_AT_ONCE = 1_000
"""Traces that one request deletes. A guess: some seconds of the writer's time in small steps."""


class Pinned(BaseModel):
    """A trace, and the reasons for which it is kept."""

    traceId: str  # noqa: N815 - as it is on the wire
    pinned: list[str]


class Deleted(BaseModel):
    """How many traces are gone."""

    deletedTraces: int  # noqa: N815 - as it is on the wire


class DeletedSome(Deleted):
    """The same, and whether there are others."""

    more: bool


@router.post("/traces/{trace_id}/pin", responses={200: {"model": Pinned}})
@needs(Permission.WRITE, by_tenant=True)
def pin(trace_id: str, here: Here, who: Who, tenant: Tenant = None) -> JSONResponse:
    """Keep a trace beyond its expiry."""
    return _pinned(trace_id, here, tenant_of(who, tenant), keep=True)


@router.delete("/traces/{trace_id}/pin", responses={200: {"model": Pinned}})
@needs(Permission.WRITE, by_tenant=True)
def unpin(trace_id: str, here: Here, who: Who, tenant: Tenant = None) -> JSONResponse:
    """Keep it no longer; other reasons to keep it stay."""
    return _pinned(trace_id, here, tenant_of(who, tenant), keep=False)


@router.delete("/traces/{trace_id}", responses={200: {"model": Deleted}})
@needs(Permission.ADMINISTER, by_tenant=True)
def delete_trace(trace_id: str, here: Here, who: Who, tenant: Tenant = None) -> JSONResponse:
    """Delete a trace from every table; the next sweep rubs it out on the disk."""
    deleted = here.retention.delete(Wanted(tenant=tenant_of(who, tenant), trace_id=trace_id.lower()))
    return JSONResponse({"deletedTraces": deleted}) if deleted else _not_found(trace_id)


@dataclass(frozen=True, slots=True)
class Named:
    """Which traces are to go; all of it has to be true of them."""

    project: str | None = None
    session_id: Annotated[str | None, Query(alias="sessionId")] = None
    user_id: Annotated[str | None, Query(alias="userId")] = None
    before: Annotated[str | None, Query(json_schema_extra=DATE_TIME)] = None


@router.delete("/traces", responses={200: {"model": DeletedSome}})
@needs(Permission.ADMINISTER, by_tenant=True)
def delete_traces(here: Here, who: Who, named: Annotated[Named, Depends()], tenant: Tenant = None) -> JSONResponse:
    """Delete the traces that all of these are true of; `more` says that there are others, to be deleted by the next."""
    if named == Named():
        return problem(400, "name what is to go: project, sessionId, userId, before")
    try:
        before_ns = None if named.before is None else stored_ns(named.before)
    except ValueError:
        return problem(400, f"before: {named.before!r} is no time such as 2026-11-21T10:00:00Z")
    wanted = Wanted(
        tenant=tenant_of(who, tenant),
        project=named.project,
        session_id=named.session_id,
        user_id=named.user_id,
        before_ns=before_ns,
    )
    deleted = here.retention.delete(wanted, most=_MOST_AT_ONCE)
    return JSONResponse({"deletedTraces": deleted, "more": deleted == _MOST_AT_ONCE})


@router.post("/sweep")
@needs(Permission.ADMINISTER)
def sweep(here: Here, dry_run: Annotated[bool, Query(alias="dryRun")] = False) -> JSONResponse:  # noqa: FBT002 - named in the URL
    """Delete what has expired now, and give the room back; or say what that would be."""
    if dry_run:
        return JSONResponse(due_document(here.sweeper.due()))
    return JSONResponse(swept_document(here.sweeper.sweep()))


def due_document(due: Due) -> dict[str, object]:
    """What a sweep would find, as JSON."""
    return {
        "spans": due.spans,
        "expiredTraces": due.expired_traces,
        "expiredSpans": due.expired_spans,
        "overSpans": due.over_spans,
        "usedBytes": due.used_bytes,
        "freeBytes": due.free_bytes,
    }


def swept_document(swept: Swept) -> dict[str, object]:
    """What a sweep did, as JSON."""
    return {"traces": swept.traces, "spans": swept.spans, "freedBytes": swept.freed_bytes}


def _pinned(trace_id: str, here: Here, tenant: str, *, keep: bool) -> JSONResponse:
    key = trace_id.lower()
    found = here.queries.trace(key, tenant=tenant, max_spans=1)
    if found is None or found.summary.tenant != tenant:
        return _not_found(trace_id)
    if keep:
        here.retention.pin(key, now_us=wall_clock_us(), tenant=tenant)
    else:
        here.retention.unpin(key, tenant=tenant)
    return JSONResponse({"traceId": key, "pinned": here.retention.pins(key, tenant=tenant)})


def _not_found(trace_id: str) -> JSONResponse:
    return problem(404, f"no trace {trace_id} here")
