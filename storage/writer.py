"""The one thread that writes spans to DuckDB."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from storage import presence, sql
from storage.backlog import Backlog, Chunk
from storage.batch import SpanBatch
from storage.database import Database
from storage.errors import Unusable
from storage.spool import Group, Position

log = logging.getLogger(__name__)

_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.1, 5.0

_REFUSALS = (
    duckdb.ConversionException,
    duckdb.InvalidInputException,
    duckdb.ConstraintException,
    pa.ArrowException,
    ValueError,
)
"""What goes wrong with rows that can never be stored, before or in DuckDB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """How the writer commits."""

    commit_interval_s: float = 0.3
    retention_days: int = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What became of all spans that were committed, over the life of the data directory."""

    batch: int
    stored: int
    already_present: int


class _Stored:
    """Ids of resources or scopes that are surely stored; forgetting one costs a look-up in the table."""

    _CAPACITY = 100_000

    def __init__(self, column: str) -> None:
        self._column = column
        self._ids: set[int] = set()

    def unknown(self, rows: pa.Table) -> pa.Table:
        """The rows whose ids are not known, each id once."""
        ids = rows.column(self._column).to_pylist()
        first_of = {identity: row for row, identity in enumerate(ids) if identity not in self._ids}
        return rows.take(pa.array(sorted(first_of.values()), pa.int64()))

    def add(self, rows: pa.Table) -> None:
        if len(self._ids) + rows.num_rows > self._CAPACITY:
            self._ids.clear()
        self._ids.update(rows.column(self._column).to_pylist())


class Writer:
    """Commits spooled groups in order, each span once.

    A commit holds whole row groups when there are enough rows, and whatever there is after the commit
    interval. The spool position is part of every commit, so after a crash the spool is read from
    exactly where the database stands. A commit that fails is tried again until it succeeds; rows that
    DuckDB can never take are written to a file beside the spool instead of blocking all others.
    """

    def __init__(
        self,
        database: Database,
        options: WriterOptions,
        *,
        released: Callable[[int], None],
        set_aside: Path,
    ) -> None:
        self._database = database
        self._options = options
        self._released = released
        self._set_aside = set_aside
        state = read_state(database)
        self._totals = state.totals
        self._backlog = Backlog(state.position)
        self._recent = presence.RecentKeys()
        self._resources, self._scopes = _Stored("resource_id"), _Stored("scope_id")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="duckdb-writer", daemon=True)
        self.failing: str | None = None  # why commits fail at the moment

    @property
    def backlog_bytes(self) -> int:
        """Bytes in memory that wait for their commit."""
        return self._backlog.nbytes

    @property
    def totals(self) -> Totals:
        """What was committed, as of the last commit."""
        return self._totals

    def start(self) -> None:
        """Read the latest keys back and start committing.

        Raises:
            Unusable: the database cannot be read.
        """
        try:
            self._remember_latest()
        except duckdb.Error as error:
            raise Unusable(f"{self._database.path} cannot be read: {error}") from error
        self._thread.start()

    def enqueue(self, groups: list[Group]) -> None:
        """Commit these after all that came before; they are durable in the spool already."""
        self._backlog.add(groups)

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
            for pause_s in _pauses():
                if self._try(chunk):
                    break
                if self._stopping.wait(pause_s):
                    return
            self._backlog.done(chunk)
            self._released(chunk.after.sequence)
            del chunk  # the next one may be long in coming

    def _chunks(self) -> Iterator[Chunk]:
        while (chunk := self._backlog.next_chunk(self._options.commit_interval_s)) is not None:
            yield chunk

    def _remember_latest(self) -> None:
        with self._database.cursor() as cursor:
            reader = cursor.execute(sql.query("latest_keys"), {"rows": self._recent.capacity}).to_arrow_reader(1 << 18)
            for keys in reader:
                self._recent.add(presence.key_hashes(pa.Table.from_batches([keys])))

    def _try(self, chunk: Chunk) -> bool:
        """Commit, or say why not. A failure of the disk passes; a failure of the rows does not."""
        try:
            try:
                if self.failing is None or not self._was_committed(chunk):
                    self._commit(chunk.batch, chunk.after)
            except _REFUSALS as error:
                self._commit_singly(chunk, error)
        except (duckdb.Error, OSError) as error:
            self._fail(error)
            return False
        if self.failing is not None:
            log.warning("commits succeed again")
            self.failing = None
        return True

    def _was_committed(self, chunk: Chunk) -> bool:
        """Whether a commit that seemed to fail succeeded: it did when only the checkpoint after it went wrong."""
        state = read_state(self._database)
        if state.position != chunk.after:
            return False
        self._recent.add(presence.key_hashes(chunk.batch.spans))
        self._totals = state.totals
        return True

    def _fail(self, error: Exception) -> None:
        if self.failing is None:
            log.error("a commit failed and will be tried again; new spans wait in the spool: %s", error)
        self.failing = str(error)
        if isinstance(error, duckdb.FatalException | duckdb.ConnectionException) or "invalidated" in str(error):
            try:
                self._database.reopen()
            except (duckdb.Error, Unusable) as again:
                log.error("the database cannot be opened again yet: %s", again)  # noqa: TRY400 - expected while the disk is full

    def _commit_singly(self, chunk: Chunk, error: Exception) -> None:
        """Find the rows that DuckDB refuses by halving, set them aside, and commit the others."""
        log.error("DuckDB refuses rows of a commit: %s", error)
        spans = chunk.batch.spans
        pending = [(0, spans.num_rows)]
        while pending:
            start, stop = pending.pop()
            part = SpanBatch(
                spans=spans.slice(start, stop - start), resources=chunk.batch.resources, scopes=chunk.batch.scopes
            )
            try:
                self._commit(part, None)
            except _REFUSALS:
                if stop - start == 1:
                    self._put_aside(part)
                else:
                    middle = (start + stop) // 2
                    pending += [(middle, stop), (start, middle)]
        self._commit(
            SpanBatch(spans=spans.slice(0, 0), resources=chunk.batch.resources, scopes=chunk.batch.scopes), chunk.after
        )

    def _put_aside(self, batch: SpanBatch) -> None:
        self._set_aside.mkdir(parents=True, exist_ok=True)
        path = self._set_aside / f"{time.time_ns()}.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, batch.spans.schema) as writer:
            writer.write_table(batch.spans)
        log.error("one span that DuckDB refuses was written to %s", path)

    def _commit(self, batch: SpanBatch, after: Position | None) -> None:
        with self._database.transaction() as cursor:
            spans, hashes = self._new_spans(cursor, batch.spans)
            already_present = batch.spans.num_rows - spans.num_rows
            number = self._totals.batch + 1
            resources = self._resources.unknown(batch.resources)
            if resources.num_rows:
                cursor.register("incoming_resources", resources)
                cursor.execute(sql.query("insert_resources"))
            scopes = self._scopes.unknown(batch.scopes)
            if scopes.num_rows:
                cursor.register("incoming_scopes", scopes)
                cursor.execute(sql.query("insert_scopes"))
            if spans.num_rows:
                cursor.register("incoming_spans", spans)
                cursor.execute(sql.query("insert_spans"), {"batch": number})
                parts = {"batch": number, "retention_days": self._options.retention_days}
                cursor.execute(sql.query("insert_trace_parts"), parts)
            position = after or read_position(cursor)
            state = {
                "batch": number,
                "spool_sequence": position.sequence,
                "spool_rows": position.rows,
                "stored": spans.num_rows,
                "already_present": already_present,
            }
            cursor.execute(sql.query("update_ingest_state"), state)
        self._recent.add(hashes)
        self._resources.add(resources)
        self._scopes.add(scopes)
        self._totals = Totals(
            batch=number,
            stored=self._totals.stored + spans.num_rows,
            already_present=self._totals.already_present + already_present,
        )

    def _new_spans(self, cursor: duckdb.DuckDBPyConnection, spans: pa.Table) -> tuple[pa.Table, presence.Hashes]:
        """The spans that are not stored yet, each once, and their hashes."""
        if not spans.num_rows:
            return spans, presence.key_hashes(spans)
        hashes = presence.key_hashes(spans)
        known = presence.repeated(spans, hashes)
        cursor.register("incoming_keys", spans.select(presence.KEY))
        found: set[tuple[str, ...]] = set()
        for from_ns, to_ns in presence.windows(spans.column("start_time")):
            bounds = {"from_ns": from_ns, "to_ns": to_ns}
            found.update(cursor.execute(sql.query("present_in_window"), bounds).fetchall())
        if found:
            known |= presence.matching(spans, found)
        suspects = self._recent.suspects(hashes) & ~known
        if suspects.any():
            cursor.register("incoming_keys", spans.select(presence.KEY).filter(pa.array(suspects)))
            known |= presence.matching(spans, _present_anywhere(cursor))
        if not known.any():
            return spans, hashes
        return spans.filter(pa.array(~known)), hashes[~known]


def _present_anywhere(cursor: duckdb.DuckDBPyConnection) -> list[tuple[str, ...]]:
    """Which of the incoming keys are stored, found by the times of their traces: a look at all spans takes long."""
    from_ns, to_ns = cursor.execute(sql.query("bounds_of_keys")).fetchall()[0]
    if from_ns is None:
        return []
    return cursor.execute(sql.query("present_in_window"), {"from_ns": from_ns, "to_ns": to_ns}).fetchall()


@dataclass(frozen=True, slots=True)
class State:
    """Where the database stands."""

    position: Position
    totals: Totals


def read_state(database: Database) -> State:
    """How far the spool is committed, and the totals."""
    with database.cursor() as cursor:
        batch, sequence, rows, stored, present = _state_row(cursor)
    return State(Position(sequence, rows), Totals(batch=batch, stored=stored, already_present=present))


def read_position(cursor: duckdb.DuckDBPyConnection) -> Position:
    """How far the spool is committed."""
    return Position(*_state_row(cursor)[1:3])


def _state_row(cursor: duckdb.DuckDBPyConnection) -> tuple[int, ...]:
    row = cursor.execute(sql.query("ingest_state")).fetchone()
    if row is None:
        msg = "the table ingest_state is empty: the database was changed by other hands"
        raise RuntimeError(msg)
    return row


def _pauses() -> Iterator[float]:
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(pause_s * 2, _LAST_PAUSE_S)
