"""The audit page: changes and refused requests, with their callers."""

from typing import Annotated, Final

from fastapi import Query, Request
from fastapi.responses import Response

from collector.access.permission import Permission, needs
from collector.api.base.routing import CallerDep, ContextDep
from collector.web.rendering import page
from collector.web.visitor import page_router
from storage.operation.access import AuditFilter

router = page_router()

_PAGE_ROWS: Final = 100
_LAST_ID: Final = 2**63 - 1
_OUTCOMES: Final[dict[str, bool | None]] = {"": None, "done": False, "refused": True}

Text = Annotated[str, Query(max_length=1000)]


@router.get("/audit")
@needs(Permission.ADMINISTER, by_tenant=True)
def list_entries(
    request: Request,
    context: ContextDep,
    caller: CallerDep,
    key: Text = "",
    path: Text = "",
    outcome: Text = "",
) -> Response:
    """List the entries of the audit log, newest first."""
    before = request.query_params.get("before", "")
    number = int(before) if before.isascii() and before.isdecimal() else None
    criteria = AuditFilter(
        tenant=caller.visible_tenant, key=key.strip() or None, path=path.strip() or None, refused=_OUTCOMES.get(outcome)
    )
    rows = context.store.access.audit(
        criteria, before=None if number is None else min(number, _LAST_ID), limit=_PAGE_ROWS + 1
    )
    entries = rows[:_PAGE_ROWS]
    return page(
        request,
        "audit.html",
        entries=entries,
        older=entries[-1][0] if len(rows) > _PAGE_ROWS else None,
        is_first=number is None,
        key=key,
        path=path,
        outcome=outcome if outcome in _OUTCOMES else "",
        is_filtered=bool(key or path or outcome),
    )
