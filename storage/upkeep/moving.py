"""Deletion of traces that the lake has, so that they are in the lake alone.

A trace moves in one transaction, with all of its rows in the tables of the lake, because readers take the rows of a
trace from one place. Rows of other tables stay: annotations, pins, entries of review queues, sums.
"""

from collections.abc import Callable, Mapping, Sequence

import duckdb

from storage import sql
from storage.aging import Aging
from storage.engine.database import Database
from storage.ingest.writer import Writer
from storage.upkeep.cascade import (
    STEP_SPANS,
    TABLES,
    Left,
    TraceName,
    leaving_among,
    move,
    move_rest,
    next_window,
    staying_among,
)
from storage.upkeep.compaction import Compaction
from storage.upkeep.retention import Retention


class Moving:
    """Deletes traces that have moved. For the thread of the lake."""

    def __init__(
        self, database: Database, writer: Writer, rewriting: Compaction, retention: Retention, aging: Aging
    ) -> None:
        self._database, self._writer = database, writer
        self._rewriting, self._retention = rewriting, retention
        self.doubt = aging.doubt  # why nothing moves because of its age
        self.over_spans = retention.over_spans
        self.counts = {"traces": 0, "spans": 0}  # since the start

    def move(
        self,
        first_batch: int,
        first_seq: int,
        *,
        published: Mapping[str, int],
        pinned: frozenset[tuple[str, str]],
        stopped: Callable[[], bool],
    ) -> None:
        """Delete the traces all of whose parts came before a commit, if all rows of them are published.

        Those that are `pinned`, or are now, stay. `published` has the number of the last published row, by table.

        Raises:
            Overloaded: the database cannot be written now; whole steps were done.
        """
        windows, after = sql.query("moving_parts"), -1
        while not stopped():
            with self._database.cursor() as cursor:
                until, keys = next_window(cursor, windows, {"first_batch": first_batch, "after": after})
            if until is None:
                break
            names = [key for key in keys if (key.tenant, key.trace_id) not in pinned]
            step = _MoveStep(names, first_batch, published)
            self._run(step.run, stopped)
            self._count(step.left, step.traces)
            after = until
        more = True
        while more and not stopped():
            rest = _RestStep(first_batch, first_seq, published)
            self._run(rest.run, stopped)
            self._count(rest.left, 0)
            more = rest.left.spans > 0

    def _run(self, run: Callable[[duckdb.DuckDBPyConnection], None], stopped: Callable[[], bool]) -> None:
        self._rewriting.make_room(TABLES, stopped)
        self._writer.store(run, STEP_SPANS, frees=True)

    def _count(self, left: Left, traces: int) -> None:
        if left.spans:
            self._rewriting.note(left.places)
            self._retention.note_freed()
        self.counts = {"traces": self.counts["traces"] + traces, "spans": self.counts["spans"] + left.spans}


class _MoveStep:
    """One transaction, which deletes those of some traces that may move."""

    def __init__(self, names: Sequence[TraceName], first_batch: int, published: Mapping[str, int]) -> None:
        self._names, self._first_batch, self._published = names, first_batch, published
        self.traces = 0
        self.left = Left(spans=0, places={})

    def run(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Run the step. The writer's thread calls this."""
        candidates = leaving_among(cursor, self._names, in_any_case=True)
        leaving = [each for each in candidates if each.last_batch < self._first_batch]
        if leaving:
            staying = staying_among(cursor, leaving, self._published)
            leaving = [each for each in leaving if (each.tenant, each.trace_id) not in staying]
        self.traces = len(leaving)
        self.left = move(cursor, leaving, self._first_batch)


class _RestStep:
    """One transaction, which deletes rows about traces that moved earlier."""

    def __init__(self, first_batch: int, first_seq: int, published: Mapping[str, int]) -> None:
        self._commits = {"first_batch": first_batch, "log_record": published["log_record"], "rows": STEP_SPANS}
        numbers = {table: published[table] for table in ("decision", "evaluation", "superseded")}
        self._results = {"first_batch": first_batch, "first_seq": first_seq, "rows": STEP_SPANS, **numbers}
        self.left = Left(spans=0, places={})

    def run(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Run the step. The writer's thread calls this."""
        self.left = move_rest(cursor, self._commits, self._results)
