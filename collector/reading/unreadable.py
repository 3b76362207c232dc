"""What stands in for a reading that failed: everything unknown, and the reason."""

from collections.abc import Sequence

from storage.records import Span, SpanReading, TraceReading


def unreadable_span(error: BaseException | str) -> SpanReading:
    """A span of which nothing is known but why."""
    why = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    return SpanReading(
        span_type="other",
        dialect=None,
        input=None,
        output=None,
        input_messages=None,
        output_messages=None,
        tool_name=None,
        tool_call_id=None,
        tool_arguments=None,
        tool_result=None,
        tool_definitions=(),
        model=None,
        provider=None,
        input_tokens=None,
        output_tokens=None,
        cached_tokens=None,
        reasoning_tokens=None,
        cost_usd=None,
        session_id=None,
        user_id=None,
        error=None,
        error_type=None,
        sources={},
        notes=(f"this span could not be read: {why}"[:1000],),
    )


def unreadable_trace(spans: Sequence[Span], error: BaseException | str) -> TraceReading:
    """A trace of which nothing is known but why."""
    return TraceReading(
        spans={span.span_id: unreadable_span(error) for span in spans},
        input=None,
        output=None,
        final_response=None,
        conversation=(),
        tool_calls=(),
        tool_definitions=(),
        session_id=None,
        user_id=None,
        input_tokens=None,
        output_tokens=None,
        cost_usd=None,
    )
