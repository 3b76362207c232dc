"""Pages of sessions: the list, and the conversation of a session, from its latest turns or requested earlier ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from collector.access.permission import Permission, needs
from collector.api.access.tenants import visible_tenant_of
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.traces.session_filters import (
    SessionFilters,
    session_place,
    session_place_text,
    sessions_like,
    turn_place,
    turn_place_text,
)
from collector.api.traces.sessions import session_state
from collector.conversation import SessionTurn
from collector.reading.sessions import read_session
from collector.web.rendering import in_snapshot, page
from collector.web.spans.conversation import ShownMessage, calls_beside, conversation, failed_calls
from collector.web.traces.trace_view import verdicts_of
from collector.web.visitor import page_router, with_parameters
from storage.query.sessions import SessionSummary
from storage.records import TraceToolCall

router = page_router()

_PAGE_ROWS: Final = 50
_TURN_MESSAGES: Final = 40  # shown of a turn, the last ones; a guess
_PAGE_TURNS: Final = 30
"""A guess: more than a screen holds. Earlier turns have their own page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """One session of the list."""

    session: SessionSummary
    state: str

    @property
    def tokens(self) -> int | None:
        """Return the tokens of input and output."""
        counts = [each for each in (self.session.input_tokens, self.session.output_tokens) if each is not None]
        return sum(counts) if counts else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTurn:
    """One turn of the page of a session."""

    number: int
    turn: SessionTurn
    messages: Sequence[ShownMessage]
    hidden: int  # messages of it that are not shown
    calls: Sequence[TraceToolCall]  # that no message shows


@router.get("/sessions")
@needs(Permission.READ, by_tenant=True)
@in_snapshot
def list_sessions(request: Request, context: ContextDep, caller: CallerDep, before: str = "") -> Response:
    """List sessions with a trace that matches all filters, newest first."""
    query = {name: request.query_params.get(name, "").strip() for name in ("text", "project", "user")}
    filters = SessionFilters(text=query["text"] or None, project=query["project"] or None, user=query["user"] or None)
    after = session_place(before) if before else None
    sessions = context.store.sessions.page(
        sessions_like(filters), after=after, limit=_PAGE_ROWS, tenant=caller.visible_tenant
    )
    rows = [SessionRow(session=each, state=session_state(context, each)) for each in sessions.sessions]
    tenant = caller.tenant if not caller.sees_all else ""
    return page(
        request,
        "sessions.html",
        query=query,
        rows=rows,
        projects=context.store.rulebook.project_names(tenant),
        is_asked=any(query.values()) or after is not None,
        older=None if sessions.next is None else with_parameters(request, before=session_place_text(sessions.next)),
        newest=with_parameters(request, before=None) if before else None,
    )


@router.get("/sessions/{session_id:name}")
@needs(Permission.READ, by_tenant=True)
@in_snapshot
def show_session(
    request: Request, session_id: str, context: ContextDep, caller: CallerDep, before: str = "", tenant: str = ""
) -> Response:
    """Show the latest turns of a session, or those before `before`, with their verdicts and the running cost."""
    place = turn_place(before) if before else None
    session = context.store.sessions.traces(
        session_id, before=place, limit=_PAGE_TURNS, tenant=visible_tenant_of(caller, tenant or None)
    )
    if session is None:
        raise HTTPException(404, "there is no such session here")
    evaluations = context.store.judgements.evaluations_of(session.extents, tenant=session.summary.tenant)
    turns = read_session(session, evaluations, context.own_keys)
    state = session_state(context, session.summary)
    judged = context.store.judgements.of_session(session_id, tenant=session.summary.tenant)
    return page(
        request,
        "session.html",
        verdicts=verdicts_of(judged, None),
        row=SessionRow(session=session.summary, state=state),
        turns=[_shown(turn, number) for number, turn in enumerate(turns, session.first_number)],
        earlier=None if session.earlier is None else with_parameters(request, before=turn_place_text(session.earlier)),
        latest=with_parameters(request, before=None) if before else None,
        is_cut=session.is_cut,
    )


def _shown(turn: SessionTurn, number: int) -> ShownTurn:
    hidden = max(len(turn.messages) - _TURN_MESSAGES, 0)
    shown = turn.messages[hidden:]
    calls = calls_beside(shown, turn.tool_calls)
    messages = conversation(shown, failed=failed_calls(turn.tool_calls))
    return ShownTurn(number=number, turn=turn, messages=messages, hidden=hidden, calls=calls)
