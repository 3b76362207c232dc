"""What the log records of Claude Code and Codex tell: calls of tools with what came of them, and answers."""

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
    arguments: Sequence[str]  # the first that is there
    output: str = ""  # empty: none is told of a call that ended well
    errors: Sequence[str] = ()  # the words of a failure: the first that says something


_RESULTS: Final = {
    "claude_code.tool_result": _Result(
        "tool_use_id", ("tool_input", "tool_parameters"), errors=("error", "error_type")
    ),
    "codex.tool_result": _Result("call_id", ("arguments",), output="output", errors=("output",)),
}

CALL_IDS: Final[Mapping[str, str]] = {event: how.call_id for event, how in _RESULTS.items()}
"""Attributes with the id of a call, by the events that tell how it ended: they belong to the tool's span, too."""


class LoggedCall(NamedTuple):
    """A finished tool call, as a log record tells it."""

    source: str
    arguments: JsonValue
    result: ToolResult | None  # None: the record tells at most whether it ended well
    is_error: bool | None


def call_id_in(log: LogRecord) -> str | None:
    """Return the id of the call whose end a log record tells; None if it tells of none."""
    key = CALL_IDS.get(log.event_name)
    return None if key is None else text_of(log.attributes.get(key)) or None


class CallEnds:
    """The last log record of each call that tells how it ended: a span without one of its own has that of another."""

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
        """The calls of which records tell."""
        return {call_id for *_, call_id in self._last}

    def beside(self, span: tuple[str, str, str], call_id: str | None) -> list[LogRecord]:
        """Return the record of another span that belongs to a tool's span (its tenant, trace and id), if one does."""
        if call_id is None or (*span, call_id) in self._own:
            return []
        last = self._last.get((*span[:2], call_id))
        return [] if last is None else [last]


def call_in(logs: Sequence[LogRecord], call_id: str | None) -> LoggedCall | None:
    """Return how a call ended by the last of the log records that tells it; None if none does."""
    ends = [log for log in logs if call_id is not None and call_id_in(log) == call_id]
    return _logged(max(reversed(ends), key=lambda log: log.time_ns)) if ends else None


def messages_in(logs: Sequence[LogRecord]) -> tuple[list[Message], str] | None:
    """The calls with what came of them, and the words of the model, by time, and who told; None if no record does."""
    found: list[Message] = []
    source = ""
    for log in sorted(logs, key=lambda log: log.time_ns):
        if log.event_name in _RESULTS:
            found += _call(log)
        elif log.event_name == _ANSWER:
            text = text_of(log.attributes.get("response"))
            if text and not text.isspace():
                found.append({"role": "assistant", "parts": [text_part(text)]})
        else:
            continue
        source = f"log {log.event_name.partition('.')[0]}.*"
    return (found, source) if found else None


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
    how, told = _RESULTS[log.event_name], log.attributes
    result = None
    is_error = {"true": False, "false": True}.get((text_of(told.get("success")) or "").lower())
    if is_error:
        errors = (text_of(told.get(key)) for key in how.errors)
        result = ToolResult(next(filter(None, errors), "failed without a message"), is_error=True)
    elif how.output in told:
        result = ToolResult(text_of(told[how.output]), is_error=is_error)
    return LoggedCall(
        source=f"log {log.event_name}",
        arguments=unwrap.arguments(next((told[key] for key in how.arguments if key in told), None)),
        result=result,
        is_error=is_error,
    )
