"""Nothing that a model asks for spends money without a budget."""

import json
from collections.abc import Mapping
from typing import Any, Final

from collector.live.rules.executor_kinds import executor_kind_of
from collector.mcp.asking import Api
from collector.mcp.errors import ToolRefused
from rules.errors import BadRule
from rules.rule_text import parse_json

_MOST_CONNECTIONS: Final = 200
_LIMITS: Final = ("callsPerDay", "tokensPerDay", "usdPerDay")


def asks_a_model(rule: Mapping[str, Any]) -> bool:
    """Whether a rule has a model asked. One that cannot be read has not; the server refuses it and says why."""
    try:
        return executor_kind_of(parse_json(json.dumps(rule)).rule) == "judge"
    except BadRule:
        return False


def is_limited(budget: object) -> bool:
    """Whether a budget sets a limit."""
    return isinstance(budget, Mapping) and any(budget.get(limit) is not None for limit in _LIMITS)


async def limited_connection(api: Api, name: str | None, argument: str = "connection", model: str | None = None) -> str:
    """The connection of that name, or the only one, or the only one of a model, whose budget sets a limit.

    Raises:
        ToolRefused: there is none; the message says what to do, and which argument names one.
    """
    found = {each["name"]: each for each in await api.listed("/api/v1/llm-connections", _MOST_CONNECTIONS)}
    fitting = [each for each in found if found[each]["model"] == model] or list(found)
    chosen = name or (fitting[0] if len(fitting) == 1 else None)
    if chosen not in found:
        whose = "a judge" if argument == "connection" else "a model that answers"
        raise ToolRefused(
            f"{whose} needs the name of its `{argument}`; there are: {', '.join(sorted(found)) or 'none'}"
        )
    if not is_limited(found[chosen].get("budget")):
        raise ToolRefused(
            f"the connection {chosen!r} has no budget, and nothing is spent from here without one: whoever administers "
            "it can set one, such as {'callsPerDay': 1000}"
        )
    return str(chosen)
