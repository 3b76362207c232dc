"""CPU time of each evaluator without a judge, for a trace of 8 calls, and of 100."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from evaluators.case import parse_case
from evaluators.evaluator import Evaluator, run
from evaluators.model import Case
from evaluators.outcome import Verdict
from evaluators.registry import build

EVALUATE_SECONDS: Final = 1.0
"""Each evaluator is measured for this long at most; the best of several rounds counts, since others share the core."""

SHORT_CALLS: Final = 8
LONG_CALLS: Final = 100
ROUNDS: Final = 8
TOOLS: Final = ("search_flights", "book_hotel", "get_weather", "send_mail")
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "origin": {"type": "string", "description": "Origin airport code"},
        "destination": {"type": "string", "description": "Destination airport code"},
        "nights": {"type": "integer", "minimum": 1},
        "cabin": {"type": "string", "enum": ["economy", "business"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["origin", "destination"],
    "additionalProperties": False,
}
CONFIGURATIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "tool_error": {},
    "tool_efficiency": {},
    "tool_call_count": {"toolCallsCount": {name: [">=", 1] for name in TOOLS}},
    "tool_call_validity": {},
    "tool_trajectory": {},
    "tool_correctness": {"matchMode": "NAMES_AND_ARGS"},
    "tool_call_order": {"toolCallsOrder": TOOLS},
    "tool_call_args": {"toolCalls": [{"name": name, "args": {"origin": "JFK"}} for name in TOOLS]},
    "tool_call_output": {"toolOutputs": [{"name": name, "output": "{'ok': True}"} for name in TOOLS]},
    "tool_steps": {"mode": "in_order", "expected": [{"tool": name, "args": {"origin": "JFK"}} for name in TOOLS]},
    "execution_metrics": {"maxToolCalls": 1000},
    "exact_match": {},
    "regex": {"pattern": r"\d{4}-\d{2}-\d{2}"},
    "length": {"maximumOutputLength": 1000},
    "structural_match": {"outputKey": "record"},
    "precision": {},
    "recall": {},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """CPU time of one evaluation, from a parsed document to its outcome."""

    name: str
    short_us: float
    long_us: float


def measure_evaluators(seconds: float) -> list[Cost]:
    """Measure the cost of each evaluator."""
    short, long = a_case(SHORT_CALLS), a_case(LONG_CALLS)
    costs = []
    for name, configuration in CONFIGURATIONS.items():
        evaluator = build(name, configuration)
        costs.append(
            Cost(
                name=name, short_us=_cost_us(evaluator, short, seconds), long_us=_cost_us(evaluator, long, seconds / 4)
            )
        )
    return costs


def a_case(calls: int) -> Case:
    """Return a trace of calls with five arguments each, in another order than expected at one place, as a document."""
    made = [
        {
            "name": TOOLS[number % len(TOOLS)],
            "arguments": {
                "origin": "JFK",
                "destination": "CDG",
                "nights": number + 1,
                "cabin": "economy",
                "tags": ["a", "b"],
            },
            "result": '{"content": {"ok": true}}',
            "id": f"call_{number}",
            "durationMs": 12.5,
        }
        for number in range(calls)
    ]
    middle = calls // 2
    expected = [*made[: middle - 1], made[middle], made[middle - 1], *made[middle + 1 :]]
    document = {
        "inputs": {"input": "Find flights from New York to Paris and book a hotel."},
        "actualOutputs": {"toolCalls": made, "output": "Booked for 2026-11-21.", "record": made, "retrieved": made},
        "expectedOutputs": {
            "toolCalls": expected,
            "output": "Booked for 2026-11-21.",
            "record": expected,
            "relevant": expected,
        },
        "metadata": {"tools": [{"name": name, "description": "A tool", "inputSchema": SCHEMA} for name in TOOLS]},
    }
    return parse_case(document)


def _cost_us(evaluator: Evaluator, case: Case, seconds: float) -> float:
    return min(asyncio.run(_round_us(evaluator, case, seconds / ROUNDS)) for _ in range(ROUNDS))


async def _round_us(evaluator: Evaluator, case: Case, seconds: float) -> float:
    done = 0
    start = time.process_time()
    while (spent := time.process_time() - start) < seconds or not done:
        outcome = await run(evaluator, case)
        if not isinstance(outcome, Verdict):
            raise TypeError(f"{evaluator.name}: {outcome}")
        done += 1
    return spent / done * 1e6
