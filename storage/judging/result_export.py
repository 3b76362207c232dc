"""Export of results: the results that were not exported yet, and the position of the export."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.database import Database
from storage.errors import WriteConflict
from storage.ingest.windows import TraceKey, key_table
from storage.ingest.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedResult:
    """Result of an evaluation that was scored or failed. None means unknown or absent."""

    number: int
    job_id: int
    tenant: str
    project: str | None
    trace_id: str
    span_id: str | None  # None: of the trace, or the session
    session_id: str | None  # set for a result about a session; then `trace_id` is the session's latest trace
    rule_id: str
    rule: str
    digest: str
    evaluator: str  # name of the evaluator, as in the rule
    name: str
    fingerprint: str | None
    outcome: str
    score: float | None
    passed: bool | None
    threshold: float | None
    reason: str | None
    error_kind: str | None
    judge_model: str | None
    release: str | None
    round: int
    occasion: str
    created_at_ns: int
    root_span_id: str | None = None  # root of the trace, for a result about a trace that is still stored

    @property
    def key(self) -> TraceKey:
        """Return the trace."""
        return TraceKey(self.tenant, self.trace_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutState:
    """Position of the export, the number of the last exported result, and the id of this data directory in exports."""

    number: int
    instance: str


class ResultsOut:
    """Export of results. Safe to use from any thread but the writer's."""

    def __init__(self, database: Database, writer: Writer) -> None:
        self._database = database
        self._writer = writer

    def state(self) -> OutState:
        """Return the progress of the export."""
        with self._database.cursor() as cursor:
            ((number, instance),) = cursor.execute(sql.query("results_out")).fetchall()
        return OutState(number=number, instance=instance)

    def behind(self) -> int:
        """Return how many results, at most, are still to be exported."""
        with self._database.cursor() as cursor:
            ((last,),) = cursor.execute(sql.query("last_result")).fetchall()
            ((number, _),) = cursor.execute(sql.query("results_out")).fetchall()
        return int(last - number)

    def page(self, after: int, most: int) -> tuple[list[ExportedResult], int]:
        """Return the next results in order, and the number up to which they are complete."""
        with self._database.snapshot() as cursor:
            ((last,),) = cursor.execute(sql.query("last_result")).fetchall()
            if last <= after:
                return [], after
            table = arrow_table(cursor, sql.query("results_to_tell"), {"after": after, "rows": most})
            results = [ExportedResult(**row) for row in table.to_pylist()]
            roots = _roots(cursor, {each.key for each in results if each.span_id is None})
        with_roots = [
            replace(each, root_span_id=roots.get(each.key)) if each.span_id is None else each for each in results
        ]
        return with_roots, results[-1].number if len(results) == most else last

    def move(self, after: int, until: int) -> None:
        """Note that results up to a number were exported.

        Raises:
            Overloaded: the position may or may not be stored; check the state before going on.
            WriteConflict: the position was not stored, because the stored one is not `after`.
        """

        def write(cursor: duckdb.DuckDBPyConnection) -> None:
            bounds = {"after": after, "until": until}
            if cursor.execute(sql.query("move_results_out"), bounds).fetchall() != [(1,)]:
                raise WriteConflict(f"results are not exported up to {after}")

        self._writer.store(write, 1)


def _roots(cursor: duckdb.DuckDBPyConnection, keys: Iterable[TraceKey]) -> dict[TraceKey, str]:
    """Return the id of the root of each stored trace."""
    keys_table = key_table(keys)
    if not keys_table.num_rows:
        return {}
    cursor.register("wanted_traces", keys_table)
    extents: pa.Table = arrow_table(cursor, sql.query("extents_of_traces"))
    if not extents.num_rows:
        return {}
    bounds = {
        "from_ns": min(extents.column("first_start_ns").to_pylist()),
        "to_ns": max(extents.column("last_start_ns").to_pylist()),
        "first_batch": min(extents.column("first_batch").to_pylist()),
        "last_batch": max(extents.column("last_batch").to_pylist()),
    }
    rows = cursor.execute(sql.query("roots_of_traces"), bounds).fetchall()
    return {TraceKey(tenant, trace_id): span_id for tenant, trace_id, span_id in rows}
