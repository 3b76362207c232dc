"""Boundaries of the move to the lake: which commits have left the database."""

import datetime as dt
from typing import Final, NamedTuple

from storage import sql
from storage.engine.database import Database
from storage.ingest.writer import Writer


class Boundary(NamedTuple):
    """Boundary of the move, before the commit `first_batch`.

    Rows from before it are only in the lake, unless the database still has a trace part of their trace from before it.
    """

    day: dt.date
    first_batch: int
    first_seq: int


NOTHING: Final = Boundary(dt.date.min, 0, 0)


class Boundaries:
    """The boundaries of this data directory, one for each id that it has had in the lake."""

    def __init__(self, database: Database, writer: Writer) -> None:
        self._database, self._writer = database, writer

    def all(self) -> dict[str, Boundary]:
        """Return the boundaries by id of the directory."""
        with self._database.cursor() as cursor:
            rows = cursor.execute(sql.query("lake_boundaries")).fetchall()
        return {name: Boundary(*boundary) for name, *boundary in rows}

    def at(self, day: dt.date) -> Boundary:
        """Return the boundary for a day: before its commits, and before commits that a follower has yet to process."""
        with self._database.cursor() as cursor:
            ((first_batch, first_seq),) = cursor.execute(sql.query("lake_boundary_at"), {"day": day}).fetchall()
        return Boundary(day, first_batch, first_seq)

    def put(self, directory_id: str, boundary: Boundary) -> None:
        """Store the boundary of an id of the directory."""
        parameters = {"directory_id": directory_id, "moved": 0, **boundary._asdict()}
        self._writer.store(lambda cursor: cursor.execute(sql.query("put_lake_boundary"), parameters), 1, frees=True)
