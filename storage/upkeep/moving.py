"""Deletion of traces from the database once the lake has them: the last step of their move.

One transaction deletes all rows of a trace that the lake has, because readers read a trace either from the database or
from the lake. Rows of other tables stay: annotations, pins, entries of review queues, sums.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

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
    """Deletion of traces that have moved. For the thread of the lake."""

    def __init__(
        self, database: Database, writer: Writer, rewriting: Compaction, retention: Retention, aging: Aging
    ) -> None:
        self._database, self._writer = database, writer
        self._rewriting, self._retention = rewriting, retention
        self.doubt = aging.doubt  # returns why the clock is in doubt, so that nothing moves by age
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
        """Delete the traces whose parts are all of commits before `first_batch`, if all their rows are published.

        Traces in `pinned`, and traces that are pinned now, stay. `published` has by table the number of the last
        published row.

        Raises:
            Overloaded: the database cannot be written now; completed steps stay done.
        """
        windows, after = sql.query("moving_parts"), -1
        while not stopped():
            with self._database.cursor() as cursor:
                until, keys = next_window(cursor, windows, {"first_batch": first_batch, "after": after})
            if until is None:
                break
            names = [key for key in keys if (key.tenant, key.trace_id) not in pinned]
            self._run(partial(_move, names=names, first_batch=first_batch, published=published), stopped)
            after = until
        commits = {"first_batch": first_batch, "log_record": published["log_record"], "rows": STEP_SPANS}
        numbers = {table: published[table] for table in ("decision", "evaluation", "superseded")}
        results = {"first_batch": first_batch, "first_seq": first_seq, "rows": STEP_SPANS, **numbers}
        while not stopped() and self._run(lambda cursor: (move_rest(cursor, commits, results), 0), stopped):
            pass

    def _run(self, step: Callable[[duckdb.DuckDBPyConnection], tuple[Left, int]], stopped: Callable[[], bool]) -> bool:
        """Do one transaction, which returns what left with how many traces; return True if anything did."""
        done: list[tuple[Left, int]] = []
        self._rewriting.make_room(TABLES, stopped)

        def counted(cursor: duckdb.DuckDBPyConnection) -> None:
            left, traces = step(cursor)
            if left.spans:
                cursor.execute(sql.query("count_moved"), {"traces": traces, "spans": left.spans})
            done.append((left, traces))

        self._writer.store(counted, STEP_SPANS, frees=True)
        left, traces = done[-1]
        if left.spans:
            self._rewriting.note(left.places)
            self._retention.note_freed()
        self.counts = {"traces": self.counts["traces"] + traces, "spans": self.counts["spans"] + left.spans}
        return left.spans > 0


def _move(
    cursor: duckdb.DuckDBPyConnection, *, names: Sequence[TraceName], first_batch: int, published: Mapping[str, int]
) -> tuple[Left, int]:
    candidates = leaving_among(cursor, names, in_any_case=True)
    leaving = [each for each in candidates if each.last_batch < first_batch]
    if leaving:
        staying = staying_among(cursor, leaving, published)
        leaving = [each for each in leaving if (each.tenant, each.trace_id) not in staying]
    return move(cursor, leaving, first_batch), len(leaving)
