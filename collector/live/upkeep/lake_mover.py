"""Moving of traces to the lake, a day at a time."""

import datetime as dt
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from storage.errors import Unpublished
from storage.upkeep.moving import Moving

if TYPE_CHECKING:
    from storage.lake.upkeep import LakeUpkeep

log = logging.getLogger(__name__)


class LakeMover:
    """Mover of traces from the database to the lake, once they are older than `hot_days`. For one thread."""

    def __init__(
        self, lake: "LakeUpkeep", moving: Moving, *, hot_days: int, clock: Callable[[], int] = time.time_ns
    ) -> None:
        self._lake, self._moving = lake, moving
        self.hot_days = hot_days
        self._clock = clock
        self._moved_to: dt.date | None = None  # by this process

    @property
    def counts(self) -> dict[str, int]:
        """Return the traces and spans that moved since the start."""
        return self._moving.counts

    def move(self, stopped: Callable[[], bool]) -> None:
        """Move the traces that are due, once a day and after a start.

        Raises:
            Unpublished, Overloaded: the move has to wait; traces that were moved stay moved.
        """
        now = dt.datetime.fromtimestamp(self._clock() / 1e9, dt.UTC)
        day = now.date() - dt.timedelta(days=self.hot_days)
        if day == self._moved_to:
            return
        doubt = self._moving.doubt()
        if doubt is not None:
            raise Unpublished(doubt)
        before, began_s = self.counts, time.monotonic()
        boundary, compared = self._lake.move_boundary(day)
        self._moving.move(
            boundary.first_batch,
            boundary.first_seq,
            published=compared.numbers,
            pinned=compared.pinned,
            stopped=stopped,
        )
        self._lake.tidy(now, stopped)
        if stopped():
            return
        self._moved_to = day
        moved = {name: count - before[name] for name, count in self.counts.items()}
        if moved["traces"]:
            took_s = time.monotonic() - began_s
            log.info("moved %d traces, %d spans to the lake in %.1f s", moved["traces"], moved["spans"], took_s)
