"""Saved views over HTTP: lists of traces that somebody named, so that others open them."""

import time
import uuid
from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl, urlencode

from fastapi import Depends, Path
from fastapi.responses import JSONResponse, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from collector.access.permission import Permission, needs
from collector.api.access.tenants import Tenant, refuse_shared, tenant_of
from collector.api.answers.declared import answers
from collector.api.answers.traces import SavedViewDocument
from collector.api.base.context import Context
from collector.api.base.pages import PARTED, Part
from collector.api.base.routing import Here, Who, api_router
from collector.api.base.times import time_text
from collector.api.base.versions import GUARDED, TAGGED, TAGGED_NEW, IfMatch, created, require_seen, shown
from collector.api.traces.list_filters import filter_of
from storage.errors import Missing
from storage.operation.saved_views import SavedView, SavedViewText

router = api_router(prefix="/api/v1/saved-views")

_ONE: Final = "/{view_id}"
_MOST_CHARACTERS: Final = 4_000
_MOST_PARAMETERS: Final = 60

PARAMETERS: Final = (
    *("text", "project", "status", "since", "service", "name", "failing", "rule", "verdict", "user", "session"),
    *("model", "release", "attribute", "duration", "cost", "from", "to", "sort", "columns", "density"),
)
"""What the address of a list of traces may say, in this order."""


def list_query(text: str) -> str:
    """The query of an address of the list, with what it says in one order and nothing that is empty.

    Raises:
        ValueError: it says what no list of traces can be asked.
    """
    try:
        pairs = parse_qsl(text.removeprefix("?"), strict_parsing=bool(text.strip("?")), max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise ValueError("is no query such as project=shop&status=error") from None
    unknown = sorted({name for name, _ in pairs} - set(PARAMETERS))
    if unknown:
        raise ValueError(f"no list of traces is asked for {unknown[0][:50]!r}")
    return urlencode(sorted((pair for pair in pairs if pair[1]), key=lambda pair: PARAMETERS.index(pair[0])))


def _shown_query(text: str) -> str:
    """Return the query of a list that the page shows: with filters that hold what they cannot it shows none.

    Raises:
        ValueError: it is no query, or a filter cannot hold its value.
    """
    query = list_query(text)
    problems = filter_of(dict(parse_qsl(query)), time.time_ns()).problems
    if problems:
        raise ValueError("; ".join(f"{name}: {message}" for name, message in problems.items()))
    return query


class SavedViewBody(BaseModel):
    """What a view is called, and what its list shows."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=100, pattern=r"\S")]
    query: Annotated[
        str,
        AfterValidator(_shown_query),
        Field(max_length=_MOST_CHARACTERS, description="Of the address of `/traces`: `project=shop&status=error`."),
    ] = ""

    def text(self) -> SavedViewText:
        """As it is stored."""
        return SavedViewText(name=self.name, query=self.query, project=dict(parse_qsl(self.query)).get("project"))


def view_seen(view_id: Annotated[str, Path(max_length=100)], here: Here, who: Who) -> SavedView:
    """The saved view that a path names.

    Raises:
        Missing: there is none.
    """
    found = here.saved_views.get(view_id, tenant=who.visible_tenant)
    if found is None:
        raise Missing(f"there is no saved view {view_id}")
    return found


SeenView = Annotated[SavedView, Depends(view_seen)]


def view_owned(view: SeenView, who: Who) -> SavedView:
    """A saved view that the caller may change."""
    refuse_shared(who, view.tenant, f"the saved view {view.name!r}")
    return view


OwnView = Annotated[SavedView, Depends(view_owned)]


@router.get("", responses=PARTED)
@needs(Permission.READ, by_tenant=True)
@answers(list[SavedViewDocument])
def list_saved_views(here: Here, who: Who, part: Part) -> list[dict[str, object]]:
    """All of them by name; a key with a tenant sees its own and those of none."""
    return [saved_view_document(view) for view in part.of(here.saved_views.all(tenant=who.visible_tenant))]


@router.post("", status_code=HTTPStatus.CREATED, responses=TAGGED_NEW)
@needs(Permission.WRITE, by_tenant=True)
@answers(SavedViewDocument)
def create_saved_view(body: SavedViewBody, here: Here, who: Who, tenant: Tenant = None) -> JSONResponse:
    """Save a view; 409 if there is one of that name."""
    view_id = uuid.uuid4().hex
    now_us = here.now_ns() // 1000
    here.saved_views.create(view_id, body.text(), tenant=tenant_of(who, tenant), by=who.key_name, now_us=now_us)
    return created(_again(here, view_id), 1, at=f"{router.prefix}/{view_id}")


@router.get(_ONE, responses=TAGGED)
@needs(Permission.READ, by_tenant=True)
@answers(SavedViewDocument)
def show_saved_view(view: SeenView) -> JSONResponse:
    """A saved view."""
    return shown(saved_view_document(view), view.version)


@router.put(_ONE, responses=TAGGED | GUARDED)
@needs(Permission.WRITE, by_tenant=True)
@answers(SavedViewDocument)
def replace_saved_view(view: OwnView, body: SavedViewBody, here: Here, if_match: IfMatch = "") -> JSONResponse:
    """Let it show something else under the same id, so that links to it lead there."""
    require_seen(view.version, if_match)
    here.saved_views.replace(view, body.text(), now_us=here.now_ns() // 1000)
    return shown(_again(here, view.view_id), view.version + 1)


@router.delete(_ONE, status_code=HTTPStatus.NO_CONTENT, responses=GUARDED)
@needs(Permission.WRITE, by_tenant=True)
def delete_saved_view(view: OwnView, here: Here, if_match: IfMatch = "") -> Response:
    """Delete it; links to it lead nowhere from then on."""
    require_seen(view.version, if_match)
    here.saved_views.delete(view)
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _again(here: Context, view_id: str) -> dict[str, Any]:
    found = here.saved_views.get(view_id)
    if found is None:
        raise Missing("the saved view was deleted meanwhile")
    return saved_view_document(found)


def saved_view_document(view: SavedView) -> dict[str, Any]:
    """A saved view."""
    return {
        "id": view.view_id,
        "tenant": view.tenant,
        "name": view.name,
        "projectName": view.project,
        "query": view.query,
        "path": f"/traces?view={view.view_id}",
        "version": view.version,
        "createdBy": view.created_by,
        "createdAt": time_text(view.created_us * 1_000),
        "updatedAt": time_text(view.updated_us * 1_000),
    }
