"""Traces: found, shown in outline, span by span, and why they were or were not judged."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from collector.api.responses.traces import DecisionDocument, SpanDocument, TraceDocument, TraceSummaryDocument
from collector.mcp.client import Api, part
from collector.mcp.errors import ToolRefused
from collector.mcp.tool import Arguments, Tool, ToolOutput, shows
from collector.result_labels import OutcomeName
from storage.query.text_pattern import SEARCHED

SEARCH_MS = 120
"""Time for a search back through traces, so that an answer takes 300 ms at most. For rare traces, search again."""

_HEAD = ("traceId", "project", "serviceName", "startTime", "durationMs", "spanCount", "errorCount")
_USED = ("inputTokens", "outputTokens", "costUsd")


@shows(TraceSummaryDocument, *_HEAD, "rootSpanName")
class TraceLine(BaseModel):
    """A trace of a list."""


class FindTraces(Arguments):
    """Filters of the traces."""

    project: str | None = Field(default=None, description="Only of this project.")
    service: str | None = Field(default=None, description="Only of this service.")
    name: str | None = Field(default=None, description="The name of the root span holds this.")
    status: Literal["ok", "error"] | None = Field(default=None, description="error: a span failed.")
    since: str | None = Field(default=None, description="Started at or after, RFC 3339, such as 2026-11-21T10:00:00Z.")
    until: str | None = Field(default=None, description="Started before, RFC 3339.")
    session: str | None = Field(default=None, description="Only of this session (conversation).")
    text: str | None = Field(default=None, description=f"A text in a span, in any case: {SEARCHED}.")
    model: str | None = Field(default=None, description="A span called this model.")
    attribute: str | None = Field(default=None, description="key=value of a span or its resource.")
    rule: str | None = Field(default=None, description="Judged by this rule (name or id); see `passed` and `outcome`.")
    passed: bool | None = Field(default=None, description="With rule: those that passed, or did not.")
    outcome: OutcomeName | None = Field(default=None, description="With rule. failed: with no verdict.")
    limit: int = Field(default=20, ge=1, le=100)
    before: str | None = Field(default=None, description="The `next` of the answer before, to go on.")


class FoundTraces(ToolOutput):
    """Traces, the newest first."""

    traces: list[TraceLine]
    next: str | None = Field(description="Ask again with this as `before`; null: there are no more.")
    last: bool
    searched_to: str | None = Field(
        description="Null, or: the time was over, and all that started after this was looked through. There may be "
        "more before it: ask again with `before`, or with a shorter `since` and `until`."
    )


async def find_traces(api: Api, arguments: FindTraces) -> FoundTraces:
    """Find traces that match the filters."""
    filters = arguments.model_dump(exclude={"since", "until", "limit"}, exclude_none=True)
    bounds = {"from": arguments.since, "to": arguments.until, "size": arguments.limit, "withinMs": SEARCH_MS}
    page = await api.get("/api/v1/traces", **filters, **bounds)
    return FoundTraces(traces=page["content"], next=page["next"], last=page["last"], searched_to=page["searchedTo"])


class GetTrace(Arguments):
    """The trace."""

    trace_id: str = Field(description="32 hexadecimal digits.")
    tenant: str | None = None
    first_span: int = Field(default=0, ge=0, description="Index of the first span in the outline, from 0.")
    spans: int = Field(default=100, ge=0, le=500, description="So many spans in the outline.")


@shows(
    SpanDocument,
    *("spanId", "parentSpanId", "name", "spanType", "startTime", "durationMs", "model", "toolName", *_USED, "error"),
)
class SpanLine(BaseModel):
    """A span in outline."""


@shows(TraceDocument, *_HEAD, *_USED, "summedSpanCount", "sessionId", "userId", "input", "output", "toolCalls")
class ShownTrace(ToolOutput):
    """A trace as read, and its spans in outline."""

    evaluations: list[dict[str, Any]] = Field(description="Results of rules about the trace.")
    spans: list[SpanLine]
    truncated: bool = Field(default=False, description="There are more spans and toolCalls.")


async def get_trace(api: Api, arguments: GetTrace) -> ShownTrace:
    """Show a trace, and a part of its spans in outline."""
    trace = await _trace(api, arguments.trace_id, arguments.tenant)
    spans = trace["spans"][arguments.first_span : arguments.first_span + arguments.spans]
    return ShownTrace(**(trace | {"spans": spans, "evaluations": list(map(judged, trace["evaluations"]))}))


class GetSpan(Arguments):
    """The span."""

    trace_id: str
    span_id: str = Field(description="16 hexadecimal digits.")
    tenant: str | None = None


class ShownSpan(ToolOutput):
    """A span whole: attributes, events, its reading, and the results of rules."""

    span: dict[str, Any]


async def get_span(api: Api, arguments: GetSpan) -> ShownSpan:
    """Show a span whole."""
    return ShownSpan(span=_span_of(await _trace(api, arguments.trace_id, arguments.tenant), arguments.span_id))


class ExplainDecisions(Arguments):
    """The trace or span, and the rule."""

    trace_id: str
    span_id: str | None = Field(
        default=None, description="Only of this span; by default of the trace and all its spans."
    )
    rule: str | None = Field(default=None, description="Only of this rule, by its name or id.")
    tenant: str | None = None


@shows(DecisionDocument, "rule", "decision", "clause")
class Decided(BaseModel):
    """Decision of a rule about a trace or a span."""

    spanId: str | None


class Explained(ToolOutput):
    """Decisions of each rule, and their results."""

    decisions: list[Decided]
    evaluations: list[dict[str, Any]]


async def explain_decisions(api: Api, arguments: ExplainDecisions) -> Explained:
    """Look up the decisions of rules."""
    trace = await _trace(api, arguments.trace_id, arguments.tenant)
    spans = [_span_of(trace, arguments.span_id)] if arguments.span_id else [trace, *trace["spans"]]
    decisions: list[Decided] = []
    evaluations: list[dict[str, Any]] = []
    for each in spans:
        where = {"spanId": each.get("spanId")}
        decisions += [Decided(**(one | where)) for one in _about(each, arguments.rule)]
        evaluations += [judged(one) | where for one in each["evaluations"] if _is_of(one, arguments.rule)]
    return Explained(decisions=decisions, evaluations=evaluations)


async def _trace(api: Api, trace_id: str, tenant: str | None) -> dict[str, Any]:
    trace: dict[str, Any] = await api.get(f"/api/v1/traces/{part(trace_id)}", tenant=tenant)
    return trace


def _span_of(trace: dict[str, Any], span_id: str) -> dict[str, Any]:
    for span in trace["spans"]:
        if span["spanId"] == span_id:
            return dict(span)
    raise ToolRefused(f"the trace {trace['traceId']} has no span {span_id}; get_trace lists its spans")


def _about(target: dict[str, Any], rule: str | None) -> list[dict[str, Any]]:
    return [one for one in target["decisions"] if _is_of(one, rule)]


def _is_of(result: dict[str, Any], rule: str | None) -> bool:
    return rule is None or rule in {result["rule"], result["ruleId"]}


def judged(result: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a result that the tools show."""
    kept = ("rule", "evaluator", "name", "outcome", "score", "passed", "threshold", "reason", "errorKind", "release")
    return {key: result[key] for key in (*kept, "createdAt", "superseded")}


TOOLS = (
    Tool(
        name="find_traces",
        title="Find traces",
        description="Traces by project, service, status, time, text, model, attribute, session or result of a rule.",
        arguments=FindTraces,
        answer=FoundTraces,
        run=find_traces,
    ),
    Tool(
        name="get_trace",
        title="Show a trace",
        description="One trace: input, output, tool calls, tokens, cost, results of rules, and its spans in outline.",
        arguments=GetTrace,
        answer=ShownTrace,
        run=get_trace,
    ),
    Tool(
        name="get_span",
        title="Show a span",
        description="One span whole: attributes, messages, tool arguments and result, events, results of rules.",
        arguments=GetSpan,
        answer=ShownSpan,
        run=get_span,
    ),
    Tool(
        name="explain_decisions",
        title="Explain why a trace was judged or not",
        description="The decision of each rule about a trace or span, its condition, and the results.",
        arguments=ExplainDecisions,
        answer=Explained,
        run=explain_decisions,
    ),
)
