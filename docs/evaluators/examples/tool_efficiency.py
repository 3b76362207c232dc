"""A code judge of whether the agent got there with reasonable effort.

The mean of what is known of the run: calls, the share of exploring ones, tokens, cost. The limits are read from
`config`, so that one program serves several rules.
"""

import json
import math
import sys
from typing import Any

EXPLORING = ("read", "grep", "glob", "search", "list", "find", "get", "fetch", "query", "inspect", "view")
COMPLEX = ("multiple", "several", "comprehensive", "thorough", "analyze", "compare", "synthesize", "integrate")
LIMITS = {
    "max_tool_calls": 10,
    "exploration_ratio": 0.6,
    "exploration_tolerance": 0.2,
    "max_tokens": 2000,
    "max_tokens_complex": 10_000,
    "max_cost_usd": 0.01,
    "max_cost_usd_complex": 0.1,
}
NOT_EXPLORING_ENOUGH = 0.7
TOO_EXPENSIVE = 0.5
NOTHING_KNOWN = 0.5
ROUNDING = 1e-9

Part = tuple[float, str]


def of_calls(summary: dict[str, Any], limits: dict[str, float]) -> Part:
    """Calls up to the limit are free, and twice as many are worth nothing."""
    calls, limit = summary["event_count"], limits["max_tool_calls"]
    return 1 - min(max(calls - limit, 0) / limit, 1), f"{calls} tool calls, {limit:g} are reasonable"


def of_exploration(summary: dict[str, Any], limits: dict[str, float]) -> Part:
    """An agent that only looks, or never does, works less well than one that does both."""
    by_name, calls = summary.get("tool_calls_by_name", {}), summary["event_count"]
    exploring = sum(count for name, count in by_name.items() if any(word in name.lower() for word in EXPLORING))
    ratio = exploring / calls if calls else 0.0
    is_balanced = abs(ratio - limits["exploration_ratio"]) <= limits["exploration_tolerance"] + ROUNDING
    return 1.0 if is_balanced else NOT_EXPLORING_ENOUGH, f"{ratio:.0%} of the calls explore"


def of_tokens(tokens: dict[str, int], limit: float) -> Part:
    """Tokens up to the limit are free, and twice as many are worth half."""
    used = tokens.get("input", 0) + tokens.get("output", 0)
    return 1 - 0.5 * min(max(used - limit, 0) / limit, 1), f"{used} tokens, {limit:g} are reasonable"


def main() -> None:
    """Read the case, print the verdict."""
    case = json.load(sys.stdin)
    summary, limits = case["trace_summary"], LIMITS | (case["config"] or {})
    if summary is None:
        print(json.dumps({"score": NOTHING_KNOWN, "hits": [], "misses": ["nothing is known of the run"]}))
        return
    kind = "_complex" if any(word in (case["criteria"] or "").lower() for word in COMPLEX) else ""
    parts = [of_calls(summary, limits), of_exploration(summary, limits)] if "event_count" in summary else []
    if "token_usage" in summary:
        parts.append(of_tokens(summary["token_usage"], limits[f"max_tokens{kind}"]))
    if "cost_usd" in summary:
        cost, limit = summary["cost_usd"], limits[f"max_cost_usd{kind}"]
        parts.append((1.0 if cost <= limit else TOO_EXPENSIVE, f"{cost:g} USD, {limit:g} are reasonable"))
    score = sum(part for part, _ in parts) / len(parts) if parts else NOTHING_KNOWN
    answer = {
        "score": math.floor(score * 100 + 0.5) / 100,
        "hits": [text for part, text in parts if part == 1],
        "misses": [text for part, text in parts if part < 1],
        "reasoning": "; ".join(f"{part:.2f}: {text}" for part, text in parts),
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
