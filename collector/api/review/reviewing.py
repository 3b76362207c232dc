"""Reviewing over HTTP: get the next entry, vote on it, skip it, undo."""

from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import Depends
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, Strict

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.answers.declared import answers
from collector.api.answers.reviewing import NextReview, ReviewEntryDetail
from collector.api.answers.wire import time_of_us
from collector.api.base.context import Context
from collector.api.base.exact_json import body_of, exactly
from collector.api.base.numbers import Number
from collector.api.base.routing import Here, Who, api_router
from collector.api.base.written import encoded
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
    """A vote: a label, a score, or a text in the note, as the queue defines; and the right answer."""

    model_config = ConfigDict(extra="forbid")

    label: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    score: Annotated[Number, Strict()] | None = None
    note: Note | None = None
    overriddenExpectedOutput: Any = None


Voted = Annotated[VoteBody, Depends(exactly(VoteBody))]


@router.post(_NEXT)
@needs(Permission.REVIEW, by_tenant=True)
@answers(NextReview)
def take_next(queue: Voting, here: Here, who: Who, by: By = None) -> Response:
    """Lease an entry with room that the reviewer has not voted on.

    Before a vote, a repeated request returns the same entry with a new lease.
    """
    turn = turn_of(here, who, by)
    entry_id = here.store.review_turns.next(queue, turn)
    if entry_id is None:
        return encoded(NextReview(entry=None, leased_until=None))
    entry = entry_detail(here, queue, entry_in(here, queue, entry_id, turn.author))
    return encoded(NextReview(entry=entry, leased_until=time_of_us(turn.now_us + turn.lease_us)))


@router.put(
    _ENTRY + "/vote",
    openapi_extra=body_of(VoteBody),
    responses={409: {"description": "The entry has enough votes, or enough reviewers are at it."}},
)
@needs(Permission.REVIEW, by_tenant=True)
@answers(ReviewEntryDetail)
def vote(queue: Voting, entry_id: EntryId, body: Voted, here: Here, who: Who, by: By = None) -> Response:
    """Vote on an entry. The vote is stored before the response, which has what the reviewer may see from then on."""
    turn = turn_of(here, who, by)
    cast_vote(here, queue, entry_id, body, turn, goes_on=False)
    return encoded(entry_detail(here, queue, entry_in(here, queue, entry_id, turn.author)))


@router.delete(_ENTRY + "/vote", status_code=HTTPStatus.NO_CONTENT)
@needs(Permission.REVIEW, by_tenant=True)
def undo(queue: Voting, entry_id: EntryId, here: Here, who: Who, by: By = None) -> Response:
    """Withdraw the reviewer's vote or skip, and lease the entry again if it has room."""
    take_back(here, queue, entry_id, turn_of(here, who, by))
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.post(
    _ENTRY + "/skip",
    status_code=HTTPStatus.NO_CONTENT,
    responses={409: {"description": "The reviewer voted on the entry."}},
)
@needs(Permission.REVIEW, by_tenant=True)
def skip(queue: Voting, entry_id: EntryId, here: Here, who: Who, by: By = None) -> Response:
    """Skip an entry: the reviewer does not get it again."""
    here.store.review_turns.skip(queue, entry_id, turn_of(here, who, by), goes_on=False)
    return Response(status_code=HTTPStatus.NO_CONTENT)


def turn_of(here: Context, who: Caller, by: str | None) -> ReviewTurn:
    """Return the turn of the caller: author, time and lease."""
    lease_us = int(here.settings.review_lease_seconds * 1_000_000)
    return ReviewTurn(author=author_of(who, by), now_us=here.now_ns() // 1000, lease_us=lease_us)


def cast_vote(
    here: Context, queue: ReviewQueue, entry_id: str, body: VoteBody, turn: ReviewTurn, *, goes_on: bool
) -> str | None:
    """Store a vote; with `goes_on` return the id of the next entry.

    Raises:
        BadQuery: the vote does not answer the queue's question, or the correction cannot be stored.
        Conflict: enough others voted on the entry, or are reviewing it.
        Missing: the queue has no such entry.
    """
    _check_answer(queue, body)
    vote = NewAnnotation(
        about=entry_in(here, queue, entry_id, turn.author).about,
        name=queue.question,
        label=body.label,
        score=body.score,
        note=here.redacted(body.note),
        expected=expected_text(here, body.overriddenExpectedOutput),
        source="person",
        author=turn.author,
    )
    return here.store.review_turns.vote(queue, entry_id, vote, turn, goes_on=goes_on)


def _check_answer(queue: ReviewQueue, body: VoteBody) -> None:
    is_score, is_text = queue.answer == "score", queue.answer == "text"
    if queue.answer == "label" and body.label not in queue.labels:
        raise BadQuery(f"label: one of {', '.join(queue.labels)}")
    if queue.answer != "label" and body.label is not None:
        raise BadQuery(f"label: this queue is answered with a {queue.answer}")
    if is_score is (body.score is None):
        raise BadQuery(f"score: {'must be given' if is_score else 'this queue is answered without one'}")
    if is_score and not (queue.low or 0) <= (body.score or 0) <= (1 if queue.high is None else queue.high):
        raise BadQuery(f"score: from {queue.low:g} to {queue.high:g}")
    if is_text and not (body.note or "").strip():
        raise BadQuery("note: must be given, the text is the answer")


def take_back(here: Context, queue: ReviewQueue, entry_id: str, turn: ReviewTurn) -> None:
    """Withdraw a vote, or the skipping of an entry.

    Raises:
        Missing: the queue has no such entry.
    """
    about = entry_in(here, queue, entry_id, turn.author).about
    sources: tuple[Source, ...] = ("person", "adjudicator")
    withdrawn = [
        NewAnnotation(about=about, name=queue.question, source=each, author=turn.author, withdrawn=True)
        for each in sources
    ]
    here.store.review_turns.undo(queue, entry_id, withdrawn, turn)
