"""Upkeep of a lake: the move of traces to it, the removal of traces from it, and its files.

A move has three steps. Stale rows are removed, so that the lake has exactly the rows of the traces that move. The
boundary is stored, and from then on readers read these traces from the lake, unless the database still has them. Then
the traces are deleted from the database (`storage.upkeep.moving`).
"""

import datetime as dt
from collections.abc import Callable

from storage.engine.database import Database
from storage.ingest.writer import Writer
from storage.lake.boundary import NOTHING, Boundaries, Boundary
from storage.lake.erasing import LakeErasure
from storage.lake.maintenance import LakeSize, maintain
from storage.lake.publishing import Lake
from storage.lake.removing import Compared, Removal
from storage.lake.scope import moved_to_lake
from storage.upkeep.erasure import Erasure


class LakeUpkeep:
    """Upkeep of one lake. For the thread of the lake, apart from `erasure`."""

    def __init__(self, lake: Lake, database: Database, writer: Writer, erasure: Erasure) -> None:
        self._lake, self._database = lake, database
        self._boundaries = Boundaries(database, writer)
        self._removal = Removal(lake, database)
        self.size: LakeSize | None = None  # after the latest maintenance by this process
        self.erasure = LakeErasure(lake, self._removal, self._boundaries, database, writer, erasure)

    def moved_before(self) -> dt.date | None:
        """Return the day before which traces have moved, unless something keeps them; None: nothing moved."""
        moved = moved_to_lake(self._database)
        return None if moved is None else min(moved.day, dt.datetime.now(dt.UTC).date())  # for room, up to tomorrow

    def move_boundary(self, day: dt.date) -> tuple[Boundary, Compared]:
        """Move the boundary to a day, or only to the first commit that is not matched or summed; never move it back.

        Raises:
            Unpublished: the lake cannot be written now; the boundary is unchanged.
            Overloaded: the database cannot be written now.
        """
        self.erasure.remove_requested()
        before = self._boundaries.all()
        own = before.get(self._lake.directory_id, NOTHING)
        due = self._boundaries.at(day)
        first_batch, first_seq = max(own.first_batch, due.first_batch), max(own.first_seq, due.first_seq)
        boundary = Boundary(max(own.day, day), first_batch, first_seq)
        compared = self._removal.remove_stale(before, boundary)
        if boundary != own:
            self._lake.note_published(compared.numbers)  # without which the lake is another one from then on
            self._boundaries.put(self._lake.directory_id, boundary)
        return boundary, compared

    def tidy(self, now: dt.datetime, stopped: Callable[[], bool] = lambda: False) -> None:
        """Remove expired traces, results of jobs about traces that have left, and files that no reader needs.

        Raises:
            Unpublished: the lake cannot be written now.
            Overloaded: the database cannot be written now.
        """
        self.erasure.expire(now)
        self.erasure.remove_orphans()
        self.size = maintain(self._lake, now.date(), stopped) or self.size
