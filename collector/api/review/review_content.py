"""Content of a review entry: the target, and opinions of others once the reviewer may see them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from collector.api.base.context import Context
from collector.api.review.annotations import votes_on
from collector.conventions.span import read_span
from collector.conventions.trace import read_trace
from storage.errors import NotFound
from storage.records import JsonValue, Message, SpanReading, TraceToolCall
from storage.review.annotations import Annotation, AnnotationTarget
from storage.review.review_queues import ReviewEntry, ReviewQueue

MOST_MESSAGES: Final = 200
"""Maximum number of messages that are shown of a conversation: the latest. A guess: more than a person reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """Content to review. `earlier` counts the messages of the conversation that are left out."""

    input: JsonValue = None
    output: JsonValue = None
    expected: JsonValue = None
    conversation: Sequence[Message] = ()
    earlier: int = 0
    calls: Sequence[TraceToolCall] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultToReview:
    """Result of an evaluator."""

    name: str
    outcome: str
    passed: bool | None
    score: float | None
    threshold: float | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinions:
    """Results and votes of others on an entry."""

    results: Sequence[ResultToReview]
    votes: Sequence[Annotation]


def is_hidden(queue: ReviewQueue, entry: ReviewEntry) -> bool:
    """Return whether opinions of others, and the entry's reason, which reveals opinions, are hidden from a reviewer."""
    return queue.blind and not entry.is_mine


def opinions_shown(context: Context, queue: ReviewQueue, entry: ReviewEntry) -> Opinions | None:
    """Return the results and votes of others; None while they are hidden from the reviewer."""
    if is_hidden(queue, entry):
        return None
    results = _scores(context, entry) if entry.target == "run_item" else _evaluations(context, entry)
    return Opinions(results=results, votes=votes_on(context, entry.about, queue.question))


def reviewed(context: Context, entry: ReviewEntry | AnnotationTarget) -> Reviewed:
    """Return the content to review.

    Raises:
        NotFound: the target was deleted meanwhile.
    """
    if entry.target == "run_item":
        return _item(context, entry)
    return _span(context, entry) if entry.target == "span" else _trace(context, entry)


def _trace(context: Context, entry: ReviewEntry | AnnotationTarget) -> Reviewed:
    trace = context.store.queries.trace(str(entry.trace_id), tenant=entry.tenant)
    if trace is None or trace.summary.tenant != entry.tenant:
        raise _gone()
    reading = read_trace(trace.spans, trace.logs, context.own_keys)
    return Reviewed(
        input=reading.input,
        output=reading.output,
        conversation=reading.conversation[-MOST_MESSAGES:],
        earlier=max(len(reading.conversation) - MOST_MESSAGES, 0),
        calls=reading.tool_calls,
    )


def _span(context: Context, entry: ReviewEntry | AnnotationTarget) -> Reviewed:
    outline = context.store.outlines.of_trace(str(entry.trace_id), tenant=entry.tenant, max_spans=1)
    stored = None if outline is None else context.store.outlines.span(outline, str(entry.span_id))
    if outline is None or stored is None or outline.summary.tenant != entry.tenant:
        raise _gone()
    span = stored.span
    reading = read_span(span, stored.logs, context.own_keys)
    messages = (*(reading.input_messages or ()), *(reading.output_messages or ()))
    times = {"start_ns": span.start_ns, "end_ns": span.end_ns}
    return Reviewed(
        input=reading.input,
        output=reading.output,
        conversation=messages[-MOST_MESSAGES:],
        earlier=max(len(messages) - MOST_MESSAGES, 0),
        calls=[] if reading.tool_name is None else [_call(reading, span.span_id, times)],
    )


def _call(reading: SpanReading, span_id: str, times: Mapping[str, Any]) -> TraceToolCall:
    return TraceToolCall(
        ordinal=0,
        span_id=span_id,
        call_id=reading.tool_call_id,
        name=str(reading.tool_name),
        arguments=reading.tool_arguments,
        result=reading.tool_result,
        has_arguments=reading.tool_arguments is not None,
        has_result=reading.tool_result is not None or "tool_result" in reading.sources,
        is_error=reading.error is not None,
        error=reading.error,
        **times,
    )


def _item(context: Context, entry: ReviewEntry | AnnotationTarget) -> Reviewed:
    item = _run_item(context, entry)
    error = item["error"]
    return Reviewed(
        input=json.loads(item["inputs"]),
        output=json.loads(item["actual_outputs"]) if error is None else {"error": error},
        expected=json.loads(item["expected_outputs"]) or None,
    )


def _run_item(context: Context, entry: ReviewEntry | AnnotationTarget) -> Mapping[str, Any]:
    rows = context.store.run_items.by_number(str(entry.run_id), [entry.item_number or 0])
    if not rows:
        raise _gone()
    return rows[0]


def _scores(context: Context, entry: ReviewEntry) -> list[ResultToReview]:
    return [
        ResultToReview(
            **{name: score.get(name) for name in ("name", "outcome", "passed", "score", "threshold", "reason")}
        )
        for score in _run_item(context, entry)["scores"]
    ]


def _evaluations(context: Context, entry: ReviewEntry) -> list[ResultToReview]:
    evaluations = context.store.judgements.of_trace(str(entry.trace_id), tenant=entry.tenant).evaluations
    return [
        ResultToReview(
            name=each.name or each.rule,
            outcome=each.outcome,
            passed=each.passed,
            score=each.score,
            threshold=each.threshold,
            reason=each.reason,
        )
        for each in evaluations
        if each.span_id == entry.span_id and not each.superseded
    ]


def _gone() -> NotFound:
    return NotFound("the target of this entry no longer exists")
