"""The audit over HTTP."""

from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from collector.access.permission import Permission, needs
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.base.times import time_text
from storage.operation.access import AuditEntry, AuditFilter

router = api_router(prefix="/api/v1/audit", tags=["audit"])

_INT64 = 2**63 - 1


class AuditDocument(BaseModel):
    """One write or refused request, or several within a second that are alike."""

    id: int
    time: str = Field(description="The time of the first request.")
    keyId: str | None = Field(description="Null: no key, or one that opens nothing.")
    keyName: str | None
    tenantId: str | None
    address: str
    method: str
    path: str
    status: int
    detail: str | None = Field(description="The reason of the refusal.")
    requestId: str | None = Field(description="The id of the first request.")
    times: int


class Entries(BaseModel):
    """A page of the audit."""

    content: list[AuditDocument]
    size: int
    numberOfElements: int
    last: bool
    next: int | None = Field(description="The value of `before` for the next page.")


class AuditQuery(BaseModel):
    """Filter and page of the audit log; absent fields match all entries."""

    model_config = ConfigDict(extra="forbid")

    before: int | None = Field(default=None, ge=1, le=_INT64, description="Entries with smaller ids.")
    size: int = Field(default=100, ge=1, le=1000)
    key: str | None = Field(default=None, max_length=200, description="The id or name of a key.")
    path: str | None = Field(default=None, max_length=1000, description="A text that the path contains.")
    refused: bool | None = Field(
        default=None, description="Only requests that were refused or failed, or only the others."
    )


@router.get("")
@needs(Permission.ADMINISTER, by_tenant=True)
def list_entries(context: ContextDep, caller: CallerDep, query: Annotated[AuditQuery, Query()]) -> Entries:
    """List the audit log, newest first; a key with a tenant sees what keys of its tenant did."""
    filters = AuditFilter(tenant=caller.visible_tenant, key=query.key, path=query.path, refused=query.refused)
    entries = context.store.access.audit(filters, before=query.before, limit=query.size + 1)
    content = [_document(number, entry) for number, entry in entries[: query.size]]
    is_last = len(entries) <= query.size
    return Entries(
        content=content,
        size=query.size,
        numberOfElements=len(content),
        last=is_last,
        next=None if is_last else content[-1].id,
    )


def _document(number: int, entry: AuditEntry) -> AuditDocument:
    return AuditDocument(
        id=number,
        time=time_text(entry.at_us * 1000) or "",
        keyId=entry.key_id,
        keyName=entry.key_name,
        tenantId=entry.tenant or None,
        address=entry.address,
        method=entry.method,
        path=entry.path,
        status=entry.status,
        detail=entry.detail,
        requestId=entry.request_id,
        times=entry.times,
    )
