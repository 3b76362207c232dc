"""Sessions over HTTP: conversations of several traces, as one."""

from typing import Annotated, Literal

from fastapi import Depends, Query
from fastapi.responses import Response
from pydantic import Field

from collector.access.permission import Permission, needs
from collector.api.access.tenants import Tenant, visible_tenant_of
from collector.api.answers.base import ApiAnswer, JsonNumber, JsonObject
from collector.api.answers.declared import answers
from collector.api.answers.traces import DecisionDocument, EvaluationDocument, ToolCallDocument
from collector.api.base.problems import problem
from collector.api.base.routing import Here, Who, api_router
from collector.api.base.times import time_text
from collector.api.base.written import written_in_pieces
from collector.api.documents.session_documents import session_document, session_summary_document
from collector.api.traces.session_filters import (
    SessionFilters,
    TurnPlace,
    session_place,
    session_place_text,
    sessions_like,
    turn_place,
    turn_place_text,
)
from collector.reading.sessions import read_session


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
    """Part of the conversation that one trace adds."""

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


router = api_router(prefix="/api/v1/sessions")


@router.get("")
@needs(Permission.READ, by_tenant=True)
@answers(SessionList)
def list_sessions(
    here: Here,
    who: Who,
    filters: Annotated[SessionFilters, Depends()],
    size: Annotated[int, Query(ge=1, le=200)] = 50,
    tenant: Tenant = None,
) -> dict[str, object]:
    """Sessions by the start of their latest trace, newest first, of which one trace has all that is asked."""
    after = None if filters.before is None else session_place(filters.before)
    found = here.sessions.page(sessions_like(filters), after=after, limit=size, tenant=visible_tenant_of(who, tenant))
    now_ns = here.now_ns()
    content = [session_summary_document(each, now_ns=now_ns, idle_ns=here.session_idle_ns) for each in found.sessions]
    return {
        "content": content,
        "size": size,
        "numberOfElements": len(content),
        "next": None if found.next is None else session_place_text(found.next),
        "searchedTo": time_text(found.searched_to_ns),
    }


@router.get("/{session_id:name}")
@needs(Permission.READ, by_tenant=True)
@answers(SessionDocument)
def show_session(
    session_id: str,
    here: Here,
    who: Who,
    before: TurnPlace = None,
    size: Annotated[int, Query(ge=1, le=200, description="Turns at most.")] = 50,
    tenant: Tenant = None,
) -> Response:
    """One session as a conversation: its latest turns in order of time, each message once."""
    place = None if before is None else turn_place(before)
    found = here.sessions.traces(session_id, before=place, limit=size, tenant=visible_tenant_of(who, tenant))
    if found is None:
        return problem(404, "there is no such session here")
    evaluations = here.judgements.evaluations_of(found.extents, tenant=found.summary.tenant)
    turns = read_session(found, evaluations, here.own_keys)
    earlier = None if found.earlier is None else turn_place_text(found.earlier)
    judged = here.judgements.of_session(session_id, tenant=found.summary.tenant)
    document = session_document(
        found, turns, judged, now_ns=here.now_ns(), idle_ns=here.session_idle_ns, earlier=earlier
    )
    return written_in_pieces(document)
