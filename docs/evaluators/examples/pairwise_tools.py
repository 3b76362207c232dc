"""A code judge of whether the agent uses its tools better than a baseline did.

The baseline is what the case expects: its answer, and its tool calls. `compare` is asked twice, with the sides swapped,
and only a winner of both is believed. This one counts, so it cannot be biased; put a model in its place, and it can.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any

LONGER = 1.2
SCORES = {"candidate": 1.0, "baseline": 0.0, "tie": 0.5}

Side = tuple[Sequence[str], str]  # the tools that were called, and the answer


def compare(first: Side, second: Side) -> str:
    """Which side uses its tools better: "first", "second" or "tie"."""
    points = {"first": points_of(first, second), "second": points_of(second, first)}
    if points["first"] == points["second"]:
        return "tie"
    return max(points, key=lambda side: points[side])


def points_of(one: Side, other: Side) -> int:
    """A point for each of: fewer calls, more sorts of tools, a longer answer, tools where the other had none."""
    (calls, answer), (other_calls, other_answer) = one, other
    return (
        (0 < len(calls) < len(other_calls))
        + (len(set(calls)) > len(set(other_calls)))
        + (len(answer) > LONGER * len(other_answer))
        + (bool(calls) and not other_calls)
    )


def sides_of(case: dict[str, Any]) -> tuple[Side, Side]:
    """The candidate and the baseline."""
    messages = [message for message in case["output_messages"] or [] if message["role"] == "assistant"]
    candidate = [call["tool"] for message in messages for call in message.get("tool_calls", [])]
    expected = case["test_case"]["expectedOutputs"].get("toolCalls") or []
    return (candidate, case["candidate_answer"] or ""), ([call["name"] for call in expected], case["reference_answer"])


def main() -> None:
    """Read the case, print the verdict."""
    case = json.load(sys.stdin)
    if case["reference_answer"] is None:
        print(
            json.dumps({"score": 0.5, "hits": [], "misses": [], "reasoning": "There is no baseline to compare with."})
        )
        return
    candidate, baseline = sides_of(case)
    forward = {"first": "candidate", "second": "baseline", "tie": "tie"}[compare(candidate, baseline)]
    backward = {"first": "baseline", "second": "candidate", "tie": "tie"}[compare(baseline, candidate)]
    is_biased = forward != backward
    winner = "tie" if is_biased else forward
    answer = {
        "score": SCORES[winner],
        "hits": ["the candidate wins in both orders"] if winner == "candidate" else [],
        "misses": ["the baseline wins in both orders"] if winner == "baseline" else [],
        "reasoning": f"{winner}{', by position bias' if is_biased else ', in both orders'}",
        "details": {"winner": winner, "position_bias": is_biased, "orders": [forward, backward]},
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
