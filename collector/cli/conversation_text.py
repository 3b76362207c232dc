"""Conversation and tool calls of a trace as text."""

from collections.abc import Iterator, Mapping

from rich.text import Text

from collector.api.responses.base import JsonObject
from collector.api.responses.traces import ToolCallDocument, TraceDocument
from collector.cli.text import fold, json_text
from collector.escaping import one_line
from collector.units import count_text, duration_text

_LINES = 12
"""Lines shown of each part of a message, and of a result. A guess: an answer fits, a document does not."""
_MESSAGES = 40
"""Messages shown, the last ones. A guess; `--json` has them all."""
_ROLE_CELLS = len("assistant  ")
_LEAST_CELLS = 24
_ROLE_STYLES = {"user": "bold cyan", "assistant": "bold green", "system": "bold magenta", "tool": "bold yellow"}


def conversation_text(trace: TraceDocument, *, width: int, ellipsis: str) -> Iterator[Text]:
    """Yield the messages, then the tool calls."""
    cells = message_width(width)
    if trace.conversation:
        yield Text("\nCONVERSATION", style="dim")
        omitted = len(trace.conversation) - _MESSAGES
        if omitted > 0:
            yield Text(f"{ellipsis} {count_text(omitted, 'earlier message')}; --json shows all", style="dim")
        for message in trace.conversation[-_MESSAGES:]:
            yield message_text(message, cells, ellipsis)
    if trace.tool_calls:
        yield Text("\nTOOL CALLS", style="dim")
        for number, call in enumerate(trace.tool_calls, 1):
            yield call_text(number, call, cells, ellipsis)


def message_width(width: int) -> int:
    """Return the width in terminal cells that remains for text beside the role."""
    return max(width - _ROLE_CELLS, _LEAST_CELLS)


def message_text(message: JsonObject, cells: int, ellipsis: str) -> Text:
    """Format the role and the parts of a message, at a width in cells."""
    text = Text()
    role = str(message.get("role", ""))
    label = f"{one_line(role)[: _ROLE_CELLS - 1]:<{_ROLE_CELLS}}"
    for part in message.get("parts") or ({"type": "text", "content": ""},):
        for line in _folded(part_text(part), cells, ellipsis):
            text.append("\n" if text else "")
            text.append(label, style=_ROLE_STYLES.get(role, "bold"))
            text.append(line)
            label = " " * _ROLE_CELLS
    return text


def part_text(part: object) -> str:
    """Return a part of a message as text: content, call, result, or its fields."""
    if not isinstance(part, Mapping):
        return _value(part)
    match part.get("type"):
        case "text":
            return _value(part.get("content"))
        case "reasoning":
            return f"(reasoning) {_value(part.get('content'))}"
        case "tool_call":
            return f"calls {_value(part.get('name'))}({_arguments(part.get('arguments'))})"
        case "tool_call_response":
            return f"= {_value(part.get('response'))}"
        case kind:
            rest = {key: value for key, value in part.items() if key != "type"}
            return f"[{_value(kind)}] {_value(rest)}"


def call_text(number: int, call: ToolCallDocument, cells: int, ellipsis: str) -> Text:
    """Format a tool call with its result, at a width in cells."""
    text = Text(f"{number:>3}. ", style="dim")
    text.append(one_line(call.name), style="bold")
    text.append(f"({one_line(_arguments(call.arguments))})"[: cells * _LINES])
    if call.duration_ms is not None:
        text.append(f"  {duration_text(call.duration_ms)}", style="dim")
    if call.call_id:
        text.append(f"  {one_line(call.call_id)}", style="dim")
    outcome = [("error", call.error or _value(call.result))] if call.is_error else [("=", _value(call.result))]
    for label, content in outcome:
        if call.is_error or call.result is not None:
            for line in _folded(f"{label} {content}", cells, ellipsis):
                text.append(f"\n     {line}", style="red" if call.is_error else "")
    return text


def _folded(value: str, cells: int, ellipsis: str) -> list[str]:
    folded = fold(value.strip(), width=cells, lines=_LINES)
    more = [f"{ellipsis} {count_text(folded.omitted_chars, 'more character')}"] if folded.omitted_chars else []
    return [*folded.lines, *more] or [""]


def _arguments(value: object) -> str:
    # As in a call: `city="Oslo", days=3`.
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={json_text(item, indent=None)}" for key, item in value.items())
    return "" if value is None else _value(value)


def _value(value: object) -> str:
    return value if isinstance(value, str) else json_text(value, indent=None)
