"""Position in the spool up to which rows are committed, and totals of all committed spans and log records."""

from dataclasses import asdict, dataclass

from storage import sql
from storage.engine.database import Database
from storage.ingest.spool import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Totals over all spans and log records that were committed, over the life of the data directory."""

    batch: int
    stored: int
    already_present: int
    logs_stored: int = 0
    logs_already_present: int = 0
    set_aside: int = 0

    def plus(self, other: "Totals") -> "Totals":
        """Return the sums of both."""
        return Totals(**{name: count + getattr(other, name) for name, count in asdict(self).items()})


@dataclass(frozen=True, slots=True)
class State:
    """Position in the spool up to which the database has all rows, and the totals."""

    position: Position
    totals: Totals


def read_state(database: Database) -> State:
    """Read how far the spool is committed, and the totals."""
    with database.cursor() as cursor:
        row = cursor.execute(sql.query("ingest_state")).fetchone()
        if row is None:
            msg = "the table ingest_state is empty: the database was changed by other hands"
            raise RuntimeError(msg)
        state = {column[0]: count for column, count in zip(cursor.description or (), row, strict=True)}
    position = Position(state.pop("spool_sequence"), state.pop("spool_rows"))
    return State(position, Totals(**state))


def newest_receipt_us(database: Database) -> int | None:
    """Return when the latest stored span was received, in microseconds; None if none is stored."""
    with database.cursor() as cursor:
        ((newest_us,),) = cursor.execute(sql.query("newest_receipt")).fetchall()
    return None if newest_us is None else int(newest_us)
