"""What the log records of Claude Code and Codex tell: calls of tools with what came of them, and answers."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from collector.conventions import unwrap
from collector.conventions.parts import response_part, text_part
from collector.conventions.values import text_of
from storage.records import JsonValue, LogRecord, Message

_ANSWER: Final = "claude_code.assistant_response"


class _Result(NamedTuple):
    """Attributes of an agent's log record about a finished tool call."""

    call_id: str
    arguments: Sequence[str]  # the first that is there
    output: str = ""  # empty: none is told of a call that ended well
    errors: Sequence[str] = ()  # the words of a failure: the first that says something


_RESULTS: Final = {
    "claude_code.tool_result": _Result(
        "tool_use_id", ("tool_input", "tool_parameters"), errors=("error", "error_type")
    ),
    "codex.tool_result": _Result("call_id", ("arguments",), output="output", errors=("output",)),
}


def messages_in(logs: Sequence[LogRecord]) -> tuple[list[Message], str] | None:
    """The calls with what came of them, and the words of the model, by time, and who told; None if no record does."""
    found: list[Message] = []
    source = ""
    for log in sorted(logs, key=lambda log: log.time_ns):
        if log.event_name in _RESULTS:
            found += _call(log, _RESULTS[log.event_name])
        elif log.event_name == _ANSWER:
            text = text_of(log.attributes.get("response"))
            if text and not text.isspace():
                found.append({"role": "assistant", "parts": [text_part(text)]})
        else:
            continue
        source = f"log {log.event_name.partition('.')[0]}.*"
    return (found, source) if found else None


def _call(log: LogRecord, how: _Result) -> list[Message]:
    told = log.attributes
    call_id, name = text_of(told.get(how.call_id)), text_of(told.get("tool_name"))
    call: dict[str, JsonValue] = {
        "type": "tool_call",
        "id": call_id,
        "name": name,
        "arguments": unwrap.arguments(next((told[key] for key in how.arguments if key in told), None)),
    }
    messages: list[Message] = [{"role": "assistant", "parts": [call]}]
    if text_of(told.get("success")) == "false":
        errors = (text_of(told.get(key)) for key in how.errors)
        error = next(filter(None, errors), "failed without a message")
        messages.append({"role": "tool", "parts": [response_part(call_id, error, name, is_error=True)]})
    elif how.output in told:
        messages.append({"role": "tool", "parts": [response_part(call_id, text_of(told[how.output]), name)]})
    return messages
