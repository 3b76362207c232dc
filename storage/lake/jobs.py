"""Jobs over the lake, in processes without the data directory: traces that moved, and the results about them.

A job takes traces in the order of their first part, by its number. The commit that adds results carries Delta's
application transaction: the id of the job, and the number up to which all traces are judged. So the position is as
durable as the results, and of two drivers of one job one fails, as for publication.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.database import Database, DatabaseOptions
from storage.engine.read_database import ReadDatabase
from storage.errors import Reopened, Unpublished
from storage.ingest.windows import Windows
from storage.lake.deltas import DeltaTables, scan
from storage.lake.publishing import PARQUET, reaching
from storage.lake.reading import LakeReader
from storage.lake.scope import LakeScope
from storage.lake.tables import BY_NAME, DIRECTORY, JOB_RESULTS, delta_rows

_TRIES: Final = 5  # of a commit beside other writers, and of reading files that are merged meanwhile; a guess
_REMOVED_AT_ONCE: Final = 1_000  # numbers in one predicate; a guess
_MEMORY: Final = "512MB"


class LakeSnapshot:
    """The traces that had moved to a lake at one moment, read by an empty database beside it. Close it after use."""

    def __init__(self, uri: str, endpoint: str | None, scope: LakeScope) -> None:
        """Open a database in a temporary directory, which `close` removes.

        Raises:
            Unusable: the lake is in an object store, and the extension that reads those is not installed.
        """
        with ExitStack() as undo:
            folder = Path(undo.enter_context(TemporaryDirectory(prefix="tracejury-lake-")))
            self._reader = LakeReader(uri, endpoint)
            options = DatabaseOptions(memory_limit=_MEMORY, attach=self._reader.attach)
            database = Database(folder, options)
            undo.callback(database.close)
            left_out = list(zip(*scope.left_out, strict=True)) or [(), (), ()]
            with database.transaction() as cursor:
                for directory_id, day, first_batch, first_seq in scope.boundaries:
                    boundary = {"directory_id": directory_id, "day": day, "first_batch": first_batch}
                    cursor.execute(sql.query("put_lake_boundary"), {**boundary, "first_seq": first_seq})
                traces = pa.table([*map(pa.array, left_out)], names=["tenant", "trace_id", "last_write"])
                cursor.register("traces_left_out", traces)
                cursor.execute(sql.query("leave_out_traces"))
                for number in scope.editions:
                    cursor.execute(sql.query("insert_edition"), {"edition": number, "digest": scope.edition})
            self.rows = ReadDatabase(database, self._reader, all_threads=False)
            self.windows = Windows(self.rows, scope.edition)
            self._undo = undo.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the database."""
        self._undo.close()

    def traces(self, *, from_ns: int, to_ns: int, tenant: str | None, after: int) -> pa.Table:
        """Return the traces with parts between two instants whose first one has a number after `after`, in order."""
        bounds = {"from_ns": from_ns, "to_ns": to_ns, "tenant": tenant, "after": after}
        return self._table(sql.query("traces_to_judge"), bounds)

    def spans(self, traces: pa.Table, statement: str) -> list[dict[str, Any]]:
        """Return what a statement selects of the spans of some traces, by column."""
        for attempt in range(1, _TRIES + 1):
            try:
                with self.rows.snapshot() as cursor:
                    cursor.register("wanted_traces", traces)
                    cursor.execute(statement)
                    return sql.dict_rows(cursor)
            except Reopened:
                if attempt == _TRIES:
                    raise
        raise AssertionError

    def present(self, first: int, last: int) -> pa.ChunkedArray:
        """Return the numbers of the parts that the lake has now, between two numbers."""
        self._reader.files.forget()
        return self._table(sql.query("numbers_of_parts"), {"first": first, "last": last}).column("write_number")

    def _table(self, statement: str, parameters: Mapping[str, object]) -> pa.Table:
        for attempt in range(1, _TRIES + 1):
            try:
                with self.rows.cursor() as cursor:
                    return arrow_table(cursor, statement, parameters)
            except Reopened:
                if attempt == _TRIES:
                    raise
        raise AssertionError


class JobResults:
    """The results of one job in the lake. For one thread."""

    def __init__(self, uri: str, directory_id: str, job: str) -> None:
        self._deltas = DeltaTables(uri)
        self._directory_id, self._job = directory_id, job

    def _load(self) -> DeltaTable:
        with reaching(self._deltas.uri):
            delta = self._deltas.load(JOB_RESULTS)
        if delta is None:
            raise Unpublished(
                f"{self._deltas.uri}/{JOB_RESULTS} does not exist; the server makes it when it publishes: start it"
            )
        return delta

    @property
    def position(self) -> int:
        """Return the number up to which all traces are judged.

        Raises:
            Unpublished: the lake cannot be read now; so do the other methods if it cannot be written.
        """
        return self._load().transaction_version(self._job) or 0

    def publish(self, rows: pa.Table, after: int, last: int) -> None:
        """Publish the results about all traces after a number and up to another one.

        Raises:
            Unpublished: another process runs this job.
        """
        today = dt.datetime.now(dt.UTC).date()
        table = delta_rows(BY_NAME[JOB_RESULTS], rows, directory_id=self._directory_id, today=today)
        for attempt in range(1, _TRIES + 1):
            delta = self._load()
            if (position := delta.transaction_version(self._job) or 0) == last:
                return  # by an attempt that seemed to fail
            if position != after:
                raise Unpublished(f"another process runs the job {self._job}; wait until it has ended")
            try:
                with reaching(self._deltas.uri):
                    write_deltalake(
                        delta,
                        table,
                        mode="append",
                        schema_mode="merge",
                        writer_properties=PARQUET,
                        commit_properties=CommitProperties(app_transactions=[Transaction(self._job, last)]),
                    )
            except Unpublished as error:
                self._deltas.forget(JOB_RESULTS)
                if attempt == _TRIES or not isinstance(error.__cause__, CommitFailedError):
                    raise
            else:
                return

    def forget_removed(self, snapshot: LakeSnapshot, numbers: Sequence[int] | None = None) -> int:
        """Remove results with these numbers, or any, about traces that left the lake meanwhile; return how many traces.

        What removes a trace takes its parts first and then results, so one of both finds results that come meanwhile.
        """
        if numbers is None:
            where = {"job": (self._job, self._job), DIRECTORY: (self._directory_id, self._directory_id)}
            with reaching(self._deltas.uri):
                numbers = scan(self._load(), ["write_number"], where=where).read_all().column(0).to_pylist()
        if not numbers:
            return 0
        present = snapshot.present(min(numbers), max(numbers))
        gone = np.setdiff1d(np.array(numbers), present.to_numpy())
        for begin in range(0, len(gone), _REMOVED_AT_ONCE):
            some = ", ".join(map(str, gone[begin : begin + _REMOVED_AT_ONCE].tolist()))
            with reaching(self._deltas.uri):
                self._load().delete(f"job = '{self._job}' AND write_number IN ({some})")
        return len(gone)
