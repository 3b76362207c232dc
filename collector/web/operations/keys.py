"""Pages of API keys: create, disable, delete. A key is shown once, in the response to the form that creates it."""

import re
from typing import Final

from fastapi import Request
from fastapi.responses import Response
from markupsafe import Markup
from pydantic import ValidationError

from collector.access.errors import Forbidden
from collector.access.permission import Permission, Role, needs
from collector.api.access import keys as api
from collector.api.base.context import Context
from collector.api.base.routing import CallerDep, ContextDep
from collector.web.confirming import Confirmation, ask, attempt, show_once
from collector.web.rendering import page
from collector.web.text import one_line
from collector.web.visitor import Form, FormDep, by_field, page_router
from storage.errors import Conflict, NotFound
from storage.operation.access import ApiKey

router = page_router()

_ROLES: Final = (
    (Role.VIEWER, "VIEWER: reads"),
    (Role.EDITOR, "EDITOR: reads, sends spans, changes rules"),
    (Role.ADMIN, "ADMIN: full access"),
    (Role.INGEST, "INGEST: only sends spans"),
    (Role.REVIEWER, "REVIEWER: only votes in review queues"),
)
_FIELDS: Final = ("name", "role", "tenantId", "expiresAt")
_TO_THE_MINUTE: Final = re.compile(r"\d{4,}-\d{2}-\d{2}T\d{2}:\d{2}")
_DISABLE = "will no longer give access. It stays in the list."
_DELETE = "will no longer give access, and leaves the list. The audit log keeps its name."


@router.get("/keys")
@needs(Permission.ADMINISTER, by_tenant=True)
def list_keys(request: Request, context: ContextDep, caller: CallerDep) -> Response:
    """List keys, oldest first."""
    return page(request, "keys.html", keys=context.authenticator.keyring.keys(caller))


@router.get("/keys/new")
@needs(Permission.ADMINISTER, by_tenant=True)
def new_key(request: Request, context: ContextDep) -> Response:
    """Show the form of a new key; the first key has to be an ADMIN key."""
    is_first = context.authenticator.keyring.is_open
    return _form(request, dict.fromkeys(_FIELDS, "") | {"role": Role.ADMIN if is_first else Role.VIEWER})


@router.post("/keys/new")
@needs(Permission.ADMINISTER, by_tenant=True)
def create_key(request: Request, context: ContextDep, caller: CallerDep, form: FormDep) -> Response:
    """Create a key, and show its text once."""
    try:
        body = api.NewKey.model_validate({name: _value(name, form) for name in _FIELDS if form.text(name).strip()})
        made = api.create_key(body, context, caller)
    except ValidationError as error:
        return _form(request, _values(form), problems=by_field(error), status=400)
    except Forbidden as error:
        return _form(request, _values(form), problems={"tenantId": str(error)}, status=403)
    except Conflict as error:
        return _form(request, _values(form), problems={"": str(error)}, status=409)
    text = f"Copy it now: it is not stored and not shown again. Role {made.role}."
    text = " ".join([text, *(f"{one_line(warning[:1].upper() + warning[1:])}." for warning in made.warnings)])
    return show_once(request, title="New key", message=text, secret=made.key, back="/keys")


@router.get("/keys/{key_id}/disable")
@needs(Permission.ADMINISTER, by_tenant=True)
def ask_to_disable(request: Request, key_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Ask for confirmation before a key is disabled."""
    return ask(request, _question("Disable", _DISABLE, _find(context, caller, key_id)))


@router.post("/keys/{key_id}/disable")
@needs(Permission.ADMINISTER, by_tenant=True)
def disable_key(request: Request, key_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Disable a key."""
    question = _question("Disable", _DISABLE, _find(context, caller, key_id))
    return attempt(request, question, lambda: api.disable_key(key_id, context, caller), then="/keys")


@router.get("/keys/{key_id}/delete")
@needs(Permission.ADMINISTER, by_tenant=True)
def ask_to_delete(request: Request, key_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Ask for confirmation before a key is deleted."""
    return ask(request, _question("Delete", _DELETE, _find(context, caller, key_id)))


@router.post("/keys/{key_id}/delete")
@needs(Permission.ADMINISTER, by_tenant=True)
def delete_key(request: Request, key_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Delete a key."""
    question = _question("Delete", _DELETE, _find(context, caller, key_id))
    return attempt(request, question, lambda: api.delete_key(key_id, context, caller), then="/keys")


def _find(context: Context, caller: CallerDep, key_id: str) -> ApiKey:
    for each in context.authenticator.keyring.keys(caller):
        if each.key_id == key_id:
            return each
    raise NotFound(f"there is no key {key_id}")


def _value(name: str, form: Form) -> str:
    text = form.text(name).strip()
    return f"{text}:00Z" if name == "expiresAt" and _TO_THE_MINUTE.fullmatch(text) else text


def _values(form: Form) -> dict[str, str]:
    return {name: form.text(name) for name in _FIELDS}


def _form(
    request: Request, values: dict[str, str], *, problems: dict[str, str] | None = None, status: int = 200
) -> Response:
    return page(request, "key_form.html", status=status, values=values, problems=problems or {}, roles=_ROLES)


def _question(button: str, consequence: str, key: ApiKey) -> Confirmation:
    message = Markup("The key {} ({}…) {}").format(one_line(key.name), key.hint, consequence)
    return Confirmation(
        title=f"{button} a key",
        message=message,
        action=f"/keys/{key.key_id}/{button.lower()}",
        button=f"{button} the key",
        back="/keys",
    )
