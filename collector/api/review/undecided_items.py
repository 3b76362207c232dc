"""Items of runs without a decision by people, over HTTP."""

from typing import Annotated, Literal

from fastapi import Query
from fastapi.responses import Response
from pydantic import BaseModel, Field

from collector.access.permission import Permission, needs
from collector.api.base.json_encoding import json_response
from collector.api.base.pages import MAX_PAGE
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.responses.declaration import response_model
from collector.api.responses.offline import UndecidedItem, UndecidedItemPage
from storage.offline.run_items import UndecidedCriteria

router = api_router(prefix="/api/v1/review-queue")

_Name = Annotated[str, Field(min_length=1, max_length=200)]


class UndecidedFilters(BaseModel):
    """Filters of the list of undecided items."""

    projectName: _Name | None = None
    experimentId: _Name | None = None
    runId: _Name | None = None
    outcome: Literal["not_passed", "passed", "unjudged", "not_evaluated", "error"] = "not_passed"
    page: int = Field(default=0, ge=0, le=MAX_PAGE)
    size: int = Field(default=50, ge=1, le=200)


@router.get("")
@needs(Permission.READ, by_tenant=True)
@response_model(UndecidedItemPage)
def list_undecided(context: ContextDep, caller: CallerDep, filters: Annotated[UndecidedFilters, Query()]) -> Response:
    """List items that did not pass and have no vote, or only unsure votes, in the latest 100 runs.

    The latest run comes first. `outcome` selects another outcome.
    """
    like = UndecidedCriteria(
        tenant=caller.visible_tenant,
        project=filters.projectName,
        experiment_id=filters.experimentId,
        run_id=filters.runId,
        outcome=filters.outcome,
    )
    page = context.store.run_items.undecided(like, skip=filters.page * filters.size, most=filters.size + 1)
    items = [UndecidedItem.of(item) for item in page]
    return json_response(UndecidedItemPage.page(items, filters.page, filters.size))
