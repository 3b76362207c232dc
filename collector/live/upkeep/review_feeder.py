"""The thread that adds results of rules to review queues."""

import json
import logging
import time
from collections.abc import Callable
from typing import Final

from collector.follower import FollowerThread
from storage.review.review_feeding import Feed, ReviewFeeding
from storage.review.review_queues import ReviewQueue, ReviewQueues

log = logging.getLogger(__name__)

_PAUSE_S: Final = 5.0
"""Pause between two checks. A guess: reviewers do not wait for the latest results."""

_SHARE: Final = 20
"""Pause as a multiple of the duration of the previous check, so that checks take a twentieth of the time."""


class ReviewFeeder:
    """Thread that fills queues from their feeds after new results or votes."""

    def __init__(
        self,
        queues: ReviewQueues,
        feeding: ReviewFeeding,
        *,
        ingest_is_behind: Callable[[], bool] = lambda: False,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._queues = queues
        self._feeding = feeding
        self._ingest_is_behind = ingest_is_behind
        self._clock = clock
        self._seen: object = None
        self._writes = -1
        self._thread = FollowerThread(
            self._look_on,
            name="review-feeder",
            doing="filling review queues",
            log=log,
            pause_s=_PAUSE_S,
            waits_first=True,
        )

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._thread.close()

    def look_now(self) -> int:
        """Fill all queues, unless nothing has changed since the last call; return the number of added entries.

        Raises:
            Overloaded: some queues may have been filled.
        """
        writes = self._feeding.writes()  # before anything is read
        if writes == self._writes:
            return 0
        now_us = self._clock() // 1000
        queues = [each for each in self._queues.find(None, now_us=now_us) if each.feeds != "[]"]
        state = (self._feeding.state(), [(each.queue_id, each.version, each.entries) for each in queues])
        added = 0
        if queues and state != self._seen:
            added = sum(self._feeding.fill(each, feeds_of(each), now_us=now_us) for each in queues)
            self._seen = state
        self._writes = writes
        return added

    def _look_on(self) -> None:
        if self._ingest_is_behind():
            return
        began_s = time.monotonic()
        self.look_now()
        self._thread.stopping.wait(max(0.0, _SHARE * (time.monotonic() - began_s) - _PAUSE_S))


def feeds_of(queue: ReviewQueue) -> list[Feed]:
    """Return the feeds of a queue."""
    return [
        Feed(
            rule_id=each["ruleId"],
            policy=each["policy"],
            share=each["share"],
            margin=each["margin"],
            against=each["againstRuleId"],
        )
        for each in json.loads(queue.feeds)
    ]
