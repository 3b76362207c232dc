"""Moving of traces to the lake, a day at a time."""

import datetime as dt
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from storage.errors import Overloaded, Unpublished
from storage.upkeep.moving import Moving

if TYPE_CHECKING:
    from storage.lake.upkeep import LakeUpkeep

log = logging.getLogger(__name__)

_UNDER_WAY: Final = "publication and moving are under way"


class LakeMover:
    """Mover of traces from the database to the lake, once they are older than `hot_days`. For one thread."""

    def __init__(
        self,
        lake: "LakeUpkeep",
        moving: Moving,
        *,
        hot_days: int,
        max_bytes: int | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.lake, self._moving = lake, moving
        self.hot_days, self._max_bytes = hot_days, max_bytes
        self._clock = clock
        self._moved_to: dt.date | None = None  # by this process
        self._needs_room = False
        self._lack: str | None = None  # why the database is too large; None if it is not

    @property
    def counts(self) -> dict[str, int]:
        """Return the traces and spans that moved since the start."""
        return self._moving.counts

    @property
    def shortage(self) -> str | None:
        """Return why the database is larger than `max_bytes`; None if it was not when a sweep last looked."""
        return self._lack and f"the database is larger than max_bytes: {self._lack}"

    def note_size(self, is_too_large: bool) -> None:  # noqa: FBT001 - the result of a sweep
        """Let traces move early while the database is too large."""
        self._needs_room = is_too_large
        self._lack = (self._lack or _UNDER_WAY) if is_too_large else None

    def move(self, stopped: Callable[[], bool]) -> None:
        """Move the traces that are due, once a day and after a start; and more, the oldest first, for lack of room.

        Raises:
            Unpublished, Overloaded: the move has to wait; traces that were moved stay moved.
        """
        try:
            self._move(stopped)
        except (Unpublished, Overloaded) as error:
            self._lack = self._lack and str(error)
            raise

    def _move(self, stopped: Callable[[], bool]) -> None:
        now = dt.datetime.fromtimestamp(self._clock() / 1e9, dt.UTC)
        due = day = now.date() - dt.timedelta(days=self.hot_days)
        is_short = self._needs_room
        if day == self._moved_to and not is_short:
            return
        doubt = self._moving.doubt()
        if doubt is not None:
            raise Unpublished(doubt)
        before, began_s = self.counts, time.monotonic()
        self._move_before(day, stopped)
        while is_short and not stopped():
            if not self._moving.over_spans(self._max_bytes):
                self._lack = None
                break
            if day > now.date():
                self._lack = "traces stay that are pinned, not settled, not published or wait for an evaluation"
                break
            day += dt.timedelta(days=1)
            self._move_before(day, stopped)
        if is_short:
            self._needs_room = False
        moved = {name: count - before[name] for name, count in self.counts.items()}
        if moved["traces"]:
            took_s = time.monotonic() - began_s
            log.info("moved %d traces, %d spans to the lake in %.1f s", moved["traces"], moved["spans"], took_s)
        if due != self._moved_to:
            gives_way = partial(self._gives_way, stopped)
            self.lake.tidy(now, gives_way)
            self._moved_to = self._moved_to if gives_way() else due

    def _gives_way(self, stopped: Callable[[], bool]) -> bool:
        return stopped() or self._needs_room  # a move for lack of room goes first

    def _move_before(self, day: dt.date, stopped: Callable[[], bool]) -> None:
        boundary, compared = self.lake.move_boundary(day)
        self._moving.move(
            boundary.first_batch,
            boundary.first_seq,
            published=compared.numbers,
            pinned=compared.pinned,
            stopped=stopped,
        )
