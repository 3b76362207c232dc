"""The call in a tool's span."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from collector.conventions import unwrap
from collector.conventions.agent_logs import call_in
from collector.conventions.messages import messages_of
from collector.conventions.parts import Part
from collector.conventions.pieces import have_content, parts_by_type
from collector.conventions.slot_values import BLANKS, SlotValues
from collector.conventions.table import Slot
from collector.conventions.unwrap import ToolResult
from collector.conventions.values import encodable, is_redacted
from storage.records import JsonValue, LogRecord

_ADK = "adk"
_NULL = "null"
_EMPTY_IS_HIDDEN = frozenset({_ADK, "langsmith"})
"""Dialects that write an empty object in the place of content that is not to be recorded."""

METHOD = ".__call__"  # DSPy names a tool's span after the method that is called
_NAMED_SPANS = ("execute_tool ", "tool_call ", "running tool: ", "running tool ")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """One run of a tool."""

    name: str
    call_id: str | None
    arguments: JsonValue
    result: ToolResult


class _Empty(NamedTuple):
    """An attribute with a blank value in place of a call's arguments or result."""

    source: str
    is_null: bool  # the JSON `null`, and not a blank text


def tool_use(slot_values: SlotValues) -> ToolUse:
    """Return the call of a tool's span: its arguments and result, parsed and unwrapped."""
    arguments = _arguments(slot_values)
    result = _result(slot_values)
    value = result.value
    dialect = slot_values.dialect.name if slot_values.dialect else ""
    if dialect == _ADK:
        value = unwrap.without_adk_wrapping(value)
    if value == {} and dialect in _EMPTY_IS_HIDDEN:
        value = None
        slot_values.sources.pop("tool_result", None)
        if arguments == {}:
            arguments = None
            slot_values.sources.pop("tool_arguments", None)
    call_id = slot_values.text("tool_call_id")
    if call_id is None and result.call_id is not None:
        call_id = result.call_id
        slot_values.sources["tool_call_id"] = slot_values.sources.get("tool_result", "")
    return ToolUse(
        name=_name(slot_values),
        call_id=call_id,
        arguments=arguments,
        result=ToolResult(value, result.call_id, result.is_error),
    )


def logged_use(slot_values: SlotValues, use: ToolUse, logs: Sequence[LogRecord]) -> ToolUse:
    """Complete a call with the arguments, result and status in log records."""
    logged = call_in(logs, use.call_id)
    if logged is None:
        return use
    arguments, result = use.arguments, use.result
    if arguments is None and logged.arguments is not None:
        arguments = logged.arguments
        slot_values.sources["tool_arguments"] = logged.source
    if logged.result is not None and "tool_result" not in slot_values.sources:
        result = logged.result
        slot_values.sources["tool_result"] = logged.source
    elif logged.is_error is not None:
        result = replace(result, is_error=result.is_error or logged.is_error)
    return replace(use, arguments=arguments, result=result)


def _arguments(slot_values: SlotValues) -> JsonValue:
    """Return the arguments: an empty object if blank or null ones are recorded, None if none are."""
    value, empty = _first_value(slot_values, ("tool_arguments", "input"))
    if value is None:
        value = _in_messages(slot_values, "input_messages", "tool_call", "tool_arguments").get("arguments")
    if value is None and empty is not None:
        slot_values.sources["tool_arguments"] = empty.source
        return {}
    return unwrap.arguments(value)


def _result(slot_values: SlotValues) -> ToolResult:
    """Return the result. `sources` names the attribute that records it, also if it is blank or null.

    Without a recorded result, `sources` has no entry.
    """
    value, empty = _first_value(slot_values, ("tool_result", "output"))
    result = unwrap.result(value)
    if result.value is None:
        part = _in_messages(slot_values, "output_messages", "tool_call_response", "tool_result")
        flag = part.get("is_error")
        result = ToolResult(part.get("response"), None, flag if isinstance(flag, bool) else None)
    if value is None and result.value is None and empty is not None:
        slot_values.sources["tool_result"] = empty.source
        return ToolResult(None if empty.is_null else "")
    return result


def _in_messages(slot_values: SlotValues, slot: Slot, kind: str, field: Slot) -> Part:
    """Return the first part of a type in the messages of a span: some store a call as input and output messages."""
    for _, place, value, source in slot_values.candidates(slot):
        if place.is_group:
            continue
        messages = messages_of(slot_values.opened(value, source) if isinstance(value, str) else value, "tool")
        for message in messages or ():
            for part in parts_by_type(message, kind):
                if have_content([{"role": "tool", "parts": [part]}]):
                    slot_values.sources[field] = source
                return part
    return {}


def _first_value(slot_values: SlotValues, slots: tuple[Slot, Slot]) -> tuple[object, _Empty | None]:
    """Return the first value of the field itself, else of the span's input or output.

    Also return the first attribute before it with a blank text or the JSON `null`.
    """
    field, empty = slots[0], None
    for slot in slots:
        for _, place, value, source in slot_values.candidates(slot):
            item: object = slot_values.member(place, value, source) if place.path or place.is_group else value
            if item is None or is_redacted(item):
                continue
            if isinstance(item, str) and item.strip() in ("", _NULL):
                empty = empty or _Empty(source, item.strip() == _NULL)
                continue
            if isinstance(item, str) and item in BLANKS:
                slot_values.note(field, f"{source} holds only the placeholder {item}")
                continue
            if isinstance(item, str):
                slot_values.note_redacted(field, item)
                if item.lstrip()[:1] in ("{", "["):
                    slot_values.opened(item, source)  # for its note if the JSON is broken
            slot_values.sources[field] = source
            return item, empty
    return None, empty


def _name(slot_values: SlotValues) -> str:
    name = slot_values.text("tool_name")
    if name is not None:
        return name.removesuffix(METHOD)
    slot_values.sources["tool_name"] = "the name of the span"
    span_name = slot_values.span.name
    beginning = next((one for one in _NAMED_SPANS if span_name.startswith(one)), "")
    return encodable(span_name[len(beginning) :]).removesuffix(METHOD)
