"""Saved views: the list with the query of each in words, and the forms that save, change and delete one."""

from typing import Final
from urllib.parse import parse_qsl

from fastapi import Request
from fastapi.responses import Response
from markupsafe import Markup

from collector.access.permission import Permission, needs
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.traces.saved_views import SAVED_VIEWS, SavedViewBody
from collector.web.record_pages import FormState, RecordPages, router_of
from collector.web.rendering import page
from collector.web.traces.trace_list import in_words, listed_query
from storage.operation.saved_views import SavedView

_ALL: Final = "/traces/views"


def _form(request: Request, state: FormState[SavedView], status: int) -> Response:
    shown = {"values": state.values, "problems": state.problems, "view": state.record}
    return page(request, "saved_view_form.html", status=status, **shown)


router = router_of(
    RecordPages[SavedView, SavedViewBody](
        of=SAVED_VIEWS,
        place=_ALL,
        noun="view",
        begin=lambda request: {"name": "", "query": listed_query(request)},
        values=lambda view: {"name": view.name, "query": view.query},
        typed=lambda form: {name: form.text(name).strip() for name in ("name", "query")},
        body=lambda values, _: SavedViewBody.model_validate(values),
        form=_form,
        taken="name",
        created=lambda view: f"/traces?view={view.view_id}",
        back=lambda _: _ALL,
        deletion=Markup("<strong>{}</strong> is deleted, and links to it lead nowhere. The traces stay."),
    )
)


@router.get(_ALL)
@needs(Permission.READ, by_tenant=True)
def list_views(request: Request, context: ContextDep, caller: CallerDep) -> Response:
    """List saved views by name, each with its query in words."""
    rows, may_change = context.store.saved_views.find(caller.visible_tenant), caller.may(SAVED_VIEWS.write)
    views = [(view, _description(view), may_change and caller.owns(view.tenant)) for view in rows]
    return page(request, "saved_views.html", views=views)


def _description(view: SavedView) -> str:
    """Return the query of a view in words."""
    labels = {"sort": "sorted by", "density": "rows"}
    pairs = [
        (labels[name], value) if name in labels else in_words(name, value) for name, value in parse_qsl(view.query)
    ]
    return ", ".join(f"{what} {value}" for what, value in pairs) or "all traces"
