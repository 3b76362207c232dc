"""Connections to models over HTTP. No response or error contains a key."""

import asyncio
from functools import partial
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response

from collector.access.permission import Permission, needs
from collector.api.access.tenants import connection_seen, connections_seen, own_connection, spent_over_connections
from collector.api.base.pages import PARTED, Part
from collector.api.base.problems import problem
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.base.versions import GUARDED, TAGGED, TAGGED_NEW, IfMatch, created, seen, shown
from collector.api.documents.connection_documents import connection_document
from collector.api.documents.rule_documents import judge_problems
from collector.api.responses.declaration import response_model
from collector.api.responses.judging import ConnectionDocument, ConnectionTrialDocument
from collector.api.rules.body_schemas import CHANGED_CONNECTION, CONNECTION
from collector.connection_text import BadText, ConnectionProblem
from evaluators.wire import parse_json
from storage.errors import Conflict, NotFound, Overloaded
from storage.limit import Limit

router = api_router(prefix="/api/v1/llm-connections")

_BODY_LIMIT = Limit(value=1 << 20, unit="bytes", remedy="send one connection only")
_STATUS: dict[type[Exception], int] = {BadText: 400, NotFound: 404, Conflict: 409, Overloaded: 503}


def _body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


@router.get("", responses=PARTED)
@needs(Permission.READ, by_tenant=True)
@response_model(list[ConnectionDocument])
def list_connections(context: ContextDep, caller: CallerDep, part: Part) -> Response:
    """List connections by name; a key with a tenant sees its own and those that its rules may use."""
    spent, problems = spent_over_connections(context, caller), judge_problems(context, caller)
    return part.answer(
        connections_seen(context, caller),
        lambda each: connection_document(each, spent, problems.of_connection(each.connection_id)),
    )


@router.post("", status_code=201, openapi_extra=_body(CONNECTION), responses=TAGGED_NEW)
@needs(Permission.ADMINISTER, by_tenant=True)
@response_model(ConnectionDocument)
async def create(request: Request, context: ContextDep, caller: CallerDep) -> Response:
    """Add a connection."""
    try:
        document = await _document(request)
        made = await asyncio.to_thread(context.judging.connections.create, document, caller.tenant)
    except tuple(_STATUS) as error:
        return _failed(error)
    response = connection_document(made, spent_over_connections(context, caller))
    return created(response, made.row.version, at=f"{router.prefix}/{made.connection_id}")


@router.get("/{connection_id}", responses=TAGGED)
@needs(Permission.READ, by_tenant=True)
@response_model(ConnectionDocument)
def show(connection_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Return a connection."""
    try:
        connection = connection_seen(context, caller, connection_id)
    except NotFound as error:
        return _failed(error)
    problem_of_it = judge_problems(context, caller).of_connection(connection_id)
    return shown(
        connection_document(connection, spent_over_connections(context, caller), problem_of_it), connection.row.version
    )


@router.put("/{connection_id}", openapi_extra=_body(CHANGED_CONNECTION), responses=TAGGED | GUARDED)
@needs(Permission.ADMINISTER, by_tenant=True)
@response_model(ConnectionDocument)
async def replace(
    connection_id: str, request: Request, context: ContextDep, caller: CallerDep, if_match: IfMatch = ""
) -> Response:
    """Replace a connection; its API key stays if the body mentions none."""
    try:
        own_connection(context, caller, connection_id)
        document = await _document(request)
        change = partial(context.judging.connections.replace, connection_id, document, seen=seen(if_match))
        replaced = await asyncio.to_thread(change)
    except tuple(_STATUS) as error:
        return _failed(error)
    return shown(connection_document(replaced, spent_over_connections(context, caller)), replaced.row.version)


@router.delete("/{connection_id}", status_code=204, responses=GUARDED)
@needs(Permission.ADMINISTER, by_tenant=True)
def delete(connection_id: str, context: ContextDep, caller: CallerDep, if_match: IfMatch = "") -> Response:
    """Delete a connection and its key."""
    try:
        own_connection(context, caller, connection_id)
        context.judging.connections.delete(connection_id, seen=seen(if_match))
    except tuple(_STATUS) as error:
        return _failed(error)
    return Response(status_code=204)


@router.post("/{connection_id}/test")
@needs(Permission.ADMINISTER, by_tenant=True)
@response_model(ConnectionTrialDocument)
def test(connection_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Test the connection with one small model call. The status is 200 if it fails, too; the body says so."""
    try:
        connection = own_connection(context, caller, connection_id)
    except NotFound as error:
        return _failed(error)
    return JSONResponse(context.connection_trials.ask(connection).document())


async def _document(request: Request) -> dict[str, Any]:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _BODY_LIMIT.value:
            raise BadText([ConnectionProblem(key="", message=f"the body is longer than {_BODY_LIMIT}")])
    try:
        document = parse_json(body.decode())
    except ValueError:  # its message may hold a part of the body
        raise BadText([ConnectionProblem(key="", message="the body is not JSON in UTF-8")]) from None
    if not isinstance(document, dict):
        raise BadText(
            [ConnectionProblem(key="", message="the body must be an object, as in {name: …, baseUrl: …, model: …}")]
        )
    return document


def _failed(error: Exception) -> JSONResponse:
    problems = [{"key": each.key, "message": each.message} for each in getattr(error, "problems", ())]
    headers = {"retry-after": str(error.retry_after_s)} if isinstance(error, Overloaded) else {}
    status = next(code for kind, code in _STATUS.items() if isinstance(error, kind))
    return problem(status, str(error), problems=problems or None, headers=headers)
