"""Storage of the matcher: committed spans that are not matched yet, the decisions about them, and new jobs."""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from storage import sql
from storage.engine.database import Database
from storage.engine.row_cache import RowCache
from storage.ingest.backlog import SEQ_BITS
from storage.ingest.writer import Writer
from storage.judging.backfills import BackfillTable
from storage.judging.held_jobs import targets_of_jobs, tell_held
from storage.judging.open_sessions import OpenSessions
from storage.judging.open_traces import OpenTraces
from storage.judging.span_window import SpanSelection, move_cursor, small_window, window

EVERYTHING = 2**63 - 1
"""Larger than the number of any span."""

_TRACE_ID, _KEY_DIGITS = re.compile("[0-9a-f]{32}"), 16

_DECISIONS_A_ROW = 12
"""Number of decisions that take as much of DuckDB's memory as one row of spans. A guess from their columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchingState:
    """Progress of matching, and the greatest number that a committed span may have."""

    seq: int
    committed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchingStep:
    """Result of matching one window, stored in one transaction if the cursor is still at `after`."""

    after: int
    until: int
    decisions: pa.Table
    jobs: pa.Table
    arrivals: pa.Table | None  # by trace, while there are rules about traces
    now_us: int


class Matching:
    """Storage of the matcher. For one thread beside the writer's."""

    def __init__(self, database: Database, writer: Writer, committed: threading.Event) -> None:
        self._database = database
        self._writer = writer
        self._committed = committed
        self._cursor = RowCache(database, sql.query("matching_cursor"))
        self._known: tuple[int, int] | None = None  # cached position, and the count of its writes when it was read
        self._stored = 0  # number of stored spans when all were matched last
        self.open_traces = OpenTraces(database, writer)
        self.open_sessions = OpenSessions(database, writer)
        self.backfills = BackfillTable(database, writer)

    def wait_for_spans(self, timeout_s: float) -> None:
        """Wait until something was committed, or the time is over."""
        self._committed.wait(timeout_s)
        self._committed.clear()

    def wake(self) -> None:
        """End a wait."""
        self._committed.set()

    def state(self) -> MatchingState:
        """Return the progress of matching."""
        totals, writes = self._writer.totals, self._writes()
        if self._known is None or self._known[1] != writes:
            ((seq, _),) = self._cursor.rows()
            self._known = seq, writes
        state = MatchingState(seq=self._known[0], committed=((totals.batch + 1) << SEQ_BITS) - 1)
        if state.seq >= state.committed:
            self._stored = totals.stored
        return state

    def _writes(self) -> int:
        return self._database.writes.count(("matching_state",))

    def _move(self, write: Callable[[duckdb.DuckDBPyConnection], None], rows: int, seq: int) -> None:
        writes = self._writes()
        self._writer.store(write, rows)
        if self._writes() == writes + 1:  # no other transaction moved the cursor
            self._known = seq, writes + 1

    def window(self, *, after: int, until: int, selection: SpanSelection) -> tuple[pa.Table, int] | None:
        """Return the next spans by commit, and the number up to which they are complete; None if none are left."""
        statements, bounds = (sql.query("numbers_after"), sql.query("spans_to_match")), {"after": after, "until": until}
        if self._writer.totals.stored - self._stored <= selection.limits.rows:
            with self._database.cursor() as cursor:
                small = small_window(cursor, statements[1], bounds, selection)
            if small is not None:
                return small if small[0].num_rows else None
        with self._database.snapshot() as cursor:
            return window(cursor, statements, bounds, selection)

    def pass_over(self, state: MatchingState) -> None:
        """Move the cursor past all committed spans without matching them, because there is no rule."""
        self._move(lambda cursor: _pass_over(cursor, state), 1, state.committed)

    def store(self, step: MatchingStep) -> None:
        """Store decisions, and the position.

        Raises:
            Overloaded: the step may or may not be stored; check the state before a retry.
            WriteConflict: nothing was stored, because the cursor is not at the beginning of the window.
        """
        rows = step.decisions.num_rows // _DECISIONS_A_ROW + step.jobs.num_rows
        self._move(lambda cursor: _store(cursor, step), rows, step.until)


def _pass_over(cursor: duckdb.DuckDBPyConnection, state: MatchingState) -> None:
    move_cursor(cursor, after=state.seq, until=state.committed, jobs=0)


def _store(cursor: duckdb.DuckDBPyConnection, step: MatchingStep) -> None:
    """Store one step. The writer's thread calls this in a transaction."""
    last_job = move_cursor(cursor, after=step.after, until=step.until, jobs=step.jobs.num_rows)
    now = {"now_us": step.now_us}
    if step.decisions.num_rows:
        cursor.register("incoming_decisions", step.decisions)
        cursor.execute(sql.query("insert_decisions"), now)
    if step.jobs.num_rows:
        cursor.register("incoming_jobs", step.jobs)
        cursor.execute(sql.query("insert_jobs"), now | {"last_job": last_job, "occasion": "live"})
        tell_held(cursor, targets_of_jobs(step.jobs), first=step.after + 1, last=step.until, now_us=step.now_us)
    if step.arrivals is not None:
        cursor.register("incoming_arrivals", step.arrivals)
        cursor.execute(sql.query("insert_open_traces"), now)
