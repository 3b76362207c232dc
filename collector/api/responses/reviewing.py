"""Review queues on the wire."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import to_builtins

from collector.api.responses.annotations import AnnotationDocument
from collector.api.responses.base import JsonObject
from collector.api.responses.traces import ToolCallDocument
from collector.api.responses.wire import From, PageAnswer, WireDocument, time_of_us
from storage.records import TraceToolCall


class ReviewQueueDocument(WireDocument):
    """A queue with its progress. If the queue is blind, `feeds` is null for keys that may only review."""

    id: Annotated[str, From("queue_id")]
    tenant: str
    name: str
    question: str
    instructions: str
    answer: Literal["label", "score", "text"]
    low: float | None
    high: float | None
    labels: list[str]
    reviewers: int
    blind: bool
    feeds: list[JsonObject] | None
    version: int
    entries: int
    done: int
    votes: int
    leased: int
    created_by: str | None
    created_at: Annotated[str, From("created_us", time_of_us)]
    updated_at: Annotated[str, From("updated_us", time_of_us)]


class ReviewEntryDocument(WireDocument):
    """An entry to review.

    `hidden`: `reason`, `ruleId`, `probability` and `addedBy` are null, since the queue is blind and the caller has not
    voted.
    """

    id: Annotated[str, From("entry_id")]
    queue_id: str
    tenant: str
    target: Literal["trace", "span", "run_item"]
    project_name: Annotated[str | None, From("project")]
    trace_id: str | None
    span_id: str | None
    run_id: str | None
    item_result_id: Annotated[str | None, From("item_number", str)]
    hidden: bool
    reason: Literal["hand", "run", "failing", "disagreement", "uncertainty", "random"] | None
    rule_id: str | None
    probability: float | None
    added_by: str | None
    added_at: Annotated[str, From("added_us", time_of_us)]
    vote_count: Annotated[int, From("votes")]
    leased: Annotated[int, From("leases")]
    voted: Annotated[bool, From("is_mine")]


class ReviewEntryPage(PageAnswer):
    """A page of entries."""

    content: list[ReviewEntryDocument]


def _calls(calls: Sequence[TraceToolCall]) -> list[JsonObject]:
    return [to_builtins(ToolCallDocument.of(each)) for each in calls]


class ReviewedContent(WireDocument):
    """Content to review: input, output, messages and tool calls."""

    input: Any
    output: Any
    expected: Any
    conversation: list[JsonObject]
    earlier_messages: Annotated[int, From("earlier")]
    tool_calls: Annotated[list[JsonObject], From("calls", _calls)]


class ReviewedResult(WireDocument):
    """Result of an evaluator on the content."""

    name: str
    outcome: str
    passed: bool | None
    score: float | None
    threshold: float | None
    reason: str | None


class ReviewEntryDetail(ReviewEntryDocument):
    """An entry with what there is to judge; `results` and `votes` are null while they are hidden."""

    content: ReviewedContent
    results: list[ReviewedResult] | None
    votes: list[AnnotationDocument] | None


class NextReview(WireDocument):
    """The next entry for the caller, and the end of its lease; null: there is none."""

    entry: ReviewEntryDetail | None
    leased_until: str | None


class AddedEntries(WireDocument):
    """Number of entries added, without those that were queued already or not sampled."""

    added: int


class ReviewerDocument(WireDocument):
    """Activity of a reviewer in a queue."""

    author: str
    votes: int
    skipped: int
    leased: int


class ReviewProgress(WireDocument):
    """Progress of a queue, and the activity of each reviewer, by name."""

    entries: int
    done: int
    votes: int
    leased: int
    reviewers: list[ReviewerDocument]
