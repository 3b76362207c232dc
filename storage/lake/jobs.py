"""Jobs over the lake, in processes without the data directory: traces that moved, and the results about them.

A job takes traces in the order of their first part, by its number. The commit that adds results carries Delta's
application transaction: the id of the job, and the number up to which all traces are judged. So the position is as
durable as the results. A second one has the time of the commit, so that of two drivers of one job one fails.
"""

import datetime as dt
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self, TypeVar

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.database import Database, DatabaseOptions
from storage.engine.read_database import ReadDatabase
from storage.errors import Reopened, Unpublished
from storage.ingest.windows import Windows
from storage.lake.deltas import GREATEST, Bounds, DeltaTables, scan
from storage.lake.publishing import PARQUET, reaching
from storage.lake.reading import LakeReader
from storage.lake.scope import LakeScope
from storage.lake.tables import BY_NAME, DIRECTORY, JOB_RESULTS, delta_rows

_TRIES: Final = 5  # of a commit beside other writers, and of reading files that are merged meanwhile; a guess
_REMOVED_AT_ONCE: Final = 1_000  # numbers in one predicate; a guess
_MEMORY: Final = "512MB"
_SAME: Final = (
    "t.job = s.job AND t.tenant = s.tenant AND t.trace_id = s.trace_id"
    " AND coalesce(t.span_id, '') = coalesce(s.span_id, '')"
)

_Read = TypeVar("_Read")


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
                    boundary = {"directory_id": directory_id, "day": day, "first_batch": first_batch, "moved": None}
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
        return self._repeated(lambda cursor: arrow_table(cursor, sql.query("traces_to_judge"), bounds))

    def spans(self, traces: pa.Table, statement: str) -> list[dict[str, Any]]:
        """Return what a statement selects of the spans of some traces, by column."""

        def read(cursor: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
            cursor.register("wanted_traces", traces)
            cursor.execute(statement)
            return sql.dict_rows(cursor)

        return self._repeated(read)

    def _repeated(self, read: Callable[[duckdb.DuckDBPyConnection], _Read]) -> _Read:
        for attempt in range(1, _TRIES + 1):
            try:
                with self.rows.snapshot() as cursor:
                    return read(cursor)
            except Reopened:
                if attempt == _TRIES:
                    raise
        raise AssertionError


class JobResults:
    """The results of one job in the lake. For one thread."""

    def __init__(self, uri: str, scope: LakeScope, job: str) -> None:
        self._deltas = DeltaTables(uri)
        self._directory_id, self._job = scope.directory_id, job
        self._commit = f"{job}.commit"
        self._latest: int | None = None
        self._names = sorted({scope.directory_id, *(name for name, *_ in scope.boundaries)})

    def _load(self, name: str = JOB_RESULTS) -> DeltaTable:
        with reaching(self._deltas.uri):
            delta = self._deltas.load(name)
        if delta is None:
            raise Unpublished(
                f"{self._deltas.uri}/{name} does not exist; the server makes it when it publishes: start it"
            )
        return delta

    def begin(self) -> int:
        """Return the number up to which all traces are judged. Another process that has begun cannot publish later.

        Raises:
            Unpublished: the lake cannot be read now; so do the other methods if it cannot be written.
        """
        delta = self._load()
        self._latest = delta.transaction_version(self._commit)
        return delta.transaction_version(self._job) or 0

    def judged_after(self, position: int) -> frozenset[tuple[str, str, str | None]]:
        """Return tenant, trace and span of the results about traces after a position, which was under way."""
        where = {"job": (self._job, self._job), "write_number": (position + 1, GREATEST)}
        rows = self._scan(JOB_RESULTS, ["tenant", "trace_id", "span_id"], where).to_pylist()
        return frozenset((row["tenant"], row["trace_id"], row["span_id"]) for row in rows)

    def failed(self) -> list[tuple[str, str, str | None]]:
        """Return tenant, trace and span of the targets whose evaluation failed, the one that waits longest first."""
        where = {"job": (self._job, self._job), "outcome": ("failed", "failed")}
        rows = self._scan(JOB_RESULTS, ["tenant", "trace_id", "span_id", "created_at"], where).sort_by("created_at")
        return [(row["tenant"], row["trace_id"], row["span_id"]) for row in rows.to_pylist()]

    def publish(self, rows: pa.Table, last: int, now_us: int, *, replaces: bool = False) -> None:
        """Publish results about all that is left of traces up to a number, and perhaps about some later targets.

        The time tells commits apart. With `replaces`, publish them in place of the targets' earlier results.

        Raises:
            Unpublished: another process runs this job.
        """
        today = dt.datetime.now(dt.UTC).date()
        done = [Transaction(self._job, last), Transaction(self._commit, now_us)]
        table = delta_rows(BY_NAME[JOB_RESULTS], rows, directory_id=self._directory_id, today=today)
        for attempt in range(1, _TRIES + 1):
            delta = self._load()
            latest = delta.transaction_version(self._commit)
            if latest == now_us:  # by an attempt that seemed to fail
                break
            if latest != self._latest:
                raise Unpublished(f"another process runs the job {self._job}; wait until it has ended")
            try:
                with reaching(self._deltas.uri):
                    properties = CommitProperties(app_transactions=done)
                    if replaces:
                        merge = delta.merge(
                            table, _SAME, "s", "t", writer_properties=PARQUET, commit_properties=properties
                        )
                        merge.when_matched_update_all().execute()
                    else:
                        write_deltalake(
                            delta,
                            table,
                            mode="append",
                            schema_mode="merge",
                            writer_properties=PARQUET,
                            commit_properties=properties,
                        )
            except Unpublished as error:
                self._deltas.forget(JOB_RESULTS)
                if attempt == _TRIES or not isinstance(error.__cause__, CommitFailedError):
                    raise
            else:
                break
        self._latest = now_us

    def forget_removed(self, numbers: pa.ChunkedArray | None = None) -> int:
        """Remove results with these numbers, or any, about traces that left the lake meanwhile; return how many traces.

        What removes a trace takes its parts first and then results, so one of both finds results that come meanwhile.
        """
        if numbers is None:
            where = {"job": (self._job, self._job), DIRECTORY: (self._directory_id, self._directory_id)}
            numbers = self._scan(JOB_RESULTS, ["write_number"], where).column("write_number")
        if not len(numbers):
            return 0
        bounds = pc.min_max(numbers).as_py()
        # Not the view, which lacks traces that went on in the database.
        parts = self._scan("trace_part", ["write_number", DIRECTORY], {"write_number": (bounds["min"], bounds["max"])})
        is_read = pc.is_in(parts.column(DIRECTORY).cast(pa.string()), value_set=pa.array(self._names))
        present = parts.filter(is_read).column("write_number").combine_chunks()
        gone = numbers.filter(pc.invert(pc.is_in(numbers, value_set=present))).unique()
        for begin in range(0, len(gone), _REMOVED_AT_ONCE):
            some = ", ".join(map(str, gone[begin : begin + _REMOVED_AT_ONCE].to_pylist()))
            with reaching(self._deltas.uri):
                self._load().delete(f"job = '{self._job}' AND write_number IN ({some})")
        return len(gone)

    def _scan(self, name: str, columns: Sequence[str], where: Bounds) -> pa.Table:
        with reaching(self._deltas.uri):
            return scan(self._load(name), columns, where=where).read_all()
