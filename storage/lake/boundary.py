"""What has moved to the lake: the commits before a boundary."""

import datetime as dt
from typing import Final, NamedTuple

from storage import sql
from storage.engine.database import Database
from storage.ingest.writer import Writer


class Boundary(NamedTuple):
    """Traces without a part in the database from before `first_batch` are, as far as that, in the lake alone."""

    day: dt.date
    first_batch: int
    first_seq: int


NOTHING: Final = Boundary(dt.date.min, 0, 0)


class Boundaries:
    """The boundary of each name that this directory had in the lake."""

    def __init__(self, database: Database, writer: Writer) -> None:
        self._database, self._writer = database, writer

    def all(self) -> dict[str, Boundary]:
        """Return the boundaries by names."""
        with self._database.cursor() as cursor:
            rows = cursor.execute(sql.query("lake_boundaries")).fetchall()
        return {name: Boundary(*boundary) for name, *boundary in rows}

    def at(self, day: dt.date) -> Boundary:
        """Return the boundary for a day: before commits of that day, and before those that are not worked off yet."""
        with self._database.cursor() as cursor:
            ((first_batch, first_seq),) = cursor.execute(sql.query("lake_boundary_at"), {"day": day}).fetchall()
        return Boundary(day, first_batch, first_seq)

    def put(self, directory_id: str, boundary: Boundary) -> None:
        """Store the boundary of a name."""
        parameters = {"directory_id": directory_id, **boundary._asdict()}
        self._writer.store(lambda cursor: cursor.execute(sql.query("put_lake_boundary"), parameters), 1)
