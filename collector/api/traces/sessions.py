"""Sessions over HTTP: conversations of several traces, as one."""

from typing import Annotated

from fastapi import Depends, Query
from fastapi.responses import Response

from collector.access.permission import Permission, needs
from collector.api.access.tenants import Tenant, visible_tenant_of
from collector.api.answers.declared import answers
from collector.api.answers.sessions import SessionDocument, SessionList
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
