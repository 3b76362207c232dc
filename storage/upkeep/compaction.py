"""Compaction: rewriting of row groups that have deleted rows, so that these rows leave both memory and the disk.

DuckDB 1.5.5 holds 512 kB for each row group with deleted rows, or 256 kB after a reload, once the row group is read.
This memory counts towards the limit and is not evicted while the row group has other rows. The bytes of the deleted
rows stay as well. So the number of such row groups is limited, whatever the size of the file.

A row group cannot be changed in place. Its remaining rows are appended to the table and deleted at their old position.
The next checkpoint without readers drops the empty row group. It is too slow to find where a row group begins in a
large file. So a longer range of rows (a stretch) is rewritten, which certainly contains the row group. DuckDB merges
the row groups at both ends of the stretch once they fit into one.

Row ids ("places") are valid only until row groups are dropped, because the ids of all later rows then decrease. So
automatic checkpoints are off during a pass, and row ids are looked up again after a checkpoint by another thread.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import duckdb
import numpy as np

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.database import CATALOG, ROW_GROUP_ROWS, Database
from storage.errors import Busy, Overloaded, WriteConflict
from storage.ingest.writer import Writer
from storage.limit import Limit
from storage.upkeep.cascade import Places
from storage.upkeep.stretches import SMALL, RowRange, around, count_cells, count_groups, missing

log = logging.getLogger(__name__)

_GROUP_BYTES: Final = 512 << 10
_DIRTY_DIVISOR: Final = 8
"""Row groups with deleted rows may take DuckDB's memory limit divided by this. A guess: these are 61 row groups at the
smallest default limit, 256 MB, of which queries take half and ingest a sixth."""
_FEWEST: Final = 8
_RECOUNT_DIVISOR: Final = 4
"""A recount of row groups with deleted rows, which reads all row ids, waits until deletions have touched as many row
groups as the limit divided by this."""

_STEPS: Final = 8
"""Row groups rewritten between two checkpoints. A checkpoint takes 50 to 110 ms with 5 million spans."""

_NUMBERED: Final = frozenset({"span"})
"""Tables of many columns. Their rows are also selected by number (`seq`), because with a condition on row ids alone
DuckDB begins to read each column of each row group. With 5.6 million spans that takes 200 ms, and reading the rows of
one row group 35 ms."""

_LOOK: Final = 8 * ROW_GROUP_ROWS  # rows per look-up of places
_LOOK_FOR_STEP: Final = 16 * ROW_GROUP_ROWS  # row ids that one step reads, since most of them may be deleted
_CLOSING_TRIES: Final = 4
_MOVED_TRIES: Final = 100  # a guess: each try rewrites some row groups until a sweep or refresh interferes
_TURN_S: Final = 60.0  # timeout for the lock that other rewriters hold; a guess
_DROP_TRIES, _DROP_PAUSE_S = 10, 2.0
"""Row groups can only be dropped without readers. This is tried for as long as one query may run, half a minute, with a
pause between attempts. A guess."""

_GIVE_WAY_S, _PAUSE_S = 2.0, 0.05
"""A step gives way to ingest for at most this long, or senders that never pause could prevent an erasure. A guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of the rewriting, in row groups; `total` is an estimate from its beginning."""

    done: int
    total: int


class Compaction:
    """Rewriting of row groups with deleted rows ("holes"). Thread-safe; one thread at a time rewrites."""

    def __init__(self, database: Database, writer: Writer, *, is_behind: Callable[[], bool]) -> None:
        self._database = database
        self._writer = writer
        self._is_behind = is_behind
        self._most = max(_FEWEST, database.memory_bytes // _DIRTY_DIVISOR // _GROUP_BYTES)
        self._counting = threading.Lock()
        self._turn = threading.Lock()
        self._counted = self._most  # row groups with deleted rows; assumed to be at the limit until counted
        self._is_counted = False
        self._since: set[tuple[str, int]] = set()  # row groups with deletions since the last count
        self._noted = 0  # number of transactions that deleted rows
        self._layout, self._planned_at = 0, 0  # the file's layout and `_noted` at the last look-up of places
        self._to_drop = 0  # row groups rewritten since DuckDB last dropped some
        self.steady = threading.Lock()  # held while checkpoints are forbidden; explicit checkpoints acquire it
        self.progress = Progress(done=0, total=0)
        self.rewritten = 0  # number of row groups rewritten since the start

    def note(self, places: Places) -> None:
        """Remember that rows were deleted."""
        touched = {(table, int(cell)) for table, rows in places.items() for cell in np.unique(rows // ROW_GROUP_ROWS)}
        with self._counting:
            self._noted += 1
            self._since |= touched

    def has_room(self, tables: Sequence[str]) -> bool:
        """Return True if rows may be deleted at once."""
        if self._dirty >= self._most and (not self._is_counted or len(self._since) >= self._most // _RECOUNT_DIVISOR):
            self._count(tables)  # `_since` may have a row group twice, as ids change, and row groups that are gone
        return self._dirty < self._most

    def lack_of_room(self) -> str:
        """Return the message for deletions that must wait because too many row groups have deleted rows."""
        limit = Limit(value=self._most, unit="row groups", remedy="deletions go on once running queries have ended")
        return f"more row groups have deleted rows in them than {limit}"

    @property
    def _dirty(self) -> int:
        return self._counted + len(self._since)

    def make_room(self, tables: Sequence[str], stopped: Callable[[], bool]) -> None:
        """Rewrite row groups until rows may be deleted.

        Raises:
            Overloaded: other readers or writers prevent it now.
        """
        if self.has_room(tables):
            return
        self.drop()
        self._count(tables)
        if self.has_room(tables):
            return
        for _ in self.steps(tables):
            if stopped():
                return
        if not self.has_room(tables):
            raise Overloaded(self.lack_of_room(), retry_after_s=5)

    def drop(self) -> None:
        """Let DuckDB drop empty row groups.

        Raises:
            Overloaded: there are readers all the time, or the database cannot be written now.

        """
        self._drop()

    def _drop(self, table: str | None = None, *, tries: int = _DROP_TRIES) -> int:
        """Let DuckDB drop empty row groups; return by how much the row ids of a table have decreased."""
        gone: list[int] = []

        def drop() -> None:
            before = self._length(table) if table else 0
            is_known = self._is_known() and self._noted == self._planned_at  # or other rows may be dropped, too
            self._database.checkpoint_alone()
            if is_known:
                self._layout = self._database.checkpoints.layout
            gone.append(before - self._length(table) if table else 0)

        for left in reversed(range(tries)):
            try:
                with self.steady:
                    self._writer.once_between(drop)
                break
            except Busy:
                if not left:
                    raise
                time.sleep(_DROP_PAUSE_S)
        self._to_drop = 0
        return gone[-1]

    def _look_again(self) -> None:
        self._layout, self._planned_at = self._database.checkpoints.layout, self._noted

    def _is_known(self) -> bool:
        # For the writer's thread, where no checkpoint can run meanwhile: each one may change row ids.
        return self._layout == self._database.checkpoints.layout

    def steps(self, tables: Sequence[str], *, is_last: bool = False) -> Iterator[None]:
        """Rewrite the row groups of these tables that have holes now, step by step.

        With `is_last`, small tables are always rewritten, and once the iterator is exhausted, no row group contains a
        row that was deleted before the call. Without it, some row groups may still have holes. The iterator may be
        closed after each step.

        Raises:
            Overloaded: other readers or writers prevent it now; begin again.
        """
        if not self._turn.acquire(timeout=_TURN_S):
            raise Busy("row groups are being rewritten already; try again")
        try:
            self._writer.between(self._database.checkpoints.hold)
        except BaseException:  # raised again; another thread may rewrite
            self._turn.release()
            raise
        try:
            noted = self._noted
            self.drop()
            planned, is_all = self._planned(tables, is_last=is_last)
            self.progress = Progress(done=0, total=sum(planned.values()))
            for table in planned:
                yield from self._rewrite_around_holes(table, is_last=is_last)
            self.drop()
            self._count(tables)
            if self._dirty > self._most // 2 and noted == self._noted:  # a merge would hide later deletions
                yield from self._merge(tables)
                self._count(tables)
            if not is_all:
                raise Busy("more row groups had deleted rows than one pass rewrites; begin again")
        finally:
            self.progress = Progress(done=0, total=0)
            self._database.checkpoints.allow()
            self._turn.release()

    def _rewrite_around_holes(self, table: str, *, is_last: bool) -> Iterator[None]:
        """Rewrite the stretches of a table, the last one first, so that row ids in the remaining ones stay valid.

        Rows that were stored together stay together, if each pass reaches later rows than the previous one. A pass also
        moves some later rows, because they are in the same stretch. They are then at the end of the table, where the
        next pass rewrites them first.
        """
        for _ in range(_MOVED_TRIES):
            self._look_again()
            holes = self._holes(table, most=4 * self._most)
            try:
                for stretch in around(holes, self._length(table), is_last=is_last):
                    yield from self._rewrite(table, stretch)
            except WriteConflict:
                continue
            return
        raise Busy("rows moved while they were being rewritten; begin again")

    def _merge(self, tables: Sequence[str]) -> Iterator[None]:
        """Let DuckDB merge the row groups on both sides of each hole."""
        with self._database.checkpoints.merging():
            try:
                large = [table for table in tables if self._length(table) > SMALL]
                while self._merge_some(large):
                    yield
                self._look_again()
                for table in tables:
                    yield from self._close_holes(table)
            except WriteConflict as error:
                log.debug("cannot reuse freed blocks: %s", error)

    def _merge_some(self, tables: Sequence[str]) -> bool:
        """Let one checkpoint merge row groups of large tables; return True if a table became shorter."""
        lengths = {table: self._length(table) for table in tables}
        for table, length in lengths.items():  # DuckDB merges nothing in a table without changes
            self._writer.store(
                _RewriteStep(table, RowRange(length - 1, length), is_known=lambda: True).run, 1, frees=True
            )
        self.drop()
        return any(self._length(table) < length for table, length in lengths.items())

    def _rewrite(self, table: str, stretch: RowRange) -> Iterator[None]:
        """Move the rows of a stretch to the end of the table, in order, in steps."""
        place, end = stretch
        while place < end:
            self._give_way()
            step = _RewriteStep(table, RowRange(place, end), is_known=self._is_known)
            self._writer.store(step.run, ROW_GROUP_ROWS, frees=True)
            done = self.progress.done + 1
            self.progress = Progress(done=done, total=max(self.progress.total, done))
            self._to_drop += 1
            self.rewritten += 1
            dropped = self._try_to_drop(table) if self._to_drop % _STEPS == 0 else 0
            place, end = step.rest_first - dropped, end - dropped
            yield
        self._try_to_drop(table)

    def _try_to_drop(self, table: str) -> int:
        try:
            return self._drop(table, tries=1)
        except Busy:
            return self._drop(table) if self._to_drop >= self._most else 0

    def _close_holes(self, table: str) -> Iterator[None]:
        # The last hole first. Stop if rewritten rows could not be dropped, because they look like a hole.
        below = self._length(table)
        while not self._to_drop and (hole := self._last_hole(table, below)) is not None:
            yield from self._close(table, hole)
            below = hole.first

    def _close(self, table: str, hole: RowRange) -> Iterator[None]:
        """Delete and re-insert enough rows after a hole that the rest on both sides fits into one row group."""
        first = hole.first
        for _ in range(_CLOSING_TRIES):
            too_many = max(
                1, ROW_GROUP_ROWS - (hole.end - hole.first)
            )  # DuckDB merges nothing in a table without changes
            yield from self._rewrite(table, RowRange(hole.end, min(hole.end + too_many, self._length(table))))
            if self._to_drop:
                return
            left = self._last_hole(table, first + ROW_GROUP_ROWS, above=first)
            if left is None or left.end >= self._length(table):
                return
            hole = left

    def _give_way(self) -> None:
        until_s = time.monotonic() + _GIVE_WAY_S
        while self._is_behind() and time.monotonic() < until_s:
            time.sleep(_PAUSE_S)

    def _count(self, tables: Iterable[str]) -> None:
        """Count the row groups that have holes, up to `_most`."""
        cells = 0
        with self._counting:
            self._since = set()
        for table in tables:
            cells += count_cells(self._holes(table, most=self._most - cells))
            if cells >= self._most:
                break
        with self._counting:
            self._counted, self._is_counted = cells, True

    def _length(self, table: str) -> int:
        with self._database.cursor() as cursor:
            parameters = {"catalog": CATALOG, "table": table}
            ((length,),) = cursor.execute(sql.query("length_of_table"), parameters).fetchall()
        return int(length)

    def _planned(self, tables: Iterable[str], *, is_last: bool) -> tuple[dict[str, int], bool]:
        """Return how many row groups of each table to rewrite, and True if no table was skipped.

        Each hole that is found takes memory, so after too many holes the remaining tables are skipped.

        """
        planned: dict[str, int] = {}
        most = 4 * self._most
        for table in tables:
            holes = self._holes(table, most=most)
            planned[table] = count_groups(around(holes, self._length(table), is_last=is_last))
            most -= count_cells(holes)
            if most <= 0:
                return planned, False
        return planned, True

    def _last_hole(self, table: str, below: int, *, above: int = 0) -> RowRange | None:
        return next(iter(self._holes(table, most=1, below=below, above=above)), None)

    def _holes(self, table: str, *, most: int, below: int | None = None, above: int = 0) -> list[RowRange]:
        """Return ranges of row ids without rows, the last ones first, until they cover `most` row groups."""
        length = self._length(table)
        end = length if below is None else min(below, length)
        holes: list[RowRange] = []
        for stretch in self._incomplete(table, RowRange(above, end)):
            with self._database.cursor() as cursor:
                statement = sql.query("places_between").replace("$table", table)
                bounds = {"first": stretch.first, "last": stretch.end - 1}
                rows = arrow_table(cursor, statement, bounds).column("place")
            holes += missing(rows.to_numpy(), stretch)
            if count_cells(holes) >= most:
                break
        return holes

    def _incomplete(self, table: str, within: RowRange) -> list[RowRange]:
        """Return parts of a range in which some row ids have no row, the last part first."""
        bounds = {"first": within.first, "last": within.end - 1, "places": _LOOK}
        with self._database.cursor() as cursor:
            counts = dict(cursor.execute(sql.query("rows_by_part").replace("$table", table), bounds).fetchall())
        parts = (
            RowRange(max(within.first, part * _LOOK), min(within.end, (part + 1) * _LOOK))
            for part in range(within.first // _LOOK, -(-within.end // _LOOK))
        )
        return [each for each in parts if counts.get(each.first // _LOOK, 0) < each.end - each.first][::-1]


class _RewriteStep:
    """One transaction that moves the first rows of a stretch, at most a row group, to the end of the table."""

    def __init__(self, table: str, stretch: RowRange, *, is_known: Callable[[], bool]) -> None:
        self._table = table
        self._is_known = is_known
        self._stretch = stretch
        self.rest_first = stretch.end  # the first row that is still to be rewritten

    def run(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Run the step. The writer's thread calls this.

        Raises:
            WriteConflict: the places of rows have changed.
        """
        if not self._is_known():
            raise WriteConflict("rows are not where they were")
        first, last = self._stretch.first, min(self._stretch.end, self._stretch.first + _LOOK_FOR_STEP) - 1
        bounds = {"first": first, "last": last, "rows": ROW_GROUP_ROWS}
        ((rows, place),) = cursor.execute(self._text(sql.query("first_places")), bounds).fetchall()
        if rows == ROW_GROUP_ROWS:
            last = place
        self.rest_first = last + 1
        if rows:
            places = {"first": first, "last": last}
            self._copy(cursor, places)
            cursor.execute(self._text(sql.query("delete_rows")), places)

    def _copy(self, cursor: duckdb.DuckDBPyConnection, places: Mapping[str, int]) -> None:
        if self._table in _NUMBERED:
            ((first, last, others),) = cursor.execute(self._text(sql.query("seqs_of_places")), places).fetchall()
            if not others:  # files from before spans were numbered have rows without a number
                numbers = {"first_seq": first, "last_seq": last}
                cursor.execute(self._text(sql.query("copy_numbered_rows")), {**places, **numbers})
                return
        cursor.execute(self._text(sql.query("copy_rows")), places)

    def _text(self, statement: str) -> str:
        return statement.replace("$table", self._table)
