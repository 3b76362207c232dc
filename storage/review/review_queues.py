"""Review queues: their configuration, entries and progress."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeAlias

import duckdb
import pyarrow as pa

from storage import sql
from storage.errors import NotFound
from storage.review.annotations import AnnotationTarget
from storage.sql import dict_rows
from storage.versioned import Records, Then

Reason: TypeAlias = Literal["hand", "run", "failing", "disagreement", "uncertainty", "random"]
"""Why an entry is in its queue."""

Answer: TypeAlias = Literal["label", "score", "text"]
"""Kind of vote: one of the labels, a score from `low` to `high`, or a text."""

MOST_QUEUES: Final = 200
MOST_ENTRIES: Final = 10_000
"""Maximum number of queues of a tenant, and of entries of a queue. Guesses: more than people can review."""

_TARGETS: Final = pa.schema(
    [
        ("place", pa.int64()),
        ("target", pa.string()),
        ("project", pa.string()),
        ("trace_id", pa.string()),
        ("span_id", pa.string()),
        ("run_id", pa.string()),
        ("item_number", pa.int64()),
        ("reason", pa.string()),
        ("rule_id", pa.string()),
        ("probability", pa.float64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueText:
    """Configuration of a queue. `feeds` is JSON."""

    name: str
    question: str
    instructions: str
    answer: Answer
    low: float | None
    high: float | None
    labels: Sequence[str]
    reviewers: int
    blind: bool
    feeds: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewQueue(QueueText):
    """A queue and its progress. An entry is done when `reviewers` people have voted on it."""

    tenant: str
    queue_id: str
    version: int
    created_by: str | None
    created_us: int
    updated_us: int
    entries: int
    done: int
    votes: int
    leased: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewEntry:
    """An entry to review, with the reason for it, and the probability with which it was drawn, if known."""

    tenant: str
    queue_id: str
    entry_id: str
    number: int
    target: Literal["trace", "span", "run_item"]
    project: str | None
    trace_id: str | None
    span_id: str | None
    run_id: str | None
    item_number: int | None
    reason: Reason
    rule_id: str | None
    probability: float | None
    added_by: str | None
    added_us: int
    votes: int
    leases: int
    is_mine: bool  # the caller has voted on it

    @property
    def about(self) -> AnnotationTarget:
        """Return the target of the entry's votes."""
        return AnnotationTarget(
            tenant=self.tenant,
            target=self.target,
            project=self.project,
            trace_id=self.trace_id,
            span_id=self.span_id,
            run_id=self.run_id,
            item_number=self.item_number,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEntry:
    """An entry to add. If it has a probability, it is added with this probability; repeated calls decide equally."""

    about: AnnotationTarget
    reason: Reason
    rule_id: str | None = None
    probability: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewerProgress:
    """Progress of one person in a queue."""

    author: str
    votes: int
    skipped: int
    leased: int


class ReviewQueues(Records[QueueText, ReviewQueue]):
    """The queues of a store. Deleting a queue deletes its entries; votes stay."""

    table, key, kind, most = "review_queue", "queue_id", "review queue", MOST_QUEUES

    def find(
        self, tenant: str | None, queue_id: str | None = None, *, now_us: int, counted: bool = True
    ) -> list[ReviewQueue]:
        """Return the queues of a tenant plus shared ones (None: all) by name, or the one with an id.

        Without `counted`, votes are not counted, and `done` and `votes` are 0.
        """
        values = {"tenant": tenant, "queue_id": queue_id, "now_us": now_us, "counted": counted}
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("review_queues"), values)
            return [ReviewQueue(**row) for row in dict_rows(cursor)]

    def get(self, queue_id: str, *, tenant: str | None, now_us: int, counted: bool = True) -> ReviewQueue | None:
        """Return a review queue; None if there is none."""
        return next(iter(self.find(tenant, queue_id, now_us=now_us, counted=counted)), None)

    def _cascade(self, queue: ReviewQueue) -> Then:
        of_it = {"queue_id": queue.queue_id}

        def delete_entries(cursor: duckdb.DuckDBPyConnection) -> None:
            cursor.execute(sql.query("delete_review_entries"), of_it | {"entry_id": None})
            cursor.execute(sql.query("delete_review_turns"), of_it)

        return delete_entries

    def add(self, queue: ReviewQueue, entries: Sequence[NewEntry], *, by: str | None, now_us: int) -> int:
        """Add new entries, as far as there is room; return their number.

        Raises:
            Overloaded: nothing was stored.
        """
        return self._add(queue, _table(entries), by, now_us)

    def add_drawn(self, queue: ReviewQueue, drawn: pa.Table, *, now_us: int) -> int:
        """Add drawn results, in the columns of entries, as far as there is room; return their number.

        Raises:
            Overloaded: nothing was stored.
        """
        return self._add(queue, drawn, None, now_us)

    def _add(self, queue: ReviewQueue, table: pa.Table, by: str | None, now_us: int) -> int:
        added: list[object] = []

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            cursor.register("review_targets", table)
            parameters = {"tenant": queue.tenant, "queue_id": queue.queue_id, "added_by": by, "now_us": now_us}
            statement = sql.query("insert_review_entries")
            added[:] = cursor.execute(statement, parameters | {"most": MOST_ENTRIES}).fetchall()

        self._writer.store(write, table.num_rows)
        return len(added)

    def remove(self, queue: ReviewQueue, entry_id: str) -> None:
        """Remove an entry from a queue; votes stay.

        Raises:
            NotFound: the queue has no such entry.
            Overloaded: nothing was stored.
        """
        gone: list[object] = []
        of_it = {"queue_id": queue.queue_id}

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            statement = sql.query("delete_review_entries")
            gone[:] = cursor.execute(statement, of_it | {"entry_id": entry_id}).fetchall()
            cursor.execute(sql.query("delete_review_turns"), of_it)

        self._writer.store(write, 1)
        if not gone:
            raise NotFound("this queue has no such entry")

    def entries(
        self, queue: ReviewQueue, *, author: str, done: bool | None, now_us: int, most: int, skip: int = 0
    ) -> list[ReviewEntry]:
        """Return entries in the order of addition; `done` selects done or open ones, None both."""
        return self._entries(queue, author=author, done=done, now_us=now_us, rows=most, skip=skip)

    def entry(self, queue: ReviewQueue, entry_id: str, *, author: str, now_us: int) -> ReviewEntry | None:
        """Return an entry as a reviewer sees it, or None."""
        entries = self._entries(queue, author=author, entry_id=entry_id, now_us=now_us)
        return entries[0] if entries else None

    def progress(self, queue: ReviewQueue, *, now_us: int) -> list[ReviewerProgress]:
        """Return the progress of up to a thousand people, by name."""
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("review_progress"), {"queue_id": queue.queue_id, "now_us": now_us})
            return [ReviewerProgress(**row) for row in dict_rows(cursor)]

    def _entries(self, queue: ReviewQueue, **filters: Any) -> list[ReviewEntry]:
        values = {"entry_id": None, "done": None, "rows": 1, "skip": 0} | filters
        values |= {"queue_id": queue.queue_id, "reviewers": queue.reviewers}
        with self._database.cursor() as cursor:
            cursor.execute(sql.query("review_entries"), values)
            return [ReviewEntry(**row) for row in dict_rows(cursor)]


def _table(entries: Sequence[NewEntry]) -> pa.Table:
    rows = [
        {
            "place": place,
            **asdict(each.about),
            "reason": each.reason,
            "rule_id": each.rule_id,
            "probability": each.probability,
        }
        for place, each in enumerate(entries)
    ]
    return pa.Table.from_pylist(rows, schema=_TARGETS)
