"""Removal of rows from the lake, by number, because Delta's log keeps the predicate of each removal."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from numpy.typing import NDArray

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.database import Database
from storage.lake.boundary import NOTHING, Boundary
from storage.lake.deltas import GREATEST, Bounds, scan
from storage.lake.publishing import PARQUET, Lake, reaching
from storage.lake.tables import BY_NAME, DIRECTORY, LAKE_TABLES, LakeTable

_TRIES: Final = 5  # of a commit while others write, too; a guess
_AT_ONCE: Final = 500_000
"""Rows that one commit removes. A guess: 4 MB of numbers."""

_OF_SPANS: Final = ("span", "decision", "evaluation")
_OF_TRACES: Final = ("trace_reading", "tool_call")
_KEYS: Final = ("tenant", "trace_id", "write_number")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """State of the lake after `remove_stale`, which the deletion of moved rows relies on.

    Up to the `numbers` of each table that moves, the lake has exactly the database's rows of the traces that are to
    move. That does not hold for traces that were `pinned` at that time.
    """

    numbers: Mapping[str, int]
    pinned: frozenset[tuple[str, str]]


class Removal:
    """Removal of rows from the lake. For the thread of the lake."""

    def __init__(self, lake: Lake, database: Database) -> None:
        self._lake, self._database = lake, database

    def remove_stale(self, before: Mapping[str, Boundary], boundary: Boundary) -> Compared:
        """Remove rows of the lake that the database no longer has: earlier versions of rows, and expired traces.

        Only traces between the boundaries so far, `before` by directory id, and the new one are compared.

        Raises:
            Unpublished: the lake cannot be written now.
        """
        with self._lake.lock, reaching(self._lake.uri):
            deltas = {table.name: self._lake.load(table) for table in LAKE_TABLES}
            moving = [table for table in LAKE_TABLES if table.moves]
            numbers = {table.name: self._lake.own_position(table, deltas[table.name]) for table in moving}
            with self._database.cursor() as cursor:
                pinned = frozenset(cursor.execute(sql.query("pinned_ids")).fetchall())
            own = self._lake.directory_id
            self._remove_stale(deltas, own, before.get(own, NOTHING), boundary, is_own=True)
            for name, earlier in before.items():  # a restored directory has a new id, under which its traces move again
                if name != own:
                    self._remove_stale(deltas, name, earlier, earlier, is_own=False)
        return Compared(numbers=numbers, pinned=pinned)

    def remove(self, table: LakeTable, delta: DeltaTable, directory_id: str, numbers: NDArray[np.int64]) -> None:
        """Remove the rows with these numbers that the directory `directory_id` published."""
        numbers = np.sort(numbers)
        for begin in range(0, len(numbers), _AT_ONCE):
            some = numbers[begin : begin + _AT_ONCE]
            within = f"t.{table.number} BETWEEN {some[0]} AND {some[-1]}"
            predicate = f"t.directory_id = '{directory_id}' AND {within} AND t.{table.number} = s.number"
            source = pa.table({"number": some})
            merge = partial(delta.merge, source, predicate, "s", "t", writer_properties=PARQUET, streamed_exec=False)
            committed(delta, lambda merge=merge: merge().when_matched_delete().execute())  # type: ignore[misc] # in this turn

    def _remove_stale(
        self, deltas: Mapping[str, DeltaTable], name: str, before: Boundary, boundary: Boundary, *, is_own: bool
    ) -> None:
        of_name = (name, name)
        new = {DIRECTORY: of_name, "batch": (before.first_batch, boundary.first_batch - 1)}

        def parts() -> pa.RecordBatchReader:
            return scan(deltas["trace_part"], _KEYS, where=new)

        def stale(
            table: str, statement: str, columns: Sequence[str], where: Bounds, parameters: Mapping[str, int]
        ) -> None:
            delta, about = deltas[table], BY_NAME[table]
            with self._database.cursor() as cursor:
                cursor.register("lake_rows", scan(delta, columns, where={DIRECTORY: of_name, **where}))
                cursor.register("lake_parts", parts())
                numbers = arrow_table(cursor, about.about(statement), parameters).column("number")
            self.remove(about, delta, name, np.unique(numbers.to_numpy().astype(np.int64)))

        with self._database.cursor() as cursor:
            cursor.register("lake_parts", parts())
            first = {"first_batch": boundary.first_batch}
            ((least_seq, least_number),) = cursor.execute(sql.query("least_to_move"), first).fetchall()
        least_seq = min(before.first_seq, boundary.first_seq if least_seq is None else least_seq)
        for table in _OF_SPANS if least_seq < boundary.first_seq else ():
            bounds = {"seq": (least_seq, boundary.first_seq - 1)}
            seqs = {"from_seq": before.first_seq, "first_seq": boundary.first_seq, "all": not is_own} | first
            stale(table, sql.query("stale_of_spans"), ("seq", BY_NAME[table].number), bounds, seqs)
        if least_number is not None:
            for table in _OF_TRACES if is_own else (*_OF_TRACES, "log_record", "trace_part"):
                later = {"write_number": (least_number, GREATEST)}
                stale(table, sql.query("stale_of_traces"), _KEYS, later, first | {"all": not is_own})
        if is_own and before.first_batch < boundary.first_batch:
            for table in ("log_record", "trace_part"):  # parts last, as rows of expired traces are found by them
                stale(table, sql.query("stale_of_commits"), ("batch", "write_number"), {"batch": new["batch"]}, first)


def committed(delta: DeltaTable, act: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Repeat a commit that Delta refuses because another commit changed the data that it had read.

    Raises:
        CommitFailedError: Delta refused all attempts.
    """
    for attempt in range(1, _TRIES + 1):
        try:
            return act()
        except CommitFailedError:
            if attempt == _TRIES:
                raise
            delta.update_incremental()
    raise AssertionError
