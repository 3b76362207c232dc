"""Traces, their spans, and what the rules made of them."""

from typing import Any, Literal

from pydantic import Field

from collector.api.answers.base import ApiAnswer, JsonNumber, JsonObject, PageAnswer
from collector.result_words import OutcomeName
from storage.records import SpanType


class TraceSummaryDocument(ApiAnswer):
    """A trace without its spans."""

    trace_id: str
    tenant: str
    project: str
    service_name: str
    root_span_name: str
    start_time: str | None
    end_time: str | None
    duration_ms: float | None
    span_count: int
    error_count: int
    expires_at: str | None


class TracePage(PageAnswer):
    """A page of traces."""

    content: list[TraceSummaryDocument]
    next: str | None = Field(
        description="With filters: where the list goes on. A page may be short where that takes long."
    )
    searched_to: str | None = Field(
        description="Of a page that is short because the time was over: all that started after this was looked through."
    )


class EvaluationDocument(ApiAnswer):
    """What came of one evaluation."""

    job_id: int
    rule_id: str
    rule: str
    revision: int
    digest: str
    evaluator: str
    name: str
    outcome: OutcomeName
    score: JsonNumber | None
    passed: bool | None
    threshold: JsonNumber | None
    reason: str | None
    error_kind: str | None
    metadata: Any
    fingerprint: str | None
    judge_model: str | None
    judge_calls: int | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: JsonNumber | None
    latency_ms: JsonNumber | None
    attempts: int
    release: str | None
    round: int
    superseded: bool
    created_at: str | None


class DecisionDocument(ApiAnswer):
    """What became of a span or a trace by one revision of a rule."""

    rule_id: str
    rule: str
    revision: int
    digest: str
    decision: str
    clause: str | None
    decided_at: str | None


class ExternalScoreDocument(ApiAnswer):
    """A score that somebody else gave and sent."""

    project: str | None
    name: str
    outcome: OutcomeName
    score: JsonNumber | None
    passed: bool | None
    label: str | None
    reason: str | None
    error_kind: str | None
    metadata: Any
    created_at: str | None


class OfferedToolDocument(ApiAnswer):
    """A tool that a model was offered."""

    name: str
    description: str | None
    parameters: Any


class ToolCallDocument(ApiAnswer):
    """One call of a tool."""

    ordinal: int
    span_id: str
    call_id: str | None
    name: str
    arguments: Any
    result: Any
    has_arguments: bool = Field(description="Whether arguments were recorded, even as none.")
    has_result: bool = Field(description="Whether a result was recorded, even as null.")
    is_error: bool
    error: str | None
    start_time: str | None
    end_time: str | None
    duration_ms: float | None


class SpanEventDocument(ApiAnswer):
    """An event of a span."""

    time: str | None
    name: str
    attributes: JsonObject


class LogDocument(ApiAnswer):
    """A log record of a span."""

    time: str | None
    event_name: str
    body: Any
    attributes: JsonObject


class LinkDocument(ApiAnswer):
    """A link of a span to another one."""

    trace_id: str
    span_id: str
    trace_state: str
    attributes: JsonObject
    flags: int


class ResourceDocument(ApiAnswer):
    """What sent a span."""

    attributes: JsonObject
    schema_url: str


class ScopeDocument(ApiAnswer):
    """What instrumented a span."""

    name: str
    version: str
    attributes: JsonObject
    schema_url: str


class SpanDocument(ApiAnswer):
    """A span, what it means, and what the rules made of it."""

    span_id: str
    parent_span_id: str | None
    name: str
    kind: Literal["UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"]
    start_time: str | None
    end_time: str | None
    duration_ms: float | None
    status_code: Literal["UNSET", "OK", "ERROR"]
    status_message: str
    span_type: SpanType
    dialect: str | None
    input: str | None
    output: str | None
    input_messages: list[JsonObject] | None
    output_messages: list[JsonObject] | None
    tool_name: str | None
    tool_call_id: str | None
    tool_arguments: Any
    tool_result: Any
    tool_definitions: list[OfferedToolDocument]
    model: str | None
    provider: str | None
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None
    finish_reason: str | None = Field(
        description="Why the answer of a model ended: stop, length, tool_call, content_filter, error or other."
    )
    cost_usd: JsonNumber | None
    session_id: str | None
    user_id: str | None
    run_id: str | None = Field(description="The run of an experiment for one of whose items the span is.")
    item_key: str | None
    error: str | None
    error_type: str | None
    sources: dict[str, str] = Field(description="By field, the key, event or log record that told it.")
    notes: list[str]
    attributes: JsonObject
    events: list[SpanEventDocument]
    links: list[LinkDocument]
    logs: list[LogDocument]
    trace_state: str
    flags: int
    dropped_attributes_count: int
    dropped_events_count: int
    dropped_links_count: int
    resource: ResourceDocument
    scope: ScopeDocument
    project: str
    service_name: str
    evaluations: list[EvaluationDocument]
    decisions: list[DecisionDocument]
    external_scores: list[ExternalScoreDocument]


class TraceDocument(TraceSummaryDocument):
    """A trace with what it means, what the rules made of it, and its spans by start time."""

    input: str | None
    output: str | None
    final_response: str | None
    finish_reason: str | None = Field(description="Of the last call of a model that tells one.")
    session_id: str | None
    user_id: str | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: JsonNumber | None
    tool_calls: list[ToolCallDocument]
    tool_definitions: list[OfferedToolDocument]
    conversation: list[JsonObject]
    evaluations: list[EvaluationDocument]
    decisions: list[DecisionDocument]
    external_scores: list[ExternalScoreDocument]
    spans: list[SpanDocument]
    summed_span_count: int = Field(
        description="`input`, `output`, `finalResponse`, `inputTokens`, `outputTokens` and `costUsd` are of so many"
        " spans: the first ones and the roots of a long trace, of texts also the last ones."
    )
    truncated: bool = Field(
        default=False,
        description="It has more spans than are shown: at most 10,000, 32 MiB as stored and 64 MiB as JSON."
        " `toolCalls` and `conversation` are of the first ones too. `/otlp` has all.",
    )
    judgements_truncated: bool = Field(default=False, description="The rules made more of it than is shown.")


class TraceExport(ApiAnswer):
    """The OTLP/JSON request that would send a trace."""

    resource_spans: list[JsonObject]
