"""Reading of sessions, from their traces."""

from collections.abc import Mapping, Sequence

from collector.conventions.own_keys import OwnKeys
from collector.conventions.trace import read_trace
from collector.conversation import SessionTrace, SessionTurn, session_conversation, session_trace
from storage.judging.judgements import StoredEvaluation
from storage.query.sessions import SessionTraces
from storage.records import Trace

Evaluations = Mapping[str, Sequence[StoredEvaluation]]
"""Results of evaluations, by the id of their trace."""


def read_session(stored: SessionTraces, evaluations: Evaluations, own: OwnKeys) -> list[SessionTurn]:
    """Read the conversation of some traces of a session; never raises, whatever they hold."""
    traces = [_read(trace, evaluations.get(trace.summary.trace_id, ()), own) for trace in stored.traces]
    context = None if stored.context is None else _read(stored.context, (), own)
    return session_conversation(traces, context=context, cost_before_usd=stored.cost_before_usd)


def _read(trace: Trace, evaluations: Sequence[StoredEvaluation], own: OwnKeys) -> SessionTrace:
    return session_trace(trace.summary, read_trace(trace.spans, trace.logs, own), evaluations)
