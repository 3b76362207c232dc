"""Traces: found, shown in outline, span by span, and why they were or were not judged."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from collector.mcp.asking import Api, part
from collector.mcp.errors import ToolRefused
from collector.mcp.tool import Answer, Arguments, Tool
from collector.result_words import OutcomeName

SEARCH_MS = 120
"""For looking back through traces, so that an answer comes within 300 ms. What is rare may need another look."""

Number = int | float | str | None  # what JSON has no number for is a text


class TraceLine(BaseModel):
    """A trace as a list tells it."""

    traceId: str
    project: str
    serviceName: str
    rootSpanName: str
    startTime: str | None
    durationMs: Number
    spanCount: int
    errorCount: int


class FindTraces(Arguments):
    """Which traces."""

    project: str | None = Field(default=None, description="Of this project.")
    service: str | None = Field(default=None, description="Of this service.")
    name: str | None = Field(default=None, description="The name of the root span holds this.")
    status: Literal["ok", "error"] | None = Field(default=None, description="error: a span failed.")
    since: str | None = Field(default=None, description="Started at or after, RFC 3339, such as 2026-11-21T10:00:00Z.")
    until: str | None = Field(default=None, description="Started before, RFC 3339.")
    session: str | None = Field(default=None, description="Of this session (conversation).")
    text: str | None = Field(default=None, description="Input or output of a span holds this.")
    model: str | None = Field(default=None, description="A span asked this model.")
    attribute: str | None = Field(default=None, description="key=value of a span or its resource.")
    rule: str | None = Field(default=None, description="Judged by this rule (name or id); see `passed` and `outcome`.")
    passed: bool | None = Field(default=None, description="With rule: those that passed, or did not.")
    outcome: OutcomeName | None = Field(default=None, description="With rule. failed: with no verdict.")
    limit: int = Field(default=20, ge=1, le=100)
    before: str | None = Field(default=None, description="The `next` of the answer before, to go on.")


class FoundTraces(Answer):
    """Traces, the newest first."""

    traces: list[TraceLine]
    next: str | None = Field(description="Ask again with this as `before`; null: there are no more.")
    last: bool
    searched_to: str | None = Field(
        description="Null, or: the time was over, and all that started after this was looked through. There may be "
        "more before it: ask again with `before`, or with a shorter `since` and `until`."
    )


async def find_traces(api: Api, asked: FindTraces) -> FoundTraces:
    """Look them up."""
    filters = asked.model_dump(exclude={"since", "until", "limit"}, exclude_none=True)
    bounds = {"from": asked.since, "to": asked.until, "size": asked.limit, "withinMs": SEARCH_MS}
    page = await api.get("/api/v1/traces", **filters, **bounds)
    return FoundTraces(traces=page["content"], next=page["next"], last=page["last"], searched_to=page["searchedTo"])


class GetTrace(Arguments):
    """Which trace."""

    trace_id: str = Field(description="32 hexadecimal digits.")
    tenant: str | None = None
    first_span: int = Field(default=0, ge=0, description="The outline begins with the span at this place.")
    spans: int = Field(default=100, ge=0, le=500, description="So many spans in the outline.")


class SpanLine(BaseModel):
    """A span in outline."""

    spanId: str
    parentSpanId: str | None
    name: str
    spanType: str
    startTime: str | None
    durationMs: Number
    model: str | None
    toolName: str | None
    inputTokens: int | None
    outputTokens: int | None
    costUsd: Number
    error: str | None


class ShownTrace(Answer):
    """What a trace means, and its spans in outline."""

    traceId: str
    project: str
    serviceName: str
    startTime: str | None
    durationMs: Number
    spanCount: int
    errorCount: int
    inputTokens: int | None
    outputTokens: int | None
    costUsd: Number
    sessionId: str | None
    userId: str | None
    input: str | None
    output: str | None
    toolCalls: list[dict[str, Any]]
    evaluations: list[dict[str, Any]] = Field(description="Results of rules about the trace.")
    spans: list[SpanLine]
    summedSpanCount: int = Field(description="Tokens and cost are of the first so many spans.")
    truncated: bool = Field(default=False, description="There are more spans and toolCalls.")


async def get_trace(api: Api, asked: GetTrace) -> ShownTrace:
    """Show it."""
    found = await _trace(api, asked.trace_id, asked.tenant)
    taken = {name: found[name] for name in ShownTrace.model_fields if name in found}
    spans = found["spans"][asked.first_span : asked.first_span + asked.spans]
    lines = [{name: span[name] for name in SpanLine.model_fields} for span in spans]
    return ShownTrace(**(taken | {"spans": lines, "evaluations": list(map(judged, found["evaluations"]))}))


class GetSpan(Arguments):
    """Which span."""

    trace_id: str
    span_id: str = Field(description="16 hexadecimal digits.")
    tenant: str | None = None


class ShownSpan(Answer):
    """A span with all that came: attributes, events, what it means, and what rules said of it."""

    span: dict[str, Any]


async def get_span(api: Api, asked: GetSpan) -> ShownSpan:
    """Show it."""
    return ShownSpan(span=_span_of(await _trace(api, asked.trace_id, asked.tenant), asked.span_id))


class ExplainDecisions(Arguments):
    """About what."""

    trace_id: str
    span_id: str | None = Field(default=None, description="Of this span alone; without it: of the trace and all spans.")
    rule: str | None = Field(default=None, description="Of this rule alone, by its name or id.")
    tenant: str | None = None


class Decided(BaseModel):
    """What a rule decided about a trace or a span."""

    spanId: str | None
    rule: str
    decision: str = Field(description="scored, failed, filtered, not sampled, waiting, …")
    clause: str | None = Field(description="The condition that was not met.")


class Explained(Answer):
    """What each rule decided, and what came of it."""

    decisions: list[Decided]
    evaluations: list[dict[str, Any]]


async def explain_decisions(api: Api, asked: ExplainDecisions) -> Explained:
    """Look up what rules decided."""
    found = await _trace(api, asked.trace_id, asked.tenant)
    spans = [_span_of(found, asked.span_id)] if asked.span_id else [found, *found["spans"]]
    decisions: list[Decided] = []
    evaluations: list[dict[str, Any]] = []
    for each in spans:
        where = {"spanId": each.get("spanId")}
        decisions += [
            Decided(spanId=each.get("spanId"), **{k: one[k] for k in ("rule", "decision", "clause")})
            for one in _about(each, asked.rule)
        ]
        evaluations += [judged(one) | where for one in each["evaluations"] if _is_of(one, asked.rule)]
    return Explained(decisions=decisions, evaluations=evaluations)


async def _trace(api: Api, trace_id: str, tenant: str | None) -> dict[str, Any]:
    found: dict[str, Any] = await api.get(f"/api/v1/traces/{part(trace_id)}", tenant=tenant)
    return found


def _span_of(trace: dict[str, Any], span_id: str) -> dict[str, Any]:
    for span in trace["spans"]:
        if span["spanId"] == span_id:
            return dict(span)
    raise ToolRefused(f"the trace {trace['traceId']} has no span {span_id}; get_trace lists its spans")


def _about(target: dict[str, Any], rule: str | None) -> list[dict[str, Any]]:
    return [one for one in target["decisions"] if _is_of(one, rule)]


def _is_of(told: dict[str, Any], rule: str | None) -> bool:
    return rule is None or rule in {told["rule"], told["ruleId"]}


def judged(told: dict[str, Any]) -> dict[str, Any]:
    """What an answer tells of the result of a rule."""
    kept = ("rule", "evaluator", "name", "outcome", "score", "passed", "threshold", "reason", "errorKind", "release")
    return {key: told[key] for key in (*kept, "createdAt", "superseded")}


TOOLS = (
    Tool(
        name="find_traces",
        title="Find traces",
        description="Traces by project, service, status, time, text, model, attribute, session or what a rule said.",
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
        title="Why a trace was or was not judged",
        description="What each rule decided about a trace or span, by which condition, and what came of it.",
        arguments=ExplainDecisions,
        answer=Explained,
        run=explain_decisions,
    ),
)
