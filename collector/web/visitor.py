"""The browser of a visitor: its cookie, its forms, and their problems."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, cast
from urllib.parse import unquote_to_bytes, urlsplit

from fastapi import APIRouter, Depends, Request
from pydantic import ValidationError
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Scope

from collector.access.permission import changes
from collector.api.base.request_turns import RouteSchedulers
from collector.api.base.route_turns import ScheduledRoute
from collector.api.base.routing import check_caller
from collector.web.sign_in_sessions import LIFE_S, Sessions, new_id
from storage.limit import Limit

TOKEN_FIELD: Final = "csrf"  # noqa: S105 - the name of a field
_MAX_FIELDS: Final = 200
_DECODED_AT_ONCE: Final = 64 << 10  # bytes of a field; a guess

_COOKIE: Final = "tracejury"
_SECURE_COOKIE: Final = "__Host-tracejury"  # browsers take a cookie of this name over TLS only, for the path `/`
_SECURE_COOKIE_UNDER_PREFIX: Final = "__Secure-tracejury"  # over TLS only, for any path
_ID_CHARACTERS: Final = range(20, 100)


@dataclass(slots=True)
class Visitor:
    """A browser, by the id in its cookie; a new one gets its cookie with the page."""

    id: str
    is_new: bool


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a form whose CSRF token is valid, or that came with an API key in a header."""

    fields: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def text(self, name: str, default: str = "") -> str:
        """Return a field's value; of several the first."""
        return next(iter(self.fields.get(name, ())), default)

    def texts(self, name: str) -> Sequence[str]:
        """Return all values of a field."""
        return self.fields.get(name, ())

    def checked(self, name: str) -> bool:
        """Return True if a box is ticked."""
        return name in self.fields

    def required(self, name: str) -> str:
        """Return a field that must not be empty.

        Raises:
            HTTPException: the field is empty.
        """
        value = self.text(name).strip()
        if not value:
            raise HTTPException(400, f"{name}: is required")
        return value


def sessions_of(request: HTTPConnection) -> Sessions:
    """Return the sessions of the application."""
    return cast("Sessions", request.app.state.sessions)


def cookie_of(scope: Scope) -> str | None:
    """Return the session id of the cookie."""
    sent = HTTPConnection(scope).cookies.get(_name(scope), "")
    return sent if len(sent) in _ID_CHARACTERS else None


def visitor_of(request: Request) -> Visitor:
    """Return the visitor of a request, the same one for all calls of one request."""
    known: Visitor | None = getattr(request.state, "visitor", None)
    if known is None:
        sent = cookie_of(request.scope)
        known = Visitor(id=sent or new_id(), is_new=sent is None)
        request.state.visitor = known
    return known


def give_cookie(request: Request, response: Response, visitor_id: str) -> None:
    """Set the session cookie to this id."""
    response.set_cookie(
        _name(request.scope),
        visitor_id,
        max_age=LIFE_S,
        path=request.scope.get("root_path") or "/",
        secure=request.scope.get("scheme") == "https",
        httponly=True,
        samesite="lax",  # links from mails find the session; forms have a token
    )


async def check_form(request: Request) -> None:
    """Read the form that a request carries, and refuse one that another page may have sent.

    Requests with a key in a header need no token: no page can make a browser send that.

    Raises:
        HTTPException: the token is missing or of another visitor, or the form has too many fields.
    """
    if not changes(request.method):
        return
    try:
        turns: RouteSchedulers = request.app.state.context.route_turns
        pairs = await turns.bodies.parse(await request.body(), request, _pairs)
    except ValueError as error:  # of `_pairs`, which refuses too many fields
        raise HTTPException(400, str(error)) from error
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value.replace("\r\n", "\n"))
    form = Form(fields)
    shows_key = "authorization" in request.headers
    if not shows_key and not sessions_of(request).is_token(visitor_of(request).id, form.text(TOKEN_FIELD)):
        raise HTTPException(403, "this form has expired or came from another site: reload the page and send it again")
    request.state.form = form


def _pairs(content: bytes) -> list[tuple[str, str]]:
    """Parse the fields of a form.

    Fields are decoded in chunks, since `urllib` takes a hundred bytes of memory for each escape that it decodes.
    """
    fields = content.split(b"&", _MAX_FIELDS) if content else []
    if len(fields) > _MAX_FIELDS:
        limit = Limit(value=_MAX_FIELDS, unit="fields", remedy="send fewer fields")
        raise ValueError(f"the form has more than {limit}")
    pairs = (field.partition(b"=") for field in fields if field)
    return [(_unquoted(name), _unquoted(value)) for name, _, value in pairs]


def _unquoted(quoted: bytes) -> str:
    whole, start = io.BytesIO(), 0
    while start < len(quoted):
        end = start + _DECODED_AT_ONCE
        end -= (quoted[end - 2 : end][::-1].find(b"%") + 1) if end < len(quoted) else 0  # no escape is cut
        whole.write(unquote_to_bytes(quoted[start:end].replace(b"+", b" ")))
        start = end
    return whole.getvalue().decode("utf-8", "replace")


def page_router() -> APIRouter:
    """Make a router for pages: its routes check the caller and the form's token."""
    return APIRouter(
        include_in_schema=False, dependencies=[Depends(check_caller), Depends(check_form)], route_class=ScheduledRoute
    )


async def _form(request: Request) -> Form:  # async: FastAPI runs plain functions in a thread
    return cast("Form", request.state.form)


FormDep = Annotated[Form, Depends(_form)]
"""The form that was sent."""


def path_of(request: Request) -> str:
    """Return the path of this page as sent, undecoded: an escaped “/” in a name must stay escaped."""
    return cast("bytes", request.scope["raw_path"]).decode("latin-1")


def with_parameters(request: Request, **changed: object) -> str:
    """Return the address of this page with other parameters; None or "" removes one, a list repeats it."""
    pairs = [(name, value) for name, value in request.query_params.multi_items() if name not in changed]
    for name, value in changed.items():
        if isinstance(value, list | tuple):
            pairs += [(name, str(each)) for each in value]
        elif value is not None and value != "":
            pairs.append((name, str(value)))
    query = str(QueryParams(pairs))
    return f"{path_of(request)}?{query}" if query else path_of(request)


def with_query(path: str, **parameters: str | None) -> str:
    """Return the address of another page; None leaves a parameter out."""
    query = str(QueryParams([(name, value) for name, value in parameters.items() if value is not None]))
    return f"{path}?{query}" if query else path


def return_address(request: Request, path: str) -> str:
    """Return the address of a page, with the query of the referring address if the visitor came from that page."""
    sent = urlsplit(request.headers.get("referer", ""))
    is_it = sent.netloc == request.url.netloc and sent.path == request.scope.get("root_path", "") + path
    return f"{path}?{sent.query}" if is_it and sent.query else path


def _name(scope: Scope) -> str:
    if scope.get("scheme") != "https":
        return _COOKIE
    return _SECURE_COOKIE_UNDER_PREFIX if scope.get("root_path") else _SECURE_COOKIE


def by_field(error: ValidationError) -> dict[str, str]:
    """Return one message for each field, without the rejected values: the first of several problems."""
    messages: dict[str, str] = {}
    for each in error.errors(include_url=False, include_input=False):
        name = str(each["loc"][0]) if each["loc"] else ""
        message = "is required" if each["type"] == "missing" else each["msg"].removeprefix("Value error, ")
        messages.setdefault(name, message[:1].lower() + message[1:])
    return messages
