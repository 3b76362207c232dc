"""Execution metrics: limits of a run's calls, tokens, cost and time."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Self

from pydantic import Field, model_validator
from pydantic.alias_generators import to_camel

from evaluators.captured import require_read
from evaluators.configuration import Amount, Configuration, Count, Share
from evaluators.errors import NotCaptured
from evaluators.evaluator import Assessment, Check, EvaluatorKind, pure
from evaluators.model import Case
from evaluators.summary import RunSummary, summary_of

_ROUNDING: Final = 1e-9
"""Tolerance for the rounding of binary fractions, so that 0.8 is within 0.2 of 0.6."""


class ExecutionMetrics(Configuration):
    """The limits. Each one that is given is one check."""

    max_tool_calls: Count | None = Field(default=None, description="Tool calls.")
    max_llm_calls: Count | None = Field(default=None, description="Calls of models.")
    max_tokens: Count | None = Field(default=None, description="Input and output tokens together, with cached ones.")
    max_cost_usd: Amount | None = Field(default=None, description="Cost in US dollars.")
    max_duration_ms: Amount | None = Field(default=None, description="Time from start to end.")
    target_exploration_ratio: Share | None = Field(
        default=None, description="The target share of tool calls that explore instead of acting."
    )
    exploration_tolerance: Share = Field(default=0.2, description="The tolerance of that share.")
    exploration_tools: tuple[str, ...] = Field(
        default=("read", "grep", "glob", "search", "list", "Read", "Grep", "Glob", "WebSearch", "WebFetch"),
        description="The tools that look around, by their exact names.",
    )

    @model_validator(mode="after")
    def _some_limit(self) -> Self:
        names = [*_MEASURES, "target_exploration_ratio"]
        if all(getattr(self, name) is None for name in names):
            raise ValueError(f"needs at least one limit of {', '.join(map(to_camel, names))}")
        return self


def execution_metrics(settings: ExecutionMetrics) -> Check:
    """Compute the share of limits that the run kept, among those whose actual value is known."""
    limits = {name: limit for name in _MEASURES if (limit := getattr(settings, name)) is not None}
    target, tolerance = settings.target_exploration_ratio, settings.exploration_tolerance

    def check(case: Case) -> Assessment:
        require_read(case, "traceSummary")  # the only source of tokens, cost and time
        summary = summary_of(case, settings.path)
        results = [_result(name, limit, _MEASURES[name](summary)) for name, limit in limits.items()]
        if target is not None:
            ratio = _exploration(summary, settings.exploration_tools)
            kept = ratio is not None and abs(ratio - target) <= tolerance + _ROUNDING
            results.append({"limit": "targetExplorationRatio", "wanted": target, "actual": ratio, "passed": kept})
        known = [result for result in results if result["actual"] is not None]
        unknown = [str(result["limit"]) for result in results if result["actual"] is None]
        if not known:
            raise NotCaptured(f"the numbers for {', '.join(unknown)}")
        kept_count = [result["passed"] for result in known].count(True)
        exceeded = "; ".join(_limit_text(result) for result in known if not result["passed"])
        reason = f"{kept_count} of {len(known)} limits are kept{': ' * bool(exceeded)}{exceeded}."
        return Assessment(
            score=kept_count / len(known),
            reason=f"{reason} Not known: {', '.join(unknown)}." if unknown else reason,
            metadata={"limits": known} | ({"notCaptured": unknown} if unknown else {}),
            by_less=bool(unknown),
        )

    return pure(check)


def _result(name: str, limit: float, actual: float | None) -> Mapping[str, Any]:
    return {
        "limit": to_camel(name), "wanted": limit, "actual": actual, "passed": actual is not None and actual <= limit,
    }  # fmt: skip


def _limit_text(result: Mapping[str, Any]) -> str:
    return f"{result['limit']} is {result['wanted']}, and it is {result['actual']}"


def _exploration(summary: RunSummary, tools: tuple[str, ...]) -> float | None:
    if not summary.event_count or summary.tool_calls_by_name is None:
        return None
    return sum(summary.tool_calls_by_name.get(tool, 0) for tool in set(tools)) / summary.event_count


_MEASURES: Final[Mapping[str, Callable[[RunSummary], float | None]]] = {
    "max_tool_calls": lambda summary: summary.event_count,
    "max_llm_calls": lambda summary: summary.llm_call_count,
    "max_tokens": lambda summary: summary.tokens,
    "max_cost_usd": lambda summary: summary.cost_usd,
    "max_duration_ms": lambda summary: summary.duration_ms,
}
"""The measure of each limit."""

KINDS: Final[tuple[EvaluatorKind[Any], ...]] = (
    EvaluatorKind(
        name="execution_metrics",
        title="Execution Metrics",
        version=2,
        checks="The run kept to its limits of calls, tokens, cost and time.",
        reads=("actualOutputs.toolCalls", "metadata.traceSummary"),
        configuration=ExecutionMetrics,
        check=execution_metrics,
    ),
)
