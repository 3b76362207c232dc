"""Saved views over HTTP: named settings of the list of traces, shared with others."""

import time
from typing import Annotated, Final
from urllib.parse import parse_qsl, urlencode

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from collector.api.base.times import time_text
from collector.api.kernel import Operation, Resource, router_of
from collector.api.responses.saved_views import SavedViewDocument
from collector.api.traces.list_filters import filter_of
from storage.operation.saved_views import SavedView, SavedViewText

_MOST_CHARACTERS: Final = 4_000
_MOST_PARAMETERS: Final = 60

PARAMETERS: Final = (
    *("text", "project", "status", "since", "service", "name", "failing", "rule", "verdict", "user", "session"),
    *("model", "release", "attribute", "duration", "cost", "from", "to", "sort", "columns", "density"),
)
"""Parameters of a list's URL, in this order."""


def list_query(text: str) -> str:
    """Return the query of a list's URL, sorted and without empty parameters.

    Raises:
        ValueError: the text is not a query, or has an unknown parameter.
    """
    try:
        pairs = parse_qsl(text.removeprefix("?"), strict_parsing=bool(text.strip("?")), max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise ValueError("is not a query such as project=shop&status=error") from None
    unknown = sorted({name for name, _ in pairs} - set(PARAMETERS))
    if unknown:
        raise ValueError(f"the list of traces has no parameter {unknown[0][:50]!r}")
    return urlencode(sorted((pair for pair in pairs if pair[1]), key=lambda pair: PARAMETERS.index(pair[0])))


def _shown_query(text: str) -> str:
    """Return the query of a list; refuse invalid filters, with which the page lists no traces."""
    query = list_query(text)
    problems = filter_of(dict(parse_qsl(query)), time.time_ns()).problems
    if problems:
        raise ValueError("; ".join(f"{name}: {message}" for name, message in problems.items()))
    return query


class SavedViewBody(BaseModel):
    """Name of a view, and the query of its list."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=100, pattern=r"\S")]
    query: Annotated[
        str,
        AfterValidator(_shown_query),
        Field(
            max_length=_MOST_CHARACTERS,
            description="The query string of the `/traces` page, such as `project=shop&status=error`.",
        ),
    ] = ""

    def text(self) -> SavedViewText:
        """Return the view as it is stored."""
        return SavedViewText(name=self.name, query=self.query, project=dict(parse_qsl(self.query)).get("project"))


SAVED_VIEWS: Final = Resource[SavedView, SavedViewBody](
    module=__name__,
    path="/api/v1/saved-views",
    kind="saved view",
    key="view_id",
    body=SavedViewBody,
    document=SavedViewDocument,
    find=lambda here, tenant, view_id: here.store.saved_views.find(tenant, view_id),
    create=lambda here, view_id, body, new: here.store.saved_views.create(view_id, body.text(), **new),
    replace=lambda here, view, body: here.store.saved_views.replace(view, body.text(), now_us=here.now_ns() // 1000),
    delete=lambda here, view: here.store.saved_views.delete(view),
    show=lambda view, _: SavedViewDocument.of(
        view,
        id=view.view_id,
        project_name=view.project,
        path=f"/traces?view={view.view_id}",
        created_at=time_text(view.created_us * 1_000),
        updated_at=time_text(view.updated_us * 1_000),
    ),
    listing=Operation(
        "list_saved_views", "List saved views by name; a key with a tenant sees its own and those of no tenant."
    ),
    creating=Operation("create_saved_view", "Create a saved view; 409 if the name is taken."),
    showing=Operation("show_saved_view", "Return a saved view."),
    replacing=Operation(
        "replace_saved_view", "Replace a saved view under the same id, so that links to it stay valid."
    ),
    deleting=Operation("delete_saved_view", "Delete a saved view; links to it no longer work."),
)

router = router_of(SAVED_VIEWS)
