"""Queues and their entries as the JSON documents that the API shows."""

import json

from collector.access.caller import Caller
from collector.access.permission import Permission
from collector.api.answers.reviewing import (
    ReviewedContent,
    ReviewedResult,
    ReviewEntryDetail,
    ReviewEntryDocument,
    ReviewQueueDocument,
)
from collector.api.base.context import Context
from collector.api.review.annotations import annotation_document
from collector.api.review.review_content import is_hidden, opinions_shown, reviewed
from storage.review.review_queues import ReviewEntry, ReviewQueue


def queue_document(queue: ReviewQueue, who: Caller) -> ReviewQueueDocument:
    """Describe a queue. What feeds a blind one tells what judges said, so only those who may read that see it."""
    may_know = not queue.blind or who.may(Permission.READ)
    return ReviewQueueDocument.of(queue, feeds=json.loads(queue.feeds) if may_know else None)


def entry_document(queue: ReviewQueue, entry: ReviewEntry) -> ReviewEntryDocument:
    """Describe an entry as the caller may see it."""
    return ReviewEntryDocument.of(entry, **_hidden(queue, entry))


def _hidden(queue: ReviewQueue, entry: ReviewEntry) -> dict[str, object]:
    hidden = is_hidden(queue, entry)
    return {"hidden": hidden, **(dict.fromkeys(("reason", "rule_id", "probability", "added_by")) if hidden else {})}


def entry_detail(here: Context, queue: ReviewQueue, entry: ReviewEntry) -> ReviewEntryDetail:
    """Describe an entry with its content, and what others said if the caller may know.

    Raises:
        Missing: what it is about has gone meanwhile.
    """
    opinions = opinions_shown(here, queue, entry)
    return ReviewEntryDetail.of(
        entry,
        content=ReviewedContent.of(reviewed(here, entry)),
        results=None if opinions is None else list(map(ReviewedResult.of, opinions.results)),
        votes=None if opinions is None else list(map(annotation_document, opinions.votes)),
        **_hidden(queue, entry),
    )
