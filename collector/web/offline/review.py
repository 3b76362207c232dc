"""Reviewing in a browser: queues, and one entry after the other, by keyboard."""

import json
from typing import Annotated, Final

from fastapi import Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.base.context import Context
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.review.agreement import agreement_of
from collector.api.review.annotations import By
from collector.api.review.review_content import opinions_shown, reviewed
from collector.api.review.review_queues import MOST_LABELS, EntryId, Seen, Voting, entry_in
from collector.api.review.reviewing import VoteBody, cast_vote, take_back, turn_of
from collector.web.offline.review_queue_form import as_number
from collector.web.rendering import page, see_other
from collector.web.spans.conversation import conversation
from collector.web.visitor import FormDep, by_field, page_router, with_query
from rules.statistics.agreeing import Agreement
from storage.review.labels import VotesOf
from storage.review.review_queues import ReviewQueue

router = page_router()

_ONE: Final = "/review/{queue_id}"
_ENTRY: Final = "/review/{queue_id}/entries/{entry_id}"


class QueueLook(BaseModel):
    """Query parameters of a queue: the reviewer, whether all is done, and how many entries were just added."""

    model_config = ConfigDict(extra="ignore")

    by: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    through: Annotated[str, Field(max_length=10)] = ""
    added: Annotated[int, Field(ge=0)] | None = None


@router.get("/review")
@needs(Permission.SEE_QUEUES, by_tenant=True)
def list_queues(request: Request, context: ContextDep, caller: CallerDep) -> Response:
    """List review queues and their progress."""
    queues = context.store.review_queues.find(caller.visible_tenant, now_us=context.now_ns() // 1000)
    return page(
        request,
        "review_queues.html",
        queues=queues,
        may_edit=caller.may(Permission.WRITE),
    )


@router.get(_ONE)
@needs(Permission.SEE_QUEUES, by_tenant=True)
def show_queue(
    request: Request, queue: Seen, context: ContextDep, caller: CallerDep, query: Annotated[QueueLook, Query()]
) -> Response:
    """Show the progress of a queue, the votes of each reviewer, and where to begin."""
    return page(
        request,
        "review_queue.html",
        queue=queue,
        agreed=_agreed(context, caller, queue),
        people=context.store.review_queues.progress(queue, now_us=context.now_ns() // 1000),
        may_review=_may_review(caller, queue),
        may_edit=caller.may(Permission.WRITE) and caller.owns(queue.tenant),
        by=query.by,
        through=query.through,
        added=query.added,
    )


@router.get(_ENTRY)
@needs(Permission.SEE_QUEUES, by_tenant=True)
def show_entry(
    request: Request, queue: Seen, entry_id: EntryId, context: ContextDep, caller: CallerDep, by: By = None
) -> Response:
    """Show an entry: what to judge, the question, and its possible answers, each with its key."""
    turn = turn_of(context, caller, by)
    entry = entry_in(context, queue, entry_id, turn.author)
    content = reviewed(context, entry)
    return page(
        request,
        "review_entry.html",
        queue=queue,
        entry=entry,
        content=content,
        conversation=conversation(content.conversation),
        opinions=opinions_shown(context, queue, entry),
        may_review=_may_review(caller, queue),
        steps=_steps(queue),
        may_undo=context.store.review_turns.last(queue, turn.author) is not None,
        by=by,
    )


@router.post(_ONE + "/next")
@needs(Permission.REVIEW, by_tenant=True)
def take_next(queue: Voting, context: ContextDep, caller: CallerDep, form: FormDep) -> Response:
    """Take the next entry of the queue, and show it."""
    by = form.text("by") or None
    return _on(queue, context.store.review_turns.next(queue, turn_of(context, caller, by)), by)


@router.post(_ENTRY + "/vote")
@needs(Permission.REVIEW, by_tenant=True)
def vote(queue: Voting, entry_id: EntryId, context: ContextDep, caller: CallerDep, form: FormDep) -> Response:
    """Store a vote, and go on with the next entry."""
    by = form.text("by") or None
    sent = {
        "label": form.text("label") or None,
        "score": as_number(form.text("score").strip()),
        "note": form.text("note").strip() or None,
        "overriddenExpectedOutput": _typed(form.text("expected").strip()),
    }
    try:
        body = VoteBody.model_validate(sent)
    except ValidationError as error:
        raise HTTPException(400, "; ".join(f"{name}: {text}" for name, text in by_field(error).items())) from None
    return _on(queue, cast_vote(context, queue, entry_id, body, turn_of(context, caller, by), goes_on=True), by)


@router.post(_ENTRY + "/skip")
@needs(Permission.REVIEW, by_tenant=True)
def skip(queue: Voting, entry_id: EntryId, context: ContextDep, caller: CallerDep, form: FormDep) -> Response:
    """Leave an entry to others, and go on with the next one."""
    by = form.text("by") or None
    return _on(queue, context.store.review_turns.skip(queue, entry_id, turn_of(context, caller, by), goes_on=True), by)


@router.post(_ONE + "/undo")
@needs(Permission.REVIEW, by_tenant=True)
def undo(queue: Voting, context: ContextDep, caller: CallerDep, form: FormDep) -> Response:
    """Undo the reviewer's last vote, and show its entry again."""
    by = form.text("by") or None
    turn = turn_of(context, caller, by)
    entry_id = context.store.review_turns.last(queue, turn.author)
    if entry_id is None:
        raise HTTPException(409, "there is no vote to undo")
    take_back(context, queue, entry_id, turn)
    return _on(queue, entry_id, by)


def _on(queue: ReviewQueue, entry_id: str | None, by: str | None) -> Response:
    path = f"/review/{queue.queue_id}"
    if entry_id is None:
        return see_other(with_query(path, through="true", by=by))
    return see_other(with_query(f"{path}/entries/{entry_id}", by=by))


def _may_review(caller: Caller, queue: ReviewQueue) -> bool:
    return caller.may(Permission.REVIEW) and caller.owns(queue.tenant)


def _agreed(context: Context, caller: Caller, queue: ReviewQueue) -> Agreement | None:
    if queue.reviewers == 1 or not caller.may(Permission.READ):
        return None
    votes = VotesOf(tenant=queue.tenant, name=queue.question, queue_id=queue.queue_id, from_us=None)
    return agreement_of(context, votes)[0]


def _steps(queue: ReviewQueue) -> list[int]:
    """Return the scores that one key press gives: whole numbers, at most MOST_LABELS; none for the scale 0 to 1."""
    if queue.low is None or queue.high is None or queue.high - queue.low >= MOST_LABELS:
        return []
    if (queue.low, queue.high) == (0, 1) or queue.low % 1 or queue.high % 1:
        return []
    return list(range(int(queue.low), int(queue.high) + 1))


def _typed(text: str) -> object:
    try:
        return json.loads(text) if text.startswith("{") else text or None
    except ValueError:
        return text
