"""Tells what sessions mean, from the traces that they are made of."""

from collections.abc import Mapping, Sequence

from collector.conventions.own import OwnKeys
from collector.conventions.trace import read_trace
from collector.conversation import SessionTrace, SessionTurn, session_conversation, session_trace
from storage.judging.judgements import StoredEvaluation
from storage.query.sessions import SessionTraces
from storage.records import Trace

Evaluations = Mapping[str, Sequence[StoredEvaluation]]
"""What came of evaluations, by the id of the trace that they are about, or of whose spans."""


def read_session(found: SessionTraces, evaluations: Evaluations, own: OwnKeys) -> list[SessionTurn]:
    """The conversation that some traces of a session tell; it never raises, whatever they hold."""
    traces = [_read(trace, evaluations.get(trace.summary.trace_id, ()), own) for trace in found.traces]
    context = None if found.context is None else _read(found.context, (), own)
    return session_conversation(traces, context=context, cost_before_usd=found.cost_before_usd)


def _read(trace: Trace, evaluations: Sequence[StoredEvaluation], own: OwnKeys) -> SessionTrace:
    return session_trace(trace.summary, read_trace(trace.spans, trace.logs, own), evaluations)
