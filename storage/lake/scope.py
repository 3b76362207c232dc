"""What a reader of the lake elsewhere has to know of the data directory: what moved, and what is not to be read."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from storage import sql
from storage.engine.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeScope:
    """State of a data directory at one moment."""

    directory_id: str  # its name in the lake
    boundaries: Sequence[tuple[str, str, int, int]]  # rows of the table `lake_boundary`; days as texts
    left_out: Sequence[tuple[str, str, int]]  # traces, by tenant and id, of which rows up to a number are not read
    edition: str  # of the conventions
    editions: Sequence[int]  # the numbers of that edition in the rows of spans


class Moved(NamedTuple):
    """Traces and spans that have moved to the lake, whose last span came before a day; some may have expired there."""

    day: dt.date
    traces: int  # 0: unknown
    spans: int


def moved_to_lake(database: Database) -> Moved | None:
    """Return what has moved to the lake; None if nothing has."""
    with database.cursor() as cursor:
        row = cursor.execute(sql.query("moved_to_lake")).fetchone()
    return None if row is None else Moved(*row)


def lake_scope(database: Database, edition: str) -> LakeScope | None:
    """Return the state of now; None if nothing has moved to a lake."""
    with database.snapshot() as cursor:
        boundaries = cursor.execute(sql.query("lake_boundary_rows")).fetchall()
        names = cursor.execute(sql.query("lake_names")).fetchall()
        if not boundaries or not names:
            return None
        return LakeScope(
            directory_id=names[0][0],
            boundaries=boundaries,
            left_out=cursor.execute(sql.query("traces_not_in_the_lake_alone")).fetchall(),
            edition=edition,
            editions=[number for (number,) in cursor.execute(sql.query("editions_of"), {"digest": edition}).fetchall()],
        )
