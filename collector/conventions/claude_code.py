"""What the log records of Claude Code tell of a turn: its calls of tools, and its answer."""

from collections.abc import Sequence
from typing import Final

from collector.conventions import unwrap
from collector.conventions.parts import response_part, text_part
from collector.conventions.values import text_of
from storage.records import JsonValue, LogRecord, Message

CLAUDE_CODE_LOGS: Final = "log claude_code.*"
_RESULT, _ANSWER = "claude_code.tool_result", "claude_code.assistant_response"


def messages_in(logs: Sequence[LogRecord]) -> list[Message] | None:
    """The calls with what came of them, and the words of the model, by time; None where no record tells any."""
    found: list[Message] = []
    for log in sorted(logs, key=lambda log: log.time_ns):
        if log.event_name == _RESULT:
            found += _call(log)
        elif log.event_name == _ANSWER:
            text = text_of(log.attributes.get("response"))
            if text and not text.isspace():
                found.append({"role": "assistant", "parts": [text_part(text)]})
    return found or None


def _call(log: LogRecord) -> list[Message]:
    told = log.attributes
    call_id, name = text_of(told.get("tool_use_id")), text_of(told.get("tool_name"))
    arguments = told.get("tool_input", told.get("tool_parameters"))
    call: dict[str, JsonValue] = {
        "type": "tool_call",
        "id": call_id,
        "name": name,
        "arguments": unwrap.arguments(arguments),
    }
    messages: list[Message] = [{"role": "assistant", "parts": [call]}]
    if text_of(told.get("success")) == "false":
        error = text_of(told.get("error")) or text_of(told.get("error_type")) or "failed without a message"
        messages.append({"role": "tool", "parts": [response_part(call_id, error, name, is_error=True)]})
    return messages
