"""Log records of Claude Code and Codex: tool calls with results, and answers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from collector.conventions import unwrap
from collector.conventions.parts import response_part, text_part
from collector.conventions.unwrap import ToolResult
from collector.conventions.values import text_of
from storage.records import JsonValue, LogRecord, Message

_ANSWER: Final = "claude_code.assistant_response"


class _Result(NamedTuple):
    """Attributes of an agent's log record about a finished tool call."""

    call_id: str
    arguments: Sequence[str]  # keys, of which the first present one counts
    output: str = ""  # "": a successful call has no output
    errors: Sequence[str] = ()  # the error message: the first that is not blank


_RESULTS: Final = {
    "claude_code.tool_result": _Result(
        "tool_use_id", ("tool_input", "tool_parameters"), errors=("error", "error_type")
    ),
    "codex.tool_result": _Result("call_id", ("arguments",), output="output", errors=("output",)),
}

CALL_IDS: Final[Mapping[str, str]] = {event: how.call_id for event, how in _RESULTS.items()}
"""By event that records the end of a tool call: the attribute with the call's id. Such a record is read with the tool's
span too, even if it names another span."""


class LoggedCall(NamedTuple):
    """A finished tool call of a log record."""

    source: str
    arguments: JsonValue
    result: ToolResult | None  # None: the record has at most the status
    is_error: bool | None


def call_id_in(log: LogRecord) -> str | None:
    """Return the id of the call whose end a log record contains; None if it contains none."""
    key = CALL_IDS.get(log.event_name)
    return None if key is None else text_of(log.attributes.get(key)) or None


class CallEnds:
    """By call id: the last log record of the call's end. A tool's span without such a record uses another span's."""

    def __init__(self, logs: Iterable[LogRecord]) -> None:
        self._last: dict[tuple[str, str, str], LogRecord] = {}
        self._own: set[tuple[str, str, str, str]] = set()
        for log in logs:
            call_id = call_id_in(log)
            if call_id is None:
                continue
            self._own.add((log.tenant, log.trace_id, log.span_id, call_id))
            key = log.tenant, log.trace_id, call_id
            known = self._last.get(key)
            if known is None or log.time_ns >= known.time_ns:
                self._last[key] = log

    @property
    def call_ids(self) -> set[str]:
        """Return the ids of the recorded calls."""
        return {call_id for *_, call_id in self._last}

    def beside(self, span: tuple[str, str, str], call_id: str | None) -> list[LogRecord]:
        """Return the record of another span that belongs to a tool's span (its tenant, trace and id), if one does."""
        if call_id is None or (*span, call_id) in self._own:
            return []
        last = self._last.get((*span[:2], call_id))
        return [] if last is None else [last]


def call_in(logs: Sequence[LogRecord], call_id: str | None) -> LoggedCall | None:
    """Return the end of a call by the last log record that has it; None if none does."""
    ends = [log for log in logs if call_id is not None and call_id_in(log) == call_id]
    return _logged(max(reversed(ends), key=lambda log: log.time_ns)) if ends else None


def messages_in(logs: Sequence[LogRecord]) -> tuple[list[Message], str] | None:
    """Return calls with results and the model's texts, by time, and their source; None if no record has any."""
    messages: list[Message] = []
    source = ""
    for log in sorted(logs, key=lambda log: log.time_ns):
        if log.event_name in _RESULTS:
            messages += _call(log)
        elif log.event_name == _ANSWER:
            text = text_of(log.attributes.get("response"))
            if text and not text.isspace():
                messages.append({"role": "assistant", "parts": [text_part(text)]})
        else:
            continue
        source = f"log {log.event_name.partition('.')[0]}.*"
    return (messages, source) if messages else None


def _call(log: LogRecord) -> list[Message]:
    logged = _logged(log)
    call_id, name = text_of(log.attributes.get(CALL_IDS[log.event_name])), text_of(log.attributes.get("tool_name"))
    call: dict[str, JsonValue] = {"type": "tool_call", "id": call_id, "name": name, "arguments": logged.arguments}
    messages: list[Message] = [{"role": "assistant", "parts": [call]}]
    if logged.result is not None:
        part = response_part(call_id, logged.result.value, name, is_error=logged.result.is_error)
        messages.append({"role": "tool", "parts": [part]})
    return messages


def _logged(log: LogRecord) -> LoggedCall:
    how, attributes = _RESULTS[log.event_name], log.attributes
    result = None
    is_error = {"true": False, "false": True}.get((text_of(attributes.get("success")) or "").lower())
    if is_error:
        errors = (text_of(attributes.get(key)) for key in how.errors)
        result = ToolResult(next(filter(None, errors), "failed without a message"), is_error=True)
    elif how.output in attributes:
        result = ToolResult(text_of(attributes[how.output]), is_error=is_error)
    return LoggedCall(
        source=f"log {log.event_name}",
        arguments=unwrap.arguments(next((attributes[key] for key in how.arguments if key in attributes), None)),
        result=result,
        is_error=is_error,
    )
