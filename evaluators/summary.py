"""Figures of a run, from its exporter or counted from its tool calls."""

from collections import Counter
from collections.abc import Mapping

from pydantic import Field, ValidationError

from evaluators.captured import NAMES_ONLY, missing
from evaluators.case import actual_calls, find
from evaluators.configuration import Amount, Count
from evaluators.errors import BadCase
from evaluators.model import Case
from evaluators.path import Path
from evaluators.wire import WireModel, explain


class TokenUsage(WireModel):
    """Tokens of a run; in the case of a trace, `input` includes cached tokens."""

    input: Count | None = None
    output: Count | None = None
    cached: Count | None = None


class RunSummary(WireModel):
    """A run in numbers. None: not known."""

    event_count: Count | None = Field(default=None, description="Tool calls.")
    tool_names: tuple[str, ...] | None = None
    tool_calls_by_name: Mapping[str, Count] | None = None
    error_count: Count | None = None
    llm_call_count: Count | None = None
    token_usage: TokenUsage | None = None
    cost_usd: Amount | None = None
    duration_ms: Amount | None = None
    start_time: str | None = None
    end_time: str | None = None
    tool_durations: Mapping[str, tuple[Amount, ...]] | None = None

    @property
    def tokens(self) -> int | None:
        """Return input and output tokens together; None if either is unknown."""
        usage = self.token_usage
        return None if usage is None or usage.input is None or usage.output is None else usage.input + usage.output


def summary_of(case: Case, path: Path | None = None) -> RunSummary:
    """Return `metadata.traceSummary`, with numbers of tool calls counted from the calls if it has none.

    Raises:
        BadCase: the case has neither, or one of them is malformed.
        NotCaptured: neither was captured, or read.

    """
    document = find(case, "metadata", "traceSummary")
    try:
        summary = RunSummary() if document is None else RunSummary.model_validate(document)
    except ValidationError as error:
        raise BadCase(explain(error, RunSummary, root="metadata.traceSummary")) from None
    if find(case, "actual_outputs", "toolCalls") is None:
        if document is None:
            raise missing(case, "toolCalls", "both metadata.traceSummary and actualOutputs.toolCalls are missing")
        return summary
    calls = Counter(call.name for call in actual_calls(case, path, reads=NAMES_ONLY))
    counted = {"event_count": calls.total(), "tool_calls_by_name": dict(calls)}
    unknown = {name: value for name, value in counted.items() if getattr(summary, name) is None}
    return summary.model_copy(update=unknown) if unknown else summary
