"""Sessions, and the conversations that they are."""

from typing import Literal

from pydantic import Field

from collector.api.answers.base import ApiAnswer, JsonNumber, JsonObject
from collector.api.answers.traces import DecisionDocument, EvaluationDocument, ToolCallDocument


class SessionSummaryDocument(ApiAnswer):
    """A session, added up. Null: no trace of it tells that."""

    session_id: str
    tenant: str
    projects: list[str]
    user_id: str | None
    first_input: str | None = Field(description="Of its first trace, in short.")
    state: Literal["open", "closed"]
    start_time: str | None
    last_time: str | None = Field(description="When the last of its spans started or ended.")
    duration_ms: float | None
    trace_count: int
    error_trace_count: int
    span_count: int
    error_count: int
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: JsonNumber | None
    tool_call_count: int
    summed_span_count: int = Field(
        description="Tokens, cost and tool calls are of so many spans: fewer than `spanCount` if a trace is too long to"
        " be added up whole, or not added up yet."
    )


class SessionList(ApiAnswer):
    """A page of sessions."""

    content: list[SessionSummaryDocument]
    size: int
    number_of_elements: int
    next: str | None = Field(description="Where the list goes on: `before` of the next page.")
    searched_to: str | None = Field(
        description="With `newest`: the text was looked for in traces that started then or later. Null: in all."
    )


class TurnDocument(ApiAnswer):
    """What one trace adds to the conversation."""

    number: int = Field(description="Among all traces of the session, from 1.")
    trace_id: str
    project: str
    root_span_name: str
    start_time: str | None
    end_time: str | None
    duration_ms: float | None
    span_count: int
    error_count: int
    messages: list[JsonObject] = Field(description="Those that no turn before it has, and the last one.")
    tool_calls: list[ToolCallDocument]
    evaluations: list[EvaluationDocument] = Field(description="Those that count, of the trace and of its spans.")
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: JsonNumber | None
    cost_so_far_usd: JsonNumber | None


class SessionDocument(SessionSummaryDocument):
    """A session with its latest turns, in order of time."""

    evaluations: list[EvaluationDocument] = Field(description="Of the session as a whole.")
    decisions: list[DecisionDocument] = Field(description="Of rules about sessions.")
    turns: list[TurnDocument]
    earlier: str | None = Field(description="Where the turns before these are: `before`. Null: there are none.")
    truncated: bool = Field(description="The turns have more spans than are read at once.")
