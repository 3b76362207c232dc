"""Feeds of review queues: results of rules are selected by a policy, and drawn with a probability, as entries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.database import Database
from storage.engine.row_cache import RowCache
from storage.engine.table_writes import tables_read
from storage.review.review_queues import MOST_ENTRIES, ReviewQueue, ReviewQueues

FeedPolicy: TypeAlias = Literal["failing", "disagreement", "uncertainty", "random"]

_DAY_US: Final = 86_400_000_000
DAYS: Final = 30
"""Results older than this are not drawn any more. A guess: people review recent results."""


_TABLES: Final = tables_read(sql.query("review_queues")) | tables_read(sql.query("review_feed_state"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """Policy that selects results of a rule; each becomes an entry with probability `share`.

    `margin` is for `uncertainty`: the maximum distance of a score from the threshold. `against` is for `disagreement`:
    another rule whose verdicts on the same target are compared, besides the rule's other verdicts.

    """

    rule_id: str
    policy: FeedPolicy
    share: float
    margin: float
    against: str | None


class ReviewFeeding:
    """Drawing of entries from results. Safe to use from any thread but the writer's."""

    def __init__(self, database: Database, queues: ReviewQueues) -> None:
        self._database = database
        self._queues = queues
        self._state = RowCache(database, sql.query("review_feed_state"))

    def writes(self) -> int:
        """Return a number that changes once queues, results or votes may have changed."""
        return self._database.writes.count(_TABLES)

    def state(self) -> tuple[object, ...]:
        """Return a value that changes with results and votes."""
        return tuple(*self._state.rows())

    def fill(self, queue: ReviewQueue, feeds: Sequence[Feed], *, now_us: int) -> int:
        """Add the results that a queue's feeds draw; return their number. Repeated calls draw the same results.

        Raises:
            Overloaded: nothing was stored.
        """
        room = MOST_ENTRIES - queue.entries
        if not feeds or room <= 0:
            return 0
        parameters = {
            "tenant": queue.tenant,
            "queue_id": queue.queue_id,
            "question": queue.question,
            "from_us": now_us - DAYS * _DAY_US,
            "rule_ids": [each.rule_id for each in feeds],
            "policies": [each.policy for each in feeds],
            "shares": [each.share for each in feeds],
            "margins": [each.margin for each in feeds],
            "against": [each.against for each in feeds],
            "rows": room,
        }
        with self._database.cursor() as cursor:
            drawn = arrow_table(cursor, sql.query("draw_results"), parameters)
        return self._queues.add_drawn(queue, drawn, now_us=now_us) if drawn.num_rows else 0
