"""The one thread that writes spans and log records to DuckDB."""

import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage import sql
from storage.engine.database import ROW_GROUP_ROWS, Database
from storage.errors import Busy, Damaged, Overloaded, Reopened, Unusable
from storage.ingest import presence
from storage.ingest.backlog import MAX_COMMIT_ROWS, SEQ_BITS, VALUE_ERRORS, Backlog, Chunk, WriteTask, wait_for
from storage.ingest.batch import SpanBatch
from storage.ingest.dimensions import spelled_out
from storage.ingest.known_spans import KnownSpans
from storage.ingest.known_times import with_known_times
from storage.ingest.logs import new_logs
from storage.ingest.meaning import NobodyReads, Reads
from storage.ingest.shares import Shares
from storage.ingest.span_rows import SpanRows
from storage.ingest.spool import Position, SpoolGroup
from storage.ingest.state import Totals, newest_receipt_us, read_state
from storage.ingest.windows import TraceKey, counts_of
from storage.work import ThreadWork

log = logging.getLogger(__name__)

_MOST_ROWS = 2 * MAX_COMMIT_ROWS  # spans and log records

_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.1, 5.0

_REFUSALS = (
    *VALUE_ERRORS,
    pa.ArrowException,
    ValueError,
)
"""Errors for rows that can never be stored. They are raised before DuckDB gets the rows, or by DuckDB."""

_INVALID = (duckdb.FatalException, duckdb.InternalException, duckdb.ConnectionException, Reopened)
"""Errors after which the database may have to be opened again."""

_LEAST_FREE_BYTES = 512 << 10
"""With less free disk space no commit is tried, because one that fails on a nearly full disk may leave the database
invalid. With more, a commit that does not fit fails without harm. A guess: the smallest one takes some kilobytes."""

_BUSY_TRIES, _BUSY_PAUSE_S = 40, 0.25
"""`between` repeats an action this often, with this pause, until no reader holds an older snapshot. After that it gives
up, because a query may run for longer. A guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """Settings of commits."""

    commit_interval_s: float = 0.3
    gathered_bytes: int = 16 << 20
    """If more bytes are durable and not committed, spans wait no longer than the interval."""
    retention_days: int = 30
    project_retention_days: Mapping[str, int] = field(default_factory=dict)
    reads: Reads = field(default_factory=NobodyReads)
    """Reads the meaning of spans, in the writer's thread."""
    watch: Callable[[SpanBatch, int, int], None] | None = None
    """Receives each commit: its batch, its start (ns), its number of new rows. It must neither wait nor raise."""
    refresh_rows: int = 256 * ROW_GROUP_ROWS
    """The file is opened again after this many rows, since DuckDB keeps some 80 kB of each row group that it wrote.
    Opening takes 35 to 110 ms with 10 million spans stored."""


class Writer:
    """Commits spooled groups in order, each span and each log record once.

    A commit holds whole row groups when there are enough rows, and whatever there is after the commit
    interval, or after three of them while spans keep coming. The spool position is part of every
    commit, so after a crash the spool is read from exactly the committed position. A commit that fails
    is tried again until it succeeds; rows that DuckDB can never take are written to a file beside the
    spool instead of blocking all others.
    """

    def __init__(
        self,
        database: Database,
        options: WriterOptions,
        *,
        shares: Shares,
        released: Callable[[int], None],
        committed: Callable[[Mapping[TraceKey, int], int], None],
        set_aside: Path,
    ) -> None:
        self._database = database
        self._options = options
        self.shares = shares  # of senders, in bytes that wait for their commit
        self._released = released
        self._committed = committed
        self._set_aside = set_aside
        state = read_state(database)
        self._totals = state.totals
        self._backlog = Backlog(
            state.position, options.commit_interval_s, gathered_bytes=options.gathered_bytes, shares=shares
        )
        self._known = KnownSpans()
        self._rows = SpanRows(options.reads)
        self._retention = {
            "retention_days": options.retention_days,
            "projects": list(options.project_retention_days),
            "project_days": list(options.project_retention_days.values()),
        }
        self._newest_us = newest_receipt_us(database)
        self._stopping = threading.Event()
        self._rows_since_open = 0
        self._most_rows = _MOST_ROWS  # in the next commit; fewer during the bisection for a row that DuckDB refuses
        self._thread = threading.Thread(target=self._run, name="duckdb-writer", daemon=True)
        self.attempt = ThreadWork(self._thread)
        self.failing: str | None = None  # why commits fail at the moment
        self.edition = options.reads.edition  # of the conventions
        self.kept_free_bytes = 0  # with less free disk space, only spans and writes that free space are stored
        self.deletions = 0  # number of transactions that deleted spans on request; the writer's thread counts them

    @property
    def is_short_of_room(self) -> bool:
        """Return True while the disk has less room than is reserved for spans and their commits."""
        return self._database.room.free_bytes < self.kept_free_bytes

    @property
    def totals(self) -> Totals:
        """Return the totals as of the last commit."""
        return self._totals

    def start(self) -> None:
        """Read the latest keys back and start committing.

        Raises:
            Unusable: the database cannot be read.
        """
        try:
            self._remember_latest()
        except (duckdb.Error, Damaged) as error:
            raise Unusable(f"{self._database.path} cannot be read: {error}") from error
        self._thread.start()

    def enqueue(self, groups: list[SpoolGroup]) -> None:
        """Queue groups for commit, after all earlier ones; they are durable in the spool already."""
        self._backlog.add(groups)

    def ask(
        self, write: Callable[[duckdb.DuckDBPyConnection], object], rows: int, *, frees: bool = False
    ) -> "Future[None]":
        """Queue `write` to run in a transaction of its own, between commits of spans; it stores about `rows` rows.

        The future fails with the error of `write` or of the commit, and is cancelled if the writer stops first. While
        the disk is nearly full, it fails at once unless `frees` is set, because the rest of the disk is kept for spans.
        Set `frees` if `write` frees space, or must not wait.

        Raises:
            ReadOnly: the database is read-only.
        """
        self._database.require_writable()
        if self.is_short_of_room and not frees:
            refused: Future[None] = Future()
            refused.set_exception(Overloaded("the disk is nearly full; only spans are stored", retry_after_s=5))
            return refused
        return self._backlog.ask(partial(self._write, write, rows), rows)

    def store(self, write: Callable[[duckdb.DuckDBPyConnection], object], rows: int, *, frees: bool = False) -> None:
        """Run `write` as `ask` does, and wait until it is stored. Not for the writer's own thread.

        Raises:
            BadQuery: nothing was stored, because a column cannot hold a value.
            Overloaded: the database cannot be written now, or is being closed. The write may be stored all the same, if
                only the checkpoint after its commit failed.
        """
        wait_for(self.ask(write, rows, frees=frees))

    def between(self, act: Callable[[], None]) -> None:
        """Run `act` between two transactions and wait for it. Not for the writer's thread.

        If `act` raises Busy, because of a reader, it is repeated for some seconds.

        """
        for _ in range(_BUSY_TRIES):
            try:
                return self.once_between(act)
            except Busy:
                time.sleep(_BUSY_PAUSE_S)
        return self.once_between(act)

    def once_between(self, act: Callable[[], None]) -> None:
        """Run `act` between two transactions, once, and wait for it."""
        self._database.require_writable()
        wait_for(self._backlog.ask(act, 0))

    def wait_committed(self, timeout_s: float) -> bool:
        """Wait until nothing is left to commit; False when that took too long."""
        return self._backlog.wait_empty(timeout_s)

    def close(self, timeout_s: float) -> bool:
        """Commit what there is and stop; False when the deadline passed first (the spool still has the rest)."""
        self._backlog.close()
        self._thread.join(timeout_s)
        self._stopping.set()
        self._thread.join(1)
        return not self._thread.is_alive()

    def _run(self) -> None:
        for chunk in self._chunks():
            if not self._repeat(partial(self._try, chunk)):
                return
            del chunk  # the next one may be long in coming
            if not self._repeat(self._refresh):
                return

    def _repeat(self, attempt: Callable[[], bool]) -> bool:
        """Call `attempt` until it returns True; return False if the writer was stopped first.

        Meanwhile all write tasks fail.
        """
        pauses = _pauses()
        while not attempt():
            why = f"the database cannot be written ({self.failing})"
            self._backlog.refuse_write_tasks(Overloaded(why, retry_after_s=5))
            with self.attempt.paused():
                if self._stopping.wait(next(pauses)):
                    return False
        return True

    def _refresh(self) -> bool:
        """Open the file again if that is due and there are no readers; return False if it failed and is closed."""
        try:
            if self._rows_since_open >= self._options.refresh_rows and self._database.refresh():
                self._rows_since_open = 0
        except (duckdb.Error, Unusable, Reopened) as error:
            self._fail(error)
            return False
        return True

    def _chunks(self) -> Iterator[Chunk]:
        """Yield the commits to make; write tasks between them are run on the way."""
        while not self._stopping.is_set():
            with self.attempt.paused():
                work = self._backlog.next_work(self._most_rows)
            if work is None:
                return
            if isinstance(work, Chunk):
                yield work
            elif work.written.set_running_or_notify_cancel():
                self._run_write_task(work)
                self._rows_since_open += work.rows
            del work  # the next one may be long in coming

    def _write(self, write: Callable[[duckdb.DuckDBPyConnection], object], rows: int) -> None:
        self._before_writing(rows)
        with self._database.transaction() as cursor:
            write(cursor)
        self._database.shorten_log()

    def _before_writing(self, rows: int) -> None:
        if rows >= ROW_GROUP_ROWS or self._database.log_is_too_long():  # then DuckDB writes row groups into the file
            self._database.clear_buffers()

    def _run_write_task(self, write_task: WriteTask) -> None:
        try:
            try:
                write_task.run()
            except Reopened:  # another statement caused it: nothing was stored, and the task may succeed now
                write_task.run()
        except Exception as error:  # noqa: BLE001 - the caller gets it; the thread goes on
            self._mend(error)
            write_task.written.set_exception(error)
        else:
            write_task.written.set_result(None)

    def _remember_latest(self) -> None:
        with self._database.cursor() as cursor:
            self._known.read_back(cursor, self._totals.batch)
        with self._database.transaction() as cursor:
            self._rows.start(cursor)

    def _try(self, chunk: Chunk) -> bool:
        """Commit a chunk, or arrange that less is tried next; return False if the same should be tried again later.

        After an error of the disk the same chunk is tried again. After an error of its rows that would be useless: the
        row that DuckDB refuses is found by bisection, and parts that are committed meanwhile stay committed.
        """
        try:
            try:
                if self.failing is None or not self._was_committed(chunk):
                    self._commit(chunk.batch, chunk.after)
            except _REFUSALS as error:
                rows = chunk.batch.num_rows
                if rows > 1:
                    log.debug("DuckDB refuses a commit of %d rows; retrying with half of them: %s", rows, error)
                    self._most_rows = rows // 2
                    return True
                self._put_aside(chunk, error)
        except (duckdb.Error, OSError, Reopened, Damaged) as error:
            self._fail(error)
            return False
        if self.failing is not None:
            log.warning("commits succeed again")
            self.failing = None
        self._most_rows = min(2 * self._most_rows, _MOST_ROWS)
        self._rows_since_open += chunk.batch.spans.num_rows
        self._backlog.done(chunk)
        self._released(chunk.after.sequence)
        return True

    def _note_receipt(self, batch: SpanBatch) -> None:
        # Never lowered, so that a clock that was set back does not make later rows expire before earlier ones.
        if batch.spans.num_rows:
            latest_us = pc.max(batch.spans.column("received_at")).cast(pa.int64()).as_py()
            self._newest_us = max(latest_us, self._newest_us or latest_us)

    def _was_committed(self, chunk: Chunk) -> bool:
        """Return True if a commit that seemed to fail succeeded: only the checkpoint after it went wrong."""
        state = read_state(self._database)
        if state.position != chunk.after:
            return False
        self._known.add(presence.key_hashes(chunk.batch.spans), state.totals.batch)
        self._rows.note(chunk.batch.logs, state.totals.batch)
        self._totals = state.totals
        self._note_receipt(chunk.batch)
        self._committed(counts_of(chunk.batch.logs) | counts_of(chunk.batch.spans), state.totals.batch)
        return True

    def _fail(self, error: Exception) -> None:
        if self.failing is None:
            log.error("a commit failed; will retry, new spans wait in the spool: %s", error)
        self.failing = str(error)
        self._mend(error)

    def _mend(self, error: Exception) -> None:
        if isinstance(error, _INVALID) or "invalidated" in str(error):
            with suppress(Reopened):  # `reopen` has logged the failure, and the next attempt calls it again
                self._database.reopen()

    def _put_aside(self, chunk: Chunk, error: Exception) -> None:
        """Write a row that DuckDB refuses to a file, and count it; a repeated call overwrites the same file."""
        batch = chunk.batch
        row = batch.spans if batch.spans.num_rows else batch.logs
        self._set_aside.mkdir(parents=True, exist_ok=True)
        path = self._set_aside / f"{chunk.after.sequence:020d}-{chunk.after.rows:06d}.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, row.schema) as writer:
            writer.write_table(row)
        nothing = SpanBatch(spans=batch.spans[:0], resources=batch.resources[:0], scopes=batch.scopes[:0])
        self._commit(nothing, chunk.after, set_aside=row.num_rows)
        log.error("wrote a row that DuckDB refuses to %s: %s", path, error)

    def _commit(self, batch: SpanBatch, after: Position, *, set_aside: int = 0) -> None:
        began_ns = time.time_ns()
        number = self._totals.batch + 1
        if self._database.room.free_bytes < _LEAST_FREE_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._before_writing(batch.num_rows)
        with self._database.transaction() as cursor:
            spans, hashes = self._known.new_of(cursor, with_known_times(batch.spans))
            logs = new_logs(cursor, batch.logs) if batch.logs.num_rows else batch.logs
            more = Totals(
                batch=1,
                stored=spans.num_rows,
                already_present=batch.spans.num_rows - spans.num_rows,
                logs_stored=logs.num_rows,
                logs_already_present=batch.logs.num_rows - logs.num_rows,
                set_aside=set_aside,
            )
            traces = self._insert(cursor, replace(batch, spans=spans, logs=logs), number)
            state = {"batch": number, "spool_sequence": after.sequence, "spool_rows": after.rows}
            cursor.execute(sql.query("update_ingest_state"), asdict(more) | state)
        self._known.add(hashes, number)
        self._rows.note(logs, number)
        self._totals = self._totals.plus(more)
        self._note_receipt(batch)
        self._committed(traces, number)
        if self._options.watch is not None:
            self._options.watch(batch, began_ns, more.stored + more.logs_stored)
        self._database.shorten_log()

    def _insert(self, cursor: duckdb.DuckDBPyConnection, new: SpanBatch, number: int) -> Mapping[TraceKey, int]:
        """Insert new rows under the number of the commit; return how many spans of each trace changed."""
        traces: dict[TraceKey, int] = {}
        if new.logs.num_rows:
            cursor.register("incoming_logs", spelled_out(new.logs, new).drop_columns(["service_version"]))
            cursor.execute(sql.query("insert_logs"), {"batch": number})
            traces |= self._rows.complete_again(cursor, new.logs, before=number << SEQ_BITS)
        if new.spans.num_rows:
            rows = self._rows.complete(cursor, spelled_out(new.spans, new), new.logs, batch=number)
            cursor.register("incoming_spans", _numbered(rows, number))
            cursor.execute(sql.query("insert_spans"), {"batch": number, "rows": rows.num_rows})
            expiry = {"newest_us": self._newest_us, **self._retention}
            cursor.execute(sql.query("insert_trace_parts"), {"batch": number, **expiry})
            traces |= counts_of(rows)
        return traces


def _numbered(spans: pa.Table, batch: int) -> pa.Table:
    numbers = np.arange(spans.num_rows, dtype=np.int64) + (batch << SEQ_BITS)
    return spans.append_column("seq", pa.array(numbers))


def _pauses() -> Iterator[float]:
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(pause_s * 2, _LAST_PAUSE_S)
