"""Monitors over HTTP."""

from typing import Annotated

from fastapi import Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from collector.access.permission import Permission, needs
from collector.api.base.json_encoding import json_response
from collector.api.base.pages import MAX_PAGE
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.documents.monitor_documents import monitor_document
from collector.api.responses.alerting import StreamPage
from collector.api.responses.declaration import response_model

router = api_router(prefix="/api/v1/monitors")


class StreamQuery(BaseModel):
    """Filter and page of the list of result streams. `rule` is an id or a name."""

    model_config = ConfigDict(extra="forbid")

    project: str | None = None
    rule: str | None = None
    page: int = Field(default=0, ge=0, le=MAX_PAGE)
    size: int = Field(default=50, ge=1, le=200)


@router.get("")
@needs(Permission.READ, by_tenant=True)
@response_model(StreamPage)
def list_monitors(context: ContextDep, caller: CallerDep, query: Annotated[StreamQuery, Query()]) -> Response:
    """List streams of results by project and rule, with the state of their monitors."""
    rows = context.store.monitors.page(
        project=query.project,
        rule=query.rule,
        tenant=caller.visible_tenant,
        offset=query.page * query.size,
        limit=query.size + 1,
    )
    documents: list[object] = [monitor_document(row, context.rules.revision) for row in rows[: query.size]]
    return json_response(StreamPage.page([*documents, *rows[query.size :]], query.page, query.size))
