"""Publication of committed rows in Delta tables, each row exactly once.

The commit that adds rows to a table carries Delta's *application transaction*: the id of this data directory, and the
number of the last row. So the position is as durable as the rows. Delta refuses a commit if its snapshot is older than
another commit with the same id. Since the position is read from that snapshot, one of two concurrent publishers fails.
After any failure the table is loaded again, and its position shows which rows are left.
"""

import datetime as dt
import re
import threading
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import duckdb
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import DeltaError

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.database import ROW_GROUP_ROWS, Database
from storage.errors import Unpublished
from storage.ingest.writer import Writer
from storage.lake.deltas import DeltaTables
from storage.lake.store_check import check_store
from storage.lake.tables import BY_NAME, LakeTable, delta_rows

MOST_ROWS: Final = 131_072
_MOST_BYTES: Final = 64 << 20
"""Rows of one commit are read until they take this many bytes of memory. A guess: some 30,000 spans of 1.2 kB."""

_MOST_ATTEMPTS: Final = 1000
"""Maximum number of failed attempts whose last row numbers are kept, as one may still arrive. A guess: eight hours."""

_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_FIRST_ROWS: Final = 256
_BYTES_AT_ONCE: Final = 16 << 20
"""One query reads about this many bytes, and at most a row group; the first reads `_FIRST_ROWS`, to learn the size of
rows. Guesses; reading a span of 3.9 kB takes 10 µs of CPU by row groups, and 16 to 19 by 2,048 rows."""

PARQUET: Final = WriterProperties(compression="ZSTD", compression_level=1, max_row_group_size=MOST_ROWS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Progress of a table: rows up to `published` are in the lake; rows up to a number in `attempted` may be, too."""

    published: int = 0
    attempted: tuple[int, ...] = ()

    def trying(self, after: int, last: int) -> "Position":
        """Return the position to store before a commit of rows up to `last`.

        Earlier attempts that began after the same number are kept, because the store may still apply them.
        """
        earlier = self.attempted if after == self.published else ()
        return Position(published=after, attempted=tuple(sorted({*earlier, last}))[-_MOST_ATTEMPTS:])


class Lake:
    """Publisher of the rows of one data directory. One thread publishes; others hold `lock` to change tables."""

    def __init__(self, database: Database, writer: Writer, uri: str) -> None:
        self._database, self._writer = database, writer
        self._deltas = DeltaTables(uri)
        self.uri = self._deltas.uri
        self.lock = threading.RLock()
        """Held from the reading of rows to their commit, so that no deleted row is published after its removal."""

        self._directory_id = ""
        self._positions: dict[str, Position] = {}
        self._seen: dict[str, int] = {}  # by table: count of its writes when all its rows were published
        self.rows: Counter[str] = Counter()  # published since the start, by table

    def check(self) -> None:
        """Check that the store is safe to publish to.

        Raises:
            Unpublished: the store is unsafe, or cannot be reached.
        """
        with reaching(self.uri):
            self._refuse_another(self._deltas)
            check_store(self.uri)

    def publish(self, table: LakeTable) -> bool:
        """Publish the next rows of a table in one commit; return True if there are more.

        Raises:
            Unpublished: the lake cannot be written now, or until the operator acts; the message says which.
            Overloaded: the position could not be stored in the database.
        """
        writes = self._database.writes.count((table.name,))
        if self._seen.get(table.name) == writes:
            return False
        self._read_positions()
        try:
            with self.lock, reaching(self.uri):
                has_more = self._publish(table)
        except BaseException:  # whether the commit succeeded is unknown; the next load reads it from the lake
            self._deltas.forget(table.name)
            raise
        if not has_more:
            self._seen[table.name] = writes
        return has_more

    def _publish(self, table: LakeTable) -> bool:
        delta = self.load(table)
        after = self.own_position(table, delta)
        rows, last, has_more = self._next_rows(table, after)
        if not rows.num_rows:
            return has_more
        self._note(table, self._positions.get(table.name, Position()).trying(after, last))
        today = dt.datetime.now(dt.UTC).date()
        write_deltalake(
            delta,
            delta_rows(table, rows, directory_id=self._directory_id, today=today),
            mode="append",
            schema_mode="merge",
            writer_properties=PARQUET,
            commit_properties=CommitProperties(app_transactions=[Transaction(self._directory_id, last)]),
        )
        self.rows[table.name] += rows.num_rows
        return has_more

    def _read_positions(self) -> None:
        with self.lock, self._database.cursor() as cursor:  # or two threads might create two ids
            if self._directory_id:
                return
            rows = cursor.execute(sql.query("lake_positions")).fetchall()
            self._positions = {name: Position(published=done, attempted=tuple(most)) for name, _, done, most in rows}
            self._directory_id = next((directory_id for _, directory_id, *_ in rows), uuid.uuid4().hex)

    def _note(self, table: LakeTable, position: Position) -> None:
        parameters: Mapping[str, object] = {
            "table": table.name,
            "directory_id": self._directory_id,
            "published": position.published,
            "attempted": list(position.attempted),
        }
        # Also on a full disk, where moving is what makes room.
        self._writer.store(lambda cursor: cursor.execute(sql.query("put_lake_position"), parameters), 1, frees=True)
        self._positions[table.name] = position

    @property
    def directory_id(self) -> str:
        """Return the id of this data directory in the lake."""
        self._read_positions()
        return self._directory_id

    def load(self, table: LakeTable, deltas: DeltaTables | None = None) -> DeltaTable:
        """Return the table as of now; create it if it does not exist. Other threads need tables of their own.

        Raises:
            Unpublished: the lake lacks rows that moved to it.
        """
        deltas = deltas or self._deltas
        with self._database.cursor() as cursor:
            rows = cursor.execute(sql.query("rows_in_lake")).fetchall()
            if (delta := deltas.load(table.name, rows)) is not None:
                return delta
            self._refuse_another(deltas)
            return deltas.create(table.name, _rows(cursor, table, first=0, last=-1).schema)

    def _refuse_another(self, deltas: DeltaTables) -> None:
        with self._database.cursor() as cursor:
            rows = cursor.execute(sql.query("rows_in_lake")).fetchall()
        for name in {name for _, name, _ in rows}:
            deltas.load(name, rows)

    def note_published(self, numbers: Mapping[str, int]) -> None:
        """Store up to which numbers the lake has the rows of some tables, all of which are this directory's.

        Raises:
            Overloaded: the database cannot be written now.
        """
        for name, number in numbers.items():
            attempted = self._positions.get(name, Position()).attempted
            later = tuple(each for each in attempted if each > number)
            self._note(BY_NAME[name], Position(published=number, attempted=later))

    def own_position(self, table: LakeTable, delta: DeltaTable) -> int:
        """Return the number up to which the lake has rows of this directory, as the snapshot in `delta` says.

        It may be lower than the last published number, if the lake was replaced or restored.

        Raises:
            Unpublished: it is higher than this directory can have published, so a copy of the directory publishes too.
        """
        self._read_positions()
        position = self._positions.get(table.name, Position())
        stored = delta.transaction_version(self._directory_id) or 0
        if stored > position.published and stored not in position.attempted:
            raise Unpublished(
                f"{self.uri}/{table.name} has rows of this data directory up to number {stored}, of which this one"
                f" published those up to {position.published}: a copy of the directory publishes too, or this is an"
                " older state of it. Stop the copy; of an older state make a data directory by `tracejury backup` and"
                " `tracejury restore`, which has a name of its own in the lake"
            )
        return stored

    def _next_rows(self, table: LakeTable, after: int) -> tuple[pa.Table, int, bool]:
        """Return the next rows in any order, the number up to which they are complete, and True if there are more."""
        with self._database.cursor() as cursor:
            select = table.about(sql.query("lake_numbers"))
            left = arrow_table(cursor, select, {"after": after, "rows": MOST_ROWS}).column("number").to_numpy()
            pieces: list[pa.Table] = []
            rows, nbytes, at_once = 0, 0, _FIRST_ROWS
            while rows < len(left) and nbytes < _MOST_BYTES:
                some = left[rows : rows + at_once]
                try:
                    piece = _rows(cursor, table, first=int(some[0]), last=int(some[-1]))
                except duckdb.OutOfMemoryException:
                    if at_once == 1:
                        raise
                    at_once //= 2
                    continue
                pieces.append(piece)
                rows, nbytes = rows + len(some), nbytes + piece.nbytes
                at_once = min(max(rows * _BYTES_AT_ONCE // max(nbytes, 1), 1), ROW_GROUP_ROWS)
            if not pieces:
                pieces.append(_rows(cursor, table, first=0, last=-1))
            has_more = rows < len(left) or len(left) == MOST_ROWS
            return pa.concat_tables(pieces), int(left[rows - 1]) if rows else after, has_more


def _rows(cursor: duckdb.DuckDBPyConnection, table: LakeTable, *, first: int, last: int) -> pa.Table:
    return arrow_table(cursor, table.about(sql.query("lake_rows")), {"first": first, "last": last})


@contextmanager
def reaching(uri: str) -> Iterator[None]:
    """Convert failures of the store, and refused commits, to `Unpublished`.

    Raises:
        Unpublished: the store cannot be reached, or refuses the commit.
    """
    try:
        yield
    except (DeltaError, OSError, pa.ArrowException) as error:
        message = " ".join(_COLOURS.sub("", str(error)).split())
        raise Unpublished(f"{uri} cannot be written now: {message[:500]}") from error
