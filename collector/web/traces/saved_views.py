"""Saved views: all of them with what each shows, and the forms that save, change and delete one."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from markupsafe import Markup
from pydantic import ValidationError

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.base.routing import Here, Who
from collector.api.traces.saved_views import OwnView, SavedViewBody
from collector.web.confirming import Confirmation, ask
from collector.web.navigation import may_use
from collector.web.rendering import page
from collector.web.text import one_line
from collector.web.traces.trace_list import in_words, listed_query
from collector.web.visitor import Form, Sent, by_field, page_router
from storage.errors import Conflict, Stale, require_version
from storage.operation.saved_views import SavedView

router = page_router()

_SEE_OTHER: Final = 303
_ALL: Final = "/traces/views"
_ONE: Final = "/traces/views/{view_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _SavedViewFormState:
    """What the form holds, what is wrong with it, and the view that it changes."""

    values: Mapping[str, str]
    problems: Mapping[str, str] = field(default_factory=dict)
    view: SavedView | None = None


@router.get(_ALL)
@needs(Permission.READ, by_tenant=True)
def list_views(request: Request, here: Here, who: Who) -> Response:
    """All of them by name, with what each shows."""
    views = [
        (view, _description(view), _may_change(who, view)) for view in here.saved_views.all(tenant=who.visible_tenant)
    ]
    return page(request, "saved_views.html", views=views)


@router.get(_ALL + "/new")
@needs(Permission.WRITE, by_tenant=True)
def new_view(request: Request) -> Response:
    """The form, with what the list showed that led here."""
    return _form(request, _SavedViewFormState(values={"name": "", "query": listed_query(request)}))


@router.post(_ALL + "/new")
@needs(Permission.WRITE, by_tenant=True)
def create_view(request: Request, here: Here, who: Who, form: Sent) -> Response:
    """Save it, and show its list."""
    values = _values(form)
    view_id = uuid.uuid4().hex
    try:
        body = SavedViewBody.model_validate(values)
        now_us = here.now_ns() // 1000
        here.saved_views.create(view_id, body.text(), tenant=who.tenant, by=who.key_name, now_us=now_us)
    except ValidationError as error:
        return _form(request, _SavedViewFormState(values=values, problems=by_field(error)), status=400)
    except Conflict as error:
        return _form(request, _SavedViewFormState(values=values, problems={"name": str(error)}), status=409)
    return RedirectResponse(f"/traces?view={view_id}", _SEE_OTHER)


@router.get(_ONE + "/edit")
@needs(Permission.WRITE, by_tenant=True)
def edit_view(request: Request, view: OwnView) -> Response:
    """The form of one that is there."""
    return _form(request, _SavedViewFormState(values={"name": view.name, "query": view.query}, view=view))


@router.post(_ONE + "/edit")
@needs(Permission.WRITE, by_tenant=True)
def change_view(request: Request, view: OwnView, here: Here, form: Sent) -> Response:
    """Let it show something else, if nobody changed it meanwhile."""
    values = _values(form)
    try:
        body = SavedViewBody.model_validate(values)
        version = form.text("version")
        require_version(view.version, {int(version) if version.isdecimal() else 0})
        here.saved_views.replace(view, body.text(), now_us=here.now_ns() // 1000)
    except ValidationError as error:
        return _form(request, _SavedViewFormState(values=values, problems=by_field(error), view=view), status=400)
    except Stale:
        told = {"": "The view was changed while you edited it: look at it again."}
        return _form(request, _SavedViewFormState(values=values, problems=told, view=view), status=409)
    except Conflict as error:
        return _form(request, _SavedViewFormState(values=values, problems={"name": str(error)}, view=view), status=409)
    return RedirectResponse(_ALL, _SEE_OTHER)


@router.get(_ONE + "/delete")
@needs(Permission.WRITE, by_tenant=True)
def ask_to_delete_view(request: Request, view: OwnView) -> Response:
    """Whether it is really to go."""
    question = Confirmation(
        title="Delete a saved view",
        told=Markup("<strong>{}</strong> is deleted, and links to it lead nowhere. The traces stay.").format(
            one_line(view.name)
        ),
        action=f"{_ALL}/{view.view_id}/delete",
        button="Delete the view",
        back=_ALL,
    )
    return ask(request, question)


@router.post(_ONE + "/delete")
@needs(Permission.WRITE, by_tenant=True)
def delete_view(view: OwnView, here: Here) -> Response:
    """Delete it."""
    here.saved_views.delete(view)
    return RedirectResponse(_ALL, _SEE_OTHER)


def _may_change(who: Caller, view: SavedView) -> bool:
    return may_use(who, change_view, "POST") and who.owns(view.tenant)


def _description(view: SavedView) -> str:
    """What a view shows, in words."""
    labels = {"sort": "in the order of", "density": "rows"}
    said = [(labels[name], value) if name in labels else in_words(name, value) for name, value in parse_qsl(view.query)]
    return ", ".join(f"{what} {value}" for what, value in said) or "all traces"


def _values(form: Form) -> dict[str, str]:
    return {"name": form.text("name").strip(), "query": form.text("query").strip()}


def _form(request: Request, shown: _SavedViewFormState, *, status: int = 200) -> Response:
    return page(
        request,
        "saved_view_form.html",
        status=status,
        values=shown.values,
        problems=shown.problems,
        view=shown.view,
    )
