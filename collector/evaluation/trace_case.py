"""The test case that a trace is."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias

from collector.conventions.columnar.stored_trace import StoredTrace
from collector.conventions.member import TraceMember
from collector.evaluation.deferred import DeferredParts
from evaluators.captured import NOT_CAPTURED, NULL_RESULT
from evaluators.model import Case, Conversation, Message, ToolCall, ToolDefinition, text_of, unchecked_case
from evaluators.summary import RunSummary, TokenUsage
from evaluators.wire import parse_json
from storage import records
from storage.records import Span, SpanReading, TraceReading

ToldTrace: TypeAlias = TraceReading | StoredTrace
TimedSpan: TypeAlias = Span | TraceMember
"""A trace and its spans: read, or as stored columns tell them."""

_ROLES = {"user", "assistant", "system", "tool"}
_NS_PER_MS = 1_000_000
_LISTS = ("documents", "results", "matches", "chunks", "nodes")  # members of a retriever's output that hold documents
_TEXTS = ("page_content", "pageContent", "content", "text")  # members of a document that hold its text


class _TraceParts:
    """The parts of a test case that a trace tells; None: it does not."""

    def __init__(self, told: ToldTrace, spans: Sequence[TimedSpan], trace_id: str | None) -> None:
        self._told, self._spans = told, spans
        self.trace_id = trace_id

    @property
    def input(self) -> str | None:
        return self._told.input

    @property
    def output(self) -> str | None:
        return self._told.output

    @property
    def tool_calls(self) -> list[ToolCall] | None:
        return None if "toolCalls" in self._unrecorded else tool_calls_of(self._told.tool_calls)

    @cached_property
    def context(self) -> list[str] | None:
        return _context(self._told, self._spans) or None

    @property
    def trajectory(self) -> Conversation | None:
        conversation = conversation_of(self._told.conversation)
        return conversation if conversation.messages else None

    @property
    def reasoning(self) -> list[str] | None:
        return _reasoning(self._told.conversation) or None

    @property
    def tools(self) -> list[ToolDefinition] | None:
        return [_definition(tool) for tool in self._told.tool_definitions] or None

    @property
    def summary(self) -> dict[str, Any]:
        return summary_of_trace(self._told, self._spans).model_dump(by_alias=True, exclude_none=True)

    @property
    def session_id(self) -> str | None:
        return self._told.session_id

    @property
    def not_captured(self) -> list[str] | None:
        return list(self._unrecorded) or None

    @cached_property
    def _unrecorded(self) -> tuple[str, ...]:
        return unrecorded_parts(self._told)

    @property
    def user_id(self) -> str | None:
        return self._told.user_id


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
}
"""The keys that evaluators read, and the parts that are under them."""


def case_of_trace(reading: TraceReading, spans: Sequence[Span]) -> Case:
    """What went into the run and what came out, under the keys that evaluators read.

    What the trace does not tell is left out, so that an evaluator that needs it says so.
    """
    parts = _TraceParts(reading, spans, spans[0].trace_id if spans else None)
    inputs, outputs, metadata = (
        {key: value for key, name in names.items() if (value := getattr(parts, name)) is not None}
        for names in (_INPUTS, _OUTPUTS, _METADATA)
    )
    return Case(inputs=inputs, actual_outputs=outputs, metadata=metadata)


def case_of_stored(trace: StoredTrace) -> Case:
    """The test case that stored spans are, of which each part is made when an evaluator first asks for it."""
    parts = _TraceParts(trace, trace.members, trace.trace_id)
    return unchecked_case(
        inputs=DeferredParts(parts, _INPUTS),
        actual_outputs=DeferredParts(parts, _OUTPUTS),
        expected_outputs={},
        metadata=DeferredParts(parts, _METADATA),
    )


def whole_case(case: Case) -> Case:
    """The case with every part made."""
    inputs, outputs, expected, metadata = (
        dict(values) for values in (case.inputs, case.actual_outputs, case.expected_outputs, case.metadata)
    )
    return Case(inputs=inputs, actual_outputs=outputs, expected_outputs=expected, metadata=metadata)


def joined(trace: Case, given: Case) -> Case:
    """The case of a trace with what a person adds: expectations, and whatever is to be other than the trace says."""
    return Case(
        inputs={**trace.inputs, **given.inputs},
        actual_outputs={**trace.actual_outputs, **given.actual_outputs},
        expected_outputs=given.expected_outputs,
        metadata={**trace.metadata, **given.metadata},
    )


def summary_of_trace(reading: ToldTrace, spans: Sequence[TimedSpan]) -> RunSummary:
    """The run in numbers."""
    names = [call.name for call in reading.tool_calls]
    models = [one for one in reading.spans.values() if one.span_type == "llm"]
    starts = [span.start_ns for span in spans if span.start_ns]
    ends = [span.end_ns for span in spans if span.end_ns is not None]
    usage = TokenUsage(input=reading.input_tokens, output=reading.output_tokens, cached=_cached(models))
    return RunSummary(
        event_count=len(names),
        tool_names=tuple(sorted(set(names))),
        tool_calls_by_name={name: names.count(name) for name in dict.fromkeys(names)},
        error_count=sum(call.is_error for call in reading.tool_calls),
        llm_call_count=len(models),
        token_usage=None if usage.input is None and usage.output is None else usage,
        cost_usd=reading.cost_usd,
        duration_ms=max((max(ends) - min(starts)) / _NS_PER_MS, 0.0) if starts and ends else None,
    )


def conversation_of(messages: Sequence[records.Message]) -> Conversation:
    """The messages of a trace as evaluators read them: texts, and the calls of each message with their results."""
    results = {
        part.get("id"): part.get("response")
        for message in messages
        for part in _parts(message)
        if part.get("type") == "tool_call_response"
    }
    return Conversation(messages=tuple(_message(message, results) for message in messages if _says(message)))


def _message(message: records.Message, results: dict[Any, Any]) -> Message:
    parts = _parts(message)
    calls = [
        ToolCall(
            name=str(part.get("name") or "unnamed"),
            arguments=part.get("arguments"),
            result=results.get(part.get("id")),
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
    """Whether a message has anything besides the answers of tools, which stand with their calls."""
    return any(part.get("type") != "tool_call_response" for part in _parts(message))


def _parts(message: records.Message) -> list[dict[str, Any]]:
    parts = message.get("parts")
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _reasoning(messages: Sequence[records.Message]) -> list[str]:
    return [str(part["content"]) for message in messages for part in _parts(message) if _is_reasoning(part)]


def _is_reasoning(part: dict[str, Any]) -> bool:
    return part.get("type") == "reasoning" and bool(part.get("content"))


def _context(reading: ToldTrace, spans: Sequence[TimedSpan]) -> list[str]:
    """What was retrieved, in the order in which the retrievers started."""
    started = {span.span_id: span.start_ns for span in spans}
    retrieved = sorted(
        (item for item in reading.spans.items() if item[1].span_type == "retriever"),
        key=lambda item: started.get(item[0], 0),
    )
    return [passage for _, one in retrieved if one.output for passage in passages_in(one.output)]


def passages_in(retrieved: str) -> list[str]:
    """The texts that a retriever gave, each by itself where its output is a list of them or of documents."""
    try:
        value = parse_json(retrieved)
    except ValueError:
        return [retrieved]
    if isinstance(value, dict):
        value = next((value[key] for key in _LISTS if isinstance(value.get(key), list)), None)
    return [_passage(item) for item in value] if isinstance(value, list) else [retrieved]


def _passage(item: object) -> str:
    """The text of a document, or all of it where no member is known to be its text."""
    fields = item.get("document", item) if isinstance(item, dict) else item
    if isinstance(fields, dict):
        texts = (fields[key] for key in _TEXTS if isinstance(fields.get(key), str))
        return next(texts, text_of(item))
    return text_of(fields)


_CONTENT: Final = ("input", "output", "trajectory", "context", "retrievalContext", "reasoningSteps", "tools")
"""The parts of a case that spans tell if content is recorded."""


def unrecorded_parts(told: ToldTrace) -> tuple[str, ...]:
    """The parts of a case that no span recorded, as if content capture was off; none if any span tells some content.

    Calls are told by spans of tools, too; without any, and if no answer of a model was recorded, they are unknown.
    """
    spans = told.spans.values()
    models = [span for span in spans if span.span_type == "llm"]
    silent = [span for span in models if span.output is None and span.output_messages is None and span.error is None]
    calls = () if told.tool_calls or not silent or len(silent) < len(models) else ("toolCalls",)
    if told.input is not None or told.output is not None or any(map(_tells, spans)):
        return calls
    return (*_CONTENT, *calls)


def _tells(span: SpanReading | TraceMember) -> bool:
    return any(part is not None for part in (span.input, span.output, span.input_messages, span.output_messages))


def tool_calls_of(calls: Sequence[records.TraceToolCall]) -> list[ToolCall]:
    """The calls of a trace or of a session, as evaluators read them, each with what was not recorded of it.

    A call that failed needs no result. Arguments that are recorded of one call are recorded of all: one that has none
    was called without.
    """
    are_recorded = any(call.has_arguments for call in calls)
    return [tool_call_of(call, are_arguments_recorded=are_recorded) for call in calls]


def tool_call_of(call: records.TraceToolCall, *, are_arguments_recorded: bool) -> ToolCall:
    """A call of a tool as evaluators read it."""
    lacking = [] if call.has_result or call.is_error else ["result"]
    if not are_arguments_recorded:
        lacking.append("arguments")
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
    told = [one.cached_tokens for one in models if one.cached_tokens is not None]
    return sum(told) if told else None
