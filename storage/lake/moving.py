"""Moving of traces to the lake, as far as the lake is concerned: what it has is made exactly what is to move.

Then the boundary is stored, by which readers take these traces from the lake unless they are still in the database;
and then they are deleted there, transaction by transaction (`storage.upkeep.moving`).
"""

import datetime as dt

from storage.lake.boundary import NOTHING, Boundaries, Boundary
from storage.lake.publishing import Lake
from storage.lake.removing import Compared, Removal


class LakeMoving:
    """Moves the boundary. For the thread of the lake."""

    def __init__(self, lake: Lake, removal: Removal, boundaries: Boundaries) -> None:
        self._lake, self._removal, self._boundaries = lake, removal, boundaries

    def move_boundary(self, day: dt.date) -> tuple[Boundary, Compared]:
        """Move the boundary to a day, or as near as work that is not done allows, and never back.

        Raises:
            Unpublished: not now; the boundary stays where it was.
            Overloaded: the database cannot be written now.
        """
        before = self._boundaries.all()
        own = before.get(self._lake.directory_id, NOTHING)
        due = self._boundaries.at(day)
        boundary = Boundary(max(own.day, day), max(own.first_batch, due.first_batch), max(own.first_seq, due.first_seq))
        compared = self._removal.remove_stale(before, boundary)
        if boundary != own:
            self._boundaries.put(self._lake.directory_id, boundary)
        return boundary, compared
