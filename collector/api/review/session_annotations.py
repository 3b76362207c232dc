"""Votes of people on sessions, over HTTP. The session id is a query parameter, because it may contain any character."""

from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import Query
from fastapi.responses import Response

from collector.access.permission import Permission, needs
from collector.api.access.tenants import Tenant, tenant_of, visible_tenant_of
from collector.api.base.exact_json import body_of
from collector.api.base.json_encoding import json_response
from collector.api.base.problems import problem
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.responses.annotations import AnnotationDocument
from collector.api.responses.declaration import response_model
from collector.api.review.annotations import (
    VERDICT,
    AnnotationBody,
    Question,
    Voted,
    Withdrawn,
    annotation_document,
    counting,
    vote_on,
    votes_on,
    withdraw,
)
from collector.api.review.session_targets import session_seen, session_target

router = api_router(prefix="/api/v1/session-annotation")

_NOT_HERE: Final[dict[int | str, dict[str, Any]]] = {404: {"description": "No such session, or no vote on it."}}

SessionId = Annotated[str, Query(alias="sessionId", min_length=1, max_length=1_000)]


@router.put("", responses=_NOT_HERE, openapi_extra=body_of(AnnotationBody))
@needs(Permission.WRITE, by_tenant=True)
@response_model(AnnotationDocument)
def annotate_session(
    session_id: SessionId, body: Voted, context: ContextDep, caller: CallerDep, tenant: Tenant = None
) -> Response:
    """Vote on a session; a vote of the caller's before this one stays in the history."""
    return vote_on(context, caller, session_target(context, tenant_of(caller, tenant), session_id), body)


@router.get("", responses=_NOT_HERE)
@needs(Permission.READ, by_tenant=True)
@response_model(AnnotationDocument)
def show_of_session(
    session_id: SessionId, context: ContextDep, caller: CallerDep, tenant: Tenant = None, name: Question = VERDICT
) -> Response:
    """Return the vote that counts: the adjudicator's, else the latest of a person."""
    vote = counting(votes_on(context, session_seen(context, visible_tenant_of(caller, tenant), session_id), name))
    if vote is None:
        return problem(HTTPStatus.NOT_FOUND, "the session has no votes")
    return json_response(annotation_document(vote))


@router.delete("", status_code=HTTPStatus.NO_CONTENT, responses=_NOT_HERE)
@needs(Permission.WRITE, by_tenant=True)
def withdraw_of_session(
    session_id: SessionId, context: ContextDep, caller: CallerDep, vote: Withdrawn, tenant: Tenant = None
) -> Response:
    """Withdraw the caller's vote; it stays in the history."""
    withdraw(context, caller, session_target(context, tenant_of(caller, tenant), session_id), vote)
    return Response(status_code=HTTPStatus.NO_CONTENT)
