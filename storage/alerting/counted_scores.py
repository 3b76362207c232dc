"""Scores by people and applications that rules let monitors count: which they are, and their places among results."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

import duckdb
import pyarrow as pa

from storage import sql
from storage.engine.database import Database
from storage.ingest.writer import Writer

SCORES: Final = "scores:"
"""What fingerprints of streams of such scores begin with; those of evaluators are hexadecimal digits."""

_WAITED_US: Final = 3_600_000_000
"""So long a score waits for its trace to be decided about; a guess that is longer than most traces take to settle."""

_WANTED: Final = pa.schema(
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
    """A question whose answers count in the monitors of a rule."""

    tenant: str  # whose traces the rule is about; empty for those of all
    rule_id: str
    revision: int
    name: str
    of_traces: bool
    compare_by: str  # the attribute that tells releases apart


class CountedScores:
    """Which scores monitors count. `count` is for one thread beside the writer's."""

    def __init__(self, database: Database, writer: Writer) -> None:
        self._database = database
        self._writer = writer

    def last(self) -> int:
        """The number of what was said last."""
        with self._database.cursor() as cursor:
            ((last,),) = cursor.execute(sql.query("last_annotation")).fetchall()
        return int(last)

    def count(self, wanted: Sequence[WantedScore], now_us: int) -> int:
        """Give scores that are wanted and were not counted yet the next numbers of results; how many these are.

        Raises:
            Overloaded: it is not known whether they were stored; it may be tried again.
        """
        found: pa.Table | None = None
        with self._database.snapshot() as cursor:
            extent = {"before_us": now_us - _WAITED_US}
            ((looked_at, last, settled),) = cursor.execute(sql.query("score_extent"), extent).fetchall()
            if last <= looked_at:
                return 0
            is_first = looked_at < 0
            if wanted and not is_first:
                cursor.register("wanted_scores", pa.Table.from_pylist([asdict(w) for w in wanted], schema=_WANTED))
                found = cursor.execute(sql.query("scores_to_count"), {"after": looked_at}).to_arrow_table()
        until = settled if wanted and not is_first else last  # what is said while no rule wants it is history
        if (found is None or not found.num_rows) and until <= looked_at:
            return 0
        stored: list[int] = []

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            stored.clear()
            if found is not None and found.num_rows:
                cursor.register("incoming_scores", found)
                ((rows,),) = cursor.execute(sql.query("insert_counted_scores"), {"now_us": now_us}).fetchall()
                cursor.execute(sql.query("raise_last_result"), {"results": rows})
                stored.append(rows)
            cursor.execute(sql.query("move_score_cursor"), {"number": until})

        self._writer.store(write, 1 + (0 if found is None else found.num_rows))
        return sum(stored)
