"""What the span of a tool says about its call."""

from dataclasses import dataclass

from collector.conventions import unwrap
from collector.conventions.collected import BLANKS, Collected
from collector.conventions.messages import messages_of
from collector.conventions.parts import Part
from collector.conventions.pieces import parts_by_type
from collector.conventions.table import Slot
from collector.conventions.unwrap import ToolResult
from collector.conventions.values import encodable
from storage.records import JsonValue

_ADK = "adk"
METHOD = ".__call__"  # DSPy names a tool's span by what is called
_NAMED_SPANS = ("execute_tool ", "tool_call ", "running tool: ", "running tool ")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """One run of a tool."""

    name: str
    call_id: str | None
    arguments: JsonValue
    result: ToolResult


def tool_use(collected: Collected) -> ToolUse:
    """The call that a tool's span is about: its arguments and result parsed, out of what was wrapped around them."""
    arguments = _first_value(collected, ("tool_arguments", "input"))
    if arguments is None:
        arguments = _in_messages(collected, "input_messages", "tool_call", "tool_arguments").get("arguments")
    result = unwrap.result(_first_value(collected, ("tool_result", "output")))
    if result.value is None:
        told = _in_messages(collected, "output_messages", "tool_call_response", "tool_result")
        result = ToolResult(told.get("response"), None, told.get("is_error") is True)
    value = result.value
    if collected.dialect and collected.dialect.name == _ADK:
        value = unwrap.without_adk_wrapping(value)
    if value == {}:  # what LangSmith and ADK write where there is none
        value = None
        collected.sources.pop("tool_result", None)
    call_id = collected.text("tool_call_id")
    if call_id is None and result.call_id is not None:
        call_id = result.call_id
        collected.sources["tool_call_id"] = collected.sources.get("tool_result", "")
    return ToolUse(
        name=_name(collected),
        call_id=call_id,
        arguments=unwrap.arguments(arguments),
        result=ToolResult(value, result.call_id, result.is_error),
    )


def _in_messages(collected: Collected, slot: Slot, kind: str, field: Slot) -> Part:
    """The first part of a type in the messages of a span: some tell a call as the messages it came in and left in."""
    for _, place, value, source in collected.candidates(slot):
        if place.is_group:
            continue
        messages = messages_of(collected.opened(value, source) if isinstance(value, str) else value, "tool")
        for message in messages or ():
            for part in parts_by_type(message, kind):
                collected.sources[field] = source
                return part
    return {}


def _first_value(collected: Collected, slots: tuple[Slot, Slot]) -> object:
    """The first place that holds something: of the field itself, else of the span's input or output."""
    field = slots[0]
    for slot in slots:
        for _, place, value, source in collected.candidates(slot):
            told: object = collected.member(place, value, source) if place.path or place.is_group else value
            if told is None or told == "" or (isinstance(told, str) and told.isspace()):
                continue
            if isinstance(told, str) and told in BLANKS:
                collected.note(field, f"{source} holds only the placeholder {told}")
                continue
            if isinstance(told, str):
                collected.note_redacted(field, told)
                if told.lstrip()[:1] in ("{", "["):
                    collected.opened(told, source)  # for its note where it is broken
            collected.sources[field] = source
            return told
    return None


def _name(collected: Collected) -> str:
    name = collected.text("tool_name")
    if name is not None:
        return name.removesuffix(METHOD)
    collected.sources["tool_name"] = "the name of the span"
    span_name = collected.span.name
    beginning = next((one for one in _NAMED_SPANS if span_name.startswith(one)), "")
    return encodable(span_name[len(beginning) :]).removesuffix(METHOD)
