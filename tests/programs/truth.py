"""The truth of recorded traces, from the answers of the model server, in the form of `tests/corpus/programs-2026-11`.

Nothing here reads a payload as Tracejury does. A span is a call of the model if it surrounds the moment of an answer
and holds numbers that only this answer has, and a field is claimed if its text or number stands anywhere in the span.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from tests.corpus.record.script import ToolCall
from tests.programs import world
from tests.programs.apps import shop
from tests.programs.world import Exchange

Json = dict[str, Any]
SDK_SCOPE = "com.anthropic.sdk.python"  # the client's own span, below that of an instrumentation


FINISHES = {
    "length": {"length", "max_tokens", "max_output_tokens"},
    "tool_call": {"tool_calls", "tool_use", "tool-calls", "tool_call"},
    "stop": {"stop", "end_turn"},
}


@dataclass(slots=True)
class Span:
    """A received span, with all its text."""

    wire: WireSpan
    scope: str
    version: str
    text: str
    values: Sequence[object]  # of its attributes
    children: "list[Span]" = field(default_factory=list)

    @property
    def trace_id(self) -> str:
        """Return the id of its trace, in hex."""
        return self.wire.trace_id.hex()

    @property
    def has_failed(self) -> bool:
        """Return whether it has an error status or an exception."""
        return self.wire.status.code == Status.STATUS_CODE_ERROR or any(e.name == "exception" for e in self.wire.events)

    def holds(self, anchor: str | int) -> bool:
        """Return whether a text or a number stands in it, as a word of its own."""
        return re.search(rf"(?<![\w.]){re.escape(str(anchor))}(?!\w|\.\d)", self.text) is not None

    def surrounds(self, at_ns: int) -> bool:
        """Return whether it was running at a moment."""
        return self.wire.start_time_unix_nano <= at_ns <= self.wire.end_time_unix_nano

    def below(self) -> "Iterator[Span]":
        """Yield all spans below it."""
        for child in self.children:
            yield child
            yield from child.below()


@dataclass(slots=True)
class Truth:
    """The facts of one trace, in the form of an expectation."""

    trace_id: str
    spans: dict[str, Json] = field(default_factory=dict)
    exchanges: list[Exchange] = field(default_factory=list)
    ran: list[Exchange] = field(default_factory=list)  # others, known by the runs of their tools alone
    has_all: bool = True  # each call of the model has a span of its own
    errors: set[str] = field(default_factory=set)  # ids of calls that failed for all to see


def spans_of(traces: ExportTraceServiceRequest, logs: ExportLogsServiceRequest) -> dict[bytes, Span]:
    """Return all spans by id, with their log records among their text."""
    logged: dict[bytes, list[str]] = {}
    for record in (r for group in logs.resource_logs for scope in group.scope_logs for r in scope.log_records):
        logged.setdefault(record.span_id, []).append(_text([*record.attributes, KeyValue(key="", value=record.body)]))
    by_id: dict[bytes, Span] = {}
    for scope in (scope for group in traces.resource_spans for scope in group.scope_spans):
        for wire in scope.spans:
            events = [_text(event.attributes) for event in wire.events]
            text = "\n".join([_text(wire.attributes), *events, *logged.get(wire.span_id, [])])
            values = [_plain(attribute.value) for attribute in wire.attributes]
            by_id[wire.span_id] = Span(wire, scope.scope.name, scope.scope.version, text, values)
    for span in by_id.values():
        if span.wire.parent_span_id in by_id:
            by_id[span.wire.parent_span_id].children.append(span)
    return by_id


def truths(exchanges: Sequence[Exchange], spans: Mapping[bytes, Span], *, has_model_spans: bool = True) -> list[Truth]:
    """Return the truth of each trace that holds calls of the model, for which some libraries make no spans."""
    calls = {call.id: call for exchange in exchanges for call in exchange.answer.calls}
    traces: dict[str, Truth] = {}
    of_span: dict[bytes, list[Exchange]] = {}
    for exchange in exchanges:
        for span in model_spans(exchange, list(spans.values())):
            of_span.setdefault(span.wire.span_id, []).append(exchange)
            truth = traces.setdefault(span.trace_id, Truth(span.trace_id))
            if exchange not in truth.exchanges:
                truth.exchanges.append(exchange)
    of_model: set[bytes] = set()
    for span_id, of_it in of_span.items():
        span = spans[span_id]
        exact = [exchange for exchange in of_it if _is_exact(exchange, span)] if len(of_it) > 1 else of_it
        traces[span.trace_id].has_all &= len(of_it) == 1
        if len(exact) == 1 and has_model_spans:
            of_model.add(span_id)
            own = {call.id for exchange in of_it for call in exchange.answer.calls}
            before = {id_: call for id_, call in calls.items() if id_ not in own}
            claims = _model_claims(exact[0], span, whole_of(span.trace_id, spans), before)
            claims |= _automatic_claims(of_it, span, whole_of(span.trace_id, spans))
            traces[span.trace_id].spans[span_id.hex()] = claims
    for exchange in exchanges:
        _add_runs(exchange, spans, of_model, traces)
    return list(traces.values())


def _add_runs(
    exchange: Exchange, spans: Mapping[bytes, Span], of_model: set[bytes], traces: Mapping[str, Truth]
) -> None:
    """Add the runs of the tools that an answer called, if a trace has calls of the model."""
    for call in exchange.answer.calls:
        for span in tool_spans(call, exchange.at_ns, spans.values(), of_model):
            truth = traces.get(span.trace_id)
            if truth is not None:
                truth.spans[span.wire.span_id.hex()] = _tool_claims(call, span)
                if exchange not in [*truth.exchanges, *truth.ran]:
                    truth.ran.append(exchange)
                if span.has_failed:
                    truth.errors.add(call.id)


def whole_of(trace_id: str, spans: Mapping[bytes, Span]) -> Span:
    """Return all text of a trace as one span."""
    text = "\n".join(span.text for span in spans.values() if span.trace_id == trace_id)
    return Span(WireSpan(), "", "", text, [])


def model_spans(exchange: Exchange, spans: Sequence[Span]) -> list[Span]:
    """Return the spans of one call of the model: one, or two if the client's library makes one of its own.

    Codex makes one when the answer has come, below that of the turn.
    """
    tokens = exchange.answer.tokens
    numbers: list[str | int] = [
        tokens.output,
        tokens.output - tokens.reasoning,
        f"Answer {exchange.number}:",
        *_ids(exchange),
    ]
    numbers += [text for text in (exchange.answer.reasoning, exchange.answer.refusal) if text]
    evident = [span for span in spans if any(span.holds(number) for number in numbers)]
    around = [span for span in evident if span.surrounds(exchange.at_ns)]
    own = [span for span in around if span.scope != SDK_SCOPE]
    below = {id(one) for span in own for one in span.below()}
    of_sdk = [span for span in around if span.scope == SDK_SCOPE and id(span) not in below]
    if not around:  # of a stream, some make a span after it
        after = [span for span in evident if _is_exact(exchange, span)]
        own = sorted(after, key=lambda span: abs(span.wire.start_time_unix_nano - exchange.at_ns))[:1]
    own = [span for span in own if _is_exact(exchange, span)] or own
    among = {id(span) for span in own}
    inner = [span for span in own if among.isdisjoint(id(one) for one in span.below())]
    later = [[one for one in span.below() if one.scope != SDK_SCOPE and _is_exact(exchange, one)] for span in inner]
    return [one for span, spans_below in zip(inner, later, strict=True) for one in spans_below or [span]] + of_sdk


def tool_spans(call: ToolCall, after_ns: int, spans: Iterable[Span], of_model: set[bytes]) -> list[Span]:
    """Return the innermost spans that are named after a tool and hold a call that the model asked for before."""
    named = [
        span
        for span in spans
        if span.wire.span_id not in of_model
        and span.wire.start_time_unix_nano > after_ns
        and (call.name in span.wire.name or call.name in span.values)
        and (span.holds(call.id) or span.holds(arguments_anchor(call)) or span.holds(result_anchor(call)))
        and (span.holds(result_anchor(call)) or span.has_failed)  # or else it is a part of the answer
    ]
    return [span for span in named if not any(one in named for one in span.below())]


def expectation(truth: Truth, spans: Mapping[bytes, Span], program: str) -> Json:
    """Return the claims about one trace, as `programs_reading` scores them."""
    own = [span for span in spans.values() if span.trace_id == truth.trace_id]
    libraries = sorted({f"{span.scope} {span.version}".strip() for span in own})
    head = {"library": libraries, "trace_id": truth.trace_id, "scenario": program}
    return head | {"spans": truth.spans, "trace": _trace_claims(truth, whole_of(truth.trace_id, spans))}


def _trace_claims(truth: Truth, whole: Span) -> Json:
    claims: Json = {}
    of_model = [fields for fields in truth.spans.values() if fields.get("span_type") == "llm"]
    for name, count in (("input_tokens", "input"), ("output_tokens", "output")):
        if truth.has_all and of_model and all(name in fields for fields in of_model):
            claims[name] = sum(getattr(exchange.answer.tokens, count) for exchange in truth.exchanges)
    last = truth.exchanges[-1].answer
    text = last.text or last.refusal
    is_mixed = any("output_contains" in fields for fields in of_model)  # with thoughts
    is_answered = any("output" in fields for fields in of_model) or not of_model  # and not the text of an error alone
    if text and not last.calls and (is_answered or is_mixed) and _holds_text(whole, text):
        claims |= {"output_contains": [text]} if is_mixed else {"final_response": text}
    prompt = shop.PROMPTS[truth.exchanges[0].scenario]
    if whole.holds(prompt):
        claims["input_contains"] = [prompt]
    in_order = sorted([*truth.exchanges, *truth.ran], key=lambda exchange: exchange.number)
    if calls := [call for exchange in in_order for call in exchange.answer.calls if _has_call(call, whole)]:
        claims["tool_calls"] = [_call_claims(call, whole, truth.errors) for call in calls]
    elif not claims.keys().isdisjoint({"final_response", "output_contains"}):
        claims["tool_calls"] = []
    return claims


def _call_claims(call: ToolCall, whole: Span, errors: set[str]) -> Json:
    claims: Json = {"call_id": call.id if whole.holds(call.id) else None, "name": call.name}
    if _has_arguments(call, whole):
        claims["arguments"] = call.arguments
    if call.result is not None:
        claims["is_error"] = False
        if whole.holds(result_anchor(call)):
            claims["result"] = call.result
    elif call.id in errors:
        claims["is_error"] = True
    return claims


def _model_claims(exchange: Exchange, span: Span, whole: Span, calls: Mapping[str, ToolCall]) -> Json:
    request, answer = exchange.request, exchange.answer
    claims: Json = {"name": span.wire.name, "span_type": "llm"}
    model = next((model for model in (answer.model, request.model) if span.holds(model)), None)
    if model:
        claims["model"] = model
    claims |= _token_claims(exchange, span)
    known = [prompt for prompt in shop.PROMPTS.values() if any(prompt in entry.text for entry in request.entries)]
    is_question = not known or any(prompt in request.prompt for prompt in known)  # no observation in the user's name
    if is_question and _plain_words(request.prompt) in _plain_words(span.text):
        claims["input"] = request.prompt
    elif prompts := [prompt for prompt in known if prompt in request.prompt and _holds_text(span, prompt)]:
        claims["input_contains"] = prompts  # a framework joins messages after the instrumentation has seen them
    if request.system and _holds_text(span, request.system):
        claims["system"] = request.system
    has_thoughts = bool(answer.reasoning) and span.holds(answer.reasoning)
    is_mixed = has_thoughts and not tells_thoughts(span)
    if (text := answer.text or answer.refusal) and _holds_text(span, text):
        claims |= {"output_contains": [text]} if is_mixed else {"output": text}
    if has_thoughts and not is_mixed:
        claims["output_reasoning"] = answer.reasoning
    if listed := _listed(answer.calls, span, whole):
        claims["output_tool_calls"] = listed
    reason = "length" if answer.is_cut else "tool_call" if answer.calls else "stop"
    words = {re.sub(r"^\W+|\W+$", "", str(value)).removeprefix("FinishReason.").lower() for value in span.values}
    if not answer.refusal and words & FINISHES[reason]:
        claims["finish_reason"] = reason
    return claims | _history_claims(exchange, span, whole, calls)


def _automatic_claims(exchanges: Sequence[Exchange], span: Span, whole: Span) -> Json:
    listed = _listed([call for exchange in exchanges for call in exchange.answer.calls], span, whole)
    return {"output_tool_calls": listed} if len(exchanges) > 1 and listed else {}


def tells_thoughts(span: Span) -> bool:
    """Return whether a span marks a text as thoughts: Google's ADK sends them like other texts."""
    keys = [attribute.key for attribute in span.wire.attributes if attribute.value.HasField("string_value")]
    text = re.sub(world.THOUGHT, "", "\n".join([span.text, *keys]))
    for prompt in shop.PROMPTS.values():
        text = text.replace(prompt, "")
    return re.search("reasoning|thinking|thought|summary_text", text, re.IGNORECASE) is not None


def _token_claims(exchange: Exchange, span: Span) -> Json:
    tokens = exchange.answer.tokens
    claims: Json = {}
    if span.holds(tokens.input) or (span.holds(tokens.input - tokens.cached) and span.holds(tokens.cached)):
        claims["input_tokens"] = tokens.input
    if span.holds(tokens.output) or (tokens.reasoning and span.holds(tokens.output - tokens.reasoning)):
        claims["output_tokens"] = tokens.output
    for name, count in (("cached_tokens", tokens.cached), ("reasoning_tokens", tokens.reasoning)):
        if count and span.holds(count):
            claims[name] = count
    return claims


def _history_claims(exchange: Exchange, span: Span, whole: Span, calls: Mapping[str, ToolCall]) -> Json:
    claims: Json = {}
    before = [calls[id_] for entry in exchange.request.entries for id_ in entry.calls if id_ in calls]
    if listed := _listed(before, span, whole):
        claims["input_tool_calls"] = listed
    results = [
        (calls[id_], sent) for entry in exchange.request.entries for id_, sent in entry.results.items() if id_ in calls
    ]
    if all(call.result is not None for call, _ in results) and (
        listed := [
            _id_claim(call, span, whole) | {"response": _response(call, sent, span)}
            for call, sent in results
            if span.holds(result_anchor(call))
        ]
    ):
        claims["input_tool_results"] = listed
    has_tools = any(span.holds(description) for description, _ in shop.TOOLS.values())
    if has_tools and len(exchange.request.tools) == len(shop.TOOLS):
        claims["tool_definitions"] = exchange.request.tools
    return claims


def _response(call: ToolCall, sent: object, span: Span) -> object:
    """Return a result as it was sent to the model, or as the tool gave it if the wrapper is not in the span."""
    if isinstance(sent, dict) and len(sent) == 1:
        ((key, value),) = sent.items()
        if value == call.result and re.search(rf"{key}\W{{1,12}}{re.escape(str(value)[:6])}", span.text):
            return sent
    return call.result


def _tool_claims(call: ToolCall, span: Span) -> Json:
    claims: Json = {"name": span.wire.name, "tool_name": call.name}
    if span.holds(call.id):
        claims["tool_call_id"] = call.id
    if _has_arguments(call, span):
        claims["tool_arguments"] = call.arguments
    if call.result is not None and span.holds(result_anchor(call)):
        claims["tool_result"] = call.result
    if call.result is None and span.has_failed and span.holds(shop.LOST):
        claims["error"] = shop.LOST
    return claims


def arguments_anchor(call: ToolCall) -> str:
    """Return the text that stands wherever the arguments of a call do, and nowhere else."""
    return str(call.arguments.get("item") or call.arguments.get("order_id") or call.id)


def result_anchor(call: ToolCall) -> str:
    """Return the text that stands wherever the result of a call does, and nowhere else."""
    if isinstance(call.result, str) and call.result.startswith("{"):
        return str(json.loads(call.result)["shelf"])
    return " ".join(str(call.result or shop.LOST).split()[:4])


def _has_arguments(call: ToolCall, span: Span) -> bool:
    if "answer" in call.arguments:  # the tool that ends a run, with the text of the answer
        return span.holds(str(call.arguments["answer"]).split(":")[0] + ":")
    if "order_id" in call.arguments:  # the result names the order too
        return re.search(rf"order_id\W+{call.arguments['order_id']}", span.text) is not None
    return span.holds(arguments_anchor(call)) and span.holds(call.name)


def _has_call(call: ToolCall, whole: Span) -> bool:
    return _has_arguments(call, whole) or whole.holds(call.id)


def _listed(calls: Sequence[ToolCall], span: Span, whole: Span) -> list[Json]:
    """Return the calls in a span that has arguments of some; those in pieces of a stream are claimed by their ids."""
    if not any(_has_arguments(call, span) for call in calls):
        return []
    return [
        _id_claim(call, span, whole)
        | {"name": call.name}
        | ({"arguments": call.arguments} if _has_arguments(call, span) else {})
        for call in calls
        if _has_call(call, span)
    ]


def _id_claim(call: ToolCall, span: Span, whole: Span) -> Json:
    return {"id": call.id} if span.holds(call.id) else {} if whole.holds(call.id) else {"id": None}


def _ids(exchange: Exchange) -> list[str]:
    return [call.id for call in exchange.answer.calls]


def _is_exact(exchange: Exchange, span: Span) -> bool:
    tokens = exchange.answer.tokens
    return bool({tokens.output, tokens.output - tokens.reasoning} & _integers(span))


def _integers(span: Span) -> set[object]:
    return {int(value) for value in span.values if isinstance(value, int | float) and value == value // 1}


def _holds_text(span: Span, text: str) -> bool:
    return _plain_words(_plain_words(text)[:24]) in _plain_words(span.text)


def _plain_words(text: str) -> str:
    return re.sub(r"\W+", " ", text).strip()


def _text(attributes: Any) -> str:
    return "\n".join(_written(_plain(attribute.value)) for attribute in attributes)


def _written(value: object) -> str:
    """Return a value as text in which JSON within JSON is no longer escaped."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    while '\\"' in text or "\\\\" in text:
        text = text.replace("\\\\", "\\").replace('\\"', '"')
    text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text)
    return text.replace("\\n", "\n")


def _plain(value: AnyValue) -> object:
    match value.WhichOneof("value"):
        case "array_value":
            return [_plain(one) for one in value.array_value.values]
        case "kvlist_value":
            return {one.key: _plain(one.value) for one in value.kvlist_value.values}
        case "bytes_value":
            return value.bytes_value.decode(errors="replace")
        case None:
            return None
        case kind:
            return getattr(value, kind)
