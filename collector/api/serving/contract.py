"""The contract: the OpenAPI document of all routes, and its HTML page."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from collector.access.permission import Permission, Requirements, Role, changes, may, needs, requirements_of
from collector.api.base.problems import MEDIA_TYPE, FieldProblem, ProblemDocument, TextProblem
from collector.api.base.routing import api_router
from collector.api.responses.declaration import DeclaredAnswer, declared_answer, schemas_of
from collector.api.serving.contract_page import SECURITY_POLICY, page
from collector.api.serving.idempotency import KEY_PATTERN, may_be_repeated

router = api_router()

_Document = dict[str, Any]
_ALWAYS: Final = {400: "The request is not valid; the answer names every wrong field."}
_WITH_KEY: Final = {
    401: "No API key, or one that opens nothing.",
    403: "The key may not do this; or the request came from a page of another origin.",
    429: "Too many wrong keys came from this address; or the key sends more than it may.",
    503: "The server is overloaded, stops, or cannot write now; try again after the time in `Retry-After`.",
}
_WITH_PATH: Final = {404: "Not found."}
_WITH_BODY: Final = {413: "The body is larger than a limit.", 415: "The content type is not taken here."}
_WITH_CHANGE: Final = {409: "Something else has to change first."}
_ABOUT: Final = (
    "Receives the traces of LLM and agent applications, keeps them in DuckDB, and judges them. Requests carry "
    "`Authorization: Bearer KEY` once the server has API keys. Every answer has an `X-Request-Id`; errors are problem "
    "details (RFC 9457) with the sentence in `error` too."
)


_FOR_MODELS: Final = f"""# Tracejury

> {_ABOUT}

- [MCP server](/mcp): tools about traces, quality, rules, datasets and experiments, over HTTP with the same key;
  `tracejury mcp install CLIENT` prints the configuration of a client
- [OpenAPI document](/openapi.json): every request, with its fields, answers and errors
- [The same for people](/docs)
- `tracejury --help`: the command line, in which `tracejury evaluators` lists the evaluators with their options
"""


@router.get("/openapi.json", include_in_schema=False)
@needs(Permission.OPEN)
def openapi(request: Request) -> Response:
    """Return the OpenAPI document."""
    servers = {"servers": [{"url": root}]} if (root := request.scope.get("root_path")) else {}
    written = _written_once(request.app, "openapi", lambda document: json.dumps(document | servers))
    return Response(written, media_type="application/json")


@router.get("/docs", include_in_schema=False)
@needs(Permission.OPEN)
def docs(request: Request) -> HTMLResponse:
    """Return the API reference: one page that needs no script and no other host."""
    written = _written_once(request.app, "docs", page)
    return HTMLResponse(written, headers={"content-security-policy": SECURITY_POLICY})


@router.get("/llms.txt", include_in_schema=False)
@needs(Permission.OPEN)
def llms(request: Request) -> PlainTextResponse:
    """Return an index for language models: the documents and interfaces of this server, with their paths."""
    return PlainTextResponse(_FOR_MODELS.replace("](/", f"]({request.scope.get('root_path', '')}/"))


def _written_once(application: FastAPI, name: str, write: Callable[[_Document], str]) -> bytes:
    """Return the encoded document, cached since it never changes."""
    written: bytes | None = getattr(application.state, f"written_{name}", None)
    if written is None:
        written = write(application.openapi()).encode()
        setattr(application.state, f"written_{name}", written)
    return written


def describe(application: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """Add permissions and answers of all routes to the application's OpenAPI document.

    The document is built on the first request for it, because that takes 0.6 s of CPU. A start of the server takes
    0.3 s without its imports.
    """
    plain, making = application.openapi, threading.Lock()
    described: list[_Document] = []

    def document() -> _Document:
        with making:
            if not described:
                described.append(_described(plain(), routes))
        return described[0]

    application.openapi = document  # type: ignore[method-assign] # FastAPI's own way to have another document


def _described(document: _Document, routes: Sequence[BaseRoute]) -> _Document:
    document["info"] = {"title": "Tracejury", "version": version("tracejury"), "description": _ABOUT}
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    schemas["FieldProblem"] = FieldProblem.model_json_schema()
    schemas["TextProblem"] = TextProblem.model_json_schema()
    schemas["Problem"] = ProblemDocument.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas["Problem"].pop("$defs", None)
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    described = [route for route in routes if isinstance(route, APIRoute) and route.include_in_schema]
    declared = {route.endpoint: declaration for route in described if (declaration := declared_answer(route.endpoint))}
    answer_schemas, named = schemas_of(declared.values())
    schemas.update(named)
    for route in described:
        subject = route.endpoint.__module__.rpartition(".")[2]
        for method in route.methods or ():
            operation = document["paths"][route.path_format][method.lower()]
            operation |= {"tags": [subject], "operationId": f"{subject}_{route.endpoint.__name__}"}
            if declaration := declared.get(route.endpoint):
                _add_answer(operation, declaration, answer_schemas[id(declaration)], route.status_code or HTTPStatus.OK)
            _complete(operation, requirements_of(route.endpoint, method), method)
    return document


def _add_answer(operation: _Document, declared: DeclaredAnswer, schema: _Document, usual: int) -> None:
    for status in (usual, *declared.statuses):
        answer = operation["responses"].setdefault(str(int(status)), {"description": HTTPStatus(status).phrase})
        answer["content"] = {**answer.get("content", {}), "application/json": {"schema": schema}}


def _complete(operation: _Document, need: Requirements, method: str) -> None:
    """Add the roles, responses and headers that follow from an operation's requirements and method."""
    is_open = need.permission is Permission.OPEN
    operation["security"] = [] if is_open else [{"key": []}]
    if not is_open:
        roles = ", ".join(role for role in Role if may(role, need.permission))
        apart = "" if need.by_tenant else " Closed to keys with a tenant."
        operation["description"] = f"{operation.get('description', '')}\n\nRoles: {roles}.{apart}".strip()
    if method == "POST" and may_be_repeated(need):
        operation.setdefault("parameters", []).append(_REPETITION)
    answers = operation.setdefault("responses", {})
    answers.pop("422", None)
    for status, description in _answers_of(operation, need, method).items():
        answers.setdefault(str(status), {"description": description})
    for status, answer in answers.items():
        if status >= "400" and "content" not in answer:
            answer["content"] = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for answer in answers.values():
        answer.setdefault("headers", {})["X-Request-Id"] = {"schema": {"type": "string"}}


def _answers_of(operation: Mapping[str, Any], need: Requirements, method: str) -> dict[int, str]:
    is_open = need.permission is Permission.OPEN
    in_path = any(parameter["in"] == "path" for parameter in operation.get("parameters", ()))
    writes = changes(method) and need.permission is not Permission.READ
    return (
        ({} if is_open else _ALWAYS | _WITH_KEY)
        | (_WITH_PATH if in_path else {})
        | (_WITH_BODY if "requestBody" in operation else {})
        | (_WITH_CHANGE if writes else {})
    )


_REPETITION: Final[_Document] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A request that is repeated with the same key within an hour is done once.",
    "schema": {"type": "string", "pattern": KEY_PATTERN, "minLength": 1, "maxLength": 200},
}
