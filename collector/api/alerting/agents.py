"""Agents over HTTP: their numbers now, a day and a week earlier."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from fastapi import Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from collector.access.permission import Permission, needs
from collector.alert_lines import alerts_of_service
from collector.api.base.json_encoding import json_response
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.responses.agents import AgentDocument, AgentList, AgentNumbersDocument
from collector.api.responses.declaration import response_model
from storage.alerting.alerts import AlertFilter
from storage.query.agents import AgentsAt

router = api_router(prefix="/api/v1/agents")

_LENGTHS_NS: Final[Mapping[str, int]] = {
    "hour": 3_600_000_000_000,
    "day": 86_400_000_000_000,
    "week": 604_800_000_000_000,
}
_MOST_ALERTS: Final = 200  # of each state, the newest ones


class AgentQuery(BaseModel):
    """The window of time, which ends now, and the project."""

    model_config = ConfigDict(extra="forbid")

    period: Literal["hour", "day", "week"] = "day"
    project: str | None = None
    size: int = Field(default=50, ge=1, le=200)


@router.get("")
@needs(Permission.READ, by_tenant=True)
@response_model(AgentList)
def list_agents(context: ContextDep, caller: CallerDep, query: Annotated[AgentQuery, Query()]) -> Response:
    """List the agents of the last hour, day or week, those with more failed traces than before first."""
    until_ns, length_ns = context.now_ns(), _LENGTHS_NS[query.period]
    at = AgentsAt.between(
        until_ns - length_ns, until_ns, step_ns=length_ns, project=query.project, tenant=caller.visible_tenant
    )
    listed = context.store.agents.find(at)
    alerts = [
        alert
        for state in ("open", "acknowledged")
        for alert in context.store.alerts.newest(
            AlertFilter(state=state, project=query.project), tenant=caller.visible_tenant, limit=_MOST_ALERTS
        )
    ]
    agents = [
        AgentDocument.of(
            each,
            day_earlier=AgentNumbersDocument.of(each.day) if at.has_day else None,
            open_alert_ids=[alert.alert_id for alert in alerts_of_service(alerts, each.key.project, each.key.service)],
        )
        for each in listed.agents[: query.size]
    ]
    return json_response(
        AgentList.of(at, named=listed.are_named, agents=agents, truncated=len(listed.agents) > query.size)
    )
