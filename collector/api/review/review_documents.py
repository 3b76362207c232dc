"""Queues and their entries as the JSON documents that the API shows."""

import json

from msgspec import to_builtins

from collector.access.caller import Caller
from collector.access.permission import Permission
from collector.api.answers.traces import ToolCallDocument
from collector.api.base.context import Context
from collector.api.base.times import time_text
from collector.api.review.annotations import annotation_document
from collector.api.review.review_content import Reviewed, is_hidden, opinions_shown, reviewed
from storage.review.review_queues import ReviewEntry, ReviewerProgress, ReviewQueue


def queue_document(queue: ReviewQueue, who: Caller) -> dict[str, object]:
    """A queue. What feeds a blind one tells what judges said, so it is told to those who may read that anyway."""
    may_know = not queue.blind or who.may(Permission.READ)
    return {
        "id": queue.queue_id,
        "tenant": queue.tenant,
        "name": queue.name,
        "question": queue.question,
        "instructions": queue.instructions,
        "answer": queue.answer,
        "low": queue.low,
        "high": queue.high,
        "labels": list(queue.labels),
        "reviewers": queue.reviewers,
        "blind": queue.blind,
        "feeds": json.loads(queue.feeds) if may_know else None,
        "version": queue.version,
        "createdBy": queue.created_by,
        "createdAt": time_text(queue.created_us * 1_000),
        "updatedAt": time_text(queue.updated_us * 1_000),
        **_sums(queue),
    }


def progress_document(queue: ReviewQueue, people: list[ReviewerProgress]) -> dict[str, object]:
    """How far a queue is, and who did what."""
    return _sums(queue) | {
        "reviewers": [
            {"author": each.author, "votes": each.votes, "skipped": each.skipped, "leased": each.leased}
            for each in people
        ]
    }


def entry_document(queue: ReviewQueue, entry: ReviewEntry) -> dict[str, object]:
    """An entry as whoever asked for it may see it."""
    hidden = is_hidden(queue, entry)
    return {
        "id": entry.entry_id,
        "queueId": entry.queue_id,
        "tenant": entry.tenant,
        "target": entry.target,
        "projectName": entry.project,
        "traceId": entry.trace_id,
        "spanId": entry.span_id,
        "runId": entry.run_id,
        "itemResultId": None if entry.item_number is None else str(entry.item_number),
        "hidden": hidden,
        "reason": None if hidden else entry.reason,
        "ruleId": None if hidden else entry.rule_id,
        "probability": None if hidden else entry.probability,
        "addedBy": None if hidden else entry.added_by,
        "addedAt": time_text(entry.added_us * 1_000),
        "voteCount": entry.votes,
        "leased": entry.leases,
        "voted": entry.is_mine,
    }


def entry_detail(here: Context, queue: ReviewQueue, entry: ReviewEntry) -> dict[str, object]:
    """An entry with what there is to judge, and what others said if that may be known.

    Raises:
        Missing: what it is about has gone meanwhile.
    """
    told = opinions_shown(here, queue, entry)
    return entry_document(queue, entry) | {
        "content": _content(reviewed(here, entry)),
        "results": None
        if told is None
        else [
            {
                "name": each.name,
                "outcome": each.outcome,
                "passed": each.passed,
                "score": each.score,
                "threshold": each.threshold,
                "reason": each.reason,
            }
            for each in told.results
        ],
        "votes": None if told is None else [to_builtins(annotation_document(each)) for each in told.votes],
    }


def _content(found: Reviewed) -> dict[str, object]:
    return {
        "input": found.input,
        "output": found.output,
        "expected": found.expected,
        "conversation": list(found.conversation),
        "earlierMessages": found.earlier,
        "toolCalls": [to_builtins(ToolCallDocument.of(each)) for each in found.calls],
    }


def _sums(queue: ReviewQueue) -> dict[str, object]:
    return {"entries": queue.entries, "done": queue.done, "votes": queue.votes, "leased": queue.leased}
