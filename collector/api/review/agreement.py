"""Agreement of reviewers over HTTP."""

from collections.abc import Mapping
from typing import Annotated, Final

from fastapi import Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from collector.access.permission import Permission, needs
from collector.api.access.keys import TENANT_PATTERN
from collector.api.access.tenants import tenant_of
from collector.api.base.context import Context
from collector.api.base.json_encoding import json_response
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.responses.annotating import (
    AgreementDocument,
    DisagreedDocument,
    PairDocument,
)
from collector.api.responses.declaration import response_model
from collector.api.review.annotations import VERDICT
from rules.statistics.agreeing import Agreement, Disagreed, OneVote, agreement
from storage.errors import NotFound
from storage.review.labels import PersonVote, VotesOf

router = api_router(prefix="/api/v1/agreement")

_DAY_US: Final = 86_400_000_000
_MOST_PAIRS: Final = 100


class AgreementQuery(BaseModel):
    """Question of the votes, optionally restricted to a queue."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(default=VERDICT, min_length=1, max_length=200, description="The name of the question.")
    queue: str | None = Field(default=None, max_length=100, description="The id of a queue, whose question is used.")
    days: int | None = Field(default=None, ge=1, le=3_650, description="Only votes of so many days.")
    tenant: str | None = Field(default=None, pattern=TENANT_PATTERN, description="The tenant of the votes.")


@router.get("", responses={404: {"description": "No such queue."}})
@needs(Permission.READ, by_tenant=True)
@response_model(AgreementDocument)
def show_agreement(context: ContextDep, caller: CallerDep, query: Annotated[AgreementQuery, Query()]) -> Response:
    """Measure how far people agree beyond chance, in all, in pairs, by label and by month, and list disagreements."""
    tenant, name = tenant_of(caller, query.tenant), query.name
    if query.queue is not None:
        queue = context.store.review_queues.get(
            query.queue, tenant=caller.visible_tenant, now_us=context.now_ns() // 1000, counted=False
        )
        if queue is None:
            raise NotFound(f"there is no review queue {query.queue}")
        tenant, name = queue.tenant, queue.question
    from_us = None if query.days is None else context.now_ns() // 1000 - query.days * _DAY_US
    measured, votes = agreement_of(context, VotesOf(tenant=tenant, name=name, queue_id=query.queue, from_us=from_us))
    return json_response(_document(measured, votes, name=name, tenant=tenant))


def agreement_of(context: Context, selection: VotesOf) -> tuple[Agreement, dict[str, PersonVote]]:
    """Measure agreement; return it with the latest vote on each target, by the key of the target."""
    votes = context.store.labels.votes(selection)
    of = {each.target_key: each for each in votes}
    opinions = [
        OneVote(
            target=each.target_key,
            author=each.author,
            value=each.label if each.label is not None else float(each.score or 0),
            at_us=each.at_us,
        )
        for each in votes
    ]
    return agreement(opinions), of


def _document(measured: Agreement, of: Mapping[str, PersonVote], *, name: str, tenant: str) -> AgreementDocument:
    return AgreementDocument.of(
        measured,
        name=name,
        tenant=tenant,
        pairs=list(map(PairDocument.of, measured.pairs[:_MOST_PAIRS])),
        disagreed=[_disagreed(each, of[each.target]) for each in measured.disagreed],
    )


def _disagreed(item: Disagreed, about: PersonVote) -> DisagreedDocument:
    number = about.item_number
    return DisagreedDocument.of(about, item_result_id=None if number is None else str(number), votes=item.votes)
