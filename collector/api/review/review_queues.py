"""Review queues over HTTP: their questions, entries and progress."""

import json
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import Depends, Path, Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, Strict, model_validator

from collector.access.permission import Permission, needs
from collector.api.base.context import Context
from collector.api.base.exact_json import HexSpan, HexTrace, body_of, json_body
from collector.api.base.json_encoding import json_response
from collector.api.base.numbers import Amount, Number
from collector.api.base.pages import At
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.kernel import Creation, Operation, Resource, router_of
from collector.api.responses.declaration import response_model
from collector.api.responses.reviewing import (
    AddedEntries,
    ReviewEntryDetail,
    ReviewEntryPage,
    ReviewerDocument,
    ReviewProgress,
    ReviewQueueDocument,
)
from collector.api.review.annotations import (
    VERDICT,
    By,
    ItemNumber,
    Name,
    author_of,
    item_target,
    own_target,
)
from collector.api.review.review_documents import entry_detail, entry_document, queue_document
from collector.live.upkeep.review_feeder import feeds_of
from storage.errors import BadQuery, NotFound
from storage.offline.runs import Run
from storage.review.annotations import AnnotationTarget
from storage.review.review_feeding import FeedPolicy
from storage.review.review_queues import MOST_ENTRIES, Answer, NewEntry, QueueText, ReviewEntry, ReviewQueue

_ONE: Final = "/{queue_id}"
_ENTRY: Final = "/{queue_id}/entries/{entry_id}"
_MOST_TARGETS: Final = 200
"""Maximum number of entries in a request; each is looked up. A guess."""

MOST_FEEDS: Final = 20

MOST_LABELS: Final = 9
"""Most labels of a queue: each has one of the nine digit keys."""

Label = Annotated[str, Field(min_length=1, max_length=100, pattern=r"\S")]
EntryId = Annotated[str, Path(max_length=100)]


class FeedBody(BaseModel):
    """Selection of a rule's results that become entries."""

    model_config = ConfigDict(extra="forbid")

    ruleId: Annotated[str, Field(min_length=1, max_length=100)]
    policy: FeedPolicy
    share: Annotated[float, Field(gt=0, le=1)] = Field(
        default=1, description="The proportion of matching results that are sampled."
    )
    margin: Amount = Field(default=0.1, description="For `uncertainty`: the largest distance from the threshold.")
    againstRuleId: Annotated[str, Field(min_length=1, max_length=100)] | None = Field(
        default=None, description="For `disagreement`: the rule to compare with."
    )


class QueueBody(BaseModel):
    """A review queue: its question, and the reviewers per entry."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    question: Name = Field(default=VERDICT, description="The `name` of the annotations that answer it.")
    instructions: Annotated[str, Field(max_length=10_000)] = ""
    answer: Answer = Field(
        default="label", description="The kind of a vote: a label, a score from low to high, or a text."
    )
    low: Annotated[Number, Strict(), Field(description="The lowest value of a score.")] = 0
    high: Annotated[Number, Strict(), Field(description="The highest value of a score.")] = 1
    labels: Annotated[list[Label], Field(min_length=2, max_length=MOST_LABELS)] = ["CORRECT", "INCORRECT", "UNSURE"]
    reviewers: Annotated[int, Strict(), Field(ge=1, le=100)] = Field(
        default=1, description="Number of reviewers for each entry."
    )
    blind: Annotated[bool, Strict()] = Field(
        default=True, description="Hide votes of others, results and reasons from reviewers who have not voted."
    )

    feeds: Annotated[list[FeedBody], Field(max_length=MOST_FEEDS)] = []

    @model_validator(mode="after")
    def _distinct(self) -> "QueueBody":
        if len(set(self.labels)) < len(self.labels):
            raise ValueError("labels must be distinct")
        if self.low >= self.high:
            raise ValueError("low must be below high")
        if self.answer != "label" and self.question == VERDICT:
            raise ValueError("verdicts are labels: name another question for scores or texts")
        return self

    def text(self) -> QueueText:
        """Return the queue as it is stored."""
        return QueueText(
            name=self.name,
            question=self.question,
            instructions=self.instructions,
            answer=self.answer,
            low=self.low if self.answer == "score" else None,
            high=self.high if self.answer == "score" else None,
            labels=self.labels,
            reviewers=self.reviewers,
            blind=self.blind,
            feeds=json.dumps([each.model_dump() for each in self.feeds]),
        )


class TargetBody(BaseModel):
    """A trace, a span of it, or an item of a run."""

    model_config = ConfigDict(extra="forbid")

    traceId: HexTrace | None = None
    spanId: HexSpan | None = None
    itemResultId: ItemNumber | None = None

    @model_validator(mode="after")
    def _one(self) -> "TargetBody":
        if (self.traceId is None) is (self.itemResultId is None) or (self.spanId and not self.traceId):
            raise ValueError("name one target: a traceId (with or without spanId), or an itemResultId")
        return self


class EntriesBody(BaseModel):
    """Entries to add: named targets, or the items of a run, or a random share of these."""

    model_config = ConfigDict(extra="forbid")

    targets: Annotated[list[TargetBody], Field(max_length=_MOST_TARGETS)] = []
    runId: Annotated[str, Field(max_length=100)] | None = None
    share: Annotated[float, Field(gt=0, le=1)] = Field(
        default=1, description="The proportion of the run's items to add."
    )

    @model_validator(mode="after")
    def _something(self) -> "EntriesBody":
        if bool(self.targets) is (self.runId is not None):
            raise ValueError("send targets or a runId")
        return self


class EntryFilters(BaseModel):
    """Filter of the entry list."""

    done: bool | None = Field(default=None, description="True: only entries with enough votes; false: the others.")
    by: str | None = Field(default=None, min_length=1, max_length=200)


def _create(context: Context, queue_id: str, body: QueueBody, new: Creation) -> None:
    check_feeds(context, new["tenant"], body)
    context.store.review_queues.create(queue_id, body.text(), **new)


def _replace(context: Context, queue: ReviewQueue, body: QueueBody) -> None:
    check_feeds(context, queue.tenant, body)
    context.store.review_queues.replace(queue, body.text(), now_us=context.now_ns() // 1000)


QUEUES: Final = Resource[ReviewQueue, QueueBody](
    module=__name__,
    path="/api/v1/review-queues",
    kind="review queue",
    key="queue_id",
    body=Annotated[QueueBody, Depends(json_body(QueueBody))],
    body_schema=body_of(QueueBody),
    document=ReviewQueueDocument,
    read=Permission.SEE_QUEUES,
    find=lambda here, tenant, queue_id: here.store.review_queues.find(tenant, queue_id, now_us=here.now_ns() // 1000),
    create=_create,
    replace=_replace,
    delete=lambda here, queue: here.store.review_queues.delete(queue),
    show=queue_document,
    listing=Operation("list_queues", "List review queues by name, with their progress."),
    creating=Operation("create_queue", "Create a review queue; 409 if the name is taken."),
    showing=Operation("show_queue", "Return a review queue."),
    replacing=Operation(
        "replace_queue",
        "Replace a queue; its entries stay. Votes count for the question that they answered.",
    ),
    deleting=Operation("delete_queue", "Delete a review queue with its entries; votes stay."),
)

router = router_of(QUEUES)

_UNCOUNTED: Final = replace(
    QUEUES,
    find=lambda here, tenant, queue_id: here.store.review_queues.find(
        tenant, queue_id, now_us=here.now_ns() // 1000, counted=False
    ),
)
Seen = Annotated[ReviewQueue, Depends(QUEUES.seen)]
Own = Annotated[ReviewQueue, Depends(QUEUES.own)]
Voting = Annotated[ReviewQueue, Depends(_UNCOUNTED.own)]
"""A queue in which the caller may vote, without its progress: a vote does not wait for the count."""

Added = Annotated[EntriesBody, Depends(json_body(EntriesBody))]


@router.get(_ONE + "/progress")
@needs(Permission.SEE_QUEUES, by_tenant=True)
@response_model(ReviewProgress)
def show_progress(queue: Seen, context: ContextDep) -> Response:
    """Return the progress of the queue, and the activity of each reviewer."""
    people = context.store.review_queues.progress(queue, now_us=context.now_ns() // 1000)
    return json_response(ReviewProgress.of(queue, reviewers=list(map(ReviewerDocument.of, people))))


@router.get(_ONE + "/entries")
@needs(Permission.SEE_QUEUES, by_tenant=True)
@response_model(ReviewEntryPage)
def list_entries(
    queue: Seen, context: ContextDep, caller: CallerDep, at: At, filters: Annotated[EntryFilters, Query()]
) -> Response:
    """List entries in the order added."""
    author, now_us = author_of(caller, filters.by), context.now_ns() // 1000
    rows = context.store.review_queues.entries(
        queue, author=author, done=filters.done, now_us=now_us, most=at.size + 1, skip=at.page * at.size
    )
    return json_response(ReviewEntryPage.page([entry_document(queue, each) for each in rows], at.page, at.size))


@router.post(
    _ONE + "/entries",
    status_code=HTTPStatus.CREATED,
    openapi_extra=body_of(EntriesBody),
)
@needs(Permission.WRITE, by_tenant=True)
@response_model(AddedEntries)
def add_entries(queue: Own, body: Added, context: ContextDep, caller: CallerDep) -> dict[str, object]:
    """Add the named targets, or the items of a run; those that are already in the queue are not added again."""
    entries = (
        [NewEntry(about=queue_target(context, queue, each), reason="hand") for each in body.targets]
        if body.runId is None
        else entries_of_run(context, queue, body.runId, body.share)
    )
    now_us = context.now_ns() // 1000
    return {"added": context.store.review_queues.add(queue, entries, by=caller.key_name, now_us=now_us)}


@router.get(_ENTRY)
@needs(Permission.SEE_QUEUES, by_tenant=True)
@response_model(ReviewEntryDetail)
def show_entry(queue: Seen, entry_id: EntryId, context: ContextDep, caller: CallerDep, by: By = None) -> Response:
    """Return an entry with its content, and opinions of others if the caller may see them."""
    return json_response(entry_detail(context, queue, entry_in(context, queue, entry_id, author_of(caller, by))))


@router.delete(_ENTRY, status_code=HTTPStatus.NO_CONTENT)
@needs(Permission.WRITE, by_tenant=True)
def remove_entry(queue: Own, entry_id: EntryId, context: ContextDep) -> Response:
    """Remove an entry from the queue; votes stay."""
    context.store.review_queues.remove(queue, entry_id)
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.post(_ONE + "/fill")
@needs(Permission.WRITE, by_tenant=True)
@response_model(AddedEntries)
def fill(queue: Own, context: ContextDep) -> dict[str, object]:
    """Fill a queue from its feeds now; the server does so every few seconds."""
    return {"added": context.store.review_feeding.fill(queue, feeds_of(queue), now_us=context.now_ns() // 1000)}


def entry_in(context: Context, queue: ReviewQueue, entry_id: str, author: str) -> ReviewEntry:
    """Return an entry of a queue, as this author sees it.

    Raises:
        NotFound: the queue has no such entry.
    """
    entry = context.store.review_queues.entry(queue, entry_id, author=author, now_us=context.now_ns() // 1000)
    if entry is None:
        raise NotFound("this queue has no such entry; its target may have expired")
    return entry


def check_feeds(context: Context, tenant: str, body: QueueBody) -> None:
    """Refuse feeds from rules that the tenant does not see.

    Raises:
        BadQuery: a rule does not exist for the tenant.
    """
    known = {kept.stored.rule_id for kept in context.rules.kept() if kept.stored.tenant in {tenant, ""}}
    for each in body.feeds:
        unknown = {each.ruleId, each.againstRuleId or each.ruleId} - known
        if unknown:
            raise BadQuery(f"feeds: there is no rule {min(unknown)}")


def queue_target(context: Context, queue: ReviewQueue, body: TargetBody) -> AnnotationTarget:
    """Return the named target, if it belongs to the queue's tenant."""
    if body.itemResultId is None:
        return own_target(context, queue.tenant, str(body.traceId), body.spanId)
    item = context.store.run_items.find(queue.tenant, int(body.itemResultId))
    run = None if item is None else _run(context, queue, item["run_id"])
    if run is None:
        raise NotFound(f"no item {body.itemResultId} of a run here")
    return item_target(context, run, int(body.itemResultId))


def entries_of_run(context: Context, queue: ReviewQueue, run_id: str, share: float) -> list[NewEntry]:
    """Return the items of a run as new entries, each with its sampling probability.

    Raises:
        NotFound: the queue's tenant has no such run.
    """
    run = _run(context, queue, run_id.lower())
    if run is None:
        raise NotFound(f"there is no run {run_id} here")
    items: list[Any] = context.store.run_items.keys(run.run_id, after=0, most=MOST_ENTRIES)
    return [
        NewEntry(
            about=AnnotationTarget(
                tenant=run.tenant, target="run_item", project=run.project, run_id=run.run_id, item_number=number
            ),
            reason="run",
            probability=share,
        )
        for number, *_ in items
    ]


def _run(context: Context, queue: ReviewQueue, run_id: str) -> Run | None:
    run = context.store.runs.find(queue.tenant, run_id)
    return run if run is not None and run.tenant == queue.tenant else None
