"""Routes of backfills: runs of a rule over stored data."""

import datetime as dt
from typing import Final

from fastapi.responses import Response
from starlette.exceptions import HTTPException

from collector.access.permission import Permission, needs
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.base.times import moment_ns
from collector.api.documents import rule_documents
from collector.web.rendering import see_other
from collector.web.rules import rule_access
from collector.web.visitor import FormDep, page_router

router = page_router()

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_US: Final = 1_000


@router.post("/rules/{rule_id}/backfills")
@needs(Permission.WRITE, by_tenant=True)
def start_backfill(rule_id: str, form: FormDep, context: ContextDep, caller: CallerDep) -> Response:
    """Run a rule over the spans that start between two instants."""
    kept = rule_access.find_own(context, caller, rule_id)
    from_ns, to_ns = (_instant_ns(name, form.required(name)) for name in ("from", "to"))
    rule_access.start_backfill(context, kept, from_ns, to_ns)
    return see_other(f"/rules/{rule_id}#backfills")


@router.post("/rules/{rule_id}/baseline")
@needs(Permission.WRITE, by_tenant=True)
def start_baseline(rule_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Start a backfill over the results that the rule's monitors lack for a comparison."""
    rule_documents.start_baseline(context, rule_access.find_own(context, caller, rule_id).active)
    return see_other(f"/rules/{rule_id}#backfills")


@router.post("/rules/{rule_id}/backfills/{backfill_id}/cancel")
@needs(Permission.WRITE, by_tenant=True)
def cancel_backfill(rule_id: str, backfill_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Cancel a backfill; its results stay."""
    rule_access.cancel_backfill(context, rule_access.find_own(context, caller, rule_id), backfill_id)
    return see_other(f"/rules/{rule_id}#backfills")


def as_input(time_ns: int) -> str:
    """Format an instant for a `datetime-local` input, in UTC, to the minute."""
    return (_EPOCH + dt.timedelta(microseconds=time_ns // _US)).strftime("%Y-%m-%dT%H:%M")


def _instant_ns(name: str, text: str) -> int:
    try:
        instant = dt.datetime.fromisoformat(text)
    except ValueError:
        raise HTTPException(400, f"{name}: must be an instant such as 2026-11-21T10:00, in UTC") from None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=dt.UTC)
    return moment_ns(instant)
