"""Check that model calls requested over MCP have a budget."""

import json
from collections.abc import Mapping
from typing import Any, Final

from collector.live.rules.executor_kinds import executor_kind_of
from collector.mcp.client import Api
from collector.mcp.errors import ToolRefused
from rules.errors import BadRule
from rules.rule_text import parse_json

_MOST_CONNECTIONS: Final = 200
_LIMITS: Final = ("callsPerDay", "tokensPerDay", "usdPerDay")


def asks_a_model(rule: Mapping[str, Any]) -> bool:
    """Return True if a rule calls a model. False for an unreadable rule, which the server refuses with the reason."""
    try:
        return executor_kind_of(parse_json(json.dumps(rule)).rule) == "judge"
    except BadRule:
        return False


def is_limited(budget: object) -> bool:
    """Return True if a budget sets a limit."""
    return isinstance(budget, Mapping) and any(budget.get(limit) is not None for limit in _LIMITS)


async def limited_connection(api: Api, name: str | None, argument: str = "connection", model: str | None = None) -> str:
    """Return the named connection; without a name, the only one of the model, else the only one.

    Raises:
        ToolRefused: there is none, or its budget sets no limit; the message says what to do.
    """
    by_name = {each["name"]: each for each in await api.listed("/api/v1/llm-connections", _MOST_CONNECTIONS)}
    fitting = [each for each in by_name if by_name[each]["model"] == model] or list(by_name)
    chosen = name or (fitting[0] if len(fitting) == 1 else None)
    if chosen not in by_name:
        whose = "a judge" if argument == "connection" else "a model that answers"
        raise ToolRefused(
            f"{whose} needs the name of its `{argument}`; there are: {', '.join(sorted(by_name)) or 'none'}"
        )
    if not is_limited(by_name[chosen].get("budget")):
        raise ToolRefused(
            f"the connection {chosen!r} has no budget, and nothing is spent from here without one: an administrator of "
            "it can set one, such as {'callsPerDay': 1000}"
        )
    return str(chosen)
