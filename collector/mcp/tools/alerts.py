"""Alerts: the changes for the worse, and their evidence."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from collector.access.permission import Permission
from collector.api.responses.alerting import AlertDocument
from collector.mcp.client import Api, part
from collector.mcp.tool import Arguments, Tool, ToolOutput, shows


class ListAlerts(Arguments):
    """Filters of the alerts."""

    project: str | None = None
    rule: str | None = Field(default=None, description="Name or id of a rule or of a monitor of a metric.")
    state: Literal["open", "acknowledged", "recovered"] | None = None
    limit: int = Field(default=20, ge=1, le=100)


@shows(
    AlertDocument,
    *("alertId", "line", "projectName", "serviceName", "ruleName", "kind", "severity", "state", "openedAt"),
    *("recoveredAt", "baseline", "candidate"),
)
class AlertLine(BaseModel):
    """An alert of a list."""


class ListedAlerts(ToolOutput):
    """Alerts, the newest first."""

    alerts: list[AlertLine]


async def list_alerts(api: Api, arguments: ListAlerts) -> ListedAlerts:
    """List alerts, the newest first."""
    filters = arguments.model_dump(exclude={"limit"}, exclude_none=True)
    page = await api.get("/api/v1/alerts", size=arguments.limit, **filters)
    return ListedAlerts(alerts=page["content"])


class OneAlert(Arguments):
    """The alert."""

    alert_id: str


class ShownAlert(ToolOutput):
    """An alert with its evidence."""

    alert: dict[str, Any]


async def get_alert(api: Api, arguments: OneAlert) -> ShownAlert:
    """Show an alert with its evidence."""
    return ShownAlert(alert=await api.get(f"/api/v1/alerts/{part(arguments.alert_id)}"))


async def acknowledge_alert(api: Api, arguments: OneAlert) -> ShownAlert:
    """Acknowledge an alert."""
    return ShownAlert(alert=await api.post(f"/api/v1/alerts/{part(arguments.alert_id)}/acknowledge", {}))


TOOLS = (
    Tool(
        name="list_alerts",
        title="List alerts",
        description="Alerts about quality or metrics that became worse, the newest first.",
        arguments=ListAlerts,
        answer=ListedAlerts,
        run=list_alerts,
    ),
    Tool(
        name="get_alert",
        title="Show an alert",
        description="One alert: both sides with intervals, evidence, examples of traces, and the SQL behind it.",
        arguments=OneAlert,
        answer=ShownAlert,
        run=get_alert,
    ),
    Tool(
        name="acknowledge_alert",
        title="Acknowledge an alert",
        description="Acknowledges an alert.",
        arguments=OneAlert,
        answer=ShownAlert,
        run=acknowledge_alert,
        permission=Permission.WRITE,
    ),
)
