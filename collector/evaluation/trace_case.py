"""Test cases made from traces."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias

from collector.conventions.columnar.stored_trace import StoredTrace
from collector.conventions.member import TraceMember
from collector.conventions.message_calls import results_of_calls
from collector.conventions.names import capture_hint
from collector.evaluation.deferred import DeferredParts
from evaluators.captured import CAPTURE_HINT, NOT_CAPTURED, NULL_RESULT
from evaluators.model import Case, Conversation, Message, ToolCall, ToolDefinition, text_of, unchecked_case
from evaluators.summary import RunSummary, TokenUsage
from evaluators.wire import parse_json
from storage import records
from storage.records import JsonValue, Span, SpanReading, TraceReading

ToldTrace: TypeAlias = TraceReading | StoredTrace
TimedSpan: TypeAlias = Span | TraceMember
"""`ToldTrace` and `TimedSpan`: a trace and a span of it, parsed from spans or loaded from stored columns."""

_ROLES = {"user", "assistant", "system", "tool"}
_NS_PER_MS = 1_000_000
_LISTS = ("documents", "results", "matches", "chunks", "nodes")  # members of a retriever's output that hold documents
_TEXTS = ("page_content", "pageContent", "content", "text")  # members of a document that hold its text


class _TraceParts:
    """Parts of a trace's test case; None if the trace lacks a part."""

    def __init__(self, trace: ToldTrace, spans: Sequence[TimedSpan], trace_id: str | None) -> None:
        self._trace, self._spans = trace, spans
        self.trace_id = trace_id

    @property
    def input(self) -> str | None:
        return self._trace.input

    @property
    def output(self) -> str | None:
        return self._trace.output

    @property
    def tool_calls(self) -> list[ToolCall] | None:
        return None if _lacks_calls(self._trace) else list(map(tool_call_of, self._trace.tool_calls))

    @cached_property
    def context(self) -> list[str] | None:
        return _context(self._trace, self._spans)

    @property
    def trajectory(self) -> Conversation | None:
        return None if _lacks_talk(self._trace) else conversation_of(self._trace.conversation)

    @property
    def reasoning(self) -> list[str] | None:
        return _reasoning(self._trace.conversation) or None

    @property
    def tools(self) -> list[ToolDefinition] | None:
        return [_definition(tool) for tool in self._trace.tool_definitions] or None

    @property
    def summary(self) -> dict[str, Any]:
        return summary_of_trace(self._trace, self._spans).model_dump(by_alias=True, exclude_none=True)

    @property
    def session_id(self) -> str | None:
        return self._trace.session_id

    @property
    def not_captured(self) -> list[str] | None:
        return unrecorded_parts(self._trace) or None

    @property
    def capture_hint(self) -> dict[str, str] | None:
        notes = [note for span in self._trace.spans.values() for note in span.notes] if self.not_captured else []
        return {side: hint for side in ("input", "output") if (hint := capture_hint(notes, side))} or None

    @property
    def user_id(self) -> str | None:
        return self._trace.user_id


_INPUTS: Final = {"input": "input"}
_OUTPUTS: Final = {
    "output": "output",
    "toolCalls": "tool_calls",
    "context": "context",
    "retrievalContext": "context",
    "trajectory": "trajectory",
    "reasoningSteps": "reasoning",
}
_METADATA: Final = {
    "tools": "tools",
    "traceSummary": "summary",
    "traceId": "trace_id",
    "sessionId": "session_id",
    "userId": "user_id",
    NOT_CAPTURED: "not_captured",
    CAPTURE_HINT: "capture_hint",
}
"""Keys of a case's maps that evaluators read, each with the attribute of `_TraceParts` that gives its value."""


def case_of_trace(reading: TraceReading, spans: Sequence[Span]) -> Case:
    """Make a case of a trace, with the keys that evaluators read.

    Missing values of the trace are left out, so that an evaluator that needs one reports it.
    """
    parts = _TraceParts(reading, spans, spans[0].trace_id if spans else None)
    inputs, outputs, metadata = (
        {key: value for key, name in names.items() if (value := getattr(parts, name)) is not None}
        for names in (_INPUTS, _OUTPUTS, _METADATA)
    )
    return Case(inputs=inputs, actual_outputs=outputs, metadata=metadata)


def case_of_stored(trace: StoredTrace) -> Case:
    """Make a case of stored spans; each part is made when an evaluator first reads it."""
    parts = _TraceParts(trace, trace.members, trace.trace_id)
    return unchecked_case(
        inputs=DeferredParts(parts, _INPUTS),
        actual_outputs=DeferredParts(parts, _OUTPUTS),
        expected_outputs={},
        metadata=DeferredParts(parts, _METADATA),
    )


def whole_case(case: Case) -> Case:
    """Return the case with all deferred values evaluated."""
    inputs, outputs, expected, metadata = (
        dict(values) for values in (case.inputs, case.actual_outputs, case.expected_outputs, case.metadata)
    )
    return Case(inputs=inputs, actual_outputs=outputs, expected_outputs=expected, metadata=metadata)


def joined(trace: Case, case: Case) -> Case:
    """Merge a trace's case with a person's case, whose values win and whose expected outputs are used."""
    return Case(
        inputs={**trace.inputs, **case.inputs},
        actual_outputs={**trace.actual_outputs, **case.actual_outputs},
        expected_outputs=case.expected_outputs,
        metadata={**trace.metadata, **case.metadata},
    )


def summary_of_trace(reading: ToldTrace, spans: Sequence[TimedSpan]) -> RunSummary:
    """Sum up the run."""
    calls = None if _lacks_calls(reading) else reading.tool_calls
    names = [call.name for call in calls or ()]
    models = [one for one in reading.spans.values() if one.span_type == "llm"]
    starts = [span.start_ns for span in spans if span.start_ns]
    ends = [span.end_ns for span in spans if span.end_ns is not None]
    usage = TokenUsage(input=reading.input_tokens, output=reading.output_tokens, cached=_cached(models))
    return RunSummary(
        event_count=None if calls is None else len(names),
        tool_names=None if calls is None else tuple(sorted(set(names))),
        tool_calls_by_name=None if calls is None else dict(Counter(names)),
        error_count=None if calls is None else sum(call.is_error for call in calls),
        llm_call_count=len(models),
        token_usage=None if usage.input is None and usage.output is None else usage,
        cost_usd=reading.cost_usd,
        duration_ms=max((max(ends) - min(starts)) / _NS_PER_MS, 0.0) if starts and ends else None,
    )


def conversation_of(messages: Sequence[records.Message]) -> Conversation:
    """Convert messages for evaluators: texts, and the calls of each message with their results."""
    results = iter(results_of_calls(messages))
    return Conversation(messages=tuple(_message(message, results) for message in messages if _says(message)))


def _message(message: records.Message, results: Iterator[JsonValue]) -> Message:
    parts = _parts(message)
    calls = [
        ToolCall(
            name=str(part.get("name") or "unnamed"),
            arguments=part.get("arguments"),
            result=next(results),
            id=part["id"] if isinstance(part.get("id"), str) else None,
        )
        for part in parts
        if part.get("type") == "tool_call"
    ]
    role = message.get("role")
    return Message.model_validate(
        {
            "role": role if role in _ROLES else "system",
            "content": "\n".join(str(part.get("content")) for part in parts if part.get("type") == "text"),
            "toolCalls": calls,
        }
    )


def _says(message: records.Message) -> bool:
    return any(part.get("type") != "tool_call_response" for part in _parts(message))


def _parts(message: records.Message) -> list[dict[str, Any]]:
    parts = message.get("parts")
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _reasoning(messages: Sequence[records.Message]) -> list[str]:
    return [str(part["content"]) for message in messages for part in _parts(message) if _is_reasoning(part)]


def _is_reasoning(part: dict[str, Any]) -> bool:
    return part.get("type") == "reasoning" and bool(part.get("content"))


def _context(reading: ToldTrace, spans: Sequence[TimedSpan]) -> list[str] | None:
    """Return the retrieved passages, in the order in which the retrievers started; None if none recorded an output."""
    started = {span.span_id: span.start_ns for span in spans}
    retrieved = sorted(
        (item for item in reading.spans.items() if item[1].span_type == "retriever"),
        key=lambda item: started.get(item[0], 0),
    )
    outputs = [one.output for _, one in retrieved if one.output is not None]
    return [passage for output in outputs if output.strip() for passage in passages_in(output)] if outputs else None


def passages_in(retrieved: str) -> list[str]:
    """Return a retriever's passages: each item of a JSON list of texts or documents, else the whole output."""
    try:
        value = parse_json(retrieved)
    except ValueError:
        return [retrieved]
    if isinstance(value, dict):
        value = next((value[key] for key in _LISTS if isinstance(value.get(key), list)), None)
    return [_passage(item) for item in value] if isinstance(value, list) else [retrieved]


def _passage(item: object) -> str:
    """Return the text of a document, or all of it if no member is known to be its text."""
    fields = item.get("document", item) if isinstance(item, dict) else item
    if isinstance(fields, dict):
        texts = (fields[key] for key in _TEXTS if isinstance(fields.get(key), str))
        return next(texts, text_of(item))
    return text_of(fields)


def unrecorded_parts(trace: ToldTrace) -> list[str]:
    """Return the keys that no span recorded, each decided by itself: capture may cover inputs or outputs alone.

    A missing part is not listed if the trace recorded its input and output: without retrievers it has no context.
    """
    retrievers = [span for span in trace.spans.values() if span.span_type == "retriever"]
    is_partial = trace.input is None or trace.output is None or any(map(_is_silent, _speakers(trace)))
    lacks_context = (is_partial or bool(retrievers)) and all(span.output is None for span in retrievers)
    lacks_talk = _lacks_talk(trace)
    lacking = {
        "input": trace.input is None,
        "output": trace.output is None,
        "toolCalls": _lacks_calls(trace),
        "trajectory": lacks_talk,
        "reasoningSteps": (is_partial or lacks_talk) and not _reasoning(trace.conversation),
        "context": lacks_context,
        "retrievalContext": lacks_context,
        "tools": (is_partial or bool(trace.tool_calls)) and not trace.tool_definitions,
    }
    return [key for key, is_lacking in lacking.items() if is_lacking]


def _lacks_calls(trace: ToldTrace) -> bool:
    return not trace.tool_calls and any(map(_is_silent, _speakers(trace)))


def _speakers(trace: ToldTrace) -> list[SpanReading | TraceMember]:
    spans: list[SpanReading | TraceMember] = list(trace.spans.values())
    models = [one for one in spans if one.span_type == "llm"]
    return models or [one for one in spans if one.span_type in ("agent", "chain")]


def _is_silent(span: SpanReading | TraceMember) -> bool:
    if span.output is not None or (span.error is not None and span.span_type == "llm"):
        return False
    return not any(map(_parts, span.output_messages or ()))


def _lacks_talk(trace: ToldTrace) -> bool:
    parts = [part for message in trace.conversation for part in _parts(message)]
    roles = {message.role for message in conversation_of(trace.conversation).messages}
    is_one_sided = "assistant" not in roles or (trace.input is None and not roles - {"assistant"})
    return is_one_sided or any(_is_hollow(part) for part in parts)


def _is_hollow(part: dict[str, Any]) -> bool:
    """Return True for a tool call without arguments, and a tool response without its content."""
    kind = part.get("type")
    return (
        part.get("arguments") is None
        if kind == "tool_call"
        else kind == "tool_call_response" and "response" not in part
    )


def tool_call_of(call: records.TraceToolCall) -> ToolCall:
    """Convert a tool call for evaluators; its metadata names unrecorded fields. A failed call needs no result."""
    is_recorded = {"arguments": call.has_arguments, "result": call.has_result or call.is_error}
    lacking = [key for key, is_known in is_recorded.items() if not is_known]
    marks: dict[str, Any] = {NOT_CAPTURED: lacking} if lacking else {}
    if call.has_result and call.result is None:
        marks[NULL_RESULT] = True
    duration = None if call.end_ns is None or not call.start_ns else max((call.end_ns - call.start_ns) / _NS_PER_MS, 0)
    error = {"isError": True, "error": call.error} if call.is_error else {}
    return ToolCall(
        name=call.name if call.name.strip() else "unnamed",
        arguments=call.arguments,
        result=call.result,
        id=call.call_id,
        duration_ms=duration,
        metadata={"spanId": call.span_id, **error, **marks},
    )


def _definition(tool: records.OfferedTool) -> ToolDefinition:
    schema = tool.parameters if isinstance(tool.parameters, dict | bool) else None
    return ToolDefinition(
        name=tool.name if tool.name.strip() else "unnamed", description=tool.description, input_schema=schema
    )


def _cached(models: Sequence[SpanReading | TraceMember]) -> int | None:
    counts = [one.cached_tokens for one in models if one.cached_tokens is not None]
    return sum(counts) if counts else None
