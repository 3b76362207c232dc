"""Reviewing over HTTP: get the next entry, vote on it, skip it, undo."""

from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import Depends
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, Strict

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.base.context import Context
from collector.api.base.exact_json import body_of, json_body
from collector.api.base.json_encoding import json_response
from collector.api.base.numbers import Number
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.responses.declaration import response_model
from collector.api.responses.reviewing import NextReview, ReviewEntryDetail
from collector.api.responses.wire import time_of_us
from collector.api.review.annotations import By, Note, author_of, expected_text
from collector.api.review.review_documents import entry_detail
from collector.api.review.review_queues import EntryId, Voting, entry_in
from storage.errors import BadQuery
from storage.review.annotations import NewAnnotation, Source
from storage.review.review_queues import ReviewQueue
from storage.review.review_turns import ReviewTurn

router = api_router(prefix="/api/v1/review-queues")

_NEXT: Final = "/{queue_id}/next"
_ENTRY: Final = "/{queue_id}/entries/{entry_id}"


class VoteBody(BaseModel):
    """A vote: a label, a score, or a text in `note`, by the queue's `answer`; and optionally the correct output."""

    model_config = ConfigDict(extra="forbid")

    label: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    score: Annotated[Number, Strict()] | None = None
    note: Note | None = None
    overriddenExpectedOutput: Any = None


Voted = Annotated[VoteBody, Depends(json_body(VoteBody))]


@router.post(_NEXT)
@needs(Permission.REVIEW, by_tenant=True)
@response_model(NextReview)
def take_next(queue: Voting, context: ContextDep, caller: CallerDep, by: By = None) -> Response:
    """Lease an entry that needs more votes, and that the reviewer has neither voted on nor skipped.

    While the lease lasts, a repeated request returns the same entry with a new lease.
    """
    turn = turn_of(context, caller, by)
    entry_id = context.store.review_turns.next(queue, turn)
    if entry_id is None:
        return json_response(NextReview(entry=None, leased_until=None))
    entry = entry_detail(context, queue, entry_in(context, queue, entry_id, turn.author))
    return json_response(NextReview(entry=entry, leased_until=time_of_us(turn.now_us + turn.lease_us)))


@router.put(
    _ENTRY + "/vote",
    openapi_extra=body_of(VoteBody),
    responses={409: {"description": "Enough other reviewers voted on the entry or have leased it."}},
)
@needs(Permission.REVIEW, by_tenant=True)
@response_model(ReviewEntryDetail)
def vote(
    queue: Voting, entry_id: EntryId, body: Voted, context: ContextDep, caller: CallerDep, by: By = None
) -> Response:
    """Vote on an entry, and return it with what the reviewer may see after the vote, which is stored by then."""
    turn = turn_of(context, caller, by)
    cast_vote(context, queue, entry_id, body, turn, goes_on=False)
    return json_response(entry_detail(context, queue, entry_in(context, queue, entry_id, turn.author)))


@router.delete(_ENTRY + "/vote", status_code=HTTPStatus.NO_CONTENT)
@needs(Permission.REVIEW, by_tenant=True)
def undo(queue: Voting, entry_id: EntryId, context: ContextDep, caller: CallerDep, by: By = None) -> Response:
    """Withdraw the reviewer's vote or skip, and lease the entry again if it has room."""
    take_back(context, queue, entry_id, turn_of(context, caller, by))
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.post(
    _ENTRY + "/skip",
    status_code=HTTPStatus.NO_CONTENT,
    responses={409: {"description": "The reviewer voted on the entry."}},
)
@needs(Permission.REVIEW, by_tenant=True)
def skip(queue: Voting, entry_id: EntryId, context: ContextDep, caller: CallerDep, by: By = None) -> Response:
    """Skip an entry: the reviewer does not get it again."""
    context.store.review_turns.skip(queue, entry_id, turn_of(context, caller, by), goes_on=False)
    return Response(status_code=HTTPStatus.NO_CONTENT)


def turn_of(context: Context, caller: Caller, by: str | None) -> ReviewTurn:
    """Return the turn of the caller: author, time and lease."""
    lease_us = int(context.settings.review_lease_seconds * 1_000_000)
    return ReviewTurn(author=author_of(caller, by), now_us=context.now_ns() // 1000, lease_us=lease_us)


def cast_vote(
    context: Context, queue: ReviewQueue, entry_id: str, body: VoteBody, turn: ReviewTurn, *, goes_on: bool
) -> str | None:
    """Store a vote; with `goes_on` return the id of the next entry.

    Raises:
        BadQuery: the vote does not answer the queue's question, or the correction cannot be stored.
        Conflict: the author never leased the entry, and enough others have voted on it or lease it.
        NotFound: the queue has no such entry.
    """
    _check_answer(queue, body)
    vote = NewAnnotation(
        about=entry_in(context, queue, entry_id, turn.author).about,
        name=queue.question,
        label=body.label,
        score=body.score,
        note=context.redacted(body.note),
        expected=expected_text(context, body.overriddenExpectedOutput),
        source="person",
        author=turn.author,
    )
    return context.store.review_turns.vote(queue, entry_id, vote, turn, goes_on=goes_on)


def _check_answer(queue: ReviewQueue, body: VoteBody) -> None:
    is_score, is_text = queue.answer == "score", queue.answer == "text"
    if queue.answer == "label" and body.label not in queue.labels:
        raise BadQuery(f"label: one of {', '.join(queue.labels)}")
    if queue.answer != "label" and body.label is not None:
        raise BadQuery(f"label: not allowed; this queue takes a {queue.answer}")
    if is_score is (body.score is None):
        raise BadQuery(f"score: {'is required' if is_score else 'not allowed; this queue takes no scores'}")
    if is_score and not (queue.low or 0) <= (body.score or 0) <= (1 if queue.high is None else queue.high):
        raise BadQuery(f"score: from {queue.low:g} to {queue.high:g}")
    if is_text and not (body.note or "").strip():
        raise BadQuery("note: must be given, the text is the answer")


def take_back(context: Context, queue: ReviewQueue, entry_id: str, turn: ReviewTurn) -> None:
    """Withdraw a vote, or the skipping of an entry.

    Raises:
        NotFound: the queue has no such entry.
    """
    about = entry_in(context, queue, entry_id, turn.author).about
    sources: tuple[Source, ...] = ("person", "adjudicator")
    withdrawn = [
        NewAnnotation(about=about, name=queue.question, source=each, author=turn.author, withdrawn=True)
        for each in sources
    ]
    context.store.review_turns.undo(queue, entry_id, withdrawn, turn)
