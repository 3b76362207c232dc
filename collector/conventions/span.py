"""The meaning of a span."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from collector.conventions.answering import answering_model
from collector.conventions.counts import read_cost, read_count
from collector.conventions.definitions import definitions_of, once_by_name
from collector.conventions.dialogue import NO_DIALOGUE, Dialogue, SourcedMessages, dialogue
from collector.conventions.failure import ERROR, failure_of
from collector.conventions.finish import read_finish_reason
from collector.conventions.messages import answer_text, last_text, offered_tool, wordless_answer
from collector.conventions.names import RECORD, uncaptured_note
from collector.conventions.own_keys import OwnKeys
from collector.conventions.pieces import have_content, words_of
from collector.conventions.prices import with_cost
from collector.conventions.raw import blank_text, empty_list, ours, raw_text
from collector.conventions.slot_values import SlotValues
from collector.conventions.table import Slot
from collector.conventions.tool import ToolUse, logged_use, tool_use
from collector.conventions.values import text_of
from storage.records import LogRecord, Message, OfferedTool, Span, SpanReading, SpanType

TALKING: frozenset[SpanType] = frozenset({"llm", "agent", "chain", "evaluator", "other"})
OFFERING: frozenset[SpanType] = frozenset({"llm", "agent", "chain", "other"})
RAW: dict[str, tuple[Slot, ...]] = {
    "input": ("input", "input_messages", "tool_arguments"),
    "output": ("output", "output_messages", "answer_calls", "tool_result"),
}
"""Slots of raw texts, used if there are no messages."""
BLANK: dict[str, tuple[Slot, ...]] = {
    "input": ("input", "input_messages"),
    "output": ("output", "output_messages", "answer_text", "tool_result"),
}
"""Slots of blank texts, used if there is no other value."""
UNKNOWN_MODEL = "unknown"  # from LangChain4j, if the model did not answer


def read_span(span: Span, logs: Sequence[LogRecord], own: OwnKeys) -> SpanReading:
    """Read a span and the log records that belong to it; never raises, whatever they hold."""
    return with_cost(read(SlotValues.of(span, logs, own), logs), own.prices)


def read(slot_values: SlotValues, logs: Sequence[LogRecord]) -> SpanReading:
    """Read a span from its collected values."""
    content = read_content(slot_values, logs)
    use = content.use
    return SpanReading(
        span_type=slot_values.kind or "other",
        dialect=slot_values.dialect.name if slot_values.dialect else None,
        input=content.input,
        output=content.output,
        input_messages=None if content.input_messages is None else tuple(content.input_messages),
        output_messages=None if content.output_messages is None else tuple(content.output_messages),
        tool_name=use.name if use else None,
        tool_call_id=use.call_id if use else None,
        tool_arguments=use.arguments if use else None,
        tool_result=use.result.value if use else None,
        tool_definitions=read_definitions(slot_values),
        model=read_model(slot_values),
        provider=slot_values.text("provider"),
        input_tokens=read_count(slot_values, "input_tokens"),
        output_tokens=read_count(slot_values, "output_tokens"),
        cached_tokens=read_count(slot_values, "cached_tokens"),
        reasoning_tokens=read_count(slot_values, "reasoning_tokens"),
        finish_reason=read_finish_reason(slot_values, content.output_messages),
        cost_usd=read_cost(slot_values),
        session_id=slot_values.text("session_id"),
        user_id=slot_values.text("user_id"),
        run_id=slot_values.text("run_id"),
        item_key=slot_values.text("item_key"),
        error=content.error,
        error_type=content.error_type,
        sources=slot_values.sources,
        notes=tuple(slot_values.notes),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The input and output of a span."""

    input: str | None
    output: str | None
    is_answer: bool | None  # the output is the messages' last text; False: they have none; None: another one
    input_messages: list[Message] | None
    output_messages: list[Message] | None
    use: ToolUse | None
    error: str | None
    error_type: str | None


def read_content(slot_values: SlotValues, logs: Sequence[LogRecord]) -> Content:
    """Read the content of a span, and whether it failed."""
    kind = slot_values.kind or "other"
    if slot_values.kind is not None:
        slot_values.sources["span_type"] = slot_values.kind_source
    use = tool_use(slot_values) if kind == "tool" else None
    if use is not None and logs:
        use = logged_use(slot_values, use, logs)
    talk = dialogue(slot_values, logs, kind) if kind in TALKING or kind == "embedding" else NO_DIALOGUE
    texts = _input(slot_values, talk), _output(slot_values, talk)
    prompt, answered = _messages(slot_values, talk) if kind in TALKING else (None, None)
    has_input, has_output = texts[0] is not None or bool(use and use.arguments), texts[1] is not None
    error, error_type = failure_of(slot_values, use.result if use else None, has_input=has_input, has_output=has_output)
    content = Content(
        input=texts[0],
        output=texts[1],
        is_answer=_is_answer(texts[1], answered),
        input_messages=prompt,
        output_messages=answered,
        use=use,
        error=error,
        error_type=error_type,
    )
    _explain(slot_values, kind, content)
    return content


def tells_nothing(content: Content) -> bool:
    """Return True if a span has neither an input nor an output."""
    return all(
        side is None for side in (content.input, content.output, content.input_messages, content.output_messages)
    )


def is_pending(slot_values: SlotValues) -> bool:
    """Return True if a span only announces another one, which is sent when it has ended."""
    candidates = slot_values.candidates("pending")
    return bool(candidates) and any(value == place.value for _, place, value, _ in candidates)


def _input(slot_values: SlotValues, talk: Dialogue) -> str | None:
    text = ours(slot_values, "input")
    if text is None and talk.prompt.messages:
        text = (
            _embedded(talk.prompt.messages)
            if slot_values.kind == "embedding"
            else last_text(talk.prompt.messages, "user")
        )
        if text is None:
            text = _wordless(slot_values, "input", talk.prompt)
        if text is not None:
            slot_values.sources["input"] = talk.prompt.source
    if text is None and not _lost_content(slot_values, "input", talk.prompt):
        text = raw_text(slot_values, "input", RAW["input"], talk.prompt.messages)
    return blank_text(slot_values, "input", BLANK["input"]) if text is None else text


def _embedded(messages: list[Message]) -> str | None:
    return "\n".join(text for message in messages if (text := words_of(message))) or None


def _output(slot_values: SlotValues, talk: Dialogue) -> str | None:
    text = ours(slot_values, "output")
    if text is None and talk.answered.is_trajectory:
        text = raw_text(slot_values, "output", ("output",), None)
    if text is None and talk.answered.messages:
        text = answer_text(talk.answered.messages)
        if text is None:
            text = _wordless(slot_values, "output", talk.answered)
        if text is not None:
            slot_values.sources["output"] = talk.answered.source
    if text is None and not _lost_content(slot_values, "output", talk.answered):
        text = raw_text(slot_values, "output", RAW["output"], talk.answered.messages)
    if text is None and not talk.answered.messages:
        text = blank_text(slot_values, "output", BLANK["output"])
    return empty_list(slot_values, "output") if text is None and _has_searched(slot_values) else text


def _has_searched(slot_values: SlotValues) -> bool:
    if slot_values.kind != "retriever" or slot_values.span.status_code == ERROR:
        return False
    flags = slot_values.candidates("history")
    return not any((text_of(value) or "").lower() == place.value for _, place, value, _ in flags)


def _wordless(slot_values: SlotValues, side: Literal["input", "output"], sourced: SourcedMessages) -> str | None:
    text = wordless_answer(sourced.messages, "user" if side == "input" else "assistant")
    raw = None if text is None else raw_text(slot_values, side, (side,), None)
    is_other = raw is not None and raw[0] not in "{[" and slot_values.sources.get(side) != sourced.source
    return None if is_other else text


def _is_answer(output: str | None, answered: list[Message] | None) -> bool | None:
    text = None if answered is None else answer_text(answered)
    return False if text is None else True if text == output else None


def _lost_content(slot_values: SlotValues, field: Slot, sourced: SourcedMessages) -> bool:
    """Return True if messages have no content: OpenTelemetry's contrib drops all but plain text."""
    if not sourced.messages or have_content(sourced.messages):
        return False
    if raw_text(slot_values, field, (field,), None) is not None:
        return False
    slot_values.note(field, f"{sourced.source} has messages without content")
    return True


def _messages(slot_values: SlotValues, talk: Dialogue) -> tuple[list[Message] | None, list[Message] | None]:
    return _kept(slot_values, "input_messages", talk.prompt), _kept(slot_values, "output_messages", talk.answered)


def _kept(slot_values: SlotValues, field: str, sourced: SourcedMessages) -> list[Message] | None:
    if sourced.messages is not None:
        slot_values.sources[field] = sourced.source
    return sourced.messages


def read_definitions(slot_values: SlotValues) -> tuple[OfferedTool, ...]:
    """Return the tools that a model or an agent was offered."""
    if (slot_values.kind or "other") not in OFFERING:
        return ()
    for _, place, value, source in slot_values.candidates("tool_definitions"):
        if place.is_group:
            item: object = slot_values.group(place.key)
        elif place.path:
            if isinstance(value, str) and place.path[0] not in value:
                continue
            item = slot_values.member(place, value, source)
        elif isinstance(value, str):
            item = slot_values.opened(value, source)
        else:
            item = value
        definitions = once_by_name(definitions_of(item))
        if definitions:
            slot_values.sources["tool_definitions"] = source
            return definitions
    return _among_messages(slot_values)


def _among_messages(slot_values: SlotValues) -> tuple[OfferedTool, ...]:
    """Return the tools among the messages of a model, as Langfuse writes those of LangChain."""
    for _, _, value, source in slot_values.candidates("offered") if slot_values.kind == "llm" else ():
        item = slot_values.opened(value, source) if isinstance(value, str) else value
        messages = item if isinstance(item, list) else ()
        offered = [tool for message in messages if (tool := offered_tool(message)) is not None]
        definitions = once_by_name(definitions_of(offered))
        if definitions:
            slot_values.sources["tool_definitions"] = source
            return definitions
    return ()


def read_model(slot_values: SlotValues) -> str | None:
    """Return the answering model, else the requested one."""
    model = slot_values.text("model")
    if model is not None and model != UNKNOWN_MODEL:
        return model
    answering = answering_model(slot_values)
    return answering or slot_values.text("named_model", "model") or slot_values.text("asked_model", "model")


def _explain(slot_values: SlotValues, kind: SpanType, content: Content) -> None:
    """Note why an expected field is empty."""
    is_empty = content.input is None and content.output is None
    if is_pending(slot_values):
        slot_values.note("span", "announces a span that is sent again when it has ended, and is not counted")
    if slot_values.is_bare and is_empty and slot_values.tells("input_tokens"):
        slot_values.note("span", RECORD)
    elif kind == "llm":
        _explain_content(slot_values, content)
    if content.use is not None and content.use.arguments is None:
        slot_values.note("tool_arguments", "are not on the span")
    if slot_values.span.dropped_attributes_count and (content.input is None or content.output is None):
        slot_values.note("span", f"{slot_values.span.dropped_attributes_count} attributes were dropped by the sender")


def _explain_content(slot_values: SlotValues, content: Content) -> None:
    """Note the setting that captures a missing side.

    If the setting is for both sides, note instead that it is on (the other side is present), or that the call failed.
    """
    has_failed = content.error is not None or content.error_type is not None
    if content.input is None:
        slot_values.note("input", _uncaptured(slot_values, "input", content.output_messages, has_failed=has_failed))
    if content.output is None and slot_values.span.status_code != ERROR:
        slot_values.note("output", _uncaptured(slot_values, "output", content.input_messages, has_failed=has_failed))


def _uncaptured(
    slot_values: SlotValues, side: Literal["input", "output"], beside: list[Message] | None, *, has_failed: bool
) -> str:
    if not slot_values.has_one_switch:
        return uncaptured_note(slot_values.capture)
    other: Slot = "output" if side == "input" else "input"
    is_on = beside is not None and have_content(beside) and ours(slot_values, other) is None  # ours need no setting
    return uncaptured_note(slot_values.capture, side if is_on else "failed" if has_failed else None)
