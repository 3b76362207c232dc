"""Monitors of metrics over HTTP: their definitions, their state, and when they alert."""

from collections.abc import Sequence
from typing import Any, Final

from collector.access.caller import Caller
from collector.api.base.context import Context
from collector.api.base.times import time_text
from collector.api.kernel import Creation, Operation, Resource, router_of
from collector.api.responses.alerting import MetricMonitorDocument
from collector.live.monitors.metric_looks import metric_state_of, text_of
from collector.metric_monitor_text import MetricMonitorText
from storage.alerting.metric_monitors import MetricMonitorRow


def _find(context: Context, tenant: str | None, monitor_id: str | None) -> Sequence[MetricMonitorRow]:
    if monitor_id is None:
        return context.store.metric_monitors.all(tenant=tenant)
    row = context.store.metric_monitors.get(monitor_id, tenant=tenant)
    return () if row is None else (row,)


def _create(context: Context, monitor_id: str, body: MetricMonitorText, new: Creation) -> None:
    context.store.metric_monitors.create(monitor_id, body.name, _stored(body), context.now_ns(), tenant=new["tenant"])


def _stored(body: MetricMonitorText) -> dict[str, Any]:
    return body.model_dump(mode="json", by_alias=True, exclude_none=True)


def metric_monitor_document(row: MetricMonitorRow, _: Caller) -> dict[str, object]:
    """Serialize a metric monitor with its state at its last evaluation."""
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


METRIC_MONITORS: Final = Resource[MetricMonitorRow, MetricMonitorText](
    module=__name__,
    path="/api/v1/metric-monitors",
    kind="metric monitor",
    key="monitor_id",
    longest_key=None,
    body=MetricMonitorText,
    document=MetricMonitorDocument,
    find=_find,
    create=_create,
    replace=lambda here, row, body: here.store.metric_monitors.replace(row, body.name, _stored(body), here.now_ns()),
    delete=lambda here, row: here.store.metric_monitors.delete(row, here.now_ns()),
    show=metric_monitor_document,
    title=lambda row: row.name,
    listing=Operation(
        "list_metric_monitors",
        "List metric monitors by name, with their state; a key with a tenant sees its own and those of no tenant.",
    ),
    creating=Operation("create_metric_monitor", "Create a metric monitor; 409 if the name is taken."),
    showing=Operation("show_metric_monitor", "Return a metric monitor."),
    replacing=Operation(
        "replace_metric_monitor",
        "Replace a metric monitor under the same id; its history begins again, and its alert ends.",
    ),
    deleting=Operation("delete_metric_monitor", "Delete a metric monitor; its alert ends."),
)

router = router_of(METRIC_MONITORS)
