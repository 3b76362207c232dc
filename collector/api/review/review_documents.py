"""Review queues and their entries as the API's JSON documents."""

import json

from collector.access.caller import Caller
from collector.access.permission import Permission
from collector.api.base.context import Context
from collector.api.responses.reviewing import (
    ReviewedContent,
    ReviewedResult,
    ReviewEntryDetail,
    ReviewEntryDocument,
    ReviewQueueDocument,
)
from collector.api.review.annotations import annotation_document
from collector.api.review.review_content import is_hidden, opinions_shown, reviewed
from storage.review.review_queues import ReviewEntry, ReviewQueue


def queue_document(queue: ReviewQueue, caller: Caller) -> ReviewQueueDocument:
    """Describe a queue. The feeds of a blind queue reveal judges' results, so they need the permission to read."""
    may_know = not queue.blind or caller.may(Permission.READ)
    return ReviewQueueDocument.of(queue, feeds=json.loads(queue.feeds) if may_know else None)


def entry_document(queue: ReviewQueue, entry: ReviewEntry) -> ReviewEntryDocument:
    """Describe an entry as the caller may see it."""
    return ReviewEntryDocument.of(entry, **_hidden(queue, entry))


def _hidden(queue: ReviewQueue, entry: ReviewEntry) -> dict[str, object]:
    hidden = is_hidden(queue, entry)
    return {"hidden": hidden, **(dict.fromkeys(("reason", "rule_id", "probability", "added_by")) if hidden else {})}


def entry_detail(context: Context, queue: ReviewQueue, entry: ReviewEntry) -> ReviewEntryDetail:
    """Describe an entry with its content, and with opinions of others if the caller may see them.

    Raises:
        NotFound: the target was deleted meanwhile.
    """
    opinions = opinions_shown(context, queue, entry)
    return ReviewEntryDetail.of(
        entry,
        content=ReviewedContent.of(reviewed(context, entry)),
        results=None if opinions is None else list(map(ReviewedResult.of, opinions.results)),
        votes=None if opinions is None else list(map(annotation_document, opinions.votes)),
        **_hidden(queue, entry),
    )
