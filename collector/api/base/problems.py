"""Errors of the API: problem details (RFC 9457), with the message in `error` too."""

import json
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from collector.access.errors import AccessRefused
from collector.listeners.status import failure_of
from rules.errors import BadRule
from storage.errors import BadQuery, Conflict, Damaged, NotFound, Overloaded, Reopened, Stale
from storage.memory import LackOfMemory, advice

_READING: Final = frozenset({"GET", "HEAD"})
_ENDED: Final = "ended_by_reopening"


def note_reopened(request: Request) -> None:
    """Mark a request during which the database was reopened."""
    request.scope["state"][_ENDED] = True


class RetryOnReopen:
    """ASGI middleware that runs a read a second time if the database was reopened during the first run."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond, from the second run if the database was reopened during the first."""
        state = scope.setdefault("state", {})
        if scope["type"] != "http" or scope["method"] not in _READING:
            await self._application(scope, receive, send)
            return

        async def send_unless_ended(message: Message) -> None:
            if not state.get(_ENDED):
                await send(message)

        received: list[Message] = []

        async def receive_and_keep() -> Message:
            received.append(await receive())
            return received[-1]

        await self._application(scope, receive_and_keep, send_unless_ended)
        if state.pop(_ENDED, False):
            again = iter(received)  # the body: without these messages, the second attempt would wait for it for ever

            async def receive_again() -> Message:
                return next(again, None) or await receive()

            await self._application(scope, receive_again, send)


MEDIA_TYPE = "application/problem+json"


class FieldProblem(BaseModel):
    """An error in one place of a request."""

    field: str = Field(description="A parameter, or a path into the body with dots.")
    message: str


class TextProblem(BaseModel):
    """An error in one place of the text of a rule or a connection."""

    line: int | None = Field(default=None, description="The line of a rule.")
    key: str
    message: str


class ProblemDocument(BaseModel):
    """Error of a request."""

    model_config = ConfigDict(extra="forbid")

    type: str = Field(description="Always about:blank: the status says what kind of problem it is.")
    title: str
    status: int
    detail: str
    error: str = Field(description="The same as `detail`, for clients that know this name.")
    errors: list[FieldProblem] | None = Field(default=None, description="The first 50 fields that are wrong.")
    problems: list[TextProblem] | None = Field(default=None, description="Each thing that is wrong with a text.")


class _ProblemResponse(JSONResponse):
    """A JSON response that may echo a request: lone surrogates become question marks."""

    def render(self, content: object) -> bytes:
        return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(errors="replace")


def problem(
    status: int,
    message: str,
    *,
    errors: Sequence[Mapping[str, object]] | None = None,
    problems: Sequence[Mapping[str, object]] | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """Return a problem response."""
    document: dict[str, object] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": message,
        "error": message,
    }
    if errors is not None:
        document["errors"] = list(errors)
    if problems is not None:
        document["problems"] = list(problems)
    return _ProblemResponse(document, status_code=status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (BadQuery, 400),
    (NotFound, 404),
    (Conflict, 409),
    (Stale, 412),
)


def answer_problems(application: FastAPI) -> None:
    """Register handlers that turn exceptions and unknown routes into problems."""
    application.add_exception_handler(RequestValidationError, _invalid)
    application.add_exception_handler(HTTPException, _http_error)
    application.add_exception_handler(ClientDisconnect, _gone)
    application.add_exception_handler(Exception, _internal)
    application.add_exception_handler(AccessRefused, _failure)
    application.add_exception_handler(Overloaded, _failure)
    application.add_exception_handler(Damaged, _failure)
    application.add_exception_handler(LackOfMemory, _no_memory)
    application.add_exception_handler(BadRule, _no_rule)
    for kind, _ in _STATUS:
        application.add_exception_handler(kind, _stored_problem)


def answer(
    request: Request,
    status: int,
    message: str,
    *,
    headers: Mapping[str, str] | None = None,
    **more: Sequence[Mapping[str, object]],
) -> Response:
    """Return a problem as JSON, or as a page if the request is for a page."""
    page: Callable[[Request, int, str, Mapping[str, str]], Response] | None = request.scope["state"].get("problem_page")
    if page is not None:
        return page(request, status, message, headers or {})
    return problem(status, message, headers=headers, **more)


_MOST_ERRORS: Final = 50
"""Maximum number of errors in a response: bodies can have a million. A guess."""

_MOST_CHARACTERS: Final = 1_000


def _short(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"


async def _invalid(request: Request, error: Exception) -> Response:
    reported: Sequence[Any] = error.errors() if isinstance(error, RequestValidationError) else []
    errors = [
        {
            "field": _short(".".join(map(str, each["loc"][1:])) or str(each["loc"][0])),
            "message": _short(each["msg"].removeprefix("Value error, ")),
        }
        for each in reported[:_MOST_ERRORS]
    ]
    message = "; ".join(f"{each['field']}: {each['message']}" for each in errors)
    more = f"; and {len(reported) - len(errors):,} more" if len(reported) > len(errors) else ""
    return answer(request, 400, message + more, errors=errors)


async def _gone(_request: Request, _error: Exception) -> Response:
    # The client left before its body was complete: no unexpected failure.
    return Response(status_code=400)


async def _http_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        return await _internal(request, error)
    return answer(request, error.status_code, str(error.detail), headers=error.headers)


async def _failure(request: Request, error: Exception) -> Response:
    if isinstance(error, Reopened):
        note_reopened(request)
    failure = failure_of(error)
    return answer(request, failure.http_status, failure.message, headers=failure.http_headers())


async def _no_memory(request: Request, error: Exception) -> Response:
    return answer(request, HTTPStatus.SERVICE_UNAVAILABLE, advice(error))


async def _stored_problem(request: Request, error: Exception) -> Response:
    return answer(request, next(status for kind, status in _STATUS if isinstance(error, kind)), str(error))


async def _no_rule(request: Request, error: Exception) -> Response:
    problems = error.problems if isinstance(error, BadRule) else ()
    message = "; ".join(f"{each.key}: {each.message}" if each.key else each.message for each in problems)
    listed = [{"line": each.line, "key": each.key, "message": each.message} for each in problems]
    return answer(request, 400, message, problems=listed)


async def _internal(request: Request, _error: Exception) -> Response:
    return answer(request, 500, "internal error; the server's log has it")
