"""Muting from the page of an alert: alerts like it are not sent to receivers for a while."""

import uuid
from collections.abc import Sequence
from typing import Final

from fastapi.responses import Response
from starlette.exceptions import HTTPException

from collector.access.permission import Permission, needs
from collector.api.access.tenants import refuse_shared
from collector.api.base.context import Context
from collector.api.base.routing import CallerDep, ContextDep
from collector.web.rendering import see_other
from collector.web.visitor import FormDep, page_router
from storage.alerting.alert_mutes import AlertMute
from storage.alerting.alerts import Alert, AlertFinding
from storage.errors import NotFound

router = page_router()

HOURS: Final = {"1": "an hour", "8": "8 hours", "24": "a day", "168": "a week"}
"""Choices of hours on the page; the API takes any time."""

_HOUR_NS: Final = 3_600_000_000_000


def mutes_of(context: Context, finding: AlertFinding) -> Sequence[AlertMute]:
    """Return the active mutes of an alert, ordered by their end."""
    return [
        mute
        for mute in context.store.alert_mutes.at(context.now_ns(), tenant=finding.tenant)
        if mute.project in {None, finding.project} and mute.rule in {None, finding.rule_id, finding.rule}
    ]


@router.post("/alerts/{alert_id}/mute")
@needs(Permission.WRITE, by_tenant=True)
def mute_alert(alert_id: str, context: ContextDep, caller: CallerDep, form: FormDep) -> Response:
    """Mute the rule and project of an alert for a number of hours; with `mute`, end that mute."""
    alert = context.store.alerts.get(alert_id, tenant=caller.visible_tenant)
    if alert is None:
        raise NotFound(f"there is no alert {alert_id}")
    refuse_shared(caller, alert.finding.tenant, f"the alert {alert_id}")
    if form.text("mute"):
        _unmute(context, alert, form.text("mute"))
    else:
        _mute(context, alert, form.required("hours"), caller.key_name)
    return see_other(f"/alerts/{alert.alert_id}")


def _unmute(context: Context, alert: Alert, mute_id: str) -> None:
    if mute_id in {mute.mute_id for mute in mutes_of(context, alert.finding) if mute.tenant == alert.finding.tenant}:
        context.store.alert_mutes.delete(mute_id, context.now_ns())


def _mute(context: Context, alert: Alert, hours: str, by: str | None) -> None:
    if hours not in HOURS:
        raise HTTPException(400, f"hours: is none of {', '.join(HOURS)}")
    now_ns = context.now_ns()
    mute = AlertMute(
        tenant=alert.finding.tenant,
        mute_id=uuid.uuid4().hex,
        project=alert.finding.project,
        rule=alert.finding.rule_id,
        until_ns=now_ns + int(hours) * _HOUR_NS,
        muted_by=by,
        created_at_ns=now_ns,
    )
    context.store.alert_mutes.add(mute)
