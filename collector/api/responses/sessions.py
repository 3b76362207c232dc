"""Sessions, which are conversations of several traces, on the wire."""

from typing import TYPE_CHECKING, Annotated, Literal

from collector.api.responses.base import JsonObject, json_value
from collector.api.responses.traces import (
    DecisionDocument,
    Duration,
    EndTime,
    EvaluationDocument,
    Number,
    StartTime,
    ToolCallDocument,
)
from collector.api.responses.wire import From, WireDocument, computed, doc, time_of

if TYPE_CHECKING:  # a command needs no database
    from storage.query.sessions import SessionSummary


def _duration_ms(session: "SessionSummary") -> float | None:
    return (session.last_ns - session.start_ns) / 1e6 if session.start_ns else None


class SessionSummaryDocument(WireDocument, kw_only=True):
    """Totals of a session. A value is null if no trace of the session has it."""

    session_id: str
    tenant: str
    projects: list[str]
    user_id: str | None
    first_input: Annotated[str | None, doc("The shortened input of the first trace.")]
    state: Literal["open", "closed"]
    start_time: StartTime
    last_time: Annotated[str | None, time_of("last_ns"), doc("The last start or end of a span.")]
    duration_ms: Annotated[float | None, computed(_duration_ms)]
    trace_count: int
    error_trace_count: int
    span_count: int
    error_count: int
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: Number
    tool_call_count: int
    summed_span_count: Annotated[
        int,
        doc(
            "Number of spans that tokens, cost and tool calls cover: fewer than `spanCount` if a trace is too long"
            " to be added up whole, or not added up yet."
        ),
    ] = 0


class SessionList(WireDocument):
    """A page of sessions."""

    content: list[SessionSummaryDocument]
    size: int
    number_of_elements: int
    next: Annotated[str | None, doc("The value of `before` for the next page.")]
    searched_to: Annotated[
        str | None,
        time_of("searched_to_ns"),
        doc("With `newest`: the text was searched in traces that started then or later. Null: in all."),
    ]


class TurnDocument(WireDocument):
    """Part of the conversation that one trace adds."""

    number: Annotated[int, doc("Among all traces of the session, from 1.")]
    trace_id: str
    project: str
    root_span_name: Annotated[str, From("root_name")]
    start_time: StartTime
    end_time: EndTime
    duration_ms: Duration
    span_count: int
    error_count: int
    messages: Annotated[
        list[JsonObject], From(convert=json_value), doc("Messages that no earlier turn has, and the last message.")
    ]
    tool_calls: list[ToolCallDocument]
    evaluations: Annotated[list[EvaluationDocument], doc("About the trace and its spans, without superseded ones.")]
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: Number
    cost_so_far_usd: Number


class SessionDocument(SessionSummaryDocument, kw_only=True):
    """A session with its latest turns, in order of time."""

    evaluations: Annotated[list[EvaluationDocument], doc("The results about the whole session.")]
    decisions: Annotated[list[DecisionDocument], doc("The decisions of rules about sessions.")]
    turns: list[TurnDocument]
    earlier: Annotated[str | None, doc("The value of `before` for the earlier turns; null: none.")]
    truncated: Annotated[bool, doc("The turns have more spans than are read at once.")]
