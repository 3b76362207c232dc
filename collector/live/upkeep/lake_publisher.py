"""The thread that publishes committed rows in the lake."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from collector.follower import FollowerThread, IngestPriority, WaitLog
from collector.live.upkeep.lake_mover import LakeMover
from collector.settings import Settings
from storage.backoff import backoff_s
from storage.errors import Overloaded, Unpublished
from storage.lake.tables import LAKE_TABLES, LakeTable
from storage.store import Store

if TYPE_CHECKING:
    from storage.lake.publishing import Lake

log = logging.getLogger(__name__)

_FIRST_RETRY_S: Final = 1.0  # after a failure; doubles up to the interval
_PAUSE_S: Final = 5.0  # after a bug
_MOVES_AGAIN_S: Final = 60.0  # after a failure to move; a guess


class LakePublisher:
    """Publisher of all tables, every `interval_s`. While the lake cannot be reached, rows wait in the database."""

    def __init__(
        self, lake: "Lake", mover: LakeMover, *, interval_s: float, ingest_is_behind: Callable[[], bool]
    ) -> None:
        self._lake = lake
        self.mover = mover
        self._interval_s = interval_s
        self._ingest_first = IngestPriority(ingest_is_behind)
        self._caught_up_s = time.monotonic()
        self._is_checked = False
        self._reason = WaitLog(log, "rows wait for the lake: %s")
        self.failures = 0  # since the start
        self.failing: str | None = None  # why rows wait now
        self.held: str | None = None  # why traces do not move now
        self._moves_at_s = 0.0
        self._thread = FollowerThread(
            self._publish_on, name="lake", doing="publishing in the lake", log=log, pause_s=_PAUSE_S
        )

    @property
    def rows(self) -> dict[str, int]:
        """Return the rows published since the start, by table."""
        return dict(self._lake.rows)

    @property
    def lag_s(self) -> float:
        """Return the age of the latest commit that is surely published with all before it, in seconds."""
        return time.monotonic() - self._caught_up_s

    @property
    def waiting(self) -> str | None:
        """Return why rows are not published, or traces do not move, now."""
        return self.failing or self.held or self.mover.shortage

    def start(self) -> None:
        """Continue from where the last process stopped."""
        self._thread.start()

    def close(self) -> None:
        """Stop after the commit under way; the next start continues with the rest."""
        self._thread.close()

    def _publish_on(self) -> None:
        failures = 0
        while not self._thread.stopping.is_set():
            began_s = time.monotonic()
            if self._publish_all():
                failures, self._caught_up_s = 0, began_s
                self._move()
                self._thread.stopping.wait(self._interval_s)
            else:
                failures += 1
                longest_s = max(self._interval_s, _FIRST_RETRY_S)
                self._thread.stopping.wait(backoff_s(failures, first_s=_FIRST_RETRY_S, longest_s=longest_s))

    def _publish_all(self) -> bool:
        """Publish all rows that are there; False if that failed, or the thread was stopped before."""
        pending, problems = list(LAKE_TABLES), list[str]()
        try:
            if not self._is_checked:
                self._lake.check()
                self._is_checked = True
        except Unpublished as error:
            pending, problems = [], [str(error)]
        while pending and not self._thread.stopping.is_set():
            self._ingest_first.wait(self._thread.stopping)
            pending = [table for table in pending if self._publish(table, problems)]
        self._note(problems)
        return not pending and not problems

    def _publish(self, table: LakeTable, problems: list[str]) -> bool:
        try:
            return self._lake.publish(table)
        except (Unpublished, Overloaded) as error:
            problems.append(str(error))
            return False

    def _move(self) -> None:
        if time.monotonic() < self._moves_at_s:
            return
        try:
            self.mover.move(self._thread.stopping.is_set)
            self.held = None
        except (Unpublished, Overloaded) as error:
            self.held = str(error)
            self._moves_at_s = time.monotonic() + _MOVES_AGAIN_S
            log.warning("traces wait to move to the lake: %s", error)

    def _note(self, problems: list[str]) -> None:
        self.failures += len(problems)
        if problems:
            self._reason.note(problems[0], quietly=self._thread.stopping.is_set())
        elif self.failing is not None:
            log.info("rows are published in the lake again")
            self._reason.end()
        self.failing = problems[0] if problems else None
        if not problems:
            self._ingest_first.caught_up()


async def publishing(
    stack: AsyncExitStack, settings: Settings, store: Store, ingest_is_behind: Callable[[], bool]
) -> LakePublisher | None:
    """Start the publisher, until the stack is closed; None without a lake."""
    if settings.lake is None:
        return None
    lake = store.lake(settings.lake)
    mover = LakeMover(
        store.lake_upkeep(lake), store.moving, hot_days=settings.lake_hot_days, max_bytes=settings.max_bytes
    )
    publisher = LakePublisher(lake, mover, interval_s=settings.lake_interval_seconds, ingest_is_behind=ingest_is_behind)
    store.retention.note_size = mover.note_size
    publisher.start()
    stack.push_async_callback(asyncio.to_thread, publisher.close)
    return publisher
