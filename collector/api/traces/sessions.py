"""Sessions over HTTP: conversations of several traces, as one."""

from typing import Annotated

from fastapi import Depends, Query
from fastapi.responses import Response

from collector.access.permission import Permission, needs
from collector.api.access.tenants import Tenant, visible_tenant_of
from collector.api.base.context import Context
from collector.api.base.json_encoding import json_response
from collector.api.base.problems import problem
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.responses.declaration import response_model
from collector.api.responses.sessions import SessionDocument, SessionList, SessionSummaryDocument, TurnDocument
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
from storage.query.sessions import SessionSummary

router = api_router(prefix="/api/v1/sessions")


@router.get("")
@needs(Permission.READ, by_tenant=True)
@response_model(SessionList)
def list_sessions(
    context: ContextDep,
    caller: CallerDep,
    filters: Annotated[SessionFilters, Depends()],
    size: Annotated[int, Query(ge=1, le=200)] = 50,
    tenant: Tenant = None,
) -> Response:
    """List sessions with a matching trace by the start of their latest trace, newest first."""
    after = None if filters.before is None else session_place(filters.before)
    listed = context.store.sessions.page(
        sessions_like(filters), after=after, limit=size, tenant=visible_tenant_of(caller, tenant)
    )
    content = [SessionSummaryDocument.of(each, state=session_state(context, each)) for each in listed.sessions]
    next_place = None if listed.next is None else session_place_text(listed.next)
    return json_response(
        SessionList.of(listed, content=content, size=size, number_of_elements=len(content), next=next_place)
    )


@router.get("/{session_id:name}")
@needs(Permission.READ, by_tenant=True)
@response_model(SessionDocument)
def show_session(
    session_id: str,
    context: ContextDep,
    caller: CallerDep,
    before: TurnPlace = None,
    size: Annotated[int, Query(ge=1, le=200, description="The maximum number of turns.")] = 50,
    tenant: Tenant = None,
) -> Response:
    """Return a session as one conversation: its latest turns in order of time, each message once."""
    place = None if before is None else turn_place(before)
    stored = context.store.sessions.traces(
        session_id, before=place, limit=size, tenant=visible_tenant_of(caller, tenant)
    )
    if stored is None:
        return problem(404, "there is no such session here")
    evaluations = context.store.judgements.evaluations_of(stored.extents, tenant=stored.summary.tenant)
    turns = read_session(stored, evaluations, context.own_keys)
    judged = context.store.judgements.of_session(session_id, tenant=stored.summary.tenant)
    document = SessionDocument.of(
        stored.summary,
        judged,
        state=session_state(context, stored.summary),
        turns=[
            TurnDocument.of(turn.trace.summary, turn, turn.trace, number=number)
            for number, turn in enumerate(turns, stored.first_number)
        ],
        earlier=None if stored.earlier is None else turn_place_text(stored.earlier),
        truncated=stored.is_cut,
    )
    return json_response(document)


def session_state(context: Context, session: SessionSummary) -> str:
    """Return `closed` if the last span started or ended at least `session_idle_seconds` ago, else `open`."""
    return "open" if context.now_ns() - session.last_ns < context.settings.session_idle_seconds * 1e9 else "closed"
