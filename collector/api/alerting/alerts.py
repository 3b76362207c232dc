"""Alerts over HTTP."""

import time
from typing import Annotated

from fastapi import Query
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.access.tenants import refuse_shared
from collector.api.base.context import Context
from collector.api.base.json_encoding import json_response
from collector.api.base.pages import MAX_PAGE
from collector.api.base.problems import problem
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.responses.alerting import AlertDetail, AlertDocument, AlertPage, CorrectedDifferenceDocument
from collector.api.responses.declaration import response_model
from collector.api.review.judge_accuracy import corrected_alert
from collector.delivery.alert_document import alert_document
from collector.metric_monitor_text import metric_named
from storage.alerting.alerts import Alert, AlertFilter
from storage.errors import NotFound
from storage.records import AlertKind, AlertState, Severity

router = api_router(prefix="/api/v1/alerts")


class Acknowledgement(BaseModel):
    """The person who takes care of an alert."""

    model_config = ConfigDict(extra="forbid")

    by: str | None = Field(default=None, min_length=1, max_length=200)


class AlertQuery(BaseModel):
    """Filter and page of the alert list. `rule` is an id or a name."""

    model_config = ConfigDict(extra="forbid")

    project: str | None = None
    rule: str | None = None
    state: AlertState | None = None
    kind: AlertKind | None = None
    metric: Annotated[str | None, BeforeValidator(metric_named)] = None
    severity: Severity | None = None
    page: int = Field(default=0, ge=0, le=MAX_PAGE)
    size: int = Field(default=50, ge=1, le=200)


@router.get("")
@needs(Permission.READ, by_tenant=True)
@response_model(AlertPage)
def list_alerts(context: ContextDep, caller: CallerDep, query: Annotated[AlertQuery, Query()]) -> Response:
    """List alerts, most recently opened first."""
    filters = AlertFilter(**query.model_dump(exclude={"page", "size"}))
    alerts = context.store.alerts.newest(
        filters, tenant=caller.visible_tenant, offset=query.page * query.size, limit=query.size + 1
    )
    return json_response(AlertPage.page([alert_document(alert) for alert in alerts], query.page, query.size))


@router.get("/{alert_id}")
@needs(Permission.READ, by_tenant=True)
@response_model(AlertDetail)
def show_alert(alert_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Return an alert with its evidence."""
    alert = _seen(context, caller, alert_id)
    difference = corrected_alert(context, alert.finding)
    corrected = None if difference is None else CorrectedDifferenceDocument.of(difference)
    return json_response({**alert_document(alert), "corrected": corrected})


@router.post("/{alert_id}/acknowledge")
@needs(Permission.WRITE, by_tenant=True)
@response_model(AlertDocument)
def acknowledge(
    alert_id: str, context: ContextDep, caller: CallerDep, body: Acknowledgement | None = None
) -> JSONResponse:
    """Acknowledge an alert; repeating it is not an error. 409: the alert ended before anyone acknowledged it."""
    before = _own(context, caller, alert_id)
    tenant = before.finding.tenant
    context.store.alerts.acknowledge(alert_id, time.time_ns(), by=body.by if body else None, tenant=tenant)
    alert = context.store.alerts.get(alert_id, tenant=tenant) or before
    if alert.acknowledged_at_ns is None:
        return problem(409, f"alert {alert_id} is over; there is nothing to look after")
    return JSONResponse(alert_document(alert))


@router.post("/{alert_id}/resolve")
@needs(Permission.WRITE, by_tenant=True)
@response_model(AlertDocument)
def resolve(alert_id: str, context: ContextDep, caller: CallerDep, body: Acknowledgement | None = None) -> JSONResponse:
    """Resolve an alert: receivers are notified of this end, and of nothing later in the episode. 409: it was over."""
    before = _own(context, caller, alert_id)
    tenant = before.finding.tenant
    by = (body.by if body else None) or caller.key_name
    if not context.store.alerts.recover(alert_id, {"how": "resolved", "by": by}, time.time_ns(), tenant=tenant):
        return problem(409, f"alert {alert_id} is over")
    return JSONResponse(alert_document(context.store.alerts.get(alert_id, tenant=tenant) or before))


def _seen(context: Context, caller: Caller, alert_id: str) -> Alert:
    alert = context.store.alerts.get(alert_id, tenant=caller.visible_tenant)
    if alert is None:
        raise NotFound(f"no alert {alert_id} here")
    return alert


def _own(context: Context, caller: Caller, alert_id: str) -> Alert:
    alert = _seen(context, caller, alert_id)
    refuse_shared(caller, alert.finding.tenant, f"the alert {alert_id}")
    return alert
