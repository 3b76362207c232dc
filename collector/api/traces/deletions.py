"""Deletion of traces over HTTP, with its progress."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import Depends, Query
from fastapi.responses import Response

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.access.tenants import Tenant, tenant_of
from collector.api.base.context import Context
from collector.api.base.json_encoding import json_response
from collector.api.base.pages import MAX_ITEMS, MAX_PAGE
from collector.api.base.problems import problem
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.base.times import DATE_TIME, stored_ns
from collector.api.responses.deletions import DeletionDocument, DeletionPage, Rewritten
from storage.errors import Conflict, NotFound
from storage.upkeep.compaction import Progress
from storage.upkeep.deletions import DELETING, ERASING, Deletion, DeletionCriteria

router = api_router(prefix="/api/v1")


_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": DeletionDocument, "description": "No rows are left."},
    202: {
        "model": DeletionDocument,
        "description": "The deletion continues; the same request joins it.",
        "headers": {"Location": {"description": "The address of the progress.", "schema": {"type": "string"}}},
    },
    409: {"description": "Traces have moved to a lake, and none is set."},
}


@router.delete("/traces/{trace_id}", responses=_ANSWERS)
@needs(Permission.ADMINISTER, by_tenant=True)
def delete_trace(trace_id: str, context: ContextDep, caller: CallerDep, tenant: Tenant = None) -> Response:
    """Delete a trace from every table, and from the disk soon after."""
    refuse_without_lake(context)
    criteria = DeletionCriteria(tenant=tenant_of(caller, tenant), trace_id=trace_id.lower())
    if not context.eraser.erasure.is_stored(criteria):
        raise NotFound(f"no trace {trace_id} here")
    return _delete(context, caller, criteria)


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
    context: ContextDep, caller: CallerDep, named: Annotated[DeletionRequest, Depends()], tenant: Tenant = None
) -> Response:
    """Delete the traces that match all filters."""
    refuse_without_lake(context)
    if named == DeletionRequest():
        return problem(400, "give at least one filter: project, sessionId, userId, before")
    try:
        before_ns = None if named.before is None else stored_ns(named.before)
    except ValueError:
        return problem(400, f"before: {named.before!r} is not a time such as 2026-11-21T10:00:00Z")
    criteria = DeletionCriteria(
        tenant=tenant_of(caller, tenant),
        project=named.project,
        session_id=named.session_id,
        user_id=named.user_id,
        before_ns=before_ns,
    )
    return _delete(context, caller, criteria)


@router.get("/deletions", responses={200: {"model": DeletionPage}})
@needs(Permission.ADMINISTER, by_tenant=True)
def list_deletions(
    context: ContextDep,
    caller: CallerDep,
    page: Annotated[int, Query(ge=0, le=MAX_PAGE)] = 0,
    size: Annotated[int, Query(ge=1, le=MAX_ITEMS)] = 50,
) -> Response:
    """List requested deletions, latest first; a key with a tenant sees those of its tenant."""
    rows = context.eraser.deletions.page(tenant=caller.visible_tenant, skip=page * size, most=size + 1)
    documents = [deletion_document(each, context.eraser.erasure.progress) for each in rows]
    return json_response(DeletionPage.page(documents, page, size))


@router.get("/deletions/{deletion_id}", responses={200: {"model": DeletionDocument}})
@needs(Permission.ADMINISTER, by_tenant=True)
def show_deletion(deletion_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Return a deletion with its progress."""
    deletion = context.eraser.deletions.find(deletion_id, caller.visible_tenant)
    if deletion is None:
        raise NotFound(f"no deletion {deletion_id} here")
    return json_response(deletion_document(deletion, context.eraser.erasure.progress))


def refuse_without_lake(context: Context) -> None:
    """Refuse a deletion that would not reach the traces in a lake.

    Raises:
        Conflict: traces have moved to a lake, and none is set.
    """
    if context.store.left_behind is not None:  # the deletion would be `done`, and the texts still in the lake
        raise Conflict(f"nothing is deleted: {context.store.left_behind}")


def _delete(context: Context, caller: Caller, criteria: DeletionCriteria) -> Response:
    deletion = context.eraser.delete(criteria, now_us=context.now_ns() // 1000, created_by=caller.key_name)
    document = deletion_document(deletion, context.eraser.erasure.progress)
    if deletion.state != DELETING:
        return json_response(document)
    place = {"location": f"/api/v1/deletions/{deletion.deletion_id}"}
    return json_response(document, status=HTTPStatus.ACCEPTED, headers=place)


def deletion_document(deletion: Deletion, progress: Progress) -> DeletionDocument:
    """Describe a deletion with the progress of the pass over the disk."""
    has_pass = deletion.state == ERASING and progress.total > 0
    row_groups = Rewritten.of(progress) if has_pass else None
    return DeletionDocument.of(deletion, more=deletion.state == DELETING, row_groups=row_groups)
