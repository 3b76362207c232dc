"""Sessions as the JSON documents that the HTTP API shows."""

from collections.abc import Sequence

from collector.api.base.times import time_text
from collector.api.documents.documents import json_fields, summary_document
from collector.api.documents.judgement_documents import decision_document, evaluation_document
from collector.api.documents.reading_documents import Document, call_document
from collector.conversation import SessionTurn
from storage.judging.judgements import Judged
from storage.query.sessions import SessionSummary, SessionTraces

_OF_TRACE = ("traceId", "project", "rootSpanName", "startTime", "endTime", "durationMs", "spanCount", "errorCount")


def session_summary_document(session: SessionSummary, *, now_ns: int, idle_ns: int) -> Document:
    """A session without its turns; it is closed once nothing came of it for so long."""
    return {
        "sessionId": session.session_id,
        "tenant": session.tenant,
        "projects": list(session.projects),
        "userId": session.user_id,
        "firstInput": session.first_input,
        "state": session_state(session, now_ns=now_ns, idle_ns=idle_ns),
        "startTime": time_text(session.start_ns),
        "lastTime": time_text(session.last_ns),
        "durationMs": (session.last_ns - session.start_ns) / 1e6 if session.start_ns else None,
        "traceCount": session.trace_count,
        "errorTraceCount": session.error_trace_count,
        "spanCount": session.span_count,
        "errorCount": session.error_count,
        "inputTokens": session.input_tokens,
        "outputTokens": session.output_tokens,
        "costUsd": session.cost_usd,
        "toolCallCount": session.tool_call_count,
        "summedSpanCount": session.summed_span_count,
    }


def session_state(session: SessionSummary, *, now_ns: int, idle_ns: int) -> str:
    """Whether more of a session is awaited: `open`, or `closed`."""
    return "open" if now_ns - session.last_ns < idle_ns else "closed"


def session_document(
    found: SessionTraces,
    turns: Sequence[SessionTurn],
    judged: Judged,
    *,
    now_ns: int,
    idle_ns: int,
    earlier: str | None,
) -> Document:
    """A session with its turns; `earlier` is where those before them are."""
    return {
        **json_fields(session_summary_document(found.summary, now_ns=now_ns, idle_ns=idle_ns)),
        "evaluations": list(map(evaluation_document, judged.evaluations)),
        "decisions": list(map(decision_document, judged.decisions)),
        "turns": [_turn(turn, number) for number, turn in enumerate(turns, found.first_number)],
        "earlier": earlier,
        "truncated": found.is_cut,
    }


def _turn(turn: SessionTurn, number: int) -> Document:
    trace = summary_document(turn.trace.summary)
    return {
        "number": number,
        **{name: trace[name] for name in _OF_TRACE},
        **json_fields(
            {
                "messages": turn.messages,
                "toolCalls": list(map(call_document, turn.tool_calls)),
                "evaluations": list(map(evaluation_document, turn.evaluations)),
                "inputTokens": turn.trace.input_tokens,
                "outputTokens": turn.trace.output_tokens,
                "costUsd": turn.trace.cost_usd,
                "costSoFarUsd": turn.cost_so_far_usd,
            }
        ),
    }
