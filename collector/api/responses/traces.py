"""Traces, their spans, and results of rules on the wire."""

import json
from collections.abc import Mapping
from operator import itemgetter
from typing import Annotated, Any, Final, Literal, get_args

from msgspec import UNSET, UnsetType
from pydantic.alias_generators import to_camel

from collector.api.base.times import optional_ns
from collector.api.responses.base import JsonNumber, JsonObject, json_value
from collector.api.responses.wire import From, PageAnswer, WireDocument, computed, doc, time_of
from collector.result_labels import OutcomeName
from storage.records import Span, SpanType, TraceSummary, TraceToolCall

DIGEST_DIGITS: Final = 12
"""Digits of a revision's digest that are shown."""

SpanKind = Literal["UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"]
StatusCode = Literal["UNSET", "OK", "ERROR"]


def _duration_ms(timed: TraceSummary | Span | TraceToolCall) -> float | None:
    return (timed.end_ns - timed.start_ns) / 1e6 if timed.start_ns and timed.end_ns else None


def _name_of(names: Any) -> From:  # noqa: ANN401 - a Literal
    # A number that this version does not know becomes the first name.
    known = get_args(names)
    return From(convert=lambda number: known[number] if 0 <= number < len(known) else known[0])


def _encoded_keys(by_field: Mapping[str, str]) -> dict[str, str]:
    # Some fields of a reading, such as `system`, are in no document under their own name.
    return {to_camel(name): text for name, text in by_field.items()}


StartTime = Annotated[str | None, time_of("start_ns")]
EndTime = Annotated[str | None, time_of("end_ns")]
Duration = Annotated[float | None, computed(_duration_ms)]
Time = Annotated[str | None, time_of("time_ns")]
Attributes = Annotated[JsonObject, From(convert=json_value)]
JsonAny = Annotated[Any, From(convert=json_value)]
Number = Annotated[JsonNumber | None, From(convert=json_value)]
Metadata = Annotated[Any, From(convert=lambda text: json_value(json.loads(text)))]
Digest = Annotated[str, From(convert=itemgetter(slice(DIGEST_DIGITS)))]


class TraceSummaryDocument(WireDocument):
    """A trace without its spans."""

    trace_id: str
    tenant: str
    project: str
    service_name: str
    root_span_name: Annotated[str, From("root_name")]
    start_time: StartTime
    end_time: EndTime
    duration_ms: Duration
    span_count: int
    error_count: int
    expires_at: Annotated[str | None, time_of("expires_at_ns")]


class TracePage(PageAnswer):
    """A page of traces."""

    content: list[TraceSummaryDocument]
    next: Annotated[str | None, doc("The value of `before` for the next page; null if page numbers are used.")]
    searched_to: Annotated[
        str | None,
        doc("Set if the page is short because of the time limit: traces that started later were all searched."),
    ]


class EvaluationDocument(WireDocument):
    """Outcome of an evaluation."""

    job_id: int
    rule_id: str
    rule: str
    revision: int
    digest: Digest
    evaluator: str
    name: str
    outcome: OutcomeName
    score: Number
    passed: bool | None
    threshold: Number
    reason: str | None
    error_kind: str | None
    metadata: Metadata
    fingerprint: str | None
    judge_model: str | None
    judge_calls: int | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: Number
    latency_ms: Number
    attempts: int
    release: str | None
    round: int
    superseded: bool
    created_at: Annotated[str | None, time_of("created_at_ns")]


class DecisionDocument(WireDocument):
    """Decision on a span, a trace or a session by one revision of a rule."""

    rule_id: str
    rule: str
    revision: int
    digest: Digest
    decision: Annotated[str, doc("scored, failed, filtered, not sampled, waiting, …")]
    clause: Annotated[str | None, doc("The condition that was not met.")]
    decided_at: Annotated[str | None, time_of("decided_at_ns")]


class ExternalScoreDocument(WireDocument):
    """A score from another system."""

    project: str | None
    name: str
    outcome: OutcomeName
    score: Number
    passed: bool | None
    label: str | None
    reason: str | None
    error_kind: str | None
    metadata: Metadata
    created_at: Annotated[str | None, time_of("created_at_ns")]


class OfferedToolDocument(WireDocument):
    """A tool that a model was offered."""

    name: str
    description: str | None
    parameters: JsonAny


class ToolCallDocument(WireDocument, kw_only=True):
    """One call of a tool."""

    ordinal: int
    span_id: str
    call_id: str | None
    name: str
    arguments: JsonAny
    result: JsonAny
    has_arguments: Annotated[bool, doc("True if arguments were recorded, even empty ones.")] = True
    has_result: Annotated[bool, doc("True if a result was recorded, even null.")] = True
    is_error: bool
    error: str | None
    start_time: StartTime
    end_time: EndTime
    duration_ms: Duration


class SpanEventDocument(WireDocument):
    """An event of a span."""

    time: Time
    name: str
    attributes: Attributes


class LogDocument(WireDocument):
    """A log record of a span."""

    time: Time
    event_name: str
    body: JsonAny
    attributes: Attributes


class LinkDocument(WireDocument):
    """A link of a span to another one."""

    trace_id: str
    span_id: str
    trace_state: str
    attributes: Attributes
    flags: int


class ResourceDocument(WireDocument):
    """The resource of a span: the process that sent it."""

    attributes: Attributes
    schema_url: str


class ScopeDocument(WireDocument):
    """The instrumentation scope of a span."""

    name: str
    version: str
    attributes: Attributes
    schema_url: str


class SpanDocument(WireDocument):
    """A span, its meaning, and the results of rules."""

    span_id: str
    parent_span_id: str | None
    name: str
    kind: Annotated[SpanKind, _name_of(SpanKind)]
    start_time: StartTime
    end_time: EndTime
    duration_ms: Duration
    status_code: Annotated[StatusCode, _name_of(StatusCode)]
    status_message: str
    span_type: SpanType
    dialect: str | None
    input: str | None
    output: str | None
    input_messages: Annotated[list[JsonObject] | None, From(convert=json_value)]
    output_messages: Annotated[list[JsonObject] | None, From(convert=json_value)]
    tool_name: str | None
    tool_call_id: str | None
    tool_arguments: JsonAny
    tool_result: JsonAny
    tool_definitions: list[OfferedToolDocument]
    model: str | None
    provider: str | None
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None
    finish_reason: Annotated[
        str | None,
        doc("The reason why the model's answer ended: stop, length, tool_call, content_filter, error or other."),
    ]
    cost_usd: Number
    session_id: str | None
    user_id: str | None
    run_id: Annotated[str | None, doc("The run of an experiment for one of whose items the span is.")]
    item_key: str | None
    error: str | None
    error_type: str | None
    sources: Annotated[
        dict[str, str],
        From(convert=_encoded_keys),
        doc("By field, the key, event or log record that it was read from."),
    ]
    notes: list[str]
    attributes: Attributes
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

    @property
    def start_ns(self) -> int | None:
        """Return the start in nanoseconds since the Unix epoch."""
        return optional_ns(self.start_time)


class TraceDocument(TraceSummaryDocument, kw_only=True):
    """A trace with its meaning, the results of rules, and its spans by start time."""

    input: str | None
    output: str | None
    final_response: str | None
    finish_reason: Annotated[str | None, doc("The finish reason of the last model call that has one.")]
    session_id: str | None
    user_id: str | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: Number
    tool_calls: list[ToolCallDocument]
    tool_definitions: list[OfferedToolDocument]
    conversation: Annotated[list[JsonObject], From(convert=json_value)]
    evaluations: list[EvaluationDocument]
    decisions: list[DecisionDocument]
    external_scores: list[ExternalScoreDocument]
    spans: list[SpanDocument]
    summed_span_count: Annotated[
        int,
        doc(
            "Number of spans that `input`, `output`, `finalResponse`, `inputTokens`, `outputTokens` and `costUsd`"
            " cover: of a long trace the first spans and the roots, for texts also the last spans."
        ),
    ] = 0
    truncated: Annotated[
        bool | UnsetType,
        doc(
            "True if spans are left out: at most 10,000, 32 MiB stored and 64 MiB of JSON are returned."
            " `toolCalls` and `conversation` are of the same spans. `/otlp` has all."
        ),
    ] = UNSET
    judgements_truncated: Annotated[bool | UnsetType, doc("True if not all results of rules are returned.")] = UNSET


class TraceExport(WireDocument):
    """The OTLP/JSON request that would send a trace."""

    resource_spans: list[JsonObject]
