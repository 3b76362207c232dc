"""A code judge of whether the agent chose tools that fit its task.

Reads the families of tools that the words of the task call for, and compares them with the tools that were used. Words
are a rough measure: adapt FAMILIES to what your tools are called and your users ask for.
"""

import json
import math
import sys

FAMILIES = {
    "search": ("find", "search", "look", "query", "discover"),
    "fetch": ("get", "retrieve", "fetch", "download", "load"),
    "read": ("read", "open", "view", "examine", "inspect"),
    "write": ("write", "save", "create", "output", "generate"),
    "analyze": ("analyze", "process", "compute", "calculate"),
    "validate": ("check", "validate", "verify", "confirm"),
}
SHOWN = 4


def judge(task: str, tools: list[str]) -> tuple[list[str], list[str]]:
    """What speaks for the choice, and what against it; `tools` holds each name once."""
    wanted = [family for family, words in FAMILIES.items() if any(word in task for word in words)]
    hits, misses = [], []
    for tool in tools:
        name = tool.lower()
        if not wanted or any(family in name or name in family for family in wanted):
            hits.append(f"{tool} fits the task")
        else:
            misses.append(f"{tool} does not look needed")
    unused = [family for family in wanted if not any(family in tool.lower() for tool in tools)]
    misses += [f"no {family} tool was used, and the task calls for one" for family in unused]
    return hits, misses


def main() -> None:
    """Read the case, print the verdict."""
    case = json.load(sys.stdin)
    messages = [message for message in case["output_messages"] or [] if message["role"] == "assistant"]
    # Rules of live traces name `reads: [input, output, toolCalls]`, so that traces whose calls are unknown are skipped.
    tools = list(dict.fromkeys(call["tool"] for message in messages for call in message.get("tool_calls", [])))
    if not tools:
        print(
            json.dumps({"score": 0, "hits": [], "misses": ["no tool was called"], "reasoning": "No tool was called."})
        )
        return
    task = f"{case['question'] or ''} {case['criteria'] or ''}".lower()
    hits, misses = judge(task, tools)
    share = len(hits) / (len(hits) + len(misses))
    reasoning = f"Points for the choice of tools: {len(hits)}; against it: {len(misses)}."
    score = math.floor(share * 100 + 0.5) / 100
    print(json.dumps({"score": score, "hits": hits[:SHOWN], "misses": misses[:SHOWN], "reasoning": reasoning}))


if __name__ == "__main__":
    main()
