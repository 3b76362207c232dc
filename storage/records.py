"""Records that all packages share: frozen values that need only the standard library.

No field has a default, so that code that converts a record cannot forget one.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

AlertKind: TypeAlias = Literal["release", "drift", "limit"]
AlertState: TypeAlias = Literal["open", "acknowledged", "recovered"]
DeliveryState: TypeAlias = Literal["gathered", "digested", "pending", "delivered", "failed", "cancelled"]
"""`gathered`: the delivery waits for the receiver's next digest; `digested`: that digest was queued."""
EventType: TypeAlias = Literal[
    "alert.opened",
    "alert.escalated",
    "alert.acknowledged",
    "alert.recovered",
    "alert.digest",
    "RUN_REGRESSION",
    "webhook.test",
]
Grouping: TypeAlias = Literal["day", "release", "project"]
Measure: TypeAlias = Literal["passed", "score", "share", "amount"]
"""Unit of rates: of results, shares that passed or mean scores; of a metric, shares or amounts of its unit."""
MetricStanding: TypeAlias = Literal["waiting", "fine", "alert", "off"]
"""State of a metric monitor; `waiting`: too few values for a conclusion."""
Origin: TypeAlias = Literal["API", "FILE"]
Severity: TypeAlias = Literal["info", "warning", "critical"]
StreamStart: TypeAlias = Literal["first", "evaluator", "settings"]
"""Why a stream has no earlier results to compare with: it is the rule's first, the evaluator changed, or settings of
the monitors changed (only in versions that then restarted streams)."""

AttributeValue: TypeAlias = "bool | int | float | str | bytes | list[AttributeValue] | dict[str, AttributeValue] | None"
"""Values of OTLP's `AnyValue`; None if nothing was set."""

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
"""JSON values."""

Message: TypeAlias = dict[str, JsonValue]
"""A message in the normal form, that of OTel GenAI: `{"role", "parts": [{"type", …}, …]}`, where a part is
`text` (`content`), `tool_call` (`id`, `name`, `arguments`), `tool_call_response` (`id`, `response`), `reasoning`
(`content`), `uri`, `blob`, `file`, or of any other type, kept as received."""

_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

MAX_COUNT: Final = 2**53
"""Larger counts, and larger costs in US dollars, are ignored, because doubles do not hold larger integers exactly."""


def number_in(text: str) -> float | None:
    """Parse a decimal number; return None if the text is not one, or the number is not finite.

    Python's `float` also reads `1_000`, `nan` and the digits of every alphabet.
    """
    number = float(text) if _NUMBER.fullmatch(text.strip(" \t\r\n")) else math.inf
    return number if math.isfinite(number) else None


SpanType: TypeAlias = Literal["agent", "llm", "tool", "retriever", "embedding", "chain", "evaluator", "other"]
"""Kind of a span."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityRef:
    """Attributes of a resource that identify and describe one entity."""

    schema_url: str
    type: str
    id_keys: tuple[str, ...]
    description_keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """Source of a span: a service, its version, its host."""

    attributes: Mapping[str, AttributeValue]
    dropped_attributes_count: int
    schema_url: str
    entity_refs: tuple[EntityRef, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The instrumentation library that made a span."""

    name: str
    version: str
    attributes: Mapping[str, AttributeValue]
    dropped_attributes_count: int
    schema_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanEvent:
    """Something that happened at one moment of a span, such as an exception."""

    time_ns: int  # since the Unix epoch; 0 when the sender set none
    name: str
    attributes: Mapping[str, AttributeValue]
    dropped_attributes_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link of a span to a related span, which is often in another trace."""

    trace_id: str  # lower-case hex of any length, since OTLP does not validate links
    span_id: str
    trace_state: str
    attributes: Mapping[str, AttributeValue]
    dropped_attributes_count: int
    flags: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One timed operation in a trace, with all its data from OTLP."""

    tenant: str
    trace_id: str  # 32 lower-case hex digits
    span_id: str  # 16 lower-case hex digits
    parent_span_id: str | None  # None only for a root; the parent need not be stored
    name: str
    kind: int  # OTLP's SpanKind: 1 internal, 2 server, 3 client, 4 producer, 5 consumer
    start_ns: int  # since the Unix epoch; 0 if the sender set none, or an impossible one (see `sent_times`)
    end_ns: int | None  # None when the span never ended, which is 0 on the wire, or ended before it started
    status_code: int  # OTLP's StatusCode: 0 unset, 1 ok, 2 error
    status_message: str
    attributes: Mapping[str, AttributeValue]
    events: tuple[SpanEvent, ...]
    links: tuple[Link, ...]
    trace_state: str
    flags: int
    dropped_attributes_count: int
    dropped_events_count: int
    dropped_links_count: int
    resource: Resource
    scope: Scope
    project: str
    service_name: str
    sent_times: tuple[int, ...]  # the start, the end and the events' times as sent, if one is impossible; else empty


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """A log record that belongs to a span. Some instrumentations record messages of models as log records."""

    tenant: str
    trace_id: str  # 32 lower-case hex digits
    span_id: str  # 16 lower-case hex digits
    time_ns: int  # since the Unix epoch; the observed time if no other is set; 0 if neither is set
    event_name: str  # the field, else the attribute `event.name`
    body: AttributeValue
    attributes: Mapping[str, AttributeValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSummary:
    """One row of the list of traces."""

    trace_id: str
    tenant: str
    project: str
    service_name: str
    root_name: str
    start_ns: int
    end_ns: int | None  # None if no span of the trace ended
    span_count: int
    error_count: int
    expires_at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """Filter of evaluations; None matches all."""

    rule: str | None  # by name or id
    outcome: str | None  # scored, failed or skipped
    passed: bool | None


ANY_JUDGING: Final = Judging(rule=None, outcome=None, passed=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The first stored spans of one trace, by start time up to a limit, and the log records that belong to them."""

    summary: TraceSummary
    spans: tuple[Span, ...]
    logs: tuple[LogRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """A tool that a model was offered."""

    name: str
    description: str | None
    parameters: JsonValue  # a JSON Schema; None if unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanReading:
    """Meaning of a span: its fields in the normal form, for any instrumentation. None means unknown."""

    span_type: SpanType
    dialect: str | None  # the name of the convention that matched
    input: str | None  # model span: the last user text; other spans: the raw text
    output: str | None  # model or agent span: the last assistant text; other spans: the raw text
    input_messages: tuple[Message, ...] | None
    output_messages: tuple[Message, ...] | None
    tool_name: str | None
    tool_call_id: str | None
    tool_arguments: JsonValue  # parsed JSON; the raw text if it is not JSON
    tool_result: JsonValue
    tool_definitions: tuple[OfferedTool, ...]
    model: str | None  # the response's model, else the request's
    provider: str | None
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None
    finish_reason: str | None  # stop, length, tool_call, content_filter, error or other
    cost_usd: float | None
    session_id: str | None
    user_id: str | None
    run_id: str | None  # the experiment run that the span belongs to
    item_key: str | None
    error: str | None
    error_type: str | None
    sources: Mapping[str, str]  # by field: the attribute key, event or log that it was read from
    notes: tuple[str, ...]  # explanations of unexpected fields, such as "input: … is not JSON"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceToolCall:
    """One tool call in a trace, from the tool's own span, from messages of models, or both."""

    ordinal: int  # from 0, in the order of `TraceReading.tool_calls`
    span_id: str  # the tool's own span, else the first model span that requests the call
    call_id: str | None
    name: str
    arguments: JsonValue
    result: JsonValue
    has_arguments: bool  # True if arguments were recorded, even empty ones
    has_result: bool  # True if a result was recorded, even null
    is_error: bool
    error: str | None
    start_ns: int
    end_ns: int | None  # None if the tool has no span of its own, or the span never ended


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceReading:
    """Meaning of a trace, and of each of its spans."""

    spans: Mapping[str, SpanReading]  # by span id
    input: str | None  # the root's, else that of the topmost agent, chain or model that has one
    output: str | None  # likewise, else the last text of any span; this text is displayed and judged
    final_response: str | None  # the last assistant text of the trace
    finish_reason: str | None  # that of the last model call that has one
    conversation: tuple[Message, ...]  # messages of the span that has the longest conversation, and the answer
    tool_calls: tuple[TraceToolCall, ...]  # each once, by start time
    tool_definitions: tuple[OfferedTool, ...]  # each name once
    session_id: str | None
    user_id: str | None
    input_tokens: int | None  # sum of leaf model calls; None if unknown
    output_tokens: int | None
    cost_usd: float | None
    earlier_calls: tuple[TraceToolCall, ...]  # calls of earlier traces, whose results this trace received


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryColumn:
    """One column of an answer: its name and DuckDB's name of its type."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The answer to an SQL query; `truncated` if there were more rows than requested."""

    columns: tuple[QueryColumn, ...]
    rows: tuple[tuple[object, ...], ...]
    truncated: bool
