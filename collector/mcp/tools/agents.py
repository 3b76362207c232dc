"""Agents: their numbers now, a day and a week earlier."""

from typing import Literal

from pydantic import BaseModel, Field

from collector.api.responses.agents import AgentDocument
from collector.mcp.client import Api
from collector.mcp.tool import Arguments, Tool, ToolOutput, shows


class ListAgents(Arguments):
    """The time and the project."""

    period: Literal["hour", "day", "week"] = Field(default="day", description="The time, which ends now.")
    project: str | None = None
    limit: int = Field(default=20, ge=1, le=100)


@shows(
    AgentDocument,
    *("projectName", "serviceName", "agentName", "now", "dayEarlier", "weekEarlier", "worst", "openAlertIds"),
)
class AgentLine(BaseModel):
    """An agent of a list."""


class ListedAgents(ToolOutput):
    """Agents, those with more failed traces than before first."""

    agents: list[AgentLine]
    named: bool = Field(description="False if there are too many spans to tell the agents of a service apart.")


async def list_agents(api: Api, arguments: ListAgents) -> ListedAgents:
    """List agents with their numbers and worst traces."""
    filters = arguments.model_dump(exclude={"limit"}, exclude_none=True)
    listed = await api.get("/api/v1/agents", size=arguments.limit, **filters)
    return ListedAgents(agents=listed["agents"], named=listed["named"])


TOOLS = (
    Tool(
        name="list_agents",
        title="List agents",
        description="Agents, with those that got worse at the top: traces, errors, latency, cost, pass rate, tokens "
        "and worst traces, now, a day and a week earlier.",
        arguments=ListAgents,
        answer=ListedAgents,
        run=list_agents,
    ),
)
