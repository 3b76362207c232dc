"""Signing in with an API key, and out again."""

from typing import Final

from fastapi import Request
from fastapi.responses import Response

from collector.access.caller import Caller, RequestInfo
from collector.access.errors import TooMany, Unauthenticated
from collector.access.permission import Permission, needs
from collector.access.secret import digest
from collector.api.base.routing import ContextDep
from collector.listeners.otlp_http import address_of
from collector.web.rendering import page, see_other
from collector.web.sign_in_sessions import new_id
from collector.web.visitor import FormDep, cookie_of, give_cookie, page_router, sessions_of

router = page_router()

_SENDS_ONLY: Final = "This key can only send spans; sign in with a key that has another role."


@router.get("/sign-in")
@needs(Permission.OPEN)
def show_form(request: Request, context: ContextDep, next: str = "/") -> Response:  # noqa: A002 - a parameter of the address
    """Show the form; if the server has no keys, redirect, because no sign-in is needed."""
    if context.authenticator.keyring.is_open:
        return see_other(own_path(next))
    return page(request, "sign_in.html", next=own_path(next), problem=None)


@router.post("/sign-in")
@needs(Permission.OPEN)
async def sign_in(request: Request, context: ContextDep, form: FormDep) -> Response:
    """Begin a session; redirect to the page that was requested before."""
    key, next_path = form.required("key"), own_path(form.text("next", "/"))
    request_info = RequestInfo(
        method="POST", path="/sign-in", address=address_of(request.scope), request_id=request.state.request_id
    )
    caller: Caller | None = None
    try:
        caller = context.authenticator.sign_in(key, request_info)
    except Unauthenticated as error:
        status, problem = 401, str(error)
    except TooMany as error:
        status, problem = 429, f"{error}; try again in {error.retry_after_s} s"
    else:
        if caller.may(Permission.SEE_QUEUES):
            first = next_path if caller.may(Permission.READ) or next_path != "/" else "/review"
            answer = see_other(first)
            _leave(request)
            give_cookie(request, answer, sessions_of(request).begin(digest(key)))
            context.authenticator.journal.note(request_info, caller, answer.status_code)
            return answer
        status, problem = 403, _SENDS_ONLY
    context.authenticator.journal.note(request_info, caller, status, problem)
    return page(request, "sign_in.html", status=status, next=next_path, problem=problem)


@router.post("/sign-out")
@needs(Permission.OPEN)
def sign_out(request: Request, form: FormDep) -> Response:  # noqa: ARG001 - it makes the route check the form's token
    """End the session, here and in the browser."""
    _leave(request)
    answer = see_other("/sign-in")
    give_cookie(request, answer, new_id())
    return answer


def own_path(address: str) -> str:
    """Return an address of this site, else "/", so that a link cannot redirect to another site."""
    is_ours = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
    return address if is_ours and address.isascii() else "/"


def _leave(request: Request) -> None:
    before = cookie_of(request.scope)
    if before is not None:
        sessions_of(request).end(before)
