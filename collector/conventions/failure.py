"""Failure of a span: its message and type, from the status, exceptions, attributes, or the result of a tool."""

from collections.abc import Sequence

from collector.conventions import unwrap
from collector.conventions.counts import tells_tokens
from collector.conventions.finish import read_finish_reason
from collector.conventions.names import EXCEPTION_EVENT, EXCEPTION_MESSAGE, EXCEPTION_TYPE
from collector.conventions.slot_values import SlotValues
from collector.conventions.table import Slot
from collector.conventions.unwrap import ToolResult
from collector.conventions.values import encodable, text_of
from storage.records import SpanEvent

_SLOTS: frozenset[Slot] = frozenset({"failed", "error", "error_type"})

OK = 1
ERROR = 2

_TRACEBACK = "Traceback (most recent call last)"
_UNSAID = "failed without a message"
_MAX_MESSAGE_CHARS = 4_000  # a guess: LangChain puts tracebacks into messages; the rest stays on the span


def failure_of(
    slot_values: SlotValues, result: ToolResult | None, *, has_input: bool, has_output: bool
) -> tuple[str | None, str | None]:
    """Return the message and the type of the failure; both None for a span that did not fail.

    Without an error status, a tool fails if its result says so, and any span fails by an unhandled exception. If the
    status is OK, an exception counts as handled if the span has an output.
    """
    error, error_type = _recorded_failure(slot_values, has_input=has_input, has_output=has_output)
    if result is None or error not in (None, _UNSAID) or error_type is not None:
        return error, error_type
    if not unwrap.is_failure(result.value, is_error=result.is_error):
        return error, None
    message = text_of(result.value)
    if error is None or message:
        slot_values.sources["error"] = slot_values.sources.get("tool_result", "")
    return (message or _UNSAID)[:_MAX_MESSAGE_CHARS], None


def _recorded_failure(slot_values: SlotValues, *, has_input: bool, has_output: bool) -> tuple[str | None, str | None]:
    span = slot_values.span
    has_failed = span.status_code == ERROR
    if not has_failed and not span.events and not slot_values.tells_any(_SLOTS):
        return None, None
    for _, place, value, source in slot_values.candidates("failed"):
        if (text_of(value) or "").strip('"').lower() == place.value:
            has_failed = True
            slot_values.sources["error"] = source
    exceptions = [event for event in span.events if event.name == EXCEPTION_EVENT] if span.events else []
    if not has_failed:
        exceptions = [event for event in exceptions if not _is_control_flow(event)]
        if span.status_code == OK and not (
            exceptions and _is_ok_doubtful(slot_values, exceptions, has_input=has_input, has_output=has_output)
        ):
            return None, None
    is_recorded = exceptions or slot_values.tells("error") or slot_values.tells("error_type")
    if not has_failed and not is_recorded:
        return None, None
    error_type = slot_values.text("error_type") or _type(slot_values, exceptions)
    if not has_failed and not exceptions and error_type is None and not slot_values.tells("error"):
        return None, None
    return _message(slot_values, exceptions, has_failed=has_failed, error_type=error_type), error_type


def _is_control_flow(exception: SpanEvent) -> bool:
    kind, message = (text_of(exception.attributes.get(key)) or "" for key in (EXCEPTION_TYPE, EXCEPTION_MESSAGE))
    return kind.rpartition(".")[2] in _CONTROL_FLOW or message.partition("(")[0] in _CONTROL_FLOW


_CONTROL_FLOW = frozenset(
    {
        "GraphInterrupt",
        "NodeInterrupt",
        "GraphBubbleUp",
        "ParentCommand",
        "CallDeferred",
        "ApprovalRequired",
        "GeneratorExit",
        "StopIteration",
        "StopAsyncIteration",
        "CancelledError",
    }
)


def _is_ok_doubtful(
    slot_values: SlotValues, exceptions: Sequence[SpanEvent], *, has_input: bool, has_output: bool
) -> bool:
    """Return True if a step may have failed although its status is OK, which SDKs never change again.

    A step that handled its exception has an output; an exception that escaped was not handled. `exception.escaped` is
    false on failures, too, because SDKs write that as the default.
    """
    if slot_values.kind is None:
        return False
    is_early = slot_values.dialect is not None and slot_values.dialect.has_early_status
    escaped = (text_of(event.attributes.get(_ESCAPED)) or "" for event in exceptions)
    if is_early or "true" in map(str.lower, escaped):
        return True
    # If content is not captured, only model spans show an answer otherwise: by output tokens or a finish reason.
    is_captured = has_input or slot_values.kind == "llm"
    return is_captured and not has_output and not _has_ended(slot_values)


def _has_ended(slot_values: SlotValues) -> bool:
    return tells_tokens(slot_values, "output_tokens") or read_finish_reason(slot_values, None) not in (None, "error")


_ESCAPED = "exception.escaped"


def _type(slot_values: SlotValues, exceptions: Sequence[SpanEvent]) -> str | None:
    for event in reversed(exceptions):
        text = text_of(event.attributes.get(EXCEPTION_TYPE))
        if text:
            slot_values.sources["error_type"] = f"event {EXCEPTION_EVENT}"
            return text
    return None


def _message(
    slot_values: SlotValues, exceptions: Sequence[SpanEvent], *, has_failed: bool, error_type: str | None
) -> str | None:
    source = slot_values.sources.pop("error", None)
    if slot_values.span.status_message:
        slot_values.sources["error"] = "status"
        return _shortened(slot_values.span.status_message)
    for event in reversed(exceptions):
        text = text_of(event.attributes.get(EXCEPTION_MESSAGE))
        if text:
            slot_values.sources["error"] = f"event {EXCEPTION_EVENT}"
            return _shortened(text)
    text = slot_values.text("error")
    if text is not None:
        return _shortened(text)
    if not has_failed or error_type is not None:
        return None
    slot_values.sources["error"] = source or "status"
    return _UNSAID


def _shortened(message: str) -> str:
    before, traceback, _ = message.partition(_TRACEBACK)
    return encodable((before.strip() if traceback and before.strip() else message)[:_MAX_MESSAGE_CHARS])
