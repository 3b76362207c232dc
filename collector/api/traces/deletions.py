"""Deletion of traces over HTTP, with its progress."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import Depends, Query
from fastapi.responses import Response

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.access.tenants import Tenant, tenant_of
from collector.api.answers.deletions import DeletionDocument, DeletionPage, Rewritten
from collector.api.base.context import Context
from collector.api.base.pages import MAX_ITEMS, MAX_PAGE
from collector.api.base.problems import problem
from collector.api.base.routing import Here, Who, api_router
from collector.api.base.times import DATE_TIME, stored_ns
from collector.api.base.written import encoded
from storage.errors import Missing
from storage.upkeep.deletions import DELETING, ERASING, Deletion, DeletionCriteria
from storage.upkeep.rewriting import Progress

router = api_router(prefix="/api/v1")


_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": DeletionDocument, "description": "No rows are left."},
    202: {
        "model": DeletionDocument,
        "description": "The deletion continues; the same request joins it.",
        "headers": {"Location": {"description": "The address of the progress.", "schema": {"type": "string"}}},
    },
}


@router.delete("/traces/{trace_id}", responses=_ANSWERS)
@needs(Permission.ADMINISTER, by_tenant=True)
def delete_trace(trace_id: str, here: Here, who: Who, tenant: Tenant = None) -> Response:
    """Delete a trace from every table, and from the disk soon after."""
    criteria = DeletionCriteria(tenant=tenant_of(who, tenant), trace_id=trace_id.lower())
    if not here.eraser.erasure.is_stored(criteria):
        raise Missing(f"no trace {trace_id} here")
    return _delete(here, who, criteria)


@dataclass(frozen=True, slots=True)
class DeletionRequest:
    """Filter of the traces to delete; all conditions have to hold."""

    project: str | None = None
    session_id: Annotated[str | None, Query(alias="sessionId")] = None
    user_id: Annotated[str | None, Query(alias="userId")] = None
    before: Annotated[str | None, Query(json_schema_extra=DATE_TIME)] = None


@router.delete("/traces", responses=_ANSWERS)
@needs(Permission.ADMINISTER, by_tenant=True)
def delete_traces(
    here: Here, who: Who, named: Annotated[DeletionRequest, Depends()], tenant: Tenant = None
) -> Response:
    """Delete the traces that match all filters."""
    if named == DeletionRequest():
        return problem(400, "name what is to go: project, sessionId, userId, before")
    try:
        before_ns = None if named.before is None else stored_ns(named.before)
    except ValueError:
        return problem(400, f"before: {named.before!r} is no time such as 2026-11-21T10:00:00Z")
    criteria = DeletionCriteria(
        tenant=tenant_of(who, tenant),
        project=named.project,
        session_id=named.session_id,
        user_id=named.user_id,
        before_ns=before_ns,
    )
    return _delete(here, who, criteria)


@router.get("/deletions", responses={200: {"model": DeletionPage}})
@needs(Permission.ADMINISTER, by_tenant=True)
def list_deletions(
    here: Here,
    who: Who,
    page: Annotated[int, Query(ge=0, le=MAX_PAGE)] = 0,
    size: Annotated[int, Query(ge=1, le=MAX_ITEMS)] = 50,
) -> Response:
    """List requested deletions, latest first; a key with a tenant sees those of its tenant."""
    rows = here.eraser.deletions.page(tenant=who.visible_tenant, skip=page * size, most=size + 1)
    documents = [deletion_document(each, here.eraser.erasure.progress) for each in rows]
    return encoded(DeletionPage.page(documents, page, size))


@router.get("/deletions/{deletion_id}", responses={200: {"model": DeletionDocument}})
@needs(Permission.ADMINISTER, by_tenant=True)
def show_deletion(deletion_id: str, here: Here, who: Who) -> Response:
    """Return a deletion with its progress."""
    deletion = here.eraser.deletions.find(deletion_id, who.visible_tenant)
    if deletion is None:
        raise Missing(f"no deletion {deletion_id} here")
    return encoded(deletion_document(deletion, here.eraser.erasure.progress))


def _delete(here: Context, who: Caller, criteria: DeletionCriteria) -> Response:
    deletion = here.eraser.delete(criteria, now_us=here.now_ns() // 1000, created_by=who.key_name)
    document = deletion_document(deletion, here.eraser.erasure.progress)
    if deletion.state != DELETING:
        return encoded(document)
    place = {"location": f"/api/v1/deletions/{deletion.deletion_id}"}
    return encoded(document, status=HTTPStatus.ACCEPTED, headers=place)


def deletion_document(deletion: Deletion, progress: Progress) -> DeletionDocument:
    """Describe a deletion with the progress of the pass over the disk."""
    has_pass = deletion.state == ERASING and progress.total > 0
    row_groups = Rewritten.of(progress) if has_pass else None
    return DeletionDocument.of(deletion, more=deletion.state == DELETING, row_groups=row_groups)
