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


_PATIENCE_S: Final = 600.0  # without progress, after which a sweep deletes traces to make room; a guess


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
        self._is_moving = False
        self._since_s: float | None = None  # start of the time without progress while room is needed
        self._seen: object = None  # progress at that time
        self._lack: str | None = None  # why the latest move did not make enough room

    @property
    def counts(self) -> dict[str, int]:
        """Return the traces and spans that moved since the start."""
        return self._moving.counts

    @property
    def shortage(self) -> str | None:
        """Return why the database is larger than `max_bytes`; None if it was not when a sweep last looked."""
        if self._since_s is None:
            return None
        return f"the database is larger than max_bytes: {self._lack or 'publication and moving are under way'}"

    def make_room(self, cutoff_us: int | None, published: int | None = None) -> str | None:
        """Let traces move early if a sweep lacks room; return why the sweep has to delete until `cutoff_us`, or None.

        The sweep has to delete ten minutes after a move that left too little room. Without such a move, it has to after
        ten minutes in which neither traces moved nor rows were `published` (None: publication fails).
        """
        if cutoff_us is None:
            self._needs_room, self._since_s, self._lack = False, None, None
            return None
        self._needs_room = True
        now_s, progress = time.monotonic(), (published, self.counts)
        if self._since_s is None or (self._lack is None and progress != self._seen):
            self._since_s, self._seen = now_s, progress
        if self._is_moving or now_s - self._since_s <= _PATIENCE_S:
            return None
        return self._lack or "nothing could be published or moved"

    def move(self, stopped: Callable[[], bool]) -> None:
        """Move the traces that are due, once a day and after a start; and more, the oldest first, for lack of room.

        Raises:
            Unpublished, Overloaded: the move has to wait; traces that were moved stay moved.
        """
        self._is_moving = True
        try:
            self._move(stopped)
        except (Unpublished, Overloaded) as error:
            self._note_lack(str(error))
            raise
        finally:
            self._is_moving = False

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
                self._since_s, self._lack = None, None
                break
            if day > now.date():
                self._note_lack("traces that have not settled, wait for an evaluation or are not published stay")
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

    def _note_lack(self, lack: str) -> None:
        if self._since_s is not None and self._lack is None:
            self._since_s = time.monotonic()  # restart the ten minutes: until now there was progress
        self._lack = lack

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
