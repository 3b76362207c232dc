"""Rubbing out what was deleted on request: not only from the tables, but from the bytes on the disk.

A deleted row stays in its row group until that is written anew, and what a row group gives up stays in a block as long
as anything else is in that block. So the blocks that hold a trace are remembered before its rows are deleted, and a
sweep writes everything else that is in them once more, elsewhere: then they are free, and become holes.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from storage import sql
from storage.database import CATALOG, Database
from storage.writer import Writer

log = logging.getLogger(__name__)

_TABLES = ("span", "trace_part", "tool_call", "trace_reading", "log_record", "evaluation", "job")
"""Those that hold words of a trace by its ids; readings do by the numbers of its spans."""

_FAR = 1 << 54  # beyond the place of any row that is stored, and before those of rows that are being

_OPEN_GROUPS = 4
"""The last row group is open: rows that are written once more would be put behind the deleted ones in it, and these be
written again with the next checkpoint. With more than one whole row group in a transaction DuckDB begins a new one."""

_ROUNDS = 2
"""The second finds what moved between looking and writing. What is in use after it came later, over the old bytes."""


@dataclass(frozen=True, slots=True)
class _Group:
    """A row group: the places of its rows, and the blocks that hold some of it."""

    first: int
    last: int
    blocks: frozenset[int]


class Erasure:
    """Remembers which blocks are to be rubbed out, and rubs them out."""

    def __init__(self, database: Database, writer: Writer, set_aside: Path) -> None:
        self._database = database
        self._writer = writer
        self._set_aside = set_aside

    @contextmanager
    def erasing(self, traces: pa.Table) -> Iterator[None]:
        """Let the rows of these traces be deleted in the block, so that no later checkpoint writes them anywhere.

        Checkpoints are put off meanwhile: one would write a row group with the deleted rows in it once more, to other
        blocks. After the block, what else is in these row groups is written elsewhere, so that a checkpoint drops them.

        Raises:
            Overloaded: the database cannot be written now.
        """
        with self._database.cursor() as cursor:  # so that the file is not opened again meanwhile
            self._writer.between(self._database.hold_checkpoints)
            try:
                cursor.register("leaving_traces", traces)
                held = self._held(cursor)
                blocks = {block for _, group in held for block in group.blocks}
                self._store(sql.query("insert_erased_blocks"), blocks)
                yield
                for table, group in held:
                    self._rewrite(table, group)
            finally:
                self._writer.between(self._database.allow_checkpoints)
        _forget_set_aside(self._set_aside, set(traces.column("trace_id").to_pylist()))

    def _held(self, cursor: duckdb.DuckDBPyConnection) -> list[tuple[str, _Group]]:
        """The row groups that hold the leaving traces."""
        held: list[tuple[str, _Group]] = []
        for table, select in self._selects():
            places = np.array([place for (place,) in cursor.execute(select).fetchall()], dtype=np.int64)
            groups = _groups(cursor, table) if len(places) else []
            if groups:
                groups = [*groups[:-_OPEN_GROUPS], _joined(groups[-_OPEN_GROUPS:])]
            held += [(table, g) for g in groups if ((places >= g.first) & (places <= g.last)).any()]
        return held

    def finish(self) -> bool:
        """Write what else is in the remembered blocks elsewhere; whether there was anything to do.

        Raises:
            Overloaded: the database cannot be written now; the next call goes on.
        """
        with self._database.cursor() as cursor:
            blocks = {block for (block,) in cursor.execute(sql.query("erased_blocks")).fetchall()}
        if not blocks:
            return False
        for _ in range(_ROUNDS):
            self._writer.between(self._database.checkpoint)
            if not self._move(blocks):
                break
        self._writer.between(self._database.checkpoint)
        self._store(sql.query("delete_erased_blocks"), blocks)
        return True

    @staticmethod
    def _selects() -> Iterator[tuple[str, str]]:
        for table in _TABLES:
            yield table, sql.query("rows_of_traces").replace("$table", table)
        yield "reading", sql.query("rows_of_readings")

    def _move(self, blocks: set[int]) -> int:
        """Write the row groups that are in these blocks elsewhere, one in each transaction; how many there were."""
        with self._database.cursor() as cursor:
            tables = [table for (table,) in cursor.execute(sql.query("tables"), {"catalog": CATALOG}).fetchall()]
            found = [(table, group) for table in tables for group in _groups(cursor, table) if group.blocks & blocks]
        for table, group in found:
            self._rewrite(table, group)
        return len(found)

    def _rewrite(self, table: str, group: _Group) -> None:
        """Write the rows of a row group elsewhere, in one transaction."""
        places = {"first": group.first, "last": group.last}
        statements = [
            text.replace("$table", f'"{table}"') for text in (sql.query("copy_rows"), sql.query("delete_rows"))
        ]
        self._writer.store(partial(_run, statements=statements, places=places), 1)

    def _store(self, statement: str, blocks: Iterable[int]) -> None:
        table = pa.table({"block_id": pa.array(sorted(blocks), pa.int64())})

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            cursor.register("incoming_blocks", table)
            cursor.execute(statement)

        if table.num_rows:
            self._writer.store(write, table.num_rows)


def _run(cursor: duckdb.DuckDBPyConnection, statements: Sequence[str], places: Mapping[str, int]) -> None:
    for statement in statements:
        cursor.execute(statement, places)


def _joined(groups: Sequence[_Group]) -> _Group:
    """The last groups of a table as one, with what came since they were looked up."""
    return _Group(groups[0].first, _FAR, frozenset().union(*(group.blocks for group in groups)))


def _groups(cursor: duckdb.DuckDBPyConnection, table: str) -> list[_Group]:
    groups, first = [], 0
    for rows, blocks in cursor.execute(sql.query("row_groups"), {"table": f'{CATALOG}."{table}"'}).fetchall():
        groups.append(_Group(first, first + rows - 1, frozenset(block for block in blocks or () if block >= 0)))
        first += rows
    return groups


def _forget_set_aside(directory: Path, trace_ids: set[str]) -> None:
    """Delete rows of these traces that DuckDB could not take."""
    for path in directory.glob("*.arrow") if directory.is_dir() else ():
        with pa.OSFile(str(path)) as file:
            rows = pa.ipc.open_stream(file).read_all()
        if trace_ids.intersection(rows.column("trace_id").to_pylist()):
            path.unlink()
            log.info("deleted %s, because its trace was", path)
