"""The gate that every request passes: request id, authentication, permission, and audit."""

import asyncio
import logging
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from collector.access.authenticator import Authenticator
from collector.access.caller import Caller, RequestInfo
from collector.access.errors import AccessRefused, Unauthenticated
from collector.access.origin import Names
from collector.access.permission import Permission, Requirements, changes, requirements_of
from collector.api.base.problems import answer
from collector.api.base.route_turns import MATCHED
from collector.ingest import ByteBudget
from collector.listeners.answer_resources import closing_resources
from collector.listeners.body import HeldBody
from collector.listeners.otlp_http import address_of
from collector.listeners.response_buffer import RETRY_AFTER_S, BufferedResponse, Refused, ResponseBufferLimit
from collector.listeners.status import failure_of
from collector.logs import request_id, request_id_of
from collector.path_names import route_path, subject_of
from collector.self_tracing import INTERNAL_HEADER, FinishedWork, Watch, now_ns
from storage.errors import Overloaded
from storage.limit import Limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Pages and their forms. Cookies authenticate requests for pages only, so the API needs no CSRF tokens."""

    routers: Sequence[APIRouter]
    key_of: Callable[[Scope], bytes | None]  # the digest of the key for which the request's cookie was issued
    problem_page: Callable[[Request, int, str, Mapping[str, str]], Response]
    attach: Callable[[FastAPI], None]  # adds the pages' state to the application

    @property
    def routes(self) -> list[BaseRoute]:
        """Every route of the pages."""
        return [route for router in self.routers for route in router.routes]


log = logging.getLogger(__name__)

MAX_JSON_BYTES: Final = 8 << 20
"""Maximum size of a request other than spans. A guess: an SQL statement of 1 MiB with all its parameters."""

MAX_FILE_BYTES: Final = 1 << 30
"""Maximum size of an uploaded file, which is not held in memory. A guess: a million items of a kilobyte."""

_MAX_OPEN_BYTES: Final = 64 << 10
"""Maximum size of a request to a route that needs no key. A guess: a form with a key and a token."""

_JSON: Final = re.compile(r"application/([a-z0-9.-]+\+)?json")
_YAML: Final = frozenset({"application/yaml", "application/x-yaml", "text/yaml"})  # which rules are sent as
_FORM: Final = "application/x-www-form-urlencoded"
_PROGRAMS: Final = ("/api/", "/jaeger/")  # paths of programs: errors are not pages, whatever `Accept` says


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Checks of requests: keys, and memory for bodies (other than spans) and for responses."""

    authenticator: Authenticator
    bodies: ByteBudget
    answers: ResponseBufferLimit
    watch: Watch | None = None  # called with each request let through, except the server's own and those with spans


class Gate:
    """ASGI middleware around the API: it authenticates requests, and bounds the memory of bodies and responses."""

    def __init__(
        self,
        application: ASGIApp,
        *,
        admission: Admission,
        names: Names,
        routes: Sequence[BaseRoute],
        site: Site | None = None,
    ) -> None:
        self._watch = admission.watch
        self._bodies = admission.bodies
        self._answers = admission.answers
        self._application = application
        self._authenticator = admission.authenticator
        self._names = names
        self._site = site
        pages = [] if site is None else site.routes
        self._of_pages = frozenset(map(id, pages))
        self._routes: defaultdict[str, list[BaseRoute]] = defaultdict(list)  # by the subject of their paths
        for route in (*routes, *pages):
            self._routes[subject_of(getattr(route, "path", ""))].append(route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the application, or refuse it."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request_info = RequestInfo(
            method=scope["method"],
            path=scope["path"],
            address=address_of(scope),
            request_id=request_id_of(headers.get("x-request-id")),
        )
        request_id.set(request_info.request_id)
        need, is_page, route = self._need_and_route(scope, headers)
        answered = partial(self._authenticator.traffic.answered, request_info.method, route)
        passage = _Passage(request_info, send, lambda: self._allowed(scope), answered)
        state = scope.setdefault("state", {})
        state.update(
            need=need,
            request_id=request_info.request_id,
            problem_page=self._site.problem_page if self._site and is_page else None,
        )
        try:
            caller = self._enter(scope, headers, request_info, is_page=is_page)
        except AccessRefused as error:
            failure = failure_of(error)
            state.update(caller=error.caller)
            if not (is_page and isinstance(error, Unauthenticated) and "authorization" not in headers):
                self._authenticator.journal.note(request_info, error.caller, failure.http_status, failure.message)
            if need.permission is Permission.SEND:
                self._authenticator.traffic.not_decoded("http", failure.reason, 0)
            refusal = answer(Request(scope), failure.http_status, failure.message, headers=failure.http_headers())
            await refusal(scope, receive, passage.send)
            return
        state.update(caller=caller)
        body = HeldBody(self._bodies, caller.client)
        if not need.takes_spans:
            most_bytes = _most_bytes(need)
            unfit = _unfit(Request(scope), most_bytes, is_page=is_page) or self._crowded(scope, caller, need)
            if unfit is not None:
                await unfit(scope, receive, passage.send)
                self._note(request_info, caller, passage.status, need)
                return
            receive = _bounded(receive, most_bytes, None if need.takes_files else body)
        began_ns = now_ns()
        try:
            await self._let_through(scope, receive, passage, caller)
        finally:
            body.let_go()
            passage.close()
            log.debug("%s %s: %d", request_info.method, request_info.path, passage.status)
            self._note(request_info, caller, passage.status, need, only_looked=bool(state.get("only_looked")))
            if self._watch is not None and need.permission is not Permission.SEND and INTERNAL_HEADER not in headers:
                self._watch(_answered(scope, request_info, passage.status, began_ns))

    async def _let_through(self, scope: Scope, receive: Receive, passage: "_Passage", caller: Caller) -> None:
        async def refuse(why: str) -> None:
            is_done = _is_change(scope["state"]["need"], scope["method"])
            await _without_room(scope, why, is_done=is_done)(scope, receive, passage.send)

        held = BufferedResponse(self._answers, caller.client, passage.send, refuse)
        try:
            async with closing_resources(self._answers.resources):
                await self._application(scope, receive, held.send)
        except Refused:
            pass
        except asyncio.CancelledError:  # the shutdown timed out; the change may still be made
            if passage.is_answered:
                raise
            await answer(Request(scope), 503, _STOPPED, headers={"retry-after": "5"})(scope, receive, passage.send)
        finally:
            held.let_go()

    def _enter(self, scope: Scope, headers: Headers, request_info: RequestInfo, *, is_page: bool) -> Caller:
        need: Requirements = scope["state"]["need"]
        authorization = headers.get("authorization")

        def without_key() -> None:
            self._names.check(headers.get("host"), headers.get("origin"), changes=changes(request_info.method))

        if need.permission is Permission.SEND:
            return self._authenticator.enter_to_send(authorization, request_info, without_key)
        signed_in = self._site.key_of(scope) if self._site and is_page else None
        return self._authenticator.enter(authorization, request_info, need, without_key, signed_in=signed_in)

    def _crowded(self, scope: Scope, caller: Caller, need: Requirements) -> Response | None:
        # Refuse a change up front if there may be no room for its answer.
        why = self._answers.lack(caller.client) if _is_change(need, scope["method"]) else None
        return None if why is None else _without_room(scope, why, is_done=False)

    def _need_and_route(self, scope: Scope, headers: Headers) -> tuple[Requirements, bool, str | None]:
        """Return the request's requirements, whether it is for a page, and the path of its route (None: no route)."""
        for route in self._candidates(scope):
            match, child_scope = route.matches(scope)
            if match is Match.FULL:
                scope[MATCHED] = route, child_scope
                need = requirements_of(child_scope.get("endpoint"), scope["method"])
                return need, id(route) in self._of_pages, getattr(route, "path", None)
        is_page = "text/html" in headers.get("accept", "") and not scope["path"].startswith(_PROGRAMS)
        return requirements_of(None, scope["method"]), is_page, None

    def _candidates(self, scope: Scope) -> Sequence[BaseRoute]:
        return self._routes.get(subject_of(route_path(scope)), ())

    def _allowed(self, scope: Scope) -> str:
        # Each route knows its own methods only, so combine all routes of the path. Of these, those with the fewest
        # parameters count: `…/test` is a route of its own, and not also the rule with the id `test`.
        here = [route for route in self._candidates(scope) if route.matches(scope)[0] is not Match.NONE]
        fewest = min((_parameters(route) for route in here), default=0)
        here = [route for route in here if _parameters(route) == fewest]
        return ", ".join(sorted(method for route in here for method in getattr(route, "methods", None) or ()))

    def _note(
        self, request_info: RequestInfo, caller: Caller, status: int, need: Requirements, *, only_looked: bool = False
    ) -> None:
        # No entry for received spans, which are many and carry their time, nor for forms that only preview a change.
        is_write = _is_change(need, request_info.method)
        if (is_write and not only_looked) or status == HTTPStatus.FORBIDDEN:
            self._authenticator.journal.note(request_info, caller, status)


def _answered(scope: Scope, request_info: RequestInfo, status: int, began_ns: int) -> FinishedWork:
    """Describe an answered request as a span. It is named by its route, so that the number of names is small."""
    route = getattr(scope.get("route"), "path", None)
    attributes = {
        "http.request.method": request_info.method,
        "http.route": route,
        "http.response.status_code": status,
        "tracejury.request_id": request_info.request_id,
    }
    failed = "server error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else None
    name = f"{request_info.method} {route}" if route else request_info.method
    return FinishedWork(name=name, began_ns=began_ns, kind="server", failed=failed, attributes=attributes)


class _Passage:
    """Wrapper of `send` that adds the request's id and security headers to every response."""

    def __init__(
        self, request_info: RequestInfo, send: Send, allowed: Callable[[], str], answered: Callable[[int], None]
    ) -> None:
        self._request_info = request_info
        self._send = send
        self._allowed = allowed
        self._answered = answered
        self.status = int(HTTPStatus.INTERNAL_SERVER_ERROR)  # until the answer says otherwise
        self.is_answered = False

    def close(self) -> None:
        """Count a request without a response; the response to an unexpected failure is sent outside of the gate."""
        if not self.is_answered:
            self._answered(self.status)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.is_answered = True
            self._answered(self.status)
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = self._request_info.request_id or ""
            headers["x-content-type-options"] = "nosniff"
            headers.setdefault("cache-control", "no-store")
            if self.status == HTTPStatus.METHOD_NOT_ALLOWED:
                headers["allow"] = self._allowed()
        await self._send(message)


def _is_change(need: Requirements, method: str) -> bool:
    writing = {Permission.WRITE, Permission.REVIEW, Permission.ADMINISTER}
    return need.permission in writing and changes(method)


def _without_room(scope: Scope, why: str, *, is_done: bool) -> Response:
    # A change that was made must not be sent again: its answer has no `Retry-After`.
    if is_done:
        return answer(Request(scope), 503, f"this was done, but its answer cannot be sent: {why}")
    return answer(Request(scope), 503, why, headers={"retry-after": str(RETRY_AFTER_S)})


def _most_bytes(need: Requirements) -> int:
    if need.takes_files:
        return MAX_FILE_BYTES
    return _MAX_OPEN_BYTES if need.permission is Permission.OPEN else MAX_JSON_BYTES


def _parameters(route: BaseRoute) -> int:
    return str(getattr(route, "path", "")).count("{")


def _unfit(request: Request, most_bytes: int, *, is_page: bool) -> Any:  # noqa: ANN401 - an answer, or None
    """Return the error for a body that is too large or of another type, or None."""
    length = request.headers.get("content-length", "")
    has_body = "transfer-encoding" in request.headers or length not in {"", "0"}
    if not has_body:
        return None
    if length.isdecimal() and int(length) > most_bytes:
        return answer(request, 413, _too_large(most_bytes))
    if not changes(request.method) or most_bytes == MAX_FILE_BYTES:  # the route checks the type of a file
        return None
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if is_page and media_type != _FORM:
        return answer(request, 415, f"content-type {media_type or '(none)'} is not taken here; pages send {_FORM}")
    if not is_page and not _JSON.fullmatch(media_type) and media_type not in _YAML:
        message = f"content-type {media_type or '(none)'} is not taken here; use application/json"
        return answer(request, 415, message)
    return None


_STOPPED: Final = "the server stopped during this request; check whether it took effect, and repeat it if not"


def _too_large(most_bytes: int) -> str:
    return f"the body is larger than {Limit(value=most_bytes, unit='bytes', remedy='send it in parts')}"


def _bounded(receive: Receive, most_bytes: int, body: HeldBody | None) -> Receive:
    """Return a `receive` that raises an HTTPException if a body is too large (413), or no memory is left for it (503).

    Files are not held in memory, so they have no `body`.
    """
    received = 0

    async def receive_some() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > most_bytes:
            raise HTTPException(413, _too_large(most_bytes))
        if body is not None:
            try:
                body.hold(len(message.get("body", b"")))
            except Overloaded as error:
                raise HTTPException(503, str(error), {"retry-after": str(error.retry_after_s)}) from None
        return message

    return receive_some
