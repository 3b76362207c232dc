"""Tells what sessions mean, from the traces that they are made of."""

from collections.abc import Iterator, Mapping, Sequence

from collector.conventions.own import OwnKeys
from collector.conventions.trace import read_trace
from collector.conversation import SessionTrace, SessionTurn, session_conversation
from storage.judgements import StoredEvaluation
from storage.records import Message, Trace, TraceReading
from storage.sessions import SessionTraces

Evaluations = Mapping[str, Sequence[StoredEvaluation]]
"""What came of evaluations, by the id of the trace that they are about, or of whose spans."""


def read_session(found: SessionTraces, evaluations: Evaluations, own: OwnKeys) -> list[SessionTurn]:
    """The conversation that some traces of a session tell; it never raises, whatever they hold."""
    traces = [_read(trace, evaluations.get(trace.summary.trace_id, ()), own) for trace in found.traces]
    context = None if found.context is None else _read(found.context, (), own)
    return session_conversation(traces, context=context, cost_before_usd=found.cost_before_usd)


def _read(trace: Trace, evaluations: Sequence[StoredEvaluation], own: OwnKeys) -> SessionTrace:
    reading = read_trace(trace.spans, trace.logs, own)
    return SessionTrace(
        summary=trace.summary,
        conversation=reading.conversation or tuple(_told(reading)),
        tool_calls=reading.tool_calls,
        input_tokens=reading.input_tokens,
        output_tokens=reading.output_tokens,
        cost_usd=reading.cost_usd,
        evaluations=evaluations,
    )


def _told(reading: TraceReading) -> Iterator[Message]:
    """The input and the output of a trace whose spans tell no messages, as messages."""
    for role, text in (("user", reading.input), ("assistant", reading.final_response or reading.output)):
        if text:
            yield {"role": role, "parts": [{"type": "text", "content": text}]}
