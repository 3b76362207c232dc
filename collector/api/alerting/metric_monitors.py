"""Monitors of metrics over HTTP: what is watched, how it stands, and when somebody is alerted."""

import uuid
from http import HTTPStatus
from typing import Annotated, TypeAlias

from fastapi import Depends, HTTPException, Response
from fastapi.responses import JSONResponse

from collector.access.permission import Permission, needs
from collector.api.access.tenants import Tenant, refuse_shared, tenant_of
from collector.api.answers.alerting import MetricMonitorDocument
from collector.api.answers.declared import answers
from collector.api.base.pages import PARTED, Part
from collector.api.base.routing import Here, Who, api_router
from collector.api.base.times import time_text
from collector.api.base.versions import GUARDED, TAGGED, TAGGED_NEW, IfMatch, created, require_seen, shown
from collector.live.monitors.metric_looks import metric_state_of, text_of
from collector.metric_monitor_text import MetricMonitorText
from storage.alerting.metric_monitors import MetricMonitorRow

router = api_router(prefix="/api/v1/metric-monitors")

_ONE = "/{monitor_id}"


def _row(monitor_id: str, here: Here, who: Who) -> MetricMonitorRow:
    found = here.metric_monitors.get(monitor_id, tenant=who.visible_tenant)
    if found is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, f"there is no metric monitor {monitor_id}")
    return found


Named: TypeAlias = Annotated[MetricMonitorRow, Depends(_row)]


@router.get("", responses=PARTED)
@needs(Permission.READ, by_tenant=True)
@answers(list[MetricMonitorDocument])
def list_metric_monitors(here: Here, who: Who, part: Part) -> list[dict[str, object]]:
    """All of them by name, and how they stand; a key with a tenant sees its own and those of none."""
    return [metric_monitor_document(row) for row in part.of(here.metric_monitors.all(tenant=who.visible_tenant))]


@router.post("", status_code=HTTPStatus.CREATED, responses=TAGGED_NEW)
@needs(Permission.WRITE, by_tenant=True)
@answers(MetricMonitorDocument)
def create_metric_monitor(body: MetricMonitorText, here: Here, who: Who, tenant: Tenant = None) -> JSONResponse:
    """Have a metric watched; 409 if there is one of that name."""
    monitor_id = uuid.uuid4().hex
    document = body.model_dump(mode="json", by_alias=True, exclude_none=True)
    here.metric_monitors.create(monitor_id, body.name, document, here.now_ns(), tenant=tenant_of(who, tenant))
    made = here.metric_monitors.get(monitor_id)
    return created(made and metric_monitor_document(made), 1, at=f"{router.prefix}/{monitor_id}")


@router.get(_ONE, responses=TAGGED)
@needs(Permission.READ, by_tenant=True)
@answers(MetricMonitorDocument)
def show_metric_monitor(row: Named) -> JSONResponse:
    """A metric monitor."""
    return shown(metric_monitor_document(row), row.version)


@router.put(_ONE, responses=TAGGED | GUARDED)
@needs(Permission.WRITE, by_tenant=True)
@answers(MetricMonitorDocument)
def replace_metric_monitor(
    row: Named, body: MetricMonitorText, here: Here, who: Who, if_match: IfMatch = ""
) -> JSONResponse:
    """Have it watch something else under the same id; it begins anew, and its alert is over."""
    refuse_shared(who, row.tenant, f"the metric monitor {row.name}")
    require_seen(row.version, if_match)
    document = body.model_dump(mode="json", by_alias=True, exclude_none=True)
    here.metric_monitors.replace(row, body.name, document, here.now_ns())
    replaced = here.metric_monitors.get(row.monitor_id)
    return shown(replaced and metric_monitor_document(replaced), row.version + 1)


@router.delete(_ONE, status_code=HTTPStatus.NO_CONTENT, responses=GUARDED)
@needs(Permission.WRITE, by_tenant=True)
def delete_metric_monitor(row: Named, here: Here, who: Who, if_match: IfMatch = "") -> Response:
    """Watch it no longer; its alert is over."""
    refuse_shared(who, row.tenant, f"the metric monitor {row.name}")
    require_seen(row.version, if_match)
    here.metric_monitors.delete(row, here.now_ns())
    return Response(status_code=HTTPStatus.NO_CONTENT)


def metric_monitor_document(row: MetricMonitorRow) -> dict[str, object]:
    """What a monitor says, and what its last look found."""
    text, state = text_of(row), metric_state_of(row)
    return {
        "id": row.monitor_id,
        "tenant": row.tenant,
        **text.model_dump(mode="json", by_alias=True),
        "unit": text.of.unit,
        "version": row.version,
        "standing": state.standing if text.enabled else "off",
        "value": state.value,
        "count": state.count,
        "failed": state.failed,
        "openAlertId": row.alert_id,
        "lookedAt": None if row.looked_us is None else time_text(row.looked_us * 1_000),
        "createdAt": time_text(row.created_us * 1_000),
        "updatedAt": time_text(row.updated_us * 1_000),
    }
