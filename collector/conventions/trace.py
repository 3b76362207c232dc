"""What a trace means: its calls, its conversation, its answer, and what it used."""

from collections.abc import Iterable, Mapping, Sequence

from collector.conventions.calls import tool_calls
from collector.conventions.definitions import once_by_name
from collector.conventions.messages import answer_text
from collector.conventions.names import PENDING, RESPONSE_ID
from collector.conventions.own import OwnKeys
from collector.conventions.span import read_span
from collector.conventions.tree import Tree, tree_of
from collector.conventions.wrapping import repeating
from storage.records import LogRecord, Message, Span, SpanReading, ToolDefinition, TraceReading

_TALKING = ("llm", "agent", "chain")


def read_trace(spans: Sequence[Span], logs: Sequence[LogRecord], own: OwnKeys) -> TraceReading:
    """What the spans and log records of one trace mean together; it never raises, whatever they hold."""
    tree = tree_of([span for span in spans if not _is_pending(span)])
    logs_by_span: dict[str, list[LogRecord]] = {}
    for log in logs:
        logs_by_span.setdefault(log.span_id, []).append(log)
    counted = {span_id: read_span(span, logs_by_span.get(span_id, ()), own) for span_id, span in tree.spans.items()}
    announced = {span.span_id: read_span(span, (), own) for span in spans if _is_pending(span)}
    costs = _leaves(tree, counted, "cost_usd")
    root = tree.root()
    root_reading = counted[root.span_id] if root else None
    return TraceReading(
        spans=announced | counted,
        input=_told_input(tree, counted, root_reading),
        output=_told_output(tree, counted, root_reading),
        final_response=_final_response(tree, counted, root_reading),
        conversation=_conversation(counted),
        tool_calls=tool_calls(tree, counted),
        tool_definitions=_definitions(counted),
        session_id=_first(root_reading, counted, "session_id"),
        user_id=_first(root_reading, counted, "user_id"),
        input_tokens=_counts(tree, counted, "input_tokens"),
        output_tokens=_counts(tree, counted, "output_tokens"),
        cost_usd=sum(costs) if costs else None,
    )


def _is_pending(span: Span) -> bool:
    return span.attributes.get(PENDING[0]) == PENDING[1]


def _told_input(tree: Tree, readings: Mapping[str, SpanReading], root: SpanReading | None) -> str | None:
    """The root's input; where it tells none, that of the topmost span of an agent, a chain or a model, the first."""
    if root is not None and root.input is not None:
        return root.input
    telling = [(tree.depths[span_id], r.input) for span_id, r in readings.items() if _talks(r) and r.input is not None]
    return min(telling, key=lambda one: one[0], default=(0, None))[1]


def _told_output(tree: Tree, readings: Mapping[str, SpanReading], root: SpanReading | None) -> str | None:
    """The root's output; where it tells none, that of the topmost span of an agent, a chain or a model, the last."""
    if root is not None and root.output is not None:
        return root.output
    telling = [
        (tree.depths[span_id], r.output) for span_id, r in readings.items() if _talks(r) and r.output is not None
    ]
    return min(reversed(telling), key=lambda one: one[0], default=(0, None))[1]


def _talks(reading: SpanReading) -> bool:
    return reading.span_type in _TALKING


def _final_response(tree: Tree, readings: Mapping[str, SpanReading], root: SpanReading | None) -> str | None:
    """The last words of a model; where no model's span tells any, those of an agent, then the root's output."""
    for kinds in (("llm",), ("agent", "chain")):
        spoken = [tree.spans[span_id] for span_id, reading in readings.items() if reading.span_type in kinds]
        for span in reversed(spoken):
            text = answer_text(readings[span.span_id].output_messages)
            if text is not None:
                return text
    return root.output if root is not None and root.span_type in ("agent", "chain", "llm") else None


def _conversation(readings: Mapping[str, SpanReading]) -> tuple[Message, ...]:
    """The longest conversation that one span tells; of equally long ones the last."""
    longest: tuple[Message, ...] = ()
    for reading in readings.values():
        if _talks(reading):
            told = (*(reading.input_messages or ()), *(reading.output_messages or ()))
            longest = told if len(told) >= len(longest) else longest
    return longest


def _definitions(readings: Mapping[str, SpanReading]) -> tuple[ToolDefinition, ...]:
    return once_by_name(definition for reading in readings.values() for definition in reading.tool_definitions)


def _first(root: SpanReading | None, readings: Mapping[str, SpanReading], field: str) -> str | None:
    told: Iterable[str | None] = (
        getattr(reading, field) for reading in ([root] if root else []) + list(readings.values())
    )
    return next((text for text in told if text is not None), None)


def _counts(tree: Tree, readings: Mapping[str, SpanReading], field: str) -> int | None:
    leaves = _leaves(tree, readings, field)
    return sum(map(int, leaves)) if leaves else None


def _leaves(tree: Tree, readings: Mapping[str, SpanReading], field: str) -> list[float]:
    """What is told by spans with nothing of it below them: a span above repeats or sums up.

    Two such spans with one response id, of an instrumentation and of the client itself, tell of one call.
    """
    amounts = {span_id: amount for span_id, r in readings.items() if (amount := getattr(r, field)) is not None}
    wrappers = repeating(tree, readings, amounts)
    once: dict[str, float] = {}
    for span_id, amount in amounts.items():
        if span_id not in wrappers:
            response_id = tree.spans[span_id].attributes.get(RESPONSE_ID)
            once.setdefault(response_id if isinstance(response_id, str) and response_id else f"span {span_id}", amount)
    return list(once.values())
