"""What one span means."""

from collections.abc import Sequence

from collector.conventions.collected import Collected
from collector.conventions.definitions import definitions_of, once_by_name
from collector.conventions.dialogue import NO_DIALOGUE, Dialogue, Told, dialogue
from collector.conventions.failure import failure_of
from collector.conventions.messages import answer_text, last_text
from collector.conventions.names import PENDING
from collector.conventions.own import OwnKeys
from collector.conventions.raw import ours, raw_text
from collector.conventions.table import Slot
from collector.conventions.tool import ToolUse, tool_use
from collector.conventions.values import clean, fraction, text_of, whole
from storage.records import LogRecord, Message, Span, SpanReading, SpanType, ToolDefinition

_TALKING: frozenset[SpanType] = frozenset({"llm", "agent", "chain", "evaluator", "other"})
_OFFERING: frozenset[SpanType] = frozenset({"llm", "agent", "chain", "other"})
_TOTAL_COSTS = ("total", "total_cost", "totalCost", "total_cost_usd")
_UNKNOWN_MODEL = "unknown"  # LangChain4j, where the model did not answer


def read_span(span: Span, logs: Sequence[LogRecord], own: OwnKeys) -> SpanReading:
    """What a span means, by itself and the log records that belong to it; it never raises, whatever they hold."""
    collected = Collected(span, logs, own)
    kind = collected.kind or "other"
    if collected.kind is not None:
        collected.sources["span_type"] = collected.kind_source
    use = tool_use(collected) if kind == "tool" else None
    talk = dialogue(collected, logs, kind) if kind in _TALKING or kind == "embedding" else NO_DIALOGUE
    texts = _input(collected, talk), _output(collected, talk)
    asked, answered = _messages(collected, talk) if kind in _TALKING else (None, None)
    error, error_type = failure_of(collected, use.result if use else None)
    _explain(collected, kind, texts, use)
    return SpanReading(
        span_type=kind,
        dialect=collected.dialect.name if collected.dialect else None,
        input=texts[0],
        output=texts[1],
        input_messages=asked,
        output_messages=answered,
        tool_name=use.name if use else None,
        tool_call_id=use.call_id if use else None,
        tool_arguments=use.arguments if use else None,
        tool_result=use.result.value if use else None,
        tool_definitions=_definitions(collected) if kind in _OFFERING else (),
        model=_model(collected),
        provider=collected.text("provider"),
        input_tokens=_input_tokens(collected),
        output_tokens=_count(collected, "output_tokens"),
        cached_tokens=_count(collected, "cached_tokens"),
        reasoning_tokens=_count(collected, "reasoning_tokens"),
        cost_usd=_cost(collected),
        session_id=collected.text("session_id"),
        user_id=collected.text("user_id"),
        error=error,
        error_type=error_type,
        sources=collected.sources,
        notes=tuple(collected.notes),
    )


def _input(collected: Collected, talk: Dialogue) -> str | None:
    text = ours(collected, "input")
    if text is None and talk.asked.messages:
        text = last_text(talk.asked.messages, "user")
        if text is not None:
            collected.sources["input"] = talk.asked.source
    if text is None and not _lost_content(collected, "input", talk.asked):
        text = raw_text(collected, "input", ("input", "input_messages", "tool_arguments"), talk.asked.messages)
    return text


def _output(collected: Collected, talk: Dialogue) -> str | None:
    text = ours(collected, "output")
    if text is None and talk.answered.is_trajectory:
        text = raw_text(collected, "output", ("output",), None)
    if text is None and talk.answered.messages:
        text = answer_text(talk.answered.messages)
        if text is not None:
            collected.sources["output"] = talk.answered.source
    if text is None and not _lost_content(collected, "output", talk.answered):
        slots: tuple[Slot, ...] = ("output", "output_messages", "answer_calls", "tool_result")
        text = raw_text(collected, "output", slots, talk.answered.messages)
    return text


def _lost_content(collected: Collected, field: str, told: Told) -> bool:
    """Whether messages came without anything in them: OpenTelemetry's contrib drops what is no plain text."""
    if not told.messages or any(message["parts"] for message in told.messages):
        return False
    collected.note(field, f"{told.source} has messages without content")
    return True


def _messages(collected: Collected, talk: Dialogue) -> tuple[tuple[Message, ...] | None, tuple[Message, ...] | None]:
    return _kept(collected, "input_messages", talk.asked), _kept(collected, "output_messages", talk.answered)


def _kept(collected: Collected, field: str, told: Told) -> tuple[Message, ...] | None:
    if told.messages is None:
        return None
    collected.sources[field] = told.source
    return tuple(told.messages)


def _definitions(collected: Collected) -> tuple[ToolDefinition, ...]:
    for _, place, value, source in collected.candidates("tool_definitions"):
        if place.is_group:
            told: object = collected.group(place.key)
        elif place.path:
            told = collected.member(place, value, source)
        elif isinstance(value, str):
            told = collected.opened(value, source)
        else:
            told = clean(value)
        definitions = once_by_name(definitions_of(told))
        if definitions:
            collected.sources["tool_definitions"] = source
            return definitions
    return ()


def _model(collected: Collected) -> str | None:
    model = collected.text("model")
    if model is None or model == _UNKNOWN_MODEL:
        return collected.text("asked_model", "model")
    return model


def _count(collected: Collected, slot: Slot) -> int | None:
    for _, place, value, source in collected.candidates(slot):
        told = collected.member(place, value, source) if place.path else value
        count = whole(told)
        if count is not None:
            collected.sources[slot] = source
            return count
        if told is not None:
            collected.note(slot, f"{source} is {(text_of(told) or '')[:40]!r}, which is no count")
    return None


def _input_tokens(collected: Collected) -> int | None:
    """All input tokens, the cached ones with them, as OpenTelemetry counts them."""
    count = _count(collected, "input_tokens")
    if count is not None and collected.tells("cached_apart"):
        apart = sum(whole(value) or 0 for _, _, value, _ in collected.candidates("cached_apart"))
        if apart:
            collected.note("input_tokens", f"{apart} cached ones, which are told apart, are added")
            return count + apart
    return count


def _cost(collected: Collected) -> float | None:
    for _, place, value, source in collected.candidates("cost_usd"):
        told: object = collected.member(place, value, source) if place.path else value
        if isinstance(told, str):
            told = collected.opened(told, source)
        if isinstance(told, dict):
            amounts = [fraction(told[key]) for key in _TOTAL_COSTS if key in told]
            told = amounts[0] if amounts else sum(fraction(item) or 0.0 for item in told.values())
        cost = fraction(told)
        if cost is not None and cost >= 0:
            collected.sources["cost_usd"] = source
            return cost
    return None


def _explain(collected: Collected, kind: SpanType, texts: tuple[str | None, str | None], use: ToolUse | None) -> None:
    """Say why a field is empty that one would expect on such a span."""
    attributes = collected.span.attributes
    if attributes.get(PENDING[0]) == PENDING[1]:
        collected.note("span", "announces a span that is sent again when it has ended, and is not counted")
    dialect = collected.dialect
    if kind == "llm" and None in texts:
        hint = f" ({dialect.capture})" if dialect and dialect.capture else ""
        for field, text in zip(("input", "output"), texts, strict=True):
            if text is None and not (field == "output" and collected.span.status_code == 2):  # noqa: PLR2004 - ERROR
                collected.note(field, f"content is not captured{hint}")
    if use is not None and use.arguments is None:
        collected.note("tool_arguments", "are not on the span")
    if collected.span.dropped_attributes_count and (None in texts):
        collected.note("span", f"{collected.span.dropped_attributes_count} attributes were dropped by the sender")
