"""Scores by people and applications that monitors of rules count: they are numbered in one sequence with results."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

import duckdb
import pyarrow as pa

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.database import Database
from storage.engine.row_cache import RowCache
from storage.engine.table_writes import tables_read
from storage.ingest.writer import Writer

SCORES: Final = "scores:"
"""Prefix of the fingerprint of a stream of such scores; the fingerprint of an evaluator is hexadecimal digits."""

_WAITED_US: Final = 3_600_000_000
"""How long a score is read again, because a rule may still match its trace. A guess: most traces are decided sooner."""

_COMMITS: Final = 1_000
"""Commits without score events are read again by the next look, until there are this many; then the position is stored.
A guess."""

_CRITERIA_SCHEMA: Final = pa.schema(
    [
        ("tenant", pa.string()),
        ("rule_id", pa.string()),
        ("revision", pa.int32()),
        ("name", pa.string()),
        ("of_traces", pa.bool_()),
        ("compare_by", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedScore:
    """A score name whose annotations and events count in the monitors of a rule."""

    tenant: str  # the tenant of the rule's traces; empty for all tenants
    rule_id: str
    revision: int
    name: str
    of_traces: bool
    compare_by: str  # the attribute that distinguishes releases


class CountedScores:
    """Scores that monitors count. `count` is for one thread beside the writer's."""

    def __init__(self, database: Database, writer: Writer) -> None:
        self._database = database
        self._writer = writer
        self._last = RowCache(database, sql.query("last_annotation"))
        queries = sql.query("score_extent"), sql.query("scores_from_events"), sql.query("scores_to_count")
        self._tables = frozenset[str]().union(*map(tables_read, queries))

    def last(self) -> int:
        """Return the number of the latest annotation."""
        return int(self._last.rows()[0][0])

    def writes(self, *, is_counting: bool) -> int:
        """Return a number that grows with each write of a score; if `is_counting`, of any table that `count` reads."""
        return self._database.writes.count(self._tables if is_counting else ("annotation", "log_record"))

    def count(self, criteria: Sequence[WantedScore], now_us: int) -> int:
        """Store the new scores that the criteria select, each with the next result number; return how many there are.

        Raises:
            Overloaded: the results may or may not be stored; the call may be retried.
        """
        with self._database.snapshot() as cursor:
            extent = _extent(cursor, now_us - _WAITED_US)
            scores = _found(cursor, extent, criteria) if criteria else None
        until = extent.until(is_counting=bool(criteria))
        if not until.is_worth_storing(extent) and (scores is None or not scores.num_rows):
            return 0
        stored: list[int] = []

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            stored.clear()
            if scores is not None and scores.num_rows:
                cursor.register("incoming_scores", scores)
                bounds = {"now_us": now_us, "after_batch": extent.looked_batch}
                ((rows,),) = cursor.execute(sql.query("insert_counted_scores"), bounds).fetchall()
                cursor.execute(sql.query("raise_last_result"), {"results": rows})
                stored.append(rows)
            cursor.execute(sql.query("move_score_cursor"), {"number": until.number, "batch": until.batch})

        self._writer.store(write, 1 + (0 if scores is None else scores.num_rows))
        return sum(stored)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Until:
    """The annotation and the commit up to which all scores are done."""

    number: int
    batch: int

    def is_worth_storing(self, extent: "_Extent") -> bool:
        """Return True if the position is worth a write: it passed new scores, or `_COMMITS` commits without any."""
        lag = 0 if extent.has_new_events else _COMMITS
        return self.number > extent.looked_at or self.batch > extent.looked_batch + lag


@dataclass(frozen=True, slots=True, kw_only=True)
class _Extent:
    """Extent of the annotations and commits that were not checked yet."""

    looked_at: int  # number of the last annotation that was checked; -1 before the first check
    last: int
    settled: int  # last annotation that is older than `_WAITED_US`
    looked_batch: int  # as `looked_at`, of commits
    last_batch: int
    settled_batch: int
    has_new_events: bool  # commits after `looked_batch` have score events

    def until(self, *, is_counting: bool) -> _Until:
        """Return the position up to which scores are done; if no rule counts scores, all are skipped for good."""
        number = self.settled if is_counting and self.looked_at >= 0 else self.last
        batch = self.settled_batch if is_counting and self.looked_batch >= 0 else self.last_batch
        return _Until(number=max(number, self.looked_at), batch=max(batch, self.looked_batch))


def _extent(cursor: duckdb.DuckDBPyConnection, before_us: int) -> _Extent:
    (row,) = arrow_table(cursor, sql.query("score_extent"), {"before_us": before_us}).to_pylist()
    return _Extent(has_new_events=row.pop("came"), **row)


def _found(cursor: duckdb.DuckDBPyConnection, extent: _Extent, criteria: Sequence[WantedScore]) -> pa.Table | None:
    """Return the scores to count, or None if there are no new ones or all are from before the first look."""
    has_annotations, has_events = (
        extent.last > extent.looked_at >= 0,
        extent.has_new_events and extent.looked_batch >= 0,
    )
    if not has_annotations and not has_events:
        return None
    cursor.register("wanted_scores", pa.Table.from_pylist([asdict(each) for each in criteria], schema=_CRITERIA_SCHEMA))
    events = sql.query("scores_from_events").replace("$evaluations", sql.select_of("evaluations"))
    after_batch = extent.looked_batch if has_events else extent.last_batch
    cursor.register("said_events", arrow_table(cursor, events, {"after": after_batch}))
    after = extent.looked_at if has_annotations else extent.last
    return arrow_table(cursor, sql.query("scores_to_count"), {"after": after})
