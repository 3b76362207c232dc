"""Removal of whole traces from the lake: traces that clients deleted, and traces that expired in the lake."""

import datetime as dt
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from numpy.typing import NDArray

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.database import Database
from storage.ingest.writer import Writer
from storage.lake.boundary import NOTHING, Boundaries
from storage.lake.cold_files import of_commits
from storage.lake.deltas import GREATEST, Bounds, DeltaTables, scan
from storage.lake.publishing import Lake, reaching
from storage.lake.removing import Removal
from storage.lake.tables import BY_NAME, DIRECTORY, JOB_RESULTS, LAKE_TABLES
from storage.upkeep.erasure import Erasure

_BY_SPAN: Final = ("decision", "evaluation")
_BY_TRACE: Final = ("evaluation", "log_record", "trace_reading", "tool_call", "review_entry", "span", "trace_part")
"""Tables whose rows are found by the numbers of spans, and by traces. Those from which others are found come last, so
that an interrupted removal can go on."""

_BEGUN_AGAIN: Final = ("evaluation", "log_record", "trace_reading", "tool_call", "span", "trace_part")
"""Tables of which a deletion leaves rows here only if they came after it had looked for them."""

_PERSON: Final = ("session_id", "user_id")
_EQUAL: Final = ("tenant", "trace_id", *_PERSON)
_NO_TRACES: Final = pa.table({"trace_id": pa.array([], pa.string())})
_EVER, _NEVER = dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(9999, 1, 1, tzinfo=dt.UTC)
_TRACES_AT_ONCE: Final = 200_000  # whose numbers are in memory: a guess, some 100 MB with ten spans and decisions each
_EXTENT: Final = ("tenant", "trace_id", "batch", "start_time", "last_start_time", "end_time")
_PART: Final = (*_EXTENT[:4], "root_start_time", "root_project", "first_project", "span_count")


class LakeErasure:
    """Removal of traces from the lake, and the search for traces that a deletion selects."""

    def __init__(
        self,
        lake: Lake,
        removal: Removal,
        boundaries: Boundaries,
        database: Database,
        writer: Writer,
        erasure: Erasure,
    ) -> None:
        self._erasure = erasure
        self._lake, self._removal, self._boundaries = lake, removal, boundaries
        self._database, self._writer = database, writer

    def find(self, criteria: Mapping[str, object], *, until_batch: int = GREATEST) -> pa.Table:
        """Return traces in the lake of commits up to `until_batch` that match all criteria, with bounds of their parts.

        Raises:
            Unpublished: the lake cannot be read now.
        """
        deltas = DeltaTables(self._lake.uri)  # not the lake's own, which its thread may be using
        equal = {name: (value, value) for name, value in criteria.items() if name in _EQUAL and value is not None}
        person = {name: equal.pop(name) for name in _PERSON if name in equal}
        parameters = {"project": criteria["project"], "before_ns": criteria["before_ns"], "of_person": bool(person)}
        parameters["until_batch"] = until_batch
        names = self._names()
        with reaching(self._lake.uri):
            naming = ("span", "trace_reading") if person else ()
            tables = [self._lake.load(BY_NAME[table], deltas) for table in naming]
            parts = _scan(self._lake.load(BY_NAME["trace_part"], deltas), _PART, names, equal)
            named = [_scan(delta, ("trace_id",), names, equal | person) for delta in tables]
            with self._database.cursor() as cursor:
                cursor.register("lake_parts", parts)
                cursor.register("lake_named", pa.concat_tables([_NO_TRACES, *(reader.read_all() for reader in named)]))
                return arrow_table(cursor, sql.query("traces_in_lake"), parameters)

    def erase(self) -> None:
        """Remove the traces that deletions noted for removal from the lake, and all files with earlier row versions.

        Raises:
            Unpublished: the lake cannot be written now; some traces may have been removed.
            Overloaded: the database cannot be written now.
        """
        with self._lake.lock:
            self.remove_requested()
            with reaching(self._lake.uri):
                for table in LAKE_TABLES:
                    self._lake.load(table).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    def remove_requested(self) -> None:
        """Remove the traces that deletions noted for removal from the lake.

        Raises:
            Unpublished, Overloaded: as `erase`.
        """
        with self._lake.lock, reaching(self._lake.uri):
            with self._database.cursor() as cursor:
                traces = arrow_table(cursor, sql.query("lake_removals"))
            if traces.num_rows:
                self._remove(traces)
                last = {"last": pc.max(traces.column("last_write")).as_py()}
                self._writer.store(lambda cursor: cursor.execute(sql.query("end_lake_removals"), last), 1, frees=True)

    def expire(self, now: dt.datetime) -> int:
        """Remove the traces that have expired in the lake; return how many.

        Raises:
            Unpublished, Overloaded: as `erase`.
        """
        with self._lake.lock, reaching(self._lake.uri):
            delta = self._lake.load(BY_NAME["trace_part"])
            first_batch = max((boundary.first_batch for boundary in self._boundaries.all().values()), default=0)
            moved: Bounds = {"batch": (0, first_batch - 1)}
            keys = ("tenant", "trace_id", "batch")
            expired: Bounds = {**moved, "expires_at": (_EVER, now)}
            alive: Bounds = {"expires_at": (now + dt.timedelta(microseconds=1), _NEVER)}
            with self._database.cursor() as cursor:
                cursor.register("lake_parts", _scan(delta, keys, self._names(), expired))
                cursor.register("lake_alive", _scan(delta, keys, self._names(), alive))
                traces = arrow_table(cursor, sql.query("expired_in_lake"))
            # First here: if the removal is interrupted, the rest in the lake is found again.
            self._erasure.forget_moved(traces)
            greatest = pa.repeat(pa.scalar(GREATEST), traces.num_rows)
            self._remove(traces.append_column("last_write", greatest).append_column("last_result", greatest))
            return int(traces.num_rows)

    def remove_orphans(self) -> None:
        """Remove results of jobs whose trace has left, such as those of a driver that died before it looked for that.

        Raises:
            Unpublished: as `erase`.
        """
        with self._lake.lock, reaching(self._lake.uri):
            results = self._lake.load(BY_NAME[JOB_RESULTS])  # before the parts, which come before their results
            if not results.file_uris():
                return
            parts, numbers = self._lake.load(BY_NAME["trace_part"]), ("write_number",)
            for name in self._names():
                with self._database.cursor() as cursor:
                    cursor.register("lake_rows", scan(results, numbers, where={DIRECTORY: (name, name)}))
                    cursor.register("lake_parts", _scan(parts, numbers, self._names(), {}))
                    orphans = arrow_table(cursor, sql.query("orphaned_results"))
                self._removal.remove(BY_NAME[JOB_RESULTS], results, name, _numbers(orphans))

    def _remove(self, traces: pa.Table) -> None:
        in_order = traces.sort_by("first_batch")
        for begin in range(0, traces.num_rows, _TRACES_AT_ONCE):
            some = in_order.slice(begin, _TRACES_AT_ONCE)
            for name in self._names():
                self._remove_some(name, some)

    def _remove_some(self, name: str, traces: pa.Table) -> None:
        # A trace may have parts that its removal does not know: it moved, began again, and was deleted then.
        with self._database.cursor() as cursor:
            parts = scan(self._lake.load(BY_NAME["trace_part"]), _EXTENT, where={DIRECTORY: (name, name)})
            cursor.register("lake_parts", parts)
            cursor.register("lake_traces", traces)
            ((first, last, first_ns, last_ns),) = cursor.execute(sql.query("extent_in_lake")).fetchall()
        noted = pc.min(traces.column("first_batch")).as_py(), pc.max(traces.column("last_batch")).as_py()
        batches = noted if first is None else (min(first, noted[0]), max(last, noted[1]))
        times: Bounds = {} if first is None else {"start_time": (first_ns, last_ns)}
        commits: Bounds = {"batch": batches}
        spans = self._rows("span", name, commits, traces)
        self._remove_results(name, spans)
        seqs: Bounds = {"seq": of_commits(*batches)}
        within_of = {"evaluation": seqs, "trace_part": commits, "trace_reading": times, "tool_call": times}
        for table in (*_BY_TRACE, JOB_RESULTS):  # last: a job that publishes meanwhile looks for the parts afterwards
            rows = spans if table == "span" else self._rows(table, name, within_of.get(table, {}), traces)
            self._removal.remove(BY_NAME[table], self._lake.load(BY_NAME[table]), name, _numbers(rows))

    def _remove_results(self, name: str, spans: pa.Table) -> None:
        """Remove what is known about spans, here too; results are few here, since those of before a move are there."""
        if not spans.num_rows:
            return
        bounds = pc.min_max(spans.column("seq")).as_py()
        with self._database.cursor() as cursor:
            cursor.register("lake_spans", spans)
            moved = {"first_seq": self._boundaries.all().get(name, NOTHING).first_seq}
            late = arrow_table(cursor, sql.query("late_results"), moved)
        if late.num_rows:
            self._erasure.forget_results(late)
        for table in _BY_SPAN:
            about = BY_NAME[table]
            delta = self._lake.load(about)
            where = {DIRECTORY: (name, name), "seq": (bounds["min"], bounds["max"])}
            with self._database.cursor() as cursor:
                cursor.register("lake_rows", scan(delta, ("seq", about.number), where=where))
                cursor.register("lake_spans", spans)
                rows = arrow_table(cursor, about.about(sql.query("results_to_remove")))
            self._removal.remove(about, delta, name, _numbers(rows))

    def _rows(self, table: str, name: str, within: Bounds, traces: pa.Table) -> pa.Table:
        about, seq = BY_NAME[table], "seq" if table == "span" else "NULL::BIGINT"
        columns = ("tenant", "trace_id", about.number, *(("seq",) if table == "span" else ()))
        with self._database.cursor() as cursor:
            rows = scan(self._lake.load(about), columns, where={DIRECTORY: (name, name), **within})
            cursor.register("lake_rows", rows)
            cursor.register("lake_traces", traces)
            last = "last_result" if table == "evaluation" else "last_write"
            statement = about.about(sql.query("rows_to_remove")).replace("$seq", seq).replace("$last", last)
            return arrow_table(cursor, statement, {"stays": table in _BEGUN_AGAIN})

    def _names(self) -> set[str]:
        return {self._lake.directory_id, *self._boundaries.all()}


def _scan(delta: DeltaTable, columns: Sequence[str], names: Iterable[str], where: Bounds) -> pa.RecordBatchReader:
    readers = [scan(delta, columns, where={DIRECTORY: (name, name), **where}) for name in names]
    return pa.RecordBatchReader.from_batches(readers[0].schema, itertools.chain.from_iterable(readers))


def _numbers(rows: pa.Table) -> NDArray[np.int64]:
    return np.unique(rows.column("number").to_numpy().astype(np.int64))
