"""All tools, in the order in which clients are told of them."""

from collections.abc import Mapping
from typing import Final

from collector.mcp.tool import AnyTool
from collector.mcp.tools import alerts, datasets, evaluations, rules, runs, sessions, tables, traces

TOOLS: Final[tuple[AnyTool, ...]] = (
    *runs.TOOLS,
    *evaluations.TOOLS,
    *traces.TOOLS,
    *sessions.TOOLS,
    *alerts.TOOLS,
    *rules.TOOLS,
    *datasets.TOOLS,
    *tables.TOOLS,
)
BY_NAME: Final[Mapping[str, AnyTool]] = {tool.name: tool for tool in TOOLS}
